"""From the axes of a sweep to its points."""

from __future__ import annotations

import itertools
import math
import operator
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from archsim.config import InputError, SweepSpec
from archsim.config.sweeps import MOST_STEPS, Condition, Span
from archsim.units import parse, quote

Value = bool | int | float | str
#: Most points of one sweep.
MOST_POINTS = 1_000_000

_QUANTITY = re.compile(r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*(\S.*?)\s*")
_OPS: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    ">": operator.gt,
}


@dataclass(frozen=True)
class Ends:
    """A span's bounds as numbers, the unit (empty for bare numbers) in which they are, and its step (0: none)."""

    low: float
    high: float
    unit: str
    whole: bool
    log: bool
    step: float = 0.0

    def at(self, share: float) -> Value:
        """Value at `share` (0 .. 1) of the way from low to high."""
        if self.log:
            value = math.exp(math.log(self.low) + share * (math.log(self.high) - math.log(self.low)))
        else:
            value = self.low + share * (self.high - self.low)
        value = self.low if share == 0 else self.high if share == 1 else value
        return self.text(value)

    def text(self, value: float) -> Value:
        """A number of this span as it is set: whole where the bounds are, with the unit where there is one."""
        if self.step:
            most = math.floor((self.high - self.low) / self.step * (1 + 1e-12))
            value = self.low + min(round((value - self.low) / self.step), most) * self.step
        if self.whole:
            value = round(value)
        shown = int(value) if self.whole else float(f"{value:.12g}")
        return f"{shown} {self.unit}" if self.unit else shown


def ends(path: str, span: Span) -> Ends:
    """Bounds of a span.

    Raises
    ------
    InputError
        When the bounds are of different kinds, in the wrong order, or not above zero for a logarithmic span.
    """
    where = f"axes.{path}"
    low, high = (_split(where, bound) for bound in (span.low, span.high))
    if low[1] != high[1]:
        raise InputError(f"{where}: low and high are in different units ({span.low} and {span.high}); write both alike")
    unit, whole = low[1], all(isinstance(x, int) for x in (span.low, span.high))
    if unit:
        try:  # sizes are whole bytes
            low, high = ((parse(str(bound), "B"), "B") for bound in (span.low, span.high))
            unit, whole = "B", True
        except InputError:
            pass
    if not low[0] < high[0]:
        raise InputError(f"{where}: low {span.low} is not below high {span.high}")
    if span.log and low[0] <= 0:
        raise InputError(f"{where}: a logarithmic span needs a low above zero, not {span.low}")
    return Ends(float(low[0]), float(high[0]), unit, whole, span.log, _step(where, span, unit, high[0] - low[0]))


def _step(where: str, span: Span, unit: str, room: float) -> float:
    """Step of a span in the unit of its bounds; 0 where it has none."""
    if span.step is None:
        return 0.0
    step = _split(where, span.step)
    if step[1] and unit == "B":
        step = (float(parse(str(span.step), "B")), "B")
    if step[1] != unit:
        raise InputError(f"{where}: the step {span.step} is not in the unit of the bounds ({unit or 'bare numbers'})")
    if not 0 < step[0] <= room:
        raise InputError(f"{where}: the step {span.step} must be above zero and no more than high less low")
    return step[0]


def _split(where: str, bound: int | float | str) -> tuple[float, str]:
    if not isinstance(bound, str):
        return float(bound), ""
    found = _QUANTITY.fullmatch(bound)
    if found is None:
        raise InputError(f"{where}: {quote(bound)} is no number with a unit")
    return float(found[1]), found[2]


def axis_values(path: str, axis: Sequence[Value] | Span) -> list[Value]:
    """Values of one axis of a grid.

    Raises
    ------
    InputError
        For a span with neither steps nor a step.
    """
    if isinstance(axis, Span):
        between = ends(path, axis)
        if axis.steps is None:
            if not between.step:
                raise InputError(f"axes.{path}: a span of a grid needs 'steps' or 'step'")
            return [between.text(between.low + i * between.step) for i in range(_stepped(path, between))]
        values = [between.at(i / (axis.steps - 1)) for i in range(axis.steps)]
    else:
        values = list(axis)
    return values


def _stepped(path: str, between: Ends) -> int:
    """Values of a span by its step."""
    found = math.floor((between.high - between.low) / between.step * (1 + 1e-12)) + 1
    if found > MOST_STEPS:
        raise InputError(f"axes.{path}: its step makes {found} values, more than {MOST_STEPS}")
    return found


