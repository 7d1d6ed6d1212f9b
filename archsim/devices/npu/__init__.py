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

from typing import Any

import numpy as np

from archsim.device import (
    LAYER_OPS,
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
from archsim.devices.npu.draft import NO_ROOM, TOO_WIDE, Factors
from archsim.devices.npu.layouts import sparse_row_update
from archsim.devices.npu.numbers import ACTIONS, TABLE
from archsim.devices.npu.plan import plan_npu
from archsim.devices.npu.policies.measured import KINDS, Table
from archsim.devices.npu.prices import AREA, ENERGY, area_table, clock_table, state_table
from archsim.devices.npu.spec import FLOAT_WEIGHTS, UNPACK, NpuSpec, numbers_of
from archsim.devices.npu.va import AddressWindows, map_ps
from archsim.devices.npu.vtcm import VtcmOverflowError
from archsim.lowering import (
    LEAD_PS,
    PLAN_COLUMNS,
    UNIT,
    WEIGHT,
    action_names,
    allowed_kinds,
    build_rows,
    check_ops,
    records,
)
from archsim.registry import device
from archsim.units import InputError

__all__ = ["UNPACK", "Npu", "NpuSpec"]

#: Code of what is lowered apart; plain, as NumPy takes long to look into an enumeration.
MAP = int(OpKind.MAP)
#: Window of a session whose addresses have 64 bits: more than any phone has memory.
UNLIMITED_BYTES = 1 << 42
#: What a row of the host's mapping thread does, and what the part must say about it: calls that map or unmap; an
#: operator's synchronous call, swapping what it touches; an operator's descriptors, swapping what is not resident.
_MAP_COSTS = {"map": (), "call": ("swap_call_ps", "swap_ps_per_gib"), "prepare": ("prepare_ps", "swap_ps_per_gib")}
MAP_ACTIONS = ("map_call", "map_ns")


@device("npu")
class Npu(Device):
    """Unit core, pools hvx and dma, stores vtcm and window."""

    Spec = NpuSpec
    ops = LAYER_OPS | {OpKind.MAP}

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
        return UNLIMITED_BYTES if self.wide else self.spec.window_bytes * self.spec.window_sessions

    @property
    def operator_call_ps(self) -> int:
        """Latency of calling one operator, which its first row has as a lead."""
        return self.numbers.dispatch_ps

    @property
    def wide(self) -> bool:
        """Whether addresses have 64 bits, so that nothing limits what is mapped."""
        return self.spec.address_bits == 64

    def address_windows(self, sessions: int, buffers: int, **rules: Any) -> AddressWindows:
        """Empty windows of `sessions` sessions for buffers with ids below `buffers`; rules as in the class."""
        size = UNLIMITED_BYTES if self.wide else self.spec.window_bytes
        return AddressWindows(size, self.spec.page_bytes, sessions, buffers, **rules)

    def map_entry(self, cost: str, calls: int, nbytes: int) -> dict[str, int]:
        """MAP operator as :func:`archsim.device.make_ops` takes it.

        Parameters
        ----------
        cost : str
            ``map`` (calls that map or unmap), ``call`` (an operator's call, swapping what it touches) or ``prepare``
            (an operator's descriptors, swapping what is not resident).
        calls, nbytes : int
            Calls, and bytes mapped.

        Raises
        ------
        InputError
            When the part does not state what swapping costs.
        """
        missing = [name for name in _MAP_COSTS[cost] if getattr(self.spec, name) is None]
        if missing:
            raise InputError(
                f"system.{self.name}.{missing[0]} is not given, and the job's mapping needs it; "
                f"set it, or choose another job.mapping"
            )
        counted = {"map": "n", "call": "m", "prepare": "k"}[cost]
        return {"kind": OpKind.MAP, counted: calls, "in_bytes" if cost == "map" else "out_bytes": nbytes}

    def kv_update_bytes(self, head_dim: int, tokens: int, rows: int) -> int:
        """Bytes to copy when a host core replaces the last `rows` of `tokens` keys and values of one head in place.

        Keys lie as the weights of Q K^T, so a token's key is a column: every element is in a line of its own, which is
        read and written back. Values are rows. Half of the lines moved, as a copy reads and writes what it copies.
        """
        changed = np.arange(tokens - rows, tokens)
        keys = sparse_row_update("hmx_weight", head_dim, tokens, changed, axis="cols")
        values = sparse_row_update("hmx_weight", tokens, head_dim, changed)
        return -(-(keys.moved_bytes + values.moved_bytes) // 2)

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
        self._actions = action_names(self.name, ACTIONS, spec.memory)
        self.numbers = numbers_of(spec, binding.unit(f"{self.name}.core"), STREAMS.index("npu_seq_read"))
        self._record = self.numbers.record()
        self.factors = Factors(
            np.array([round(1000 * UNPACK[dtype]) for dtype in DType], np.int64),
            np.array([dtype in FLOAT_WEIGHTS for dtype in DType], np.int64),
        )
        self.graph_rows = np.array(spec.graph_rows, np.int64)
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
        if (ops.kind == MAP).any():
            return self._lower_maps(ops)
        table = self._measured(ops)
        plan, owner, counts, unfit, why = plan_npu(records(ops), self._record, self.factors, self.graph_rows, table)
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
        """One row per MAP on the host's control core, all of it lead: the calls are latency, nothing flows.

        ``n`` calls map ``in_bytes``; ``m`` operators are called synchronously and ``k`` prepared, which swaps
        ``out_bytes``.
        """
        if not (ops.kind == MAP).all():
            raise ValueError(f"MAP operators on device {self.name!r} are lowered apart from others")
        spec = self.spec
        calls_ps = ops.m * (spec.swap_call_ps or 0) + ops.k * (spec.prepare_ps or 0)
        bytes_ps = map_ps(ops.in_bytes, spec.map_ps_per_gib) + map_ps(ops.out_bytes, spec.swap_ps_per_gib or 0)
        host_ps = calls_ps + (0 if self.wide else 1) * bytes_ps
        plan = np.zeros((len(ops.kind), PLAN_COLUMNS), np.int64)
        plan[:, UNIT] = self._host_unit
        plan[:, WEIGHT] = 1
        plan[:, LEAD_PS] = ops.n * spec.map_call_ps + host_ps
        counts = np.stack([ops.n, -(-plan[:, LEAD_PS] // 1000)], axis=1)
        return build_rows(ops, plan, counts, tuple(f"{self.name}.{action}" for action in MAP_ACTIONS), self._pools)

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
        spec = self.spec
        macs_per_cycle = spec.hmx_units * spec.tile_rows * spec.tile_columns * spec.tile_depth / spec.tile_cycles_fp16
        return area_table(AREA, macs_per_cycle, spec.hvx_contexts, spec.vtcm_bytes)
