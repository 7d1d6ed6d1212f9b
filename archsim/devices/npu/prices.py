"""Energy, static power and area of a Hexagon-class NPU in a 4 nm process.

No vendor figures are public. Arithmetic is scaled from published 45 nm operation energies, local memory from CACTI, the
rest is assumed; a whole-phone power of 4.3-5.0 W in NPU decoding (arXiv 2509.23324, arXiv 2511.11248) bounds the sum.
"""

from __future__ import annotations

from archsim.device import Cost

_HOROWITZ = "scaled to 4 nm from 45 nm operation energies (Horowitz: INT8 multiply-add 0.23 pJ, FP16 1.5 pJ)"
_CACTI = "CACTI 7, 8 MB SRAM at 22 nm scaled to 4 nm: 0.31 pJ/bit read"

ENERGY: dict[str, Cost] = {
    "hmx_mac_fp16": Cost(0.25, "pJ", f"assumed: {_HOROWITZ}; operands shared in the array", (0.1, 0.5)),
    "hmx_mac_int8": Cost(0.06, "pJ", f"assumed: {_HOROWITZ}; operands shared in the array", (0.03, 0.12)),
    "hvx_mac_int8": Cost(0.08, "pJ", f"assumed: {_HOROWITZ}; datapath only, the rest is in hvx_cycle", (0.03, 0.2)),
    "hvx_mac_fp16": Cost(0.35, "pJ", f"assumed: {_HOROWITZ}; datapath only, the rest is in hvx_cycle", (0.15, 0.7)),
    "hvx_cycle": Cost(
        60.0,
        "pJ",
        "assumed: issue, registers and one 128-byte operation of a busy context, 88 mW at 1.47 GHz",
        (25.0, 120.0),
    ),
    "vtcm_read_bytes": Cost(2.5, "pJ", f"{_CACTI}; banked arrays read less", (0.8, 3.5)),
    "vtcm_write_bytes": Cost(2.43, "pJ", f"{_CACTI}; writes at 77.8/80.0 of reads", (0.8, 3.5)),
    "dma_bytes": Cost(
        1.6, "pJ", "assumed: 0.2 pJ/bit for the interconnect between memory controller and VTCM", (0.8, 4.0)
    ),
    "map_call": Cost(2.5e7, "pJ", "assumed: a host core in the kernel for about 100 us at 0.25 W", (5.0e6, 1.0e8)),
    "table_cycle": Cost(
        1900.0,
        "pJ",
        "assumed: operators of a user's table have no counts; 2.8 W of a busy NPU (arXiv 2511.11248) at 1.47 GHz",
        (800.0, 3000.0),
    ),
    "table_far_cycle": Cost(1900.0, "pJ", "assumed: as table_cycle; extrapolated operators", (800.0, 3000.0)),
    "dispatch": Cost(5.0e6, "pJ", "assumed: host and DSP threads awake for about 20 us at 0.25 W", (1.0e6, 2.0e7)),
}

POWER: dict[str, Cost] = {
    "static": Cost(80.0, "mW", "assumed: leakage and clock tree of a powered NPU", (30.0, 200.0)),
}

#: Per multiply-accumulate per cycle, per context, per byte of VTCM; the rest as a whole.
AREA: dict[str, Cost] = {
    "hmx": Cost(300.0, "um2", "assumed: FP16 multiply-accumulate with its operand registers, 4 nm", (150.0, 600.0)),
    "hvx": Cost(3.5e5, "um2", "assumed: 1024-bit vector unit with registers, 4 nm", (2.0e5, 6.0e5)),
    "vtcm": Cost(
        1.22e6 / 2**23, "um2", "CACTI 7, 8 MB at 22 nm scaled to 4 nm: 1.22 mm2", (0.9e6 / 2**23, 2.4e6 / 2**23)
    ),
    "scalar": Cost(1.2e6, "um2", "assumed: scalar threads, 1 MiB of L2 and DMA, 4 nm", (0.7e6, 2.0e6)),
}


def area_table(per_unit: dict[str, Cost], macs_per_cycle: float, contexts: int, vtcm_bytes: int) -> dict[str, Cost]:
    """Area of each block in um2, scaled by what the spec has of it."""
    factors = {"hmx": macs_per_cycle, "hvx": contexts, "vtcm": vtcm_bytes, "scalar": 1}
    return {block: cost.times(factors[block]) for block, cost in per_unit.items()}
