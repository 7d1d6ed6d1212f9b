"""Lever's policy in isolation: trees, tables, growth and pruning on hand-made candidates."""

from __future__ import annotations

import numpy as np
import pytest

from archsim.schedules.lever.execution import padded
from archsim.schedules.lever.growth import Confidence, FixedExpansion, GainPerCost, OptTree
from archsim.schedules.lever.pruning import PruneRules, count_leaves, edge_scores, survivors
from archsim.schedules.lever.tables import DraftCost, LatencyTable, Reliability
from archsim.schedules.lever.tree import ROOT, Choice, TokenTree
from archsim.session import load, run
from archsim.streams.interface import Candidates
from archsim.units import InputError

PROBS = np.array([0.6, 0.2, 0.1, 0.05])


def found(rank=0, probs=PROBS):
    return Candidates(probs, rank, 1.0, True, True, "synthetic")


def expand(tree, growth, node, rank=0, probs=PROBS):
    tree.found[node] = found(rank, probs)
    growth.expanded(node)


def small_tree():
    """Root with children of rank 1 and 2, the first with children of rank 1 and 2; the target takes 1, then 2."""
    tree = TokenTree()
    tree.found[ROOT] = found(1)
    one = tree.insert(Choice(0.6, ROOT, 1))
    tree.insert(Choice(0.2, ROOT, 2))
    tree.found[one] = found(2)
    tree.insert(Choice(0.36, one, 1))
    tree.insert(Choice(0.12, one, 2))
    return tree


def test_a_tree_counts_rows_leaves_and_paths():
    tree = small_tree()
    assert (tree.rows, tree.leaves) == (5, 3)
    assert tree.path(4) == (1, 2)
    assert tree.gain == pytest.approx(1 + 0.6 + 0.2 + 0.36 + 0.12)
    assert tree.best_path() == [1, 3]


def test_the_target_walks_down_its_own_tokens_and_stops_where_they_were_pruned():
    tree = small_tree()
    assert tree.accepted() == [1, 4]
    assert tree.accepted(frozenset({ROOT, 1, 2, 3})) == [1]
    assert tree.accepted(frozenset({ROOT, 2})) == []


@pytest.mark.parametrize(("rows", "shape"), [(1, 8), (8, 8), (9, 16), (32, 32), (33, 64)])
def test_rows_are_padded_to_fixed_shapes(rows, shape):
    assert padded(rows, (8, 16, 32)) == shape


def test_reliability_falls_with_misses_and_ratio_leaves_a_calibrated_draft_alone():
    coverage, ratio = Reliability("coverage"), Reliability("ratio")
    for i in range(200):
        held = i % 10 < 7
        coverage.learn(held, 0.7)
        ratio.learn(held, 0.7)
    assert coverage.factor == pytest.approx(0.7, abs=0.25)
    assert coverage.factor < 0.95
    for _ in range(100):
        ratio.learn(False, 0.7)
    assert ratio.factor < 0.01
    assert Reliability("off").factor == 1.0


def table(**latency_ps):
    made = LatencyTable(lambda rows: padded(rows, (16, 32)))
    for shape, ps in latency_ps.items():
        for leaves in range(4, 33, 4):
            made.seed(int(shape[1:]), leaves, ps)
    return made


def test_a_table_prefers_what_it_met_scales_its_seeds_and_penalises_the_unseen():
    made = table(s16=100.0, s32=200.0)
    assert made.latency(9, 3) == 100.0
    made.learn(9, 3, 120)
    assert made.latency(12, 4) == 120.0
    assert made.latency(12, 8) == pytest.approx(120.0)  # seeded, scaled by met over seeded
    assert made.latency(20, 4) == pytest.approx(240.0)
    assert made.latency(64, 4) == pytest.approx(240.0 * 2 * 1.1)


def grown(table_, cost, *, rows=32, expansions=10, budget=0, batch=4, rank=0):
    tree = TokenTree()
    growth = GainPerCost(
        tree, 1.0, 4, 8, rows, expansions, drafting=cost, table=table_, budget=budget,
        next_batch=lambda n: (1, cost.single) if n < 3 else (batch, cost.batch / batch),
    )  # fmt: skip
    expand(tree, growth, ROOT)
    growth.spent_ps = cost.single
    rounds = 0
    while nodes := growth.round():
        rounds += 1
        for node in nodes:
            expand(tree, growth, node)
    return tree, growth, rounds


def test_growth_fills_the_shape_that_is_paid_for_and_not_the_next():
    tree, growth, _ = grown(table(s16=1000.0, s32=2000.0), DraftCost(8.0, 16.0))
    assert tree.rows == 16
    assert growth.expansions <= 10


def test_growth_goes_on_where_the_next_shape_is_free():
    tree, _, _ = grown(table(s16=1000.0, s32=1000.0), DraftCost(8.0, 16.0))
    assert tree.rows == 32


