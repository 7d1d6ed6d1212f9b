"""Energy, static power, area and clock of a Hexagon-class NPU in a 4 nm process.

No vendor figures are public. Arithmetic is scaled from published 45 nm operations (:mod:`archsim.technology.logic`),
local memory is many small arrays and wires (:mod:`archsim.technology.sram`), and what neither explains (clock tree,
scalar threads, second-level cache, supply) is one fitted power of the awake NPU.

Scope: the NPU up to its port on the memory interconnect. DRAM, its PHY and the host's share of a call are priced by
their own devices, except for map calls and dispatches, whose host work no other row counts.
"""

from __future__ import annotations

from archsim.device import Clock, Cost, PowerStates
from archsim.technology.logic import NOMINAL_V, area_ratio, energy_ratio
from archsim.technology.sram import SOURCE, scratchpad

NODE_NM = 4
SUPPLY_V = NOMINAL_V[NODE_NM]
#: Banks of the local memory, and bits of a port: 128 bytes, one vector.
VTCM_BANKS, PORT_BITS = 32, 1024
#: Register, operand and control energy (and area) per datapath energy of a matrix or vector lane.
#: assumed: operands of a systolic lane cost about twice its arithmetic (Horowitz, ISSCC 2014: register file and control
#: outweigh the operation).
LANE = 3.0
_HOROWITZ = "Horowitz, ISSCC 2014, 45 nm"
#: Published 45 nm operations: INT8 multiply 0.2 + add 0.03 pJ, FP16 1.1 + 0.4 pJ; 282 + 36 and 1640 + 1360 um2.
MAC_45_PJ = {"int8": 0.23, "fp16": 1.5}
MAC_45_UM2 = {"int8": 318.0, "fp16": 3000.0}


def _mac(kind: str, spread: float) -> Cost:
    ratio = energy_ratio(45, NODE_NM)
    value = MAC_45_PJ[kind] * ratio.value * LANE
    source = (
        f"derived: {_HOROWITZ}: {MAC_45_PJ[kind]} pJ, x {ratio.value:.3g} to 4 nm (Stillmaker and Baas 2017, foundry "
        f"ratios), x {LANE:g} for operands and control (assumed)"
    )
    return Cost(value, "pJ", source, (value / spread, value * spread), NODE_NM, SUPPLY_V, "datapath, operands, control")


def _byte(name: str) -> Cost:
    """Per byte of a 128-byte access of an 8 MiB memory."""
    bits = scratchpad(8 << 20, VTCM_BANKS, PORT_BITS, NODE_NM)
    value = getattr(bits, f"{name}_pj") / PORT_BITS * 8
    source = f"{SOURCE}; {VTCM_BANKS} banks (assumed) and wires over two thirds of the side"
    return Cost(value, "pJ", source, (value / 3, value * 3), NODE_NM, SUPPLY_V, "bank and wires, per byte")


ENERGY: dict[str, Cost] = {
    "hmx_mac_fp16": _mac("fp16", 3.0),
    "hmx_mac_int8": _mac("int8", 3.0),
    "hvx_mac_int8": _mac("int8", 3.0),
    "hvx_mac_fp16": _mac("fp16", 3.0),
    "hvx_cycle": Cost(
        60.0,
        "pJ",
        "assumed: issue, registers and one 128-byte operation of a busy context, 88 mW at 1.47 GHz",
        (25.0, 120.0),
        NODE_NM,
        SUPPLY_V,
        "one context, arithmetic apart",
    ),
    "vtcm_read_bytes": _byte("read"),
    "vtcm_write_bytes": _byte("write"),
    "dma_bytes": Cost(
        1.6,
        "pJ",
        "assumed: 0.2 pJ/bit for the interconnect between memory controller and VTCM, 3 mm of wire",
        (0.8, 4.0),
        NODE_NM,
        SUPPLY_V,
        "interconnect, per byte",
    ),
    "dma_descriptor": Cost(
        200.0,
        "pJ",
        "assumed: fetch, decode and completion of one descriptor, 64 bytes through L2 and some 200 gates for 20 cycles",
        (50.0, 1000.0),
        NODE_NM,
        SUPPLY_V,
        "DMA engine",
    ),
    "map_call": Cost(
        1.0e6,
        "pJ",
        "assumed: message and interrupt of one call, about 1 uJ on both sides",
        (1.0e5, 1.0e7),
        NODE_NM,
        SUPPLY_V,
        "the call itself, its duration apart",
    ),
    "map_ns": Cost(
        1100.0,
        "pJ",
        "assumed: 1.1 W of a fast core in the kernel's mapping code while a call lasts, 3.3 GHz at 333 pJ a cycle",
        (250.0, 1600.0),
        NODE_NM,
        SUPPLY_V,
        "host core; no other row counts it",
    ),
    "dispatch": Cost(
        5.0e6,
        "pJ",
        "assumed: host and DSP threads awake for about 20 us at 0.25 W",
        (1.0e6, 2.0e7),
        NODE_NM,
        SUPPLY_V,
        "host and DSP threads; no other row counts them",
    ),
    "table_cycle": Cost(
        1900.0,
        "pJ",
        "assumed: operators of a user's table have no counts; 2.8 W of a busy NPU (arXiv 2511.11248) at 1.47 GHz",
        (800.0, 3000.0),
        NODE_NM,
        SUPPLY_V,
        "the whole NPU, DRAM apart",
    ),
    "table_far_cycle": Cost(
        1900.0,
        "pJ",
        "assumed: as table_cycle; extrapolated operators",
        (800.0, 3000.0),
        NODE_NM,
        SUPPLY_V,
        "the whole NPU, DRAM apart",
    ),
}

