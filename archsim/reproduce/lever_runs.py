"""Runs behind Lever's table: what is simulated, what is measured on it, and a store of results on disk."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from archsim.report.cycles import cycles, exposed_projection_s
from archsim.report.null import null_model
from archsim.session import load, run
from archsim.units import PS_PER_S, InputError

#: Prompts and output tokens of every measured speed; acceptance is an expectation, so it takes many prompts. Requests
#: are shorter than the published 128 tokens: speeds count whole steps (:func:`decode_speed`), so length hardly matters.
PROMPTS, TOKENS = 50, 32
#: llama.cpp's Q4_0 files keep the output projection in Q6_K.
HEAD = "model.target.quant.head=Q6_K"


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
def _code_digest() -> str:
    """Digest of the sources and the acceptance table, on which stored results depend; tables of rows do not count."""
    root, here = Path(__file__).parents[1], Path(__file__)
    digest = hashlib.sha256()
    for path in sorted([*root.rglob("*.py"), *root.rglob("acceptance.yaml")]):
        if path.parent == here.parent and path != here:
            continue
        digest.update(str(path.relative_to(root)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


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
    file = _folder() / f"{hashlib.sha256((resolved.digest + _code_digest()).encode()).hexdigest()[:32]}.json"
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        found = _measured(run(resolved, trace="off"))
        _store(file, found)
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


def _folder() -> Path:
    base = os.environ.get("ARCHSIM_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache"), "archsim"
    )
    return Path(base) / "reproduce"


def _store(file: Path, found: dict[str, Any]) -> None:
    """Keep a result; where nothing can be written it is computed again next time."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_suffix(f".{os.getpid()}")
        partial.write_text(json.dumps(found), encoding="utf-8")
        partial.replace(file)
    except OSError:
        return


def geometric(values: list[float]) -> float:
    """Geometric mean."""
    if not values or min(values) <= 0:
        raise InputError("a geometric mean needs values above zero")
    product = 1.0
    for value in values:
        product *= value ** (1 / len(values))
    return product
