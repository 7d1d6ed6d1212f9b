"""Event kernel of a flash device: the loop over events, and the ends of channel and array operations.

One event is the end of something that occupies a resource: a message on a direction of the link, a command or data on a
channel, an array operation in a chip, a page's work in the firmware, a request's work on the host core. Events of one
time happen in the order in which what ends there was begun.
"""

from __future__ import annotations

from numba import njit

from archsim.devices.flash import columns as k
from archsim.devices.flash.controller import arrived, at_device, firmware, read_done, request_done, serviced
from archsim.devices.flash.host import (
    acknowledge,
    arrive,
    at_host,
    completed,
    enqueue,
    issued,
    next_request,
    prepared,
    woken,
)
from archsim.devices.flash.memory import take
from archsim.devices.flash.nand import (
    array_read,
    ask_all,
    ask_channel,
    ask_for_reads,
    command_taken,
    release,
    settle,
    some_idle,
)
from archsim.devices.flash.translation import locate_reads
from archsim.jit import borrower


@borrower
def page_arrived(m, channel):
    """Pass on the data of a page that was read, whatever it was for."""
    tr = m[channel + k.C_TRANSACTION]
    unit = m[tr + k.T_UNIT]
    if serviced(m, tr):
        ask_all(m)
    m[unit + k.U_LEFT] -= 1
    if m[unit + k.U_LEFT] == 0:
        m[unit + k.U_BUSY] = 0


@borrower
def programmed(m, unit):
    """End a program or an erase of a chip."""
    tr, queued = m[unit + k.U_HEAD], 0
    while tr >= 0:
        after = m[tr + k.T_NEXT]
        queued |= serviced(m, tr)
        tr = after
    if queued:
        ask_all(m)
    m[unit + k.U_BUSY] = 0
    channel = m[unit + k.U_CHANNEL]
    if not settle(m, channel):
        ask_channel(m, channel)


@borrower
def next_event(m):
    """Take the next slot; -1 when nothing is pending.

    At one time the event comes first whose cause began first, and of those the one that was scheduled first.
    """
    least, slot = k.NEVER - 1, -1
    for other in range(k.EVENTS, m[k.EVENTS_END], k.E_FIELDS):
        end = m[other]
        if end > least:
            continue
        if end == least and slot >= 0:
            gap = m[other + k.E_START] - m[slot + k.E_START]
            if gap > 0 or (gap == 0 and m[other + k.E_ORDER] > m[slot + k.E_ORDER]):
                continue
        least, slot = end, other
    if slot >= 0:
        m[k.NOW], m[k.NOW_START], m[k.NOW_ORDER] = least, m[slot + k.E_START], m[slot + k.E_ORDER]
        m[slot] = k.NEVER
    return slot + 0 * m[k.NOW]


@borrower
def seldom(m, slot):
    """Events of what the reference does not have, and arrivals."""
    if slot == k.FIRMWARE:
        firmware(m)
    elif slot == k.CORE:
        issued(m)
    elif slot == k.WAKE:
        woken(m)
    else:
        arrive(m)


@njit(cache=True)
def run(m):
    """Run until more requests are wanted or the room for responses is used up (``PAUSE``), or nothing is pending.

    Parameters
    ----------
    m : int64[:]
        Memory of the kernel, see the module ``columns``.
    """
    chips = k.FIRST_CHANNEL + m[k.K_CHANNELS] * k.E_FIELDS
    while not m[k.PAUSE]:
        slot = next_event(m)
        if slot >= chips:
            unit = m[k.A_UNITS] + ((slot - chips) >> 2) * k.U_FIELDS
            if m[m[unit + k.U_HEAD] + k.T_KIND] < k.WRITE:
                array_read(m, unit)
            else:
                programmed(m, unit)
        elif slot >= k.FIRST_CHANNEL:
            channel = m[k.A_CHANNELS] + ((slot - k.FIRST_CHANNEL) >> 2) * k.C_FIELDS
            if m[channel + k.C_TRANSACTION] >= 0:
                request = read_done(m, channel)
                if request > 0:
                    request_done(m, request)
                elif request < 0:
                    page_arrived(m, channel)
            if m[k.K_COMMANDS_FIRST] and command_taken(m, channel):
                continue
            if release(m, channel) and ask_for_reads(m, channel) < 0:
                ask_channel(m, channel)
        elif slot == k.DOWN:
            request = at_device(m)
            if request >= 0:
                located = locate_reads(m, request)
                queued = located == m[request + k.R_PAGES] or arrived(m, request, located)
                if queued and some_idle(m):
                    ask_all(m)
        elif slot == k.UP:
            request = at_host(m)
            if request >= 0:
                if completed(m, request):
                    enqueue(m, take(m, k.RING_WAIT))
                if acknowledge(m):
                    request = next_request(m)
                    if prepared(m, request):
                        enqueue(m, request)
        elif slot >= 0:
            seldom(m, slot)
        else:
            return
