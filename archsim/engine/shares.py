"""Shared rates: the exact max-min filling, taken up again where the last one still holds.

All pools start empty and a level L rises from 0; a flowing row has the rate ``min(cap, weight * L)``. A row freezes at
``cap`` when it gets there. Pool p is full at ``L = R_p / W_p`` where
``R_p = (capacity << 20) - sum(coef * rate of frozen rows)`` and ``W_p = sum(weight * coef of the others)``; its rows
then freeze at ``floor(weight * R_p / W_p)``. Caps go before pools at one level, lower pool ids before higher. Levels
are compared and floors are taken exactly, as rationals: a double quotient decides, and where it is too close to
decide, a 64-bit remainder does. So ``sum(coef * rate) <= capacity << 20`` always, and a full pool leaves less than one
``coef`` per row unused.

A pool whose rows cannot fill it even at their caps is slack and takes no part; rows that draw on slack pools alone
have their cap. Each freezing is a step with its own record: what is left of every pool, the load that is still to
freeze, their quotient, the pool that decides and its level. A row that enters or leaves, and a capacity that changes,
is entered in the records up to the first step that would now decide otherwise; the next filling starts there, and the
rows that froze before it keep their rates.
"""

import numpy as np

from archsim.engine.core import (
    ADDRESS,
    AT_LANE,
    AT_MEMBER,
    AT_POOL,
    AT_SLOT,
    AT_STEP,
    BEFORE,
    COEF_BITS,
    DIRTY,
    IN_FLOW,
    KEEP,
    LANE_CAP,
    LANE_KEY,
    LANE_STEP,
    LAST_STEP,
    MARGIN,
    MAX_DEMAND,
    MAX_PS,
    NEVER,
    NO_LEVEL,
    NOW,
    OPEN,
    P_CAP,
    P_DEMAND,
    P_ID,
    P_ROWS,
    P_W,
    POOL_FIELDS,
    POOLS,
    SLOT_FIELDS,
    SLOTS,
    STEP_WORDS,
    TIGHT,
    TOP,
    WIDTH,
    X_CAP,
    X_COEF,
    X_FILL,
    X_LANE,
    X_LAST,
    X_MASK,
    X_NP,
    X_RATE,
    X_REM,
    X_STATE,
    X_W,
    X_WC,
)
from archsim.jit import borrower


@borrower
def set_rate(m, k, rate, now):
    """Book the work done at the old rate and set the new one; end = now + ceil(remaining / rate)."""
    k &= ADDRESS
    rem = m[k + X_REM] - m[k + X_RATE] * (now - m[k + X_LAST])
    m[k + X_REM] = rem
    m[k + X_LAST] = now
    m[k + X_RATE] = rate
    if rate == 0:
        m[m[k + X_LANE] & ADDRESS] = NEVER
        return
    if rem <= MAX_DEMAND:
        # exact: both are doubles, and a quotient just above an integer is further from it than half an ulp
        ps = np.int64(np.ceil(float(rem) / float(rate)))
    else:
        ps = (rem - 1) // rate + 1
    m[m[k + X_LANE] & ADDRESS] = now + ps if ps < MAX_PS - now else MAX_PS


@borrower
def ordered(x):
    """Bits of a double >= 0 as an integer: same order, and neighbours are one apart."""
    return np.float64(x).view(np.int64)


@borrower
def level_of(left, load):
    """Bits of the level ``left / load``; NO_LEVEL without a load."""
    x = ordered(float(left) / float(max(load, 1)))
    return x if load > 0 else NO_LEVEL


@borrower
def freeze(m, k, rate, step):
    """Slot `k` keeps `rate` from step `step` of the filling on."""
    k &= ADDRESS
    lane = m[k + X_LANE] & ADDRESS
    slots = m[SLOTS] & ADDRESS
    m[lane + LANE_KEY * slots] = NEVER
    m[lane + LANE_STEP * slots] = step
    set_rate(m, k, rate, m[NOW])


@borrower
def draw(m, record, part, rate):
    """Take the draw of a frozen row at `rate` out of the pool of its part at `part`, in the step at `record`."""
    part &= ADDRESS
    width = m[WIDTH] & ADDRESS
    at = (record + m[part + X_FILL]) & ADDRESS
    left = m[at] - m[part + X_COEF] * rate
    load = m[at + width] - m[part + X_WC]
    m[at] = left
    m[at + width] = load
    m[at + 2 * width] = level_of(left, load)


