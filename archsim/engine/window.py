"""The arrays the kernels work on: creation, growth, admission of blocks, retirement and compaction."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from archsim.engine import core, retire
from archsim.engine.block import Block
from archsim.engine.errors import BlockShapeError
from archsim.engine.record import ROW_LOG

_WIDTHS = (1, 1, 1, 1, 1, 1, 4, 4, 1, 1, 2, 2, 2, 2, 1, 1)  # of the row columns of a block
_ADDRESS = {
    "pool": core.AT_POOL,
    "store": core.AT_STORE,
    "step": core.AT_STEP,
    "mix": core.AT_MIX,
    "spent": core.AT_SPENT,
    "slot": core.AT_SLOT,
    "lane": core.AT_LANE,
    "member": core.AT_MEMBER,
    "lists": core.AT_LIST,
    "heap": core.AT_HEAP,
    "park": core.AT_PARK,
    "dep": core.AT_DEP,
    "blk": core.AT_BLOCK,
    "arc": core.AT_ARC,
    "rows": core.AT_ROW,
    "plog": core.AT_POOL_LOG,
    "llog": core.AT_LEVEL_LOG,
    "stage": core.AT_STAGE,
}
#: Rows in the window from which on blocks that have ended leave it. There is room for them from the start: memory that
#: nothing was written to costs nothing.
RETIRE_ROWS = 16384
_INT64 = np.dtype(np.int64)


def _whole(slots: int) -> int:
    """`slots` rounded up, so that the lanes are scanned in whole vectors."""
    return (slots + 15) // 16 * 16


class State(NamedTuple):
    """The engine's memory as named int64 arrays; all are views of ``m``. Fields are named in the core."""

    m: np.ndarray  # everything; its first 64 entries are the scalars
    unit: np.ndarray  # [units + 1, UNIT_FIELDS]
    pool: np.ndarray  # [pools, POOL_FIELDS]
    store: np.ndarray  # [stores, STORE_FIELDS]
    step: np.ndarray  # [steps, 3 * width + 2] records of the filling: left, load and level by pool, pool, level
    mix: np.ndarray  # [pools, 256] capacity by mix mask
    spent: np.ndarray  # [pools, 256] ps by mix mask
    slot: np.ndarray  # [slots, SLOT_FIELDS]
    lane: np.ndarray  # [LANES, slots]
    member: np.ndarray  # [pools, slots, 2] flowing slots by pool: address of the slot, of its part in another pool
    lists: np.ndarray  # [LISTS, rows]
    heap: np.ndarray  # [units + 1, queue] keys of ready rows
    park: np.ndarray  # [units + 1, queue] keys of ready rows known to be blocked, ascending
    dep: np.ndarray  # [edges, 2] linked lists: next, block that waits
    blk: np.ndarray  # [blocks, BLOCK_FIELDS]
    arc: np.ndarray  # [arcs] successors and roots of blocks, as row indices in the block
    rows: np.ndarray  # [rows, ROW_FIELDS]
    plog: np.ndarray  # [entries, 5] time, pool, mix, capacity, usage
    llog: np.ndarray  # [entries, 4] time, store, level, row
    stage: np.ndarray  # columns of the block that is being admitted, one after the other, then its succ_ptr


