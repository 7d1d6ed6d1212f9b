"""Event loop of the engine: rows, units, pools, stores and the max-min solver, all in int64.

The state ``s`` is a NamedTuple of int64 arrays (:class:`archsim.engine.window.State`). One row's fields are
adjacent, so starting a row touches a few cache lines and a crossing from Python unpacks few arrays. Rows are
addressed by their index in the window; window order is id order, so ties by index are ties by id.

Meaning of a share (``solve``). All pools start empty and a level L rises from 0; a flowing row has the rate
``min(cap, weight * L)``. A row freezes at ``cap`` when it gets there. Pool p is full at
``L = R_p / W_p`` where ``R_p = (capacity << 20) - sum(coef * rate of frozen rows)`` and
``W_p = sum(weight * coef of the others)``; its rows then freeze at ``floor(weight * R_p / W_p)``. Caps go before
pools at one level, lower pool ids before higher. Levels are compared and floors are taken exactly, as
rationals: a double quotient decides, and where it is too close to decide, a 64-bit remainder does. So
``sum(coef * rate) <= capacity << 20`` always, and a full pool leaves less than one ``coef`` per row unused.

Ranges (checked where the numbers enter): weight < 2**30, coef < 2**41, weight * coef < 2**57 per row and summed over
the rows of a pool, capacity * rate fraction < 2**35, cap < 2**41 or NO_CAP, rate fraction <= 4.
"""

import numpy as np
from numba import njit

COEF_BITS = 20
RATE_BITS = 20
NO_CAP = 1 << 62
MAX_FLOW = 1 << 48  # rate of a row without a cap
MAX_SUM = 1 << 57  # weight * coef summed over a pool
MAX_DEMAND = 1 << 53  # demands are clamped here; only used to prove that a pool cannot fill
MAX_PS = 1 << 62
NEVER = (1 << 63) - 1
MAX_ROUNDS = 1 << 16
KEY_BITS = 40
KEY_MASK = (1 << KEY_BITS) - 1
EPS = 2.0**-50

# State.sc, scalars
(NOW, ROUND, PHASE, CURSOR, HAPPENED, CALL, WANT, DIRTY, RETRY, DUE, DUE_AT, ZEROS, WAITS, WOKEN) = range(14)
(PARKED, TOP, ACTIVE, EVENTS, STEP, FULL, POOL_LOG, LEVEL_LOG, ERR, ERR_ROW, ERR_A, ERR_B, STALLED) = range(14, 27)
(ROWS, BLOCKS, SUCCS, DEP_FREE) = range(27, 31)
SCALARS = 31
COMPLETE, DISPATCH = 0, 1  # values of PHASE

# State.rows; the first ROW_INPUTS columns are the block's own
(R_UNIT, R_PRIO, R_WEIGHT, R_LEAD, R_WORK, R_CAP, R_POOL) = range(7)
(R_COEF, R_CLAIM, R_STREAM, R_STORE, R_TAKE, R_GIVE, R_MODE, R_HEIR, R_OP) = (10, 14, 15, 16, 18, 20, 22, 24, 25)
ROW_INPUTS = 26
(R_SUCC, R_NSUCC, R_BLK, R_STATUS, R_PEND, R_START, R_FLOW, R_END, R_DONE, R_LED, R_WATCH, R_GID, R_SLOT) = range(
    26, 39
)
ROW_FIELDS = 40
PENDING, READY, LEAD, FLOW, ENDWAIT, DONE, CUT = range(7)  # values of R_STATUS
UNDONE = 2  # bit of R_WATCH: the take was given back; bit 1: somebody waits for the row

# State.blk
(B_ID, B_ROW, B_N, B_SUCC, B_NSUCC, B_ROOT, B_NROOT, B_WAIT, B_DEP, B_LEFT, B_STATUS, B_END, B_NEXT) = range(13)
(B_REQUEST, B_EMIT, B_LABEL, B_USEFUL, B_TOTAL, BLOCK_FIELDS) = range(13, 19)

# State.unit; the last line is the queue of rows that need no unit
(U_ROW, U_HEAP, U_PARK, U_WANT, U_RECHECK, U_MASK, U_RATE, U_BUSY, U_NEED, UNIT_FIELDS) = range(10)

# State.pool, State.store
(P_CAP, P_W, P_DEMAND, P_MASK, P_RATE, P_SINCE, P_CLAIM, P_LEFT, P_LOAD, POOL_FIELDS) = range(10)
(S_LEVEL, S_CAP, STORE_FIELDS) = range(3)

