"""Executions of operators and the actions and bytes that follow from them.

Every trace row executes its entry of the op table once. A row that was cut, or still ran when the run stopped,
executed a fraction of it:

``fraction = share * elapsed_lead / lead + (1 - share) * done / work``

``lead`` is that of the completed executions of the same entry, and ``share`` the part of their time that it takes.
Where an entry was never completed, nothing tells how long its lead is: ``share`` is 0, so a row that was cut in it
is free; :func:`free_rows` counts those.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from archsim.trace import DONE, Trace, positions

_MOVED = re.compile(r"(?P<name>.+[._](read|write))_(?P<size>bits|bytes)")
_PER_BYTE = {"bits": 8, "bytes": 1}


def fractions(trace: Trace) -> np.ndarray:
    """Executed fraction of each row, 0 to 1: 1 when done, 0 when it never started."""
    rows = trace.rows
    fraction = (rows["status"] == DONE).astype(float)
    cut = np.flatnonzero(trace.ran & (rows["status"] != DONE))
    if cut.size == 0:
        return fraction
    work, done, elapsed = (rows[name][cut].astype(float) for name in ("work", "done", "lead_ps"))
    lead, share = (column[trace.row_op[cut]] for column in _leads(trace))
    in_lead = np.divide(elapsed, lead, out=np.zeros_like(lead), where=lead > 0)
    in_flow = np.divide(done, work, out=np.zeros_like(work), where=work > 0)
    fraction[cut] = share * np.minimum(in_lead, 1.0) + (1.0 - share) * in_flow
    return fraction


def _leads(trace: Trace) -> tuple[np.ndarray, np.ndarray]:
    """Mean lead of completed executions, and its part of their time, by position in ``ops``; a last 0 for no op."""
    rows, size = trace.rows, len(trace.ops["op"]) + 1
    full = (rows["status"] == DONE) & (trace.row_op >= 0)
    where = trace.row_op[full]
    lead, number = np.bincount(where, rows["lead_ps"][full], size), np.bincount(where, minlength=size)
    time = np.bincount(where, (trace.row_end_ps - rows["start_ps"])[full], size)
    share = np.divide(lead, time, out=np.zeros(size), where=time > 0)
    return lead / np.maximum(number, 1), share


def free_rows(trace: Trace) -> int:
    """Rows that were cut in their lead and cost nothing, because their operator was never completed in this run."""
    rows = trace.rows
    in_lead = trace.ran & (rows["status"] != DONE) & (rows["done"] == 0) & (rows["lead_ps"] > 0) & (trace.row_op >= 0)
    return int((in_lead & (fractions(trace) == 0)).sum())


def executions(trace: Trace, weights: np.ndarray) -> np.ndarray:
    """Sum of `weights` (one per row) over the rows of each entry of ``ops``."""
    has = trace.row_op >= 0
    return np.bincount(trace.row_op[has], weights[has], len(trace.ops["op"]))


def action_counts(trace: Trace, factor: np.ndarray | None = None) -> dict[str, float]:
    """How often each action (``<device>.<action>``) happened in the run; whole numbers unless rows were cut.

    With a `factor` per row, rows count that much.
    """
    done = executions(trace, fractions(trace) if factor is None else fractions(trace) * factor)
    counts = trace.counts
    each = done[positions(trace.ops["op"], counts["op"])] * counts["count"]
    names, where = np.unique(counts["action"], return_inverse=True)
    totals = np.bincount(where, each, len(names))
    return {str(name): float(total) for name, total in zip(names, totals)}


def traffic(trace: Trace, factor: np.ndarray | None = None) -> dict[str, int]:
    """Bytes moved, by ``<device>_<direction>`` (``dram_read``, ``dram_write``, ``flash_read``, ...).

    Taken from the actions that count what is read or written: ``<device>.[<what>_]read_bits``, ``..._write_bytes`` and
    so on. Rounded down where cut rows moved part of them. With a `factor` per row, rows count that much and what is
    not moved at all is left out.
    """
    found: dict[str, float] = {}
    for action, count in action_counts(trace, factor).items():
        match = _MOVED.fullmatch(action)
        if match and (count or factor is None):
            name = match["name"].replace(".", "_")
            found[name] = found.get(name, 0.0) + count / _PER_BYTE[match["size"]]
    return {name: int(count) for name, count in found.items()}


def phase_traffic(trace: Trace, names: Sequence[str], phase: np.ndarray) -> list[dict[str, float | str]]:
    """Bytes moved by phase.

    Parameters
    ----------
    names, phase
        As :func:`archsim.report.energy.row_phases` gives them.

    Returns
    -------
    list of dict
        ``phase``, ``what`` (as :func:`traffic` names it) and ``bytes``; zeros left out.
    """
    found: dict[tuple[str, str], float] = {}
    for i, name in enumerate(names):
        for action, count in action_counts(trace, (phase == i).astype(float)).items():
            match = _MOVED.fullmatch(action)
            if match and count:
                key = (name, match["name"].replace(".", "_"))
                found[key] = found.get(key, 0.0) + count / _PER_BYTE[match["size"]]
    return [{"phase": name, "what": what, "bytes": size} for (name, what), size in found.items()]
