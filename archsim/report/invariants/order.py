"""Dependencies: what the script says must come first did."""

from __future__ import annotations

import numpy as np

from archsim.report.depends import block_edges
from archsim.report.invariants.view import View, fail, first
from archsim.trace import CUT, DONE, EMIT


def check_order(view: View) -> int:
    """No row starts before what it depends on has ended, and what depends on a cut row is cut.

    Returns
    -------
    int
        Dependencies checked: those between rows of a block, and one per row and block waited for.
    """
    tables = view.trace.tables
    sizes = np.bincount(tables["script_rows"]["template"])[tables["script"]["a"][tables["script"]["kind"] == EMIT]]
    emitted = np.repeat(np.arange(len(sizes)), sizes)
    if not np.array_equal(view.rows["block"], emitted):
        same = min(len(emitted), len(view.rows["block"]))
        i, more = first(np.append(view.rows["block"][:same] != emitted[:same], True))
        fail(
            "order", f"row {i} is not of the block that emitted it, or there are more or fewer rows than emitted", more
        )
    checked = _check(view, *block_edges(view.trace))
    joins, blocks = _waits(view)
    heads = np.cumsum(sizes) - sizes
    count = sizes[blocks]
    inside = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
    return checked + _check(view, np.repeat(joins, count), np.repeat(heads[blocks], count) + inside)


def _waits(view: View) -> tuple[np.ndarray, np.ndarray]:
    """Join rows waited for, and the blocks that wait for them."""
    tables = view.trace.tables
    emits = tables["script"]["kind"] == EMIT
    count = tables["script"]["e"][emits]
    waited = tables["script_after"]["block"] if "script_after" in tables else np.empty(0, np.int64)
    if int(count.sum()) != len(waited):
        fail("order", f"the script waits for {int(count.sum())} blocks, but names {len(waited)}")
    last = np.cumsum(np.bincount(view.rows["block"], minlength=len(count))) - 1
    return last[waited], np.repeat(np.arange(len(count)), count)


def _check(view: View, before: np.ndarray, after: np.ndarray) -> int:
    rows = view.rows
    status, start, end = rows["status"], rows["start_ps"], rows["end_ps"]
    began = start[after] >= 0
    for bad, what in (
        (began & ((status[before] != DONE) | (start[after] < end[before])), "starts before its predecessor has ended"),
        ((status[before] == CUT) & (status[after] != CUT), "goes on although its predecessor was cut"),
        ((status[before] == CUT) & (rows["done"][after] != 0), "did work although its predecessor was cut"),
    ):
        if bad.any():
            i, more = first(bad)
            a, b = int(before[i]), int(after[i])
            fail("order", f"row {b} {what}: it starts at {start[b]}, row {a} ends at {end[a]} ps", more)
    return len(before)
