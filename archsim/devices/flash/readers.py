"""Readers of request traces: MQSim's five columns, fio's iolog versions 2 and 3, blkparse's text; plain or gzipped.

A reader goes through the file once and yields stretches, so a trace may be larger than memory. Units: MQSim counts
nanoseconds and sectors, fio microseconds and bytes, blkparse seconds and sectors. Times are taken relative to the first
request. What does not fit is refused with file and line.

Sources: MQSim (CMU-SAFARI), README, ASCII traces: arrival time, device, first sector, sectors, type (0 write, 1 read);
fio documentation, "Trace file format"; blkparse(1), default output.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from archsim.config.finding import shipped
from archsim.config.regular import what_is
from archsim.devices.flash.geometry import SECTOR_BYTES
from archsim.devices.flash.patterns import STRETCH
from archsim.units import InputError, quote, suggest

FORMATS = {"mqsim": "an MQSim trace", "fio": "a fio iolog", "blkparse": "blkparse text"}
UNITS_NS = {"ns": 1, "us": 1000, "ms": 10**6, "s": 10**9}
#: Largest request, in sectors (32 MiB), and longest trace, in ns (the kernel's clock).
SECTORS_MAX = 1 << 16
TIME_MAX_NS = 1 << 49
#: First sectors beyond are no addresses of any disk (8 EiB), and would overflow.
SECTOR_END = 1 << 54
#: fio issues requests as fast as it can: a mean gap as long as this says that the unit is wrong.
FIO_GAP_MAX_NS = 50 * 10**6
#: A longer trace that asks for this many bytes per ns on average has its times in a wrong unit.
BYTES_PER_NS_MAX = 400
MANY = 100

_LINE_MAX = 1 << 12
_MQSIM = re.compile(r"(-?\d{1,19})\s+(\d{1,9})\s+(\d{1,19})\s+(\d{1,19})\s+([01])", re.ASCII)
_MQSIM_LIKE = re.compile(r"-?\d+(\s+-?[\d.]+){4}", re.ASCII)
_FIO_HEADER = re.compile(r"fio version (\d+) iolog", re.ASCII)
_FIO_ACTIONS = ("add", "open", "close", "read", "write", "trim", "sync", "datasync", "sync_file_range", "wait")
_BLKPARSE = re.compile(r"\d+,\d+\s+\d+\s+\d+\s+(-?\d{1,9})\.(\d{9})\s+\d+\s+([A-Za-z]{1,2})\b\s*(.*)", re.ASCII)
_BLKPARSE_IO = re.compile(r"([A-Z]{1,8})\s+(\d{1,19})\s+\+\s+(\d{1,19})(?:\s+\[.*\])?", re.ASCII)
_BLKPARSE_END = re.compile(r"(CPU\d*|Total|Throughput|Events|Skips|Input file)\b", re.ASCII)


@dataclass
class Trace:
    """A trace being read.

    Attributes
    ----------
    path : Path
    format : str
        One of ``FORMATS``.
    unit : str
        Unit of its times, one of ``UNITS_NS``; empty: the format's own.
    action : str
        Events of blkparse text that count: ``D`` (issued to the device) or ``Q`` (queued).
    requests, skipped : int
        Requests and other lines so far.
    span_ns, size_bytes : int
        Time from the first request to the last, and bytes asked for, so far.
    """

    path: Path
    format: str
    unit: str = ""
    action: str = "D"
    requests: int = 0
    skipped: int = 0
    span_ns: int = 0
    size_bytes: int = 0
    _first_ns: int | None = None
    _others: dict[str, int] = field(default_factory=dict)

    def stretches(self) -> Iterator[np.ndarray]:
        """Requests as int64[n, 4]: time in ns from the first one, write, first sector, sectors.

        Raises
        ------
        InputError
            For a line that is none of the format, times that go back, an empty or truncated file.
        """
        rows: list[tuple[int, int, int, int]] = []
        read = {"mqsim": self._mqsim, "fio": self._fio, "blkparse": self._blkparse}[self.format]
        for line, time_ns, write, sector, sectors in read():
            rows.append((self._relative(line, time_ns), write, sector, sectors))
            self._check_size(line, sector, sectors)
            if len(rows) == STRETCH:
                yield np.array(rows, np.int64)
                rows.clear()
        if not self.requests:
            extra = "".join(f"; it has {count} {name} events" for name, count in self._others.items())
            raise self.error(0, f"holds no requests{extra}")
        self._check_units()
        if rows:
            yield np.array(rows, np.int64)

    def error(self, line: int, message: str) -> InputError:
        """Error that names the file and, unless it is 0, the line."""
        return InputError(f"{self.path}:{line}: {message}" if line else f"{self.path}: {message}")

    def _ns(self, line: int, count: int, unit: str) -> int:
        """Time in ns of a count in the trace's unit, or in the format's own `unit`."""
        if count < 0:
            raise self.error(line, f"time {count} is negative")
        return count * UNITS_NS[self.unit or unit]

    def _relative(self, line: int, time_ns: int) -> int:
        """Time from the first request; refuses one before its predecessor's."""
        if self._first_ns is None:
            self._first_ns = time_ns
        relative = time_ns - self._first_ns
        if relative < self.span_ns:
            raise self.error(line, f"time goes back by {self.span_ns - relative} ns; requests must be in order of time")
        if relative > TIME_MAX_NS:
            raise self.error(
                line, f"is {relative} ns after the first request; at most {TIME_MAX_NS} ns can be simulated"
            )
        self.span_ns = relative
        self.requests += 1
        return relative

    def _check_size(self, line: int, sector: int, sectors: int) -> None:
        """Refuse requests of no or too many sectors, and addresses that cannot be."""
        if sector >= SECTOR_END:
            raise self.error(line, f"sector {sector} is no address: a disk of 2**54 sectors would be 8 EiB")
        if not 0 < sectors <= SECTORS_MAX:
            raise self.error(line, f"a request of {sectors} sectors; it must be 1 to {SECTORS_MAX} (32 MiB)")
        self.size_bytes += sectors * SECTOR_BYTES

    def _check_units(self) -> None:
        """Refuse times whose unit cannot be right, unless it was stated."""
        if self.unit or self.requests < 2:
            return
        gap = self.span_ns // (self.requests - 1)
        if self.format == "fio" and gap >= FIO_GAP_MAX_NS:
            raise self.error(
                0,
                f"read in microseconds, its {self.requests} requests are {gap / 10**9:.3g} s apart, which fio does not "
                "do: the times look like nanoseconds; divide them by 1000, or state their unit",
            )
        if self.requests >= MANY and self.size_bytes > BYTES_PER_NS_MAX * max(1, self.span_ns) and self.span_ns:
            raise self.error(
                0,
                f"asks for {self.size_bytes / self.span_ns:.3g} GB/s, which no device serves: its times are not in "
                "the format's unit; convert them, or state their unit",
            )

    def _lines(self) -> Iterator[tuple[int, str]]:
        """Numbered lines without blank ones."""
        try:
            with open_text(self.path) as file:
                number = 0
                while text := file.readline(_LINE_MAX):
                    number += 1
                    if len(text) >= _LINE_MAX:
                        raise self.error(number, f"the line is longer than {_LINE_MAX} characters")
                    if text.strip():
                        yield number, text.strip()
        except (EOFError, zlib.error, gzip.BadGzipFile) as problem:
            raise self.error(0, f"the gzip file is damaged or ends early ({problem})") from None
        except OSError as problem:
            raise self.error(0, f"cannot be read: {problem.strerror or problem}") from None

    def _mqsim(self) -> Iterator[tuple[int, int, int, int, int]]:
        """See :meth:`stretches`; the line number comes first."""
        for number, text in self._lines():
            found = _MQSIM.fullmatch(text)
            if not found:
                raise self.error(number, f"{quote(text)} is not 'time device sector sectors type' with type 0 or 1")
            time, _, sector, sectors, kind = map(int, found.groups())
            yield number, self._ns(number, time, "ns"), 1 - kind, sector, sectors

    def _fio(self) -> Iterator[tuple[int, int, int, int, int]]:
        """See :meth:`stretches`; the line number comes first."""
        version, clock = 0, 0
        for number, text in self._lines():
            if not version:
                version = self._fio_version(number, text)
                continue
            words = text.split()
            stamp = words.pop(0) if version == 3 else ""
            if (version == 3 and not re.fullmatch(r"-?[0-9]{1,19}", stamp)) or len(words) < 2:
                raise self.error(number, f"{quote(text)} is no line of a fio iolog of version {version}")
            action, numbers = words[1], words[2:]
            if action not in _FIO_ACTIONS or (version == 3 and action == "wait"):
                raise self.error(number, f"unknown action {quote(action)}; {suggest(action, _FIO_ACTIONS)}")
            if not all(re.fullmatch(r"[0-9]{1,19}", word) for word in numbers):
                raise self.error(number, f"{quote(' '.join(numbers))} are not the numbers of a {action}")
            if version == 3:
                clock = self._ns(number, int(stamp), "us")
            elif action == "wait":
                if len(numbers) not in (1, 2):
                    raise self.error(number, f"a wait needs its microseconds, not {quote(' '.join(numbers))}")
                clock += self._ns(number, int(numbers[0]), "us")
            if action not in ("read", "write"):
                self.skipped += 1
                continue
            if len(numbers) != 2:
                raise self.error(number, f"a {action} needs offset and length, not {quote(' '.join(numbers))}")
            offset, length = map(int, numbers)
            if offset % SECTOR_BYTES or length % SECTOR_BYTES:
                raise self.error(
                    number, f"offset {offset} and length {length} are not whole sectors of {SECTOR_BYTES} bytes"
                )
            yield number, clock, int(action == "write"), offset // SECTOR_BYTES, length // SECTOR_BYTES

    def _fio_version(self, number: int, text: str) -> int:
        """Version in the header line."""
        found = _FIO_HEADER.fullmatch(text)
        if not found or found[1] not in ("2", "3"):
            raise self.error(
                number, f"{quote(text)}: a fio iolog starts with 'fio version 2 iolog' or 'fio version 3 iolog'"
            )
        return int(found[1])

    def _blkparse(self) -> Iterator[tuple[int, int, int, int, int]]:
        """See :meth:`stretches`; the line number comes first."""
        begun = False
        for number, text in self._lines():
            found = _BLKPARSE.fullmatch(text)
            if not found:
                if begun and _BLKPARSE_END.match(text):
                    return  # the summary
                raise self.error(number, f"{quote(text)} is no line of blkparse's default output")
            begun = True
            second, fraction, action, rest = found.groups()
            io = _BLKPARSE_IO.fullmatch(rest)
            if action not in ("D", "Q", "C", "I"):
                self.skipped += 1
                continue
            kind = io[1] if io else rest.split(" ")[0]
            data = "R" in kind or "W" in kind
            if (data and not io) or (io and not data and not set(kind) & set("DFN")):
                raise self.error(number, f"{quote(rest)} is not 'kind sector + sectors' of a {action} event")
            if action != self.action or not data or "D" in kind or int(io[3]) == 0:
                self.skipped += 1
                self._others[action] = self._others.get(action, 0) + 1
                continue
            if second.startswith("-"):
                raise self.error(number, f"time {second}.{fraction} is negative")
            yield number, self._ns(number, int(second), "s") + int(fraction), int("W" in kind), int(io[2]), int(io[3])


