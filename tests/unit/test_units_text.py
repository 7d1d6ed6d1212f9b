"""Text with a unit to numbers, and numbers to text."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from archsim import units
from archsim.units import InputError, parse, quantity, show, text

SIZE = quantity("B")

GOOD = [
    ("4.0 GB/s", "B/s", 4e9),
    ("51.2 GB/s", "B/s", 51.2e9),
    ("1 GiB/s", "B/s", 2.0**30),
    ("8 Gbit/s", "B/s", 1e9),
    ("8 MiB", "B", 8 << 20),
    ("8MB", "B", 8_000_000),
    ("1.5 KiB", "B", 1536),
    ("64 bit", "B", 8),
    ("2 B", "bit", 16),
    ("35 us", "ps", 35_000_000),
    ("35 µs", "ps", 35_000_000),
    ("18.125 ns", "ps", 18_125),
    ("0.1 ns", "ps", 100),
    ("3.906 us", "s", 3.906e-6),
    ("1.4 GHz", "Hz", 1.4e9),
    ("9600 MT/s", "T/s", 9.6e9),
    ("0.35 pJ/bit", "pJ/bit", 0.35),
    ("2.8 pJ/B", "pJ/bit", 0.35),
    ("0.35 pJ/bit", "pJ/B", 2.8),
    ("2.1 nJ", "pJ", 2100.0),
    ("1 J", "pJ", 1e12),
    ("1.2 W", "mW", 1200.0),
    ("0.42 mm2", "um2", 420_000.0),
    ("0.03 um2/bit", "um2/bit", 0.03),
    ("45 TOPS", "op/s", 45e12),
    ("2 TFLOPS", "op/s", 2e12),
    ("3 MAC", "op", 6.0),
    ("0.5 pJ/MAC", "pJ/op", 0.25),
    ("1.05 V", "V", 1.05),
    ("12 mA", "mA", 12.0),
    ("358 K", "K", 358.0),
    ("8 K/W", "K/W", 8.0),
    ("12 tok/s", "tok/s", 12.0),
    ("1e3 B", "B", 1000),
    (" .5 kB ", "B", 500),
    ("+4 B", "B", 4),
    ("0 B", "B", 0),
    ("4 TB", "B", 4 * 10**12),
]


@pytest.mark.parametrize(("text", "unit", "value"), GOOD)
def test_parse(text, unit, value):
    found = parse(text, unit)
    assert found == value
    assert isinstance(found, int if unit in ("B", "bit", "ps") else float)


BAD = [
    ("4.0", "B/s", "'4.0' has no unit; expected a rate such as '4 GB/s'"),
    (4.0, "B/s", "'4.0' has no unit; expected a rate such as '4 GB/s'"),
    (4, "ps", "'4' has no unit; expected a time such as '35 us'"),
    ("4 GB", "B/s", "'4 GB' is a size; expected a rate such as '4 GB/s'"),
    ("4 GB/s", "B", "'4 GB/s' is a rate; expected a size such as '8 MiB'"),
    ("4 GHz", "ps", "'4 GHz' is a frequency; expected a time such as '35 us'"),
    ("4 W", "pJ", "'4 W' is a power; expected an energy such as '2.1 nJ'"),
    ("4 pJ", "pJ/bit", "'4 pJ' is an energy; expected an energy per size such as '0.35 pJ/bit'"),
    ("4 V", "mA", "'4 V' is a voltage; expected a current such as '12 mA'"),
    ("4 m", "um2", "'4 m' is in m; expected an area such as '0.42 mm2'"),
    ("4 T/s", "tok/s", "'4 T/s' is a transfer rate; expected a token rate such as '12 tok/s'"),
    ("4 gb/s", "B/s", "'4 gb/s' has the unknown unit 'gb/s'; expected a rate such as '4 GB/s'"),
    ("4 GB per s", "B/s", "'4 GB per s' has the unknown unit 'GB per s'; expected a rate such as '4 GB/s'"),
    ("4 B**2", "B", "'4 B**2' has the unknown unit 'B**2'; expected a size such as '8 MiB'"),
    ("4 (B)", "B", "'4 (B)' has the unknown unit '(B)'; expected a size such as '8 MiB'"),
    ("4 kkB", "B", "'4 kkB' has the unknown unit 'kkB'; expected a size such as '8 MiB'"),
    ("four GB/s", "B/s", "'four GB/s' is not a number with a unit; expected a rate such as '4 GB/s'"),
    ("4,000 B", "B", "'4,000 B' has the unknown unit ',000 B'; expected a size such as '8 MiB'"),
    ("1_000 B", "B", "'1_000 B' has the unknown unit '_000 B'; expected a size such as '8 MiB'"),
    ("0x10 B", "B", "'0x10 B' has the unknown unit 'x10 B'; expected a size such as '8 MiB'"),
    ("GB", "B", "'GB' is not a number with a unit; expected a size such as '8 MiB'"),
    ("", "B", "'' is not a number with a unit; expected a size such as '8 MiB'"),
    ("nan GB/s", "B/s", "'nan GB/s' is not finite; expected a rate such as '4 GB/s'"),
    ("inf B", "B", "'inf B' is not finite; expected a size such as '8 MiB'"),
    ("-inf B", "B", "'-inf B' is not finite; expected a size such as '8 MiB'"),
    (math.inf, "B", "'inf' has no unit; expected a size such as '8 MiB'"),
    ("-4 GB/s", "B/s", "'-4 GB/s' is negative; expected a rate such as '4 GB/s'"),
    ("0 GB/s", "B/s", "'0 GB/s' is zero; expected a rate such as '4 GB/s'"),
    ("1.5 B", "B", "'1.5 B' is not a whole number of B; expected a size such as '8 MiB'"),
    ("0.3 ps", "ps", "'0.3 ps' is not a whole number of ps; expected a time such as '35 us'"),
    ("7 bit", "B", "'7 bit' is not a whole number of B; expected a size such as '8 MiB'"),
    ("1e30 B", "B", "'1e30 B' is too large; at most 4611686018427387904 B"),
    ("1e999 B", "B", "'1e999 B' is too large; at most 4611686018427387904 B"),
    ("1e9999999 B", "B", "'1e9999999 B' has the unknown unit 'e9999999 B'; expected a size such as '8 MiB'"),
    (None, "B", "nothing is not a number with a unit; expected a size such as '8 MiB'"),
    (True, "B", "'true' is not a number with a unit; expected a size such as '8 MiB'"),
    ([1], "B", "a list is not a number with a unit; expected a size such as '8 MiB'"),
    ("4 B\n", "B/s", "'4 B?' is a size; expected a rate such as '4 GB/s'"),
    ("9" * 100 + " B", "B", f"'{'9' * 57}...' is not a number with a unit; expected a size such as '8 MiB'"),
    ("4 B", "bogus", "unknown unit 'bogus'"),
]


@pytest.mark.parametrize(("text", "unit", "message"), BAD)
def test_parse_refuses(text, unit, message):
    with pytest.raises(InputError) as caught:
        parse(text, unit)
    assert str(caught.value) == message


class Spec(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    rate_bytes_per_s: Annotated[units.BytesPerS, Field(le=1e10)]
    size_bytes: units.Bytes = 0
    wait_ps: units.Ps | None = None
    share: units.Fraction01 = 0.5
    cores: units.PositiveInt = 1


def test_fields_take_text_and_give_numbers():
    spec = Spec(rate_bytes_per_s="4 GB/s", size_bytes="1 kB", wait_ps="2 ns")
    assert spec.model_dump() == {
        "rate_bytes_per_s": 4e9, "size_bytes": 1000, "wait_ps": 2000, "share": 0.5, "cores": 1
    }  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {"rate_bytes_per_s": 4e9}, {"rate_bytes_per_s": "4 GB"}, {"rate_bytes_per_s": "40 GB/s"}, {"size_bytes": 3},
        {"wait_ps": 3}, {"share": 1.01}, {"share": -0.01}, {"share": math.nan}, {"share": "0.5"}, {"cores": 0},
        {"cores": 1.0}, {"cores": True}, {"cores": "1"},
    ],
)  # fmt: skip
def test_fields_refuse(change):
    with pytest.raises(ValidationError):
        Spec(**{"rate_bytes_per_s": "4 GB/s", **change})


def test_from_numbers_takes_what_was_dumped():
    spec = Spec(rate_bytes_per_s="4 GB/s", wait_ps="2 ns")
    assert units.from_numbers(Spec, spec.model_dump()) == spec


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size_bytes": 1.5}, "'1.5' is not a whole number of B"),
        ({"size_bytes": -1}, "'-1' is negative"),
        ({"rate_bytes_per_s": math.nan}, "'nan' is not finite"),
        ({"rate_bytes_per_s": 0}, "'0' is zero"),
        ({"rate_bytes_per_s": "4 GB/s"}, "'4 GB/s' is not a number; expected a rate in B/s"),
        ({"size_bytes": True}, "'true' is not a number"),
    ],
)
def test_from_numbers_still_checks(change, message):
    with pytest.raises(ValidationError) as caught:
        units.from_numbers(Spec, {"rate_bytes_per_s": 4e9, **change})
    assert message in str(caught.value)


SHOWN = [
    (4e9, "B/s", 3, "4.00 GB/s"),
    (999.7, "B/s", 3, "1.00 kB/s"),
    (999.4, "B/s", 3, "999 B/s"),
    (8388608, "B", 3, "8.39 MB"),
    (8388608, "B", 17, "8.388608 MB"),
    (35, "ps", 3, "35.0 ps"),
    (12_300, "ps", 3, "12.3 ns"),
    (35_000_000, "ps", 3, "35.0 us"),
    (0.35, "pJ/bit", 3, "0.350 pJ/bit"),
    (2100, "pJ", 2, "2.1 nJ"),
    (4.2, "um2", 3, "4.20 um2"),
    (420_000, "um2", 3, "0.420 mm2"),
    (1200, "mW", 3, "1.20 W"),
    (0, "ps", 3, "0 ps"),
    (-1500, "mW", 3, "-1.50 W"),
    (3, "", 3, "3.00"),
    (3.14159, "K/W", 4, "3.142 K/W"),
    (2, "cores", 3, "2.00 cores"),
    (math.inf, "s", 3, "inf s"),
    (1e20, "B", 3, "100000000 TB"),
]


@pytest.mark.parametrize(("value", "unit", "digits", "text"), SHOWN)
def test_show(value, unit, digits, text):
    assert show(value, unit, digits) == text


UNITS = ["B/s", "T/s", "op/s", "Hz", "s", "pJ", "pJ/bit", "pJ/B", "mW", "um2", "um2/bit", "V", "mA", "K", "K/W"]


@given(st.floats(1e-9, 1e15), st.sampled_from(UNITS))
def test_parse_gives_back_what_show_wrote(value, unit):
    assert parse(show(value, unit, 17), unit) == value
    assert parse(show(value, unit), unit) == pytest.approx(value, rel=5.1e-3)


@given(st.integers(0, 1 << 62), st.sampled_from(["B", "bit", "ps"]))
def test_whole_numbers_survive_show_and_parse(value, unit):
    assert parse(show(value, unit, 25), unit) == value


@given(st.integers(0, 10**6), st.sampled_from(["", "k", "M", "G"]))
def test_prefixes_are_decimal_and_binary(value, prefix):
    power = ["", "k", "M", "G"].index(prefix)
    assert parse(f"{value} {prefix}B", SIZE) == value * 1000**power
    binary = {"": "", "k": "Ki", "M": "Mi", "G": "Gi"}[prefix]
    assert parse(f"{value} {binary}B", SIZE) == value * 1024**power


@given(st.text(max_size=30))
def test_any_text_is_parsed_or_refused_in_one_line(text):
    problem = None
    try:
        value = parse(text, SIZE)
    except InputError as error:
        problem = str(error)
    if problem is None:
        assert 0 <= value <= units.QUANTITY_MAX
    else:
        assert problem.isprintable()


def test_suggest_names_the_nearest_or_the_known():
    assert units.suggest("read_byte", ["read_bytes", "queue"]) == "did you mean 'read_bytes'?"
    assert units.suggest("FLASH", ["flash", "dram"]) == "did you mean 'flash'?"
    assert units.suggest("zzz", ["b", "a", "a"]) == "known: a, b"
    assert units.suggest("zzz", []) == "there are none"
    assert units.suggest("zzz", [f"n{i:02}" for i in range(30)]).endswith("n23 and 6 more")


def test_unit_registry_is_built_for_the_first_unit_that_is_not_plain():
    code = (
        "import sys, archsim.units as u\nu.parse('1 kB', 'B')\nbefore = 'pint' in sys.modules\n"
        "u.parse('1 byte', 'B')\nprint(before, 'pint' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False True"


def test_plain_units_are_what_the_registry_makes_of_them() -> None:
    symbols = text._plain_symbols()
    pairs = [f"{head}/{tail}" for head in symbols for tail in (*text._SYMBOLS, "GiB", "ms", "um2")]
    for unit in (*symbols, *pairs[::7], "W/W", "pJ/bit", "MB/ms"):
        assert text.plain_unit(unit) == text.judged_unit(unit) is not None, unit


@pytest.mark.parametrize(
    "unit", ["", "/", "B/", "/s", "B/s/s", "B*s", "qB", "GB/x", "b", "mm", "Ks", "byte", "MAC", "cm2"]
)
def test_units_that_are_not_plain_are_left_to_the_registry(unit: str) -> None:
    assert text.plain_unit(unit) is None
