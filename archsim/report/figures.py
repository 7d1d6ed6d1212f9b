"""Figures of runs, in the house style. Each takes traces or tables and returns a matplotlib figure; none simulates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from archsim.report import style
from archsim.report.area import area_mm2
from archsim.report.energy import energy
from archsim.report.flow_figures import flow_figure, heat_figure
from archsim.report.heat import is_thermal
from archsim.report.latency import PHASES, in_order, latency, phases_of, slices
from archsim.report.power import power
from archsim.report.roofline_figures import roofline_figure
from archsim.report.tables import flat
from archsim.report.window import mapping_rows, occupancy, window_stores
from archsim.trace import Trace
from archsim.units import PS_PER_S, InputError, suggest

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Most entries of a legend; what is smaller is drawn together as "other".
MOST = 12


def phase_look(phases: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Look of each phase; a known phase looks the same in every figure."""
    others = [phase for phase in phases if phase not in PHASES]
    return {p: style.look(PHASES.index(p) if p in PHASES else len(PHASES) + others.index(p)) for p in phases}


def timeline_figure(trace: Trace, start_s: float = 0.0, end_s: float | None = None) -> Figure:
    """What each unit does over time, coloured by phase; slices closer than a pixel are drawn as one.

    Parameters
    ----------
    start_s, end_s : float
        Window; the whole run by default.
    """
    phase_of, unit_of, starts, ends = slices(trace)
    names, unit_names = phases_of(trace)[0], trace.unit_names
    begin = int(start_s * PS_PER_S)
    end = trace.duration_ps if end_s is None else int(end_s * PS_PER_S)
    seen = (ends > begin) & (starts < end)
    if begin >= end or not seen.any():
        raise InputError(f"nothing happens between {start_s} s and {end / PS_PER_S} s; the run lasts "
                         f"{trace.duration_ps / PS_PER_S} s")  # fmt: skip
    units = [unit_names[i] for i in np.unique(unit_of[seen]).tolist()]
    phases = in_order({names[i] for i in np.unique(phase_of[seen]).tolist()})
    edge = 0.4 if seen.sum() < 300 else 0.0  # outlines of many slices would hide their colours
    factor, unit_text = style.seconds(end - begin)
    with style.house():
        figure, axes = style.blank(1.0 + 0.3 * len(units))
        for phase, look in phase_look(phases).items():
            label: str | None = phase
            for y, unit in enumerate(units):
                mine = seen & (phase_of == names.index(phase)) & (unit_of == unit_names.index(unit))
                spans = _merge(starts[mine], ends[mine], begin, end)
                if spans:
                    axes.broken_barh([((a - begin) * factor, (b - a) * factor) for a, b in spans],
                                     (y - 0.38, 0.76), label=label, linewidth=edge, **look)  # fmt: skip
                    label = None
        axes.set_yticks(range(len(units)), style.rows_of(units)[0])
        axes.set_ylim(len(units) - 0.5, -0.5)
        axes.set_xlim(0, (end - begin) * factor)
        axes.set_xlabel(f"time since {begin * factor:g} {unit_text} ({unit_text})" if begin else f"time ({unit_text})")
        axes.grid(axis="x")
        style.legend_below(figure, axes, 7)
    return figure


def _merge(start: np.ndarray, end: np.ndarray, low: int, high: int) -> list[tuple[int, int]]:
    """Clip intervals to a window and join those closer than a two-thousandth of it."""
    if start.size == 0:
        return []
    order = np.argsort(start, kind="stable")
    start, end = np.maximum(start[order], low), np.minimum(np.maximum.accumulate(end[order]), high)
    apart = start[1:] - end[:-1] > (high - low) // 2000
    first, last = np.append(True, apart), np.append(apart, True)
    return list(zip(start[first].tolist(), end[last].tolist()))


def latency_figure(trace: Trace) -> Figure:
    """Busy time of each unit, stacked by phase; per step for what is not prefill where the run has steps."""
    table = [row for row in latency(trace) if row["phase"] != "prefill"] or latency(trace)
    key, what = "busy_per_step_s", "busy time per step"
    if any(row[key] is None for row in table):
        key, what = "busy_s", "busy time"
    units = [name for name in trace.unit_names if any(row["unit"] == name for row in table)]
    phases = in_order({row["phase"] for row in table})
    values = {(row["phase"], row["unit"]): row[key] for row in table}
    totals = [sum(values.get((phase, unit), 0.0) for phase in phases) for unit in units]
    factor, text = style.si(max(totals, default=0.0), "s")
    stacks = {phase: [values.get((phase, unit), 0.0) * factor for unit in units] for phase in phases}
    return _stacked(units, stacks, f"{what} ({text})", phase_look(phases))


