"""What Python does to the state between rounds: admit a block, cut rows, change rates, estimate a block alone."""

import numpy as np
from numba import njit

from archsim.engine.core import (
    AT_ARC,
    AT_BLOCK,
    AT_DEP,
    AT_HEAP,
    AT_LIST,
    AT_PARK,
    AT_POOL,
    AT_ROW,
    AT_SLOT,
    AT_STAGE,
    AT_UNIT,
    B_DEP,
    B_END,
    B_LEFT,
    B_N,
    B_NEXT,
    B_NROOT,
    B_NSUCC,
    B_ROOT,
    B_ROW,
    B_STATUS,
    B_SUCC,
    B_WAIT,
    BLOCK_FIELDS,
    CUT,
    CUTS,
    DEP_FREE,
    DONE,
    ENDWAIT,
    ERR_ROW,
    FLOW,
    HELD,
    IN_FLOW,
    KEY_MASK,
    L_DUE,
    L_STACK,
    LEAD,
    LIST,
    MAX_SUM,
    NO_CAP,
    NOW,
    P_RATE,
    PARKED,
    POOL_FIELDS,
    POOLS,
    QUEUE,
    R_BLK,
    R_CAP,
    R_CLAIM,
    R_COEF,
    R_DONE,
    R_END,
    R_FLOW,
    R_GID,
    R_GIVE,
    R_HEIR,
    R_LEAD,
    R_LED,
    R_MODE,
    R_NSUCC,
    R_OP,
    R_PEND,
    R_POOL,
    R_PRIO,
    R_SLOT,
    R_START,
    R_STATUS,
    R_STORE,
    R_STREAM,
    R_SUCC,
    R_TAKE,
    R_UNIT,
    R_WEIGHT,
    R_WORK,
    READY,
    ROW_FIELDS,
    ROW_INPUTS,
    SLOT_FIELDS,
    STORES,
    U_HEAP,
    U_NEED,
    U_PARK,
    U_RATE,
    UNIT_FIELDS,
    UNITS,
    X_REM,
    X_STATE,
    heap_push,
)
from archsim.engine.pools import leave_pools, place_flow, refresh_capacity, release_claim
from archsim.engine.rows import drop_wait, free_slot, free_unit, release_roots, undo_take, wake

# what check_row() objects to
(BAD_UNIT, BAD_PRIORITY, BAD_WEIGHT, BAD_LEAD, BAD_WORK, BAD_CAP, BAD_POOL, BAD_COEF, BAD_SUM, BAD_CLAIM) = range(1, 11)
(BAD_STREAM, BAD_STORE, BAD_TWICE, BAD_MODE, BAD_HEIR, BAD_EDGE, BAD_JOIN, BAD_SINK, BAD_CYCLE) = range(11, 20)
GROW_HEAP = 30


@njit(cache=True)
def check_row(m, r, n):
    """First rule that the inputs of the row at `r`, in a block of `n` rows, break; 0 if none."""
    if m[r + R_UNIT] < -1 or m[r + R_UNIT] >= m[UNITS]:
        return BAD_UNIT
    if m[r + R_PRIO] < -(1 << 22) or m[r + R_PRIO] >= 1 << 22:
        return BAD_PRIORITY
    if m[r + R_WEIGHT] < 1 or m[r + R_WEIGHT] >= 1 << 30:
        return BAD_WEIGHT
    if m[r + R_LEAD] < 0 or m[r + R_LEAD] >= 1 << 60:
        return BAD_LEAD
    if m[r + R_WORK] < 0:
        return BAD_WORK
    if m[r + R_CAP] < 0 or (m[r + R_CAP] >= 1 << 41 and m[r + R_CAP] != NO_CAP):
        return BAD_CAP
    for j in range(4):
        if m[r + R_POOL + j] < -1 or m[r + R_POOL + j] >= m[POOLS]:
            return BAD_POOL
        if m[r + R_COEF + j] < 0 or m[r + R_COEF + j] >= 1 << 41:
            return BAD_COEF
        if float(m[r + R_WEIGHT]) * float(m[r + R_COEF + j]) >= MAX_SUM:
            return BAD_SUM
    if m[r + R_CLAIM] < -1 or m[r + R_CLAIM] >= m[POOLS]:
        return BAD_CLAIM
    if m[r + R_STREAM] < 0 or m[r + R_STREAM] > 7:
        return BAD_STREAM
    for j in range(2):
        if m[r + R_STORE + j] < -1 or m[r + R_STORE + j] >= m[STORES]:
            return BAD_STORE
        if m[r + R_MODE + j] < 0 or m[r + R_MODE + j] > 3:
            return BAD_MODE
    if m[r + R_STORE] >= 0 and m[r + R_STORE] == m[r + R_STORE + 1]:
        return BAD_TWICE
    if m[r + R_HEIR] < -1 or m[r + R_HEIR] >= n:
        return BAD_HEIR
    return 0


