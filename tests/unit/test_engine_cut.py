"""Cuts: what is kept, what is given back, who is told."""

import pytest

from archsim.engine.block import make_block
from archsim.engine.errors import StoreRangeError
from archsim.engine.process import Outcome
from archsim.engine.sim import PoolDecl, Sim, StoreDecl, UnitDecl

ONE = 1 << 20


def row(work=1000, unit=0, **more):
    return {"unit": unit, "work": work, "pool": [0], "coef": [ONE], **more}


@pytest.fixture
def sim():
    units = [UnitDecl("u0"), UnitDecl("u1")]
    return Sim(units, [PoolDecl("p", 100), PoolDecl("q", 100)], [StoreDecl("s", 3), StoreDecl("t", 3, 3)], log="full")


def column(sim, name):
    return sim.rows()[name].tolist()


def test_in_flow_keeps_the_work_done(sim):
    block = sim.emit(make_block([row(), row()], "chain"))
    sim.run(until_ps=3)
    sim.cut(block)
    assert block.status == "cut"
    assert column(sim, "status") == [1, 1, 1]
    assert column(sim, "done") == [300, 0, 0]
    assert column(sim, "end_ps") == [3, 3, 3]
    assert column(sim, "start_ps") == [0, -1, -1]
    assert sim.progress(block) == (300, 2000)


def test_in_lead_keeps_the_elapsed_lead(sim):
    block = sim.emit(make_block([row(lead=20)]))
    sim.run(until_ps=5)
    sim.cut(block)
    assert column(sim, "lead_ps") == [5, 0]
    assert column(sim, "flow_ps") == [-1, -1]
    sim.run()
    assert sim.busy_ps().tolist() == [5, 0]


def test_frees_the_unit_at_once(sim):
    first, second = sim.emit(make_block([row()])), sim.emit(make_block([row(200)]))
    sim.run(until_ps=3)
    sim.cut(first)
    sim.run()
    assert second.done
    assert column(sim, "start_ps")[2] == 3
    assert sim.now == 5


def test_frees_the_share_at_once(sim):
    sim.emit(make_block([row(1000)]))
    other = sim.emit(make_block([row(1000, unit=1)]))
    sim.run(until_ps=4)
    sim.cut(other)
    sim.run()
    assert sim.now == 12  # 4 ps at 50, 800 at 100


def test_queued_and_unready_rows(sim):
    block = sim.emit(make_block([row(100), row(100), row(100)], [(0, 2)]))
    sim.cut_row(block, 1)  # queued behind row 0
    assert block.status == "cut"  # the join row depends on it
    sim.run()
    assert column(sim, "status") == [0, 1, 0, 1]
    again = sim.emit(make_block([row(100), row(100)], "chain"))
    sim.cut_row(again, 1)  # not ready
    sim.run()
    assert column(sim, "status")[4:] == [0, 1, 1]


def test_dependents_are_cut_transitively(sim):
    a = sim.emit(make_block([row()]))
    b = sim.emit(make_block([row(), row()], "chain"), after=a)
    c = sim.emit(make_block([row()]), after=[b])
    free = sim.emit(make_block([row()]))
    sim.cut(a)
    assert [h.status for h in (a, b, c, free)] == ["cut", "cut", "cut", "open"]
    late = sim.emit(make_block([row()]), after=[c, free])
    assert late.status == "cut"
    sim.run()
    assert free.done


def test_what_has_ended_stays(sim):
    block = sim.emit(make_block([row(100)]))
    sim.run()
    sim.cut(block)
    sim.cut_row(block, 0)
    assert block.done
    assert column(sim, "status") == [0, 0]


def test_wakes_waiters(sim):
    seen = []

    def waiter(block):
        seen.append(((yield sim.any_of(sim.timer(50), block)), sim.now))

    def killer(block):
        yield sim.timer(2)
        sim.cut_row(block, 0)
        seen.append((yield block.row(0)))

    block = sim.emit(make_block([row()]))
    sim.process(waiter(block))
    sim.process(killer(block))
    sim.run()
    assert seen == [Outcome("cut"), (Outcome("cut", 1), 2)]
    assert sim.now == 2


def test_running_row_gives_its_store_back(sim):
    block = sim.emit(make_block([row(store=[0], store_start=[2], store_end=[-2])]))
    waiting = sim.emit(make_block([row(100, unit=1, store=[0], store_start=[2], store_end=[-2])]))
    sim.run(until_ps=3)
    assert sim.level("s") == 2
    sim.cut(block)
    assert sim.level("s") == 0
    sim.run()
    assert column(sim, "start_ps")[2] == 3
    assert waiting.done


def test_done_row_is_undone_when_its_heir_is_cut(sim):
    ring = {"store": [0], "store_start": [1], "heir": 1}
    use = row(1000, unit=1, store=[0], store_end=[-1])
    block = sim.emit(make_block([row(100, **ring), use], "chain"))
    sim.run(until_ps=3)
    assert (sim.level("s"), sim.row_status(block, 0)) == (1, "done")
    sim.cut_row(block, 1)
    assert sim.level("s") == 0
    normal = sim.emit(make_block([row(100, **ring), use], "chain"))
    sim.run()
    assert normal.done
    assert sim.level("s") == 0
    assert sim.levels_log()["level"].tolist() == [1, 0, 1, 0]


def test_row_that_ends_after_its_heir_was_cut_is_undone(sim):
    rows = [row(1000, store=[0], store_start=[1], heir=1), row(1000, unit=1, store=[0], store_end=[-1])]
    block = sim.emit(make_block(rows))  # no edge: both run
    sim.run(until_ps=2)
    sim.cut_row(block, 1)
    assert sim.level("s") == 1
    sim.run()
    assert sim.level("s") == 0


def test_cut_row_is_undone_once(sim):
    rows = [row(1000, store=[0], store_start=[1], heir=1), row(10, unit=1, store=[0], store_end=[-1])]
    block = sim.emit(make_block(rows, "chain"))
    sim.run(until_ps=2)
    sim.cut(block)
    assert sim.level("s") == 0


def test_while_waiting_to_give(sim):
    sim.add("s", 3)
    block = sim.emit(make_block([row(100, store=[0, 1], store_start=[0, -1], store_end=[1, 0])]))
    sim.run(until_ps=5)
    assert sim.row_status(block, 0) == "running"
    assert (sim.level("t"), sim.progress(block)) == (2, (100, 100))
    other = sim.emit(make_block([row(100)]))
    sim.cut(block)
    assert (sim.level("s"), sim.level("t")) == (3, 3)
    sim.run()
    assert (other.done, sim.now) == (True, 6)
    assert column(sim, "done") == [100, 0, 100, 0]


def test_releases_a_claim(sim):
    owner = sim.emit(make_block([{"unit": 0, "lead": 1000, "claim": 0}]))
    held = sim.emit(make_block([row(100, unit=1)]))
    sim.run(until_ps=10)
    assert sim.progress(held) == (0, 100)
    sim.cut(owner)
    sim.run()
    assert (held.done, sim.now) == (True, 11)


def test_undo_that_does_not_fit_is_an_error(sim):
    block = sim.emit(make_block([row(store=[1], store_start=[-2], store_end=[2])]), label="b")
    sim.run(until_ps=1)
    sim.add("t", 2)
    with pytest.raises(StoreRangeError) as caught:
        sim.cut(block)
    assert str(caught.value) == "cut of row 0 of block 0 'b' on 'u0' at 1 ps: store 't' at 3 of 3 cannot change by +2"
