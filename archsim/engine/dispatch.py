"""Dispatch: every idle unit starts the first row of its queue that can start; rows that cannot are parked."""

from archsim.engine.core import (
    ADDRESS,
    AT_HEAP,
    AT_PARK,
    AT_POOL,
    AT_ROW,
    AT_STORE,
    AT_UNIT,
    CURSOR,
    E_TAKE,
    ERR,
    FLUSH,
    FULL,
    GROW_RUN,
    KEY_MASK,
    LEVEL_LOG,
    LEVEL_ROOM,
    P_CLAIM,
    PARKED,
    POOL_FIELDS,
    QUEUE,
    R_CLAIM,
    R_MODE,
    R_STORE,
    R_TAKE,
    ROW_FIELDS,
    S_CAP,
    S_LEVEL,
    SLOTS,
    STORE_FIELDS,
    STORES,
    TOP,
    U_HEAP,
    U_MASK,
    U_PARK,
    U_RECHECK,
    U_ROW,
    U_WANT,
    UNIT_FIELDS,
    UNITS,
    WANT,
    heap_pop,
)
from archsim.engine.rows import start, store_error
from archsim.jit import borrower


@borrower
def blocked_by(m, r):
    """Resource that keeps the ready row at `r` from starting: -1 none, -2 - j: store reference j, which shall raise.

    What it would wait for comes first, so that whether it raises does not depend on when it is looked at.
    """
    p = m[r + R_CLAIM]
    if p >= 0 and m[m[AT_POOL] + p * POOL_FIELDS + P_CLAIM] >= 0:
        return m[STORES] + p
    resource = -1
    for j in range(2):
        store = m[r + R_STORE + j]
        if store >= 0:
            at = (m[AT_STORE] + store * STORE_FIELDS) & ADDRESS
            level = m[at + S_LEVEL] + m[r + R_TAKE + j]
            if level < 0 or level > m[at + S_CAP]:
                if m[r + R_MODE + j] & 1 == 0:
                    return store
                if resource == -1:
                    resource = -2 - j
    return resource


@borrower
def park(m, u, at, key):
    """Insert `key` into the ascending list of unit `u`'s blocked rows at address `at`."""
    i = m[u + U_PARK]
    while i > 0 and m[at + i - 1] > key:
        m[at + i] = m[at + i - 1]
        i -= 1
    m[at + i] = key
    m[u + U_PARK] += 1
    m[PARKED] += 1


@borrower
def unpark(m, u, at, i):
    """Remove entry `i` from the list of unit `u`'s blocked rows at address `at`."""
    m[u + U_PARK] -= 1
    m[PARKED] -= 1
    for j in range(at + i, at + m[u + U_PARK]):
        m[j] = m[j + 1]


@borrower
def take_ready(m, u, heap):
    """Remove the first row of unit `u`'s queue at address `heap`."""
    heap_pop(m, heap, m[u + U_HEAP])
    m[u + U_HEAP] -= 1


@borrower
def serve(m, i):
    """Start the first startable row of queue `i` (all of them in the last queue, which has no unit).

    Rows that cannot start are parked in order and looked at again only when what blocked them has changed.
    """
    u = (AT_UNIT + i * UNIT_FIELDS) & ADDRESS
    heap, parked = (m[AT_HEAP] + i * m[QUEUE]) & ADDRESS, (m[AT_PARK] + i * m[QUEUE]) & ADDRESS
    many = i == m[UNITS]
    waiting = m[u + U_HEAP] + m[u + U_PARK]
    if many and m[TOP] + waiting > m[SLOTS]:
        return GROW_RUN
    if m[FULL] != 0 and m[LEVEL_LOG] + 2 * waiting > m[LEVEL_ROOM]:
        return FLUSH
    everything = m[u + U_RECHECK] != 0
    m[u + U_RECHECK] = 0
    mask = 0 if everything else m[u + U_MASK]
    at = 0 if everything else m[u + U_PARK]
    while True:
        old = at < m[u + U_PARK] and (m[u + U_HEAP] == 0 or m[parked + at] < m[heap])
        if not old and m[u + U_HEAP] == 0:
            break
        key = m[parked + at] if old else m[heap]
        row = key & KEY_MASK
        r = (m[AT_ROW] + row * ROW_FIELDS) & ADDRESS
        resource = -1
        if m[r + R_STORE] >= 0 or m[r + R_STORE + 1] >= 0 or m[r + R_CLAIM] >= 0:
            resource = blocked_by(m, r)
        if resource <= -2:
            return store_error(m, E_TAKE, row, -2 - resource)
        if resource >= 0:
            mask |= 1 << (resource % 60)
            if not old:
                take_ready(m, u, heap)
                park(m, u, parked, key)
            at += 1
            continue
        if old:
            unpark(m, u, parked, at)
        else:
            take_ready(m, u, heap)
        m[u + U_MASK] = mask
        start(m, row)
        if not many:
            if at < m[u + U_PARK]:
                m[u + U_RECHECK] = 1
            break
    m[u + U_MASK] = mask
    return 0


@borrower
def dispatch(m):
    """Offer every idle unit, by ascending id, its next row."""
    if m[CURSOR] == 0:
        m[WANT] = 0
    u = (AT_UNIT + m[CURSOR] * UNIT_FIELDS) & ADDRESS
    for i in range(m[CURSOR], m[UNITS] + 1):
        if m[u + U_WANT] != 0:
            m[u + U_WANT] = 0
            if m[u + U_ROW] < 0:
                code = serve(m, i)
                if code != 0:
                    m[u + U_WANT] = 1
                    m[WANT] = 1
                    m[CURSOR] = i
                    return code
        u = (u + UNIT_FIELDS) & ADDRESS
    m[CURSOR] = 0
    return m[ERR]
