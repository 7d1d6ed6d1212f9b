"""Rows of the host's mapping thread, put into a planned pass.

The rows of the plan keep their places; the added ones come after them, before the join row.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from archsim.config import InputError
from archsim.device import Device, make_ops
from archsim.engine.sim import Block
from archsim.workload.blocks import COPIED, compressed
from archsim.workload.optable import Lowered, OpTable

#: Bit of ``store_mode``: a level that would leave its range ends the run instead of waiting.
RAISES = 1


def lower_map(table: OpTable, device: Device, role: str, cost: str, calls: int, nbytes: int) -> Lowered:
    """Row of a map operator; `cost` is one of the device's (see its ``map_entry``)."""
    entry = device.map_entry(cost, calls, nbytes)  # type: ignore[attr-defined]
    return table.lower(device, role, "map", "map" if nbytes else cost, make_ops([entry]))


def hosted_alike(hosted: Block, block: Block) -> Block:
    """A planned block with the rows that were added to one of equal structure; what both have in common is shared."""
    n = block.rows - 1
    added = slice(n, hosted.rows - 1)
    columns = {
        name: np.concatenate([column[:n], getattr(hosted, name)[added], column[n:]])
        for name, column in ((name, getattr(block, name)) for name in COPIED)
    }
    return hosted._replace(**columns)


class HostRows:
    """A planned block with rows to be added.

    Parameters
    ----------
    block : Block
        The plan; not changed.
    table : OpTable
        Where the map operators are entered.
    device : Device
        Whose window it is; it lowers them.
    role : str
        Whose pass.
    """

    def __init__(self, block: Block, table: OpTable, device: Device, role: str) -> None:
        self.block, self.table, self.device, self.role = block, table, device, role
        self.first = block.rows - 1
        self._pieces: list[Lowered] = []
        self._made: dict[tuple[str, int, int], Lowered] = {}
        self._edges: list[tuple[int, int]] = []
        self._changes: list[tuple[int, int, int, int, int, int]] = []
        source = np.repeat(np.arange(block.rows), np.diff(block.succ_ptr))
        order = np.argsort(block.succ, kind="stable")
        self._before = np.split(source[order], np.searchsorted(block.succ[order], np.arange(1, block.rows)))

    def add(self, cost: str, calls: int, nbytes: int) -> int:
        """Add a row; returns its place."""
        key = (cost, calls, nbytes)
        if key not in self._made:
            self._made[key] = lower_map(self.table, self.device, self.role, *key)
        self._pieces.append(self._made[key])
        return self.first + len(self._pieces) - 1

    def before(self, row: int) -> list[int]:
        """Rows of the plan that `row` of the plan waits for."""
        return self._before[row].tolist()

    def order(self, earlier: int, later: int) -> None:
        """Let one row wait for another."""
        self._edges.append((earlier, later))

    def change(self, row: int, store: int, *, start: int = 0, end: int = 0, mode: int = 0, heir: int = -1) -> None:
        """Change the level of a store when a row starts and ends; `heir` as in :class:`Block`."""
        self._changes.append((row, store, start, end, mode, heir))

    def build(self) -> Block:
        """Block with all rows."""
        old, n, more = self.block, self.first, len(self._pieces)
        parts = {
            name: [getattr(old, name)[:n], *(getattr(piece, name) for piece in self._pieces), getattr(old, name)[n:]]
            for name in COPIED
        }
        columns = {name: np.concatenate(part) for name, part in parts.items()}
        for name, fill in _FILL.items():
            column = getattr(old, name)
            added = np.full((more, *column.shape[1:]), fill, dtype=np.int64)
            columns[name] = np.concatenate([column[:n], added, column[n:]])
        for change in self._changes:
            self._enter(columns, *change)
        source = np.repeat(np.arange(old.rows), np.diff(old.succ_ptr))
        edges = np.stack([source, np.where(old.succ == n, n + more, old.succ)], axis=1)
        edges = np.concatenate([edges, np.array(self._edges, dtype=np.int64).reshape(-1, 2)])
        sinks = np.setdiff1d(np.arange(n + more), edges[:, 0])
        edges = np.concatenate([edges, np.stack([sinks, np.full(len(sinks), n + more)], axis=1)])
        pointer, successors = compressed(np.unique(edges, axis=0), n + more + 1)
        return Block(**columns, succ_ptr=pointer, succ=successors)

    def _enter(self, columns: dict[str, Any], row: int, store: int, start: int, end: int, mode: int, heir: int) -> None:
        free = np.flatnonzero(columns["store"][row] < 0)
        if not len(free):
            raise InputError(
                f"{self.role}: a row of {self.device.name} would change three stores; choose another job.mapping, or "
                "keep the layers in DRAM (job.dram_fraction=1)"
            )
        at = int(free[0])
        columns["store"][row, at], columns["store_mode"][row, at] = store, mode
        columns["store_start"][row, at], columns["store_end"][row, at] = start, end
        if heir >= 0:
            columns["heir"][row] = heir


_FILL = {"priority": 0, "store": -1, "store_start": 0, "store_end": 0, "store_mode": 0, "heir": -1}
