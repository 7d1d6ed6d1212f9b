"""Hexagon-class NPU: one operator queue over a matrix unit, vector contexts, DMA paths and a local memory.

Modelled: what an operator costs under a kernel policy (:mod:`archsim.devices.npu.policies`) on the matrix unit
(:mod:`~archsim.devices.npu.hmx`), the vector contexts and their ports into VTCM (:mod:`~archsim.devices.npu.hvx`),
chunks that VTCM holds (:mod:`~archsim.devices.npu.vtcm`), descriptors (:mod:`~archsim.devices.npu.dma`), its
call (:mod:`~archsim.devices.npu.dispatch`); its DRAM traffic; the address window (a store, filled by the runtime). An
operator becomes a chain of rows that lasts as long as its walk at any share of DRAM
(:mod:`~archsim.devices.npu.chain`).

Sources: EuroSys'26 (arXiv 2509.23324): tile, VTCM, 12,032.5 and 32.93 GFLOP/s; T-MAN (arXiv 2511.11248): DMA 59,
l2fetch 26/32, vector loads 5/20 GB/s; call of 11-35 us (llama.cpp #18139); window 3,355,443,200 bytes, chunk search and
projection limit (ggml-hexagon).
"""

from __future__ import annotations

import numpy as np

from archsim.device import STREAMS, Binding, Cost, Device, DType, OpKind, Ops, Pool, Rows, Store, Unit
from archsim.devices.npu.numbers import ACTIONS, TABLE
from archsim.devices.npu.plan import NO_ROOM, TOO_WIDE, plan_npu
from archsim.devices.npu.policies.measured import KINDS, Table
from archsim.devices.npu.prices import AREA, ENERGY, POWER, area_table
from archsim.devices.npu.spec import FLOAT_WEIGHTS, UNPACK, NpuSpec, numbers_of
from archsim.devices.npu.vtcm import VtcmOverflowError
from archsim.lowering import (
    DRAM_ACTIONS,
    LEAD_PS,
    PLAN_COLUMNS,
    UNIT,
    WEIGHT,
    allowed_kinds,
    build_rows,
    check_ops,
)
from archsim.registry import device

__all__ = ["UNPACK", "Npu", "NpuSpec"]


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
        return [Unit(f"{self.name}.core", "one phase of an operator; the queue is not pre-empted inside it")]

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
        spec = self.spec
        macs = spec.tile_rows * spec.tile_columns * spec.tile_depth
        return 2.0 * macs / spec.tile_cycles_fp16 * spec.hmx_units * spec.hmx_hz

    def peak_int8_ops_per_s(self) -> float:
        """INT8 rate of the matrix units."""
        spec = self.spec
        macs = spec.tile_rows_int8 * spec.tile_columns * spec.tile_depth
        return 2.0 * macs / spec.tile_cycles_int8 * spec.hmx_units * spec.hmx_hz

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
        self.numbers = numbers_of(spec, binding.unit(f"{self.name}.core"), STREAMS.index("npu_seq_read"))
        self._factor = np.array([round(1000 * UNPACK[dtype]) for dtype in DType], np.int64)
        self._float = np.array([dtype in FLOAT_WEIGHTS for dtype in DType], np.int64)
        self._graph_rows = np.array(spec.graph_rows, np.int64)
        self._table = Table(spec.table) if spec.table else None

    def lower(self, ops: Ops) -> Rows:
        """Rows of operators (times ``parts``); leads are the calls. MAP operators are lowered by themselves.

        Raises
        ------
        VtcmOverflowError
            For a matrix product of which not one row tile fits in VTCM.
        ValueError
            For a kind it does not run, an operator without rows, a product too wide for its kernel, and one that the
            table does not have.
        """
        check_ops(ops, self._allowed, self.name)
        if (ops.kind == OpKind.MAP).any():
            return self._lower_maps(ops)
        table = self._measured(ops)
        plan, owner, counts, unfit, why = plan_npu(
            ops, self.numbers, self._factor, self._float, self._graph_rows, table
        )
        if unfit >= 0:
            self._refuse(ops, unfit, why)
        rows = build_rows(ops._replace(parts=np.ones(len(plan), np.int64)), plan, counts, self._actions, self._pools)
        return rows._replace(op=owner)

    def _measured(self, ops: Ops) -> np.ndarray:
        """What the table has of operators that run by it."""
        if self._table is None:
            return np.zeros((len(ops.kind), 5), np.int64)
        policy = np.where(ops.m == 1, self.numbers.policy_one, self.numbers.policy_many)
        return self._table.columns(ops, (policy == TABLE) & np.isin(ops.kind, KINDS))

    def _refuse(self, ops: Ops, at: int, why: int) -> None:
        """Raise the reason why operator `at` cannot run."""
        spec, where = self.spec, f"operator {at} on device {self.name!r}"
        k, n = int(ops.k[at]), int(ops.n[at])
        if why == NO_ROOM and ops.kind[at] == OpKind.ATTENTION:
            raise VtcmOverflowError(
                f"{where}: a block of queries and keys with heads of {int(ops.head_dim[at])} does not fit in "
                f"{spec.vtcm_bytes} bytes of VTCM"
            )
        if why == NO_ROOM:
            policy = spec.policy_one if ops.m[at] == 1 else spec.policy_many
            name, size = ("area_bytes", spec.area_bytes) if policy == "sequential" else ("VTCM", spec.vtcm_bytes)
            raise VtcmOverflowError(f"{where}: {spec.tile_rows} rows of k = {k} do not fit in {size} bytes of {name}")
        if why == TOO_WIDE:
            raise ValueError(
                f"{where}: n = {n} is above the {spec.projection_limit} outputs that ggml_hmx takes; "
                "place the projection on the CPU"
            )
        dtype, rows = DType(int(ops.wdtype[at])).name.lower(), int(ops.m[at])
        raise ValueError(f"{where}: the table {spec.table} has no {dtype} product ({rows} rows, {k} x {n})")

    def _lower_maps(self, ops: Ops) -> Rows:
        """One row per MAP on the host's control core, all of it lead: the calls are latency, nothing flows."""
        if not (ops.kind == OpKind.MAP).all():
            raise ValueError(f"MAP operators on device {self.name!r} are lowered apart from others")
        plan = np.zeros((len(ops.kind), PLAN_COLUMNS), np.int64)
        plan[:, UNIT] = self._host_unit
        plan[:, WEIGHT] = 1
        per_gib = self.spec.map_ps_per_gib
        plan[:, LEAD_PS] = ops.n * self.spec.map_call_ps + -(-ops.in_bytes * per_gib // (1 << 30))
        counts = ops.n[:, None].copy()
        return build_rows(ops, plan, counts, (f"{self.name}.map_call",), self._pools)

    def energy(self) -> dict[str, Cost]:
        """Per multiply-accumulate, context cycle, byte moved and call."""
        return dict(ENERGY)

    def power(self) -> dict[str, Cost]:
        """Leakage."""
        return dict(POWER)

    def area(self) -> dict[str, Cost]:
        """Scaled by matrix units, contexts and local memory."""
        spec = self.spec
        macs_per_cycle = spec.hmx_units * spec.tile_rows * spec.tile_columns * spec.tile_depth / spec.tile_cycles_fp16
        return area_table(AREA, macs_per_cycle, spec.hvx_contexts, spec.vtcm_bytes)
