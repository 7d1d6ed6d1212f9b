"""Lists of arrivals in CSV: one request a line, ``arrival_s,prompt_tokens,output_tokens``."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from archsim.config.job import Arrival
from archsim.config.reading import Where, shown
from archsim.config.regular import read_regular
from archsim.units import InputError, quote

COLUMNS = ("arrival_s", "prompt_tokens", "output_tokens")
MAX_BYTES = 8 << 20
_ARRIVAL: TypeAdapter[Arrival] = TypeAdapter(Arrival)


def read_arrivals(text: str, near: Path | None, where: Where) -> list[list[float | int]]:
    """Arrivals of a file, as ``job.arrivals`` holds them; the path is tried from `near`, then from here.

    Raises
    ------
    InputError
        For a file that is missing, too large, or has other columns or a line that is no request.
    """
    path = Path(text)
    if near is not None and not path.is_absolute() and (near / path).is_file():
        path = near / path
    try:
        raw = read_regular(path, MAX_BYTES, "a list of arrivals")
    except InputError as error:
        raise where.error(error.message, "job.arrivals") from None
    reader = csv.reader(io.StringIO(raw.decode("utf-8-sig", "replace")))
    try:
        lines = [(reader.line_num, line) for line in reader if line]
    except csv.Error as error:
        raise InputError(f"{shown(path)}:{reader.line_num}: is no line of a table: {error}") from None
    if not lines or tuple(name.strip() for name in lines[0][1]) != COLUMNS:
        raise InputError(f"{shown(path)}:1: expected the columns {','.join(COLUMNS)}")
    found: list[list[float | int]] = []
    for number, line in lines[1:]:
        place = f"{shown(path)}:{number}"
        try:
            arrival, prompt, output = line
            row: list[float | int] = [float(arrival), int(prompt), int(output)]
        except ValueError:
            raise InputError(
                f"{place}: expected a time in seconds and two whole numbers, not {quote(','.join(line))}"
            ) from None
        _check(row, found[-1] if found else None, place)
        found.append(row)
    return found


def _check(row: list[float | int], before: list[float | int] | None, place: str) -> None:
    """Refuse a request out of its bounds or of its order, at its line."""
    try:
        _ARRIVAL.validate_python(tuple(row))
    except ValidationError as error:
        detail = error.errors(include_url=False)[0]
        name, words = COLUMNS[int(detail["loc"][-1])], detail["msg"].removeprefix("Input ")
        raise InputError(f"{place}: {name} is {quote(detail['input'])}; it {words}") from None
    if before is not None and row[0] < before[0]:
        raise InputError(f"{place}: arrives at {row[0]:g} s, before the line above; put them in order of time")
