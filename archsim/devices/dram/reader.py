"""Streaming reader of memory access traces: blocks of bytes in, columns of integers out.

Formats, one request a line, blank lines and lines that start with ``#`` skipped, gzip recognised by its first bytes:

========== ================================ ======================================
rw-hex     ``R|W ADDRESS``                  address in hex, with or without ``0x``
ldst       ``LD|ST ADDRESS``                decimal, or hex with ``0x``
dramsim3   ``0xADDRESS READ|WRITE CYCLE``   cycle of the memory clock, decimal
========== ================================ ======================================
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from numba import njit

from archsim.config.finding import shipped
from archsim.config.regular import what_is
from archsim.jit import borrower
from archsim.units import InputError, quote, suggest

FORMATS = ("rw-hex", "ldst", "dramsim3")
BLOCK_BYTES = 1 << 20
RW_HEX, LDST, DRAMSIM3 = range(3)
FINE, MALFORMED, TOO_HIGH, UNALIGNED, DECREASING, NEGATIVE = range(6)

_LOOKS = {
    "rw-hex": re.compile(rb"[RW]\s+(0[xX])?[0-9a-fA-F]+\s*"),
    "ldst": re.compile(rb"(LD|ST)\s+(0[xX][0-9a-fA-F]+|[0-9]+)\s*"),
    "dramsim3": re.compile(rb"0[xX][0-9a-fA-F]+\s+(READ|WRITE)\s+-?[0-9]+\s*"),
}
_SHOWN = {"rw-hex": "R|W HEXADDRESS", "ldst": "LD|ST ADDRESS", "dramsim3": "0xADDRESS READ|WRITE CYCLE"}


#: Last cycle that a trace may name: twelve days of a 1 ns clock.
LAST_CYCLE = 10**15
LONGEST_LINE = 1 << 20


class Block(NamedTuple):
    """Requests of one block: addresses in bytes, 1 for writes, cycles (zeros where the format has none)."""

    address: np.ndarray
    write: np.ndarray
    cycle: np.ndarray


@borrower
def _number(text, at, end, base):
    """Digits from `at`: value and the position behind them; -1 for the value if there are none or too many."""
    value, first = 0, at
    while at < end:
        c = np.int64(text[at])
        digit = 99
        if 48 <= c <= 57:
            digit = c - 48
        elif 97 <= c <= 102:
            digit = c - 87
        elif 65 <= c <= 70:
            digit = c - 55
        if digit >= base:
            break
        if value < 1 << 58:  # longer numbers stay above any capacity
            value = value * base + digit
        at += 1
    return (value if at > first else -1), at


@borrower
def _word(text, at, end, style):
    """Request word at `at`: 0 read, 1 write, -1 neither; and the position behind it."""
    c = text[at]
    if style == RW_HEX:
        return (0 if c == 82 else 1 if c == 87 else -1), at + 1
    if style == LDST:
        if at + 1 < end and c == 76 and text[at + 1] == 68:
            return 0, at + 2
        if at + 1 < end and c == 83 and text[at + 1] == 84:
            return 1, at + 2
        return -1, at
    if at + 3 < end and c == 82 and text[at + 1] == 69 and text[at + 2] == 65 and text[at + 3] == 68:
        return 0, at + 4
    if (
        at + 4 < end
        and c == 87
        and text[at + 1] == 82
        and text[at + 2] == 73
        and text[at + 3] == 84
        and text[at + 4] == 69
    ):
        return 1, at + 5
    return -1, at


@borrower
def _blanks(text, at, end):
    """Position behind spaces, tabs and carriage returns."""
    while at < end and (text[at] == 32 or text[at] == 9 or text[at] == 13):
        at += 1
    return at


@borrower
def _address(text, at, end, style):
    """Address at `at` and the position behind it."""
    prefixed = at + 1 < end and text[at] == 48 and (text[at + 1] == 120 or text[at + 1] == 88)
    if not prefixed and style == DRAMSIM3:
        return -1, at
    return _number(text, at + 2 if prefixed else at, end, 16 if prefixed or style == RW_HEX else 10)


@njit(cache=True)
def parse(text, style, capacity, align, last_cycle, address, write, cycle):
    """Parse whole lines.

    Parameters
    ----------
    text : uint8 [bytes]
        Lines, each ended by a newline.
    style : int
        RW_HEX, LDST or DRAMSIM3.
    capacity, align, last_cycle : int
        Addresses must be below `capacity` and multiples of `align` bytes; cycles not below `last_cycle`.
    address, write, cycle : int64 [lines]
        Receive the requests.

    Returns
    -------
    requests, code, lines, start : int
        Requests parsed, FINE or what is wrong, lines before the wrong one, and where that starts.
    """
    count, lines, at, size = 0, 0, 0, text.size
    while at < size:
        start, end = at, at
        while text[end] != 10:
            end += 1
        at = _blanks(text, at, end)
        if at < end and text[at] != 35:
            kind, where, when = -1, -1, last_cycle
            if style == DRAMSIM3:
                where, at = _address(text, at, end, style)
                gap = _blanks(text, at, end)
                if where >= 0 and gap > at and gap < end:
                    kind, at = _word(text, gap, end, style)
                    gap = _blanks(text, at, end)
                    negative = gap < end and text[gap] == 45
                    when, after = _number(text, gap + 1 if negative else gap, end, 10)
                    if gap == at or when < 0:
                        kind = -1
                    elif negative:
                        return count, NEGATIVE, lines, start
                    at = after
            else:
                kind, at = _word(text, at, end, style)
                gap = _blanks(text, at, end)
                if kind >= 0 and gap > at:
                    where, at = _address(text, gap, end, style)
            if kind < 0 or where < 0 or _blanks(text, at, end) < end:
                return count, MALFORMED, lines, start
            if where >= capacity:
                return count, TOO_HIGH, lines, start
            if where % align != 0:
                return count, UNALIGNED, lines, start
            if when < last_cycle:
                return count, DECREASING, lines, start
            address[count], write[count], cycle[count] = where, kind, when
            last_cycle = when
            count += 1
        lines += 1
        at = end + 1
    return count, FINE, lines, size


def looks_like(line: bytes) -> str | None:
    """Name of the format a line is in, or None."""
    return next((name for name, pattern in _LOOKS.items() if pattern.fullmatch(line.strip())), None)


def _open(path: Path) -> BinaryIO:
    path = shipped(path)
    problem = what_is(path)
    if problem:
        raise InputError(f"{path}: {problem}; expected a trace of requests")
    try:
        with path.open("rb") as raw:
            magic = raw.read(2)
        return gzip.open(path) if magic == b"\x1f\x8b" else path.open("rb")  # type: ignore[return-value]
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error


def _texts(path: Path) -> Iterator[bytes]:
    """Blocks of whole lines."""
    rest = b""
    with _open(path) as file:
        while True:
            try:
                data = file.read(BLOCK_BYTES)
            except EOFError as error:
                raise InputError(f"{path}: the gzip file is truncated; copy it again") from error
            except (OSError, zlib.error) as error:
                raise InputError(f"{path}: cannot be read: {error}") from error
            if not data:
                break
            cut = data.rfind(b"\n") + 1
            if cut:
                yield rest + data[:cut]
                rest = data[cut:]
            else:
                rest += data
            if len(rest) > LONGEST_LINE:
                raise InputError(f"{path}: a line is longer than {LONGEST_LINE} bytes; this is no trace of requests")
    if rest:
        yield rest + b"\n"


def blocks(path: str | Path, style: str | None, capacity_bytes: int, align_bytes: int) -> Iterator[Block]:
    """Requests of a trace file, block by block.

    Parameters
    ----------
    style : str or None
        One of FORMATS; None: by the look of the first request.

    Raises
    ------
    InputError
        Unreadable or empty file, truncated gzip, malformed line or wrong format (``file:line``), address out of range
        or unaligned, negative or decreasing cycle.
    """
    path = Path(path)
    if style is not None and style not in FORMATS:
        raise InputError(f"unknown trace format {quote(style)}; {suggest(style, FORMATS)}")
    lines, last, total = 0, 0, 0
    for text in _texts(path):
        if style is None:
            style = _first_style(path, text)
        bytes_ = np.frombuffer(text, np.uint8)
        room = text.count(b"\n")
        columns = Block(*(np.empty(room, np.int64) for _ in Block._fields))
        count, code, before, start = parse(
            bytes_, FORMATS.index(style or "rw-hex"), capacity_bytes, align_bytes, last, *columns
        )
        if code != FINE:
            line = text[start : text.index(b"\n", start)]
            raise _problem(f"{path}:{lines + before + 1}", code, line, style or "rw-hex", capacity_bytes, align_bytes)
        lines += before
        if count:
            last = int(columns.cycle[count - 1])
            if last > LAST_CYCLE:
                raise InputError(
                    f"{path}: a request among the {count} up to line {lines} is at cycle {last}, beyond {LAST_CYCLE}, "
                    "the last that can be replayed"
                )
            total += count
            yield Block(*(column[:count] for column in columns))
    if total == 0:
        raise InputError(f"{path}: no request in it; expected lines of {_SHOWN[style or 'rw-hex']}")


def _first_style(path: Path, text: bytes) -> str | None:
    for number, line in enumerate(text.split(b"\n")[:10_000], 1):
        if line.strip() and not line.strip().startswith(b"#"):
            style = looks_like(line)
            if style is None:
                shown = "; ".join(f"{name}: {form}" for name, form in _SHOWN.items())
                raise InputError(f"{path}:{number}: {_text(line)} is in no known trace format ({shown})")
            return style
    return None


def _text(line: bytes) -> str:
    return quote(line.strip().decode("utf-8", "replace"))


def _problem(where: str, code: int, line: bytes, style: str, capacity: int, align: int) -> InputError:
    shown = _text(line)
    if code == TOO_HIGH:
        return InputError(
            f"{where}: the address in {shown} is out of range; the memory ends at 0x{capacity:x} ({capacity} bytes)"
        )
    if code == UNALIGNED:
        return InputError(f"{where}: the address in {shown} is not a multiple of the {align}-byte burst")
    if code == NEGATIVE:
        return InputError(f"{where}: the cycle in {shown} is negative; cycles count from 0")
    if code == DECREASING:
        return InputError(
            f"{where}: the cycle in {shown} is below that of the request before it; sort the trace by cycle"
        )
    other = looks_like(line)
    if other is not None and other != style:
        return InputError(
            f"{where}: {shown} is not {style} ({_SHOWN[style]}); it looks like {other}: use --format {other}"
        )
    return InputError(f"{where}: {shown} is malformed; expected {style}: {_SHOWN[style]}")
