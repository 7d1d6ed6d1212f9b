"""Hexagon-class NPU: one operator queue over a matrix unit, vector contexts, a DMA engine and a local memory.

Modelled: what an operator costs under a kernel policy (:mod:`archsim.devices.npu.policies`) on the matrix unit
(:mod:`~archsim.devices.npu.hmx`) and the vector contexts (:mod:`~archsim.devices.npu.hvx`); its call; its DRAM
traffic; the sizes of VTCM and of the address window (stores, filled by the runtime). Not modelled here: layout
conversion, mapping of buffers, polling granularity of batches, cache maintenance apart from the call.

Sources: EuroSys'26 (arXiv 2509.23324): tile, VTCM, 12,032.5 and 32.93 GFLOP/s; T-MAN (arXiv 2511.11248): DMA 59,
l2fetch 26/32, vector loads 5/20 GB/s; call of 11-35 us (llama.cpp #18139); window 3,355,443,200 bytes and
projection limit (ggml-hexagon).
"""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from archsim.device import (
    STREAMS,
    Binding,
    Clock,
    Cost,
    Device,
    DType,
    OpKind,
    Ops,
    Pool,
    PowerStates,
    Rows,
    Store,
    Unit,
)
from archsim.devices.npu.policies import ACTIONS, MILLI, POLICIES, NpuNumbers, plan_npu
from archsim.devices.npu.prices import AREA, ENERGY, area_table, clock_table, state_table
from archsim.lowering import (
    DRAM_ACTIONS,
    LEAD_PS,
    PLAN_COLUMNS,
    UNIT,
    WEIGHT,
    KernelClock,
    KernelFactor,
    KernelRate,
    KernelTime,
    allowed_kinds,
    build_rows,
    check_ops,
)
from archsim.registry import device
from archsim.units import Bytes, Cycles, PositiveInt

MB = 1e6
KHZ = 1e3

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
PolicyName = Literal["gemv", "ggml_hvx", "static_graph"]


