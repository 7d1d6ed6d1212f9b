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
from collections.abc import Callable, Sequence

import numpy as np

from archsim.report.sums import cached, sums
from archsim.trace import DONE, Trace, positions

_MOVED = re.compile(r"(?P<name>.+[._](read|write))_(?P<size>bits|bytes)")
_PER_BYTE = {"bits": 8, "bytes": 1}

#: A number for each row of a part of a trace.
Factor = Callable[[Trace], np.ndarray]


def actions_of(trace: Trace) -> tuple[np.ndarray, np.ndarray]:
    """Names of the actions that ``counts`` names, and which of them each entry counts."""
    names, which = np.unique(trace.counts["action"], return_inverse=True)
    return names, which


def fractions(trace: Trace) -> np.ndarray:
    """Executed fraction of each row, 0 to 1: 1 when done, 0 when it never started."""
    rows = trace.rows
    fraction = (rows["status"] == DONE).astype(float)
    cut = cached(trace, cut_rows)
    if cut.size == 0:
        return fraction
    work, done, elapsed = (rows[name][cut].astype(float) for name in ("work", "done", "lead_ps"))
    leads = sums(trace.whole, Leads)
    lead, share = (column[trace.row_op[cut]] for column in (leads.mean_ps, leads.share))
    in_lead = np.divide(elapsed, lead, out=np.zeros_like(lead), where=lead > 0)
    in_flow = np.divide(done, work, out=np.zeros_like(work), where=work > 0)
    fraction[cut] = share * np.minimum(in_lead, 1.0) + (1.0 - share) * in_flow
    return fraction


def partly(trace: Trace) -> np.ndarray | None:
    """:func:`fractions` where any of them is not 1."""
    found = cached(trace, fractions)
    return None if (found == 1.0).all() else found


def op_bins(trace: Trace) -> np.ndarray:
    """Where each row is counted: position in ``ops`` and 1 more, 0 for rows without an operator."""
    return trace.row_op + 1


def cut_rows(trace: Trace) -> np.ndarray:
    """Rows that started and were not done: those that may have executed a fraction."""
    return np.flatnonzero(trace.ran & (trace.rows["status"] != DONE))


class Leads:
    """Leads and times of completed executions, by position in ``ops``; a last entry for rows without one."""

    def __init__(self, trace: Trace) -> None:
        size = len(trace.ops["op"]) + 1
        self._lead, self._time, self._number = np.zeros(size), np.zeros(size), np.zeros(size, dtype=np.int64)

    def add(self, part: Trace) -> None:
        """Add the rows of a part."""
        rows, size = part.rows, len(self._number)
        where, lead, time = cached(part, op_bins), rows["lead_ps"], part.row_end_ps - rows["start_ps"]
        full = rows["status"] == DONE
        if not full.all():
            where, lead, time = where[full], lead[full], time[full]
        self._lead[:-1] += np.bincount(where, lead, size)[1:]
        self._number[:-1] += np.bincount(where, minlength=size)[1:]
        self._time[:-1] += np.bincount(where, time, size)[1:]

    @property
    def mean_ps(self) -> np.ndarray:
        """Mean lead of completed executions."""
        return self._lead / np.maximum(self._number, 1)

    @property
    def share(self) -> np.ndarray:
        """Part of the time of completed executions that their lead takes."""
        return np.divide(self._lead, self._time, out=np.zeros(len(self._lead)), where=self._time > 0)


class FreeRows:
    """Rows that were cut in their lead and cost nothing, because their operator was never completed in this run."""

    def __init__(self, trace: Trace) -> None:
        self.number = 0

    def add(self, part: Trace) -> None:
        """Add the rows of a part."""
        rows, cut = part.rows, cached(part, cut_rows)
        if not cut.size:
            return
        lost = (rows["done"][cut] == 0) & (rows["lead_ps"][cut] > 0) & (part.row_op[cut] >= 0)
        self.number += int((lost & (cached(part, fractions)[cut] == 0)).sum())


def free_rows(trace: Trace) -> int:
    """Number of :class:`FreeRows`."""
    return sums(trace, FreeRows).number


class Executions:
    """How often each entry of ``ops`` was executed: ``times``. With a `factor`, rows count that much."""

    def __init__(self, trace: Trace, factor: Factor | None = None) -> None:
        self.times = np.zeros(len(trace.ops["op"]))
        self._factor = factor

    def add(self, part: Trace) -> None:
        """Add the rows of a part."""
        weights = cached(part, fractions)
        if self._factor is not None:
            weights = weights * self._factor(part)
        self.times += np.bincount(cached(part, op_bins), weights, len(self.times) + 1)[1:]


def executions(trace: Trace, factor: Factor | None = None) -> np.ndarray:
    """How often each entry of ``ops`` was executed in the run.

    With a `factor`, a function from a part of the trace to a number for each of its rows, rows count that much.
    """
    if factor is None:
        return sums(trace, Executions).times
    found = Executions(trace, factor)
    for part in trace.parts():
        found.add(part)
    return found.times


def action_counts(trace: Trace, factor: Factor | None = None) -> dict[str, float]:
    """How often each action (``<device>.<action>``) happened in the run; whole numbers unless rows were cut.

    For `factor` see :func:`executions`.
    """
    done = executions(trace, factor)
    counts = trace.counts
    each = done[positions(trace.ops["op"], counts["op"])] * counts["count"]
    names, where = cached(trace.whole, actions_of)
    totals = np.bincount(where, each, len(names))
    return {str(name): float(total) for name, total in zip(names, totals)}


def traffic(trace: Trace, factor: Factor | None = None) -> dict[str, int]:
    """Bytes moved, by ``<device>_<direction>`` (``dram_read``, ``dram_write``, ``flash_read``, ...).

    Taken from the actions that count what is read or written: ``<device>.[<what>_]read_bits``, ``..._write_bytes`` and
    so on. Rounded down where cut rows moved part of them. With a `factor` (see :func:`executions`), rows count that
    much and what is not moved at all is left out.
    """
    found: dict[str, float] = {}
    for action, count in action_counts(trace, factor).items():
        match = _MOVED.fullmatch(action)
        if match and (count or factor is None):
            name = match["name"].replace(".", "_")
            found[name] = found.get(name, 0.0) + count / _PER_BYTE[match["size"]]
    return {name: int(count) for name, count in found.items()}


def phase_traffic(
    trace: Trace, phases: Callable[[Trace], tuple[Sequence[str], np.ndarray]]
) -> list[dict[str, float | str]]:
    """Bytes moved by phase.

    Parameters
    ----------
    phases
        Names of phases, and the phase of each row: :func:`archsim.report.energy.row_phases`.

    Returns
    -------
    list of dict
        ``phase``, ``what`` (as :func:`traffic` names it) and ``bytes``; zeros left out.
    """
    found: dict[tuple[str, str], float] = {}
    for i, name in enumerate(phases(next(trace.parts()))[0]):
        for action, count in action_counts(trace, lambda part, i=i: (phases(part)[1] == i).astype(float)).items():
            match = _MOVED.fullmatch(action)
            if match and count:
                key = (name, match["name"].replace(".", "_"))
                found[key] = found.get(key, 0.0) + count / _PER_BYTE[match["size"]]
    return [{"phase": name, "what": what, "bytes": size} for (name, what), size in found.items()]
