"""The life of a row: ready, started, ended; its stores, unit, claim and successors."""

from archsim.engine.core import (
    ADDRESS,
    AT_ARC,
    AT_BLOCK,
    AT_DEP,
    AT_HEAP,
    AT_LEVEL_LOG,
    AT_LIST,
    AT_POOL,
    AT_ROW,
    AT_SLOT,
    AT_STORE,
    AT_UNIT,
    B_DEP,
    B_END,
    B_LEFT,
    B_N,
    B_NROOT,
    B_ROOT,
    B_ROW,
    B_STATUS,
    B_SUCC,
    B_WAIT,
    BLOCK_FIELDS,
    CUT,
    DEP_FREE,
    DONE,
    E_GIVE,
    E_UNDO,
    EMPTY,
    ENDWAIT,
    ERR_A,
    ERR_ROW,
    EVENTS,
    FULL,
    HAPPENED,
    IN_LEAD,
    KEY_BITS,
    L_WAIT,
    L_WOKEN,
    L_ZERO,
    LEAD,
    LEVEL_LOG,
    LIST,
    NEVER,
    NOW,
    PENDING,
    POOL_FIELDS,
    QUEUE,
    R_BLK,
    R_CLAIM,
    R_DONE,
    R_END,
    R_FLOW,
    R_GID,
    R_GIVE,
    R_HEIR,
    R_LEAD,
    R_MODE,
    R_NSUCC,
    R_PEND,
    R_PRIO,
    R_SLOT,
    R_START,
    R_STATUS,
    R_STORE,
    R_SUCC,
    R_TAKE,
    R_UNIT,
    R_WATCH,
    R_WORK,
    READY,
    ROW_FIELDS,
    S_CAP,
    S_LEVEL,
    SLOT_FIELDS,
    STORE_FIELDS,
    TOP,
    U_BUSY,
    U_HEAP,
    U_NEED,
    U_ROW,
    U_WANT,
    UNDONE,
    UNIT_FIELDS,
    UNITS,
    WAITS,
    WANT,
    WOKEN,
    X_LANE,
    X_REM,
    X_ROW,
    X_STATE,
    ZEROS,
    heap_push,
    touch,
)
from archsim.engine.pools import begin_flow, claim_pool, release_claim
from archsim.jit import borrower


@borrower
def make_ready(m, row):
    """Put a row whose predecessors are done into its unit's queue, ordered by (priority, id)."""
    r = (m[AT_ROW] + row * ROW_FIELDS) & ADDRESS
    i = m[r + R_UNIT]
    if i < 0:
        i = m[UNITS]
    u = (AT_UNIT + i * UNIT_FIELDS) & ADDRESS
    m[r + R_STATUS] = READY
    heap_push(m, m[AT_HEAP] + i * m[QUEUE], m[u + U_HEAP], (m[r + R_PRIO] << KEY_BITS) + row)
    m[u + U_HEAP] += 1
    m[u + U_WANT] = 1
    m[WANT] = 1


@borrower
def change_level(m, store, delta, row_id):
    """Add `delta` to a store's level, for the row with global id `row_id`; the caller has checked the range."""
    if delta == 0:
        return
    at = (m[AT_STORE] + store * STORE_FIELDS) & ADDRESS
    m[at + S_LEVEL] += delta
    if m[FULL] != 0:
        line = (m[AT_LEVEL_LOG] + 4 * m[LEVEL_LOG]) & ADDRESS
        m[line] = m[NOW]
        m[line + 1] = store
        m[line + 2] = m[at + S_LEVEL]
        m[line + 3] = row_id
        m[LEVEL_LOG] += 1
    touch(m, store)


@borrower
def misfit(m, r, field, sign):
    """Which store reference (0 or 1) of the row at `r` would leave its range by ``sign * field``, or -1."""
    for j in range(2):
        store = m[r + R_STORE + j]
        if store >= 0:
            at = (m[AT_STORE] + store * STORE_FIELDS) & ADDRESS
            level = m[at + S_LEVEL] + sign * m[r + field + j]
            if level < 0 or level > m[at + S_CAP]:
                return j
    return -1


@borrower
def apply_change(m, r, field, sign):
    """Change the levels of the stores of the row at `r` by ``sign * field``."""
    for j in range(2):
        store = m[r + R_STORE + j]
        if store >= 0:
            change_level(m, store, sign * m[r + field + j], m[r + R_GID])


