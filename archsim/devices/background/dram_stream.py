"""A stream of reads and writes of the DRAM: a display that fetches frames, a camera that stores them.

A burst holds the stream's own unit and draws on the memory's pool with its class of the mix. It flows at the peak rate
of the port while the pool grants it; the peak is above the mean, so a burst that was held up is made good. Classes
that the memory has no measured or calibrated mix for (``other``) leave its capacity as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from archsim.device import STREAMS, Binding, Device, OpKind, Ops, Rows, Unit, make_ops
from archsim.devices.background import BackgroundStream, BurstSpec, due_amount
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
    action_names,
    build_rows,
    bytes_to_ps,
    count_traffic,
)
from archsim.registry import device
from archsim.units import Bytes, BytesPerS


class DramStreamSpec(BurstSpec):
    """One stream.

    Attributes
    ----------
    read_bytes_per_s, write_bytes_per_s : float or None
        Mean rates; at least one.
    headroom : float
        Rate of a burst alone over the mean rate, at least 1. 2 is assumed: half of the time is slack.
    stream : str
        Class in the mix of the memory's streams.
    inflight_bytes : int
        Bytes in flight: the weight of a burst in the memory's shares.
    memory : str
        Name of the DRAM device.
    """

    read_bytes_per_s: BytesPerS | None = None
    write_bytes_per_s: BytesPerS | None = None
    headroom: Annotated[float, Field(strict=True, ge=1, le=1000)] = 2.0
    stream: Literal[STREAMS[1:]] = "other"  # type: ignore[valid-type]
    inflight_bytes: Annotated[Bytes, Field(ge=1, le=1 << 24)] = 4096
    memory: str = "dram"

    @model_validator(mode="after")
    def _moves_something(self) -> DramStreamSpec:
        if not self.mean_bytes_per_s:
            raise ValueError("gives neither read_bytes_per_s nor write_bytes_per_s")
        if self.mean_bytes_per_s * self.period_ps < 1e12:
            raise ValueError(f"period_ps {self.period_ps} is so short that a burst has no whole byte")
        return self

    @property
    def mean_bytes_per_s(self) -> float:
        """Reads and writes together."""
        return (self.read_bytes_per_s or 0.0) + (self.write_bytes_per_s or 0.0)


@device("dram_stream")
class DramStream(BackgroundStream):
    """Unit ``<name>.burst``; lowers BURST."""

    Spec = DramStreamSpec
    ops = frozenset({OpKind.BURST})

    def units(self) -> list[Unit]:
        """The stream's port."""
        return [Unit(f"{self.name}.burst", "all that the stream moves in one period")]

    def bind(self, binding: Binding) -> None:
        """Resolve ids."""
        super().bind(binding)
        self._pools = (binding.pool(f"{self.spec.memory}.bandwidth"), -1, -1)
        self._unit = binding.unit(f"{self.name}.burst")
        self._actions = action_names(self.name, (), self.spec.memory)

    def join(self, devices: Mapping[str, Device]) -> None:
        """Refuse a rate above what the memory reaches."""
        memory = self._met(devices, self.spec.memory, "dram")
        self._refuse_rate(self.spec.mean_bytes_per_s, memory.bandwidth_bytes_per_s(), memory.name)

    def _parts(self, bursts: int) -> tuple[int, int]:
        spec = self.spec
        rates = (spec.read_bytes_per_s or 0.0, spec.write_bytes_per_s or 0.0)
        read, write = (due_amount(rate, bursts, spec.period_ps) for rate in rates)
        return read, write

    def due(self, bursts: int) -> int:
        """Bytes of the first `bursts` bursts."""
        return sum(self._parts(bursts))

    def burst(self, number: int) -> Ops:
        """Bytes read and written in one period."""
        before, after = self._parts(number), self._parts(number + 1)
        read, write = (b - a for a, b in zip(before, after))
        if not read + write:
            return make_ops([])
        return make_ops([{"kind": OpKind.BURST, "m": 1, "in_bytes": read, "out_bytes": write}])

    def lower(self, ops: Ops) -> Rows:
        """One row per burst, at the port's rate."""
        spec, n = self.spec, len(ops.kind)
        peak = spec.headroom * spec.mean_bytes_per_s
        plan, counts = np.zeros((n, PLAN_COLUMNS), np.int64), np.zeros((n, 4), np.int64)
        for i in range(n):
            read, write = int(ops.in_bytes[i]), int(ops.out_bytes[i])
            plan[i, UNIT], plan[i, WEIGHT], plan[i, LEAD_PS] = self._unit, spec.inflight_bytes, 0
            plan[i, TIME_PS] = bytes_to_ps(read + write, max(round(peak / 1e6), 1))
            plan[i, READ_BYTES], plan[i, WRITE_BYTES] = read, write
            plan[i, STREAM] = STREAMS.index(spec.stream)
            count_traffic(counts, i, 0, read, write, PAGE_BYTES)
        return build_rows(ops, plan, counts, self._actions, self._pools)
