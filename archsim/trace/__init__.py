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
    decision stream ended early); ``window.<device>`` (a pass unmapped something when it was planned; value: bytes
    left free, extra: those of the largest hole).
``rates``, ``mix``, ``pool_log``, ``levels_log``, ``draws``, ``script`` and ``script_*`` (optional)
    Rate changes; time of each pool in each stream mix; pool use in 2**-28 byte per ps and store levels; what one
    work byte of an op draws from a pool in 2**-20; the recorded script of the run (columns are the engine's).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from archsim.trace.columns import (
    ADD,
    CUT,
    DIGESTED,
    DONE,
    EMIT,
    FORMAT,
    KIND,
    NEVER,
    REQUIRED,
    RUNNING,
    SCHEMA,
    SCRIPT,
    TABLES,
    Columns,
    check_columns,
    digest_of,
    length,
    run_digest,
)
from archsim.trace.manifest import NEEDED, build_manifest
from archsim.trace.runfolder import TraceWriter, check_target, read_run
from archsim.trace.stored import ROW_GROUP, StoredTable, between, groups
from archsim.units import InputError

#: Most tokens that one mark may commit: those of the longest request.
MOST_COMMITTED = 1_000_000

__all__ = [
    "ADD",
    "CUT",
    "DIGESTED",
    "DONE",
    "EMIT",
    "FORMAT",
    "KIND",
    "NEVER",
    "REQUIRED",
    "RUNNING",
    "SCHEMA",
    "SCRIPT",
    "Columns",
    "Trace",
    "TraceWriter",
    "build_manifest",
    "check_columns",
    "check_target",
    "diff",
    "positions",
]


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
        for key in NEEDED:
            if key not in self.manifest:
                raise InputError(f"manifest without {key!r}; it needs: {', '.join(NEEDED)}")
        empty: dict[str, Any] = {name: {column: np.empty(0) for column in columns} for name, columns in SCHEMA.items()}
        checked = {
            name: columns if isinstance(columns, StoredTable) else check_columns(name, columns)
            for name, columns in {**empty, **self.tables}.items()
        }
        object.__setattr__(self, "tables", checked)
        for part in groups(self.rows):
            units = part["unit"]
            if units.size and not -1 <= units.min() <= units.max() < len(self.unit_names):
                raise InputError(
                    f"table 'rows': unit {units.max()} is not one of the manifest's {len(self.unit_names)} units"
                )

    def parts(self) -> Iterator[Trace]:
        """The trace in pieces that fit memory: each has some of the rows and all of everything else.

        A trace in memory is its own single piece. Times are those of the whole run; :attr:`whole` leads back.
        """
        if not isinstance(self.rows, StoredTable):
            yield self
            return
        for group in self.rows.groups():
            part = object.__new__(Trace)
            vars(part).update(
                tables={**self.tables, "rows": group}, manifest=self.manifest, _whole=self, duration_ps=self.duration_ps
            )
            yield part

    @property
    def whole(self) -> Trace:
        """The trace that this one is a part of; itself if it is none."""
        return vars(self).get("_whole", self)  # kept for parts alone: a trace that names itself would outlive its use

    @property
    def stored(self) -> bool:
        """Whether the rows are in a file; then only :meth:`parts` goes through them in bounded memory."""
        return isinstance(self.rows, StoredTable)

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
        ends = [self.blocks["end_ps"], self.notes["time_ps"]]
        last = [int(column.max()) for column in ends if column.size]
        for part in groups(self.rows):
            last += [int(part[name].max()) for name in ("start_ps", "end_ps") if part[name].size]
        return max(last, default=0)

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
        if found is wanted:  # entries are numbered as they lie
            return found
        lost = (found < 0) & (wanted >= 0)
        if lost.any():
            raise InputError(f"table 'rows' names {key} {wanted[lost][0]}, which table {table!r} does not list")
        return found

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) over ``rows``, ``blocks`` and ``notes``; equal for equal runs on any machine.

        The SHA-256 over ``"archsim-trace 1" NUL`` and the binary digests of the three tables in that order; the digest
        of a table is described at :class:`archsim.trace.columns.TableDigest`.
        """
        return run_digest({table: _digest(table, self.tables[table]) for table in DIGESTED})

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write the run folder (see :class:`TraceWriter`) and return its path."""
        with TraceWriter(folder, self.manifest["config_digest"]) as writer:
            for table, columns in self.tables.items():
                for part in groups(columns):
                    writer.append(table, dict(part))
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
        manifest, tables = read_run(path)
        try:
            trace = cls(tables, manifest)
            _check_peaks(trace)
            _check_commits(trace)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None
        return trace


