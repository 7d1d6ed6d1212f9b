"""Energy, static power, area and clock of a phone's CPU in a 4 nm process.

A cycle of a busy core is priced by class, whatever it issues: instruction mixes of the kernels are not known, and
issue, registers and first-level caches outweigh the operation. The multiply-accumulates of matrix kernels come on top.
Cycles of all classes share one fitted scale.

Scope: cores, their caches, and the way to the memory controller. DRAM and its PHY are priced by the DRAM device.
"""

from __future__ import annotations

from archsim.device import Clock, Cost, PowerStates
from archsim.technology.logic import NOMINAL_V, energy_ratio

NODE_NM = 4
SUPPLY_V = NOMINAL_V[NODE_NM]
#: Published 45 nm operations (Horowitz, ISSCC 2014): INT8 multiply-add 0.23 pJ, FP16 1.5 pJ.
MAC_45_PJ = {"int8": 0.23, "fp16": 1.5}
#: Scale of all classes' cycles. One of the three scalars fitted to whole-phone power.
CYCLE_SCALE = 1.7
#: Energy of a cycle before the scale, pJ: ratios between the classes.
CYCLE_PJ = {"prime": 250.0, "performance": 130.0, "efficiency": 50.0}


def _mac(kind: str) -> Cost:
    ratio = energy_ratio(45, NODE_NM)
    value = 2 * MAC_45_PJ[kind] * ratio.value
    source = (
        f"derived: Horowitz, ISSCC 2014: {MAC_45_PJ[kind]} pJ at 45 nm, x {ratio.value:.3g} to 4 nm (Stillmaker and "
        "Baas 2017, foundry ratios), x 2 for a vector lane's operands (assumed)"
    )
    return Cost(value, "pJ", source, (value / 3, value * 4), NODE_NM, SUPPLY_V, "vector datapath")


def _cycle(kind: str) -> Cost:
    value = CYCLE_PJ[kind] * CYCLE_SCALE
    source = (
        f"fitted: whole phone 8.2 W decoding BitNet-2B on six cores (arXiv 2511.11248 Table 3); {CYCLE_SCALE:g} x an "
        f"assumed {CYCLE_PJ[kind]:g} pJ of the class"
    )
    return Cost(value, "pJ", source, (value / 2, value * 1.8), NODE_NM, SUPPLY_V, "core with its own caches")


ENERGY: dict[str, Cost] = {
    "mac_int8": _mac("int8"),
    "mac_fp16": _mac("fp16"),
    "prime_cycle": _cycle("prime"),
    "performance_cycle": _cycle("performance"),
    "efficiency_cycle": _cycle("efficiency"),
    "fabric_bytes": Cost(
        2.4,
        "pJ",
        "assumed: 0.3 pJ/bit for shared cache and interconnect between cores and memory controller",
        (1.0, 6.0),
        NODE_NM,
        SUPPLY_V,
        "L3 and interconnect, per byte",
    ),
}

_QUIET = "assumed: quiet CPU, no measurement is public"
STATES: dict[str, Cost] = {
    "active": Cost(
        200.0,
        "mW",
        "assumed: shared cache, its clock and leakage of all cores while any works",
        (80.0, 500.0),
        NODE_NM,
        SUPPLY_V,
        "cluster, cores apart",
    ),
    "idle": Cost(40.0, "mW", f"{_QUIET}; clock stopped", (15.0, 120.0), NODE_NM, SUPPLY_V, "leakage"),
    "retention": Cost(10.0, "mW", f"{_QUIET}; cores off, cache kept", (3.0, 30.0), NODE_NM, 0.6, "cache leakage"),
    "gated": Cost(2.0, "mW", f"{_QUIET}; one small core wakes the rest", (0.5, 6.0), NODE_NM, 0.0, "switches"),
}
#: assumed: target residencies of idle states in public device trees, hundreds of us to milliseconds.
AFTER_PS = {"retention": 500_000_000, "gated": 5_000_000_000}
#: assumed: five operating points of a big core.
CORNERS = ((0.35, 0.55), (0.5, 0.6), (0.7, 0.68), (0.85, 0.76), (1.0, 0.9))
CORNER_SOURCE = "assumed: clock falls to 0.35 at 0.55 V; voltages of phone cores are not public"

AREA: dict[str, Cost] = {
    "prime": Cost(2.0e6, "um2", "assumed: Cortex-X4 class with its L2, 4 nm", (1.5e6, 3.0e6), NODE_NM),
    "performance": Cost(0.9e6, "um2", "assumed: Cortex-A720 class with its L2, 4 nm", (0.6e6, 1.3e6), NODE_NM),
    "efficiency": Cost(0.45e6, "um2", "assumed: Cortex-A520 class and its share of L2, 4 nm", (0.3e6, 0.7e6), NODE_NM),
    "l3": Cost(4.0e6, "um2", "assumed: 12 MB L3 at 0.3 mm2/MB with tags and ring, 4 nm", (2.0e6, 6.0e6), NODE_NM),
}


def state_table(device: str) -> dict[str, PowerStates]:
    """Power states of the cluster."""
    units = tuple(f"{device}.{unit}" for unit in ("compute", "control", "copy"))
    return {"cluster": PowerStates(units, STATES, AFTER_PS)}


def clock_table(device: str, clock_hz: float) -> tuple[Clock, ...]:
    """The clock of all cores; the pace at which they ask for memory follows it, an upper bound of the slowdown."""
    targets = tuple(f"{device}.{unit}" for unit in ("compute", "control", "copy"))
    return (Clock(f"{device}.cores", clock_hz, targets, CORNERS, CORNER_SOURCE),)
