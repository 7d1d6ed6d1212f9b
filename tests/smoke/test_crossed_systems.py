"""The published systems on machines that no paper put them on."""

from __future__ import annotations

import pytest

from archsim.session import load, run

LEVER = {"target": "llama2-7b", "draft": "llama2-1.3b", "stream": "synthetic:llama2-7b+llama2-1.3b:alpaca"}
LLADA = {"target": "llada-8b", "stream": "synthetic:llada-8b:gsm8k"}


@pytest.mark.parametrize(
    ("schedule", "job", "set_", "role"),
    [
        ("lever", LEVER, "schedule.draft_on=pim", "draft"),
        ("chain_sd", LEVER, "schedule.draft_on=pim", "draft"),
        ("llada", LLADA, "schedule.revise_on=pim", "revision"),
    ],
)
def test_a_role_moves_to_the_banks(schedule, job, set_, role):
    """The role's work runs on PIM and not on the CPU, and the same tokens come out."""
    results = {}
    for sets in ((), (set_,)):
        resolved = load(system="ahasd_samsung", schedule=schedule, job={**job, "tokens": 24}, sets=sets)
        results[sets] = run(resolved, trace="off")
    here, there = results.values()
    assert there.summary["tokens"] == here.summary["tokens"] == 24
    ops = there.trace.ops
    mine = ops["role"] == role
    products = mine & (ops["kind"] == "matmul")
    assert products.any()
    assert set(ops["device"][products].tolist()) == {"pim"}
    assert there.summary["units"]["pim.sequencer"] > here.summary["units"]["pim.sequencer"] == 0.0