#: Power of the awake NPU that no action explains. One of the three scalars fitted to whole-phone power.
ACTIVE_MW = 550.0
_QUIET = "assumed: quiet NPU, no measurement is public"
STATES: dict[str, Cost] = {
    "active": Cost(
        ACTIVE_MW,
        "mW",
        "fitted: whole phone 4.3 W decoding Qwen2.5-3B (arXiv 2509.23324) and 4.3-5.0 W decoding BitNet-2B "
        "(arXiv 2511.11248 Table 3) on the NPU",
        (200.0, 1200.0),
        NODE_NM,
        SUPPLY_V,
        "clock tree, scalar threads, L2, leakage",
    ),
    "idle": Cost(80.0, "mW", f"{_QUIET}; clocked", (30.0, 200.0), NODE_NM, SUPPLY_V, "clock tree and leakage"),
    "retention": Cost(15.0, "mW", f"{_QUIET}; VTCM kept", (3.0, 40.0), NODE_NM, 0.6, "leakage of what is kept"),
    "gated": Cost(1.5, "mW", f"{_QUIET}; leakage of power switches", (0.2, 5.0), NODE_NM, 0.0, "switches"),
}
#: assumed: DSP power collapse takes milliseconds of quiet, a session's close longer.
AFTER_PS = {"retention": 5_000_000_000, "gated": 1_000_000_000_000}
#: assumed: five operating points of a mobile NPU; near-threshold floor, 0.75 V at the top.
CORNERS = ((0.35, 0.55), (0.5, 0.58), (0.7, 0.64), (0.85, 0.69), (1.0, 0.75))
CORNER_SOURCE = "assumed: clock falls to 0.35 at 0.55 V; DVFS tables of phone NPUs are not public"

#: Policies whose matrix products run on vector contexts: their pool follows the clock, data movement does not.
VECTOR_POLICIES = frozenset({"gemv", "ggml_hvx"})


def _lane_area() -> Cost:
    ratio = area_ratio(45, NODE_NM)
    value = MAC_45_UM2["fp16"] * ratio.value * LANE
    source = (
        f"derived: {_HOROWITZ}: FP16 multiply and add 3000 um2, x {ratio.value:.3g} to 4 nm (Stillmaker and Baas 2017, "
        f"foundry density), x {LANE:g} for registers and control (assumed)"
    )
    return Cost(value, "um2", source, (value / 2.5, value * 2.5), NODE_NM, None, "one multiply-accumulate lane")


#: Per multiply-accumulate per cycle, per context; the rest as a whole.
AREA: dict[str, Cost] = {
    "hmx": _lane_area(),
    "hvx": Cost(3.5e5, "um2", "assumed: 1024-bit vector unit with registers, 4 nm", (2.0e5, 6.0e5), NODE_NM),
    "scalar": Cost(1.2e6, "um2", "assumed: scalar threads, 1 MiB of L2 and DMA, 4 nm", (0.7e6, 2.0e6), NODE_NM),
}


def area_table(per_unit: dict[str, Cost], macs_per_cycle: float, contexts: int, vtcm_bytes: int) -> dict[str, Cost]:
    """Area of each block in um2, scaled by what the spec has of it; local memory as banks of SRAM."""
    factors = {"hmx": macs_per_cycle, "hvx": contexts, "scalar": 1}
    table = {block: cost.times(factors[block]) for block, cost in per_unit.items()}
    memory = scratchpad(vtcm_bytes, VTCM_BANKS, PORT_BITS, NODE_NM)
    source = f"{SOURCE}; {VTCM_BANKS} banks (assumed)"
    bounds = (memory.area_um2 / 2, memory.area_um2 * 1.25)
    return {**table, "vtcm": Cost(memory.area_um2, "um2", source, bounds, NODE_NM, None, "cells, periphery")}


def state_table(unit: str) -> dict[str, PowerStates]:
    """Power states of the one block that follows the operator queue."""
    return {"core": PowerStates((unit,), STATES, AFTER_PS)}


def clock_table(device: str, clock_hz: float, policies: tuple[str, ...]) -> tuple[Clock, ...]:
    """The one clock of matrix unit and vector contexts.

    With vector kernels only the pool of contexts slows down, so a row bound by memory keeps its time until the contexts
    bind. Matrix products have no pool of their own: with other policies the whole unit slows down, an upper bound.
    """
    target = f"{device}.hvx" if set(policies) <= VECTOR_POLICIES else f"{device}.core"
    return (Clock(f"{device}.core", clock_hz, (target,), CORNERS, CORNER_SOURCE),)
