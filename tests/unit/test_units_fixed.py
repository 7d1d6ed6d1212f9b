"""Fixed point: rounding directions, bounds and inverses."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archsim import units
from archsim.units import (
    COEF_ONE,
    RATE_MAX,
    WORK_ONE,
    InputError,
    coef_fixed,
    count_fixed,
    cycles_to_ps,
    ps,
    ps_to_cycles,
    rate_fixed,
    work_fixed,
)


def test_ones():
    assert (WORK_ONE, COEF_ONE, units.WORK_BITS, units.COEF_BITS) == (1 << 28, 1 << 20, 28, 20)
    assert work_fixed(1) == WORK_ONE
    assert coef_fixed(1.0) == COEF_ONE
    assert count_fixed(8) == 8 * WORK_ONE
    assert rate_fixed(1e12) == WORK_ONE


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(35e-6, 35_000_000), (1e-12, 1), (1.5e-12, 2), (0, 0), (0.1, 10**11), (3.906e-6, 3_906_000), (1, 10**12)],
)
def test_seconds_to_ps_rounds_up_but_not_the_float_noise(seconds, expected):
    assert ps(seconds) == expected


@pytest.mark.parametrize(
    ("cycles", "hz", "expected"),
    [(1, 1e9, 1000), (3, 1.1e9, 2728), (1, 3.2e9, 313), (0, 1e9, 0), (10, 1.6e9, 6250), (1, 0.1, 10**13)],
)
def test_cycles_to_ps_rounds_up_once(cycles, hz, expected):
    assert cycles_to_ps(cycles, hz) == expected


def test_rates_round_down_and_work_rounds_up():
    assert rate_fixed(4e9) == 1_073_741  # 4e9 * 2**28 / 1e12 = 1073741.824
    assert work_fixed(0.1) == 26_843_546  # 2**28 / 10 = 26843545.6
    assert coef_fixed(0.1) == 104_858  # 2**20 / 10 = 104857.6
    assert count_fixed(0.1) == 26_843_545


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rate_fixed(-1.0), "a rate in bytes/s of -1.0 does not fit the engine's range of 0 to 1099511627776"),
        (lambda: rate_fixed(1e16), "a rate in bytes/s of 1e+16 does not fit the engine's range of 0 to 1099511627776"),
        (lambda: rate_fixed(3000.0), "a rate of 3000.0 bytes/s is below the engine's step of 3726 bytes/s"),
        (lambda: rate_fixed(float("nan")), "nan is not finite"),
        (lambda: rate_fixed(float("inf")), "inf is not finite"),
        (lambda: work_fixed(1 << 35), f"work in bytes of {1 << 35} does not fit the engine's range of 0 to {1 << 62}"),
        (lambda: work_fixed(-1), f"work in bytes of -1 does not fit the engine's range of 0 to {1 << 62}"),
        (lambda: coef_fixed(-0.5), f"a coefficient of -0.5 does not fit the engine's range of 0 to {1 << 62}"),
        (lambda: count_fixed(5000), "a count of 5000 does not fit the engine's range of 0 to 1099511627776"),
        (lambda: ps(-1.0), f"a time in seconds of -1.0 does not fit the engine's range of 0 to {1 << 62}"),
        (lambda: ps(1e8), f"a time in seconds of 100000000.0 does not fit the engine's range of 0 to {1 << 62}"),
        (lambda: cycles_to_ps(3, 0.0), "a clock of 0.0 Hz does not tick"),
        (lambda: cycles_to_ps(-3, 1e9), f"a time in cycles of -3 does not fit the engine's range of 0 to {1 << 62}"),
    ],
)
def test_bounds_are_named(call, message):
    with pytest.raises(InputError) as caught:
        call()
    assert str(caught.value) == message


def test_zero_rate_is_a_stall_not_an_error():
    assert rate_fixed(0) == 0


@given(st.integers(0, 10**9), st.floats(1e6, 1e12))
def test_cycles_survive_the_way_there_and_back(cycles, hz):
    assert ps_to_cycles(cycles_to_ps(cycles, hz), hz) == cycles


@given(st.floats(3726.0, 4e15))
def test_rate_is_the_largest_that_is_not_above(bytes_per_s):
    fixed = rate_fixed(bytes_per_s)
    exact = Fraction(repr(bytes_per_s)) * WORK_ONE / units.PS_PER_S
    assert 0 < fixed <= exact < fixed + 1
    assert fixed <= RATE_MAX
    assert units.bytes_per_s_from(fixed) == pytest.approx(bytes_per_s, abs=3726)


@given(st.floats(0, 2.0**33))
def test_work_is_the_smallest_that_is_not_below(nbytes):
    fixed = work_fixed(nbytes)
    assert fixed - 1 < Fraction(repr(nbytes)) * WORK_ONE <= fixed
    assert units.bytes_from(fixed) == pytest.approx(nbytes, rel=1e-15, abs=2.0**-27)


@given(st.floats(0, 1e6))
def test_ps_is_never_short(seconds):
    fixed = ps(seconds)
    assert fixed - 1 < Fraction(repr(seconds)) * units.PS_PER_S <= fixed
    assert units.seconds(fixed) == pytest.approx(seconds, abs=2e-12)


@given(st.integers(0, 1 << 34))
def test_whole_bytes_are_exact(nbytes):
    assert work_fixed(nbytes) == nbytes << 28
