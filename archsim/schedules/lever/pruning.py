"""Pruning at the exit layer: which rows of a tree run the layers above it.

A linear predictor scores the candidate set of every expanded node; a softmax over the whole set, candidates that are
not in the tree (shadows) included, gives each edge a score. Edges below a threshold go; safeguards keep ancestors, a
backbone and several children near the root, and cancel a decision that leaves too little.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from archsim.schedules.lever.tree import ROOT, TokenTree
from archsim.streams.interface import Candidates


@dataclass(frozen=True)
class PruneRules:
    """Knobs of a pruning decision; see the fields of the same names of :class:`~archsim.schedules.lever.Lever`."""

    theta_small: float
    theta_large: float
    theta_most: float
    large_rows: int
    tau: float
    shadows: bool
    safeguards: bool
    near_root_depth: int
    near_root_children: int
    least_nodes: int
    least_leaves: int


def edge_scores(
    tree: TokenTree, scores: Callable[[Sequence[int], Candidates], np.ndarray], rules: PruneRules
) -> tuple[dict[int, float], int]:
    """Normalised score of every node but the root, and the number of candidates that were scored.

    Parameters
    ----------
    scores : callable
        Predictor: path and candidates of an expanded node -> scores (log probabilities) of its candidates by rank.
    """
    found: dict[int, float] = {}
    scored = 0
    for node in range(tree.rows):
        kids = tree.children[node]
        if not kids:
            continue
        here = tree.found[node]
        assert here is not None  # it has children, so it was expanded
        raw = scores(tree.path(node), here) / rules.tau
        ranks = range(1, len(raw) + 1) if rules.shadows else [tree.rank[kid] for kid in kids]
        scored += len(ranks)
        top = max(raw[rank - 1] for rank in ranks)
        whole = sum(float(np.exp(raw[rank - 1] - top)) for rank in ranks)
        for kid in kids:
            found[kid] = float(np.exp(raw[tree.rank[kid] - 1] - top)) / whole
    return found, scored


def survivors(
    tree: TokenTree, score: dict[int, float], rules: PruneRules, fit: Callable[[int], int]
) -> frozenset[int] | None:
    """Nodes that stay, the root included; None when the decision is cancelled.

    `fit` gives the padded rows of a number of rows. Only a smaller graph saves anything: the threshold rises from
    theta to `theta_most` until the survivors fit one, else nothing is pruned.

    An edge below the threshold takes its subtree with it. The safeguards give back, with their ancestors, the best path
    and the best children near the root whose score reaches half the threshold.
    """
    theta = rules.theta_large if tree.rows > rules.large_rows else rules.theta_small
    whole = fit(tree.rows)
    while True:
        keep = _above(tree, score, rules, theta)
        if keep is None or fit(len(keep)) < whole:
            return keep
        if theta >= rules.theta_most:
            return None
        theta = min(1.1 * theta, rules.theta_most)


def _above(tree: TokenTree, score: dict[int, float], rules: PruneRules, theta: float) -> frozenset[int] | None:
    """Nodes that stay at one threshold; None when too little would."""
    keep = {ROOT}
    for node in range(1, tree.rows):
        if score[node] >= theta and tree.parent[node] in keep:
            keep.add(node)
    if not rules.safeguards:
        return frozenset(keep)
    spared = [node for node in range(1, tree.rows) if score[node] >= theta / 2 and _near_root(tree, node, score, rules)]
    for node in (*spared, *_backbone(tree, score)):
        while node not in keep:
            keep.add(node)
            node = tree.parent[node]
    if len(keep) < rules.least_nodes or count_leaves(tree, keep) < rules.least_leaves:
        return None
    return frozenset(keep)


def _near_root(tree: TokenTree, node: int, score: dict[int, float], rules: PruneRules) -> bool:
    """Whether a node is among the best children of a node near the root."""
    if tree.depth[node] > rules.near_root_depth:
        return False
    ranked = sorted(tree.children[tree.parent[node]], key=lambda kid: -score[kid])
    return node in ranked[: rules.near_root_children]


def _backbone(tree: TokenTree, score: dict[int, float]) -> list[int]:
    """Best-scored child at every depth."""
    node, taken = ROOT, []
    while tree.children[node]:
        node = max(tree.children[node], key=lambda kid: (score[kid], -kid))
        taken.append(node)
    return taken


def count_leaves(tree: TokenTree, keep: set[int] | frozenset[int]) -> int:
    """Leaves of the part of a tree that is kept."""
    return sum(not any(kid in keep for kid in tree.children[node]) for node in keep)
