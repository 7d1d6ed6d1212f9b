"""Leads, stores, claims, rates, stream mixes and the uncontended estimate, by hand."""

import numpy as np
import pytest

from archsim.engine.block import make_block
from archsim.engine.errors import DeadlockError, NameLookupError, RateRangeError, StoreRangeError
from archsim.engine.sim import PoolDecl, Sim, StoreDecl, UnitDecl

ONE = 1 << 20


def row(work=1000, unit=0, **more):
    return {"unit": unit, "work": work, "pool": [0], "coef": [ONE], **more}


POOLS = PoolDecl("p", 100), PoolDecl("q", 100)
STORES = (StoreDecl("s", 2),)


def new_sim(pools=POOLS, stores=STORES):
    return Sim([UnitDecl(f"u{i}") for i in range(3)], pools, stores, log="full")


def column(sim, name):
    return sim.rows()[name].tolist()


def test_lead_then_flow():
    sim = new_sim()
    sim.emit(make_block([row(150, lead=10), row(0, lead=3), row(0)], "chain"))
    sim.run()
    assert column(sim, "flow_ps") == [10, 15, 15, 15]
    assert column(sim, "end_ps") == [12, 15, 15, 15]  # 150 / 100 takes 2 ps
    assert column(sim, "lead_ps") == [10, 3, 0, 0]
    assert sim.events == 6  # two leads, four rows


def test_rows_without_a_unit_run_together():
    sim = new_sim()
    sim.emit(make_block([{"lead": 10 + i} for i in range(50)]))
    sim.run()
    assert sim.now == 59
    assert sim.busy_ps().tolist() == [0, 0, 0]


def test_unlimited_row_takes_one_picosecond():
    sim = new_sim()
    sim.emit(make_block([{"unit": 0, "work": 1 << 48}, {"unit": 0, "work": (1 << 48) + 1}], "chain"))
    sim.run()
    assert column(sim, "end_ps") == [1, 3, 3]


def test_start_waits_for_the_store_and_is_passed_over():
    """The head of the queue waits for room; the next startable row of the unit goes first."""
    sim = new_sim()
    big = row(100, unit=1, store=[0], store_start=[2], store_end=[-2])
    sim.emit(make_block([row(400, store=[0], store_start=[1], store_end=[-1]), big, row(100, unit=1)]))
    sim.run()
    assert column(sim, "start_ps")[:3] == [0, 5, 0]
    assert sim.levels_log()["level"].tolist() == [1, 0, 2, 0]


def test_end_waits_and_holds_the_unit():
    sim = new_sim()
    sim.add("s", 2)
    sim.emit(make_block([row(100, store=[0], store_end=[1]), row(100)]))
    sim.run(until_ps=9)
    assert sim.rows()["start_ps"].tolist() == [0, -1, -1]
    sim.add("s", -1)
    sim.run()
    assert column(sim, "end_ps")[:2] == [9, 10]
    assert sim.busy_ps().tolist() == [10, 0, 0]
    assert sim.level("s") == 2


def test_end_waiters_go_before_new_rows():
    """Room that appears goes to the row that waits to give, not to a row that could start with it."""
    sim = new_sim()
    sim.add("s", 2)
    give, take = row(100, store=[0], store_end=[1]), row(100, unit=1, store=[0], store_start=[1])
    sim.emit(make_block([give, take, row(500, unit=2, store=[0], store_end=[-1])]))
    with pytest.raises(DeadlockError, match="waits for store 's' to start with"):
        sim.run()
    assert column(sim, "status") == [0, 2, 0, 2]
    assert column(sim, "end_ps")[0] == column(sim, "end_ps")[2]


def test_end_waiters_go_by_id():
    sim = new_sim()
    sim.add("s", 2)
    sim.emit(make_block([row(200, unit=1, store=[0], store_end=[1]), row(100, store=[0], store_end=[1])]))
    sim.run(until_ps=9)
    sim.add("s", -1)
    sim.run(until_ps=10)
    assert column(sim, "end_ps")[:2] == [9, -1]


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (
            {"store_start": [3], "store_mode": [1]},
            "start of row 0 of block 0 'b' on 'u0' at 0 ps: store 's' at 0 of 2 cannot change by +3",
        ),
        (
            {"store_end": [-1], "store_mode": [2]},
            "end of row 0 of block 0 'b' on 'u0' at 10 ps: store 's' at 0 of 2 cannot change by -1",
        ),
    ],
)
def test_stores_may_raise(more, text):
    sim = new_sim()
    sim.emit(make_block([row(store=[0], **more)]), label="b")
    with pytest.raises(StoreRangeError) as caught:
        sim.run()
    assert str(caught.value) == text


def test_a_row_raises_only_when_nothing_makes_it_wait():
    """While the pool is claimed the row waits; once it could start, the full store raises."""
    sim = new_sim()
    sim.add("s", 2)
    taker = {"unit": 1, "claim": 0, "store": [0], "store_start": [1], "store_mode": [1]}
    sim.emit(make_block([{"unit": 0, "lead": 10, "claim": 0}, taker]))
    sim.run(until_ps=9)
    with pytest.raises(StoreRangeError, match=r"^start of row 1 of block 0 on 'u1' at 10 ps: "):
        sim.run()


def test_add_checks_the_range():
    sim = new_sim()
    with pytest.raises(StoreRangeError) as caught:
        sim.add("s", 3)
    assert str(caught.value) == "store 's' at 0 of 2 cannot change by +3"
    assert sim.level("s") == 0


