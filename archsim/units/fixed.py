"""The engine's fixed point: work in 2**-28 byte, rates in 2**-28 byte per ps, coefficients in 2**-20, times in ps."""

from __future__ import annotations

import math
from typing import Any

from archsim.units.errors import InputError
from archsim.units.text import QUANTITY_MAX, exact_value

PS_PER_S = 10**12
WORK_BITS = 28
COEF_BITS = 20
WORK_ONE = 1 << WORK_BITS
COEF_ONE = 1 << COEF_BITS
#: Largest rate in fixed point (about 4.1e15 bytes/s): times a coefficient below 4 it stays inside 62 bits.
RATE_MAX = 1 << 40


def _fits(value: int, limit: int, what: str, given: Any) -> int:
    if not 0 <= value <= limit:
        raise InputError(f"{what} of {given} does not fit the engine's range of 0 to {limit}")
    return value


def rate_fixed(bytes_per_s: float) -> int:
    """Rate in 2**-28 byte per ps, rounded down; it may reach :data:`RATE_MAX` (4.1e15 bytes/s).

    Raises
    ------
    InputError
        When it is negative, larger than that, or so small that it would become 0 (below 3726 bytes/s).
    """
    fixed = math.floor(exact_value(bytes_per_s) * WORK_ONE / PS_PER_S)
    if fixed == 0 and bytes_per_s != 0:
        raise InputError(f"a rate of {bytes_per_s} bytes/s is below the engine's step of 3726 bytes/s")
    return _fits(fixed, RATE_MAX, "a rate in bytes/s", bytes_per_s)


def work_fixed(nbytes: int | float) -> int:
    """Bytes in 2**-28 byte, rounded up; a row may hold at most 2**34 bytes (16 GiB).

    Raises
    ------
    InputError
        When it is negative or larger than that.
    """
    return _fits(math.ceil(exact_value(nbytes) * WORK_ONE), QUANTITY_MAX, "work in bytes", nbytes)


def coef_fixed(coefficient: float) -> int:
    """Pool units drawn per work unit, in 2**-20, rounded up so that a pool is never asked for too little.

    Rate times coefficient must stay below 2**63: at :data:`RATE_MAX` a coefficient may reach 4, at 1 GB/s (2**18)
    it may reach 2**24. The engine checks the product.

    Raises
    ------
    InputError
        When it is negative or larger than 2**42.
    """
    return _fits(math.ceil(exact_value(coefficient) * COEF_ONE), QUANTITY_MAX, "a coefficient", coefficient)


def count_fixed(items: int | float) -> int:
    """Capacity of a pool that counts things (cores, contexts), one item being 2**28, rounded down.

    Raises
    ------
    InputError
        When it is negative or larger than 2**12 items (the bound of :data:`RATE_MAX`).
    """
    return _fits(math.floor(exact_value(items) * WORK_ONE), RATE_MAX, "a count", items)


def ps(seconds: float) -> int:
    """Seconds in whole picoseconds, rounded up.

    Raises
    ------
    InputError
        When it is negative or beyond 2**62 ps (53 days).
    """
    return _fits(math.ceil(exact_value(seconds) * PS_PER_S), QUANTITY_MAX, "a time in seconds", seconds)


def cycles_to_ps(cycles: int, hz: float) -> int:
    """Duration of `cycles` of a clock of `hz` in ps, rounded up once.

    Raises
    ------
    InputError
        When the clock is not positive, or the time negative or beyond 2**62 ps.
    """
    clock = exact_value(hz)
    if clock <= 0:
        raise InputError(f"a clock of {hz} Hz does not tick")
    return _fits(math.ceil(int(cycles) * PS_PER_S / clock), QUANTITY_MAX, "a time in cycles", cycles)


def ps_to_cycles(duration_ps: int, hz: float) -> int:
    """Whole cycles of a clock of `hz` that fit in `duration_ps` (inverse of :func:`cycles_to_ps` up to 1 THz)."""
    return math.floor(int(duration_ps) * exact_value(hz) / PS_PER_S)


def seconds(duration_ps: int | float) -> float:
    """Picoseconds in seconds."""
    return duration_ps / PS_PER_S


def bytes_from(work: int | float) -> float:
    """Fixed-point work in bytes."""
    return work / WORK_ONE


def bytes_per_s_from(rate: int | float) -> float:
    """Fixed-point rate in bytes per second."""
    return rate * PS_PER_S / WORK_ONE
