"""Runs behind the llada table: what a cell measures, each run once.

A request that fills the NPU's address window for the first time also maps the resident set; published times are of
loaded models, so the first request of every run warms up and is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from archsim.report.null import null_model
from archsim.report.summary import requests
from archsim.report.traffic import executions, fractions
from archsim.session import Result, load, run

GSM8K = "synthetic:llada-8b:gsm8k"


@dataclass(frozen=True)
class Cell:
    """What to run; `sets` are overrides of any path."""

    schedule: str
    sets: tuple[str, ...] = ()
    system: str = "llada_ace5_pro"
    target: str = "llada-8b"
    stream: str = GSM8K
    tokens: int = 128
    prompts: int = 1

    def but(self, *sets: str, **changes: Any) -> Cell:
        """Copy with more overrides (later ones win) and other fields."""
        kept = {name: getattr(self, name) for name in self.__dataclass_fields__} | changes
        values = dict(text.split("=", 1) for text in (*self.sets, *sets))
        return Cell(**{**kept, "sets": tuple(f"{path}={value}" for path, value in values.items())})


@dataclass(frozen=True)
class Measured:
    """Means over the requests after the warm-up.

    Attributes
    ----------
    latency_s, latency_sd_s : float
        Mean and standard deviation over requests.
    steps, tokens_per_step : float
        Denoising steps per request; tokens committed per step.
    energy_j, power_w : float
        Energy per request (the whole run's, warm-up included, over its requests) and mean power.
    null_s : float
        The null model's time of the steps.
    npu_utilisation, npu_busy : float
        Multiply-accumulates of the NPU over its peak, and the time its queue was busy, as fractions of the run.
    wrong : float
        Quality proxy: expected fraction of wrong tokens.
    resident_bytes, swapped_bytes : int
        Bytes mapped into the NPU's address window once, and again in every pass.
    phases : Mapping
        Seconds per step by phase.
    notes : Mapping
        Marks of the schedule: kind -> (request, value, extra) columns.
    """

    latency_s: float
    latency_sd_s: float
    steps: float
    tokens_per_step: float
    energy_j: float
    power_w: float
    null_s: float
    npu_utilisation: float
    npu_busy: float
    wrong: float
    resident_bytes: int
    swapped_bytes: int
    phases: Mapping[str, float]
    notes: Mapping[str, np.ndarray]


@dataclass
class Bench:
    """Runs cells and keeps what they measured."""

    _done: dict[Cell, Measured] = field(default_factory=dict)

    def __call__(self, cell: Cell) -> Measured:
        """Measure a cell, once."""
        if cell not in self._done:
            self._done[cell] = measure(cell)
        return self._done[cell]


def measure(cell: Cell) -> Measured:
    """Run a cell with one request more than asked for, and take the means of the others."""
    job = {"target": cell.target, "stream": cell.stream, "tokens": cell.tokens, "prompts": cell.prompts + 1}
    resolved = load(system=cell.system, schedule=cell.schedule, job=job, sets=cell.sets)
    return _measured(run(resolved, trace="off"), cell.prompts + 1)


def _measured(result: Result, count: int) -> Measured:
    trace, summary = result.trace, result.summary
    served = requests(trace)[1:]
    latency = np.array([request["latency_s"] for request in served])
    steps = float(np.mean([request["steps"] for request in served]))
    null = null_model(trace)
    kinds = ("window", "masks", "drafts", "revise", "quality", "commit")
    notes = trace.notes
    marks = {
        kind: np.stack([notes[name][notes["kind"] == kind] for name in ("request", "value", "extra")]) for kind in kinds
    }
    quality = marks["quality"]
    return Measured(
        latency_s=float(latency.mean()),
        latency_sd_s=float(latency.std()),
        steps=steps,
        tokens_per_step=summary["accepted_per_step"] or float("nan"),
        energy_j=summary["energy_j"] / count,
        power_w=summary["mean_power_w"],
        null_s=(null["total_s"] or float("nan")) * steps,
        npu_utilisation=_utilisation(trace),
        npu_busy=summary["units"].get("npu.core", 0.0),
        wrong=float((quality[1] / quality[2]).mean() * 1e-6) if quality.size else float("nan"),
        **_mapped(trace),
        phases=summary["phases"],
        notes=marks,
    )


def _mapped(trace: Any) -> dict[str, int]:
    """Bytes mapped once, and per pass: what a map operator that ran in every pass of the layers brought."""
    times = np.rint(executions(trace, fractions(trace))).astype(np.int64)
    ops = trace.ops
    passes = int(times[(ops["kind"] == "attention") & (ops["device"] == "npu")].sum())
    layers = trace.manifest["config"]["model"]["target"]["spec"]["layers"]
    maps = ops["kind"] == "map"
    once = int(ops["in_bytes"][maps & (times == 1)].sum())
    again = int((ops["in_bytes"] * times)[maps & (times > 1)].sum())
    return {"resident_bytes": once, "swapped_bytes": again // max(passes // layers, 1)}


def _utilisation(trace: Any) -> float:
    """Operations of the NPU over what its matrix units could have done in the run."""
    times = executions(trace, fractions(trace))
    of = trace.ops["device"] == "npu"
    peak = trace.manifest["peaks"]["npu"]["ops_per_s"] if "npu" in trace.manifest["peaks"] else 0.0
    done = 2.0 * float((times * trace.ops["macs"])[of].sum())
    return done / (peak * trace.duration_ps * 1e-12) if peak else 0.0


def numbers_of(cell: Cell, field: str) -> tuple[float, str]:
    """Value of a number ``<device>.<field>`` of a cell's machine, and the unit text that an override of it needs."""
    job = {"target": cell.target, "stream": cell.stream}
    resolved = load(system=cell.system, schedule=cell.schedule, job=job, sets=cell.sets)
    device, _, name = field.partition(".")
    value = resolved.data["system"]["devices"][device]["spec"][name]
    unit = " ps" if "_ps" in name else " B/s" if name.endswith("_bytes_per_s") else ""
    return float(value), unit
