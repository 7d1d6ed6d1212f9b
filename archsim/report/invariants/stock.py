"""Stores: levels over time, from what rows take and give and what the schedule adds."""

from __future__ import annotations

import numpy as np

from archsim.report.invariants.view import View, fail
from archsim.trace import ADD, CUT, DONE, positions


def check_stores(view: View) -> int:
    """Levels lie within ``[0, capacity]``, agree with the log, and come back where nothing keeps them.

    A level is seen after all that happened at an instant; what came first within it is the engine's business. Returns
    the comparisons made.
    """
    checked = 0
    for store, entry in enumerate(view.trace.manifest["stores"]):
        times, change, row = _changes(view, store)
        if not len(times):
            continue
        order = np.argsort(times, kind="stable")
        last = np.append(np.diff(times[order]) > 0, True)
        level = int(entry["level"]) + np.cumsum(change[order])
        bad = last & ((level < 0) | (level > entry["capacity"]))
        if bad.any():
            i = int(np.flatnonzero(bad)[0])
            name, when = entry["name"], times[order][i]
            text = f"store {name} is at {level[i]} of {entry['capacity']} {entry['unit']} at {when} ps"
            fail("stores", f"{text}, changed by {_who(row[order][i])}", int(bad.sum()) - 1)
        checked += int(last.sum())
        checked += _check_log(view, store, times[order][last], level[last])
        checked += _check_returned(view, store, int(level[-1]))
    return checked


def _who(row: int) -> str:
    return f"row {row}" if row >= 0 else "the schedule"


def _changes(view: View, store: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Times, changes and rows (-1: the schedule) of a store, in no order."""
    rows, first = view.rows, view.template[1]
    heir = view.asked("heir")
    heir_at = np.where(heir >= 0, first + heir, -1)
    ids = np.arange(len(first))
    found = []
    for j in range(2):
        mine = view.ran & (view.asked(f"store_{j}") == store)
        if not mine.any():
            continue
        take, give = view.asked(f"store_start_{j}"), view.asked(f"store_end_{j}")
        done, cut = mine & (rows["status"] == DONE), mine & (rows["status"] == CUT)
        left = done & (heir_at >= 0) & (rows["status"][heir_at] == CUT)
        back = np.maximum(rows["end_ps"][heir_at[left]], rows["end_ps"][left])
        found += [
            (rows["start_ps"][mine], take[mine], ids[mine]),
            (rows["end_ps"][done], give[done], ids[done]),
            (rows["end_ps"][cut], -take[cut], ids[cut]),
            (back, -take[left], ids[left]),
        ]
    script = view.trace.tables["script"]
    added = (script["kind"] == ADD) & (script["a"] == store)
    found.append((script["time_ps"][added], script["b"][added], np.full(int(added.sum()), -1)))
    return tuple(np.concatenate(parts) for parts in zip(*found))  # type: ignore[return-value]


def _check_log(view: View, store: int, times: np.ndarray, level: np.ndarray) -> int:
    """Logged levels are those that follow from the rows."""
    log = view.trace.tables["levels_log"]
    mine = np.flatnonzero(log["store"] == store)
    if not mine.size:
        return 0
    mine = mine[np.append(np.diff(log["time_ps"][mine]) > 0, True)]
    place = positions(times, log["time_ps"][mine])
    bad = (place < 0) | (level[place] != log["value"][mine])
    if bad.any():
        i = int(np.flatnonzero(bad)[0])
        name, when = view.trace.manifest["stores"][store]["name"], log["time_ps"][mine][i]
        follows = f"{level[place[i]]} follows" if place[i] >= 0 else "nothing changes it then"
        fail("stores", f"store {name} is logged at {log['value'][mine][i]} at {when} ps, but {follows} from the rows")
    return len(mine)


def _check_returned(view: View, store: int, level: int) -> int:
    """A store from which every block gives back what it takes is where it was once nothing runs."""
    tables = view.trace.tables
    lines = tables["script_rows"]
    net = np.zeros(int(lines["template"].max(initial=-1)) + 1, dtype=np.int64)
    for j in range(2):
        mine = lines[f"store_{j}"] == store
        np.add.at(net, lines["template"][mine], (lines[f"store_start_{j}"] + lines[f"store_end_{j}"])[mine])
    added = ((tables["script"]["kind"] == ADD) & (tables["script"]["a"] == store)).any()
    if net.any() or added or (view.rows["end_ps"] < 0).any():
        return 0
    entry = view.trace.manifest["stores"][store]
    if level != entry["level"]:
        fail("stores", f"store {entry['name']} ends at {level} {entry['unit']}, but began at {entry['level']}")
    return 1
