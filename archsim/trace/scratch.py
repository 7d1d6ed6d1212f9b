"""Tables of a run that is not kept: narrow columns in a file without a name, which goes with the process.

A row group is written column by column, each as its distances from the smallest in the narrowest whole numbers that
hold them; a column that is always the same takes no room. Columns of ``rows`` that follow from others but for few rows
are written as the difference from what follows (:func:`_follows`), so a row takes some 28 bytes instead of 104.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from archsim.config.regular import reason
from archsim.trace.columns import Columns, TableDigest, check_columns, length
from archsim.trace.stored import ROW_GROUP, StoredTable
from archsim.units import DiskError

_NARROW = (np.dtype(np.uint8), np.dtype(np.uint16), np.dtype(np.uint32), np.dtype(np.uint64))


class Piece(NamedTuple):
    """Where a column of a row group lies: offset in the file, type of the distances, and the smallest value."""

    at: int
    dtype: np.dtype[Any] | None  # None: all distances are 0
    least: int


class Packed(NamedTuple):
    """A row group in the file: rows, and columns by name."""

    rows: int
    pieces: dict[str, Piece]


class Scratch:
    """Takes tables of int64 columns piece by piece and gives them back as stored tables.

    Raises
    ------
    DiskError
        When the disk of the system's temporary folder is full, or it cannot be written.
    """

    def __init__(self) -> None:
        try:
            self._file = file = tempfile.TemporaryFile(prefix="archsim-", buffering=0)  # noqa: SIM115
        except OSError as error:
            raise DiskError(f"the folder for temporary files (TMPDIR): {reason(error)}") from None
        self.close = weakref.finalize(self, file.close)  #: Gives the file's room back; tables cannot be read any more.
        self._end = 0
        self._groups: dict[str, list[Packed]] = {}
        self._digests: dict[str, TableDigest] = {}
        self._names: dict[str, tuple[str, ...]] = {}
        self._waiting: dict[str, list[Columns]] = {}

    def append(self, table: str, columns: Columns) -> None:
        """Add rows to a table; usable as the engine's sink."""
        columns = check_columns(table, columns)
        wrong = [name for name, column in columns.items() if column.dtype != np.int64]
        if wrong:
            raise TypeError(f"column {wrong[0]!r} of {table!r} is {columns[wrong[0]].dtype}, not int64")
        self._digests.setdefault(table, TableDigest(table)).update(columns)
        self._names.setdefault(table, tuple(columns))
        waiting = self._waiting.setdefault(table, [])
        waiting.append(columns)
        if sum(map(length, waiting)) >= ROW_GROUP:
            self._flush(table)

    def table(self, table: str) -> ScratchTable:
        """A table as far as it was written."""
        self._flush(table)
        return ScratchTable(self, table, self._names[table], self._groups.get(table, []), self._digests[table])

    def _flush(self, table: str) -> None:
        parts = [part for part in self._waiting.pop(table, []) if length(part)]
        if not parts:
            return
        joined = parts[0] if len(parts) == 1 else {n: np.concatenate([part[n] for part in parts]) for n in parts[0]}
        groups = self._groups.setdefault(table, [])
        for first in range(0, length(joined), ROW_GROUP):
            groups.append(self._packed(table, {n: part[first : first + ROW_GROUP] for n, part in joined.items()}))

    def _packed(self, table: str, columns: Columns) -> Packed:
        """Write a row group."""
        pieces, written, size = {}, [], length(columns)
        for name, column in columns.items():
            follows = _follows(table, name, size, columns.__getitem__)
            distance = column if follows is None else column - follows
            least, most = int(distance.min()), int(distance.max())
            dtype = next(each for each in _NARROW if most - least <= np.iinfo(each).max) if most > least else None
            pieces[name] = Piece(self._end, dtype, least)
            if dtype is not None:
                written.append((distance - least).astype(dtype, copy=False))
                self._end += written[-1].nbytes
        try:
            for part in written:
                _write(self._file.fileno(), memoryview(part).cast("B"))
        except OSError as error:
            raise DiskError(f"{tempfile.gettempdir()}: cannot be written: {reason(error)}") from None
        return Packed(size, pieces)

    def read(self, packed: Packed, name: str) -> np.ndarray:
        """A column of a row group, before what it follows from is added."""
        at, dtype, least = packed.pieces[name]
        if dtype is None:
            return np.full(packed.rows, least, dtype=np.int64)
        try:
            data = os.pread(self._file.fileno(), packed.rows * dtype.itemsize, at)
        except OSError as error:
            raise DiskError(f"{tempfile.gettempdir()}: cannot be read: {reason(error)}") from None
        if len(data) < packed.rows * dtype.itemsize:
            raise DiskError(f"{tempfile.gettempdir()}: what was written there is gone")
        wide = np.frombuffer(data, dtype).astype(np.int64)
        wide += least
        return wide


def _write(file: int, data: memoryview) -> None:
    """Write all of `data`; a call may write less."""
    while data:
        data = data[os.write(file, data) :]


def _follows(table: str, name: str, size: int, get: Callable[[str], np.ndarray]) -> np.ndarray | None:
    """What a column of ``rows`` mostly is, from the columns before it; None for a column by itself."""
    if table != "rows":
        return None
    if name == "row":
        return np.arange(size)
    if name == "flow_ps":
        return get("start_ps")
    if name == "end_ps":
        return get("flow_ps")
    if name == "done":
        return get("work")
    return get("flow_ps") - get("start_ps") if name == "lead_ps" else None


class ScratchTable(StoredTable):
    """A table in a :class:`Scratch`, which lasts as long as it does."""

    def __init__(
        self, scratch: Scratch, table: str, names: tuple[str, ...], groups: list[Packed], digest: TableDigest
    ) -> None:
        self._scratch, self._packed, self._digest = scratch, groups, digest
        super().__init__(table, names, [group.rows for group in groups])

    def read(self, index: int, name: str, get: Callable[[str], np.ndarray]) -> np.ndarray:
        """A column of one row group."""
        packed = self._packed[index]
        column = self._scratch.read(packed, name)
        follows = _follows(self.table, name, packed.rows, get)
        return column if follows is None else np.add(column, follows, out=column)

    def digest(self) -> str:
        """Digest (hex) of the table, taken when it was written."""
        return self._digest.digest()