@njit(cache=True)
def check_block(m, b):
    """Check the block at `b` and count predecessors. Returns 0 or a rule that row number ERR_ROW breaks."""
    first = m[AT_ROW] + m[b + B_ROW] * ROW_FIELDS
    n, arcs, total = m[b + B_N], m[AT_ARC] + m[b + B_SUCC], m[b + B_NSUCC]
    backward = False
    for i in range(n):
        r = first + i * ROW_FIELDS
        m[ERR_ROW] = i
        code = check_row(m, r, n)
        if code != 0:
            return code
        at = m[r + R_SUCC]
        end = m[r + ROW_FIELDS + R_SUCC] if i < n - 1 else total
        if end < at or end > total or at < 0:
            return BAD_EDGE
        m[r + R_NSUCC] = end - at
        if (end == at) != (i == n - 1):
            return BAD_SINK
        for e in range(arcs + at, arcs + end):
            to = m[e]
            if to < 0 or to >= n:
                return BAD_EDGE
            if to <= i:
                backward = True
            m[first + to * ROW_FIELDS + R_PEND] += 1
    join = first + (n - 1) * ROW_FIELDS
    if m[join + R_UNIT] != -1 or m[join + R_LEAD] != 0 or m[join + R_WORK] != 0:
        return BAD_JOIN
    if backward and has_cycle(m, b):
        return BAD_CYCLE
    return 0


@njit(cache=True)
def has_cycle(m, b):
    """Whether the edges of the block at `b` close a cycle (Kahn's algorithm on a copy of the counts)."""
    first, n, arcs = m[AT_ROW] + m[b + B_ROW] * ROW_FIELDS, m[b + B_N], m[AT_ARC] + m[b + B_SUCC]
    pend, stack = m[AT_LIST] + L_DUE * m[LIST], m[AT_LIST] + L_STACK * m[LIST]
    top = 0
    seen = 0
    for i in range(n):
        m[pend + i] = m[first + i * ROW_FIELDS + R_PEND]
        if m[pend + i] == 0:
            m[stack + top] = i
            top += 1
    while top > 0:
        top -= 1
        r = first + m[stack + top] * ROW_FIELDS
        seen += 1
        for e in range(arcs + m[r + R_SUCC], arcs + m[r + R_SUCC] + m[r + R_NSUCC]):
            m[pend + m[e]] -= 1
            if m[pend + m[e]] == 0:
                m[stack + top] = m[e]
                top += 1
    return seen < n


@njit(cache=True)
def load(m, b, priority):
    """Copy the columns of the block at `b` from the stage into the window; the rows' state is fresh."""
    n, stage = m[b + B_N], m[AT_STAGE]
    first = m[AT_ROW] + m[b + B_ROW] * ROW_FIELDS
    for i in range(n):
        r = first + i * ROW_FIELDS
        for f in range(R_POOL):
            m[r + f] = m[stage + f * n + i]
        m[r + R_PRIO] += priority
        at = stage + R_POOL * n + 4 * i
        for j in range(4):
            m[r + R_POOL + j] = m[at + j]
            m[r + R_COEF + j] = m[at + 4 * n + j]
        m[r + R_CLAIM] = m[stage + R_CLAIM * n + i]
        m[r + R_STREAM] = m[stage + R_STREAM * n + i]
        at = stage + R_STORE * n + 2 * i
        for j in range(2):
            m[r + R_STORE + j] = m[at + j]
            m[r + R_TAKE + j] = m[at + 2 * n + j]
            m[r + R_GIVE + j] = m[at + 4 * n + j]
            m[r + R_MODE + j] = m[at + 6 * n + j]
        m[r + R_HEIR] = m[stage + R_HEIR * n + i]
        m[r + R_OP] = m[stage + R_OP * n + i]
        for f in range(ROW_INPUTS, ROW_FIELDS):
            m[r + f] = 0
        m[r + R_SUCC] = m[stage + ROW_INPUTS * n + i]
        m[r + R_START] = m[r + R_FLOW] = m[r + R_END] = m[r + R_SLOT] = -1


