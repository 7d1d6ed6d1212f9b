"""The rounds of an instant: complete, notify, dispatch, and the jump to the next instant.

A round lets due rows end their lead or end (ascending id), then hands over to Python if somebody waits, then offers
every idle unit (ascending id) the first row of its queue, ordered by (priority, id), that can start. Rounds
repeat until one changes nothing; then rates are solved and time moves to the next event.
"""

from numba import njit

from archsim.engine.core import (
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
    CALL,
    COMPLETE,
    CURSOR,
    CUT,
    DEP_FREE,
    DIRTY,
    DISPATCH,
    DONE,
    DUE,
    DUE_AT,
    E_GIVE,
    E_ROUNDS,
    E_TAKE,
    E_TIME,
    E_UNDO,
    EMPTY,
    ENDWAIT,
    ERR,
    ERR_A,
    ERR_ROW,
    EVENTS,
    FLOW,
    FLUSH,
    FULL,
    GROW_RUN,
    HAPPENED,
    IDLE,
    IN_FLOW,
    IN_LEAD,
    KEY_BITS,
    KEY_MASK,
    L_DUE,
    L_WAIT,
    L_WOKEN,
    L_ZERO,
    LEAD,
    LEVEL_LOG,
    MAX_PS,
    MAX_ROUNDS,
    NEVER,
    NOTIFY,
    NOW,
    P_CLAIM,
    PARKED,
    PENDING,
    PHASE,
    POOL_LOG,
    R_BLK,
    R_CLAIM,
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
    RETRY,
    ROUND,
    S_CAP,
    S_LEVEL,
    STEP,
    TOP,
    U_BUSY,
    U_HEAP,
    U_MASK,
    U_NEED,
    U_PARK,
    U_RECHECK,
    U_ROW,
    U_WANT,
    UNDONE,
    UNTIL,
    WAITS,
    WANT,
    WOKEN,
    X_LAST,
    X_RATE,
    X_REM,
    X_ROW,
    X_STATE,
    X_T,
    ZEROS,
    begin_flow,
    claim_pool,
    heap_pop,
    heap_push,
    leave_pools,
    log_pools,
    release_claim,
    solve,
    touch,
)


@njit(cache=True)
def make_ready(s, row):
    """Put a row whose predecessors are done into its unit's queue, ordered by (priority, id)."""
    u = s.rows[row, R_UNIT]
    if u < 0:
        u = s.unit.shape[0] - 1
    s.rows[row, R_STATUS] = READY
    heap_push(s.heap, u, s.unit[u, U_HEAP], (s.rows[row, R_PRIO] << KEY_BITS) + row)
    s.unit[u, U_HEAP] += 1
    s.unit[u, U_WANT] = 1
    s.sc[WANT] = 1


@njit(cache=True)
def change_level(s, store, delta, row):
    """Add `delta` to a store's level; the caller has checked the range."""
    if delta == 0:
        return
    sc = s.sc
    s.store[store, S_LEVEL] += delta
    if sc[FULL] != 0:
        n = sc[LEVEL_LOG]
        s.llog[n, 0] = sc[NOW]
        s.llog[n, 1] = store
        s.llog[n, 2] = s.store[store, S_LEVEL]
        s.llog[n, 3] = s.rows[row, R_GID] if row >= 0 else -1
        sc[LEVEL_LOG] = n + 1
    touch(s, store)


@njit(cache=True)
def misfit(s, row, column):
    """Index 0 or 1 of the store reference of `row` that ``column`` (R_TAKE, R_GIVE) would push out of range, or -1."""
    rows = s.rows
    for j in range(2):
        st = rows[row, R_STORE + j]
        if st >= 0:
            level = s.store[st, S_LEVEL] + rows[row, column + j]
            if level < 0 or level > s.store[st, S_CAP]:
                return j
    return -1


@njit(cache=True)
def store_error(s, code, row, j):
    """Record which store of `row` failed; returns `code`."""
    s.sc[ERR_ROW] = row
    s.sc[ERR_A] = s.rows[row, R_STORE + j]
    return code


