"""Why a run takes the time it takes: who owns the path, what more of it could give, where each unit stands.

Everything here follows from one trace; what needs other runs (sensitivities) is in :mod:`archsim.sweep.sensitivity`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from archsim.report.energy import energy
from archsim.report.latency import busy_ps
from archsim.report.owner import WAIT, owner, sentence, walk
from archsim.report.summary import summarise
from archsim.report.traffic import executions
from archsim.trace import Trace
from archsim.units import PS_PER_S

Table = list[dict[str, Any]]


def explain(trace: Trace) -> dict[str, Any]:
    """Explanation of a run.

    Returns
    -------
    dict
        ``insight`` (sentences), ``path`` (seconds of the run by unit and operator), ``what_if`` (run time if a device
        were infinitely fast, at best), ``roofline`` (where each device stands).
    """
    return {
        "insight": [sentence(trace)],
        "path": path(trace),
        "what_if": what_if(trace),
        "roofline": roofline(trace),
    }


def path(trace: Trace) -> Table:
    """Seconds of the run's path by unit, phase and operator, largest first; they add up to the run's time."""
    stretches, ops = walk(trace), trace.ops
    prefill_row = (trace.blocks["phase"] == "prefill")[trace.row_block]
    unit, op, prefill = (stretches.of(column) for column in (trace.rows["unit"], trace.row_op, prefill_row))
    size = len(ops["op"]) + 1
    kinds, kind = np.unique(((unit + 1) * size + op + 1) * 2 + (prefill > 0), return_inverse=True)
    lengths = np.zeros(len(kinds), dtype=np.int64)
    np.add.at(lengths, kind, stretches.end_ps - stretches.start_ps)
    owned: dict[tuple[str, str, str], int] = {}
    for one, ps in zip(kinds.tolist(), lengths.tolist()):
        unit_at, op_at = divmod(one // 2, size)  # 0: none
        phase, name = (str(ops["phase"][op_at - 1]), str(ops["name"][op_at - 1])) if op_at else ("", "")
        key = (trace.unit_names[unit_at - 1], "prefill" if one % 2 else phase, name) if unit_at else (WAIT, "", "")
        owned[key] = owned.get(key, 0) + ps
    total = max(trace.duration_ps, 1)
    return [
        {"unit": unit, "phase": phase, "operator": name, "time_s": ps / PS_PER_S, "share": ps / total}
        for (unit, phase, name), ps in sorted(owned.items(), key=lambda item: (-item[1], item[0]))
    ]


def what_if(trace: Trace) -> Table:
    """Shortest run time, and largest speed-up, if a device were infinitely fast and nothing else changed.

    A bound: time the device owns vanishes, another path may then be the longest, and the schedule decides the same.
    """
    devices: dict[str, float] = {}
    for unit, seconds in owner(trace).items():
        device = unit.split(".", 1)[0]
        devices[device] = devices.get(device, 0.0) + seconds
    total = trace.duration_ps / PS_PER_S
    return [
        {
            "device": device,
            "owns_s": seconds,
            "run_at_least_s": total - seconds,
            "speed_up_at_most": total / (total - seconds) if total > seconds else None,
        }
        for device, seconds in sorted(devices.items(), key=lambda item: (-item[1], item[0]))
        if device != WAIT
    ]


def roofline(trace: Trace) -> Table:
    """Where each device stands: rates met while it was busy, its peaks, intensity and what bounds it there.

    A device without a rate of its own has that of the slowest pool of bytes which its rows draw on (shared DRAM).
    """
    ops, peaks = trace.ops, trace.manifest["peaks"]
    shared = pool_peaks(trace)
    times = executions(trace)
    moved = (ops["weight_bytes"] + ops["in_bytes"] + ops["out_bytes"] + ops["kv_bytes"]) * times
    work = 2.0 * ops["macs"] * times
    busy_of = busy_ps(trace)
    table = []
    for name, peak in peaks.items():
        mine = ops["device"] == name
        busy_s = float(sum(ps for (_, unit), ps in busy_of.items() if unit.split(".", 1)[0] == name)) / PS_PER_S
        nbytes, operations = float(moved[mine].sum()), float(work[mine].sum())
        if not busy_s or not (nbytes or operations):
            continue
        rate = peak["bytes_per_s"] or shared.get(name, 0.0)
        ridge = peak["ops_per_s"] / rate if rate and peak["ops_per_s"] else None
        intensity = operations / nbytes if nbytes else None
        computes = bool(operations) and (intensity is None or (ridge is not None and intensity >= ridge))
        table.append(
            {
                "device": name,
                "busy_s": busy_s,
                "ops_per_s": operations / busy_s,
                "peak_ops_per_s": peak["ops_per_s"] or None,
                "bytes_per_s": nbytes / busy_s,
                "peak_bytes_per_s": rate or None,
                "ops_per_byte": intensity,
                "ridge_ops_per_byte": ridge,
                "side": "compute" if computes else "memory",
                "of_roof": _of_roof(operations, nbytes, busy_s, peak["ops_per_s"], rate),
            }
        )
    return table


def pool_peaks(trace: Trace) -> dict[str, float]:
    """Largest rate (bytes/s) by device at which the pools that its rows draw on can serve it: the slowest of them.

    Devices that use weights where these lie are left out: most of their bytes cross no pool.
    """
    keep = trace.manifest.get("keep_weights")
    if keep is None:
        return {}
    draws, ops = trace.tables["draws"], trace.ops
    devices = dict(zip(ops["op"].tolist(), ops["device"].tolist()))
    found: dict[str, float] = {}
    for pool, entry in enumerate(trace.manifest["pools"]):
        if entry["unit"] != "bytes/s":
            continue
        of_mix = max([fixed for _, fixed in entry["mix"]], default=0) / entry["fixed"]
        peak = entry["capacity"] * max(1.0, of_mix)
        drawn = {devices.get(op) for op in np.unique(draws["op"][draws["pool"] == pool]).tolist()}
        for device in drawn - {None, *keep}:
            found[device] = min(found.get(device, peak), peak)
    return found


def _of_roof(operations: float, nbytes: float, busy_s: float, ops_per_s: float, bytes_per_s: float) -> float | None:
    """Share of the roofline's bound at this intensity that was met: the ideal time of the work over the time it took.

    The bound is the lower of the two roofs, which is where the longer of the two ideal times lies.
    """
    ideal = [amount / rate for amount, rate in ((operations, ops_per_s), (nbytes, bytes_per_s)) if rate]
    return max(ideal) / busy_s if ideal else None


def difference(one: Trace, other: Trace) -> dict[str, Any]:
    """What makes two runs differ: headline numbers, time on the path by unit and phase, energy by device and action.

    Times and energies are per committed token where both runs committed any, so runs of different lengths compare.
    """
    a, b = summarise(one), summarise(other)
    per = "tokens" if a["tokens"] and b["tokens"] else "run"
    scale = (a["tokens"], b["tokens"]) if per == "tokens" else (1, 1)
    keys = ("decode_tokens_per_s", "request_latency_s", "ttft_s", "energy_per_token_j", "mean_power_w",
            "peak_power_w", "area_mm2", "accepted_per_step")  # fmt: skip
    return {
        "per": "token" if per == "tokens" else "run",
        "summary": [_change({"what": key}, a[key], b[key]) for key in keys],
        "time": _changes(_path_parts(one), _path_parts(other), scale, ("unit", "phase"), "s"),
        "energy": _changes(_energy_parts(one), _energy_parts(other), scale, ("action",), "j"),
    }


def _path_parts(trace: Trace) -> dict[tuple[str, ...], float]:
    parts: dict[tuple[str, ...], float] = {}
    for entry in path(trace):
        key = (entry["unit"], entry["phase"])
        parts[key] = parts.get(key, 0.0) + entry["time_s"]
    return parts


def _energy_parts(trace: Trace) -> dict[tuple[str, ...], float]:
    spent = energy(trace)
    return {(name,): joules for name, joules in {**spent.action_j, **spent.static_j}.items()}


def _changes(
    one: dict[tuple[str, ...], float],
    other: dict[tuple[str, ...], float],
    scale: tuple[float, float],
    names: tuple[str, ...],
    unit: str,
) -> Table:
    table = []
    for key in {**one, **other}:
        a, b = one.get(key, 0.0) / scale[0], other.get(key, 0.0) / scale[1]
        if a or b:
            entry = _change(dict(zip(names, key)), a, b)
            table.append({**entry, f"change_{unit}": b - a})
    return sorted(table, key=lambda entry: -abs(entry[f"change_{unit}"]))


def _change(entry: dict[str, Any], a: float | None, b: float | None) -> dict[str, Any]:
    return {**entry, "a": a, "b": b, "ratio": b / a if a and b is not None else None}
