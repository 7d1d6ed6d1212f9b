"""Concurrent closed-loop request streams on the command kernel, to calibrate the bandwidth pool.

Each stream keeps up to `depth` reads in flight, each until its data is back. Writes are posted: a stream forgets them
once they are queued, unless it says otherwise; then they count until their command has issued, and fewer in flight than
the drain mark may wait for as long as other streams keep reading. Streams take turns in offering; one whose next
request finds its queue full does not hold back the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from archsim.devices.dram import command, layout
from archsim.devices.dram.controller import Memory, load_memory
from archsim.devices.dram.reading import choice, whole
from archsim.devices.dram.replay import ReplayError, decode, energy_of
from archsim.units import InputError, quote

PATTERNS = ("sequential", "random")
PERIOD = 1 << 16  # requests after which a stream's addresses repeat
MAX_STREAMS = 64
STEP_CYCLES = 1 << 12
WARM_SHARE = 0.2


@dataclass(frozen=True)
class StreamSpec:
    """One source of requests.

    Attributes
    ----------
    depth : int
        Reads in flight, 1 to 4096 (1: a chain).
    pattern : str
        ``sequential`` (burst after burst) or ``random`` (uniform over the stream's share of the memory).
    read_share : float
        Share of reads, spread evenly, 0 to 1.
    rate_gb_s : float or None
        Offered rate, GB/s (1e9); None: as fast as `depth` allows.
    posted : bool
        False: writes count in `depth`.

    Notes
    -----
    Writes offered as fast as the queue takes them keep it above the mark at which a drain ends, so the controller never
    returns to reads: give a stream of writes only a rate.
    """

    depth: int
    pattern: str = "sequential"
    read_share: float = 1.0
    rate_gb_s: float | None = None
    posted: bool = True


@dataclass(frozen=True)
class StreamResult:
    """What one stream got: bandwidth in GB/s (1e9), mean read latency and write wait in cycles, requests measured."""

    bandwidth_gb_s: float
    read_latency_cycles: float
    write_wait_cycles: float
    requests: int


@dataclass(frozen=True)
class StreamsResult:
    """Outcome of concurrent streams over `cycles` of `tck_ns` after the warm-up; energy in pJ of all cycles."""

    streams: tuple[StreamResult, ...]
    cycles: int
    tck_ns: float
    bandwidth_gb_s: float
    peak_fraction: float
    energy_pj: dict[str, float]


def streams(
    standard: str | Memory,
    controller: str = "mobile",
    streams: Sequence[StreamSpec] = (),
    requests: int = 100_000,
    *,
    channels: int = 1,
    seed: int = 0,
) -> StreamsResult:
    """Run concurrent streams until `requests` have been taken in all, and measure after the first fifth.

    Parameters
    ----------
    standard : str or Memory
        Name of a standard (with `controller` and `channels`), or a resolved memory.
    requests : int
        Requests over all streams, at least 100.
    channels : int
        Also the requests that may be taken in a cycle.
    seed : int
        Of the random patterns.

    Raises
    ------
    InputError
        No streams, or a stream out of range.
    """
    memory = standard if isinstance(standard, Memory) else load_memory(standard, controller, channels=channels)
    _check(streams, requests, seed)
    m = layout.new_state(memory.org, memory.rules, memory.effects, tuple(s.depth for s in streams))
    columns = _columns(memory, streams, seed)
    for k, spec in enumerate(streams):
        source = m[layout.SOURCES] + k * layout.SOURCE
        m[source + layout.AT_REQUEST] = m[source + layout.FIRST] = k * PERIOD
        m[source + layout.END], m[source + layout.WRAP] = (k + 1) * PERIOD, 1
        m[source + layout.POSTED] = int(spec.posted)
        if spec.rate_gb_s is not None:
            cycles = memory.org.burst_bytes / (spec.rate_gb_s * memory.standard.tck_ns)
            m[source + layout.PACE] = round(cycles * (1 << 16))
            m[source + layout.LIMITED] = 1
    start = _run_until(memory, m, columns, int(requests * WARM_SHARE))
    before = _counters(m, len(streams))
    cycles = _run_until(memory, m, columns, requests) - start
    got = _counters(m, len(streams)) - before
    return _result(memory, m, got, cycles, start + cycles)


def _check(streams: Sequence[StreamSpec], requests: int, seed: int) -> None:
    if not isinstance(streams, list | tuple):
        raise InputError(f"streams: expected a list of StreamSpec, found {quote(streams)}")
    if not streams:
        raise InputError("streams: none given; give at least one StreamSpec")
    if len(streams) > MAX_STREAMS:
        raise InputError(f"streams: {len(streams)} given; at most {MAX_STREAMS}")
    whole("requests", requests, 100, 1 << 32)
    whole("seed", seed, 0, (1 << 63) - 1)
    for k, spec in enumerate(streams):
        if not isinstance(spec, StreamSpec):
            raise InputError(f"streams[{k}]: {quote(spec)} is not a StreamSpec")
        whole(f"streams[{k}].depth", spec.depth, 1, 4096)
        for key in ("read_share", "rate_gb_s"):
            value = getattr(spec, key)
            if isinstance(value, bool) or not isinstance(
                value, int | float | None if key == "rate_gb_s" else int | float
            ):
                raise InputError(f"streams[{k}].{key}: {quote(value)} is not a number")
        choice(f"streams[{k}]", spec.pattern, PATTERNS, "pattern")
        if not 0 <= spec.read_share <= 1:
            raise InputError(f"streams[{k}].read_share: {spec.read_share} is out of range; expected 0 to 1")
        if spec.rate_gb_s is not None and not 1e-3 <= spec.rate_gb_s <= 1e4:
            raise InputError(f"streams[{k}].rate_gb_s: {spec.rate_gb_s} is out of range; expected 0.001 to 10000")


def _columns(memory: Memory, streams: Sequence[StreamSpec], seed: int) -> tuple[np.ndarray, ...]:
    """Decoded requests of all streams, PERIOD each; every stream has its own share of the memory."""
    burst = memory.org.burst_bytes
    share = memory.capacity_bytes // burst // len(streams)
    addresses, writes = [], []
    for k, spec in enumerate(streams):
        index = np.arange(PERIOD, dtype=np.int64)
        if spec.pattern == "random":
            place = np.random.default_rng((seed, k)).integers(0, share, PERIOD)
        else:
            place = index % share
        addresses.append((k * share + place) * burst)
        # An even spread: a request is a read when the running total of reads passes a whole number.
        reads = np.floor((index + 1) * spec.read_share) > np.floor(index * spec.read_share)
        writes.append(1 - reads.astype(np.int64))
    address, write = np.concatenate(addresses), np.concatenate(writes)
    place, cell, row = (np.empty(address.size, np.int64) for _ in range(3))
    decode(address, write, memory.pieces, memory.hashes, memory.org, place, cell, row)
    return place, cell, row


def _run_until(memory: Memory, m: np.ndarray, columns: tuple[np.ndarray, ...], requests: int) -> int:
    """Advance until `requests` have been taken; returns the clock."""
    empty = np.empty(0, np.int64)
    while m[layout.NEXT_AGE] < requests:
        until = m[layout.CLOCK] + STEP_CYCLES
        why = command.run(m, *columns, empty, memory.org.channels, 1, until, empty, empty)
        if why != command.TIME_UP:
            raise ReplayError(
                f"the memory stopped at cycle {m[layout.CLOCK]} with {m[layout.OUTSTANDING]} requests waiting"
            )
    return int(m[layout.CLOCK])


def _counters(m: np.ndarray, count: int) -> np.ndarray:
    fields = (layout.OFFERED, layout.READS, layout.LATENCY, layout.WRITES, layout.WAIT)
    return np.array([[m[m[layout.SOURCES] + k * layout.SOURCE + f] for f in fields] for k in range(count)])


def _result(memory: Memory, m: np.ndarray, got: np.ndarray, cycles: int, clock: int) -> StreamsResult:
    time_ns = cycles * memory.standard.tck_ns
    each = tuple(
        StreamResult(
            bandwidth_gb_s=float(taken * memory.org.burst_bytes / time_ns),
            read_latency_cycles=float(latency / reads) if reads else 0.0,
            write_wait_cycles=float(wait / writes) if writes else 0.0,
            requests=int(taken),
        )
        for taken, reads, latency, writes, wait in got
    )
    total = sum(s.bandwidth_gb_s for s in each)
    return StreamsResult(
        streams=each,
        cycles=cycles,
        tck_ns=memory.standard.tck_ns,
        bandwidth_gb_s=total,
        peak_fraction=total / memory.peak_gb_s,
        energy_pj=energy_of(memory, m, clock),
    )
