"""Systolic array: cycles counted by hand, on the cycle."""

import pytest

from archsim.devices.npu.systolic import Array, multiply, parse_array
from archsim.units import InputError


@pytest.mark.parametrize(
    ("flow", "rows", "cols", "m", "k", "n", "folds", "length"),
    [
        # 4 to fill, 4 rows of input, 3 + 3 of skew
        ("ws", 4, 4, 4, 4, 4, 1, 14),
        # no fill: 4 products, 3 + 3 of skew
        ("os", 4, 4, 4, 4, 4, 1, 10),
        ("is", 4, 4, 4, 4, 4, 1, 14),
        # one element: load, multiply; or multiply alone
        ("ws", 1, 1, 1, 1, 1, 1, 2),
        ("os", 1, 1, 1, 1, 1, 1, 1),
        # k = 5 in rows of 3: two folds; n = 4 in 2 columns: two; each 3 + 7 + 2 + 1
        ("ws", 3, 2, 7, 5, 4, 4, 4 * 13),
        # m = 7 in 3 rows: three; n = 4: two; each 5 + 2 + 1
        ("os", 3, 2, 7, 5, 4, 6, 6 * 8),
        # k = 5: two; m = 7 in 2 columns: four; each 3 + 4 + 2 + 1
        ("is", 3, 2, 7, 5, 4, 8, 8 * 10),
        # an array larger than the matrices takes as long as a full one
        ("ws", 8, 8, 1, 1, 1, 1, 8 + 1 + 14),
        # a row of elements: no skew along it
        ("os", 1, 8, 2, 9, 16, 4, 4 * (9 + 7)),
    ],
)
def test_folds_and_length(flow, rows, cols, m, k, n, folds, length):
    found = multiply(Array(rows, cols, flow), m, k, n)
    assert (found.folds, found.length_cycles, found.stall_cycles) == (folds, length, 0)


def test_a_slow_link_stalls_by_what_it_lacks():
    """Weights of 2 x 2 at one word a cycle: 4 cycles a fold, a fold takes 2 + 1 + 2 = 5, so none waits ..."""
    sizes = {"ifmap_bytes": 1024, "filter_bytes": 8, "ofmap_bytes": 1024}
    found = multiply(Array(2, 2, "ws", link_words=1, **sizes), 1, 20, 2)
    assert (found.folds, found.fold_cycles, found.stall_cycles) == (10, 5, 0)
    # ... and of 4 x 4: 16 cycles against 4 + 1 + 6 = 11, and all but the first wait for 5
    sizes["filter_bytes"] = 32
    found = multiply(Array(4, 4, "ws", link_words=1, **sizes), 1, 40, 4)
    assert (found.folds, found.fold_cycles, found.stall_cycles) == (10, 11, 9 * 5)
    assert found.prefetch_cycles == 40  # the input: all of its 40 words fit in its half


def test_weights_that_serve_several_folds_are_fetched_ahead_as_often_as_they_fit():
    """Output-stationary, 8 x 4 weights a column of folds, three of them fit; each serves two folds of 8 + 4 + 4 - 2."""
    sizes = {"ifmap_bytes": 1 << 20, "filter_bytes": 2 * 3 * 32, "ofmap_bytes": 1 << 20}
    found = multiply(Array(4, 4, "os", link_words=1, **sizes), 8, 8, 16)
    # the fourth is fetched from the start of the first fold on, 32 cycles; it is wanted after 6 folds of 14
    assert (found.folds, found.fold_cycles, found.stall_cycles) == (8, 14, 0)
    # one fits: the next is fetched from the start of its first fold on, which ends 28 cycles later: a wait of 4
    sizes["filter_bytes"] = 2 * 32
    found = multiply(Array(4, 4, "os", link_words=1, **sizes), 8, 8, 16)
    assert found.stall_cycles == 3 * 4


def test_results_that_cannot_leave_stall():
    """64 results a fold of 8 + 8 + 8 - 2 = 22 cycles, one leaves a cycle, 128 fit: 64 a fold but for two."""
    sizes = {"ifmap_bytes": 1 << 20, "filter_bytes": 1 << 20, "ofmap_bytes": 128}
    found = multiply(Array(8, 8, "os", link_words=1 << 10, **sizes), 8, 8, 80)
    assert found.stall_cycles == 0
    found = multiply(Array(8, 8, "os", link_words=1, **sizes), 8, 8, 80)
    assert found.length_cycles == 10 * 64 - 128


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Array(0, 3, "ws"), "array rows is 0; it must be between 1 and 4096"),
        (lambda: Array(3, 5000, "ws"), "array cols is 5000; it must be between 1 and 4096"),
        (lambda: Array(3, 3, "sw"), "no dataflow 'sw'"),
        (lambda: Array(3, 3, "ws", ifmap_bytes=1), "ifmap_bytes is 1; it must be between 2 and"),
        (lambda: Array(3, 3, "ws", link_words=-1), "link words a cycle is -1"),
        (lambda: multiply(Array(3, 3, "ws"), 0, 3, 3), "m is 0; it must be between 1 and 4194304"),
        (lambda: multiply(Array(3, 3, "ws"), 3, -2, 3), "k is -2"),
        (lambda: multiply(Array(1, 1, "ws"), 3, 1 << 22, 1 << 22), "folds; at most 16777216"),
        (lambda: parse_array("0x3"), "array rows is 0; it must be between 1 and 4096"),
        (lambda: parse_array("8"), "array '8' is not ROWSxCOLS; for example 32x32"),
        (lambda: parse_array("8x-1"), "is not ROWSxCOLS"),
    ],
)
def test_bad_input(make, text):
    with pytest.raises(InputError) as error:
        make()
    assert text in str(error.value)
    assert "\n" not in str(error.value)
