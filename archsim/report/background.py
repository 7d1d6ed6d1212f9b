"""What a run's background streams asked for, got and cost, apart from the job."""

from __future__ import annotations

from typing import Any

import numpy as np

from archsim.report.energy import PJ_PER_J
from archsim.report.traffic import Executions, traffic
from archsim.report.waste import split_pj
from archsim.trace import Trace
from archsim.units import PS_PER_S

ROLE = "background"


def has_background(trace: Trace) -> bool:
    """Whether the run was given streams."""
    return bool(trace.manifest["config"].get("background"))


def background_rows(trace: Trace) -> np.ndarray:
    """Rows that belong to a stream: bool[rows]."""
    return np.append(trace.blocks["role"] == ROLE, False)[trace.row_block]


def decode_rows(trace: Trace) -> np.ndarray:
    """Rows of the job's blocks but prefill: bool[rows]."""
    decode = np.append(trace.blocks["phase"] != "prefill", False)[trace.row_block]
    return decode & ~background_rows(trace) if has_background(trace) else decode


def decode_executions(trace: Trace) -> Executions:
    """Executions by the job's blocks but prefill (a kind of :mod:`archsim.report.sums`)."""
    return Executions(trace, decode_rows)


def background(trace: Trace) -> dict[str, dict[str, Any]]:
    """Streams by name.

    Returns
    -------
    dict of dict
        ``kind``; ``bursts`` begun and ``late_bursts`` (ended after the next one was due), ``late_max_s``; ``due``,
        ``served`` and ``backlog`` at the end of the run, as ``..._bytes``, or ``..._core_s`` of a CPU stream;
        ``bytes`` moved by ``<device>_<direction>``; ``energy_j`` (dynamic: static power is the machine's) and
        ``burst_p50_s``, ``burst_p99_s``, the time a burst took.
    """
    if not has_background(trace):
        return {}
    found = {}
    for name, entry in trace.manifest["config"]["background"].items():
        bursts, took, joule = _bursts(trace, name)
        late, _ = _notes(trace, f"late.{name}")
        served, due = (int(values.sum()) for values in _notes(trace, f"served.{name}"))
        unit, scale = ("core_s", PS_PER_S) if entry["device"] == "cpu_stream" else ("bytes", 1)
        amounts = {"due": due, "served": served, "backlog": max(due - served, 0)}
        found[name] = {
            "kind": entry["device"].removesuffix("_stream"),
            "bursts": bursts,
            "late_bursts": len(late),
            "late_max_s": int(late.max(initial=0)) / PS_PER_S,
            **{f"{what}_{unit}": value / scale if scale > 1 else value for what, value in amounts.items()},
            "bytes": traffic(trace, lambda part, name=name: _mine(part, name).astype(float)),
            "energy_j": joule,
            "burst_p50_s": float(np.percentile(took, 50)) if took.size else None,
            "burst_p99_s": float(np.percentile(took, 99)) if took.size else None,
        }
    return found


def _mine(trace: Trace, name: str) -> np.ndarray:
    """Rows of one stream that execute something: bool[rows]."""
    return np.append(trace.blocks["label"] == f"{ROLE}.{name}", False)[trace.row_block] & (trace.row_op >= 0)


def _bursts(trace: Trace, name: str) -> tuple[int, np.ndarray, float]:
    """Bursts of a stream that began, seconds that each finished one took, and what all cost in joule."""
    begun, took, joule = 0, [], 0.0
    for part in trace.parts():
        rows, mine = part.rows, _mine(part, name)
        begun += int((mine & part.ran).sum())
        took.append((part.row_end_ps - rows["start_ps"])[mine & part.ran & (rows["status"] == 0)] / PS_PER_S)
        whole = sum((own + shared for _, own, shared in split_pj(part)), np.zeros(len(rows["row"])))
        joule += float(whole[mine].sum()) / PJ_PER_J
    return begun, np.concatenate(took), joule


def background_table(streams: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Streams as flat rows: amounts in the stream's own ``unit``, DRAM and flash bytes apart."""
    table = []
    for name, stream in streams.items():
        unit = "core_s" if stream["kind"] == "cpu" else "bytes"
        amounts = {what: stream[f"{what}_{unit}"] for what in ("due", "served", "backlog")}
        moved = {f"{what}_bytes": stream["bytes"].get(what, 0) for what in ("dram_read", "dram_write", "flash_read")}
        kept = ("kind", "bursts", "late_bursts", "late_max_s", "energy_j", "burst_p50_s", "burst_p99_s")
        table.append({"stream": name, **{key: stream[key] for key in kept}, "unit": unit, **amounts, **moved})
    return table


def _notes(trace: Trace, kind: str) -> tuple[np.ndarray, np.ndarray]:
    mine = trace.notes["kind"] == kind
    return trace.notes["value"][mine], trace.notes["extra"][mine]
