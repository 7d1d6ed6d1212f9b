"""Processes: what they can wait for, what they are told, and in which order they run."""

import pytest

from archsim.engine.block import make_block
from archsim.engine.errors import SimError, TimeRangeError, ZeroTimeLoopError
from archsim.engine.process import Outcome
from archsim.engine.sim import PoolDecl, Sim, UnitDecl

ONE = 1 << 20


def row(work=1000, unit=0, **more):
    return {"unit": unit, "work": work, "pool": [0], "coef": [ONE], **more}


def new_sim(**options):
    return Sim([UnitDecl("u0"), UnitDecl("u1")], [PoolDecl("p", 100)], **options)


def run(*functions, **options):
    """Run processes that are given the simulation and a list to report to; returns both."""
    sim, seen = new_sim(**options), []
    for function in functions:
        sim.process(function(sim, seen), function.__name__)
    sim.run()
    return sim, seen


def test_block_timer_and_finished_things():
    def one(sim, seen):
        block = sim.emit(make_block([row(), row(lead=5)], "chain"))
        seen.append(((yield sim.timer(7)), sim.now, sim.progress(block)))
        seen.append(((yield block), sim.now, block.status))
        seen.append(((yield block), sim.now))  # over already: returns at once
        seen.append(((yield sim.timer(0)), sim.now))

    _, seen = run(one)
    assert seen == [
        (Outcome("timer"), 7, (700, 2000)),
        (Outcome("done"), 25, "done"),
        (Outcome("done"), 25),
        (Outcome("timer"), 25),
    ]


def test_single_row_and_its_progress():
    def one(sim, seen):
        block = sim.emit(make_block([row(400), row(600)], "chain"))
        seen.append(((yield block.row(0)), sim.now))
        yield sim.timer(2)
        seen.append((sim.progress(block, 0), sim.progress(block, 1), sim.progress(block)))
        assert sim.row_status(block, 1) == "running"

    _, seen = run(one)
    assert seen == [(Outcome("done"), 4), ((400, 400), (200, 600), (600, 1000))]


def test_signal_wakes_present_waiters_only():
    def setup(sim, seen):
        signal = sim.signal("go")

        def early():
            seen.append(("early", (yield signal), sim.now))

        def late():
            yield sim.timer(20)
            seen.append(("late", (yield sim.any_of(signal, sim.timer(5))), sim.now))

        sim.process(early())
        sim.process(late())
        yield sim.timer(10)
        signal.fire("x")

    _, seen = run(setup)
    assert seen == [("early", Outcome("signal", 0, "x"), 10), ("late", Outcome("timer", 1), 25)]


def test_any_of_reports_the_lowest_index():
    def one(sim, seen):
        a, b = sim.emit(make_block([row(500)])), sim.emit(make_block([row(500, unit=1)]))
        seen.append(((yield sim.any_of(sim.timer(99), b, a)), sim.now))
        seen.append(((yield sim.any_of(sim.timer(1), b, a)), sim.now))

    sim, seen = run(one)
    assert seen == [(Outcome("done", 1), 10), (Outcome("done", 1), 10)]
    assert sim.now == 10  # dropped timers do not prolong the run


def test_all_of_waits_for_the_last_and_reports_cuts():
    def one(sim, seen):
        a, b = sim.emit(make_block([row(500)])), sim.emit(make_block([row(500, unit=1)]))
        yield sim.timer(2)
        sim.cut(a)
        seen.append(((yield sim.all_of(a, b, sim.timer(1))), sim.now))

    _, seen = run(one)
    # 2 ps at 50 each, then b alone at 100: 400 left take 4 ps
    assert seen == [(Outcome("cut", 0, (Outcome("cut"), Outcome("done"), Outcome("timer"))), 6)]


def test_nested_compounds():
    def one(sim, seen):
        a = sim.emit(make_block([row(1000)]))
        seen.append(((yield sim.all_of(sim.any_of(sim.timer(50), sim.timer(3)), a)), sim.now))

    _, seen = run(one)
    assert seen == [(Outcome("done", 0, (Outcome("timer", 1), Outcome("done"))), 10)]


