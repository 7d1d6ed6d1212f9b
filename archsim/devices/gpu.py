"""GPU as a roofline with launches: an operator costs its launches, then the longer of arithmetic and bytes.

Modelled: peak rates by type of weights and the share of them that kernels reach, bandwidth and the share of it that one
kernel reaches, a number of launches per kind of operator. Not modelled: occupancy, caches (activations count as
traffic), wave quantisation, overlap of kernels.

Sources: by part file. No citable page gives the peaks or watts of Adreno 750 or 830.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numba import njit
from pydantic import BaseModel, ConfigDict, Field

from archsim.device import LAYER_OPS, STREAMS, Binding, Cost, Device, DType, OpKind, Ops, Pool, Rows, Unit
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
    KernelRate,
    KernelTime,
    action_names,
    allowed_kinds,
    build_rows,
    bytes_to_ps,
    check_ops,
    count_traffic,
)
from archsim.registry import device
from archsim.units import Bytes, Fraction01, Mw, OpsPerS, Pj, PjPerOp, PositiveInt, Um2

MATMUL, PROJECTION, ATTENTION = int(OpKind.MATMUL), int(OpKind.PROJECTION), int(OpKind.ATTENTION)
KV_WRITE = int(OpKind.KV_WRITE)
ACTIONS = ("op", "vector_op", "launch")
OP, VECTOR, LAUNCH, DRAM = range(4)
FLOAT_WEIGHTS = (DType.FP32, DType.FP16, DType.BF16)
PeakRate = Annotated[OpsPerS, Field(ge=1e9, le=1e16)]
Share = Annotated[Fraction01, Field(ge=0.01)]
#: Operations per element of vector operators, and per score of a softmax. assumed: a norm squares, sums and scales; an
#: activation is an exponential and a product.
VECTOR_OPS, SOFTMAX_OPS = 8, 12


class GpuSpec(BaseModel):
    """One GPU.

    Attributes
    ----------
    fp16_ops_per_s, int8_ops_per_s : float
        Peak multiply and add rates for float and for integer weights.
    compute_share, bandwidth_share : float
        Share of the peaks that kernels reach.
    bandwidth_bytes_per_s : float
        Peak of the path to memory.
    launch_ps : int
        Time of one kernel launch.
    attention_launches : int
        Launches of attention (scores, softmax, values); every other operator takes one.
    op_pj, vector_op_pj, launch_pj : float
        Energy of a multiply or add in a product, of a vector operation, and of a launch.
    static_mw, area_um2 : float
        Power while powered; area.
    inflight_bytes : int
        Bytes in flight: weight in DRAM's shares.
    memory : str
        Name of the DRAM device.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    fp16_ops_per_s: PeakRate
    int8_ops_per_s: PeakRate
    compute_share: Share
    bandwidth_share: Share
    bandwidth_bytes_per_s: KernelRate
    launch_ps: KernelTime
    attention_launches: PositiveInt
    op_pj: PjPerOp
    vector_op_pj: PjPerOp
    launch_pj: Pj
    static_mw: Mw
    area_um2: Um2
    inflight_bytes: Annotated[Bytes, Field(ge=1, lt=1 << 20)]
    memory: str = "dram"


class Numbers(NamedTuple):
    """The spec as integers: 1e6 operations or bytes a second, ps."""

    fp16: int
    int8: int
    bandwidth: int
    launch_ps: int
    attention_launches: int
    inflight: int
    unit: int
    stream: int