class Window:
    """Owner of the memory: the rows and blocks that are not retired yet, in id order."""

    def __init__(self, units: int, mix: np.ndarray, levels: np.ndarray, full: bool, step: bool) -> None:
        pools = len(mix)
        slots, queue, rows = _whole(units + 8), 256, RETIRE_ROWS + 2048
        width = (pools + 4) // 4 * 4  # a multiple of four, with one entry more for a part that draws nothing
        self._shapes: dict[str, tuple[int, ...]] = {
            "unit": (units + 1, core.UNIT_FIELDS),
            "pool": (pools, core.POOL_FIELDS),
            "store": (len(levels), core.STORE_FIELDS),
            "step": (2 * pools + 8, 3 * width + 2),
            "mix": (pools, 256),
            "spent": (pools, 256),
            "slot": (slots, core.SLOT_FIELDS),
            "lane": (core.LANES, slots),
            "member": (pools, slots, 2),
            "lists": (core.LISTS, rows + slots),
            "heap": (units + 1, queue),
            "park": (units + 1, queue),
            "dep": (16, 2),
            "blk": (1024, core.BLOCK_FIELDS),
            "arc": (2 * rows,),
            "rows": (rows, core.ROW_FIELDS),
            "plog": (max(1024, 4 * pools) if full else 0, 5),
            "llog": (4096 if full else 0, 4),
            "stage": (27 * 2048,),
        }
        self.s = self._layout(np.zeros(core.AT_UNIT, dtype=np.int64))
        s, m = self.s, self.s.m
        m[core.PHASE], m[core.FULL], m[core.STEP] = core.DISPATCH, int(full), int(step)
        m[core.UNITS], m[core.POOLS], m[core.STORES], m[core.TOP] = units, pools, len(levels), units
        m[core.WIDTH], m[core.STEP_WORDS], m[core.LAST_STEP] = width, s.step.shape[1], len(s.step) - 1
        m[core.KEEP], s.step[:, 2 * width : 3 * width] = core.BEFORE, core.NO_LEVEL
        s.unit[:, core.U_ROW], s.unit[:, core.U_RATE] = -1, 1 << core.RATE_BITS
        s.pool[:, core.P_ID], s.pool[:, core.P_CAP] = np.arange(pools), mix[:, 0]
        s.pool[:, core.P_RATE], s.pool[:, core.P_CLAIM] = 1 << core.RATE_BITS, -1
        s.store[:], s.mix[:] = levels, mix
        self._empty(slice(None))
        self._chain_deps(0)
        self.slot: dict[int, int] = {}  # block id -> line in blk

    # -- memory ---------------------------------------------------------------------------------------------

    def _layout(self, scalars: np.ndarray) -> State:
        """Fresh memory for the present shapes, with its addresses and capacities entered."""
        m = np.zeros(core.AT_UNIT + sum(math.prod(shape) for shape in self._shapes.values()), dtype=np.int64)
        m[: core.AT_UNIT] = scalars
        views, at = {}, core.AT_UNIT
        for name, shape in self._shapes.items():
            views[name] = m[at : at + math.prod(shape)].reshape(shape)
            if name in _ADDRESS:
                m[_ADDRESS[name]] = at
            at += math.prod(shape)
        s = State(m=m, **views)
        m[core.SLOTS], m[core.LIST], m[core.QUEUE] = len(s.slot), s.lists.shape[1], s.heap.shape[1]
        m[core.POOL_ROOM], m[core.LEVEL_ROOM] = len(s.plog), len(s.llog)
        return s

    def _grow(self, **shapes: tuple[int, ...]) -> None:
        """Move to a larger memory. Units, pools, stores and slots keep their addresses."""
        self._shapes.update(shapes)
        old, new = self.s, self._layout(self.s.m[: core.AT_UNIT])
        for name, source in zip(State._fields[1:], old[1:]):
            getattr(new, name)[tuple(slice(0, n) for n in source.shape)] = source
        for p, members in enumerate(new.member):
            for i in range(int(new.pool[p, core.P_ROWS])):
                k = new.slot[(int(members[i, 0]) - int(new.m[core.AT_SLOT])) // core.SLOT_FIELDS]
                at = int(
                    np.flatnonzero(k[core.X_POOL : core.X_POOL + 4] == new.m[core.AT_POOL] + p * core.POOL_FIELDS)[0]
                )
                k[core.X_PLACE + at] = new.m[core.AT_MEMBER] + 2 * (p * len(new.slot) + i)
        self.s = new
        self._empty(slice(len(old.slot), None))
        if len(new.dep) > len(old.dep):
            self._chain_deps(len(old.dep))

    def _empty(self, slots: slice) -> None:
        """Enter in fresh `slots` that no row is there."""
        s = self.s
        s.slot[slots, core.X_ROW] = -1
        s.slot[:, core.X_LANE] = s.m[core.AT_LANE] + np.arange(len(s.slot))
        s.lane[:, slots], s.lane[core.LANE_STEP, slots] = core.NEVER, core.BEFORE

    def _chain_deps(self, first: int) -> None:
        """Put the edges from `first` on into the free list."""
        s = self.s
        s.dep[first:, 0] = np.arange(first + 1, len(s.dep) + 1)
        s.dep[-1, 0] = s.m[core.DEP_FREE] if first else -1
        s.m[core.DEP_FREE] = first

    def grow_run(self) -> None:
        """Make room for at least as many running rows without a unit as are ready."""
        s = self.s
        n = _whole(2 * int(s.m[core.TOP] + s.unit[-1, core.U_HEAP] + s.unit[-1, core.U_PARK]))
        lists = (core.LISTS, max(s.lists.shape[1], n))
        self._grow(slot=(n, core.SLOT_FIELDS), lane=(core.LANES, n), member=(len(s.pool), n, 2), lists=lists)

    def grow_heap(self) -> None:
        """Make room in the queues for all rows of the busiest unit."""
        shape = (len(self.s.unit), 2 * int(self.s.unit[:, core.U_NEED].max()))
        self._grow(heap=shape, park=shape)

    def reserve_levels(self, entries: int) -> None:
        """Make room for `entries` more lines in the log of store levels."""
        need = int(self.s.m[core.LEVEL_LOG]) + entries
        if need > len(self.s.llog):
            self._grow(llog=(2 * need, 4))

    def reserve(self, rows: int, arcs: int, deps: int) -> None:
        """Make room for one more block."""
        s, m = self.s, self.s.m
        shapes: dict[str, tuple[int, ...]] = {}
        need = int(m[core.ROWS]) + rows
        if need > len(s.rows):
            size = max(need, 2 * len(s.rows))
            shapes["rows"] = (size, core.ROW_FIELDS)
            shapes["lists"] = (core.LISTS, max(s.lists.shape[1], size))
        need = int(m[core.ARCS]) + arcs + rows
        if need > len(s.arc):
            shapes["arc"] = (2 * need,)
        if 27 * rows + 1 > len(s.stage):
            shapes["stage"] = (54 * rows,)
        if int(m[core.BLOCKS]) >= len(s.blk):
            shapes["blk"] = (2 * len(s.blk), core.BLOCK_FIELDS)
        if shapes:
            self._grow(**shapes)
        while deps > 0 and self._free_deps(deps) < deps:
            self._grow(dep=(2 * len(self.s.dep), 2))

    def _free_deps(self, wanted: int) -> int:
        n, e = 0, int(self.s.m[core.DEP_FREE])
        while e >= 0 and n < wanted:
            n, e = n + 1, int(self.s.dep[e, 0])
        return n

    # -- times ----------------------------------------------------------------------------------------------

    def mix_time(self) -> np.ndarray:
        """Time spent in each stream mix, ps: int64[pools, 256]."""
        s = self.s
        spent = s.spent.copy()
        spent[np.arange(len(spent)), s.pool[:, core.P_MASK]] += int(s.m[core.NOW]) - s.pool[:, core.P_SINCE]
        return spent

    def busy_ps(self) -> np.ndarray:
        """Time each unit was held by a row, ps: int64[units]."""
        s = self.s
        busy = s.unit[:-1, core.U_BUSY].copy()
        held = s.unit[:-1, core.U_ROW]
        busy[held >= 0] += int(s.m[core.NOW]) - s.rows[held[held >= 0], core.R_START]
        return busy

    # -- admission ------------------------------------------------------------------------------------------

    def place(self, block: Block, fields: tuple[int, int, int, int], after: list[int]) -> int:
        """Copy a block's columns to the stage, and enter its line; ``fields`` = id, request, now, label."""
        n, arcs, ptr = len(block.unit), len(block.succ), block.succ_ptr
        if n == 0 or len(ptr) != n + 1 or ptr[0] != 0 or ptr[n] != arcs:
            raise BlockShapeError(f"block of {n} rows: succ_ptr needs n + 1 entries, from 0 to {arcs}, and n > 0")
        self.reserve(n, arcs, len(after))
        s, m = self.s, self.s.m
        line, arc, at = int(m[core.BLOCKS]), int(m[core.ARCS]), int(m[core.AT_STAGE])
        for column, width in zip(block, _WIDTHS):
            if column.dtype != _INT64 or column.shape != ((n,) if width == 1 else (n, width)):
                raise self._bad_column(block)
        if ptr.dtype != _INT64 or block.succ.dtype != _INT64:
            raise self._bad_column(block)
        np.concatenate([*(column.ravel() for column in block[:16]), ptr], out=m[at : at + 27 * n + 1])
        s.arc[arc : arc + arcs] = block.succ
        number, request, now, label = fields
        # fields in the order of the core: id, rows, arcs, roots, waits, state, request, emission, label, marks
        s.blk[line] = (
            *(number, int(m[core.ROWS]), n, arc, arcs, 0, 0, len(after), -1, n),
            *(0, -1, -2, request, now, label, -1, -1),
        )
        return line

    def _bad_column(self, block: Block) -> BlockShapeError:
        n = len(block.unit)
        for name, column, width in zip(Block._fields, block, (*_WIDTHS, 0, 0)):
            shape = (n,) if width == 1 else (n, width)
            if column.dtype != _INT64:
                return BlockShapeError(f"column {name!r} of a block of {n} rows is {column.dtype}; it must be int64")
            if width and column.shape != shape:
                return BlockShapeError(f"column {name!r} of a block of {n} rows has shape {column.shape}, not {shape}")
        return BlockShapeError(f"block of {n} rows is malformed")

    def commit(self, line: int, after: list[int]) -> None:
        """Count the placed block in and hang it on the blocks it waits for (lines)."""
        s, m = self.s, self.s.m
        b = s.blk[line]
        m[core.ROWS] += b[core.B_N]
        m[core.ARCS] = b[core.B_ROOT] + b[core.B_NROOT]
        m[core.BLOCKS] += 1
        self.slot[int(b[core.B_ID])] = line
        for other in after:
            e = int(m[core.DEP_FREE])
            m[core.DEP_FREE] = s.dep[e, 0]
            s.dep[e, 0], s.dep[e, 1] = s.blk[other, core.B_DEP], line
            s.blk[other, core.B_DEP] = e

    # -- retirement -----------------------------------------------------------------------------------------

    def finished(self) -> np.ndarray:
        """Lines of blocks none of whose rows can change any more."""
        return np.flatnonzero(self.s.blk[: int(self.s.m[core.BLOCKS]), core.B_LEFT] == 0)

    def row_log(self, lines: np.ndarray) -> dict[str, np.ndarray]:
        """Row columns (:data:`archsim.engine.record.ROW_LOG`) of the blocks in `lines`, in id order."""
        rows = int(self.s.blk[lines, core.B_N].sum())
        out = {name: np.empty(rows, dtype=np.int64) for name in ROW_LOG}
        retire.log_rows(self.s.m, lines, tuple(out.values()))
        self._running_progress(out)
        return out

    def _running_progress(self, out: dict[str, np.ndarray]) -> None:
        """Fill in work and lead of rows that still run."""
        s, now = self.s, int(self.s.m[core.NOW])
        for i in np.flatnonzero(out["status"] == 3):
            row = np.searchsorted(s.rows[: int(s.m[core.ROWS]), core.R_GID], out["row"][i])
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
        rate, last = int(s.slot[k, core.X_RATE]), int(s.slot[k, core.X_LAST])
        flowed = rate * (int(s.m[core.NOW]) - last)  # may pass what is left where an error came before the row's end
        return int(s.rows[row, core.R_WORK]) - max(0, int(s.slot[k, core.X_REM]) - flowed)

    def compact(self, drop: np.ndarray) -> None:
        """Remove the blocks in `drop` (lines) and renumber what refers to rows and blocks; order is kept."""
        m = self.s.m
        room = (np.empty(int(m[size]), dtype=np.int64) for size in (core.ROWS, core.BLOCKS))
        retire.compact(m, drop, *room)
        self.slot = {number: line for line, number in enumerate(self.s.blk[: int(m[core.BLOCKS]), core.B_ID].tolist())}