def _check_different(group: Sequence[str], values: Mapping[str, Sequence[Value]]) -> None:
    """Refuse an axis, or a group of axes that move together, that would give one point twice."""
    rows = list(zip(*(values[path] for path in group)))
    keys = [tuple((type(value).__name__, value) for value in row) for row in rows]
    if len(set(keys)) < len(keys):
        twice = next(row for i, row in enumerate(rows) if keys[i] in keys[:i])
        what = f"the value {twice[0]} comes" if len(group) == 1 else f"the values {', '.join(map(str, twice))} come"
        raise InputError(f"axes.{' and '.join(group)}: {what} twice; lower steps or take one out")


def points(spec: SweepSpec) -> list[dict[str, Value]]:
    """All points of a sweep in order, each a value per axis; the last axis changes fastest.

    Raises
    ------
    InputError
        For axes that cannot be spanned, zips of unequal lengths, too many points, or conditions that none satisfies.
    """
    made = _sampled(spec) if spec.sample is not None else _grid(spec)
    kept = [point for point in made if all(_holds(condition, point) for condition in spec.where)]
    if not kept:
        shown = "; ".join(f"{c.left} {c.op} {c.right}" for c in spec.where)
        raise InputError(f"where: no point satisfies {shown}; loosen it or widen the axes")
    return kept


def count(spec: SweepSpec) -> int:
    """Points before conditions; cheap even where there are too many to list."""
    if spec.sample is not None:
        return spec.sample.points
    sizes = {path: _size(path, axis) for path, axis in spec.axes.items()}
    total = 1
    for path, size in sizes.items():
        if not any(path in group[1:] for group in spec.zip):
            total *= size
    return total


def _size(path: str, axis: Sequence[Value] | Span) -> int:
    if not isinstance(axis, Span):
        return len(axis)
    return axis.steps or (0 if axis.step is None else _stepped(path, ends(path, axis)))


def _grid(spec: SweepSpec) -> Iterator[dict[str, Value]]:
    total = count(spec)
    if total > MOST_POINTS:
        raise InputError(f"the sweep has {total} points, more than {MOST_POINTS}; use 'sample' or fewer steps")
    values = {path: axis_values(path, axis) for path, axis in spec.axes.items()}
    lead = {path: next((group for group in spec.zip if path in group), [path]) for path in values}
    columns = []
    for path in values:
        group = lead[path]
        if path != next(p for p in values if p in group):
            continue
        lengths = {p: len(values[p]) for p in group}
        if len(set(lengths.values())) > 1:
            sizes = ", ".join(f"{p} has {n}" for p, n in lengths.items())
            raise InputError(f"zip: axes that move together need equally many values; {sizes}")
        _check_different(group, values)
        columns.append([dict(zip(group, row)) for row in zip(*(values[p] for p in group))])
    for parts in itertools.product(*columns):
        merged = {key: value for part in parts for key, value in part.items()}
        yield {path: merged[path] for path in values}


def _sampled(spec: SweepSpec) -> Iterator[dict[str, Value]]:
    sample = spec.sample
    rng = random.Random(sample.seed)
    n = sample.points
    shares = {}
    for path in spec.axes:
        slots = list(range(n))
        if sample.method == "lhs":
            rng.shuffle(slots)
            shares[path] = [(slot + rng.random()) / n for slot in slots]
        else:
            shares[path] = [rng.random() for _ in slots]
    spans = {path: ends(path, axis) if isinstance(axis, Span) else None for path, axis in spec.axes.items()}
    for i in range(n):
        point = {}
        for path, axis in spec.axes.items():
            share, span = shares[path][i], spans[path]
            point[path] = span.at(share) if span is not None else axis[min(int(share * len(axis)), len(axis) - 1)]
        yield point


def _holds(condition: Condition, point: Mapping[str, Value]) -> bool:
    left = point[condition.left]
    right = point.get(condition.right, condition.right) if isinstance(condition.right, str) else condition.right
    return _OPS[condition.op](*_comparable(condition, left, right))


def _comparable(condition: Condition, left: Value, right: Value) -> tuple[Any, Any]:
    """Both sides as numbers in one unit, or as they are where both are text, names or switches."""
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        return left, right
    if isinstance(left, str) and isinstance(right, str):
        sides = _QUANTITY.fullmatch(left), _QUANTITY.fullmatch(right)
        if all(sides):
            unit = sides[1][2]
            try:
                return parse(left, unit), parse(right, unit)
            except InputError:
                pass
        elif condition.op in ("==", "!="):
            return left, right
    raise InputError(
        f"where: {condition.left} {condition.op} {condition.right} compares {quote(left)} with {quote(right)}; "
        "give numbers, or quantities of one dimension"
    )
