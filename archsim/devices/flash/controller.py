"""Controller of the flash kernel: requests into pages, time of the firmware, reading ahead, ends of operations.

Without `command_ns`, `translate_ns` and reading ahead, the pages of a request go to translation at once, which is the
rule of the reference (MQSim, CMU-SAFARI, commit 7ec40e3). With them the firmware works on one page at a time, in
order of arrival; a request that continues the one before is translated as a run, in no time, and its pages come from
buffers that are filled ahead.
"""

from __future__ import annotations

from archsim.devices.flash import columns as k
from archsim.devices.flash.blocks import plane_of
from archsim.devices.flash.collection import block_idle, rewrite
from archsim.devices.flash.host import delivered, send_message
from archsim.devices.flash.memory import append, at, bits, drop_transaction, new_transaction, oldest, put, remove, take
from archsim.devices.flash.nand import ask_all
from archsim.devices.flash.translation import erased, locate, moved, segment_arrived
from archsim.jit import borrower


@borrower
def at_device(m):
    """Deliver a message to the device; returns the request that is complete there, or -1."""
    message = delivered(m, k.DOWN_LINK, k.DOWN)
    kind, request = message & 7, message >> 3
    answer = -1
    if kind == k.M_BELL:
        m[k.DEVICE_TAIL] += 1
        if m[k.IN_DEVICE] < m[k.K_DEVICE_QUEUE]:
            m[k.IN_DEVICE] += 1
            m[k.DEVICE_HEAD] += 1
            answer = k.M_FETCH
    elif kind == k.M_ENTRY:
        m[k.TAKEN] += 1
        m[request + k.R_LEFT] = m[request + k.R_PAGES]
        if not m[request + k.S_WRITE]:
            return request
        answer = request << 3 | k.M_WRITE_FETCH
    else:
        return request
    if answer < 0:
        return -1
    send_message(m, k.UP_LINK, k.UP, answer)
    return -1


@borrower
def arrived(m, request, first):
    """Pages of a request from its page `first` on go to translation, by way of the firmware.

    The request, and the data of a write, are at the device. Returns 1 when that queued anything.
    """
    queued = first > 0
    if m[k.K_COMMAND_NS] + m[k.K_TRANSLATE_NS] + m[k.K_AHEAD] > 0:
        put(m, k.RING_FIRMWARE, request)
        if m[k.F_REQUEST] < 0:
            firmware_next(m)
        return queued
    for page in range(first, m[request + k.R_PAGES]):
        tr = page_transaction(m, request, page)
        queued |= locate(m, tr, plane_of(m, m[tr + k.T_LOGICAL]))
    return queued


@borrower
def page_transaction(m, request, page):
    """Transaction of the page number `page` of a request, with the sectors that the request touches in it."""
    low = m[request + k.R_LOW] if page == 0 else 0
    high = m[request + k.R_HIGH] if page + 1 == m[request + k.R_PAGES] else m[k.K_SECTORS]
    kind = k.WRITE if m[request + k.S_WRITE] else k.READ
    return new_transaction(m, kind, request, m[request + k.R_FIRST] + page, ((1 << (high - low)) - 1) << low)


@borrower
def page_ns(m):
    """Time of the firmware for the page it is at."""
    request, page = m[k.F_REQUEST], m[k.F_PAGE]
    duration = m[k.K_COMMAND_NS] if page == 0 else 0
    if not m[k.F_SEQUENTIAL]:
        low = m[request + k.R_LOW] if page == 0 else 0
        high = m[request + k.R_HIGH] if page + 1 == m[request + k.R_PAGES] else m[k.K_SECTORS]
        duration += m[k.K_TRANSLATE_NS] * ((high - low + (1 << m[k.K_MAP_SHIFT]) - 1) >> m[k.K_MAP_SHIFT])
    return duration


