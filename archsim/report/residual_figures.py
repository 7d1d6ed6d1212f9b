"""Figure of measured against simulated values, with the null model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from archsim.report.style import COLOURS, blank, house

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
#: Title and axis of each kind of unit, and the factor into the axis' unit.
_PANELS = {"time": ("Times", "us"), "bytes": ("Rates of bytes", "MB/s"), "tokens": ("Rates of tokens", "tok/s")}
#: Most groups that the legend names.
_NAMED = 16


def residual_figure(rows: Sequence[Mapping[str, Any]], title: str) -> Figure:
    """Scatter of simulated over measured values, one panel for each kind of unit, logarithmic.

    Parameters
    ----------
    rows : sequence of mapping
        Rows with ``kind`` (``time``, ``bytes`` or ``tokens``), ``group``, and ``measured``, ``simulated`` and
        ``null_model`` (or None) in us, MB/s or tok/s.
    title : str
        Title of the figure.

    Returns
    -------
    Figure
        Filled marks are archsim's, grey crosses the null model's; the band is 10 % around equality.
    """
    kinds = [kind for kind in _PANELS if any(row["kind"] == kind for row in rows)]
    groups = list(dict.fromkeys(row["group"] for row in rows))
    with house():
        figure, axes = blank(3.4 + 0.12 * len(groups), 1, max(len(kinds), 1), squeeze=False)
        figure.suptitle(title, x=0.01, ha="left", fontsize=9)
        for axis, kind in zip(axes[0], kinds):
            _panel(axis, [row for row in rows if row["kind"] == kind], groups)
            axis.set_title(_PANELS[kind][0])
            axis.set_xlabel(f"measured, {_PANELS[kind][1]}")
            axis.set_ylabel(f"simulated, {_PANELS[kind][1]}")
        handles: dict[str, Any] = {}
        for axis in axes[0]:
            found, labels = axis.get_legend_handles_labels()
            handles |= dict(zip(labels, found))
        if handles:
            figure.legend(handles.values(), handles, loc="outside lower center", ncols=3)
    return figure


def _panel(axis: Any, rows: Sequence[Mapping[str, Any]], groups: Sequence[str]) -> None:
    values = [row[key] for row in rows for key in ("measured", "simulated", "null_model") if row[key]]
    low, high = 10 ** math.floor(math.log10(min(values) / 1.1)), 10 ** math.ceil(math.log10(max(values) * 1.1))
    axis.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high))
    axis.grid(True)
    axis.plot([low, high], [low, high], color="black", linewidth=0.7)
    axis.fill_between([low, high], [low / 1.1, high / 1.1], [low * 1.1, high * 1.1], color="#D0D0D0", alpha=0.6, lw=0)
    nulls = [(row["measured"], row["null_model"]) for row in rows if row["null_model"]]
    if nulls:
        axis.scatter(*zip(*nulls), marker="x", s=16, color="#7F7F7F", linewidths=0.8, label="null model", zorder=2)
    for number, group in enumerate(groups):
        points = [(row["measured"], row["simulated"]) for row in rows if row["group"] == group]
        if points:
            look = {"marker": MARKERS[number % len(MARKERS)], "color": COLOURS[number % len(COLOURS)]}
            label = group if number < _NAMED else None
            axis.scatter(*zip(*points), s=22, edgecolors="black", linewidths=0.4, label=label, zorder=3, **look)