@njit(cache=True)
def undo_take(s, row):
    """Give back what `row` took at its start (once)."""
    rows = s.rows
    if rows[row, R_WATCH] & UNDONE != 0:
        return 0
    rows[row, R_WATCH] |= UNDONE
    for j in range(2):
        st = rows[row, R_STORE + j]
        if st >= 0:
            level = s.store[st, S_LEVEL] - rows[row, R_TAKE + j]
            if level < 0 or level > s.store[st, S_CAP]:
                return store_error(s, E_UNDO, row, j)
            change_level(s, st, -rows[row, R_TAKE + j], row)
    return 0


@njit(cache=True)
def free_slot(s, k):
    """Empty slot `k`."""
    run, sc = s.run, s.sc
    run[X_STATE, k] = EMPTY
    run[X_T, k] = NEVER
    run[X_ROW, k] = -1
    low = s.unit.shape[0] - 1
    while sc[TOP] > low and run[X_STATE, sc[TOP] - 1] == EMPTY:
        sc[TOP] -= 1


@njit(cache=True)
def free_unit(s, row):
    """Row ends (done or cut): book its unit's time, free the unit, release its claim."""
    rows, unit, sc = s.rows, s.unit, s.sc
    u = rows[row, R_UNIT]
    if u >= 0:
        unit[u, U_ROW] = -1
        unit[u, U_BUSY] += sc[NOW] - rows[row, R_START]
        unit[u, U_NEED] -= 1
        unit[u, U_WANT] = 1
        sc[WANT] = 1
    else:
        unit[unit.shape[0] - 1, U_NEED] -= 1
    if rows[row, R_CLAIM] >= 0:
        release_claim(s, rows[row, R_CLAIM])


@njit(cache=True)
def wake(s, row):
    """Report `row` to Python if somebody waits for it."""
    if s.rows[row, R_WATCH] & 1 != 0:
        s.lists[L_WOKEN, s.sc[WOKEN]] = row
        s.sc[WOKEN] += 1


@njit(cache=True)
def drop_wait(s, row):
    """Take `row` off the list of rows that wait to give."""
    sc, lists = s.sc, s.lists
    n = sc[WAITS]
    for i in range(n):
        if lists[L_WAIT, i] == row:
            lists[L_WAIT, i] = lists[L_WAIT, n - 1]
            sc[WAITS] = n - 1
            return


@njit(cache=True)
def release_roots(s, b):
    """Make the rows of block `b` that have no predecessor ready."""
    first = s.blk[b, B_ROW]
    for e in range(s.blk[b, B_ROOT], s.blk[b, B_ROOT] + s.blk[b, B_NROOT]):
        if s.rows[first + s.succ[e], R_STATUS] == PENDING:
            make_ready(s, first + s.succ[e])


@njit(cache=True)
def release_dependents(s, b):
    """Block `b` is done: blocks that waited for it alone may start."""
    e = s.blk[b, B_DEP]
    s.blk[b, B_DEP] = -1
    while e >= 0:
        d = s.dep[e, 1]
        s.blk[d, B_WAIT] -= 1
        if s.blk[d, B_WAIT] == 0:
            release_roots(s, d)
        nxt = s.dep[e, 0]
        s.dep[e, 0] = s.sc[DEP_FREE]
        s.sc[DEP_FREE] = e
        e = nxt


