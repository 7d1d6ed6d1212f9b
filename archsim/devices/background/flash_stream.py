"""A stream of reads from flash: paging, indexing, an app that loads.

A burst is one load on the flash device's command queue, sequential or scattered, with the device's own times and costs;
other loads wait behind it, and it waits for the one under way. Rows of a unit go by priority and then in the order in
which they were emitted, and all loads of a pass are emitted with it: a burst therefore has a priority of -1 by default,
so that it goes before loads that only become ready after it was due.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import numpy as np
from pydantic import Field, model_validator

from archsim.device import Device, OpKind, Ops, Rows, make_ops
from archsim.devices.background import BackgroundStream, BurstSpec, due_amount
from archsim.registry import device
from archsim.units import PS_PER_S, Bytes, BytesPerS


class FlashStreamSpec(BurstSpec):
    """One stream.

    Attributes
    ----------
    read_bytes_per_s : float
        Mean rate.
    request_bytes : int or None
        Bytes per request; None is the flash device's own.
    span_bytes : int
        Bytes over which requests are scattered; 0: sequential.
    flash : str
        Name of the flash device.
    priority : int
        Order in the queue, lower first; -1 by default.
    """

    priority: Annotated[int, Field(strict=True, ge=-1000, le=1000)] = -1

    read_bytes_per_s: BytesPerS
    request_bytes: Annotated[Bytes, Field(ge=512, le=1 << 30)] | None = None
    span_bytes: Bytes = 0
    flash: str = "flash"

    @model_validator(mode="after")
    def _moves_something(self) -> FlashStreamSpec:
        if self.read_bytes_per_s * self.period_ps < 512e12:
            raise ValueError(f"period_ps {self.period_ps} is so short that a burst has less than a sector")
        return self


@device("flash_stream")
class FlashStream(BackgroundStream):
    """Has no unit of its own: it takes its turn in the flash device's queue; lowers BURST."""

    Spec = FlashStreamSpec
    ops = frozenset({OpKind.BURST})

    def join(self, devices: Mapping[str, Device]) -> None:
        """Refuse a rate above what flash serves in such requests, bursts of a period one after the other."""
        spec = self.spec
        self._flash = self._met(devices, spec.flash, "flash")
        rows = self._flash.lower(_loads(self.burst(0)))
        alone_ps = int((rows.lead + -(-rows.work // rows.cap)).sum())
        most = self.due(1) / alone_ps * PS_PER_S
        self._refuse_rate(spec.read_bytes_per_s, most, f"{spec.flash} in bursts of {self.due(1)} B")
        self.queue_share = alone_ps / spec.period_ps  #: part of the time that the queue is held by bursts alone
        self.memory = self._flash.spec.memory

    def due(self, bursts: int) -> int:
        """Bytes of the first `bursts` bursts."""
        return due_amount(self.spec.read_bytes_per_s, bursts, self.spec.period_ps)

    def burst(self, number: int) -> Ops:
        """Bytes read in one period."""
        size, spec = self.due(number + 1) - self.due(number), self.spec
        request = 0 if spec.request_bytes is None else spec.request_bytes
        return make_ops(
            [{"kind": OpKind.BURST, "m": 1, "weight_bytes": size, "n": request, "k": spec.span_bytes}] if size else []
        )

    def lower(self, ops: Ops) -> Rows:
        """The load as the flash device lowers it."""
        return self._flash.lower(_loads(ops))


def _loads(ops: Ops) -> Ops:
    return ops._replace(kind=np.full_like(ops.kind, int(OpKind.LOAD)))
