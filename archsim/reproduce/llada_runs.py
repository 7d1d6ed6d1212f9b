"""Runs behind the llada table: what a cell measures, each run once.

A request that fills the NPU's address window for the first time also maps the resident set; published times are of
loaded models, so the first request of every run warms up and is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from archsim.report.null import null_model
from archsim.report.summary import requests
from archsim.report.traffic import executions
from archsim.session import load, run

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


#: Requests of one run; more are cut into runs of seeds 0, 1, 2, ..., so that memory stays small.
CHUNK = 50


def measure(cell: Cell) -> Measured:
    """Run a cell, each run with one request more than asked for, and take the means over the others."""
    chunks = -(-cell.prompts // CHUNK)
    counts = [cell.prompts * (i + 1) // chunks - cell.prompts * i // chunks for i in range(chunks)]
    found = [_measured(cell, seed, count + 1) for seed, count in enumerate(counts)]
    if len(found) == 1:
        return found[0]
    weights = np.array(counts) / cell.prompts

    def mean(name: str) -> float:
        return float(weights @ [getattr(one, name) for one in found])

    numbers = {name: mean(name) for name in _MEANS}
    spread = weights @ [one.latency_sd_s**2 + (one.latency_s - numbers["latency_s"]) ** 2 for one in found]
    numbers["tokens_per_step"] = cell.tokens / numbers["steps"]
    phases = {name: float(weights @ [one.phases.get(name, 0.0) for one in found]) for name in found[0].phases}
    notes = {kind: np.concatenate([one.notes[kind] for one in found], axis=1) for kind in found[0].notes}
    return replace(found[0], **numbers, latency_sd_s=float(spread**0.5), phases=phases, notes=notes)


_MEANS = ("latency_s", "steps", "energy_j", "power_w", "null_s", "npu_utilisation", "npu_busy", "wrong")


def _measured(cell: Cell, seed: int, count: int) -> Measured:
    job = {"target": cell.target, "stream": cell.stream, "tokens": cell.tokens, "prompts": count, "seed": seed}
    result = run(load(system=cell.system, schedule=cell.schedule, job=job, sets=cell.sets), trace="off")
    trace, summary = result.trace, result.summary
    served = requests(trace)[1:]
    latency = np.array([request["latency_s"] for request in served])
    steps = float(np.mean([request["steps"] for request in served]))
    null = null_model(trace)
    notes = trace.notes
    marks = {
        kind: np.stack([notes[name][notes["kind"] == kind] for name in ("request", "value", "extra")])
        for kind in ("window", "masks", "drafts", "revise", "quality", "commit")
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
    """Bytes mapped once, and per block that swaps (a pass over the layers)."""
    ops, executed = trace.ops, np.rint(executions(trace)).astype(np.int64)
    maps = ops["kind"] == "map"  # in: mapped, out: swapped
    swaps = np.append(maps & (ops["out_bytes"] > 0), False)[trace.row_op]
    passes = len(np.unique(trace.row_block[swaps]))
    once = int((ops["in_bytes"] * executed)[maps].sum())
    again = int((ops["out_bytes"] * executed)[maps].sum())
    return {"resident_bytes": once, "swapped_bytes": again // max(passes, 1)}


def _utilisation(trace: Any) -> float:
    """Operations of the NPU over what its matrix units could have done in the run."""
    times = executions(trace)
    of = trace.ops["device"] == "npu"
    peak = trace.manifest["peaks"]["npu"]["ops_per_s"] if "npu" in trace.manifest["peaks"] else 0.0
    done = 2.0 * float((times * trace.ops["macs"])[of].sum())
    return done / (peak * trace.duration_ps * 1e-12) if peak else 0.0


def scaled(cell: Cell, field: str, factor: float) -> Cell:
    """Cell with a number ``<device>.<field>`` of its machine times `factor`."""
    value, unit = numbers_of(cell, field)
    return cell.but(f"system.{field}={value * factor:.6g}{unit}")


def numbers_of(cell: Cell, field: str) -> tuple[float, str]:
    """Value of a number ``<device>.<field>`` of a cell's machine, and the unit text that an override of it needs."""
    job = {"target": cell.target, "stream": cell.stream}
    resolved = load(system=cell.system, schedule=cell.schedule, job=job, sets=cell.sets)
    device, _, name = field.partition(".")
    value = resolved.data["system"]["devices"][device]["spec"][name]
    endings = {"_ps_per_gib": " ps", "_bytes_per_s": " B/s", "_hz": " Hz"}
    unit = next((text for ending, text in endings.items() if name.endswith(ending)), "")
    return float(value), unit
