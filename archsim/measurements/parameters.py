"""Numbers of a system that a fit may move: their ranges, and the scale on which they move."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from archsim.config import Row
from archsim.measurements.machine import Machine
from archsim.units import InputError, parse, quantity, quote, show, suggest

#: Most parameters of one fit, and most whole numbers of a range that are tried one by one.
MOST, STEPS = 12, 64
#: Ratio of the ends of a range from which a parameter moves on a logarithmic scale.
_LOG_RATIO = 1.2
_DIGITS = 6


@dataclass(frozen=True)
class Parameter:
    """A number to fit.

    Attributes
    ----------
    path, unit : str
        Dotted path and unit, empty for a plain number.
    start, low, high : float
        Value before the fit, and the range it may take.
    whole : bool
        Whether only whole numbers are values.
    counted : bool
        Whether it is a count (of threads, tiles) that is tried value by value.
    """

    path: str
    unit: str
    start: float
    low: float
    high: float
    whole: bool
    counted: bool

    @property
    def _log(self) -> bool:
        return self.low > 0 and self.high / self.low > _LOG_RATIO

    def place(self, value: float) -> float:
        """Place of a value in the range, from 0 to 1."""
        if self.high == self.low:
            return 0.0
        value = min(max(value, self.low), self.high)
        if self._log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def value(self, place: float) -> float | int:
        """Value at a place, whole where it must be; others have six digits, as files state them."""
        place = min(max(place, 0.0), 1.0)
        if self._log:
            found = self.low * (self.high / self.low) ** place
        else:
            found = self.low + place * (self.high - self.low)
        if self.whole:
            return min(max(round(found), math.ceil(self.low)), math.floor(self.high))
        return min(max(found, self.low), self.high)

    def rounded(self, value: float) -> float | int:
        """Value as a file states it."""
        if self.whole:
            return round(value)
        return min(max(float(f"{value:.{_DIGITS}g}"), self.low), self.high)

    def text(self, value: float) -> str | float | int:
        """Value as YAML has it: text with a unit, or a number."""
        if not self.unit:
            return value
        return show(value, self.unit, 17)

    @property
    def values(self) -> range:
        """Whole numbers of the range."""
        return range(math.ceil(self.low), math.floor(self.high) + 1)


@dataclass(frozen=True)
class FittedParameter:
    """One parameter: value at the start and fitted, its range, and the interval that keeps every row in tolerance.

    `status`, `partners`, `response` and `beyond` are those of :class:`archsim.measurements.profile.Interval`, `rows`
    the places of the rows that respond. One that is not identifiable keeps its start.
    """

    path: str
    unit: str
    start: float
    value: float
    low: float
    high: float
    interval_low: float
    interval_high: float
    status: str
    partners: tuple[str, ...]
    response: float
    rows: tuple[str, ...]
    beyond: str = ""

    @property
    def caution(self) -> str:
        """What to do where the range ends before the rows are met; or empty."""
        if not self.beyond:
            return ""
        return (
            f"{self.path} stands at the {self.beyond} end of its range and the rows ask to go beyond: "
            f"something else differs, or give --range {self.path}=LOW..HIGH"
        )


def parameters(machine: Machine, paths: Sequence[str], ranges: Mapping[str, tuple[str, str]]) -> list[Parameter]:
    """Parameters by path, with the range of their file or a given one.

    Parameters
    ----------
    machine : Machine
    paths : sequence of str
        Dotted paths ``system.<device>.<field>``.
    ranges : mapping of str to tuple of str
        Ranges given by path, as text.

    Raises
    ------
    InputError
        For a path that is no number of the system or is named twice, and for one without a range.
    """
    if not paths:
        raise InputError("--fit names no parameter; give PATH or PATH,PATH")
    if len(paths) > MOST:
        raise InputError(f"--fit names {len(paths)} parameters; at most {MOST}")
    for path in ranges:
        if path not in paths:
            raise InputError(f"--range {path}: is not among the parameters of --fit")
    return [_parameter(machine, path, ranges.get(path), paths.count(path)) for path in paths]


def _parameter(machine: Machine, path: str, given: tuple[str, str] | None, times: int) -> Parameter:
    if times > 1:
        raise InputError(f"--fit names {path} twice")
    row = machine.numbers.get(path)
    if row is None:
        raise InputError(
            f"--fit: {quote(path)} is no number of {machine.system.name}; {suggest(path, machine.numbers)}"
        )
    if len(path.split(".")) != 3:
        raise InputError(f"--fit: {path} stands inside a list or mapping; only a field of a device can be fitted")
    bounds = machine.ranges.get(path) if given is None else _given(path, given, row)
    if bounds is None:
        raise InputError(f"--fit: {path} has no range; give --range {path}=LOW..HIGH")
    whole = isinstance(row.value, int)
    counted = whole and not row.unit and bounds[1] - bounds[0] < STEPS
    low, high = (math.ceil(bounds[0]), math.floor(bounds[1])) if whole else bounds
    if low > high:
        raise InputError(f"--fit: the range of {path} holds no whole number")
    return Parameter(path, row.unit, min(max(row.value, low), high), low, high, whole, counted)


def _given(path: str, texts: tuple[str, str], row: Row) -> tuple[float, float]:
    """Range given on the command line."""
    found = []
    for text in texts:
        try:
            found.append(float(parse(text, quantity(row.unit)) if row.unit else text))
        except (InputError, ValueError) as error:
            message = error if isinstance(error, InputError) else f"{quote(text)} is not a number"
            raise InputError(f"--range {path}: {message}") from None
    if not (math.isfinite(found[0]) and math.isfinite(found[1]) and found[0] < found[1]):
        raise InputError(f"--range {path}: {quote('..'.join(texts))} must go from a lower to a higher number")
    return found[0], found[1]


def parse_ranges(texts: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Ranges of ``PATH=LOW..HIGH``.

    Raises
    ------
    InputError
        For a text of another form.
    """
    table: dict[str, tuple[str, str]] = {}
    for text in texts:
        path, equals, both = text.partition("=")
        low, dots, high = both.partition("..")
        if not (equals and dots and low.strip() and high.strip()):
            raise InputError(f"--range {quote(text)}: write PATH=LOW..HIGH, such as system.npu.call_ps=11 us..35 us")
        table[path.strip()] = (low.strip(), high.strip())
    return table
