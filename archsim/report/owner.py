"""Which unit owns the time of a run, and what more of it could give at most.

The last row is followed back along what it waited for: the row that ended at the instant it started, in the same
block if there is one (a dependency or a slot given back), else on the same unit (the queue), else anywhere (the
block was emitted because of it). The stretch of every row on that path belongs to its unit, leads and stalls at a
full pool included; time in which nothing on the path ran is ``wait``. This is an approximation of the critical
path: the trace holds times, not edges, and rows that ended at one instant cannot be told apart.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

import numpy as np

from archsim.report.background import background_rows, has_background
from archsim.report.latency import busy_ps
from archsim.trace import DONE, Trace
from archsim.units import PS_PER_S, InputError, show

WAIT = "wait"


def walk(trace: Trace) -> Iterator[tuple[int, int, int]]:
    """Rows on the path from the end of the run back to its start.

    Yields
    ------
    row, start_ps, end_ps
        From last to first; `row` is a position in ``rows``, or -1 for time in which the path waited.
    """
    rows = trace.rows
    ran = np.flatnonzero(trace.ran & (rows["unit"] >= 0) & (trace.row_end_ps > rows["start_ps"]) & ~_beside(trace))
    ran = ran[np.argsort(trace.row_end_ps[ran], kind="stable")]
    start, unit, block = (rows[name][ran] for name in ("start_ps", "unit", "block"))
    end = trace.row_end_ps[ran]
    now, current = trace.duration_ps, -1
    while now > 0:
        reach = bisect_right(end, now)
        if reach == 0:
            yield -1, 0, now
            return
        if end[reach - 1] < now:
            yield -1, int(end[reach - 1]), now
            now = int(end[reach - 1])
        first = bisect_left(end, now, 0, reach)
        if current >= 0:
            here = block[current], unit[current]
            current = max(range(first, reach), key=lambda i: (block[i] == here[0], unit[i] == here[1], i))
        else:
            current = reach - 1
        yield int(ran[current]), int(start[current]), now
        now = int(start[current])


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
    owned: dict[str, int] = {}
    for row, start, end in walk(trace):
        name = WAIT if row < 0 else trace.unit_names[trace.rows["unit"][row]]
        owned[name] = owned.get(name, 0) + end - start
    return {name: ps / PS_PER_S for name, ps in sorted(owned.items(), key=lambda item: (-item[1], item[0]))}


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
