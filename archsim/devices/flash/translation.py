"""Translation layer of the flash kernel: from logical pages to places, by way of the mapping cache.

A logical page belongs to one plane for good (see the layout) and gets its next page when it is first touched, by a read
too, or written. Mapping pages live outside the host's blocks: fetching one or writing one back takes its time on a
chip, but they are never collected. Source of the rules: MQSim (CMU-SAFARI, commit 7ec40e3); the cache holds whole
segments, the one unused for longest gives way.
"""

from __future__ import annotations

from archsim.devices.flash import columns as k
from archsim.devices.flash.blocks import aim, block_of, enter, has_space, next_page, plane_of, pool_changed
from archsim.devices.flash.collection import collect
from archsim.devices.flash.memory import append, bits, new_transaction, remove
from archsim.jit import borrower


@borrower
def locate_reads(m, request):
    """Translate and queue the pages of a read in the usual case; returns how many, the rest needs :func:`locate`.

    Usual: neither firmware nor mapping cache takes part, the page is not being moved, and if it is touched for the
    first time its plane has space and this is not the last page of a block.
    """
    pages = m[request + k.R_PAGES] if m[k.Z_DIRECT] and not m[request + k.S_WRITE] else 0
    layout = m[k.A_LAYOUT] + m[request + k.R_RESIDUE]
    mapped = m[k.A_MAP] + 2 * m[request + k.R_FIRST]
    page = 0
    while page < pages:
        plane, entry = m[layout], m[mapped]
        low = m[request + k.R_LOW] if page == 0 else 0
        high = m[request + k.R_HIGH] if page + 1 == pages else m[k.K_SECTORS]
        logical, sectors = m[request + k.R_FIRST] + page, ((1 << (high - low)) - 1) << low
        if entry == 0:
            block = m[plane + k.P_USER]
            place = m[block + k.B_NEXT]
            if m[plane + k.P_POOL] < m[k.K_WRITE_STOP] or m[plane + k.P_RESERVED] > 0:
                break
            if place + 1 == m[k.K_PAGES_PER_BLOCK]:
                break
            m[block + k.B_NEXT] = place + 1
            m[m[block + k.B_OWNER] + place] = logical + 1
            entry = m[block + k.B_ENTRY] + place
            m[mapped], m[mapped + 1] = entry, sectors
        elif entry & k.LOCK:
            break
        tr = new_transaction(m, k.READ, request, logical, sectors)
        aim(m, tr, plane, entry)
        m[m[tr + k.T_BLOCK] + k.B_READS] += 1
        m[tr + k.T_DATA] = m[m[k.A_DATA_NS] + high - low]
        enter(m, k.Q_READ, tr)
        page += 1
        mapped += 2
        layout += 1
        if layout == m[k.A_LAYOUT] + m[k.K_TOTAL_PLANES]:
            layout = m[k.A_LAYOUT]
    return page + 0 * m[k.NOW]


@borrower
def locate(m, tr, plane):
    """Translate a page of the host's on `plane` and queue it; returns 1 when anything was queued at a chip.

    The page waits when its mapping page must be fetched, when collection moves it, or when its plane is out of space.
    """
    logical = m[tr + k.T_LOGICAL]
    if m[k.K_SEGMENT_SLOTS] > 0:
        segment = m[k.A_SEGMENTS] + (logical >> m[k.K_SEGMENT_SHIFT]) * k.G_FIELDS
        if m[segment + k.G_STAMP] == 0:
            return fetch_segment(m, segment, tr)
        m[k.CLOCK] += 1
        m[segment + k.G_STAMP] = m[k.CLOCK]
        m[segment + k.G_CHANGED] |= m[tr + k.T_KIND] == k.WRITE
    entry = m[m[k.A_MAP] + 2 * logical]
    if entry & k.LOCK:
        append(m, k.BARRIER_HEAD, tr)
        return 0
    if m[tr + k.T_KIND] == k.WRITE:
        return locate_write(m, tr, plane, entry)
    if entry == 0:
        return locate_first(m, tr, plane)
    aim(m, tr, plane, entry)
    m[m[tr + k.T_BLOCK] + k.B_READS] += 1
    m[tr + k.T_DATA] = m[m[k.A_DATA_NS] + bits(m[tr + k.T_SECTORS])]
    enter(m, k.Q_READ, tr)
    return 1


