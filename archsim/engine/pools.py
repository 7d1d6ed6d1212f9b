"""Rows on their pools: entering, leaving, claims, rate changes, and the capacity by stream mix."""

from numba import njit

from archsim.engine.core import (
    ADDRESS,
    AT_MEMBER,
    AT_MIX,
    AT_POOL,
    AT_POOL_LOG,
    AT_ROW,
    AT_SLOT,
    AT_SPENT,
    AT_UNIT,
    COEF_BITS,
    DIRTY,
    E_SUM,
    ERR,
    ERR_A,
    FLOW,
    HELD,
    IN_FLOW,
    MAX_DEMAND,
    MAX_FLOW,
    MAX_PS,
    MAX_SUM,
    NEVER,
    NO_CAP,
    NOW,
    P_CAP,
    P_CLAIM,
    P_COUNT,
    P_DEMAND,
    P_ID,
    P_MASK,
    P_RATE,
    P_ROWS,
    P_SINCE,
    P_W,
    POOL_FIELDS,
    POOL_LOG,
    POOLS,
    R_CAP,
    R_COEF,
    R_POOL,
    R_STATUS,
    R_STREAM,
    R_UNIT,
    R_WEIGHT,
    R_WORK,
    RATE_BITS,
    ROW_FIELDS,
    SLOT_FIELDS,
    SLOTS,
    STORES,
    TOP,
    U_RATE,
    UNIT_FIELDS,
    X_CAP,
    X_COEF,
    X_DEMAND,
    X_FILL,
    X_LANE,
    X_LAST,
    X_MASK,
    X_NP,
    X_PLACE,
    X_POOL,
    X_RATE,
    X_REM,
    X_ROW,
    X_STATE,
    X_W,
    X_WC,
    touch,
)
from archsim.engine.shares import join, part_from, set_rate, shift
from archsim.jit import borrower


@borrower
def refresh_capacity(m, p):
    """Capacity of pool `p` from its stream mix and its rate fraction, rounded down."""
    mix = m[m[AT_MIX] + 256 * m[p + P_ID] + m[p + P_MASK]]
    capacity = (mix * m[p + P_RATE]) >> RATE_BITS
    more = capacity - m[p + P_CAP]
    m[DIRTY] = 1
    if more != 0:
        m[p + P_CAP] = capacity
        shift(m, p, more << COEF_BITS, 0)


@borrower
def change_mask(m, p, bit):
    """Flip one stream of the mix of pool `p`; books the time spent in the mix that ends."""
    m[m[AT_SPENT] + 256 * m[p + P_ID] + m[p + P_MASK]] += m[NOW] - m[p + P_SINCE]
    m[p + P_SINCE] = m[NOW]
    m[p + P_MASK] ^= bit
    refresh_capacity(m, p)


@borrower
def enter_pools(m, k):
    """Let slot `k` take part in its pools; a slot without pools flows at its cap at once."""
    k &= ADDRESS
    m[k + X_STATE] = IN_FLOW
    n = m[k + X_NP]
    if n == 0:
        set_rate(m, k, m[k + X_CAP], m[NOW])
        return
    stream = m[m[AT_ROW] + m[k + X_ROW] * ROW_FIELDS + R_STREAM]
    for j in range(n):
        part = (k + j) & ADDRESS
        p = m[part + X_POOL] & ADDRESS
        m[p + P_W] += m[part + X_WC]
        m[p + P_DEMAND] += m[part + X_DEMAND]
        if m[p + P_W] >= MAX_SUM or m[p + P_DEMAND] >= MAX_PS:
            m[ERR] = E_SUM
            m[ERR_A] = m[p + P_ID]
        shift(m, p, 0, m[part + X_WC])
        entry = (m[AT_MEMBER] + 2 * (m[p + P_ID] * m[SLOTS] + m[p + P_ROWS])) & ADDRESS
        m[entry] = k
        m[entry + 1] = k + 1 - j if n <= 2 else -1
        m[part + X_PLACE] = entry
        m[p + P_ROWS] += 1
        if stream > 0:
            count = (p + P_COUNT + stream) & ADDRESS
            m[count] += 1
            if m[count] == 1:
                change_mask(m, p, 1 << stream)
    join(m, k)
    m[DIRTY] = 1


@borrower
def leave_pools(m, k):
    """Take slot `k` out of its pools and stop it; its remaining work is up to date afterwards."""
    k &= ADDRESS
    set_rate(m, k, 0, m[NOW])
    n = m[k + X_NP]
    if n == 0:
        return
    part_from(m, k)
    stream = m[m[AT_ROW] + m[k + X_ROW] * ROW_FIELDS + R_STREAM]
    for j in range(n):
        part = (k + j) & ADDRESS
        p = m[part + X_POOL] & ADDRESS
        m[p + P_W] -= m[part + X_WC]
        m[p + P_DEMAND] -= m[part + X_DEMAND]
        shift(m, p, 0, -m[part + X_WC])
        m[p + P_ROWS] -= 1
        entry = m[part + X_PLACE] & ADDRESS
        last = (m[AT_MEMBER] + 2 * (m[p + P_ID] * m[SLOTS] + m[p + P_ROWS])) & ADDRESS
        moved = m[last] & ADDRESS
        m[entry] = moved
        m[entry + 1] = m[last + 1]
        while m[moved + X_POOL] != p:
            moved = (moved + 1) & ADDRESS
        m[moved + X_PLACE] = entry
        if stream > 0:
            count = (p + P_COUNT + stream) & ADDRESS
            m[count] -= 1
            if m[count] == 0:
                change_mask(m, p, 1 << stream)
    m[DIRTY] = 1


