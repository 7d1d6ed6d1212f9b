"""Pools: what was asked of them was served or left over, and never faster than they can."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from archsim.report.invariants.view import View, fail, first
from archsim.trace import DONE
from archsim.units import WORK_ONE

#: Unit of coefficients.
COEF_ONE = 1 << 20
#: Relative error of sums in floating point; the engine's own sums are exact.
ROUNDING = 1e-9
_RAISES_AT_END = 2  # bit of a store's mode: the end raises instead of waiting


@dataclass(frozen=True)
class Supplied:
    """Ledger of one pool, in its unit: ``asked`` by rows that were emitted, ``served``, and ``left`` by those cut."""

    unit: str
    asked: float
    served: float
    left: float

    def to_json(self) -> dict[str, Any]:
        """Plain data with the unit in the keys."""
        unit = "bytes" if self.unit == "bytes/s" else f"{self.unit.replace(' ', '_').replace('/s', '')}_seconds"
        return {f"asked_{unit}": self.asked, f"served_{unit}": self.served, f"left_{unit}": self.left}


def check_bytes(view: View) -> tuple[int, dict[str, Supplied]]:
    """Each row was given the work that was emitted, and what it did and left is what it asked of its pools.

    Returns
    -------
    count, ledgers
        Comparisons made, and the ledger of each pool by name.
    """
    rows = view.rows
    for column, name in (("work", "work"), ("unit", "unit"), ("op", "op")):
        bad = rows[column] != view.asked(name)
        if bad.any():
            i, more = first(bad)
            fail("bytes", f"row {i} has {column} {rows[column][i]}, but {view.asked(name)[i]} was emitted", more)
    ledgers, checked = {}, 3 * len(rows["work"])
    for pool, (drawn, coef) in zip(view.trace.manifest["pools"], view.pool_coef):
        work, done = rows["work"][drawn].astype(float), rows["done"][drawn].astype(float)
        left = np.where(rows["status"][drawn] == DONE, 0.0, work - done)
        asked, served, over = (float((part * coef).sum()) / COEF_ONE for part in (work, done, left))
        if abs(asked - served - over) > ROUNDING * max(asked, 1.0):
            fail(
                "bytes",
                f"pool {pool['name']}: {asked:.9g} asked, {served:.9g} served and {over:.9g} left do not add up",
            )
        one = WORK_ONE if pool["unit"] == "bytes/s" else WORK_ONE * 10**12
        ledgers[pool["name"]] = Supplied(pool["unit"], asked / one, served / one, over / one)
        checked += 1
    return checked, ledgers


class Capacity(NamedTuple):
    """Capacity of a pool over time: from ``time_ps[i]`` on ``rate[i]`` (2**-28 byte a ps), ``total[i]`` since 0."""

    time_ps: np.ndarray
    rate: np.ndarray
    total: np.ndarray

    def until(self, time_ps: np.ndarray) -> np.ndarray:
        """What the pool can have served from 0 to each time."""
        place = np.searchsorted(self.time_ps, time_ps, "right") - 1
        return self.total[place] + self.rate[place] * (time_ps - self.time_ps[place])


def check_pools(view: View) -> int:
    """No row was faster than its cap, and no group of rows that ran together faster than their pool.

    Groups are the rows of each stretch of time in which the pool was never without a row: those that ended by the end
    of each row, and those that began from the start of each row on. Returns the comparisons made.
    """
    rows = view.rows
    flow, end, done = rows["flow_ps"], view.end_ps, rows["done"]
    took = np.where(flow >= 0, end - flow, 0).astype(float)
    cap = view.asked("cap").astype(float) * _fastest(view)
    bad = done > cap * took * (1 + ROUNDING)
    if bad.any():
        i, more = first(bad)
        fail("pools", f"row {i} did {done[i]} of work in {took[i]:.0f} ps, above its cap of {cap[i]:.0f} a ps", more)
    checked = len(done)
    for pool, (drawn, coef) in enumerate(view.pool_coef):
        mine = done[drawn] > 0
        drawn, coef = drawn[mine], coef[mine]
        if drawn.size:
            capacity = capacity_over_time(view, pool)
            served = done[drawn].astype(float) * coef / COEF_ONE
            checked += _check_groups(view, pool, drawn, served, capacity)
            checked += _check_log(view, pool, served, capacity)
    return checked


def _fastest(view: View) -> np.ndarray:
    """Largest rate fraction that the unit of each row ever had."""
    rates = view.trace.tables["rates"]
    level = np.ones(len(view.trace.unit_names) + 1)  # the last: rows without a unit
    for i, name in enumerate(view.trace.unit_names):
        level[i] = rates["fraction"][rates["target"] == name].max(initial=1.0)
    return level[view.rows["unit"]]


def capacity_over_time(view: View, pool: int) -> Capacity:
    """Capacity of a pool by the streams that flow and the changes of its rate.

    Where a claim, a stopped unit or a row that may have waited at its end leaves the mix uncertain, it is the largest
    of the pool's capacities, so that the bound holds.
    """
    entry, tables = view.trace.manifest["pools"][pool], view.trace.tables
    table = np.full(256, entry["fixed"], dtype=np.int64)
    for mask, fixed in entry["mix"]:
        table[mask] = fixed
    drawn = view.pool_coef[pool][0]
    drawn = drawn[(view.rows["flow_ps"][drawn] >= 0) & (view.rows["work"][drawn] > 0)]
    stream = view.asked("stream")[drawn]
    flow, end = view.rows["flow_ps"][drawn], view.end_ps[drawn]
    vague = _uncertain(view, drawn)
    rates = tables["rates"]
    mine = rates["target"] == entry["name"]
    times = np.unique(np.concatenate([[0], flow, end, *vague, rates["time_ps"][mine]]))
    mask = np.zeros(len(times), dtype=np.int64)
    for number in np.unique(stream[stream > 0]).tolist():
        of = stream == number
        mask |= (_running(times, flow[of], end[of]) > 0).astype(np.int64) << number
    rate = table[mask]
    rate = np.where(_running(times, *vague) > 0, table.max(), rate)
    level = np.append(1.0, rates["fraction"][mine])[np.searchsorted(rates["time_ps"][mine], times, "right")]
    rate = np.floor(rate * level)
    return Capacity(times, rate, np.append(0.0, np.cumsum(rate[:-1] * np.diff(times))))


def _running(times: np.ndarray, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    """How many of the intervals ``[begin, end)`` hold at each of `times`."""
    change = np.bincount(np.searchsorted(times, begin), minlength=len(times))
    change -= np.bincount(np.searchsorted(times, end), minlength=len(times))
    return np.cumsum(change)


def _uncertain(view: View, drawn: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Intervals in which the rows alone do not tell which streams flow."""
    rows, end = view.rows, view.end_ps
    claims = np.flatnonzero((view.asked("claim") >= 0) & view.ran)
    waits = np.zeros(len(drawn), dtype=bool)
    for j in range(2):
        mode = view.asked(f"store_mode_{j}")[drawn]
        waits |= (view.asked(f"store_end_{j}")[drawn] > 0) & (mode & _RAISES_AT_END == 0)
    begin = [rows["start_ps"][claims], rows["flow_ps"][drawn[waits]]]
    until = [end[claims], end[drawn[waits]]]
    rates = view.trace.tables["rates"]
    if (rates["fraction"] == 0).any():
        begin.append(rates["time_ps"][rates["fraction"] == 0][:1])
        until.append(np.array([view.trace.duration_ps]))
    return np.concatenate(begin), np.concatenate(until)


