"""Fit numbers of a system to measurements: ``archsim calibrate``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from archsim.measurements.fit import Problem, fit_all, fit_from
from archsim.measurements.machine import Machine
from archsim.measurements.operators import CannotSimulateError
from archsim.measurements.overlay import check_overlay, write_overlay
from archsim.measurements.parameters import FittedParameter, parameters, parse_ranges
from archsim.measurements.predict import Predictor
from archsim.measurements.profile import Interval, Profiler, shown
from archsim.measurements.readers import read_measurements
from archsim.measurements.rows import Measured, Measurement
from archsim.report.answers import Outcome
from archsim.units import InputError


@dataclass(frozen=True)
class FittedRow:
    """One row: whether the fit was not given it, and simulated over measured before and after."""

    place: str
    label: str
    group: str
    held_out: bool
    measured: float
    unit: str
    start_ratio: float
    fitted_ratio: float


@dataclass(frozen=True)
class Spread:
    """Rows given or held out: geometric mean of how far their ratios are from 1, before and after, and the worst."""

    rows: int
    start: float
    fitted: float
    start_worst: float
    fitted_worst: float


@dataclass(frozen=True, repr=False)
class Calibration(Outcome):
    """Outcome of :func:`calibrate`.

    Attributes
    ----------
    file, format, system : str
        What was fitted to what.
    parameters, rows : tuple
        See :class:`FittedParameter` and :class:`FittedRow`.
    skipped : tuple of (str, str, str)
        Place, label and reason of rows that cannot be simulated.
    given, held_out : Spread or None
        Residuals of the rows that the fit was given, and of the others.
    tolerance : float
        Tolerance of rows that have none of their own.
    evaluations : int
        Sets of values that were tried.
    overlay : str
        File that was written; empty where none was.
    """

    file: str
    format: str
    system: str
    parameters: tuple[FittedParameter, ...]
    rows: tuple[FittedRow, ...]
    skipped: tuple[tuple[str, str, str], ...]
    given: Spread
    held_out: Spread | None
    tolerance: float
    evaluations: int
    overlay: str

    @property
    def title(self) -> str:
        """What was fitted to what."""
        return f"{self.system} fitted to {self.file} ({self.format})"

    def document(self) -> dict[str, Any]:
        """Plain data, as ``archsim calibrate --json`` prints it."""
        document = asdict(self)
        document["skipped"] = [dict(zip(("place", "label", "problem"), row)) for row in self.skipped]
        return document


def calibrate(
    file: str | Path,
    system: str,
    fit: Sequence[str],
    *,
    output: str | Path | None = None,
    sets: Sequence[Any] = (),
    ranges: Mapping[str, tuple[str, str]] | Sequence[str] = (),
    tolerance: float = 0.05,
    hold_out: float | None = None,
    seed: int = 0,
    style: str = "",
    target: str = "",
    force: bool = False,
    progress: Any = None,
) -> Calibration:
    """Fit numbers of a system to measurements, inside their ranges.

    Parameters
    ----------
    file : path
        Measurements, as :func:`archsim.compare` reads them.
    system : str
        Name or file of the system.
    fit : sequence of str
        Paths ``system.<device>.<field>`` of the numbers that may move.
    output : path, optional
        System file to write, with the fitted values over those of `system`; none is written without it.
    sets : sequence of str
        Overrides of the system: where the fit starts.
    ranges : mapping or sequence of str
        Ranges by path, or texts ``PATH=LOW..HIGH``; they replace those of the files.
    tolerance : float
        Relative tolerance of rows that have none of their own, for the intervals.
    hold_out : float, optional
        Share of the rows, drawn by `seed`, that the fit is not given; without it those that the file marks.
    seed : int
        Seed of the draw.
    style, target : str
        As :func:`archsim.compare` takes them.
    force : bool
        Whether `output` may replace a file.
    progress : object, optional
        Receives ``start``, ``update`` and ``stop``.

    Returns
    -------
    Calibration

    Raises
    ------
    InputError
        For anything wrong with file, system, paths or ranges, for more parameters than rows, and when `output` exists.
    """
    if not 0 < tolerance < 10:
        raise InputError(f"--tolerance {tolerance:g}: it must lie between 0 and 10")
    measured = read_measurements(file, style=style, target=target)
    machine = Machine.load(system, sets)
    given_ranges = dict(ranges) if isinstance(ranges, Mapping) else parse_ranges(ranges)
    chosen = parameters(machine, list(fit), given_ranges)
    target_file = None if output is None else check_overlay(output, system, force=force)
    predictor = Predictor(system)
    usable, skipped = _usable(measured, machine, predictor)
    held = _held_out(usable, hold_out, seed)
    rows = [row for row, out in zip(usable, held) if not out]
    if len(chosen) > len(rows):
        raise InputError(
            f"{len(chosen)} parameters cannot be fitted to {len(rows)} rows (simulated and not held out); "
            "name fewer with --fit"
        )
    logs = np.log1p([tolerance if row.tolerance is None else row.tolerance for row in rows])
    problem = Problem(machine, predictor, chosen, rows, math.log1p(tolerance) / logs)
    found = _watched(problem, logs, progress)
    values = {one.path: one.value for one in found if one.status != "not identifiable"}
    table = _rows(usable, held, machine, values, predictor)
    written = ""
    if target_file is not None:
        pairs = list(zip(chosen, found, strict=True))
        written = str(write_overlay(target_file, system, sets, pairs, measured.file.name))
    return Calibration(
        str(measured.file),
        measured.format,
        machine.system.name,
        tuple(found),
        tuple(table),
        tuple(skipped),
        _spread([row for row in table if not row.held_out]),
        _spread([row for row in table if row.held_out]) if any(held) else None,
        tolerance,
        problem.evaluations,
        written,
    )


def _usable(
    measured: Measured, machine: Machine, predictor: Predictor
) -> tuple[list[Measurement], list[tuple[str, str, str]]]:
    """Rows that can be simulated, and the others with the reason."""
    usable, skipped = [], []
    for row in measured.rows:
        try:
            predictor.simulated(machine, row)
            usable.append(row)
        except CannotSimulateError as error:
            skipped.append((row.place, row.label, str(error)))
    return usable, skipped


def _held_out(rows: Sequence[Measurement], share: float | None, seed: int) -> list[bool]:
    """Which rows the fit is not given."""
    marked = [row.held_out for row in rows]
    if share is None:
        return [bool(mark) for mark in marked]
    if any(mark is not None for mark in marked):
        raise InputError("--hold-out: the file's column hold_out says already which rows to leave out")
    if not 0 < share < 1:
        raise InputError(f"--hold-out {share:g}: it must be a share between 0 and 1")
    drawn = np.random.default_rng(seed).permutation(len(rows))[: round(share * len(rows))]
    return [i in set(drawn.tolist()) for i in range(len(rows))]


def _watched(problem: Problem, tolerances: np.ndarray, progress: Any) -> list[FittedParameter]:
    """:func:`_parameters`, with `progress` told of every set of values."""
    if progress is None:
        return _parameters(problem, tolerances)
    progress.start("calibrate")
    problem.report = lambda count: progress.update(count, max(2 * count, 100), f"calibrate, {count} sets of values")
    try:
        return _parameters(problem, tolerances)
    finally:
        progress.stop()


def _parameters(problem: Problem, tolerances: np.ndarray) -> list[FittedParameter]:
    """Best fit, and the interval of every parameter."""
    best = fit_all(problem)
    profiler = Profiler(problem, best, tolerances)
    intervals = [profiler.interval(i) for i in range(len(best))]
    blind = [i for i, interval in enumerate(intervals) if interval.status == "not identifiable"]
    if blind:  # they stay where they were, and the others are fitted beside them
        best = best.copy()
        best[blind] = problem.start[blind]
        best = fit_from(problem, best, [i for i in range(len(best)) if i not in blind])
    return [_fitted(problem, i, float(best[i]), interval) for i, interval in enumerate(intervals)]


def _fitted(problem: Problem, index: int, place: float, interval: Interval) -> FittedParameter:
    parameter = problem.parameters[index]
    seen = interval.status != "not identifiable"
    value = parameter.rounded(parameter.value(place)) if seen else parameter.start
    ends = shown(parameter, interval, value)
    own = (parameter.path, parameter.unit, parameter.start, value, parameter.low, parameter.high)
    rows = tuple(problem.rows[i].place for i in interval.rows)
    return FittedParameter(*own, *ends, interval.status, interval.partners, interval.response, rows, interval.beyond)


def _rows(
    rows: Sequence[Measurement],
    held: Sequence[bool],
    machine: Machine,
    values: Mapping[str, Any],
    predictor: Predictor,
) -> list[FittedRow]:
    """Ratios of every row before and after."""
    moved = machine.move(values)
    return [
        FittedRow(
            row.place,
            row.label,
            row.group,
            out,
            row.value,
            row.unit,
            predictor.simulated(machine, row) / row.base_value,
            predictor.simulated(moved, row) / row.base_value,
        )
        for row, out in zip(rows, held)
    ]


def _spread(rows: Sequence[FittedRow]) -> Spread:
    start, fitted = ([math.log(getattr(row, key)) for row in rows] for key in ("start_ratio", "fitted_ratio"))
    return Spread(
        len(rows),
        *(math.exp(sum(map(abs, logs)) / len(logs)) for logs in (start, fitted)),
        *(math.exp(max(logs, key=abs)) for logs in (start, fitted)),
    )