class NpuSpec(BaseModel):
    """One NPU and the kernels it runs.

    Attributes
    ----------
    clock_hz : float
        Clock of HMX and HVX (whole kHz).
    hmx_units, tile_cycles_fp16, tile_cycles_int8 : int
        Matrix units, and cycles of one 32 x 32 x 32 tile product on one of them.
    tile_buffers : int
        Raw and unpacked weight tiles in VTCM, each (2 is double buffering).
    hvx_contexts : int
        Vector contexts of 128 bytes (4-6).
    vtcm_bytes, window_bytes : int
        Local memory; address window of one session.
    window_sessions : int
        Sessions a process opens, each with a window of its own.
    map_call_ps, map_ps_per_gib : int
        Host time to map one buffer, per call and per GiB (page tables, cache maintenance).
    dma_bytes_per_s, l2fetch_bytes_per_s, vector_load_bytes_per_s : float
        DRAM paths: DMA into VTCM, prefetch by all threads, plain loads and stores of one thread.
    dispatch_ps : int
        Call per operator (11-35 us).
    pass_rows, row_multiple : int
        Rows of one pass of the batched HVX kernel; its rows are padded to `row_multiple`.
    graph_rows : tuple of int
        Fixed shapes of static graphs, ascending.
    hmx_attention_rows : int
        Least query rows for attention on HMX.
    gemv_cycles, unpack_cycles, mac_cycles, graph_unpack_cycles, fp16_mac_cycles : float
        Context cycles per vector of 128 weights: whole one-row kernel; unpacking through VTCM for a batch; one row of
        INT8 multiply-accumulates with scaling; unpacking in a static graph; one row of FP16 multiply-accumulates.
    graph_output_cycles : float
        Context cycles per output element that HVX converts and stores after HMX.
    softmax_cycles, norm_cycles, rope_cycles, elementwise_cycles : float
        Context cycles per vector of 64 elements.
    policy_one, policy_many : str
        Kernel policy of operators with one row, and with more.
    inflight_bytes : int
        Bytes in flight of the DMA engine: its weight in DRAM's shares.
    memory, host : str
        Names of the DRAM device and of the CPU whose control core maps buffers.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    clock_hz: KernelClock
    hmx_units: PositiveInt
    tile_cycles_fp16: Annotated[Cycles, Field(ge=1)]
    tile_cycles_int8: Annotated[Cycles, Field(ge=1)]
    tile_buffers: Annotated[PositiveInt, Field(le=16)]
    hvx_contexts: PositiveInt
    vtcm_bytes: Bytes
    window_bytes: Bytes
    window_sessions: PositiveInt
    map_call_ps: KernelTime
    map_ps_per_gib: KernelTime
    dma_bytes_per_s: KernelRate
    l2fetch_bytes_per_s: KernelRate
    vector_load_bytes_per_s: KernelRate
    dispatch_ps: KernelTime
    pass_rows: PositiveInt
    row_multiple: PositiveInt
    graph_rows: tuple[PositiveInt, ...]
    hmx_attention_rows: PositiveInt
    gemv_cycles: KernelFactor
    unpack_cycles: KernelFactor
    mac_cycles: KernelFactor
    graph_unpack_cycles: KernelFactor
    fp16_mac_cycles: KernelFactor
    graph_output_cycles: KernelFactor
    softmax_cycles: KernelFactor
    norm_cycles: KernelFactor
    rope_cycles: KernelFactor
    elementwise_cycles: KernelFactor
    policy_one: PolicyName
    policy_many: PolicyName
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
        least = self.tile_buffers * (640 + 2048) + 2048
        if self.vtcm_bytes < least:
            raise ValueError(f"vtcm_bytes {self.vtcm_bytes} is below {least}, the tile buffers and one output tile")
        if self.gemv_cycles <= self.mac_cycles:
            raise ValueError(f"gemv_cycles {self.gemv_cycles} must be above mac_cycles {self.mac_cycles}")
        return self


def _milli(value: float) -> int:
    """Thousandths, as kernels hold fractions."""
    return round(value * MILLI)


@device("npu")
class Npu(Device):
    """Unit core, pools hvx and dma, stores vtcm and window."""

    Spec = NpuSpec
    ops = frozenset(
        {
            *(OpKind.MATMUL, OpKind.PROJECTION, OpKind.ATTENTION),
            *(OpKind.NORM, OpKind.ROPE, OpKind.ELEMENTWISE, OpKind.KV_WRITE, OpKind.MAP),
        }
    )
    kind = "npu"

    def units(self) -> list[Unit]:
        """Return the one operator queue."""
        return [Unit(f"{self.name}.core", "one operator; the queue is not pre-empted inside it")]

    def pools(self) -> list[Pool]:
        """Vector contexts and DMA bandwidth."""
        return [
            Pool(f"{self.name}.hvx", float(self.spec.hvx_contexts), "contexts"),
            Pool(f"{self.name}.dma", self.spec.dma_bytes_per_s, "bytes/s"),
        ]

    def stores(self) -> list[Store]:
        """Local memory and address window."""
        return [
            Store(f"{self.name}.vtcm", self.spec.vtcm_bytes, "bytes"),
            Store(f"{self.name}.window", self.window_bytes, "bytes"),
        ]

    @property
    def window_bytes(self) -> int:
        """Bytes that all sessions together can have mapped."""
        return self.spec.window_bytes * self.spec.window_sessions

    def peak_ops_per_s(self) -> float:
        """FP16 rate of the matrix units."""
        return 2.0 * 32**3 / self.spec.tile_cycles_fp16 * self.spec.hmx_units * self.spec.clock_hz

    def bind(self, binding: Binding) -> None:
        """Resolve ids and turn the spec into integers."""
        super().bind(binding)
        spec = self.spec
        self._allowed = allowed_kinds(self.ops)
        self._pools = (
            binding.pool(f"{spec.memory}.bandwidth"),
            binding.pool(f"{self.name}.dma"),
            binding.pool(f"{self.name}.hvx"),
        )
        self._host_unit = binding.unit(f"{spec.host}.control")
        self._actions = tuple(f"{self.name}.{action}" for action in ACTIONS) + tuple(
            f"{spec.memory}.{action}" for action in DRAM_ACTIONS
        )
        self._numbers = NpuNumbers(
            khz=round(spec.clock_hz / KHZ),
            contexts=spec.hvx_contexts,
            vtcm_bytes=spec.vtcm_bytes,
            hmx_units=spec.hmx_units,
            depth=spec.tile_buffers,
            tile_fp16=spec.tile_cycles_fp16,
            tile_int8=spec.tile_cycles_int8,
            graph_output=_milli(spec.graph_output_cycles),
            dma_rate=round(spec.dma_bytes_per_s / MB),
            l2fetch_rate=round(spec.l2fetch_bytes_per_s / MB),
            vector_rate=round(spec.vector_load_bytes_per_s / MB),
            dispatch_ps=spec.dispatch_ps,
            pass_rows=spec.pass_rows,
            row_multiple=spec.row_multiple,
            hmx_attention_rows=spec.hmx_attention_rows,
            one_row=_milli(spec.gemv_cycles),
            unpack=_milli(spec.unpack_cycles),
            mac=_milli(spec.mac_cycles),
            graph_unpack=_milli(spec.graph_unpack_cycles),
            fp16_mac=_milli(spec.fp16_mac_cycles),
            softmax=_milli(spec.softmax_cycles),
            norm=_milli(spec.norm_cycles),
            rope=_milli(spec.rope_cycles),
            elementwise=_milli(spec.elementwise_cycles),
            policy_one=POLICIES.index(spec.policy_one),
            policy_many=POLICIES.index(spec.policy_many),
            inflight=spec.inflight_bytes,
            unit=binding.unit(f"{self.name}.core"),
            stream=STREAMS.index("npu_seq_read"),
        )
        self._factor = np.array([_milli(UNPACK[dtype]) for dtype in DType], np.int64)
        self._float = np.array([dtype in FLOAT_WEIGHTS for dtype in DType], np.int64)
        self._graph_rows = np.array(spec.graph_rows, np.int64)

    def lower(self, ops: Ops) -> Rows:
        """One row per operator (times ``parts``); leads are the calls. MAP operators are lowered by themselves.

        Raises
        ------
        ValueError
            For a kind it does not run, an operator without rows, and one whose rows do not fit in VTCM.
        """
        check_ops(ops, self._allowed, self.name)
        if (ops.kind == OpKind.MAP).any():
            return self._lower_maps(ops)
        plan, counts, unfit = plan_npu(ops, self._numbers, self._factor, self._float, self._graph_rows)
        if unfit >= 0:
            raise ValueError(
                f"operator {unfit} on device {self.name!r}: 32 rows of k = {int(ops.k[unfit])} do not fit in "
                f"{self.spec.vtcm_bytes} bytes of VTCM"
            )
        return build_rows(ops, plan, counts, self._actions, self._pools)

    def _lower_maps(self, ops: Ops) -> Rows:
        """One row per MAP on the host's control core, all of it lead: the calls are latency, nothing flows."""
        if not (ops.kind == OpKind.MAP).all():
            raise ValueError(f"MAP operators on device {self.name!r} are lowered apart from others")
        plan = np.zeros((len(ops.kind), PLAN_COLUMNS), np.int64)
        plan[:, UNIT] = self._host_unit
        plan[:, WEIGHT] = 1
        per_gib = self.spec.map_ps_per_gib
        plan[:, LEAD_PS] = ops.n * self.spec.map_call_ps + -(-ops.in_bytes * per_gib // (1 << 30))
        counts = np.stack([ops.n, -(-plan[:, LEAD_PS] // 1000)], axis=1)
        return build_rows(ops, plan, counts, (f"{self.name}.map_call", f"{self.name}.map_ns"), self._pools)

    def energy(self) -> dict[str, Cost]:
        """Per multiply-accumulate, context cycle, byte moved and call."""
        return dict(ENERGY)

    def power_states(self) -> dict[str, PowerStates]:
        """Awake while the queue works."""
        return state_table(f"{self.name}.core")

    def clocks(self) -> tuple[Clock, ...]:
        """Clock of matrix unit and vector contexts."""
        return clock_table(self.name, self.spec.clock_hz, (self.spec.policy_one, self.spec.policy_many))

    def area(self) -> dict[str, Cost]:
        """Scaled by matrix units, contexts and local memory."""
        macs_per_cycle = self.spec.hmx_units * 32**3 / self.spec.tile_cycles_fp16
        return area_table(AREA, macs_per_cycle, self.spec.hvx_contexts, self.spec.vtcm_bytes)
