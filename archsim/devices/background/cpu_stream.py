"""Work of the operating system and of other apps on the CPU's cores.

A burst holds whole cores for a time and counts their cycles; while the job asks for more cores than are left, both slow
down, about in proportion to the threads (a row of the job has one weight for all it draws on, its bytes in flight; work
that is bound by arithmetic weighs somewhat more than a thread of the stream). It has a unit of its own: it does not
queue with the job's thread pool, as threads of other processes do not. Not modelled: which core a thread lands on,
migration, and what it reads from DRAM (give that as a stream of its own).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from archsim.device import Binding, Device, OpKind, Ops, Rows, Unit, make_ops
from archsim.devices.background import BackgroundStream, BurstSpec, due_amount
from archsim.lowering import ITEMS, PLAN_COLUMNS, TIME_PS, TIME_RATE, UNIT, WEIGHT, build_rows
from archsim.registry import device
from archsim.units import PS_PER_S, InputError, PositiveFactor, rate_fixed


class CpuStreamSpec(BurstSpec):
    """One stream.

    Attributes
    ----------
    core_share : float
        Cores kept busy in the mean: 0.3 is three tenths of one core's time.
    threads : int
        Cores that a burst holds at a time; it lasts ``core_share period_ps / threads`` alone.
    core_class : str
        Class of these cores: their clock makes cycles, and the CPU's energy, of the time. ``slowest``: the last class
        of efficiency, performance and prime that the CPU has.
    cpu : str
        Name of the CPU device.
    """

    core_share: PositiveFactor
    threads: Annotated[int, Field(strict=True, ge=1, le=1024)] = 1
    core_class: Literal["prime", "performance", "efficiency", "slowest"] = "slowest"
    cpu: str = "cpu"

    @model_validator(mode="after")
    def _fits_its_threads(self) -> CpuStreamSpec:
        if self.core_share > self.threads:
            raise ValueError(f"core_share {self.core_share:g} needs more than threads {self.threads}")
        return self


@device("cpu_stream")
class CpuStream(BackgroundStream):
    """Unit ``<name>.burst``; lowers BURST."""

    Spec = CpuStreamSpec
    ops = frozenset({OpKind.BURST})
    amount = "core_ps"

    def units(self) -> list[Unit]:
        """The stream's threads."""
        return [Unit(f"{self.name}.burst", "all that the stream computes in one period")]

    def bind(self, binding: Binding) -> None:
        """Resolve ids."""
        super().bind(binding)
        self._pools = (-1, -1, binding.pool(f"{self.spec.cpu}.cores"))
        self._unit = binding.unit(f"{self.name}.burst")

    def join(self, devices: Mapping[str, Device]) -> None:
        """Take the clock of the cores; refuse more threads than the CPU has cores of their class."""
        spec = self.spec
        cpu = self._met(devices, spec.cpu, "cpu")
        there = [name for name in ("efficiency", "performance", "prime") if name in cpu.spec.core_classes]
        self._class = there[0] if spec.core_class == "slowest" else spec.core_class
        clocks = [hz for name, hz in zip(cpu.spec.core_classes, cpu.spec.core_hz) if name == self._class]
        if len(clocks) < spec.threads:
            raise InputError(
                f"background.{self.name} holds {spec.threads} {self._class} core(s) and {spec.cpu} has "
                f"{len(clocks)}; set background.{self.name}.threads or core_class"
            )
        self._hz = sum(clocks[: spec.threads]) / spec.threads
        # A row's weight is bytes in flight. That of a thread of a job at its full rate, per core, in this row's terms:
        per_byte = cpu.spec.inflight_bytes * TIME_RATE / rate_fixed(cpu.spec.bandwidth_bytes_per_s)
        self._weight = max(round(per_byte), 1)

    def due(self, bursts: int) -> int:
        """Core time of the first `bursts` bursts, ps: that of all threads together."""
        spec = self.spec
        return due_amount(spec.core_share * PS_PER_S / spec.threads, bursts, spec.period_ps) * spec.threads

    def burst(self, number: int) -> Ops:
        """Time that the threads of one period take, ps (column ``n``), and how many (``k``)."""
        threads = self.spec.threads
        time_ps = (self.due(number + 1) - self.due(number)) // threads
        return make_ops([{"kind": OpKind.BURST, "m": 1, "n": time_ps, "k": threads}] if time_ps else [])

    def lower(self, ops: Ops) -> Rows:
        """One row per burst that draws its threads on the pool of cores."""
        spec, n = self.spec, len(ops.kind)
        plan = np.zeros((n, PLAN_COLUMNS), np.int64)
        plan[:, UNIT], plan[:, WEIGHT], plan[:, TIME_PS] = self._unit, self._weight, ops.n
        plan[:, ITEMS] = ops.k << 20
        cycles = np.array([[round(int(t) * int(k) * self._hz / PS_PER_S)] for t, k in zip(ops.n, ops.k)], np.int64)
        return build_rows(ops, plan, cycles, (f"{spec.cpu}.{self._class}_cycle",), self._pools)