# State.run[field, slot]: rows in lead or in flow; slot = unit, further slots for rows without a unit
(X_ROW, X_STATE, X_T, X_RATE, X_REM, X_LAST, X_CAP, X_W, X_MASK, X_AT, X_NP, X_NEW) = range(12)
(X_POOL, X_COEF, X_WC, X_DEMAND, RUN_FIELDS) = (12, 16, 20, 24, 28)
EMPTY, IN_LEAD, IN_FLOW, HELD = range(4)  # values of X_STATE; HELD: share 0 by a claim or a stopped unit

# State.lists
(L_DUE, L_ZERO, L_WAIT, L_WOKEN, L_STACK, LISTS) = range(6)

# what advance() and admit() return
(OK, NOTIFY, IDLE, UNTIL, GROW_RUN, FLUSH) = range(6)
(E_ROUNDS, E_TIME, E_TAKE, E_GIVE, E_UNDO, E_SUM) = range(10, 16)


@njit(cache=True)
def heap_push(heap, u, n, key):
    """Add `key` to the binary heap ``heap[u, :n]``."""
    i = n
    while i > 0:
        up = (i - 1) >> 1
        if heap[u, up] <= key:
            break
        heap[u, i] = heap[u, up]
        i = up
    heap[u, i] = key


@njit(cache=True)
def heap_pop(heap, u, n):
    """Remove and return the smallest key of ``heap[u, :n]``."""
    top = heap[u, 0]
    m = n - 1
    key = heap[u, m]
    i = 0
    while True:
        c = 2 * i + 1
        if c >= m:
            break
        if c + 1 < m and heap[u, c + 1] < heap[u, c]:
            c += 1
        if heap[u, c] >= key:
            break
        heap[u, i] = heap[u, c]
        i = c
    heap[u, i] = key
    return top


@njit(cache=True)
def touch(s, resource):
    """Recheck the rows that wait for `resource` (store id, or number of stores + pool id) at the next dispatch."""
    sc = s.sc
    if sc[WAITS] > 0:
        sc[RETRY] = 1
    if sc[PARKED] > 0:
        bit = 1 << (resource % 60)
        unit = s.unit
        for u in range(unit.shape[0]):
            if unit[u, U_PARK] > 0 and unit[u, U_MASK] & bit != 0:
                unit[u, U_RECHECK] = 1
                unit[u, U_WANT] = 1
                sc[WANT] = 1


@njit(cache=True)
def refresh_capacity(s, p):
    """Capacity of pool `p` from its stream mix and its rate fraction, rounded down."""
    pool = s.pool
    pool[p, P_CAP] = (s.mixcap[p, pool[p, P_MASK]] * pool[p, P_RATE]) >> RATE_BITS
    s.sc[DIRTY] = 1


@njit(cache=True)
def change_mask(s, p, bit):
    """Flip one stream of the mix of pool `p`; books the time spent in the mix that ends."""
    pool = s.pool
    now = s.sc[NOW]
    s.mixtime[p, pool[p, P_MASK]] += now - pool[p, P_SINCE]
    pool[p, P_SINCE] = now
    pool[p, P_MASK] ^= bit
    refresh_capacity(s, p)


@njit(cache=True)
def set_rate(run, k, rate, now):
    """Book the work done at the old rate and set the new one; end = now + ceil(remaining / rate)."""
    rem = run[X_REM, k]
    old = run[X_RATE, k]
    if old != 0:
        rem -= old * (now - run[X_LAST, k])
        run[X_REM, k] = rem
    run[X_LAST, k] = now
    run[X_RATE, k] = rate
    if rate == 0:
        run[X_T, k] = NEVER
        return
    if rem <= MAX_DEMAND:
        # exact: both are doubles, and a quotient just above an integer is further from it than half an ulp
        ps = np.int64(np.ceil(float(rem) / float(rate)))
    else:
        ps = (rem - 1) // rate + 1
    run[X_T, k] = now + ps if ps < MAX_PS - now else MAX_PS


