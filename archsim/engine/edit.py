"""What Python does to the state between rounds: admit a block, cut rows, change rates, estimate a block alone."""

import numpy as np
from numba import njit

from archsim.engine.core import (
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
    CUT,
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
    MAX_SUM,
    NO_CAP,
    NOW,
    P_RATE,
    PARKED,
    R_BLK,
    R_CAP,
    R_CLAIM,
    R_COEF,
    R_DONE,
    R_END,
    R_GID,
    R_HEIR,
    R_LEAD,
    R_LED,
    R_MODE,
    R_NSUCC,
    R_PEND,
    R_POOL,
    R_PRIO,
    R_SLOT,
    R_START,
    R_STATUS,
    R_STORE,
    R_STREAM,
    R_SUCC,
    R_UNIT,
    R_WEIGHT,
    R_WORK,
    READY,
    U_HEAP,
    U_NEED,
    U_PARK,
    U_RATE,
    X_REM,
    X_STATE,
    heap_push,
    leave_pools,
    place_flow,
    refresh_capacity,
)
from archsim.engine.loop import drop_wait, free_slot, free_unit, release_roots, undo_take, wake

# what check_row() objects to
(BAD_UNIT, BAD_PRIORITY, BAD_WEIGHT, BAD_LEAD, BAD_WORK, BAD_CAP, BAD_POOL, BAD_COEF, BAD_SUM, BAD_CLAIM) = range(1, 11)
(BAD_STREAM, BAD_STORE, BAD_TWICE, BAD_MODE, BAD_HEIR, BAD_EDGE, BAD_JOIN, BAD_SINK, BAD_CYCLE) = range(11, 20)
GROW_HEAP = 30


@njit(cache=True)
def check_row(s, row, n):
    """First rule that the inputs of `row`, in a block of `n` rows, break; 0 if none."""
    r = s.rows[row]
    if r[R_UNIT] < -1 or r[R_UNIT] >= s.unit.shape[0] - 1:
        return BAD_UNIT
    if r[R_PRIO] < -(1 << 22) or r[R_PRIO] >= 1 << 22:
        return BAD_PRIORITY
    if r[R_WEIGHT] < 1 or r[R_WEIGHT] >= 1 << 30:
        return BAD_WEIGHT
    if r[R_LEAD] < 0 or r[R_LEAD] >= 1 << 60:
        return BAD_LEAD
    if r[R_WORK] < 0:
        return BAD_WORK
    if r[R_CAP] < 0 or (r[R_CAP] >= 1 << 41 and r[R_CAP] != NO_CAP):
        return BAD_CAP
    for j in range(4):
        if r[R_POOL + j] < -1 or r[R_POOL + j] >= s.pool.shape[0]:
            return BAD_POOL
        if r[R_COEF + j] < 0 or r[R_COEF + j] >= 1 << 41:
            return BAD_COEF
        if float(r[R_WEIGHT]) * float(r[R_COEF + j]) >= MAX_SUM:
            return BAD_SUM
    if r[R_CLAIM] < -1 or r[R_CLAIM] >= s.pool.shape[0]:
        return BAD_CLAIM
    if r[R_STREAM] < 0 or r[R_STREAM] > 7:
        return BAD_STREAM
    for j in range(2):
        if r[R_STORE + j] < -1 or r[R_STORE + j] >= s.store.shape[0]:
            return BAD_STORE
        if r[R_MODE + j] < 0 or r[R_MODE + j] > 3:
            return BAD_MODE
    if r[R_STORE] >= 0 and r[R_STORE] == r[R_STORE + 1]:
        return BAD_TWICE
    if r[R_HEIR] < -1 or r[R_HEIR] >= n:
        return BAD_HEIR
    return 0


