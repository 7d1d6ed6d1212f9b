"""Which candidates enter the tree and which nodes are expanded: the drafting policies.

A policy is asked for rounds; a round inserts candidates and names the nodes to expand together. It ends the drafting
by naming none. The schedule expands them (which takes time) and tells the policy what was found.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from archsim.schedules.lever.tables import DraftCost, LatencyTable
from archsim.schedules.lever.tree import ROOT, Choice, TokenTree


@dataclass
class Growth:
    """What the policies share: the tree, and the candidates at its frontier.

    Attributes
    ----------
    tree : TokenTree
        What has been drafted.
    factor : float
        Calibration of the draft's probabilities (:class:`~archsim.schedules.lever.tables.Reliability`).
    candidates : int
        Size of the candidate sets.
    max_depth, max_rows, max_expansions : int
        Bounds of the tree; expansions count the root's.
    """

    tree: TokenTree
    factor: float
    candidates: int
    max_depth: int
    max_rows: int
    max_expansions: int
    frontier: list[Choice] = field(default_factory=list)
    expansions: int = 1

    def expanded(self, node: int) -> None:
        """Take in the candidates that expanding `node` found."""
        found = self.tree.found[node]
        assert found is not None
        reach = self.tree.reach[node] * self.factor
        for rank, prob in enumerate(found.probs[: self.candidates].tolist(), 1):
            self.frontier.append(Choice(reach * prob, node, rank))

    def expandable(self, depth: int) -> bool:
        """Whether a node of that depth may be expanded still."""
        return depth < self.max_depth and self.expansions < self.max_expansions

    def take(self, choice: Choice, expand: bool) -> int:
        """Insert a candidate of the frontier."""
        self.frontier.remove(choice)
        self.expansions += expand
        return self.tree.insert(choice)

    def round(self) -> list[int]:
        """Insert candidates; returns the nodes to expand together, none when drafting ends."""
        raise TypeError(f"{type(self).__name__} grows no trees")


@dataclass
class GainPerCost(Growth):
    """Greedy growth by expected tokens per time of a cycle.

    A candidate's worth is its reach over what it adds to the cycle: the step of the latency table to the shape with it
    and, when it is to be expanded, its share of a draft pass. The best one enters while its worth is above the
    average of the tree so far. Where a candidate is worth a row and not an expansion, it stays a leaf.

    With a `budget` the costs do not count: the candidates of largest reach enter until the tree has that many rows.
    """

    drafting: DraftCost = field(default_factory=lambda: DraftCost(0.0, 0.0))
    table: LatencyTable = field(default_factory=lambda: LatencyTable(lambda rows: rows))
    spent_ps: float = 0.0
    budget: int = 0
    #: Nodes that the next round may expand together, and what expanding one of them costs, ps.
    next_batch: Callable[[int], tuple[int, float]] = lambda expansions: (1, 0.0)

    def round(self) -> list[int]:
        """One batch: candidates enter and are expanded until it is full or none is worth it; then leaves enter."""
        limit, each_ps = self.next_batch(self.expansions)
        chosen: list[int] = []
        while len(chosen) < limit and (best := self._best(each_ps, expand=True)) is not None:
            chosen.append(self.take(best, True))
            self.spent_ps += each_ps
        # A graph of fixed shape runs its free rows anyway: they take what is worth a row of the verification.
        while 0 < len(chosen) < limit and (best := self._best(0.0, expand=True)) is not None:
            chosen.append(self.take(best, True))
            self.spent_ps += each_ps
        while not chosen and (best := self._best(0.0, expand=False)) is not None:
            self.take(best, False)
        return chosen

    def _best(self, draft_ps: float, expand: bool) -> Choice | None:
        """Candidate of largest worth, if that is above the average."""
        tree = self.tree
        room = (self.budget or self.max_rows) - tree.rows
        open_ = [c for c in self.frontier if not expand or self.expandable(tree.depth[c.parent] + 1)]
        if room <= 0 or not open_:
            return None
        if self.budget:
            return max(open_) if room > 1 or not expand else None
        now = self.table.latency(tree.rows, tree.leaves)
        same = max(self.table.latency(tree.rows + 1, tree.leaves) - now, 0.0) + draft_ps
        branch = max(self.table.latency(tree.rows + 1, tree.leaves + 1) - now, 0.0) + draft_ps
        average = tree.gain / (self.spent_ps + now)

        def worth(choice: Choice) -> float:
            cost = branch if tree.children[choice.parent] else same
            return choice.reach / cost if cost > 0.0 else math.inf

        best = max(open_, key=lambda choice: (worth(choice), choice))
        return best if worth(best) > average and best.reach > 0.0 else None


@dataclass
class FixedExpansion(Growth):
    """A tree of fixed shape: every node of depth d gets its `expansion[d]` best children (SpecInfer)."""

    expansion: tuple[int, ...] = (1, 1, 3, 1, 1, 1, 1, 1)

    def round(self) -> list[int]:
        """One level."""
        tree = self.tree
        level = 0 if not self.frontier else tree.depth[self.frontier[0].parent]
        if level >= len(self.expansion):
            return []
        width = self.expansion[level]
        nodes = [self.take(choice, True) for choice in list(self.frontier) if choice.rank <= width]
        self.frontier.clear()
        return nodes if level + 1 < len(self.expansion) else []


@dataclass
class OptTree(Growth):
    """The `size` candidates of largest reach over all depths, drafted level by level (OPT-Tree).

    A level expands the `size` best nodes of the one before; drafting stops when a level adds less than `least_growth`
    to the expected length of the best tree, or at `max_depth`. The tree is cut to its `size` best nodes at the end.
    """

    size: int = 31
    least_growth: float = 0.1
    expected: float = 1.0
    level: list[Choice] = field(default_factory=list)
    _seen: list[Choice] = field(default_factory=list)

    def round(self) -> list[int]:
        """One level."""
        tree = self.tree
        self._seen += self.frontier
        best = sorted(self._seen, reverse=True)[: self.size]
        expected = 1.0 + sum(choice.reach for choice in best)
        grown, self.expected = expected - self.expected, expected
        depth = 1 + (tree.depth[self.frontier[0].parent] if self.frontier else self.max_depth)
        if not self.frontier or (grown < self.least_growth and depth > 1) or depth >= self.max_depth:
            self._cut(best)
            return []
        inserted = [self.take(choice, True) for choice in sorted(self.frontier, reverse=True)[: self.size]]
        self.frontier.clear()
        return inserted

    def _cut(self, best: list[Choice]) -> None:
        """Rebuild the tree from the best candidates; the drafted ones keep what their expansion found."""
        old, tree = TokenTree(), self.tree
        old.__dict__.update(tree.__dict__)
        fresh = TokenTree()
        fresh.found[ROOT] = old.found[ROOT]
        place = {ROOT: ROOT}
        by_choice = {(old.parent[node], old.rank[node]): node for node in range(1, old.rows)}
        for choice in sorted(best, key=lambda c: (old.depth[c.parent], c.parent, c.rank)):
            if choice.parent not in place:
                continue  # its parent was not among the best, which ties in reach allow
            node = fresh.insert(choice._replace(parent=place[choice.parent]))
            drafted = by_choice.get((choice.parent, choice.rank))
            if drafted is not None:
                fresh.found[node] = old.found[drafted]
                place[drafted] = node
        tree.__dict__.update(fresh.__dict__)


@dataclass
class Confidence(Growth):
    """The branch of largest cumulative confidence grows until that falls below `least` (EdgeLLM, after LLMCad).

    All candidates of an expanded node enter the tree; the most confident leaf is expanded next.
    """

    least: float = 0.01
    open_nodes: list[int] = field(default_factory=list)

    def round(self) -> list[int]:
        """One node."""
        tree = self.tree
        for choice in sorted(self.frontier, reverse=True):
            if tree.rows < self.max_rows:
                self.open_nodes.append(self.take(choice, False))
        self.frontier.clear()
        best = max(self.open_nodes, key=lambda node: (tree.reach[node], -node), default=ROOT)
        full = tree.rows >= self.max_rows or not self.expandable(tree.depth[best])
        if best == ROOT or full or tree.reach[best] < self.least:
            return []
        self.open_nodes.remove(best)
        self.expansions += 1
        return [best]