def test_dear_drafts_are_not_made():
    cheap, few, _ = grown(table(s16=1000.0, s32=2000.0), DraftCost(1.0, 2.0))
    dear, none, _ = grown(table(s16=1000.0, s32=2000.0), DraftCost(5000.0, 5000.0))
    assert none.expansions == 1 < few.expansions
    assert dear.rows == 5 < cheap.rows  # the root's four candidates as leaves


def test_a_budget_is_met_whatever_it_costs():
    tree, _, _ = grown(table(s16=1000.0, s32=9e9), DraftCost(5000.0, 5000.0), budget=24, expansions=24)
    assert tree.rows == 24


def test_a_tree_never_grows_past_its_bounds():
    tree, growth, _ = grown(table(s16=1.0, s32=1.0), DraftCost(0.0, 0.0), rows=7, expansions=3)
    assert tree.rows <= 7
    assert growth.expansions <= 3


def test_fixed_expansion_has_the_shape_it_names():
    tree = TokenTree()
    growth = FixedExpansion(tree, 1.0, 4, 64, 1 << 20, 1 << 20, expansion=(1, 1, 3, 1))
    expand(tree, growth, ROOT)
    while nodes := growth.round():
        for node in nodes:
            expand(tree, growth, node)
    assert tree.rows == 1 + 1 + 1 + 3 + 3
    assert tree.leaves == 3


def test_opt_tree_keeps_the_most_probable_nodes():
    tree = TokenTree()
    growth = OptTree(tree, 1.0, 4, 10, 32, 1 << 20, size=7)
    expand(tree, growth, ROOT)
    while nodes := growth.round():
        for node in nodes:
            expand(tree, growth, node)
    assert tree.rows == 8
    reach = sorted(tree.reach[1:], reverse=True)
    assert reach[0] == pytest.approx(0.6)
    assert all(tree.parent[node] < node for node in range(1, tree.rows))
    every = sorted((a * b for a in PROBS for b in (1.0, *PROBS)), reverse=True)
    assert sum(reach) >= sum(every[:7]) - 1e-9  # at least the best of two levels


def test_confidence_stops_below_its_threshold():
    def rows(least):
        tree = TokenTree()
        growth = Confidence(tree, 1.0, 2, 16, 64, 1 << 20, least=least)
        expand(tree, growth, ROOT)
        while nodes := growth.round():
            expand(tree, growth, nodes[0])
        return tree.rows

    assert rows(0.5) < rows(0.05) < rows(0.005)


def rules(**changed):
    given = {
        "theta_small": 0.3, "theta_large": 0.2, "theta_most": 0.3, "large_rows": 16, "tau": 1.0, "shadows": True,
        "safeguards": True, "near_root_depth": 0, "near_root_children": 3, "least_nodes": 1, "least_leaves": 1,
    }  # fmt: skip
    return PruneRules(**{**given, **changed})


def test_shadows_take_their_share_of_the_normalised_score():
    tree = TokenTree()
    tree.found[ROOT] = found(1)
    tree.insert(Choice(0.6, ROOT, 1))
    raw = np.log(PROBS)
    with_shadows, scored = edge_scores(tree, lambda path, here: raw, rules())
    without, fewer = edge_scores(tree, lambda path, here: raw, rules(shadows=False))
    assert with_shadows[1] == pytest.approx(0.6 / PROBS.sum())
    assert without[1] == 1.0
    assert (scored, fewer) == (4, 1)


def test_edges_below_the_threshold_go_with_their_subtrees_and_safeguards_give_the_best_path_back():
    tree = small_tree()
    score = {1: 0.2, 2: 0.9, 3: 0.8, 4: 0.9}
    fit = lambda rows: rows  # noqa: E731
    assert survivors(tree, score, rules(safeguards=False), fit) == {ROOT, 2}
    assert survivors(tree, {1: 0.9, 2: 0.1, 3: 0.1, 4: 0.2}, rules(), fit) == {ROOT, 1, 4}


def test_a_pruning_that_saves_no_rows_or_leaves_too_little_is_cancelled():
    tree = small_tree()
    score = {1: 0.9, 2: 0.1, 3: 0.1, 4: 0.9}
    assert survivors(tree, score, rules(), lambda rows: 8) is None
    assert survivors(tree, score, rules(least_nodes=4), lambda rows: rows) is None
    assert survivors(tree, score, rules(least_leaves=2), lambda rows: rows) is None
    kept = survivors(tree, score, rules(), lambda rows: rows)
    assert kept is not None
    assert count_leaves(tree, kept) == 1


@pytest.mark.parametrize(("schedule", "knob"), [("specinfer", "max_rows"), ("opt_tree", "max_depth")])
def test_knobs_that_a_policy_has_no_use_for_are_refused(schedule, knob):
    job = {"target": "smollm2-135m", "stream": "synthetic:llama-3.1-8b:mbpp", "tokens": 2}
    with pytest.raises(InputError, match=f"schedule.{knob} means nothing to policy {schedule}; leave it out"):
        run(load(system="oneplus_12", schedule=schedule, job=job, sets=(f"schedule.{knob}=3",)), trace="off")