@borrower
def scaled_cap(m, r):
    """Rate cap of the row at `r` at its unit's present rate fraction, rounded down."""
    cap = m[r + R_CAP]
    u = m[r + R_UNIT]
    rate = m[AT_UNIT + u * UNIT_FIELDS + U_RATE] if u >= 0 else 1 << RATE_BITS
    if cap == NO_CAP:
        return MAX_FLOW if rate > 0 else 0
    return (cap * rate) >> RATE_BITS


@borrower
def place_flow(m, k):
    """Set cap and demands of slot `k` and let it flow, or hold it while a claim or a stopped unit forbids."""
    k &= ADDRESS
    row = m[k + X_ROW]
    cap = scaled_cap(m, m[AT_ROW] + row * ROW_FIELDS)
    m[k + X_CAP] = cap
    held = cap == 0
    for j in range(m[k + X_NP]):
        part = (k + j) & ADDRESS
        coef = m[part + X_COEF]
        demand = MAX_DEMAND
        if float(coef) * float(cap) < MAX_DEMAND:
            demand = coef * cap
        m[part + X_DEMAND] = demand
        owner = m[(m[part + X_POOL] & ADDRESS) + P_CLAIM]
        if owner >= 0 and owner != row:
            held = True
    if held:
        m[k + X_STATE] = HELD
    else:
        enter_pools(m, k)


@borrower
def begin_flow(m, k):
    """Row of slot `k` has passed its lead and has work."""
    k &= ADDRESS
    r = (m[AT_ROW] + m[k + X_ROW] * ROW_FIELDS) & ADDRESS
    m[r + R_STATUS] = FLOW
    w = m[r + R_WEIGHT]
    n = 0
    mask = 0
    for j in range(4):
        p = m[r + R_POOL + j]
        coef = m[r + R_COEF + j]
        if p >= 0 and coef > 0:
            p = (m[AT_POOL] + p * POOL_FIELDS) & ADDRESS
            i = 0
            while i < n and m[k + X_POOL + i] != p:
                i += 1
            if i == n:
                m[k + X_POOL + n] = p
                m[k + X_COEF + n] = 0
                m[k + X_FILL + n] = m[p + P_ID]
                mask |= 1 << m[p + P_ID]
                n += 1
            m[k + X_COEF + i] += coef
            m[k + X_WC + i] = w * m[k + X_COEF + i]
    if n == 1:  # the second part draws nothing from no pool
        m[k + X_FILL + 1] = m[POOLS]
        m[k + X_COEF + 1] = m[k + X_WC + 1] = 0
    m[k + X_NP] = n
    m[k + X_MASK] = mask
    m[k + X_W] = w
    m[k + X_RATE] = 0
    m[m[k + X_LANE] & ADDRESS] = NEVER
    m[k + X_REM] = m[r + R_WORK]
    m[k + X_LAST] = m[NOW]
    place_flow(m, k)


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


@borrower
def claim_pool(m, p, row):
    """Row takes the pool at `p` for itself; others that draw on it are held."""
    m[p + P_CLAIM] = row
    k = m[AT_SLOT] & ADDRESS
    for _ in range(m[TOP]):
        if m[k + X_STATE] == IN_FLOW and m[k + X_MASK] >> m[p + P_ID] & 1 != 0:
            leave_pools(m, k)
            m[k + X_STATE] = HELD
        k += SLOT_FIELDS


@borrower
def release_claim(m, p):
    """Give the pool at `p` back; held rows flow again where nothing else holds them."""
    m[p + P_CLAIM] = -1
    k = m[AT_SLOT] & ADDRESS
    for _ in range(m[TOP]):
        if m[k + X_STATE] == HELD and m[k + X_MASK] >> m[p + P_ID] & 1 != 0:
            place_flow(m, k)
        k += SLOT_FIELDS
    touch(m, m[STORES] + m[p + P_ID])


@borrower
def log_pools(m):
    """Append time, pool, mix, capacity and usage (rounded up) of every pool to the log."""
    p = m[AT_POOL] & ADDRESS
    for i in range(m[POOLS]):
        used = 0
        entry = (m[AT_MEMBER] + 2 * i * m[SLOTS]) & ADDRESS
        for _ in range(m[p + P_ROWS]):
            part = m[entry] & ADDRESS
            rate = m[part + X_RATE]
            while m[part + X_POOL] != p:
                part = (part + 1) & ADDRESS
            used += m[part + X_COEF] * rate
            entry = (entry + 2) & ADDRESS
        at = (m[AT_POOL_LOG] + 5 * m[POOL_LOG]) & ADDRESS
        m[at] = m[NOW]
        m[at + 1] = i
        m[at + 2] = m[p + P_MASK]
        m[at + 3] = m[p + P_CAP]
        m[at + 4] = (used + (1 << COEF_BITS) - 1) >> COEF_BITS
        m[POOL_LOG] += 1
        p += POOL_FIELDS
