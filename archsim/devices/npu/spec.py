"""Spec of an NPU: its hardware, and the kernels it runs."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from archsim.device import DType
from archsim.devices.npu.dispatch import CallCosts
from archsim.devices.npu.numbers import CALLS, PATHS, POLICIES, NpuNumbers
from archsim.lowering import KernelClock, KernelFactor, KernelRate, KernelTime
from archsim.units import Bytes, Cycles, PositiveInt

MB = 1e6
KHZ = 1e3
MILLI = 1000

#: Cost of unpacking a weight relative to Q4_0.
UNPACK: dict[DType, float] = {
    # assumed: loads and conversions only
    DType.FP32: 0.5,
    DType.FP16: 0.25,
    DType.BF16: 0.4,
    DType.INT8: 0.4,
    DType.Q8_0: 0.6,
    # assumed: nibbles without a scale per block
    DType.INT4: 0.6,
    DType.Q4_0: 1.0,
    DType.Q4_1: 1.1,
    # assumed: 4 + 2 bit planes and 16 sub-scales per super-block
    DType.Q6_K: 2.0,
    DType.TQ2_0: 0.7,
}
FLOAT_WEIGHTS = (DType.FP32, DType.FP16, DType.BF16)
PolicyName = Literal["gemv", "ggml_hvx", "ggml_hmx", "static_graph", "sequential", "table"]
#: A tile edge: a multiple of 8 up to 256.
TileEdge = Annotated[int, Field(strict=True, ge=8, le=256, multiple_of=8)]


class NpuSpec(BaseModel):
    """One NPU and the kernels it runs.

    Attributes
    ----------
    clock_hz : float
        Clock of the vector contexts (whole kHz).
    hmx_clock_hz, hmx_default_clock_hz : float
        Clock of the matrix unit at the corner that software can vote for, and without a vote.
    hmx_corner : str
        ``max`` or ``default``: which of the two it runs at.
    hmx_units, tile_cycles_fp16, tile_cycles_int8, tile_cycles_int4 : int
        Matrix units, and cycles of one tile product on one of them (INT4: weights, with INT8 activations).
    tile_rows, tile_columns, tile_depth, tile_rows_int8 : int
        Tile of outputs (rows x columns) and its inner dimension; rows of an INT8 tile.
    packet_tiles, packet_cycles, store_cycles, accumulators : int
        Tile pairs along k per packet, cycles to issue one, cycles to clear and store an output tile with scale and
        bias, accumulators (with two, stores run beside products).
    hmx_wake_ps : int
        Clock, power and lock of the matrix unit, once per operator that uses it.
    tile_buffers : int
        Raw and unpacked weight tiles in VTCM, each (2 is double buffering), in static graphs.
    hvx_contexts : int
        Vector contexts of 128 bytes (4-6).
    vtcm_vectors_per_cycle : float
        Vectors of 128 bytes that VTCM delivers per cycle to all contexts together.
    vtcm_bytes, window_bytes : int
        Local memory; address window of one session.
    window_sessions : int
        Sessions a process opens, each with a window of its own.
    map_call_ps, map_ps_per_gib : int
        Host time to map or unmap one buffer, per call and per GiB mapped (page tables, cache maintenance).
    page_bytes, map_slots, max_buffer_bytes : int
        A mapped buffer takes whole pages; buffers a process can have mapped at a time; largest buffer.
    address_bits : int
        Virtual addresses of the DMA engine: with 64 nothing limits what is mapped and bytes cost nothing to map.
    swap_call_ps, swap_ps_per_gib, prepare_ps : int or None
        A runtime that swaps weights: synchronous call of one operator; map, unmap and cache upkeep per GiB; preparing
        the descriptors of one operator. None where the part does not say; a job that swaps then ends in an error.
    dma_bytes_per_s : float
        DMA into VTCM.
    l2fetch_bytes_per_s, l2fetch_one_bytes_per_s : float
        Prefetch into L2 by all threads (what L2 can fill), and by one.
    vector_load_bytes_per_s, vector_load_limit_bytes_per_s : float
        Plain loads and stores of one thread, and of all.
    dma_latency_ps, dma_in_flight, dma_field_bits, dma_in_order
        Latency of a descriptor, descriptors in flight, bits of a length field, whether descriptors wait for each other.
    dma_order_ps : int or None
        With `dma_in_order`, time from the end of one descriptor's data to the next one's; None: the whole latency.
    call, call_ps, packet_ps, poll_ps, start_ps, rpc_ps, flush_all_ps, flush_all_bytes, batch_ops
        Way to hand over operators (``call``, ``queue``, ``rpc``) and its costs (:mod:`archsim.devices.npu.dispatch`).
    host_polls, host_wake_ps : bool, int
        Whether the host polls for the end of a synchronous call, and the wake-up within ``rpc_ps`` that this saves.
    pass_rows, row_multiple, row_group : int
        Rows of one pass of the batched HVX kernel; its rows are padded to `row_multiple`; weight rows per context.
    activation_area_bytes : int
        On-chip area for the quantised activations of the batched HVX kernel.
    graph_rows : tuple of int
        Fixed shapes of static graphs, ascending.
    hmx_attention_rows, hmx_rows, pipeline_rows : int
        Least query rows for attention on HMX; rows from which ``ggml_hmx`` uses HMX, and above which it overlaps.
    pipeline_chunks : int
        Least chunks of columns that overlap, however large VTCM is.
    hmx_weight_path, hmx_activation_path : str
        How ``ggml_hmx`` loads: ``dma``, ``l2fetch`` or ``vector`` (all threads).
    projection_limit : int
        Most outputs of a matrix product that ``ggml_hmx`` takes.
    area_bytes : int
        VTCM area of weights, of activations and of outputs in ``sequential``.
    gemv_cycles, unpack_cycles, mac_cycles, graph_unpack_cycles, tile_unpack_cycles, fp16_mac_cycles : float
        Context cycles per vector of 128 weights: whole one-row kernel; unpacking through VTCM for a batch; one row of
        INT8 multiply-accumulates with scaling; unpacking in a static graph; unpacking to FP16 tiles by table; one
        row of FP16 multiply-accumulates.
    graph_output_cycles, output_cycles : float
        Context cycles per output element after HMX, in a static graph and to FP32 in ``ggml_hmx``.
    convert_cycles, softmax_cycles, norm_cycles, rope_cycles, elementwise_cycles : float
        Context cycles per vector of 64 elements; `convert_cycles` brings activations from FP32 to FP16 tiles.
    policy_one, policy_many : str
        Kernel policy of operators with one row, and with more.
    table : str
        CSV file of measured operators for the policy ``table``.
    inflight_bytes : int
        Bytes in flight of the DMA engine: its weight in DRAM's shares.
    memory, host : str
        Names of the DRAM device and of the CPU whose control core maps buffers.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    clock_hz: KernelClock
    hmx_clock_hz: KernelClock
    hmx_default_clock_hz: KernelClock
    hmx_corner: Literal["max", "default"] = "max"
    hmx_units: Annotated[PositiveInt, Field(le=64)]
    tile_rows: TileEdge
    tile_columns: TileEdge
    tile_depth: TileEdge
    tile_rows_int8: TileEdge
    tile_cycles_fp16: Annotated[Cycles, Field(ge=1, le=10**5)]
    tile_cycles_int8: Annotated[Cycles, Field(ge=1, le=10**5)]
    tile_cycles_int4: Annotated[Cycles, Field(ge=1, le=10**5)]
    packet_tiles: Annotated[PositiveInt, Field(le=1024)]
    packet_cycles: Annotated[Cycles, Field(le=10**4)]
    store_cycles: Annotated[Cycles, Field(le=10**4)]
    accumulators: Annotated[PositiveInt, Field(le=16)]
    hmx_wake_ps: KernelTime
    tile_buffers: Annotated[PositiveInt, Field(le=16)]
    hvx_contexts: Annotated[PositiveInt, Field(le=4096)]
    vtcm_vectors_per_cycle: KernelFactor
    vtcm_bytes: Annotated[Bytes, Field(le=1 << 34)]
    window_bytes: Bytes
    window_sessions: Annotated[PositiveInt, Field(le=64)]
    map_call_ps: KernelTime
    map_ps_per_gib: KernelTime
    page_bytes: Annotated[Bytes, Field(ge=1024, le=1 << 21)] = 4096
    map_slots: Annotated[PositiveInt, Field(le=4096)] = 16
    max_buffer_bytes: Annotated[Bytes, Field(ge=1 << 20)] = 1 << 30
    address_bits: Literal[32, 64] = 32
    swap_call_ps: KernelTime | None = None
    swap_ps_per_gib: KernelTime | None = None
    prepare_ps: KernelTime | None = None
    dma_bytes_per_s: KernelRate
    l2fetch_bytes_per_s: KernelRate
    l2fetch_one_bytes_per_s: KernelRate
    vector_load_bytes_per_s: KernelRate
    vector_load_limit_bytes_per_s: KernelRate
    dma_latency_ps: KernelTime
    dma_in_flight: Annotated[PositiveInt, Field(le=4096)]
    dma_field_bits: Annotated[PositiveInt, Field(ge=12, le=40)]
    dma_in_order: bool = False
    dma_order_ps: KernelTime | None = None
    call: Literal["call", "queue", "rpc"] = "call"
    call_ps: KernelTime
    packet_ps: KernelTime
    poll_ps: KernelTime
    start_ps: KernelTime
    rpc_ps: KernelTime
    host_polls: bool = False
    host_wake_ps: KernelTime = 0
    flush_all_ps: KernelTime
    flush_all_bytes: Annotated[Bytes, Field(ge=4096, le=1 << 31)]
    batch_ops: Annotated[PositiveInt, Field(le=1024)]
    pass_rows: PositiveInt
    row_multiple: Annotated[PositiveInt, Field(le=4096)]
    row_group: Annotated[PositiveInt, Field(le=64)]
    activation_area_bytes: Bytes
    graph_rows: tuple[PositiveInt, ...]
    hmx_attention_rows: PositiveInt
    hmx_rows: PositiveInt
    pipeline_rows: PositiveInt
    pipeline_chunks: Annotated[PositiveInt, Field(le=64)]
    hmx_weight_path: Literal["dma", "l2fetch", "vector"] = "dma"
    hmx_activation_path: Literal["dma", "l2fetch", "vector"] = "dma"
    projection_limit: PositiveInt
    area_bytes: Annotated[Bytes, Field(ge=2048)]
    gemv_cycles: KernelFactor
    unpack_cycles: KernelFactor
    mac_cycles: KernelFactor
    graph_unpack_cycles: KernelFactor
    tile_unpack_cycles: KernelFactor
    fp16_mac_cycles: KernelFactor
    graph_output_cycles: KernelFactor
    output_cycles: KernelFactor
    convert_cycles: KernelFactor
    softmax_cycles: KernelFactor
    norm_cycles: KernelFactor
    rope_cycles: KernelFactor
    elementwise_cycles: KernelFactor
    policy_one: PolicyName
    policy_many: PolicyName
    table: str = ""
    inflight_bytes: Annotated[Bytes, Field(ge=1)]
    memory: str = "dram"
    host: str = "cpu"

    @field_validator("graph_rows")
    @classmethod
    def _ascending(cls, rows: tuple[int, ...]) -> tuple[int, ...]:
        if not rows or list(rows) != sorted(set(rows)):
            raise ValueError(f"graph_rows must ascend and not be empty, not {rows}")
        return rows

    @model_validator(mode="after")
    def _parts_agree(self) -> NpuSpec:
        tile = self.tile_depth * self.tile_columns
        least = self.tile_buffers * (tile * 5 // 8 + 2 * tile) + 2 * self.tile_rows * self.tile_columns
        if self.vtcm_bytes < least:
            raise ValueError(f"vtcm_bytes {self.vtcm_bytes} is below {least}, the tile buffers and one output tile")
        if self.gemv_cycles <= self.mac_cycles:
            raise ValueError(f"gemv_cycles {self.gemv_cycles} must be above mac_cycles {self.mac_cycles}")
        if self.vector_load_limit_bytes_per_s < self.vector_load_bytes_per_s:
            raise ValueError(
                "vector_load_limit_bytes_per_s must not be below vector_load_bytes_per_s, one thread's rate"
            )
        if self.host_wake_ps > self.rpc_ps:
            raise ValueError(f"host_wake_ps {self.host_wake_ps} is above rpc_ps {self.rpc_ps}, which holds it")
        if "table" in (self.policy_one, self.policy_many) and not self.table:
            raise ValueError("policy table needs the path of a CSV file in table")
        return self

    @property
    def hmx_hz(self) -> float:
        """Clock of the matrix unit at the corner it runs at."""
        return self.hmx_clock_hz if self.hmx_corner == "max" else self.hmx_default_clock_hz

    @property
    def vector_all_bytes_per_s(self) -> float:
        """Vector loads of all threads: one thread's rate times the contexts, up to the limit."""
        return min(self.vector_load_bytes_per_s * self.hvx_contexts, self.vector_load_limit_bytes_per_s)

    @property
    def l2fetch_all_bytes_per_s(self) -> float:
        """Prefetch by all threads: one thread's rate times the contexts, up to what L2 can fill."""
        return min(self.l2fetch_one_bytes_per_s * self.hvx_contexts, self.l2fetch_bytes_per_s)


def _milli(value: float) -> int:
    """Thousandths, as kernels hold fractions."""
    return round(value * MILLI)


def numbers_of(spec: NpuSpec, unit: int, stream: int) -> NpuNumbers:
    """Spec as integers, with the ids of the NPU's unit and stream class."""
    way = CallCosts(
        spec.call_ps,
        spec.packet_ps,
        spec.poll_ps,
        spec.start_ps,
        spec.rpc_ps - (spec.host_wake_ps if spec.host_polls else 0),
        spec.flush_all_ps,
        spec.batch_ops,
    )
    return NpuNumbers(
        khz=round(spec.clock_hz / KHZ),
        hmx_khz=round(spec.hmx_hz / KHZ),
        contexts=spec.hvx_contexts,
        ports=_milli(spec.vtcm_vectors_per_cycle),
        vtcm_bytes=spec.vtcm_bytes,
        activation_bytes=spec.activation_area_bytes,
        hmx_units=spec.hmx_units,
        depth=spec.tile_buffers,
        tile_rows=spec.tile_rows,
        tile_rows_int8=spec.tile_rows_int8,
        tile_columns=spec.tile_columns,
        tile_depth=spec.tile_depth,
        tile_fp16=spec.tile_cycles_fp16,
        tile_int8=spec.tile_cycles_int8,
        tile_int4=spec.tile_cycles_int4,
        packet_tiles=spec.packet_tiles,
        packet=spec.packet_cycles * MILLI,
        store=spec.store_cycles * MILLI,
        accumulators=spec.accumulators,
        wake_ps=spec.hmx_wake_ps,
        graph_output=_milli(spec.graph_output_cycles),
        dma_rate=round(spec.dma_bytes_per_s / MB),
        l2fetch_rate=round(spec.l2fetch_all_bytes_per_s / MB),
        vector_one_rate=round(spec.vector_load_bytes_per_s / MB),
        vector_rate=round(spec.vector_all_bytes_per_s / MB),
        dma_latency_ps=spec.dma_latency_ps,
        dma_flight=spec.dma_in_flight,
        dma_limit=(1 << spec.dma_field_bits) - 1,
        dma_in_order=int(spec.dma_in_order),
        dma_order_ps=spec.dma_latency_ps if spec.dma_order_ps is None else spec.dma_order_ps,
        dispatch_ps=way.lead(spec.call),
        flush_ps=0 if spec.call == CALLS[0] else spec.flush_all_ps,
        flush_bytes=spec.flush_all_bytes,
        pass_rows=spec.pass_rows,
        row_multiple=spec.row_multiple,
        row_group=spec.row_group,
        hmx_attention_rows=spec.hmx_attention_rows,
        hmx_rows=spec.hmx_rows,
        pipeline_rows=spec.pipeline_rows,
        pipeline_chunks=spec.pipeline_chunks,
        weight_path=PATHS.index(spec.hmx_weight_path),
        activation_path=PATHS.index(spec.hmx_activation_path),
        projection_limit=spec.projection_limit,
        area_bytes=spec.area_bytes,
        one_row=_milli(spec.gemv_cycles),
        unpack=_milli(spec.unpack_cycles),
        mac=_milli(spec.mac_cycles),
        graph_unpack=_milli(spec.graph_unpack_cycles),
        tile_unpack=_milli(spec.tile_unpack_cycles),
        convert=_milli(spec.convert_cycles),
        output=_milli(spec.output_cycles),
        fp16_mac=_milli(spec.fp16_mac_cycles),
        softmax=_milli(spec.softmax_cycles),
        norm=_milli(spec.norm_cycles),
        rope=_milli(spec.rope_cycles),
        elementwise=_milli(spec.elementwise_cycles),
        policy_one=POLICIES.index(spec.policy_one),
        policy_many=POLICIES.index(spec.policy_many),
        inflight=spec.inflight_bytes,
        unit=unit,
        stream=stream,
    )
