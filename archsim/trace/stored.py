"""Tables too long for memory: left in their files and read one row group at a time."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from archsim.config.regular import what_is
from archsim.trace.columns import Columns, TableDigest, check_columns, length
from archsim.units import InputError

#: Rows that are written, and held in memory, at a time.
ROW_GROUP = 1 << 16
#: Rows up to which a table is held in memory as a whole.
LONG_ROWS = 2 * ROW_GROUP
#: Rows that a byte on disk may stand for: those of a run take a byte or more each, a bomb's take none.
ROWS_PER_BYTE = 8
#: Whole columns of a long table that are kept once they were read.
COLUMNS = 3
#: Tables that may be left in their file.
LONG = ("rows", "script_rows", "script_edges")


def open_table(path: Path) -> Any:
    """A table's file, opened for reading by row groups.

    Raises
    ------
    InputError
        When it is missing, no Parquet file, or one that unfolds beyond all measure.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    problem = what_is(path)
    if problem == "no such file":
        raise InputError(f"{path}: missing, though manifest.json lists it; run it again")
    if problem:
        raise InputError(f"{path}: {problem}; run it again")
    try:
        file, size = pq.ParquetFile(path), path.stat().st_size
    except (pa.ArrowException, OSError):
        raise InputError(f"{path}: truncated or not a Parquet file; run it again") from None
    if file.metadata.num_rows > ROWS_PER_BYTE * size + LONG_ROWS:
        raise InputError(
            f"{path}: {file.metadata.num_rows} rows in {size} bytes are not what a run writes; run it again"
        )
    return file


def read_group(path: Path, file: Any, index: int | None, names: list[str]) -> dict[str, np.ndarray]:
    """Columns of one row group of an open table, or of all where `index` is None.

    Raises
    ------
    InputError
        In one line: what is truncated, empty or of the wrong type.
    """
    import pyarrow as pa

    try:
        data = (
            file.read(names, use_threads=False)
            if index is None
            else file.read_row_group(index, names, use_threads=False)
        )
    except (pa.ArrowException, OSError):
        raise InputError(f"{path}: truncated or not a Parquet file; run it again") from None
    empty = [name for name in data.column_names if data.column(name).null_count]
    if empty:
        raise InputError(f"{path}: column {empty[0]!r} has empty entries; run it again")
    try:
        return {name: _to_numpy(data.column(name)) for name in data.column_names}
    except UnicodeDecodeError:
        raise InputError(f"{path}: holds text that is not UTF-8; run it again") from None


