"""Runs behind Lever's table: what is simulated, what is measured on it, and a store of results on disk."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from archsim.report.cycles import cycles, exposed_projection_s
from archsim.report.null import null_model
from archsim.results import code_digest, geometric, result_file, store, stored
from archsim.session import load, run
from archsim.units import PS_PER_S

#: Prompts and output tokens of every measured speed; acceptance is an expectation, so it takes many prompts. Requests
#: are shorter than the published 128 tokens: speeds count whole steps (:func:`decode_speed`), so length hardly matters.
PROMPTS, TOKENS = 50, 32
#: llama.cpp's Q4_0 files keep the output projection in Q6_K.
HEAD = "model.target.quant.head=Q6_K"
#: Packages that no run depends on.
APART = ("reproduce", "sweep")


@dataclass(frozen=True)
class Case:
    """One simulation: machine, schedule, target, task and overrides."""

    system: str
    schedule: str
    target: str
    task: str = "mbpp"
    draft: str | None = None
    sets: tuple[str, ...] = ()
    prompts: int = PROMPTS
    tokens: int = TOKENS

    def having(self, *sets: str) -> Case:
        """The same with more overrides."""
        return replace(self, sets=(*self.sets, *sets))


@cache
def measure(case: Case) -> dict[str, Any]:
    """Simulate a case, or take its stored result.

    Returns
    -------
    dict
        ``tps``, ``length`` (tokens per step), ``compute_s`` and ``io_s`` per step, ``projection_s`` (exposed, a step),
        ``draft_s``, ``verify_s``, ``rows``, ``kept`` and ``lost`` per cycle where a tree policy ran, and of the null
        model ``null_tps``, ``null_flash_s`` and ``null_compute_s`` (memory and operations).
    """
    stream = f"synthetic:{case.target}{'+' + case.draft if case.draft else ''}:{case.task}"
    job = {"target": case.target, "stream": stream, "prompts": case.prompts, "tokens": case.tokens}
    if case.draft and case.schedule != "flash_ar":
        job["draft"] = case.draft
    resolved = load(system=case.system, schedule=case.schedule, job=job, sets=(HEAD, *case.sets))
    file = result_file("lever", resolved.digest, code_digest(APART, ("reproduce/lever_runs.py",)))
    found = stored(file)
    if found is None:
        found = _measured(run(resolved, trace="off"))
        store(file, found)
    return found


def _measured(result: Any) -> dict[str, Any]:
    summary, trace = result.summary, result.trace
    null = null_model(trace)
    met = {row["quantity"]: row["met"] for row in cycles(trace)}
    return {
        "tps": decode_speed(trace),
        "length": 1 + float(trace.notes["value"][trace.notes["kind"] == "accept"].sum()) / summary["steps"],
        "compute_s": summary["phases"].get("compute", 0.0),
        "io_s": summary["phases"].get("io", 0.0),
        "projection_s": exposed_projection_s(trace),
        "draft_s": met.get("drafting"),
        "verify_s": met.get("verification latency"),
        "rows": met.get("rows of the tree"),
        "kept": met.get("rows above the exit layer"),
        "lost": met.get("tokens lost by pruning"),
        "null_tps": null["decode_tokens_per_s"],
        "null_flash_s": null["flash_s"],
        "null_compute_s": null["memory_s"] + null["compute_s"],
    }


def decode_speed(trace: Any) -> float:
    """Tokens per second, geometric mean over requests, with the tokens of the last step beyond the request counted in.

    A request that ends inside a step wastes part of it; the shorter the request, the more that weighs.
    """
    notes = trace.notes
    speeds = []
    for request in np.unique(notes["request"]).tolist():
        mine = notes["request"] == request
        times = notes["time_ps"][mine & (notes["kind"] == "commit")]
        steps = int((mine & (notes["kind"] == "step")).sum())
        accepted = int(notes["value"][mine & (notes["kind"] == "accept")].sum())
        speeds.append((steps + accepted) * PS_PER_S / int(times.max() - times.min()))
    return geometric(speeds)
