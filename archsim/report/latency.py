"""Where the time of a run goes: slices on units, and busy time by phase and unit."""

from __future__ import annotations

from typing import Any

import numpy as np

from archsim.report.summary import requests
from archsim.trace import Trace
from archsim.units import PS_PER_S

#: Phases in the order in which figures and tables show them; others follow in alphabetical order.
PHASES = (
    *("prefill", "draft", "predictor", "io", "compute", "projection", "control"),
    *("preverify", "revision", "map", "merge", "bookkeeping"),
)


def in_order(phases: Any) -> list[str]:
    """Sort names of phases by `PHASES`, then alphabetically."""
    return sorted(phases, key=lambda name: (PHASES.index(name) if name in PHASES else len(PHASES), name))


def timeline(trace: Trace) -> dict[str, np.ndarray]:
    """Slices of the units, ordered by start: columns row, unit, name, phase, role, block, start_ps, end_ps, status.

    Rows that never started, need no unit or take no time are left out. Rows of prefill blocks have the phase
    ``prefill``.
    """
    rows = trace.rows
    ran = np.flatnonzero(trace.ran & (rows["unit"] >= 0) & (trace.row_end_ps > rows["start_ps"]))
    ran = ran[np.lexsort((rows["unit"][ran], rows["start_ps"][ran]))]
    block, op = trace.row_block[ran], trace.row_op[ran]
    phase = np.append(trace.ops["phase"], "").astype(object)[op]
    phase[trace.blocks["phase"][block] == "prefill"] = "prefill"
    return {
        "row": rows["row"][ran],
        "unit": np.array(trace.unit_names, dtype=str)[rows["unit"][ran]],
        "name": np.append(trace.ops["name"], "")[op],
        "phase": phase.astype(str),
        "role": trace.blocks["role"][block],
        "block": trace.blocks["label"][block],
        "start_ps": rows["start_ps"][ran],
        "end_ps": trace.row_end_ps[ran],
        "status": rows["status"][ran],
    }


def phases_of(trace: Trace) -> tuple[list[str], np.ndarray]:
    """Names of phases, and the phase of each entry of ``ops``; then that of rows without one, and of prefill."""
    names, which = np.unique(np.append(trace.ops["phase"], ["", "prefill"]), return_inverse=True)
    return names.tolist(), which


def slices(trace: Trace) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Phase and unit by number, start and end (ps) of the slices of :func:`timeline`, in the order of ``rows``."""
    phase_of = phases_of(trace)[1]
    unit, start, end = trace.rows["unit"], trace.rows["start_ps"], trace.row_end_ps
    some = np.flatnonzero(trace.ran & (unit >= 0) & (end > start))
    prefilled = np.append(trace.blocks["phase"] == "prefill", False)[trace.row_block[some]]
    phase = np.where(prefilled, phase_of[-1], phase_of[:-1][trace.row_op[some]])
    return phase, unit[some], start[some], end[some]


def busy_ps(trace: Trace) -> dict[tuple[str, str], int]:
    """Busy time by phase and unit; what never ran is left out. Goes through a stored trace in pieces."""
    units = trace.unit_names
    names = phases_of(trace)[0]
    busy, ran = (np.zeros(len(names) * len(units), dtype=np.int64) for _ in range(2))
    for part in trace.parts():
        phase, unit, start, end = slices(part)
        which = phase * len(units) + unit
        busy += np.bincount(which, end - start, len(busy)).astype(np.int64)
        ran += np.bincount(which, minlength=len(busy))
    pairs = [(phase, unit) for phase in names for unit in units]
    return {pair: int(busy[i]) for i, pair in enumerate(pairs) if ran[i]}


def latency(trace: Trace) -> list[dict[str, Any]]:
    """Busy time by phase and unit.

    Returns
    -------
    list of dict
        ``phase``, ``unit``, ``busy_s``, ``share`` of the run's time, and ``busy_per_step_s`` (None without steps and
        for prefill).
    """
    steps = sum(request["steps"] for request in requests(trace))
    found = busy_ps(trace)
    return [
        {
            "phase": phase,
            "unit": unit,
            "busy_s": found[phase, unit] / PS_PER_S,
            "share": found[phase, unit] / trace.duration_ps,
            "busy_per_step_s": found[phase, unit] / PS_PER_S / steps if steps and phase != "prefill" else None,
        }
        for phase in in_order({phase for phase, _ in found})
        for unit in trace.unit_names
        if (phase, unit) in found
    ]
