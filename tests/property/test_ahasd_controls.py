"""What the controls of drafting ahead may and may not do, over seeds."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from archsim.session import load, run

PAIR = {"target": "opt-6.7b", "draft": "opt-1.3b", "stream": "synthetic:opt-6.7b+opt-1.3b:alpaca"}
SEEDS = range(3)


def ran(schedule, *sets, system="ahasd_samsung", **job):
    sets = (*sets, *(() if schedule == "pim_ar" else ("schedule.drafter=adaedl",)))
    job = {**PAIR, "tokens": 96, **job}
    if schedule == "pim_ar":
        del job["draft"]
    return run(load(system=system, schedule=schedule, job=job, sets=sets), trace="off")


@cache
def speed(*sets, **job):
    return ran("ahasd", *sets, **job).summary["decode_tokens_per_s"]


@pytest.fixture(scope="module")
def by_control():
    """Speeds with no control of drafting, its table, and one that knows the text, by seed."""
    return {
        edc: np.array([speed(f"schedule.edc={edc}", "schedule.tvc=off", seed=seed) for seed in SEEDS])
        for edc in ("off", "table", "oracle")
    }


def test_knowing_the_text_never_loses(by_control):
    """Doomed look-ahead is all that it leaves out: a stale batch runs to its end and holds up the next draft."""
    assert (by_control["oracle"] >= 0.999 * by_control["off"]).all()
    assert (by_control["oracle"] >= 0.999 * by_control["table"]).all()
    assert by_control["oracle"].mean() > 1.01 * by_control["off"].mean()


def test_stopping_drafts_pays_only_where_drafting_blocks_the_npu():
    """Where the draft's ranks are the target's own, the table gains; where they are others, it loses."""

    def gains(*sets):
        """Of the table over no control, by seed: paired, on the same text."""
        return np.array(
            [
                speed("schedule.edc=table", "schedule.tvc=off", *sets, seed=seed)
                / speed("schedule.edc=off", "schedule.tvc=off", *sets, seed=seed)
                for seed in SEEDS
            ]
        )

    apart, same = gains(), gains("system.pim.host=exclusive")
    assert (same > apart).all()
    assert np.exp(np.log(apart).mean()) < 1.0 < np.exp(np.log(same).mean())


@pytest.mark.parametrize("seed", SEEDS)
def test_free_pre_verification_does_not_lose(seed):
    """With pre-verification that takes nothing from the NPU, what it finds can only come earlier."""
    free = ("system.pim_target.host=other_ranks", "system.pim_target.host_ranks=0")
    stops = ("schedule.edc=oracle", "schedule.drafting_goes_on=false")
    with_it = speed(*stops, "schedule.tvc=oracle", *free, seed=seed)
    without = speed(*stops, "schedule.tvc=off", *free, seed=seed)
    assert with_it >= 0.99 * without


def test_every_system_commits_the_same_text():
    """Accepted tokens lie where the text says; how they are batched is each system's own."""
    runs = {
        "npu_sd": ran("npu_sd"),
        "pim_sync": ran("pim_sync"),
        "ahasd": ran("ahasd"),
        "specpim": ran("specpim", system="gpu_pim"),
        "pim_ar": ran("pim_ar"),
        "gpu_sd": ran("gpu_sd", system="mobile_gpu"),
    }
    for name, result in runs.items():
        notes = result.trace.notes
        assert int(notes["value"][notes["kind"] == "commit"].sum()) == 96, name
    steps = {name: result.summary["steps"] for name, result in runs.items()}
    assert steps["npu_sd"] == steps["pim_sync"] == steps["specpim"] == steps["gpu_sd"]
    assert steps["pim_ar"] == 95


@pytest.mark.parametrize("verify", ["best", pytest.param("split", marks=pytest.mark.slow)])
def test_more_ways_to_verify_are_no_slower(verify):
    host = ran("specpim", "schedule.verify=host", system="gpu_pim").summary
    other = ran("specpim", f"schedule.verify={verify}", system="gpu_pim").summary
    assert other["steps"] == host["steps"]
    assert other["decode_tokens_per_s"] >= 0.999 * host["decode_tokens_per_s"]


def test_a_jump_of_the_prompts_length_misleads_the_time_table():
    """Predicted in proportion to the cached length, a verification seems eight times as long after 128 -> 1024."""
    from archsim.devices.control.tvc import Tvc

    def verify_ps(prompt):
        result = ran("ahasd", "schedule.edc=off", "schedule.tvc=off", prompt_tokens=prompt, tokens=24)
        trace = result.trace
        ours = np.flatnonzero(trace.blocks["phase"] == "verify")
        return float(np.median(trace.blocks["end_ps"][ours] - trace.blocks["emit_ps"][ours]))

    short, long = verify_ps(128), verify_ps(1024)
    assert long < 1.2 * short  # weights dominate
    tvc = Tvc()
    for _ in range(4):
        tvc.nvct.record(int(short), 128)
    assert tvc.nvct.predict(1024) > 6 * long


def test_pre_verification_fires_and_its_figures_are_reported():
    from archsim.report.ahead import ahead, queue_depth

    trace = ran("ahasd", tokens=200).trace
    figures = {row["quantity"]: row["value"] for row in ahead(trace)}
    assert figures["pre-verification: runs"] > 3
    assert 0.0 <= figures["pre-verification: late"] <= 1.0
    assert figures["tokens drafted"] == sum(
        figures[f"tokens {what}"] for what in ("verified", "confirmed", "flushed", "pending")
    )
    assert 0.0 < figures["drafting control: suppressed"] < 1.0
    times, depth = queue_depth(trace)
    assert (np.diff(times) >= 0).all()
    assert depth.min() == 0
    assert depth.max() == figures["queue: largest depth"] <= 8
    assert 0.0 < figures["queue: mean depth"] < depth.max()
    assert not ahead(ran("pim_sync").trace)
