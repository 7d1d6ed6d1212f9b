"""NPU with a weight-stationary systolic array, a vector unit and a scratchpad.

Modelled: matrix products tile by tile (:func:`array_walk`): a weight tile of rows x columns comes by DMA, is shifted
into the array behind the one at work, and meets the rows of activations; the last tile drains. Attention as products
of each head's keys and values, its softmax on the vector unit. Vector operators by lanes. Activations stay in the
scratchpad while they fit half of it. DMA in pieces: a piece that is no whole beat of the fabric wastes the rest of it,
which is what weights laid out for PIM banks (32 bytes in a row) cost. Not modelled: banking of the scratchpad, several
cores, sparsity.

Weights and activations are multiplied as 8 bit; float weights pass the array once for each pair of bytes. Block types
are unpacked by the DMA engine at its rate.

Sources: 128 x 64 multiply-accumulates at 1 GHz (16.4 TOPS against the 16 TOPS INT8 that AHASD lists, arXiv 2604.25326;
a 128 x 128 array would give 32.8), vector 8.2 TOPS, 8 MB, 512-bit fabric of 10 cycles (its artifact, af6ab66).
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numba import njit
from pydantic import BaseModel, ConfigDict, Field, model_validator

from archsim.device import LAYER_OPS, STREAMS, Binding, Cost, Device, DType, OpKind, Ops, Pool, Rows, Store, Unit
from archsim.lowering import (
    LEAD_PS,
    PAGE_BYTES,
    PLAN_COLUMNS,
    READ_BYTES,
    STREAM,
    TIME_PS,
    UNIT,
    WEIGHT,
    WRITE_BYTES,
    KernelClock,
    KernelFactor,
    KernelRate,
    KernelTime,
    action_names,
    allowed_kinds,
    build_rows,
    bytes_to_ps,
    check_ops,
    count_traffic,
    cycles_to_ps,
)
from archsim.registry import device
from archsim.units import Bytes, Cycles, PositiveInt

MATMUL, PROJECTION, ATTENTION = int(OpKind.MATMUL), int(OpKind.PROJECTION), int(OpKind.ATTENTION)
NORM, ROPE, KV_WRITE = int(OpKind.NORM), int(OpKind.ROPE), int(OpKind.KV_WRITE)
ACTIONS = ("mac_int8", "vector_op", "scratch_read_bytes", "scratch_write_bytes", "dma_bytes", "dispatch")
MAC, VECTOR, SCRATCH_READ, SCRATCH_WRITE, DMA, DISPATCH, DRAM = range(7)
#: Passes over the array of one weight, by type: pairs of bytes of weight and activation.
BYTE_PASSES: dict[DType, int] = {DType.FP32: 4, DType.FP16: 2, DType.BF16: 2}


class SystolicSpec(BaseModel):
    """One NPU.

    Attributes
    ----------
    clock_hz : float
        Clock of array, vector unit and fabric (whole kHz).
    array_rows, array_columns, arrays : int
        Multiply-accumulators along the inputs and the outputs of a weight tile; arrays that share a product.
    vector_lanes : int
        Vector multiply-accumulate lanes.
    scratchpad_bytes : int
        Local memory.
    fabric_bytes, fabric_cycles : int
        Bytes of one beat to memory, and latency of a transfer.
    memory_bytes_per_s : float
        What one stream reaches of the memory; the fabric may be faster.
    piece_bytes : int
        Contiguous bytes the DMA finds in weights: a beat or more when they lie in rows, 32 when they lie for PIM banks.
    quantum_bytes : int
        Bytes of weights or cache that one command brings; an operator is split into as many rows, and the queue can
        turn to another operator between them.
    dispatch_ps : int
        Command of the host per operator.
    norm_ops, rope_ops, elementwise_ops, softmax_ops : float
        Vector operations per element (a lane does one a cycle).
    inflight_bytes : int
        Bytes in flight: weight in DRAM's shares.
    memory : str
        Name of the DRAM device.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    clock_hz: KernelClock
    array_rows: Annotated[PositiveInt, Field(le=1 << 14)]
    array_columns: Annotated[PositiveInt, Field(le=1 << 14)]
    arrays: Annotated[PositiveInt, Field(le=4096)]
    vector_lanes: Annotated[PositiveInt, Field(le=1 << 20)]
    scratchpad_bytes: Bytes
    fabric_bytes: Annotated[PositiveInt, Field(le=1 << 14)]
    fabric_cycles: Annotated[Cycles, Field(le=10**6)]
    memory_bytes_per_s: KernelRate
    piece_bytes: PositiveInt
    quantum_bytes: Annotated[Bytes, Field(ge=4096)]
    dispatch_ps: KernelTime
    norm_ops: KernelFactor
    rope_ops: KernelFactor
    elementwise_ops: KernelFactor
    softmax_ops: KernelFactor
    inflight_bytes: Annotated[Bytes, Field(ge=1, lt=1 << 20)]
    memory: str = "dram"

    @model_validator(mode="after")
    def _fits(self) -> SystolicSpec:
        tile = self.array_rows * self.array_columns
        if self.array_rows > 4096 or self.array_columns > 4096:
            raise ValueError("an array side is above 4096")
        if 4 * tile > self.scratchpad_bytes:
            raise ValueError(f"scratchpad_bytes {self.scratchpad_bytes} is below {4 * tile}, four weight tiles")
        return self

    def dma_bytes_per_s(self, piece: int) -> float:
        """Rate of the DMA when memory holds `piece` contiguous bytes: whole beats, no more than a stream reaches."""
        return min(self.memory_bytes_per_s, piece / -(-piece // self.fabric_bytes) * self.clock_hz)


class Numbers(NamedTuple):
    """The spec as integers: kHz, 1e6 bytes/s, thousandths of an operation."""

    khz: int
    rows: int
    columns: int
    arrays: int
    lanes: int
    scratchpad: int
    tiles_held: int  # weight tiles that fit a half of the scratchpad
    latency: int
    weight_rate: int
    stream_rate: int
    dispatch_ps: int
    norm: int
    rope: int
    elementwise: int
    softmax: int
    inflight: int
    unit: int
    stream: int


@njit(cache=True)
def array_walk(tiles, held, dma, shift, multiply, drain):
    """Cycles of a product of `tiles` weight tiles on one array.

    Parameters
    ----------
    tiles : int
        Weight tiles, one after the other.
    held : int
        Tiles that DMA may have brought ahead of the array.
    dma : int
        Thousandths of a cycle to bring one tile.
    shift, multiply, drain : int
        Cycles to shift a tile into the array, to stream all activation rows past it, and to empty the array at the end.

    Notes
    -----
    A tile is shifted in behind the one at work (two sets of weight registers), so a step takes the longest of
    bringing, shifting and multiplying. Every step does the same, so the times of three tiles and the longest stage
    give the rest; :func:`array_walk_tiles` walks all of them.
    """
    slowest = max(dma, 1000 * max(shift, multiply))
    return -(-(dma + 1000 * (shift + multiply + drain) + (tiles - 1) * slowest) // 1000)


@njit(cache=True)
def array_walk_tiles(tiles, held, dma, shift, multiply, drain):
    """:func:`array_walk`, tile by tile: what it must equal when `held` is two or more."""
    brought, shifted, ended, before = 0, 0, 0, 0
    free = np.zeros(held, np.int64)
    for t in range(tiles):
        brought = max(brought, free[t % held]) + dma
        shifted = max(brought, shifted, before) + 1000 * shift
        before = ended
        ended = max(shifted, ended) + 1000 * multiply
        free[t % held] = shifted
    return -(-(ended + 1000 * drain) // 1000)


@njit(cache=True)
def product_cycles(c, m, k, n, weight_bytes, byte_passes, rate):
    """Cycles of [m, k] x [k, n], `byte_passes` a weight, its bytes brought at `rate`; 0 bytes: they are there."""
    tiles = -(-k // c.rows) * -(-n // c.columns)
    each = -(-tiles // c.arrays)
    dma = -(-weight_bytes * c.khz // (tiles * rate)) * c.arrays
    return array_walk(each, c.tiles_held, dma, c.rows * byte_passes, m * byte_passes, c.rows + c.columns - 2)


@njit(cache=True)
def vector_cycles(c, elements, milli_ops):
    """Cycles of `elements` at `milli_ops` thousandths of a lane's cycle each."""
    return -(-elements * milli_ops // (1000 * c.lanes))


@njit(cache=True)
def plan_systolic(ops, c, byte_passes):
    """Plan int64[n, PLAN_COLUMNS] and counts int64[n, len(ACTIONS) + 4]; `byte_passes` by type of weights."""
    size = ops.kind.size
    plan, counts = np.zeros((size, PLAN_COLUMNS), np.int64), np.zeros((size, DRAM + 4), np.int64)
    for i in range(size):
        kind, m, k, n = ops.kind[i], ops.m[i], ops.k[i], ops.n[i]
        resident = 2 * (ops.in_bytes[i] + ops.out_bytes[i]) <= c.scratchpad
        read, write = (0, 0) if resident else (ops.in_bytes[i], ops.out_bytes[i])
        activations = bytes_to_ps(read + write, c.stream_rate)
        counts[i, DISPATCH] = 1
        if kind in (MATMUL, PROJECTION):
            passes = byte_passes[ops.wdtype[i]]
            cycles = product_cycles(c, m, k, n, ops.weight_bytes[i], passes, c.weight_rate)
            read += ops.weight_bytes[i]
            counts[i, MAC] = m * k * n * passes
            counts[i, SCRATCH_READ] = ops.weight_bytes[i] + m * k * -(-n // c.columns)
            counts[i, SCRATCH_WRITE] = ops.weight_bytes[i] + 4 * m * n * -(-k // c.rows)
        elif kind == ATTENTION:
            group, keys = ops.heads[i] // max(ops.kv_heads[i], 1), ops.kv[i] + m
            part = ops.kv_bytes[i] // (2 * max(ops.kv_heads[i], 1))
            one = product_cycles(c, m * group, ops.head_dim[i], keys, part, 1, c.stream_rate)
            one += product_cycles(c, m * group, keys, ops.head_dim[i], part, 1, c.stream_rate)
            scores = ops.heads[i] * m * keys
            soft = vector_cycles(c, scores, c.softmax)
            cycles = max(1, ops.kv_heads[i]) * one + soft
            read += ops.kv_bytes[i]
            counts[i, MAC] = 2 * scores * ops.head_dim[i]
            counts[i, VECTOR] = scores * c.softmax // 1000
            counts[i, SCRATCH_READ] = ops.kv_bytes[i] + 4 * scores
            counts[i, SCRATCH_WRITE] = ops.kv_bytes[i] + 4 * scores
        else:
            per = c.norm if kind == NORM else c.rope if kind == ROPE else 0 if kind == KV_WRITE else c.elementwise
            cycles = vector_cycles(c, m * k, per)
            if kind == KV_WRITE:
                write += ops.kv_bytes[i]
                activations = bytes_to_ps(read + write, c.stream_rate)
            counts[i, VECTOR] = m * k * per // 1000
            counts[i, SCRATCH_READ], counts[i, SCRATCH_WRITE] = ops.in_bytes[i], ops.out_bytes[i]
        plan[i, UNIT], plan[i, WEIGHT], plan[i, STREAM] = c.unit, c.inflight, c.stream
        plan[i, LEAD_PS] = c.dispatch_ps + cycles_to_ps(c.latency, c.khz)
        plan[i, TIME_PS] = max(1, cycles_to_ps(cycles, c.khz) + activations)
        plan[i, READ_BYTES], plan[i, WRITE_BYTES] = read, write
        counts[i, DMA] = read + write
        count_traffic(counts, i, DRAM, read, write, PAGE_BYTES)
    return plan, counts


@device("systolic_npu")
class SystolicNpu(Device):
    """Unit core, pool dma, store scratchpad."""

    Spec = SystolicSpec
    ops = LAYER_OPS

    def units(self) -> list[Unit]:
        """Return the one operator queue."""
        return [Unit(f"{self.name}.core", "what one command brings (quantum_bytes), not pre-empted inside it")]

    def pools(self) -> list[Pool]:
        """The fabric to memory, whole beats."""
        return [Pool(f"{self.name}.dma", self.spec.fabric_bytes * self.spec.clock_hz, "bytes/s")]

    def stores(self) -> list[Store]:
        """Scratchpad."""
        return [Store(f"{self.name}.scratchpad", self.spec.scratchpad_bytes, "bytes")]

    def peak_ops_per_s(self) -> float:
        """INT8 multiply and add rate of the arrays."""
        spec = self.spec
        return 2.0 * spec.array_rows * spec.array_columns * spec.arrays * spec.clock_hz

    def bind(self, binding: Binding) -> None:
        """Resolve ids and turn the spec into integers."""
        super().bind(binding)
        spec = self.spec
        self._allowed = allowed_kinds(self.ops)
        self._pools = (binding.pool(f"{spec.memory}.bandwidth"), binding.pool(f"{self.name}.dma"), -1)
        self._actions = action_names(self.name, ACTIONS, spec.memory)
        self._passes = np.array([BYTE_PASSES.get(dtype, 1) for dtype in DType], np.int64)
        self._numbers = Numbers(
            khz=round(spec.clock_hz / 1e3),
            rows=spec.array_rows,
            columns=spec.array_columns,
            arrays=spec.arrays,
            lanes=spec.vector_lanes,
            scratchpad=spec.scratchpad_bytes,
            tiles_held=spec.scratchpad_bytes // 2 // (spec.array_rows * spec.array_columns),
            latency=spec.fabric_cycles,
            weight_rate=round(spec.dma_bytes_per_s(spec.piece_bytes) / 1e6),
            stream_rate=round(spec.dma_bytes_per_s(spec.fabric_bytes) / 1e6),
            dispatch_ps=spec.dispatch_ps,
            norm=round(1000 * spec.norm_ops),
            rope=round(1000 * spec.rope_ops),
            elementwise=round(1000 * spec.elementwise_ops),
            softmax=round(1000 * spec.softmax_ops),
            inflight=spec.inflight_bytes,
            unit=binding.unit(f"{self.name}.core"),
            stream=STREAMS.index("npu_seq_read"),
        )

    def lower(self, ops: Ops) -> Rows:
        """One row per quantum of an operator (times ``parts``); leads are the host's command and the fabric."""
        check_ops(ops, self._allowed, self.name)
        quanta = -(-(ops.weight_bytes + ops.kv_bytes) // self.spec.quantum_bytes)
        ops = ops._replace(parts=ops.parts * np.maximum(1, quanta))
        plan, counts = plan_systolic(ops, self._numbers, self._passes)
        return build_rows(ops, plan, counts, self._actions, self._pools)

    def energy(self) -> dict[str, Cost]:
        """Per multiply-accumulate, vector operation, byte and command."""
        return dict(ENERGY)

    def power(self) -> dict[str, Cost]:
        """Leakage and clock."""
        return dict(POWER)

    def area(self) -> dict[str, Cost]:
        """Scaled by what the spec has."""
        spec = self.spec
        macs = spec.array_rows * spec.array_columns * spec.arrays
        return {
            "array": AREA["mac"].times(macs),
            "vector": AREA["lane"].times(spec.vector_lanes),
            "scratchpad": AREA["scratchpad"].times(spec.scratchpad_bytes),
        }


ENERGY: dict[str, Cost] = {
    "mac_int8": Cost(
        0.23, "pJ", "INT8 multiply-add at 45 nm (Horowitz, ISSCC 2014); AHASD's NPU model is 28 nm", (0.08, 0.5)
    ),
    "vector_op": Cost(0.6, "pJ", "assumed: a multiply-add with its registers, 28 nm", (0.2, 1.5)),
    "scratch_read_bytes": Cost(4.0, "pJ", "assumed: 8 MB SRAM in banks, 0.5 pJ/bit at 28 nm (CACTI class)", (1.5, 8.0)),
    "scratch_write_bytes": Cost(4.0, "pJ", "assumed: as reads", (1.5, 8.0)),
    "dma_bytes": Cost(1.6, "pJ", "assumed: 0.2 pJ/bit of on-chip fabric", (0.8, 4.0)),
    "dispatch": Cost(2.5e5, "pJ", "assumed: a host core awake for 1 us at 0.25 W", (5.0e4, 2.5e6)),
}
POWER: dict[str, Cost] = {
    "static": Cost(
        1500.0,
        "mW",
        "assumed: clock tree, control and leakage of 8192 MACs and 8 MB at 28 nm; a rebuild of AHASD's simulator books "
        "0.3 nJ a cycle idle and 3 nJ active at 1 GHz, 0.3 to 3 W",
        (300.0, 3300.0),
    )
}
AREA: dict[str, Cost] = {
    "mac": Cost(600.0, "um2", "assumed: INT8 multiply-accumulate with its registers, 28 nm", (300.0, 1200.0)),
    "lane": Cost(2000.0, "um2", "assumed: a vector lane with its registers, 28 nm", (1000.0, 4000.0)),
    "scratchpad": Cost(1.6, "um2", "assumed: 0.2 um2 a bit with periphery, 28 nm SRAM", (1.0, 2.5)),
}
