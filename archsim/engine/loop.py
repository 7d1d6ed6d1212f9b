"""The rounds of an instant: complete, notify, dispatch, and the jump to the next instant.

A round lets due rows end their lead or end (ascending id), then those that waited to give; it hands over to Python if
somebody waits; then it offers every idle unit (ascending id) the first row of its queue, ordered by (priority, id),
that can start. Rounds repeat until one changes nothing; then rates are solved and time moves to the next event.
"""

from numba import njit

from archsim.engine.core import (
    ADDRESS,
    AT_LANE,
    AT_LIST,
    AT_ROW,
    AT_SLOT,
    CALL,
    COMPLETE,
    DIRTY,
    DISPATCH,
    DUE,
    DUE_AT,
    E_ROUNDS,
    E_TIME,
    ERR,
    EVENTS,
    FLOW,
    FLUSH,
    FULL,
    HAPPENED,
    IDLE,
    IN_FLOW,
    IN_LEAD,
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
    PHASE,
    POOL_LOG,
    POOL_ROOM,
    POOLS,
    R_FLOW,
    R_LEAD,
    R_LED,
    R_SLOT,
    R_STATUS,
    R_WORK,
    RETRY,
    ROUND,
    ROW_FIELDS,
    SLOT_FIELDS,
    STEP,
    TOP,
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
)
from archsim.engine.dispatch import dispatch
from archsim.engine.pools import begin_flow, leave_pools, log_pools
from archsim.engine.rows import finish, free_slot
from archsim.engine.shares import solve
from archsim.jit import borrower


@borrower
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


@borrower
def gather(m, which, n):
    """Make the `n` rows of list `which` due."""
    due, source = m[AT_LIST] + L_DUE * m[LIST], m[AT_LIST] + which * m[LIST]
    for i in range(n):
        m[due + i] = m[source + i]
    m[DUE] = n
    m[DUE_AT] = 0
    sort_due(m)


@borrower
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


@borrower
def complete(m):
    """End due rows, then the rows that wait to give and now fit, in passes by ascending id until none does."""
    code = end_due(m)
    while code == 0 and m[RETRY] != 0:
        m[RETRY] = 0
        gather(m, L_WAIT, m[WAITS])
        code = end_due(m)
    return code


@borrower
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


@borrower
def next_step(m):
    """Next picosecond if anything moves, else NEVER."""
    k = m[AT_SLOT] & ADDRESS
    for _ in range(m[TOP]):
        if m[k + X_STATE] == IN_LEAD or (m[k + X_STATE] == IN_FLOW and m[k + X_RATE] > 0):
            return m[NOW] + 1
        k += SLOT_FIELDS
    return NEVER


@borrower
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
