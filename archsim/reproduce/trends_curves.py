"""Curves and crossovers: the shape of a curve, where it falls, and where one way of doing things passes another.

Levels are in other tables; a curve here is divided by one of its points, so that only its shape counts.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from archsim.config import load_config
from archsim.devices.flash.replay import device_spec, result, run_pattern
from archsim.devices.npu.alone import SHAPES, devices_of, matmul, prefill_ms, times_us
from archsim.reproduce.lever import lever
from archsim.reproduce.lever_published import BUDGET, BUDGET_BASE, PAPER, SHORT, TOKEN_MS
from archsim.reproduce.lever_published import L8 as FLASH_TARGET
from archsim.reproduce.lever_runs import Case, measure
from archsim.reproduce.rows import Row
from archsim.reproduce.trends_ranks import kendall
from archsim.session import load, run
from archsim.streams.opening import packed_traces
from archsim.units import from_numbers
from archsim.workload.model import ModelSpec

#: Tokens of a prompt and tokens/s of Qwen3-4B on v81, every point of the sweep.
PROMPTS = {
    25: 57.55, 128: 473.84, 200: 548.86, 256: 638.01, 300: 584.54, 400: 645.06, 512: 689.97, 800: 592.78, 1024: 628.46,
    1334: 574.65, 2048: 548.57,
}  # fmt: skip
PROMPT_SOURCE = "prefill of Qwen3-4B on v81, divided by 512 tokens (llama.cpp #23368)"
FULL, VOCABULARY = 512, 151_936
PROMPT_NOTES = {
    25: "runs on vector threads, whose cycles were fitted on another phone; 512 tokens are 11 % low as well",
    128: "the level of 128 tokens is fitted, its place on the curve is not",
}
#: Decoding on the NPU over decoding on the CPU: machine, model, published, source.
SIZES = (
    ("oneplus_ace5_pro", "qwen3-0.6b", 68.5 / 94.3, "SM8750, 4-bit, block 64 (alibaba/MNN #4633)"),
    ("oneplus_15", "qwen3-8b", 6.66 / 5.10, "SM8850, Q4_K_M (llama.cpp #27677)"),
)
MODELS = ("qwen3-0.6b", "llama-3.2-1b", "qwen3-4b", "qwen3-8b")
LANES = "random reads of a OnePlus 15R, divided by 4 MiB with two lanes (BigMoeOnEdge iobench)"
#: The cell that the others are divided by: KiB and lanes.
WHOLE_CELL = (4096, 2)
LANE_NOTES = {
    (
        4096,
        1,
    ): "one lane leaves the link idle for a quarter of the time on the phone; the host's gap here was fitted to "
    "4 KiB requests and is small beside 4 MiB"
}
KIB, MIB = 1024, 1 << 20
PHONE = "oneplus_12"
LOSING = "acceptance per drafted token at which a chain of eight stops paying"
STEPS = 6


def curve_rows() -> Iterator[Row]:
    """Prompt lengths, model sizes, flash request sizes and lanes."""
    yield from _prompts()
    yield from _sizes()
    yield from _batches()
    yield from _lanes()


def crossover_rows() -> Iterator[Row]:
    """DRAM budgets, and acceptances at which speculation starts to lose."""
    yield from _budgets()
    yield from _resident()
    yield from _losing()


def _prompts() -> Iterator[Row]:
    devices = devices_of("oneplus_15")
    found = {n: n * 1e3 / prefill_ms(devices, SHAPES["qwen3-4b"], n, VOCABULARY) for n in PROMPTS}
    for n, speed in PROMPTS.items():
        if n == FULL:
            continue
        yield Row(
            f"trends.curve.prompt.{n}",
            PROMPT_SOURCE,
            "of 512",
            speed / PROMPTS[FULL],
            found[n] / found[FULL],
            1.0,
            "predicted",
            0.15,
            why=PROMPT_NOTES.get(n, ""),
        )
    tau = kendall(list(found.values()), list(PROMPTS.values()))
    yield Row(
        "trends.curve.prompt.tau", PROMPT_SOURCE, "tau", 1.0, tau, None, "ordering", 0.2, why="order of 11 points"
    )
    top, published = max(found, key=lambda n: found[n]), max(PROMPTS, key=lambda n: PROMPTS[n])
    yield Row(
        "trends.curve.prompt.peak",
        PROMPT_SOURCE,
        "tokens",
        float(published),
        float(top),
        None,
        "ordering",
        0.0,
        why="the longest prompt of one batch; beyond it attention over the cached rows grows",
    )


def _speed(system: str, schedule: str, model: str) -> float:
    job = {"target": model, "stream": "recorded:exit_layers:25", "tokens": 6}
    made = load(system=system, schedule=schedule, job=job, sets=[] if schedule == "cpu_ar" else ["job.dram_fraction=1"])
    return float(run(made, trace="off").summary["decode_tokens_per_s"])


def _sizes() -> Iterator[Row]:
    """CPU ahead of the NPU on a small model and behind on a large one, and where it turns."""
    for system, model, published, words in SIZES:
        ratio = _speed(system, "resident_ar", model) / _speed(system, "cpu_ar", model)
        yield Row(
            f"trends.crossover.size.{model}",
            f"decoding, NPU over CPU: {words}",
            "x",
            published,
            ratio,
            None,
            "predicted",
            0.30,
            why="kernels and quantisation of another runtime; the side of 1 is what is asked for",
        )
        yield Row(
            f"trends.crossover.size.{model}.side",
            f"decoding, NPU over CPU: {words}",
            "holds",
            1.0,
            float((ratio > 1) == (published > 1)),
            None,
            "ordering",
            0.0,
        )
    points = []
    for model in MODELS:
        npu, cpu = (_speed("oneplus_ace5_pro", schedule, model) for schedule in ("resident_ar", "cpu_ar"))
        points.append((_weights(model), npu / cpu))
    turn = crossing(points)
    words = ", ".join(f"{size / 1e9:.2f}: {ratio:.2f}" for size, ratio in points)
    yield Row(
        "trends.crossover.size.turn",
        "SM8750: parameters at which NPU and CPU decode alike",
        "1e9",
        None,
        None if turn is None else turn / 1e9,
        None,
        "reported",
        why=f"between 0.6 and 8 by the published points; NPU over CPU by 1e9 parameters: {words}",
    )


def _weights(model: str) -> float:
    spec = from_numbers(ModelSpec, load_config("model", model).data["spec"])
    return float(sum(spec.parameters.values()))


def crossing(points: Sequence[tuple[float, float]]) -> float | None:
    """Where a ratio passes 1, between points by logarithms of both; None where it does not."""
    for (x0, y0), (x1, y1) in pairwise(points):
        if (y0 - 1) * (y1 - 1) <= 0 and y0 != y1:
            part = math.log(1 / y0) / math.log(y1 / y0)
            return math.exp(math.log(x0) + part * math.log(x1 / x0))
    return None


def _batches() -> Iterator[Row]:
    """One q4_0 product on the NPU against the CPU, at one row and at 512."""
    devices = devices_of("oneplus_15")
    source = "one q4_0 product, CPU time over NPU time, v81 (BigMoeOnEdge, docs/npu-prefill.md)"
    for m, published in ((1, 2.4), (512, 20.0)):
        cpu, npu = (float(times_us(devices[name], [matmul(m, 4096, 4096)])[0]) for name in ("cpu", "npu"))
        yield Row(
            f"trends.crossover.batch.{m}",
            source,
            "x",
            published,
            cpu / npu,
            None,
            "predicted",
            0.30,
            why="4096 x 4096 assumed, the shape is not published",
        )


def _mib_s(size_kib: int, lanes: int) -> float:
    spec = device_spec("ufs_4_0_oneplus_15r")
    requests = max(60, min(800, 400 * 1024 // size_kib))
    done = run_pattern(
        spec, "rand_read", size_kib * KIB, requests, depth=lanes, span_bytes=62 * 10**9, core="performance"
    )
    return float(result(spec, done)["bandwidth_mb_s"]) * 1e6 / MIB


def _lanes() -> Iterator[Row]:
    """Lanes at 4 MiB, and request sizes; two sessions, so each is divided by its own cell of 4 MiB and two lanes."""
    data = json.loads((packed_traces() / "flash" / "oneplus_15r.json").read_text(encoding="utf-8"))
    sessions = {
        "lanes": {(4096, int(lanes)): value for lanes, value in data["lanes_4_mib"].items()},
        "sizes": {
            (int(size), lanes): value
            for size, row in data["size_kib_by_lanes_2_4_8"].items()
            for lanes, value in zip((2, 4, 8), row, strict=True)
        },
    }
    whole = _mib_s(*WHOLE_CELL)
    for session, cells in sessions.items():
        found = {cell: _mib_s(*cell) / whole for cell in cells}
        for cell, value in cells.items():
            if cell == WHOLE_CELL:
                continue
            yield Row(
                f"trends.curve.{session}.{cell[0]}k.{cell[1]}",
                LANES,
                "of 4 MiB x 2",
                value / cells[WHOLE_CELL],
                found[cell],
                1.0,
                "predicted",
                0.15,
                why=LANE_NOTES.get(cell, "one scalar of this device was fitted to its level"),
            )
        tau = kendall(list(found.values()), list(cells.values()))
        why = "order of all cells; beyond two lanes and 256 KiB the published ones differ by noise"
        yield Row(f"trends.curve.{session}.tau", LANES, "tau", None, tau, None, "reported", why=why)


def _budgets() -> Iterator[Row]:
    """What layers in DRAM bring."""
    for (target, task), cells in BUDGET.items():
        base, speeds = measure(lever(target, task))["tps"], BUDGET_BASE[(target, task)]
        for share, paper in cells.items():
            gain = measure(lever(target, task).having(f"job.dram_fraction={share}"))["tps"] / base
            yield Row(
                f"trends.curve.budget.{SHORT[target]}.{task}.{round(100 * share)}",
                f"{PAPER}, table 6: speed with a share of the layers in DRAM over none",
                "x",
                paper / speeds,
                gain,
                None,
                "predicted",
                0.10,
            )


def _resident() -> Iterator[Row]:
    """With everything in DRAM, speculation against plain decoding: by the published numbers it loses."""
    for (target, task), cells in BUDGET.items():
        if task != "mbpp":
            continue
        whole = ("job.dram_fraction=1",)
        plain = measure(Case(PHONE, "resident_ar", target, prompts=1, sets=whole))["tps"]
        ratio = measure(lever(target, task).having(*whole))["tps"] / plain
        yield Row(
            f"trends.crossover.resident.{SHORT[target]}",
            f"{PAPER}, table 6 at 100 % in DRAM times the compute of one token of table 1",
            "x",
            cells[1.0] * TOKEN_MS[target][0] / 1e3,
            ratio,
            None,
            "predicted",
            0.15,
            why="Lever over plain decoding, both from DRAM: below 1, a draft of this quality pays for flash only",
        )


def _losing() -> Iterator[Row]:
    """Acceptance below which a schedule is slower than plain decoding, from flash and from DRAM."""
    for place, plain, sets in (("flash", "flash_ar", ()), ("dram", "resident_ar", ("job.dram_fraction=1",))):
        base = measure(Case(PHONE, plain, FLASH_TARGET, prompts=1, sets=sets))["tps"]
        for schedule in ("chain_sd", "lever"):
            case = Case(PHONE, schedule, FLASH_TARGET, sets=sets, prompts=6)

            def gain(acceptance: float, case: Case = case, base: float = base) -> float:
                return float(measure(case.having(f"job.acceptance={acceptance:g}"))["tps"]) / base

            turn = bisect(gain)
            ends = f"gain {gain(0.01):.2f} at 0.01 and {gain(0.9):.2f} at 0.9"
            yield Row(
                f"trends.crossover.speculation.{place}.{schedule}",
                f"Llama-3.1-8B, {LOSING}: {place}",
                "acceptance",
                None,
                turn,
                None,
                "reported",
                why=f"{ends}; none published" + ("" if turn is not None else "; no crossing"),
            )


def bisect(gain: Callable[[float], float], low: float = 0.01, high: float = 0.9, steps: int = STEPS) -> float | None:
    """Where a growing function passes 1, within ``(high - low) / 2**steps``; None where it does not."""
    if gain(low) >= 1 or gain(high) <= 1:
        return None
    for _ in range(steps):
        middle = (low + high) / 2
        low, high = (middle, high) if gain(middle) < 1 else (low, middle)
    return (low + high) / 2
