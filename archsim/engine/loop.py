"""The rounds of an instant: complete, notify, dispatch, and the jump to the next instant.

A round lets due rows end their lead or end (ascending id), then those that waited to give; it hands over to Python if
somebody waits; then it offers every idle unit (ascending id) the first row of its queue, ordered by (priority, id),
that can start. Rounds repeat until one changes nothing; then rates are solved and time moves to the next event.
"""

from numba import njit

from archsim.engine.core import (
    ADDRESS,
    AT_HEAP,
    AT_LANE,
    AT_LIST,
    AT_PARK,
    AT_POOL,
    AT_ROW,
    AT_SLOT,
    AT_STORE,
    AT_UNIT,
    CALL,
    COMPLETE,
    CURSOR,
    DIRTY,
    DISPATCH,
    DUE,
    DUE_AT,
    E_ROUNDS,
    E_TAKE,
    E_TIME,
    ERR,
    EVENTS,
    FLOW,
    FLUSH,
    FULL,
    GROW_RUN,
    HAPPENED,
    IDLE,
    IN_FLOW,
    IN_LEAD,
    KEY_MASK,
    L_DUE,
    L_WAIT,
    L_ZERO,
    LEAD,
    LEVEL_LOG,
    LEVEL_ROOM,
    LIST,
    MAX_PS,
    MAX_ROUNDS,
    NEVER,
    NOTIFY,
    NOW,
    P_CLAIM,
    PARKED,
    PHASE,
    POOL_FIELDS,
    POOL_LOG,
    POOL_ROOM,
    POOLS,
    QUEUE,
    R_CLAIM,
    R_FLOW,
    R_LEAD,
    R_LED,
    R_MODE,
    R_SLOT,
    R_STATUS,
    R_STORE,
    R_TAKE,
    R_WORK,
    RETRY,
    ROUND,
    ROW_FIELDS,
    S_CAP,
    S_LEVEL,
    SLOT_FIELDS,
    SLOTS,
    STEP,
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
    UNTIL,
    WAITS,
    WANT,
    WOKEN,
    X_LAST,
    X_RATE,
    X_REM,
    X_ROW,
    X_STATE,
    ZEROS,
    heap_pop,
)
from archsim.engine.pools import begin_flow, leave_pools, log_pools
from archsim.engine.rows import finish, free_slot, start, store_error
from archsim.engine.shares import solve


@njit(cache=True)
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


@njit(cache=True)
def park(m, u, at, key):
    """Insert `key` into the ascending list of unit `u`'s blocked rows at address `at`."""
    i = m[u + U_PARK]
    while i > 0 and m[at + i - 1] > key:
        m[at + i] = m[at + i - 1]
        i -= 1
    m[at + i] = key
    m[u + U_PARK] += 1
    m[PARKED] += 1


@njit(cache=True)
def unpark(m, u, at, i):
    """Remove entry `i` from the list of unit `u`'s blocked rows at address `at`."""
    m[u + U_PARK] -= 1
    m[PARKED] -= 1
    for j in range(at + i, at + m[u + U_PARK]):
        m[j] = m[j + 1]


@njit(cache=True)
def take_ready(m, u, heap):
    """Remove the first row of unit `u`'s queue at address `heap`."""
    heap_pop(m, heap, m[u + U_HEAP])
    m[u + U_HEAP] -= 1


@njit(cache=True)
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


@njit(cache=True)
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


@njit(cache=True)
def sort_due(m):
    """Order the due rows by id (they come nearly sorted)."""
    at = (m[AT_LIST] + L_DUE * m[LIST]) & ADDRESS
    for i in range(at + 1, at + m[DUE]):
        row = m[i]
        j = i
        while j > at and m[j - 1] > row:
            m[j] = m[j - 1]
            j -= 1
        m[j] = row


@njit(cache=True)
def gather(m, which, n):
    """Make the `n` rows of list `which` due."""
    due, source = m[AT_LIST] + L_DUE * m[LIST], m[AT_LIST] + which * m[LIST]
    for i in range(n):
        m[due + i] = m[source + i]
    m[DUE] = n
    m[DUE_AT] = 0
    sort_due(m)


@njit(cache=True)
def end_due(m):
    """Let due rows end their lead or end, by ascending id."""
    while m[DUE_AT] < m[DUE]:
        if m[FULL] != 0 and m[LEVEL_LOG] + 4 > m[LEVEL_ROOM]:
            return FLUSH
        row = m[m[AT_LIST] + L_DUE * m[LIST] + m[DUE_AT]]
        m[DUE_AT] += 1
        r = (m[AT_ROW] + row * ROW_FIELDS) & ADDRESS
        status = m[r + R_STATUS]
        k = (m[AT_SLOT] + m[r + R_SLOT] * SLOT_FIELDS) & ADDRESS
        if status == LEAD and m[r + R_SLOT] >= 0:
            m[EVENTS] += 1
            m[HAPPENED] = 1
            m[r + R_FLOW] = m[NOW]
            m[r + R_LED] = m[r + R_LEAD]
            if m[r + R_WORK] > 0:
                begin_flow(m, k)
                continue
            free_slot(m, r)
        elif status == FLOW:
            leave_pools(m, k)
            free_slot(m, r)
        code = finish(m, row)
        if code != 0:
            return code
    return m[ERR]


