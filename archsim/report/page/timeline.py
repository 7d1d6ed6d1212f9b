"""What the page's time line shows of a run, as columns: slices of the units, marks, counters."""

from __future__ import annotations

from typing import Any

import numpy as np

from archsim.report.counters import counters
from archsim.report.energy import device_pj, row_pj
from archsim.report.latency import PHASES, in_order
from archsim.report.nesting import Nesting, nest
from archsim.report.traffic import fractions
from archsim.trace import CUT, DONE, Trace

#: Slices that a page holds. A run with more shows stretches of operators, layers or blocks, or equal parts of its time.
MOST_SLICES = 600_000
#: Steps of a counter that a page holds.
MOST_STEPS = 4000
#: Marks of one kind that a page holds.
MOST_MARKS = 20_000
_TICKS = 2**32 - 2
_NONE = 2**32 - 1
_SHOWN = ("m", "k", "n", "kv", "macs", "weight_bytes", "in_bytes", "out_bytes", "kv_bytes")


def time_line(trace: Trace, most: int = MOST_SLICES) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Meaning and columns of a run's slices.

    Returns
    -------
    meta : dict
        Names and small tables. Times are in ticks of ``tick_ps``.
    columns : dict
        By slice, ordered by unit and start: ``gap`` (ticks since the slice before on the unit ended), ``length``
        (ticks), ``op``, ``block``, ``layer``, ``turn`` (2**32 - 1: none), ``rows`` (merged into it), ``pj``, ``bytes``.
    """
    rows = nest(trace)
    heads, what = _coarse(rows, trace.duration_ps, most)
    tick = max(1, -(-trace.duration_ps // _TICKS))
    tails = np.append(heads[1:], len(rows.row)) - 1
    start, end = rows.start_ps[heads] // tick, rows.end_ps[tails] // tick if len(heads) else rows.end_ps
    first = np.append(True, rows.unit[heads][1:] != rows.unit[heads][:-1]) if len(heads) else np.empty(0, bool)
    before = np.where(first, 0, np.append(0, end[:-1])) if len(heads) else start
    moved, pj, partly = _amounts(trace, rows)

    def summed(values: np.ndarray) -> np.ndarray:
        return np.add.reduceat(values, heads).astype(np.float32) if len(heads) else np.empty(0, np.float32)

    columns = {
        "gap": start - before,
        "length": end - start,
        "op": np.where(rows.op[heads] < 0, _NONE, rows.op[heads]),
        "block": np.where(rows.block[heads] < 0, _NONE, rows.block[heads]),
        "layer": np.where(rows.layer[heads] < 0, _NONE, rows.layer[heads]),
        "turn": np.where(rows.turn[heads] < 0, _NONE, rows.turn[heads]),
        "rows": tails - heads + 1,
        "pj": summed(pj),
        "bytes": summed(moved),
        "cut": np.flatnonzero(partly[heads]),
    }
    count = np.bincount(rows.unit[heads], minlength=len(trace.unit_names)) if len(heads) else [0] * len(
        trace.unit_names
    )  # fmt: skip
    phases = _phases(trace)
    meta = {
        "tick_ps": tick,
        "duration": trace.duration_ps // tick,
        "units": trace.unit_names,
        "count": [int(n) for n in count],
        "all_rows": len(rows.row),
        "merged": what,
        "ops": _ops(trace),
        "blocks": _blocks(trace),
        "phases": phases,
        "looks": [PHASES.index(p) if p in PHASES else len(PHASES) + i for i, p in enumerate(phases)],
        "marks": _marks(trace, tick),
        "counters": [
            {"kind": curve.kind, "name": curve.name, "unit": curve.unit, **_steps(curve.time_ps // tick, curve.value)}
            for curve in counters(trace)
        ],
    }
    return meta, columns


def _coarse(rows: Nesting, duration_ps: int, most: int) -> tuple[np.ndarray, str]:
    """Where the shown slices begin, and what was merged into one (empty: nothing)."""
    if len(rows.row) <= most:
        return np.arange(len(rows.row)), ""
    for what, heads in (("operator", rows.operators), ("layer", rows.layers), ("block", rows.blocks)):
        found = heads()
        if len(found) <= most:
            return found, what
    parts = max(1, most // max(1, len(np.unique(rows.unit))))
    return rows.heads(rows.start_ps // max(1, -(-duration_ps // parts))), "part of the time"


def _amounts(trace: Trace, rows: Nesting) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bytes that an operator's row touches, its dynamic energy in pJ, and whether it was cut or still ran."""
    ops = trace.ops
    each = (ops["weight_bytes"] + ops["in_bytes"] + ops["out_bytes"] + ops["kv_bytes"]).astype(float)
    moved = np.append(each, 0.0)[trace.row_op] * fractions(trace)
    pj = row_pj(trace, device_pj(trace)[1].sum(axis=0))
    return moved[rows.row], pj[rows.row], trace.rows["status"][rows.row] != DONE


