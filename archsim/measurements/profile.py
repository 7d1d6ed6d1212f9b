"""How far a fitted parameter may move: profiles of the rows' residuals, the others fitted anew at each place.

A place is allowed when, for some values of the others, every row's simulated value stays within its tolerance of the
best fit's. The interval of these places is the parameter's. A parameter whose whole range is allowed is not
identifiable: no row responds to it, or others make up for it. The same interval with the others held says which.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from archsim.measurements.fit import Problem, minimise
from archsim.measurements.parameters import Parameter

#: Steps towards an end of an interval, the change they aim at and that which is close enough, in tolerances.
_STEPS, _AIM, _CLOSE = 14, 0.99, 0.97
#: Change so far inside that the least one need not be looked for.
_WELL = 0.8
#: How much wider an interval gets with the others fitted before it counts as shared with them.
_WIDER = 2.0
#: How far, in lengths of its range, another parameter moves to be named as one that makes up.
_MOVED = 0.05
_EDGE = 1e-3
#: Way from an end of a range at which rows must be worse, and by which share of the sum of squares.
_INSIDE, _WORSE = 0.02, 1e-4
#: Mean distance of rows (a logarithm) from which a fit has not met them.
_MISSED = 2e-3
#: Change of a row over a whole range from which it is among those that a value was fitted to.
_RESPONDS = 1e-3
#: Most combinations of other counts that a profile tries.
_COMBINATIONS = 8


@dataclass(frozen=True)
class Interval:
    """What rows say about one parameter.

    Attributes
    ----------
    low, high : float
        Ends of the interval.
    status : str
        ``identified``; ``one-sided`` (one end is the range's); ``not separately identifiable`` (others make up for it);
        ``not identifiable`` (the rows hardly respond).
    partners : tuple of str
        Paths of those that make up for it.
    response : float
        Largest change of a row over the whole range, the others held, in tolerances.
    rows : tuple of int
        Rows that respond by more than a thousandth over the whole range.
    beyond : str
        ``low`` or ``high`` where the best fit stands at that end of the range and the rows ask to go beyond; or empty.
    """

    low: float
    high: float
    status: str
    partners: tuple[str, ...]
    response: float
    rows: tuple[int, ...]
    beyond: str = ""


@dataclass(frozen=True)
class _End:
    """One end of an interval: the place of the parameter, all places there, and whether the range ended first."""

    place: float
    places: np.ndarray
    open: bool


class Profiler:
    """Intervals around a best fit.

    Parameters
    ----------
    problem : Problem
    best : ndarray
        Places of the best fit.
    tolerances : ndarray
        Logarithm of 1 + tolerance, row by row.
    """

    def __init__(self, problem: Problem, best: np.ndarray, tolerances: np.ndarray) -> None:
        self.problem, self.best, self.tolerances = problem, best, tolerances
        self.reference = problem.logs(best)

    def away(self, places: np.ndarray) -> np.ndarray:
        """Change of each row against the best fit, in tolerances."""
        return (self.problem.logs(places) - self.reference) / self.tolerances

    def interval(self, index: int) -> Interval:
        """Interval of one parameter."""
        parameter = self.problem.parameters[index]
        held = [self._end(index, side, refit=False) for side in (0.0, 1.0)]
        ends = [self._end(index, side, refit=True) for side in (0.0, 1.0)]
        change = np.max([np.abs(self.away(_with(self.best, index, side))) for side in (0.0, 1.0)], axis=0)
        rows = tuple(np.flatnonzero(change * self.tolerances > _RESPONDS).tolist())
        status, partners = self._status(index, held, ends)
        low, high = (parameter.value(end.place) for end in ends)
        beyond = "" if status == "not identifiable" else self._beyond(index)
        return Interval(low, high, status, partners, float(change.max()), rows, beyond)

    def _beyond(self, index: int) -> str:
        """End of the range at which the best fit stands, if the rows are worse inside and not met there."""
        place = self.best[index]
        if _EDGE < place < 1 - _EDGE:
            return ""
        side = "low" if place <= _EDGE else "high"
        here, inside = (self.problem.cost(_with(self.best, index, abs(at - (side == "high")))) for at in (0.0, _INSIDE))
        missed = np.sqrt(2 * here / len(self.reference)) > _MISSED
        return side if missed and inside > here * (1 + _WORSE) else ""

    def _status(self, index: int, held: Sequence[_End], ends: Sequence[_End]) -> tuple[str, tuple[str, ...]]:
        if all(end.open for end in held):
            return "not identifiable", ()
        wide, narrow = ends[1].place - ends[0].place, held[1].place - held[0].place
        moved = {
            self.problem.parameters[i].path: shift
            for i in range(len(self.best))
            if i != index and (shift := max(abs(end.places[i] - self.best[i]) for end in ends)) > _MOVED
        }
        stopped = [end.open or self._at_bound(end, index) for end in ends]
        if moved and wide > _WIDER * narrow and any(stopped):
            return "not separately identifiable", tuple(sorted(moved, key=lambda path: -moved[path]))
        return ("one-sided" if any(end.open for end in ends) else "identified"), ()

    def _at_bound(self, end: _End, index: int) -> bool:
        """Whether another parameter has come to an end of its range, and so ends the interval."""
        others = np.delete(end.places, index)
        moved = np.abs(others - np.delete(self.best, index)) > _MOVED
        return bool((moved & ((others < _EDGE) | (others > 1 - _EDGE))).any())

    def _end(self, index: int, side: float, *, refit: bool) -> _End:
        """Farthest allowed place of a parameter towards an end of its range."""
        out, far = self._reach(index, side, self.best, refit)
        if out <= 1.0:
            return _End(side, far, True)
        if self.problem.parameters[index].counted:
            return self._counted_end(index, side, refit)
        good, inside, bad, outside = self.best, 0.0, side, out
        for step in range(_STEPS):
            # where changes in proportion to the way would be just inside, and every other time, for plateaus, half-way
            share = 0.5 if step % 2 else min(max((_AIM - inside) / (outside - inside), 0.1), 0.9)
            found, places = self._reach(index, good[index] + share * (bad - good[index]), good, refit)
            if found <= 1.0:
                good, inside = places, found
                if inside > _CLOSE:
                    break
            else:
                bad, outside = places[index], found
        return _End(float(good[index]), good, False)

    def _counted_end(self, index: int, side: float, refit: bool) -> _End:
        parameter, good = self.problem.parameters[index], self.best
        present, values = int(parameter.value(self.best[index])), parameter.values
        for value in range(present + 1, values[-1] + 1) if side else range(present - 1, values[0] - 1, -1):
            found, places = self._reach(index, parameter.place(value), good, refit)
            if found > 1.0:
                break
            good = places
        return _End(float(good[index]), good, False)

    def _reach(self, index: int, place: float, near: np.ndarray, refit: bool) -> tuple[float, np.ndarray]:
        """Least change of the row that changes most, in tolerances, with the parameter at `place`, and the places."""
        free = [i for i, one in enumerate(self.problem.parameters) if i != index and not one.counted]
        best, found = np.inf, _with(self.best, index, place)
        for start in self._starts(index, place, near) if refit else [found]:
            for places in self._tries(start, free if refit else []):
                change = float(np.abs(self.away(places)).max())
                if change < best:
                    best, found = change, places
                if best <= _WELL:
                    return best, found
        return best, found

    def _tries(self, start: np.ndarray, free: Sequence[int]) -> Iterator[np.ndarray]:
        """Places near a start, better and better: as it is, the least mean change, and nearly the least largest one."""
        yield start
        if not free:
            return
        square = minimise(self.away, start, free, quick=True)
        yield square
        if np.mean(self.away(square) ** 2) <= 1.0:  # else the largest of any is outside too
            yield minimise(lambda at: self.away(at) ** 3, square, free, quick=True)

    def _starts(self, index: int, place: float, near: np.ndarray) -> list[np.ndarray]:
        """Where the others start: as they are nearby, with every combination of other counts if these are few."""
        counted = [i for i, one in enumerate(self.problem.parameters) if one.counted and i != index]
        here = _with(near, index, place)
        combinations = 1
        for i in counted:
            combinations *= len(self.problem.parameters[i].values)
        if not counted or combinations > _COMBINATIONS:
            return [here]
        table = []
        for values in itertools.product(*(self.problem.parameters[i].values for i in counted)):
            moved = here.copy()
            for i, value in zip(counted, values):
                moved[i] = self.problem.parameters[i].place(value)
            table.append(moved)
        return table


def _with(places: np.ndarray, index: int, place: float) -> np.ndarray:
    moved = places.copy()
    moved[index] = place
    return moved


def shown(parameter: Parameter, interval: Interval, value: float) -> tuple[float, float]:
    """Ends of an interval as a file states them, around the stated value."""
    return min(parameter.rounded(interval.low), value), max(parameter.rounded(interval.high), value)
