"""Whole-phone energy and power of decoding against published measurements, and SRAM against CACTI.

Cores: BitNet-2B and the 7B model decode on six CPU threads, the hybrid on four of eight cores, Qwen2.5-3B leaves its
output projection to four. The 7B stand-in is LLaMA2-7B with 4-bit weights. Energy and power are those between the first
and the last token committed; peaks are of 100 ms bins, about what a phone's own gauge resolves.

Three scalars are fitted, together: power of the rest of the phone (``rails.base_mw``), of the awake NPU, and the
scale of a CPU core's cycle energy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from archsim.devices.pim.power import die_overhead
from archsim.devices.pim.standard import load_pim
from archsim.report.power import device_energy_between, power
from archsim.report.pricing import bounded
from archsim.reproduce.rows import Kind, Row
from archsim.session import load, run
from archsim.technology import sram
from archsim.trace import Trace
from archsim.units import PS_PER_S

POWERINFER = "PowerInfer-2, arXiv 2406.06282, OnePlus 12, 7B"
TTC = "arXiv 2509.23324, OnePlus 12, decoding in performance mode"
TMAN = "T-MAN, arXiv 2511.11248 table 3, 8 Gen 3, device power"
AHASD = "AHASD, table of power and efficiency: memory share of NPU + LPDDR5 that its rows imply"
PIM_DIE = "AHASD: conventional PIM logic takes 10-15 % of a DRAM die"
CACTI = "CACTI 7 as packed in hwcomponents-cacti 1.0.40, runs not used in the fit"
TOLERANCE = 0.20
PEAK_BIN_PS = PS_PER_S // 10
#: 4-bit weights, 6-bit output projection: what phones run of a 7B model.
FOUR_BIT = ("model.target.quant.default=Q4_0", "model.target.quant.embed=Q4_0", "model.target.quant.head=Q6_K")
#: Kernels of a fixed-shape graph, as QNN compiles them.
GRAPH = ("system.npu.policy_one=static_graph", "system.npu.policy_many=static_graph")
#: 43.9 GB/s of the CPU alone on 7B products (the same paper): derived, 5.5 cycles to unpack a block on six cores.
FAST_CPU = ("system.cpu.threads=6", "system.cpu.unpack_cycles_per_block=5.5")


@dataclass(frozen=True)
class Cell:
    """One decoding whose power was published."""

    name: str
    schedule: str
    target: str
    sets: tuple[str, ...] = ()
    draft: str | None = None
    tokens: int = 12

    def trace(self) -> Trace:
        """Simulate it."""
        job = {"target": self.target, "draft": self.draft, "stream": "synthetic:llama-3.1-8b:gsm8k"}
        sizes = {"tokens": self.tokens, "prompt_tokens": 64}
        resolved = load(system="oneplus_12", schedule=self.schedule, job={**job, **sizes}, sets=self.sets)
        return run(resolved, trace="off").trace


class Decoding(NamedTuple):
    """Measured between the first and the last commit: power, energy per token, peak, tokens/s, power by device."""

    watts: float
    j_per_token: float
    peak_w: float
    tokens_per_s: float
    device_w: dict[str, float]

    @property
    def memory_share(self) -> float:
        """Memory's part of the power of memory and NPU."""
        memory = self.device_w["dram"]
        return memory / (memory + self.device_w["npu"])


def decoding(trace: Trace) -> Decoding:
    """Power and energy of the decoding part of a run."""
    notes = trace.notes
    commits = np.sort(notes["time_ps"][notes["kind"] == "commit"])
    edges = np.array([commits[0], commits[-1]])
    seconds, tokens = float(edges[1] - edges[0]) / PS_PER_S, len(commits) - 1
    joule = {name: float(pj[0]) / PS_PER_S for name, pj in device_energy_between(trace, edges).items()}
    bins = power(trace, PEAK_BIN_PS)
    decoded = bins.edges_ps[:-1] >= edges[0]
    total = sum(joule.values())
    peak = float(bins.total_w()[decoded].max())
    by_device = {name: value / seconds for name, value in joule.items()}
    return Decoding(total / seconds, total / tokens, peak, tokens / seconds, by_device)


