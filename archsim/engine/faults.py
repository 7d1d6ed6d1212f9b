"""Turn return codes and stuck states of the kernels into errors that say what, where and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from archsim.engine import admission, core
from archsim.engine.errors import (
    BlockShapeError,
    DeadlockError,
    RowRangeError,
    ShareRangeError,
    SimError,
    StoreRangeError,
    TimeRangeError,
    WorkRangeError,
    ZeroTimeLoopError,
)

if TYPE_CHECKING:
    from archsim.engine.sim import Sim
    from archsim.engine.window import State

LISTED = 50  # rows that a message lists one by one

_RULES = {
    admission.BAD_UNIT: ("unit {unit} does not exist", RowRangeError),
    admission.BAD_PRIORITY: ("priority {priority} is outside -2**22 .. 2**22", RowRangeError),
    admission.BAD_WEIGHT: ("weight {weight} is outside 1 .. 2**30", RowRangeError),
    admission.BAD_LEAD: ("lead {lead} ps is outside 0 .. 2**60", RowRangeError),
    admission.BAD_WORK: ("work {work} is negative or above 32 GiB (2**63); split the row", WorkRangeError),
    admission.BAD_CAP: ("cap {cap} is neither in 0 .. 2**41 nor NO_CAP", RowRangeError),
    admission.BAD_POOL: ("a pool id is unknown", RowRangeError),
    admission.BAD_COEF: ("a coefficient is outside 0 .. 2**41", RowRangeError),
    admission.BAD_SUM: ("weight {weight} times a coefficient reaches 2**56; use a smaller weight", RowRangeError),
    admission.BAD_CLAIM: ("claimed pool {claim} does not exist", RowRangeError),
    admission.BAD_STREAM: ("stream {stream} is outside 0 .. 7", RowRangeError),
    admission.BAD_STORE: ("a store id is unknown", RowRangeError),
    admission.BAD_TWICE: ("both store references name one store; add the changes up", RowRangeError),
    admission.BAD_MODE: ("a store mode is outside 0 .. 3", RowRangeError),
    admission.BAD_HEIR: ("heir {heir} is no row of the block", RowRangeError),
    admission.BAD_EDGE: ("succ_ptr falls, or a successor is no row of the block", BlockShapeError),
    admission.BAD_JOIN: ("the join row (the last) must have unit -1, lead 0 and work 0", BlockShapeError),
    admission.BAD_SINK: ("every row but the last (the join row) needs a successor, and the last none", BlockShapeError),
    admission.BAD_CYCLE: ("the edges close a cycle", BlockShapeError),
}
_COLUMNS = {
    "unit": core.R_UNIT,
    "priority": core.R_PRIO,
    "weight": core.R_WEIGHT,
    "lead": core.R_LEAD,
    "work": core.R_WORK,
    "cap": core.R_CAP,
    "claim": core.R_CLAIM,
    "stream": core.R_STREAM,
    "heir": core.R_HEIR,
}


def admission_error(s: State, line: int, code: int, label: str) -> SimError:
    """Error for a block that :func:`admission.admit` refused."""
    index = int(s.m[core.ERR_ROW])
    row = s.rows[int(s.blk[line, core.B_ROW]) + index]
    text, kind = _RULES[code]
    values = {name: int(row[column]) for name, column in _COLUMNS.items()}
    where = f"row {index} of block {label!r}" if label else f"row {index} of the block"
    return kind(f"{where}: {text.format(**values)}")


def kernel_error(sim: Sim, code: int) -> SimError:
    """Error for a code ``E_*`` of the kernels."""
    s, now = sim.window.s, sim.now
    row, what = int(s.m[core.ERR_ROW]), int(s.m[core.ERR_A])
    if code == core.E_ROUNDS:
        return ZeroTimeLoopError(
            f"more than {core.MAX_ROUNDS} rounds at {now} ps: processes or rows go in a circle without taking time"
        )
    if code == core.E_TIME:
        return TimeRangeError(f"the next event after {now} ps lies beyond 2**62 ps: a row flows too slowly")
    if code == core.E_SUM:
        return ShareRangeError(
            f"pool {sim.pools[what].name!r} at {now} ps: the rows on it reach a sum of weight * coef of 2**56, or are "
            "more than 511; use smaller weights"
        )
    store = sim.stores[what]
    column = {core.E_TAKE: core.R_TAKE, core.E_GIVE: core.R_GIVE, core.E_UNDO: core.R_TAKE}[code]
    delta = sum(int(s.rows[row, column + j]) for j in range(2) if int(s.rows[row, core.R_STORE + j]) == what)
    verb = {core.E_TAKE: "start", core.E_GIVE: "end", core.E_UNDO: "cut"}[code]
    delta = -delta if code == core.E_UNDO else delta
    return StoreRangeError(
        f"{verb} of {_row(sim, row)} at {now} ps: store {store.name!r} at {int(s.store[what, core.S_LEVEL])} of "
        f"{store.capacity} cannot change by {delta:+d}"
    )


def deadlock(sim: Sim) -> DeadlockError | None:
    """Error that lists what waits for what, or None if nothing waits."""
    s = sim.window.s
    waiting = [p for p in sim.processes if not p.finished and not p.daemon]
    rows = np.flatnonzero(s.rows[: int(s.m[core.ROWS]), core.R_STATUS] < core.DONE)
    if not waiting and not len(rows):
        return None
    processes = [f"{p} waits for {p.waits_for}" for p in waiting]
    status = s.rows[rows, core.R_STATUS]
    active = [f"{_row(sim, int(row))} {_reason(sim, int(row))}" for row in rows[status != core.PENDING]]
    pending = [f"{_row(sim, int(row))} {_reason(sim, int(row))}" for row in rows[status == core.PENDING]]
    stores = [
        f"store {store.name!r} is at {int(s.store[i, core.S_LEVEL])} of {store.capacity}"
        for i, store in enumerate(sim.stores)
    ]
    listed = active[:LISTED] + pending[: max(0, LISTED - len(active))]
    left = len(active) + len(pending) - len(listed)
    more = [f"and {left} more rows (all in error.rows)"] if left else []
    error = DeadlockError(f"deadlock at {sim.now} ps: " + "; ".join(processes + listed + more + stores))
    error.processes, error.rows, error.stores = processes, active + pending, stores
    return error


def _row(sim: Sim, row: int) -> str:
    s = sim.window.s
    line = s.blk[int(s.rows[row, core.R_BLK])]
    unit = int(s.rows[row, core.R_UNIT])
    label = sim.labels[int(line[core.B_LABEL])]
    name = f" {label!r}" if label else ""
    on = f" on {sim.units[unit].name!r}" if unit >= 0 else ""
    return f"row {row - int(line[core.B_ROW])} of block {int(line[core.B_ID])}{name}{on}"


def _reason(sim: Sim, row: int) -> str:
    s = sim.window.s
    r = s.rows[row]
    status = int(r[core.R_STATUS])
    if status == core.PENDING:
        blocks = int(s.blk[int(r[core.R_BLK]), core.B_WAIT])
        parts = [f"{int(r[core.R_PEND])} rows"] if r[core.R_PEND] else []
        return "waits for " + " and ".join(parts + ([f"{blocks} blocks"] if blocks else []))
    if status == core.FLOW:
        return _stall(sim, row)
    claim = int(r[core.R_CLAIM])
    if status == core.READY and claim >= 0 and int(s.pool[claim, core.P_CLAIM]) >= 0:
        return f"waits for the claim on pool {sim.pools[claim].name!r} of {_row(sim, int(s.pool[claim, core.P_CLAIM]))}"
    column, verb = (core.R_GIVE, "end") if status == core.ENDWAIT else (core.R_TAKE, "start")
    for j in range(2):
        i = int(r[core.R_STORE + j])
        if i >= 0 and not 0 <= int(s.store[i, core.S_LEVEL]) + int(r[column + j]) <= sim.stores[i].capacity:
            return f"waits for store {sim.stores[i].name!r} to {verb} with {int(r[column + j]):+d}"
    unit = int(r[core.R_UNIT])
    return f"waits for unit {sim.units[unit].name!r} held by {_row(sim, int(s.unit[unit, core.U_ROW]))}"


def _stall(sim: Sim, row: int) -> str:
    """Why a row that has passed its lead has share 0."""
    s = sim.window.s
    unit = int(s.rows[row, core.R_UNIT])
    if unit >= 0 and int(s.unit[unit, core.U_RATE]) == 0:
        return f"is stalled: unit {sim.units[unit].name!r} has rate 0"
    for j in range(4):
        p = int(s.rows[row, core.R_POOL + j])
        if p >= 0 and int(s.rows[row, core.R_COEF + j]) > 0:
            owner = int(s.pool[p, core.P_CLAIM])
            if owner not in (-1, row):
                return f"is stalled: pool {sim.pools[p].name!r} is claimed by {_row(sim, owner)}"
    for j in range(4):
        p = int(s.rows[row, core.R_POOL + j])
        if p >= 0 and int(s.rows[row, core.R_COEF + j]) > 0 and int(s.pool[p, core.P_CAP]) == 0:
            return f"is stalled: pool {sim.pools[p].name!r} has capacity 0"
    return "is stalled: its share rounds down to 0"
