"""Spec of a PIM memory: standard, ranks, what the host keeps, who runs what is no product."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from archsim.devices.pim.standard import load_pim
from archsim.lowering import KernelClock, KernelRate, KernelTime
from archsim.units import Bytes, Count, Cycles, PositiveFactor, PositiveInt


class PimSpec(BaseModel):
    """One PIM memory, or one rank group of it.

    Attributes
    ----------
    standard : str
        Name of a PIM standard (``lpddr5x_pim``, ...).
    timing_factor : float
        Factor on every time of the standard, its clock period included (1: as the standard says).
    channels, tokens_per_pass : int
        Channels it drives, and vectors that one pass over the weights serves; 0: as the standard says.
    host : str
        ``exclusive``: the host's data share the ranks that compute. ``other_ranks``: they lie in other ranks.
        ``striped``: they are striped over `host_ranks` ranks, one of which computes at a time.
    ranks : int
        Ranks a channel; ``other_ranks`` and ``striped`` need two.
    host_ranks : int
        Ranks that hold host data (``striped``), else 0.
    host_bytes_per_s : float
        Rate of the host's streams when the device rests (the DRAM device's achievable rate): its loss is a share of it.
        Needed unless the whole pool is claimed.
    fence : bool
        A memory fence after each vector load.
    crossing_ps : int
        Time from the host's call to the first command.
    widen : bool
        Store narrower integer weights and float KV rows in the next type the device multiplies, and quantise
        activations to it; otherwise such operators are refused.
    holds : str
        Model role whose weights these ranks hold for another reader too; empty: only the banks read what they hold.
    layout : str
        How both readers find those weights: ``mapped`` (one copy; the mapping serves both, or the other reader takes
        the banks' pieces, see its DMA), or ``twice`` (a second copy).
    vector_unit : str
        ``none``, ``aau`` or ``host``.
    gating : bool
        Rank groups can be switched (CONTROL operators).
    sequencer : str
        Device whose sequencer this one shares; empty: its own.
    aau_clock_hz, aau_lanes, aau_latency_cycles
        The attention algorithm unit of a die (``vector_unit: aau``).
    trip_unit : str
        Unit of the host that runs vector operators (``vector_unit: host``), such as ``npu.core``.
    fence_ps, interrupt_ps, copy_bytes_per_s, trip_elements_per_s, trip_inflight_bytes
        Parts of a trip: a fence (two a trip), notice of the end, copy rate, elements/s of the host's vector work, bytes
        in flight of the copy.
    memory : str
        Name of the DRAM device in the system.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    standard: str
    timing_factor: PositiveFactor = 1.0
    channels: Annotated[Count, Field(le=64)] = 0
    tokens_per_pass: Annotated[Count, Field(le=64)] = 0
    host: Literal["exclusive", "other_ranks", "striped"]
    ranks: Annotated[PositiveInt, Field(le=8)]
    host_ranks: Annotated[Count, Field(le=8)] = 0
    host_bytes_per_s: KernelRate | None = None
    fence: bool
    crossing_ps: KernelTime
    widen: bool = False
    holds: str = ""
    layout: Literal["mapped", "twice"] = "mapped"
    vector_unit: Literal["none", "aau", "host"] = "none"
    gating: bool = False
    sequencer: str = ""
    aau_clock_hz: KernelClock | None = None
    aau_lanes: Annotated[PositiveInt, Field(le=1 << 16)] | None = None
    aau_latency_cycles: Annotated[Cycles, Field(ge=1)] | None = None
    trip_unit: str = ""
    fence_ps: KernelTime | None = None
    interrupt_ps: KernelTime | None = None
    copy_bytes_per_s: KernelRate | None = None
    trip_elements_per_s: Annotated[float, Field(strict=True, ge=1e6, allow_inf_nan=False)] | None = None
    trip_inflight_bytes: Annotated[Bytes, Field(ge=1, lt=1 << 20)] | None = None
    memory: str = "dram"

    @model_validator(mode="after")
    def _fits(self) -> PimSpec:
        there = load_pim(self.standard).organisation["channels"]
        if self.channels > there:
            raise ValueError(f"channels is {self.channels}; {self.standard} has {there}")
        if self.host != "exclusive" and self.ranks < 2:
            raise ValueError(f"host: {self.host} needs 2 ranks or more; ranks is {self.ranks}")
        if (self.host == "striped") != (self.host_ranks > 0) or self.host_ranks > self.ranks:
            raise ValueError(
                f"host_ranks is {self.host_ranks}; host: striped needs 1 to {self.ranks} (ranks), {self.host} needs 0"
            )
        if self.layout != "mapped" and not self.holds:
            raise ValueError(f"layout: {self.layout} needs holds, the role whose weights have two readers")
        if self.host_bytes_per_s is None and (self.host != "exclusive" or self.channels not in (0, there)):
            raise ValueError("host_bytes_per_s is missing; only host: exclusive on all channels goes without")
        need = {"aau": ("aau_clock_hz", "aau_lanes", "aau_latency_cycles"), "host": TRIP, "none": ()}[self.vector_unit]
        for name in need:
            if getattr(self, name) in (None, ""):
                raise ValueError(f"vector_unit: {self.vector_unit} needs {name}")
        return self


TRIP = ("trip_unit", "fence_ps", "interrupt_ps", "copy_bytes_per_s", "trip_elements_per_s", "trip_inflight_bytes")