@njit(cache=True)
def admit(m, line, gid, priority):
    """Take in block number `line` from the stage; its first row has the global id `gid`.

    Returns 0, a rule of :func:`check_block` (the block must be dropped) or GROW_HEAP (enlarge the queues, then
    call :func:`release_roots` if the block waits for nothing).
    """
    b = m[AT_BLOCK] + line * BLOCK_FIELDS
    load(m, b, priority)
    code = check_block(m, b)
    if code != 0:
        return code
    first, n = m[b + B_ROW], m[b + B_N]
    root = m[b + B_SUCC] + m[b + B_NSUCC]
    top = m[AT_ARC] + root
    need = 0
    for i in range(n):
        r = m[AT_ROW] + (first + i) * ROW_FIELDS
        m[r + R_BLK] = line
        m[r + R_GID] = gid + i
        unit = m[r + R_UNIT] if m[r + R_UNIT] >= 0 else m[UNITS]
        u = AT_UNIT + unit * UNIT_FIELDS
        m[u + U_NEED] += 1
        need = max(need, m[u + U_NEED])
        if m[r + R_PEND] == 0:
            m[top] = i
            top += 1
    m[b + B_ROOT] = root
    m[b + B_NROOT] = top - m[AT_ARC] - root
    if need > m[QUEUE]:
        return GROW_HEAP
    if m[b + B_WAIT] == 0:
        release_roots(m, line)
    return 0


@njit(cache=True)
def cut_row(m, row):
    """End one unfinished row as cut: work done so far is kept, its unit, claim and stores are given back."""
    r = m[AT_ROW] + row * ROW_FIELDS
    status = m[r + R_STATUS]
    m[r + R_STATUS] = CUT
    m[r + R_END] = m[NOW]
    code = 0
    if status < LEAD:
        unit = m[r + R_UNIT] if m[r + R_UNIT] >= 0 else m[UNITS]
        m[AT_UNIT + unit * UNIT_FIELDS + U_NEED] -= 1
    else:
        if status == LEAD:
            m[r + R_LED] = m[NOW] - m[r + R_START]
        elif status == FLOW:
            k = m[AT_SLOT] + m[r + R_SLOT] * SLOT_FIELDS
            if m[k + X_STATE] == IN_FLOW:
                leave_pools(m, k)
            m[r + R_DONE] = m[r + R_WORK] - m[k + X_REM]
        elif status == ENDWAIT:
            m[r + R_DONE] = m[r + R_WORK]
            drop_wait(m, row)
        free_slot(m, r)
        code = undo_take(m, row)
        free_unit(m, r)
        if m[r + R_CLAIM] >= 0:
            release_claim(m, m[AT_POOL] + m[r + R_CLAIM] * POOL_FIELDS)
    wake(m, row)
    return code


@njit(cache=True)
def push_cut(m, row):
    """Cut `row` and put it on the stack, unless it has ended. Returns 0 or an error."""
    if m[m[AT_ROW] + row * ROW_FIELDS + R_STATUS] >= DONE:
        return 0
    m[m[AT_LIST] + L_STACK * m[LIST] + m[CUTS]] = row
    m[CUTS] += 1
    return cut_row(m, row)


@njit(cache=True)
def cut(m, first, count):
    """Cut rows ``first .. first + count - 1`` and, transitively, all that depends on them. Returns 0 or an error."""
    touched = -1
    code = 0
    m[CUTS] = 0
    for row in range(first, first + count):
        code = max(code, push_cut(m, row))
    while m[CUTS] > 0:
        m[CUTS] -= 1
        row = m[m[AT_LIST] + L_STACK * m[LIST] + m[CUTS]]
        r = m[AT_ROW] + row * ROW_FIELDS
        line = m[r + R_BLK]
        b = m[AT_BLOCK] + line * BLOCK_FIELDS
        if m[b + B_NEXT] == -2:
            m[b + B_NEXT] = touched
            touched = line
        m[b + B_LEFT] -= 1
        at = m[AT_ARC] + m[b + B_SUCC] + m[r + R_SUCC]
        for e in range(at, at + m[r + R_NSUCC]):
            code = max(code, push_cut(m, m[b + B_ROW] + m[e]))
        if row == m[b + B_ROW] + m[b + B_N] - 1:
            m[b + B_STATUS] = CUT
            m[b + B_END] = m[NOW]
            code = max(code, cut_dependents(m, b))
    purge(m)
    return max(code, return_heirlooms(m, touched))


@njit(cache=True)
def cut_dependents(m, b):
    """The block at `b` is cut: so are the blocks that wait for it. Returns 0 or an error."""
    code = 0
    e = m[b + B_DEP]
    m[b + B_DEP] = -1
    while e >= 0:
        at = m[AT_DEP] + 2 * e
        d = m[AT_BLOCK] + m[at + 1] * BLOCK_FIELDS
        for row in range(m[d + B_ROW], m[d + B_ROW] + m[d + B_N]):
            code = max(code, push_cut(m, row))
        after = m[at]
        m[at] = m[DEP_FREE]
        m[DEP_FREE] = e
        e = after
    return code