def open_text(path: Path):
    """Open a plain or gzipped text file; bytes that are no text become question marks."""
    with open(path, "rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    opener = gzip.open if zipped else open
    return opener(path, "rt", encoding="utf-8", errors="replace", newline=None)


def looks_like(text: str) -> str:
    """Format that a line could belong to, or nothing."""
    if _FIO_HEADER.match(text):
        return "fio"
    if _BLKPARSE.fullmatch(text):
        return "blkparse"
    return "mqsim" if _MQSIM_LIKE.fullmatch(text) else ""


def open_trace(path: str | Path, format: str = "", unit: str = "", action: str = "D") -> Trace:
    """Look into a trace and choose its reader.

    Parameters
    ----------
    path : str or Path
    format : str
        ``mqsim``, ``fio`` or ``blkparse``; empty: by the look of the first line.
    unit : str
        Unit of the times when it is not the format's own: ``ns``, ``us``, ``ms``, ``s``.
    action : str
        Events of blkparse text that count, ``D`` or ``Q``.

    Raises
    ------
    InputError
        When there is no such file, it is empty, or it looks like another format.
    """
    if not str(path):
        raise InputError("the path of the trace is empty; give one")
    path = shipped(Path(path))
    for value, known, what in (
        (format, FORMATS, "format"),
        (unit, UNITS_NS, "unit of time"),
        (action, ("D", "Q"), "event"),
    ):
        if value and value not in known:
            raise InputError(f"unknown {what} {quote(value)}; {suggest(value, known)}")
    problem = what_is(path)
    if problem:
        raise InputError(f"{path}: {problem}; expected a block trace")
    trace = Trace(path, format or "mqsim", unit, action)
    number, first = next(iter(trace._lines()), (0, ""))
    if not first:
        raise trace.error(0, "is empty")
    seen = looks_like(first)
    if not format and not seen:
        raise trace.error(number, f"{quote(first)} looks like none of {', '.join(FORMATS)}; name the format")
    if format and seen and seen != format:
        raise trace.error(number, f"is not {FORMATS[format]}: it looks like {FORMATS[seen]} (format {seen})")
    return Trace(path, format or seen, unit, action)
