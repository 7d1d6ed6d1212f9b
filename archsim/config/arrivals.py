"""Lists of arrivals in CSV: one request a line, ``arrival_s,prompt_tokens,output_tokens``."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from archsim.config.reading import Where, shown
from archsim.config.regular import read_regular
from archsim.units import InputError, quote

COLUMNS = ("arrival_s", "prompt_tokens", "output_tokens")
MAX_BYTES = 8 << 20


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
    lines = [line for line in reader if line]
    if not lines or tuple(name.strip() for name in lines[0]) != COLUMNS:
        raise InputError(f"{shown(path)}:1: expected the columns {','.join(COLUMNS)}")
    found = []
    for number, line in enumerate(lines[1:], 2):
        try:
            arrival, prompt, output = line
            found.append([float(arrival), int(prompt), int(output)])
        except ValueError:
            raise InputError(
                f"{shown(path)}:{number}: expected a time in seconds and two whole numbers, not {quote(','.join(line))}"
            ) from None
    return found
