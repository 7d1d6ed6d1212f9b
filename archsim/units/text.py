"""Text with a unit to numbers and back, exactly.

The unit registry is small, of this package's own definition, and built on first use. Conversions are fractions, so
equal quantities give equal numbers whatever their spelling. Plain units, of which files are full (``GB/s``,
``pJ/bit``) are read from a table without it; it takes long to build, and judges all others.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any

from archsim.units.errors import InputError, quote

#: Largest number a quantity may have in its field's unit.
QUANTITY_MAX = 1 << 62


@dataclass(frozen=True)
class Quantity:
    """A dimensional field's type: its unit, what to call it in errors and which values it takes."""

    unit: str
    noun: str
    example: str
    integer: bool = False
    positive: bool = False  # zero is refused too

    @property
    def expected(self) -> str:
        """How an error describes what was expected."""
        return f"expected {self.noun} such as {quote(self.example)}"


BYTES = Quantity("B", "a size", "8 MiB", integer=True)
BITS = Quantity("bit", "a size", "64 bit", integer=True)
BYTES_PER_S = Quantity("B/s", "a rate", "4 GB/s", positive=True)
TRANSFERS_PER_S = Quantity("T/s", "a transfer rate", "9600 MT/s", positive=True)
TOKENS_PER_S = Quantity("tok/s", "a token rate", "12 tok/s", positive=True)
OPS_PER_S = Quantity("op/s", "an operation rate", "45 TOPS", positive=True)
HZ = Quantity("Hz", "a frequency", "1.4 GHz", positive=True)
PS = Quantity("ps", "a time", "35 us", integer=True)
SECONDS = Quantity("s", "a time", "35 us")
PJ = Quantity("pJ", "an energy", "2.1 nJ")
PJ_PER_BIT = Quantity("pJ/bit", "an energy per size", "0.35 pJ/bit")
PJ_PER_BYTE = Quantity("pJ/B", "an energy per size", "2.8 pJ/B")
PJ_PER_OP = Quantity("pJ/op", "an energy per operation", "0.5 pJ/op")
MW = Quantity("mW", "a power", "350 mW")
UM2 = Quantity("um2", "an area", "0.42 mm2")
UM2_PER_BIT = Quantity("um2/bit", "an area per size", "0.03 um2/bit")
VOLTS = Quantity("V", "a voltage", "1.05 V")
MA = Quantity("mA", "a current", "12 mA")
KELVIN = Quantity("K", "a temperature", "358 K")
KELVIN_PER_W = Quantity("K/W", "a thermal resistance", "8 K/W")
J_PER_K = Quantity("J/K", "a heat capacity", "12 J/K")

_QUANTITIES = (
    *(BYTES, BITS, BYTES_PER_S, TRANSFERS_PER_S, TOKENS_PER_S, OPS_PER_S, HZ, PS, SECONDS, PJ, PJ_PER_BIT, PJ_PER_BYTE),
    *(PJ_PER_OP, MW, UM2, UM2_PER_BIT, VOLTS, MA, KELVIN, KELVIN_PER_W, J_PER_K),
)

_DEFINITIONS = """
tera- = 10**12 = T-
giga- = 10**9 = G-
mega- = 10**6 = M-
kilo- = 10**3 = k-
centi- = 1/10**2 = c-
milli- = 1/10**3 = m-
micro- = 1/10**6 = u- = µ- = μ-
nano- = 1/10**9 = n-
pico- = 1/10**12 = p-
femto- = 1/10**15 = f-
tebi- = 2**40 = Ti-
gibi- = 2**30 = Gi-
mebi- = 2**20 = Mi-
kibi- = 2**10 = Ki-
byte = [info] = B
bit = byte / 8
second = [time] = s
metre = [length] = m
joule = [energy] = J
ampere = [current] = A
kelvin = [temperature] = K
transfer = [transfer] = T
token = [token] = tok
operation = [operation] = op = flop
multiply_accumulate = 2 * operation = MAC
cycle = [cycle] = cyc
hertz = 1 / second = Hz
watt = joule / second = W
volt = watt / ampere = V
operations_per_second = operation / second = OPS = FLOPS
um2 = (10**-6 * metre) * (10**-6 * metre)
mm2 = (10**-3 * metre) * (10**-3 * metre)
cm2 = (10**-2 * metre) * (10**-2 * metre)
"""

_NUMBER = re.compile(
    r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3}(?!\d))?|[+-]?\.?(?:inf|nan)(?![a-z]))\s*(.*?)\s*", re.I | re.ASCII
)
_UNIT = re.compile(r"[A-Za-zµμ]+2?(\s*[/*]\s*[A-Za-zµμ]+2?){0,3}")


@cache
def _registry() -> Any:
    """Own small unit registry: exact, and free of the units nobody here means."""
    import pint

    registry = pint.UnitRegistry(None, cache_folder=None, non_int_type=Fraction, case_sensitive=True)
    for line in _DEFINITIONS.split("\n"):
        if line:
            registry.define(line)
    return registry


