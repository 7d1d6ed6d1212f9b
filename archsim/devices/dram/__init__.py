"""DRAM of a phone as one pool of bandwidth and one store of capacity.

Modelled: a pool whose capacity depends on the mix of streams that flow, a store of bytes, energy by command and bit,
static power of background and refresh. The speed of a single consumer is that consumer's own cap, not the pool's.
Capacity of a mix: a measured entry of ``mix`` (a fraction of the peak) where there is one; else, with
``calibrated: command``, the achievable rate times the fraction that the command-level kernel finds for such streams
(:func:`archsim.devices.dram.calibrate.class_fractions`); else the achievable rate. Not modelled here: banks, timing
constraints and refresh stalls (they enter by that calibration).

Sources: peak = transfer rate x width; achievable 61.9 GB/s and single consumers at 40-45 GB/s of 68 GB/s parts
(HeteroInfer, arXiv 2501.14794); CPU 43.9, NPU 56, both 59.6 GB/s on one phone (PowerInfer-2, arXiv 2406.06282);
energies derived from published LPDDR5 current sets. No vendor data sheet of LPDDR5 currents is public.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from archsim.device import STREAMS, Cost, Device, Pool, PowerStates, Store
from archsim.registry import device
from archsim.sharing import shared
from archsim.units import Bits, Bytes, BytesPerS, InputError, PositiveFactor, PositiveInt, TransfersPerS


class DramSpec(BaseModel):
    """One DRAM system.

    Attributes
    ----------
    standard : str
        Name of the standard and speed, such as ``lpddr5x-9600``.
    rate_factor : float
        How many times the rate of the part the whole memory runs at: transfers, achievable rate and mixes. Energies by
        command and bit, static powers and areas stay.
    timing_factor : float
        Factor on every time of the standard, its clock period included (1: as the standard says). A calibrated part
        moves as many times fewer transfers per second, and the fractions of the peak that mixes reach stay.
    transfer_rate_per_s : float
        Transfers per second and pin (6.4e9 to 10.667e9 for LPDDR5/5X).
    bus_width_bits : int
        Width of all channels together (64 on phones).
    channels, ranks : int
        Channels of ``bus_width_bits / channels`` bits, and ranks on each; their product is the number of dies.
    achievable_bytes_per_s : float
        Pool capacity for stream sets without an entry in `mix`; at most the peak.
    capacity_bytes : int
        Size of the store.
    mix : dict
        Stream classes joined by ``+`` -> measured capacity as a fraction of the peak.
    calibrated : str
        ``command``: mixes that `mix` does not list come from the command-level kernel; ``none``: they get
        `achievable_bytes_per_s`.
    controller : str
        Controller of that kernel.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    standard: str
    rate_factor: PositiveFactor = 1.0
    timing_factor: PositiveFactor = 1.0
    transfer_rate_per_s: TransfersPerS
    bus_width_bits: Bits
    channels: Annotated[PositiveInt, Field(le=64)]
    ranks: Annotated[PositiveInt, Field(le=8)]
    achievable_bytes_per_s: BytesPerS
    capacity_bytes: Annotated[Bytes, Field(le=1 << 39)]
    mix: dict[str, Annotated[float, Field(gt=0, le=1)]] = Field(default_factory=dict)
    calibrated: Literal["none", "command"] = "none"
    controller: str = "mobile"

    @property
    def peak_bytes_per_s(self) -> float:
        """Transfers per second times width, without `rate_factor`."""
        return self.transfer_rate_per_s * self.bus_width_bits / 8

    @property
    def dies(self) -> int:
        """Dies behind the bus, one per channel and rank."""
        return self.channels * self.ranks

    @field_validator("mix")
    @classmethod
    def _known_streams(cls, mix: dict[str, float]) -> dict[str, float]:
        for key in mix:
            for stream in key.split("+"):
                if stream not in STREAMS[1:]:
                    raise ValueError(f"mix: unknown stream class {stream!r}; known: {', '.join(STREAMS[1:])}")
        return mix

    @model_validator(mode="after")
    def _below_peak(self) -> DramSpec:
        instead = "for a faster or slower memory set rate_factor instead, which moves every rate of it"
        if self.achievable_bytes_per_s > self.peak_bytes_per_s:
            raise ValueError(
                f"achievable_bytes_per_s {self.achievable_bytes_per_s:.4g} is above the peak of "
                f"{self.peak_bytes_per_s:.4g}; {instead}"
            )
        for key, fraction in self.mix.items():
            if fraction * self.peak_bytes_per_s > self.achievable_bytes_per_s * (1 + 1e-9):
                raise ValueError(f"mix: {key} at {fraction:g} of the peak is above achievable_bytes_per_s; {instead}")
        return self

    def nominal_bytes_per_s(self) -> float:
        """Peak of the standard on all channels, its times as the standard says."""
        from archsim.devices.dram.standard import load_standard

        peak_gb_s: float = shared("peak of a standard", self.standard, lambda: load_standard(self.standard).peak_gb_s)
        return peak_gb_s * 1e9 * self.channels


