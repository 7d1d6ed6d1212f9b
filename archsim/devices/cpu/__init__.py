"""CPU cluster of a phone: one pool of cores, one pool of bandwidth, three units.

``<name>.compute`` runs one parallel job on ``threads`` cores, ``<name>.control`` control logic on one core and
``<name>.copy`` copies within DRAM on one core; all draw on ``<name>.cores`` and ``<name>.bandwidth``, so a job slows
down when cores run out. What an operator costs is in :mod:`archsim.devices.cpu.costs`.

Not modelled: caches (activations and KV count as DRAM traffic), clock changes (set_rate serves), thread placement other
than fastest first.

Sources: cores and clocks of the SM8650; GEMV 646 / 589 / 324 us and 128-row MUL_MAT 16,085 / 12,033 / 7,181 us per
matrix, 6 threads, Q4_0 (arXiv 2605.27435); 43.9 GB/s for the CPU alone (PowerInfer-2, arXiv 2406.06282).
"""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from archsim.device import STREAMS, Binding, Clock, Cost, Device, DType, OpKind, Ops, Pool, PowerStates, Rows, Unit
from archsim.devices.cpu.costs import ACTIONS, CpuNumbers, plan_cpu
from archsim.devices.cpu.prices import AREA, ENERGY, clock_table, state_table
from archsim.lowering import (
    KernelClock,
    KernelFactor,
    KernelInverse,
    KernelRate,
    KernelTime,
    action_names,
    allowed_kinds,
    build_rows,
    check_ops,
)
from archsim.registry import device
from archsim.units import Bytes, PositiveInt

MB = 1e6
KHZ = 1e3
CLASSES = ("prime", "performance", "efficiency")

#: Cost of unpacking 32 weights relative to Q4_0.
UNPACK: dict[DType, float] = {
    # assumed: nothing to unpack but a load and a conversion
    DType.FP32: 0.5,
    DType.FP16: 0.5,
    DType.BF16: 0.5,
    DType.INT8: 0.4,
    DType.Q8_0: 0.6,
    # assumed: nibbles without a scale per block
    DType.INT4: 0.8,
    DType.Q4_0: 1.0,
    DType.Q4_1: 1.1,
    # assumed: 4 + 2 bit planes and 16 sub-scales; gives the 26 GB/s seen with vocabulary matrices
    DType.Q6_K: 1.6,
    DType.TQ2_0: 0.7,
}
FLOAT_WEIGHTS = (DType.FP32, DType.FP16, DType.BF16)


