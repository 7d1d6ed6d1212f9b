"""Whole models as a benchmark runs them: passes one after the other on the engine, the first not counted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from typing import Any

from archsim.config import InputError, Resolved
from archsim.measurements.machine import Machine
from archsim.measurements.models import spec_of
from archsim.measurements.operators import CannotSimulateError
from archsim.measurements.rows import ModelCase
from archsim.session import build_job, declare, load
from archsim.workload.plan import Pass

#: Schedule that places a model as the device says.
SCHEDULES = {"npu": "resident_ar", "cpu": "cpu_ar"}
#: Cached lengths at which decoding is run; its time is linear in the length between them.
DECODES = 4
MOST_TOKENS, MOST_PASSES = 1 << 20, 4096


def seconds(machine: Machine, system: str, case: ModelCase) -> float:
    """Time of prompt and generated tokens together.

    Parameters
    ----------
    machine : Machine
        The system as moved.
    system : str
        Its name or file.
    case : ModelCase

    Raises
    ------
    CannotSimulateError
        When the system cannot run the model so.
    """
    prompt, decodes = _passes(case)
    total = sum(_times(machine, system, case, prompt)) if prompt else 0.0
    if decodes:
        found = _times(machine, system, case, decodes)
        total += case.generated * sum(found) / len(found)
    return total


def _passes(case: ModelCase) -> tuple[list[Pass], list[Pass]]:
    """Passes of the prompt, and some of those that decode, evenly spread."""
    if case.prompt > MOST_PASSES * case.batch:
        raise CannotSimulateError(f"a prompt of {case.prompt} tokens in batches of {case.batch}")
    prompt = [
        Pass("target", "prefill", min(case.batch, case.prompt - at), case.depth + at, projected=1)
        for at in range(0, case.prompt, case.batch)
    ]
    n, first = case.generated, case.depth + case.prompt
    count = min(DECODES, n)
    decodes = [Pass("target", "decode", 1, first + int((i + 0.5) * n / count)) for i in range(count)]
    return prompt, decodes


def _times(machine: Machine, system: str, case: ModelCase, passes: list[Pass]) -> list[float]:
    """Seconds of each pass, after one like the first that warms up."""
    try:
        resolved = _resolved(system, case)
        data = machine.data()
        if case.threads:
            cpu = data["devices"].get("cpu")
            if cpu is None or case.threads > len(cpu["spec"].get("core_hz", ())):
                raise CannotSimulateError(f"{case.threads} threads; the system has fewer cores")
            cpu["spec"]["threads"] = case.threads
        moved = replace(resolved, data={**resolved.data, "system": {k: v for k, v in data.items() if k != "kind"}})
        system_, _, job = build_job(moved)
    except InputError as error:
        raise CannotSimulateError(error.message) from None
    if case.device not in system_.devices:
        raise CannotSimulateError(f"the system has no {case.device}")
    described = system_.describe(job.store_levels())
    described["stores"] += job.stores
    sim = declare(described, log="tasks")
    job.bind(sim)
    ends: list[int] = []

    def steps() -> Iterator[Any]:
        for _ in job.requests():
            for one in (passes[0], *passes):
                yield job.emit_passes([one])
                ends.append(sim.now)

    sim.process(steps(), "passes")
    sim.run()
    return [(b - a) / 1e12 for a, b in pairwise(ends)]


@lru_cache(maxsize=256)
def _resolved(system: str, case: ModelCase) -> Resolved:
    """Run of a case on the system as its files say; what is moved replaces its devices."""
    if case.device not in SCHEDULES:
        raise CannotSimulateError(f"whole models run on {' or '.join(SCHEDULES)}, not on {case.device}")
    longest = case.depth + case.prompt + case.generated
    if longest > MOST_TOKENS:
        raise CannotSimulateError(f"{longest} tokens are more than {MOST_TOKENS}")
    job = {"target": case.model, "stream": f"synthetic:{case.model}:mt_bench", "tokens": 1, "prompt_tokens": longest}
    job |= {"kv_dtype": case.kv_dtype or None, "acceptance": 0.5}  # nothing is drawn from the stream
    sets = [f"model.target.quant.default={case.dtype}"] if case.dtype else []
    return load(system=system, schedule=SCHEDULES[case.device], job=job, sets=sets)


def totals(case: ModelCase) -> list[tuple[float, float]]:
    """Bytes and multiply-accumulates of every pass, weights, KV cache and projection, for the null model."""
    spec = spec_of(case.model)
    prompt, decodes = _passes(case)
    weights, head = spec.layers * spec.layer_bytes, spec.head_bytes
    per_row = sum(one.k * one.n for one in spec.layer_matrices) * spec.layers
    table = []
    for one, times in [(one, 1.0) for one in prompt] + [(one, case.generated / len(decodes)) for one in decodes]:
        moved = weights + head + (one.kv + one.rows) * spec.kv_token_bytes
        macs = one.rows * per_row + spec.hidden * spec.logits
        macs += 2 * spec.layers * spec.q_width * (one.rows * one.kv + one.rows * (one.rows + 1) // 2)
        table.append((times * moved, times * macs))
    return table
