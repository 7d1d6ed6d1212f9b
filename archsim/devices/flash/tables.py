"""Kernel view of a flash device: counts and times in whole nanoseconds, the tick of the kernel, and look-up tables.

Planes (or dies) that take commands of their own are chips to the kernel.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from archsim.devices.flash.geometry import CORES, SECTOR_BYTES, SsdSpec, page_layout, page_type

NS_PER_S = 10**9
PS_PER_NS = 1000


class Config(NamedTuple):
    """Integers of the kernel: counts, and times in ns. Chips are scheduling units (planes when independent)."""

    channels: int
    chips: int
    planes: int
    units: int  # chips of all channels
    total_planes: int
    sectors: int
    pages_per_block: int
    blocks: int
    ready_ns: int
    program_ns: int
    erase_ns: int
    lanes: int
    link_num: int  # a message of w wire bytes takes floor(ceil(w / lanes) * link_num / link_den) ns
    link_den: int
    packet: int
    overhead: int
    doorbell_ns: int
    fetch_ns: int
    entry_ns: int
    completion_ns: int
    host_queue: int
    device_queue: int
    gc_threshold: int
    gc_hard: int
    gc_per_plane: int
    write_stop: int
    gc_sample: int
    issue_ns: int
    issue_page_ns: int
    response_ns: int
    command_ns: int
    translate_ns: int
    map_shift: int  # log2 of the sectors of a mapping unit
    segment_shift: int  # log2 of the pages of a mapping segment
    segment_slots: int  # 0: the whole mapping is in the controller
    map_data_ns: int
    ahead: int  # pages read ahead
    commands_first: int
    data_by_page: int


class Tables(NamedTuple):
    """Look-up tables of the kernel, int64."""

    unit: np.ndarray  # [total_planes]: chip (over all channels) of a logical page, by its number modulo the planes
    die: np.ndarray  # [total_planes]
    plane: np.ndarray  # [total_planes]: plane in its die
    read_ns: np.ndarray  # [planes + 1]: command cycles by planes taking part
    program_cmd_ns: np.ndarray  # [planes + 1]
    erase_cmd_ns: np.ndarray  # [planes + 1]
    array_ns: np.ndarray  # [pages_per_block]: array read time, ready delay included
    data_ns: np.ndarray  # [sectors + 1]: transfer on the channel


def ns(duration_ps: int) -> int:
    """Picoseconds in the kernel's nanoseconds, rounded up."""
    return -(-duration_ps // PS_PER_NS)


def scaled(spec: SsdSpec) -> SsdSpec:
    """Spec with its ``time_scale`` worked into times and rates."""
    factor = spec.time_scale
    if factor == 1.0:
        return spec
    changed: dict[str, object] = {"time_scale": 1.0, "read_ps": tuple(round(time * factor) for time in spec.read_ps)}
    for name in SsdSpec.model_fields:
        if name.endswith("_ps") and name != "read_ps":
            changed[name] = round(getattr(spec, name) * factor)
        elif name.endswith("_bytes_per_s"):
            changed[name] = getattr(spec, name) / factor
    return spec.model_copy(update=changed)


def message_ns(payload_bytes: int, config: Config) -> int:
    """Link time of a message with data: each started packet adds its overhead."""
    wire = payload_bytes + config.overhead * -(-payload_bytes // config.packet)
    return -(-wire // config.lanes) * config.link_num // config.link_den


def tables(spec: SsdSpec, core: Literal["prime", "performance", "efficiency"], hot: bool) -> tuple[Config, Tables]:
    """Kernel view of a spec.

    Parameters
    ----------
    spec : SsdSpec
    core : str
        Class of the core that issues.
    hot : bool
        Throttled state: link, channels and controller run at ``throttled_fraction``.

    Returns
    -------
    tuple of Config and Tables
        Small planes: collection starts below three free blocks at the latest, and writes stop at a level under that, so
        that collection always starts before writes wait for it.
    """
    spec = scaled(spec)
    slow = spec.throttled_fraction if hot else 1.0
    independent = spec.independent_planes
    planes = 1 if independent else spec.planes
    chips = spec.chips * (spec.dies if independent or spec.independent_dies else 1)
    chips *= spec.planes if independent else 1
    threshold = max(3, int(spec.gc_threshold * spec.blocks_per_plane))
    lane = round(spec.lane_bytes_per_s * slow / 1e6)  # 1e6 bytes/s
    issue = {name: getattr(spec, f"issue_{name}_ps") for name in CORES}[core]
    half = Config(
        channels=spec.channels,
        chips=chips,
        planes=planes,
        units=spec.channels * chips,
        total_planes=spec.total_planes,
        sectors=spec.sectors_per_page,
        pages_per_block=spec.pages_per_block,
        blocks=spec.blocks_per_plane,
        ready_ns=ns(spec.ready_ps),
        program_ns=ns(spec.program_ps),
        erase_ns=ns(spec.erase_ps),
        lanes=spec.lanes,
        link_num=1000,
        link_den=lane,
        packet=spec.packet_bytes,
        overhead=spec.packet_overhead_bytes,
        doorbell_ns=0,
        fetch_ns=-(-spec.header_bytes // spec.lanes) * 1000 // lane,
        entry_ns=0,
        completion_ns=0,
        host_queue=spec.host_queue,
        device_queue=spec.device_queue,
        gc_threshold=threshold,
        gc_hard=max(1, int(spec.gc_hard_threshold * spec.blocks_per_plane)),
        gc_per_plane=spec.gc_per_plane,
        write_stop=max(2, min(spec.write_stop_blocks, threshold - 1)),
        gc_sample=max(1, int(np.log2(spec.blocks_per_plane))),
        issue_ns=ns(issue),
        issue_page_ns=ns(spec.issue_page_ps),
        response_ns=ns(spec.response_ps),
        command_ns=ns(round(spec.command_ps / slow)),
        translate_ns=ns(round(spec.translate_ps / slow)),
        map_shift=(spec.map_unit_bytes // SECTOR_BYTES).bit_length() - 1,
        segment_shift=(spec.map_segment_bytes // spec.page_bytes).bit_length() - 1,
        segment_slots=spec.map_cache_bytes // spec.map_segment_bytes,
        map_data_ns=_data_ns(spec.map_read_bytes, spec.channel_bytes_per_s * slow),
        ahead=spec.read_ahead_bytes // spec.page_bytes,
        commands_first=int(spec.commands_first),
        data_by_page=int(spec.data_by_page),
    )
    config = half._replace(
        doorbell_ns=message_ns(spec.doorbell_bytes, half),
        entry_ns=message_ns(spec.entry_bytes, half),
        completion_ns=message_ns(spec.completion_bytes, half),
    )
    return config, _lookup(spec, config, spec.channel_bytes_per_s * slow)


def _data_ns(size: int, rate: float) -> int:
    """Channel time of `size` bytes, rounded up."""
    return -(-size * NS_PER_S // round(rate))


def _lookup(spec: SsdSpec, config: Config, rate: float) -> Tables:
    """Tables of a spec; see :class:`Tables`."""
    place = page_layout(spec)
    channel, chip, die, plane = place.T
    if spec.independent_planes or spec.independent_dies:
        chip, die = chip * spec.dies + die, np.zeros_like(die)
    if spec.independent_planes:
        chip, plane = chip * spec.planes + plane, np.zeros_like(plane)
    further = np.maximum(np.arange(config.planes + 1, dtype=np.int64) - 1, 0)
    array = [ns(spec.read_ps[page_type(spec, page)]) + config.ready_ns for page in range(spec.pages_per_block)]
    data = [_data_ns(count * SECTOR_BYTES, rate) for count in range(spec.sectors_per_page + 1)]
    return Tables(
        unit=np.ascontiguousarray(channel * config.chips + chip),
        die=np.ascontiguousarray(die),
        plane=np.ascontiguousarray(plane),
        read_ns=ns(spec.command_read_ps) + further * ns(spec.command_read_more_ps),
        program_cmd_ns=ns(spec.command_program_ps) + further * ns(spec.command_program_more_ps),
        erase_cmd_ns=ns(spec.command_erase_ps) + further * ns(spec.command_erase_more_ps),
        array_ns=np.array(array, np.int64),
        data_ns=np.array(data, np.int64),
    )
