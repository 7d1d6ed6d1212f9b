"""The kinds of files: one module of ``formats`` each, found by a look at the beginning of the file.

A module of ``formats`` has ``FORMAT``, a :class:`Format`; a new kind of file is one module there.
"""

from __future__ import annotations

import json
import math
import pkgutil
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from archsim.config.finding import shipped
from archsim.config.regular import read_regular
from archsim.measurements import formats
from archsim.measurements.rows import Measured, Measurement
from archsim.units import InputError, quote, suggest

#: Largest file of measurements, and most rows of one.
LIMIT_BYTES = 1 << 26
LIMIT_ROWS = 100_000
#: Largest of any size, count or depth in a file.
MOST = 1 << 40


#: How a line begins with which a JSON document, or a line of JSON objects, begins.
_JSON = re.compile(r"\s*(\{\s*(\"|\}|$)|\[\s*(\{|\]|$))")


@dataclass(frozen=True)
class Hints:
    """What the command line says where a file cannot.

    Attributes
    ----------
    target : str
        Model of rows whose file names none that is known.
    """

    target: str = ""


@dataclass(frozen=True)
class Format:
    """One kind of file.

    Attributes
    ----------
    name, what : str
        Name for ``--format``, and one line about it.
    recognise : callable
        Whether a text (its first 64 KiB) looks like one.
    read : callable
        Rows of a text; takes the text, a :class:`Source` for errors, and the hints.
    instead : callable
        What to say of a text that no format recognises and that the same program wrote in another way; or empty.
    """

    name: str
    what: str
    recognise: Callable[[str], bool]
    read: Callable[[str, Source, Hints], Iterator[Measurement]]
    instead: Callable[[str], str] = lambda _: ""


@dataclass(frozen=True)
class Source:
    """A file that errors name."""

    file: Path

    def fail(self, place: str, message: str) -> NoReturn:
        """Refuse what stands at a place."""
        raise InputError(f"{self.file}: {place}: {message}" if place else f"{self.file}: {message}")

    def number(self, place: str, field: str, value: Any, *, least: float = 0.0) -> float:
        """Finite number above `least` (or equal, where `least` is not 0)."""
        good = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e300
        if not good or not math.isfinite(value) or (value <= least if least == 0.0 else value < least):
            bound = "above 0" if least == 0.0 else f"of at least {least:g}"
            self.fail(place, f"{field} is {quote(value)}; expected a number {bound}")
        return float(value)

    def whole(self, place: str, field: str, value: Any, *, least: int = 0) -> int:
        """Whole number from `least` to :data:`MOST`; text of digits counts."""
        if isinstance(value, str) and value.isascii() and value.strip().isdigit() and len(value.strip()) <= 15:
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MOST:
            self.fail(place, f"{field} is {quote(value)}; expected a whole number from {least} to {MOST}")
        return value

    def document(self, text: str) -> str:
        """Text from the line on with which its JSON begins; the lines of a log before it are left empty."""
        lines = text.split("\n")
        first = next((number for number, line in enumerate(lines) if _JSON.match(line)), 0)
        return "\n" * first + "\n".join(lines[first:])

    def json(self, text: str, place: str = "") -> Any:
        """Plain data of a JSON text; not-a-number and infinity are refused."""
        try:
            return json.loads(text, parse_constant=self._constant)
        except json.JSONDecodeError as error:
            self.fail(place or f"line {error.lineno}", f"is not JSON: {error.msg}")
        except RecursionError:
            self.fail(place, "is nested too deeply")
        except ValueError as error:  # a number of too many digits
            self.fail(place, f"is not JSON: {error}")

    def _constant(self, word: str) -> NoReturn:
        self.fail("", f"holds {word}, which is no number of JSON")

    def mapping(self, place: str, value: Any) -> Mapping[str, Any]:
        """Value that must be a mapping."""
        if not isinstance(value, Mapping):
            self.fail(place, f"expected a mapping, not {quote(value)}")
        return value


def known_formats() -> dict[str, Format]:
    """Formats by name."""
    found = [import_module(f"{formats.__name__}.{item.name}").FORMAT for item in pkgutil.iter_modules(formats.__path__)]
    return {entry.name: entry for entry in sorted(found, key=lambda entry: entry.name)}


def read_measurements(file: str | Path, *, style: str = "", target: str = "") -> Measured:
    """Read a file of measurements.

    Parameters
    ----------
    file : path
        A regular file of at most 64 MiB; ``traces/...`` also finds those that come with archsim.
    style : str
        Name of its format; recognised where it is empty.
    target : str
        Model of rows that name none that is known.

    Raises
    ------
    InputError
        When it cannot be read, its format is not known, or a line or field is malformed (the place is named).
    """
    path = shipped(Path(file))
    known = known_formats()
    if style and style not in known:
        raise InputError(f"--format: no format {quote(style)}; {suggest(style, known)}")
    raw = read_regular(path, LIMIT_BYTES, "measurements")
    try:
        text = raw.decode("utf-8-sig", "strict" if style != "ggml-hexagon" else "replace")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")  # logs of phones hold stray bytes
    if not text.strip():
        raise InputError(f"{path}: is empty; expected one of {', '.join(known)}")
    head = text[: 1 << 16]
    chosen = known[style] if style else next((entry for entry in known.values() if entry.recognise(head)), None)
    if chosen is None:
        said = next((entry.instead(head) for entry in known.values() if entry.instead(head)), "")
        said = said or f"is none of {', '.join(known)}; name its format with --format"
        raise InputError(f"{path}: {said}")
    source, rows = Source(path), []
    for row in chosen.read(text, source, Hints(target)):
        rows.append(row)
        if len(rows) > LIMIT_ROWS:
            raise InputError(f"{path}: has more than {LIMIT_ROWS} rows")
    if not rows:
        raise InputError(f"{path}: holds no measurement of the format {chosen.name}")
    return Measured(path, chosen.name, tuple(rows))
