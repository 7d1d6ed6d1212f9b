"""Speculative cycles: how far a policy's tables were right, what pruning kept and lost, when tokens came."""

from __future__ import annotations

from typing import Any

import numpy as np

from archsim.trace import Trace
from archsim.units import PS_PER_S

_US = 1e-6


def cycles(trace: Trace) -> list[dict[str, Any]]:
    """Means over the cycles of a tree policy, predicted beside met; empty where a run has none.

    ``lost`` are tokens that the target would have taken from the unpruned tree.
    """
    notes = trace.notes

    def mean(kind: str, column: str, scale: float) -> float | None:
        values = notes[column][notes["kind"] == kind]
        return float(values.mean()) * scale if len(values) else None

    if not (notes["kind"] == "latency").any():
        return []
    rows = [
        ("verification latency", "s", mean("latency", "value", _US), mean("latency", "extra", _US)),
        ("tokens per cycle", "tokens", mean("gain", "value", 1e-3), mean("gain", "extra", 1e-3)),
        ("cycle", "s", None, mean("cycle", "value", 1 / PS_PER_S)),
        ("drafting", "s", None, mean("cycle", "extra", 1 / PS_PER_S)),
        ("rows of the tree", "rows", None, mean("kept", "extra", 1.0)),
        ("rows above the exit layer", "rows", None, mean("kept", "value", 1.0)),
        ("tokens lost by pruning", "tokens", None, mean("lost", "value", 1.0)),
    ]
    return [
        {"quantity": what, "unit": unit, "predicted": predicted, "met": met}
        for what, unit, predicted, met in rows
        if met is not None
    ]


def exposed_projection_s(trace: Trace) -> float:
    """Time per step between the end of a verification's last layer and the end of its projection, s."""
    blocks, rows = trace.blocks, trace.rows
    verify = np.flatnonzero((blocks["role"] == "target") & np.isin(blocks["phase"], ("verify", "project")))
    layer = trace.ran & (trace.row_op >= 0)
    layer[layer] = trace.ops["phase"][trace.row_op[layer]] == "compute"
    last = np.zeros(len(blocks["block"]), dtype=np.int64)
    np.maximum.at(last, trace.row_block[layer], trace.row_end_ps[layer])
    total = 0
    for block in verify.tolist():
        begin = int(last[block])
        if blocks["phase"][block] == "project":
            begin = int(rows["start_ps"][(trace.row_block == block) & (rows["start_ps"] >= 0)].min())
        if begin:
            total += int(blocks["end_ps"][block]) - begin
    steps = int(trace.notes["value"][trace.notes["kind"] == "step"].sum())
    return total / PS_PER_S / steps if steps else 0.0
