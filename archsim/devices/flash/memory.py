"""Memory of the flash kernel: building it, and the small structures on it (event slots, rings, lists).

Everything that can have an event pending owns a *slot*, a row that says when the event is and what precedes it at that
time. Lists are doubly linked through the transactions. For the layout see the module ``columns``.
"""

from __future__ import annotations

import numpy as np

from archsim.devices.flash import columns as k
from archsim.devices.flash.geometry import SsdSpec
from archsim.devices.flash.tables import Config, Tables
from archsim.jit import borrower
from archsim.units import InputError

#: Requests of a trace that may wait for the submission queue; one more enters when another leaves.
BACKLOG = 1 << 16
#: Most bytes of a device's state.
MEMORY_MAX = 1 << 32


def power_of_two(least: int) -> int:
    """Smallest power of two that is at least `least`."""
    return 1 << max(0, int(least) - 1).bit_length()


def transactions_needed(config: Config, largest_pages: int, segments: int) -> int:
    """Transactions that can exist at a time when no request has more than `largest_pages` pages.

    Each of the mapping's `segments` may be on its way to or from the chips.
    """
    # A page of a request may bring an update read, and wait for a mapping page or for a buffer.
    reserve = config.total_planes * (config.pages_per_block + 1)
    return config.device_queue * largest_pages * 4 + 8 * config.ahead + 2 * reserve + 2 * segments + 64


def _sizes(spec: SsdSpec, config: Config, depth: int, stretch: int, out: int, largest_pages: int) -> dict[int, int]:
    """Sizes of the regions behind the tables, by the index of their start."""
    requests = depth + 16 if depth else BACKLOG
    events = k.FIRST_CHANNEL - k.EVENTS + (config.channels + config.units) * k.E_FIELDS
    segments = (spec.logical_pages >> config.segment_shift) + 1 if config.segment_slots else 1
    transactions = transactions_needed(config, largest_pages, segments)
    return {
        k.A_EVENTS: events,
        k.A_RINGS: k.RINGS * (k.I_DATA + power_of_two(2 * requests)),
        k.A_LINKS: 2 * k.E_FIELDS * power_of_two(4 * requests),
        k.A_REQUESTS: requests * k.R_FIELDS,
        k.A_FREE_REQUEST: requests,
        k.A_UNITS: config.units * k.U_FIELDS,
        k.A_CHANNELS: config.channels * k.C_FIELDS,
        k.A_PLANES: config.total_planes * k.P_FIELDS,
        k.A_LAYOUT: config.total_planes,
        k.A_BLOCKS: config.total_planes * config.blocks * k.B_FIELDS,
        k.A_SEGMENTS: segments * k.G_FIELDS,
        k.A_CACHED: max(1, config.segment_slots),
        k.A_BUFFERS: power_of_two(4 * config.ahead) * k.H_FIELDS,
        k.A_SOURCE: (stretch + depth + 2) * k.S_FIELDS,
        k.A_OUT: out,
        k.A_TRANSACTIONS: transactions * k.T_FIELDS,
        k.A_FREE_TRANSACTION: transactions,
        k.A_MAP: 2 * spec.logical_pages,
        k.A_OWNER: config.total_planes * config.blocks * config.pages_per_block,
    }


