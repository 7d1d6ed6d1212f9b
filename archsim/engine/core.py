"""Memory layout, shared rates and the max-min solver; int64 throughout.

All state is one int64 array ``m`` of records: scalars, units, pools, stores, running slots, queues, blocks, rows.
One array because every array that crosses a call costs reference counting and registers; records because a
row that starts or ends touches few cache lines. ``m[r + R_WORK]`` is a field of the record at address ``r``.
Units, pools, stores and slots never move and are passed by address; rows and blocks are passed by index, which
the window keeps in id order, so ties by index are ties by id. :class:`archsim.engine.window.State` names
the same memory as arrays for Python.

Meaning of a share (:func:`solve`). All pools start empty and a level L rises from 0; a flowing row has the rate
``min(cap, weight * L)``. A row freezes at ``cap`` when it gets there. Pool p is full at
``L = R_p / W_p`` where ``R_p = (capacity << 20) - sum(coef * rate of frozen rows)`` and
``W_p = sum(weight * coef of the others)``; its rows then freeze at ``floor(weight * R_p / W_p)``. Caps go before
pools at one level, lower pool ids before higher. Levels are compared and floors are taken exactly, as
rationals: a double quotient decides, and where it is too close to decide, a 64-bit remainder does. So
``sum(coef * rate) <= capacity << 20`` always, and a full pool leaves less than one ``coef`` per row unused.

Ranges (checked where the numbers enter): weight < 2**30, coef < 2**41, weight * coef < 2**56 per row and summed over
the rows of a pool, capacity * rate fraction < 2**35, cap < 2**41 or NO_CAP, rate fraction <= 4.
"""

import numpy as np
from numba import njit

COEF_BITS = 20
RATE_BITS = 20
NO_CAP = 1 << 62
MAX_FLOW = 1 << 48  # rate of a row without a cap
MAX_SUM = 1 << 56  # weight * coef summed over a pool
MAX_DEMAND = 1 << 53  # demands are clamped here; they only serve to prove that a pool cannot fill
MAX_PS = 1 << 62
NEVER = (1 << 63) - 1
MAX_ROUNDS = 1 << 16
ADDRESS = (1 << 40) - 1  # mask of an address: changes nothing, but shows the compiler that no index is negative
KEY_BITS = 40
KEY_MASK = (1 << KEY_BITS) - 1
NO_LEVEL = NEVER - 64
MARGIN = 8  # levels are quotients of three roundings: two of them this many ulps apart are in the right order

# scalars
(NOW, ROUND, PHASE, CURSOR, HAPPENED, CALL, WANT, DIRTY, RETRY, DUE, DUE_AT, ZEROS, WAITS, WOKEN) = range(14)
(PARKED, TOP, ACTIVE, EVENTS, STEP, FULL, POOL_LOG, LEVEL_LOG, ERR, ERR_ROW, ERR_A) = range(14, 25)
(ROWS, BLOCKS, ARCS, DEP_FREE, CUTS) = range(25, 30)
(UNITS, POOLS, STORES, QUEUE, LIST, POOL_ROOM, LEVEL_ROOM, SLOTS) = range(30, 38)  # numbers and capacities
# addresses of the regions
(AT_POOL, AT_STORE, AT_MIX, AT_SPENT, AT_SLOT, AT_TIME, AT_ACTIVE, AT_FROZEN, AT_MEMBER, AT_LIST) = range(38, 48)
(AT_HEAP, AT_PARK, AT_DEP, AT_BLOCK, AT_ARC, AT_ROW, AT_POOL_LOG, AT_LEVEL_LOG, AT_STAGE, AT_FILL) = range(48, 58)
AT_UNIT = 64  # the region of units follows the scalars
COMPLETE, DISPATCH = 0, 1  # values of PHASE

# rows; the first ROW_INPUTS fields are the block's own
(R_UNIT, R_PRIO, R_WEIGHT, R_LEAD, R_WORK, R_CAP, R_POOL) = range(7)
(R_COEF, R_CLAIM, R_STREAM, R_STORE, R_TAKE, R_GIVE, R_MODE, R_HEIR, R_OP) = (10, 14, 15, 16, 18, 20, 22, 24, 25)
ROW_INPUTS = 26
(R_SUCC, R_NSUCC, R_BLK, R_STATUS, R_PEND, R_START, R_FLOW, R_END, R_DONE, R_LED) = range(26, 36)
(R_WATCH, R_GID, R_SLOT, ROW_FIELDS) = (36, 37, 38, 40)
PENDING, READY, LEAD, FLOW, ENDWAIT, DONE, CUT = range(7)  # values of R_STATUS
UNDONE = 2  # bit of R_WATCH: the take was given back; bit 1: somebody waits for the row

