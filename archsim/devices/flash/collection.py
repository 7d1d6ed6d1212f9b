"""Garbage collection of the flash kernel: choosing a block, moving its valid pages, erasing it.

Collection starts when a block of the host's is full and its plane has few free blocks left. Of some random blocks the
one with most invalid pages is taken; while it is moved, accesses to its pages wait. A block with host operations under
way waits for their end. Source of the rules: MQSim (CMU-SAFARI, commit 7ec40e3). Two differences keep a small device
alive, where the reference stalls: a page that waits for space makes its plane collect the block with most invalid
pages, and only blocks whose valid pages find room are taken.
"""

from __future__ import annotations

from archsim.devices.flash import columns as k
from archsim.devices.flash.blocks import aim, block_of, enter, next_page, room_for_collection, take_block
from archsim.devices.flash.memory import new_transaction
from archsim.devices.flash.random import draw
from archsim.jit import borrower, callee


@callee
def choose(m, plane, greedy):
    """Block to collect: of some random ones, or of all when `greedy`, the one with most invalid pages; or -1.

    Only full blocks without a program under way that are not being collected count.
    """
    best, most = -1, 0
    for number in range(m[k.K_BLOCKS] if greedy else m[k.K_GC_SAMPLE]):
        if not greedy:
            number = int(draw(m[k.STREAM : k.STREAM + 6]) * m[k.K_BLOCKS])
        block = m[plane + k.P_BLOCKS] + number * k.B_FIELDS
        idle = m[block + k.B_STATE] == k.FULL and m[block + k.B_PROGRAMS] == 0 and m[block + k.B_GC] == 0
        if idle and m[block + k.B_INVALID] > most:
            best, most = block, m[block + k.B_INVALID]
    return best


@borrower
def collect(m, plane, needed):
    """Start collecting one block of a plane; returns 1 when that queued anything.

    `needed`: a page of the host's waits for space, so the best block is taken. A further collection in a plane starts
    only while the stack of transactions could serve a block of every plane besides the host's requests.
    """
    running, enough = m[plane + k.P_RUNNING], 2 * m[k.K_TOTAL_PLANES] * (m[k.K_PAGES_PER_BLOCK] + 1)
    if running >= m[k.K_GC_PER_PLANE] or (running > 0 and m[k.FREE_TRANSACTIONS] < enough):
        return 0
    block = choose(m, plane, needed or m[plane + k.P_POOL] <= m[k.K_WRITE_STOP])
    if block < 0:
        return 0
    moves = m[k.K_PAGES_PER_BLOCK] - m[block + k.B_INVALID]
    if moves > room_for_collection(m, plane):
        return 0
    m[k.N_GC] += 1
    m[plane + k.P_RUNNING] += 1
    m[plane + k.P_RESERVED] += moves
    m[block + k.B_GC], m[block + k.B_MOVES] = 1, moves
    for page in range(m[k.K_PAGES_PER_BLOCK]):
        mapped = m[k.A_MAP] + 2 * (m[m[block + k.B_OWNER] + page] - 1)
        if m[mapped] == m[block + k.B_ENTRY] + page:
            m[mapped] |= k.LOCK
    if m[block + k.B_READS] == 0:
        return move(m, plane, block)
    return 0


@borrower
def move(m, plane, block):
    """Queue the reads of a block's valid pages and its erase, which waits until the last page is rewritten."""
    erase = new_transaction(m, k.ERASE, -1, -1, 0)
    aim(m, erase, plane, m[block + k.B_ENTRY])
    for page in range(m[k.K_PAGES_PER_BLOCK]):
        logical = m[m[block + k.B_OWNER] + page] - 1
        entry = m[block + k.B_ENTRY] + page
        if m[m[k.A_MAP] + 2 * logical] == entry | k.LOCK:
            tr = new_transaction(m, k.GC_READ, -1, logical, 0)
            aim(m, tr, plane, entry)
            m[tr + k.T_DATA], m[tr + k.T_LINK] = m[m[k.A_DATA_NS] + m[k.K_SECTORS]], erase
            enter(m, k.Q_GC_READ, tr)
    m[erase + k.T_READY] = m[block + k.B_MOVES] == 0
    enter(m, k.Q_ERASE, erase)
    return 1


@borrower
def rewrite(m, tr):
    """Turn a collection read that has arrived into the write of the page to its new place."""
    plane, logical = m[tr + k.T_PLANE], m[tr + k.T_LOGICAL]
    m[m[tr + k.T_BLOCK] + k.B_INVALID] += 1
    if m[plane + k.P_GC] < 0:
        m[plane + k.P_GC] = take_block(m, plane)
    entry = next_page(m, plane, k.P_GC, logical)
    m[block_of(m, plane, entry) + k.B_PROGRAMS] += 1
    m[plane + k.P_RESERVED] -= 1
    m[m[k.A_MAP] + 2 * logical] = entry | k.LOCK
    m[k.N_GC_PAGE] += 1
    m[tr + k.T_KIND] = k.GC_WRITE
    aim(m, tr, plane, entry)
    enter(m, k.Q_GC_WRITE, tr)


@borrower
def block_idle(m, plane, block):
    """Go on once a block has no host operation under way: move it, or collect for a page that waits for space.

    Returns 1 when that queued anything.
    """
    if m[block + k.B_GC]:
        return move(m, plane, block)
    if m[plane + k.P_HEAD] >= 0 and m[plane + k.P_RUNNING] == 0:
        return collect(m, plane, True)
    return 0
