"""The arrays the kernels work on: creation, growth, admission of blocks, retirement and compaction."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from archsim.engine import core
from archsim.engine.block import Block
from archsim.engine.errors import BlockShapeError

COLUMNS_1D = (
    ("unit", core.R_UNIT),
    ("priority", core.R_PRIO),
    ("weight", core.R_WEIGHT),
    ("lead", core.R_LEAD),
    ("work", core.R_WORK),
    ("cap", core.R_CAP),
    ("claim", core.R_CLAIM),
    ("stream", core.R_STREAM),
    ("heir", core.R_HEIR),
    ("op", core.R_OP),
)
COLUMNS_2D = (
    ("pool", core.R_POOL, 4),
    ("coef", core.R_COEF, 4),
    ("store", core.R_STORE, 2),
    ("store_start", core.R_TAKE, 2),
    ("store_end", core.R_GIVE, 2),
    ("store_mode", core.R_MODE, 2),
)
#: Columns of the row log in order, and where they are in the window.
ROW_LOG = (
    ("row", core.R_GID),
    ("unit", core.R_UNIT),
    ("op", core.R_OP),
    ("block", -1),
    ("request", -1),
    ("priority", core.R_PRIO),
    ("start_ps", core.R_START),
    ("flow_ps", core.R_FLOW),
    ("end_ps", core.R_END),
    ("status", core.R_STATUS),
    ("work", core.R_WORK),
    ("done", core.R_DONE),
    ("lead_ps", core.R_LED),
)
_INT64 = np.dtype(np.int64)
_FRESH = np.zeros(core.ROW_FIELDS - core.ROW_INPUTS, dtype=np.int64)
for _column in (core.R_START, core.R_FLOW, core.R_END, core.R_SLOT):
    _FRESH[_column - core.ROW_INPUTS] = -1


class State(NamedTuple):
    """Arrays of the kernels, all int64 and contiguous; columns are named in :mod:`archsim.engine.core`."""

    sc: np.ndarray  # [SCALARS]
    rows: np.ndarray  # [rows, ROW_FIELDS]
    blk: np.ndarray  # [blocks, BLOCK_FIELDS]
    succ: np.ndarray  # successors and roots of blocks, as row indices in the block
    dep: np.ndarray  # [edges, 2] linked lists: next, block that waits
    unit: np.ndarray  # [units + 1, UNIT_FIELDS]
    heap: np.ndarray  # [units + 1, rows] keys of ready rows
    park: np.ndarray  # [units + 1, rows] keys of ready rows known to be blocked, ascending
    pool: np.ndarray  # [pools, POOL_FIELDS]
    mixcap: np.ndarray  # [pools, 256]
    mixtime: np.ndarray  # [pools, 256] ps
    count: np.ndarray  # [pools, 8] flowing rows by stream
    store: np.ndarray  # [stores, STORE_FIELDS]
    run: np.ndarray  # [RUN_FIELDS, slots]
    act: np.ndarray  # [2, slots] flowing slots that draw on pools; scratch
    lists: np.ndarray  # [LISTS, rows]
    plog: np.ndarray  # [entries, 5] time, pool, mix, capacity, usage
    llog: np.ndarray  # [entries, 4] time, store, level, row


def _table(*shape: int, fill: int = 0) -> np.ndarray:
    return np.full(shape, fill, dtype=np.int64)


def _enlarged(old: np.ndarray, size: int, axis: int, fill: int = 0) -> np.ndarray:
    shape = list(old.shape)
    shape[axis] = size
    new = _table(*shape, fill=fill)
    new[tuple(slice(0, n) for n in old.shape)] = old
    return new


class Window:
    """Owner of the :class:`State`: the rows and blocks that are not retired yet, in id order."""

    def __init__(self, units: int, mixcap: np.ndarray, levels: np.ndarray, full: bool, step: bool) -> None:
        pools = len(mixcap)
        sc = _table(core.SCALARS)
        sc[core.PHASE], sc[core.DEP_FREE] = core.DISPATCH, -1
        sc[core.FULL], sc[core.STEP], sc[core.TOP] = int(full), int(step), units
        unit = _table(units + 1, core.UNIT_FIELDS)
        unit[:, core.U_ROW], unit[:, core.U_RATE] = -1, 1 << core.RATE_BITS
        pool = _table(pools, core.POOL_FIELDS)
        pool[:, core.P_CAP], pool[:, core.P_RATE], pool[:, core.P_CLAIM] = mixcap[:, 0], 1 << core.RATE_BITS, -1
        self.s = State(
            sc=sc,
            rows=_table(1024, core.ROW_FIELDS),
            blk=_table(64, core.BLOCK_FIELDS),
            succ=_table(4096),
            dep=_table(0, 2),
            unit=unit,
            heap=_table(units + 1, 64),
            park=_table(units + 1, 64),
            pool=pool,
            mixcap=mixcap,
            mixtime=_table(pools, 256),
            count=_table(pools, 8),
            store=levels,
            run=_table(core.RUN_FIELDS, units + 8),
            act=_table(2, units + 8),
            lists=_table(core.LISTS, 1024 + units + 8),
            plog=_table(max(1024, 4 * pools) if full else 0, 5),
            llog=_table(4096 if full else 0, 4),
        )
        self.s.run[core.X_ROW], self.s.run[core.X_T] = -1, core.NEVER
        self.slot: dict[int, int] = {}  # block id -> line in blk

    # -- growth ---------------------------------------------------------------------------------------------

    def grow_run(self) -> None:
        """Make room for at least as many running rows without a unit as are ready."""
        s = self.s
        last = s.unit[-1]
        size = 2 * int(s.sc[core.TOP] + last[core.U_HEAP] + last[core.U_PARK])
        old = s.run.shape[1]
        run = _enlarged(s.run, size, 1)
        run[core.X_ROW, old:], run[core.X_T, old:] = -1, core.NEVER
        lists = s.lists if s.lists.shape[1] >= size else _enlarged(s.lists, size, 1)
        self.s = s._replace(run=run, act=_enlarged(s.act, size, 1), lists=lists)

    def grow_heap(self) -> None:
        """Make room in the queues for all rows of the busiest unit."""
        size = 2 * int(self.s.unit[:, core.U_NEED].max())
        self.s = self.s._replace(heap=_enlarged(self.s.heap, size, 1), park=_enlarged(self.s.park, size, 1))

    def reserve_levels(self, entries: int) -> None:
        """Make room for `entries` more lines in the log of store levels."""
        need = int(self.s.sc[core.LEVEL_LOG]) + entries
        if need > len(self.s.llog):
            self.s = self.s._replace(llog=_enlarged(self.s.llog, 2 * need, 0))

    def reserve(self, rows: int, succs: int, deps: int) -> None:
        """Make room for one more block."""
        s, sc = self.s, self.s.sc
        need = int(sc[core.ROWS]) + rows + 1
        if need > len(s.rows):
            size = max(need, 2 * len(s.rows))
            lists = s.lists if s.lists.shape[1] >= size else _enlarged(s.lists, size, 1)
            s = s._replace(rows=_enlarged(s.rows, size, 0), lists=lists)
        if int(sc[core.SUCCS]) + succs + rows > len(s.succ):
            s = s._replace(succ=_enlarged(s.succ, 2 * (int(sc[core.SUCCS]) + succs + rows), 0))
        if int(sc[core.BLOCKS]) >= len(s.blk):
            s = s._replace(blk=_enlarged(s.blk, 2 * len(s.blk), 0))
        self.s = s
        while deps > 0 and self._free_deps(deps) < deps:
            self._grow_deps()

    def _free_deps(self, wanted: int) -> int:
        n, e = 0, int(self.s.sc[core.DEP_FREE])
        while e >= 0 and n < wanted:
            n, e = n + 1, int(self.s.dep[e, 0])
        return n

    def _grow_deps(self) -> None:
        old = len(self.s.dep)
        dep = _enlarged(self.s.dep, max(16, 2 * old), 0)
        dep[old:, 0] = np.arange(old + 1, len(dep) + 1)
        dep[-1, 0] = self.s.sc[core.DEP_FREE]
        self.s.sc[core.DEP_FREE] = old
        self.s = self.s._replace(dep=dep)

    # -- admission ------------------------------------------------------------------------------------------

    def place(self, block: Block, priority: int, fields: tuple[int, int, int, int], after: list[int]) -> int:
        """Copy a block's columns into the window; returns its line. ``fields`` = id, request, now, label."""
        n = len(block.unit)
        succ, ptr = block.succ, block.succ_ptr
        for column in block:
            if column.dtype != _INT64:
                raise BlockShapeError(f"a column of a block of {n} rows is {column.dtype}; every column must be int64")
        if n == 0 or len(ptr) != n + 1 or ptr[0] != 0 or ptr[n] != len(succ):
            raise BlockShapeError(f"block of {n} rows: succ_ptr needs n + 1 entries, from 0 to {len(succ)}, and n > 0")
        self.reserve(n, len(succ), len(after))
        s, sc = self.s, self.s.sc
        first, line, arc = int(sc[core.ROWS]), int(sc[core.BLOCKS]), int(sc[core.SUCCS])
        view = s.rows[first : first + n]
        try:
            for name, column in COLUMNS_1D:
                view[:, column] = getattr(block, name)
            for name, column, width in COLUMNS_2D:
                view[:, column : column + width] = getattr(block, name)
        except ValueError as error:
            raise BlockShapeError(f"column {name!r} of a block of {n} rows: {error}") from error
        if priority:
            view[:, core.R_PRIO] += priority
        view[:, core.ROW_INPUTS :] = _FRESH
        view[:, core.R_SUCC] = ptr[:-1]
        s.succ[arc : arc + len(succ)] = succ
        b = s.blk[line]
        b[:] = 0
        b[core.B_USEFUL] = b[core.B_TOTAL] = -1
        b[core.B_ID], b[core.B_REQUEST], b[core.B_EMIT], b[core.B_LABEL] = fields
        b[core.B_ROW], b[core.B_N], b[core.B_LEFT] = first, n, n
        b[core.B_SUCC], b[core.B_NSUCC], b[core.B_DEP] = arc, len(succ), -1
        b[core.B_WAIT], b[core.B_END], b[core.B_NEXT] = len(after), -1, -2
        return line

    def commit(self, line: int, after: list[int]) -> None:
        """Count the placed block in and hang it on the blocks it waits for (lines)."""
        s, sc = self.s, self.s.sc
        b = s.blk[line]
        sc[core.ROWS] += b[core.B_N]
        sc[core.SUCCS] = b[core.B_ROOT] + b[core.B_NROOT]
        sc[core.BLOCKS] += 1
        self.slot[int(b[core.B_ID])] = line
        for other in after:
            e = int(sc[core.DEP_FREE])
            sc[core.DEP_FREE] = s.dep[e, 0]
            s.dep[e, 0], s.dep[e, 1] = s.blk[other, core.B_DEP], line
            s.blk[other, core.B_DEP] = e

    # -- retirement -----------------------------------------------------------------------------------------

    def finished(self) -> np.ndarray:
        """Lines of blocks none of whose rows can change any more."""
        return np.flatnonzero(self.s.blk[: int(self.s.sc[core.BLOCKS]), core.B_LEFT] == 0)

    def row_log(self, lines: np.ndarray) -> dict[str, np.ndarray]:
        """Row columns (:data:`ROW_LOG`) of the blocks in `lines`, in id order."""
        s = self.s
        counts = s.blk[lines, core.B_N]
        if len(lines) == int(s.sc[core.BLOCKS]):
            table = s.rows[: int(s.sc[core.ROWS])]
        else:
            starts = s.blk[lines, core.B_ROW]
            offsets = np.repeat(starts - np.concatenate(([0], np.cumsum(counts)[:-1])), counts)
            table = s.rows[np.arange(int(counts.sum())) + offsets]
        out = {name: table[:, column].copy() for name, column in ROW_LOG if column >= 0}
        status = out["status"]
        out["status"] = np.array([2, 2, 3, 3, 3, 0, 1], dtype=np.int64)[status]
        out["block"] = np.repeat(s.blk[lines, core.B_ID], counts)
        out["request"] = np.repeat(s.blk[lines, core.B_REQUEST], counts)
        self._running_progress(out)
        return {name: out[name] for name, _ in ROW_LOG}

    def _running_progress(self, out: dict[str, np.ndarray]) -> None:
        """Fill in work and lead of rows that still run."""
        s, now = self.s, int(self.s.sc[core.NOW])
        for i in np.flatnonzero(out["status"] == 3):
            row = np.searchsorted(s.rows[: int(s.sc[core.ROWS]), core.R_GID], out["row"][i])
            out["done"][i] = self.done(int(row))
            if out["flow_ps"][i] < 0:
                out["lead_ps"][i] = now - out["start_ps"][i]

    def done(self, row: int) -> int:
        """Work that window row `row` has done by now."""
        s = self.s
        status = int(s.rows[row, core.R_STATUS])
        if status == core.ENDWAIT:
            return int(s.rows[row, core.R_WORK])
        if status != core.FLOW:
            return int(s.rows[row, core.R_DONE])
        k = int(s.rows[row, core.R_SLOT])
        rate, last = int(s.run[core.X_RATE, k]), int(s.run[core.X_LAST, k])
        return int(s.rows[row, core.R_WORK]) - int(s.run[core.X_REM, k]) + rate * (int(s.sc[core.NOW]) - last)

    def compact(self, drop: np.ndarray) -> None:
        """Remove the blocks in `drop` (lines) and renumber what refers to rows and blocks; order is kept."""
        s, sc = self.s, self.s.sc
        blocks, rows = int(sc[core.BLOCKS]), int(sc[core.ROWS])
        keep = np.ones(blocks, dtype=bool)
        keep[drop] = False
        counts = s.blk[:blocks, core.B_N]
        arcs = s.blk[:blocks, core.B_NSUCC] + s.blk[:blocks, core.B_NROOT]
        keep_rows = np.repeat(keep, counts)
        keep_arcs = np.repeat(keep, arcs)
        new_row = np.cumsum(keep_rows) - 1
        new_line = np.cumsum(keep) - 1
        live, lines, links = int(keep_rows.sum()), int(keep.sum()), int(keep_arcs.sum())
        s.rows[:live] = s.rows[:rows][keep_rows]
        s.succ[:links] = s.succ[: len(keep_arcs)][keep_arcs]
        s.blk[:lines] = s.blk[:blocks][keep]
        b = s.blk[:lines]
        b[:, core.B_ROW] = np.concatenate(([0], np.cumsum(b[:, core.B_N])[:-1]))[:lines]
        total = b[:, core.B_NSUCC] + b[:, core.B_NROOT]
        b[:, core.B_SUCC] = np.concatenate(([0], np.cumsum(total)[:-1]))[:lines]
        b[:, core.B_ROOT] = b[:, core.B_SUCC] + b[:, core.B_NSUCC]
        s.rows[:live, core.R_BLK] = np.repeat(np.arange(lines), b[:, core.B_N])
        sc[core.ROWS], sc[core.BLOCKS], sc[core.SUCCS] = live, lines, links
        self._renumber(new_row, new_line)
        self.slot = {int(i): line for line, i in enumerate(b[:, core.B_ID])}

    def _renumber(self, new_row: np.ndarray, new_line: np.ndarray) -> None:
        s = self.s
        for table, column in ((s.unit, core.U_ROW), (s.pool, core.P_CLAIM)):
            held = table[:, column] >= 0
            table[held, column] = new_row[table[held, column]]
        held = s.run[core.X_ROW] >= 0
        s.run[core.X_ROW, held] = new_row[s.run[core.X_ROW, held]]
        waits = int(s.sc[core.WAITS])
        s.lists[core.L_WAIT, :waits] = new_row[s.lists[core.L_WAIT, :waits]]
        for queue, size in ((s.heap, core.U_HEAP), (s.park, core.U_PARK)):
            for u in np.flatnonzero(s.unit[:, size]):
                keys = queue[u, : s.unit[u, size]]
                keys[:] = (keys & ~core.KEY_MASK) + new_row[keys & core.KEY_MASK]
        for head in s.blk[: int(s.sc[core.BLOCKS]), core.B_DEP]:
            e = int(head)
            while e >= 0:
                s.dep[e, 1] = new_line[s.dep[e, 1]]
                e = int(s.dep[e, 0])
