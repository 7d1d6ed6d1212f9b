"""Cutting rows: they end with the work done so far, give back what they hold, and what depends on them goes too."""

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
    AT_UNIT,
    B_DEP,
    B_END,
    B_LEFT,
    B_N,
    B_NEXT,
    B_ROW,
    B_STATUS,
    B_SUCC,
    BLOCK_FIELDS,
    CUT,
    CUTS,
    DEP_FREE,
    DONE,
    ENDWAIT,
    FLOW,
    IN_FLOW,
    KEY_MASK,
    L_STACK,
    LEAD,
    LIST,
    NOW,
    PARKED,
    POOL_FIELDS,
    QUEUE,
    R_BLK,
    R_CLAIM,
    R_DONE,
    R_END,
    R_HEIR,
    R_LED,
    R_NSUCC,
    R_SLOT,
    R_START,
    R_STATUS,
    R_SUCC,
    R_UNIT,
    R_WORK,
    READY,
    ROW_FIELDS,
    SLOT_FIELDS,
    U_HEAP,
    U_NEED,
    U_PARK,
    UNIT_FIELDS,
    UNITS,
    X_REM,
    X_STATE,
    heap_push,
)
from archsim.engine.pools import leave_pools, release_claim
from archsim.engine.rows import drop_wait, free_slot, free_unit, undo_take, wake
from archsim.jit import borrower


@borrower
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


@borrower
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


@borrower
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


@borrower
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


@borrower
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