def _to_numpy(column: Any) -> np.ndarray:
    """A column as an array, from its buffers where it is of a trace's types: pyarrow's own way would import pandas."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_string(kind):
        read, dtype = _texts, np.dtype("U1")
    elif pa.types.is_boolean(kind):
        read, dtype = _bits, np.dtype(bool)
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind):
        read, dtype = _numbers, np.dtype(kind.to_pandas_dtype())
    else:
        return column.to_numpy()
    parts = [read(chunk, dtype) for chunk in column.chunks if len(chunk)]
    return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, dtype), *parts])


def _numbers(chunk: Any, dtype: np.dtype) -> np.ndarray:
    return np.frombuffer(chunk.buffers()[1], dtype, len(chunk), chunk.offset * dtype.itemsize)


def _bits(chunk: Any, _: np.dtype) -> np.ndarray:
    bits = np.unpackbits(np.frombuffer(chunk.buffers()[1], np.uint8), bitorder="little")
    return bits[chunk.offset : chunk.offset + len(chunk)].astype(bool)


def _texts(chunk: Any, _: np.dtype) -> np.ndarray:
    _, ends, text = chunk.buffers()
    places = np.frombuffer(ends, np.int32, len(chunk) + 1, chunk.offset * 4).tolist()
    raw = text.to_pybytes() if text is not None else b""
    known: dict[bytes, str] = {}  # a column repeats few texts
    found = []
    for first, last in itertools.pairwise(places):
        piece = raw[first:last]
        if piece not in known:
            known[piece] = piece.decode()
        found.append(known[piece])
    return np.array(found, dtype=str)


class Group(Mapping[str, np.ndarray]):
    """One row group of a stored table; columns are read when they are asked for, and kept."""

    def __init__(self, table: StoredTable, index: int) -> None:
        self._table, self._index = table, index
        self._columns: dict[str, np.ndarray] = {}
        self.rows: int = table.sizes[index]

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._columns:
            if name not in self._table.names:
                raise KeyError(name)
            self._columns[name] = self._table.read(self._index, name, self.__getitem__)
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._table.names)

    def __len__(self) -> int:
        return len(self._table.names)


class StoredTable(Mapping[str, np.ndarray]):
    """A table that stays in a file, in row groups.

    As a mapping it reads a whole column at a time; :meth:`groups` goes through it in bounded memory.

    Parameters
    ----------
    table : str
        Name of the table.
    names : tuple of str
        Its columns.
    sizes : list of int
        Rows of each row group.
    """

    def __init__(self, table: str, names: tuple[str, ...], sizes: list[int]) -> None:
        self.table, self.names, self.sizes = table, names, sizes
        self.rows = sum(sizes)
        self._first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self._columns: dict[str, np.ndarray] = {}  # read whole, the latest last
        self._latest: tuple[int, dict[str, np.ndarray]] | None = None  # no Group: it would hold this table in a circle

    @abstractmethod
    def read(self, index: int, name: str, get: Callable[[str], np.ndarray]) -> np.ndarray:
        """A column of one row group; `get` gives the group's other columns."""

    @abstractmethod
    def digest(self) -> str:
        """Digest (hex) of the table."""

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self.names:
            raise KeyError(name)
        column = self._columns.pop(name, None)
        if column is None:
            parts = [group[name] for group in self.groups()]
            column = np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
            if len(self._columns) >= COLUMNS:
                del self._columns[next(iter(self._columns))]
        self._columns[name] = column
        return column

    def between(self, first: int, last: int) -> dict[str, np.ndarray]:
        """Rows ``first <= row < last``; the row group they end in is kept for the next call."""
        pieces = []
        left, right = np.searchsorted(self._first, [first, max(last - 1, first)], "right") - 1
        for index in range(int(left), int(right) + 1):
            at = int(self._first[index])
            if self._latest is None or self._latest[0] != index:
                self._latest = (index, dict(Group(self, index)))
            pieces.append({name: part[max(first - at, 0) : last - at] for name, part in self._latest[1].items()})
        return {name: np.concatenate([piece[name] for piece in pieces]) for name in self.names}

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def groups(self) -> Iterator[Group]:
        """All row groups in order."""
        for index in range(len(self.sizes)):
            yield Group(self, index)


class ParquetTable(StoredTable):
    """A table in a run folder.

    Parameters
    ----------
    path : Path
        The file.
    table : str
        Name of the table.
    """

    def __init__(self, path: Path, table: str) -> None:
        self.path, self.file = path, open_table(path)
        facts = self.file.metadata
        sizes = [facts.row_group(i).num_rows for i in range(facts.num_row_groups)]
        super().__init__(table, tuple(self.file.schema_arrow.names), sizes)

    def read(self, index: int, name: str, get: Callable[[str], np.ndarray]) -> np.ndarray:
        """A column of one row group."""
        return read_group(self.path, self.file, index, [name])[name]

    def digest(self) -> str:
        """Digest (hex) of the table; columns of the wrong names or types raise InputError."""
        found = TableDigest(self.table)
        for index in range(len(self.sizes)):
            columns = read_group(self.path, self.file, index, list(self.names))
            try:
                found.update(check_columns(self.table, columns))
            except InputError as error:
                raise InputError(f"{self.path}: {error}") from None
        return found.digest()


def between(columns: Columns, first: int, last: int) -> Columns:
    """Rows ``first <= row < last`` of a table, stored or in memory."""
    if isinstance(columns, StoredTable):
        return columns.between(first, last)
    return {name: part[first:last] for name, part in columns.items()}


def groups(columns: Columns) -> Iterator[Columns]:
    """Pieces of a table of at most `ROW_GROUP` rows, stored or in memory."""
    if isinstance(columns, StoredTable):
        yield from columns.groups()
        return
    for first in range(0, length(columns), ROW_GROUP):
        yield {name: part[first : first + ROW_GROUP] for name, part in columns.items()}