def allocate(
    spec: SsdSpec,
    config: Config,
    lookup: Tables,
    *,
    depth: int,
    random: np.ndarray,
    stretch: int,
    out: int,
    largest_pages: int,
) -> np.ndarray:
    """Memory of an erased device without requests.

    Parameters
    ----------
    spec, config, lookup
        Device and its kernel view.
    depth : int
        Requests a closed loop keeps outstanding; 0 for requests with times of their own.
    random : int64[6]
        Start state of the stream of garbage collection.
    stretch : int
        Requests that are handed to the kernel at a time.
    out : int
        Responses that fit before the kernel hands them over.
    largest_pages : int
        Pages of the largest request.
    """
    timing = (lookup.read_ns, lookup.program_cmd_ns, lookup.erase_cmd_ns, lookup.array_ns, lookup.data_ns)
    sizes = _sizes(spec, config, depth, stretch, out, largest_pages)
    sizes |= {k.A_READ_NS + i: table.size for i, table in enumerate(timing)}
    starts = np.cumsum([k.FIRST_REGION, *sizes.values()])
    if starts[-1] > MEMORY_MAX // 8:
        raise InputError(
            f"a device of {spec.logical_pages} pages needs {starts[-1] * 8 / 2**30:.3g} GiB of memory to simulate; at "
            f"most {MEMORY_MAX >> 30} GiB are used: give it fewer or smaller planes"
        )
    m = np.zeros(starts[-1], np.int64)
    m[list(sizes)] = starts[:-1]
    m[k.CONFIG : k.CONFIG + len(config)] = config
    for i, table in enumerate(timing):
        m[m[k.A_READ_NS + i] :][: table.size] = table
    requests = sizes[k.A_FREE_REQUEST]
    ring = sizes[k.A_RINGS] // k.RINGS
    m[[k.Z_RING, k.Z_MASK, k.Z_OUT, k.Z_ALL_PLANES]] = ring, ring - k.I_DATA - 1, out, (1 << config.planes) - 1
    link = sizes[k.A_LINKS] // 2
    m[[k.Z_LINK_MASK, k.DOWN_LINK + k.L_AREA, k.UP_LINK + k.L_AREA]] = link - 1, m[k.A_LINKS], m[k.A_LINKS] + link
    m[k.EVENTS_END] = k.EVENTS + sizes[k.A_EVENTS]
    m[k.Z_DIRECT] = config.command_ns + config.translate_ns + config.ahead + config.segment_slots == 0
    m[[k.Z_BUFFERS, k.Z_LOGICAL]] = sizes[k.A_BUFFERS] // k.H_FIELDS - 1, spec.logical_pages
    m[[k.BARRIER_HEAD, k.BARRIER_TAIL, k.LAST_END, k.F_REQUEST]] = -1
    m[k.OPEN], m[k.DEPTH] = depth == 0, depth
    m[k.STREAM : k.STREAM + 6] = random
    bell, fetch = config.doorbell_ns, config.fetch_ns
    m[k.MESSAGE_NS : k.MESSAGE_NS + 6] = bell, bell, config.entry_ns, fetch, fetch, config.completion_ns
    m[k.EVENTS : m[k.EVENTS_END] : k.E_FIELDS] = k.NEVER
    for what, count, fields in ((k.A_FREE_REQUEST, requests, k.R_FIELDS), (k.A_FREE_TRANSACTION, None, k.T_FIELDS)):
        count = sizes[what] if count is None else count
        m[m[what] :][:count] = (
            m[k.A_REQUESTS if fields == k.R_FIELDS else k.A_TRANSACTIONS] + fields * np.arange(count)[::-1]
        )
    m[k.FREE_REQUESTS], m[k.FREE_TRANSACTIONS] = requests, sizes[k.A_FREE_TRANSACTION]
    _link_rows(m, config, lookup)
    _empty_lists(m, config, sizes)
    return m


def rows(m: np.ndarray, start: int, count: int, fields: int) -> np.ndarray:
    """View of a region as int64[count, fields]."""
    return m[m[start] :][: count * fields].reshape(count, fields)


def _link_rows(m: np.ndarray, config: Config, lookup: Tables) -> None:
    """Handles that chips, channels, planes and blocks have of each other; the state of an erased device."""
    unit = rows(m, k.A_UNITS, config.units, k.U_FIELDS)
    number = np.arange(config.units)
    unit[:, k.U_CHANNEL] = m[k.A_CHANNELS] + number // config.chips * k.C_FIELDS
    unit[:, k.U_SLOT] = k.FIRST_CHANNEL + (config.channels + number) * k.E_FIELDS
    unit[:, k.Q_READ :] = -1
    channel = rows(m, k.A_CHANNELS, config.channels, k.C_FIELDS)
    first = m[k.A_UNITS] + np.arange(config.channels) * config.chips * k.U_FIELDS
    channel[:, k.C_TURN] = channel[:, k.C_UNITS] = first
    channel[:, k.C_END] = first + config.chips * k.U_FIELDS
    channel[:, k.C_SLOT] = k.FIRST_CHANNEL + np.arange(config.channels) * k.E_FIELDS
    plane = rows(m, k.A_PLANES, config.total_planes, k.P_FIELDS)
    plane[:, k.P_UNIT] = m[k.A_UNITS] + lookup.unit * k.U_FIELDS
    plane[:, k.P_DIE], plane[:, k.P_BIT] = lookup.die, 1 << lookup.plane
    plane[:, k.P_BLOCKS] = m[k.A_BLOCKS] + np.arange(config.total_planes) * config.blocks * k.B_FIELDS
    m[m[k.A_LAYOUT] :][: config.total_planes] = m[k.A_PLANES] + np.arange(config.total_planes) * k.P_FIELDS
    block = rows(m, k.A_BLOCKS, config.total_planes * config.blocks, k.B_FIELDS)
    block[:, k.B_OWNER] = m[k.A_OWNER] + np.arange(len(block)) * config.pages_per_block
    block = block.reshape(config.total_planes, config.blocks, k.B_FIELDS)
    block[:, :, k.B_ENTRY] = 1 + (np.arange(config.blocks) << k.PAGE_BITS)
    block[:, :, k.B_STAMP] = np.arange(config.blocks)
    # Three blocks of a plane are opened at the start: for the host, for mapping pages and for collection.
    block[:, :3, k.B_STATE] = k.OPENED
    plane[:, k.P_USER], plane[:, k.P_GC] = plane[:, k.P_BLOCKS], plane[:, k.P_BLOCKS] + 2 * k.B_FIELDS
    plane[:, k.P_POOL], plane[:, k.P_STAMP] = config.blocks - 3, config.blocks