@njit(cache=True)
def finish(s, row):
    """End `row` now: stores, unit, claim, successors, block. Returns 0, or an error code; may leave it in ENDWAIT."""
    rows, sc = s.rows, s.sc
    j = misfit(s, row, R_GIVE)
    if j >= 0:
        if rows[row, R_MODE + j] & 2 != 0:
            return store_error(s, E_GIVE, row, j)
        if rows[row, R_STATUS] != ENDWAIT:
            rows[row, R_STATUS] = ENDWAIT
            s.lists[L_WAIT, sc[WAITS]] = row
            sc[WAITS] += 1
            sc[HAPPENED] = 1
        return 0
    if rows[row, R_STATUS] == ENDWAIT:
        drop_wait(s, row)
    rows[row, R_STATUS] = DONE
    rows[row, R_END] = sc[NOW]
    rows[row, R_DONE] = rows[row, R_WORK]
    sc[HAPPENED] = 1
    sc[EVENTS] += 1
    for j in range(2):
        if rows[row, R_STORE + j] >= 0:
            change_level(s, rows[row, R_STORE + j], rows[row, R_GIVE + j], row)
    free_unit(s, row)
    b = rows[row, R_BLK]
    first = s.blk[b, B_ROW]
    if rows[row, R_HEIR] >= 0 and rows[first + rows[row, R_HEIR], R_STATUS] == CUT:
        code = undo_take(s, row)
        if code != 0:
            return code
    at = s.blk[b, B_SUCC] + rows[row, R_SUCC]
    for e in range(at, at + rows[row, R_NSUCC]):
        to = first + s.succ[e]
        rows[to, R_PEND] -= 1
        if rows[to, R_PEND] == 0 and rows[to, R_STATUS] == PENDING:
            make_ready(s, to)
    s.blk[b, B_LEFT] -= 1
    if row == first + s.blk[b, B_N] - 1:
        s.blk[b, B_STATUS] = DONE
        s.blk[b, B_END] = sc[NOW]
        release_dependents(s, b)
    wake(s, row)
    return 0


@njit(cache=True)
def start(s, row):
    """Start `row` now: stores, claim, unit, then its lead."""
    rows, sc, run = s.rows, s.sc, s.run
    now = sc[NOW]
    sc[HAPPENED] = 1
    rows[row, R_START] = now
    for j in range(2):
        if rows[row, R_STORE + j] >= 0:
            change_level(s, rows[row, R_STORE + j], rows[row, R_TAKE + j], row)
    if rows[row, R_CLAIM] >= 0:
        claim_pool(s, rows[row, R_CLAIM], row)
    u = rows[row, R_UNIT]
    if u >= 0:
        s.unit[u, U_ROW] = row
    lead = rows[row, R_LEAD]
    rows[row, R_STATUS] = LEAD
    if lead == 0:
        rows[row, R_FLOW] = now
        if rows[row, R_WORK] == 0:
            s.lists[L_ZERO, sc[ZEROS]] = row
            sc[ZEROS] += 1
            return
    k = u
    if k < 0:
        k = s.unit.shape[0] - 1
        while k < sc[TOP] and run[X_STATE, k] != EMPTY:
            k += 1
        if k == sc[TOP]:
            sc[TOP] += 1
    rows[row, R_SLOT] = k
    run[X_ROW, k] = row
    if lead == 0:
        begin_flow(s, k)
    else:
        run[X_STATE, k] = IN_LEAD
        run[X_T, k] = now + lead
        run[X_REM, k] = lead


@njit(cache=True)
def blocked_by(s, row):
    """Resource that keeps a ready row from starting: -1 none, -2 - j: store reference j, which shall raise."""
    rows = s.rows
    j = misfit(s, row, R_TAKE)
    if j >= 0:
        if rows[row, R_MODE + j] & 1 != 0:
            return -2 - j
        return rows[row, R_STORE + j]
    p = rows[row, R_CLAIM]
    if p >= 0 and s.pool[p, P_CLAIM] >= 0:
        return s.store.shape[0] + p
    return -1


