"""Runs behind AHASD's table: what is simulated, what is measured on it, and a store of results on disk.

A case is a machine, a schedule, a pair of models and overrides. All cases of a comparison share seed and prompts, so
they meet the same text. Results are kept by digest of the resolved configuration and of the sources they depend on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from archsim.config import Resolved
from archsim.report.ahead import ahead
from archsim.report.energy import energy
from archsim.report.summary import acceptance
from archsim.results import code_digest, geometric, result_file, store, stored
from archsim.session import load, run

#: Prompts of every cell, and their output tokens. Published requests have 1024 tokens; EDC's table lives on across
#: the prompts of a run, and attention is a few percent of a pass, so two of 256 take its place.
PROMPTS, TOKENS = 2, 256
#: Pairs as published: target and draft; the last is of the motivation figures only.
PAIRS = {
    "opt": ("opt-6.7b", "opt-1.3b"),
    "llama2": ("llama2-13b", "llama2-7b"),
    "palm": ("palm-30b", "palm-8b"),
    "motivation": ("llama2-7b", "llama2-1.3b"),
}
DRAFTERS = ("specdec++", "svip", "adaedl", "banditspec")
#: Folders whose sources no result depends on.
_APART = ("reproduce", "sweep")


@dataclass(frozen=True)
class Case:
    """One simulation; `acceptance` replaces the pair's stored level."""

    schedule: str
    system: str = "ahasd_samsung"
    pair: str = "llama2"
    drafter: str = "specdec++"
    sets: tuple[str, ...] = ()
    prompts: int = PROMPTS
    tokens: int = TOKENS
    prompt_tokens: int | None = None
    acceptance: float | None = None
    seed: int = 0

    def having(self, *sets: str, **changes: Any) -> Case:
        """The same with more overrides (the later of two wins), or other fields."""
        values = dict(text.split("=", 1) for text in (*self.sets, *sets))
        return replace(self, sets=tuple(f"{path}={value}" for path, value in values.items()), **changes)


@dataclass(frozen=True)
class Measured:
    """What a case gave.

    Attributes
    ----------
    tps, energy_j : float
        Decoded tokens per second (geometric mean over prompts); energy per token, joules.
    memory_w, npu_w, total_w : float
        Mean power of the memory (its PIM devices included), of the NPU, and of the machine.
    busy : dict
        Busy fraction by unit.
    per_step, batch_tokens : float
        Tokens committed per pass of the target; drafted tokens per batch (0 where none were drafted).
    accepted : dict
        Acceptance by definition.
    ahead : dict
        Figures of drafting ahead by name, in their own units.
    phases : dict
        Seconds per step by phase.
    """

    tps: float
    energy_j: float
    memory_w: float
    npu_w: float
    total_w: float
    busy: dict[str, float]
    per_step: float
    batch_tokens: float
    accepted: dict[str, float | None]
    ahead: dict[str, float | None]
    phases: dict[str, float]


#: Told of every simulation that had to be run: (how many so far).
Watcher = Callable[[int], None]


class Bench:
    """Measures cases, each once; results outlive the process."""

    def __init__(self, watch: Watcher | None = None) -> None:
        self._known: dict[Case, Measured] = {}
        self.watch = watch
        self.simulated = 0

    def __call__(self, case: Case) -> Measured:
        """Simulate a case, or take its stored result."""
        if case not in self._known:
            chosen = resolved(case)
            file = result_file("ahasd", chosen.digest, code_digest(_APART, ("reproduce/ahasd_runs.py",)))
            found = _known(file)
            if found is None:
                found = _measured(run(chosen, trace="off"))
                store(file, asdict(found))
                self.simulated += 1
                if self.watch is not None:
                    self.watch(self.simulated)
            self._known[case] = found
        return self._known[case]

    def geometric(self, cases: Sequence[Case], over: Sequence[Case], value: str = "tps") -> float:
        """Geometric mean of paired ratios of a measured value."""
        return geometric([getattr(self(a), value) / getattr(self(b), value) for a, b in zip(cases, over, strict=True)])


def resolved(case: Case) -> Resolved:
    """Configuration of a case."""
    target, draft = PAIRS[case.pair]
    job: dict[str, Any] = {"target": target, "stream": f"synthetic:{target}+{draft}:alpaca", "seed": case.seed}
    job |= {"prompts": case.prompts, "tokens": case.tokens, "acceptance": case.acceptance}
    job["prompt_tokens"] = case.prompt_tokens
    sets = case.sets
    if case.schedule != "pim_ar":
        job["draft"] = draft
        sets = (f"schedule.drafter={case.drafter}", *sets)
    return load(system=case.system, schedule=case.schedule, job=job, sets=sets)


def _measured(result: Any) -> Measured:
    summary, trace = result.summary, result.trace
    notes = trace.notes
    drafted = notes["value"][notes["kind"] == "draft"]
    devices = energy(trace).by_device()
    duration_s = trace.duration_ps * 1e-12
    memory = sum(joule for name, joule in devices.items() if name.partition(".")[0] in ("dram", "pim", "pim_target"))
    return Measured(
        tps=summary["decode_tokens_per_s"],
        energy_j=summary["energy_per_token_j"],
        memory_w=memory / duration_s,
        npu_w=devices.get("npu", 0.0) / duration_s,
        total_w=summary["mean_power_w"],
        busy=summary["units"],
        per_step=summary["accepted_per_step"],
        batch_tokens=float(np.mean(drafted)) if drafted.size else 0.0,
        accepted=acceptance(trace),
        ahead={row["quantity"]: row["value"] for row in ahead(trace)},
        phases=summary["phases"],
    )


def _known(file: Path) -> Measured | None:
    """Result of an earlier process; None where there is none of this shape."""
    try:
        return Measured(**(stored(file) or {}))
    except TypeError:
        return None
