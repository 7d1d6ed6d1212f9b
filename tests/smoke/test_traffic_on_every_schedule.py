"""Every schedule under background streams, open arrivals, turns, and a cache split between DRAM and flash."""

from __future__ import annotations

import pytest

from archsim import registry
from archsim.session import load, replay, run

STREAMS = {"display": "display_60hz", "camera": "camera_4k30", "idle": "android_idle", "paging": "android_paging"}
SCHEDULES = registry.names("schedule")
#: A denoising model of a few layers and words: seconds of passes over the whole sequence, not a minute of bursts.
SMALL = ("model.target.layers=4", "model.target.vocab=16384")


def machine(schedule):
    """Phone, or the machine with the units that the schedule's defaults need."""
    kind = registry.get("schedule", schedule)
    if not kind.causal:
        return "llada_ace5_pro"
    if getattr(kind(), "controlled", False) or set(kind.needs) - {"npu"}:
        return "gpu_pim" if "gpu" in kind.needs else "ahasd_samsung"
    return "oneplus_12"


def job_of(schedule, **more):
    job = {"tokens": 8, "prompts": 1, "prompt_tokens": 300, "seed": 3}
    if not registry.get("schedule", schedule).causal:
        return {**job, "target": "llada-8b", "stream": "synthetic:llada-8b:gsm8k", **more}
    stream = "synthetic:qwen3-4b:mbpp"
    return {**job, "target": "smollm2-135m", "stream": stream, "prefill_rows": 128, **more}


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_runs_in_traffic(schedule, tmp_path):
    split = {"kv_tier": "split", "kv_dram_tokens": 128, "kv_block_tokens": 64}
    job = job_of(schedule, turns=2, arrivals="fixed", arrival_period_ps="1 ms", turn_tokens=40, **split)
    data = {"system": machine(schedule), "schedule": {"name": schedule}, "job": job, "background": STREAMS}
    sets = () if registry.get("schedule", schedule).causal else SMALL
    result = run(load(data, sets=sets), output=tmp_path / "run", check=True)
    summary = result.summary
    assert not summary["checks"]["skipped"]
    assert summary["tokens"] == 16
    assert summary["turns"]["2"]["prefilled_tokens"] == 41
    assert summary["queue_p99_s"] > 0
    assert summary["bytes_per_step"]["kv_from_flash"] > 0
    for name, stream in summary["background"].items():
        assert stream["bursts"] > 0, name
        assert stream["energy_j"] > 0, name
    assert replay(result.folder)["identical"]