@borrower
def shift(m, p, left, load):
    """The pool at `p` has `left` more capacity and `load` more load than the last filling found."""
    number = m[p + P_ID]
    tight = m[p + P_DEMAND] > min(m[p + P_CAP] << COEF_BITS, MAX_DEMAND - 1)
    if tight != (m[TIGHT] >> number & 1 != 0):
        m[TIGHT] ^= 1 << number
        m[KEEP] = BEFORE
    if not tight:
        return
    width = m[WIDTH] & ADDRESS
    at = (m[AT_STEP] + number) & ADDRESS
    head = (m[AT_STEP] + 3 * width) & ADDRESS
    for step in range(m[KEEP] + 1):
        m[at] += left
        m[at + width] += load
        level = level_of(m[at], m[at + width])
        m[at + 2 * width] = level
        if m[head] == number or level <= m[head + 1] + MARGIN:
            m[KEEP] = min(m[KEEP], step)
            return
        at = (at + m[STEP_WORDS]) & ADDRESS
        head = (head + m[STEP_WORDS]) & ADDRESS


@borrower
def join(m, k):
    """Slot `k` has entered its pools: it is open for the next filling, or has its cap if they are all slack."""
    k &= ADDRESS
    lane = m[k + X_LANE] & ADDRESS
    slots = m[SLOTS] & ADDRESS
    key = ordered(float(m[k + X_CAP]) / float(m[k + X_W]))
    m[lane + LANE_CAP * slots] = key
    m[lane + LANE_STEP * slots] = OPEN
    if m[k + X_MASK] & m[TIGHT] == 0:
        freeze(m, k, m[k + X_CAP], BEFORE)
        return
    head = (m[AT_STEP] + 3 * m[WIDTH]) & ADDRESS
    for step in range(m[KEEP]):
        if key <= m[head + 1] + MARGIN:
            m[KEEP] = step
            return
        head = (head + m[STEP_WORDS]) & ADDRESS


@borrower
def part_from(m, k):
    """Slot `k` is about to leave its pools: the filling goes back to the step in which it froze."""
    lane = m[k + X_LANE] & ADDRESS
    slots = m[SLOTS] & ADDRESS
    step = m[lane + LANE_STEP * slots]
    if step > BEFORE:
        m[KEEP] = min(m[KEEP], step)
    m[lane + LANE_CAP * slots] = NEVER
    m[lane + LANE_STEP * slots] = BEFORE


@borrower
def floor_share(w, left, load, guess):
    """floor(w * left / load), exact; `guess` is off by at most two, so the wrapped remainder is the true one."""
    rate = np.int64(guess)
    d = int(w) * int(left) - int(rate) * int(load)
    while d < 0:
        rate -= 1
        d += load
    while d >= load:
        rate += 1
        d -= load
    return rate


@borrower
def lowest_pool(m, record):
    """Number of the pool with the lowest exact level left / load, the lower among equals; -1 if no load is left."""
    record &= ADDRESS
    pools = m[POOLS] & ADDRESS
    level = (record + 2 * m[WIDTH]) & ADDRESS
    best, lowest, second = -1, NO_LEVEL, NO_LEVEL
    for i in range(pools):
        x = m[level + i]
        lower = x < lowest
        second = lowest if lower else min(second, x)
        best = i if lower else best
        lowest = x if lower else lowest
    if second <= lowest + MARGIN and best >= 0:
        best = exactly_lowest(m, record, lowest + MARGIN)
    return best


@borrower
def exactly_lowest(m, record, limit):
    """The same by cross products, among the pools whose quotient is not above `limit`."""
    width = m[WIDTH] & ADDRESS
    best = -1
    for i in range(m[POOLS]):
        if m[record + 2 * width + i] <= limit:
            left, load = m[record + i], m[record + width + i]
            if best < 0 or int(left) * int(m[record + width + best]) - int(m[record + best]) * int(load) < 0:
                best = i
    return best


@borrower
def start_over(m):
    """The first record anew, and every flowing row open or, where all its pools are slack, at its cap."""
    width = m[WIDTH] & ADDRESS
    at = m[AT_STEP] & ADDRESS
    p = m[AT_POOL] & ADDRESS
    for i in range(m[POOLS]):
        left = m[p + P_CAP] << COEF_BITS
        load = m[p + P_W] if m[TIGHT] >> i & 1 != 0 else 0
        m[at] = left
        m[at + width] = load
        m[at + 2 * width] = level_of(left, load)
        at = (at + 1) & ADDRESS
        p = (p + POOL_FIELDS) & ADDRESS
    slots = m[SLOTS] & ADDRESS
    step = (m[AT_LANE] + LANE_STEP * slots) & ADDRESS
    k = m[AT_SLOT] & ADDRESS
    for i in range(m[TOP]):
        if m[k + X_STATE] == IN_FLOW and m[k + X_NP] > 0:
            m[step + i] = OPEN
            if m[k + X_MASK] & m[TIGHT] == 0:
                freeze(m, k, m[k + X_CAP], BEFORE)
        k = (k + SLOT_FIELDS) & ADDRESS


