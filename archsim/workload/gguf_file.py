"""Header of a GGUF file: metadata and tensor names, shapes and storage types, without touching the weights.

The file may come from anyone, so every length is checked against the file's size before it is used, and
nothing is allocated on the word of a count. Type numbers and block sizes come from the package ``gguf``
(optional extra), the container layout from its specification (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md).
Big-endian files and arrays of arrays are refused.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import Any, NamedTuple

from archsim.config import InputError
from archsim.config.regular import what_is

MAGIC = b"GGUF"
VERSIONS = (2, 3)
MAX_DIMS = 4
DEFAULT_ALIGNMENT = 32
KEPT_ARRAY = 4096  # numeric arrays up to this length are kept, longer ones (vocabularies) only counted
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_MIN_FIELD_BYTES = 8 + 4 + 1  # key length, type, shortest value
_MIN_TENSOR_BYTES = 8 + 4 + 8 + 4 + 8  # name length, dimensions, one dimension, type, offset


class TensorInfo(NamedTuple):
    """A tensor: dimensions as stored (row length first), ggml type name, elements, bytes."""

    shape: tuple[int, ...]
    type_name: str
    elements: int
    size_bytes: int


class GgufHeader(NamedTuple):
    """What a file says of itself; an array too long to keep is given as its length."""

    version: int
    metadata: dict[str, Any]
    tensors: dict[str, TensorInfo]


class _MalformedError(Exception):
    """The file does not follow its format."""


class _Cursor:
    """Reads little-endian values, never beyond the end."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data = data
        self.at = 0

    def need(self, size: int, what: str) -> None:
        if size > len(self.data) - self.at:
            raise _MalformedError(f"{what} at byte {self.at} needs {size} bytes, {len(self.data) - self.at} are left")

    def value(self, code: str, what: str) -> Any:
        self.need(struct.calcsize("<" + code), what)
        (value,) = struct.unpack_from("<" + code, self.data, self.at)
        self.at += struct.calcsize("<" + code)
        return value

    def text(self, what: str) -> str:
        length = self.value("Q", what)
        self.need(length, what)
        raw = self.data[self.at : self.at + length]
        self.at += length
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            raise _MalformedError(f"{what} before byte {self.at} is no UTF-8 text") from None

    def array(self, what: str) -> Any:
        kind, length = self.value("I", what), self.value("Q", what)
        if kind == _STRING:
            self.need(8 * length, what)
            for _ in range(length):
                size = self.value("Q", what)
                self.need(size, what)
                self.at += size
            return length
        if kind not in _SCALARS:
            raise _MalformedError(f"{what} is an array of elements of unknown type {kind}")
        size = length * struct.calcsize("<" + _SCALARS[kind])
        self.need(size, what)
        start, self.at = self.at, self.at + size
        if length > KEPT_ARRAY:
            return length
        return struct.unpack_from(f"<{length}{_SCALARS[kind]}", self.data, start)


def is_gguf(path: Path) -> bool:
    """Whether a file begins with the GGUF magic."""
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def read_gguf_header(path: Path) -> GgufHeader:
    """Read metadata and tensor descriptions.

    Raises
    ------
    InputError
        When the package ``gguf`` is missing, or the file is malformed or truncated; one line.
    """
    try:
        import gguf
    except ImportError:
        raise InputError(
            f"{path}: reading GGUF files needs the package gguf; install it with: pip install 'archsim[gguf]'"
        ) from None
    problem = what_is(path)
    if problem:
        raise InputError(f"{path}: {problem}; expected a GGUF file")
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _parse(_Cursor(data), gguf)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
    except _MalformedError as error:
        raise InputError(f"{path}: not a whole GGUF file: {error}; download or convert it again") from None


def _parse(cursor: _Cursor, gguf: Any) -> GgufHeader:
    cursor.need(len(MAGIC), "magic")
    if cursor.data[: len(MAGIC)] != MAGIC:
        raise _MalformedError("it does not begin with GGUF")
    cursor.at = len(MAGIC)
    version = cursor.value("I", "version")
    if version not in VERSIONS:
        endian = " (a big-endian file?)" if version & 0xFFFF == 0 else ""
        raise _MalformedError(f"version {version}{endian} is not one of {', '.join(map(str, VERSIONS))}")
    tensor_count, field_count = cursor.value("Q", "tensor count"), cursor.value("Q", "metadata count")
    cursor.need(field_count * _MIN_FIELD_BYTES + tensor_count * _MIN_TENSOR_BYTES, "header")
    metadata: dict[str, Any] = {}
    for _ in range(field_count):
        key = cursor.text("metadata key")
        if key in metadata:
            raise _MalformedError(f"metadata key {key!r} appears twice")
        metadata[key] = _field(cursor, f"metadata {key!r}")
    found: dict[str, tuple[TensorInfo, int]] = {}
    for _ in range(tensor_count):
        name = cursor.text("tensor name")
        if name in found:
            raise _MalformedError(f"tensor {name!r} appears twice")
        found[name] = _tensor(cursor, name, gguf)
    _check_data(cursor, metadata, found)
    return GgufHeader(version, metadata, {name: info for name, (info, _) in found.items()})


def _field(cursor: _Cursor, what: str) -> Any:
    kind = cursor.value("I", what)
    if kind == _STRING:
        return cursor.text(what)
    if kind == _ARRAY:
        return cursor.array(what)
    if kind not in _SCALARS:
        raise _MalformedError(f"{what} has the unknown type {kind}")
    return cursor.value(_SCALARS[kind], what)


def _tensor(cursor: _Cursor, name: str, gguf: Any) -> tuple[TensorInfo, int]:
    """One tensor description and the offset of its data."""
    what = f"tensor {name!r}"
    dims = cursor.value("I", what)
    if not 1 <= dims <= MAX_DIMS:
        raise _MalformedError(f"{what} has {dims} dimensions, not 1 to {MAX_DIMS}")
    shape = tuple(cursor.value("Q", what) for _ in range(dims))
    number, offset = cursor.value("I", what), cursor.value("Q", what)
    try:
        kind = gguf.GGMLQuantizationType(number)
    except ValueError:
        raise _MalformedError(f"{what} has the unknown storage type {number}") from None
    block, block_bytes = gguf.GGML_QUANT_SIZES[kind]
    elements = 1
    for size in shape:
        elements *= size
    if elements == 0 or shape[0] % block:
        raise _MalformedError(f"{what} of shape {'x'.join(map(str, shape))} is not whole {kind.name} blocks of {block}")
    return TensorInfo(shape, kind.name, elements, elements // block * block_bytes), offset


def _check_data(cursor: _Cursor, metadata: dict[str, Any], found: dict[str, tuple[TensorInfo, int]]) -> None:
    """Every tensor's data must lie inside the file."""
    alignment = metadata.get("general.alignment", DEFAULT_ALIGNMENT)
    if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
        raise _MalformedError(f"general.alignment is {alignment!r}, not a power of two")
    start = -(-cursor.at // alignment) * alignment
    for name, (info, offset) in found.items():
        end = start + offset + info.size_bytes
        if end > len(cursor.data):
            raise _MalformedError(f"tensor {name!r} ends at byte {end}, the file at {len(cursor.data)}")
