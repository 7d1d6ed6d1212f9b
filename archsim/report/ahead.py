"""Drafting ahead of verification: what became of drafted tokens, what the controls did, how long either side idled."""

from __future__ import annotations

from typing import Any

import numpy as np

from archsim.report.summary import busy_fraction
from archsim.trace import Trace
from archsim.units import PS_PER_S

#: Outcome of a pre-verification in the notes' bits.
FOUND_MISS, LATE = 1, 2


def ahead(trace: Trace) -> list[dict[str, Any]]:
    """Figures of a run that drafts ahead, as ``quantity``, ``value``, ``unit``; empty where no drafts were queued.

    Of the drafted tokens, ``verified`` were in a pass of the target, ``confirmed`` equal to its own token, ``flushed``
    thrown away unverified, and ``pending`` left over at a request's end. ``suppressed`` is the share of look-ahead
    batches that the drafting control stopped, ``accuracy`` the share of its decisions that were right: to go on if and
    only if all that had been drafted was. ``late`` pre-verifications ended behind the target's own pass.
    """
    notes = trace.notes
    if not (notes["kind"] == "queue").any():
        return []

    def values(kind: str) -> tuple[np.ndarray, np.ndarray]:
        mine = notes["kind"] == kind
        return notes["value"][mine], notes["extra"][mine]

    sums = {kind: int(values(kind)[0].sum()) for kind in ("draft", "confirm", "flush", "pending")}
    accepted, verified = (int(column.sum()) for column in values("accept"))
    went, right = values("edc")
    checked, outcome = values("tvc")
    times, depth = queue_depth(trace)
    spans = np.diff(times, append=trace.duration_ps / PS_PER_S)
    found: list[tuple[str, float | None, str]] = [
        ("tokens drafted", sums["draft"], "tokens"),
        ("tokens accepted", accepted, "tokens"),
        ("tokens verified", verified, "tokens"),
        ("tokens confirmed", sums["confirm"], "tokens"),
        ("tokens flushed", sums["flush"], "tokens"),
        ("tokens pending", sums["pending"], "tokens"),
        ("drafting control: decisions", went.size, "decisions"),
        ("drafting control: suppressed", _mean(went == 0), "fraction"),
        ("drafting control: accuracy", _mean(went == right), "fraction"),
        ("pre-verification: runs", checked.size, "runs"),
        ("pre-verification: tokens", int(checked.sum()), "tokens"),
        ("pre-verification: misses found in time", int((outcome == FOUND_MISS).sum()), "runs"),
        ("pre-verification: late", _mean((outcome & LATE) > 0), "fraction"),
        ("queue: mean depth", float((depth * spans).sum() / spans.sum()) if spans.sum() else 0.0, "batches"),
        ("queue: largest depth", int(depth.max(initial=0)), "batches"),
    ]
    busy = busy_fraction(trace)
    found += [(f"idle: {unit}", 1.0 - busy[unit], "fraction") for unit in ("npu.core", "pim.sequencer") if unit in busy]
    return [{"quantity": name, "value": value, "unit": unit} for name, value, unit in found]


def _mean(flags: np.ndarray) -> float | None:
    return float(flags.mean()) if flags.size else None


def queue_depth(trace: Trace) -> tuple[np.ndarray, np.ndarray]:
    """Unverified batches that wait, from each change on.

    Returns
    -------
    times : float64 [n]
        Seconds, ascending.
    depth : int64 [n]
        Batches in the queue from then on.
    """
    notes = trace.notes
    mine = notes["kind"] == "queue"
    return notes["time_ps"][mine] / PS_PER_S, notes["value"][mine]
