"""Tables of a trace as columns: which there are, their types, and the digest of each."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from archsim.units import InputError

FORMAT = 1
KIND = "archsim-trace"
DONE, CUT, NEVER, RUNNING = range(4)

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
TABLES = (*SCHEMA, *SCRIPT)
#: Kinds of script actions that reports read: a block is emitted (operand a: its template; e: how many blocks it waits
#: for), a store changes (operands a and b: the store and the change).
EMIT, ADD = 0, 6

Columns = Mapping[str, np.ndarray]


def check_columns(table: str, columns: Columns) -> dict[str, np.ndarray]:
    """Return `columns` in schema order and canonical types; ``script`` takes any integer, float or text columns.

    Raises
    ------
    InputError
        Naming the table and the column that is missing, unknown, of the wrong type or of another length.
    """
    if table not in TABLES:
        raise InputError(f"unknown trace table {table!r}; the tables are: {', '.join(TABLES)}")
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


class TableDigest:
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
        """Add rows."""
        for name, values in columns.items():
            if name not in self._hashes:
                self._hashes[name], self.types[name] = hashlib.sha256(), _type_of(values)
            self._hashes[name].update(_bytes(values))
            size = len(values)
        self.rows += size if columns else 0

    def digest(self) -> str:
        """Digest (hex) of the rows so far."""
        total = hashlib.sha256(f"{self.table}\0".encode() + struct.pack("<q", self.rows))
        for name, part in self._hashes.items():
            total.update(f"{name}\0{self.types[name]}\0".encode() + part.digest())
        return total.hexdigest()


def _bytes(values: np.ndarray) -> bytes | np.ndarray:
    """What is hashed of a column, as bytes or an array of them."""
    if values.dtype.kind != "U":
        return np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    distinct, where = np.unique(values, return_inverse=True)
    coded = [struct.pack("<q", len(text)) + text for text in (str(entry).encode() for entry in distinct)]
    return b"".join([coded[i] for i in where])


def run_digest(parts: Mapping[str, str]) -> str:
    """Digest (hex) of a run from those of its tables in `DIGESTED`."""
    total = hashlib.sha256(f"{KIND} {FORMAT}\0".encode())
    for table in DIGESTED:
        total.update(bytes.fromhex(parts[table]))
    return total.hexdigest()


def length(columns: Columns) -> int:
    """Rows of a table."""
    rows = getattr(columns, "rows", None)  # a stored table knows without being read
    return rows if rows is not None else len(next(iter(columns.values()), ()))


def digest_of(table: str, columns: Columns) -> TableDigest:
    """Digest of a whole table."""
    digest = TableDigest(table)
    digest.update(columns)
    return digest
