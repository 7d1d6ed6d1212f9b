"""Streams of gigabytes: the chain of rows still lasts as long as the walk."""

import numpy as np
import pytest

from archsim.devices.npu.chain import PHASES, part_of, scaled, segments
from archsim.lowering import bytes_to_ps


@pytest.mark.parametrize("size", [10**6, 10**9, 40 * 10**9, 2 * 10**12])
def test_strict_phase_and_stream_of_any_size(size):
    base, nbytes, ps = bytes_to_ps(size, 59_000), np.zeros(PHASES, np.int64), np.zeros(PHASES, np.int64)
    wait = base // 2
    points = [wait + base * num // den for num, den in ((1, 1), (4, 3), (2, 1), (4, 1))]
    count = segments(size, base, *points, nbytes, ps)
    assert count == 2
    assert nbytes[:count].sum() == size
    assert ps[:count].sum() == points[0]
    assert nbytes[0] == pytest.approx(size, rel=1e-5)
    assert ps[0] == pytest.approx(base, rel=1e-5)


def test_parts_of_large_numbers():
    assert part_of(1, 3) == (1 << 20) // 3
    assert part_of(3 << 50, 3 << 51) == 1 << 19
    assert part_of(5 << 50, 5 << 50) == 1 << 20
    assert scaled((1 << 62) - 1, 1 << 20) == (1 << 62) - 1
    assert scaled(1000, 1 << 19) == 500