def test_processes_return_values_and_are_waitable():
    def one(sim, seen):
        def child():
            yield sim.timer(4)
            return 17

        process = sim.process(child(), "child")
        seen.append(((yield process), sim.now))
        seen.append((yield sim.any_of(process)))

    _, seen = run(one)
    assert seen == [(Outcome("done", 0, 17), 4), Outcome("done", 0, 17)]


def test_order_within_an_instant_is_by_process_id():
    def make(name):
        def process(sim, seen):
            yield sim.timer(5)
            seen.append(name)
            yield sim.timer(5)
            seen.append(name)

        return process

    _, seen = run(make("a"), make("b"), make("c"))
    assert seen == ["a", "b", "c"] * 2


def test_completions_are_seen_before_units_take_their_next_row():
    """A process told of a row's end can still put a more urgent row before the next one in the queue."""

    def one(sim, seen):
        first = sim.emit(make_block([row(100), row(100)]))
        yield first.row(0)
        urgent = sim.emit(make_block([row(100, priority=-1)]))
        yield urgent
        seen.append((sim.now, sim.row_status(first, 1)))

    _, seen = run(one)
    assert seen == [(2, "running")]


def test_queue_order_is_priority_then_id():
    sim = new_sim(log="tasks")
    sim.emit(make_block([row(100, priority=1), row(100), row(100)]))
    sim.emit(make_block([row(100, priority=1)]), priority=-2)
    sim.run()
    assert sim.rows()["start_ps"][[0, 1, 2, 4]].tolist() == [3, 1, 2, 0]


def test_a_loop_that_takes_no_time_is_named():
    def spin(sim, seen):
        while True:
            yield sim.timer(0)

    with pytest.raises(ZeroTimeLoopError, match=r"^process 'spin' yielded 65536 times at 0 ps and never had to wait; "):
        run(spin)


def test_rounds_without_end_are_named():
    def spin(sim, seen):
        while True:
            yield sim.emit(make_block([]))

    with pytest.raises(ZeroTimeLoopError) as caught:
        run(spin)
    text = "more than 65536 rounds at 0 ps: processes or rows go in a circle without taking time"
    assert str(caught.value) == text


def test_wrong_yields_and_times():
    def wrong(sim, seen):
        yield 3

    with pytest.raises(SimError, match=r"^process 'wrong' yielded 3, which is not a Waitable"):
        run(wrong)
    sim = new_sim()
    with pytest.raises(TimeRangeError, match=r"^timer of -1 ps at 0 ps: "):
        sim.timer(-1)
    sim.run(until_ps=10)
    with pytest.raises(TimeRangeError, match=r"^cannot run until 5 ps: it is 10 ps already$"):
        sim.run(until_ps=5)


def test_exceptions_of_a_process_come_out_of_run():
    def broken(sim, seen):
        yield sim.timer(1)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        run(broken)


def test_run_until_stops_and_goes_on():
    sim = new_sim(log="tasks")
    block = sim.emit(make_block([row(1000)]))
    sim.run(until_ps=4)
    assert (sim.now, sim.progress(block), block.status) == (4, (400, 1000), "open")
    assert sim.rows()["status"].tolist() == [3, 2]
    assert sim.rows()["done"].tolist() == [400, 0]
    sim.set_rate("p", 0.5)
    sim.run(until_ps=16)
    assert block.done
    sim.run(until_ps=20)
    assert sim.now == 20
    assert sim.rates() == {"time_ps": [4], "pool": [1], "id": [0], "rate": [ONE // 2]}


def test_daemons_may_wait_for_ever():
    sim = new_sim()

    def server():
        yield sim.signal("never")

    sim.process(server(), "server", daemon=True)
    sim.emit(make_block([row(100)]))
    sim.run()
    assert sim.now == 1
