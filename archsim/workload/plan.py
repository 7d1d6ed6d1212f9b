"""From operator graphs and a placement to blocks of task rows.

A pass is planned once for its size and kept as a template; what depends on the KV length (attention) is lowered for
the length at hand and patched into a copy. Equal operators are lowered once, whatever the layer. Layers that live in
flash get a read each, which takes a slot of the ring of layer buffers when it starts; the layer's last row gives the
slot back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import networkx as nx
import numpy as np

from archsim.device import MAX_POOLS, MAX_STORES, Device, OpKind, Ops, make_ops
from archsim.engine.sim import Block
from archsim.system import System
from archsim.workload.graph import layer_graph, pass_graph
from archsim.workload.model import ModelSpec
from archsim.workload.ops import kv_copy_ops, ops_of
from archsim.workload.optable import Lowered, OpTable


@dataclass(frozen=True)
class Placement:
    """Where the parts of one model live and run.

    `layers_on` and `head_on` are device names of the system in order of preference; the first that is there and runs
    an operator gets it. `ring` is the number of layer buffers that a reader of flash may fill ahead, `pinned` the
    number of layers, from the first, that DRAM holds (set from the job's DRAM budget). `shares` names the role whose
    weights this one computes with (the same model on other devices); they are not stored twice.
    """

    layers_in: Literal["dram", "flash"] = "dram"
    head_in: Literal["dram", "flash"] = "dram"
    layers_on: tuple[str, ...] = ("npu", "gpu", "cpu")
    head_on: tuple[str, ...] = ("cpu",)
    ring: int = 6
    pinned: int = 0
    shares: str = ""

    def within(self, model: ModelSpec, dram_fraction: float) -> Placement:
        """Placement under a DRAM budget: the first layers are pinned.

        With all layers pinned, or when the projection is the embedding table itself, the projection is in DRAM too.
        """
        pinned = round(dram_fraction * model.layers) if self.layers_in == "flash" else model.layers
        whole = pinned == model.layers
        head_in = "dram" if model.tied_embeddings or (whole and self.layers_in == "flash") else self.head_in
        return replace(self, layers_in="dram" if whole else "flash", head_in=head_in, pinned=pinned)

    @property
    def streams(self) -> bool:
        """Whether anything is read from flash in a pass."""
        return "flash" in (self.layers_in, self.head_in)


@dataclass(frozen=True)
class Pass:
    """One pass of a model: all that its plan depends on.

    Parameters
    ----------
    role, phase : str
        Whose model, and the phase of :mod:`archsim.workload.graph`.
    rows, kv : int
        Rows of the pass and cached rows before it.
    projected, leaves, depths
        See :func:`archsim.workload.ops.ops_of`; with ``projected=0`` the pass has no tail.
    spilled : int
        Cached rows that live in flash: every layer reads them back before its attention.
    first, last : int
        Layers ``first <= layer < last``; the look-up belongs to the first layer, the tail to the last.
    """

    role: str
    phase: str
    rows: int = 1
    kv: int = 0
    projected: int | None = None
    leaves: int = 1
    depths: tuple[int, ...] | None = None
    spilled: int = 0
    first: int = 0
    last: int | None = None


class Planned(NamedTuple):
    """A planned pass.

    `attention` are the rows whose columns depend on the cached length, in order; `names` and `ops` the operators in
    execution order, `spans` (int64 [n, 2]) the first and the last row of each.
    """

    block: Block
    attention: np.ndarray
    names: tuple[str, ...]
    ops: Ops
    spans: np.ndarray


#: Rows of a block and the values that some of its columns have there.
Patch = tuple[np.ndarray, Mapping[str, np.ndarray]]

#: As integers: members of an enumeration are slow to look up in a loop over operators.
_PROJECTION, _ATTENTION = int(OpKind.PROJECTION), int(OpKind.ATTENTION)
_SCALARS = ("unit", "weight", "lead", "work", "cap", "claim", "stream", "op")
COPIED = (*_SCALARS, "pool", "coef")


class _Rows:
    """Rows of a block under construction: lowered pieces in order, edges, store changes."""

    def __init__(self) -> None:
        self.pieces: list[Lowered] = []
        self.edges: list[tuple[int, int]] = []
        self.takes: list[tuple[int, int, int]] = []  # row that takes, row that gives, store
        self.count = 0

    def add(self, lowered: Lowered) -> tuple[int, int]:
        """Append the rows of one operator, chained; returns the first and the last."""
        first, last = self.count, self.count + len(lowered.op) - 1
        self.pieces.append(lowered)
        self.edges += [(row, row + 1) for row in range(first, last)]
        self.count = last + 1
        return first, last

    def block(self) -> Block:
        """Close with the join row."""
        n = self.count
        columns = {name: np.concatenate([getattr(piece, name) for piece in self.pieces]) for name in COPIED}
        columns = {name: np.concatenate([part, _JOIN[name]]) for name, part in columns.items()}
        store, start, end = (np.full((n + 1, MAX_STORES), fill, dtype=np.int64) for fill in (-1, 0, 0))
        heir = np.full(n + 1, -1, dtype=np.int64)
        for taker, giver, index in self.takes:
            store[taker, 0] = store[giver, 0] = index
            start[taker, 0], end[giver, 0], heir[taker] = 1, -1, giver
        edges = np.array(self.edges, dtype=np.int64).reshape(-1, 2)
        sinks = np.setdiff1d(np.arange(n), edges[:, 0])
        edges = np.concatenate([edges, np.stack([sinks, np.full(len(sinks), n)], axis=1)])
        pointer, successors = compressed(edges, n + 1)
        return Block(
            **columns,
            priority=np.zeros(n + 1, dtype=np.int64),
            store=store,
            store_start=start,
            store_end=end,
            store_mode=np.zeros((n + 1, MAX_STORES), dtype=np.int64),
            heir=heir,
            succ_ptr=pointer,
            succ=successors,
        )


_JOIN: dict[str, np.ndarray] = {name: np.zeros(1, dtype=np.int64) for name in _SCALARS} | {
    "unit": np.array([-1]),
    "weight": np.array([1]),
    "claim": np.array([-1]),
    "op": np.array([-1]),
    "pool": np.full((1, MAX_POOLS), -1, dtype=np.int64),
    "coef": np.zeros((1, MAX_POOLS), dtype=np.int64),
}


def compressed(edges: np.ndarray, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Edges as pairs to pointers and successors, sorted."""
    order = np.lexsort((edges[:, 1], edges[:, 0]))
    counts = np.bincount(edges[:, 0], minlength=rows)
    pointer = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return pointer, np.ascontiguousarray(edges[order, 1], dtype=np.int64)


def row_block(lowered: Lowered) -> Block:
    """Block of the rows of one operator, in a chain."""
    rows = _Rows()
    rows.add(lowered)
    return rows.block()


def patch(block: Block, patches: Sequence[Patch]) -> Block:
    """Copy of a block with other values in some rows; patches are applied in order."""
    if not patches:
        return block
    changed = {name: getattr(block, name).copy() for name in {name for _, columns in patches for name in columns}}
    for rows, columns in patches:
        for name, values in columns.items():
            changed[name][rows] = values
    return block._replace(**changed)


def chain(blocks: Sequence[Block]) -> Block:
    """One block that runs `blocks` one after the other."""
    if len(blocks) == 1:
        return blocks[0]
    offsets = np.cumsum([0] + [block.rows for block in blocks])
    edges, heirs = [], []
    for i, block in enumerate(blocks):
        source = np.repeat(np.arange(block.rows), np.diff(block.succ_ptr))
        edges.append(np.stack([source, block.succ], axis=1) + offsets[i])
        heirs.append(np.where(block.heir >= 0, block.heir + offsets[i], -1))
        if i:
            roots = np.setdiff1d(np.arange(block.rows), block.succ) + offsets[i]
            edges.append(np.stack([np.full(len(roots), offsets[i] - 1), roots], axis=1))
    pointer, successors = compressed(np.concatenate(edges), int(offsets[-1]))
    apart = ("succ", "succ_ptr", "heir")
    columns = {name: np.concatenate([getattr(b, name) for b in blocks]) for name in Block._fields if name not in apart}
    return Block(**columns, heir=np.concatenate(heirs), succ_ptr=pointer, succ=successors)


@dataclass
class Planner:
    """Plans passes of the models of a job.

    Parameters
    ----------
    system : System
        The machine.
    models : Mapping[str, ModelSpec]
        Models by role.
    placements : Mapping[str, Placement]
        Placement by role.
    rings : Mapping[str, int]
        Store id of each streamed role's ring of layer buffers.
    """

    system: System
    models: Mapping[str, ModelSpec]
    placements: Mapping[str, Placement]
    rings: Mapping[str, int]
    ops: OpTable = field(init=False)

    def __post_init__(self) -> None:
        self.ops = OpTable(self.system)
        self._templates: dict[Pass, Planned] = {}

    def block(self, asked: Pass) -> Block:
        """Plan one pass; the columns are not to be changed in place.

        Raises
        ------
        InputError
            When no device of the machine runs one of its operators.
        """
        _, plan = self.planned(asked)
        return patch(plan.block, self.attention(asked, plan))

    def planned(self, asked: Pass) -> tuple[Pass, Planned]:
        """Plan of a pass whose attention is to be patched for the length asked, and the pass it is kept under."""
        key = replace(asked, kv=0)
        if key not in self._templates:
            self._templates[key] = self._plan(asked)
        plan = self._templates[key]
        if not len(plan.attention):
            return key, plan
        layers, rest = divmod(len(plan.attention), len(self._attention(asked).op))
        if rest or layers != (asked.last or self.models[asked.role].layers) - asked.first:
            key = asked  # the device splits attention of this length into more or fewer rows
            if key not in self._templates:
                self._templates[key] = self._plan(asked)
        return key, self._templates[key]

    def attention(self, asked: Pass, plan: Planned) -> list[Patch]:
        """Columns of a plan's attention rows for the length asked."""
        if not len(plan.attention):
            return []
        lowered = self._attention(asked)
        layers = len(plan.attention) // len(lowered.op)
        return [(plan.attention, {name: np.concatenate([getattr(lowered, name)] * layers) for name in COPIED})]

    def _attention(self, asked: Pass) -> Lowered:
        names, ops = self._sizes(layer_graph(self.models[asked.role], asked.phase), asked)
        return self._lower(asked.role, "attn.attention", _pick(ops, names.index("attn.attention")), layer=0)

    def _sizes(self, graph: nx.DiGraph, asked: Pass) -> tuple[tuple[str, ...], Ops]:
        return ops_of(graph, asked.rows, asked.kv, asked.leaves, asked.depths, asked.projected)

    def _plan(self, asked: Pass) -> Planned:
        """Plan a pass afresh."""
        model, place = self.models[asked.role], self.placements[asked.role]
        last = model.layers if asked.last is None else asked.last
        tail = last == model.layers and asked.projected != 0
        graph = pass_graph(model, asked.phase, first=asked.first, last=last, embed=asked.first == 0, tail=tail)
        names, ops = self._sizes(graph, asked)
        rows, places, attention, lowered = _Rows(), {}, [], {}
        reads = dict.fromkeys(range(max(place.pinned, asked.first), last)) if place.layers_in == "flash" else {}
        head_bytes = _shares(model.head_bytes, model.layer_bytes) if tail and place.head_in == "flash" else []
        nodes, kinds = graph.nodes, ops.kind.tolist()
        for i, name in enumerate(names):
            layer, kind = nodes[name]["layer"], kinds[i]
            if reads.get(layer, ()) is None:
                reads[layer] = rows.add(self._read(asked.role, "layer.load", model.layer_bytes))
            if kind == _PROJECTION and head_bytes:
                places[name] = self._streamed_head(rows, asked.role, name, _pick(ops, i), head_bytes)
                continue
            if kind == _ATTENTION and asked.spilled:
                read = rows.add(self._read(asked.role, "attn.kv_load", asked.spilled * model.kv_row_bytes))
                inputs = [places[node][1] for node in graph.predecessors(f"layer{layer}.attn.norm")]
                rows.edges += [(row, read[0]) for row in inputs]
                rows.edges.append((read[1], rows.count))
            own = name.rpartition(f"layer{layer}.")[2]
            if own not in lowered:  # layers are equal: each operator is lowered for the first of them
                lowered[own] = self._lower(asked.role, own, _pick(ops, i), layer)
            places[name] = rows.add(lowered[own])
            if kind == _ATTENTION:
                attention += range(places[name][0], places[name][1] + 1)
        rows.edges += [(places[a][1], places[b][0]) for a, b in graph.edges]
        for layer, read in reads.items():
            self._feed(rows, asked.role, graph, layer, read, places)
        spans = np.array([places[name] for name in names], dtype=np.int64).reshape(-1, 2)
        return Planned(rows.block(), np.array(attention, dtype=np.int64), names, ops, spans)

    def _feed(
        self,
        rows: _Rows,
        role: str,
        graph: nx.DiGraph,
        layer: int,
        read: tuple[int, int],
        places: Mapping[str, tuple[int, int]],
    ) -> None:
        """Let a layer wait for its read, and give the ring slot back with the layer's output."""
        own = layer_graph(self.models[role], graph.graph["phase"]).graph
        rows.edges += [(read[1], places[f"layer{layer}.{name}"][0]) for name in own["inputs"]]
        rows.takes.append((read[0], places[f"layer{layer}.{own['output']}"][1], self.rings[role]))

    def _streamed_head(self, rows: _Rows, role: str, name: str, operator: Ops, sizes: Sequence[int]) -> tuple[int, int]:
        """Projection in column parts, each behind the read that brings its weights."""
        reads = [rows.add(self._read(role, "head.load", size)) for size in sizes]
        parts = operator._replace(parts=np.array([len(sizes)], dtype=np.int64))
        first, last = rows.add(self._lower(role, name, parts, layer=-1))
        for i, read in enumerate(reads):
            row = first + i * (last + 1 - first) // len(sizes)
            rows.edges.append((read[1], row))
            rows.takes.append((read[0], row, self.rings[role]))
        return first, last

    def copy(self, role: str, rows: int, cached: int = 0) -> Lowered:
        """Lower the copy of `rows` tokens' keys and values of all layers within DRAM.

        With `cached`, into a cache of that many rows in the layout of the device that runs the role's attention, where
        a token's key lies scattered: the lines that it touches are moved, not only its bytes.
        """
        model, device = self.models[role], self.device(role, OpKind.ATTENTION)
        ops = kv_copy_ops(model, rows)
        layout = getattr(device, "kv_update_bytes", None)
        if cached and layout is not None:
            each = layout(model.head_dim, cached, rows)
            size = np.array([each * model.kv_heads * model.layers], dtype=np.int64)
            ops = ops._replace(in_bytes=size, out_bytes=size)
        return self.ops.lower(self.system.having(OpKind.COPY), role, "merge", "kv.copy", ops)

    def _read(self, role: str, name: str, size: int) -> Lowered:
        ops = make_ops([{"kind": OpKind.LOAD, "weight_bytes": size}])
        return self.ops.lower(self.system.having(OpKind.LOAD), role, "io", name, ops)

    def _lower(self, role: str, name: str, ops: Ops, layer: int) -> Lowered:
        kind = OpKind(int(ops.kind[0]))
        head = layer < 0 and name.startswith("head.")
        phase = role if role in _OWN_PHASE else "projection" if head else "compute"
        return self.ops.lower(self.device(role, kind, head), role, phase, name, ops)

    def device(self, role: str, kind: OpKind, head: bool = False) -> Device:
        """Device that runs operators of `kind` for a role, by its placement; look-ups and sampling are the host's."""
        if kind in (OpKind.EMBED, OpKind.SAMPLE):
            return self.system.having(kind, "cpu", *self.placements[role].layers_on)
        place = self.placements[role]
        return self.system.having(kind, *(place.head_on if head else place.layers_on))


#: Roles whose work reports show under their own name.
_OWN_PHASE = ("draft", "preverify", "revision")


def _pick(ops: Ops, index: int) -> Ops:
    return Ops(*(column[index : index + 1] for column in ops))


def _shares(total: int, largest: int) -> list[int]:
    """Split a whole number into nearly equal ones of at most `largest`."""
    parts = -(-total // largest)
    return [total * (i + 1) // parts - total * i // parts for i in range(parts)]
