"""Measured against simulated, row by row and group by group, with the null model beside."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from archsim.measurements.machine import Machine
from archsim.measurements.operators import CannotSimulateError
from archsim.measurements.predict import Predictor, null_answer
from archsim.measurements.readers import read_measurements
from archsim.measurements.rows import Measured, Measurement, dimension_of
from archsim.report.answers import Outcome
from archsim.units import InputError, parse


@dataclass(frozen=True)
class Residual:
    """One row: `simulated` and `null_model` in the unit of the row, None where there is none, with the reason.

    `ratio` is simulated over measured, `null_ratio` the null model over measured; `ok` says whether the ratio lies
    within the row's tolerance.
    """

    place: str
    label: str
    group: str
    unit: str
    measured: float
    simulated: float | None
    null_model: float | None
    ratio: float | None
    null_ratio: float | None
    tolerance: float | None
    ok: bool | None
    samples: int
    problem: str


@dataclass(frozen=True)
class Group:
    """Rows of one group that were simulated.

    `bias` is the geometric mean of the ratios, `spread` that of how far they are from 1 (always at least 1), `worst`
    the ratio that is farthest; the same of the null model beside.
    """

    group: str
    rows: int
    bias: float
    spread: float
    worst: float
    worst_at: str
    null_bias: float | None
    null_spread: float | None
    null_worst: float | None


@dataclass(frozen=True, repr=False)
class Comparison(Outcome):
    """Outcome of :func:`compare`: all rows in the order of the file, and the groups, the last being all rows."""

    file: str
    format: str
    system: str
    rows: tuple[Residual, ...]
    groups: tuple[Group, ...]

    @property
    def title(self) -> str:
        """What was compared."""
        return f"{self.file} ({self.format}) on {self.system}"

    def points(self) -> list[dict[str, Any]]:
        """Rows of :func:`archsim.report.residual_figures.residual_figure`, in us, MB/s and tok/s."""
        kinds = {"s": ("time", 1e6), "B/s": ("bytes", 1e-6), "tok/s": ("tokens", 1.0)}
        table = []
        for row in self.rows:
            if row.simulated is None:
                continue
            kind, scale = kinds[dimension_of(row.unit)]
            scale *= float(parse(f"1 {row.unit}", dimension_of(row.unit)))
            values = {"measured": row.measured, "simulated": row.simulated, "null_model": row.null_model}
            shown = {key: None if value is None else value * scale for key, value in values.items()}
            table.append({"kind": kind, "group": row.group, **shown})
        return table

    @property
    def skipped(self) -> tuple[Residual, ...]:
        """Rows that could not be simulated."""
        return tuple(row for row in self.rows if row.simulated is None)

    def document(self) -> dict[str, Any]:
        """Plain data, as ``archsim compare --json`` prints it."""
        return {
            "file": self.file,
            "format": self.format,
            "system": self.system,
            "rows": [asdict(row) for row in self.rows],
            "groups": [asdict(group) for group in self.groups],
            "simulated": len(self.rows) - len(self.skipped),
            "skipped": len(self.skipped),
        }


def compare(
    file: str | Path,
    system: str,
    *,
    sets: Sequence[Any] = (),
    style: str = "",
    target: str = "",
    tolerance: float | None = None,
    progress: Any = None,
) -> Comparison:
    """Set measurements of a phone against the simulator.

    Parameters
    ----------
    file : path
        llama-bench JSON, fio JSON, a ggml-hexagon profile, or a table (:mod:`archsim.measurements.formats`).
    system : str
        Name or file of the system.
    sets : sequence of str
        Overrides ``"system.<device>.<field>=value"``.
    style : str
        Format by name; recognised where it is empty.
    target : str
        Model of rows that name none that is known.
    tolerance : float, optional
        Relative tolerance of rows that have none of their own.
    progress : object, optional
        Receives ``start``, ``update`` and ``stop``.

    Returns
    -------
    Comparison

    Raises
    ------
    InputError
        For anything wrong with the file or the system.
    """
    if tolerance is not None and not 0 < tolerance < 10:
        raise InputError(f"tolerance {tolerance:g}: it must lie between 0 and 10")
    measured = read_measurements(file, style=style, target=target)
    machine = Machine.load(system, sets)
    return residuals(measured, machine, Predictor(system), tolerance=tolerance, progress=progress)


def residuals(
    measured: Measured,
    machine: Machine,
    predictor: Predictor,
    *,
    tolerance: float | None = None,
    progress: Any = None,
) -> Comparison:
    """Residuals of rows on a machine; arguments as :func:`compare`."""
    found = []
    if progress is not None:
        progress.start("compare")
    try:
        for number, row in enumerate(measured.rows):
            found.append(_residual(row, machine, predictor, tolerance))
            if progress is not None:
                progress.update(number + 1, len(measured.rows), row.label)
    finally:
        if progress is not None:
            progress.stop()
    return Comparison(str(measured.file), measured.format, machine.system.name, tuple(found), tuple(groups(found)))


def _residual(row: Measurement, machine: Machine, predictor: Predictor, tolerance: float | None) -> Residual:
    scale = float(parse(f"1 {row.unit}", row.dimension))
    allowed = row.tolerance if row.tolerance is not None else tolerance
    simulated = null = None
    problem = row.problem
    try:
        simulated = predictor.simulated(machine, row) / scale
    except CannotSimulateError as error:
        problem = str(error)
    if simulated is not None and row.case is not None:
        try:
            null = null_answer(machine, row.case).value(row.dimension) / scale
        except CannotSimulateError:
            null = None
    ratio = None if simulated is None else simulated / row.value
    ok = None if ratio is None or allowed is None else abs(math.log(ratio)) <= math.log1p(allowed)
    beside = None if null is None else null / row.value
    shown = (row.place, row.label, row.group, row.unit, row.value, simulated, null, ratio, beside)
    return Residual(*shown, allowed, ok, row.samples, problem)


def groups(rows: Iterable[Residual]) -> list[Group]:
    """Groups of simulated rows in the order of their first rows, and then all of them."""
    known: dict[str, list[Residual]] = {}
    for row in rows:
        if row.ratio is not None:
            known.setdefault(row.group, []).append(row)
    table = [_group(name, found) for name, found in known.items()]
    everything = [row for found in known.values() for row in found]
    return [*table, _group("all", everything)] if len(known) > 1 else table


def _group(name: str, rows: list[Residual]) -> Group:
    logs = [math.log(row.ratio) for row in rows if row.ratio is not None]
    nulls = [math.log(row.null_ratio) for row in rows if row.null_ratio is not None]
    at = max(range(len(rows)), key=lambda i: abs(logs[i]))
    return Group(
        name,
        len(rows),
        math.exp(_mean(logs)),
        math.exp(_mean([abs(value) for value in logs])),
        math.exp(logs[at]),
        rows[at].place,
        *_beside(nulls),
    )


def _beside(nulls: list[float]) -> tuple[float | None, float | None, float | None]:
    if not nulls:
        return None, None, None
    worst = max(nulls, key=abs)
    return math.exp(_mean(nulls)), math.exp(_mean([abs(value) for value in nulls])), math.exp(worst)


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