def _digest(table: str, columns: Columns) -> str:
    return columns.digest() if isinstance(columns, StoredTable) else digest_of(table, columns).digest()


def _check_peaks(trace: Trace) -> None:
    """Require peak rates of every device that a null model divides by."""
    peaks, ops = trace.manifest["peaks"], trace.ops
    storage = set(ops["device"][ops["kind"] == "load"].tolist())
    slow = [name for name in sorted(storage) if not peaks.get(name, {}).get("bytes_per_s")]
    if slow:
        raise InputError(f"manifest.json gives device {slow[0]!r}, which reads weights, no rate under 'peaks'")
    if ops["op"].size and not sum(peak["bytes_per_s"] for name, peak in peaks.items() if name not in storage):
        raise InputError("manifest.json gives no memory a rate under 'peaks'")


def _check_commits(trace: Trace) -> None:
    """Require tokens in numbers that a run can have: tables are spread out by them."""
    tokens = trace.notes["value"][trace.notes["kind"] == "commit"]
    if tokens.size and not 0 <= tokens.min() <= tokens.max() <= MOST_COMMITTED:
        odd = int(tokens.min() if tokens.min() < 0 else tokens.max())
        raise InputError(f"table 'notes': {odd} tokens committed at once; a run commits 0 to {MOST_COMMITTED}")


def positions(keys: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Index in `keys` (distinct, in any order) of each of `wanted`, -1 where it is not there."""
    if keys.size == 0:
        return np.full(wanted.shape, -1, dtype=np.int64)
    first, last = int(keys[0]), int(keys[-1])
    if last - first == keys.size - 1 and (keys[1:] > keys[:-1]).all():  # all ids of a range, as a whole run's are
        if first == 0 and wanted.size and wanted.min() >= -1 and wanted.max() <= last:
            return wanted
        return np.where((wanted >= first) & (wanted <= last), wanted - first, -1)
    order = np.argsort(keys, kind="stable")
    place = np.minimum(np.searchsorted(keys, wanted, sorter=order), keys.size - 1)
    return np.where(keys[order[place]] == wanted, order[place], -1)


def diff(a: Trace, b: Trace) -> str:
    """Say where two traces first differ: table, row, column and both values; empty when they are the same.

    Tables are compared in the order rows, blocks, notes, then the others; within a table the earliest row counts.
    """
    for table in (*DIGESTED, *(name for name in TABLES if name not in DIGESTED)):
        found = _diff_table(table, a.tables.get(table, {}), b.tables.get(table, {}))
        if found:
            return found
    return ""


def _diff_table(table: str, a: Columns, b: Columns) -> str:
    if a is b:
        return ""
    if not length(a) and not length(b):  # an empty table is not written
        return ""
    if list(a) != list(b):
        return f"{table}: columns {', '.join(a) or 'none'} against {', '.join(b) or 'none'}"
    size = min(length(a), length(b))
    first, where = size, ""
    for at in range(0, size, ROW_GROUP):
        here, there = (between(columns, at, min(at + ROW_GROUP, size)) for columns in (a, b))
        for name in a:
            unequal = np.flatnonzero(here[name] != there[name])
            if unequal.size and at + unequal[0] < first:
                first, where = at + int(unequal[0]), name
        if where:
            return f"{table}[{first}].{where}: {here[where][first - at]} against {there[where][first - at]}"
    if length(a) != length(b):
        return f"{table}: {length(a)} entries against {length(b)}; the first {size} are equal"
    return ""