@njit(cache=True)
def enter_pools(s, k):
    """Let slot `k` take part in its pools; a slot without pools flows at its cap at once."""
    sc, run, pool = s.sc, s.run, s.pool
    run[X_STATE, k] = IN_FLOW
    n = run[X_NP, k]
    if n == 0:
        set_rate(run, k, run[X_CAP, k], sc[NOW])
        return
    stream = s.rows[run[X_ROW, k], R_STREAM]
    for j in range(n):
        p = run[X_POOL + j, k]
        pool[p, P_W] += run[X_WC + j, k]
        pool[p, P_DEMAND] += run[X_DEMAND + j, k]
        if pool[p, P_W] >= MAX_SUM or pool[p, P_DEMAND] >= MAX_PS:
            sc[ERR] = E_SUM
            sc[ERR_ROW] = run[X_ROW, k]
            sc[ERR_A] = p
        if stream > 0:
            s.count[p, stream] += 1
            if s.count[p, stream] == 1:
                change_mask(s, p, 1 << stream)
    run[X_AT, k] = sc[ACTIVE]
    s.act[0, sc[ACTIVE]] = k
    sc[ACTIVE] += 1
    sc[DIRTY] = 1


@njit(cache=True)
def leave_pools(s, k):
    """Take slot `k` out of its pools and stop it; its remaining work is up to date afterwards."""
    sc, run, pool = s.sc, s.run, s.pool
    set_rate(run, k, 0, sc[NOW])
    n = run[X_NP, k]
    if n == 0:
        return
    stream = s.rows[run[X_ROW, k], R_STREAM]
    for j in range(n):
        p = run[X_POOL + j, k]
        pool[p, P_W] -= run[X_WC + j, k]
        pool[p, P_DEMAND] -= run[X_DEMAND + j, k]
        if stream > 0:
            s.count[p, stream] -= 1
            if s.count[p, stream] == 0:
                change_mask(s, p, 1 << stream)
    last = sc[ACTIVE] - 1
    at = run[X_AT, k]
    moved = s.act[0, last]
    s.act[0, at] = moved
    run[X_AT, moved] = at
    sc[ACTIVE] = last
    sc[DIRTY] = 1


@njit(cache=True)
def scaled_cap(s, row):
    """Rate cap of `row` at its unit's present rate fraction, rounded down."""
    cap = s.rows[row, R_CAP]
    u = s.rows[row, R_UNIT]
    rate = s.unit[u, U_RATE] if u >= 0 else 1 << RATE_BITS
    if cap == NO_CAP:
        return MAX_FLOW if rate > 0 else 0
    return (cap * rate) >> RATE_BITS


@njit(cache=True)
def place_flow(s, k):
    """Set cap and demands of slot `k` and let it flow, or hold it while a claim or a stopped unit forbids."""
    run = s.run
    row = run[X_ROW, k]
    cap = scaled_cap(s, row)
    run[X_CAP, k] = cap
    held = cap == 0
    for j in range(run[X_NP, k]):
        coef = run[X_COEF + j, k]
        demand = MAX_DEMAND
        if float(coef) * float(cap) < MAX_DEMAND:
            demand = coef * cap
        run[X_DEMAND + j, k] = demand
        owner = s.pool[run[X_POOL + j, k], P_CLAIM]
        if owner >= 0 and owner != row:
            held = True
    if held:
        run[X_STATE, k] = HELD
    else:
        enter_pools(s, k)


@njit(cache=True)
def begin_flow(s, k):
    """Row of slot `k` has passed its lead and has work."""
    rows, run = s.rows, s.run
    row = run[X_ROW, k]
    rows[row, R_STATUS] = FLOW
    w = rows[row, R_WEIGHT]
    n = 0
    mask = 0
    for j in range(4):
        p = rows[row, R_POOL + j]
        if p >= 0 and rows[row, R_COEF + j] > 0:
            coef = rows[row, R_COEF + j]
            run[X_POOL + n, k] = p
            run[X_COEF + n, k] = coef
            run[X_WC + n, k] = w * coef
            mask |= 1 << p
            n += 1
    run[X_NP, k] = n
    run[X_MASK, k] = mask
    run[X_W, k] = w
    run[X_RATE, k] = 0
    run[X_T, k] = NEVER
    run[X_REM, k] = rows[row, R_WORK]
    run[X_LAST, k] = s.sc[NOW]
    place_flow(s, k)


@njit(cache=True)
def claim_pool(s, p, row):
    """Row takes pool `p` for itself; others that draw on it are held."""
    s.pool[p, P_CLAIM] = row
    run = s.run
    for k in range(s.sc[TOP]):
        if run[X_STATE, k] == IN_FLOW and run[X_MASK, k] >> p & 1 != 0:
            leave_pools(s, k)
            run[X_STATE, k] = HELD


@njit(cache=True)
def release_claim(s, p):
    """Give pool `p` back; held rows flow again where nothing else holds them."""
    s.pool[p, P_CLAIM] = -1
    run = s.run
    for k in range(s.sc[TOP]):
        if run[X_STATE, k] == HELD and run[X_MASK, k] >> p & 1 != 0:
            place_flow(s, k)
    touch(s, s.store.shape[0] + p)


