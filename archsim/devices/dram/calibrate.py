"""From the command kernel to the bandwidth pool: capacity of a mix of streams, weight and cap of each stream in it.

The pool shares by weighted max-min, ``rate_i = min(cap_i, weight_i x level)`` with rates adding up to the capacity of
the mix. Little's law, ``rate_i = in flight_i / latency_i``, ties this to what a controller does with closed loops:

* capacity of the mix = what its streams take together;
* weight_i = bytes in flight_i x mean latency of the mix / latency_i. Streams that meet equal latencies share by their
  bytes in flight; a stream whose row misses wait behind the row hits of others has a smaller weight;
* cap_i = bytes in flight_i / latency_i where the stream runs alone.

Which runs of the kernel tell these numbers: each stream alone, and the mix. Random readers that fit in half of the read
queues meet one and the same latency, so they are run as one reader with their depths added and share by depth: such a
mix is predicted, not measured. Others are measured: sequential streams lock into one another's banks, and full queues
admit by turns, so what a mix does cannot be composed from its pairs (see :func:`calibrate`).

Not modelled: a row keeps its weight and cap when others start or stop, and a table by class knows one depth per class.
The worst stream of a pair shared by the weights of three is then off by 3 % in the median and 44 % at most; with one
depth doubled under an unchanged capacity 16 % and 49 % (without calibration, weights as depths: 95 % in the median).
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

from archsim.devices.dram.controller import Memory, load_memory
from archsim.devices.dram.streams import StreamSpec, StreamsResult
from archsim.devices.dram.streams import streams as run_streams
from archsim.units import InputError

HERE = Path(__file__).parent
SHIPPED = HERE / "calibrated" / "classes.json"
SOURCES = ("calibrate", "command", "controller", "layout", "queues", "replay", "standard", "streams", "table")
REQUESTS, MOST_REQUESTS = 80_000, 2_000_000
ENOUGH = 6000  # requests of the slowest stream in a run: 94 rows of a sequential chain, whose waits go by row
SEEDS = (1, 2, 3)  # a chain beside a random stream scatters by 5 % from one set of random addresses to the next
WEIGHT_ONE = 1024  # weights in 1/1024 byte: a chain beside deep streams has a few bytes

#: Stand-ins of the stream classes that phones run together, for a capacity table by class.
CLASSES: Mapping[str, StreamSpec] = {
    # 5 KiB in flight = 43.9 GB/s x 120 ns (PowerInfer-2, arXiv 2406.06282), in bursts of 32 B
    "cpu_seq_read": StreamSpec(160),
    # assumed: 16 KiB in flight, as 59 GB/s x 280 ns
    "npu_seq_read": StreamSpec(512),
    # UFS 4.0 fills memory at 4 GB/s; the depth does not matter to posted writes
    "flash_write": StreamSpec(64, "sequential", 0.0, 4.0),
    # assumed: 5 KiB in flight, every burst somewhere else; kinder gathers of whole rows are not told apart
    "random_read": StreamSpec(160, "random"),
    # assumed: one core copies 10 GB/s, read and written
    "copy": StreamSpec(160, "sequential", 0.5, 20.0),
}


@dataclass(frozen=True)
class Share:
    """One stream in a mix.

    Attributes
    ----------
    bandwidth_bytes_per_s : float
        In the mix.
    cap_bytes_per_s : float
        Alone (or in the mix, where that is more: streams that open banks for one another).
    in_flight_bytes : float
        Mean over time in the mix, writes in the queue included.
    latency_ns, unloaded_ns : float
        Mean from acceptance to the last data beat (writes: to the command), in the mix and as a chain of one.
    weight_bytes : float
        Weight in the pool's shares.
    """

    spec: StreamSpec
    bandwidth_bytes_per_s: float
    cap_bytes_per_s: float
    in_flight_bytes: float
    latency_ns: float
    unloaded_ns: float
    weight_bytes: float

    @property
    def weight(self) -> int:
        """Weight in 1/1024 byte, for rows that meet only rows of the same calibration."""
        return max(1, round(self.weight_bytes * WEIGHT_ONE))


@dataclass(frozen=True)
class Calibration:
    """Numbers of one mix for the pool; `predicted`: the mix itself was not run."""

    shares: tuple[Share, ...]
    capacity_bytes_per_s: float
    peak_bytes_per_s: float
    predicted: bool


@dataclass(frozen=True)
class _Got:
    """What the kernel says of one stream in a run."""

    bandwidth_bytes_per_s: float
    latency_ns: float


def calibrate(
    standard: str | Memory,
    controller: str = "mobile",
    channels: int = 1,
    streams: Sequence[StreamSpec] = (),
    *,
    ranks: int | None = None,
) -> Calibration:
    """Pool numbers of a mix of streams.

    Parameters
    ----------
    standard : str or Memory
        Name of a standard (with `controller`, `channels` and `ranks`), or a resolved memory.
    streams : sequence of StreamSpec
        All that run together.

    Returns
    -------
    Calibration
        Weighted max-min over these weights, caps and capacity gives each stream what the kernel gives it: within 5 %
        of bandwidth and 15 % of added latency over other random addresses.

    Raises
    ------
    InputError
        No streams, or a stream out of range.

    Notes
    -----
    Composing a mix from its pairs was tried: latencies that add up leave the worst of three streams 10 % off in the
    median and up to 84 % off (sequential streams that lock), ratios that multiply are worse. So mixes are run.
    """
    memory = standard if isinstance(standard, Memory) else load_memory(standard, controller, channels=channels,
                                                                       ranks=ranks)  # fmt: skip
    specs = tuple(streams)
    run, part = _merged(memory, specs)
    got = _measured(memory, run)
    alone = [_measured(memory, (s,))[0] for s in specs]
    # In a merged reader all meet its latency, and each has its part of the requests in flight.
    mine = [replace(got[k], bandwidth_bytes_per_s=got[k].bandwidth_bytes_per_s * share) for k, share in part]
    total = sum(g.bandwidth_bytes_per_s for g in mine)
    held = [g.bandwidth_bytes_per_s * g.latency_ns * 1e-9 for g in mine]
    mean_ns = sum(held) / total * 1e9
    shares = tuple(
        Share(
            spec=spec,
            bandwidth_bytes_per_s=g.bandwidth_bytes_per_s,
            cap_bytes_per_s=max(a.bandwidth_bytes_per_s, g.bandwidth_bytes_per_s),
            in_flight_bytes=in_flight,
            latency_ns=g.latency_ns,
            unloaded_ns=_measured(memory, (replace(spec, depth=1),))[0].latency_ns,
            weight_bytes=g.bandwidth_bytes_per_s * mean_ns * 1e-9,  # in flight x mean latency / its latency
        )
        for spec, g, a, in_flight in zip(specs, mine, alone, held, strict=True)
    )
    return Calibration(shares, total, memory.peak_gb_s * 1e9, len(run) < len(specs))


def subsets(memory: Memory, streams: Sequence[StreamSpec]) -> dict[frozenset[int], Calibration]:
    """Calibrations of every set of one or more of `streams`, by their indices: the table of a pool that they share."""
    every = [c for k in range(1, len(streams) + 1) for c in combinations(range(len(streams)), k)]
    return {frozenset(c): calibrate(memory, streams=[streams[i] for i in c]) for c in every}


def class_fractions(standard: str, controller: str, channels: int, ranks: int) -> dict[frozenset[str], float]:
    """Capacity of every set of two or more stream classes, relative to what the same classes reach undisturbed.

    Undisturbed means the sum of what each class reaches alone, or the best that sequential reads of one class reach if
    that is less. A pool's capacity for the set is this fraction of the rate achievable on the real part: the kernel
    gives the shape, the measurement the scale, and what a class cannot reach for lack of requests in flight stays in
    the caps of its rows and is not charged twice.

    Notes
    -----
    Memories of shipped parts are looked up in ``calibrated/classes.json``; others are run once (a few seconds) and
    cached.
    """
    key = class_key(standard, controller, channels, ranks)
    shipped = _shipped().get(key)
    if shipped is None:
        shipped = run_classes(load_memory(standard, controller, channels=channels, ranks=ranks))
    return {frozenset(name.split("+")): fraction for name, fraction in shipped.items()}


def run_classes(memory: Memory) -> dict[str, float]:
    """Run the kernel for :func:`class_fractions`; keys are class names joined by ``+``, values have four decimals."""
    alone = {name: _measured(memory, (spec,))[0].bandwidth_bytes_per_s for name, spec in CLASSES.items()}
    best = max(alone["cpu_seq_read"], alone["npu_seq_read"])
    found = {}
    for size in range(2, len(CLASSES) + 1):
        for names in combinations(CLASSES, size):
            got = _measured(memory, tuple(CLASSES[n] for n in names))
            reach = min(best, sum(alone[n] for n in names))
            fraction = sum(g.bandwidth_bytes_per_s for g in got) / reach
            found["+".join(names)] = round(min(1.0, fraction), 4)  # never above what the whole part was measured at
    return found


def write_shipped(path: Path, parts: Iterable[tuple[str, str, int, int]]) -> None:
    """Run the classes on memories ``(standard, controller, channels, ranks)`` and write them as the shipped data file.

    To be run after a change of the kernel, a standard, a controller or :data:`CLASSES`; a slow test compares.
    """
    table = {
        class_key(*part): {
            "memory": "{} {} channels={} ranks={}".format(*part),
            "fractions": run_classes(load_memory(part[0], part[1], channels=part[2], ranks=part[3])),
        }
        for part in parts
    }
    _write(path, table)


@cache
def _shipped() -> dict[str, dict[str, float]]:
    return {key: entry["fractions"] for key, entry in json.loads(SHIPPED.read_text(encoding="utf-8")).items()}


def class_key(standard: str, controller: str, channels: int, ranks: int) -> str:
    """Digest of all data behind the class fractions of a memory (not of the kernel's code)."""
    memory = load_memory(standard, controller, channels=channels, ranks=ranks)
    return _digest(_memory_data(memory), {name: asdict(spec) for name, spec in CLASSES.items()})


def _merged(memory: Memory, specs: tuple[StreamSpec, ...]) -> tuple[tuple[StreamSpec, ...], list[tuple[int, float]]]:
    """Streams to run, and for each of `specs` its place among them and its part of that stream."""
    alike = [s.pattern == "random" and s.rate_gb_s is None for s in specs]
    reads_only = all(s.read_share == 1 for s in specs)
    depth = sum(s.depth for s in specs)
    fits = 2 * depth <= memory.controller["read_queue"] * memory.org.channels
    if not (reads_only and fits and sum(alike) > 1):
        return specs, [(k, 1.0) for k in range(len(specs))]
    together = sum(s.depth for s, same in zip(specs, alike, strict=True) if same)
    run = [s for s, same in zip(specs, alike, strict=True) if not same]
    places = iter(range(len(run)))
    part = [(len(run), s.depth / together) if same else (next(places), 1.0)
            for s, same in zip(specs, alike, strict=True)]  # fmt: skip
    return (*run, StreamSpec(together, "random")), part


_RUNS: dict[str, tuple[_Got, ...]] = {}


def _measured(memory: Memory, specs: tuple[StreamSpec, ...]) -> tuple[_Got, ...]:
    """One mix from memory, from disk, or from the kernel."""
    key = _digest(_memory_data(memory), [asdict(s) for s in specs], REQUESTS, MOST_REQUESTS, ENOUGH, SEEDS, _code())
    if key not in _RUNS:
        path = cache_folder() / f"{key}.json"
        got = _read(path)
        if got is None or len(got) != len(specs):
            got = _run(memory, specs)
            with suppress(OSError):  # a folder that cannot be written costs time, not results
                _write(path, [asdict(g) for g in got])
        _RUNS[key] = got
    return _RUNS[key]


def _run(memory: Memory, specs: tuple[StreamSpec, ...]) -> tuple[_Got, ...]:
    """Mean over several sets of random addresses."""
    each = [_got(_long_enough(memory, specs, seed), specs) for seed in SEEDS]
    found = []
    for same in zip(*each, strict=True):
        rate = sum(g.bandwidth_bytes_per_s for g in same)
        held = sum(g.bandwidth_bytes_per_s * g.latency_ns for g in same)
        found.append(_Got(rate / len(SEEDS), held / rate))
    return tuple(found)


def _long_enough(memory: Memory, specs: tuple[StreamSpec, ...], seed: int) -> StreamsResult:
    """Run the kernel until the slowest stream has enough requests (or the longest run is reached)."""
    requests = REQUESTS
    while True:
        result = run_streams(memory, streams=specs, requests=requests, seed=seed)
        fewest = min(s.requests for s in result.streams)
        if fewest >= ENOUGH or requests >= MOST_REQUESTS:
            return result
        requests = min(MOST_REQUESTS, 1 + requests * ENOUGH * 5 // (4 * max(fewest, 100)))


def _got(result: StreamsResult, specs: tuple[StreamSpec, ...]) -> tuple[_Got, ...]:
    found = []
    for k, (spec, s) in enumerate(zip(specs, result.streams, strict=True)):
        if s.requests == 0:
            raise InputError(
                f"streams[{k}]: starved, nothing of it was served beside the others; give streams of writes a rate"
            )
        cycles = spec.read_share * s.read_latency_cycles + (1 - spec.read_share) * s.write_wait_cycles
        found.append(_Got(s.bandwidth_gb_s * 1e9, cycles * result.tck_ns))
    return tuple(found)


def cache_folder() -> Path:
    """Folder of cached kernel runs: beside the compiled kernels, below ``ARCHSIM_CACHE`` or the user's cache folder."""
    base = os.environ.get("ARCHSIM_CACHE")
    if not base:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "archsim"
    return Path(base) / "dram-calibration"


def _read(path: Path) -> tuple[_Got, ...] | None:
    """A cached run; None where there is none or the file is damaged (it is then written anew)."""
    try:
        return tuple(_Got(**entry) for entry in json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _write(path: Path, data: Any) -> None:
    """Write JSON under a name of its own, then rename: readers see all or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(json.dumps(data, indent=1) + "\n")
        os.chmod(name, 0o644)  # a shipped file is for all
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def _memory_data(memory: Memory) -> list[Any]:
    """All that decides what the kernel does."""
    return [
        str(memory.standard.tck_ps), list(memory.org), [int(r) for r in memory.rules], memory.rows.tolist(),
        memory.pieces.tolist(), memory.hashes.tolist(),
    ]  # fmt: skip


def _digest(*data: Any) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:32]


@cache
def _code() -> str:
    """Digest of the code that a run depends on."""
    return hashlib.sha256(b"".join((HERE / f"{name}.py").read_bytes() for name in SOURCES)).hexdigest()
