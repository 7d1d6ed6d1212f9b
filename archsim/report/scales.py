"""Numbers of a table on axes: the column's name in words, and ticks in the prefix that its values want."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from archsim.report import style
from archsim.report.figures import quantity

_ENDINGS = (("_bytes_per_s", "B/s"), ("_hz", "Hz"), ("_bytes", "bytes"), ("_ps", "ps"), ("_mw", "mW"))
_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_SECONDS = ((1e12, "s"), (1e9, "ms"), (1e6, "µs"), (1e3, "ns"), (1.0, "ps"))
_BINARY = ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"))


@dataclass(frozen=True)
class Scale:
    """How a column is written on an axis: its words, its unit, and what its values are divided by."""

    words: str
    unit: str
    factor: float = 1.0

    @property
    def label(self) -> str:
        """Words and unit."""
        return f"{self.words} ({self.unit})" if self.unit else self.words

    def text(self, value: Any) -> str:
        """A value in the unit."""
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return f"{value / self.factor:.4g}"
        return str(value)

    def axis_label(self, *, upright: bool = False) -> str:
        """Label of an axis, broken where it is long; an upright one has less room."""
        width = 26 if upright else 60
        text = style.wrapped(self.words, width)
        if not self.unit:
            return text
        gap = " " if len(text.rpartition("\n")[2]) + len(self.unit) + 3 <= width else "\n"
        return f"{text}{gap}({self.unit})"

    def ticks(self, axis: Any) -> None:
        """Write the ticks of an axis that holds the unscaled values."""
        from matplotlib.ticker import FuncFormatter

        if self.factor == 1.0:
            return
        axis.set_major_formatter(FuncFormatter(lambda value, _: self.text(value)))
        if axis.get_scale() == "log":
            axis.set_minor_formatter(FuncFormatter(lambda value, _: self.text(value) if _round(value) else ""))


def _round(value: float) -> bool:
    """Whether a number's first digit is 2 or 5 and no other follows."""
    return value > 0 and round(value / 10 ** math.floor(math.log10(value)), 6) in (2.0, 5.0)


def label(name: str) -> str:
    """Words and unit of a column for an axis: ``system.npu.clock_hz`` gives ``npu clock (Hz)``."""
    words, unit = _named(name)
    return f"{words} ({unit})" if unit else words


def _named(name: str) -> tuple[str, str]:
    short = name.removeprefix("system.").removeprefix("schedule.").removeprefix("job.").replace(".", " ")
    for ending, unit in _ENDINGS:
        if short.endswith(ending):
            return short.removesuffix(ending).replace("_", " "), unit
    return quantity(short)


def scale(name: str | None, values: Iterable[Any]) -> Scale:
    """Scale of a column: the largest prefix that its largest value reaches; sizes in powers of 1024 where they are."""
    words, unit = _named(name or "")
    known = [abs(v) for v in values if isinstance(v, (int, float)) and not isinstance(v, bool) and math.isfinite(v)]
    most = max(known, default=0.0)
    steps: Callable[[], tuple[tuple[float, str], ...]] | None = {
        "B/s": lambda: tuple((factor, f"{prefix}B/s") for factor, prefix in _PREFIXES),
        "Hz": lambda: tuple((factor, f"{prefix}Hz") for factor, prefix in _PREFIXES),
        "ps": lambda: _SECONDS,
        "bytes": lambda: _sizes(known),
    }.get(unit)
    if steps is None:
        return Scale(words, unit)
    factor, named = next(((factor, text) for factor, text in steps() if most >= factor), (1.0, unit))
    return Scale(words, unit, 1.0) if factor == 1.0 else Scale(words, named, factor)


def _sizes(known: list[float]) -> tuple[tuple[float, str], ...]:
    if all(value % 1024 == 0 for value in known):
        return _BINARY
    return tuple((factor, f"{prefix}B") for factor, prefix in _PREFIXES)