@device("dram")
class Dram(Device):
    """Pool ``<name>.bandwidth`` and store ``<name>.capacity``; has no units and lowers nothing."""

    Spec = DramSpec

    def pools(self) -> list[Pool]:
        """Bandwidth, by the mix of streams; what was measured goes before what was calibrated."""
        peak = self.spec.rate_factor * self.spec.peak_bytes_per_s
        mix = self._calibrated() if self.spec.calibrated == "command" else {}
        mix |= {frozenset(key.split("+")): fraction * peak for key, fraction in self.spec.mix.items()}
        return [Pool(f"{self.name}.bandwidth", self.bandwidth_bytes_per_s(), "bytes/s", mix)]

    def _calibrated(self) -> dict[frozenset[str], float]:
        """Capacity by set of stream classes, from the kernel, scaled to the achievable rate."""
        # Loaded on use: a part without calibration needs none of the kernel's modules.
        from archsim.devices.dram.calibrate import class_fractions

        spec = self.spec
        nominal, given = spec.nominal_bytes_per_s(), spec.peak_bytes_per_s
        peak = nominal / spec.timing_factor
        if abs(peak - spec.peak_bytes_per_s) > 1e-6 * peak:
            raise InputError(
                f"system.{self.name}: {spec.standard} on {spec.channels} channels peaks at {peak / 1e9:.4g} GB/s, "
                f"transfer rate x width is {given / 1e9:.4g} GB/s; for another rate set system.{self.name}.rate_factor="
                f"{given / peak:.12g} instead, for another width system.{self.name}.channels with it, or "
                f"system.{self.name}.calibrated=none"
            )
        memory = (spec.standard, spec.controller, spec.channels, spec.ranks)
        fractions = shared("class fractions", memory, lambda: class_fractions(*memory))
        return {names: fraction * self.bandwidth_bytes_per_s() for names, fraction in fractions.items()}

    def bandwidth_bytes_per_s(self) -> float:
        """What all streams together reach."""
        return self.spec.rate_factor * self.spec.achievable_bytes_per_s

    def stores(self) -> list[Store]:
        """Bytes of DRAM."""
        return [Store(f"{self.name}.capacity", self.spec.capacity_bytes, "bytes")]

    def energy(self) -> dict[str, Cost]:
        """Per command and bit."""
        return dict(ENERGY)

    def power(self) -> dict[str, Cost]:
        """Refresh of all dies."""
        return {"refresh": REFRESH_PER_DIE.times(self.spec.dies)}

    def power_states(self) -> dict[str, PowerStates]:
        """Background of all dies: one rank of each channel open while anything is moved."""
        per_die = BACKGROUND_PER_DIE
        closed = self.spec.dies - self.spec.channels
        active = per_die["open"].times(self.spec.channels)
        quiet = per_die["power_down"].times(closed) if closed else Cost(0.0, "mW", "no further rank", (0.0, 0.0))
        bounds = (active.low + quiet.low, active.high + quiet.high)
        both = replace(
            active, value=active.value + quiet.value, range=bounds, source=f"{active.source}; {quiet.source}"
        )
        states = {
            "active": both,
            "idle": per_die["power_down"].times(self.spec.dies),
            "retention": per_die["self_refresh"].times(self.spec.dies),
        }
        return {"background": PowerStates((), states, {"retention": SELF_REFRESH_AFTER_PS})}

    def area(self) -> dict[str, Cost]:
        """Controller and PHY on the SoC; the memory dies are parts of their own and not counted."""
        return {block: cost.times(self.spec.bus_width_bits, "um2") for block, cost in AREA_PER_BIT.items()}


