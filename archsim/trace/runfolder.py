"""Run folders: written by one process at a time, whole or not at all, and read back against their digests.

While a folder is written it holds a locked file ``.lock``. The operating system frees the lock when its process ends,
however it ends, so what a dead process left is known to be stale.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from archsim.config.regular import make_folders, reason, remove_empty, what_is
from archsim.trace.columns import (
    DIGESTED,
    REQUIRED,
    SCHEMA,
    TABLES,
    Columns,
    TableDigest,
    check_columns,
    digest_of,
    length,
    run_digest,
)
from archsim.trace.manifest import read_manifest, seal
from archsim.trace.stored import LONG, LONG_ROWS, ROW_GROUP, ParquetTable, open_table, read_group
from archsim.units import InputError

LOCK = ".lock"
_MANIFEST = "manifest.json"
_FILES = {f"{table}.parquet": table for table in TABLES}
_PARTIAL = re.compile(rf"\.({'|'.join(map(re.escape, (*_FILES, _MANIFEST)))})\.[0-9]{{1,10}}\.partial")


class FolderLock:
    """The lock of a run folder, held until :meth:`free`.

    Raises
    ------
    InputError
        When another process holds it, or the folder cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / LOCK
        self._file = -1
        while self._file < 0:
            self._file = self._try()

    def _try(self) -> int:
        """Descriptor of the locked file; -1 when the file was removed in between."""
        try:
            file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
        except OSError as error:
            raise InputError(f"{self.path.parent}: cannot be written: {error.strerror or error}") from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(file), os.stat(self.path)):
                return file
        except FileNotFoundError:
            pass
        except OSError as error:
            os.close(file)
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise InputError(
                    f"{self.path.parent}: another archsim is writing into it; choose another output folder"
                ) from None
            raise InputError(f"{self.path.parent}: cannot be locked: {error.strerror or error}") from None
        os.close(file)
        return -1

    def free(self) -> None:
        """Remove the file and give the lock back."""
        if self._file >= 0:
            with suppress(OSError):
                self.path.unlink()
            os.close(self._file)
            self._file = -1


def _to_arrow(column: np.ndarray) -> Any:
    """A column as an Arrow array from its buffers: ``pa.array`` would import pandas."""
    import pyarrow as pa

    if column.dtype.kind == "U":
        texts = [text.encode() for text in column.tolist()]
        ends = np.cumsum([0, *map(len, texts)], dtype=np.int32)
        return pa.Array.from_buffers(pa.string(), len(texts), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(texts))])
    kind = pa.from_numpy_dtype(column.dtype)
    plain = np.packbits(column, bitorder="little") if column.dtype.kind == "b" else np.ascontiguousarray(column)
    return pa.Array.from_buffers(kind, len(column), [None, pa.py_buffer(plain)])