@borrower
def locate_first(m, tr, plane):
    """Give a page that is read before it was ever written a place."""
    if not has_space(m, plane):
        return wait_for_space(m, tr, plane)
    logical = m[tr + k.T_LOGICAL]
    entry = next_page(m, plane, k.P_USER, logical)
    m[m[k.A_MAP] + 2 * logical], m[m[k.A_MAP] + 2 * logical + 1] = entry, m[tr + k.T_SECTORS]
    aim(m, tr, plane, entry)
    m[m[tr + k.T_BLOCK] + k.B_READS] += 1
    m[tr + k.T_DATA] = m[m[k.A_DATA_NS] + bits(m[tr + k.T_SECTORS])]
    enter(m, k.Q_READ, tr)
    return filled(m, plane, entry)


@borrower
def locate_write(m, tr, plane, old):
    """Give a write its new page; sectors it does not cover are read from the page at entry `old` first."""
    if not has_space(m, plane):
        return wait_for_space(m, tr, plane)
    logical, sectors = m[tr + k.T_LOGICAL], m[tr + k.T_SECTORS]
    mapped = m[k.A_MAP] + 2 * logical
    missing, update = m[mapped + 1] & ~sectors, -1
    if old > 0:
        if missing:
            update = new_transaction(m, k.UPDATE_READ, m[tr + k.T_REQUEST], logical, missing)
            aim(m, update, plane, old)
            m[block_of(m, plane, old) + k.B_READS] += 1
            m[update + k.T_DATA], m[update + k.T_LINK] = m[m[k.A_DATA_NS] + bits(missing)], tr
            m[tr + k.T_READY] = 0
        m[block_of(m, plane, old) + k.B_INVALID] += 1
    entry = next_page(m, plane, k.P_USER, logical)
    m[mapped] = entry
    m[mapped + 1] |= sectors
    aim(m, tr, plane, entry)
    m[m[tr + k.T_BLOCK] + k.B_PROGRAMS] += 1
    m[tr + k.T_DATA] = m[m[k.A_DATA_NS] + bits(sectors)]
    enter(m, k.Q_WRITE, tr)
    if update >= 0:
        enter(m, k.Q_READ, update)
    return filled(m, plane, entry)


@borrower
def filled(m, plane, entry):
    """Check the plane's free blocks when the host's page at `entry`, mapped by now, ends its block; returns 1."""
    full = ((entry - 1) & k.PAGE_MASK) + 1 == m[k.K_PAGES_PER_BLOCK]
    if full and m[plane + k.P_POOL] < m[k.K_GC_THRESHOLD]:
        collect(m, plane, False)
    return 1


@borrower
def wait_for_space(m, tr, plane):
    """Let a page of the host wait until its plane has free blocks; starts a collection when none runs."""
    append(m, plane + k.P_HEAD, tr)
    if m[plane + k.P_RUNNING] == 0:
        return collect(m, plane, True)
    return 0


@borrower
def moved(m, tr):
    """End the move of a page: unlock it, let those who waited for it go on; returns 1 when that queued anything."""
    plane, logical, erase = m[tr + k.T_PLANE], m[tr + k.T_LOGICAL], m[tr + k.T_LINK]
    m[m[k.A_MAP] + 2 * logical] &= k.ENTRY
    m[m[tr + k.T_BLOCK] + k.B_PROGRAMS] -= 1
    source = m[erase + k.T_BLOCK]
    m[source + k.B_MOVES] -= 1
    if m[source + k.B_MOVES] == 0:
        m[erase + k.T_READY] = 1
    queued = 0
    waiting = m[k.BARRIER_HEAD]
    while waiting >= 0:
        after = m[waiting + k.T_NEXT]
        if m[waiting + k.T_LOGICAL] == logical:
            remove(m, k.BARRIER_HEAD, waiting)
            queued |= locate(m, waiting, plane)
        waiting = after
    return queued


