"""Figures of where bytes and joules go, and of a session under heat. They take traces; none simulates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from archsim.report import style
from archsim.report.energy import by_phase_and_device, row_phases
from archsim.report.heat import heat
from archsim.report.latency import in_order
from archsim.report.traffic import phase_traffic
from archsim.trace import Trace
from archsim.units import PS_PER_S

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Gap between two nodes of a flow, as a share of the whole height.
_GAP = 0.03
#: Least height of a node's place: two lines of text.
_TEXT = 0.1
#: Flows thinner than this share of the whole are not drawn.
_THIN = 0.004


def flow_figure(trace: Trace) -> Figure:
    """Flow of dynamic energy from phases to devices, and of bytes from phases to the memories they move through."""
    joule = [(str(row["phase"]), str(row["device"]), float(row["energy_j"])) for row in by_phase_and_device(trace)]
    moved = phase_traffic(trace, row_phases)
    size = [(str(row["phase"]), str(row["what"]), float(row["bytes"])) for row in moved]
    phases = in_order({name for name, _, _ in (*joule, *size)})
    looks = {phase: style.look(i) for i, phase in enumerate(phases)}
    with style.house():
        nodes = max(len({flow[side] for flow in flows}) for flows in (joule, size) for side in (0, 1))
        figure, panels = style.blank(3.2 + 0.25 * max(0, nodes - 8), columns=2)
        total_j, total_b = (sum(value for *_, value in flows) for flows in (joule, size))
        factor, text = style.si(total_j, "J")
        _alluvial(panels[0], joule, phases, looks, factor, text)
        panels[0].set_title(f"dynamic energy, {style.three(total_j * factor)} {text}")
        _alluvial(panels[1], size, phases, looks, 1e-9, "GB")
        panels[1].set_title(f"bytes moved, {style.three(total_b * 1e-9)} GB")
    return figure


def _alluvial(
    axes: Any, flows: Sequence[tuple[str, str, float]], phases: Sequence[str], looks: Any, factor: float, unit: str
) -> None:
    """Draw bands from phases (left) to their ends (right), as wide as what flows."""
    total = sum(value for *_, value in flows) or 1.0
    flows = [flow for flow in flows if flow[2] / total > _THIN]
    ends = sorted({end for _, end, _ in flows}, key=lambda end: -sum(v for _, e, v in flows if e == end))
    left = _stack([(p, sum(v for a, _, v in flows if a == p)) for p in phases], total)
    right = _stack([(end, sum(v for _, e, v in flows if e == end)) for end in ends], total)
    at = {("l", name): top for name, (top, _) in left.items()} | {("r", name): top for name, (top, _) in right.items()}
    x = np.linspace(0.0, 1.0, 40)
    ease = x * x * (3 - 2 * x)
    for phase in phases:
        for end in ends:
            width = sum(v for a, e, v in flows if (a, e) == (phase, end)) / total
            if not width:
                continue
            a, b = at["l", phase], at["r", end]
            at["l", phase], at["r", end] = a - width, b - width
            top = a + (b - a) * ease
            axes.fill_between(x, top, top - width, linewidth=0.4, alpha=0.85, **looks[phase])
    for side, nodes, place in (("right", left, -0.02), ("left", right, 1.02)):
        for name, (top, height) in nodes.items():
            if height:
                value = height * total * factor
                words = f"{style.wrapped(name, 18, 1)}\n{style.three(value)} {unit}"
                axes.text(place, top - max(height, _TEXT) / 2, words, ha=side, va="center", fontsize=6.5)
    axes.set_xlim(-0.55, 1.6)
    lowest = min((top - height for top, height in (*left.values(), *right.values())), default=0.0)
    axes.set_ylim(lowest - 0.05, 1.05)
    axes.set_axis_off()


def _stack(nodes: Sequence[tuple[str, float]], total: float) -> dict[str, tuple[float, float]]:
    """Top and height of each node, from the top down, with room for two lines of text."""
    top, placed = 1.0, {}
    for name, value in nodes:
        height = value / total
        placed[name] = (top, height)
        if height:
            top -= max(height, _TEXT) + _GAP
    return placed


def heat_figure(trace: Trace) -> Figure:
    """Tokens per second, power, temperatures and clocks over a session with a thermal model."""
    bin_ps = max(PS_PER_S, -(-trace.duration_ps // 120))
    rows = heat(trace, bin_ps)
    if len(rows) > 1 and trace.duration_ps % bin_ps:
        rows = rows[:-1]  # a short rest would show a rate of its own
    time = np.array([*(row["start_s"] for row in rows), rows[-1]["start_s"] + bin_ps / PS_PER_S])
    speeds = [("tokens_per_s", "tokens/s"), ("power_w", "power (W)")]
    celsius = [key for key in rows[0] if key.endswith("_celsius")]
    rates = [key for key in rows[0] if key.endswith("_rate")]
    with style.house():
        figure, panels = style.blank(5.2, rows=4, sharex=True)
        for axes, (key, label) in zip(panels, speeds):
            axes.stairs([row[key] for row in rows], time, baseline=None, **style.line(0), linewidth=1.2)
            axes.set_ylim(bottom=0)
            axes.set_ylabel(label)
        for axes, keys, label in ((panels[2], celsius, "temperature (C)"), (panels[3], rates, "clock (of full)")):
            for i, key in enumerate(keys):
                name = key.removesuffix("_celsius").removesuffix("_rate")
                axes.stairs([row[key] for row in rows], time, baseline=None, label=name, **style.line(i), linewidth=1.2)
            axes.set_ylabel(label)
            if keys:
                axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
        panels[3].set_ylim(0, 1.05)
        panels[3].set_xlabel("time (s)")
        panels[3].set_xlim(0, time[-1])
        for axes in panels:
            axes.grid(axis="y")
    return figure
