"""llada.cpp (arXiv 2606.13740): the published ladder on a OnePlus Ace5 Pro, and each technique by itself.

Published figures are of LLaDA-8B on GSM8K, 128 output tokens, as quoted by third parties (the paper's Table 6; the
first and last value and the 14.76 s per 128-token CPU pass by a second, independent one). Fitted to them are the CPU's
cycles per block of multiply-accumulates (14.76 s), the prompt length (2,996.2 s) and what mapping costs per byte
(341.2 s); everything else follows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from archsim.reproduce.llada_runs import Bench, Cell, numbers_of, scaled
from archsim.reproduce.rows import Kind, Row

SOURCE = "arXiv 2606.13740, Table 6 as quoted by third parties (OnePlus Ace5 Pro, GSM8K, 128 tokens)"
PASS_SOURCE = "arXiv 2606.13740 as quoted by a hardware report: one pass of 128 tokens on the CPU"
#: Requests of the scored cell, and of the others (paired on the same seeds); the mean of 40 wanders by several percent.
PROMPTS = 200
PAIRED = 40

BENCH = Bench()


def per_operator(cell: Cell) -> Cell:
    """Naive offload: each operator maps what it touches and is called synchronously."""
    return cell.but("job.mapping=per_operator")


def swapping(cell: Cell) -> Cell:
    """Swap-optimised runtime."""
    return cell.but("job.mapping=resident")


VANILLA = Cell("dllm_cpu", ("schedule.prefix_kv=false",))
PREFIX_KV = Cell("dllm_cpu")
OFFLOAD = per_operator(Cell("dllm_npu"))
RUNTIME = swapping(Cell("dllm_npu"))
#: No technique but the parallel commit at 0.9: what multi-block decoding is measured against.
PARALLEL = ("schedule.revision=false", "schedule.lookahead=false", "schedule.sliding=false", "schedule.logits=window")
THRESHOLD = swapping(Cell("llada", PARALLEL, prompts=PAIRED))
LOOKAHEAD = THRESHOLD.but("schedule.lookahead=true", "schedule.sliding=true")
REVISION = swapping(Cell("llada", ("schedule.lookahead=false", "schedule.sliding=false"), prompts=PAIRED))
SLIDING = swapping(Cell("llada", ("schedule.lookahead=false",), prompts=PAIRED))
ALL = swapping(Cell("llada", prompts=PROMPTS))


@dataclass(frozen=True)
class Rung:
    """A cell of the ladder, with its published seconds (None: not published)."""

    id: str
    cell: Cell
    paper: float | None
    kind: Kind
    tolerance: float | None = None
    why: str = ""
    source: str = SOURCE


_NOT_PUBLISHED = "the paper prints look-ahead and revision together only"
LADDER = (
    Rung(
        "ladder.cpu_pass",
        Cell("dllm_cpu", ("schedule.prefix_kv=false", "job.prompt_tokens=127"), tokens=1),
        14.76,
        "fitted",
        0.02,
        "cpu.mac_cycles_per_block was fitted to it",
        PASS_SOURCE,
    ),
    Rung(
        "ladder.vanilla", VANILLA, 2996.2, "fitted", 0.02, "the prompt of 75 tokens was fitted to it (203 rows a pass)"
    ),
    Rung(
        "ladder.prefix_kv",
        PREFIX_KV,
        607.0,
        "predicted",
        0.15,
        "given the schedule: per block of 32 one refresh of 203 rows, 32 steps of 32 rows without masked suffix, one "
        "pass that writes the block; it was chosen with the cell in view",
    ),
    Rung("ladder.offload", OFFLOAD, 341.2, "fitted", 0.02, "npu.swap_ps_per_gib was fitted to it"),
    Rung(
        "ladder.runtime",
        RUNTIME,
        87.0,
        "predicted",
        0.15,
        "the same passes; swapped matrices are spread evenly, mapping overlaps with NPU operators only",
    ),
    Rung("ladder.threshold", THRESHOLD, None, "reported", why="parallel commit at 0.9, one refresh per block"),
    Rung("ladder.lookahead", LOOKAHEAD, None, "reported", why=f"runtime, sliding window, look-ahead; {_NOT_PUBLISHED}"),
    Rung("ladder.revision", REVISION, None, "reported", why=f"runtime, revision, block windows; {_NOT_PUBLISHED}"),
    Rung("ladder.sliding", SLIDING, None, "reported", why="all techniques but the extension of the window"),
    Rung("ladder.all", ALL, 16.1, "predicted", 0.15, "public prototype thresholds 0.7 and 0.9, trigger 8"),
)


def ladder_rows() -> Iterator[Row]:
    """Seconds per request of each rung."""
    for rung in LADDER:
        found = BENCH(rung.cell)
        yield Row(
            rung.id,
            rung.source,
            "s",
            rung.paper,
            found.latency_s,
            found.null_s,
            kind=rung.kind,
            tolerance=rung.tolerance,
            why=rung.why,
        )


def fit_rows() -> Iterator[Row]:
    """Fitted scalars, and the interval in which each keeps its cell within 2 %."""
    fits = (
        ("cpu.mac_cycles_per_block", LADDER[0].cell, "core cycles", "14.76 s per pass"),
        ("npu.swap_ps_per_gib", OFFLOAD, "ps per GiB", "341.2 s"),
    )
    for field, cell, unit, what in fits:
        value, _ = numbers_of(cell, field)
        slope = BENCH(scaled(cell, field, 1.02)).latency_s / BENCH(cell).latency_s - 1
        yield _fitted(field, unit, value, 0.02 * 0.02 / slope, what)
    longer = BENCH(VANILLA.but("job.prompt_tokens=76")).latency_s / BENCH(VANILLA).latency_s - 1
    yield _fitted("job.prompt_tokens", "tokens", 75.0, 0.02 / (75 * longer), "2,996.2 s")


def _fitted(field: str, unit: str, value: float, spread: float, cell: str) -> Row:
    low, high = value * (1 - spread), value * (1 + spread)
    why = f"fitted: {cell}; from {low:.5g} to {high:.5g} the cell stays within 2 %"
    return Row(f"fit.{field}", SOURCE, unit, None, value, kind="fitted", why=why)


#: Each rung over the one before, as published.
CUMULATIVE = (
    ("prefix_kv", VANILLA, PREFIX_KV, 2996.2 / 607.0),
    ("offload", PREFIX_KV, OFFLOAD, 607.0 / 341.2),
    ("runtime", OFFLOAD, RUNTIME, 341.2 / 87.0),
    ("threshold", RUNTIME, THRESHOLD, None),
    ("lookahead", THRESHOLD, LOOKAHEAD, None),
    ("revision", LOOKAHEAD, ALL, None),
    ("all_over_runtime", RUNTIME, ALL, 87.0 / 16.1),
)

#: Each technique alone on the naive offload.
ALONE = (
    ("runtime", RUNTIME),
    ("threshold", per_operator(Cell("llada", PARALLEL, prompts=12))),
    (
        "lookahead",
        per_operator(Cell("llada", PARALLEL, prompts=12)).but("schedule.lookahead=true", "schedule.sliding=true"),
    ),
    ("revision", per_operator(Cell("llada", REVISION.sets[:2], prompts=12))),
)


def technique_rows() -> Iterator[Row]:
    """Factors: each rung over the one before, and each technique alone over the naive offload."""
    for name, before, after, paper in CUMULATIVE:
        yield Row(
            f"cumulative.{name}",
            SOURCE,
            "x",
            paper,
            BENCH(before).latency_s / BENCH(after).latency_s,
            BENCH(before).null_s / BENCH(after).null_s,
            kind="reported",
            why="ratio of two rungs of the ladder",
        )
    naive = BENCH(OFFLOAD)
    for name, cell in ALONE:
        found = BENCH(cell)
        yield Row(
            f"alone.{name}",
            SOURCE,
            "x",
            None,
            naive.latency_s / found.latency_s,
            naive.null_s / found.null_s,
            kind="reported",
            why="over the naive offload; not published",
        )