@njit(cache=True)
def serve(s, u):
    """Start the first startable row of queue `u` (all of them in the last queue, which has no unit).

    Rows that cannot start are parked in order and looked at again only when what blocked them has changed.
    """
    unit, sc, heap, park = s.unit, s.sc, s.heap, s.park
    last = unit.shape[0] - 1
    waiting = unit[u, U_HEAP] + unit[u, U_PARK]
    if u == last and last + waiting + sc[TOP] - last > s.run.shape[1]:
        return GROW_RUN
    if sc[FULL] != 0 and sc[LEVEL_LOG] + 2 * waiting > s.llog.shape[0]:
        return FLUSH
    everything = unit[u, U_RECHECK] != 0
    unit[u, U_RECHECK] = 0
    mask = 0 if everything else unit[u, U_MASK]
    i = 0 if everything else unit[u, U_PARK]
    while True:
        n = unit[u, U_PARK]
        parked = i < n and (unit[u, U_HEAP] == 0 or park[u, i] < heap[u, 0])
        if not parked and unit[u, U_HEAP] == 0:
            break
        key = park[u, i] if parked else heap[u, 0]
        row = key & KEY_MASK
        resource = blocked_by(s, row)
        if resource <= -2:
            return store_error(s, E_TAKE, row, -2 - resource)
        if resource >= 0:
            mask |= 1 << (resource % 60)
            if not parked:
                heap_pop(heap, u, unit[u, U_HEAP])
                unit[u, U_HEAP] -= 1
                at = n
                while at > 0 and park[u, at - 1] > key:
                    park[u, at] = park[u, at - 1]
                    at -= 1
                park[u, at] = key
                unit[u, U_PARK] = n + 1
                sc[PARKED] += 1
            i += 1
            continue
        if parked:
            for at in range(i, n - 1):
                park[u, at] = park[u, at + 1]
            unit[u, U_PARK] = n - 1
            sc[PARKED] -= 1
        else:
            heap_pop(heap, u, unit[u, U_HEAP])
            unit[u, U_HEAP] -= 1
        unit[u, U_MASK] = mask
        start(s, row)
        if u != last:
            if i < unit[u, U_PARK]:
                unit[u, U_RECHECK] = 1
            break
    unit[u, U_MASK] = mask
    return 0


@njit(cache=True)
def dispatch(s):
    """Offer every idle unit, by ascending id, its next row."""
    sc, unit = s.sc, s.unit
    last = unit.shape[0] - 1
    if sc[CURSOR] == 0:
        if sc[WANT] == 0:
            return 0
        sc[WANT] = 0
    for u in range(sc[CURSOR], last + 1):
        if unit[u, U_WANT] == 0:
            continue
        unit[u, U_WANT] = 0
        if u < last and unit[u, U_ROW] >= 0:
            continue
        code = serve(s, u)
        if code != 0:
            unit[u, U_WANT] = 1
            sc[WANT] = 1
            sc[CURSOR] = u
            return code
    sc[CURSOR] = 0
    return sc[ERR]


@njit(cache=True)
def sort_due(s):
    """Order the due rows by id (they come nearly sorted)."""
    due = s.lists
    for i in range(1, s.sc[DUE]):
        row = due[L_DUE, i]
        j = i
        while j > 0 and due[L_DUE, j - 1] > row:
            due[L_DUE, j] = due[L_DUE, j - 1]
            j -= 1
        due[L_DUE, j] = row


@njit(cache=True)
def gather(s):
    """Due rows of a further round: zero-length rows just started, and rows that wait to give, if a level changed."""
    sc, lists = s.sc, s.lists
    n = sc[ZEROS]
    lists[L_DUE, :n] = lists[L_ZERO, :n]
    sc[ZEROS] = 0
    if sc[RETRY] != 0:
        sc[RETRY] = 0
        for i in range(sc[WAITS]):
            lists[L_DUE, n] = lists[L_WAIT, i]
            n += 1
    sc[DUE] = n
    sc[DUE_AT] = 0
    if n > 1:
        sort_due(s)


@njit(cache=True)
def complete(s):
    """Let due rows end their lead or end, by ascending id."""
    sc, rows = s.sc, s.rows
    while sc[DUE_AT] < sc[DUE]:
        if sc[FULL] != 0 and sc[LEVEL_LOG] + 4 > s.llog.shape[0]:
            return FLUSH
        row = s.lists[L_DUE, sc[DUE_AT]]
        sc[DUE_AT] += 1
        status = rows[row, R_STATUS]
        k = rows[row, R_SLOT]
        if status == LEAD and k >= 0:
            sc[EVENTS] += 1
            sc[HAPPENED] = 1
            rows[row, R_FLOW] = sc[NOW]
            rows[row, R_LED] = rows[row, R_LEAD]
            if rows[row, R_WORK] > 0:
                begin_flow(s, k)
                continue
            rows[row, R_SLOT] = -1
            free_slot(s, k)
        elif status == FLOW:
            leave_pools(s, k)
            rows[row, R_SLOT] = -1
            free_slot(s, k)
        code = finish(s, row)
        if code != 0:
            return code
    return sc[ERR]