@njit(cache=True)
def floor_share(w, left, load, guess):
    """floor(w * left / load), exact; `guess` is off by at most two, so the wrapped remainder is the true one."""
    r = np.int64(guess)
    d = int(w) * int(left) - int(r) * int(load)
    while d < 0:
        r -= 1
        d += load
    while d >= load:
        r += 1
        d -= load
    return r


@njit(cache=True)
def lowest_level(pool, tight):
    """Pool of the mask `tight` with the lowest exact level left / load, or -1; lowest id among equals."""
    best = -1
    level = 0.0
    p = 0
    while tight >> p != 0:
        if tight >> p & 1 != 0 and pool[p, P_LOAD] > 0:
            x = float(pool[p, P_LEFT]) / float(pool[p, P_LOAD])
            if best < 0 or x < level * (1.0 - EPS):
                best, level = p, x
            elif x <= level * (1.0 + EPS):
                d = int(pool[p, P_LEFT]) * int(pool[best, P_LOAD]) - int(pool[best, P_LEFT]) * int(pool[p, P_LOAD])
                if d < 0:
                    best, level = p, x
        p += 1
    return best, level


@njit(cache=True)
def freeze(run, pool, k, rate):
    """Fix the rate of slot `k` and take its draw out of its pools."""
    run[X_NEW, k] = rate
    for j in range(run[X_NP, k]):
        p = run[X_POOL + j, k]
        pool[p, P_LEFT] -= run[X_COEF + j, k] * rate
        pool[p, P_LOAD] -= run[X_WC + j, k]


@njit(cache=True)
def solve(s):
    """Weighted max-min rates of all flowing rows (see the module's docstring)."""
    sc, run, pool, act = s.sc, s.run, s.pool, s.act
    sc[DIRTY] = 0
    tight = 0
    for p in range(pool.shape[0]):
        left = pool[p, P_CAP] << COEF_BITS
        if pool[p, P_DEMAND] > min(left, MAX_DEMAND - 1):
            tight |= 1 << p
        pool[p, P_LEFT] = left
        pool[p, P_LOAD] = pool[p, P_W]
    n = 0
    for a in range(sc[ACTIVE]):
        k = act[0, a]
        if run[X_MASK, k] & tight == 0:
            run[X_NEW, k] = run[X_CAP, k]
        else:
            act[1, n] = k
            n += 1
    # pools that cannot fill still have their books kept by freeze(), which is harmless
    while n > 0:
        best, level = lowest_level(pool, tight)
        left, load = pool[best, P_LEFT], pool[best, P_LOAD]
        m = 0
        for a in range(n):
            k = act[1, a]
            w, cap = run[X_W, k], run[X_CAP, k]
            x = float(w) * level
            if cap <= x * (1.0 - EPS) or (cap <= x * (1.0 + EPS) and cap <= floor_share(w, left, load, x)):
                freeze(run, pool, k, cap)
            else:
                act[1, m] = k
                m += 1
        if m < n:
            n = m
            continue
        m = 0
        for a in range(n):
            k = act[1, a]
            if run[X_MASK, k] >> best & 1 != 0:
                freeze(run, pool, k, floor_share(run[X_W, k], left, load, float(run[X_W, k]) * level))
            else:
                act[1, m] = k
                m += 1
        n = m
    now = sc[NOW]
    for a in range(sc[ACTIVE]):
        k = act[0, a]
        if run[X_NEW, k] != run[X_RATE, k]:
            set_rate(run, k, run[X_NEW, k], now)


@njit(cache=True)
def log_pools(s):
    """Append time, pool, mix, capacity and usage (rounded up) of every pool to the log."""
    sc, run = s.sc, s.run
    for p in range(s.pool.shape[0]):
        used = 0
        for a in range(sc[ACTIVE]):
            k = s.act[0, a]
            for j in range(run[X_NP, k]):
                if run[X_POOL + j, k] == p:
                    used += run[X_COEF + j, k] * run[X_RATE, k]
        n = sc[POOL_LOG]
        s.plog[n, 0] = sc[NOW]
        s.plog[n, 1] = p
        s.plog[n, 2] = s.pool[p, P_MASK]
        s.plog[n, 3] = s.pool[p, P_CAP]
        s.plog[n, 4] = (used + (1 << COEF_BITS) - 1) >> COEF_BITS
        sc[POOL_LOG] = n + 1
