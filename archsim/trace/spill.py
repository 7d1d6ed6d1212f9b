"""What leaves memory while a run goes on.

A run's rows leave the engine as blocks end, in an order that differs a little from that of their ids. :class:`Spill`
holds them until all earlier ones have come, so that what it writes is in id order and has the digest that the whole
table would have. Below ``LONG_ROWS`` rows nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from archsim.trace.columns import Columns
from archsim.trace.runfolder import TraceWriter
from archsim.trace.scratch import Scratch
from archsim.trace.stored import LONG_ROWS, ROW_GROUP


class Spill:
    """Takes the rows and the script of a run while it goes on, and writes what gets too long.

    Parameters
    ----------
    start : Callable[[], TraceWriter | Scratch]
        Opens the run folder, or the file of a run that is not kept; called once, when the first piece has to be
        written.
    """

    def __init__(self, start: Callable[[], TraceWriter | Scratch]) -> None:
        self._start = start
        self._chunks: list[Columns] = []
        self._held = 0
        self._next = 0  # rows written
        self._look_at = LONG_ROWS
        self.writer: TraceWriter | Scratch | None = None
        self.finished = False
        self.tables: set[str] = set()  # others that were written

    def extend(self, columns: Columns) -> None:
        """Take rows, in any order; called by the engine."""
        self._chunks.append(columns)
        self._held += len(columns["row"])
        if self._held > self._look_at:
            self._settle()

    def append(self, table: str, columns: Columns) -> None:
        """Write a piece of another table; usable as a sink of the engine."""
        self.tables.add(table)
        self._opened().append(table, columns)

    def columns(self) -> dict[str, np.ndarray]:
        """Rows that were not written, by ascending id."""
        if not self._chunks:
            return {}
        chunks, self._chunks = [dict(chunk) for chunk in self._chunks], []
        ids = np.concatenate([chunk["row"] for chunk in chunks])
        order = np.argsort(ids, kind="stable") if (ids[1:] < ids[:-1]).any() else slice(None)
        # column by column, so that no more than one of them is there twice
        joined = {name: np.concatenate([chunk.pop(name) for chunk in chunks])[order] for name in list(chunks[0])}
        self._chunks.append(joined)
        return joined

    def rest(self, live: Columns) -> dict[str, np.ndarray]:
        """Take the rows of blocks that never ended, and return what was not written (see :meth:`columns`)."""
        self._chunks.append(live)
        self._held += len(live["row"])
        return self.columns()

    def finish(self, tables: Mapping[str, Columns], manifest: Mapping[str, Any]) -> dict[str, Columns]:
        """Write what is held, complete the folder if there is one, and return all tables: what was written is stored.

        Parameters
        ----------
        tables : Mapping[str, Columns]
            All tables that were not written.
        manifest : Mapping[str, Any]
            Facts of the run, for its folder.
        """
        writer = self._opened()
        if self.written and self._held:
            writer.append("rows", self.columns())
        self._chunks.clear()
        written = [*self.tables, *(["rows"] if self.written else [])]
        if isinstance(writer, TraceWriter):
            for table, columns in tables.items():
                writer.append(table, columns)
            writer.finish(manifest)
        self.finished = True
        return {**tables, **{table: writer.table(table) for table in written}}

    def abort(self) -> None:
        """Remove what was written, unless it is finished."""
        if self.finished or self.writer is None:
            return
        if isinstance(self.writer, TraceWriter):
            self.writer.abort()
        else:
            self.writer.close()

    @property
    def written(self) -> int:
        """Rows written already."""
        return self._next

    def _opened(self) -> TraceWriter | Scratch:
        if self.writer is None:
            self.writer = self._start()
        return self.writer

    def _settle(self) -> None:
        """Write the rows before which none is missing, in whole row groups."""
        joined = self.columns()
        ids = joined["row"]
        gaps = np.flatnonzero(ids != np.arange(self._next, self._next + len(ids)))
        ready = int(gaps[0]) if gaps.size else len(ids)
        whole = ready - ready % ROW_GROUP
        for first in range(0, whole, ROW_GROUP):
            self._opened().append("rows", {name: part[first : first + ROW_GROUP] for name, part in joined.items()})
        if whole:
            self._chunks = [{name: part[whole:].copy() for name, part in joined.items()}]
            self._next += whole
            self._held -= whole
        self._look_at = ROW_GROUP + 2 * self._held
