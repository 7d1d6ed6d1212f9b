"""From operator graphs and a placement to blocks of task rows.

A pass is planned once for its size and kept as a template; what depends on the KV length (attention) is lowered for
the length at hand and patched into a copy. Equal operators are lowered once, whatever the layer. Layers that live in
flash get a read each, which takes a slot of the ring of layer buffers when it starts; the layer's last row gives the
slot back.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import networkx as nx
import numpy as np

from archsim.config import InputError
from archsim.device import Device, OpKind, Ops, make_ops
from archsim.engine.sim import Block
from archsim.system import System
from archsim.workload.blocks import COPIED, BlockRows, Patch, forked
from archsim.workload.graph import layer_graph, pass_graph
from archsim.workload.model import ModelSpec
from archsim.workload.ops import columns_of, joined, kv_copy_ops, operator_of, ops_of, pick
from archsim.workload.optable import Lowered, OpTable
from archsim.workload.passes import Pass, Placement
from archsim.workload.recent import Recent
from archsim.workload.templates import ATTENTION, Planned, Series, Sized, Skeleton, series_of, skeleton_of

__all__ = ["COLUMN_SHARES", "OWN_PHASE", "Pass", "Placement", "Planner"]


#: Parts of a product's columns that :attr:`Pass.beside` counts.
COLUMN_SHARES = 1024
#: Roles whose whole work is a phase of its own in reports.
OWN_PHASE = frozenset({"draft", "revision", "preverify"})


#: As integers: members of an enumeration are slow to look up in a loop over operators.
_PROJECTION, _ATTENTION = int(OpKind.PROJECTION), int(OpKind.ATTENTION)
#: What is not always lowered as it is, or where it was placed; a pass ends with these.
_APART = frozenset({_PROJECTION, int(OpKind.SAMPLE)})


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
        self._templates: Recent[Planned | Sized] = Recent()
        self._skeletons: dict[Pass, Skeleton] = {}
        self._attentions: Recent[Lowered] = Recent()
        self._reads: dict[tuple[str, str, int], Lowered] = {}
        self._series: Recent[Series] = Recent()
        self._blocks: Recent[Block] = Recent()  # what they share with their template is not copied

    def block(self, asked: Pass) -> Block:
        """Plan one pass; the columns are not to be changed in place.

        Raises
        ------
        InputError
            When no device of the machine runs one of its operators.
        """
        block = self._blocks.get(asked)
        if block is None:
            key, found, lowered = self._found(asked)
            if isinstance(found, Sized):
                block = found.block(lowered)
            else:
                block = found.block if lowered is None else self._in_series([(key, found, lowered)])
            self._blocks.keep(asked, block, block.rows)
        return block

    def chained(self, passes: Sequence[Pass]) -> Block:
        """Plan passes that run one after the other; see :meth:`block`."""
        if len(passes) == 1:
            return self.block(passes[0])
        self._lower_ahead(passes)
        return self._in_series([self._found(asked) for asked in passes])

    def _lower_ahead(self, passes: Sequence[Pass]) -> None:
        """Lower the attention of passes in one go, up to one that is to be planned first."""
        fresh = {}
        for asked in passes:
            plan = self._templates.get(asked.shape)
            if plan is None or (asked.role, asked.batched) != (passes[0].role, passes[0].batched):
                break
            if len(plan.attention) and self._attentions.get(asked) is None:
                fresh[asked] = None
        if fresh:
            self._lower_attention(list(fresh))

    def _in_series(self, found: Sequence[tuple[Hashable, Planned | Sized, Lowered | None]]) -> Block:
        """Block of plans one after the other, each with its attention; what they are but for that is kept."""
        key = tuple((one, len(list(times))) for one, times in itertools.groupby(key for key, *_ in found))
        series = self._series.get(key)
        if series is None:
            plans = [plan.planned() if isinstance(plan, Sized) else plan for _, plan, _ in found]
            series = series_of(plans, [0 if lowered is None else len(lowered.op) for *_, lowered in found])
            self._series.keep(key, series, series.block.rows)
        return series.with_attention([lowered for *_, lowered in found if lowered is not None])

    def planned(self, asked: Pass) -> tuple[Hashable, Planned]:
        """Plan of a pass whose attention is to be patched for the length asked, and the key it is kept under."""
        key, found, _ = self._found(asked)
        return key, found.planned() if isinstance(found, Sized) else found

    def _found(self, asked: Pass) -> tuple[Hashable, Planned | Sized, Lowered | None]:
        """What is kept for a pass, the key it is kept under, and a layer's attention for the length asked, if any."""
        key: Hashable = asked.shape
        found = self._template(key, asked)
        if not len(found.attention):
            return key, found, None
        lowered = self._attention(asked)
        layers = (asked.last or self.models[asked.role].layers) - asked.first
        if len(found.attention) != layers * len(lowered.op):
            key = key, len(lowered.op)  # the device splits attention of this length into more or fewer rows
            found = self._template(key, asked)
        return key, found, lowered

    def _template(self, key: Hashable, asked: Pass) -> Planned | Sized:
        found = self._templates.get(key)
        if found is None:
            found = self._plan_reads(asked) if asked.reads == "ahead" else self._plan(asked)
            self._templates.keep(key, found, found.rows)
        return found

    def attention(self, asked: Pass, plan: Planned) -> list[Patch]:
        """Columns of a plan's attention rows for the length asked."""
        if not len(plan.attention):
            return []
        lowered = self._attention(asked)
        layers = len(plan.attention) // len(lowered.op)
        first = plan.attention[: len(lowered.op)]
        changed = [
            name for name in COPIED if not np.array_equal(getattr(plan.block, name)[first], getattr(lowered, name))
        ]
        return [(plan.attention, {name: np.concatenate([getattr(lowered, name)] * layers) for name in changed})]

    def _attention(self, asked: Pass) -> Lowered:
        return self._attentions.get(asked) or self._lower_attention([asked])[0]

    def _lower_attention(self, passes: Sequence[Pass]) -> list[Lowered]:
        """Lower the attention of passes of one role in one go."""
        one = passes[0]
        device, phase = self._where(one, OpKind.ATTENTION, head=False)
        ops = [
            operator_of(layer_graph(self.models[one.role], own), ATTENTION, list(alike))
            for own, alike in itertools.groupby(passes, lambda asked: asked.phase)
        ]
        where = [(device, one.role, phase, ATTENTION)] * len(passes)
        lowered = self.ops.lower_many(where, joined(ops) if len(ops) > 1 else ops[0])
        for asked, rows in zip(passes, lowered, strict=True):
            self._attentions.keep(asked, rows, len(rows.op))
        return lowered

    def _lower_sized(self, asked: Pass, firsts: Sequence[tuple[int, str, int]], ops: Ops) -> list[Lowered]:
        """Rows of a pass's operators, made in one go for each device up to those of the tail."""
        where, picked = self._together(asked, firsts, ops)
        rest = firsts[len(where) :]
        return self.ops.lower_many(where, picked) + [
            self._divided(asked, own, pick(ops, i), layer)[0] for i, own, layer in rest
        ]

    def _together(
        self, asked: Pass, firsts: Sequence[tuple[int, str, int]], ops: Ops
    ) -> tuple[list[tuple[Device, str, str, str]], Ops]:
        """Where the leading ones of a pass's operators run that are lowered as they are, and their columns."""
        where, index = [], []
        for i, name, layer in firsts if not asked.beside else ():
            kind = int(ops.kind[i])
            if kind in _APART:
                break
            device, phase = self._where(asked, OpKind(kind), head=layer < 0 and name.startswith("head."))
            where.append((device, asked.role, phase, name))
            index.append(i)
        return where, Ops._make([column[index] for column in ops])

    def _sizes(self, graph: nx.DiGraph, asked: Pass) -> tuple[tuple[str, ...], Ops]:
        return ops_of(graph, asked.rows, asked.kv, asked.leaves, asked.depths, asked.projected)

    def _plan(self, asked: Pass) -> Planned | Sized:
        """Plan a pass afresh, or fill the skeleton of an equal one of another size."""
        model, place = self.models[asked.role], self.placements[asked.role]
        last = model.layers if asked.last is None else asked.last
        tail = last == model.layers and asked.projected != 0
        graph = pass_graph(model, asked.phase, first=asked.first, last=last, embed=asked.first == 0, tail=tail)
        names, ops = self._sizes(graph, asked)
        shape = replace(asked, rows=1, kv=0, leaves=1, depths=None, projected=None if tail else asked.projected)
        skeleton = self._skeletons.get(shape)
        if skeleton is not None:
            pieces = self._lower_sized(asked, skeleton.firsts, ops)
            if [len(piece.op) for piece in pieces] == skeleton.lengths:
                return skeleton.sized(pieces, names, ops)
        planned, lowered = self._fresh_plan(asked, graph, names, ops, tail)
        if not place.streams and not asked.spilled:
            self._skeletons[shape] = skeleton_of(graph, lowered, planned)
        return planned

    def _fresh_plan(
        self, asked: Pass, graph: nx.DiGraph, names: tuple[str, ...], ops: Ops, tail: bool
    ) -> tuple[Planned, dict[str, tuple[int, int, Lowered, int]]]:
        """Plan of a pass, and what was lowered for it.

        The latter by name in its layer: index and layer for which an operator was lowered, its rows, and where a second
        branch of them begins.
        """
        model, place = self.models[asked.role], self.placements[asked.role]
        rows, places, attention = BlockRows(), {}, []
        lowered: dict[str, tuple[int, int, Lowered, int]] = {}
        streamed = self._streamed(asked)
        reads = dict.fromkeys(streamed if asked.reads == "own" else ())
        layers, kinds, layer_bytes = graph.nodes.data("layer"), ops.kind.tolist(), model.layer_bytes
        firsts: dict[str, tuple[int, str, int]] = {}
        for i, name in enumerate(names):
            own = name.rpartition(f"layer{layers[name]}.")[2]
            firsts.setdefault(own, (i, own, layers[name]))
        self.ops.prepare(*self._together(asked, list(firsts.values()), ops))
        for i, name in enumerate(names):
            layer, kind = layers[name], kinds[i]
            if reads.get(layer, ()) is None:
                reads[layer] = rows.add(self._read(asked.role, "layer.load", layer_bytes))
            if kind == _PROJECTION and tail and place.head_in == "flash":
                places[name] = self._streamed_head(rows, asked, name, pick(ops, i))
                continue
            if kind == _ATTENTION and asked.spilled:
                read = rows.add(self._read(asked.role, "attn.kv_load", asked.spilled * model.kv_row_bytes))
                inputs = [places[node][1] for node in graph.predecessors(f"layer{layer}.attn.norm")]
                rows.edges += [(row, read[0]) for row in inputs]
                rows.edges.append((read[1], rows.count))
            own = name.rpartition(f"layer{layer}.")[2]
            if own not in lowered:  # layers are equal: each operator is lowered for the first of them
                lowered[own] = i, layer, *self._divided(asked, own, pick(ops, i), layer)
            places[name] = rows.add(*lowered[own][2:])
            if kind == _ATTENTION:
                attention += range(places[name][0], places[name][1] + 1)
        rows.edges += [(places[a][1], places[b][0]) for a, b in graph.edges]
        for layer, read in reads.items():
            self._feed(rows, asked.role, graph, layer, read, places)
        if asked.reads == "landed":
            own_graph = layer_graph(model, asked.phase).graph
            for layer in streamed:
                begin = places[f"layer{layer}.{own_graph['inputs'][0]}"][0]
                end = places[f"layer{layer}.{own_graph['output']}"][1]
                rows.levels.append((begin, 0, self.landed[asked.role], -1, 0))
                rows.levels.append((end, 0, self.rings[asked.role], 0, -1))
        spans = np.array([places[name] for name in names], dtype=np.int64).reshape(-1, 2)
        return Planned(rows.block(), np.array(attention, dtype=np.int64), names, ops, spans), lowered

    def _streamed(self, asked: Pass) -> range:
        """Layers of a pass that are read from flash."""
        place, layers = self.placements[asked.role], self.models[asked.role].layers
        last = layers if asked.last is None else asked.last
        return range(max(place.pinned, asked.first) if place.layers_in == "flash" else last, last)

    def _plan_reads(self, asked: Pass) -> Planned:
        """Plan of a pass's reads alone: each takes a slot of the ring, and counts as landed when it ends."""
        rows, size = BlockRows(), self.models[asked.role].layer_bytes
        for _ in self._streamed(asked):
            first, last = rows.add(self._read(asked.role, "layer.load", size))
            rows.levels.append((first, 0, self.rings[asked.role], 1, 0))
            rows.levels.append((last, 1, self.landed[asked.role], 0, 1))
        nothing = np.empty(0, dtype=np.int64)
        return Planned(rows.block(), nothing, (), make_ops([]), nothing.reshape(0, 2))

    def _feed(
        self,
        rows: BlockRows,
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

    def _streamed_head(self, rows: BlockRows, asked: Pass, name: str, operator: Ops) -> tuple[int, int]:
        """Projection behind the read of its weights, which have a buffer of their own.

        It is one operator of the NPU's graph, so it begins when all of them are there.
        """
        read = rows.add(self._read(asked.role, "head.load", self.models[asked.role].head_bytes))
        first, last = rows.add(self._lower(asked, name, operator, layer=-1))
        rows.edges.append((read[1], first))
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
        found = self._reads.get((role, name, size))
        if found is None:
            ops = make_ops([{"kind": OpKind.LOAD, "weight_bytes": size}])
            found = self.ops.lower(self.system.having(OpKind.LOAD), role, "io", name, ops)
            self._reads[role, name, size] = found
        return found

    def _lower(self, asked: Pass, name: str, ops: Ops, layer: int) -> Lowered:
        role, kind = asked.role, OpKind(int(ops.kind[0]))
        head = layer < 0 and name.startswith("head.")
        device, phase = self._where(asked, kind, head)
        apart = self.placements[role].uncached_logits and kind == OpKind.SAMPLE
        if apart and self.device(role, OpKind.PROJECTION, True, asked.batched) is not device:
            ops = ops._replace(n=np.ones(1, dtype=np.int64))  # another device wrote the logits
        if kind == OpKind.PROJECTION and head:
            return self._project(device, asked, phase, name, ops)
        return self.ops.lower(device, role, phase, name, ops)

    def _where(self, asked: Pass, kind: OpKind, head: bool) -> tuple[Device, str]:
        """Device that an operator of a pass runs on, and the phase it is counted for."""
        phase = asked.role if asked.role in OWN_PHASE else "projection" if head else "compute"
        return self.device(asked.role, kind, head, asked.batched), phase

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

    def _divided(self, asked: Pass, name: str, ops: Ops, layer: int) -> tuple[Lowered, int]:
        """Rows of an operator, a product's in two branches if it is shared; and where the second one begins (or 0)."""
        whole = int(ops.n[0])
        mine = whole - whole * asked.beside // COLUMN_SHARES
        if ops.kind[0] not in (OpKind.MATMUL, OpKind.PROJECTION) or mine == whole:
            return self._lower(asked, name, ops, layer), 0
        kind = OpKind(int(ops.kind[0]))
        rest = self.system.having(kind, *self.placements[asked.role].beside)
        there = self.ops.lower(rest, asked.role, "compute", name, columns_of(ops, mine, whole))
        if not mine:
            return there, 0
        here = self._lower(asked, name, columns_of(ops, 0, mine), layer)
        return forked(here, there), 1 + len(here.op)

    def device(self, role: str, kind: OpKind, head: bool = False, batched: bool = False) -> Device:
        """Device that runs operators of `kind` for a role, by its placement; look-ups and sampling are the host's."""
        place = self.placements[role]
        if kind in (OpKind.EMBED, OpKind.SAMPLE):
            return self.system.having(kind, "cpu", *place.layers_on)
        if head:
            return self.system.having(kind, *place.head_on)
        return self.system.having(kind, *(place.batch_on if batched and place.batch_on else place.layers_on))
