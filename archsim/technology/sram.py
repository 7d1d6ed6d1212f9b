"""SRAM arrays: energy, leakage, area and access time by size, width and node, and scratchpads made of many of them.

Fitted to two runs each of CACTI 7 (as packed in hwcomponents-cacti 1.0.40, rebuilt; 22 nm, one read-write port):
energy per bit and access time are powers of the capacity, area is cells plus a periphery of width x side, leakage is
per bit. :data:`CACTI` holds all runs; those not used are met within 12 % (:func:`errors`).

Below 22 nm that package does not run CACTI but scales its 22 nm results: energy with the square root of the node, area
and time with the node, leakage with 0.79 times the square root. The same rules are used here; published bit cells
(22 nm 0.092, 7 nm 0.027, 5 nm and 4 nm 0.021 um2) say that area at 4 nm is 1.25 times what they give, which the range
covers.

Leakage is that of CACTI's low-standby cell, far below a phone chip's: its range reaches ten times the value.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from archsim.device import Cost
from archsim.units import InputError

MIB_BITS = 8 << 20
BASE_NM = 22


class Run(NamedTuple):
    """One CACTI run: node, capacity, port width, banks; area, energy of a read and a write, leakage, access time."""

    node_nm: int
    bits: int
    width_bits: int
    banks: int
    area_mm2: float
    read_pj: float
    write_pj: float
    leak_mw: float
    access_ns: float


CACTI: tuple[Run, ...] = (
    Run(22, 8 * MIB_BITS, 256, 1, 6.70, 187.7, 182.4, 1.10, 5.92),
    Run(22, 8 * MIB_BITS, 1024, 1, 7.64, 722.0, 748.7, 1.05, 6.47),
    Run(22, 8 * MIB_BITS, 1024, 8, 6.98, 650.0, 676.7, 1.22, 6.62),
    Run(22, MIB_BITS, 1024, 1, 1.29, 203.9, 244.3, 0.14, 2.81),
    Run(7, 8 * MIB_BITS, 256, 1, 2.13, 105.9, 102.9, 0.49, 1.88),
    Run(4, 8 * MIB_BITS, 256, 1, 1.22, 80.0, 77.8, 0.37, 1.08),
)
#: Runs by position that each quantity is fitted to; all others are held out.
FITTED: dict[str, tuple[int, int]] = {
    "area_mm2": (0, 3),
    "read_pj": (1, 3),
    "write_pj": (1, 3),
    "leak_mw": (0, 3),
    "access_ns": (1, 3),
}
UNITS = {"area_mm2": "mm2", "read_pj": "pJ", "write_pj": "pJ", "leak_mw": "mW", "access_ns": "ns"}
#: Capacities that may be asked for, bytes; below 1 MiB the power laws are extrapolated.
SIZES = (4 << 10, 64 << 20)
WIDTHS = (8, 4096)
NODES = (4, 45)
SOURCE = (
    "derived: two CACTI 7 runs at 22 nm (8 and 1 MiB, 1024 bits), others within 12 %; node scaled as hwcomponents-cacti"
)


def _power(quantity: str) -> tuple[float, float]:
    """Value per bit of width at 1 MiB, and exponent over capacity, through the two fitted runs."""
    large, small = (CACTI[i] for i in FITTED[quantity])
    per_bit = 1 if quantity == "access_ns" else None
    a, b = ((getattr(run, quantity) / (per_bit or run.width_bits)) for run in (large, small))
    return b, math.log(a / b) / math.log(large.bits / small.bits)


def _area_terms() -> tuple[float, float]:
    """Area per bit and per (bit of width x square root of bits), mm2."""
    p, q = (CACTI[i] for i in FITTED["area_mm2"])
    edge_p, edge_q = (run.width_bits * math.sqrt(run.bits) for run in (p, q))
    per_edge = (p.area_mm2 * q.bits - q.area_mm2 * p.bits) / (edge_p * q.bits - edge_q * p.bits)
    return (q.area_mm2 - per_edge * edge_q) / q.bits, per_edge


class Array(NamedTuple):
    """One SRAM array: energy of an access of its whole width (pJ), leakage (mW), area (um2), access time (ns)."""

    read_pj: float
    write_pj: float
    leak_mw: float
    area_um2: float
    access_ns: float


def array(size_bytes: int, width_bits: int, node_nm: float) -> Array:
    """Return the cost of an array.

    Raises
    ------
    InputError
        For a size, width or node outside what the fit may be used for.
    """
    for what, value, (low, high), unit in (
        ("size", size_bytes, SIZES, "bytes"),
        ("width", width_bits, WIDTHS, "bits"),
        ("node", node_nm, NODES, "nm"),
    ):
        if not low <= value <= high:
            raise InputError(f"SRAM {what} of {value:g} {unit} is outside {low} to {high} {unit}, where it is known")
    bits = 8 * size_bytes
    node = node_nm / BASE_NM
    found = []
    for quantity in ("read_pj", "write_pj", "access_ns"):
        value, exponent = _power(quantity)
        found.append(value * (bits / MIB_BITS) ** exponent)
    per_bit, per_edge = _area_terms()
    leak = sum(CACTI[i].leak_mw / CACTI[i].bits for i in FITTED["leak_mw"]) / 2
    return Array(
        found[0] * width_bits * math.sqrt(node),
        found[1] * width_bits * math.sqrt(node),
        leak * bits * math.sqrt(node) * (0.79 if node_nm < BASE_NM else 1.0),
        (per_bit * bits + per_edge * width_bits * math.sqrt(bits)) * 1e6 * node,
        found[2] * node,
    )


def errors() -> list[dict[str, float | str | bool]]:
    """Fit against every CACTI run: quantity, run, value, fitted value, relative error, whether it was fitted."""
    rows = []
    for i, run in enumerate(CACTI):
        made = array(run.bits // 8, run.width_bits, run.node_nm)
        values = {**made._asdict(), "area_mm2": made.area_um2 / 1e6}
        for quantity, used in FITTED.items():
            known = getattr(run, quantity)
            rows.append(
                {
                    "quantity": quantity,
                    "run": f"{run.node_nm} nm, {run.bits // MIB_BITS} MiB, {run.width_bits} bits, {run.banks} banks",
                    "cacti": known,
                    "model": values[quantity],
                    "error": values[quantity] / known - 1,
                    "fitted": i in used,
                }
            )
    return rows


#: Energy to move a bit over a millimetre of repeated wire at about 0.75 V.
#: Keckler et al., IEEE Micro 31(5), 2011, table 1: 256 bits over 10 mm cost 150 to 200 pJ at 10 nm.
WIRE = Cost(
    0.068, "pJ", "Keckler et al., IEEE Micro 2011, table 1: 256 bits over 10 mm, 150-200 pJ at 10 nm", (0.05, 0.12)
)


def scratchpad(size_bytes: int, banks: int, width_bits: int, node_nm: float) -> Array:
    """A scratchpad of `banks` arrays with wires: an access reads one bank and crosses two thirds of the whole's side.

    Two thirds of the side is the mean Manhattan distance between two points of a square. Access time is the bank's.
    """
    if banks < 1 or size_bytes % banks:
        raise InputError(f"a scratchpad of {size_bytes} bytes does not divide into {banks} banks")
    one = array(size_bytes // banks, width_bits, node_nm)
    area = banks * one.area_um2
    wires = 2 / 3 * math.sqrt(area) / 1e3 * WIRE.value * width_bits
    return Array(one.read_pj + wires, one.write_pj + wires, banks * one.leak_mw, area, one.access_ns)