# blocks
(B_ID, B_ROW, B_N, B_SUCC, B_NSUCC, B_ROOT, B_NROOT, B_WAIT, B_DEP, B_LEFT, B_STATUS, B_END, B_NEXT) = range(13)
(B_REQUEST, B_EMIT, B_LABEL, B_USEFUL, B_TOTAL, BLOCK_FIELDS) = range(13, 19)

# units; one more record is the queue of rows that need no unit
(U_ROW, U_HEAP, U_PARK, U_WANT, U_RECHECK, U_MASK, U_RATE, U_BUSY, U_NEED, U_ID, UNIT_FIELDS) = range(11)

# pools, stores
(P_CAP, P_W, P_DEMAND, P_MASK, P_RATE, P_SINCE, P_CLAIM, P_ID, P_ROWS) = range(9)
(P_COUNT, POOL_FIELDS) = (9, 17)  # P_COUNT: flowing rows by stream
(S_LEVEL, S_CAP, STORE_FIELDS) = range(3)

# slots: rows in lead or in flow; slot = unit, further slots for rows without a unit
(X_ROW, X_STATE, X_RATE, X_REM, X_LAST, X_CAP, X_W, X_MASK, X_KEY, X_NP, X_NEW, X_TIME) = range(12)
(X_POOL, X_COEF, X_WC, X_DEMAND, X_PLACE, X_FILL, SLOT_FIELDS) = (12, 16, 20, 24, 28, 32, 36)
# X_TIME, X_POOL: addresses; X_PLACE: address in the pool's list of rows; X_FILL: in the solver's scratch
# X_KEY: level at which the cap is reached
EMPTY, IN_LEAD, IN_FLOW, HELD = range(4)  # values of X_STATE; HELD: share 0 by a claim or a stopped unit

# lists of rows
(L_DUE, L_ZERO, L_WAIT, L_WOKEN, L_STACK, LISTS) = range(6)

# what advance() returns
(OK, NOTIFY, IDLE, UNTIL, GROW_RUN, FLUSH) = range(6)
(E_ROUNDS, E_TIME, E_TAKE, E_GIVE, E_UNDO, E_SUM) = range(10, 16)


@njit(cache=True)
def heap_push(m, at, n, key):
    """Add `key` to the binary heap of `n` keys at address `at`."""
    at &= ADDRESS
    n &= ADDRESS
    i = n
    while i > 0:
        up = (i - 1) >> 1
        if m[at + up] <= key:
            break
        m[at + i] = m[at + up]
        i = up & ADDRESS
    m[at + i] = key


@njit(cache=True)
def heap_pop(m, at, n):
    """Remove and return the smallest of the `n` keys at address `at`."""
    at &= ADDRESS
    n &= ADDRESS
    top = m[at]
    last = n - 1
    key = m[at + last]
    i = 0
    while True:
        c = 2 * i + 1
        if c >= last:
            break
        if c + 1 < last and m[at + c + 1] < m[at + c]:
            c += 1
        if m[at + c] >= key:
            break
        m[at + i] = m[at + c]
        i = c & ADDRESS
    m[at + i] = key
    return top


@njit(cache=True)
def touch(m, resource):
    """Recheck the rows that wait for `resource` (store id, or number of stores + pool id) at the next dispatch."""
    if m[WAITS] > 0:
        m[RETRY] = 1
    if m[PARKED] > 0:
        bit = 1 << (resource % 60)
        u = AT_UNIT
        for _ in range(m[UNITS] + 1):
            if m[u + U_PARK] > 0 and m[u + U_MASK] & bit != 0:
                m[u + U_RECHECK] = 1
                m[u + U_WANT] = 1
                m[WANT] = 1
            u += UNIT_FIELDS


@njit(cache=True)
def refresh_capacity(m, p):
    """Capacity of pool `p` from its stream mix and its rate fraction, rounded down."""
    mix = m[m[AT_MIX] + 256 * m[p + P_ID] + m[p + P_MASK]]
    m[p + P_CAP] = (mix * m[p + P_RATE]) >> RATE_BITS
    m[DIRTY] = 1


@njit(cache=True)
def change_mask(m, p, bit):
    """Flip one stream of the mix of pool `p`; books the time spent in the mix that ends."""
    m[m[AT_SPENT] + 256 * m[p + P_ID] + m[p + P_MASK]] += m[NOW] - m[p + P_SINCE]
    m[p + P_SINCE] = m[NOW]
    m[p + P_MASK] ^= bit
    refresh_capacity(m, p)


