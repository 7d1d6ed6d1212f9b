"""Scaling of logic between process nodes and supplies.

From 45 to 7 nm: Stillmaker and Baas, "Scaling equations for the accurate prediction of CMOS device performance from
180 nm to 7 nm", Integration 58 (2017), pp. 74-81 (energy as a polynomial in the supply, from simulated fan-out-of-4
inverters of predictive models; area from the roadmap). Below 7 nm: ratios that the foundry (TSMC) states for one step
at equal speed: 5 against 7 nm 30 % less power and 1.84 times the density, 4 against 5 nm 6 % denser and about 10 % less
power, 3 (N3E) against 5 nm 32 % less power and 1.6 times the density. The supply does not change below 7 nm: those
ratios hold at each node's own nominal voltage, so voltage there follows the square law.

Error: no ratio is better than a factor of 1.5 either way over several nodes; real products show 1.5 instead of 1.84
times the density from 7 to 5 nm (transistors over die area of phone chips). :func:`energy_ratio` and
:func:`area_ratio` therefore also give a range. SRAM does not follow logic (:mod:`archsim.technology.sram`), and DRAM
processes are a family of their own: their logic is scaled by :data:`DRAM_LOGIC` only.
"""

from __future__ import annotations

from dataclasses import dataclass

from archsim.units import InputError, quote

#: Energy polynomial (V^2, V, 1) by node; high-performance devices. Stillmaker and Baas 2017, tables.
ENERGY_V: dict[int, tuple[float, float, float]] = {
    45: (1.018, -0.3107, 0.1539),
    32: (0.8367, -0.4341, 0.1701),
    20: (0.373, -0.1582, 0.04104),
    16: (0.2958, -0.1241, 0.03024),
    14: (0.2363, -0.09675, 0.02239),
    10: (0.2068, -0.09311, 0.02375),
    7: (0.1776, -0.09097, 0.02447),
}
#: Area of equal logic against 45 nm; the same paper's table of areas.
AREA_45: dict[int, float] = {45: 1.0, 32: 0.46, 20: 0.21, 16: 0.19, 14: 0.17, 10: 0.1, 7: 0.059}
#: Nominal supplies, V: those of the paper's device models, and foundry practice below.
NOMINAL_V: dict[int, float] = {
    45: 1.0,
    32: 0.97,
    20: 0.9,
    16: 0.86,
    14: 0.86,
    10: 0.83,
    7: 0.8,
    5: 0.75,
    4: 0.75,
    3: 0.7,
}
#: Foundry steps below 7 nm, against 7 nm: energy at equal speed, area (1 / density).
FOUNDRY: dict[int, tuple[float, float]] = {
    5: (0.70, 1 / 1.84),
    4: (0.70 * 0.90, 1 / (1.84 * 1.06)),
    3: (0.70 * 0.68, 1 / (1.84 * 1.6)),
}
#: Supplies within which the polynomials were fitted, as a fraction of nominal (assumed: the paper's plots).
VOLTAGE_SPAN = (0.6, 1.2)
#: Relative error of one scaling, either way.
FACTOR_ERROR = 1.5
#: Logic in a DRAM process against logic of the same drawn node: energy, area (slow thick-oxide devices, three metals).
#: assumed: 1.5 to 2 times the supply squared and half the density; no foundry publishes it.
DRAM_LOGIC = (2.0, 2.0)
NODES: tuple[int, ...] = (*AREA_45, *FOUNDRY)


@dataclass(frozen=True)
class Ratio:
    """A scaling ratio with the range its sources leave."""

    value: float
    low: float
    high: float


def energy_ratio(from_nm: int, to_nm: int, from_v: float | None = None, to_v: float | None = None) -> Ratio:
    """Energy of one switching event at `to_nm` over that at `from_nm`.

    Raises
    ------
    InputError
        For a node or a supply outside the tables.
    """
    value = _energy(to_nm, to_v) / _energy(from_nm, from_v)
    return _within(value, from_nm != to_nm)


def area_ratio(from_nm: int, to_nm: int) -> Ratio:
    """Area of equal logic at `to_nm` over that at `from_nm`; unknown nodes raise InputError."""
    return _within(_area(to_nm) / _area(from_nm), from_nm != to_nm)


def voltage_energy(volt: float, nominal_v: float) -> float:
    """Dynamic energy at a supply over that at the nominal one: the square law."""
    return (volt / nominal_v) ** 2


def _within(value: float, scaled: bool) -> Ratio:
    error = FACTOR_ERROR if scaled else 1.0
    return Ratio(value, value / error, value * error)


def check_node(node_nm: float) -> int:
    """Return a node of the tables; another one raises InputError."""
    if isinstance(node_nm, bool) or node_nm not in NODES:
        node = f"{node_nm:g}" if isinstance(node_nm, (int, float)) else quote(node_nm)
        raise InputError(f"node {node} nm is not in the scaling tables; known: {', '.join(map(str, NODES))} nm")
    return int(node_nm)


def _supply(node: int, volt: float | None) -> float:
    nominal = NOMINAL_V[node]
    if volt is None:
        return nominal
    low, high = (fraction * nominal for fraction in VOLTAGE_SPAN)
    if not low <= volt <= high:
        raise InputError(f"supply of {volt:g} V at {node} nm is outside {low:.3g} to {high:.3g} V, where it scales")
    return volt


def _energy(node_nm: float, volt: float | None) -> float:
    node = check_node(node_nm)
    supply = _supply(node, volt)
    if node in FOUNDRY:
        return _energy(7, None) * FOUNDRY[node][0] * voltage_energy(supply, NOMINAL_V[node])
    square, linear, constant = ENERGY_V[node]
    return square * supply**2 + linear * supply + constant


def _area(node_nm: float) -> float:
    node = check_node(node_nm)
    return AREA_45[7] * FOUNDRY[node][1] if node in FOUNDRY else AREA_45[node]
