"""Simulations: units, pools and stores by name, processes as generators, blocks of rows.

An instant has rounds of *complete, notify, dispatch* (see :mod:`archsim.engine.loop`); processes run in the notify
phase (:mod:`archsim.engine.notify`).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from archsim.engine import admission, core, cutting, loop, record, rows
from archsim.engine.block import Block
from archsim.engine.errors import (
    BlockShapeError,
    NameLookupError,
    RateRangeError,
    ScriptError,
    SimError,
    StoreRangeError,
    TimeRangeError,
)
from archsim.engine.estimate import uncontended
from archsim.engine.faults import admission_error, deadlock, kernel_error
from archsim.engine.handle import Handle, RowRef
from archsim.engine.machine import PoolDecl, StoreDecl, UnitDecl, find_name, mix_table, name_ids, store_levels
from archsim.engine.notify import Processes
from archsim.engine.play import Player
from archsim.engine.pools import rate_pool, rate_unit
from archsim.engine.process import Outcome, Process, Signal
from archsim.engine.record import Columns, Script, Sink, Store
from archsim.engine.results import Results
from archsim.engine.window import Window

__all__ = [
    "Handle",
    "Outcome",
    "PoolDecl",
    "Process",
    "RowRef",
    "Script",
    "Signal",
    "Sim",
    "SimError",
    "StoreDecl",
    "UnitDecl",
]


class Sim(Processes):
    """One simulation.

    Parameters
    ----------
    units, pools, stores : iterables of declarations
        Ids are positions.
    log : {"off", "tasks", "full"}
        ``tasks`` keeps rows, blocks and the script; ``full`` also pool usage per solve and level changes. The digest
        covers rows, blocks and notes in all three.
    sink : callable, optional
        ``sink(kind, columns)`` receives finished chunks of ``rows blocks notes rates script script_after script_rows
        script_edges pool_log levels_log``; they are not kept here then. Rows come in order of retirement.
    store : Store, optional
        Takes rows in place of the log and, once it is long, the script.
    script : bool
        Record what is done from outside, for :meth:`play`.
    step_ps : bool
        Move by single picoseconds instead of from event to event; for the proof that both agree.
    """

    def __init__(
        self,
        units: Iterable[UnitDecl],
        pools: Iterable[PoolDecl] = (),
        stores: Iterable[StoreDecl] = (),
        *,
        log: str = "off",
        sink: Sink | None = None,
        store: Store | None = None,
        script: bool = True,
        step_ps: bool = False,
    ) -> None:
        if log not in ("off", "tasks", "full"):
            raise NameLookupError(f"log level {log!r} is unknown; it is off, tasks or full")
        self.units, self.pools, self.stores = tuple(units), tuple(pools), tuple(stores)
        self._ids = name_ids(self.units, self.pools, self.stores)
        self.log = log
        mix, levels = mix_table(self.pools), store_levels(self.stores)
        super().__init__(Window(len(self.units), mix, levels, log == "full", step_ps))
        self._top_capacity = [max([p.capacity, *p.mix.values()]) for p in self.pools]
        self.results = Results(self.window, log, sink, store)
        later = store.append if store is not None else None
        self._recorder = record.Recorder(sink, later) if script and log != "off" else None
        self.labels: list[str] = []
        self.kinds: list[str] = []
        self._label_ids: dict[str, int] = {}
        self._kind_ids: dict[str, int] = {}
        self._next_block = 0
        self._next_row = 0

    @property
    def events(self) -> int:
        """Leads and rows ended so far."""
        return int(self.window.s.m[core.EVENTS])

    # -- blocks ---------------------------------------------------------------------------------------------

    def emit(
        self,
        block: Block,
        after: Handle | Iterable[Handle] | None = None,
        priority: int = 0,
        request: int = 0,
        label: str = "",
    ) -> Handle:
        """Add a block of rows; rows without predecessors are ready at once, or when all blocks in `after` are done.

        `priority` is added to the rows'. If a block in `after` was cut, this one is cut at once.

        Raises
        ------
        BlockShapeError, RowRangeError, WorkRangeError
            The block is malformed; nothing has been added.
        """
        handles = () if after is None else (after,) if isinstance(after, Handle) else tuple(after)
        window = self.window
        self.results.make_room()
        if abs(priority) >= 1 << 22:
            raise BlockShapeError(f"priority {priority} of block {label!r}: it must lie within 2**22 of zero")
        states = [handle.status for handle in handles]
        waits = [window.slot[handle.id] for handle, state in zip(handles, states) if state == "open"]
        index, first = self._next_block, self._next_row
        label_id = self._intern(label, self.labels, self._label_ids)
        line = window.place(block, (index, int(request), self.now, label_id), waits)
        code = admission.admit(window.s.m, line, first, priority)
        if code not in (0, admission.GROW_HEAP):
            raise admission_error(window.s, line, code, label)
        window.commit(line, waits)
        if code == admission.GROW_HEAP:
            window.grow_heap()
            if not waits:
                rows.release_roots(window.s.m, line)
        size = len(block.unit)
        self._next_block, self._next_row = index + 1, first + size
        handle = Handle(self, index, first, size, label)
        self.results.track(handle)
        if self._recorder is not None:
            self._record(record.EMIT, self._recorder.template(block), priority, int(request), label_id, len(handles))
            for other in handles:
                self._recorder.after.add(other.id)
        window.s.m[core.HAPPENED] = 1
        if "cut" in states:
            self._cut_rows(line, 0, size)
        return handle

    def cut(self, handle: Handle) -> None:
        """Cut all unfinished rows of a block and all that depends on them; no effect on what has ended."""
        self._record(record.CUT, handle.id)
        if handle.final is None:
            self._cut_rows(self.window.slot[handle.id], 0, len(handle.row_ids))

    def cut_row(self, handle: Handle, index: int) -> None:
        """Cut one row, and all that depends on it (its block's join row included)."""
        index = range(len(handle.row_ids))[index]
        self._record(record.CUT_ROW, handle.id, index)
        if handle.final is None:
            self._cut_rows(self.window.slot[handle.id], index, 1)

    def _cut_rows(self, line: int, index: int, count: int) -> None:
        window = self.window
        if self.log == "full":
            window.reserve_levels(8 * int(window.s.m[core.ROWS]))
        s = window.s
        code = cutting.cut(s.m, int(s.blk[line, core.B_ROW]) + index, count)
        self._after_edit(code)
        self.collect()

    def _after_edit(self, code: int = 0) -> None:
        """Note that something happened from outside, and raise what went wrong."""
        m = self.window.s.m
        m[core.HAPPENED] = 1
        code = code or int(m[core.ERR])
        if code:
            raise kernel_error(self, code)

    def progress(self, handle: Handle, row: int | None = None) -> tuple[int, int]:
        """Work done and asked, of a block or one of its rows (2**-28 byte)."""
        index = range(len(handle.row_ids)) if row is None else [range(len(handle.row_ids))[row]]
        if handle.final is not None:
            _, done, work = handle.final[1]
            return sum(int(done[i]) for i in index), sum(int(work[i]) for i in index)
        s = self.window.s
        first = int(s.blk[self.window.slot[handle.id], core.B_ROW])
        done_sum = sum(self.window.done(first + i) for i in index)
        return done_sum, sum(int(s.rows[first + i, core.R_WORK]) for i in index)

    def row_status(self, handle: Handle, index: int) -> str:
        """``"waiting"``, ``"running"``, ``"done"`` or ``"cut"``."""
        if handle.final is not None:
            return ("done", "cut")[int(handle.final[1][0, index])]
        s = self.window.s
        status = int(s.rows[int(s.blk[self.window.slot[handle.id], core.B_ROW]) + index, core.R_STATUS])
        return ("waiting", "waiting", "running", "running", "running", "done", "cut")[status]

    def estimate(self, block: Block) -> int:
        """Uncontended time of a block, ps: each row alone at ``min(cap, pools)``, units serialised, edges kept."""
        return uncontended(self.window.s, block)

    # -- rates, stores, marks -------------------------------------------------------------------------------

    def set_rate(self, name: str, fraction: float) -> None:
        """From now on scale the caps of rows on a unit, or a pool's capacity, by `fraction` (0 .. 4, in 2**-20)."""
        kind, index = find_name(self._ids, name, ("unit", "pool"))
        self.apply_rate(kind == "pool", index, round(fraction * (1 << core.RATE_BITS)))

    def apply_rate(self, pool: bool, index: int, rate: int) -> None:
        """:meth:`set_rate` by id and fixed-point fraction."""
        name = (self.pools if pool else self.units)[index].name
        if not 0 <= rate <= 4 << core.RATE_BITS:
            raise RateRangeError(f"rate fraction {rate / (1 << core.RATE_BITS):g} of {name!r} is outside 0 .. 4")
        if pool and self._top_capacity[index] * rate >> core.RATE_BITS >= 1 << 35:
            raise RateRangeError(f"pool {name!r} at {rate / (1 << core.RATE_BITS):g}: its capacity would reach 2**35")
        (rate_pool if pool else rate_unit)(self.window.s.m, index, rate)
        self.results.rates.add(self.now, int(pool), index, rate)
        self._record(record.RATE, int(pool), index, rate)
        self._after_edit()

    def level(self, store: str) -> int:
        """Level of a store."""
        return int(self.window.s.store[find_name(self._ids, store, ("store",))[1], core.S_LEVEL])

    def add(self, store: str, delta: int) -> None:
        """Change a store's level from outside the rows.

        Raises
        ------
        StoreRangeError
            The level would leave ``[0, capacity]``; it is unchanged.
        """
        index = find_name(self._ids, store, ("store",))[1]
        self.apply_level(index, int(delta))

    def apply_level(self, index: int, delta: int) -> None:
        """:meth:`add` by id."""
        level, capacity = (int(x) for x in self.window.s.store[index])
        if not 0 <= level + delta <= capacity:
            raise StoreRangeError(
                f"store {self.stores[index].name!r} at {level} of {capacity} cannot change by {delta:+d}"
            )
        if self.log == "full":
            self.window.reserve_levels(1)
        rows.change_level(self.window.s.m, index, delta, -1)
        self._record(record.ADD, index, delta)
        self._after_edit()

    def mark(self, handle: Handle, useful: int, total: int) -> None:
        """Record how many of a block's `total` rows turned out useful."""
        self.results.mark(handle.id, int(useful), int(total))
        self._record(record.MARK, handle.id, int(useful), int(total))

    def note(self, kind: str, request: int, value: int, extra: int = 0) -> None:
        """Record a time-stamped mark such as a committed token."""
        self.apply_note(self._intern(kind, self.kinds, self._kind_ids), int(request), int(value), int(extra))

    def apply_note(self, kind: int, request: int, value: int, extra: int) -> None:
        """:meth:`note` by id."""
        self.results.note(self.now, kind, request, value, extra)
        self._record(record.NOTE, kind, request, value, extra)

    # -- running --------------------------------------------------------------------------------------------

    def run(self, until_ps: int | None = None) -> None:
        """Run to the end, or until everything up to and at `until_ps` has happened.

        Raises
        ------
        SimError
            A subclass says what went wrong; the simulation cannot be continued.
        """
        self._run(core.NEVER if until_ps is None else int(until_ps), None)

    def play(self, script: Script, until_ps: int | None = None) -> None:
        """Do again what `script` recorded, in place of processes; the results are identical bit for bit."""
        if self.processes or self._next_block:
            raise ScriptError("a script is played in a fresh simulation without processes")
        for kind in script.kinds:
            self._intern(kind, self.kinds, self._kind_ids)
        self._run(core.NEVER if until_ps is None else int(until_ps), Player(self, script))

    def _run(self, until: int, player: Player | None) -> None:
        if until < self.now:
            raise TimeRangeError(f"cannot run until {until} ps: it is {self.now} ps already")
        code = core.NOTIFY
        while True:
            if code == core.NOTIFY:
                self.collect()
                self.notify()
                if player is not None:
                    player.act()
            elif code == core.GROW_RUN:
                self.window.grow_run()
            elif code == core.FLUSH:
                self.results.drain()
            elif code in (core.IDLE, core.UNTIL):
                break
            else:
                raise kernel_error(self, code)
            stop, stop_round = self.next_timer() if player is None else player.next_stop()
            code = loop.advance(self.window.s.m, stop, stop_round, until)
        if code == core.IDLE:
            error = deadlock(self)
            if error is not None:
                raise error
            if player is not None and player.next_stop()[0] != core.NEVER:
                raise ScriptError("the run ended before the script did; it was recorded in another system")

    # -- results --------------------------------------------------------------------------------------------

    def rows(self) -> Columns:
        """Rows by ascending id (those that went to the sink excepted), int64 columns of ``ROW_LOG``.

        ``status``: 0 done, 1 cut, 2 never started, 3 running. ``start_ps`` is -1 for a row that never started (it
        may have been cut), ``flow_ps`` -1 for one that never passed its lead. ``lead_ps`` is the lead that elapsed.
        With ``log="off"`` only rows still in the window are left.
        """
        return self.results.row_columns()

    def blocks(self) -> Columns:
        """Blocks by ascending id: ``status`` 0 done, 1 cut, 2 open; ``useful`` and ``total`` are -1 if never marked.

        ``label`` indexes :attr:`labels`.
        """
        return self.results.block_columns()

    def notes(self) -> Columns:
        """Notes in order; ``kind`` indexes :attr:`kinds`."""
        return self.results.notes.columns()

    def rates(self) -> Columns:
        """Rate changes in order: ``pool`` 0 for a unit and 1 for a pool, ``id``, ``rate`` in 2**-20."""
        return self.results.rates.columns()

    @property
    def keeps_script(self) -> bool:
        """Whether :meth:`script` has the script: it was recorded, and is not in the store or sink."""
        return self._recorder is not None and self._recorder.keeps

    def script(self) -> Script:
        """What was done to this run, for :meth:`play`."""
        if self._recorder is None:
            raise ScriptError('log="off" records no script; use "tasks" or "full"')
        return self._recorder.script(self.labels, self.kinds)

    def pool_log(self) -> Columns:
        """Per solve and pool: time, mix mask, capacity and usage (rounded up). Only with ``log="full"``."""
        self.results.drain()
        return self.results.pools.columns()

    def levels_log(self) -> Columns:
        """Level of a store after each change, and the row that made it (-1: none). Only with ``log="full"``."""
        self.results.drain()
        return self.results.levels.columns()

    def mix_time(self) -> np.ndarray:
        """Time spent in each stream mix, ps: int64[pools, 256]."""
        return self.window.mix_time()

    def busy_ps(self) -> np.ndarray:
        """Time each unit was held by a row, ps: int64[units]."""
        return self.window.busy_ps()

    def digest(self) -> str:
        """Sha256 (hex) over the values of the row, block and note columns, whatever the log level and the sink."""
        return self.results.digest()

    def flush(self) -> None:
        """Hand everything to the sink but blocks that have not ended (:meth:`rows` and :meth:`blocks` keep those).

        Call it after the last :meth:`run`; marks must be set before.
        """
        self.results.flush()
        if self._recorder is not None:
            self._recorder.flush()

    # -- names ----------------------------------------------------------------------------------------------

    def _intern(self, text: str, names: list[str], ids: dict[str, int]) -> int:
        index = ids.get(text)
        if index is None:
            index = ids[text] = len(names)
            names.append(text)
        return index

    def _record(self, kind: int, a: int = 0, b: int = 0, c: int = 0, d: int = 0, e: int = 0) -> None:
        if self._recorder is not None:
            m = self.window.s.m
            self._recorder.actions.add(int(m[core.NOW]), int(m[core.ROUND]), kind, a, b, c, d, e)