@njit(cache=True)
def return_heirlooms(m, touched):
    """Undo the takes of done rows whose heir has been cut, in the linked list of blocks `touched`."""
    code = 0
    while touched >= 0:
        b = m[AT_BLOCK] + touched * BLOCK_FIELDS
        first = m[b + B_ROW]
        for row in range(first, first + m[b + B_N]):
            r = m[AT_ROW] + row * ROW_FIELDS
            heir = m[r + R_HEIR]
            if heir < 0 or m[r + R_STATUS] != DONE:
                continue
            if m[m[AT_ROW] + (first + heir) * ROW_FIELDS + R_STATUS] == CUT:
                code = max(code, undo_take(m, row))
        touched = m[b + B_NEXT]
        m[b + B_NEXT] = -2
    return code


@njit(cache=True)
def purge(m):
    """Drop cut rows from the queues."""
    for i in range(m[UNITS] + 1):
        u = AT_UNIT + i * UNIT_FIELDS
        at = m[AT_HEAP] + i * m[QUEUE]
        n = 0
        for j in range(m[u + U_HEAP]):
            key = m[at + j]
            if m[m[AT_ROW] + (key & KEY_MASK) * ROW_FIELDS + R_STATUS] == READY:
                heap_push(m, at, n, key)
                n += 1
        m[u + U_HEAP] = n
        at = m[AT_PARK] + i * m[QUEUE]
        n = 0
        for j in range(m[u + U_PARK]):
            key = m[at + j]
            if m[m[AT_ROW] + (key & KEY_MASK) * ROW_FIELDS + R_STATUS] == READY:
                m[at + n] = key
                n += 1
        m[PARKED] -= m[u + U_PARK] - n
        m[u + U_PARK] = n


@njit(cache=True)
def rate_unit(m, i, rate):
    """From now on the caps of rows on unit number `i` are scaled by ``rate / 2**20``."""
    m[AT_UNIT + i * UNIT_FIELDS + U_RATE] = rate
    k = m[AT_SLOT] + i * SLOT_FIELDS
    if m[k + X_STATE] == IN_FLOW:
        leave_pools(m, k)
        place_flow(m, k)
    elif m[k + X_STATE] == HELD:
        place_flow(m, k)


@njit(cache=True)
def rate_pool(m, i, rate):
    """From now on the capacity of pool number `i` is scaled by ``rate / 2**20``."""
    p = m[AT_POOL] + i * POOL_FIELDS
    m[p + P_RATE] = rate
    refresh_capacity(m, p)


@njit(cache=True)
def sooner(ready, a, b):
    """Whether row `a` comes before row `b` by (ready time, index)."""
    return ready[a] < ready[b] or (ready[a] == ready[b] and a < b)


@njit(cache=True)
def critical_path(unit, length, ptr, succ, units):
    """End of the last row when rows run in order of readiness, one at a time per unit (ps).

    Parameters
    ----------
    unit, length : int64[n]
        Unit (-1 none) and duration alone of each row, ps.
    ptr, succ : int64
        Edges as in a block, without cycles.
    units : int
        Number of units.
    """
    n = len(unit)
    pend = np.zeros(n, dtype=np.int64)
    ready = np.zeros(n, dtype=np.int64)
    free = np.zeros(units + 1, dtype=np.int64)
    heap = np.zeros(n + 1, dtype=np.int64)
    for e in range(ptr[n]):
        pend[succ[e]] += 1
    size = 0
    for i in range(n):
        if pend[i] == 0:
            heap[size] = i
            size += 1
    last = 0
    while size > 0:
        row = heap[0]
        size -= 1
        moved = heap[size]
        i = 0
        while 2 * i + 1 < size:
            c = 2 * i + 1
            if c + 1 < size and sooner(ready, heap[c + 1], heap[c]):
                c += 1
            if sooner(ready, moved, heap[c]):
                break
            heap[i] = heap[c]
            i = c
        heap[i] = moved
        end = ready[row] + length[row]
        if unit[row] >= 0:
            end = max(ready[row], free[unit[row]]) + length[row]
            free[unit[row]] = end
        last = max(last, end)
        for e in range(ptr[row], ptr[row + 1]):
            to = succ[e]
            ready[to] = max(ready[to], end)
            pend[to] -= 1
            if pend[to] == 0:
                i = size
                size += 1
                while i > 0 and sooner(ready, to, heap[(i - 1) >> 1]):
                    heap[i] = heap[(i - 1) >> 1]
                    i = (i - 1) >> 1
                heap[i] = to
    return last
