"""What the page's explorer shows of a table, as columns: of a sweep, a search, a reproduction, or anything in rows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from archsim.report.page.html import heading, packed
from archsim.units import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Rows = Sequence[Mapping[str, Any]]

#: Rows that a page holds; of a larger table it holds the front and evenly chosen others, and says so.
MOST_ROWS = 20_000
_MAIN = (
    *("point", "id", "name", "status", "decode_tokens_per_s", "request_latency_s", "energy_per_token_j"),
    *("mean_power_w", "area_mm2", "accepted_per_step", "paper", "simulated", "null_model", "ratio", "kind", "unit"),
)
_AXES = ("system.", "schedule.", "model.", "job.")
_DOT = re.compile(r"\.(?!\d)|(?<!\d)\.")
_NUMBERED = re.compile(r"([a-z_]+?)(\d+(?:\.\d+)?)")


def packed_table(
    rows: Rows,
    objectives: Mapping[str, str] | None = None,
    axes: Sequence[str] | None = None,
    units: Mapping[str, str] | None = None,
) -> tuple[str, dict[str, int]]:
    """Rows as packed columns, and how many there are of each kind.

    Parameters
    ----------
    rows : sequence of mappings
        The table.
    objectives : Mapping, optional
        Column -> ``min`` or ``max``.
    axes : sequence of str, optional
        Columns that were varied; by default those that look like dotted paths of a configuration.
    units : Mapping, optional
        Column -> unit; by default the ending of its name tells.

    Raises
    ------
    InputError
        For a table without rows.
    """
    if not rows:
        raise InputError("the table has no rows to show")
    objectives = objectives or {}
    counts = _counts(rows)
    rows = _with_parts(rows)
    kept = _kept(rows)
    names = list(dict.fromkeys(name for row in kept for name in row))
    varied = set(axes if axes is not None else (n for n in names if n.startswith(_AXES)))
    varied |= {name for name in names if name.startswith("part ")}
    columns = [_column(name, kept, varied, units or {}) for name in names]
    columns = [column for column in columns if column]
    x, y, colour = _first_view(columns, objectives)
    meta = {
        "rows": len(kept),
        "total": len(rows),
        "objectives": dict(objectives),
        "table": columns,
        "x": x,
        "y": y,
        "colour": colour,
        "front": bool(objectives),
        **_habits(columns, x, y),
    }
    return packed(meta, {}), counts


def _counts(rows: Rows) -> dict[str, int]:
    counts = {"rows": len(rows)}
    for row in rows:
        status = row.get("status")
        if isinstance(status, str):
            counts[f"points {status}"] = counts.get(f"points {status}", 0) + 1
    front = sum(row.get("pareto") is True for row in rows)
    return {**counts, **({"on the front of the objectives": front} if front else {})}


def _with_parts(rows: Rows) -> Rows:
    """Rows of a reproduction with the parts of their ids as columns: ``map.cpu2.map0.5`` is cpu 2, map 0.5."""
    if not all(isinstance(row.get("id"), str) for row in rows) or "simulated" not in rows[0]:
        return rows
    made = []
    for row in rows:
        parts: dict[str, Any] = {}
        for i, text in enumerate(_DOT.split(str(row["id"]))):
            found = _NUMBERED.fullmatch(text) if i else None
            if found:
                parts[f"part {found[1]}"] = float(found[2])
            else:
                parts["part group" if i == 0 else f"part {i + 1}"] = _plain(text)
        made.append({**row, **parts})
    return made


def _plain(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


def _kept(rows: Rows) -> Rows:
    if len(rows) <= MOST_ROWS:
        return rows
    every = -(-len(rows) // MOST_ROWS)
    return [row for i, row in enumerate(rows) if row.get("pareto") is True or i % every == 0]


def _column(name: str, rows: Rows, axes: set[str], units: Mapping[str, str]) -> dict[str, Any] | None:
    values = [_value(row.get(name)) for row in rows]
    if all(value is None or value == "" for value in values):
        return None
    numbers = [isinstance(value, (int, float)) and not isinstance(value, bool) for value in values]
    if any(numbers) and not all(number or value is None for number, value in zip(numbers, values)):
        values = [None if value is None else str(value) for value in values]
    short = name.removeprefix("part ")
    for prefix in ("system.", "schedule.", "job."):
        short = short.removeprefix(prefix)
    words, unit = heading(short)
    unit = unit or units.get(name, "")
    return {
        "name": name,
        "words": words.replace(".", " "),
        "unit": unit,
        "values": values,
        "axis": name in axes,
        "main": name in _MAIN,
    }


def _value(value: Any) -> Any:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return float(f"{value:.9g}") if value - value == 0 else None
    if value is None or isinstance(value, (int, str)):
        return value
    return str(value)


def _first_view(columns: Sequence[Mapping[str, Any]], objectives: Mapping[str, str]) -> tuple[str, str, str]:
    """Columns to begin with: the objectives, or published against simulated, or an axis against a result."""
    moving = [
        column["name"]
        for column in columns
        if len({v for v in column["values"] if v is not None}) > 1
        and all(v is None or isinstance(v, (int, float)) for v in column["values"])
    ]
    axes = [column["name"] for column in columns if column["axis"] and len(set(map(str, column["values"]))) > 1]
    results = [name for name in moving if name not in axes and name not in ("point", "n")]
    result = next((name for name in (*_MAIN[4:], "simulated") if name in results), next(iter(results), None))
    pairs = [
        [name for name in objectives if name in moving][:2],
        ["paper", "simulated"],
        [*[name for name in axes if name in moving][:1], result],
        results[:2],
    ]
    every = [column["name"] for column in columns]
    pair = next((p for p in pairs if len(p) == 2 and all(n in moving for n in p)), None)
    if pair is None:
        pair = [every[0], next(iter(moving), every[-1])]
    numeric_axes = [name for name in axes if name in moving]
    order = (*numeric_axes[1:], *axes, "kind", "status") if pair[1] == "simulated" else (*axes, "kind", "status")
    if pair[0] == "paper":
        order = ("kind",)
    colour = next((name for name in order if name in every and name not in pair), "")
    return pair[0], pair[1], colour


def _habits(columns: Sequence[Mapping[str, Any]], x: str, y: str) -> dict[str, Any]:
    """How a reproduction is looked at first: on logarithmic axes, or one group of its rows at a time."""
    values = {column["name"]: column["values"] for column in columns}
    if (x, y) == ("paper", "simulated"):
        both = [v for pair in zip(values[x], values[y]) for v in pair if None not in pair]
        return {"diagonal": True, "log": all(v > 0 for v in both)}
    groups = values.get("part group")
    if groups is None:
        return {}
    first = next((group for group, a, b in zip(groups, values[x], values[y]) if a is not None and b is not None), None)
    return {"filter": "part group", "value": str(first)} if first is not None else {}


def figures_of(rows: Rows) -> dict[str, Figure]:
    """Figures that a table has by its kind: those of a reproduction where rows have published numbers."""
    from archsim.report.table_figures import reproduction_figure

    both = [row for row in rows if isinstance(row.get("paper"), (int, float)) and row.get("simulated") is not None]
    if len(both) < 2 or any("kind" not in row for row in both):
        return {}
    try:
        return {(reproduction_figure.__doc__ or "").splitlines()[0]: reproduction_figure(both)}
    except InputError:
        return {}
