"""Energy of PIM commands, pJ, summed over all channels.

An all-bank command costs its bank's share in every bank. Off-chip transfers are the vector loads, biases and results;
weights stay on the die. The activate, refresh and background figures of the plain die apply where the standard names
one; they are priced by :mod:`archsim.devices.dram.power`.
"""

from __future__ import annotations

from collections.abc import Mapping

from archsim.device import Cost
from archsim.devices.dram.power import prices
from archsim.devices.dram.standard import load_standard
from archsim.devices.pim.isa import NAMES, Cmd
from archsim.devices.pim.standard import PimStandard
from archsim.technology.logic import DRAM_LOGIC, energy_ratio

#: Die whose currents price the rows where the PIM standard names no plain die.
DEFAULT_DIE = "lpddr5-6400"
#: Commands that move one access over the data bus.
OFF_CHIP = (Cmd.WRGB, Cmd.WRMAC16, Cmd.RDMAC16, Cmd.RDAF16, Cmd.RD, Cmd.WR, Cmd.WRA16)

#: Node whose logic a MAC block beside a bank resembles. assumed: a 1y-nm DRAM process has peripheral transistors of a
#: 28 nm class logic process; the nearest node of the scaling tables is 32 nm.
LOGIC_NM = 32


def _mac() -> Cost:
    """One bit of weight by one bit of activation."""
    ratio, penalty = energy_ratio(45, LOGIC_NM), DRAM_LOGIC[0]
    value = 0.23 / 64 * ratio.value * penalty
    source = (
        f"derived: INT8 multiply-add 0.23 pJ at 45 nm (Horowitz, ISSCC 2014) over 8 x 8 bits, x {ratio.value:.3g} to "
        f"{LOGIC_NM} nm (Stillmaker and Baas 2017), x {penalty:g} for a DRAM process (assumed)"
    )
    return Cost(value, "pJ", source, (value / 2.5, value * 4), LOGIC_NM, 1.05, "arithmetic beside the bank")


ENERGY: dict[str, Cost] = {
    "access_bits": Cost(
        0.95,
        "pJ",
        "column to MAC block, per bit: PIM-AI (arXiv 2411.17309) table 1, in-memory access",
        (0.37, 4.4),
        None,
        1.05,
        "array column to the block beside the bank, off-chip path excluded",
    ),
    "mac_bits": _mac(),
    "io_bits": Cost(
        4.0,
        "pJ",
        "assumed: as a host's access to the plain die, array and both ends of the bus",
        (1.9, 20.0),
        None,
        1.05,
        "off-chip transfer of vectors and results, per bit",
    ),
    "mode_switch": Cost(1000.0, "pJ", "assumed: a mode-register write, about one command's background", (100.0, 2e4)),
}

AREA: dict[str, Cost] = {
    "mac_block": Cost(
        1.0e5,
        "um2",
        "assumed: MAC block and registers beside a bank, in a DRAM process",
        (3.0e4, 3.0e5),
        None,
        None,
        "one block; added to the DRAM die",
    )
}
#: Area of a plain die, for the share that a die grows by.
#: assumed: 50 mm2, which a published PIM design's 1.25 mm2 = 2.50 % of the die implies; no die size is sourced.
DIE_AREA = Cost(5.0e7, "um2", "assumed: 1.25 mm2 published as 2.50 % of the die", (1.8e7, 8.0e7))


def die_overhead(standard: PimStandard) -> Cost:
    """Share by which one die grows, as a fraction (unit 1): MAC blocks of one channel over a plain die."""
    blocks = standard.banks // standard.compute.banks_per_block
    added = AREA["mac_block"].times(blocks)
    bounds = (added.low / DIE_AREA.high, added.high / DIE_AREA.low)
    return Cost(added.value / DIE_AREA.value, "1", f"{added.source} over {DIE_AREA.source}", bounds)


def energy_pj(
    standard: PimStandard, counts: Mapping[str, int], cycles: int, activation_bits: int = 16
) -> dict[str, float]:
    """Energy by action, pJ.

    Parameters
    ----------
    counts : dict
        Command name -> count over all channels (``commands_total`` of a result).
    cycles : int
        Length of the run, for the background of the dies (one a channel), taken with rows open.
    activation_bits : int
        Width of the vector's elements.
    """
    number = {command: counts.get(name, 0) for name, command in NAMES.items()}
    bits, banks = 8 * standard.organisation["access_bytes"], standard.banks
    blocks = banks // standard.compute.banks_per_block
    read = bits * (blocks * number[Cmd.MAC16] + number[Cmd.MAC])
    read_twice = bits * banks * number[Cmd.EWMUL16]
    die = prices(load_standard(DEFAULT_DIE) if standard.dram is None else standard.dram)
    parts = {
        "activate": (banks * number[Cmd.ACT16] + number[Cmd.ACT]) * die.activate_pj,
        "access": (read + read_twice) * ENERGY["access_bits"].value,
        "mac": read * activation_bits * ENERGY["mac_bits"].value,
        "io": bits * sum(number[c] for c in OFF_CHIP) * ENERGY["io_bits"].value,
        "mode": number[Cmd.TMOD] * ENERGY["mode_switch"].value,
        "refresh": number[Cmd.REFAB] * die.refresh_all_pj,
        "background": cycles * standard.tck_ns * standard.organisation["channels"] * die.open_mw,
    }
    return {**parts, "total": sum(parts.values())}