#: Powers of two and of ten of the prefixes of plain units, and plain units: factor to base units, and dimension.
_PREFIXES = {"": 1, **{f"{prefix}i": 1 << 10 * power for power, prefix in enumerate("KMGT", 1)}}
_SYMBOLS: dict[str, tuple[Fraction, dict[str, int]]] = {
    "B": (Fraction(1), {"info": 1}),
    "bit": (Fraction(1, 8), {"info": 1}),
    "s": (Fraction(1), {"time": 1}),
    "J": (Fraction(1), {"energy": 1}),
    "A": (Fraction(1), {"current": 1}),
    "K": (Fraction(1), {"temperature": 1}),
    "T": (Fraction(1), {"transfer": 1}),
    "tok": (Fraction(1), {"token": 1}),
    "op": (Fraction(1), {"operation": 1}),
    "OPS": (Fraction(1), {"operation": 1, "time": -1}),
    "Hz": (Fraction(1), {"time": -1}),
    "W": (Fraction(1), {"energy": 1, "time": -1}),
    "V": (Fraction(1), {"energy": 1, "time": -1, "current": -1}),
}


@cache
def _plain_symbols() -> dict[str, tuple[Fraction, dict[str, int]]]:
    """Every plain unit under every prefix, and areas."""
    decimal = {prefix: Fraction(10) ** power for prefix, power in _POWERS.items()}
    prefixes = {**{prefix: Fraction(factor) for prefix, factor in _PREFIXES.items()}, **decimal}
    prefixed = {f"{p}{s}": (times * one, dim) for s, (one, dim) in _SYMBOLS.items() for p, times in prefixes.items()}
    areas = {"um2": Fraction(1, 10**12), "mm2": Fraction(1, 10**6)}
    return {**prefixed, **{name: (factor, {"length": 2}) for name, factor in areas.items()}}


def plain_unit(text: str) -> tuple[Fraction, str] | None:
    """Factor to base units and dimension of a plain unit, or of one per another; None for what is not that simple."""
    head, slash, tail = text.partition("/")
    symbols = _plain_symbols()
    if head not in symbols or (slash and tail not in symbols):
        return None
    factor, powers = symbols[head]
    if slash:
        below, under = symbols[tail]
        factor, powers = factor / below, {key: powers.get(key, 0) - under.get(key, 0) for key in {**powers, **under}}
    return factor, _dimension_text({f"[{key}]": power for key, power in powers.items() if power})


def _dimension_text(powers: Mapping[str, Any]) -> str:
    return " ".join(f"{name}^{power}" for name, power in sorted(powers.items()))


@lru_cache(maxsize=4096)
def _unit(text: str) -> tuple[Fraction, str] | None:
    """Factor to base units and dimension of a unit text; None when the unit is unknown."""
    if len(text) > 40 or not _UNIT.fullmatch(text):
        return None
    return plain_unit(text) or judged_unit(text)


def judged_unit(text: str) -> tuple[Fraction, str] | None:
    """Factor to base units and dimension of any unit, by the registry; None when the unit is unknown."""
    import pint

    registry = _registry()
    try:
        parsed = registry.parse_units(text)
        factor, _ = registry.get_root_units(parsed)
    except (pint.errors.PintError, AttributeError, KeyError, ValueError):
        return None
    return Fraction(factor), _dimension_text(parsed.dimensionality)


@cache
def _nouns() -> dict[str, str]:
    return {_dimension(quantity.unit): quantity.noun for quantity in reversed(_QUANTITIES)}


def _dimension(unit: str) -> str:
    found = _unit(unit)
    if found is None:
        raise InputError(f"unknown unit {quote(unit)}")
    return found[1]


@lru_cache(maxsize=256)
def quantity(unit: str) -> Quantity:
    """Quantity measured in `unit`: the named one, or else a float of that unit, zero allowed.

    Raises
    ------
    InputError
        When the unit is unknown.
    """
    for known in _QUANTITIES:
        if known.unit == unit:
            return known
    noun = _nouns().get(_dimension(unit), f"a quantity in {unit}")
    return Quantity(unit, noun, f"1 {unit}")


def parse(text: Any, want: Quantity | str) -> int | float:
    """Number that `text` states, in the unit of `want`.

    Parameters
    ----------
    text : str
        A number and a unit: ``"4.0 GB/s"``, ``"8 MiB"``, ``"35us"``.
    want : Quantity or str
        What is expected: a :class:`Quantity`, or a unit such as ``"B/s"``.

    Returns
    -------
    int or float
        An int where the quantity is counted (bytes, bits, picoseconds): those must come out whole.

    Raises
    ------
    InputError
        For text without a unit, with an unknown unit or one of another dimension, and for numbers that are not
        finite, negative, zero where that makes no sense, not whole, or too large.
    """
    want = quantity(want) if isinstance(want, str) else want
    shown = quote(text)
    if isinstance(text, (int, float)) and not isinstance(text, bool):
        raise InputError(f"{shown} has no unit; {want.expected}")
    match = _NUMBER.fullmatch(text) if isinstance(text, str) and len(text) <= 80 else None
    if match is None:
        raise InputError(f"{shown} is not a number with a unit; {want.expected}")
    number, unit = match.groups()
    if not unit:
        raise InputError(f"{shown} has no unit; {want.expected}")
    found = _unit(unit)
    if found is None:
        raise InputError(f"{shown} has the unknown unit {quote(unit)}; {want.expected}")
    target = _unit(want.unit)
    if target is None:
        raise InputError(f"unknown unit {quote(want.unit)}")
    if found[1] != target[1]:
        noun = _nouns().get(found[1])
        what = f"is {noun}" if noun else f"is in {unit}"
        raise InputError(f"{shown} {what}; {want.expected}")
    if not number[-1].isdigit() and number[-1] != ".":
        raise InputError(f"{shown} is not finite; {want.expected}")
    return _checked(Fraction(number) * found[0] / target[0], shown, want)


