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


def latency(trace: Trace) -> list[dict[str, Any]]:
    """Busy time by phase and unit.

    Returns
    -------
    list of dict
        ``phase``, ``unit``, ``busy_s``, ``share`` of the run's time, and ``busy_per_step_s`` (None without steps and
        for prefill).
    """
    slices = timeline(trace)
    steps = sum(request["steps"] for request in requests(trace))
    found: dict[tuple[str, str], int] = {}
    keys, which = np.unique(np.stack([slices["phase"], slices["unit"]]), axis=1, return_inverse=True)
    busy = np.bincount(which.ravel(), slices["end_ps"] - slices["start_ps"], keys.shape[1])
    for phase, unit, ps in zip(*keys.tolist(), busy):
        found[phase, unit] = int(ps)
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
