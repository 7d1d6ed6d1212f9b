"""Reading recordings defensively: bounded, strict, and with the place of every error.

JSON lines are UTF-8 text with one object per line; archives are numpy ``.npz`` files without pickled objects.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from archsim.config import InputError
from archsim.config.regular import read_regular, what_is

#: Limits: a recording is far smaller; anything larger is a mistake or an attack. Bytes, and counts.
MAX_FILE_BYTES = 64 * 2**20
MAX_LINE_BYTES = 2**20
MAX_LINES = 1_000_000
MAX_ARRAY_BYTES = 256 * 2**20
MAX_ARRAYS = 64
MAX_TEXT = 200

_INT_LIMIT = 2**31

#: What numpy raises on a damaged array header, which it tokenizes and evaluates as a Python literal.
_HEADER_FAULTS = (ValueError, SyntaxError, tokenize.TokenError, TypeError, KeyError, RecursionError, MemoryError)


def read_bytes(path: Path) -> bytes:
    """Whole content of a file of at most :data:`MAX_FILE_BYTES`."""
    problem = what_is(path)
    if problem:
        raise InputError(f"{path}: {problem}; give the path of a recording or recorded:<name>")
    return read_regular(path, MAX_FILE_BYTES, "a recording")


def sha256_hex(data: bytes) -> str:
    """SHA-256 of `data` as lower-case hex."""
    return hashlib.sha256(data).hexdigest()


class Record:
    """One JSON object of a file, with accessors that check type and range and name the place of an error."""

    def __init__(self, path: Path, line: int, values: dict[str, Any]) -> None:
        self.path = path
        self.line = line
        self.values = values

    def error(self, text: str) -> InputError:
        """An error at this line."""
        return InputError(f"{self.path}:{self.line}: {text}")

    def only(self, keys: tuple[str, ...]) -> None:
        """Require exactly `keys`."""
        for key in keys:
            if key not in self.values:
                raise self.error(f"key {key!r} is missing; a line has {', '.join(keys)}")
        for key in self.values:
            if key not in keys:
                raise self.error(f"unknown key {key!r}; a line has {', '.join(keys)}")

    def text(self, key: str) -> str:
        """A non-empty string of at most :data:`MAX_TEXT` characters."""
        value = self.values[key]
        if not isinstance(value, str) or not value or len(value) > MAX_TEXT:
            raise self.error(f"key {key!r} must be a text of 1 to {MAX_TEXT} characters, not {_short(value)}")
        return value

    def integer(self, key: str, low: int = 0, high: int = _INT_LIMIT) -> int:
        """A whole number from `low` to `high`."""
        value = self.values[key]
        if type(value) is not int or not low <= value <= high:
            raise self.error(f"key {key!r} must be a whole number from {low} to {high}, not {_short(value)}")
        return value

    def integers(self, key: str, low: int = 0, high: int = _INT_LIMIT, length: int | None = None) -> list[int]:
        """A list of whole numbers."""
        values = self._list(key, length)
        for index, value in enumerate(values):
            if type(value) is not int or not low <= value <= high:
                raise self.error(f"{key}[{index}] must be a whole number from {low} to {high}, not {_short(value)}")
        return values

    def numbers(self, key: str, high: float = math.inf, length: int | None = None) -> list[float]:
        """A list of finite numbers from 0 to `high`."""
        values = self._list(key, length)
        for index, value in enumerate(values):
            if type(value) not in (int, float) or not 0 <= value <= high or value == math.inf:
                limit = "0 upwards" if high == math.inf else f"0 to {high:g}"
                raise self.error(f"{key}[{index}] must be a number from {limit}, not {_short(value)}")
        return values

    def _list(self, key: str, length: int | None) -> list[Any]:
        value = self.values[key]
        if not isinstance(value, list):
            raise self.error(f"key {key!r} must be a list, not {_short(value)}")
        if length is not None and len(value) != length:
            raise self.error(f"key {key!r} has {len(value)} entries where {length} are needed")
        return value


def read_jsonl(path: Path, data: bytes) -> list[Record]:
    """Objects of a JSON-lines file, in order; blank lines are errors except after the last."""
    lines = data.split(b"\n")
    if lines and not lines[-1].strip():
        lines.pop()
    if not lines:
        raise InputError(f"{path}: the file is empty; a recording has one JSON object per line")
    if len(lines) > MAX_LINES:
        raise InputError(f"{path}: {len(lines)} lines are more than the limit of {MAX_LINES}; cut the recording")
    return [Record(path, number, _parse_line(path, number, line)) for number, line in enumerate(lines, 1)]


def _parse_line(path: Path, number: int, line: bytes) -> dict[str, Any]:
    where = f"{path}:{number}"
    if len(line) > MAX_LINE_BYTES:
        raise InputError(f"{where}: {len(line)} bytes are more than the limit of {MAX_LINE_BYTES} for a line")
    try:
        value = json.loads(line.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise InputError(f"{where}:{error.start + 1}: not UTF-8 text; save the recording as UTF-8") from error
    except json.JSONDecodeError as error:
        raise InputError(f"{where}:{error.colno}: not JSON: {error.msg}") from error
    except RecursionError as error:
        raise InputError(f"{where}: nested too deeply; a line is one flat object") from error
    except ValueError as error:
        raise InputError(f"{where}: {error}") from error
    if not isinstance(value, dict):
        raise InputError(f"{where}: must be a JSON object, not {_short(value)}")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"key {twice!r} appears twice")
    return values


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number that a recording may hold")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _one_line(error: Exception) -> str:
    words = " ".join(str(error).split()) or type(error).__name__
    return words if len(words) <= 200 else words[:197] + "..."  # zipfile and numpy may quote the whole of what they met


def read_npz(path: Path, data: bytes) -> dict[str, np.ndarray]:
    """Arrays of the ``.npz`` archive `data`, without pickled objects, every size checked before it is allocated."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            infos = archive.infolist()
            if len(infos) > MAX_ARRAYS:
                raise InputError(f"{path}: {len(infos)} arrays are more than the limit of {MAX_ARRAYS}")
            total = sum(info.file_size for info in infos)
            if total > MAX_ARRAY_BYTES:
                raise InputError(f"{path}: unpacks to {total} bytes, more than the limit of {MAX_ARRAY_BYTES}")
            names = [info.filename for info in infos]
            if len(set(names)) != len(names):
                raise InputError(f"{path}: holds two arrays of one name")
            return {info.filename.removesuffix(".npy"): _read_array(path, archive, info) for info in infos}
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError) as error:
        raise InputError(f"{path}: not a complete .npz archive: {_one_line(error)}") from error


def _read_array(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> np.ndarray:
    name = info.filename.removesuffix(".npy")
    try:
        with archive.open(info) as stream:
            version = np.lib.format.read_magic(stream)
            header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, _, dtype = header(stream)
            if dtype.hasobject:
                raise InputError(f"{path}: array {name!r} holds pickled objects; save plain arrays")
            if math.prod(shape) * dtype.itemsize > info.file_size:
                raise InputError(f"{path}: array {name!r} claims shape {shape} but holds only {info.file_size} bytes")
        with archive.open(info) as stream:
            return np.lib.format.read_array(stream, allow_pickle=False)
    except InputError:
        raise
    except _HEADER_FAULTS as error:
        raise InputError(f"{path}: array {name!r} cannot be read: {_one_line(error)}") from error
