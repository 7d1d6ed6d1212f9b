"""Figures of diffusion decoding, drawn from the stored table of ``archsim reproduce llada --json``; none simulates."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archsim.report import style
from archsim.units import InputError, suggest

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Rows = Mapping[str, Mapping[str, Any]]


def read_rows(files: Sequence[str | os.PathLike[str]]) -> Rows:
    """Rows of stored tables by their id.

    Raises
    ------
    InputError
        When a file is no such table.
    """
    found: dict[str, Mapping[str, Any]] = {}
    for path in map(Path, files):
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            found |= {row["id"]: row for row in document["rows"]}
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            raise InputError(f"{path}: not a table of archsim reproduce llada --json") from None
    return found


def _value(rows: Rows, name: str) -> float:
    if name not in rows or not isinstance(rows[name].get("simulated"), int | float):
        raise InputError(f"the table has no row {name!r}; {suggest(name, rows)}")
    return float(rows[name]["simulated"])


def _names(rows: Rows, prefix: str) -> list[str]:
    """Names that follow a prefix, in the order of the table."""
    found = [name.removeprefix(prefix) for name in rows if name.startswith(prefix)]
    if not found:
        raise InputError(f"the table has no rows {prefix}*; make it with archsim reproduce llada --json")
    return found


def _bars(
    axes: Any,
    names: Sequence[str],
    values: Sequence[float],
    index: int,
    label: str,
    shift: float = 0.0,
    height: float = 0.7,
) -> None:
    places = [i + shift for i in range(len(names))]
    axes.barh(places, values, height=height, label=label, **style.look(index))
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)


def ablation(rows: Rows) -> Figure:
    """Seconds per request of each rung, published, simulated and by the null model, and each technique alone."""
    rungs = [name for name in _names(rows, "ladder.") if name != "cpu_pass"]
    with style.house():
        figure, (left, right) = style.blank(3.4, columns=2, width_ratios=(2, 1))
        for i, key in enumerate(("paper", "simulated", "null_model")):
            values = [rows[f"ladder.{name}"][key] or 0.0 for name in rungs]
            _bars(left, rungs, values, i, key.replace("_", " "), shift=(i - 1) * 0.27, height=0.25)
            for place, value in enumerate(values):
                if value:
                    left.text(value * 1.05, place + (i - 1) * 0.27, f"{value:.4g}", va="center", fontsize=5.5)
        left.set_xscale("log")
        left.set_xlim(1, 2e4)
        left.set_xlabel("s per request of 128 tokens")
        left.legend(loc="lower right")
        alone = _names(rows, "alone.")
        _bars(right, alone, [_value(rows, f"alone.{name}") for name in alone], 1, "alone")
        right.axvline(1.0, color="black", linewidth=0.8)
        right.set_xlabel("x over naive offload, alone")
    return figure


def masks(rows: Rows) -> Figure:
    """Masks left in the block and rows of the pass, step by step."""
    with style.house():
        figure, panels = style.blank(2.6, columns=3, sharey=True)
        for axes, name in zip(panels, ("runtime", "block", "all")):
            steps = sorted({key.partition(".")[0] for key in _names(rows, f"step.{name}.")})
            for i, what in enumerate(("masks", "active", "rows", "projected")):
                values = [_value(rows, f"step.{name}.{step}.{what}") for step in steps]
                axes.plot(range(len(steps)), values, label=what, **style.line(i))
            axes.set_title({"runtime": "one token a step", "block": "threshold 0.9", "all": "llada.cpp"}[name])
            axes.set_xlabel("step of the request")
            axes.grid(axis="y")
        panels[0].set_ylim(bottom=0)  # shared, so last: it ends the scaling by the data
        panels[0].set_ylabel("rows")
        style.legend_below(figure, panels[0], 4)
    return figure


def tail(rows: Rows) -> Figure:
    """Tail steps: rows on the NPU, rows of them without a token, and utilisation."""
    names = ["block", "sliding", "lookahead", "all"]
    with style.house():
        figure, (left, middle, right) = style.blank(2.4, columns=3)
        for i, what in enumerate(("rows", "active")):
            values = [_value(rows, f"tail.{name}.{what}") for name in names]
            _bars(left, names, values, i, what, shift=(i - 0.5) * 0.36, height=0.34)
        left.set_xlabel("rows of a tail step")
        style.legend_below(figure, left, 2)
        _bars(middle, names, [100 * _value(rows, f"tail.{name}.share") for name in names], 2, "share")
        middle.set_xlabel("tail steps (%)")
        _bars(right, names, [100 * _value(rows, f"tail.{name}.utilisation") for name in names], 3, "utilisation")
        right.set_xlabel("NPU operations over peak (%)")
    return figure


def energy(rows: Rows) -> Figure:
    """Energy per request and mean power."""
    names = _names(rows, "power.")
    names = [name for name in names if f"energy.{name}" in rows and rows[f"energy.{name}"]["unit"] == "J"]
    with style.house():
        figure, (left, right) = style.blank(1.9, columns=2)
        _bars(left, names, [_value(rows, f"energy.{name}") for name in names], 0, "energy")
        left.set_xscale("log")
        left.set_xlabel("J per request")
        _bars(right, names, [_value(rows, f"power.{name}") for name in names], 1, "power")
        right.set_xlabel("mean power (W)")
    return figure


def platforms(rows: Rows) -> Figure:
    """Speed-up over the CPU with a prefix cache, by machine and output length, and by data set."""
    keys = [key.rsplit(".", 1) for key in _names(rows, "range.") if key.count(".") == 1]
    systems, lengths = (list(dict.fromkeys(part)) for part in zip(*keys))
    tasks = [key for key in _names(rows, "range.") if "." not in key and key not in ("top", "bottom", "careful")]
    with style.house():
        figure, (left, right) = style.blank(2.6, columns=2)
        for i, system in enumerate(systems):
            values = [_value(rows, f"range.{system}.{length}") for length in lengths]
            left.plot(
                [int(length) for length in lengths], values, marker="o", markersize=3, label=system, **style.line(i)
            )
        left.set_xscale("log", base=2)
        left.set_xticks([int(length) for length in lengths], lengths)
        left.set_xlabel("output tokens")
        _bars(right, tasks, [_value(rows, f"range.{task}") for task in tasks], 2, "tasks")
        right.set_xlabel("x over CPU with prefix KV, 128 tokens")
        left.set_ylabel("x over CPU with prefix KV")
        for y in (17.0, 42.0):
            left.axhline(y, color="black", linewidth=0.8, linestyle=(0, (1, 2)))
            right.axvline(y, color="black", linewidth=0.8, linestyle=(0, (1, 2)))
        left.set_ylim(bottom=0)
        left.legend(loc="lower left")
    return figure


def pays(rows: Rows) -> Figure:
    """Where look-ahead pays: time without it over time with it."""
    panels = (
        ("map.cpu", ".map", "CPU matrix rate (x)", "mapping cost (x)"),
        ("map.block", ".hmx", "block and window (positions)", "HMX rate (x)"),
    )
    with style.house():
        figure, both = style.blank(2.6, columns=2)
        for axes, (prefix, middle, xlabel, ylabel) in zip(both, panels):
            cells = [key.split(middle) for key in _names(rows, prefix)]
            xs, ys = (list(dict.fromkeys(part)) for part in zip(*cells))
            grid = [[_value(rows, f"{prefix}{x}{middle}{y}") for x in xs] for y in ys]
            image = axes.imshow(grid, cmap="RdBu", vmin=0.7, vmax=1.3, aspect="auto", origin="lower")
            for i, line in enumerate(grid):
                for j, value in enumerate(line):
                    ink = "white" if abs(value - 1) > 0.2 else "black"
                    axes.text(j, i, f"{value:.3f}", ha="center", va="center", fontsize=7, color=ink)
            axes.set_xticks(range(len(xs)), xs)
            axes.set_yticks(range(len(ys)), ys)
            axes.set_xlabel(xlabel)
            axes.set_ylabel(ylabel)
        both[1].set_title("CPU 4x, mapping free")
        figure.colorbar(image, ax=both, label="block windows / look-ahead (time)")
    return figure


def window(rows: Rows) -> Figure:
    """What fills the address window of one session, and what is swapped in every pass."""
    names = [key.removesuffix(".resident") for key in _names(rows, "window.") if key.endswith(".resident")]
    with style.house():
        figure, axes = style.blank(1.9)
        left = [0.0] * len(names)
        for i, what in enumerate(("resident", "swapped")):
            values = [_value(rows, f"window.{name}.{what}") for name in names]
            axes.barh(range(len(names)), values, left=left, height=0.6, label=what, **style.look(i))
            left = [a + b for a, b in zip(left, values)]
        axes.axvline(_value(rows, "window.limit"), color="black", linewidth=1.0, label="window")
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.set_xlabel("GB: resident, and mapped again in every pass")
        style.legend_below(figure, axes, 3)
    return figure


def sweeps(rows: Rows) -> Figure:
    """Seconds per request over the address window, the window's size, the HMX rate and the bandwidth."""
    axes_of = (
        ("window", "address window (GB)"),
        ("block", "block and window"),
        ("hmx", "HMX rate (x)"),
        ("bandwidth", "DMA and CPU reads (x)"),
    )
    with style.house():
        figure, grid = style.blank(4.6, rows=2, columns=2)
        panels = grid.ravel()
        for axes, (name, xlabel) in zip(panels, axes_of):
            series: dict[str, list[tuple[float, float]]] = {}
            for key in _names(rows, f"sweep.{name}."):
                x, _, label = _split(key)
                series.setdefault(label, []).append((x, _value(rows, f"sweep.{name}.{key}")))
            for i, (label, points) in enumerate(series.items()):
                axes.plot(*zip(*points), marker="o", markersize=2.5, label=label, **style.line(i))
            axes.set_ylim(bottom=0)
            axes.set_xlabel(xlabel)
            axes.set_ylabel("s per request")
            axes.grid(axis="y")
            axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def _split(key: str) -> tuple[float, str, str]:
    """Number and label of ``0.5.all`` or ``3.3.runtime.wide``."""
    parts = key.split(".")
    names = [part for part in parts if not part.isdigit()]
    return float(".".join(part for part in parts if part.isdigit())), "", ".".join(names)


KINDS: Mapping[str, Callable[[Rows], Figure]] = {
    "ablation": ablation,
    "masks": masks,
    "tail": tail,
    "energy": energy,
    "platforms": platforms,
    "pays": pays,
    "window": window,
    "sweeps": sweeps,
}
