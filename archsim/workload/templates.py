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
    """A plan so many times in a row, each time with attention for another cached length.

    Attributes
    ----------
    plan : Planned
        The plan that often, one after the other.
    source : int64 [n]
        For each attention row, its row among those of one layer each time.
    base : dict of arrays
        Columns of the latter in the plan.
    """

    plan: Planned
    source: np.ndarray
    base: dict[str, np.ndarray]

    @property
    def rows(self) -> int:
        """Rows that are kept of it."""
        return self.plan.rows

    def block(self, lowered: Sequence[Lowered]) -> Block:
        """The block, with these rows of attention for each time; a column in which they agree is shared."""
        columns = {name: np.concatenate([getattr(one, name) for one in lowered]) for name in COPIED}
        changed = {name: column[self.source] for name, column in columns.items() if (column != self.base[name]).any()}
        return patch(self.plan.block, [(self.plan.attention, changed)])


def series_of(plan: Planned, layers: int, times: int) -> Series:
    """A plan of so many layers, `times` in a row."""
    rows, each = plan.block.rows, len(plan.attention) // layers
    offsets = np.arange(times)[:, None]
    attention = (plan.attention + rows * offsets).ravel()
    source = (np.tile(np.arange(each), layers) + each * offsets).ravel()
    block = chain([plan.block] * times)
    first = (plan.attention[:each] + rows * offsets).ravel()
    return Series(
        plan._replace(block=block, attention=attention), source, {name: getattr(block, name)[first] for name in COPIED}
    )


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
