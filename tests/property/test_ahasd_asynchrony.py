"""What holds for drafting ahead, whatever the stream and the switches."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from archsim.session import load, run

JOB = {"target": "smollm2-135m", "draft": "smollm2-135m", "stream": "synthetic:llama2-7b+llama2-1.3b:alpaca"}


def ran(schedule, *sets, **job):
    return run(load(system="oneplus_12", schedule=schedule, job={**JOB, **job}, sets=sets), trace="off")


def totals(result):
    notes = result.trace.notes
    found = defaultdict(lambda: [0, 0])
    for kind, value, extra in zip(notes["kind"].tolist(), notes["value"].tolist(), notes["extra"].tolist()):
        found[kind][0] += value
        found[kind][1] += extra
    return found


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 10**6),
    acceptance=st.sampled_from([0.05, 0.5, 0.85, 0.97]),
    tokens=st.integers(1, 60),
    depth=st.integers(1, 9),
    take_all=st.booleans(),
    token=st.booleans(),
    drafter=st.sampled_from(["fixed", "svip", "specdec++", "adaedl", "banditspec"]),
)
def test_every_drafted_token_is_accounted_for(seed, acceptance, tokens, depth, take_all, token, drafter):
    result = ran(
        "ahasd",
        f"schedule.depth={depth}",
        f"schedule.take_all={str(take_all).lower()}",
        f"schedule.token_rollback={str(token).lower()}",
        f"schedule.drafter={drafter}",
        seed=seed,
        acceptance=acceptance,
        tokens=tokens,
        prompts=2,
    )
    assert result.summary["tokens"] == 2 * tokens
    found = totals(result)
    drafted = found["draft"][0]
    accepted, verified = found["accept"]
    assert drafted == verified + found["confirm"][0] + found["flush"][0] + found["pending"][0]
    assert accepted <= verified
    assert found["commit"][0] == 2 * tokens


@pytest.mark.parametrize("drafter", ["fixed", "svip", "specdec++", "adaedl"])
def test_depth_one_is_taking_turns(drafter):
    alone = ran("pim_sync", f"schedule.drafter={drafter}", tokens=80, seed=3)
    paired = ran("ahasd", f"schedule.drafter={drafter}", "schedule.depth=1", tokens=80, seed=3)
    assert paired.summary["steps"] == alone.summary["steps"]
    kinds = ("accept", "commit", "draft", "step")
    assert {k: totals(paired)[k] for k in kinds} == {k: totals(alone)[k] for k in kinds}
    # the rest is hand-overs through the host
    slower = alone.summary["decode_tokens_per_s"] / paired.summary["decode_tokens_per_s"]
    assert 1.0 <= slower < 1.02


def test_one_at_a_time_sees_the_same_text_as_all_at_once():
    fixed = ("schedule.drafter=fixed", "schedule.length=3")
    every = ran("ahasd", *fixed, tokens=64, seed=5)
    one = ran("ahasd", *fixed, "schedule.take_all=false", tokens=64, seed=5)
    assert every.summary["tokens"] == one.summary["tokens"] == 64
    assert one.summary["steps"] >= every.summary["steps"]


def test_misses_flush_what_was_drafted_ahead():
    perfect = totals(ran("ahasd", acceptance=0.999, tokens=60, seed=1))
    poor = totals(ran("ahasd", acceptance=0.3, tokens=60, seed=1))
    assert perfect["flush"][0] == 0
    assert poor["flush"][0] > 20
    assert poor["confirm"][0] < perfect["confirm"][0]
