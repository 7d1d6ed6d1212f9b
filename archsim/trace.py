"""A trace: what one run did, as columns and a manifest, and the run folder that keeps it.

A run folder holds one Parquet file per table and ``manifest.json``. The manifest is written last, so a folder
without one is an interrupted save. Nothing is pickled.

Meaning of the tables (times are ps since the start of the run; ids are those of the engine):

``rows``
    One entry per task row. ``work`` and ``done`` are in 2**-28 byte; ``lead_ps`` is the lead that elapsed; ``status``
    is 0 done, 1 cut, 2 never started, 3 still running when the run stopped (``start_ps``, ``flow_ps`` and ``end_ps``
    are -1 where it never came to that; a row may be cut before it started).
``blocks``
    One entry per emitted block. ``useful`` of ``total`` is the mark set when the outcome was known; ``total`` is 0
    for a block that was never marked.
``ops``
    One entry per *lowered row*: every trace row executes the entry it names once. ``macs`` and the byte columns are
    the share of that row, so that they add up over a split operator. Rows with ``op`` -1 (join rows) execute nothing.
``counts``
    How often one execution of an entry of ``ops`` performs an action (``<device>.<action>``).
``notes``
    Marks in time: ``arrival``; ``commit`` (value: tokens committed now, extra: tokens drafted in that step);
    ``accept`` (value: drafted tokens that the target took, extra: drafted tokens that were verified);
    ``step`` (one verification cycle or denoising step, noted when its outcome is known); ``draft`` (optional; value:
    tokens drafted, whether or not they were ever verified); ``end`` (value: tokens of the request, extra: 1 if the
    decision stream ended early).
``rates``, ``mix``, ``pool_log``, ``levels_log``, ``draws``, ``script`` and ``script_*`` (optional)
    Rate changes; time of each pool in each stream mix; pool use in 2**-28 byte per ps and store levels; what one
    work byte of an op draws from a pool in 2**-20; the recorded script of the run (columns are the engine's).
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from archsim.device import Cost
from archsim.units import InputError

FORMAT = 1
KIND = "archsim-trace"
DONE, CUT, NEVER, RUNNING = range(4)
ROW_GROUP = 1 << 17

_INT, _FLOAT, _TEXT = "int64", "float64", "text"


def _schema(ints: str = "", text: str = "", floats: str = "") -> dict[str, str]:
    return {
        **dict.fromkeys(ints.split(), _INT),
        **dict.fromkeys(text.split(), _TEXT),
        **dict.fromkeys(floats.split(), _FLOAT),
    }


#: Columns of each table by name and type; their order is the order of the digest.
SCHEMA: Mapping[str, Mapping[str, str]] = {
    "rows": _schema("row unit op block request priority start_ps flow_ps end_ps status work done lead_ps"),
    "blocks": _schema("block request emit_ps end_ps useful total status", "label role phase"),
    "ops": _schema("op m k n kv macs weight_bytes in_bytes out_bytes kv_bytes", "device kind name role phase"),
    "counts": _schema("op count", "action"),
    "notes": _schema("time_ps request value extra", "kind"),
    "rates": _schema("time_ps", "target", "fraction"),
    "mix": _schema("pool mask time_ps"),
    "pool_log": _schema("time_ps pool value"),
    "levels_log": _schema("time_ps store value"),
    "draws": _schema("op pool coef"),
}
REQUIRED = ("rows", "blocks", "ops", "counts", "notes")
#: Tables whose columns make the digest of a run.
DIGESTED = ("rows", "blocks", "notes")
#: The recorded script; its columns are the engine's.
SCRIPT = ("script", "script_after", "script_rows", "script_edges")
_TABLES = (*SCHEMA, *SCRIPT)
_MANIFEST_KEYS = ("format", "config", "config_digest", "schedule", "seed", "units", "pools", "stores", "prices")

Columns = Mapping[str, np.ndarray]


def check_columns(table: str, columns: Columns) -> dict[str, np.ndarray]:
    """Return `columns` in schema order and canonical types; ``script`` takes any integer, float or text columns.

    Raises
    ------
    InputError
        Naming the table and the column that is missing, unknown, of the wrong type or of another length.
    """
    if table not in _TABLES:
        raise InputError(f"unknown trace table {table!r}; the tables are: {', '.join(_TABLES)}")
    schema = SCHEMA.get(table) or {name: _type_of(np.asarray(values)) for name, values in columns.items()}
    missing = [name for name in schema if name not in columns]
    if missing:
        raise InputError(f"table {table!r}: column {missing[0]!r} is missing; expected: {', '.join(schema)}")
    unknown = [name for name in columns if name not in schema]
    if unknown:
        raise InputError(f"table {table!r}: unknown column {unknown[0]!r}; expected: {', '.join(schema)}")
    made = {name: _canonical(table, name, kind, columns[name]) for name, kind in schema.items()}
    lengths = {name: len(values) for name, values in made.items()}
    if len(set(lengths.values())) > 1:
        raise InputError(f"table {table!r}: columns differ in length: {lengths}")
    return made


def _type_of(values: np.ndarray) -> str:
    if values.dtype.kind in "iub":
        return _INT
    return _FLOAT if values.dtype.kind == "f" else _TEXT


def _canonical(table: str, name: str, kind: str, values: Any) -> np.ndarray:
    array = np.asarray(values)
    if array.ndim == 1 and array.size == 0:
        return np.empty(0, dtype="U1" if kind == _TEXT else kind)
    if array.dtype.kind == "O" and all(isinstance(value, str) for value in array):
        array = array.astype(str)
    found = _type_of(array) if array.dtype.kind in "iubfU" else str(array.dtype)
    if array.ndim != 1 or (found != kind and (found, kind) != (_INT, _FLOAT)):
        raise InputError(f"table {table!r}: column {name!r} is {array.ndim}-d {found}, expected 1-d {kind}")
    return array if kind == _TEXT else np.ascontiguousarray(array, dtype=kind)


class _TableDigest:
    """SHA-256 of a table, independent of how its rows arrive in chunks.

    Each column is hashed on its own (int64 and float64 as little-endian bytes; text as an int64 byte length and
    UTF-8 bytes per entry); the table's digest is the SHA-256 over ``name NUL type NUL column-digest`` in column order,
    after the table's name and its length as a little-endian int64.
    """

    def __init__(self, table: str) -> None:
        self.table, self.rows = table, 0
        self.types: dict[str, str] = {}
        self._hashes: dict[str, Any] = {}

    def update(self, columns: Columns) -> None:
        for name, values in columns.items():
            if name not in self._hashes:
                self._hashes[name], self.types[name] = hashlib.sha256(), _type_of(values)
            self._hashes[name].update(_bytes(values))
            size = len(values)
        self.rows += size if columns else 0

    def digest(self) -> str:
        total = hashlib.sha256(f"{self.table}\0".encode() + struct.pack("<q", self.rows))
        for name, part in self._hashes.items():
            total.update(f"{name}\0{self.types[name]}\0".encode() + part.digest())
        return total.hexdigest()


def _bytes(values: np.ndarray) -> bytes:
    if values.dtype.kind != "U":
        return values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes()
    distinct, where = np.unique(values, return_inverse=True)
    coded = [struct.pack("<q", len(text)) + text for text in (str(entry).encode() for entry in distinct)]
    return b"".join([coded[i] for i in where])


def _run_digest(parts: Mapping[str, str]) -> str:
    total = hashlib.sha256(f"{KIND} {FORMAT}\0".encode())
    for table in DIGESTED:
        total.update(bytes.fromhex(parts[table]))
    return total.hexdigest()


@dataclass(frozen=True)
class Trace:
    """Columns and manifest of one run.

    Parameters
    ----------
    tables : Mapping[str, Mapping[str, ndarray]]
        Tables by name (see the module's docstring); those in `REQUIRED` must be there, missing others are empty.
    manifest : Mapping[str, Any]
        See :func:`build_manifest`.

    Raises
    ------
    InputError
        When a table, column or reference between tables is missing or of the wrong type.
    """

    tables: Mapping[str, Columns]
    manifest: Mapping[str, Any]

    def __post_init__(self) -> None:
        for table in REQUIRED:
            if table not in self.tables:
                raise InputError(f"trace without table {table!r}; it needs: {', '.join(REQUIRED)}")
        for key in _MANIFEST_KEYS:
            if key not in self.manifest:
                raise InputError(f"manifest without {key!r}; it needs: {', '.join(_MANIFEST_KEYS)}")
        empty: dict[str, Any] = {name: {column: np.empty(0) for column in columns} for name, columns in SCHEMA.items()}
        checked = {name: check_columns(name, columns) for name, columns in {**empty, **self.tables}.items()}
        object.__setattr__(self, "tables", checked)
        units = self.rows["unit"]
        if units.size and not -1 <= units.min() <= units.max() < len(self.unit_names):
            raise InputError(
                f"table 'rows': unit {units.max()} is not one of the manifest's {len(self.unit_names)} units"
            )

    @property
    def rows(self) -> Columns:
        """Task rows."""
        return self.tables["rows"]

    @property
    def blocks(self) -> Columns:
        """Emitted blocks."""
        return self.tables["blocks"]

    @property
    def ops(self) -> Columns:
        """Lowered rows of operators."""
        return self.tables["ops"]

    @property
    def counts(self) -> Columns:
        """Actions per execution of an entry of `ops`."""
        return self.tables["counts"]

    @property
    def notes(self) -> Columns:
        """Marks in time."""
        return self.tables["notes"]

    @cached_property
    def unit_names(self) -> list[str]:
        """Names of the units by id."""
        return [unit["name"] for unit in self.manifest["units"]]

    @cached_property
    def duration_ps(self) -> int:
        """Time of the last thing that happened."""
        ends = (self.rows["start_ps"], self.rows["end_ps"], self.blocks["end_ps"], self.notes["time_ps"])
        return max((int(column.max()) for column in ends if column.size), default=0)

    @cached_property
    def ran(self) -> np.ndarray:
        """Whether each row ever started."""
        return self.rows["start_ps"] >= 0

    @cached_property
    def row_end_ps(self) -> np.ndarray:
        """End of each row that ran; the end of the run for those still running then."""
        end = self.rows["end_ps"]
        return np.where(self.ran & (end < 0), self.duration_ps, end)

    @cached_property
    def row_op(self) -> np.ndarray:
        """Position in `ops` of each row's entry, -1 for rows without one."""
        return self._position("op", "ops")

    @cached_property
    def row_block(self) -> np.ndarray:
        """Position in `blocks` of each row's block."""
        return self._position("block", "blocks")

    def _position(self, key: str, table: str) -> np.ndarray:
        wanted = self.rows[key]
        found = positions(self.tables[table][key], wanted)
        lost = (found < 0) & (wanted >= 0)
        if lost.any():
            raise InputError(f"table 'rows' names {key} {wanted[lost][0]}, which table {table!r} does not list")
        return found

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) over ``rows``, ``blocks`` and ``notes``; equal for equal runs on any machine.

        The SHA-256 over ``"archsim-trace 1" NUL`` and the binary digests of the three tables in that order; the digest
        of a table is described at `_TableDigest`.
        """
        return _run_digest({table: _digest_of(table, self.tables[table]).digest() for table in DIGESTED})

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write the run folder (see :class:`TraceWriter`) and return its path."""
        with TraceWriter(folder, self.manifest["config_digest"]) as writer:
            for table, columns in self.tables.items():
                for first in range(0, _length(columns), ROW_GROUP):
                    writer.append(table, {name: part[first : first + ROW_GROUP] for name, part in columns.items()})
            return writer.finish(self.manifest)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Trace:
        """Read a run folder and check it against its manifest.

        Raises
        ------
        InputError
            In one line: what is missing, truncated, foreign, too new, edited or of the wrong type.
        """
        path = Path(folder)
        manifest = _read_manifest(path)
        tables = {}
        for table, facts in manifest["tables"].items():
            columns = _read_table(path / f"{table}.parquet", table)
            if _digest_of(table, columns).digest() != facts["digest"]:
                raise InputError(
                    f"{path / table}.parquet: contents differ from the digest in manifest.json: the file was edited or "
                    "damaged after the run; run it again"
                )
            tables[table] = columns
        try:
            return cls(tables, manifest)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None