def energy_figure(trace: Trace) -> Figure:
    """Energy by device: left stacked by action and static block, right by useful, wasted and static."""
    spent = energy(trace)
    devices = sorted(spent.by_device(), key=lambda name: -spent.by_device()[name])
    factor, text = style.si(max(spent.by_device().values(), default=0.0), "J")
    parts = {name: value for name, value in (*spent.action_j.items(), *spent.static_j.items()) if value > 0}
    shown = sorted(parts, key=lambda name: -parts[name])[: MOST - 1]
    stacks = {name: [value * factor if name.split(".", 1)[0] == d else 0.0 for d in devices]
              for name, value in ((name, parts[name]) for name in shown)}  # fmt: skip
    rest = [sum(v for n, v in parts.items() if n not in shown and n.split(".", 1)[0] == d) * factor for d in devices]
    if any(rest):
        stacks["other"] = rest
    static = {d: sum(v for n, v in spent.static_j.items() if n.split(".", 1)[0] == d) for d in devices}
    split = {
        "useful": [spent.device_useful_j.get(d, 0.0) * factor for d in devices],
        "wasted": [spent.device_wasted_j.get(d, 0.0) * factor for d in devices],
        "static": [static[d] * factor for d in devices],
    }
    looks = {name: style.look(i) for i, name in enumerate(stacks)}
    uses = {"useful": style.look(2), "wasted": style.look(5), "static": style.look(7)}
    heights = [0.6 + 0.3 * len(devices), 0.1 + 0.17 * -(-len(stacks) // 2)]
    with style.house():
        figure, panels = style.blank(sum(heights), rows=2, columns=2, height_ratios=heights)
        for i, (title, shares, look) in enumerate((("by action", stacks, looks), ("by use", split, uses))):
            axes, below = panels[0][i], panels[1][i]
            _bars(axes, devices, shares, look)
            axes.set_title(title)
            axes.set_xlabel(f"energy ({text})")
            below.set_axis_off()
            below.legend(*axes.get_legend_handles_labels(), loc="upper center", ncols=2 if i == 0 else 3)
    return figure


def _bars(axes: Any, names: Sequence[str], stacks: Mapping[str, Sequence[float]], looks: Mapping[str, Any]) -> None:
    """Draw horizontal stacked bars, first name on top."""
    left = np.zeros(len(names))
    for label, values in stacks.items():
        axes.barh(range(len(names)), values, left=left, height=0.7, label=label, **looks[label])
        left += np.array(values)
    axes.set_yticks(range(len(names)), style.rows_of(names)[0])
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlim(0, 1.03 * left.max(initial=0.0) or 1.0)
    axes.grid(axis="x")


def _stacked(names: Sequence[str], stacks: Mapping[str, Sequence[float]], xlabel: str, looks: Any) -> Figure:
    with style.house():
        figure, axes = style.blank(1.0 + 0.3 * len(names))
        _bars(axes, names, stacks, looks)
        axes.set_xlabel(xlabel)
        style.legend_below(figure, axes, 6)
    return figure


def area_figure(trace: Trace) -> Figure:
    """Area by block, largest first."""
    areas = area_mm2(trace)
    if not areas:
        raise InputError("the machine of this run declares no area")
    blocks = sorted(areas, key=lambda name: -areas[name])
    devices = sorted({name.split(".", 1)[0] for name in blocks})
    stacks = {d: [areas[b] if b.split(".", 1)[0] == d else 0.0 for b in blocks] for d in devices}
    return _stacked(blocks, stacks, "area (mm2)", {d: style.look(i) for i, d in enumerate(devices)})


def power_figure(trace: Trace, bin_ps: int | None = None) -> Figure:
    """Power over time by device and in total.

    Parameters
    ----------
    bin_ps : int, optional
        Width of a bin; by default that of :func:`archsim.report.power.power`, or a thousandth of a longer run.
    """
    watts = power(trace, bin_ps)
    if bin_ps is None and len(watts.edges_ps) > 1001:
        watts = power(trace, -(-trace.duration_ps // 1000))
    factor, time_text = style.seconds(trace.duration_ps)
    scale, text = style.si(watts.peak_w(), "W")
    with style.house():
        figure, axes = style.blank(2.8)
        curves = {**watts.device_w, "total": watts.total_w()}
        for i, (name, values) in enumerate(curves.items()):
            look = (
                {"color": "black", "linestyle": "-", "linewidth": 1.8}
                if name == "total"
                else style.line(i) | {"linewidth": 1.2}
            )
            axes.stairs(values * scale, watts.edges_ps * factor, baseline=None, label=name, **look)
        axes.axhline(watts.mean_w() * scale, color="black", linewidth=0.8, linestyle=(0, (1, 2)), label="mean of total")
        axes.set_xlim(0, trace.duration_ps * factor)
        axes.set_ylim(bottom=0)
        axes.set_xlabel(f"time ({time_text})")
        bin_factor, bin_text = style.seconds(watts.bin_ps)
        axes.set_ylabel(f"power ({text}), bins of {watts.bin_ps * bin_factor:.3g} {bin_text}")
        axes.grid(axis="y")
        style.legend_below(figure, axes, 6)
    return figure


def compare_figure(
    runs: Sequence[tuple[str, Mapping[str, Any]]],
    keys: Sequence[str] = ("decode_tokens_per_s", "energy_per_token_j", "mean_power_w"),
) -> Figure:
    """One bar per run and quantity.

    Parameters
    ----------
    runs : sequence of (label, mapping)
        Summaries or rows of a table; nested ones are flattened (``phases.io``).
    keys : sequence of str
        Quantities to show, one panel each; their unit is the ending of the key.
    """
    rows = [(label, flat(values)) for label, values in runs]
    if not rows:
        raise InputError("nothing to compare; give at least one run")
    for key in keys:
        for label, values in rows:
            if not isinstance(values.get(key), int | float):
                raise InputError(f"run {label!r} has no number {key!r}; {suggest(key, values)}")
    with style.house():
        figure, panels = style.blank(1.0 + 0.3 * len(rows), columns=len(keys), sharey=True, squeeze=False)
        for i, (key, axes) in enumerate(zip(keys, panels[0])):
            words, unit = quantity(key)
            factor, unit = style.si(max(row[key] for _, row in rows), unit) if unit in ("s", "J", "W") else (1.0, unit)
            values = [row[key] * factor for _, row in rows]
            bars = axes.barh(range(len(rows)), values, height=0.7, **style.look(i))
            axes.bar_label(bars, [f"{value:.4g}" for value in values], padding=2)
            axes.set_yticks(range(len(rows)), style.rows_of([label for label, _ in rows])[0])
            axes.set_ylim(len(rows) - 0.5, -0.5)
            axes.set_xlim(min(0.0, *values), 1.45 * max(*values, 0.0) or 1.0)  # room for the numbers
            axes.locator_params(axis="x", nbins=4)
            axes.set_xlabel(f"{words} ({unit})" if unit else words)
            axes.grid(axis="x")
    return figure


_UNITS = {"tokens_per_s": "tokens/s", "mm2": "mm2", "s": "s", "j": "J", "w": "W", "ps": "ps", "bytes": "bytes"}


def latency_histogram_figure(histogram: np.ndarray, tck_ns: float) -> Figure:
    """Reads by latency, and the share of reads at or below each latency.

    Parameters
    ----------
    histogram : int64 [bins]
        Reads by latency in cycles.
    tck_ns : float
        Clock period.
    """
    if not histogram.sum():
        raise InputError("the trace has no reads; there is no latency to draw")
    used = np.flatnonzero(histogram)
    low, high = max(int(used[0]) - 1, 0), int(used[-1]) + 2
    cycles = np.arange(low, high)
    cumulated = np.cumsum(histogram)[low:high] / histogram.sum()
    with style.house():
        figure, axes = style.blank(2.4)
        axes.step(cycles * tck_ns, histogram[low:high], where="mid", **style.line(0))
        axes.set_xlabel("read latency (ns)")
        axes.set_ylabel("reads")
        share = axes.twinx()
        share.plot(cycles * tck_ns, cumulated, **style.line(1))
        share.set_ylim(0, 1)
        share.set_ylabel("share at or below (dashed)")
    return figure


def quantity(key: str) -> tuple[str, str]:
    """Words and unit of a key: ``energy_per_token_j`` gives ``("energy per token", "J")``."""
    for ending, unit in _UNITS.items():
        if key.endswith(f"_{ending}"):
            return key.removesuffix(f"_{ending}").replace("_", " "), unit
    return key.replace("_", " "), ""


def window_figure(trace: Trace) -> Figure:
    """Bytes mapped in the NPU's address windows over time, and staging slots in use."""
    stores = window_stores(trace)
    curves = {name: (store, curve) for name, store in stores.items() if (curve := occupancy(trace, store)) is not None}
    if not curves:
        raise InputError("this run has no address window whose level its trace tells; run with --trace tasks or full")
    factor, time_text = style.seconds(trace.duration_ps)
    with style.house():
        figure, panels = style.blank(0.8 + 1.5 * len(curves), rows=len(curves), sharex=True, squeeze=False)
        for i, (name, (store, (times, levels))) in enumerate(curves.items()):
            axes, limit = panels[i][0], trace.manifest["stores"][store]["capacity"]
            scale, text = (1.0, "slots") if trace.manifest["stores"][store]["unit"] == "slots" else (1e-9, "GB")
            edges, low, high = _envelope(times, levels, trace.duration_ps)
            at = edges * factor
            axes.stairs(low * scale, at, fill=True, color=style.COLOURS[0], label="held throughout")
            axes.stairs(high * scale, at, baseline=low * scale, fill=True, color=style.COLOURS[4], label="at times")
            near = 2 * int(high.max()) > limit
            if near:
                axes.axhline(limit * scale, color="black", linewidth=0.8, linestyle=style.LINES[1], label="capacity")
            axes.set_ylim(0, 1.1 * scale * (limit if near else max(int(high.max()), 1)))
            axes.set_title(f"{name}, capacity {limit * scale:.4g} {text}")
            axes.set_ylabel("slots in use" if text == "slots" else "mapped (GB)")
            axes.grid(axis="y")
        style.legend_below(figure, panels[-1][0], 3)
        panels[-1][0].set_xlim(0, trace.duration_ps * factor)
        panels[-1][0].set_xlabel(f"time ({time_text})")
    return figure


def _envelope(times: np.ndarray, levels: np.ndarray, end: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Edges of up to a thousand equal bins of a step curve up to `end`, and the least and the most level in each."""
    edges = np.unique(np.linspace(0, max(end, 1), 1001).astype(np.int64))
    at = np.searchsorted(times, edges[:-1], side="right") - 1
    points = np.concatenate([edges[:-1], times[times < edges[-1]]])
    values = np.concatenate([levels[at], levels[times < edges[-1]]])
    order = np.argsort(points, kind="stable")
    first = np.searchsorted(points[order], edges[:-1], side="left")
    return edges, np.minimum.reduceat(values[order], first), np.maximum.reduceat(values[order], first)


#: Figures of one run by kind.
KINDS: Mapping[str, Callable[[Trace], Figure]] = {
    "timeline": timeline_figure,
    "latency": latency_figure,
    "energy": energy_figure,
    "area": area_figure,
    "power": power_figure,
    "flow": flow_figure,
    "roofline": roofline_figure,
}
#: The same, with those that only some runs have.
ALL_KINDS: Mapping[str, Callable[[Trace], Figure]] = {**KINDS, "heat": heat_figure, "window": window_figure}


def kinds_of(trace: Trace) -> list[str]:
    """Kinds of figures that a run has."""
    mapped = window_stores(trace) and mapping_rows(trace).any()
    return [*KINDS, *(["heat"] if is_thermal(trace) else []), *(["window"] if mapped else [])]


def figure(trace: Trace, kind: str) -> Figure:
    """Figure of one run by its kind in `ALL_KINDS`; an unknown kind raises InputError with the known ones."""
    if kind not in ALL_KINDS:
        raise InputError(f"no figure {kind!r}; {suggest(kind, ALL_KINDS)}")
    return ALL_KINDS[kind](trace)