def _phases(trace: Trace) -> list[str]:
    return in_order({"prefill", "", *trace.ops["phase"].tolist()})


def _ops(trace: Trace) -> dict[str, Any]:
    ops, phases = trace.ops, _phases(trace)
    names, which = np.unique(ops["name"], return_inverse=True)
    devices, whose = np.unique(ops["device"], return_inverse=True)
    return {
        "names": names.tolist(),
        "devices": devices.tolist(),
        "name": which.tolist(),
        "device": whose.tolist(),
        "phase": [phases.index(phase) for phase in ops["phase"].tolist()],
        **{name: ops[name].tolist() for name in _SHOWN if ops[name].any()},
    }


def _blocks(trace: Trace) -> dict[str, Any]:
    blocks = trace.blocks
    labels, which = np.unique(blocks["label"], return_inverse=True)
    return {
        "labels": labels.tolist(),
        "label": which.tolist(),
        "id": blocks["block"].tolist(),
        "request": blocks["request"].tolist(),
        "prefill": (blocks["phase"] == "prefill").astype(int).tolist(),
        "useful": blocks["useful"].tolist(),
        "total": blocks["total"].tolist(),
        "cut": (blocks["status"] == CUT).astype(int).tolist(),
    }


def _marks(trace: Trace, tick: int) -> list[dict[str, Any]]:
    """Notes by kind, the commits of tokens first."""
    notes, found = trace.notes, []
    for kind in sorted(set(notes["kind"].tolist()), key=lambda name: (name != "commit", name)):
        mine = np.flatnonzero(notes["kind"] == kind)
        mine = mine[np.argsort(notes["time_ps"][mine], kind="stable")]
        every = -(-len(mine) // MOST_MARKS)
        mine = mine[::every]
        found.append(
            {
                "kind": kind,
                "every": every,
                "time": (notes["time_ps"][mine] // tick).tolist(),
                **{name: notes[name][mine].tolist() for name in ("request", "value", "extra")},
            }
        )
    return found


def _steps(times: np.ndarray, values: np.ndarray) -> dict[str, Any]:
    """Steps of a counter: all of them, or the least and the most of equal parts of its time."""
    if len(times) <= MOST_STEPS:
        return {"time": times.tolist(), "value": [float(f"{v:.6g}") for v in values.tolist()]}
    edges = np.unique(np.linspace(times[0], times[-1], MOST_STEPS // 2 + 1).astype(np.int64))[:-1]
    held = values[np.searchsorted(times, edges, "right") - 1]
    at = np.append(edges, times)
    order = np.argsort(at, kind="stable")
    first = np.searchsorted(at[order], edges, "left")
    all_values = np.append(held, values)[order]
    low, high = np.minimum.reduceat(all_values, first), np.maximum.reduceat(all_values, first)
    return {
        "time": edges.tolist(),
        "value": [float(f"{v:.6g}") for v in high.tolist()],
        "low": [float(f"{v:.6g}") for v in low.tolist()],
    }