class TraceWriter:
    """Write a run folder piece by piece, in bounded memory.

    Tables go to hidden ``.partial`` files in row groups; :meth:`finish` renames them and writes the manifest last.
    Leaving the context without :meth:`finish` removes what was written, and the folder if it was made here.

    Parameters
    ----------
    folder : path
        Made if it does not exist. Only an empty folder, what an interrupted archsim left, or the finished run of the
        same configuration may be written (:func:`check_target`).
    config_digest : str
        Identity of the run.
    adapt : Mapping[str, Callable], optional
        Per table, a function from the columns that are appended to those of the schema (the engine's ids to names).

    Raises
    ------
    InputError
        When the folder is refused, another process writes into it, or the disk is full.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        config_digest: str,
        adapt: Mapping[str, Callable[[Columns], Columns]] | None = None,
    ) -> None:
        if not os.fspath(folder):
            raise InputError("the path of the run folder is empty; give one")
        self.folder = Path(folder)
        self._config_digest = config_digest
        self._adapt = dict(adapt or {})
        self._files: dict[str, Any] = {}
        self._digests: dict[str, TableDigest] = {}
        self._waiting: dict[str, list[Columns]] = {}
        self._lock: FolderLock | None = None
        self.document: dict[str, Any] = {}  # what the manifest says, once the folder is finished
        self._renaming = False
        check_target(self.folder, config_digest)
        self._made = make_folders(self.folder)
        try:
            # A lock that was there already is that of a dead process: whatever lies beside it is archsim's own.
            interrupted = _holds_lock(self.folder)
            self._lock = FolderLock(self.folder)
            _check_contents(self.folder, config_digest, interrupted=interrupted)
            half = not (self.folder / _MANIFEST).exists()  # tables that a dead process had put in place
            for path in self.folder.iterdir():
                if _PARTIAL.fullmatch(path.name) or (half and path.name in _FILES):
                    path.unlink(missing_ok=True)
        except BaseException:
            self.abort()
            raise

    def __enter__(self) -> TraceWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.abort()

    def append(self, table: str, columns: Columns) -> None:
        """Add rows to a table; usable as the engine's sink."""
        columns = check_columns(table, self._adapt[table](columns) if table in self._adapt else columns)
        self._digests.setdefault(table, TableDigest(table)).update(columns)
        waiting = self._waiting.setdefault(table, [])
        waiting.append(columns)
        if sum(map(length, waiting)) >= ROW_GROUP:
            self._flush(table)

    def _flush(self, table: str) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        parts = self._waiting.pop(table, [])
        if not parts:
            return
        joined = parts[0] if len(parts) == 1 else {n: np.concatenate([part[n] for part in parts]) for n in parts[0]}
        data = pa.table({name: _to_arrow(column) for name, column in joined.items()})
        try:
            if table not in self._files:
                path = self._partial(f"{table}.parquet")
                self._files[table] = pq.ParquetWriter(path, data.schema, **self._how(table))
            self._files[table].write_table(data, row_group_size=ROW_GROUP)
        except OSError as error:
            raise self._full(error) from None

    @staticmethod
    def _how(table: str) -> dict[str, Any]:
        """How a table is packed; rows, whose columns ascend or repeat from row to row, by their differences."""
        packed = {"use_dictionary": False, "column_encoding": "DELTA_BINARY_PACKED"} if table == "rows" else {}
        return {"compression": "zstd", **packed}

    def _partial(self, name: str) -> Path:
        return self.folder / f".{name}.{os.getpid()}.partial"

    def _full(self, error: OSError) -> InputError:
        return InputError(f"{self.folder}: cannot be written: {reason(error)}")

    def finish(self, manifest: Mapping[str, Any]) -> Path:
        """Complete the folder: close and rename the tables, then put the manifest in place atomically."""
        for table in REQUIRED:
            if table not in self._digests:
                self.append(table, {name: np.empty(0) for name in SCHEMA[table]})
        for table in list(self._waiting):
            self._flush(table)
        facts = {
            table: {"rows": digest.rows, "columns": digest.types, "digest": digest.digest()}
            for table, digest in self._digests.items()
        }
        document = {
            **manifest,
            "digest": run_digest({table: facts[table]["digest"] for table in DIGESTED}),
            "tables": {table: facts[table] for table in TABLES if table in facts},
        }
        self.document = seal(document)
        text = json.dumps(self.document, indent=1, allow_nan=False) + "\n"
        try:
            for file in self._files.values():
                file.close()
            self._partial(_MANIFEST).write_text(text, encoding="utf-8")
            _check_contents(self.folder, self._config_digest, interrupted=False)
            self._rename()
        except OSError as error:
            raise self._full(error) from None
        self._files.clear()
        self._release()
        self._made = []
        return self.folder

    def table(self, table: str) -> ParquetTable:
        """A table of the finished folder, left in its file."""
        return ParquetTable(self.folder / f"{table}.parquet", table)

    def _rename(self) -> None:
        """Put all files in place of those of an older run; the manifest goes first and comes last."""
        self._renaming = True
        (self.folder / _MANIFEST).unlink(missing_ok=True)
        for name, table in _FILES.items():
            if table in self._files:
                os.replace(self._partial(name), self.folder / name)
            else:
                (self.folder / name).unlink(missing_ok=True)
        os.replace(self._partial(_MANIFEST), self.folder / _MANIFEST)
        self._renaming = False

    def abort(self) -> None:
        """Remove what was written and not finished."""
        for file in self._files.values():
            with suppress(OSError):
                file.close()
            file.is_open = False  # a writer that could not close would try again when it is deleted
        self._files.clear()
        self._waiting.clear()
        if self._lock is not None:
            left = [path for path in self.folder.iterdir() if _PARTIAL.fullmatch(path.name)]
            if self._renaming:  # the older run is gone already; half of the new one is no run
                left += [self.folder / name for name in (*_FILES, _MANIFEST)]
            for path in left:
                with suppress(OSError):
                    path.unlink(missing_ok=True)
        self._release()
        remove_empty(self._made)
        self._made = []

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.free()
            self._lock = None


