"""What :meth:`Sim.emit` returns: a block, and its rows, as things to wait for and ask about."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from archsim.engine import core
from archsim.engine.process import Leaf, Outcome, Waitable

if TYPE_CHECKING:
    from archsim.engine.sim import Sim

_STATUS = {0: "open", core.DONE: "done", core.CUT: "cut"}


class Handle(Waitable):
    """An emitted block. It stays valid after its rows have left the window."""

    def __init__(self, sim: Sim, index: int, first: int, rows: int, label: str) -> None:
        self.id, self.label = index, label
        self.row_ids = range(first, first + rows)
        self.sim = sim
        self.final: tuple[str, np.ndarray] | None = None

    def close(self, status: str, final: np.ndarray) -> None:
        """Keep status, and the rows' status, done and work, when the block leaves the window."""
        self.final = (status, final)

    @property
    def status(self) -> str:
        """``"open"``, ``"done"`` or ``"cut"``."""
        if self.final is not None:
            return self.final[0]
        window = self.sim.window
        return _STATUS[int(window.s.blk[window.slot[self.id], core.B_STATUS])]

    @property
    def done(self) -> bool:
        """Whether the block has ended normally."""
        return self.status == "done"

    def row(self, index: int) -> RowRef:
        """Row `index` of the block as a waitable."""
        return RowRef(self, range(len(self.row_ids))[index])

    def outcome(self) -> Outcome | None:
        """How the block ended, or None."""
        status = self.status
        return None if status == "open" else Outcome(status)

    def attach(self, leaf: Leaf) -> None:
        """Wait for the join row."""
        self.sim.watch(self, len(self.row_ids) - 1, leaf)

    def detach(self, leaf: Leaf) -> None:
        """Forget `leaf`."""
        self.sim.unwatch(self.row_ids[-1], leaf)

    def __str__(self) -> str:
        return f"block {self.id}" + (f" {self.label!r}" if self.label else "")


class RowRef(Waitable):
    """One row of a block."""

    def __init__(self, handle: Handle, index: int) -> None:
        self.handle, self.index = handle, index

    def outcome(self) -> Outcome | None:
        """How the row ended, or None."""
        status = self.handle.sim.row_status(self.handle, self.index)
        return Outcome(status) if status in ("done", "cut") else None

    def attach(self, leaf: Leaf) -> None:
        """Wait for the row."""
        self.handle.sim.watch(self.handle, self.index, leaf)

    def detach(self, leaf: Leaf) -> None:
        """Forget `leaf`."""
        self.handle.sim.unwatch(self.handle.row_ids[self.index], leaf)

    def __str__(self) -> str:
        return f"row {self.index} of {self.handle}"
