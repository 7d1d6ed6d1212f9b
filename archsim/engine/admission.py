"""Taking in a block: its columns go from the stage into the window once every rule of its rows and edges holds."""

from numba import njit

from archsim.engine.core import (
    AT_ARC,
    AT_BLOCK,
    AT_LIST,
    AT_ROW,
    AT_STAGE,
    AT_UNIT,
    B_N,
    B_NROOT,
    B_NSUCC,
    B_ROOT,
    B_ROW,
    B_SUCC,
    B_WAIT,
    BLOCK_FIELDS,
    ERR_ROW,
    L_DUE,
    L_STACK,
    LIST,
    MAX_SUM,
    NO_CAP,
    POOLS,
    QUEUE,
    R_BLK,
    R_CAP,
    R_CLAIM,
    R_COEF,
    R_END,
    R_FLOW,
    R_GID,
    R_GIVE,
    R_HEIR,
    R_LEAD,
    R_MODE,
    R_NSUCC,
    R_OP,
    R_PEND,
    R_POOL,
    R_PRIO,
    R_SLOT,
    R_START,
    R_STORE,
    R_STREAM,
    R_SUCC,
    R_TAKE,
    R_UNIT,
    R_WEIGHT,
    R_WORK,
    ROW_FIELDS,
    ROW_INPUTS,
    STORES,
    U_NEED,
    UNIT_FIELDS,
    UNITS,
)
from archsim.engine.rows import release_roots
from archsim.jit import borrower

# what check_row() objects to
(BAD_UNIT, BAD_PRIORITY, BAD_WEIGHT, BAD_LEAD, BAD_WORK, BAD_CAP, BAD_POOL, BAD_COEF, BAD_SUM, BAD_CLAIM) = range(1, 11)
(BAD_STREAM, BAD_STORE, BAD_TWICE, BAD_MODE, BAD_HEIR, BAD_EDGE, BAD_JOIN, BAD_SINK, BAD_CYCLE) = range(11, 20)
GROW_HEAP = 30


@borrower
def check_row(m, r, n):
    """First rule that the inputs of the row at `r`, in a block of `n` rows, break; 0 if none."""
    if m[r + R_UNIT] < -1 or m[r + R_UNIT] >= m[UNITS]:
        return BAD_UNIT
    if m[r + R_PRIO] < -(1 << 22) or m[r + R_PRIO] >= 1 << 22:
        return BAD_PRIORITY
    if m[r + R_WEIGHT] < 1 or m[r + R_WEIGHT] >= 1 << 30:
        return BAD_WEIGHT
    if m[r + R_LEAD] < 0 or m[r + R_LEAD] >= 1 << 60:
        return BAD_LEAD
    if m[r + R_WORK] < 0:
        return BAD_WORK
    if m[r + R_CAP] < 0 or (m[r + R_CAP] >= 1 << 41 and m[r + R_CAP] != NO_CAP):
        return BAD_CAP
    for j in range(4):
        if m[r + R_POOL + j] < -1 or m[r + R_POOL + j] >= m[POOLS]:
            return BAD_POOL
        if m[r + R_COEF + j] < 0 or m[r + R_COEF + j] >= 1 << 41:
            return BAD_COEF
        if float(m[r + R_WEIGHT]) * float(m[r + R_COEF + j]) >= MAX_SUM:
            return BAD_SUM
    if m[r + R_CLAIM] < -1 or m[r + R_CLAIM] >= m[POOLS]:
        return BAD_CLAIM
    if m[r + R_STREAM] < 0 or m[r + R_STREAM] > 7:
        return BAD_STREAM
    for j in range(2):
        if m[r + R_STORE + j] < -1 or m[r + R_STORE + j] >= m[STORES]:
            return BAD_STORE
        if m[r + R_MODE + j] < 0 or m[r + R_MODE + j] > 3:
            return BAD_MODE
    if m[r + R_STORE] >= 0 and m[r + R_STORE] == m[r + R_STORE + 1]:
        return BAD_TWICE
    if m[r + R_HEIR] < -1 or m[r + R_HEIR] >= n:
        return BAD_HEIR
    return 0