@borrower
def store_error(m, code, row, j):
    """Record which store of `row` failed; returns `code`."""
    m[ERR_ROW] = row
    m[ERR_A] = m[m[AT_ROW] + row * ROW_FIELDS + R_STORE + j]
    return code


@borrower
def undo_take(m, row):
    """Give back what `row` took at its start (once). Returns 0 or an error."""
    r = (m[AT_ROW] + row * ROW_FIELDS) & ADDRESS
    if m[r + R_WATCH] & UNDONE != 0:
        return 0
    m[r + R_WATCH] |= UNDONE
    j = misfit(m, r, R_TAKE, -1)
    if j >= 0:
        return store_error(m, E_UNDO, row, j)
    apply_change(m, r, R_TAKE, -1)
    return 0


@borrower
def free_slot(m, r):
    """Empty the slot of the row at `r`, if it has one."""
    r &= ADDRESS
    if m[r + R_SLOT] < 0:
        return
    k = (m[AT_SLOT] + m[r + R_SLOT] * SLOT_FIELDS) & ADDRESS
    m[r + R_SLOT] = -1
    m[k + X_STATE] = EMPTY
    m[m[k + X_LANE] & ADDRESS] = NEVER
    m[k + X_ROW] = -1
    while m[TOP] > m[UNITS] and m[m[AT_SLOT] + (m[TOP] - 1) * SLOT_FIELDS + X_STATE] == EMPTY:
        m[TOP] -= 1


@borrower
def free_unit(m, r):
    """The row at `r` ends (done or cut): book its unit's time and free the unit."""
    r &= ADDRESS
    if m[r + R_UNIT] >= 0:
        u = (AT_UNIT + m[r + R_UNIT] * UNIT_FIELDS) & ADDRESS
        m[u + U_ROW] = -1
        m[u + U_BUSY] += m[NOW] - m[r + R_START]
        m[u + U_NEED] -= 1
        m[u + U_WANT] = 1
        m[WANT] = 1
    else:
        m[AT_UNIT + m[UNITS] * UNIT_FIELDS + U_NEED] -= 1


@borrower
def wake(m, row):
    """Report `row` to Python if somebody waits for it."""
    if m[m[AT_ROW] + row * ROW_FIELDS + R_WATCH] & 1 != 0:
        m[m[AT_LIST] + L_WOKEN * m[LIST] + m[WOKEN]] = row
        m[WOKEN] += 1


@borrower
def drop_wait(m, row):
    """Take `row` off the list of rows that wait to give."""
    at = (m[AT_LIST] + L_WAIT * m[LIST]) & ADDRESS
    last = m[WAITS] - 1
    for i in range(last + 1):
        if m[at + i] == row:
            m[at + i] = m[at + last]
            m[WAITS] = last
            return


@borrower
def give(m, row):
    """Apply the store changes of the end of `row`: 1 done, 0 it waits in ENDWAIT, or an error."""
    r = (m[AT_ROW] + row * ROW_FIELDS) & ADDRESS
    j = misfit(m, r, R_GIVE, 1)
    if j >= 0:
        if m[r + R_MODE + j] & 2 != 0:
            return store_error(m, E_GIVE, row, j)
        if m[r + R_STATUS] != ENDWAIT:
            m[r + R_STATUS] = ENDWAIT
            m[m[AT_LIST] + L_WAIT * m[LIST] + m[WAITS]] = row
            m[WAITS] += 1
            m[HAPPENED] = 1
        return 0
    if m[r + R_STATUS] == ENDWAIT:
        drop_wait(m, row)
    apply_change(m, r, R_GIVE, 1)
    return 1


