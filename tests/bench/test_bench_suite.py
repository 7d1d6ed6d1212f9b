"""Every figure of ``archsim bench`` that has an aim keeps it, but for those whose aim is not reached yet."""

import pytest

from archsim.bench.suite import SUITE, measure

pytestmark = pytest.mark.bench

#: Aims that are not reached: see the README's table of speed.
MISSED = ("engine.12x4", "engine.40x10", "run.ahasd", "memory.ahasd_four_runs")


@pytest.mark.parametrize(
    "bench",
    [
        pytest.param(b, id=b.name, marks=[pytest.mark.slow] if b.long else [])
        for b in SUITE
        if b.aim and b.name not in MISSED
    ],
)
def test_aim(bench):
    assert measure(bench)["verdict"] == "ok"
