"""The engine again, slow and plain: Python integers and fractions, no shared code with the kernels.

It plays a script and gives the row table. Every rule is written the way it is stated: queues are searched, shares
are filled one row or pool at a time, and all waiting rows are looked at in every round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from archsim.engine.errors import DeadlockError, StoreRangeError
from archsim.engine.record import ADD, CUT, CUT_ROW, EMIT, RATE, ROW_LOG, Script

PENDING, READY, LEAD, FLOW, GIVING, DONE, GONE = ["pending", "ready", "lead", "flow", "giving", "done", "cut"]
UNCAPPED = 1 << 62
FASTEST = 1 << 48
WHOLE = 1 << 20


@dataclass(eq=False)
class Row:
    """One task row and its fate."""

    id: int
    block: OracleBlock
    unit: int
    priority: int
    weight: int
    lead: int
    work: int
    cap: int
    draws: list[tuple[int, int]]  # (pool, coef)
    claim: int
    stream: int
    changes: list[tuple[int, int, int, int]]  # (store, at start, at end, mode)
    heir: int
    op: int
    status: str = PENDING
    pending: int = 0
    followers: list[Row] = field(default_factory=list)
    start: int = -1
    flow: int = -1
    end: int = -1
    lead_left: int = 0
    left: int = 0
    taken: bool = False
    rate: int = 0

    @property
    def running(self) -> bool:
        """Whether the row holds its unit, claim and stores."""
        return self.status in (LEAD, FLOW, GIVING)


@dataclass(eq=False)
class OracleBlock:
    """One emitted block."""

    id: int
    request: int
    label: int
    emitted: int
    rows: list[Row] = field(default_factory=list)
    waits: int = 0
    dependents: list[OracleBlock] = field(default_factory=list)

    @property
    def join(self) -> Row:
        """The last row."""
        return self.rows[-1]


class Oracle:
    """Plays a script. Declarations are those of :class:`archsim.engine.sim.Sim`."""

    def __init__(self, units: Sequence[Any], pools: Sequence[Any], stores: Sequence[Any]) -> None:
        self.now = 0
        self.pools, self.capacity = pools, [store.capacity for store in stores]
        self.level = [store.level for store in stores]
        self.unit_rate = [WHOLE] * len(units)
        self.pool_rate = [WHOLE] * len(pools)
        self.units = range(len(units))
        self.blocks: list[OracleBlock] = []
        self.all: list[Row] = []
        self.mix_time: dict[tuple[int, int], int] = {}
        self.events = 0

    # -- time -----------------------------------------------------------------------------------------------

    def play(self, script: Script) -> dict[str, np.ndarray]:
        """Run to the end; returns the row columns. Raises what the engine raises for stores and deadlock."""
        actions: dict[tuple[int, int], list[tuple[int, ...]]] = {}
        for time, turn, *action in script.steps():
            actions.setdefault((time, turn), []).append(tuple(action))
        self._script, self._after = script, iter(script.after.tolist())
        while True:
            self._instant(actions)
            self._share()
            times = [self.now + row.lead_left for row in self.all if row.status == LEAD]
            times += [self.now - (-row.left // row.rate) for row in self.all if row.status == FLOW and row.rate > 0]
            times += [time for time, _ in actions]
            if not times:
                break
            self._move(min(times) - self.now)
        if any(row.status not in (DONE, GONE) for row in self.all):
            raise DeadlockError(f"deadlock at {self.now} ps")
        return self.columns()

    def _instant(self, actions: dict[tuple[int, int], list[tuple[int, ...]]]) -> None:
        """All rounds of the present instant."""
        turn = 0
        while True:
            changed = self._complete()
            for action in actions.pop((self.now, turn), ()):
                self._act(*action)
                changed = True
            changed |= self._dispatch()
            later = [r for time, r in actions if time == self.now]
            if changed:
                turn += 1
            elif later:
                turn = min(later)
            else:
                return

    def _move(self, ps: int) -> None:
        for p in range(len(self.pools)):
            key = (p, self._mix(p))
            self.mix_time[key] = self.mix_time.get(key, 0) + ps
        for row in self.all:
            if row.status == LEAD:
                row.lead_left -= ps
            elif row.status == FLOW:
                row.left = max(row.left - row.rate * ps, 0)
        self.now += ps

    # -- rounds ---------------------------------------------------------------------------------------------

    def _complete(self) -> bool:
        changed = False
        for row in self.all:
            if row.status == LEAD and row.lead_left == 0:
                changed = True
                if row.lead > 0:
                    self.events += 1
                row.flow = self.now
                row.status, row.left = FLOW, row.work
                if row.work > 0:
                    continue
            if row.status == FLOW and row.left == 0:
                changed |= self._finish(row)
        while sum(self._finish(row) for row in self.all if row.status == GIVING):
            changed = True
        return changed

    def _finish(self, row: Row) -> bool:
        for store, _, give, mode in row.changes:
            if not 0 <= self.level[store] + give <= self.capacity[store]:
                if mode & 2:
                    raise StoreRangeError(f"end of row {row.id}: store {store}")
                first = row.status != GIVING
                row.status = GIVING
                return first
        for store, _, give, _ in row.changes:
            self.level[store] += give
        row.status, row.end = DONE, self.now
        self.events += 1
        if row.heir >= 0 and row.block.rows[row.heir].status == GONE:
            self._undo(row)
        for other in row.followers:
            other.pending -= 1
            self._try_ready(other)
        if row is row.block.join:
            for block in row.block.dependents:
                block.waits -= 1
                for other in block.rows:
                    self._try_ready(other)
        return True

    def _try_ready(self, row: Row) -> None:
        if row.status == PENDING and row.pending == 0 and row.block.waits == 0:
            row.status = READY

    def _undo(self, row: Row) -> None:
        if not row.taken:
            return
        row.taken = False
        for store, take, _, _ in row.changes:
            self.level[store] -= take
            if not 0 <= self.level[store] <= self.capacity[store]:
                raise StoreRangeError(f"cut of row {row.id}: store {store}")

    def _dispatch(self) -> bool:
        changed = False
        for unit in [*self.units, -1]:
            if unit >= 0 and any(row.running and row.unit == unit for row in self.all):
                continue
            ready = [row for row in self.all if row.status == READY and row.unit == unit]
            for row in sorted(ready, key=lambda row: (row.priority, row.id)):
                if not self._can_start(row):
                    continue
                self._start(row)
                changed = True
                if unit >= 0:
                    break
        return changed

    def _can_start(self, row: Row) -> bool:
        if row.claim >= 0 and self._owner(row.claim) is not None:
            return False
        misfits = [c for c in row.changes if not 0 <= self.level[c[0]] + c[1] <= self.capacity[c[0]]]
        if misfits and all(mode & 1 for *_, mode in misfits):
            raise StoreRangeError(f"start of row {row.id}: store {misfits[0][0]}")
        return not misfits

    def _owner(self, pool: int) -> Row | None:
        return next((row for row in self.all if row.running and row.claim == pool), None)

    def _start(self, row: Row) -> None:
        for store, take, _, _ in row.changes:
            self.level[store] += take
        row.taken = True
        row.status, row.start, row.lead_left = LEAD, self.now, row.lead
        if row.lead == 0:
            row.flow = self.now
            if row.work > 0:
                row.status, row.left = FLOW, row.work

    # -- shares ---------------------------------------------------------------------------------------------

    def _cap(self, row: Row) -> int:
        rate = self.unit_rate[row.unit] if row.unit >= 0 else WHOLE
        if row.cap == UNCAPPED:
            return FASTEST if rate else 0
        return row.cap * rate // WHOLE

    def _moving(self) -> list[Row]:
        """Rows past their lead that neither a stopped unit nor another row's claim holds."""
        moving = []
        for row in self.all:
            if row.status == FLOW and self._cap(row) > 0:
                owners = [self._owner(p) for p, _ in row.draws]
                if all(owner is None or owner is row for owner in owners):
                    moving.append(row)
        return moving

    def _mix(self, pool: int) -> int:
        mask = 0
        for row in self._moving():
            if row.stream > 0 and any(p == pool for p, _ in row.draws):
                mask |= 1 << row.stream
        return mask

    def _share(self) -> None:
        """Raise the level from 0; freeze the row or pool that is reached first, and go on with the rest."""
        for row in self.all:
            row.rate = 0
        moving = self._moving()
        left = {}
        for p, pool in enumerate(self.pools):
            mask = self._mix(p)
            left[p] = (pool.mix.get(mask, pool.capacity) * self.pool_rate[p] // WHOLE) * WHOLE
        while moving:
            reached = [(Fraction(self._cap(row), row.weight), 0, row.id) for row in moving]
            load = dict.fromkeys(left, 0)
            for row in moving:
                for p, coef in row.draws:
                    load[p] += row.weight * coef
            reached += [(Fraction(left[p], load[p]), 1, p) for p in left if load[p] > 0]
            level, kind, which = min(reached)
            for row in list(moving):
                if kind == 0 and row.id == which:
                    row.rate = self._cap(row)
                elif kind == 1 and any(p == which for p, _ in row.draws):
                    row.rate = int(row.weight * level)
                else:
                    continue
                moving.remove(row)
                for p, coef in row.draws:
                    left[p] -= coef * row.rate

    # -- actions --------------------------------------------------------------------------------------------

    def _act(self, kind: int, a: int, b: int, c: int, d: int, e: int) -> None:
        if kind == EMIT:
            self._emit(self._script.templates[a], b, c, d, [self.blocks[next(self._after)] for _ in range(e)])
        elif kind == CUT:
            self._cut(list(self.blocks[a].rows))
        elif kind == CUT_ROW:
            self._cut([self.blocks[a].rows[b]])
        elif kind == RATE:
            (self.pool_rate if a else self.unit_rate)[b] = c
        elif kind == ADD:
            self.level[a] += b

    def _emit(self, template: Any, priority: int, request: int, label: int, after: list[OracleBlock]) -> None:
        block = OracleBlock(len(self.blocks), request, label, self.now)
        self.blocks.append(block)
        columns = {name: getattr(template, name).tolist() for name in template._fields}
        for i in range(len(columns["unit"])):
            draws = [(p, k) for p, k in zip(columns["pool"][i], columns["coef"][i]) if p >= 0 and k > 0]
            stores = zip(*(columns[name][i] for name in ("store", "store_start", "store_end", "store_mode")))
            row = Row(
                id=len(self.all),
                block=block,
                draws=draws,
                changes=[change for change in stores if change[0] >= 0],
                priority=columns["priority"][i] + priority,
                **{
                    name: columns[name][i]
                    for name in ["unit", "weight", "lead", "work", "cap", "claim", "stream", "heir", "op"]
                },
            )
            block.rows.append(row)
            self.all.append(row)
        ptr, succ = columns["succ_ptr"], columns["succ"]
        for i, row in enumerate(block.rows):
            row.followers = [block.rows[j] for j in succ[ptr[i] : ptr[i + 1]]]
            for other in row.followers:
                other.pending += 1
        for other in after:
            if other.join.status not in (DONE, GONE):
                block.waits += 1
                other.dependents.append(block)
        for row in block.rows:
            self._try_ready(row)
        if any(other.join.status == GONE for other in after):
            self._cut(list(block.rows))

    def _cut(self, rows: list[Row]) -> None:
        while rows:
            row = rows.pop()
            if row.status in (DONE, GONE):
                continue
            if row.running:
                self._undo(row)
            if row.status == GIVING:
                row.left = 0
            elif row.status != FLOW:
                row.left = row.work
            row.status, row.end = GONE, self.now
            rows += row.followers
            if row is row.block.join:
                rows += [other for block in row.block.dependents for other in block.rows]
        for row in self.all:
            if row.status == DONE and row.heir >= 0 and row.block.rows[row.heir].status == GONE:
                self._undo(row)

    # -- results --------------------------------------------------------------------------------------------

    def columns(self) -> dict[str, np.ndarray]:
        """Row columns as :meth:`archsim.engine.sim.Sim.rows` gives them."""
        table = [
            (
                row.id,
                row.unit,
                row.op,
                row.block.id,
                row.block.request,
                row.priority,
                row.start,
                row.flow,
                row.end,
                {DONE: 0, GONE: 1, PENDING: 2, READY: 2}.get(row.status, 3),
                row.work,
                row.work if row.status == DONE else row.work - row.left if row.flow >= 0 else 0,
                self._led(row),
            )
            for row in self.all
        ]
        values = np.array(table, dtype=np.int64).reshape(-1, len(ROW_LOG))
        return {name: values[:, i].copy() for i, name in enumerate(ROW_LOG)}

    def _led(self, row: Row) -> int:
        if row.start < 0:
            return 0
        return row.lead if row.flow >= 0 else (row.end if row.end >= 0 else self.now) - row.start