def test_claim_excludes_others_from_its_start_to_its_end():
    sim = new_sim()
    owner = {"unit": 0, "lead": 10, "work": 500, "pool": [0], "coef": [ONE], "claim": 0}
    sim.emit(make_block([owner, row(400, unit=1, claim=0), row(100, unit=2)]))
    sim.run()
    # 0-10 lead, 10-15 flow; then the second claimant for 4 ps; then the plain row
    assert column(sim, "start_ps")[:3] == [0, 15, 0]
    assert column(sim, "end_ps")[:3] == [15, 19, 20]


def test_claim_holds_a_row_on_its_other_pools_too():
    sim = new_sim()
    two = {"unit": 1, "work": 100, "pool": [0, 1], "coef": [ONE, ONE]}
    sim.emit(make_block([{"unit": 0, "lead": 20, "claim": 0}, two, row(1000, unit=2, pool=[1])]))
    sim.run()
    assert column(sim, "end_ps")[:3] == [20, 21, 10]  # the third row has pool q to itself until the second may flow


def test_rate_of_a_unit_scales_caps_but_not_leads():
    sim = new_sim()
    block = sim.emit(make_block([row(1000, lead=10, cap=80), row(1000, lead=10, cap=80)], "chain"))
    sim.set_rate("u0", 0.5)
    sim.run(until_ps=15)
    assert sim.progress(block, 0) == (200, 1000)
    sim.set_rate("u0", 0)
    sim.run(until_ps=25)
    assert sim.progress(block, 0) == (200, 1000)
    sim.set_rate("u0", 1)
    sim.run()
    assert column(sim, "end_ps") == [35, 58, 58]
    assert sim.rates()["rate"].tolist() == [ONE // 2, 0, ONE]


def test_rate_of_a_pool_scales_its_capacity():
    sim = new_sim()
    sim.emit(make_block([row(1000)]))
    sim.set_rate("p", 0)
    sim.run(until_ps=5)
    sim.set_rate("p", 0.25)
    sim.run(until_ps=9)
    sim.set_rate("p", 4)
    sim.run()
    assert sim.now == 12  # 4 ps at 25, 900 at 400 in 3 ps


def test_capacity_follows_the_stream_mix():
    pools = [PoolDecl("p", 100, {1 << 1 | 1 << 2: 60, 1 << 2: 90})]
    sim = new_sim(pools=pools, stores=())
    one, two, none = row(300, stream=1), row(300, unit=1, stream=2, cap=30), row(90, unit=2, stream=0, cap=10)
    sim.emit(make_block([one, two, none]))
    sim.run()
    # together 60: two at 25, one 25, none 10 -> levels: none capped at 10, the others share 50
    assert column(sim, "end_ps")[2] == 9
    log = sim.pool_log()
    assert log["capacity"].tolist()[0] == 60
    assert sim.mix_time().sum() == sim.now
    assert set(np.flatnonzero(sim.mix_time()[0])) <= {0, 2, 4, 6}


def test_held_rows_are_not_in_the_mix():
    sim = new_sim()
    sim.emit(make_block([{"unit": 0, "lead": 10, "claim": 0, "stream": 6}, row(100, unit=1, stream=1)]))
    sim.run()
    assert sim.mix_time()[0, [0, 2]].tolist() == [10, 1]


def test_estimate():
    sim = new_sim()
    chain = make_block([row(1000, lead=5), row(1000, cap=50), row(300, unit=1)], "chain")
    assert sim.estimate(chain) == 15 + 20 + 3
    fan = make_block([row(1000), row(1000), row(1000, unit=1)])
    assert sim.estimate(fan) == 20  # units run in parallel, rows of one unit do not
    sim.set_rate("p", 0.5)
    assert sim.estimate(fan) == 40
    sim.set_rate("p", 0)
    with pytest.raises(RateRangeError, match=r"^row 0 of the block has rate 0 even alone"):
        sim.estimate(fan)
    for seed in range(5):
        rng = np.random.default_rng(seed)
        rows = [row(int(rng.integers(1, 900)), lead=int(rng.integers(9)), unit=i % 3, pool=()) for i in range(12)]
        for r in rows:
            r.pop("coef")
            r["cap"] = int(rng.integers(1, 50))
        block = make_block(rows, [(i, i + 2) for i in range(10)])
        fresh = new_sim()
        fresh.emit(block)
        fresh.run()
        assert fresh.estimate(block) == fresh.now  # nothing is shared, so alone is how it runs


def test_names():
    sim = new_sim()
    with pytest.raises(NameLookupError, match=r"^no unit or pool 'x'; there is: u0, u1, u2, p, q$"):
        sim.set_rate("x", 1)
    with pytest.raises(NameLookupError, match=r"^no store 'p'; there is: s$"):
        sim.level("p")
    with pytest.raises(NameLookupError, match=r"^pool 'u0': the name is taken by a unit$"):
        Sim([UnitDecl("u0")], [PoolDecl("u0", 1)])
    with pytest.raises(RateRangeError, match=r"^rate fraction 5 of 'p' is outside 0 \.\. 4$"):
        sim.set_rate("p", 5)
    with pytest.raises(RateRangeError, match=r"^pool 'p': capacity 34359738368 is outside"):
        Sim([], [PoolDecl("p", 1 << 35)])
    with pytest.raises(RateRangeError, match=r"^pool 'p': mix mask 3 is not even"):
        Sim([], [PoolDecl("p", 1, {3: 1})])
    with pytest.raises(RateRangeError, match=r"^pool 'p' at 2: its capacity would reach 2\*\*35$"):
        Sim([], [PoolDecl("p", (1 << 35) - 1)]).set_rate("p", 2)
    with pytest.raises(StoreRangeError, match=r"^store 's': level 3 is outside 0 \.\. 2$"):
        Sim([], [], [StoreDecl("s", 2, 3)])
    with pytest.raises(NameLookupError, match=r"^log level 'all' is unknown; it is off, tasks or full$"):
        Sim([], log="all")