_IDD = "LPDDR5 current set of LLMServingSim (LPDDR5_2GB_6400) at 1.05 V by the usual IDD formulae"
_VDD = 1.05

ENERGY: dict[str, Cost] = {
    "activate": Cost(
        2650.0,
        "pJ",
        f"derived: {_IDD}: VDD (IDD0 tRC - IDD3N tRAS - IDD2N tRP), 2 KiB page",
        (1500.0, 4000.0),
        None,
        _VDD,
        "one row of one bank, precharge included",
    ),
    "read_bits": Cost(
        2.46, "pJ", f"derived: {_IDD}: VDD (IDD4R - IDD3N) per bit", (1.5, 6.1), None, _VDD, "array to pads, die only"
    ),
    "write_bits": Cost(
        2.31, "pJ", f"derived: {_IDD}: VDD (IDD4W - IDD3N) per bit", (1.5, 6.1), None, _VDD, "pads to array, die only"
    ),
    "io_bits": Cost(
        1.4,
        "pJ",
        "assumed: brings a sequential read (2.46 array + 0.16 activation) to 4.0 pJ/bit; published totals of mobile "
        "DRAM are 4-20 pJ/bit, and the energy ratios of a published PIM phone against a 5-8 W GPU leave 3.4-5.5 pJ/bit "
        "with background",
        (0.5, 17.4),
        None,
        0.5,
        "drivers, receivers, clocks and termination of both sides, controller included",
    ),
}

BACKGROUND_PER_DIE: dict[str, Cost] = {
    "open": Cost(57.75, "mW", f"derived: {_IDD}: VDD IDD3N, per x16 die", (25.0, 70.0), None, _VDD, "a bank open"),
    "power_down": Cost(
        31.5, "mW", f"derived: {_IDD}: VDD IDD2P, per x16 die", (3.0, 42.0), None, _VDD, "closed, clock off"
    ),
    "self_refresh": Cost(
        3.0,
        "mW",
        "assumed: self-refresh current of a few mA at 1.05 V, its refreshes counted apart",
        (0.5, 10.0),
        None,
        _VDD,
        "self-refresh",
    ),
}
#: assumed: a controller waits about a millisecond before it gives up power-down for self-refresh.
SELF_REFRESH_AFTER_PS = 1_000_000_000
REFRESH_PER_DIE = Cost(
    29.2,
    "mW",
    f"derived: {_IDD}: 114 nJ per all-bank refresh every 3.906 us, per die",
    (10.0, 40.0),
    None,
    _VDD,
    "refresh at up to 85 degrees C; twice as often above",
)

AREA_PER_BIT: dict[str, Cost] = {
    "phy": Cost(1.0e5, "um2", "assumed: 0.1 mm2 per data bit of a 4 nm LPDDR5X PHY with pads", (0.5e5, 2.0e5), 4),
    "controller": Cost(2.5e4, "um2", "assumed: a quarter of the PHY", (1.0e4, 5.0e4), 4),
}