@njit(cache=True)
def complete(m):
    """End due rows, then the rows that wait to give and now fit, in passes by ascending id until none does."""
    code = end_due(m)
    while code == 0 and m[RETRY] != 0:
        m[RETRY] = 0
        gather(m, L_WAIT, m[WAITS])
        code = end_due(m)
    return code


@njit(cache=True)
def next_event(m):
    """Earliest time at which a lead or a row ends (NEVER if none), with the rows due then in the list."""
    times = m[AT_LANE] & ADDRESS
    top = (m[TOP] + 15) & ADDRESS & ~15
    t = NEVER
    for i in range(top):
        t = min(t, m[times + i])
    n = 0
    last = 0
    for i in range(top):
        due = m[times + i] == t
        n += due
        last = max(last, i if due else 0)
    if t == NEVER:
        n = 0
    at = (m[AT_LIST] + L_DUE * m[LIST]) & ADDRESS
    if n == 1:
        m[at] = m[m[AT_SLOT] + last * SLOT_FIELDS + X_ROW]
    elif n > 1:
        for i in range(last + 1):
            if m[times + i] == t:
                m[at] = m[m[AT_SLOT] + i * SLOT_FIELDS + X_ROW]
                at = (at + 1) & ADDRESS
    m[DUE] = n
    m[DUE_AT] = 0
    return t


@njit(cache=True)
def next_step(m):
    """Next picosecond if anything moves, else NEVER."""
    k = m[AT_SLOT] & ADDRESS
    for _ in range(m[TOP]):
        if m[k + X_STATE] == IN_LEAD or (m[k + X_STATE] == IN_FLOW and m[k + X_RATE] > 0):
            return m[NOW] + 1
        k += SLOT_FIELDS
    return NEVER


@njit(cache=True)
def step(m):
    """Move every running row by one picosecond; those that end are due."""
    due = (m[AT_LIST] + L_DUE * m[LIST]) & ADDRESS
    n = 0
    k = m[AT_SLOT] - SLOT_FIELDS
    for _ in range(m[TOP]):
        k += SLOT_FIELDS
        if m[k + X_STATE] == IN_LEAD:
            m[k + X_REM] -= 1
        elif m[k + X_STATE] == IN_FLOW:
            m[k + X_REM] = max(m[k + X_REM] - m[k + X_RATE], 0)
            m[k + X_LAST] += 1
        else:
            continue
        if m[k + X_REM] == 0:
            m[due + n] = m[k + X_ROW]
            n += 1
    m[DUE] = n
    m[DUE_AT] = 0


@njit(cache=True)
def advance(m, stop_ps, stop_round, until_ps):
    """Run until Python is needed.

    Parameters
    ----------
    m : int64[:]
        The engine's memory.
    stop_ps, stop_round : int
        Return NOTIFY in this round of this instant (timers, replayed actions); NEVER for none.
    until_ps : int
        Return UNTIL when everything up to and at this time has happened.

    Returns
    -------
    int
        NOTIFY (after a complete phase; the next call continues with dispatch), IDLE (nothing will ever happen),
        UNTIL, a request (GROW_RUN, FLUSH; call again after it is served) or an error ``E_*``.
    """
    while True:
        if m[PHASE] == COMPLETE:
            if m[DUE_AT] < m[DUE] or m[RETRY] != 0:
                code = complete(m)
                if code != 0:
                    return code
            m[PHASE] = DISPATCH
            if m[WOKEN] > 0 or m[CALL] != 0 or (m[NOW] == stop_ps and m[ROUND] >= stop_round):
                m[CALL] = 0
                return NOTIFY
        if m[WANT] != 0:
            code = dispatch(m)
            if code != 0:
                return code
        if m[HAPPENED] != 0:
            m[HAPPENED] = 0
            m[ROUND] += 1
            if m[ROUND] > MAX_ROUNDS:
                return E_ROUNDS
            if m[ZEROS] > 0:
                gather(m, L_ZERO, m[ZEROS])
                m[ZEROS] = 0
            m[PHASE] = COMPLETE
            continue
        if m[NOW] == stop_ps and m[ROUND] < stop_round:
            m[ROUND] = stop_round
            return NOTIFY
        if m[DIRTY] != 0 or m[STEP] != 0:
            if m[FULL] != 0 and m[POOL_LOG] + m[POOLS] > m[POOL_ROOM]:
                return FLUSH
            solve(m)
            if m[FULL] != 0:
                log_pools(m)
        t = next_step(m) if m[STEP] != 0 else next_event(m)
        nearest = min(t, stop_ps)
        if nearest < t or nearest > until_ps:
            m[DUE] = 0
        if nearest > until_ps:
            if m[NOW] < until_ps:
                m[NOW] = until_ps
                m[ROUND] = 0
            return UNTIL
        if nearest == NEVER:
            return IDLE
        if nearest >= MAX_PS:
            return E_TIME
        m[NOW] = nearest
        m[ROUND] = 0
        m[PHASE] = COMPLETE
        if m[STEP] != 0 and nearest == t:
            step(m)
        sort_due(m)