@njit(cache=True)
def set_rate(m, k, rate, now):
    """Book the work done at the old rate and set the new one; end = now + ceil(remaining / rate)."""
    k &= ADDRESS
    rem = m[k + X_REM]
    old = m[k + X_RATE]
    if old != 0:
        rem -= old * (now - m[k + X_LAST])
        m[k + X_REM] = rem
    m[k + X_LAST] = now
    m[k + X_RATE] = rate
    if rate == 0:
        m[m[k + X_TIME] & ADDRESS] = NEVER
        return
    if rem <= MAX_DEMAND:
        # exact: both are doubles, and a quotient just above an integer is further from it than half an ulp
        ps = np.int64(np.ceil(float(rem) / float(rate)))
    else:
        ps = (rem - 1) // rate + 1
    m[m[k + X_TIME] & ADDRESS] = now + ps if ps < MAX_PS - now else MAX_PS


@njit(cache=True)
def ordered(x):
    """Bits of a double >= 0 as an integer: same order, and neighbours are one apart."""
    return np.float64(x).view(np.int64)


@njit(cache=True)
def as_level(bits):
    """Inverse of :func:`ordered`."""
    return np.int64(bits).view(np.float64)


@njit(cache=True)
def enter_pools(m, k):
    """Let slot `k` take part in its pools; a slot without pools flows at its cap at once."""
    k &= ADDRESS
    m[k + X_STATE] = IN_FLOW
    n = m[k + X_NP]
    if n == 0:
        set_rate(m, k, m[k + X_CAP], m[NOW])
        return
    stream = m[m[AT_ROW] + m[k + X_ROW] * ROW_FIELDS + R_STREAM]
    for j in range(n):
        part = (k + j) & ADDRESS
        p = m[part + X_POOL] & ADDRESS
        m[p + P_W] += m[part + X_WC]
        m[p + P_DEMAND] += m[part + X_DEMAND]
        if m[p + P_W] >= MAX_SUM or m[p + P_DEMAND] >= MAX_PS:
            m[ERR] = E_SUM
            m[ERR_A] = m[p + P_ID]
        place = (m[AT_MEMBER] + m[p + P_ID] * m[SLOTS] + m[p + P_ROWS]) & ADDRESS
        m[place] = k
        m[part + X_PLACE] = place
        m[p + P_ROWS] += 1
        if stream > 0:
            count = (p + P_COUNT + stream) & ADDRESS
            m[count] += 1
            if m[count] == 1:
                change_mask(m, p, 1 << stream)
    key = ordered(float(m[k + X_CAP]) / float(m[k + X_W]))
    m[k + X_KEY] = key
    at = (m[AT_ACTIVE] + m[ACTIVE]) & ADDRESS
    first = m[AT_ACTIVE] & ADDRESS
    while at > first and m[(m[at - 1] & ADDRESS) + X_KEY] > key:
        m[at] = m[at - 1]
        at = (at - 1) & ADDRESS
    m[at] = k
    m[ACTIVE] += 1
    m[DIRTY] = 1


@njit(cache=True)
def leave_pools(m, k):
    """Take slot `k` out of its pools and stop it; its remaining work is up to date afterwards."""
    k &= ADDRESS
    set_rate(m, k, 0, m[NOW])
    n = m[k + X_NP]
    if n == 0:
        return
    stream = m[m[AT_ROW] + m[k + X_ROW] * ROW_FIELDS + R_STREAM]
    for j in range(n):
        part = (k + j) & ADDRESS
        p = m[part + X_POOL] & ADDRESS
        m[p + P_W] -= m[part + X_WC]
        m[p + P_DEMAND] -= m[part + X_DEMAND]
        m[p + P_ROWS] -= 1
        place = m[part + X_PLACE] & ADDRESS
        moved = m[(m[AT_MEMBER] + m[p + P_ID] * m[SLOTS] + m[p + P_ROWS]) & ADDRESS] & ADDRESS
        m[place] = moved
        while m[moved + X_POOL] != p:
            moved = (moved + 1) & ADDRESS
        m[moved + X_PLACE] = place
        if stream > 0:
            count = (p + P_COUNT + stream) & ADDRESS
            m[count] -= 1
            if m[count] == 0:
                change_mask(m, p, 1 << stream)
    m[ACTIVE] -= 1
    end = (m[AT_ACTIVE] + m[ACTIVE]) & ADDRESS
    at = m[AT_ACTIVE] & ADDRESS
    while m[at] != k:
        at = (at + 1) & ADDRESS
    while at < end:
        m[at] = m[at + 1]
        at = (at + 1) & ADDRESS
    m[DIRTY] = 1


