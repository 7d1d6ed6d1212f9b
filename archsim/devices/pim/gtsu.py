"""Gated task scheduling unit: which rank groups of a PIM memory compute.

Modelled: the time from one group's last command to another group's first, bounded by the memory's own timing: all banks
of the old group precharge, its mode register is written, the new group's row opens. Energy and static power of the
controller. Not modelled: a queue of switches (a switch is a row on the sequencer).

Sources: a claimed single cycle of 1.25 ns (AHASD artifact, af6ab66, GatedTaskScheduler.h) ignores these timings; at
LPDDR5-6400 they come to 55 ns.
"""

from __future__ import annotations

from archsim.device import Cost
from archsim.devices.pim.standard import PimStandard

ENERGY = Cost(
    2.0e4,
    "pJ",
    "assumed: 16 banks of four dies precharged and one mode write each, plus the controller; AHASD's artifact has "
    "50 pJ for the controller alone (GatedTaskScheduler.h)",
    (50.0, 4.0e4),
)
POWER = Cost(0.5, "mW", "AHASD artifact (af6ab66, GatedTaskScheduler.h)", (0.1, 1.0))
AREA = Cost(
    40.0,
    "um2",
    "AHASD artifact (af6ab66, scripts/validate_hardware_costs.py): 0.00004 mm2; its paper's text claims 0.02",
    (40.0, 5000.0),
)


def switch_cycles(standard: PimStandard) -> int:
    """Cycles of one switch: all-bank precharge, mode write, activate."""
    cycles = standard.cycles
    precharge = cycles.get("nRPab", cycles.get("nRP", 0))
    mode = cycles.get("nMODE", cycles.get("nMODCH", 0))
    return precharge + mode + cycles.get("nRCD", cycles.get("nRCDRD", 0))
