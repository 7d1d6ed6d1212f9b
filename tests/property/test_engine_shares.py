"""The integer solver against a float max-min, its tightness, and independence of how work is split."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archsim.engine import core
from archsim.engine.bench import contended_block
from archsim.engine.block import make_block
from archsim.engine.oracle import Oracle
from archsim.engine.sim import PoolDecl, Sim, UnitDecl

PROPERTY = settings(max_examples=60, deadline=None, derandomize=True)
GB = 2.0**28 / 1e3  # 1 GB/s in 2**-28 byte per ps


def float_max_min(weights, caps, coefs, capacities):
    """Textbook progressive filling in doubles."""
    n, rates, active = len(weights), np.zeros(len(weights)), np.ones(len(weights), dtype=bool)
    while active.any():
        left = capacities - coefs.T @ np.where(active, 0.0, rates)
        load = coefs.T @ np.where(active, weights, 0.0)
        levels = np.where(load > 0, left / np.where(load > 0, load, 1), np.inf)
        full = levels.min(initial=np.inf)
        reach = np.where(active, caps / weights, np.inf)
        if reach.min() <= full:
            i = int(reach.argmin())
            rates[i], active[i] = caps[i], False
        else:
            p = int(levels.argmin())
            for i in range(n):
                if active[i] and coefs[i, p] > 0:
                    rates[i], active[i] = weights[i] * full, False
    return rates


@st.composite
def shares(draw):
    n, pools = draw(st.integers(1, 12)), draw(st.integers(1, 4))
    capacities = [draw(st.floats(8, 100)) for _ in range(pools)]
    rows = []
    for _ in range(n):
        used = draw(st.lists(st.integers(0, pools - 1), min_size=1, max_size=3, unique=True))
        rows.append(
            {
                "unit": len(rows),
                "weight": draw(st.integers(1 << 16, 1 << 18)),
                "cap": int(draw(st.floats(0.5, 100)) * GB),
                "work": 1 << 50,
                "pool": used,
                "coef": [draw(st.integers(1 << 17, 1 << 20)) for _ in used],
            }
        )
    return rows, [int(c * GB) for c in capacities]


def solved(rows, capacities):
    sim = Sim([UnitDecl(f"u{i}") for i in range(len(rows))], [PoolDecl(f"p{i}", c) for i, c in enumerate(capacities)])
    sim.emit(make_block(rows))
    sim.run(until_ps=1)
    return sim.window.s.slot[: len(rows), core.X_RATE].astype(object)


@settings(PROPERTY, max_examples=300)
@given(shares())
def test_rates_match_a_float_max_min(case):
    rows, capacities = case
    rates = solved(rows, capacities)
    coefs = np.zeros((len(rows), len(capacities)))
    for i, row in enumerate(rows):
        coefs[i, row["pool"]] = np.array(row["coef"]) / 2**20
    weights, caps = (np.array([row[name] for row in rows], dtype=float) for name in ("weight", "cap"))
    expected = float_max_min(weights, caps, coefs, np.array(capacities, dtype=float))
    wide = expected >= 0.5 * GB * 0.999
    # one unit of rate lost to rounding is 7.5e-6 of 0.5 GB/s; a few rows on the same pools add theirs
    np.testing.assert_allclose(rates[wide].astype(float), expected[wide], rtol=1e-5)


@settings(PROPERTY, max_examples=300)
@given(shares())
def test_pools_are_tight(case):
    """A row below its cap has a pool that is full up to one unit of rate per row."""
    rows, capacities = case
    rates = solved(rows, capacities)
    used, slack = [0] * len(capacities), [0] * len(capacities)
    for row, rate in zip(rows, rates):
        for p, coef in zip(row["pool"], row["coef"]):
            used[p] += coef * int(rate)
            slack[p] += coef
    for p, capacity in enumerate(capacities):
        assert used[p] <= capacity << 20
    for row, rate in zip(rows, rates):
        if rate < row["cap"]:
            assert any((capacities[p] << 20) - used[p] < slack[p] for p in row["pool"])


@pytest.mark.parametrize("parts", [1, 4, 16])
def test_split_rows_take_the_same_time(parts):
    """A load cut into parts shares a pool with another load for as long as the whole one does."""

    def total(n):
        sim = Sim([UnitDecl("a"), UnitDecl("b")], [PoolDecl("p", 1000)])
        part = {"unit": 0, "work": 160_000 // n, "pool": [0], "coef": [1 << 20], "weight": 3, "cap": 900}
        other = {"unit": 1, "work": 100_000, "pool": [0], "coef": [1 << 20], "weight": 5}
        sim.emit(make_block([part] * n, "chain"))
        sim.emit(make_block([other]))
        sim.run()
        return sim.now

    assert abs(total(parts) - total(1)) <= parts


def test_shares_by_hand():
    """Weights 1 : 3 on a pool of 100, the heavy row capped at 30: it gets 30, the other 70."""
    rows = [
        {"unit": 0, "weight": 1, "work": 700, "pool": [0], "coef": [1 << 20]},
        {"unit": 1, "weight": 3, "work": 300, "pool": [0], "coef": [1 << 20], "cap": 30},
    ]
    assert solved(rows, [100]).tolist() == [70, 30]
    rows[1]["cap"] = 90
    assert solved(rows, [100]).tolist() == [25, 75]
    rows[0]["coef"] = [2 << 20]  # twice the draw: 2 L + 3 L = 100
    assert solved(rows, [100]).tolist() == [20, 60]


def test_a_row_alone_gets_the_whole_pool():
    for capacity in (1, 3, 100, 13_743_895, (1 << 35) - 1):
        for weight in (1, 3, 1 << 20):
            row = {"unit": 0, "weight": weight, "work": 1 << 40, "pool": [0], "coef": [1 << 20]}
            assert solved([row], [capacity]).tolist() == [capacity]


def test_two_bottlenecks():
    """The wide row is held to 10 by the narrow pool; what it leaves of the wide pool goes to the other."""
    rows = [
        {"unit": 0, "work": 10_000, "pool": [0, 1], "coef": [1 << 20, 1 << 20]},
        {"unit": 1, "work": 10_000, "pool": [0], "coef": [1 << 20]},
    ]
    assert solved(rows, [100, 10]).tolist() == [10, 90]


def assert_equals_oracle(units, pools, block):
    sim = Sim(units, pools, log="tasks")
    sim.emit(block)
    sim.run()
    oracle = Oracle(sim.units, sim.pools, sim.stores)
    oracle.play(sim.script())
    columns = oracle.columns()
    for name, column in sim.rows().items():
        np.testing.assert_array_equal(column, columns[name], err_msg=name)


@pytest.mark.parametrize(("units", "pools"), [(12, 4), (16, 9)])
def test_a_crowd_agrees_with_the_oracle(units, pools):
    """Each event takes the filling up where the last one still holds; the oracle fills anew."""
    declared = [UnitDecl(f"u{i}") for i in range(units)], [PoolDecl(f"p{i}", int(20 * GB)) for i in range(pools)]
    assert_equals_oracle(*declared, contended_block(units, pools, 3 * units))


def test_a_staircase_of_caps_agrees_with_the_oracle():
    """More steps than the filling keeps: each cap is reached only because the row before it left something."""
    n, left, level, rows = 12, 1 << 40, 0, []
    for i in range(n):
        share = left // (n - i)
        cap = (level + share) // 2 if i < n - 1 else share + 9
        work = (1 << 50) + (i * 7919 % 13 << 46)
        rows.append({"unit": -1, "work": work, "cap": cap, "pool": [0], "coef": [1 << 14]})
        left, level = left - cap, share
    declared = [UnitDecl("u")], [PoolDecl("p", 1 << 34)]
    sim = Sim(*declared)
    sim.emit(make_block(rows))
    sim.run(until_ps=1)
    assert sim.window.s.m[core.KEEP] == sim.window.s.m[core.LAST_STEP] - 1 < n - 2
    assert_equals_oracle(*declared, make_block(rows))
