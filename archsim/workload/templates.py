"""Plans of passes that are kept: whole, or by what their size changes, over a skeleton that all sizes share.

Layers are equal, so a plan of any size is given by the rows of one layer's operators (and of those before and after the
layers); the skeleton says which of them each row of the block repeats.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import networkx as nx
import numpy as np

from archsim.device import Ops
from archsim.engine.sim import Block
from archsim.workload.blocks import COPIED, JOIN, chain, patch
from archsim.workload.optable import Lowered

#: Name of the one operator of a layer that depends on the cached length.
ATTENTION = "attn.attention"


class Planned(NamedTuple):
    """A planned pass.

    `attention` are the rows whose columns depend on the cached length, in order; `names` and `ops` the operators in
    execution order, `spans` (int64 [n, 2]) the first and the last row of each.
    """

    block: Block
    attention: np.ndarray
    names: tuple[str, ...]
    ops: Ops
    spans: np.ndarray

    @property
    def rows(self) -> int:
        """Rows that are kept of it."""
        return self.block.rows


class Series(NamedTuple):
    """Plans one after the other, to be given attention for other cached lengths.

    Attributes
    ----------
    block : Block
        The plans as they are.
    attention : int64 [n]
        Its attention rows.
    source : int64 [n]
        For each of them, its row among those of one layer of each plan.
    base : dict of arrays
        Columns of the latter in the block.
    """

    block: Block
    attention: np.ndarray
    source: np.ndarray
    base: dict[str, np.ndarray]

    def with_attention(self, lowered: Sequence[Lowered]) -> Block:
        """The block, with these rows of attention for each plan that has any; columns that agree are shared."""
        columns = {name: np.concatenate([getattr(one, name) for one in lowered]) for name in self.base}
        changed = {name: column[self.source] for name, column in columns.items() if (column != self.base[name]).any()}
        return patch(self.block, [(self.attention, changed)])


def series_of(plans: Sequence[Planned], each: Sequence[int]) -> Series:
    """Plans one after the other; `each` are the rows of one layer's attention in each of them, 0 without any."""
    attention, firsts, source = [], [], []
    row = first = 0
    for plan, rows in zip(plans, each, strict=True):
        attention.append(plan.attention + row)
        firsts.append(plan.attention[:rows] + row)
        source.append(np.arange(len(plan.attention)) % max(rows, 1) + first)
        row, first = row + plan.block.rows, first + rows
    block, of = chain([plan.block for plan in plans]), np.concatenate(firsts)
    base = {name: getattr(block, name)[of] for name in COPIED} if len(of) else {}
    return Series(block, np.concatenate(attention), np.concatenate(source), base)


class Skeleton(NamedTuple):
    """What plans of one model and phase share whatever their size, as long as operators keep their numbers of rows.

    Attributes
    ----------
    firsts : list of tuple
        Index, name in its layer, and layer of every operator that is lowered.
    lengths : list of int
        Rows of each.
    source : int64 [n]
        For each row of the block, its row in the lowered operators one after the other; the join's follows the last.
    base : dict of arrays
        Columns of these rows in :attr:`planned`.
    planned : Planned
        Plan of one size.
    """

    firsts: list[tuple[int, str, int]]
    lengths: list[int]
    source: np.ndarray
    base: dict[str, np.ndarray]
    planned: Planned

    def sized(self, pieces: Sequence[Lowered], names: tuple[str, ...], ops: Ops) -> Sized:
        """Plan of other operators of the same numbers of rows."""
        return Sized(self, _columns(pieces), names, ops)

    def whole(self, columns: Mapping[str, np.ndarray]) -> Block:
        """Block of the rows in `columns`; a column that equals that of :attr:`base` is shared."""
        changed = {
            name: column[self.source] for name, column in columns.items() if not np.array_equal(column, self.base[name])
        }
        return self.planned.block._replace(**changed)


class Sized(NamedTuple):
    """A planned pass of one size: a skeleton and the columns of the operators that are lowered."""

    skeleton: Skeleton
    columns: dict[str, np.ndarray]
    names: tuple[str, ...]
    ops: Ops

    @property
    def rows(self) -> int:
        """Rows that are kept of it, and the operators, whose columns are as many."""
        return len(self.columns["op"]) + len(self.names)

    @property
    def attention(self) -> np.ndarray:
        """Rows whose columns depend on the cached length."""
        return self.skeleton.planned.attention

    def planned(self) -> Planned:
        """The whole plan."""
        block = self.skeleton.whole(self.columns)
        return self.skeleton.planned._replace(block=block, names=self.names, ops=self.ops)

    def block(self, attention: Lowered | None) -> Block:
        """The block, with the attention of a layer for another cached length."""
        if attention is None:
            return self.skeleton.whole(self.columns)
        at = [name for _, name, _ in self.skeleton.firsts].index(ATTENTION)
        first = sum(self.skeleton.lengths[:at])
        columns = {name: column.copy() for name, column in self.columns.items()}
        for name, column in columns.items():
            column[first : first + self.skeleton.lengths[at]] = getattr(attention, name)
        return self.skeleton.whole(columns)


def skeleton_of(graph: nx.DiGraph, lowered: Mapping[str, tuple[int, int, Lowered, int]], planned: Planned) -> Skeleton:
    """Skeleton of a planned pass: which operator's rows each of its rows repeats."""
    pieces = [piece for _, _, piece, _ in lowered.values()]
    lengths = [len(piece.op) for piece in pieces]
    starts = dict(zip(lowered, np.cumsum([0, *lengths])[:-1].tolist(), strict=True))
    source = []
    for name, (first, last) in zip(planned.names, planned.spans.tolist(), strict=True):
        own = name.rpartition(f"layer{graph.nodes[name]['layer']}.")[2]
        source.append(np.arange(last - first + 1) + starts[own])
    source.append(np.array([sum(lengths)]))
    firsts = [(i, own, layer) for own, (i, layer, *_) in lowered.items()]
    return Skeleton(firsts, lengths, np.concatenate(source), _columns(pieces), planned)


def _columns(pieces: Sequence[Lowered]) -> dict[str, np.ndarray]:
    """Columns of lowered operators one after the other, and of a join row."""
    return {name: np.concatenate([*(getattr(piece, name) for piece in pieces), JOIN[name]]) for name in COPIED}
