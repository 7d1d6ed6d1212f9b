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

#: Die whose currents price the rows where the PIM standard names no plain die.
DEFAULT_DIE = "lpddr5-6400"
#: Commands that move one access over the data bus.
OFF_CHIP = (Cmd.WRGB, Cmd.WRMAC16, Cmd.RDMAC16, Cmd.RDAF16, Cmd.RD, Cmd.WR, Cmd.WRA16)

ENERGY: dict[str, Cost] = {
    "access_bits": Cost(
        0.95, "pJ", "column to MAC block, per bit: PIM-AI (arXiv 2411.17309) table 1, in-memory access", (0.8, 4.4)
    ),
    "mac_bits": Cost(
        0.23 / 64,
        "pJ",
        "per weight bit x activation bit: INT8 MAC 0.23 pJ at 45 nm (Horowitz) over 8 x 8; a DRAM process is slower "
        "and denser logic, no public figure",
        (0.1 / 64, 1.0 / 64),
    ),
    "io_bits": Cost(5.0, "pJ", "assumed: off-chip transfer of vectors and results, per bit", (4.0, 20.0)),
    "mode_switch": Cost(1000.0, "pJ", "assumed: a mode-register write, about one command's background", (100.0, 2e4)),
}

AREA: dict[str, Cost] = {
    "mac_block": Cost(1.0e5, "um2", "assumed: MAC block and registers beside a bank, in a DRAM process", (3.0e4, 3.0e5))
}


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
