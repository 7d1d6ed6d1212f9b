"""Speed of the engine: events per CPU second (floors 2 M and 0.8 M on a quiet core), emission per row."""

import pytest

from archsim.engine.bench import contended_block, measure
from archsim.engine.sim import PoolDecl, Sim, UnitDecl

pytestmark = pytest.mark.bench


@pytest.mark.parametrize(("units", "pools", "floor"), [(12, 4, 2.0e6), (40, 10, 0.8e6)])
def test_events(benchmark, units, pools, floor):
    result = benchmark.pedantic(measure, args=(units, pools, 400_000), rounds=3, warmup_rounds=1)
    benchmark.extra_info.update(result)
    assert result["events_per_s"] > floor / 2  # half: a shared machine


def test_emission(benchmark):
    block = contended_block(12, 4, 399)
    sim = Sim([UnitDecl(f"u{i}") for i in range(12)], [PoolDecl(f"p{i}", 1 << 20) for i in range(4)])

    def drain():
        sim.run()
        return (block,), {}

    benchmark.pedantic(sim.emit, setup=drain, rounds=500, warmup_rounds=100)
    benchmark.extra_info["ns_per_row"] = benchmark.stats.stats.median / 400 * 1e9
