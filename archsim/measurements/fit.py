"""Least squares on the logarithm of simulated over measured, inside the ranges of the parameters.

Continuous parameters are moved by SciPy's trust-region least squares from several starts; counts are tried value by
value (or, where that is too many, by differential evolution) with the continuous ones fitted at each. A very weak pull
towards the start leaves what no row responds to where it was.
"""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.optimize import differential_evolution, least_squares
from scipy.stats import qmc

from archsim.config import InputError
from archsim.measurements.machine import Machine
from archsim.measurements.operators import CannotSimulateError
from archsim.measurements.parameters import STEPS, Parameter
from archsim.measurements.predict import Predictor
from archsim.measurements.rows import Measurement

#: Pull towards the start, in residuals per length of the range; data pull thousands of times as much.
_PULL = 1e-3
#: Step of the differences: ranges are far wider than the whole numbers that devices keep.
_STEP = 5e-3
#: Logarithm that stands for a combination of values that the devices refuse.
_REFUSED = 3.0
_STARTS, _SAMPLES = 2, 6


@dataclass
class Problem:
    """Rows and parameters of a fit, with what was simulated so far.

    Attributes
    ----------
    machine, predictor
        System at the start, and the answers to its rows.
    parameters : sequence of Parameter
    rows : sequence of Measurement
        Rows that the fit is given.
    weights : ndarray
        Weight of each row's residual.
    report : callable
        Told the number of evaluations.
    """

    machine: Machine
    predictor: Predictor
    parameters: Sequence[Parameter]
    rows: Sequence[Measurement]
    weights: np.ndarray
    report: Callable[[int], None] = lambda count: None
    evaluations: int = 0
    _kept: dict[tuple[Any, ...], np.ndarray] = field(default_factory=dict)

    @property
    def start(self) -> np.ndarray:
        """Places of the values before the fit."""
        return np.array([one.place(one.start) for one in self.parameters])

    def values(self, places: np.ndarray) -> dict[str, Any]:
        """Values by path at places."""
        return {one.path: one.value(float(place)) for one, place in zip(self.parameters, places)}

    def logs(self, places: np.ndarray) -> np.ndarray:
        """Logarithm of simulated over measured, row by row."""
        values = self.values(places)
        key = tuple(values.values())
        if key not in self._kept:
            self.evaluations += 1
            self.report(self.evaluations)
            self._kept[key] = self._simulated(values)
        return self._kept[key]

    def _simulated(self, values: dict[str, Any]) -> np.ndarray:
        try:
            machine = self.machine.move(values)
            return np.array([math.log(self.predictor.simulated(machine, row) / row.base_value) for row in self.rows])
        except (InputError, CannotSimulateError):
            return np.full(len(self.rows), _REFUSED)

    def cost(self, places: np.ndarray) -> float:
        """Half the sum of squares, with the pull towards the start."""
        pull = _PULL * (places - self.start)
        return 0.5 * float(np.sum((self.weights * self.logs(places)) ** 2) + np.sum(pull**2))


def minimise(
    residual: Callable[[np.ndarray], np.ndarray],
    places: np.ndarray,
    free: Sequence[int],
    *,
    quick: bool = False,
) -> np.ndarray:
    """Places with the least sum of squared residuals, of which only `free` move; a local search from `places`.

    A `quick` one ends when nothing changes by a ten-thousandth.
    """
    if not len(free):
        return places
    at = list(free)

    def shifted(x: np.ndarray) -> np.ndarray:
        moved = places.copy()
        moved[at] = x - 1.0
        return residual(moved)

    # places from 1 to 2: a relative step is then an absolute one
    start = np.clip(places[at] + 1.0, 1.0 + 1e-9, 2.0 - 1e-9)
    options: dict[str, Any] = {"diff_step": _STEP, "xtol": 1e-7, "ftol": 1e-10, "gtol": 1e-12, "max_nfev": 60}
    if quick:
        options |= {"xtol": 1e-5, "ftol": 1e-4, "max_nfev": 40}
    found = least_squares(shifted, start, bounds=(1.0, 2.0), x_scale=1.0, **options)
    best = places.copy()
    best[at] = np.clip(found.x - 1.0, 0.0, 1.0)
    return best


def fit_all(problem: Problem) -> np.ndarray:
    """Places of the best fit."""
    counted = [i for i, one in enumerate(problem.parameters) if one.counted]
    free = [i for i, one in enumerate(problem.parameters) if not one.counted]
    combinations = math.prod(len(problem.parameters[i].values) for i in counted)
    if combinations > STEPS:
        return _evolved(problem, free)
    found = []
    for values in itertools.product(*(problem.parameters[i].values for i in counted)):
        fixed = problem.start
        for i, value in zip(counted, values):
            fixed[i] = problem.parameters[i].place(value)
        found += [fit_from(problem, start, free) for start in _starts(problem, fixed, free)]
    return min(found, key=problem.cost)


def fit_from(problem: Problem, places: np.ndarray, free: Sequence[int]) -> np.ndarray:
    """Best fit near some places, of which only `free` move, and no counts among them."""
    free = [i for i in free if not problem.parameters[i].counted]
    start = problem.start

    def residual(at: np.ndarray) -> np.ndarray:
        return np.concatenate((problem.weights * problem.logs(at), _PULL * (at - start)))

    return minimise(residual, places, free)


def _starts(problem: Problem, places: np.ndarray, free: Sequence[int]) -> list[np.ndarray]:
    """The start itself, and the best of a Latin hypercube."""
    if not free:
        return [places]
    sample = qmc.LatinHypercube(d=len(free), **_seeded(qmc.LatinHypercube)).random(_SAMPLES * len(free))
    drawn = []
    for point in sample:
        moved = places.copy()
        moved[list(free)] = point
        drawn.append(moved)
    return [places, *sorted(drawn, key=problem.cost)[: _STARTS - 1]]


def _evolved(problem: Problem, free: Sequence[int]) -> np.ndarray:
    """Best fit where counts have too many combinations to try each."""
    whole = np.array([one.counted for one in problem.parameters])
    bounds = [(one.values[0], one.values[-1]) if one.counted else (0.0, 1.0) for one in problem.parameters]

    def places(x: np.ndarray) -> np.ndarray:
        return np.array([one.place(value) if one.counted else value for one, value in zip(problem.parameters, x)])

    options: dict[str, Any] = {"integrality": whole, "polish": False, "tol": 1e-4, "maxiter": 60, "popsize": 10}
    found = differential_evolution(
        lambda x: problem.cost(places(x)), bounds, **options, **_seeded(differential_evolution)
    )
    return fit_from(problem, places(found.x), free)


def _seeded(function: Callable[..., Any]) -> dict[str, Any]:
    """Seed of one of SciPy's functions, by the name that this version gives it (``rng`` from 1.15 on)."""
    name = "rng" if "rng" in inspect.signature(function).parameters else "seed"
    return {name: np.random.default_rng(0)}
