"""Which unit owns the time of a run, and what more of it could give at most.

The last row is followed back along what it waited for: the row that ended at the instant it started, in the same
block if there is one (a dependency or a slot given back), else on the same unit (the queue), else anywhere (the
block was emitted because of it). The stretch of every row on that path belongs to its unit, leads and stalls at a
full pool included; time in which nothing on the path ran is ``wait``. This is an approximation of the critical
path: the trace holds times, not edges, and rows that ended at one instant cannot be told apart.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from archsim.jit import warm_up
from archsim.report.background import background_rows, has_background
from archsim.report.latency import busy_ps
from archsim.report.path import follow
from archsim.report.sums import cached
from archsim.trace import DONE, Trace
from archsim.units import PS_PER_S, InputError, show

WAIT = "wait"


class Path(NamedTuple):
    """Stretches of the path from the end of a run back to its start; they cover the run.

    Attributes
    ----------
    row : int64[stretches]
        Position in ``rows``, or -1 for time in which the path waited.
    start_ps, end_ps : int64[stretches]
        The stretch.
    """

    row: np.ndarray
    start_ps: np.ndarray
    end_ps: np.ndarray

    def of(self, column: np.ndarray) -> np.ndarray:
        """What `column` of ``rows`` says of each stretch, -1 where the path waited."""
        found = np.full(len(self.row), -1)
        found[self.row >= 0] = column[self.row[self.row >= 0]]
        return found


def walk(trace: Trace) -> Path:
    """The path of a run, found once for each trace."""
    return cached(trace, _walk)


def _walk(trace: Trace) -> Path:
    rows = trace.rows
    ran = np.flatnonzero(trace.ran & (rows["unit"] >= 0) & (trace.row_end_ps > rows["start_ps"]) & ~_beside(trace))
    ran = ran[np.argsort(trace.row_end_ps[ran], kind="stable")]
    start, unit, block = (rows[name][ran].astype(np.int64, copy=False) for name in ("start_ps", "unit", "block"))
    end = trace.row_end_ps[ran]
    warm_up()
    on = follow(start, end, unit, block, trace.duration_ps)
    row, begin, finish = np.full((3, 2 * len(on) + 1), -1)  # waits and rows in turn
    row[1::2], begin[1::2], finish[1::2] = ran[on], start[on], end[on]
    begin[::2], finish[::2] = np.append(end[on], 0), np.append(trace.duration_ps, start[on])
    lasts = finish > begin
    return Path(row[lasts], begin[lasts], finish[lasts])


def _beside(trace: Trace) -> np.ndarray:
    """Rows of background streams that no row of the job can have waited for: on units of their own, or cut at the end.

    What a stream holds of a shared unit (a load in flash's queue) may stand on the path.
    """
    if not has_background(trace):
        return np.zeros(len(trace.rows["row"]), dtype=bool)
    own = np.array([name.endswith(".burst") for name in trace.unit_names] + [False])
    return background_rows(trace) & (own[trace.rows["unit"]] | (trace.rows["status"] != DONE))


def owner(trace: Trace) -> dict[str, float]:
    """Seconds of the run that each unit owns, largest first; they add up to the run's time."""
    path = walk(trace)
    names = [*trace.unit_names, WAIT]
    owned = np.zeros(len(names), dtype=np.int64)
    np.add.at(owned, path.of(trace.rows["unit"]), path.end_ps - path.start_ps)
    found = {name: ps for name, ps in zip(names, owned.tolist()) if ps}
    return {name: ps / PS_PER_S for name, ps in sorted(found.items(), key=lambda item: (-item[1], item[0]))}


def gains(trace: Trace, more: float = 0.1) -> dict[str, float]:
    """Upper bound of the seconds that `more` (0.1: 10 % more) of each device would save, largest first.

    Time that a device owns shrinks to 1 / (1 + more) of itself; nothing else gets faster, and another path may
    become the longest one, so the saving is at most this much while the schedule decides the same.
    """
    if not more > 0:
        raise InputError(f"more = {more}: it must be positive (0.1 is 10 % more)")
    saved: dict[str, float] = {}
    for unit, seconds in owner(trace).items():
        if unit != WAIT:
            device = unit.split(".", 1)[0]
            saved[device] = saved.get(device, 0.0) + seconds * (1 - 1 / (1 + more))
    return dict(sorted(saved.items(), key=lambda item: (-item[1], item[0])))


def sentence(trace: Trace, more: float = 0.1) -> str:
    """Say who owns the time and what more of it gives at most, in one or two sentences."""
    total = trace.duration_ps / PS_PER_S
    if not busy_ps(trace):
        return "No unit did anything in this run."
    shares = [f"{name} {seconds / total:.0%}" for name, seconds in owner(trace).items() if seconds >= 0.005 * total]
    bounds = [
        f"{more:.0%} more {device} saves at most {show(seconds, 's')} ({seconds / total:.1%})"
        for device, seconds in list(gains(trace, more).items())[:3]
    ]
    return f"Of {show(total, 's')}: {', '.join(shares)}. At this schedule, {'; '.join(bounds)}."
