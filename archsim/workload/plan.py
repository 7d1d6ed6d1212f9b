"""From operator graphs and a placement to blocks of task rows.

A pass is planned once for its size and kept as a template; what depends on the KV length (attention) is lowered for
the length at hand and patched into a copy. Equal operators are lowered once, whatever the layer. Layers that live in
flash get a read each, which takes a slot of the ring of layer buffers when it starts; the layer's last row gives the
slot back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import networkx as nx
import numpy as np

from archsim.config import InputError
from archsim.device import MAX_POOLS, MAX_STORES, Device, OpKind, Ops, make_ops
from archsim.engine.sim import Block
from archsim.system import System
from archsim.workload.graph import layer_graph, pass_graph
from archsim.workload.model import ModelSpec
from archsim.workload.ops import ops_of
from archsim.workload.optable import Lowered, OpTable


@dataclass(frozen=True)
class Placement:
    """Where the parts of one model live and run.

    `layers_on` and `head_on` are device names of the system in order of preference; the first that is there and runs
    an operator gets it; `batch_on` takes the place of `layers_on` in batched passes. `ring` is the number of layer
    buffers that a reader of flash may fill ahead, `pinned` the number of layers, from the first, that DRAM holds (set
    from the job's DRAM budget). `shares` names the role whose weights this one computes with (the same model on other
    devices); they are not stored twice. With `uncached_logits` the CPU reads logits that another device wrote past its
    caches.
    """

    layers_in: Literal["dram", "flash"] = "dram"
    head_in: Literal["dram", "flash"] = "dram"
    layers_on: tuple[str, ...] = ("npu", "gpu", "cpu")
    head_on: tuple[str, ...] = ("cpu",)
    batch_on: tuple[str, ...] = ()
    ring: int = 6
    pinned: int = 0
    shares: str = ""
    uncached_logits: bool = False

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
    reads : str
        ``own``: the block reads the flash-resident layers that it runs. ``ahead``: it is these reads alone, which may
        run while a policy decides. ``landed``: it waits, layer by layer, for the reads of an ``ahead`` block.
    batched : bool
        Whether it runs where the placement's ``batch_on`` says.
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
    reads: Literal["own", "ahead", "landed"] = "own"
    batched: bool = False


_SCALARS = ("unit", "weight", "lead", "work", "cap", "claim", "stream", "op")
_COPIED = (*_SCALARS, "pool", "coef")
_RECENT = 1024  # planned blocks kept; a verification's is about 100 kB


class _Rows:
    """Rows of a block under construction: lowered pieces in order, edges, store changes."""

    def __init__(self) -> None:
        self.pieces: list[Lowered] = []
        self.edges: list[tuple[int, int]] = []
        self.takes: list[tuple[int, int, int]] = []  # row that takes, row that gives, store
        self.levels: list[tuple[int, int, int, int, int]] = []  # row, slot, store, change at start and at end
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
        columns = {name: np.concatenate([getattr(piece, name) for piece in self.pieces]) for name in _COPIED}
        columns = {name: np.concatenate([part, _JOIN[name]]) for name, part in columns.items()}
        store, start, end = (np.full((n + 1, MAX_STORES), fill, dtype=np.int64) for fill in (-1, 0, 0))
        heir = np.full(n + 1, -1, dtype=np.int64)
        for taker, giver, index in self.takes:
            store[taker, 0] = store[giver, 0] = index
            start[taker, 0], end[giver, 0], heir[taker] = 1, -1, giver
        for row, slot, index, at_start, at_end in self.levels:
            store[row, slot], start[row, slot], end[row, slot] = index, at_start, at_end
        edges = np.array(self.edges, dtype=np.int64).reshape(-1, 2)
        sinks = np.setdiff1d(np.arange(n), edges[:, 0])
        edges = np.concatenate([edges, np.stack([sinks, np.full(len(sinks), n)], axis=1)])
        pointer, successors = _compressed(edges, n + 1)
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


def _compressed(edges: np.ndarray, rows: int) -> tuple[np.ndarray, np.ndarray]:
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
    pointer, successors = _compressed(np.concatenate(edges), int(offsets[-1]))
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
    landed : Mapping[str, int]
        Store id of each streamed role's count of layers read and not yet begun.
    """

    system: System
    models: Mapping[str, ModelSpec]
    placements: Mapping[str, Placement]
    rings: Mapping[str, int]
    landed: Mapping[str, int] = field(default_factory=dict)
    ops: OpTable = field(init=False)

    def __post_init__(self) -> None:
        self.ops = OpTable(self.system)
        self._templates: dict[Pass, tuple[Block, np.ndarray]] = {}
        self._recent: dict[Pass, Block] = {}

    def block(self, asked: Pass) -> Block:
        """Plan one pass; the columns are not to be changed in place.

        Raises
        ------
        InputError
            When no device of the machine runs one of its operators.
        """
        block = self._recent.get(asked)
        if block is None:
            block = self._block(asked)
            if len(self._recent) >= _RECENT:
                del self._recent[next(iter(self._recent))]
            self._recent[asked] = block
        return block

    def _block(self, asked: Pass) -> Block:
        key = replace(asked, kv=0)
        if key not in self._templates:
            self._templates[key] = self._plan_reads(asked) if asked.reads == "ahead" else self._plan(asked)
        block, attention = self._templates[key]
        if not len(attention):
            return block
        names, ops = self._sizes(layer_graph(self.models[asked.role], asked.phase), asked)
        lowered = self._lower(asked, "attn.attention", _pick(ops, names.index("attn.attention")), layer=0)
        layers, rest = divmod(len(attention), len(lowered.op))
        if rest or layers != (asked.last or self.models[asked.role].layers) - asked.first:
            return self._plan(asked)[0]  # the device splits attention of this length into more or fewer rows
        changed = {name: getattr(block, name).copy() for name in _COPIED}
        for name, column in changed.items():
            column[attention] = np.concatenate([getattr(lowered, name)] * layers)
        return block._replace(**changed)

    def _sizes(self, graph: nx.DiGraph, asked: Pass) -> tuple[tuple[str, ...], Ops]:
        return ops_of(graph, asked.rows, asked.kv, asked.leaves, asked.depths, asked.projected)

    def _plan(self, asked: Pass) -> tuple[Block, np.ndarray]:
        """Block of a pass, and its attention rows in order."""
        model, place = self.models[asked.role], self.placements[asked.role]
        last = model.layers if asked.last is None else asked.last
        tail = last == model.layers and asked.projected != 0
        graph = pass_graph(model, asked.phase, first=asked.first, last=last, embed=asked.first == 0, tail=tail)
        names, ops = self._sizes(graph, asked)
        rows, places, attention = _Rows(), {}, []
        streamed = self._streamed(asked)
        reads = dict.fromkeys(streamed if asked.reads == "own" else ())
        streamed_head = tail and place.head_in == "flash"
        for i, name in enumerate(names):
            layer = graph.nodes[name]["layer"]
            if reads.get(layer, ()) is None:
                reads[layer] = rows.add(self._read(asked.role, "layer.load", model.layer_bytes))
            operator = _pick(ops, i)
            if ops.kind[i] == OpKind.PROJECTION and streamed_head:
                places[name] = self._streamed_head(rows, asked, name, operator)
                continue
            if ops.kind[i] == OpKind.ATTENTION and asked.spilled:
                read = rows.add(self._read(asked.role, "attn.kv_load", asked.spilled * model.kv_row_bytes))
                inputs = [places[node][1] for node in graph.predecessors(f"layer{layer}.attn.norm")]
                rows.edges += [(row, read[0]) for row in inputs]
                rows.edges.append((read[1], rows.count))
            places[name] = rows.add(self._lower(asked, name.rpartition(f"layer{layer}.")[2], operator, layer))
            if ops.kind[i] == OpKind.ATTENTION:
                attention += range(places[name][0], places[name][1] + 1)
        rows.edges += [(places[a][1], places[b][0]) for a, b in graph.edges]
        for layer, read in reads.items():
            self._feed(rows, asked.role, graph, layer, read, places)
        if asked.reads == "landed":
            own = layer_graph(model, asked.phase).graph
            for layer in streamed:
                begin, end = places[f"layer{layer}.{own['inputs'][0]}"][0], places[f"layer{layer}.{own['output']}"][1]
                rows.levels.append((begin, 0, self.landed[asked.role], -1, 0))
                rows.levels.append((end, 0, self.rings[asked.role], 0, -1))
        return rows.block(), np.array(attention, dtype=np.int64)

    def _streamed(self, asked: Pass) -> range:
        """Layers of a pass that are read from flash."""
        place, layers = self.placements[asked.role], self.models[asked.role].layers
        last = layers if asked.last is None else asked.last
        return range(max(place.pinned, asked.first) if place.layers_in == "flash" else last, last)

    def _plan_reads(self, asked: Pass) -> tuple[Block, np.ndarray]:
        """Block of a pass's reads alone: each takes a slot of the ring, and counts as landed when it ends."""
        rows, size = _Rows(), self.models[asked.role].layer_bytes
        for _ in self._streamed(asked):
            first, last = rows.add(self._read(asked.role, "layer.load", size))
            rows.levels.append((first, 0, self.rings[asked.role], 1, 0))
            rows.levels.append((last, 1, self.landed[asked.role], 0, 1))
        return rows.block(), np.empty(0, dtype=np.int64)

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

    def _streamed_head(self, rows: _Rows, asked: Pass, name: str, operator: Ops) -> tuple[int, int]:
        """Projection behind the read of its weights, which have a buffer of their own.

        It is one operator of the NPU's graph, so it begins when all of them are there.
        """
        read = rows.add(self._read(asked.role, "head.load", self.models[asked.role].head_bytes))
        first, last = rows.add(self._lower(asked, name, operator, layer=-1))
        rows.edges.append((read[1], first))
        return first, last

    def _read(self, role: str, name: str, size: int) -> Lowered:
        ops = make_ops([{"kind": OpKind.LOAD, "weight_bytes": size}])
        return self.ops.lower(self.system.having(OpKind.LOAD), role, "io", name, ops)

    def _lower(self, asked: Pass, name: str, ops: Ops, layer: int) -> Lowered:
        role, kind = asked.role, OpKind(int(ops.kind[0]))
        head = layer < 0 and name.startswith("head.")
        phase = role if role in _OWN_PHASE else "projection" if head else "compute"
        device = self.device(role, kind, head, asked.batched)
        apart = self.placements[role].uncached_logits and kind == OpKind.SAMPLE
        if apart and self.device(role, OpKind.PROJECTION, True, asked.batched) is not device:
            ops = ops._replace(n=np.ones(1, dtype=np.int64))  # another device wrote the logits
        if kind == OpKind.PROJECTION and head:
            return self._project(device, asked, phase, name, ops)
        return self.ops.lower(device, role, phase, name, ops)

    def _project(self, first: Device, asked: Pass, phase: str, name: str, ops: Ops) -> Lowered:
        """Projection on the first device of the placement whose kernels take one of that size."""
        kind, refused = OpKind.PROJECTION, None
        others = [self.system.devices.get(other) for other in self.placements[asked.role].head_on]
        for device in dict.fromkeys((first, *others)):
            if device is None or kind not in device.ops:
                continue
            try:
                return self.ops.lower(device, asked.role, phase, name, ops)
            except InputError as error:
                refused = refused or error
        assert refused is not None  # the first device was tried
        raise refused

    def device(self, role: str, kind: OpKind, head: bool = False, batched: bool = False) -> Device:
        """Device that runs operators of `kind` for a role, by its placement; look-ups and sampling are the host's."""
        place = self.placements[role]
        if kind in (OpKind.EMBED, OpKind.SAMPLE):
            return self.system.having(kind, "cpu", *place.layers_on)
        if head:
            return self.system.having(kind, *place.head_on)
        return self.system.having(kind, *(place.batch_on if batched and place.batch_on else place.layers_on))


#: Roles whose work reports show under their own name.
_OWN_PHASE = ("draft", "preverify")


def _pick(ops: Ops, index: int) -> Ops:
    return Ops(*(column[index : index + 1] for column in ops))
