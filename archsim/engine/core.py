"""Memory layout and what all kernels share; int64 throughout.

All state is one int64 array ``m`` of records: scalars, units, pools, stores, running slots, queues, blocks, rows.
One array because every array that crosses a call costs reference counting and registers; records because a
row that starts or ends touches few cache lines. ``m[r + R_WORK]`` is a field of the record at address ``r``.
Units, pools, stores and slots never move and are passed by address; rows and blocks are passed by index, which
the window keeps in id order, so ties by index are ties by id. :class:`archsim.engine.window.State` names
the same memory as arrays for Python.

Ranges (checked where the numbers enter): weight < 2**30, coef < 2**41, weight * coef < 2**56 per row and summed over
the rows of a pool, capacity * rate fraction < 2**35, cap < 2**41 or NO_CAP, rate fraction <= 4.
"""

from archsim.jit import borrower

COEF_BITS = 20
RATE_BITS = 20
NO_CAP = 1 << 62
MAX_FLOW = 1 << 48  # rate of a row without a cap
MAX_SUM = 1 << 56  # weight * coef summed over a pool
MAX_DEMAND = 1 << 53  # demands are clamped here; they only serve to prove that a pool is slack
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
(PARKED, TOP, KEEP, EVENTS, STEP, FULL, POOL_LOG, LEVEL_LOG, ERR, ERR_ROW, ERR_A) = range(14, 25)
(ROWS, BLOCKS, ARCS, DEP_FREE, CUTS) = range(25, 30)
(UNITS, POOLS, STORES, QUEUE, LIST, POOL_ROOM, LEVEL_ROOM, SLOTS) = range(30, 38)  # numbers and capacities
# addresses of the regions
(AT_POOL, AT_STORE, AT_MIX, AT_SPENT, AT_SLOT, AT_LANE, AT_STEP, AT_MEMBER, AT_LIST) = range(38, 47)
(AT_HEAP, AT_PARK, AT_DEP, AT_BLOCK, AT_ARC, AT_ROW, AT_POOL_LOG, AT_LEVEL_LOG, AT_STAGE) = range(47, 56)
(TIGHT, WIDTH, STEP_WORDS, LAST_STEP) = range(56, 60)  # of the filling
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
(X_RATE, X_REM, X_LAST, X_CAP, X_W, X_LANE, X_NP, X_MASK) = range(8)
(X_FILL, X_COEF, X_WC, X_POOL, X_DEMAND, X_PLACE, X_ROW, X_STATE, SLOT_FIELDS) = (8, 12, 16, 20, 24, 28, 32, 33, 40)
# X_LANE, X_POOL: addresses; X_PLACE: address in the pool's list of rows; X_FILL: the pool's place in a record
EMPTY, IN_LEAD, IN_FLOW, HELD = range(4)  # values of X_STATE; HELD: share 0 by a claim or a stopped unit
# lanes, each with one entry per slot: time of the next event; level at which the cap is reached, while open;
# the same whether open or not; step of the filling in which the row froze
(LANE_TIME, LANE_KEY, LANE_CAP, LANE_STEP, LANES) = range(5)
BEFORE, OPEN = -1, 1 << 40  # values of LANE_STEP; KEEP is BEFORE where nothing of the last filling holds

# lists of rows
(L_DUE, L_ZERO, L_WAIT, L_WOKEN, L_STACK, LISTS) = range(6)

# what advance() returns
(OK, NOTIFY, IDLE, UNTIL, GROW_RUN, FLUSH) = range(6)
(E_ROUNDS, E_TIME, E_TAKE, E_GIVE, E_UNDO, E_SUM) = range(10, 16)


@borrower
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


@borrower
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


@borrower
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
