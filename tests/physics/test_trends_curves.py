"""Curves and crossovers: the arithmetic of a crossing, and the shapes that were measured."""

import pytest

from archsim.reproduce.trends_curves import PROMPTS, bisect, crossing, crossover_rows, curve_rows


def test_crossing_by_hand():
    assert crossing([(1.0, 0.5), (4.0, 2.0)]) == pytest.approx(2.0)
    assert crossing([(1.0, 2.0), (4.0, 0.5), (8.0, 0.4)]) == pytest.approx(2.0)
    assert crossing([(1.0, 2.0), (4.0, 3.0)]) is None


def test_bisection_finds_what_it_brackets():
    assert bisect(lambda a: 0.5 + a, steps=12) == pytest.approx(0.5, abs=1e-3)
    assert bisect(lambda a: 2.0) is None
    assert bisect(lambda a: 0.5) is None


def test_published_prefill_falls_beyond_one_batch():
    """The data themselves: the peak lies at the longest prompt of one batch."""
    assert max(PROMPTS, key=lambda n: PROMPTS[n]) == 512
    assert PROMPTS[2048] < PROMPTS[1024] < PROMPTS[512]


@pytest.mark.slow
def test_shapes_and_sides():
    rows = {row.id: row for row in curve_rows()}
    assert rows["trends.curve.prompt.tau"].simulated >= 0.8
    assert rows["trends.curve.prompt.peak"].ok
    assert rows["trends.crossover.size.qwen3-0.6b.side"].ok
    assert rows["trends.crossover.size.qwen3-8b.side"].ok
    assert 0.6 < rows["trends.crossover.size.turn"].simulated < 8
    curves = ("trends.curve.prompt.", "trends.curve.lanes.", "trends.curve.sizes.")
    shapes = [row for name, row in rows.items() if name.startswith(curves)]
    judged = [row for row in shapes if row.kind == "predicted"]
    assert sum(row.ok for row in judged) >= 0.9 * len(judged)


@pytest.mark.slow
def test_budgets_grow_and_a_poor_draft_loses():
    rows = {row.id: row for row in crossover_rows()}
    for row in rows.values():
        if row.id.startswith("trends.curve.budget"):
            assert row.simulated > 1
        if row.id.startswith("trends.crossover.resident"):
            assert row.simulated < 1
            assert row.paper < 1
    turns = [row.simulated for name, row in rows.items() if name.startswith("trends.crossover.speculation.")]
    assert all(turn is None or 0 < turn < 0.9 for turn in turns)
    assert any(turn is not None for turn in turns)
