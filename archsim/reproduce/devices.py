"""Devices alone against other simulators: recorded runs of Ramulator 2.1, DRAMsim3, AiM, MQSim and SCALE-Sim.

The recorded results are in ``traces/dram``, ``pim``, ``flash`` and ``npu`` with their provenance; nothing of them is an
input of the model.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from pathlib import Path

from archsim.devices.dram.controller import load_memory
from archsim.devices.dram.replay import ReplayResult, replay
from archsim.devices.flash.replay import device_spec, run_pattern
from archsim.devices.npu.layouts import scatter_penalty
from archsim.devices.npu.systolic import Array, multiply
from archsim.devices.pim.gemv import gemv
from archsim.devices.pim.replay import replay as replay_pim
from archsim.reproduce.rows import Row
from archsim.streams.opening import packed_traces

RAMULATOR = "Ramulator 2.1 (c5b1c3a), LPDDR5-6400 x16, unmodified"
DRAMSIM3 = "DRAMsim3 (2981759) with the same device timing"
#: Traces on which the device and not the controller's policy decides (the two simulators differ in policy).
DEVICE_BOUND = ("t02", "t03", "t04", "t05")

Replayed = Callable[[str, str, str, int], ReplayResult]


def dram_rows() -> Iterator[Row]:
    """Total cycles and mean latency of 66 Ramulator runs; cycles or latency of the DRAMsim3 runs that compare."""
    folder = packed_traces() / "dram"
    results: dict[tuple[str, str], ReplayResult] = {}

    def play(config: str, trace: str, injection: str, channels: int) -> ReplayResult:
        key = (config, trace)
        if key not in results:
            memory = load_memory("lpddr5-6400", f"reference_{config.lower()}", channels=channels)
            results[key] = replay(memory, folder / f"{trace}.txt.gz", injection=injection)
        return results[key]

    yield from _ramulator(folder, play)
    yield from _dramsim3(folder, play)


def _ramulator(folder: Path, play: Replayed) -> Iterator[Row]:
    for run in _table(folder / "results_ramulator2.csv"):
        config, trace = run["config"][0], run["trace"]
        result = play(config, trace, run["injection"], int(run["channels"]))
        name = f"dram.ramulator.{config}.{trace.partition('_')[0]}"
        null = _null_cycles(result, int(run["channels"]))
        slack = 0.005 if config == "C" else 0.0
        yield Row(
            f"{name}.cycles", RAMULATOR, "cycles", float(run["total_cycles"]), result.cycles, null, tolerance=slack
        )
        latency = float(run["avg_read_lat_cycles"])
        if latency:
            yield Row(
                f"{name}.latency",
                RAMULATOR,
                "cycles",
                latency,
                result.read_latency_cycles_avg,
                tolerance=0.001 / latency,
                why="the reference prints three digits",
            )


def _dramsim3(folder: Path, play: Replayed) -> Iterator[Row]:
    for run in _table(folder / "results_dramsim3.csv"):
        config, trace = run["config"][0], run["trace"]
        short = trace.partition("_")[0]
        if config not in "AB":
            continue
        name = f"dram.dramsim3.{config}.{short}"
        if short in DEVICE_BOUND:
            result = play(config, trace, run["injection"], int(run["channels"]))
            yield Row(f"{name}.cycles", DRAMSIM3, "cycles", float(run["total_cycles"]), result.cycles, tolerance=0.02)
        elif short in ("t14", "t15"):
            result = play(config, trace, run["injection"], int(run["channels"]))
            loose = (config, short) == ("B", "t15")
            yield Row(
                f"{name}.latency",
                DRAMSIM3,
                "cycles",
                float(run["avg_read_lat_cycles"]),
                result.read_latency_cycles_avg,
                tolerance=0.05 if loose else 0.02,
                why="DRAMsim3 has no CAS command" if loose else "",
            )


AIM = "AiM simulator (0f28a07), GDDR6 and LPDDR5 variants"
MQSIM = "MQSim (7ec40e3), UFS-like devices, seed 123"
LP5X = "LPDDR5X-PIM at 9600, gain over streaming the weights at 76.8 GB/s (arXiv 2606.00636)"
_CHOSEN = "64 accumulators a block were chosen with the fenced gains in view"
#: Published gains: data type, fence, value (one end or the middle of the published range), what to know of it.
LP5X_GAINS = (
    ("W8A8", False, 6.1, ""),
    ("W8A16", False, 5.75, ""),
    ("W8A8", True, 5.0, _CHOSEN),
    ("W8A16", True, 5.0, f"{_CHOSEN}; one fence a load at 4.1 for W4A16 leaves 4.8 at most, and 5.0 is said of most"),
    ("W4A16", True, 4.1, _CHOSEN),
)


def pim_rows() -> Iterator[Row]:
    """Cycles of the AiM runs, and the gains of LPDDR5X-PIM on a 4096 x 4096 product."""
    folder = packed_traces() / "pim"
    for run in _table(folder / "results_aim.csv"):
        device = run["config"].removesuffix("_as_shipped")
        found = replay_pim(device, folder / f"{run['trace']}.trace", baseline=True)
        name = f"pim.aim.{run['config']}.{run['trace']}.cycles"
        yield Row(name, AIM, "cycles", float(run["cycles"]), found.cycles, found.cycles_baseline, tolerance=0.0)
    for dtype, fence, published, why in LP5X_GAINS:
        gain = gemv("lpddr5x_pim", 4096, 4096, dtype=dtype, fence=fence).gain
        yield Row(
            f"pim.lp5x.gain.{dtype}{'.fence' if fence else ''}",
            LP5X,
            "x",
            published,
            gain,
            8.0,
            kind="fitted" if fence or dtype.endswith("A16") else "predicted",
            tolerance=0.10,
            why=why,
        )


def flash_rows() -> Iterator[Row]:
    """Time and mean response of the MQSim runs."""
    for run in _table(packed_traces() / "flash" / "mqsim.csv"):
        order = "rand" if run["distribution"] == "RANDOM_UNIFORM" else "seq"
        pattern = f"{order}_{'read' if run['read_pct'] == '100' else 'write'}"
        size, count = int(run["request_bytes"]), int(run["requests"])
        done = run_pattern(device_spec(run["config"]), pattern, size, count, depth=int(run["queue_depth"]))
        name = f"flash.mqsim.{run['config']}.{run['workload']}"
        yield Row(f"{name}.time", MQSIM, "ns", float(run["sim_time_ns"]), done.time_ns, tolerance=0.0)
        mean = round(float(done.responses_ns.mean()), 1)
        yield Row(f"{name}.response", MQSIM, "ns", float(run["avg_device_response_ns"]), mean, tolerance=0.0)


SCALESIM = "SCALE-Sim v3 (3.0.0), matrix products on systolic arrays"
REPEATS = "the reference fetches again what its SRAM could hold, and waits for it"


def systolic_rows() -> Iterator[Row]:
    """Cycles and SRAM words of the SCALE-Sim runs, in its conventions; its DRAM words and stalls are only reported."""
    for run in _table(packed_traces() / "npu" / "scalesim.csv"):
        rows, cols = int(run["array_rows"]), int(run["array_cols"])
        m, k, n = int(run["M"]), int(run["K"]), int(run["N"])
        sizes = {f"{part}_bytes": 1024 * int(run[f"{part}_kb"] or 512) for part in ("ifmap", "filter", "ofmap")}
        array = Array(rows, cols, run["dataflow"], link_words=int(run["link_words"]), **sizes)
        found = multiply(array, m, k, n)
        limited = run["bw_mode"] == "USER"
        memory = f"{run['ifmap_kb'] or 512}kb" + (f".{run['link_words']}words" if limited else "")
        name = f"npu.scalesim.{run['dataflow']}.{rows}x{cols}.{memory}.{m}x{k}x{n}"
        cycles, null = found.scalesim_cycles - found.stall_cycles, -(-m * k * n // (rows * cols))
        published = float(run["compute_cycles"])
        yield Row(f"{name}.cycles", SCALESIM, "cycles", published, cycles, null, tolerance=0.0)
        if run["source"] != "run":
            continue
        words = found.ifmap_reads + found.filter_reads + found.scalesim_ofmap_writes
        yield Row(f"{name}.sram", SCALESIM, "words", _words(run, "sram"), words, tolerance=0.0)
        traffic = found.ifmap_dram_reads + found.filter_dram_reads + found.ofmap_dram_writes
        yield Row(f"{name}.dram", SCALESIM, "words", _words(run, "dram"), traffic, kind="reported", why=REPEATS)
        if limited:
            stalls = float(run["stall_cycles"])
            yield Row(f"{name}.stalls", SCALESIM, "cycles", stalls, found.stall_cycles, kind="reported", why=REPEATS)


EUROSYS = "naive scatter of unpacked weights over tile order (EuroSys'26, arXiv 2509.23324), both ends of the range"


def layout_rows() -> Iterator[Row]:
    """How much longer unpacking into tiles takes when each word is scattered, as 4-byte and 2-byte words."""
    for name, published, word_bytes in (("low", 9.65, 4), ("high", 19.0, 2)):
        found = scatter_penalty("q4_0_rows", "hmx_weight", word_bytes)
        why = (
            f"words of {word_bytes} bytes here; the published range is over matrices, so which end is which is a guess"
        )
        yield Row(f"npu.layout.scatter.{name}", EUROSYS, "x", published, found, 1.0, kind="reported", why=why)


def _words(run: dict[str, str], memory: str) -> float:
    return sum(float(run[f"{part}_{memory}_{way}"]) for part, way in
               (("ifmap", "reads"), ("filter", "reads"), ("ofmap", "writes")))  # fmt: skip


def _null_cycles(result: ReplayResult, channels: int) -> float:
    """Bytes over the peak bandwidth of the bus, in cycles: a burst of 32 bytes takes two."""
    return result.requests * 2 / channels


def _table(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
