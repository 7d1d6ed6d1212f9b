"""Cycles to picoseconds: exact, rounded up, and whole for the clock of many cores taken together."""

from __future__ import annotations

import pytest

from archsim.lowering import cycles_to_ps


@pytest.mark.parametrize("khz", [1_469_000, 9_000_000, 22_760_000, 40_000_000])
@pytest.mark.parametrize("cycles", [0, 1, 999_999_999, 9_300_000_000, 23_000_000_001, 400_000_000_000])
def test_exact_and_rounded_up(cycles, khz):
    assert cycles_to_ps(cycles, khz) == -(-cycles * 10**9 // khz)
