"""Static power over time: which state each block is in, and what its clock and voltage are.

A block without states draws its power for the whole run. One with states is active while a row runs that keeps it
active, and quiet in between; quiet time goes through the deeper states as the block's entry says. Under a lower clock
an active block draws ``fraction x (V / V_top)^2`` of its power, and an action ``(V / V_top)^2`` of its energy, with the
voltage of the operating point that the rate changes of the run name (``rates``); a row has the voltage at which it
started.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from archsim.report.sums import cached, sums
from archsim.report.traffic import actions_of
from archsim.trace import Trace
from archsim.units import InputError

_NONE = np.empty(0, dtype=np.int64)


class Span(NamedTuple):
    """Intervals of one state of one block: ``begin_ps``, ``end_ps`` and the full-power time ``weight_ps`` in each."""

    begin_ps: np.ndarray
    end_ps: np.ndarray
    weight_ps: np.ndarray


def spans(trace: Trace) -> dict[str, Span]:
    """Intervals by ``<block>.<state>`` for blocks with states, by block for all others."""
    prices, duration = trace.manifest["prices"], trace.duration_ps
    table: Mapping[str, Any] = prices.get("states", {})
    found: dict[str, Span] = {}
    inside = set()
    active = sums(trace, Active)
    for block, entry in table.items():
        begin, end = active.of(block)
        slowed = _slow(trace, block.split(".", 1)[0])
        weight = end - begin if slowed is None else slowed(end) - slowed(begin)
        found[f"{block}.active"] = Span(begin, end, weight)
        found |= {f"{block}.{state}": span for state, span in _quiet(begin, end, duration, entry).items()}
        inside |= {f"{block}.{state}" for state in entry["states"]}
    missing = inside - set(prices["power_mw"])
    if missing:
        raise InputError(f"state {min(missing)!r} has no power; add it to the table of static power")
    whole = Span(*(np.array([value], dtype=np.int64) for value in (0, duration, duration)))
    found |= {block: whole for block in prices["power_mw"] if block not in inside}
    if "dram.refresh" in found:
        found["dram.refresh"] = _refresh(trace, whole)
    return found


def _refresh(trace: Trace, whole: Span) -> Span:
    """Refresh over the whole run, once more while the DRAM was hot (notes ``hot_dram``: 1 from then on, 0 back)."""
    notes = trace.notes
    mine = notes["kind"] == "hot_dram"
    times, levels = notes["time_ps"][mine], notes["value"][mine]
    begin = times[levels == 1]
    end = np.append(times[levels == 0], trace.duration_ps)[: len(begin)]
    pairs = ((whole.begin_ps, begin), (whole.end_ps, end), (whole.weight_ps, end - begin))
    return Span(*(np.concatenate(pair) for pair in pairs))


class Active:
    """Disjoint intervals in which a row runs that keeps a block with states active."""

    def __init__(self, trace: Trace) -> None:
        table: Mapping[str, Any] = trace.manifest["prices"].get("states", {})
        self._by_op, self._by_unit = {}, {}
        for block, entry in table.items():
            if entry["units"]:
                named = [name in entry["units"] for name in trace.unit_names]
                self._by_unit[block] = np.array([*named, False])
                continue
            prefix = block.split(".", 1)[0] + "."
            names, which = cached(trace, actions_of)
            counted = np.array([name.startswith(prefix) for name in names.tolist()], dtype=bool)[which]
            self._by_op[block] = np.append(np.isin(trace.ops["op"], trace.counts["op"][counted]), False)
        self._pieces: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {block: [] for block in table}

    def add(self, part: Trace) -> None:
        """Add the rows of a part."""
        start, end = part.rows["start_ps"], part.row_end_ps
        for blocks, which in ((self._by_op, part.row_op), (self._by_unit, part.rows["unit"])):
            for block, chosen in blocks.items():
                mine = np.flatnonzero(part.ran & chosen[which])
                self._pieces[block].append(union(start[mine], end[mine]))

    def of(self, block: str) -> tuple[np.ndarray, np.ndarray]:
        """Begin and end of a block's intervals, ascending."""
        return joined(self._pieces[block])


