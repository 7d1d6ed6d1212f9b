"""Blocks and pages of a plane in the flash kernel: handing out, invalidating, filling, and room for collection.

Each plane hands out its pages in order, block after block. Source of the rules: MQSim (CMU-SAFARI, commit 7ec40e3).
"""

from __future__ import annotations

from numba import njit

from archsim.devices.flash import columns as k
from archsim.devices.flash.memory import append
from archsim.jit import borrower


@borrower
def block_of(m, plane, entry):
    """Handle of the block that a mapping entry of a plane points to."""
    return m[plane + k.P_BLOCKS] + ((entry - 1) >> k.PAGE_BITS) * k.B_FIELDS


@borrower
def aim(m, tr, plane, entry):
    """Aim a transaction at the page of a mapping entry."""
    m[tr + k.T_PLANE], m[tr + k.T_ENTRY] = plane, entry
    m[tr + k.T_BLOCK] = m[plane + k.P_BLOCKS] + ((entry - 1) >> k.PAGE_BITS) * k.B_FIELDS
    page = (entry - 1) & k.PAGE_MASK
    m[tr + k.T_PAGE], m[tr + k.T_KEY] = page, m[plane + k.P_DIE] << k.PAGE_BITS | page
    m[tr + k.T_UNIT], m[tr + k.T_BIT] = m[plane + k.P_UNIT], m[plane + k.P_BIT]


@borrower
def enter(m, queue, tr):
    """Put a transaction into a queue of its chip."""
    unit = m[tr + k.T_UNIT]
    m[unit + k.U_QUEUED] += 1
    m[m[unit + k.U_CHANNEL] + k.C_QUEUED] += 1
    append(m, unit + queue, tr)


@borrower
def pool_changed(m, plane, step):
    """Add `step` to the free blocks of a plane and keep count of the planes of a chip that are nearly out of them."""
    before = m[plane + k.P_POOL] < m[k.K_GC_HARD]
    m[plane + k.P_POOL] += step
    after = m[plane + k.P_POOL] < m[k.K_GC_HARD]
    m[m[plane + k.P_UNIT] + k.U_URGENT] += int(after) - int(before)


@borrower
def take_block(m, plane):
    """Open the free block with the fewest erases, the one freed first among equals; -1 when there is none."""
    best = -1
    first = m[plane + k.P_BLOCKS]
    for block in range(first, first + m[k.K_BLOCKS] * k.B_FIELDS, k.B_FIELDS):
        if m[block + k.B_STATE] != k.FREE:
            continue
        if (
            best < 0
            or m[block + k.B_ERASES] < m[best + k.B_ERASES]
            or (m[block + k.B_ERASES] == m[best + k.B_ERASES] and m[block + k.B_STAMP] < m[best + k.B_STAMP])
        ):
            best = block
    if best >= 0:
        m[best + k.B_STATE] = k.OPENED
        pool_changed(m, plane, -1)
    return best


@borrower
def next_page(m, plane, frontier, logical):
    """Hand out the next page of a plane's open block as a mapping entry; `frontier` is ``P_USER`` or ``P_GC``."""
    block = m[plane + frontier]
    page = m[block + k.B_NEXT]
    m[block + k.B_NEXT] = page + 1
    m[m[block + k.B_OWNER] + page] = logical + 1
    if page + 1 == m[k.K_PAGES_PER_BLOCK]:
        m[block + k.B_STATE] = k.FULL
        m[plane + frontier] = take_block(m, plane)
    return m[block + k.B_ENTRY] + page


@borrower
def room_for_collection(m, plane):
    """Pages that collection can still write in a plane, beyond those promised to running collections."""
    room = m[plane + k.P_POOL] * m[k.K_PAGES_PER_BLOCK] - m[plane + k.P_RESERVED]
    frontier = m[plane + k.P_GC]
    if frontier >= 0:
        room += m[k.K_PAGES_PER_BLOCK] - m[frontier + k.B_NEXT]
    return room


@borrower
def has_space(m, plane):
    """Whether the host may take a page, which may cost a free block, without starving collection."""
    if m[plane + k.P_POOL] < m[k.K_WRITE_STOP]:
        return False
    return room_for_collection(m, plane) >= m[k.K_PAGES_PER_BLOCK]


@borrower
def plane_of(m, logical):
    """Handle of the plane of a logical page."""
    return m[m[k.A_LAYOUT] + logical % m[k.K_TOTAL_PLANES]]


@njit(cache=True)
def fill(m, pages):
    """Write logical pages 0 to `pages` - 1 in order, in no time: the state after a sequential fill."""
    for logical in range(pages):
        entry = next_page(m, plane_of(m, logical), k.P_USER, logical)
        m[m[k.A_MAP] + 2 * logical], m[m[k.A_MAP] + 2 * logical + 1] = entry, (1 << m[k.K_SECTORS]) - 1
