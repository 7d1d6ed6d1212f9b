"""Figures of tables (a sweep's, a reproduction's, a sensitivity analysis's), in the house style. None simulates."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from archsim.config.regular import read_regular
from archsim.report import style
from archsim.report.figures import ALL_KINDS
from archsim.report.scales import Scale, label, scale
from archsim.report.selection import AXES
from archsim.report.tables import read_table
from archsim.units import InputError, quote, suggest

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Rows = Sequence[Mapping[str, Any]]

#: Most lines of one panel.
MOST_LINES = 64
#: Names along the axes of a heat map; of more, evenly chosen ones are named.
MOST_NAMES = 32


def _column(rows: Rows, name: str | None, option: str) -> list[Any]:
    """Values of a column; the error says which columns there are."""
    if not rows:
        raise InputError("the table has no rows")
    if name is None:
        raise InputError(f"name a column with {option}; columns: {', '.join(rows[0])}")
    if name not in rows[0]:
        raise InputError(f"{option} {name}: the table has no such column; {suggest(name, rows[0])}")
    values = [row.get(name) for row in rows]
    odd = next((value for value in values if isinstance(value, (dict, list))), None)
    if odd is not None:
        raise InputError(f"{option} {name}: {quote(odd)} is neither a number nor a word")
    return values


def _numbers(rows: Rows, name: str | None, option: str) -> list[float]:
    values = _column(rows, name, option)
    for value in values:
        if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float))):
            raise InputError(f"{option} {name}: {quote(value)} is no number")
    return [math.nan if value is None else float(value) for value in values]


def lines_figure(rows: Rows, x: str | None, y: str | None, by: str | None = None) -> Figure:
    """One line per value of `by`: `y` over `x`, averaged over whatever else varies, which a note names.

    The band is p10 to p90 where the table has them for `y`, else the span of what was averaged. Infeasible points are
    crosses that no line joins.
    """
    xs, ys = _numbers(rows, x, "--x"), _numbers(rows, y, "--y")
    groups = [str(value) for value in _column(rows, by, "--by")] if by else [""] * len(rows)
    names = list(dict.fromkeys(groups))
    if len(names) > MOST_LINES:
        raise InputError(f"--by {by} has {len(names)} values; a panel shows up to {MOST_LINES} lines")
    drawn, outside = _band(rows, y), [row.get("status") == "infeasible" for row in rows]
    spread = False
    with style.house():
        figure, axes = style.blank(2.8)
        for i, name in enumerate(names):
            points: dict[float, list[float]] = {}
            for a, b, group, bad in zip(xs, ys, groups, outside):
                if group == name and not bad and not math.isnan(a) and not math.isnan(b):
                    points.setdefault(a, []).append(b)
            at = sorted(points)
            mean = [float(np.mean(points[a])) for a in at]
            axes.plot(at, mean, label=name or None, **style.marked(i))
            several = any(len(points[a]) > 1 for a in at)
            spread = spread or several
            if drawn is not None:
                mine = [(a, *ends) for a, ends, group in zip(xs, drawn, groups) if group == name]
                low, high = ([_mean(row[end] for row in mine if row[0] == a) for a in at] for end in (1, 2))
            elif several:
                low, high = [min(points[a]) for a in at], [max(points[a]) for a in at]
            if drawn is not None or several:
                axes.fill_between(at, low, high, color=style.COLOURS[i % len(style.COLOURS)], alpha=0.15, linewidth=0)
        if any(outside):
            px, py = ([v for v, bad in zip(values, outside) if bad] for values in (xs, ys))
            axes.scatter(px, py, s=16, marker="x", color=style.COLOURS[7], label="infeasible", zorder=3)
        across, up = scale(x, xs), scale(y, ys)
        axes.set_xlabel(across.axis_label())
        axes.set_ylabel(up.axis_label(upright=True))
        _spread(axes, xs)
        across.ticks(axes.xaxis)
        up.ticks(axes.yaxis)
        axes.grid()
        note = _averaged(rows, (x, y, by), banded=drawn is not None) if spread else ""
        if note:
            axes.set_title(style.wrapped(note, 90), loc="left", fontsize=7)
        if by or any(outside):
            style.legend_below(figure, axes, 4)
        if by:
            figure.legends[0].set_title(style.wrapped(label(by), 90))
    return figure


def _averaged(rows: Rows, shown: Sequence[str | None], *, banded: bool) -> str:
    """Says over which columns values were averaged, and what the band is."""
    over = [
        name for name in rows[0] if name not in shown and name.startswith(AXES) and len({row[name] for row in rows}) > 1
    ]
    what = f" over {', '.join(label(name) for name in over)}" if over else " of the rows that share a place"
    return f"mean{what}; band: " + ("10th to 90th percentile" if banded else "smallest to largest")


def _band(rows: Rows, name: str | None) -> list[tuple[float, float]] | None:
    """p10 and p90 of a column by row, or its 95 % confidence (NaN where there is none); None without either."""
    if rows and name in rows[0] and f"{name}.ci95" in rows[0] and f"{name}.p10" not in rows[0]:
        middle, half = _numbers(rows, name, "column"), _numbers(rows, f"{name}.ci95", "column")
        return [(v - h, v + h) for v, h in zip(middle, half)]
    if not rows or f"{name}.p10" not in rows[0] or f"{name}.p90" not in rows[0]:
        return None
    return list(zip(_numbers(rows, f"{name}.p10", "column"), _numbers(rows, f"{name}.p90", "column")))


def _mean(values: Iterable[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return float(np.mean(known)) if known else math.nan


def _spread(axes: Any, xs: Sequence[float], which: str = "x") -> None:
    """Logarithmic axis where values span more than a factor of 30 evenly in the logarithm."""
    known = sorted({x for x in xs if not math.isnan(x)})
    if len(known) > 2 and known[0] > 0 and known[-1] / known[0] > 30:
        getattr(axes, f"set_{which}scale")("log")


def heat_figure(rows: Rows, x: str | None, y: str | None, value: str | None) -> Figure:
    """`value` over a grid of `x` and `y`, averaged over whatever else varies; numbers in the cells where they fit."""
    xs, ys = _column(rows, x, "--x"), _column(rows, y, "--y")
    values = _numbers(rows, value, "--value")
    columns, lines = _ordered(xs), _ordered(ys)
    cells: dict[tuple[int, int], list[float]] = {}
    for a, b, v in zip(xs, ys, values):
        if not math.isnan(v):
            cells.setdefault((lines.index(b), columns.index(a)), []).append(v)
    grid = np.full((len(lines), len(columns)), np.nan)
    for at, found in cells.items():
        grid[at] = np.mean(found)
    if np.isnan(grid).all():
        raise InputError(f"--value {value}: the column holds no number")
    with style.house():
        across, up, cell = scale(x, xs), scale(y, ys), scale(value, values)
        above, beside = [_word(across, v) for v in columns], [_word(up, v) for v in lines]
        upright = 0.07 * min(20, max(map(len, above))) if _crowded(above) else 0.0
        figure, axes = style.blank(max(2.4, 1.2 + 0.3 * min(len(lines), MOST_NAMES)) + upright)
        image = axes.imshow(grid, aspect="auto", cmap="cividis", origin="lower")
        bar = figure.colorbar(image, ax=axes, label=cell.axis_label(upright=True))
        cell.ticks(bar.ax.yaxis)
        _name_cells(axes.xaxis, above, across=True)
        _name_cells(axes.yaxis, beside, across=False)
        axes.set_xlabel(across.axis_label())
        axes.set_ylabel(up.axis_label(upright=True))
        if len(columns) <= 12 and len(lines) <= MOST_NAMES:
            _number_cells(axes, grid / cell.factor)
    return figure


def _name_cells(axis: Any, values: Sequence[str], *, across: bool) -> None:
    """Name the cells along an axis; of many, every second, third and so on. Names that need room stand upright."""
    every = -(-len(values) // MOST_NAMES)
    at = range(0, len(values), every)
    names = [values[i] for i in at]
    upright = across and _crowded(values)
    names = [style.wrapped(name, 20, 1 if upright or not across else 2) for name in names]
    axis.set_ticks(at, names, rotation=90 if upright else 0)


def _crowded(values: Sequence[str]) -> bool:
    """Whether names of cells have no room side by side."""
    every = -(-len(values) // MOST_NAMES)
    return max(map(len, values)) * len(values[::every]) > 70


def _number_cells(axes: Any, grid: np.ndarray) -> None:
    """Write the numbers into the cells, white on dark ones."""
    middle = (np.nanmin(grid) + np.nanmax(grid)) / 2
    small = grid.shape[1] > 8
    for (i, j), v in np.ndenumerate(grid):
        if not math.isnan(v):
            ink = "white" if v < middle else "black"
            axes.text(j, i, _short(float(v)), ha="center", va="center", color=ink, fontsize=5.5 if small else 8)


def _ordered(values: Sequence[Any]) -> list[Any]:
    known = list(dict.fromkeys(values))
    return sorted(known) if all(isinstance(v, (int, float)) for v in known) else known


def _word(by: Scale, value: Any) -> str:
    return by.text(value) if by.factor != 1.0 else _short(value)


def _short(value: Any) -> str:
    if isinstance(value, float) or (isinstance(value, int) and abs(value) >= 10**6):
        return f"{value:.3g}"
    return str(value)


def pareto_figure(rows: Rows, x: str | None, y: str | None) -> Figure:
    """Points of a sweep in two results, with the front that its objectives left.

    Where the table has bands, p10 to p90 are drawn as bars (of means, the 95 % confidence), and the points that
    they cannot tell from the front apart.
    """
    xs, ys = _numbers(rows, x, "--x"), _numbers(rows, y, "--y")
    if "pareto" not in rows[0]:
        raise InputError("the table marks no Pareto front; give the sweep objectives")
    ok = [row.get("status", "ok") == "ok" for row in rows]
    best = [row.get("pareto") is True for row in rows]
    close = [row.get("front") == "indistinguishable from front" for row in rows]
    front = sorted((a, b) for a, b, good in zip(xs, ys, best) if good)
    kinds = {
        "dominated": [o and not b and not c for o, b, c in zip(ok, best, close)],
        "infeasible": [not o for o in ok],
        "within the model's error": close,
        "Pareto front": best,
    }
    with style.house():
        figure, axes = style.blank(3.2)
        for i, (name, chosen) in enumerate(kinds.items()):
            px, py = [a for a, c in zip(xs, chosen) if c], [b for b, c in zip(ys, chosen) if c]
            if px:
                colour = style.COLOURS[(7, 7, 1, 0)[i]]
                axes.scatter(px, py, s=14, marker="oxsD"[i], color=colour, label=name, zorder=3)
                _bars(axes, rows, chosen, (x, y), (px, py), colour)
        axes.plot([a for a, _ in front], [b for _, b in front], color=style.COLOURS[0], linewidth=0.8)
        across, up = scale(x, xs), scale(y, ys)
        axes.set_xlabel(across.axis_label())
        axes.set_ylabel(up.axis_label(upright=True))
        _spread(axes, xs)
        _spread(axes, ys, "y")
        across.ticks(axes.xaxis)
        up.ticks(axes.yaxis)
        axes.grid()
        style.legend_below(figure, axes, 4)
    return figure


def _bars(
    axes: Any,
    rows: Rows,
    chosen: Sequence[bool],
    names: tuple[str | None, str | None],
    at: tuple[list[float], list[float]],
    colour: str,
) -> None:
    """Bands or confidence of the chosen points as thin bars in each direction that has them."""
    spans: dict[str, list[list[float]]] = {}
    for error, name, middle in zip(("xerr", "yerr"), names, at):
        band = _band(rows, name)
        if band is not None:
            mine = [ends for ends, good in zip(band, chosen) if good]
            # The nominal point may lie outside its own band: a bar then reaches from it to the far end.
            spans[error] = [
                [max(value - low, 0.0) for value, (low, _) in zip(middle, mine)],
                [max(high - value, 0.0) for value, (_, high) in zip(middle, mine)],
            ]
    if spans:
        axes.errorbar(*at, **spans, fmt="none", ecolor=colour, elinewidth=0.5, alpha=0.6)


def reproduction_figure(rows: Rows) -> Figure:
    """Published against simulated on logarithmic axes, by kind of row, with bands of 10 and 25 %."""
    for name in ("paper", "simulated", "kind"):
        _column(rows, name, "column")
    rows = [{"paper": None, "simulated": None, "kind": "", **row} for row in rows]
    kinds = list(dict.fromkeys(str(row["kind"]) for row in rows))
    shown = [row for row in rows if _positive(row["paper"]) and _positive(row["simulated"])]
    if not shown:
        raise InputError("the table has no row with a published and a simulated number")
    low = min(min(row["paper"], row["simulated"]) for row in shown) / 1.6
    high = max(max(row["paper"], row["simulated"]) for row in shown) * 1.6
    with style.house():
        figure, axes = style.blank(4.2)
        line = np.array([low, high])
        for share, shade in ((0.25, "#EEEEEE"), (0.10, "#D5D5D5")):
            axes.fill_between(line, line * (1 - share), line * (1 + share), color=shade, linewidth=0,
                              label=f"within {share:.0%}")  # fmt: skip
        axes.plot(line, line, color="black", linewidth=0.6)
        for i, kind in enumerate(kinds):
            mine = [row for row in shown if row["kind"] == kind]
            if mine:
                marker, colour = style.MARKERS[(i + i // 8) % 8], style.COLOURS[i % 8]
                points = ([row[name] for row in mine] for name in ("paper", "simulated"))
                axes.scatter(*points, s=16, marker=marker, color=colour, label=kind)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(low, high)
        axes.set_ylim(low, high)
        left = len(rows) - len(shown)
        words = f"; {left} of {len(rows)} rows, without two positive numbers, are not shown" if left else ""
        axes.set_xlabel(f"published (each row in its own unit{words})")
        axes.set_ylabel("simulated")
        style.legend_below(figure, axes, 6)
    return figure


def _positive(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0


def tornado_figure(table: Sequence[Mapping[str, Any]], most: int = 20) -> Figure:
    """Log-slopes of latency, energy and area with respect to the strongest `most` parameters, one panel each.

    `table` has the columns ``path``, ``latency``, ``energy`` and ``area``, as a sensitivity analysis writes them.
    """
    kinds = ("latency", "energy", "area")
    if not table or any(kind not in table[0] for kind in ("path", *kinds)):
        raise InputError("a tornado needs rows with path, latency, energy and area")
    for kind in kinds:
        _numbers(table, kind, "column")
    table = [{**dict.fromkeys(("path", *kinds)), **row} for row in table]
    strength = {row["path"]: max(abs(row[kind] or 0.0) for kind in kinds) for row in table}
    rows = sorted(table, key=lambda row: -strength[row["path"]])[:most]
    rows = [row for row in rows if strength[row["path"]] > 1e-4]
    if not rows:
        raise InputError("no parameter moves latency, energy or area, so there is nothing to draw")
    names, each = style.rows_of([str(row["path"]).removeprefix("system.") for row in rows], 30)
    with style.house():
        figure, panels = style.blank(0.9 + each * len(rows), columns=len(kinds), sharey=True)
        for i, (kind, axes) in enumerate(zip(kinds, panels)):
            axes.barh(range(len(rows)), [row[kind] or 0.0 for row in rows], height=0.7, **style.look(i))
            axes.axvline(0.0, color="black", linewidth=0.6)
            axes.set_title(kind)
            axes.set_xlabel("log-slope")
            axes.locator_params(axis="x", nbins=4)
            axes.grid(axis="x")
        panels[0].set_yticks(range(len(rows)), names)
        panels[0].set_ylim(len(rows) - 0.5, -0.5)
    return figure


def rows_to_draw(source: Path, kind: str) -> Rows:
    """Rows of a table, of a sweep's folder, or of a document of ``archsim reproduce`` or ``archsim explain``.

    The front of a sweep with repeated axes is that of its means.

    Raises
    ------
    InputError
        When there is no such table, or it is damaged.
    """
    if source.is_dir():
        if (source / "manifest.json").exists():
            raise InputError(f"{source}: is a run folder; a run's figures are --kind {', '.join(ALL_KINDS)}")
        if kind == "pareto" and (source / "means.parquet").exists():
            return read_table(source / "means.parquet")
        return read_table(source / "table.parquet")
    if source.suffix == ".json":
        raw = read_regular(source, 1 << 28, "a JSON document")
        try:
            document = json.loads(raw)
        except (ValueError, RecursionError):
            raise InputError(f"{source}: is no JSON document") from None
        if isinstance(document, dict):
            rows = document.get("sensitivity" if kind == "tornado" else "rows")
            if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
                raise InputError(f"{source}: holds no rows to draw")
            return rows
    return read_table(source)


def objectives_of(source: Path) -> tuple[str | None, str | None]:
    """First two objectives of the sweep whose folder or table this is; None for those it does not have."""
    folder = source if source.is_dir() else source.parent
    try:
        found = json.loads(read_regular(folder / "sweep.json", 1 << 26, "a sweep's description"))["objectives"]
        names = [str(name) for name in found]
    except (InputError, ValueError, LookupError, TypeError, RecursionError):
        names = []
    return (names[0] if names else None), (names[1] if len(names) > 1 else None)


#: Figures of tables by kind, and the options each takes.
KINDS: Mapping[str, tuple[Callable[..., Figure], tuple[str, ...]]] = {
    "lines": (lines_figure, ("x", "y", "by")),
    "heat": (heat_figure, ("x", "y", "value")),
    "pareto": (pareto_figure, ("x", "y")),
    "reproduction": (reproduction_figure, ()),
    "tornado": (tornado_figure, ()),
}
