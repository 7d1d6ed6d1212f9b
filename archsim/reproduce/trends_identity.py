"""Trends that theory fixes: a machine twice as fast halves every time, and elasticities sum to -1.

No published figure is needed: the time of a run is homogeneous of degree -1 in the rates and inverse times of its
machine. What parts from that is a constant that is no parameter; see :mod:`archsim.sweep.scaling`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from archsim.reproduce.rows import Row
from archsim.session import load, run
from archsim.sweep.scaling import Elasticity, elasticities, elasticity_sum, identity, scaled
from archsim.system import System

SPEED = 2.0
TOKENS = 16
RECORDED = "recorded:exit_layers:25"
THEORY = "theory: time is homogeneous of degree -1 in the machine's rates and inverse times"
#: Relative step of the finite differences.
STEP = 2e-3


class Subject(NamedTuple):
    """A small run: machine, schedule, job and overrides."""

    system: str
    schedule: str
    job: Mapping[str, str]
    sets: tuple[str, ...] = ()


def _drafted(target: str) -> dict[str, str]:
    return {"target": target, "stream": f"synthetic:{target}:mbpp"}


_SMALL = {"target": "smollm2-135m", "stream": RECORDED}
_BLOCKS = {"target": "llada-8b", "stream": "synthetic:llada-8b:gsm8k"}
_PAIR = {"target": "llama2-7b", "draft": "llama2-1.3b", "stream": "synthetic:llama2-7b+llama2-1.3b:alpaca"}

#: The three systems and their baselines on machines that have what they need, by name.
SUBJECTS: Mapping[str, Subject] = {
    "resident_ar": Subject("oneplus_12", "resident_ar", _SMALL),
    "cpu_ar": Subject("oneplus_12", "cpu_ar", _SMALL),
    "co_run": Subject("oneplus_12", "co_run", _SMALL),
    "flash_ar": Subject("oneplus_12", "flash_ar", {"target": "llama-3.1-8b", "stream": RECORDED}),
    "chain_sd": Subject("oneplus_12", "chain_sd", _drafted("qwen3-8b")),
    "specinfer": Subject("oneplus_12", "specinfer", _drafted("qwen3-8b")),
    "opt_tree": Subject("oneplus_12", "opt_tree", _drafted("qwen3-8b")),
    "edgellm": Subject("oneplus_12", "edgellm", _drafted("qwen3-8b")),
    "lever": Subject("oneplus_12", "lever", _drafted("llama-3.1-8b")),
    "lever_v81": Subject("oneplus_15", "lever", _drafted("qwen3-4b")),
    "lever_pim": Subject("ahasd_samsung", "lever", _PAIR, ("schedule.draft_on=pim",)),
    "dllm_cpu": Subject("llada_ace5_pro", "dllm_cpu", _BLOCKS),
    "dllm_npu": Subject("llada_ace5_pro", "dllm_npu", _BLOCKS),
    "llada": Subject("llada_ace5_pro", "llada", _BLOCKS),
    "ar_offload": Subject("llada_ace5_pro", "ar_offload", {"target": "llama-3-8b", "stream": RECORDED}),
    "npu_sd": Subject("ahasd_samsung", "npu_sd", _PAIR),
    "pim_sync": Subject("ahasd_samsung", "pim_sync", _PAIR),
    "pim_ar": Subject("ahasd_samsung", "pim_ar", _PAIR),
    "ahasd": Subject("ahasd_samsung", "ahasd", _PAIR),
    "ahasd_bandit": Subject("ahasd_samsung", "ahasd", _PAIR, ("schedule.drafter=banditspec",)),
    "ahasd_fences": Subject("ahasd_samsung", "ahasd", _PAIR, ("system.pim.fence=true",)),
    "ahasd_listed": Subject("ahasd_listed", "ahasd", _PAIR),
    "gpu_sd": Subject("mobile_gpu", "gpu_sd", _PAIR),
    "specpim": Subject("gpu_pim", "specpim", _PAIR),
}
#: Runs whose elasticities are summed.
SUMMED = ("flash_ar", "resident_ar", "lever", "llada", "ahasd")
#: Largest relative gap that rounding of rates to 2**-28 byte per ps leaves in these runs (a CPU that reads at
#: 0.21 GB/s past its caches has a rate of 56,000 of these).
GAP = 2e-6


def loaded(subject: Subject, tokens: int = TOKENS) -> Any:
    """The run of a subject."""
    job = {**subject.job, "tokens": tokens}
    return load(system=subject.system, schedule=subject.schedule, job=job, sets=subject.sets)


def identity_rows() -> Iterator[Row]:
    """A machine twice as fast: half the time, the same decisions."""
    for name, subject in SUBJECTS.items():
        plain = loaded(subject)
        traces = [run(one, trace="off").trace for one in (plain, scaled(plain, SPEED))]
        found = identity(*traces, SPEED)
        why = (
            f"{found.rows} rows; no block's end is off by more than {found.worst_ps} ps, rounding allows "
            f"{found.bound_ps:.0f}"
        )
        ratio = (1 + found.relative) / SPEED
        yield Row(f"trends.scaling.{name}.time", THEORY, "x", 0.5, ratio, None, "reported", GAP, why=why)
        differing = float(not found.decisions or not found.holds)
        yield Row(
            f"trends.scaling.{name}.decisions", THEORY, "runs that differ", 0.0, differing, None, "reported", 0.0,
            why=found.first,
        )  # fmt: skip
    yield from _apart()


def elasticity_rows() -> Iterator[Row]:
    """Sum of elasticities over all rates and times of the machine."""
    for name in SUMMED:
        found = elasticities(loaded(SUBJECTS[name], 8 if name != "ahasd" else 24), STEP)
        total = elasticity_sum(found)
        yield Row(
            f"trends.elasticity.{name}.sum", THEORY, "1", -1.0, total, None, "reported", 0.01, why=_described(found)
        )


def _described(found: list[Elasticity]) -> str:
    """Strongest parameters, and what was special about the others."""
    strongest = sorted(found, key=lambda one: -abs(one.slope))[:4]
    words = ", ".join(f"{one.paths[0].removeprefix('system.')} {one.slope:+.3f}" for one in strongest)
    still = sum(one.slope == 0 for one in found)
    text = f"{len(found)} rates and times, {still} without effect; strongest: {words}"
    for note in ("one-sided", "kink", "cannot be moved"):
        these = [one.paths[0].removeprefix("system.") for one in found if one.note == note]
        text += f"; {note}: {', '.join(these)}" if these else ""
    changed = [one.paths[0].removeprefix("system.") for one in found if not one.decisions]
    return text + (f"; a step changes decisions: {', '.join(changed)}" if changed else "")


def _apart() -> Iterator[Row]:
    """Times that no parameter holds: timers of power states, which price energy and delay nothing."""
    plain = loaded(SUBJECTS["flash_ar"])
    devices = System.from_data(plain.data["system"], plain.sources).devices
    timers = {
        f"{name}.{block}.{state}": after
        for name, device in devices.items()
        for block, states in device.power_states().items()
        for state, after in states.after_ps.items()
    }
    words = ", ".join(f"{key} {value / 1e9:g} ms" for key, value in timers.items())
    why = (
        f"constants with a second in them that are no parameters; they enter energy, not time: {words}. Runs with heat "
        "are left out: static power is priced, no parameter of the machine, so a governor's steps do not scale with it"
    )
    yield Row("trends.scaling.constants", THEORY, "timers", None, float(len(timers)), None, "excluded", why=why)