@borrower
def firmware_next(m):
    """Start the firmware on the next request, if there is one."""
    request = oldest(m, k.RING_FIRMWARE)
    m[k.F_REQUEST] = request
    if request < 0:
        return
    take(m, k.RING_FIRMWARE)
    m[k.F_PAGE] = 0
    m[k.F_SEQUENTIAL] = m[request + k.S_SECTOR] == m[k.LAST_END]
    m[k.LAST_END] = m[request + k.S_SECTOR] + m[request + k.S_SECTORS]
    at(m, k.FIRMWARE, m[k.NOW] + page_ns(m))


@borrower
def firmware(m):
    """Pass on the page that the firmware is through with, and those after it that cost no time."""
    request = m[k.F_REQUEST]
    pages = m[request + k.R_PAGES]
    ahead = m[k.F_SEQUENTIAL] and m[k.K_AHEAD] > 0 and not m[request + k.S_WRITE]
    queued, duration = 0, 0
    while duration == 0 and m[k.F_PAGE] < pages:
        if ahead:
            queued |= buffered(m, request, m[request + k.R_FIRST] + m[k.F_PAGE], m[k.F_PAGE])
        else:
            tr = page_transaction(m, request, m[k.F_PAGE])
            queued |= locate(m, tr, plane_of(m, m[tr + k.T_LOGICAL]))
        m[k.F_PAGE] += 1
        if m[k.F_PAGE] < pages:
            duration = page_ns(m)
    if duration > 0:
        at(m, k.FIRMWARE, m[k.NOW] + duration)
    else:
        if ahead:
            queued |= read_ahead(m, m[request + k.R_FIRST] + pages - 1)
        firmware_next(m)
    if queued:
        ask_all(m)


@borrower
def buffer_of(m, page):
    """Handle of the buffer that a logical page may use."""
    return m[k.A_BUFFERS] + (page & m[k.Z_BUFFERS]) * k.H_FIELDS


@borrower
def read_ahead(m, last):
    """Read the pages that follow `last` into buffers; returns 1 when that queued anything."""
    if not last < m[k.AHEAD_NEXT] <= last + 1 + m[k.K_AHEAD]:
        m[k.AHEAD_NEXT] = last + 1
    queued = 0
    while m[k.AHEAD_NEXT] <= min(last + m[k.K_AHEAD], m[k.Z_LOGICAL] - 1):
        page = m[k.AHEAD_NEXT]
        buffer = buffer_of(m, page)
        if m[buffer + k.H_PAGE] != page + 1:
            if m[buffer + k.H_PAGE] > 0 and not m[buffer + k.H_ARRIVED]:
                break
            queued |= load_buffer(m, buffer, page)
        m[k.AHEAD_NEXT] += 1
    return queued


@borrower
def load_buffer(m, buffer, page):
    """Read a page into its buffer; returns 1 when that queued anything."""
    m[buffer + k.H_PAGE], m[buffer + k.H_ARRIVED] = page + 1, 0
    m[k.N_AHEAD] += 1
    return locate(m, new_transaction(m, k.AHEAD_READ, -1, page, (1 << m[k.K_SECTORS]) - 1), plane_of(m, page))


@borrower
def buffered(m, request, page, number):
    """Serve a page of a sequential read from its buffer, filled when needed; returns 1 when that queued anything."""
    buffer = buffer_of(m, page)
    own, loading = m[buffer + k.H_PAGE] == page + 1, m[buffer + k.H_PAGE] > 0 and not m[buffer + k.H_ARRIVED]
    if own and not loading:
        page_served(m, request)
        return 0
    if loading and not own:
        return locate(m, page_transaction(m, request, number), plane_of(m, page))
    append(m, buffer + k.H_HEAD, new_transaction(m, k.WAITER, request, page, 0))
    return 0 if own else load_buffer(m, buffer, page)


@borrower
def buffer_arrived(m, page):
    """Page read ahead is in its buffer: serve those who wait for it."""
    buffer = buffer_of(m, page)
    m[buffer + k.H_ARRIVED] = 1
    while m[buffer + k.H_HEAD] >= 0:
        waiter = m[buffer + k.H_HEAD]
        remove(m, buffer + k.H_HEAD, waiter)
        page_served(m, m[waiter + k.T_REQUEST])
        drop_transaction(m, waiter)