def _check_groups(view: View, pool: int, drawn: np.ndarray, served: np.ndarray, capacity: Capacity) -> int:
    flow, end = view.rows["flow_ps"][drawn], view.end_ps[drawn]
    name = view.trace.manifest["pools"][pool]["name"]
    order = np.argsort(flow, kind="stable")
    reach = np.maximum.accumulate(end[order])
    fresh = np.append(True, flow[order][1:] >= reach[:-1])
    group = np.empty(len(drawn), dtype=np.int64)
    group[order] = np.cumsum(fresh) - 1
    begins, ends = flow[order][fresh], np.append(reach[:-1][fresh[1:]], reach[-1])
    by_end, by_start = np.lexsort((end, group)), np.lexsort((-flow, group))
    for rank, what, available in (
        (by_end, "ended", capacity.until(end) - capacity.until(begins[group])),
        (by_start, "began", capacity.until(ends[group]) - capacity.until(flow)),
    ):
        total = _running_sum(served[rank], group[rank])
        bad = total > available[rank] * (1 + ROUNDING) + 1.0
        if bad.any():
            i, more = first(bad)
            row = int(drawn[rank[i]])
            limit = float(available[rank[i]])
            words = "by its end" if what == "ended" else "from its start on"
            text = (
                f"{words}, rows of pool {name} drew {total[i] / WORK_ONE:.6g}, and it can give {limit / WORK_ONE:.6g}"
            )
            fail("pools", f"row {row} {what} at {(end if what == 'ended' else flow)[rank[i]]} ps: {text}", more)
    return 2 * len(drawn)


def _running_sum(values: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Running sum of values that starts anew with each group."""
    total = np.cumsum(values)
    heads = np.flatnonzero(np.diff(group, prepend=-1))
    before = total[heads] - values[heads]
    return total - np.repeat(before, np.diff(np.append(heads, len(values))))


def _check_log(view: View, pool: int, served: np.ndarray, capacity: Capacity) -> int:
    """Logged use stays within the capacity, and its integral is what the rows drew."""
    log = view.trace.tables["pool_log"]
    mine = np.flatnonzero(log["pool"] == pool)
    if not mine.size:
        return 0
    name, times, use = view.trace.manifest["pools"][pool]["name"], log["time_ps"][mine], log["value"][mine]
    last = np.append(times[1:] > times[:-1], True)  # of several at one instant
    rate = capacity.rate[np.searchsorted(capacity.time_ps, times, "right") - 1]
    bad = last & ((use > rate) | (use < 0))
    if bad.any():
        i, more = first(bad)
        fail(
            "pools", f"pool {name} is used at {use[i]} from {times[i]} ps on, above its capacity of {rate[i]:.0f}", more
        )
    lasts = np.diff(times, append=view.trace.duration_ps)
    logged, drawn = float((use * lasts.astype(float)).sum()), float(served.sum())
    spare = float(lasts[use > 0].sum()) + len(served) * float(
        capacity.rate.max()
    )  # use is rounded up; last ps is partial
    if not -1.0 - ROUNDING * drawn <= logged - drawn <= spare + ROUNDING * drawn:
        fail("pools", f"pool {name} was used for {logged:.9g} by its log, but its rows drew {drawn:.9g}")
    return len(mine) + 1