@njit(cache=True)
def scaled_cap(m, r):
    """Rate cap of the row at `r` at its unit's present rate fraction, rounded down."""
    cap = m[r + R_CAP]
    u = m[r + R_UNIT]
    rate = m[AT_UNIT + u * UNIT_FIELDS + U_RATE] if u >= 0 else 1 << RATE_BITS
    if cap == NO_CAP:
        return MAX_FLOW if rate > 0 else 0
    return (cap * rate) >> RATE_BITS


@njit(cache=True)
def place_flow(m, k):
    """Set cap and demands of slot `k` and let it flow, or hold it while a claim or a stopped unit forbids."""
    k &= ADDRESS
    row = m[k + X_ROW]
    cap = scaled_cap(m, m[AT_ROW] + row * ROW_FIELDS)
    m[k + X_CAP] = cap
    held = cap == 0
    for j in range(m[k + X_NP]):
        part = (k + j) & ADDRESS
        coef = m[part + X_COEF]
        demand = MAX_DEMAND
        if float(coef) * float(cap) < MAX_DEMAND:
            demand = coef * cap
        m[part + X_DEMAND] = demand
        owner = m[(m[part + X_POOL] & ADDRESS) + P_CLAIM]
        if owner >= 0 and owner != row:
            held = True
    if held:
        m[k + X_STATE] = HELD
    else:
        enter_pools(m, k)


@njit(cache=True)
def begin_flow(m, k):
    """Row of slot `k` has passed its lead and has work."""
    k &= ADDRESS
    r = (m[AT_ROW] + m[k + X_ROW] * ROW_FIELDS) & ADDRESS
    m[r + R_STATUS] = FLOW
    w = m[r + R_WEIGHT]
    n = 0
    mask = 0
    for j in range(4):
        p = m[r + R_POOL + j]
        coef = m[r + R_COEF + j]
        if p >= 0 and coef > 0:
            p = (m[AT_POOL] + p * POOL_FIELDS) & ADDRESS
            i = 0
            while i < n and m[k + X_POOL + i] != p:
                i += 1
            if i == n:
                m[k + X_POOL + n] = p
                m[k + X_COEF + n] = 0
                m[k + X_FILL + n] = m[AT_FILL] + m[p + P_ID]
                mask |= 1 << m[p + P_ID]
                n += 1
            m[k + X_COEF + i] += coef
            m[k + X_WC + i] = w * m[k + X_COEF + i]
    m[k + X_NP] = n
    m[k + X_MASK] = mask
    m[k + X_W] = w
    m[k + X_RATE] = 0
    m[m[k + X_TIME] & ADDRESS] = NEVER
    m[k + X_REM] = m[r + R_WORK]
    m[k + X_LAST] = m[NOW]
    place_flow(m, k)


@njit(cache=True)
def claim_pool(m, p, row):
    """Row takes the pool at `p` for itself; others that draw on it are held."""
    m[p + P_CLAIM] = row
    k = m[AT_SLOT] & ADDRESS
    for _ in range(m[TOP]):
        if m[k + X_STATE] == IN_FLOW and m[k + X_MASK] >> m[p + P_ID] & 1 != 0:
            leave_pools(m, k)
            m[k + X_STATE] = HELD
        k += SLOT_FIELDS


@njit(cache=True)
def release_claim(m, p):
    """Give the pool at `p` back; held rows flow again where nothing else holds them."""
    m[p + P_CLAIM] = -1
    k = m[AT_SLOT] & ADDRESS
    for _ in range(m[TOP]):
        if m[k + X_STATE] == HELD and m[k + X_MASK] >> m[p + P_ID] & 1 != 0:
            place_flow(m, k)
        k += SLOT_FIELDS
    touch(m, m[STORES] + m[p + P_ID])


@njit(cache=True)
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


@njit(cache=True)
def lowest_pool(m):
    """Number of the pool with the lowest exact level left / load, the lower among equals; -1 if no row is left."""
    pools = m[POOLS] & ADDRESS
    left = m[AT_FILL] & ADDRESS
    load, level = (left + pools) & ADDRESS, (left + 2 * pools) & ADDRESS
    lowest = NO_LEVEL
    for i in range(pools):
        n = m[load + i]
        x = ordered(float(m[left + i]) / float(max(n, 1)))
        x = x if n > 0 else NO_LEVEL
        m[level + i] = x
        lowest = min(lowest, x)
    if lowest == NO_LEVEL:
        return -1
    best = -1
    for i in range(pools):
        if m[level + i] > lowest + MARGIN:
            continue
        if best < 0 or int(m[left + i]) * int(m[load + best]) - int(m[left + best]) * int(m[load + i]) < 0:
            best = i
    return best