@njit(cache=True)
def plan_gpu(ops, c, floats):
    """Plan int64[n, PLAN_COLUMNS] and counts int64[n, len(ACTIONS) + 4]; `floats` is 1 for float weights, by type."""
    size = ops.kind.size
    plan, counts = np.zeros((size, PLAN_COLUMNS), np.int64), np.zeros((size, DRAM + 4), np.int64)
    for i in range(size):
        kind, launches, vector = ops.kind[i], 1, 0
        read, write = ops.weight_bytes[i] + ops.in_bytes[i], ops.out_bytes[i]
        work = 2 * ops.macs[i]
        rate = c.fp16 if floats[ops.wdtype[i]] == 1 or kind == ATTENTION else c.int8
        if kind == ATTENTION:
            read += ops.kv_bytes[i]
            launches = c.attention_launches
            vector = SOFTMAX_OPS * (ops.macs[i] // (2 * ops.head_dim[i]))
        elif kind == KV_WRITE:
            work, write = 0, write + ops.kv_bytes[i]
        elif kind != MATMUL and kind != PROJECTION:
            work, vector = 0, VECTOR_OPS * ops.m[i] * ops.k[i]
        # operations at 1e6/s are timed as bytes at 1e6 bytes/s are
        busy_ps = bytes_to_ps(work, rate) + bytes_to_ps(vector, c.fp16)
        plan[i, TIME_PS] = max(1, busy_ps, bytes_to_ps(read + write, c.bandwidth))
        plan[i, UNIT], plan[i, WEIGHT], plan[i, STREAM] = c.unit, c.inflight, c.stream
        plan[i, LEAD_PS] = launches * c.launch_ps
        plan[i, READ_BYTES], plan[i, WRITE_BYTES] = read, write
        counts[i, OP], counts[i, VECTOR], counts[i, LAUNCH] = work, vector, launches
        count_traffic(counts, i, DRAM, read, write, PAGE_BYTES)
    return plan, counts


@device("gpu")
class Gpu(Device):
    """Unit queue, pool bandwidth."""

    Spec = GpuSpec
    ops = LAYER_OPS

    def units(self) -> list[Unit]:
        """Return the one command queue."""
        return [Unit(f"{self.name}.queue", "one operator: its kernels, in order")]

    def pools(self) -> list[Pool]:
        """Path to memory."""
        return [Pool(f"{self.name}.bandwidth", self.spec.bandwidth_bytes_per_s, "bytes/s")]

    def peak_ops_per_s(self) -> float:
        """INT8 multiply and add rate."""
        return self.spec.int8_ops_per_s

    def bind(self, binding: Binding) -> None:
        """Resolve ids and turn the spec into integers."""
        super().bind(binding)
        spec = self.spec
        self._allowed = allowed_kinds(self.ops)
        self._pools = (binding.pool(f"{spec.memory}.bandwidth"), binding.pool(f"{self.name}.bandwidth"), -1)
        self._actions = action_names(self.name, ACTIONS, spec.memory)
        self._floats = np.array([dtype in FLOAT_WEIGHTS for dtype in DType], np.int64)
        self._numbers = Numbers(
            fp16=round(spec.fp16_ops_per_s * spec.compute_share / 1e6),
            int8=round(spec.int8_ops_per_s * spec.compute_share / 1e6),
            bandwidth=round(spec.bandwidth_bytes_per_s * spec.bandwidth_share / 1e6),
            launch_ps=spec.launch_ps,
            attention_launches=spec.attention_launches,
            inflight=spec.inflight_bytes,
            unit=binding.unit(f"{self.name}.queue"),
            stream=STREAMS.index("other"),
        )

    def lower(self, ops: Ops) -> Rows:
        """One row per operator (times ``parts``); leads are the launches."""
        check_ops(ops, self._allowed, self.name)
        plan, counts = plan_gpu(ops, self._numbers, self._floats)
        return build_rows(ops, plan, counts, self._actions, self._pools)

    def energy(self) -> dict[str, Cost]:
        """Per operation and launch, as the part file states them."""
        spec = self.spec
        values = {"op": spec.op_pj, "vector_op": spec.vector_op_pj, "launch": spec.launch_pj}
        return {name: Cost(value, "pJ", PRICE_SOURCE, (0.3 * value, 3 * value)) for name, value in values.items()}

    def power(self) -> dict[str, Cost]:
        """Static power, as the part file states it."""
        value = self.spec.static_mw
        return {"static": Cost(value, "mW", PRICE_SOURCE, (0.3 * value, 2 * value))}

    def area(self) -> dict[str, Cost]:
        """Area, as the part file states it."""
        value = self.spec.area_um2
        return {"gpu": Cost(value, "um2", PRICE_SOURCE, (0.5 * value, 2 * value))}


PRICE_SOURCE = "part file, with its source there"
