"""Processing in DRAM banks: matrix-vector products, attention and vector operators where the weights lie.

Modelled: a product of m rows runs on all channels of the device in step, with the cycles and command counts of the
command kernel (:mod:`archsim.devices.pim.commands`) for its layout (:mod:`archsim.devices.pim.products`); m rows share
passes over the weights as far as the device reuses them. What is no product goes by ``vector_unit``:

``none``   the device lowers products only
``aau``    an attention algorithm unit on every die (:mod:`archsim.devices.pim.aau`): the device runs a whole layer
``host``   intermediates travel: interrupt, two fences, a copy each way, and the work on the host's unit, in its queue

Host reads while the device computes, by ``host``:

``exclusive``     host data share the ranks: the row claims the DRAM pool
``other_ranks``   host data lie in other ranks, which lose command and data slots (:mod:`archsim.devices.pim.host`)
``striped``       host data are striped over `host_ranks` ranks of which one computes: the rest loses slots

PIM commands go first, so such a row has a weight that no stream matches. With ``gating`` the device also lowers
CONTROL: n switches between rank groups (:mod:`archsim.devices.pim.gtsu`). Devices that are rank groups of one memory
share a sequencer by name. Not modelled: the sum of partial results on the host.

One sequencer stands for those of all its channels: they get the same instructions and move in step (one class of the
kernel). A part of the channels is a device of its own with ``channels``. An operator is one row, so its pre-emption
quantum is the operator; ``parts`` splits it.

Sources: see the standards' files; energy in :mod:`archsim.devices.pim.power`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from archsim.device import STREAMS, Binding, Cost, Device, DType, OpKind, Ops, Rows, Unit
from archsim.devices.dram.power import prices
from archsim.devices.dram.standard import load_standard
from archsim.devices.pim import aau, gtsu
from archsim.devices.pim.power import AREA, DEFAULT_DIE, ENERGY
from archsim.devices.pim.products import ACTIONS as BANK_ACTIONS
from archsim.devices.pim.products import (
    Part,
    Product,
    data_type,
    head_products,
    heads_per_channel,
    kv_write,
    product,
    standard_of,
)
from archsim.devices.pim.spec import PimSpec
from archsim.lowering import (
    DRAM_ACTIONS,
    LEAD_PS,
    PAGE_BYTES,
    PLAN_COLUMNS,
    READ_BYTES,
    STREAM,
    TIME_PS,
    TIME_RATE,
    UNIT,
    WEIGHT,
    WRITE_BYTES,
    action_names,
    allowed_kinds,
    build_rows,
    bytes_to_ps,
    check_ops,
    count_traffic,
    cycles_to_ps,
)
from archsim.registry import device
from archsim.units import COEF_ONE, WORK_ONE

__all__ = ["ACTIONS", "Pim", "PimSpec", "data_type"]

OWN_ACTIONS = (*BANK_ACTIONS, *aau.ACTIONS, "gtsu_switch", "trip", "trip_elements")
ACTIONS = OWN_ACTIONS
_FIRST_AAU, _SWITCH, _TRIP, _ELEMENTS = len(BANK_ACTIONS), len(BANK_ACTIONS) + len(aau.ACTIONS), -2, -1
#: Share weight of a row that draws what its commands take from others: more than any stream's bytes in flight.
FIRST = 1 << 20
VECTOR_KINDS = frozenset({OpKind.NORM, OpKind.ROPE, OpKind.ELEMENTWISE})
LAYER_KINDS = VECTOR_KINDS | {OpKind.ATTENTION, OpKind.KV_WRITE}
#: Columns of an operator that its rows depend on.
_KEY = (
    "kind", "m", "k", "n", "kv", "heads", "kv_heads", "head_dim", "wdtype", "adtype", "kvdtype", "in_bytes",
    "out_bytes",
)  # fmt: skip


class Stage(NamedTuple):
    """One row of an operator: where it runs, its lead and time, DRAM bytes, counts, draw on the DRAM pool."""

    unit: int
    lead_ps: int
    time_ps: int
    read_bytes: int
    write_bytes: int
    counts: tuple[int, ...]
    draw: int


@device("pim")
class Pim(Device):
    """Unit ``<name>.sequencer``; lowers MATMUL and PROJECTION, and with a vector unit all of a decoder layer."""

    Spec = PimSpec
    keeps_weights = True  # the banks' own processing units read them

    def __init__(self, name: str, spec: PimSpec) -> None:
        super().__init__(name, spec)
        self.part = Part(spec.standard, spec.channels, spec.tokens_per_pass, spec.timing_factor)
        self.standard = standard_of(self.part)
        self.ops = frozenset({OpKind.MATMUL, OpKind.PROJECTION})
        self.ops |= LAYER_KINDS if spec.vector_unit != "none" else frozenset()
        self.ops |= {OpKind.CONTROL} if spec.gating else frozenset()
        self._lines: dict[tuple[int, ...], tuple[tuple[int, ...], ...]] = {}  # of an operator's stages
        self._kv_types: dict[tuple[int, int], str] = {}

    def units(self) -> list[Unit]:
        """Return the one sequencer that drives all channels in step, unless another device has it."""
        return [] if self.spec.sequencer else [Unit(f"{self.name}.sequencer", "one operator")]

    def bind(self, binding: Binding) -> None:
        """Resolve ids."""
        super().bind(binding)
        spec = self.spec
        self._allowed = allowed_kinds(self.ops)
        every = self.part.channels in (0, standard_of(Part(spec.standard)).organisation["channels"])
        self._claims = spec.host == "exclusive" and every
        self._unit = binding.unit(f"{spec.sequencer or self.name}.sequencer")
        self._host_unit = binding.unit(spec.trip_unit) if spec.vector_unit == "host" else -1
        self._memory = binding.pool(f"{spec.memory}.bandwidth")
        self._actions = action_names(self.name, self._own_actions(), spec.memory)
        self._columns = [OWN_ACTIONS.index(action) for action in self._own_actions()]
        if spec.vector_unit == "aau":
            channels = self.standard.organisation["channels"]
            self._aau = aau.Aau(channels, spec.aau_lanes, spec.aau_latency_cycles, round(spec.aau_clock_hz / 1e3))

    def _own_actions(self) -> tuple[str, ...]:
        """Actions that this device can count."""
        spec = self.spec
        chosen = BANK_ACTIONS + (aau.ACTIONS if spec.vector_unit == "aau" else ())
        chosen += ("gtsu_switch",) if spec.gating else ()
        return chosen + (("trip", "trip_elements") if spec.vector_unit == "host" else ())

    def lower(self, ops: Ops) -> Rows:
        """One row an operator (times ``parts``) that lasts what the command kernel counts.

        With ``vector_unit: host`` a trip is two rows (the memory's sequencer waits for notice, fences and copies; the
        host's unit works) and attention is scores, a trip, values.
        """
        check_ops(ops, self._allowed, self.name)
        lines: list[tuple[int, ...]] = []
        source: list[int] = []
        for i, key in enumerate(zip(*[getattr(ops, name).tolist() for name in _KEY], strict=True)):
            found = self._lines.get(key)
            if found is None:
                stages = self._plan(dict(zip(_KEY, key, strict=True)))
                found = self._lines[key] = tuple([self._line(stage) for stage in stages])
            lines += found
            source += [i] * len(found)
        return self._rows(ops, np.array(lines, np.int64), np.array(source, np.int64))

    def _line(self, stage: Stage) -> tuple[int, ...]:
        """Columns of a stage: those of a plan, counts of :attr:`_actions`, whether it runs in the banks, its draw."""
        banks = stage.unit == self._unit and not stage.read_bytes + stage.write_bytes
        plan, dram = [0] * PLAN_COLUMNS, np.zeros((1, len(DRAM_ACTIONS)), np.int64)
        plan[UNIT], plan[LEAD_PS], plan[TIME_PS], plan[READ_BYTES], plan[WRITE_BYTES] = stage[:5]
        plan[WEIGHT] = self.spec.trip_inflight_bytes or FIRST
        plan[STREAM] = STREAMS.index("copy")
        count_traffic(dram, 0, 0, stage.read_bytes, stage.write_bytes, PAGE_BYTES)
        counts = [stage.counts[column] for column in self._columns]
        return (*plan, *counts, *dram[0].tolist(), int(banks), stage.draw)

    def _rows(self, ops: Ops, lines: np.ndarray, source: np.ndarray) -> Rows:
        """Task rows of the stages in `lines` (:meth:`_line`), each of the operator in `source`."""
        plan, counts = np.ascontiguousarray(lines[:, :PLAN_COLUMNS]), np.ascontiguousarray(lines[:, PLAN_COLUMNS:-2])
        rows = build_rows(ops._replace(parts=ops.parts[source]), plan, counts, self._actions, (self._memory, -1, -1))
        banks, draw = lines[rows.op, -2] > 0, lines[rows.op, -1]
        rows.weight[banks], rows.stream[banks] = FIRST, STREAMS.index("pim")
        if self._claims:
            rows.claim[banks] = self._memory
        else:
            drawing = banks & (draw > 0)
            rows.pool[drawing, 0], rows.coef[drawing, 0] = self._memory, draw[drawing]
        return rows._replace(op=source[rows.op])

    def _plan(self, op: dict[str, int]) -> tuple[Stage, ...]:
        """Stages of one operator, without parts."""
        kind, spec = OpKind(op["kind"]), self.spec
        if kind == OpKind.CONTROL:
            lead = op["n"] * self.switch_ps
            return (Stage(self._unit, lead, 0, 0, 0, self._full({_SWITCH: op["n"]}), 0),)
        if kind in (OpKind.MATMUL, OpKind.PROJECTION):
            dtype = data_type(self.standard, op["wdtype"], op["adtype"], spec.widen)
            ranks = spec.ranks if spec.host != "exclusive" else 1
            done = product(self.part, op["m"], op["k"], op["n"], dtype, spec.fence, ranks)
            return (self._banks(done),)
        if kind == OpKind.KV_WRITE:
            return (self._banks(self._write(op)),)
        if kind == OpKind.ATTENTION:
            return self._attention(op)
        if spec.vector_unit == "host":
            return self._trip(op["m"] * op["k"], op["in_bytes"], op["out_bytes"])
        cycles, counted = self._aau.rows(kind, op["m"], op["k"])
        return (self._on_aau(cycles, counted),)

    @property
    def switch_ps(self) -> int:
        """Time of one switch between rank groups."""
        return int(-(-gtsu.switch_cycles(self.standard) * self.standard.tck_ps // 1))

    def _full(self, some: dict[int, int]) -> tuple[int, ...]:
        """Counts of all actions from those of a few."""
        counts = [0] * len(OWN_ACTIONS)
        for column, count in some.items():
            counts[column] = count
        return tuple(counts)

    def _banks(self, done: Product) -> Stage:
        """Row of a run of the command kernel."""
        counts = (*done.counts, *([0] * (len(OWN_ACTIONS) - len(done.counts))))
        return Stage(self._unit, self.spec.crossing_ps, done.time_ps, 0, 0, counts, self._draw(done.lost))

    def _draw(self, lost: float) -> int:
        """Coefficient on the DRAM pool for what the host loses while the device computes.

        `lost` is the share that a stream in another rank loses.
        """
        spec = self.spec
        if self._claims:
            return 0
        if spec.host == "exclusive":  # a part of the channels: the others stay free
            org, there = self.standard.organisation, standard_of(Part(spec.standard)).organisation
            lost = org["channels"] / there["channels"]
        elif spec.host == "striped":
            lost = (1 + (spec.host_ranks - 1) * lost) / spec.host_ranks
        return int(lost * spec.host_bytes_per_s * WORK_ONE / 1e12) * COEF_ONE // TIME_RATE

    def _on_aau(self, cycles: int, counted: tuple[int, ...]) -> Stage:
        """Row of the attention algorithm units; the banks rest and the host keeps its other ranks."""
        counts = self._full({_FIRST_AAU + i: count for i, count in enumerate(counted)})
        draw = 0 if self.spec.host == "other_ranks" else self._draw(0.0)
        return Stage(self._unit, 0, cycles_to_ps(cycles, self._aau.khz), 0, 0, counts, draw)

    def _trip(self, elements: int, in_bytes: int, out_bytes: int) -> tuple[Stage, Stage]:
        """Rows of a trip to the host's unit and back: notice, two fences and the copies; then the work in its queue."""
        spec = self.spec
        copied = bytes_to_ps(in_bytes + out_bytes, round(spec.copy_bytes_per_s / 1e6))
        worked = bytes_to_ps(elements, round(spec.trip_elements_per_s / 1e6))
        lead = spec.interrupt_ps + 2 * spec.fence_ps
        way = Stage(self._unit, lead, copied, in_bytes, out_bytes, self._full({_TRIP: 1}), 0)
        return way, Stage(self._host_unit, 0, worked, 0, 0, self._full({_ELEMENTS: elements}), 0)

    def _write(self, op: dict[str, int]) -> Product:
        bits = self._kv_bits(op)
        heads = (max(1, op["kv_heads"]), max(1, op["head_dim"]))
        ranks = self.spec.ranks if self.spec.host != "exclusive" else 1
        return kv_write(self.part, op["m"], *heads, bits, ranks)

    def _kv_bits(self, op: dict[str, int]) -> int:
        return self.standard.compute.dtypes[self._kv_type(op["kvdtype"], op["adtype"])][0]

    def _kv_type(self, kvdtype: int, adtype: int) -> str:
        """The device's data type for the cache and activations."""
        if (kvdtype, adtype) not in self._kv_types:
            found = data_type(self.standard, self._stored(kvdtype), adtype, self.spec.widen)
            self._kv_types[kvdtype, adtype] = found
        return self._kv_types[kvdtype, adtype]

    def _stored(self, kvdtype: int) -> int:
        """Type in which the cache lies: floats are quantised to INT8 where the device widens types."""
        floats = (DType.FP32, DType.FP16, DType.BF16)
        return int(DType.INT8) if self.spec.widen and DType(kvdtype) in floats else kvdtype

    def _attention(self, op: dict[str, int]) -> tuple[Stage, ...]:
        """Scores, softmax, values; on the units of the dies one row, by the host three."""
        spec, channels = self.spec, self.standard.organisation["channels"]
        heads, shared = heads_per_channel(op["kv_heads"], channels)
        vectors = op["m"] * (op["heads"] // op["kv_heads"])
        length = -(-(op["kv"] + op["m"]) // shared)
        local, ranks = spec.vector_unit == "aau", spec.ranks if spec.host != "exclusive" else 1
        dtype = self._kv_type(op["kvdtype"], op["adtype"])
        rest = (vectors, dtype, spec.fence, ranks, local)
        # As stored: whole rows of blocks for the keys, whole columns for the values; equal runs are cached.
        blocks = self.standard.banks // self.standard.compute.banks_per_block
        wide = 8 * self.standard.organisation["access_bytes"] // self.standard.compute.dtypes[dtype][0]
        keys, rows = -(-length // blocks) * blocks, -(-length // wide) * wide
        scores = head_products(self.part, "scores", heads, keys, op["head_dim"], *rest)
        values = head_products(self.part, "values", heads, op["head_dim"], rows, *rest)
        total = op["heads"] * op["m"] * (op["kv"] + op["m"])
        if not local:
            size = total * self.standard.compute.result_bytes
            return self._banks(scores), *self._trip(total, size, size), self._banks(values)
        cycles, counted = self._aau.softmax(heads * vectors, length, shared, total)
        time_ps = cycles_to_ps(cycles, self._aau.khz)
        lost = scores.lost * scores.time_ps + values.lost * values.time_ps
        whole = scores.time_ps + values.time_ps + time_ps
        banks = Product(whole, tuple(map(sum, zip(scores.counts, values.counts, strict=True))), lost / whole)
        merged = self._banks(banks)
        counts = list(merged.counts)
        for i, count in enumerate(counted):
            counts[_FIRST_AAU + i] = count
        return (merged._replace(counts=tuple(counts)),)

    def peak_ops_per_s(self) -> float:
        """Two operations a weight at the internal bandwidth, narrowest weights."""
        narrow = min(bits for bits, _ in self.standard.compute.dtypes.values())
        return 2 * self.bandwidth_bytes_per_s() * 8 / narrow

    def bandwidth_bytes_per_s(self) -> float:
        """Rate at which the MAC blocks of all channels take weights from open rows."""
        return self.standard.internal_bytes_per_s * self.standard.organisation["channels"]

    def second_copies(self, weights: Mapping[str, int]) -> dict[str, int]:
        """Weights kept once more in the banks' layout (``layout: twice``), by role."""
        spec = self.spec
        return {spec.holds: weights[spec.holds]} if spec.layout == "twice" and spec.holds in weights else {}

    def energy(self) -> dict[str, Cost]:
        """Per command and bit; rows at the plain die's price. Refresh is in the DRAM device's static power."""
        die = prices(self.standard.dram or load_standard(DEFAULT_DIE))
        row_pj = die.activate_pj
        table = {"activate": Cost(row_pj, "pJ", f"one row of one bank: {die.source}", (0.5 * row_pj, 2 * row_pj))}
        table |= ENERGY | aau.ENERGY | {"gtsu_switch": gtsu.ENERGY} | TRIP_ENERGY
        return {action: table[action] for action in self._own_actions()}

    def power(self) -> dict[str, Cost]:
        """Static power of vector units and gating, once a memory; the dies' own is the DRAM device's."""
        spec, table = self.spec, {}
        dies = self.standard.organisation["channels"] * spec.ranks
        if spec.vector_unit == "aau" and not spec.sequencer:
            table["aau"] = aau.POWER_PER_UNIT.times(dies)
        if spec.gating and not spec.sequencer:
            table["gtsu"] = gtsu.POWER
        return table

    def area(self) -> dict[str, Cost]:
        """Area on the DRAM dies; none for a second rank group of the same memory, whose blocks are counted once."""
        spec = self.spec
        if spec.sequencer:
            return {}
        dies = self.standard.organisation["channels"] * spec.ranks
        blocks = self.standard.banks // self.standard.compute.banks_per_block * dies
        table = {"mac_blocks": AREA["mac_block"].times(blocks)}
        if spec.vector_unit == "aau":
            table["aau"] = aau.AREA_PER_UNIT.times(dies)
        if spec.gating:
            table["gtsu"] = gtsu.AREA
        return table


TRIP_ENERGY: dict[str, Cost] = {
    "trip": Cost(5.0e5, "pJ", "assumed: a host core awake for 2 us at 0.25 W", (1.0e5, 5.0e6)),
    "trip_elements": Cost(5.0, "pJ", "assumed: one element through a host vector unit and its registers", (1.0, 20.0)),
}