@njit(cache=True)
def fill(m):
    """Raise the level until all rows that draw on a pool with a load are frozen at their new rate."""
    pools = m[POOLS] & ADDRESS
    first, frozen, scratch = m[AT_ACTIVE] & ADDRESS, m[AT_FROZEN] & ADDRESS, m[AT_FILL] & ADDRESS
    end = (first + m[ACTIVE]) & ADDRESS
    while True:
        best = lowest_pool(m)
        if best < 0:
            return
        at = (scratch + best) & ADDRESS
        left, load, bits = m[at], m[at + pools], m[at + 2 * pools]
        level = as_level(bits)
        n = 0
        while first < end and m[(m[first] & ADDRESS) + X_NEW] >= 0:
            first = (first + 1) & ADDRESS
        for a in range(first, end):  # rows that reach their cap before the pool is full
            k = m[a] & ADDRESS
            if m[k + X_KEY] > bits + MARGIN:
                break
            if m[k + X_NEW] < 0:
                w, cap = m[k + X_W], m[k + X_CAP]
                if m[k + X_KEY] < bits - MARGIN or cap <= floor_share(w, left, load, float(w) * level):
                    m[k + X_NEW] = cap
                    m[frozen + n] = k
                    n += 1
        if n == 0:
            members = (m[AT_MEMBER] + best * m[SLOTS]) & ADDRESS
            for a in range(members, members + m[((m[AT_POOL] + best * POOL_FIELDS) & ADDRESS) + P_ROWS]):
                k = m[a] & ADDRESS
                w, old = m[k + X_W], m[k + X_NEW]
                rate = floor_share(w, left, load, float(w) * level)
                m[k + X_NEW] = rate if old < 0 else old
                m[frozen + n] = k
                n += 1 if old < 0 else 0
        for a in range(frozen, frozen + n):  # their draw is taken out of their pools
            k = m[a] & ADDRESS
            rate = m[k + X_NEW]
            for j in range(m[k + X_NP]):
                part = (k + j) & ADDRESS
                at = m[part + X_FILL] & ADDRESS
                m[at] -= m[part + X_COEF] * rate
                m[at + pools] -= m[part + X_WC]


@njit(cache=True)
def solve(m):
    """Weighted max-min rates of all flowing rows (see the module's docstring)."""
    m[DIRTY] = 0
    tight = 0
    p = m[AT_POOL] & ADDRESS
    at = m[AT_FILL] & ADDRESS
    pools = m[POOLS] & ADDRESS
    for i in range(pools):
        left = m[p + P_CAP] << COEF_BITS
        m[at + i] = left
        m[at + pools + i] = 0  # a pool that cannot fill takes no part
        if m[p + P_DEMAND] > min(left, MAX_DEMAND - 1):
            m[at + pools + i] = m[p + P_W]
            tight |= 1 << i
        p = (p + POOL_FIELDS) & ADDRESS
    first = m[AT_ACTIVE] & ADDRESS
    end = (first + m[ACTIVE]) & ADDRESS
    for a in range(first, end):
        k = m[a] & ADDRESS
        m[k + X_NEW] = -1 if m[k + X_MASK] & tight != 0 else m[k + X_CAP]
    if tight != 0:
        fill(m)
    now = m[NOW]
    for a in range(first, end):
        k = m[a] & ADDRESS
        if m[k + X_NEW] != m[k + X_RATE]:
            set_rate(m, k, m[k + X_NEW], now)


@njit(cache=True)
def log_pools(m):
    """Append time, pool, mix, capacity and usage (rounded up) of every pool to the log."""
    p = m[AT_POOL] & ADDRESS
    for i in range(m[POOLS]):
        used = 0
        for a in range(m[AT_ACTIVE], m[AT_ACTIVE] + m[ACTIVE]):
            k = m[a] & ADDRESS
            for j in range(m[k + X_NP]):
                if m[k + X_POOL + j] == p:
                    used += m[k + X_COEF + j] * m[k + X_RATE]
        at = (m[AT_POOL_LOG] + 5 * m[POOL_LOG]) & ADDRESS
        m[at] = m[NOW]
        m[at + 1] = i
        m[at + 2] = m[p + P_MASK]
        m[at + 3] = m[p + P_CAP]
        m[at + 4] = (used + (1 << COEF_BITS) - 1) >> COEF_BITS
        m[POOL_LOG] += 1
        p += POOL_FIELDS
