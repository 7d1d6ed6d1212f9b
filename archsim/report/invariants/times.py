"""Times, states and units: what can be told from the rows, blocks and marks alone."""

from __future__ import annotations

import numpy as np

from archsim.report.invariants.view import View, fail, first
from archsim.trace import CUT, DONE, NEVER, RUNNING, positions


def check_times(view: View) -> int:
    """Nothing goes backwards, and nothing happens after the end; returns the comparisons made."""
    rows, ran = view.rows, view.ran
    start, flow, end = rows["start_ps"], rows["flow_ps"], rows["end_ps"]
    emitted = _emitted(view)
    led = np.where(flow >= 0, flow, np.where(rows["status"] == CUT, end, view.trace.duration_ps))
    flowing = np.where(flow >= 0, flow, start)
    for bad, what in (
        (ran & (start < emitted), "starts before its block is emitted"),
        (ran & (flow >= 0) & (flow < start), "flows before it starts"),
        (ran & (end >= 0) & (end < flowing), "ends before it flows"),
        (~ran & (end >= 0) & (end < emitted), "ends before its block is emitted"),
        (ran & (rows["lead_ps"] != led - start), "has a lead that is not the time from its start to its flow"),
        (~ran & ((flow >= 0) | (rows["lead_ps"] != 0)), "flows without a start"),
    ):
        if bad.any():
            i, more = first(bad)
            fail(
                "times",
                f"row {i} {what}: emitted {emitted[i]}, start {start[i]}, flow {flow[i]}, end {end[i]} ps",
                more,
            )
    blocks = view.trace.blocks
    bad = (blocks["end_ps"] >= 0) & (blocks["end_ps"] < blocks["emit_ps"])
    if bad.any():
        i, more = first(bad)
        fail("times", f"block {blocks['block'][i]} ends before it is emitted", more)
    return 6 * len(start) + len(blocks["block"]) + _check_marks(view) + _check_last(view)


def _emitted(view: View) -> np.ndarray:
    """Time at which each row's block was emitted."""
    blocks = view.trace.blocks
    place = positions(blocks["block"], view.rows["block"])
    if (place < 0).any():
        i, more = first(place < 0)
        fail("times", f"row {i} names block {view.rows['block'][i]}, which is not listed", more)
    return blocks["emit_ps"][place]


def _check_marks(view: View) -> int:
    """Marks and rate changes come in the order of time."""
    for table, what in (("notes", "mark"), ("rates", "rate change")):
        times = view.trace.tables[table]["time_ps"]
        bad = np.diff(times, prepend=times[:1]) < 0
        if bad.any():
            i, more = first(bad)
            fail("times", f"{what} {i} at {times[i]} ps comes after one at {times[i - 1]} ps", more)
    return len(view.trace.notes["time_ps"]) + len(view.trace.tables["rates"]["time_ps"])


def _check_last(view: View) -> int:
    """No action, log entry or mix lies beyond the end of the run, and every pool's mixes fill the same time."""
    tables, end = view.trace.tables, view.trace.duration_ps
    checked = 0
    mix = tables["mix"]
    spent = np.bincount(mix["pool"], mix["time_ps"], len(view.trace.manifest["pools"]) if mix["pool"].size else 0)
    whole = int(spent.max()) if spent.size else end
    if spent.size and (spent != whole).any():
        i, more = first(spent != whole)
        fail(
            "times", f"pool {view.trace.manifest['pools'][i]['name']} has mixes for {spent[i]:.0f} of {whole} ps", more
        )
    if whole < end:
        fail("times", f"the last event is at {end} ps, after the pools' {whole} ps")
    for table in ("script", "pool_log", "levels_log"):
        times = tables[table]["time_ps"] if table in tables else np.empty(0, np.int64)
        bad = times > whole
        if bad.any():
            i, more = first(bad)
            fail("times", f"entry {i} of {table} is at {times[i]} ps, after the end of the run at {whole} ps", more)
        checked += len(times)
    return checked + len(spent)


def check_cuts(view: View) -> int:
    """States agree with work and times, and a block's with its rows'; returns the comparisons made."""
    rows, ran = view.rows, view.ran
    status, done, work = rows["status"], rows["done"], rows["work"]
    ended, flowed = rows["end_ps"] >= 0, rows["flow_ps"] >= 0
    for bad, what in (
        (~np.isin(status, (DONE, CUT, NEVER, RUNNING)), "has an unknown status"),
        ((status == DONE) & ~(ran & ended & flowed), "is done without a start, a flow and an end"),
        ((status == DONE) & (done != work), "is done without all of its work"),
        ((status == CUT) & ~ended, "was cut at no time"),
        ((status == NEVER) & (ran | ended), "never started, but has times"),
        ((status == RUNNING) & (~ran | ended), "still runs, but did not start or has ended"),
        ((done < 0) | (done > work), "did more than its work, or less than none"),
        (~flowed & (done != 0), "did work before it flowed"),
    ):
        if bad.any():
            i, more = first(bad)
            fail("cuts", f"row {i} (status {status[i]}, {done[i]} of {work[i]} done) {what}", more)
    return 8 * len(status) + _check_blocks(view)


def _check_blocks(view: View) -> int:
    """A block is done when all of its rows are, and cut or open when its last one is; it ends with its last row."""
    rows, blocks = view.rows, view.trace.blocks
    place = positions(blocks["block"], rows["block"])
    size = len(blocks["block"])
    last = np.full(size, -1, dtype=np.int64)
    last[place] = np.arange(len(place))  # ids ascend, so the join row comes last
    some = last >= 0
    undone = np.bincount(place, rows["status"] != DONE, size) > 0
    join = rows["status"][last]
    for bad, what in (
        (some & (blocks["status"] == DONE) & undone, "is done, but not all of its rows are"),
        (some & (blocks["status"] == CUT) & (join != CUT), "is cut, but its last row is not"),
        (some & (blocks["end_ps"] != rows["end_ps"][last]), "does not end with its last row"),
        ((blocks["useful"] < 0) | (blocks["useful"] > blocks["total"]), "has more useful rows than rows"),
    ):
        if bad.any():
            i, more = first(bad)
            fail("cuts", f"block {blocks['block'][i]} ({blocks['label'][i]}) with last row {last[i]} {what}", more)
    return 4 * size


def check_units(view: View) -> int:
    """A unit runs one row at a time, and a pool is claimed by one row at a time; returns the comparisons made."""
    names = view.trace.unit_names
    checked = _alone(view, view.rows["unit"], "units", lambda unit: f"unit {names[unit]}")
    if view.scripted:
        pools = view.trace.manifest["pools"]
        checked += _alone(view, view.asked("claim"), "units", lambda pool: f"the claim on pool {pools[pool]['name']}")
    return checked


def _alone(view: View, holder: np.ndarray, invariant: str, name) -> int:
    """No two rows of one holder (-1: none) overlap in time."""
    mine = np.flatnonzero(view.ran & (holder >= 0))
    order = mine[np.lexsort((view.end_ps[mine], view.rows["start_ps"][mine], holder[mine]))]
    start, end = view.rows["start_ps"][order], view.end_ps[order]
    bad = (holder[order[1:]] == holder[order[:-1]]) & (start[1:] < end[:-1])
    if bad.any():
        i, more = first(bad)
        a, b = int(order[i]), int(order[i + 1])
        fail(invariant, f"rows {a} and {b} hold {name(int(holder[a]))} at once, for {end[i] - start[i + 1]} ps", more)
    return max(len(order) - 1, 0)
