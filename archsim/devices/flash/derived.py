"""Numbers of the load row that follow from a geometry: what a phone's flash row says of an event-level device.

Closed forms, no simulation: the slowest of link, channels and arrays gives the rate; what a thread, a link and a
controller do one after the other gives the time of a command. A part whose row was fitted to measurements keeps its
values; this is for devices that nobody has measured. Left out: conflicts between pages of different requests on one
die, and what is left of a read-ahead when a stream ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from archsim.devices.flash.geometry import SsdSpec

#: Bytes that a request sends over the link beside its data: doorbell, fetch, entry, completion and its doorbell.
MESSAGES = 6
PS_PER_S = 10**12


def link_bytes_per_s(ssd: SsdSpec) -> float:
    """Payload rate of the link."""
    return ssd.lanes * ssd.lane_bytes_per_s * ssd.packet_bytes / (ssd.packet_bytes + ssd.packet_overhead_bytes)


def array_bytes_per_s(ssd: SsdSpec, units: int) -> float:
    """Rate at which `units` planes read at the same time deliver pages."""
    sense = sum(ssd.read_ps[kind] for kind in ssd.page_cycle) / len(ssd.page_cycle) + ssd.ready_ps
    page = ssd.page_bytes / ssd.channel_bytes_per_s * PS_PER_S
    return units * ssd.page_bytes / (sense + page + ssd.command_read_ps) * PS_PER_S


def parallel_planes(ssd: SsdSpec) -> int:
    """Planes that can sense different pages at a time."""
    dies = ssd.channels * ssd.chips * (ssd.dies if ssd.independent_dies else 1)
    return dies * (ssd.planes if ssd.independent_planes else 1)


def device_bytes_per_s(ssd: SsdSpec) -> float:
    """Long-run rate of whole pages: the slowest of link, channels and arrays."""
    page = ssd.page_bytes / ssd.channel_bytes_per_s * PS_PER_S
    channel = ssd.channels * ssd.page_bytes / (page + ssd.command_read_ps) * PS_PER_S
    return min(link_bytes_per_s(ssd), channel, array_bytes_per_s(ssd, parallel_planes(ssd)))


def message_ps(ssd: SsdSpec) -> float:
    """Time of a request's messages on the link, without its data."""
    payload = 2 * ssd.doorbell_bytes + ssd.entry_bytes + ssd.completion_bytes
    overhead = MESSAGES * (ssd.packet_overhead_bytes + ssd.header_bytes)
    return (payload + overhead) / (ssd.lanes * ssd.lane_bytes_per_s) * PS_PER_S


def load_values(ssd: SsdSpec, core: str = "performance") -> Mapping[str, Any]:
    """Values of :class:`archsim.devices.flash.FlashSpec` that follow from a geometry.

    Parameters
    ----------
    ssd : SsdSpec
        The event-level device; its ``time_scale`` must be 1.
    core : str
        Class of the issuing core.

    Returns
    -------
    Mapping
        Rates in bytes/s and times in ps by field name.
    """
    rate, sense = device_bytes_per_s(ssd), ssd.read_ps[ssd.page_cycle[0]] + ssd.ready_ps
    issue = getattr(ssd, f"issue_{core}_ps")
    page_ps = ssd.page_bytes / ssd.channel_bytes_per_s * PS_PER_S
    miss = ssd.command_read_ps + sense + ssd.map_read_bytes / ssd.channel_bytes_per_s * PS_PER_S
    misses = ssd.map_cache_bytes > 0
    planes = parallel_planes(ssd)
    return {
        "link_bytes_per_s": ssd.lanes * ssd.lane_bytes_per_s,
        "stream_bytes_per_s": rate,
        "random_bytes_per_s": rate,
        "queue_depth": ssd.device_queue,
        "command_ps": round(issue + ssd.response_ps + ssd.command_ps + message_ps(ssd)),
        f"issue_{core}_ps": round(issue),
        "start_ps": round(ssd.command_ps + ssd.translate_ps + (miss if misses else 0) + ssd.command_read_ps + sense),
        "ahead_ps": round(sense) if ssd.read_ahead_bytes else 0,
        "page_transfer_ps": round(page_ps),
        "page_latency_ps": round(sense + page_ps + ssd.response_ps + ssd.command_ps + ssd.translate_ps),
        "translation_span_bytes": ssd.map_cache_bytes or 1 << 50,
        "translation_miss_ps": round(miss / planes),
        "page_bytes": ssd.page_bytes,
    }