def _holds_lock(folder: Path) -> bool:
    path = folder / LOCK
    return not path.is_symlink() and not what_is(path) and path.stat().st_size == 0


def check_target(folder: Path, config_digest: str) -> None:
    """Refuse a folder that cannot take the run of this configuration.

    Raises
    ------
    InputError
        Unless the folder is missing, empty, left by an interrupted archsim, or holds a finished run of the same
        configuration and nothing else.
    """
    if not os.path.lexists(folder):
        return
    if not folder.is_dir():
        problem = what_is(folder).replace(", not a file", "") or "is a file"
        raise InputError(f"{folder}: {problem}, not a folder; choose another output folder")
    _check_contents(folder, config_digest, interrupted=_holds_lock(folder))


def _check_contents(folder: Path, config_digest: str, *, interrupted: bool) -> None:
    """Check what lies in a folder; `interrupted`: tables without a manifest are those of an interrupted archsim."""
    names = sorted(path.name for path in folder.iterdir())
    mine = {*_FILES, _MANIFEST}
    for name in names:
        if _PARTIAL.fullmatch(name) or (name == LOCK and _holds_lock(folder)):
            continue
        if name not in mine or (folder / name).is_symlink() or what_is(folder / name):
            raise InputError(f"{folder}: holds {name!r}, which is no part of a run; choose an empty or new folder")
    tables = [name for name in names if name in _FILES]
    if _MANIFEST not in names:
        if tables and not interrupted:
            raise InputError(
                f"{folder}: holds {tables[0]!r} but no manifest.json, so it may not be archsim's; "
                "choose an empty or new folder"
            )
        return
    try:
        manifest = read_manifest(folder)
    except InputError as error:
        raise InputError(f"{folder}: holds a run that cannot be read ({error}); delete the folder") from None
    if manifest["config_digest"] != config_digest:
        raise InputError(f"{folder}: holds the run of another configuration; choose another folder or delete it")
    foreign = [name for name in tables if _FILES[name] not in manifest["tables"]]
    if foreign:
        raise InputError(f"{folder}: holds {foreign[0]!r}, which is no part of its run; choose an empty or new folder")


def read_run(folder: Path) -> tuple[dict[str, Any], dict[str, Columns]]:
    """Manifest and tables of a run folder, each table checked against its digest; long ones stay in their files.

    Raises
    ------
    InputError
        In one line: what is missing, truncated, foreign, too new, edited or of the wrong type.
    """
    if not folder.exists():
        raise InputError(f"{folder}: no such folder; give the run folder that `archsim run` wrote")
    if not folder.is_dir():
        problem = what_is(folder).replace(", not a file", "") or "is a file"
        raise InputError(f"{folder}: {problem}; give the run folder that `archsim run` wrote")
    if not os.path.lexists(folder / _MANIFEST):
        names = [path.name for path in folder.iterdir()]
        if any(name == LOCK or name in _FILES or _PARTIAL.fullmatch(name) for name in names):
            raise InputError(
                f"{folder}: no manifest.json: the run was interrupted while it was saved; delete the folder and run it "
                "again"
            )
        raise InputError(f"{folder}: no manifest.json: not a run folder; give one that `archsim run` wrote")
    manifest = read_manifest(folder)
    tables = {}
    for table, facts in manifest["tables"].items():
        path = folder / f"{table}.parquet"
        if table in LONG and open_table(path).metadata.num_rows > LONG_ROWS:
            tables[table] = stored = ParquetTable(path, table)
            found = stored.digest()
        else:
            tables[table] = columns = _read_table(path, table)
            found = digest_of(table, columns).digest()
        if found != facts["digest"]:
            raise InputError(
                f"{path}: contents differ from the digest in manifest.json: the file was edited or "
                "damaged after the run; run it again"
            )
    return manifest, tables


def _read_table(path: Path, table: str) -> dict[str, np.ndarray]:
    file = open_table(path)
    columns = read_group(path, file, None, file.schema_arrow.names)
    try:
        return check_columns(table, columns)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
