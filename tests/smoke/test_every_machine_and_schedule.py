"""Every schedule on every machine, on the smallest model, with a real stream."""

from __future__ import annotations

import pytest

from archsim import registry
from archsim.config import names
from archsim.session import load, replay, run

SYSTEMS = names("system")
SCHEDULES = registry.names("schedule")


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("system", SYSTEMS)
def test_runs_and_replays(system, schedule, tmp_path):
    job = {"target": "smollm2-135m", "stream": "recorded:exit_layers:25", "tokens": 12, "prompts": 2}
    result = run(load(system=system, schedule=schedule, job=job), output=tmp_path / "run")
    summary = result.summary
    assert summary["tokens"] == 24
    assert summary["decode_tokens_per_s"] > 0
    assert summary["energy_j"] > 0
    assert all(0 <= busy <= 1 for busy in summary["units"].values())
    assert replay(result.folder)["identical"]


@pytest.mark.parametrize("name", names("run"))
def test_shipped_runs(name, tmp_path):
    loaded = load(name, sets=("job.tokens=6",))
    result = run(loaded, output=tmp_path / "run")
    assert result.summary["tokens"] == 6 * loaded.data["job"]["prompts"]
