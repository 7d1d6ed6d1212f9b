"""From operator graphs and a placement to blocks of task rows.

A pass is one layer template tiled over the layers, plus what comes before and after. Templates are built once per
(role, phase, rows); what depends on the KV length (attention) is lowered for the length at hand and patched into a
copy. Layers that live in flash get a read each, which takes a slot of the ring of layer buffers when it starts; the
layer's last row gives the slot back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, NamedTuple

import networkx as nx
import numpy as np

from archsim.device import MAX_POOLS, MAX_STORES, DType, OpKind, Ops, make_ops
from archsim.engine.sim import Block
from archsim.system import System
from archsim.workload.graph import head_graph, layer_graph, tail_graph
from archsim.workload.model import ModelSpec
from archsim.workload.ops import ops_of
from archsim.workload.optable import Lowered, OpTable


@dataclass(frozen=True)
class Placement:
    """Where the parts of one model live and run (device names of the system).

    `layers_on` and `head_on` fall back to the CPU where the machine has no such device. `ring` is the number of layer
    buffers that a reader of flash may fill ahead; `pinned` the number of layers, from the first, that DRAM holds.
    """

    layers_in: Literal["dram", "flash"] = "dram"
    head_in: Literal["dram", "flash"] = "dram"
    layers_on: str = "npu"
    head_on: str = "cpu"
    ring: int = 6
    pinned: int = 0


class Segment(NamedTuple):
    """Rows of a piece of a block: columns of length n, edges as pairs, and the rows at its borders."""

    columns: dict[str, np.ndarray]
    edges: np.ndarray  # [e, 2] source and destination row
    inputs: np.ndarray  # rows that wait for the piece before
    outputs: np.ndarray  # rows the piece after waits for
    varying: dict[str, np.ndarray]  # operators that depend on the KV length -> their rows


_SCALARS = ("unit", "weight", "lead", "work", "cap", "claim", "stream", "op")


def _blank(n: int) -> dict[str, np.ndarray]:
    """Columns of n rows that do nothing."""
    columns = {name: np.zeros(n, dtype=np.int64) for name in (*_SCALARS, "priority")}
    columns["unit"][:] = -1
    columns["op"][:] = -1
    columns["claim"][:] = -1
    columns["weight"][:] = 1
    columns["pool"] = np.full((n, MAX_POOLS), -1, dtype=np.int64)
    columns["coef"] = np.zeros((n, MAX_POOLS), dtype=np.int64)
    columns["store"] = np.full((n, MAX_STORES), -1, dtype=np.int64)
    for name in ("store_start", "store_end", "store_mode"):
        columns[name] = np.zeros((n, MAX_STORES), dtype=np.int64)
    columns["heir"] = np.full(n, -1, dtype=np.int64)
    return columns


def _join(segments: Sequence[Segment]) -> Segment:
    """Concatenate segments; each waits for the one before."""
    offsets = np.cumsum([0] + [len(s.columns["unit"]) for s in segments])
    columns = {name: np.concatenate([s.columns[name] for s in segments]) for name in segments[0].columns}
    heir = columns["heir"]
    edges, varying = [], {}
    for i, segment in enumerate(segments):
        rows = slice(offsets[i], offsets[i + 1])
        heir[rows] = np.where(heir[rows] >= 0, heir[rows] + offsets[i], -1)
        edges.append(segment.edges + offsets[i])
        for name, where in segment.varying.items():
            varying.setdefault(name, []).append(where + offsets[i])
    for i, (before, after) in enumerate(pairwise(segments)):
        pairs = np.stack(np.meshgrid(before.outputs + offsets[i], after.inputs + offsets[i + 1]), axis=-1)
        edges.append(pairs.reshape(-1, 2))
    return Segment(
        columns,
        np.concatenate(edges),
        segments[0].inputs,
        segments[-1].outputs + offsets[-2],
        {name: np.concatenate(parts) for name, parts in varying.items()},
    )


def to_block(segment: Segment) -> Block:
    """Close a segment with its join row and bring its edges into compressed form."""
    n = len(segment.columns["unit"])
    sinks = np.setdiff1d(np.arange(n), segment.edges[:, 0])
    edges = np.concatenate([segment.edges, np.stack([sinks, np.full(len(sinks), n)], axis=1)])
    order = np.lexsort((edges[:, 1], edges[:, 0]))
    counts = np.bincount(edges[:, 0], minlength=n + 1)
    end = _blank(1)
    columns = {name: np.ascontiguousarray(np.concatenate([part, end[name]])) for name, part in segment.columns.items()}
    return Block(
        **columns,
        succ_ptr=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        succ=np.ascontiguousarray(edges[order, 1], dtype=np.int64),
    )


def row_block(lowered: Lowered) -> Block:
    """Block of the rows of one operator, in a chain."""
    n = len(lowered.op)
    columns = _blank(n)
    for name in (*_SCALARS, "pool", "coef"):
        columns[name] = getattr(lowered, name)
    ends = np.arange(n - 1)
    return to_block(Segment(columns, np.stack([ends, ends + 1], axis=1), np.array([0]), np.array([n - 1]), {}))


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
        self._templates: dict[tuple[object, ...], tuple[Block, dict[str, np.ndarray]]] = {}

    def block(
        self,
        role: str,
        phase: str,
        rows: int,
        kv: int,
        *,
        projected: int | None = None,
        leaves: int = 1,
        depths: tuple[int, ...] | None = None,
        spilled: int = 0,
    ) -> Block:
        """Plan one pass.

        Parameters
        ----------
        role, phase : str
            Whose model, and the phase of :mod:`archsim.workload.graph`.
        rows, kv : int
            Rows of the pass and cached rows before it.
        projected, leaves, depths
            See :func:`archsim.workload.ops.ops_of`.
        spilled : int
            Cached rows that live in flash: every layer reads them back before its attention.

        Returns
        -------
        Block
            Columns the engine takes; not to be changed in place.
        """
        key = (role, phase, rows, projected, leaves, depths, spilled)
        if key not in self._templates:
            segment = self._pass(role, phase, rows, kv, projected, leaves, depths, spilled)
            self._templates[key] = (to_block(segment), segment.varying)
        block, varying = self._templates[key]
        if not varying:
            return block
        return self._at(block, varying, role, phase, rows, kv, projected, leaves, depths, spilled)

    def chain(self, blocks: Sequence[Block]) -> Block:
        """One block that runs `blocks` one after the other."""
        if len(blocks) == 1:
            return blocks[0]
        offsets = np.cumsum([0] + [len(b.unit) for b in blocks])
        edges, heirs = [], []
        for i, block in enumerate(blocks):
            source = np.repeat(np.arange(len(block.unit)), np.diff(block.succ_ptr))
            edges.append(np.stack([source, block.succ], axis=1) + offsets[i])
            heirs.append(np.where(block.heir >= 0, block.heir + offsets[i], -1))
            if i + 1 < len(blocks):
                after = blocks[i + 1]
                roots = np.setdiff1d(np.arange(len(after.unit)), after.succ)
                edges.append(np.stack([np.full(len(roots), offsets[i + 1] - 1), roots + offsets[i + 1]], axis=1))
        joined = np.concatenate(edges)
        order = np.lexsort((joined[:, 1], joined[:, 0]))
        counts = np.bincount(joined[:, 0], minlength=offsets[-1])
        columns = {
            name: np.concatenate([getattr(b, name) for b in blocks])
            for name in Block._fields
            if name not in ("succ", "succ_ptr", "heir")
        }
        return Block(
            **columns,
            heir=np.concatenate(heirs),
            succ_ptr=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            succ=np.ascontiguousarray(joined[order, 1], dtype=np.int64),
        )

    def _at(
        self,
        block: Block,
        varying: dict[str, np.ndarray],
        role: str,
        phase: str,
        rows: int,
        kv: int,
        projected: int | None,
        leaves: int,
        depths: tuple[int, ...] | None,
        spilled: int,
    ) -> Block:
        """Copy a template with its KV-dependent rows lowered for `kv` cached rows."""
        graph = layer_graph(self.models[role], phase)
        names, ops = ops_of(graph, rows, kv, leaves, depths)
        changed = {name: getattr(block, name).copy() for name in (*_SCALARS, "pool", "coef")}
        for name, where in varying.items():
            lowered = self._lower(role, name, _pick(ops, names.index(name)), "layers")
            times = self.models[role].layers
            if times * len(lowered.op) != len(where):  # the device splits this length differently: plan it afresh
                return to_block(self._pass(role, phase, rows, kv, projected, leaves, depths, spilled))
            for column in _SCALARS:
                changed[column][where] = np.tile(getattr(lowered, column), times)
            for column in ("pool", "coef"):
                changed[column][where] = np.tile(getattr(lowered, column), (times, 1))
        return block._replace(**changed)

    def _pass(
        self,
        role: str,
        phase: str,
        rows: int,
        kv: int,
        projected: int | None,
        leaves: int,
        depths: tuple[int, ...] | None,
        spilled: int,
    ) -> Segment:
        model, place = self.models[role], self.placements[role]
        pieces = [self._piece(role, head_graph(model, phase), rows, kv, leaves, depths, projected, "embed")]
        layer = self._piece(role, layer_graph(model, phase), rows, kv, leaves, depths, projected, "layers")
        streamed = layer
        if place.layers_in == "flash":
            streamed = self._behind_load(role, layer, [model.layer_bytes], "layer.load")
        if spilled:
            layer, streamed = (
                self._with_kv_load(role, piece, spilled * model.kv_row_bytes) for piece in (layer, streamed)
            )
        pinned = place.pinned if place.layers_in == "flash" else model.layers
        pieces += [layer] * pinned + [streamed] * (model.layers - pinned)
        tail = tail_graph(model, phase)
        if place.head_in == "flash":
            sizes = _shares(model.head_bytes, -(-model.head_bytes // model.layer_bytes))
            pieces.append(self._piece(role, tail, rows, kv, leaves, depths, projected, "head", sizes))
        else:
            pieces.append(self._piece(role, tail, rows, kv, leaves, depths, projected, "head"))
        return _join([piece for piece in pieces if len(piece.columns["unit"])])

    def _piece(
        self,
        role: str,
        graph: nx.DiGraph,
        rows: int,
        kv: int,
        leaves: int,
        depths: tuple[int, ...] | None,
        projected: int | None,
        part: str,
        loads: Sequence[int] = (),
    ) -> Segment:
        """Lower the operators of one graph; `loads` are the reads (bytes) that feed its projection, in order."""
        names, ops = ops_of(graph, rows, kv, leaves, depths, projected)
        if not names:
            return Segment(_blank(0), np.empty((0, 2), dtype=np.int64), *(np.empty(0, dtype=np.int64),) * 2, {})
        if loads:
            parts = np.where(ops.kind == OpKind.PROJECTION, len(loads), ops.parts)
            ops = ops._replace(parts=parts)
        lowered = [self._lower(role, name, _pick(ops, i), part) for i, name in enumerate(names)]
        starts = np.cumsum([0] + [len(piece.op) for piece in lowered])
        columns = _blank(int(starts[-1]))
        for name in (*_SCALARS, "pool", "coef"):
            columns[name] = np.concatenate([getattr(piece, name) for piece in lowered])
        place = {name: i for i, name in enumerate(names)}
        edges = [(row, row + 1) for i in range(len(names)) for row in range(starts[i], starts[i + 1] - 1)]
        edges += [(starts[place[a] + 1] - 1, starts[place[b]]) for a, b in graph.edges]
        inputs = graph.graph["inputs"] or tuple(node for node in graph if not graph.in_degree(node))
        output = graph.graph["output"] or names[-1]
        segment = Segment(
            columns,
            np.array(edges, dtype=np.int64).reshape(-1, 2),
            np.array([starts[place[node]] for node in inputs], dtype=np.int64),
            np.array([starts[place[output] + 1] - 1], dtype=np.int64),
            {
                name: np.arange(starts[i], starts[i + 1])
                for i, name in enumerate(names)
                if ops.kind[i] == OpKind.ATTENTION
            },
        )
        if not loads:
            return segment
        first = int(starts[int(np.flatnonzero(ops.kind == OpKind.PROJECTION)[0])])
        return self._behind_load(role, segment, loads, "head.load", first)

    def _behind_load(self, role: str, segment: Segment, sizes: Sequence[int], name: str, first: int = -1) -> Segment:
        """Put reads of `sizes` bytes before a segment.

        With one read the whole segment waits for it and its output row gives the ring slot back; with several, read i
        feeds the i-th row from row `first` on.
        """
        ops = make_ops([{"kind": OpKind.LOAD, "weight_bytes": size, "wdtype": int(DType.Q4_0)} for size in sizes])
        reads = [self._lower(role, name, _pick(ops, i), "io") for i in range(len(sizes))]
        counts = [len(read.op) for read in reads]
        shift = sum(counts)
        columns = _blank(shift)
        for column in (*_SCALARS, "pool", "coef"):
            columns[column] = np.concatenate([getattr(read, column) for read in reads])
        merged = {key: np.concatenate([columns[key], segment.columns[key]]) for key in columns}
        edges = [segment.edges + shift]
        start = 0
        for i, count in enumerate(counts):
            stop = start + count
            feeds = segment.inputs + shift if first < 0 else np.array([first + i + shift])
            last = int(segment.outputs[0]) + shift if first < 0 else first + i + shift
            chain = np.stack([np.arange(start, stop - 1), np.arange(start + 1, stop)], axis=1)
            edges += [chain, np.stack([np.full(len(feeds), stop - 1), feeds], axis=1)]
            merged["store"][start, 0] = merged["store"][last, 0] = self.rings[role]
            merged["store_start"][start, 0] = 1
            merged["store_end"][last, 0] = -1
            merged["heir"][start] = last
            start = stop
        return Segment(
            merged,
            np.concatenate(edges),
            segment.inputs + shift,
            segment.outputs + shift,
            {key: rows + shift for key, rows in segment.varying.items()},
        )

    def _with_kv_load(self, role: str, segment: Segment, size: int) -> Segment:
        """Let a layer read `size` bytes of spilled KV rows beside its first matrices; attention waits for them."""
        ops = make_ops([{"kind": OpKind.LOAD, "weight_bytes": size}])
        read = self._lower(role, "attn.kv_load", ops, "io")
        shift = len(read.op)
        columns = _blank(shift)
        for column in (*_SCALARS, "pool", "coef"):
            columns[column] = getattr(read, column)
        merged = {key: np.concatenate([columns[key], segment.columns[key]]) for key in columns}
        merged["heir"][shift:] = np.where(segment.columns["heir"] >= 0, segment.columns["heir"] + shift, -1)
        attention = segment.varying["attn.attention"] + shift
        chain = np.stack([np.arange(shift), np.append(np.arange(1, shift), attention[0])], axis=1)
        return Segment(
            merged,
            np.concatenate([segment.edges + shift, chain]),
            np.append(segment.inputs + shift, 0),
            segment.outputs + shift,
            {key: rows + shift for key, rows in segment.varying.items()},
        )

    def _lower(self, role: str, name: str, ops: Ops, part: str) -> Lowered:
        place = self.placements[role]
        kind = OpKind(int(ops.kind[0]))
        if part == "io":
            device = self.system.having(kind)
        elif part == "embed" or kind == OpKind.SAMPLE:
            device = self.system.having(kind, "cpu")
        else:
            device = self.system.having(kind, place.head_on if part == "head" else place.layers_on, "cpu")
        phase = "draft" if role == "draft" else {"io": "io", "head": "projection"}.get(part, "compute")
        return self.ops.lower(device, role, phase, name, ops)


def _pick(ops: Ops, index: int) -> Ops:
    return Ops(*(column[index : index + 1] for column in ops))


def _shares(total: int, parts: int) -> list[int]:
    """Split a whole number into `parts` nearly equal ones."""
    return [total * (i + 1) // parts - total * i // parts for i in range(parts)]
