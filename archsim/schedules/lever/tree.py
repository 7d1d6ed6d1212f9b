"""Token trees: nodes named by the ranks taken from the root, and the walk of the target through them."""

from __future__ import annotations

from typing import NamedTuple

from archsim.streams.interface import Candidates

ROOT = 0


class Choice(NamedTuple):
    """A candidate that is not in the tree: its parent, its rank there, its reach probability as estimated."""

    reach: float
    parent: int
    rank: int


class TokenTree:
    """A token tree; node 0 is the root, the last committed token, and parents precede their children.

    Columns by node: `parent`, `rank` (1: most probable child), `depth` (root: 0), `prob` (draft probability),
    `reach` (estimated probability that the verified path comes here), `children`, and `found`: the candidates of an
    expanded node, None for one that was not expanded.
    """

    def __init__(self) -> None:
        self.parent, self.rank, self.depth = [-1], [0], [0]
        self.prob, self.reach = [1.0], [1.0]
        self.children: list[list[int]] = [[]]
        self.found: list[Candidates | None] = [None]
        self.leaves = 1

    @property
    def rows(self) -> int:
        """Rows of a verification: all nodes, the root included."""
        return len(self.parent)

    @property
    def gain(self) -> float:
        """Expected tokens of a verification: the reach of every node, the root standing for the target's own token."""
        return sum(self.reach)

    def insert(self, choice: Choice) -> int:
        """Add a candidate as a node; returns its index."""
        node, parent = len(self.parent), choice.parent
        found = self.found[parent]
        assert found is not None
        self.leaves += bool(self.children[parent])
        self.children[parent].append(node)
        self.children.append([])
        self.parent.append(parent)
        self.rank.append(choice.rank)
        self.depth.append(self.depth[parent] + 1)
        self.prob.append(float(found.probs[choice.rank - 1]))
        self.reach.append(choice.reach)
        self.found.append(None)
        return node

    def path(self, node: int) -> tuple[int, ...]:
        """Ranks from the root to a node."""
        ranks = []
        while node != ROOT:
            ranks.append(self.rank[node])
            node = self.parent[node]
        return tuple(reversed(ranks))

    def accepted(self, kept: frozenset[int] | None = None) -> list[int]:
        """Nodes that the target takes, from the first below the root on; only through `kept` nodes if given."""
        node, taken = ROOT, []
        while True:
            found = self.found[node]
            if found is None or not found.target_rank:
                return taken
            following = [child for child in self.children[node] if self.rank[child] == found.target_rank]
            if not following or (kept is not None and following[0] not in kept):
                return taken
            node = following[0]
            taken.append(node)

    def best_path(self) -> list[int]:
        """Nodes of the backbone: the child of largest reach at every depth, from the first below the root on."""
        node, taken = ROOT, []
        while self.children[node]:
            node = max(self.children[node], key=lambda child: (self.reach[child], -child))
            taken.append(node)
        return taken
