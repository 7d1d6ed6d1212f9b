"""DRAM energy from command counts: IDD-style formulas, one rail.

Each figure is for one die of the standard's `device_bits` (a x16 die is one rank of one channel); counts are summed
over dies, so the sums are for the whole memory system, core only, without I/O and termination.

Formulas (DRAMsim3's, also in NewtonSim): activate and precharge ``V (IDD0 tRC - IDD3N tRAS - IDD2N tRP)``, read
``V (IDD4R - IDD3N) tBURST``, write ``V (IDD4W - IDD3N) tBURST``, all-bank refresh ``V (IDD5AB - IDD3N) tRFC``,
background ``V IDD3N`` while any bank of the die is open and ``V IDD2N`` otherwise. V in volt, I in mA, t in ns give pJ.
One per-bank refresh is priced as the all-bank one divided by the banks (assumed: the same rows are restored).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from archsim.devices.dram.reading import check_keys
from archsim.devices.dram.standard import Standard
from archsim.units import InputError

CURRENTS = ("IDD0", "IDD2N", "IDD3N", "IDD4R", "IDD4W", "IDD5AB")


@dataclass(frozen=True)
class Prices:
    """Energy of one event, pJ, and background power, pJ per ns (= mW), of one die.

    Attributes
    ----------
    scope : str
        What one count of a figure belongs to.
    source : str
        Where the currents come from.
    """

    activate_pj: float
    read_pj: float
    write_pj: float
    refresh_all_pj: float
    refresh_bank_pj: float
    open_mw: float
    closed_mw: float
    scope: str
    source: str


def prices(standard: Standard) -> Prices:
    """Prices of a standard from the currents in its file.

    Raises
    ------
    InputError
        Missing currents, or currents that make an energy negative (IDD0 or IDD4 below IDD3N, IDD3N below IDD2N).
    """
    given, where = standard.energy, f"{standard.name}: energy"
    check_keys(where, given, ("scope", "vdd_v", "idd_ma", "source"), ("scope", "vdd_v", "idd_ma", "source"))
    current = given["idd_ma"]
    check_keys(f"{where}.idd_ma", current, CURRENTS, CURRENTS)
    for high, low in (
        ("IDD3N", "IDD2N"),
        ("IDD4R", "IDD3N"),
        ("IDD4W", "IDD3N"),
        ("IDD5AB", "IDD3N"),
        ("IDD0", "IDD3N"),
    ):
        if current[high] < current[low]:
            raise InputError(
                f"{where}: {high} {current[high]} mA is below {low} {current[low]} mA; energy would be negative"
            )
    time_ns = {key: cycles * standard.tck_ns for key, cycles in standard.roles.items()}
    return idd_prices(
        float(given["vdd_v"]),
        current,
        row_cycle_ns=time_ns["row_cycle"],
        row_active_ns=time_ns["row_active"],
        precharge_ns=time_ns["row_precharge"],
        burst_ns=time_ns["burst"],
        refresh_ns=time_ns["refresh_all_cycle"],
        banks=standard.organisation["bankgroups"] * standard.organisation["banks_per_group"],
        scope=str(given["scope"]),
        source=str(given["source"]),
    )


def idd_prices(
    vdd_v: float,
    idd_ma: Mapping[str, float],
    *,
    row_cycle_ns: float,
    row_active_ns: float,
    precharge_ns: float,
    burst_ns: float,
    refresh_ns: float,
    banks: int,
    scope: str,
    source: str,
) -> Prices:
    """Prices from supply voltage (V), currents (mA) and times (ns); see the module for the formulas."""
    opened, closed = idd_ma["IDD3N"], idd_ma["IDD2N"]
    refresh = vdd_v * (idd_ma["IDD5AB"] - opened) * refresh_ns
    return Prices(
        activate_pj=vdd_v * (idd_ma["IDD0"] * row_cycle_ns - opened * row_active_ns - closed * precharge_ns),
        read_pj=vdd_v * (idd_ma["IDD4R"] - opened) * burst_ns,
        write_pj=vdd_v * (idd_ma["IDD4W"] - opened) * burst_ns,
        refresh_all_pj=refresh,
        refresh_bank_pj=refresh / banks,
        open_mw=vdd_v * opened,
        closed_mw=vdd_v * closed,
        scope=scope,
        source=source,
    )


def energy_pj(
    price: Prices,
    *,
    activates: int,
    reads: int,
    writes: int,
    refreshes_all: int,
    refreshes_bank: int,
    open_ns: float,
    closed_ns: float,
) -> dict[str, float]:
    """Energy by action, pJ, summed over dies; `open_ns` and `closed_ns` are summed over dies too.

    The precharge is part of ``activate``; ``total`` is the sum of the others.
    """
    parts = {
        "activate": activates * price.activate_pj,
        "read": reads * price.read_pj,
        "write": writes * price.write_pj,
        "refresh": refreshes_all * price.refresh_all_pj + refreshes_bank * price.refresh_bank_pj,
        "background": open_ns * price.open_mw + closed_ns * price.closed_mw,
    }
    return {**parts, "total": sum(parts.values())}
