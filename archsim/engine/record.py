"""Logs in columns, the script of a run, and the digest of its results."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from archsim.engine.block import Block
from archsim.engine.errors import ScriptError

Columns = dict[str, np.ndarray]
Sink = Callable[[str, Columns], None]


class Store(Protocol):
    """Where rows, and a script that gets long, leave the engine."""

    def extend(self, columns: Columns) -> None:
        """Take rows whose blocks have ended."""

    def append(self, table: str, columns: Columns) -> None:
        """Take a piece of a table of the script."""


CHUNK = 65536
KEEP_ROWS = 65536  # of templates: 216 bytes each
KNOWN = 256  # templates that are recognised, once written
ROW_LOG = (
    "row",
    "unit",
    "op",
    "block",
    "request",
    "priority",
    "start_ps",
    "flow_ps",
    "end_ps",
    "status",
    "work",
    "done",
    "lead_ps",
)
BLOCK_LOG = ("block", "label", "request", "emit_ps", "end_ps", "useful", "total", "status")
NOTE_LOG = ("time_ps", "kind", "request", "value", "extra")
RATE_LOG = ("time_ps", "pool", "id", "rate")
POOL_LOG = ("time_ps", "pool", "mask", "capacity", "usage")
LEVEL_LOG = ("time_ps", "store", "level", "row")
ACTION_LOG = ("time_ps", "round", "kind", "a", "b", "c", "d", "e")
#: Kinds of script actions and what their operands a .. e mean.
EMIT, CUT, CUT_ROW, RATE, MARK, NOTE, ADD = range(7)
# EMIT: template, priority, request, label, number of blocks to wait for (ids follow in `after`)
# CUT: block        CUT_ROW: block, row in block        RATE: 0 unit or 1 pool, id, rate in 2**-20
# MARK: block, useful, total        NOTE: kind, request, value, extra        ADD: store, change


class Log:
    """Columns that grow line by line or chunk by chunk and leave through the sink when there is one."""

    def __init__(self, kind: str, names: Sequence[str], sink: Sink | None) -> None:
        self.kind, self.names, self.sink = kind, tuple(names), sink
        self._lines: list[tuple[int, ...]] = []
        self._chunks: list[Columns] = []
        self._held = 0

    def add(self, *line: int) -> None:
        """Append one line."""
        self._lines.append(line)
        if len(self._lines) >= CHUNK:
            self._fold()

    def extend(self, columns: Columns) -> None:
        """Append a chunk."""
        self._fold()
        self._push(columns)

    def _fold(self) -> None:
        if self._lines:
            table = np.array(self._lines, dtype=np.int64).reshape(-1, len(self.names))
            self._lines = []
            self._push({name: table[:, i].copy() for i, name in enumerate(self.names)})

    def _push(self, columns: Columns) -> None:
        self._chunks.append(columns)
        self._held += len(columns[self.names[0]])
        if self.sink is not None and self._held >= CHUNK:
            self.flush()

    def flush(self) -> None:
        """Hand everything held to the sink."""
        self._fold()
        if self.sink is not None and self._held:
            columns = self._joined()
            self._chunks, self._held = [], 0
            self.sink(self.kind, columns)

    def _joined(self) -> Columns:
        if not self._chunks:
            return {name: np.zeros(0, dtype=np.int64) for name in self.names}
        return {name: np.concatenate([chunk[name] for chunk in self._chunks]) for name in self.names}

    def columns(self) -> Columns:
        """What is held, in order of arrival."""
        self._fold()
        joined = self._joined()
        self._chunks = [joined] if self._held else []
        return joined


class Digest:
    """Order-free hash of lines: each line is mixed to 64 bits and the mixes are added up.

    So a run hashes the same whether its rows were retired in chunks or kept, and in whatever order they ended.
    """

    def __init__(self) -> None:
        self.lanes = np.zeros(3, dtype=np.uint64)

    def add(self, columns: Mapping[str, np.ndarray]) -> None:
        """Take in the lines of `columns`."""
        mixed = None
        for i, column in enumerate(columns.values()):
            word = column.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15 ** (2 * i + 1) % 2**64)
            mixed = word if mixed is None else np.add(mixed, word, out=mixed)
        if mixed is None or not len(mixed):
            return
        mixed *= np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(32)
        self.lanes[:1] += mixed.sum(dtype=np.uint64)
        self.lanes[1:2] += (mixed * (mixed >> np.uint64(31) | np.uint64(1))).sum(dtype=np.uint64)
        self.lanes[2:3] += np.uint64(len(mixed))

    def copy(self) -> Digest:
        """A copy to go on with."""
        other = Digest()
        other.lanes = self.lanes.copy()
        return other

    def text(self) -> str:
        """The lanes in hexadecimal."""
        return self.lanes.tobytes().hex()


def combined(parts: Mapping[str, Digest]) -> str:
    """One sha256 over named digests."""
    text = ";".join(f"{name}={part.text()}" for name, part in parts.items())
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Script:
    """All that was done to a run from outside its rows, at (time, round); :meth:`Sim.play` does it again."""

    actions: Columns  # ACTION_LOG
    after: np.ndarray  # ids of blocks that emissions wait for, in order
    templates: Sequence[Block]
    labels: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()

    def steps(self) -> Iterator[tuple[int, ...]]:
        """Lines of the action table as integers."""
        return zip(*(self.actions[name].tolist() for name in ACTION_LOG))

    def tables(self) -> dict[str, Columns]:
        """The script as tables of int64 columns: script, script_after, script_rows, script_edges."""
        rows = [template_rows(i, block) for i, block in enumerate(self.templates)]
        edges = [template_edges(i, block) for i, block in enumerate(self.templates)]
        return {
            "script": self.actions,
            "script_after": {"block": self.after},
            "script_rows": {name: np.concatenate([r[name] for r in rows]) for name in TEMPLATE_ROWS} if rows else {},
            "script_edges": {name: np.concatenate([e[name] for e in edges]) for name in TEMPLATE_EDGES}
            if edges
            else {},
        }

    @classmethod
    def from_tables(
        cls, tables: Mapping[str, Columns], labels: Sequence[str] = (), kinds: Sequence[str] = ()
    ) -> Script:
        """Inverse of :meth:`tables`; also takes the concatenated chunks that a sink received."""
        rows, edges = tables.get("script_rows") or {}, tables.get("script_edges") or {}
        templates = split_templates(rows, edges) if rows else []
        after = tables["script_after"]["block"] if tables.get("script_after") else np.zeros(0, dtype=np.int64)
        return cls(dict(tables["script"]), after, tuple(templates), tuple(labels), tuple(kinds))


_WIDE = {"pool": 4, "coef": 4, "store": 2, "store_start": 2, "store_end": 2, "store_mode": 2}
_FLAT = tuple(name for name in Block._fields if name not in ("succ_ptr", "succ"))
TEMPLATE_ROWS = ("template", *(f"{n}_{j}" if n in _WIDE else n for n in _FLAT for j in range(_WIDE.get(n, 1))))
TEMPLATE_EDGES = ("template", "row", "succ")


def template_rows(index: int, block: Block) -> Columns:
    """Row columns of one template, wide ones spread."""
    out = {"template": np.full(block.rows, index, dtype=np.int64)}
    for name in _FLAT:
        column = getattr(block, name)
        if name in _WIDE:
            out.update({f"{name}_{j}": column[:, j].copy() for j in range(_WIDE[name])})
        else:
            out[name] = column
    return out


def template_edges(index: int, block: Block) -> Columns:
    """Edges of one template."""
    row = np.repeat(np.arange(block.rows, dtype=np.int64), np.diff(block.succ_ptr))
    return {"template": np.full(len(row), index, dtype=np.int64), "row": row, "succ": block.succ}


def split_templates(rows: Columns, edges: Columns) -> list[Block]:
    """Templates of the two tables, by number; those of a number that is not there have no rows."""
    count = int(rows["template"].max()) + 1 if len(rows["template"]) else 0
    cuts = []
    for table in (rows, edges):
        number = table["template"] if table else np.zeros(0, dtype=np.int64)
        if (number[1:] < number[:-1]).any():
            order = np.argsort(number, kind="stable")
            table.update({name: column[order] for name, column in table.items()})
            number = table["template"]
        cuts.append(np.searchsorted(number, np.arange(count + 1)).tolist())
    return [
        template_of(
            {name: column[cuts[0][i] : cuts[0][i + 1]] for name, column in rows.items()},
            {name: column[cuts[1][i] : cuts[1][i + 1]] for name, column in edges.items()},
        )
        for i in range(count)
    ]


def template_of(rows: Columns, edges: Columns) -> Block:
    """Inverse of :func:`template_rows` and :func:`template_edges` for one template."""
    columns = {}
    for name in _FLAT:
        if name in _WIDE:
            columns[name] = np.stack([rows[f"{name}_{j}"] for j in range(_WIDE[name])], axis=1)
        else:
            columns[name] = rows[name].copy()  # a template owns its columns, so that it is known again
    counts = np.bincount(edges["row"], minlength=len(rows["unit"]))
    ptr = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    return Block(**columns, succ_ptr=ptr, succ=edges["succ"].copy())


class Recorder:
    """Writes the script while a run goes on.

    It stays here until its templates have `KEEP_ROWS` rows; then it goes to `later`, if given.
    """

    def __init__(self, sink: Sink | None, later: Sink | None = None) -> None:
        self._later = later if sink is None else None
        self._known_rows = self._kept_rows = 0
        self.actions = Log("script", ACTION_LOG, sink)
        self.after = Log("script_after", ("block",), sink)
        self._rows = Log("script_rows", TEMPLATE_ROWS, sink)
        self._edges = Log("script_edges", TEMPLATE_EDGES, sink)
        self._known: dict[int, tuple[Block, int]] = {}
        self._templates: list[Block] = []
        self._count = 0
        self._keep = sink is None

    def template(self, block: Block) -> int:
        """Number of `block` among the templates; an object seen before is stored once. Its columns become read-only."""
        known = self._known.get(id(block))
        if known is not None:
            return known[1]
        kept = Block(*(column if column.flags.owndata else column.copy() for column in block))
        for column in kept:
            column.flags.writeable = False
        index, self._count = self._count, self._count + 1
        if kept[0] is block[0] and all(a is b for a, b in zip(kept, block)):
            self._known[id(block)] = (block, index)
            self._known_rows += kept.rows
        if self._keep:
            self._templates.append(kept)
            self._kept_rows += kept.rows
            if self._later is not None and self._kept_rows > KEEP_ROWS:
                self._overflow(self._later)
        else:
            self._write(index, kept)
            self._forget()
        return index

    @property
    def keeps(self) -> bool:
        """Whether the script is still here."""
        return self._keep

    def _write(self, index: int, block: Block) -> None:
        self._rows.extend(template_rows(index, block))
        self._edges.extend(template_edges(index, block))

    def _forget(self) -> None:
        """Forget the oldest templates; a block emitted again after that is written again."""
        while len(self._known) > KNOWN or self._known_rows > KEEP_ROWS:
            block, _ = self._known.pop(next(iter(self._known)))
            self._known_rows -= block.rows

    def _overflow(self, sink: Sink) -> None:
        """Hand the templates to `sink`, and from now on all that is recorded."""
        self._keep = False
        for log in (self.actions, self.after, self._rows, self._edges):
            log.sink = sink
        for index, block in enumerate(self._templates):
            self._write(index, block)
        self._templates.clear()
        self._forget()

    def flush(self) -> None:
        """Hand everything held to the sink."""
        for log in (self.actions, self.after, self._rows, self._edges):
            log.flush()

    def script(self, labels: Sequence[str], kinds: Sequence[str]) -> Script:
        """The script so far; where a sink took it, the sink has it."""
        if not self._keep:
            raise ScriptError("the script went to the sink in chunks; rebuild it with Script.from_tables")
        actions = self.actions.columns()
        return Script(actions, self.after.columns()["block"], tuple(self._templates), tuple(labels), tuple(kinds))
