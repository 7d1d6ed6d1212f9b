"""Every schedule on every machine that has the units it needs, on the smallest model, with a real stream."""

from __future__ import annotations

import functools

import pytest

from archsim import registry
from archsim.config import InputError, load_config, names
from archsim.device import OpKind
from archsim.session import load, replay, run
from archsim.system import System

SYSTEMS = names("system")
SCHEDULES = registry.names("schedule")


@functools.cache
def devices_of(system: str) -> dict:
    return System.from_data(load_config("system", system).data).devices


def lacks(system: str, schedule: str) -> str:
    """What a schedule's placements need and a machine does not have, or nothing."""
    lacking = [name for name in registry.get("schedule", schedule).needs if name not in devices_of(system)]
    if lacking:
        return f"has no (device ')?{lacking[0]}"
    devices = devices_of(system)
    if getattr(registry.get("schedule", schedule)(), "controlled", False) and "control" not in devices:
        return "has no device 'control'"
    streams = any(place.streams for place in registry.get("schedule", schedule)().placements().values())
    if streams and not any(OpKind.LOAD in device.ops for device in devices.values()):
        return "runs LOAD"
    return ""


def quick() -> set[tuple[str, str]]:
    """Every fourth pair along the diagonals, and the first that runs of a machine or schedule that has none there."""
    pairs = [(i + j, (s, p)) for i, s in enumerate(SYSTEMS) for j, p in enumerate(SCHEDULES)]
    diagonals = [pair for at, pair in pairs if at % 4 == 0]
    first = {}
    for pair in [*diagonals, *(pair for _, pair in pairs)]:
        if not lacks(*pair):
            for side in enumerate(pair):
                first.setdefault(side, pair)
    return {*diagonals, *first.values()}


QUICK = quick()
PAIRS = [
    pytest.param(s, p, marks=() if (s, p) in QUICK else pytest.mark.slow, id=f"{s}-{p}")
    for s in SYSTEMS
    for p in SCHEDULES
]


@pytest.mark.parametrize(("system", "schedule"), PAIRS)
def test_runs_and_replays(system, schedule, tmp_path):
    job = {"target": "smollm2-135m", "stream": "recorded:exit_layers:25", "tokens": 12, "prompts": 2}
    missing = lacks(system, schedule)
    if missing:
        with pytest.raises(InputError, match=f"{missing}|has no flash"):
            run(load(system=system, schedule=schedule, job=job), trace="off")
        return
    if not registry.get("schedule", schedule).causal:
        job |= {"target": "llada-8b", "stream": "synthetic:llada-8b:gsm8k"}
    result = run(load(system=system, schedule=schedule, job=job), output=tmp_path / "run", check=True)
    summary = result.summary
    assert len(summary["checks"]["counts"]) == 9
    assert not summary["checks"]["skipped"]
    assert summary["tokens"] == 24
    assert summary["decode_tokens_per_s"] > 0
    assert summary["energy_j"] > 0
    assert all(0 <= busy <= 1 for busy in summary["units"].values())
    assert replay(result.folder)["identical"]


def test_quick_pairs_run_every_schedule_and_every_machine():
    ran = [pair for pair in QUICK if not lacks(*pair)]
    assert {schedule for _, schedule in ran} == set(SCHEDULES)
    assert {system for system, _ in ran} == set(SYSTEMS)


def test_most_pairs_run():
    refused = [(s, p) for s in SYSTEMS for p in SCHEDULES if lacks(s, p) and not registry.get("schedule", p).needs]
    assert not [s for s in SYSTEMS if s.startswith("ahasd") and lacks(s, "ahasd")]
    assert {system for system, _ in refused} <= {"laptop_gpu"}


@pytest.mark.parametrize("name", names("run"))
def test_shipped_runs(name, tmp_path):
    loaded = load(name, sets=("job.tokens=6",))
    result = run(loaded, output=tmp_path / "run", check=True)
    assert result.summary["tokens"] == 6 * loaded.data["job"]["prompts"] * loaded.data["job"]["turns"]