@borrower
def erased(m, tr):
    """Give an erased block back and let waiting pages of its plane go on; returns 1 when that queued anything."""
    plane, block = m[tr + k.T_PLANE], m[tr + k.T_BLOCK]
    m[block + k.B_STATE], m[block + k.B_NEXT], m[block + k.B_INVALID], m[block + k.B_GC] = k.FREE, 0, 0, 0
    m[block + k.B_ERASES] += 1
    m[block + k.B_STAMP] = m[plane + k.P_STAMP]
    m[plane + k.P_STAMP] += 1
    m[plane + k.P_RUNNING] -= 1
    pool_changed(m, plane, 1)
    queued = 0
    ends = plane + k.P_HEAD
    while m[ends] >= 0 and has_space(m, plane):
        waiting = m[ends]
        remove(m, ends, waiting)
        queued |= locate(m, waiting, plane)
    if m[ends] >= 0 and m[plane + k.P_RUNNING] == 0:
        queued |= collect(m, plane, True)
    return queued


@borrower
def mapping_transaction(m, kind, queue, segment):
    """Queue the read or write-back of a mapping page at the plane it lives in."""
    tr = new_transaction(m, kind, -1, segment, 0)
    aim(m, tr, plane_of(m, (segment - m[k.A_SEGMENTS]) // k.G_FIELDS), 1)
    m[tr + k.T_DATA] = m[k.K_MAP_DATA_NS]
    enter(m, queue, tr)


@borrower
def fetch_segment(m, segment, tr):
    """Let a page wait for its mapping page, and read that one unless it is on its way."""
    waiting = m[segment + k.G_HEAD] >= 0
    append(m, segment + k.G_HEAD, tr)
    if waiting:
        return 0
    m[k.N_MAP_READ] += 1
    mapping_transaction(m, k.MAP_READ, k.Q_MAP_READ, segment)
    return 1


@borrower
def segment_arrived(m, tr):
    """Put a mapping page into the cache in place of the one unused for longest; go on with the pages that waited."""
    segment, queued = m[tr + k.T_LOGICAL], 0
    if m[k.MAP_USED] < m[k.K_SEGMENT_SLOTS]:
        slot = m[k.A_CACHED] + m[k.MAP_USED]
        m[k.MAP_USED] += 1
    else:
        slot = unused_slot(m)
        victim = m[slot]
        m[victim + k.G_STAMP] = 0
        # A write-back that still waits takes later changes along, so there is at most one of each segment.
        if m[victim + k.G_CHANGED] and not m[victim + k.G_WRITING]:
            m[victim + k.G_WRITING] = 1
            m[k.N_MAP_WRITE] += 1
            mapping_transaction(m, k.MAP_WRITE, k.Q_MAP_WRITE, victim)
            queued = 1
        m[victim + k.G_CHANGED] = 0
    m[slot] = segment
    m[k.CLOCK] += 1
    m[segment + k.G_STAMP] = m[k.CLOCK]
    while m[segment + k.G_HEAD] >= 0:
        waiting = m[segment + k.G_HEAD]
        remove(m, segment + k.G_HEAD, waiting)
        queued |= locate(m, waiting, plane_of(m, m[waiting + k.T_LOGICAL]))
    return queued


@borrower
def unused_slot(m):
    """Index of the cache slot whose mapping segment was unused for longest."""
    best = m[k.A_CACHED]
    for slot in range(best, best + m[k.K_SEGMENT_SLOTS]):
        if m[m[slot] + k.G_STAMP] < m[m[best] + k.G_STAMP]:
            best = slot
    return best
