"""Blocks of task rows: built from lowered operators, chained, forked, copied with other values in some rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from archsim.device import MAX_POOLS, MAX_STORES
from archsim.engine.sim import Block
from archsim.workload.optable import Lowered

#: Rows of a block and the values that some of its columns have there.
Patch = tuple[np.ndarray, Mapping[str, np.ndarray]]

_SCALARS = ("unit", "weight", "lead", "work", "cap", "claim", "stream", "op")
COPIED = (*_SCALARS, "pool", "coef")


class BlockRows:
    """Rows of a block under construction: lowered pieces in order, edges, store changes."""

    def __init__(self) -> None:
        self.pieces: list[Lowered] = []
        self.edges: list[tuple[int, int]] = []  # beside those from each row to the next
        self.breaks: list[int] = []  # rows that the next one does not follow
        self.takes: list[tuple[int, int, int]] = []  # row that takes, row that gives, store
        self.levels: list[tuple[int, int, int, int, int]] = []  # row, slot, store, change at start and at end
        self.count = 0

    def add(self, lowered: Lowered, second: int = 0) -> tuple[int, int]:
        """Append the rows of one operator; returns the first and the last.

        They are a chain, or with `second` two chains between a fork and a join row: the second begins there.
        """
        first, last = self.count, self.count + len(lowered.op) - 1
        self.pieces.append(lowered)
        self.breaks.append(last)
        if second:
            self.breaks.append(first + second - 1)
            self.edges += [(first, first + second), (first + second - 1, last)]
        self.count = last + 1
        return first, last

    def block(self) -> Block:
        """Close with the join row."""
        n = self.count
        columns = {name: np.concatenate([getattr(piece, name) for piece in self.pieces]) for name in COPIED}
        columns = {name: np.concatenate([part, JOIN[name]]) for name, part in columns.items()}
        store, start, end = (np.full((n + 1, MAX_STORES), fill, dtype=np.int64) for fill in (-1, 0, 0))
        heir = np.full(n + 1, -1, dtype=np.int64)
        for taker, giver, index in self.takes:
            store[taker, 0] = store[giver, 0] = index
            start[taker, 0], end[giver, 0], heir[taker] = 1, -1, giver
        for row, slot, index, at_start, at_end in self.levels:
            store[row, slot], start[row, slot], end[row, slot] = index, at_start, at_end
        links = np.ones(n, dtype=bool)
        links[self.breaks] = False
        before = np.flatnonzero(links)
        edges = np.concatenate(
            [np.stack([before, before + 1], axis=1), np.array(self.edges, dtype=np.int64).reshape(-1, 2)]
        )
        leads = np.zeros(n, dtype=bool)
        leads[edges[:, 0]] = True
        sinks = np.flatnonzero(~leads)
        edges = np.concatenate([edges, np.stack([sinks, np.full(len(sinks), n)], axis=1)])
        pointer, successors = compressed(edges, n + 1)
        return Block(
            **columns,
            priority=np.zeros(n + 1, dtype=np.int64),
            store=store,
            store_start=start,
            store_end=end,
            store_mode=np.zeros((n + 1, MAX_STORES), dtype=np.int64),
            heir=heir,
            succ_ptr=pointer,
            succ=successors,
        )


JOIN: dict[str, np.ndarray] = {name: np.zeros(1, dtype=np.int64) for name in _SCALARS} | {
    "unit": np.array([-1]),
    "weight": np.array([1]),
    "claim": np.array([-1]),
    "op": np.array([-1]),
    "pool": np.full((1, MAX_POOLS), -1, dtype=np.int64),
    "coef": np.zeros((1, MAX_POOLS), dtype=np.int64),
}


def forked(one: Lowered, other: Lowered) -> Lowered:
    """Two operators side by side between a fork and a join row, which take no time and no unit."""
    ends = Lowered(*(JOIN[name] for name in Lowered._fields))
    return Lowered(*(np.concatenate(column) for column in zip(ends, one, other, ends, strict=True)))


def compressed(edges: np.ndarray, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Edges as pairs to pointers and successors, sorted."""
    order = np.lexsort((edges[:, 1], edges[:, 0]))
    counts = np.bincount(edges[:, 0], minlength=rows)
    pointer = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return pointer, np.ascontiguousarray(edges[order, 1], dtype=np.int64)


def row_block(lowered: Lowered) -> Block:
    """Block of the rows of one operator, in a chain."""
    rows = BlockRows()
    rows.add(lowered)
    return rows.block()


def patch(block: Block, patches: Sequence[Patch]) -> Block:
    """Copy of a block with other values in some rows; patches are applied in order."""
    if not patches:
        return block
    changed = {name: getattr(block, name).copy() for name in {name for _, columns in patches for name in columns}}
    for rows, columns in patches:
        for name, values in columns.items():
            changed[name][rows] = values
    return block._replace(**changed)


def chain(blocks: Sequence[Block]) -> Block:
    """One block that runs `blocks` one after the other."""
    if len(blocks) == 1:
        return blocks[0]
    offsets = np.cumsum([0] + [block.rows for block in blocks])
    heirs, successors, counts = [], [], []
    for i, block in enumerate(blocks):
        heirs.append(np.where(block.heir >= 0, block.heir + offsets[i], -1))
        successors.append(block.succ + offsets[i])
        counts.append(np.diff(block.succ_ptr))
        if i + 1 < len(blocks):  # the join row, which is the last and has no successors, gets the next block's roots
            roots = _roots(blocks[i + 1]) + offsets[i + 1]
            successors.append(roots)
            counts[-1][-1] += len(roots)
    pointer = np.concatenate([[0], np.cumsum(np.concatenate(counts))]).astype(np.int64)
    apart = ("succ", "succ_ptr", "heir")
    columns = {name: np.concatenate([getattr(b, name) for b in blocks]) for name in Block._fields if name not in apart}
    return Block(**columns, heir=np.concatenate(heirs), succ_ptr=pointer, succ=np.concatenate(successors))


def _roots(block: Block) -> np.ndarray:
    """Rows that wait for no other."""
    waiting = np.zeros(block.rows, dtype=bool)
    waiting[block.succ] = True
    return np.flatnonzero(~waiting)
