"""Tables of a sweep: a row per point, means over repeats, and which points no other one beats.

Columns: ``point`` (number), the axes (numbers in the unit of the parameter), ``status`` (``ok``, ``failed``,
``infeasible``), the results, ``pareto`` where the sweep has objectives, and ``error``. Where axes are repeated, the
front is that of the means: ``pareto`` then marks all points of a configuration. Units are in the metadata of the
Parquet columns. The bytes of the tables depend on the points and their results alone.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archsim.config.regular import replaced
from archsim.report.answers import unit_of
from archsim.report.tables import to_arrow, to_csv
from archsim.sweep.banded import banded, fronts, is_band, mean_bands, mean_draws
from archsim.sweep.uncertainty import METRICS
from archsim.sweep.work import resolve
from archsim.units import InputError, parse, quote, suggest

if TYPE_CHECKING:
    from archsim.config import SweepSpec
    from archsim.sweep.runner import Sweep

Table = list[dict[str, Any]]

#: 97.5 % quantiles of Student's t for 1 to 30 degrees of freedom.
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120)
_T += (2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042)


def write_tables(
    made: Sweep,
    listed: Sequence[Mapping[str, Any]],
    results: Sequence[Mapping[str, Any]],
    folder: Path,
    draws: Sequence[list[dict[str, Any]]] | None = None,
) -> tuple[Table, Table]:
    """Write ``table.parquet`` and ``table.csv`` (and ``means.*`` for repeats) into `folder`; returns the rows.

    With `draws` (see :mod:`archsim.sweep.banded`) the tables have band columns.
    """
    spec = made.spec
    rows = table(made, listed, results)
    if draws is not None:
        rows = banded(rows, spec.objectives, draws)
    units = {name: unit_of(name) for name in rows[0]} | axis_units(made, listed[0])
    averaged = means(rows, spec, draws) if spec.repeat else []
    if averaged and spec.objectives:
        rows, averaged = _marked(rows, averaged, spec, draws)
    _write(rows, units, folder / "table")
    if averaged:
        _write(averaged, units, folder / "means")
    return rows, averaged


def _marked(
    rows: Table, averaged: Table, spec: SweepSpec, draws: Sequence[list[dict[str, Any]]] | None
) -> tuple[Table, Table]:
    """Rows and means with the front of the means: a row has the marks of its configuration."""
    groups = grouped(rows, spec)
    numbered = [{**entry, "point": i} for i, entry in enumerate(averaged)]
    best = pareto(numbered, spec.objectives)
    marks: list[dict[str, Any]] = [{"pareto": i in best} for i in range(len(averaged))]
    if draws is not None:
        lines = [mean_draws([draws[row["point"]] for row in members if _ran(row)]) for members in groups]
        places = fronts([{**entry, **mark} for entry, mark in zip(numbered, marks)], spec.objectives, lines)
        marks = [{**mark, **place} for mark, place in zip(marks, places)]
    by_row = {row["point"]: mark for members, mark in zip(groups, marks) for row in members if _ran(row)}
    none = {"pareto": False} if draws is None else {"pareto": False, "front": "", "front_share": None}
    return (
        [{**row, **by_row.get(row["point"], none)} for row in rows],
        [{**entry, **mark} for entry, mark in zip(averaged, marks)],
    )


def table(made: Sweep, listed: Sequence[Mapping[str, Any]], results: Sequence[Mapping[str, Any]]) -> Table:
    """Rows of a sweep in the order of its points."""
    spec = made.spec
    names = list(dict.fromkeys(name for result in results for name in result if name not in ("status", "error")))
    for result in results:
        check_metrics(spec, result)
    rows = []
    for i, (point, result) in enumerate(zip(listed, results)):
        status = result["status"]
        if status == "ok" and not feasible(spec.constraints, result):
            status = "infeasible"
        values = {name: result.get(name) for name in names}
        rows.append({"point": i, **_numbers(made, point), "status": status, **values, "error": result.get("error", "")})
    if spec.objectives and not spec.repeat:
        best = pareto(rows, spec.objectives)
        rows = [{**row, "pareto": row["point"] in best} for row in rows]
    return rows


def check_metrics(spec: SweepSpec, result: Mapping[str, Any]) -> None:
    """Refuse objectives and constraints on what a point that ran has no number for; a failed point says nothing.

    Raises
    ------
    InputError
        With the numbers there are.
    """
    if result["status"] != "ok":
        return
    numbers = [name for name, value in result.items() if value is None or _is_number(value)]
    for metric in (*spec.objectives, *spec.constraints):
        if metric in result and metric not in numbers:
            raise InputError(f"the result {quote(metric)} is no number; {suggest(metric, numbers)}")
        if metric not in result:
            raise InputError(f"the runs have no result {quote(metric)}; {suggest(metric, numbers)}")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def pareto(rows: Sequence[Mapping[str, Any]], objectives: Mapping[str, str]) -> set[int]:
    """Points (numbers) of status ok that no other such point equals or beats in every objective and beats in one."""
    sign = [1.0 if way == "min" else -1.0 for way in objectives.values()]
    able = [
        (row["point"], tuple(s * row[name] for s, name in zip(sign, objectives)))
        for row in rows
        if row["status"] == "ok" and all(row.get(name) is not None for name in objectives)
    ]
    able.sort(key=lambda entry: entry[1])
    front: list[tuple[int, tuple[float, ...]]] = []
    for point, costs in able:  # in order of the first objective: only earlier ones can beat a point
        if not any(all(a <= b for a, b in zip(other, costs)) and other != costs for _, other in front):
            front.append((point, costs))
    return {point for point, _ in front}


def grouped(rows: Sequence[Mapping[str, Any]], spec: SweepSpec) -> list[list[Mapping[str, Any]]]:
    """Rows by configuration: those that differ in repeated axes alone are together."""
    kept = [path for path in spec.axes if path not in spec.repeat]
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[path] for path in kept), []).append(row)
    return list(groups.values())


def means(
    rows: Sequence[Mapping[str, Any]], spec: SweepSpec, draws: Sequence[list[dict[str, Any]]] | None = None
) -> Table:
    """Mean of every numeric result over the repeated axes, and the half-width of its 95 % confidence interval.

    With `draws`, also the band of the mean: each draw is averaged first.

    ``n`` counts the points that ran, which are all in the mean; ``status`` is ``infeasible`` where the mean breaks a
    constraint, and ``failed`` where no point ran.
    """
    kept = [path for path in spec.axes if path not in spec.repeat]
    numeric = [
        name
        for name in rows[0]
        if name not in ("point", "draws", "front_share", *spec.axes)
        and not is_band(name)
        and all(isinstance(row[name], (int, float, type(None))) and not isinstance(row[name], bool) for row in rows)
    ]
    groups, made = grouped(rows, spec), []
    for members in groups:
        good = [row for row in members if _ran(row)]
        averages: dict[str, Any] = {}
        for name in numeric:
            values = [row[name] for row in good if row[name] is not None]
            averages[name] = statistics.fmean(values) if values else None
            averages[f"{name}.ci95"] = _half_width(values)
        status = "failed" if not good else "ok" if feasible(spec.constraints, averages) else "infeasible"
        made.append({**{path: members[0][path] for path in kept}, "n": len(good), "status": status, **averages})
    if draws is None:
        return made
    places = [[row["point"] for row in members if _ran(row)] for members in groups]
    names = [name for name in METRICS if name in rows[0]]
    return [{**entry, **bands} for entry, bands in zip(made, mean_bands(places, draws, names))]


def _ran(row: Mapping[str, Any]) -> bool:
    """Whether a row has results."""
    return bool(row["status"] != "failed")


def _half_width(values: Sequence[float]) -> float | None:
    n = len(values)
    if n < 2:
        return None
    t = _T[n - 2] if n - 2 < len(_T) else 1.96 + 2.4 / (n - 1)
    return t * statistics.stdev(values) / math.sqrt(n)


def feasible(constraints: Mapping[str, Any], result: Mapping[str, Any]) -> bool:
    """Whether results keep all bounds; one without a number keeps none."""
    for name, bound in constraints.items():
        value = result.get(name)
        if value is None:
            return False
        if (bound.min is not None and value < bound.min) or (bound.max is not None and value > bound.max):
            return False
    return True


def _numbers(made: Sweep, point: Mapping[str, Any]) -> dict[str, Any]:
    """Values of a point as numbers in the parameter's unit where they are quantities."""
    texts = [path for path, value in point.items() if isinstance(value, str)]
    if not texts:
        return dict(point)
    cache: dict[tuple[str, str], Any] = made.numbers
    missing = [path for path in texts if (path, point[path]) not in cache]
    if missing:
        try:
            known = {row.path: row.value for row in resolve(made.run, made.spec.set, point).rows}
        except InputError:  # the point as a whole is refused; its quantities are numbers all the same
            units = {row.path: row.unit for row in resolve(made.run, made.spec.set, {}).rows}
            known = {path: _quantity(point[path], units.get(path, "")) for path in missing}
        for path in missing:
            value = known.get(path, point[path])
            cache[path, point[path]] = value if isinstance(value, (int, float, str, bool)) else point[path]
    return {path: cache[path, value] if path in texts else value for path, value in point.items()}


def _quantity(text: str, unit: str) -> int | float | str:
    """Number of a quantity in `unit`, or the text where it is none."""
    try:
        return parse(text, unit) if unit else text
    except InputError:
        return text


def axis_units(made: Sweep, point: Mapping[str, Any]) -> dict[str, str]:
    """Units of the axes of a sweep, by their paths; none where the point cannot be resolved."""
    try:
        rows = resolve(made.run, made.spec.set, point).rows
    except InputError:
        return {}
    return {row.path: row.unit for row in rows if row.path in point}


def _plain(name: str) -> str:
    """Name of the result that a column of its confidence or of its band is about."""
    return name.rpartition(".")[0] if is_band(name) else name.removesuffix(".ci95")


def _write(rows: Table, units: Mapping[str, str], stem: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    arrow = to_arrow(rows)
    fields = [field.with_metadata({"unit": units.get(_plain(field.name), "")}) for field in arrow.schema]
    with replaced(stem.with_suffix(".parquet")) as partial:
        pq.write_table(arrow.cast(pa.schema(fields)), partial)
    with replaced(stem.with_suffix(".csv")) as partial:
        partial.write_text(to_csv(rows), encoding="utf-8")