class CpuSpec(BaseModel):
    """One CPU.

    Attributes
    ----------
    core_hz : tuple of float
        Clock of each core, fastest first.
    core_classes : tuple of str
        Class of each core: ``prime``, ``performance`` or ``efficiency``.
    threads : int
        Cores of a parallel job, taken from the front of the list.
    control_core, single_core : int
        Index of the core for control logic, and for single-threaded operators and copies.
    bandwidth_bytes_per_s, single_bandwidth_bytes_per_s : float
        What all cores together, and one core, can read.
    copy_bytes_per_s : float
        Bytes one core copies per second (each is read and written).
    sync_ps : int
        Waking the job's threads and joining them, per operator (2-15 us).
    random_row_ps : int
        Latency of one scattered table row.
    control_ipc : float
        Instructions per cycle of control code.
    unpack_cycles_per_block : float
        Core cycles to unpack 32 Q4_0 weights.
    mac_cycles_per_block : float
        Core cycles of 32 INT8 multiply-accumulates, scaling included.
    attention_macs_per_cycle : float
        FP16 multiply-accumulates per core cycle in attention.
    softmax_cycles, norm_cycles, rope_cycles, elementwise_cycles, sample_cycles : float
        Core cycles per element.
    inflight_bytes : int
        Bytes in flight of a parallel job: its weight in DRAM's shares.
    memory : str
        Name of the DRAM device.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    core_hz: tuple[KernelClock, ...]
    core_classes: tuple[Literal["prime", "performance", "efficiency"], ...]
    threads: PositiveInt
    control_core: Annotated[int, Field(strict=True, ge=0)]
    single_core: Annotated[int, Field(strict=True, ge=0)]
    bandwidth_bytes_per_s: KernelRate
    single_bandwidth_bytes_per_s: KernelRate
    copy_bytes_per_s: KernelRate
    uncached_bytes_per_s: KernelRate
    sync_ps: KernelTime
    random_row_ps: KernelTime
    control_ipc: KernelInverse
    unpack_cycles_per_block: KernelFactor
    mac_cycles_per_block: KernelFactor
    attention_macs_per_cycle: KernelInverse
    softmax_cycles: KernelFactor
    norm_cycles: KernelFactor
    rope_cycles: KernelFactor
    elementwise_cycles: KernelFactor
    sample_cycles: KernelFactor
    inflight_bytes: Annotated[Bytes, Field(ge=1)]
    memory: str = "dram"

    @model_validator(mode="after")
    def _cores_agree(self) -> CpuSpec:
        cores = len(self.core_hz)
        if len(self.core_classes) != cores:
            raise ValueError(f"core_classes has {len(self.core_classes)} entries, core_hz has {cores}")
        for name, limit in (("threads", cores), ("control_core", cores - 1), ("single_core", cores - 1)):
            if getattr(self, name) > limit:
                raise ValueError(f"{name} is {getattr(self, name)}; with {cores} cores it can be at most {limit}")
        return self


def _milli(value: float) -> int:
    """Thousandths, as kernels hold fractions."""
    return round(value * 1000)


def _khz_by_class(spec: CpuSpec, cores: slice) -> list[int]:
    """Sum of clocks of each class among `cores`, kHz."""
    chosen = list(zip(spec.core_classes, spec.core_hz))[cores]
    return [round(sum(hz for kind, hz in chosen if kind == name) / KHZ) for name in CLASSES]


@device("cpu")
class Cpu(Device):
    """Units compute, control and copy over pools cores and bandwidth."""

    Spec = CpuSpec
    ops = frozenset(
        {
            *(OpKind.MATMUL, OpKind.PROJECTION, OpKind.ATTENTION, OpKind.NORM, OpKind.ROPE, OpKind.ELEMENTWISE),
            *(OpKind.EMBED, OpKind.SAMPLE, OpKind.COPY, OpKind.CONTROL, OpKind.KV_WRITE),
        }
    )

    def units(self) -> list[Unit]:
        """Parallel job, control logic, copies."""
        return [
            Unit(f"{self.name}.compute", "one operator of the thread pool, barrier to barrier"),
            Unit(f"{self.name}.control", "one call of control logic"),
            Unit(f"{self.name}.copy", "one copy"),
        ]

    def pools(self) -> list[Pool]:
        """Cores and what they can ask of DRAM together."""
        return [
            Pool(f"{self.name}.cores", float(len(self.spec.core_hz)), "cores"),
            Pool(f"{self.name}.bandwidth", self.spec.bandwidth_bytes_per_s, "bytes/s"),
        ]

    def peak_ops_per_s(self) -> float:
        """INT8 multiply and add rate of the cores of a parallel job."""
        return 2.0 * 32 / self.spec.mac_cycles_per_block * sum(self.spec.core_hz[: self.spec.threads])

    def bind(self, binding: Binding) -> None:
        """Resolve ids and turn the spec into integers."""
        super().bind(binding)
        spec = self.spec
        self._allowed = allowed_kinds(self.ops)
        self._pools = (
            binding.pool(f"{spec.memory}.bandwidth"),
            binding.pool(f"{self.name}.bandwidth"),
            binding.pool(f"{self.name}.cores"),
        )
        self._actions = action_names(self.name, ACTIONS, spec.memory)
        self._numbers = CpuNumbers(
            sync_ps=spec.sync_ps,
            job_khz=round(sum(spec.core_hz[: spec.threads]) / KHZ),
            job_cores=spec.threads,
            single_khz=round(spec.core_hz[spec.single_core] / KHZ),
            control_khz=round(spec.core_hz[spec.control_core] / KHZ),
            bandwidth=round(spec.bandwidth_bytes_per_s / MB),
            single_bandwidth=round(spec.single_bandwidth_bytes_per_s / MB),
            copy_rate=round(spec.copy_bytes_per_s / MB),
            uncached_rate=round(spec.uncached_bytes_per_s / MB),
            random_row_ps=spec.random_row_ps,
            instruction=_milli(1 / spec.control_ipc),
            mac_block=_milli(spec.mac_cycles_per_block),
            attention_mac=_milli(1 / spec.attention_macs_per_cycle),
            softmax=_milli(spec.softmax_cycles),
            norm=_milli(spec.norm_cycles),
            rope=_milli(spec.rope_cycles),
            elementwise=_milli(spec.elementwise_cycles),
            sample=_milli(spec.sample_cycles),
            inflight=spec.inflight_bytes,
            compute_unit=binding.unit(f"{self.name}.compute"),
            control_unit=binding.unit(f"{self.name}.control"),
            copy_unit=binding.unit(f"{self.name}.copy"),
            seq_stream=STREAMS.index("cpu_seq_read"),
            random_stream=STREAMS.index("random_read"),
            copy_stream=STREAMS.index("copy"),
        )
        self._unpack = np.array([_milli(UNPACK[d] * spec.unpack_cycles_per_block) for d in DType], np.int64)
        self._float = np.array([d in FLOAT_WEIGHTS for d in DType], np.int64)
        one = slice(spec.single_core, spec.single_core + 1)
        control = slice(spec.control_core, spec.control_core + 1)
        clocks = [_khz_by_class(spec, cores) for cores in (slice(0, spec.threads), one, control)]
        self._class_khz = np.array(clocks, np.int64).ravel()

    def lower(self, ops: Ops) -> Rows:
        """One row per operator (times ``parts``); leads are the thread pool's barrier."""
        check_ops(ops, self._allowed, self.name)
        plan, counts = plan_cpu(ops, self._numbers, self._unpack, self._float, self._class_khz)
        return build_rows(ops, plan, counts, self._actions, self._pools)

    def energy(self) -> dict[str, Cost]:
        """Per MAC, per cycle of a busy core by class, per byte through the fabric."""
        return dict(ENERGY)

    def power_states(self) -> dict[str, PowerStates]:
        """Awake while any of its units works."""
        return state_table(self.name)

    def clocks(self) -> tuple[Clock, ...]:
        """One domain for all clusters."""
        return clock_table(self.name, self.spec.core_hz[0])

    def area(self) -> dict[str, Cost]:
        """Cores by class, and their shared cache."""
        table = {name: AREA[name].times(self.spec.core_classes.count(name)) for name in CLASSES}
        return {**table, "l3": AREA["l3"]}