CELLS: dict[str, Cell] = {
    cell.name: cell
    for cell in (
        Cell("7b.qnn", "resident_ar", "llama2-7b", FOUR_BIT + GRAPH),
        Cell("7b.cpu", "cpu_ar", "llama2-7b", FOUR_BIT + FAST_CPU),
        Cell("qwen2.5-3b.npu", "resident_ar", "qwen2.5-3b", ("system.cpu.threads=4",)),
        Cell("bitnet-2b.npu", "resident_ar", "bitnet-2b"),
        Cell("bitnet-2b.cpu", "cpu_ar", "bitnet-2b", ("system.cpu.threads=6",)),
        Cell("bitnet-2b.hybrid", "co_run", "bitnet-2b", ("system.cpu.threads=4",), "bitnet-2b"),
    )
}
_JOINT = "one of the cells that the three scalars were fitted to together"

#: Cell, quantity, published value, source, kind, why.
PUBLISHED: tuple[tuple[str, Literal["watts", "j_per_token", "peak_w"], float, str, Kind, str], ...] = (
    ("7b.qnn", "j_per_token", 0.373, POWERINFER, "predicted", "static-graph kernels"),
    ("7b.qnn", "peak_w", 5.13, POWERINFER, "predicted", "100 ms bins"),
    ("7b.cpu", "j_per_token", 0.672, POWERINFER, "fitted", f"{_JOINT}; six cores at the paper's own 43.9 GB/s"),
    ("7b.cpu", "peak_w", 4.07, POWERINFER, "quoted", "contradicts 8.2 W of six busy cores; cores not stated"),
    ("qwen2.5-3b.npu", "watts", 4.3, TTC, "fitted", f"{_JOINT}; four cores for the projection"),
    ("bitnet-2b.npu", "watts", 4.65, TMAN, "fitted", f"{_JOINT}; middle of 4.3-5.0 W"),
    ("bitnet-2b.cpu", "watts", 8.2, TMAN, "fitted", f"{_JOINT}; six cores"),
    ("bitnet-2b.hybrid", "watts", 8.6, TMAN, "predicted", "middle of 8.3-8.9 W; four of eight cores beside the NPU"),
    (
        "bitnet-2b.npu",
        "j_per_token",
        0.1175,
        TMAN,
        "reported",
        "middle of 0.101-0.134; its table-lookup kernels are faster",
    ),
    ("bitnet-2b.cpu", "j_per_token", 0.490, TMAN, "reported", "its kernels differ from those the CPU is calibrated on"),
    ("bitnet-2b.hybrid", "j_per_token", 0.612, TMAN, "reported", "two decodings at once here, one shared out there"),
)


def energy_rows() -> Iterator[Row]:
    """Rows of published energies and powers, of the memory's share with its range, and of CACTI's held-out runs."""
    done = {}
    for name, quantity, paper, source, kind, why in PUBLISHED:
        if name not in done:
            trace = CELLS[name].trace()
            done[name] = decoding(trace)
            if name == "qwen2.5-3b.npu":
                low, high = (decoding(bounded(trace, end)).device_w for end in ("low", "high"))
        unit = "J/token" if quantity == "j_per_token" else "W"
        value = getattr(done[name], quantity)
        tolerance = None if kind in ("quoted", "reported") else TOLERANCE
        yield Row(f"energy.{name}.{quantity}", source, unit, paper, value, kind=kind, tolerance=tolerance, why=why)
    least, most = (memory["dram"] / (memory["dram"] + other["npu"]) for memory, other in ((low, high), (high, low)))
    ends = (
        f"documented defaults on another machine than the paper's; {least:.2f} to {most:.2f} within the prices' ranges"
    )
    share = done["qwen2.5-3b.npu"].memory_share
    yield Row("energy.memory_share", AHASD, "1", 0.39, share, kind="reported", why=ends)
    die = die_overhead(load_pim("lpddr5x_pim"))
    why = f"MAC blocks over an assumed plain die; {die.low:.2f} to {die.high:.2f} within their ranges"
    yield Row("energy.pim.die_overhead", PIM_DIE, "1", 0.125, die.value, kind="reported", why=why)
    for row in sram.errors():
        if not row["fitted"]:
            name = f"energy.sram.{row['quantity']}.{str(row['run']).replace(', ', '.').replace(' ', '')}"
            unit = sram.UNITS[str(row["quantity"])]
            scaled = not str(row["run"]).startswith("22 ")
            kind, why = ("reported", "the package scales 22 nm by the same rule") if scaled else ("predicted", "")
            yield Row(name, CACTI, unit, float(row["cacti"]), float(row["model"]), kind=kind, tolerance=0.15, why=why)