@borrower
def check_block(m, b):
    """Check the block at `b` and count predecessors. Returns 0 or a rule that row number ERR_ROW breaks."""
    first = m[AT_ROW] + m[b + B_ROW] * ROW_FIELDS
    n, arcs, total = m[b + B_N], m[AT_ARC] + m[b + B_SUCC], m[b + B_NSUCC]
    backward = False
    for i in range(n):
        r = first + i * ROW_FIELDS
        m[ERR_ROW] = i
        code = check_row(m, r, n)
        if code != 0:
            return code
        at = m[r + R_SUCC]
        end = m[r + ROW_FIELDS + R_SUCC] if i < n - 1 else total
        if end < at or end > total or at < 0:
            return BAD_EDGE
        m[r + R_NSUCC] = end - at
        if (end == at) != (i == n - 1):
            return BAD_SINK
        for e in range(arcs + at, arcs + end):
            to = m[e]
            if to < 0 or to >= n:
                return BAD_EDGE
            if to <= i:
                backward = True
            m[first + to * ROW_FIELDS + R_PEND] += 1
    join = first + (n - 1) * ROW_FIELDS
    if m[join + R_UNIT] != -1 or m[join + R_LEAD] != 0 or m[join + R_WORK] != 0:
        return BAD_JOIN
    if backward and has_cycle(m, b):
        return BAD_CYCLE
    return 0


@borrower
def has_cycle(m, b):
    """Whether the edges of the block at `b` close a cycle (Kahn's algorithm on a copy of the counts)."""
    first, n, arcs = m[AT_ROW] + m[b + B_ROW] * ROW_FIELDS, m[b + B_N], m[AT_ARC] + m[b + B_SUCC]
    pend, stack = m[AT_LIST] + L_DUE * m[LIST], m[AT_LIST] + L_STACK * m[LIST]
    top = 0
    seen = 0
    for i in range(n):
        m[pend + i] = m[first + i * ROW_FIELDS + R_PEND]
        if m[pend + i] == 0:
            m[stack + top] = i
            top += 1
    while top > 0:
        top -= 1
        r = first + m[stack + top] * ROW_FIELDS
        seen += 1
        for e in range(arcs + m[r + R_SUCC], arcs + m[r + R_SUCC] + m[r + R_NSUCC]):
            m[pend + m[e]] -= 1
            if m[pend + m[e]] == 0:
                m[stack + top] = m[e]
                top += 1
    return seen < n


@borrower
def load(m, b, priority):
    """Copy the columns of the block at `b` from the stage into the window; the rows' state is fresh."""
    n, stage = m[b + B_N], m[AT_STAGE]
    first = m[AT_ROW] + m[b + B_ROW] * ROW_FIELDS
    for i in range(n):
        r = first + i * ROW_FIELDS
        for f in range(R_POOL):
            m[r + f] = m[stage + f * n + i]
        m[r + R_PRIO] += priority
        at = stage + R_POOL * n + 4 * i
        for j in range(4):
            m[r + R_POOL + j] = m[at + j]
            m[r + R_COEF + j] = m[at + 4 * n + j]
        m[r + R_CLAIM] = m[stage + R_CLAIM * n + i]
        m[r + R_STREAM] = m[stage + R_STREAM * n + i]
        at = stage + R_STORE * n + 2 * i
        for j in range(2):
            m[r + R_STORE + j] = m[at + j]
            m[r + R_TAKE + j] = m[at + 2 * n + j]
            m[r + R_GIVE + j] = m[at + 4 * n + j]
            m[r + R_MODE + j] = m[at + 6 * n + j]
        m[r + R_HEIR] = m[stage + R_HEIR * n + i]
        m[r + R_OP] = m[stage + R_OP * n + i]
        for f in range(ROW_INPUTS, ROW_FIELDS):
            m[r + f] = 0
        m[r + R_SUCC] = m[stage + ROW_INPUTS * n + i]
        m[r + R_START] = m[r + R_FLOW] = m[r + R_END] = m[r + R_SLOT] = -1


@njit(cache=True)
def admit(m, line, gid, priority):
    """Take in block number `line` from the stage; its first row has the global id `gid`.

    Returns 0, a rule of :func:`check_block` (the block must be dropped) or GROW_HEAP (enlarge the queues, then
    call :func:`release_roots` if the block waits for nothing).
    """
    b = m[AT_BLOCK] + line * BLOCK_FIELDS
    load(m, b, priority)
    code = check_block(m, b)
    if code != 0:
        return code
    first, n = m[b + B_ROW], m[b + B_N]
    root = m[b + B_SUCC] + m[b + B_NSUCC]
    top = m[AT_ARC] + root
    need = 0
    for i in range(n):
        r = m[AT_ROW] + (first + i) * ROW_FIELDS
        m[r + R_BLK] = line
        m[r + R_GID] = gid + i
        unit = m[r + R_UNIT] if m[r + R_UNIT] >= 0 else m[UNITS]
        u = AT_UNIT + unit * UNIT_FIELDS
        m[u + U_NEED] += 1
        need = max(need, m[u + U_NEED])
        if m[r + R_PEND] == 0:
            m[top] = i
            top += 1
    m[b + B_ROOT] = root
    m[b + B_NROOT] = top - m[AT_ARC] - root
    if need > m[QUEUE]:
        return GROW_HEAP
    if m[b + B_WAIT] == 0:
        release_roots(m, line)
    return 0
