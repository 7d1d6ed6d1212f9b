"""What the recorder asks of a model: one cache of keys and values, passes over tokens that may form a tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from archsim.config import InputError

if TYPE_CHECKING:
    import torch

NO_TORCH = "recording runs a model and needs torch; install it with: pip install 'archsim[record]'"


@dataclass(frozen=True)
class Pass:
    """One forward pass over n tokens.

    Attributes
    ----------
    logits : np.ndarray or None
        [n, vocabulary] float32; None where the pass stopped at an earlier layer.
    hidden : dict of int to torch.Tensor
        [n, width] behind each layer asked for, before any final norm.
    """

    logits: np.ndarray | None
    hidden: dict[int, torch.Tensor]


class Network(Protocol):
    """A causal language model with a cache that holds a prefix."""

    name: str
    layers: int
    vocabulary: int
    stops: frozenset[int]
    provenance: str
    licence: str

    def encode(self, text: str) -> list[int]:
        """Tokens of a user's message in the model's chat form, up to where the answer begins."""

    def reset(self) -> None:
        """Empty the cache."""

    def crop(self, length: int) -> None:
        """Keep the first `length` entries of the cache."""

    def extend(
        self,
        tokens: Sequence[int],
        parents: Sequence[int] | None = None,
        tap: Sequence[int] = (),
        until: int | None = None,
    ) -> Pass:
        """Run `tokens` behind the cache and append them to it.

        Parameters
        ----------
        tokens : sequence of int
            n tokens.
        parents : sequence of int, optional
            Index of each token's parent among the tokens the cache holds behind the last :meth:`settle`, -1 for
            the settled prefix: a token sees the prefix, its ancestors and itself. Without it the tokens are a chain.
        tap : sequence of int
            Layers whose output is returned.
        until : int, optional
            Stop behind this layer (no logits); only the layers up to it grow their cache.
        """

    def settle(self) -> None:
        """Take everything in the cache as the prefix of later trees."""


class Tree:
    """Which tokens behind a settled prefix are whose ancestors; shared by the networks.

    ``rows`` lists for every tree token its ancestors and itself, as indices of tree tokens.
    """

    def __init__(self) -> None:
        self.prefix = 0
        self.rows: list[list[int]] = []

    def settle(self, length: int) -> None:
        """Begin a new tree behind `length` cache entries."""
        self.prefix, self.rows = length, []

    def crop(self, length: int) -> None:
        """Forget what lies behind `length` cache entries."""
        self.rows = self.rows[: max(length - self.prefix, 0)]
        self.prefix = min(self.prefix, length)

    def grow(self, count: int, parents: Sequence[int] | None) -> list[int]:
        """Add `count` tokens; return the position of each (the prefix and its ancestors before it)."""
        for i in range(count):
            at = len(self.rows)
            parent = at - 1 if parents is None else parents[i]
            if not -1 <= parent < at:
                raise ValueError(f"parent {parent} of tree token {at} does not stand before it")
            self.rows.append([*(self.rows[parent] if parent >= 0 else ()), at])
        return [self.prefix + len(row) - 1 for row in self.rows[-count:]]

    def visible(self, count: int) -> np.ndarray:
        """[count, prefix + tree] truth values: what the last `count` tokens see."""
        seen = np.zeros((count, self.prefix + len(self.rows)), dtype=bool)
        seen[:, : self.prefix] = True
        for i, row in enumerate(self.rows[-count:]):
            seen[i, [self.prefix + j for j in row]] = True
        return seen


def need_torch() -> None:
    """Refuse to go on without torch, in one line."""
    try:
        import torch  # noqa: F401
    except ImportError:
        raise InputError(NO_TORCH) from None
