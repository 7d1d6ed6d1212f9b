"""Blocks of task rows: what a process emits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from archsim.engine.core import NO_CAP
from archsim.engine.errors import BlockShapeError


class Block(NamedTuple):
    """`n` rows as int64 columns; the last row is the zero-length join row, which depends on all sinks.

    Work is in 2**-28 byte, caps in 2**-28 byte per ps, coefficients in 2**-20 pool units per work unit, leads in ps.
    Columns belong to the engine once the block is emitted: where a script is recorded they become read-only.
    """

    unit: np.ndarray  # [n] unit id, -1: needs no unit
    priority: np.ndarray  # [n] lower goes first, -2**22 .. 2**22
    weight: np.ndarray  # [n] share weight (bytes in flight), 1 .. 2**30
    lead: np.ndarray  # [n] latency before work flows; elapses in real time
    work: np.ndarray  # [n]
    cap: np.ndarray  # [n] largest rate, below 2**41, or NO_CAP
    pool: np.ndarray  # [n, 4] pool ids, -1: none
    coef: np.ndarray  # [n, 4] draw per unit of rate, below 2**41
    claim: np.ndarray  # [n] pool held exclusively from start to end, -1: none
    stream: np.ndarray  # [n] stream class 0 .. 7; 0 counts in no mix
    store: np.ndarray  # [n, 2] store ids, -1: none
    store_start: np.ndarray  # [n, 2] level change at the start
    store_end: np.ndarray  # [n, 2] level change at the end
    store_mode: np.ndarray  # [n, 2] bit 0: the start raises instead of waiting; bit 1: the end does
    heir: np.ndarray  # [n] row of this block whose cut undoes this row's store_start, -1: none
    op: np.ndarray  # [n] index into the caller's operator table
    succ_ptr: np.ndarray  # [n + 1] row i is followed by succ[succ_ptr[i]:succ_ptr[i + 1]]
    succ: np.ndarray  # [e] row indices

    @property
    def rows(self) -> int:
        """Number of rows, the join row included."""
        return len(self.unit)


#: Columns of a row that :func:`make_block` takes, and their defaults.
DEFAULTS: Mapping[str, Any] = {
    "unit": -1,
    "priority": 0,
    "weight": 1,
    "lead": 0,
    "work": 0,
    "cap": NO_CAP,
    "pool": (),
    "coef": (),
    "claim": -1,
    "stream": 0,
    "store": (),
    "store_start": (),
    "store_end": (),
    "store_mode": (),
    "heir": -1,
    "op": -1,
}
_WIDTH = {
    "pool": (4, -1),
    "coef": (4, 0),
    "store": (2, -1),
    "store_start": (2, 0),
    "store_end": (2, 0),
    "store_mode": (2, 0),
}


def make_block(rows: Sequence[Mapping[str, Any]], edges: Iterable[tuple[int, int]] | str = ()) -> Block:
    """Build a block from dictionaries; the join row is added.

    Parameters
    ----------
    rows : sequence of mappings
        Columns of :class:`Block` by name; missing ones take :data:`DEFAULTS`. ``pool``, ``coef``, ``store`` and the
        store columns are sequences of up to 4 or 2 entries.
    edges : pairs of row indices, or ``"chain"``
        ``(i, j)``: row j starts after row i has ended.

    Raises
    ------
    BlockShapeError
        For an unknown column or an edge that leaves the block.
    """
    n = len(rows)
    pairs = [(i, i + 1) for i in range(n - 1)] if edges == "chain" else [(int(i), int(j)) for i, j in edges]
    for i, j in pairs:
        if not (0 <= i < n and 0 <= j < n):
            raise BlockShapeError(f"edge ({i}, {j}) leaves a block of {n} rows; the join row is added by itself")
    columns: dict[str, np.ndarray] = {}
    for name, default in DEFAULTS.items():
        width, fill = _WIDTH.get(name, (0, 0))
        table = np.full((n + 1, width) if width else n + 1, fill if width else default, dtype=np.int64)
        for i, row in enumerate(rows):
            if name in row:
                if width:
                    table[i, : len(row[name])] = row[name]
                else:
                    table[i] = row[name]
        columns[name] = table
    unknown = {key for row in rows for key in row} - set(DEFAULTS)
    if unknown:
        raise BlockShapeError(f"unknown row column {sorted(unknown)[0]!r}; known: {', '.join(DEFAULTS)}")
    followed = {i for i, _ in pairs}
    pairs += [(i, n) for i in range(n) if i not in followed]
    pairs.sort()
    succ = np.array([j for _, j in pairs], dtype=np.int64)
    counts = np.bincount([i for i, _ in pairs], minlength=n + 1) if pairs else np.zeros(n + 1, dtype=np.int64)
    return Block(**columns, succ_ptr=np.concatenate(([0], np.cumsum(counts))).astype(np.int64), succ=succ)
