"""The roofline of a run: what each device reached in each phase, under its own peak and the memory's slope."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from archsim.report import style
from archsim.report.energy import row_phases
from archsim.report.latency import in_order
from archsim.report.traffic import fractions
from archsim.trace import Trace
from archsim.units import PS_PER_S, InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Points whose device was busy for less of the run than this are left out.
_SHORT = 1e-3
#: Ratio of two values below which markers would lie on each other.
_NEAR = 1.15


def met(trace: Trace) -> list[dict[str, Any]]:
    """Operations and bytes of operands by device and phase, over the time in which its rows ran.

    Returns
    -------
    list of dict
        ``device``, ``phase``, ``busy_s``, ``ops_per_s`` (two per multiply-accumulate), ``ops_per_byte``.
    """
    ops = trace.ops
    moved = ops["weight_bytes"] + ops["in_bytes"] + ops["out_bytes"] + ops["kv_bytes"]
    names, times, busy = _by_phase_and_op(trace)
    found = []
    for i in (names.index(name) for name in in_order(names)):
        for device in sorted(set(ops["device"].tolist())):
            mine = ops["device"] == device
            operations, size = (float((each * times[i])[mine].sum()) for each in (2.0 * ops["macs"], moved))
            seconds = float(busy[i][mine].sum()) / PS_PER_S
            if operations and size and seconds:
                rates = {"ops_per_s": operations / seconds, "ops_per_byte": operations / size}
                found.append({"device": device, "phase": names[i], "busy_s": seconds, **rates})
    return found


def _by_phase_and_op(trace: Trace) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Phases, and how often and how long (ps) each entry of ``ops`` ran in each: ``[phases, ops]``."""
    size = len(trace.ops["op"])
    names: list[str] = []
    times, busy = np.zeros(0), np.zeros(0)
    for part in trace.parts():
        names, phase = row_phases(part)
        has = phase >= 0
        key, cells = phase[has] * size + part.row_op[has], len(names) * size
        spent = np.where(part.ran, part.row_end_ps - part.rows["start_ps"], 0)
        times = np.bincount(key, fractions(part)[has], cells) + (times if times.size else 0.0)
        busy = np.bincount(key, spent[has], cells) + (busy if busy.size else 0.0)
    return names, times.reshape(len(names), size), busy.reshape(len(names), size)


def _coincide(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether the markers of two points would cover each other."""
    near = np.log(_NEAR)
    return all(abs(np.log(one[key] / other[key])) < near for key in ("ops_per_byte", "ops_per_s"))


def roofline_figure(trace: Trace) -> Figure:
    """What each device reached in each phase, below its peak rate and the bandwidth of the memory."""
    points = [point for point in met(trace) if point["busy_s"] * PS_PER_S > _SHORT * trace.duration_ps]
    if not points:
        raise InputError("no device of this run multiplies, so there is no roofline to draw")
    peaks = trace.manifest["peaks"]
    devices = list(dict.fromkeys(point["device"] for point in points))
    slopes = {
        name: peak["bytes_per_s"]
        for name, peak in peaks.items()
        if peak["bytes_per_s"] and (name in devices or not peak["ops_per_s"])
    }
    low = min(point["ops_per_byte"] for point in points) / 4
    high = max(point["ops_per_byte"] for point in points) * 8
    x = np.geomspace(low, high, 200)
    phases = list(dict.fromkeys(point["phase"] for point in points))
    with style.house():
        figure, axes = style.blank(3.8)
        for i, (name, rate) in enumerate(slopes.items()):
            axes.plot(x, rate * x, color="#7F7F7F", linewidth=0.9, linestyle=style.LINES[1 + i % 3],
                      label=f"{name}, {style.three(rate / 1e9)} GB/s")  # fmt: skip
        for i, device in enumerate(devices):
            peak = peaks.get(device, {}).get("ops_per_s")
            if peak:
                axes.axhline(peak, color=style.COLOURS[i % 8], linewidth=1.2, linestyle=style.LINES[i % 4],
                             label=f"{device}, {style.three(peak / 1e9)} Gop/s")  # fmt: skip
        for n, point in enumerate(points):
            i, j = devices.index(point["device"]), phases.index(point["phase"])
            under = sum(_coincide(point, other) for other in points[:n])  # a ring shows what lies inside
            look = {"facecolor": "none", "edgecolor": style.COLOURS[i % 8], "linewidth": 1.2} if under else {
                "facecolor": style.COLOURS[i % 8], "edgecolor": "black", "linewidth": 0.5}  # fmt: skip
            axes.scatter([point["ops_per_byte"]], [point["ops_per_s"]], s=34 * (1 + 2 * under), zorder=3,
                         marker=style.MARKERS[j % 8], label=f"{point['device']}: {point['phase']}", **look)  # fmt: skip
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(low, high)
        reached = [point["ops_per_s"] for point in points]
        tops = [peaks[d]["ops_per_s"] for d in devices if peaks.get(d, {}).get("ops_per_s")]
        axes.set_ylim(min(reached) / 8, max([*reached, *tops]) * 4)
        axes.set_xlabel("intensity (operations per byte of operands)")
        axes.set_ylabel("rate while busy (operations/s)")
        axes.grid()
        style.legend_below(figure, axes, 3)
    return figure
