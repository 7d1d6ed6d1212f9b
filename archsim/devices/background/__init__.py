"""Traffic that is there whatever is decoded: display, camera, operating system.

A stream is a device of the machine for the length of one run (``background:`` of a run file). It works in bursts, one
per period: **a row is one burst, all that the stream moves or computes in one period**; what happens within a burst
(lines of a display, slices of a frame) is not modelled. Burst k is due at ``start_ps + k period_ps``, later by a
random part of the period where ``jitter`` is set; a burst begins when it is due and the one before has ended. A burst
that has not ended when the next one is due makes that one late, and nothing is dropped: what was due and not served by
the end of the run is the stream's backlog.

Not modelled: latency that a stream cannot bear (a display that runs dry), quality of service beyond the weight of a
burst in the pool's shares, caches that keep traffic off the DRAM.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from archsim.device import Device, Ops
from archsim.units import PS_PER_S, Fraction01, InputError, Ps, show

#: Periods: shorter bursts are to be put together, so that a minute has no more than 60 000 rows a stream; and a burst's
#: duration must stay within what a row of time holds.
SHORTEST_PS = PS_PER_S // 1000
LONGEST_PS = 60 * PS_PER_S

#: Device kinds by the short name of ``kind:`` in a run file.
KINDS: Mapping[str, str] = {"dram": "dram_stream", "flash": "flash_stream", "cpu": "cpu_stream"}


class BurstSpec(BaseModel):
    """When a stream works.

    Attributes
    ----------
    period_ps : int
        Time from burst to burst, 1 ms to 60 s.
    jitter : float
        Part of the period, 0 to 1, by which a burst may be due later (uniform, drawn for each burst by its number).
    start_ps, stop_ps : int
        First burst, and the time from which on no burst is due (None: the end of the run).
    priority : int
        Order among rows that wait for one unit, lower first; rows of a job have 0.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    period_ps: Annotated[Ps, Field(ge=SHORTEST_PS, le=LONGEST_PS)]
    jitter: Fraction01 = 0.0
    start_ps: Ps = 0
    stop_ps: Ps | None = None
    priority: Annotated[int, Field(strict=True, ge=-1000, le=1000)] = 0

    @model_validator(mode="after")
    def _ends_after_it_starts(self) -> BurstSpec:
        if self.stop_ps is not None and self.stop_ps <= self.start_ps:
            raise ValueError(f"stop_ps {self.stop_ps} must be after start_ps {self.start_ps}")
        return self


def due_amount(per_s: float, bursts: int, period_ps: int) -> int:
    """Amount due in the first `bursts` periods at a rate of `per_s`, rounded down: bursts differ by one at most."""
    return round(per_s) * bursts * period_ps // PS_PER_S


class BackgroundStream(Device):
    """One stream; subclasses say what a burst is.

    ``amount`` counts what a burst is made of: bytes of memory and flash streams, ps of CPU streams.
    """

    amount: ClassVar[str] = "bytes"

    def join(self, devices: Mapping[str, Device]) -> None:
        """Meet the devices of the machine it loads, and refuse what they can never serve.

        Raises
        ------
        InputError
            When the machine lacks a device that the stream loads, or the mean rate is beyond it.
        """
        raise TypeError(f"device {type(self).__name__} joins nothing")

    def burst(self, number: int) -> Ops:
        """Operator of burst `number` (0: the first); empty columns where it moves nothing."""
        raise TypeError(f"device {type(self).__name__} has no bursts")

    def due(self, bursts: int) -> int:
        """Amount of the first `bursts` bursts."""
        raise TypeError(f"device {type(self).__name__} has no bursts")

    def _met(self, devices: Mapping[str, Device], name: str, kind: str) -> Device:
        """Device of that name and kind."""
        found = devices.get(name)
        if found is None or found.kind != kind:
            there = ", ".join(other for other, device in devices.items() if device.kind == kind) or "none"
            raise InputError(
                f"background.{self.name}: the machine has no {kind} named {name!r} (it has: {there}); set another or "
                "leave the stream out"
            )
        return found

    def _refuse_rate(self, asked: float, most: float, what: str, unit: str = "B/s") -> None:
        """Refuse a mean rate that the machine can never serve."""
        if asked > most:
            raise InputError(
                f"background.{self.name} asks for {show(asked, unit)} and {what} serves at most {show(most, unit)}; "
                "lower its rate"
            )
