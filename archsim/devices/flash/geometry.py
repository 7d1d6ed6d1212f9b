"""What a flash device is made of: the spec and its address layout.

A page-level device: ``channels`` buses, each with ``chips`` that take one command at a time, of ``dies`` dies and
``planes`` planes. With ``independent_planes`` every plane takes its own commands (reads of one plane do not wait for
another), with ``independent_dies`` every die.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from archsim.units import Bytes, BytesPerS, Count, Factor, Fraction01, PositiveFactor, PositiveInt, Ps

SECTOR_BYTES = 512
#: Blocks of a plane that hold no data: the mapping frontier, two open blocks and one that stays free for collection.
SPARE_BLOCKS = 4
CORES = ("prime", "performance", "efficiency")


class SsdSpec(BaseModel):
    """One flash device with its controller and the host that drives it.

    Attributes
    ----------
    channels, chips, dies, planes : int
        Buses, chips per bus, dies per chip, planes per die.
    independent_planes : bool
        Whether each plane takes commands of its own; otherwise a chip does one (multi-plane) command at a time.
    independent_dies : bool
        Whether each die takes (multi-plane) commands of its own. In the reference a chip works on one of its dies at a
        time, so more dies only part the pages that could share a command.
    commands_first : bool
        Whether a channel that falls free takes a command before read data that wait, which keeps arrays busy; the
        reference moves data first.
    data_by_page : bool
        Whether read data go to the host page by page as they arrive; in the reference the whole request waits for its
        last page.
    layout : str
        Order in which consecutive logical pages go over C(hannels), W (chips), D(ies) and P(lanes).
    blocks_per_plane, pages_per_block, page_bytes : int
        Size of a plane; a page has at most 62 sectors of 512 bytes.
    overprovisioning : float
        Share of the physical pages that is not offered to the host.
    page_types : list of int
        Type of the first pages of a block; the pages after them repeat `page_cycle`, each entry for two pages.
    page_cycle : list of int
        See `page_types`.
    read_ps : list of int
        Array time of a read by page type (LSB, CSB, MSB).
    program_ps, erase_ps, ready_ps : int
        Array time of a program and an erase; ready/busy delay added to each read.
    command_read_ps, command_program_ps, command_erase_ps : int
        Command and address cycles on the channel for one plane.
    command_read_more_ps, command_program_more_ps, command_erase_more_ps : int
        The same for each further plane of a multi-plane command.
    channel_bytes_per_s : float
        Data rate of one channel.
    lanes, lane_bytes_per_s, packet_bytes, packet_overhead_bytes, header_bytes : int
        Host link in each direction: lanes, rate of a lane, largest payload of a packet, what a packet adds, and wire
        size of a message without data.
    doorbell_bytes, entry_bytes, completion_bytes : int
        Payloads of a doorbell, of a request and of its completion.
    host_queue, device_queue : int
        Slots of the submission queue, and requests the device works on at a time.
    gc_threshold, gc_hard_threshold : float
        Share of free blocks in a plane below which garbage collection starts, and precedes the host's requests.
    gc_per_plane, write_stop_blocks : int
        Collections at a time in a plane, and free blocks below which writes of the host wait; on small planes
        collection is kept above the stop (see :func:`tables`).
    issue_prime_ps, issue_performance_ps, issue_efficiency_ps : int
        Time of the issuing core per request.
    issue_page_ps : int
        Time of the issuing core per 4 KiB of a request.
    response_ps : int
        From the completion at the host to the thread's next request: interrupt and wake-up, core not busy.
    command_ps : int
        Time of the controller per request.
    translate_ps : int
        Time of the controller per `map_unit_bytes` of a request that does not continue the one before.
    map_unit_bytes, map_segment_bytes, map_cache_bytes : int
        Granularity of the mapping; logical bytes covered by one mapping page as it is fetched; logical bytes the cache
        covers (0: everything).
    map_read_bytes : int
        Bytes moved on the channel when a segment is fetched or written back.
    read_ahead_bytes : int
        Bytes a sequential reader is read ahead by the device (0: none).
    time_scale : float
        All times of device and host are multiplied by this, all rates divided: one number for a slower phone.
    throttled_fraction : float
        Rates of link, channels and controller in the hot state.
    energy_page_pj, energy_program_pj, energy_erase_pj, energy_link_bit_pj : float
        Energy per page read, per page programmed, per block erased and per bit on the link.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    channels: Annotated[PositiveInt, Field(le=16)]
    chips: Annotated[PositiveInt, Field(le=64)]
    dies: Annotated[PositiveInt, Field(le=16)]
    planes: Annotated[PositiveInt, Field(le=16)]
    independent_planes: bool
    independent_dies: bool
    commands_first: bool
    data_by_page: bool
    layout: str = "CWDP"
    blocks_per_plane: Annotated[PositiveInt, Field(ge=8, le=1 << 16)]
    pages_per_block: Annotated[PositiveInt, Field(le=1 << 14)]
    page_bytes: Annotated[Bytes, Field(ge=SECTOR_BYTES, le=62 * SECTOR_BYTES)]
    overprovisioning: Annotated[Fraction01, Field(lt=1)]
    page_types: tuple[Annotated[int, Field(ge=0, le=7)], ...]
    page_cycle: Annotated[tuple[Annotated[int, Field(ge=0, le=7)], ...], Field(min_length=1)]
    read_ps: Annotated[tuple[Ps, ...], Field(min_length=1)]
    program_ps: Ps
    erase_ps: Ps
    ready_ps: Ps
    command_read_ps: Ps
    command_program_ps: Ps
    command_erase_ps: Ps
    command_read_more_ps: Ps
    command_program_more_ps: Ps
    command_erase_more_ps: Ps
    channel_bytes_per_s: BytesPerS
    lanes: PositiveInt
    lane_bytes_per_s: BytesPerS
    packet_bytes: Annotated[Bytes, Field(ge=1)]
    packet_overhead_bytes: Bytes
    header_bytes: Annotated[Bytes, Field(ge=1)]
    doorbell_bytes: Annotated[Bytes, Field(ge=1)]
    entry_bytes: Annotated[Bytes, Field(ge=1)]
    completion_bytes: Annotated[Bytes, Field(ge=1)]
    host_queue: Annotated[PositiveInt, Field(ge=2, le=1 << 16)]
    device_queue: Annotated[PositiveInt, Field(le=1 << 12)]
    gc_threshold: Fraction01
    gc_hard_threshold: Fraction01
    gc_per_plane: PositiveInt
    write_stop_blocks: Count
    issue_prime_ps: Ps
    issue_performance_ps: Ps
    issue_efficiency_ps: Ps
    issue_page_ps: Ps
    response_ps: Ps
    command_ps: Ps
    translate_ps: Ps
    map_unit_bytes: Annotated[Bytes, Field(ge=SECTOR_BYTES)]
    map_segment_bytes: Annotated[Bytes, Field(ge=SECTOR_BYTES)]
    map_cache_bytes: Bytes
    map_read_bytes: Annotated[Bytes, Field(ge=SECTOR_BYTES)]
    read_ahead_bytes: Bytes
    time_scale: PositiveFactor
    throttled_fraction: Annotated[PositiveFactor, Field(le=1)]
    energy_page_pj: Factor
    energy_program_pj: Factor
    energy_erase_pj: Factor
    energy_link_bit_pj: Factor

    @model_validator(mode="after")
    def _fits(self) -> SsdSpec:
        if sorted(self.layout) != sorted("CWDP"):
            raise ValueError(f"layout {self.layout!r} must name each of C, W, D and P once")
        if self.page_bytes % SECTOR_BYTES:
            raise ValueError(f"page_bytes {self.page_bytes} is no multiple of the sector of {SECTOR_BYTES}")
        kinds = max((*self.page_types, *self.page_cycle))
        if kinds >= len(self.read_ps):
            raise ValueError(f"page type {kinds} has no read_ps; there are {len(self.read_ps)}")
        for name, unit in (("map_segment_bytes", self.page_bytes), ("map_unit_bytes", SECTOR_BYTES)):
            count = getattr(self, name) // unit
            if count * unit != getattr(self, name) or count & (count - 1):
                raise ValueError(f"{name} {getattr(self, name)} is no power of two times {unit}")
        if 0 < self.map_cache_bytes < 2 * self.map_segment_bytes:
            raise ValueError("map_cache_bytes must hold at least two segments")
        spare = self.blocks_per_plane * self.overprovisioning
        if spare <= SPARE_BLOCKS:
            raise ValueError(
                f"overprovisioning {self.overprovisioning} of {self.blocks_per_plane} blocks leaves {spare:.3g} spare "
                f"blocks a "
                f"plane; collection needs more than {SPARE_BLOCKS}"
            )
        return self

    @property
    def total_planes(self) -> int:
        """Planes of the whole device."""
        return self.channels * self.chips * self.dies * self.planes

    @property
    def sectors_per_page(self) -> int:
        """Sectors of 512 bytes in a page."""
        return self.page_bytes // SECTOR_BYTES

    @property
    def logical_sectors(self) -> int:
        """Sectors offered to the host: per plane the share of the physical ones, rounded down."""
        physical = self.blocks_per_plane * self.pages_per_block * self.sectors_per_page
        return self.total_planes * int(physical * (1.0 - self.overprovisioning))

    @property
    def logical_pages(self) -> int:
        """Logical pages, the last one perhaps partly usable."""
        return -(-self.logical_sectors // self.sectors_per_page)

    def last_sector(self, working_set: float) -> int:
        """Last sector of the first part of the device that synthetic patterns address."""
        return int((self.logical_sectors - 1) * working_set)


def page_layout(spec: SsdSpec) -> np.ndarray:
    """Channel, chip, die and plane of each residue of the logical page number: int64[total_planes, 4].

    Consecutive pages step through the letters of ``spec.layout`` from left to right.
    """
    sizes = {"C": spec.channels, "W": spec.chips, "D": spec.dies, "P": spec.planes}
    left = np.arange(spec.total_planes, dtype=np.int64)
    place = np.zeros((spec.total_planes, 4), np.int64)
    for letter in spec.layout:
        place[:, "CWDP".index(letter)] = left % sizes[letter]
        left = left // sizes[letter]
    return place


def page_type(spec: SsdSpec, page: int) -> int:
    """Type of a page by its index in the block."""
    if page < len(spec.page_types):
        return spec.page_types[page]
    return spec.page_cycle[(page - len(spec.page_types)) // 2 % len(spec.page_cycle)]