@njit(cache=True)
def check_block(s, b):
    """Check block `b` and count predecessors. Returns 0 or a rule; ERR_ROW is then the row's index in the block."""
    rows, sc = s.rows, s.sc
    first, n, at = s.blk[b, B_ROW], s.blk[b, B_N], s.blk[b, B_SUCC]
    backward = False
    for i in range(n):
        row = first + i
        sc[ERR_ROW] = i
        code = check_row(s, row, n)
        if code != 0:
            return code
        end = rows[row + 1, R_SUCC] if i < n - 1 else s.blk[b, B_NSUCC]
        if end < rows[row, R_SUCC] or end > s.blk[b, B_NSUCC] or rows[row, R_SUCC] < 0:
            return BAD_EDGE
        rows[row, R_NSUCC] = end - rows[row, R_SUCC]
        if (rows[row, R_NSUCC] == 0) != (i == n - 1):
            return BAD_SINK
        for e in range(at + rows[row, R_SUCC], at + end):
            to = s.succ[e]
            if to < 0 or to >= n:
                return BAD_EDGE
            if to <= i:
                backward = True
            rows[first + to, R_PEND] += 1
    join = first + n - 1
    if rows[join, R_UNIT] != -1 or rows[join, R_LEAD] != 0 or rows[join, R_WORK] != 0:
        return BAD_JOIN
    if backward and has_cycle(s, b):
        return BAD_CYCLE
    return 0


@njit(cache=True)
def has_cycle(s, b):
    """Whether the edges of block `b` close a cycle (Kahn's algorithm on a copy of the counts)."""
    rows, lists = s.rows, s.lists
    first, n, at = s.blk[b, B_ROW], s.blk[b, B_N], s.blk[b, B_SUCC]
    top = 0
    seen = 0
    for i in range(n):
        lists[L_DUE, i] = rows[first + i, R_PEND]
        if lists[L_DUE, i] == 0:
            lists[L_STACK, top] = i
            top += 1
    while top > 0:
        top -= 1
        i = lists[L_STACK, top]
        seen += 1
        for e in range(at + rows[first + i, R_SUCC], at + rows[first + i, R_SUCC] + rows[first + i, R_NSUCC]):
            to = s.succ[e]
            lists[L_DUE, to] -= 1
            if lists[L_DUE, to] == 0:
                lists[L_STACK, top] = to
                top += 1
    return seen < n


@njit(cache=True)
def admit(s, b, gid):
    """Take in block `b`, whose inputs are in the window; its first row has the global id `gid`.

    Returns 0, a rule of :func:`check_block` (the block must be dropped) or GROW_HEAP (enlarge the queues, then
    call :func:`release_roots` if the block waits for nothing).
    """
    code = check_block(s, b)
    if code != 0:
        return code
    rows, unit, blk = s.rows, s.unit, s.blk
    first, n = blk[b, B_ROW], blk[b, B_N]
    last = unit.shape[0] - 1
    top = blk[b, B_SUCC] + blk[b, B_NSUCC]
    blk[b, B_ROOT] = top
    need = 0
    for i in range(n):
        row = first + i
        rows[row, R_BLK] = b
        rows[row, R_GID] = gid + i
        u = rows[row, R_UNIT] if rows[row, R_UNIT] >= 0 else last
        unit[u, U_NEED] += 1
        need = max(need, unit[u, U_NEED])
        if rows[row, R_PEND] == 0:
            s.succ[top] = i
            top += 1
    blk[b, B_NROOT] = top - blk[b, B_ROOT]
    if need > s.heap.shape[1]:
        return GROW_HEAP
    if blk[b, B_WAIT] == 0:
        release_roots(s, b)
    return 0


@njit(cache=True)
def cut_row(s, row):
    """End one unfinished row as cut: work done so far is kept, its unit, claim and stores are given back."""
    rows, run, sc = s.rows, s.run, s.sc
    status = rows[row, R_STATUS]
    k = rows[row, R_SLOT]
    rows[row, R_STATUS] = CUT
    rows[row, R_END] = sc[NOW]
    code = 0
    if status < LEAD:
        u = rows[row, R_UNIT] if rows[row, R_UNIT] >= 0 else s.unit.shape[0] - 1
        s.unit[u, U_NEED] -= 1
    else:
        if status == LEAD:
            rows[row, R_LED] = sc[NOW] - rows[row, R_START]
        elif status == FLOW:
            if run[X_STATE, k] == IN_FLOW:
                leave_pools(s, k)
            rows[row, R_DONE] = rows[row, R_WORK] - run[X_REM, k]
        elif status == ENDWAIT:
            rows[row, R_DONE] = rows[row, R_WORK]
            drop_wait(s, row)
        if k >= 0:
            rows[row, R_SLOT] = -1
            free_slot(s, k)
        code = undo_take(s, row)
        free_unit(s, row)
    wake(s, row)
    return code


