"""Taking out blocks that have ended: their rows in columns, and the window without them."""

from numba import njit

from archsim.engine.core import (
    ADDRESS,
    ARCS,
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
    B_ID,
    B_N,
    B_NROOT,
    B_NSUCC,
    B_REQUEST,
    B_ROOT,
    B_ROW,
    B_SUCC,
    BLOCK_FIELDS,
    BLOCKS,
    DONE,
    KEY_MASK,
    L_WAIT,
    LEAD,
    LIST,
    P_CLAIM,
    POOL_FIELDS,
    POOLS,
    QUEUE,
    R_BLK,
    R_DONE,
    R_END,
    R_FLOW,
    R_GID,
    R_LED,
    R_OP,
    R_PRIO,
    R_START,
    R_STATUS,
    R_UNIT,
    R_WORK,
    ROW_FIELDS,
    ROWS,
    SLOT_FIELDS,
    SLOTS,
    U_HEAP,
    U_PARK,
    U_ROW,
    UNIT_FIELDS,
    UNITS,
    WAITS,
    X_ROW,
)
from archsim.jit import borrower


@njit(cache=True)
def log_rows(m, lines, out):
    """Write the rows of the blocks in `lines`, block by block, to columns in the order of ``record.ROW_LOG``.

    ``status``: 0 done, 1 cut, 2 never started, 3 running. Of a running row ``done`` and ``lead_ps`` are still 0.
    """
    at = 0
    for i in range(len(lines)):
        b = (m[AT_BLOCK] + lines[i] * BLOCK_FIELDS) & ADDRESS
        r = (m[AT_ROW] + m[b + B_ROW] * ROW_FIELDS) & ADDRESS
        for _ in range(m[b + B_N]):
            status = m[r + R_STATUS]
            out[0][at] = m[r + R_GID]
            out[1][at] = m[r + R_UNIT]
            out[2][at] = m[r + R_OP]
            out[3][at] = m[b + B_ID]
            out[4][at] = m[b + B_REQUEST]
            out[5][at] = m[r + R_PRIO]
            out[6][at] = m[r + R_START]
            out[7][at] = m[r + R_FLOW]
            out[8][at] = m[r + R_END]
            out[9][at] = status - DONE if status >= DONE else 3 if status >= LEAD else 2
            out[10][at] = m[r + R_WORK]
            out[11][at] = m[r + R_DONE]
            out[12][at] = m[r + R_LED]
            r = (r + ROW_FIELDS) & ADDRESS
            at += 1


@borrower
def move(m, source, to, n):
    """Move `n` words down from `source` to `to`; the two may overlap."""
    source &= ADDRESS
    to &= ADDRESS
    if source != to:
        for i in range(n):
            m[to + i] = m[source + i]


@borrower
def renumber_keys(m, at, n, new_row):
    """Renumber the rows in `n` keys at address `at`."""
    for i in range(at, at + n):
        key = m[i]
        m[i] = (key & ~KEY_MASK) + new_row[key & KEY_MASK]


@borrower
def renumber(m, new_row, new_line):
    """Enter the new numbers of rows and blocks where units, pools, slots, lists and edges name them."""
    for i in range(m[UNITS] + 1):
        u = AT_UNIT + i * UNIT_FIELDS
        if m[u + U_ROW] >= 0:
            m[u + U_ROW] = new_row[m[u + U_ROW]]
        renumber_keys(m, m[AT_HEAP] + i * m[QUEUE], m[u + U_HEAP], new_row)
        renumber_keys(m, m[AT_PARK] + i * m[QUEUE], m[u + U_PARK], new_row)
    for i in range(m[POOLS]):
        p = m[AT_POOL] + i * POOL_FIELDS
        if m[p + P_CLAIM] >= 0:
            m[p + P_CLAIM] = new_row[m[p + P_CLAIM]]
    for i in range(m[SLOTS]):
        k = m[AT_SLOT] + i * SLOT_FIELDS
        if m[k + X_ROW] >= 0:
            m[k + X_ROW] = new_row[m[k + X_ROW]]
    at = m[AT_LIST] + L_WAIT * m[LIST]
    for i in range(at, at + m[WAITS]):
        m[i] = new_row[m[i]]
    for line in range(m[BLOCKS]):
        e = m[m[AT_BLOCK] + line * BLOCK_FIELDS + B_DEP]
        while e >= 0:
            at = m[AT_DEP] + 2 * e
            m[at + 1] = new_line[m[at + 1]]
            e = m[at]


@njit(cache=True)
def compact(m, lines, new_row, new_line):
    """Take the blocks in `lines` (ascending) out of the window; order is kept.

    Parameters
    ----------
    m : int64[:]
        The engine's memory.
    lines : int64[:]
        Numbers of blocks that no other waits for.
    new_row, new_line : int64[:]
        Room for as many numbers as the window has rows and blocks.
    """
    row, line, arc, gone = 0, 0, 0, 0
    for i in range(m[BLOCKS]):
        b = m[AT_BLOCK] + i * BLOCK_FIELDS
        if gone < len(lines) and lines[gone] == i:
            gone += 1
            continue
        first, n, links = m[b + B_ROW], m[b + B_N], m[b + B_NSUCC] + m[b + B_NROOT]
        move(m, m[AT_ROW] + first * ROW_FIELDS, m[AT_ROW] + row * ROW_FIELDS, n * ROW_FIELDS)
        move(m, m[AT_ARC] + m[b + B_SUCC], m[AT_ARC] + arc, links)
        for j in range(n):
            new_row[first + j] = row + j
            m[m[AT_ROW] + (row + j) * ROW_FIELDS + R_BLK] = line
        to = m[AT_BLOCK] + line * BLOCK_FIELDS
        move(m, b, to, BLOCK_FIELDS)
        m[to + B_ROW], m[to + B_SUCC], m[to + B_ROOT] = row, arc, arc + m[to + B_NSUCC]
        new_line[i] = line
        row, line, arc = row + n, line + 1, arc + links
    m[ROWS], m[BLOCKS], m[ARCS] = row, line, arc
    renumber(m, new_row, new_line)
