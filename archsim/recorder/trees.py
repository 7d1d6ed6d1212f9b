"""Token trees: drafted by beam, kept by path probability, verified by the target in one pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from archsim.recorder.network import Network

_DIGITS = 4  # decimals kept; the readers allow for them


@dataclass(frozen=True)
class Shape:
    """A tree's limits.

    Attributes
    ----------
    nodes : int
        Nodes kept, by path probability.
    beam : int
        Nodes of a depth that are expanded.
    top : int
        Children of an expanded node.
    depth : int
        Greatest depth.
    """

    nodes: int
    beam: int
    top: int
    depth: int


class Draft(Protocol):
    """A draft over the same text as the target."""

    def begin(self, tokens: list[int]) -> None:
        """Take committed tokens (a prompt, or the tokens of a step) into the cache."""

    def expand(self, tokens: list[int], parents: list[int]) -> tuple[np.ndarray, np.ndarray]:
        """[n, k] probabilities, and ids of the columns, behind tree tokens (the first call's parent is -1)."""

    def rewind(self) -> None:
        """Forget the tree."""


@dataclass
class _Nodes:
    """Nodes drafted so far; the root is entry 0 with parent -1."""

    token: list[int]
    parent: list[int]
    depth: list[int]
    q: list[float]
    path: list[float]
    entropy: list[float]


def grow(draft: Draft, root: int, shape: Shape) -> _Nodes:
    """Draft a tree below `root` and keep its best nodes (ancestors of a kept node are kept: paths only lose)."""
    nodes = _Nodes([root], [-1], [0], [1.0], [1.0], [0.0])
    cached = {0: 0}  # node -> index among the draft's tree tokens
    level = [0]
    for depth in range(1, shape.depth + 1):
        parents = [-1 if depth == 1 else cached[nodes.parent[i]] for i in level]
        probs, ids = draft.expand([nodes.token[i] for i in level], parents)
        for i in level:
            cached.setdefault(i, len(cached))
        entropy = entropies(probs)
        best = np.argsort(-probs, axis=1, kind="stable")[:, : shape.top]
        fresh = []
        for row, i in enumerate(level):
            for column in best[row].tolist():
                q = float(probs[row, column])
                fresh.append(len(nodes.token))
                nodes.token.append(int(ids[column]))
                nodes.parent.append(i)
                nodes.depth.append(depth)
                nodes.q.append(q)
                nodes.path.append(q * nodes.path[i])
                nodes.entropy.append(max(float(entropy[row]), 0.0))
        level = sorted(fresh, key=lambda i: -nodes.path[i])[: shape.beam]
    draft.rewind()
    return _best(nodes, shape.nodes)


def _best(nodes: _Nodes, count: int) -> _Nodes:
    ranked = sorted(range(1, len(nodes.token)), key=lambda i: (-nodes.path[i], nodes.depth[i], i))[:count]
    kept = [0, *sorted(ranked, key=lambda i: (nodes.depth[i], nodes.parent[i], -nodes.q[i], i))]
    place = {node: i for i, node in enumerate(kept)}
    return _Nodes(
        [nodes.token[i] for i in kept],
        [-1 if i == 0 else place[nodes.parent[i]] for i in kept],
        *([column[i] for i in kept] for column in (nodes.depth, nodes.q, nodes.path, nodes.entropy)),
    )


def record_trees(
    target: Network, draft: Draft, prompt: list[int], tokens: int, shape: Shape, name: str, kind: str
) -> Iterator[dict[str, Any]]:
    """Decode one prompt by trees; yields one record a verification (format ``tree``)."""
    target.reset()
    first = target.extend(prompt).logits[-1]
    target.settle()
    draft.begin(prompt)
    root, at, step = int(first.argmax()), 1, 0
    settled = len(prompt)
    while at < tokens and root not in target.stops:
        nodes = grow(draft, root, shape)
        logits = target.extend(nodes.token, nodes.parent).logits
        chance = softmax(logits)
        entropy = entropies(chance)
        accepted, bonus = _accepted(nodes, logits, tokens - at)
        above = nodes.parent[1:]
        yield {
            "id": name,
            "kind": kind,
            "step": step,
            "pos": at,
            "root": root,
            "tok": nodes.token[1:],
            "par": [parent - 1 for parent in above],
            "dep": nodes.depth[1:],
            "q": [round(q, _DIGITS) for q in nodes.q[1:]],
            "cum": [round(path, _DIGITS) for path in nodes.path[1:]],
            "pent": [round(value, _DIGITS) for value in nodes.entropy[1:]],
            "p": [round(float(chance[p, t]), _DIGITS) for p, t in zip(above, nodes.token[1:])],
            "tent": [round(max(float(entropy[p]), 0.0), _DIGITS) for p in above],
            "acc": [node - 1 for node in accepted],
            "bonus": bonus,
        }
        taken = [root, *(nodes.token[i] for i in accepted)]
        target.crop(settled)
        target.settle()
        target.extend(taken)
        target.settle()
        draft.begin(taken)
        settled += len(taken)
        if any(token in target.stops for token in taken[1:]):
            return
        root, at, step = bonus, at + len(taken), step + 1


def _accepted(nodes: _Nodes, logits: np.ndarray, limit: int) -> tuple[list[int], int]:
    """Nodes of the path that the target takes, at most `limit`, and its own token behind it."""
    node, path = 0, []
    while True:
        token = int(logits[node].argmax())
        child = [i for i, parent in enumerate(nodes.parent) if parent == node and i and nodes.token[i] == token]
        if not child or len(path) == limit:
            return path, token
        node = child[0]
        path.append(node)


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities of [n, vocabulary] logits."""
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True), dtype=np.float64)
    return powers / powers.sum(axis=-1, keepdims=True)


def entropies(probs: np.ndarray) -> np.ndarray:
    """[n] entropies, nats."""
    return -(probs * np.log(np.maximum(probs, 1e-30))).sum(axis=-1)


class ExitDraft:
    """Draft by an early exit of the target: its lower layers, their cache shared, and an adapter."""

    def __init__(self, target: Any, exits: Any, layer: int) -> None:
        self._target, self._exits, self.layer = target, exits, layer
        self._settled = 0

    def begin(self, tokens: list[int]) -> None:
        """Nothing to run: the target's own pass has filled the cache of the lower layers."""
        self._settled += len(tokens)

    def expand(self, tokens: list[int], parents: list[int]) -> tuple[np.ndarray, np.ndarray]:
        """Probabilities over the reduced vocabulary."""
        passed = self._target.extend(tokens, parents, tap=(self.layer,), until=self.layer)
        probs = self._exits.probabilities(self.layer, passed.hidden[self.layer])
        return probs.double().numpy(), self._exits.vocabulary.numpy()

    def rewind(self) -> None:
        """Drop the tree from the lower layers' cache."""
        self._target.crop(self._settled)
        self._target.settle()


class ModelDraft:
    """Draft by a model of its own."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._ids = np.arange(network.vocabulary)
        self._settled = 0

    def begin(self, tokens: list[int]) -> None:
        """Run the tokens."""
        self._network.crop(self._settled)
        self._network.settle()
        self._network.extend(tokens)
        self._network.settle()
        self._settled += len(tokens)

    def expand(self, tokens: list[int], parents: list[int]) -> tuple[np.ndarray, np.ndarray]:
        """Probabilities over the whole vocabulary."""
        return softmax(self._network.extend(tokens, parents).logits), self._ids

    def rewind(self) -> None:
        """Drop the tree from the cache."""
        self._network.crop(self._settled)
        self._network.settle()