def number(value: Any, want: Quantity) -> int | float:
    """Check a plain number that is already in the unit of `want` (read back from a trace, say).

    Raises
    ------
    InputError
        As :func:`parse` does.
    """
    shown = quote(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(f"{shown} is not a number; expected {want.noun} in {want.unit}")
    if not math.isfinite(value):
        raise InputError(f"{shown} is not finite; {want.expected}")
    return _checked(Fraction(value), shown, want)


def _checked(value: Fraction, shown: str, want: Quantity) -> int | float:
    if value < 0:
        raise InputError(f"{shown} is negative; {want.expected}")
    if value == 0 and want.positive:
        raise InputError(f"{shown} is zero; {want.expected}")
    if value > QUANTITY_MAX:
        raise InputError(f"{shown} is too large; at most {QUANTITY_MAX} {want.unit}")
    if not want.integer:
        return float(value)
    if value.denominator != 1:
        raise InputError(f"{shown} is not a whole number of {want.unit}; {want.expected}")
    return int(value)


_STEPS = {12: "T", 9: "G", 6: "M", 3: "k", 0: "", -3: "m", -6: "u", -9: "n", -12: "p"}
_POWERS = {prefix: power for power, prefix in _STEPS.items() if prefix}
#: Unit symbol that takes a prefix -> lowest power of ten it is shown with.
_LOWEST = {"B": 0, "bit": 0, "T": 0, "tok": 0, "op": 0, "Hz": 0, "s": -12, "J": -12, "W": -9, "V": -3, "A": -9, "K": 0}


def show(value: int | float, unit: Quantity | str, digits: int = 3) -> str:
    """Engineering text of `value` given in `unit`, which :func:`parse` reads back.

    Parameters
    ----------
    value : int or float
        Number in `unit`; ``show(4e9, "B/s")`` is ``"4.00 GB/s"``.
    unit : Quantity or str
        A unit, prefixed or not (``"pJ/bit"``, ``"mW"``, ``"um2"``); an empty one gives the number alone.
    digits : int
        Significant digits; above 6, trailing zeros are left out (17 gives every float back exactly).
    """
    unit = unit.unit if isinstance(unit, Quantity) else unit
    if not math.isfinite(value):
        return f"{value} {unit}".strip()
    exact = exact_value(value)
    head, slash, tail = unit.partition("/")
    symbol, power = (head[1:], _POWERS[head[0]]) if head[:1] in _POWERS and head[1:] in _LOWEST else (head, 0)
    if unit == "um2" and abs(exact) >= 10**5:
        exact, unit = exact / 10**6, "mm2"
    elif symbol in _LOWEST and exact:
        exact *= Fraction(10) ** power
        step = max(_LOWEST[symbol], min(12, 3 * (_order(exact, digits) // 3)))
        exact, unit = exact / Fraction(10) ** step, f"{_STEPS[step]}{symbol}{slash}{tail}"
    return f"{_digits(exact, digits)} {unit}".strip()


def _order(value: Fraction, digits: int) -> int:
    """Power of ten of the leading digit once rounded to `digits`."""
    return int(f"{_decimal(value):.{digits - 1}e}".partition("e")[2])


def _digits(value: Fraction, digits: int) -> str:
    """Plain decimal with `digits` significant digits."""
    if value == 0:
        return "0"
    text = f"{_decimal(value):.{max(0, digits - 1 - _order(value, digits))}f}"
    return text.rstrip("0").rstrip(".") if digits > 6 and "." in text else text


def _decimal(value: Fraction) -> Decimal:
    with localcontext() as context:
        context.prec = 60
        return Decimal(value.numerator) / Decimal(value.denominator)


def exact_value(value: Any) -> Fraction:
    """Value as a fraction. A float counts as the shortest decimal that names it: 35e-6 is 35 millionths.

    Without this, rounding up would turn the float nearest to 35 us into 35 000 001 ps.
    """
    if isinstance(value, (int, Fraction)):
        return Fraction(value)
    plain = float(value)
    if not math.isfinite(plain):
        raise InputError(f"{plain} is not finite")
    return Fraction(repr(plain))