def positions(keys: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Index in `keys` (distinct, in any order) of each of `wanted`, -1 where it is not there."""
    if keys.size == 0:
        return np.full(wanted.shape, -1, dtype=np.int64)
    order = np.argsort(keys, kind="stable")
    place = np.minimum(np.searchsorted(keys, wanted, sorter=order), keys.size - 1)
    return np.where(keys[order[place]] == wanted, order[place], -1)


def _length(columns: Columns) -> int:
    return len(next(iter(columns.values()), ()))


def _digest_of(table: str, columns: Columns) -> _TableDigest:
    digest = _TableDigest(table)
    digest.update(columns)
    return digest


def build_manifest(
    *,
    archsim: str,
    config: Mapping[str, Any],
    config_digest: str,
    schedule: str,
    seed: int,
    system: Mapping[str, list[dict[str, Any]]],
    prices: Mapping[str, Mapping[str, Cost]],
    stream: Mapping[str, str],
    warnings: Mapping[str, Any],
    versions: Mapping[str, str],
) -> dict[str, Any]:
    """Make a manifest: all that reports and a replay need besides the columns.

    Parameters
    ----------
    archsim : str
        Version of archsim.
    config, config_digest : Mapping, str
        Resolved configuration and its digest.
    system : Mapping
        ``units``, ``pools`` and ``stores`` as lists of dictionaries with at least ``name``
        (pools and stores also ``capacity`` and ``unit``).
    prices : Mapping
        ``energy_pj`` by ``<device>.<action>``, ``power_mw`` and ``area_um2`` by ``<device>.<block>``.
    stream : Mapping
        ``kind`` and ``label`` of the decision stream.
    warnings : Mapping
        ``off_trace_nodes`` and other counts the summary repeats.
    versions : Mapping
        Versions of packages; kept apart, no part of any digest.
    """
    return {
        "format": {"kind": KIND, "version": FORMAT},
        "archsim": archsim,
        "schedule": schedule,
        "seed": seed,
        "stream": dict(stream),
        "config_digest": config_digest,
        "config": dict(config),
        **{what: list(system[what]) for what in ("units", "pools", "stores")},
        "prices": {table: {key: _cost(cost) for key, cost in entries.items()} for table, entries in prices.items()},
        "warnings": dict(warnings),
        "versions": dict(versions),
    }


def _cost(cost: Cost) -> dict[str, Any]:
    spread = None if cost.range is None else [float(value) for value in cost.range]
    return {"value": float(cost.value), "unit": cost.unit, "source": cost.source, "range": spread}


class TraceWriter:
    """Write a run folder piece by piece, in bounded memory.

    Tables go to hidden ``.partial`` files in row groups; :meth:`finish` renames them and writes the manifest last.
    Leaving the context without :meth:`finish` removes the partial files.

    Parameters
    ----------
    folder : path
        Made if it does not exist. A folder that holds anything but archsim's own files, or the finished run of another
        configuration, is refused; a finished or interrupted run of the same configuration is replaced.
    config_digest : str
        Identity of the run.
    adapt : Mapping[str, Callable], optional
        Per table, a function from the columns that are appended to those of the schema (the engine's ids to names).
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        config_digest: str,
        adapt: Mapping[str, Callable[[Columns], Columns]] | None = None,
    ) -> None:
        self.folder = Path(folder)
        self._adapt = dict(adapt or {})
        check_target(self.folder, config_digest)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._files: dict[str, Any] = {}
        self._digests: dict[str, _TableDigest] = {}
        self._waiting: dict[str, list[Columns]] = {}

    def __enter__(self) -> TraceWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.abort()

    def append(self, table: str, columns: Columns) -> None:
        """Add rows to a table; usable as the engine's sink."""
        columns = check_columns(table, self._adapt[table](columns) if table in self._adapt else columns)
        self._digests.setdefault(table, _TableDigest(table)).update(columns)
        waiting = self._waiting.setdefault(table, [])
        waiting.append(columns)
        if sum(map(_length, waiting)) >= ROW_GROUP:
            self._flush(table)

    def _flush(self, table: str) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        parts = self._waiting.pop(table, [])
        if not parts:
            return
        joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        arrays = {
            n: pa.array(v.tolist(), pa.string()) if v.dtype.kind == "U" else pa.array(v) for n, v in joined.items()
        }
        data = pa.table(arrays)
        if table not in self._files:
            self._files[table] = pq.ParquetWriter(self._partial(f"{table}.parquet"), data.schema, compression="zstd")
        self._files[table].write_table(data, row_group_size=ROW_GROUP)

    def _partial(self, name: str) -> Path:
        return self.folder / f".{name}.{os.getpid()}.partial"

    def finish(self, manifest: Mapping[str, Any]) -> Path:
        """Complete the folder: close and rename the tables, then put the manifest in place atomically."""
        for table in REQUIRED:
            if table not in self._digests:
                self.append(table, {name: np.empty(0) for name in SCHEMA[table]})
        for table in list(self._waiting):
            self._flush(table)
        for file in self._files.values():
            file.close()
        facts = {
            table: {"rows": digest.rows, "columns": digest.types, "digest": digest.digest()}
            for table, digest in self._digests.items()
        }
        document = {
            **manifest,
            "digest": _run_digest({table: facts[table]["digest"] for table in DIGESTED}),
            "tables": {table: facts[table] for table in _TABLES if table in facts},
        }
        text = json.dumps(document, indent=1, allow_nan=False) + "\n"
        self._partial("manifest.json").write_text(text, encoding="utf-8")
        (self.folder / "manifest.json").unlink(missing_ok=True)
        for table in _TABLES:
            final = self.folder / f"{table}.parquet"
            if table in self._files:
                os.replace(self._partial(final.name), final)
            else:
                final.unlink(missing_ok=True)
        os.replace(self._partial("manifest.json"), self.folder / "manifest.json")
        self._files.clear()
        return self.folder

    def abort(self) -> None:
        """Remove what was written and not finished."""
        for file in self._files.values():
            file.close()
        self._files.clear()
        self._waiting.clear()
        for path in self.folder.glob(f".*.{os.getpid()}.partial"):
            path.unlink(missing_ok=True)


def check_target(folder: Path, config_digest: str) -> None:
    """Refuse a folder that cannot take the run of this configuration (see :class:`TraceWriter`)."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise InputError(f"{folder}: is a file, not a folder; choose another output folder")
    own = {f"{table}.parquet" for table in _TABLES} | {"manifest.json"}
    names = sorted(path.name for path in folder.iterdir())
    foreign = [name for name in names if name not in own and not name.endswith(".partial")]
    if foreign:
        raise InputError(f"{folder}: holds {foreign[0]!r}, which is no part of a run; choose an empty or new folder")
    if "manifest.json" not in names:
        return
    try:
        held = _read_manifest(folder)["config_digest"]
    except InputError as error:
        raise InputError(f"{folder}: holds a run that cannot be read ({error}); delete the folder") from None
    if held != config_digest:
        raise InputError(f"{folder}: holds the run of another configuration; choose another folder or delete it")


def _read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / "manifest.json"
    if not folder.exists():
        raise InputError(f"{folder}: no such folder; give the run folder that `archsim run` wrote")
    if not folder.is_dir():
        raise InputError(f"{folder}: is a file; give the run folder that `archsim run` wrote")
    if not path.exists():
        ours = [p for p in folder.iterdir() if p.suffix == ".partial" or p.stem in _TABLES]
        if ours:
            raise InputError(f"{folder}: no manifest.json: the run was interrupted while it was saved; run it again")
        raise InputError(f"{folder}: no manifest.json: not a run folder; give one that `archsim run` wrote")
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path}: not valid JSON ({error}); run it again") from None
    stamp = manifest.get("format") if isinstance(manifest, dict) else None
    if not isinstance(stamp, dict) or stamp.get("kind") != KIND or not isinstance(stamp.get("version"), int):
        raise InputError(f"{path}: not the manifest of an archsim run; give a folder that `archsim run` wrote")
    if stamp["version"] > FORMAT:
        raise InputError(
            f"{path}: trace format {stamp['version']} is newer than this archsim reads ({FORMAT}); update archsim"
        )
    for key in (*_MANIFEST_KEYS, "tables"):
        if key not in manifest:
            raise InputError(f"{path}: {key!r} is missing; the manifest was edited or damaged; run it again")
    tables = manifest["tables"]
    sound = isinstance(tables, dict) and all(
        name in _TABLES and isinstance(facts, dict) and "digest" in facts for name, facts in tables.items()
    )
    if not sound:
        raise InputError(f"{path}: 'tables' is malformed; the manifest was edited or damaged; run it again")
    return manifest


def _read_table(path: Path, table: str) -> dict[str, np.ndarray]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not path.exists():
        raise InputError(f"{path}: missing, though manifest.json lists it; run it again")
    try:
        data = pq.read_table(path)
    except (pa.ArrowException, OSError):
        raise InputError(f"{path}: truncated or not a Parquet file; run it again") from None
    empty = [name for name in data.column_names if data.column(name).null_count]
    if empty:
        raise InputError(f"{path}: column {empty[0]!r} has empty entries; run it again")
    try:
        return check_columns(table, {name: _to_numpy(data.column(name)) for name in data.column_names})
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _to_numpy(column: Any) -> np.ndarray:
    import pyarrow as pa

    if not pa.types.is_string(column.type):
        return column.to_numpy()
    coded = column.combine_chunks().dictionary_encode()
    names = np.array(coded.dictionary.to_pylist(), dtype=str)
    return names[coded.indices.to_numpy()] if names.size else np.empty(0, dtype="U1")


def diff(a: Trace, b: Trace) -> str:
    """Say where two traces first differ: table, row, column and both values; empty when they are the same.

    Tables are compared in the order rows, blocks, notes, then the others; within a table the earliest row counts.
    """
    for table in (*DIGESTED, *(name for name in _TABLES if name not in DIGESTED)):
        found = _diff_table(table, a.tables.get(table, {}), b.tables.get(table, {}))
        if found:
            return found
    return ""


def _diff_table(table: str, a: Columns, b: Columns) -> str:
    if not _length(a) and not _length(b):  # an empty table is not written
        return ""
    if list(a) != list(b):
        return f"{table}: columns {', '.join(a) or 'none'} against {', '.join(b) or 'none'}"
    size = min(_length(a), _length(b))
    first, where = size, ""
    for name in a:
        unequal = np.flatnonzero(a[name][:size] != b[name][:size])
        if unequal.size and unequal[0] < first:
            first, where = int(unequal[0]), name
    if where:
        return f"{table}[{first}].{where}: {a[where][first]} against {b[where][first]}"
    if _length(a) != _length(b):
        return f"{table}: {_length(a)} entries against {_length(b)}; the first {size} are equal"
    return ""