def _empty_lists(m: np.ndarray, config: Config, sizes: dict[int, int]) -> None:
    """Heads and tails of lists that hold nothing."""
    rows(m, k.A_CHANNELS, config.channels, k.C_FIELDS)[:, k.C_FIFO :] = -1
    rows(m, k.A_PLANES, config.total_planes, k.P_FIELDS)[:, [k.P_HEAD, k.P_TAIL]] = -1
    rows(m, k.A_SEGMENTS, sizes[k.A_SEGMENTS] // k.G_FIELDS, k.G_FIELDS)[:, k.G_HEAD :] = -1
    rows(m, k.A_BUFFERS, sizes[k.A_BUFFERS] // k.H_FIELDS, k.H_FIELDS)[:, k.H_HEAD :] = -1


@borrower
def at(m, slot, time):
    """Schedule the end at `time` of something that begins now, as the event of `slot`."""
    m[slot], m[slot + k.E_START], m[slot + k.E_ORDER] = time, m[k.NOW], m[k.SEQ]
    m[k.SEQ] += 1


@borrower
def put(m, ring, value):
    """Append to a ring; returns how many entries it now holds."""
    base = m[k.A_RINGS] + ring * m[k.Z_RING]
    m[base + k.I_DATA + (m[base + k.I_TAIL] & m[k.Z_MASK])] = value
    m[base + k.I_TAIL] += 1
    return m[base + k.I_TAIL] - m[base + k.I_HEAD]


@borrower
def oldest(m, ring):
    """Oldest entry of a ring, -1 when it is empty."""
    base = m[k.A_RINGS] + ring * m[k.Z_RING]
    if m[base + k.I_TAIL] == m[base + k.I_HEAD]:
        return -1
    return m[base + k.I_DATA + (m[base + k.I_HEAD] & m[k.Z_MASK])]


@borrower
def take(m, ring):
    """Remove and return the oldest entry of a ring, which must hold one."""
    base = m[k.A_RINGS] + ring * m[k.Z_RING]
    value = m[base + k.I_DATA + (m[base + k.I_HEAD] & m[k.Z_MASK])]
    m[base + k.I_HEAD] += 1
    return value


@borrower
def append(m, ends, tr):
    """Append a transaction to the list whose head is ``m[ends]`` and whose tail is ``m[ends + 1]``."""
    last = m[ends + 1]
    m[tr + k.T_NEXT] = -1
    m[tr + k.T_PREV] = last
    m[ends if last < 0 else last + k.T_NEXT] = tr
    m[ends + 1] = tr


@borrower
def remove(m, ends, tr):
    """Take a transaction out of its list."""
    before, after = m[tr + k.T_PREV], m[tr + k.T_NEXT]
    m[ends if before < 0 else before + k.T_NEXT] = after
    m[ends + 1 if after < 0 else after + k.T_PREV] = before


@borrower
def new_transaction(m, kind, request, logical, sectors):
    """Take a transaction from the stack; `sectors` is a bitmap. The memory is made with enough of them."""
    m[k.FREE_TRANSACTIONS] -= 1
    tr = m[m[k.A_FREE_TRANSACTION] + m[k.FREE_TRANSACTIONS]]
    m[tr + k.T_KIND], m[tr + k.T_REQUEST] = kind, request
    m[tr + k.T_LOGICAL], m[tr + k.T_SECTORS] = logical, sectors
    m[tr + k.T_LINK], m[tr + k.T_READY] = -1, 1
    return tr


@borrower
def drop_transaction(m, tr):
    """Give a transaction back."""
    m[m[k.A_FREE_TRANSACTION] + m[k.FREE_TRANSACTIONS]] = tr
    m[k.FREE_TRANSACTIONS] += 1


@borrower
def bits(value):
    """Set bits of a sector bitmap."""
    value -= value >> 1 & 0x5555555555555555
    value = (value & 0x3333333333333333) + (value >> 2 & 0x3333333333333333)
    value = (value + (value >> 4)) & 0x0F0F0F0F0F0F0F0F
    value += value >> 8
    value += value >> 16
    return (value + (value >> 32)) & 0x7F