@njit(cache=True)
def next_event(s):
    """Earliest time at which a lead or a row ends (NEVER if none), with the rows due then in ``lists[L_DUE]``."""
    run, due = s.run, s.lists
    t = NEVER
    n = 0
    for k in range(s.sc[TOP]):
        x = run[X_T, k]
        if x < t:
            t = x
            n = 0
        if x == t and x != NEVER:
            due[L_DUE, n] = run[X_ROW, k]
            n += 1
    s.sc[DUE] = n
    s.sc[DUE_AT] = 0
    return t


@njit(cache=True)
def next_step(s):
    """Next picosecond if anything moves, else NEVER."""
    run = s.run
    for k in range(s.sc[TOP]):
        if run[X_STATE, k] == IN_LEAD or (run[X_STATE, k] == IN_FLOW and run[X_RATE, k] > 0):
            return s.sc[NOW] + 1
    return NEVER


@njit(cache=True)
def step(s):
    """Move every running row by one picosecond; those that end are due."""
    sc, run, due = s.sc, s.run, s.lists
    n = 0
    for k in range(sc[TOP]):
        if run[X_STATE, k] == IN_LEAD:
            run[X_REM, k] -= 1
        elif run[X_STATE, k] == IN_FLOW:
            run[X_REM, k] = max(run[X_REM, k] - run[X_RATE, k], 0)
            run[X_LAST, k] += 1
        else:
            continue
        if run[X_REM, k] == 0:
            due[L_DUE, n] = run[X_ROW, k]
            n += 1
    sc[DUE] = n
    sc[DUE_AT] = 0


@njit(cache=True)
def advance(s, stop_ps, stop_round, until_ps):
    """Run until Python is needed.

    Parameters
    ----------
    s : State
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
    sc = s.sc
    while True:
        if sc[PHASE] == COMPLETE:
            code = complete(s)
            if code != 0:
                return code
            sc[PHASE] = DISPATCH
            if sc[WOKEN] > 0 or sc[CALL] != 0 or (sc[NOW] == stop_ps and sc[ROUND] >= stop_round):
                sc[CALL] = 0
                return NOTIFY
        code = dispatch(s)
        if code != 0:
            return code
        if sc[HAPPENED] != 0:
            sc[HAPPENED] = 0
            sc[ROUND] += 1
            if sc[ROUND] > MAX_ROUNDS:
                return E_ROUNDS
            gather(s)
            sc[PHASE] = COMPLETE
            continue
        if sc[NOW] == stop_ps and sc[ROUND] < stop_round:
            sc[ROUND] = stop_round
            return NOTIFY
        if sc[DIRTY] != 0 or sc[STEP] != 0:
            if sc[FULL] != 0 and sc[POOL_LOG] + s.pool.shape[0] > s.plog.shape[0]:
                return FLUSH
            solve(s)
            if sc[FULL] != 0:
                log_pools(s)
        t = next_step(s) if sc[STEP] != 0 else next_event(s)
        nearest = min(t, stop_ps)
        if nearest > until_ps:
            if sc[NOW] < until_ps:
                sc[NOW] = until_ps
                sc[ROUND] = 0
            return UNTIL
        if nearest == NEVER:
            return IDLE
        if nearest >= MAX_PS:
            return E_TIME
        if stop_ps < t:
            sc[DUE] = 0
        sc[NOW] = nearest
        sc[ROUND] = 0
        sc[PHASE] = COMPLETE
        if sc[STEP] != 0 and nearest == t:
            step(s)
        elif sc[DUE] > 1:
            sort_due(s)