@borrower
def reopen(m, keep):
    """Open the rows that froze in step `keep` or later; the lowest level at which an open row reaches its cap."""
    slots = m[SLOTS] & ADDRESS
    key = (m[AT_LANE] + LANE_KEY * slots) & ADDRESS
    cap = (m[AT_LANE] + LANE_CAP * slots) & ADDRESS
    step = (m[AT_LANE] + LANE_STEP * slots) & ADDRESS
    lowest = NEVER
    for i in range((m[TOP] + 15) & ADDRESS & ~15):
        x = m[cap + i] if m[step + i] >= keep else NEVER
        m[key + i] = x
        lowest = min(lowest, x)
    return lowest


@borrower
def freeze_capped(m, record, step, best, left, load, bits):
    """Freeze the open rows that reach their cap before pool `best` is full; how many there are."""
    level = np.int64(bits).view(np.float64)
    key = (m[AT_LANE] + LANE_KEY * m[SLOTS]) & ADDRESS
    k = m[AT_SLOT] & ADDRESS
    n = 0
    for i in range(m[TOP]):
        if m[key + i] <= bits + MARGIN:
            w, cap = m[k + X_W], m[k + X_CAP]
            if m[key + i] < bits - MARGIN or cap <= floor_share(w, left, load, float(w) * level):
                freeze(m, k, cap, step)
                for j in range(m[k + X_NP]):
                    draw(m, record, k + j, cap)
                n += 1
        k = (k + SLOT_FIELDS) & ADDRESS
    return n


@borrower
def lowest_cap(m):
    """Lowest level at which an open row reaches its cap."""
    key = (m[AT_LANE] + LANE_KEY * m[SLOTS]) & ADDRESS
    lowest = NEVER
    for i in range((m[TOP] + 15) & ADDRESS & ~15):
        lowest = min(lowest, m[key + i])
    return lowest


@borrower
def freeze_pool(m, record, step, best, left, load, bits):
    """Pool `best` is full: freeze its open rows at their shares."""
    level = np.int64(bits).view(np.float64)
    slots = m[SLOTS] & ADDRESS
    entry = (m[AT_MEMBER] + 2 * best * slots) & ADDRESS
    n = m[((m[AT_POOL] + best * POOL_FIELDS) & ADDRESS) + P_ROWS]
    for _ in range(n):
        k = m[entry] & ADDRESS
        if m[(m[k + X_LANE] & ADDRESS) + LANE_KEY * slots] != NEVER:
            w = m[k + X_W]
            rate = floor_share(w, left, load, float(w) * level)
            freeze(m, k, rate, step)
            other = m[entry + 1]
            if other >= 0:
                draw(m, record, other, rate)
            else:
                for j in range(m[k + X_NP]):
                    draw(m, record, k + j, rate)
        entry = (entry + 2) & ADDRESS
    m[record + 2 * m[WIDTH] + best] = NO_LEVEL


@borrower
def copy_record(m, source, to):
    """Copy what is left, loads and levels from record to record; the width is a multiple of four."""
    source &= ADDRESS
    to &= ADDRESS
    for i in range(0, 3 * m[WIDTH] & ADDRESS, 4):
        a, b, c, d = m[source + i], m[source + i + 1], m[source + i + 2], m[source + i + 3]
        m[to + i] = a
        m[to + i + 1] = b
        m[to + i + 2] = c
        m[to + i + 3] = d


@borrower
def solve(m):
    """Weighted max-min rates of all flowing rows (see the module's docstring)."""
    m[DIRTY] = 0
    if m[KEEP] == BEFORE:
        start_over(m)
        m[KEEP] = 0
    step, last = m[KEEP], m[LAST_STEP]
    first_cap = reopen(m, step)
    width = m[WIDTH] & ADDRESS
    record = (m[AT_STEP] + step * m[STEP_WORDS]) & ADDRESS
    while True:
        best = lowest_pool(m, record)
        if best < 0:
            break
        left, load, bits = m[record + best], m[record + width + best], m[record + 2 * width + best]
        m[record + 3 * width] = best
        m[record + 3 * width + 1] = bits
        after = record
        if step < last:  # beyond the last record the filling goes on in place and cannot be taken up there
            after = (record + m[STEP_WORDS]) & ADDRESS
            copy_record(m, record, after)
        stamp = min(step, last - 1)
        n = 0
        if first_cap <= bits + MARGIN:
            n = freeze_capped(m, after, stamp, best, left, load, bits)
            first_cap = lowest_cap(m)
        if n == 0:
            freeze_pool(m, after, stamp, best, left, load, bits)
        record = after
        step = min(step + 1, last)
    m[KEEP] = min(step, last - 1)
    m[record + 3 * width] = -1
    m[record + 3 * width + 1] = -1