@borrower
def finish(m, row):
    """End `row` now: stores, unit, claim, successors, block. Returns 0 or an error; the row may wait in ENDWAIT."""
    r = (m[AT_ROW] + row * ROW_FIELDS) & ADDRESS
    if m[r + R_STORE] >= 0 or m[r + R_STORE + 1] >= 0:
        code = give(m, row)
        if code != 1:
            return code
    m[r + R_STATUS] = DONE
    m[r + R_END] = m[NOW]
    m[r + R_DONE] = m[r + R_WORK]
    m[HAPPENED] = 1
    m[EVENTS] += 1
    free_unit(m, r)
    if m[r + R_CLAIM] >= 0:
        release_claim(m, m[AT_POOL] + m[r + R_CLAIM] * POOL_FIELDS)
    b = (m[AT_BLOCK] + m[r + R_BLK] * BLOCK_FIELDS) & ADDRESS
    first = m[b + B_ROW]
    if m[r + R_HEIR] >= 0 and m[m[AT_ROW] + (first + m[r + R_HEIR]) * ROW_FIELDS + R_STATUS] == CUT:
        code = undo_take(m, row)
        if code != 0:
            return code
    at = (m[AT_ARC] + m[b + B_SUCC] + m[r + R_SUCC]) & ADDRESS
    for e in range(at, at + m[r + R_NSUCC]):
        to = first + m[e]
        t = (m[AT_ROW] + to * ROW_FIELDS) & ADDRESS
        m[t + R_PEND] -= 1
        if m[t + R_PEND] == 0 and m[t + R_STATUS] == PENDING:
            make_ready(m, to)
    m[b + B_LEFT] -= 1
    if row == first + m[b + B_N] - 1:
        m[b + B_STATUS] = DONE
        m[b + B_END] = m[NOW]
        release_dependents(m, b)
    wake(m, row)
    return 0


@borrower
def release_dependents(m, b):
    """The block at `b` is done: blocks that waited for it alone may start."""
    e = m[b + B_DEP]
    m[b + B_DEP] = -1
    while e >= 0:
        at = (m[AT_DEP] + 2 * e) & ADDRESS
        line = m[at + 1]
        d = (m[AT_BLOCK] + line * BLOCK_FIELDS) & ADDRESS
        m[d + B_WAIT] -= 1
        if m[d + B_WAIT] == 0:
            release_roots(m, line)
        after = m[at]
        m[at] = m[DEP_FREE]
        m[DEP_FREE] = e
        e = after


@borrower
def release_roots(m, line):
    """Make the rows of block number `line` that have no predecessor ready."""
    b = (m[AT_BLOCK] + line * BLOCK_FIELDS) & ADDRESS
    at = (m[AT_ARC] + m[b + B_ROOT]) & ADDRESS
    for e in range(at, at + m[b + B_NROOT]):
        row = m[b + B_ROW] + m[e]
        if m[m[AT_ROW] + row * ROW_FIELDS + R_STATUS] == PENDING:
            make_ready(m, row)


@borrower
def free_place(m):
    """Number of an empty slot for a row without a unit."""
    i = m[UNITS]
    while i < m[TOP] and m[m[AT_SLOT] + i * SLOT_FIELDS + X_STATE] != EMPTY:
        i += 1
    m[TOP] = max(m[TOP], i + 1)
    return i


@borrower
def start(m, row):
    """Start `row` now: stores, claim, unit, then its lead."""
    r = (m[AT_ROW] + row * ROW_FIELDS) & ADDRESS
    now = m[NOW]
    m[HAPPENED] = 1
    m[r + R_START] = now
    if m[r + R_STORE] >= 0 or m[r + R_STORE + 1] >= 0:
        apply_change(m, r, R_TAKE, 1)
    if m[r + R_CLAIM] >= 0:
        claim_pool(m, m[AT_POOL] + m[r + R_CLAIM] * POOL_FIELDS, row)
    i = m[r + R_UNIT]
    if i >= 0:
        m[AT_UNIT + i * UNIT_FIELDS + U_ROW] = row
    lead = m[r + R_LEAD]
    m[r + R_STATUS] = LEAD
    if lead == 0:
        m[r + R_FLOW] = now
        if m[r + R_WORK] == 0:
            m[m[AT_LIST] + L_ZERO * m[LIST] + m[ZEROS]] = row
            m[ZEROS] += 1
            return
    if i < 0:
        i = free_place(m)
    k = (m[AT_SLOT] + i * SLOT_FIELDS) & ADDRESS
    m[r + R_SLOT] = i
    m[k + X_ROW] = row
    if lead == 0:
        begin_flow(m, k)
    else:
        m[k + X_STATE] = IN_LEAD
        m[m[k + X_LANE] & ADDRESS] = now + lead
        m[k + X_REM] = lead