@borrower
def written(m, tr):
    """Count the sectors of a host's program that is done and drop a buffered copy of its page."""
    m[k.PROGRAMMED_SECTORS] += bits(m[tr + k.T_SECTORS])
    buffer = buffer_of(m, m[tr + k.T_LOGICAL])
    if m[buffer + k.H_PAGE] == m[tr + k.T_LOGICAL] + 1 and m[buffer + k.H_ARRIVED]:
        m[buffer + k.H_PAGE] = 0


@borrower
def request_done(m, request):
    """Last page of a request is done: data up, fetch of a waiting request, completion up."""
    m[k.IN_DEVICE] -= 1
    m[request + k.R_HEAD] = m[k.TAKEN]
    if not m[request + k.S_WRITE] and not m[k.K_DATA_BY_PAGE]:
        send_message(m, k.UP_LINK, k.UP, request << 3 | k.M_READ_DATA)
    if m[k.DEVICE_HEAD] != m[k.DEVICE_TAIL]:
        m[k.IN_DEVICE] += 1
        m[k.DEVICE_HEAD] += 1
        send_message(m, k.UP_LINK, k.UP, k.M_FETCH)
    send_message(m, k.UP_LINK, k.UP, request << 3 | k.M_COMPLETION)


@borrower
def page_served(m, request):
    """One page of a request is done."""
    if m[k.K_DATA_BY_PAGE] and not m[request + k.S_WRITE]:
        send_message(m, k.UP_LINK, k.UP, request << 3 | k.M_READ_DATA)
    m[request + k.R_LEFT] -= 1
    if m[request + k.R_LEFT] == 0:
        request_done(m, request)


@borrower
def read_done(m, channel):
    """End the transfer of a page of the host's in the usual case.

    Usual: data wait for the last page, no collection waits for the block, and no page for space in the plane. Returns
    the request if this was its last page, else 0; -1 in the unusual case, with nothing done.
    """
    tr = m[channel + k.C_TRANSACTION]
    block = m[tr + k.T_BLOCK]
    unusual = m[tr + k.T_KIND] != k.READ or m[k.K_DATA_BY_PAGE] > 0
    if unusual or m[block + k.B_GC] or m[m[tr + k.T_PLANE] + k.P_HEAD] >= 0:
        return -1
    m[block + k.B_READS] -= 1
    unit, request = m[tr + k.T_UNIT], m[tr + k.T_REQUEST]
    m[unit + k.U_LEFT] -= 1
    if m[unit + k.U_LEFT] == 0:
        m[unit + k.U_BUSY] = 0
    drop_transaction(m, tr)
    m[request + k.R_LEFT] -= 1
    return request if m[request + k.R_LEFT] == 0 else 0


@borrower
def serviced(m, tr):
    """End an operation: read data are in the controller, a program or an erase is done; 1 when that queued anything."""
    kind, block, plane = m[tr + k.T_KIND], m[tr + k.T_BLOCK], m[tr + k.T_PLANE]
    queued = 0
    if kind == k.GC_READ:
        rewrite(m, tr)
        return 1
    if kind == k.GC_WRITE:
        queued = moved(m, tr)
    elif kind == k.MAP_READ:
        queued = segment_arrived(m, tr)
    elif kind == k.ERASE:
        queued = erased(m, tr)
    elif kind == k.MAP_WRITE:
        m[m[tr + k.T_LOGICAL] + k.G_WRITING] = 0
    else:
        if kind == k.UPDATE_READ:
            m[m[tr + k.T_LINK] + k.T_READY] = 1
        elif kind == k.AHEAD_READ:
            buffer_arrived(m, m[tr + k.T_LOGICAL])
        else:
            page_served(m, m[tr + k.T_REQUEST])
        if kind == k.WRITE:
            written(m, tr)
        m[block + (k.B_PROGRAMS if kind == k.WRITE else k.B_READS)] -= 1
        if m[block + k.B_READS] + m[block + k.B_PROGRAMS] == 0:
            queued = block_idle(m, plane, block)
    drop_transaction(m, tr)
    return queued