@njit(cache=True)
def cut(s, first, count):
    """Cut rows ``first .. first + count - 1`` and, transitively, all that depends on them. Returns 0 or an error."""
    rows, blk, stack = s.rows, s.blk, s.lists
    top = 0
    touched = -1
    code = 0
    for row in range(first, first + count):
        if rows[row, R_STATUS] < DONE:
            code = max(code, cut_row(s, row))
            stack[L_STACK, top] = row
            top += 1
    while top > 0:
        top -= 1
        row = stack[L_STACK, top]
        b = rows[row, R_BLK]
        if blk[b, B_NEXT] == -2:
            blk[b, B_NEXT] = touched
            touched = b
        blk[b, B_LEFT] -= 1
        at = blk[b, B_SUCC] + rows[row, R_SUCC]
        for e in range(at, at + rows[row, R_NSUCC]):
            to = blk[b, B_ROW] + s.succ[e]
            if rows[to, R_STATUS] < DONE:
                code = max(code, cut_row(s, to))
                stack[L_STACK, top] = to
                top += 1
        if row == blk[b, B_ROW] + blk[b, B_N] - 1:
            blk[b, B_STATUS] = CUT
            blk[b, B_END] = s.sc[NOW]
            e = blk[b, B_DEP]
            blk[b, B_DEP] = -1
            while e >= 0:
                d = s.dep[e, 1]
                for to in range(blk[d, B_ROW], blk[d, B_ROW] + blk[d, B_N]):
                    if rows[to, R_STATUS] < DONE:
                        code = max(code, cut_row(s, to))
                        stack[L_STACK, top] = to
                        top += 1
                nxt = s.dep[e, 0]
                s.dep[e, 0] = s.sc[DEP_FREE]
                s.sc[DEP_FREE] = e
                e = nxt
    purge(s)
    return max(code, return_heirlooms(s, touched))


@njit(cache=True)
def return_heirlooms(s, touched):
    """Undo the takes of done rows whose heir has been cut, in the linked list of blocks `touched`."""
    rows, blk = s.rows, s.blk
    code = 0
    while touched >= 0:
        first = blk[touched, B_ROW]
        for row in range(first, first + blk[touched, B_N]):
            if (
                rows[row, R_HEIR] >= 0
                and rows[row, R_STATUS] == DONE
                and rows[first + rows[row, R_HEIR], R_STATUS] == CUT
            ):
                code = max(code, undo_take(s, row))
        nxt = blk[touched, B_NEXT]
        blk[touched, B_NEXT] = -2
        touched = nxt
    return code


@njit(cache=True)
def purge(s):
    """Drop cut rows from the queues."""
    unit, rows = s.unit, s.rows
    for u in range(unit.shape[0]):
        n = unit[u, U_HEAP]
        m = 0
        for i in range(n):
            key = s.heap[u, i]
            if rows[key & KEY_MASK, R_STATUS] == READY:
                heap_push(s.heap, u, m, key)
                m += 1
        unit[u, U_HEAP] = m
        n = unit[u, U_PARK]
        m = 0
        for i in range(n):
            key = s.park[u, i]
            if rows[key & KEY_MASK, R_STATUS] == READY:
                s.park[u, m] = key
                m += 1
        unit[u, U_PARK] = m
        s.sc[PARKED] -= n - m


@njit(cache=True)
def rate_unit(s, u, rate):
    """From now on the caps of rows on unit `u` are scaled by ``rate / 2**20``."""
    s.unit[u, U_RATE] = rate
    if s.run[X_STATE, u] == IN_FLOW:
        leave_pools(s, u)
        place_flow(s, u)
    elif s.run[X_STATE, u] == HELD:
        place_flow(s, u)


@njit(cache=True)
def rate_pool(s, p, rate):
    """From now on the capacity of pool `p` is scaled by ``rate / 2**20``."""
    s.pool[p, P_RATE] = rate
    refresh_capacity(s, p)


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