def joined(pieces: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Union of several unions."""
    if len(pieces) == 1:
        return pieces[0]
    return union(*(np.concatenate(ends) for ends in zip(*pieces))) if pieces else union(_NONE, _NONE)


def union(start: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Disjoint, ascending intervals that cover the same time as ``[start, end)``."""
    some = end > start
    start, end = start[some], end[some]
    if start.size == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    order = np.argsort(start, kind="stable")
    start, reach = start[order], np.maximum.accumulate(end[order])
    fresh = np.append(True, start[1:] > reach[:-1])
    return start[fresh], reach[np.append(fresh[1:], True)]


def _quiet(begin: np.ndarray, end: np.ndarray, duration: int, entry: Mapping[str, Any]) -> dict[str, Span]:
    """Quiet intervals by state: each state lasts from its entry to that of the next deeper one."""
    left, right = np.append(0, end), np.append(begin, duration)
    some = right > left
    left, right = left[some], right[some]
    states = [state for state in entry["states"] if state != "active"]
    enter = [0, *(int(entry["after_ps"][state]) for state in states[1:])]
    leave = [*enter[1:], None]
    found = {}
    for state, after, until in zip(states, enter, leave):
        a = np.minimum(left + after, right)
        b = right if until is None else np.minimum(left + until, right)
        kept = b > a
        found[state] = Span(a[kept], b[kept], (b - a)[kept])
    return found


def _rates(trace: Trace, device: str) -> tuple[Mapping[str, Any], np.ndarray, np.ndarray] | None:
    """Clock of a device with the times and fractions of its rate changes; None where it has none."""
    rates = trace.tables["rates"]
    for clock in trace.manifest["prices"].get("clocks", ()):
        if clock["name"].split(".", 1)[0] == device:
            mine = rates["target"] == clock["targets"][0]
            if mine.any():
                return clock, rates["time_ps"][mine], rates["fraction"][mine]
    return None


def _volts(clock: Mapping[str, Any], fraction: np.ndarray) -> np.ndarray:
    """Voltage over that of the top corner, at the lowest corner whose clock is enough."""
    fractions, volts = np.array(clock["corners"], dtype=float).T
    place = np.minimum(np.searchsorted(fractions, fraction - 1e-6), len(fractions) - 1)
    return volts[place] / volts[-1]


def _slow(trace: Trace, device: str) -> Any:
    """Integral of ``fraction x (V / V_top)^2`` over time, as a function; None at full clock throughout."""
    found = _rates(trace, device)
    if found is None:
        return None
    clock, times, fraction = found
    edges = np.concatenate([[0], times, [max(trace.duration_ps, int(times[-1]))]]).astype(float)
    level = np.concatenate([[1.0], fraction * _volts(clock, fraction) ** 2])
    integral = np.concatenate([[0.0], np.cumsum(level * np.diff(edges))])
    return lambda t: np.interp(t, edges, integral)


def slowed_devices(trace: Trace) -> list[str]:
    """Devices whose clock changed in the run."""
    clocks = trace.manifest["prices"].get("clocks", ())
    return [name for name in {clock["name"].split(".", 1)[0] for clock in clocks} if _rates(trace, name) is not None]


def voltage_factors(trace: Trace) -> dict[str, np.ndarray]:
    """Energy of an action over that at full voltage, by device and row; devices at full clock are left out."""
    found = {}
    for device in slowed_devices(trace):
        clock, times, fraction = _rates(trace, device)
        level = np.append(1.0, _volts(clock, fraction) ** 2)
        found[device] = level[np.searchsorted(times, trace.rows["start_ps"], "right")]
    return found
