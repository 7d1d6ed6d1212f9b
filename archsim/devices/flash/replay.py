"""Runs of the flash kernel: synthetic patterns and traces in, one result out."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from archsim.config import load_part
from archsim.config.checking import Row, check_model
from archsim.config.files import Part
from archsim.devices.flash import columns as k
from archsim.devices.flash.blocks import fill
from archsim.devices.flash.geometry import CORES, SECTOR_BYTES, SsdSpec
from archsim.devices.flash.memory import allocate, at
from archsim.devices.flash.patterns import STRETCH, parse_pattern, pattern_requests
from archsim.devices.flash.random import start_state
from archsim.devices.flash.readers import SECTORS_MAX, open_trace
from archsim.devices.flash.source import feed
from archsim.devices.flash.ssd import run
from archsim.devices.flash.tables import tables
from archsim.units import InputError, quote, suggest

#: Responses the kernel keeps before handing them over.
RESPONSES = 1 << 14
#: The reference's generator starts here.
START_NS = 1
#: Seed of the random choice of blocks to collect.
COLLECT_SEED = 321
#: Device name in the part files of this kernel.
DEVICE = "flash_array"
COMMANDS = ("read", "multiplane_read", "program", "multiplane_program", "erase", "multiplane_erase")
NS_PER_S = 10**9
NS_PER_US = 1000
#: Share of the device that synthetic patterns address, as in the reference.
WORKING_SET = 0.5
#: Most requests outstanding; a device works on far fewer at a time.
DEPTH_MAX = 1 << 16
#: Specs that come with archsim.
SPECS = Path(__file__).parent / "ssds"


class FlashStuckError(Exception):
    """The device has work left but nothing happens any more."""

    exit_code = 3


@dataclass(frozen=True)
class Drive:
    """How a device is driven.

    Attributes
    ----------
    depth : int
        Requests kept outstanding; 0: each request has its own time.
    core : str
        Class of the issuing core.
    hot : bool
        Throttled state.
    filled_bytes : int
        Logical bytes written in order before the run, in no time.
    """

    depth: int = 1
    core: str = "prime"
    hot: bool = False
    filled_bytes: int = 0


@dataclass(frozen=True)
class Run:
    """Outcome of a run.

    Attributes
    ----------
    time_ns : int
        Time of the last event.
    responses_ns : np.ndarray
        int64[requests], from the request's entry in the submission queue to its completion at the host, in order of
        completion.
    counts : dict
        Commands, pages and bytes by name.
    wait_ns : int
        Sum over all requests from their arrival to their completion.
    cpu_s : float
        CPU time of the simulation, making the requests included.
    memory : np.ndarray
        Memory of the kernel at the end.
    """

    time_ns: int
    responses_ns: np.ndarray
    counts: dict[str, int]
    wait_ns: int
    cpu_s: float
    memory: np.ndarray


def simulate(spec: SsdSpec, source: Iterable[np.ndarray], drive: Drive, largest_sectors: int) -> Run:
    """Run requests through a device.

    Parameters
    ----------
    spec : SsdSpec
    source : iterable of int64[n, 4]
        Stretches of requests: time in ns, write, first sector, sectors.
    drive : Drive
    largest_sectors : int
        No request is larger than this.

    Raises
    ------
    FlashStuckError
        When the device stops with requests unserved.
    """
    started = time.process_time()
    config, lookup = tables(spec, drive.core, drive.hot)
    stretches = (rows[i : i + STRETCH] for rows in source for i in range(0, len(rows), STRETCH))
    first = next(stretches, None)
    if first is None:
        raise InputError("there are no requests to run")
    m = allocate(
        spec,
        config,
        lookup,
        depth=drive.depth,
        random=start_state(COLLECT_SEED),
        stretch=STRETCH,
        out=RESPONSES,
        largest_pages=-(-largest_sectors // config.sectors) + 1,
    )
    if drive.filled_bytes:
        fill(m, min(spec.logical_pages, drive.filled_bytes // spec.page_bytes))
    at(m, k.ARRIVE, int(first[0, k.S_TIME]) if drive.depth == 0 else START_NS)
    responses: list[np.ndarray] = []
    asked = len(first)
    feed(m, first)
    while True:
        wanted = 2 if m[k.STARTED] else drive.depth + 2
        while not m[k.FINAL] and m[k.LENGTH] - m[k.CURSOR] < wanted:
            fresh = next(stretches, None)
            if fresh is None:
                m[k.FINAL] = 1
            else:
                feed(m, fresh)
                asked += len(fresh)
        m[k.OUT] = m[k.PAUSE] = 0
        run(m)
        responses.append(m[m[k.A_OUT] :][: m[k.OUT]] >> 1)
        if not m[k.PAUSE]:
            break
    if m[k.SERVED] != asked:
        left = asked - m[k.SERVED]
        raise FlashStuckError(f"flash: {left} of {asked} requests unserved at {m[k.NOW]} ns and nothing is pending")
    return Run(
        time_ns=int(max(m[k.NOW], m[k.DOWN_LINK + k.L_FREE], m[k.UP_LINK + k.L_FREE])),
        responses_ns=np.concatenate(responses),
        counts=_counts(m),
        wait_ns=int(m[k.ARRIVAL_SUM]),
        cpu_s=time.process_time() - started,
        memory=m,
    )


def _counts(m: np.ndarray) -> dict[str, int]:
    """Counts by name."""
    named = {
        "read": k.N_READ,
        "multiplane_read": k.N_MULTI_READ,
        "program": k.N_PROGRAM,
        "multiplane_program": k.N_MULTI_PROGRAM,
        "erase": k.N_ERASE,
        "multiplane_erase": k.N_MULTI_ERASE,
        "pages_read": k.N_PAGE_READ,
        "pages_programmed": k.N_PAGE_PROGRAM,
        "blocks_erased": k.N_BLOCK_ERASE,
        "collections": k.N_GC,
        "pages_moved": k.N_GC_PAGE,
        "mapping_reads": k.N_MAP_READ,
        "mapping_writes": k.N_MAP_WRITE,
        "pages_ahead": k.N_AHEAD,
    }
    counts = {name: int(m[index]) for name, index in named.items()}
    counts["read_bytes"] = int(m[k.READ_SECTORS]) * SECTOR_BYTES
    counts["written_bytes"] = int(m[k.WRITTEN_SECTORS]) * SECTOR_BYTES
    counts["programmed_bytes"] = int(m[k.PROGRAMMED_SECTORS]) * SECTOR_BYTES
    counts["link_bytes"] = counts["read_bytes"] + counts["written_bytes"]
    return counts


def device_names() -> list[str]:
    """Names of the devices that come with archsim."""
    return sorted(path.stem for path in SPECS.glob("*.yaml"))


@lru_cache(maxsize=32)
def device_spec(name_or_path: str | Path) -> SsdSpec:
    """Spec of a device by name, or of a part file by path.

    Raises
    ------
    InputError
        When there is none, or the file does not fit :class:`SsdSpec`.
    """
    part = _device_part(name_or_path)
    check_model(SsdSpec, part.section, sourced=True)
    return SsdSpec.model_validate_json(json.dumps(part.section.values), strict=True)


def device_rows(name_or_path: str | Path) -> list[Row]:
    """Values of a device with units, sources and ranges; errors as :func:`device_spec`."""
    return list(check_model(SsdSpec, _device_part(name_or_path).section, sourced=True).rows)


def _device_part(name_or_path: str | Path) -> Part:
    """Part file of a device by name or path."""
    text = str(name_or_path)
    if "/" not in text and not text.endswith((".yaml", ".yml")):
        if text not in device_names():
            raise InputError(f"unknown flash device {quote(text)}; {suggest(text, device_names())}")
        text = str(SPECS / f"{text}.yaml")
    part = load_part(text)
    if part.device != DEVICE:
        raise InputError(f"{text}: is a part for {quote(part.device)}, not for {quote(DEVICE)}")
    return part


def run_pattern(
    spec: SsdSpec,
    pattern: str,
    size_bytes: int,
    requests: int,
    *,
    depth: int = 1,
    seed: int = 123,
    span_bytes: int = 0,
    core: str = "prime",
    hot: bool = False,
    filled_bytes: int = 0,
) -> Run:
    """Run a synthetic pattern in a closed loop.

    Parameters
    ----------
    spec : SsdSpec
    pattern : str
        ``rand_read``, ``seq_read``, ``rand_write``, ``seq_write`` or ``mixed:READSHARE``.
    size_bytes, requests, depth, seed : int
        Bytes of a request, requests, requests outstanding, and seed as the reference takes it.
    span_bytes : int
        Bytes addressed; 0: half of the device, as in the reference.
    core, hot, filled_bytes
        See :class:`Drive`.
    """
    if depth < 1:
        raise InputError(f"queue depth {depth}: at least 1 is needed")
    _check_drive(depth, core)
    last = spec.last_sector(WORKING_SET)
    if span_bytes:
        if not SECTOR_BYTES <= span_bytes <= spec.logical_sectors * SECTOR_BYTES:
            raise InputError(
                f"a span of {span_bytes} bytes is not within the device's {spec.logical_sectors * SECTOR_BYTES}"
            )
        last = span_bytes // SECTOR_BYTES
    source = pattern_requests(parse_pattern(pattern), size_bytes, requests, last, seed)
    return simulate(spec, source, Drive(depth, core, hot, filled_bytes), size_bytes // SECTOR_BYTES)


def _check_drive(depth: int, core: str) -> None:
    """Refuse a depth that no host keeps outstanding, and an unknown class of core."""
    if depth > DEPTH_MAX:
        raise InputError(f"queue depth {depth}: at most {DEPTH_MAX} requests can be outstanding")
    if core not in CORES:
        raise InputError(f"unknown core {quote(core)}; {suggest(core, CORES)}")


def run_trace(
    spec: SsdSpec,
    path: str | Path,
    *,
    format: str = "",
    unit: str = "",
    action: str = "D",
    depth: int = 0,
    core: str = "prime",
    hot: bool = False,
    filled_bytes: int = 0,
) -> tuple[Run, dict[str, Any]]:
    """Replay a trace at its own times or, with a `depth`, as fast as that many requests outstanding allow.

    Addresses beyond the device are taken modulo its size, as the reference does, and counted.

    Returns
    -------
    tuple of Run and dict
        The dictionary tells about the trace: format, lines skipped, addresses wrapped.
    """
    if depth < 0:
        raise InputError(f"queue depth {depth}: at least 1 is needed, or 0 for the trace's own times")
    _check_drive(depth, core)
    trace = open_trace(path, format, unit, action)
    wrapped = [0]
    source = _within(trace.stretches(), spec.logical_sectors, wrapped)
    done = simulate(spec, source, Drive(depth, core, hot, filled_bytes), min(SECTORS_MAX, spec.logical_sectors))
    return done, {"format": trace.format, "skipped_lines": trace.skipped, "wrapped_addresses": wrapped[0]}


def _within(stretches: Iterator[np.ndarray], sectors: int, wrapped: list[int]) -> Iterator[np.ndarray]:
    """Take addresses modulo the device and count those that needed it; a request must fit behind its address."""
    for rows in stretches:
        if (rows[:, k.S_SECTORS] > sectors).any():
            raise InputError(
                f"a request of {rows[:, k.S_SECTORS].max()} sectors is larger than the device ({sectors} sectors)"
            )
        beyond = rows[:, k.S_SECTOR] + rows[:, k.S_SECTORS] > sectors
        if beyond.any():
            wrapped[0] += int(beyond.sum())
            room = sectors - rows[beyond, k.S_SECTORS] + 1
            rows[beyond, k.S_SECTOR] %= room
        yield rows


def result(spec: SsdSpec, done: Run) -> dict[str, Any]:
    """Outcome of a run as ``archsim trace flash --json`` prints it."""
    responses = done.responses_ns
    size = done.counts["read_bytes"] + done.counts["written_bytes"]
    p99 = float(np.percentile(responses, 99, method="higher"))
    counts = done.counts
    energy = {
        "page_read": counts["pages_read"] * spec.energy_page_pj,
        "page_program": counts["pages_programmed"] * spec.energy_program_pj,
        "block_erase": counts["blocks_erased"] * spec.energy_erase_pj,
        "link": counts["link_bytes"] * 8 * spec.energy_link_bit_pj,
    }
    return {
        "bandwidth_mb_s": size / done.time_ns * NS_PER_US,
        "iops": len(responses) / done.time_ns * NS_PER_S,
        "response_us_avg": float(responses.mean()) / NS_PER_US,
        "response_us_min": int(responses.min()) / NS_PER_US,
        "response_us_max": int(responses.max()) / NS_PER_US,
        "response_us_p99": p99 / NS_PER_US,
        "cpu_s": done.cpu_s,
        "requests": len(responses),
        "time_us": done.time_ns / NS_PER_US,
        "end_to_end_us_avg": done.wait_ns / len(responses) / NS_PER_US,
        "commands": {name: counts[name] for name in COMMANDS},
        "pages": {
            name: count for name, count in counts.items() if name not in COMMANDS and not name.endswith("_bytes")
        },
        "bytes": {name[:-6]: count for name, count in counts.items() if name.endswith("_bytes")},
        "energy_pj": energy,
    }
