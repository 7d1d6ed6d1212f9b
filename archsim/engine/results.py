"""What a run leaves behind: logs, marks, digest, and the retirement of finished blocks into them."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

import numpy as np

from archsim.engine import core, record
from archsim.engine.errors import SimError
from archsim.engine.record import Columns, Digest, Log, Sink, Store
from archsim.engine.window import RETIRE_ROWS, Window

if TYPE_CHECKING:
    from archsim.engine.sim import Handle

_BLOCK_FIELDS = [
    core.B_ID,
    core.B_LABEL,
    core.B_REQUEST,
    core.B_EMIT,
    core.B_END,
    core.B_USEFUL,
    core.B_TOTAL,
    core.B_STATUS,
]
_BLOCK_STATUS = np.array([2, 2, 2, 2, 2, 0, 1], dtype=np.int64)


class _Ref(weakref.ref):
    """Weak reference to a handle that knows its block."""

    __slots__ = ("id",)
    id: int


class Results:
    """Logs of one run. A block is retired when all its rows have ended; its line stays open while its handle lives."""

    def __init__(self, window: Window, log: str, sink: Sink | None, store: Store | None = None) -> None:
        self.window, self.level, self.sink, self.store = window, log, sink, store
        self.rows = Log("rows", record.ROW_LOG, sink)
        self.blocks = Log("blocks", record.BLOCK_LOG, sink)
        self.notes = Log("notes", record.NOTE_LOG, sink)
        self.rates = Log("rates", record.RATE_LOG, sink)
        self.pools = Log("pool_log", record.POOL_LOG, sink)
        self.levels = Log("levels_log", record.LEVEL_LOG, sink)
        self._digests = {"rows": Digest(), "blocks": Digest(), "notes": Digest()}
        self._noted: list[tuple[int, ...]] = []  # notes that are not in their digest yet
        self._handles: dict[int, _Ref] = {}
        self._closed: dict[int, list[int]] = {}
        self._dropped: list[_Ref] = []
        self._retire_at = RETIRE_ROWS

    # -- retirement -----------------------------------------------------------------------------------------

    def track(self, handle: Handle) -> None:
        """Remember `handle` for as long as somebody holds it."""
        self._handles[handle.id] = ref = _Ref(handle, self._dropped.append)
        ref.id = handle.id

    def make_room(self) -> None:
        """Retire what has ended, once the window is worth it."""
        if int(self.window.s.m[core.ROWS]) >= self._retire_at:
            self.retire()
            self._retire_at = max(RETIRE_ROWS, 2 * int(self.window.s.m[core.ROWS]))

    def retire(self) -> None:
        """Move blocks that have ended from the window to the logs."""
        window = self.window
        self._forget_dropped()
        lines = window.finished()
        if not len(lines):
            return
        columns = window.row_log(lines)
        self._digests["rows"].add(columns)
        table = self._lines(lines)
        ends = np.cumsum(window.s.blk[lines, core.B_N])
        done = []
        for i, line in enumerate(table.tolist()):
            ref = self._handles.pop(line[0], None)
            handle = ref() if ref is not None else None
            if handle is None:
                done.append(i)
                continue
            span = slice(int(ends[i]) - len(handle.row_ids), int(ends[i]))
            final = np.stack([columns[name][span] for name in ("status", "done", "work")])
            handle.close("done" if line[-1] == 0 else "cut", final)
            self._closed[handle.id] = line
            self._handles[handle.id] = ref
        if done:
            self._keep_blocks(table[done])
        if self.level != "off":
            (self.store or self.rows).extend(columns)
        window.compact(lines)

    def _keep_blocks(self, table: np.ndarray) -> None:
        columns = {name: table[:, i].copy() for i, name in enumerate(record.BLOCK_LOG)}
        self._digests["blocks"].add(columns)
        self.blocks.extend(columns)

    def _forget_dropped(self) -> None:
        """Close the lines of retired blocks whose handle is gone."""
        dropped, self._dropped[:] = list(self._dropped), []
        ids = [ref.id for ref in dropped]
        lines = [self._closed.pop(i) for i in ids if i in self._closed]
        for i in ids:
            self._handles.pop(i, None)
        if lines:
            self._keep_blocks(np.array(lines, dtype=np.int64))

    def _lines(self, lines: np.ndarray) -> np.ndarray:
        table = self.window.s.blk[np.ix_(lines, _BLOCK_FIELDS)]
        table[:, -1] = _BLOCK_STATUS[table[:, -1]]
        return table

    def drain(self) -> None:
        """Empty the kernel's pool and level logs."""
        s, m = self.window.s, self.window.s.m
        for log, table, count in ((self.pools, s.plog, core.POOL_LOG), (self.levels, s.llog, core.LEVEL_LOG)):
            n = int(m[count])
            if n:
                log.extend({name: table[:n, i].copy() for i, name in enumerate(log.names)})
                m[count] = 0

    def flush(self) -> None:
        """Hand everything to the sink but the blocks, and their rows, that have not ended."""
        if self.sink is None:
            return
        self.retire()
        if self._closed:
            self._keep_blocks(np.array(list(self._closed.values()), dtype=np.int64))
            self._closed.clear()
        self.drain()
        for log in (self.rows, self.blocks, self.notes, self.rates, self.pools, self.levels):
            log.flush()

    # -- marks ----------------------------------------------------------------------------------------------

    def mark(self, block: int, useful: int, total: int) -> None:
        """Set the useful-row mark of a block whose handle lives."""
        if block in self._closed:
            self._closed[block][5:7] = useful, total
        elif block not in self.window.slot:
            raise SimError(f"mark of block {block}: its line has gone to the sink already; mark before the flush")
        else:
            line = self.window.s.blk[self.window.slot[block]]
            line[core.B_USEFUL], line[core.B_TOTAL] = useful, total

    def note(self, *line: int) -> None:
        """Append a note."""
        self.notes.add(*line)
        self._noted.append(line)
        if len(self._noted) >= record.CHUNK:
            self._digest_notes()

    def _digest_notes(self) -> None:
        if self._noted:
            table = np.array(self._noted, dtype=np.int64)
            self._digests["notes"].add({name: table[:, i].copy() for i, name in enumerate(record.NOTE_LOG)})
            self._noted.clear()

    # -- tables ---------------------------------------------------------------------------------------------

    def row_columns(self) -> Columns:
        """Rows by ascending id; without those that went to the sink or the store."""
        return _sorted(self.rows.columns(), self.window.row_log(self._all_lines()), "row")

    def block_columns(self) -> Columns:
        """Blocks by ascending id; without those that went to the sink."""
        table = self._open_blocks()
        live = {name: table[:, i] for i, name in enumerate(record.BLOCK_LOG)}
        return _sorted(self.blocks.columns(), live, "block")

    def _open_blocks(self) -> np.ndarray:
        closed = np.array(list(self._closed.values()), dtype=np.int64).reshape(-1, len(record.BLOCK_LOG))
        return np.concatenate((closed, self._lines(self._all_lines())))

    def _all_lines(self) -> np.ndarray:
        return np.arange(int(self.window.s.m[core.BLOCKS]))

    def digest(self) -> str:
        """Sha256 over the row, block and note columns as they are now."""
        self._digest_notes()
        parts = {name: part.copy() for name, part in self._digests.items()}
        parts["rows"].add(self.window.row_log(self._all_lines()))
        table = self._open_blocks()
        parts["blocks"].add({name: table[:, i].copy() for i, name in enumerate(record.BLOCK_LOG)})
        return record.combined(parts)


def _sorted(held: Columns, live: Columns, key: str) -> Columns:
    joined = {name: np.concatenate((held[name], live[name])) for name in live}
    if (joined[key][1:] >= joined[key][:-1]).all():
        return joined
    order = np.argsort(joined[key], kind="stable")
    return {name: column[order] for name, column in joined.items()}
