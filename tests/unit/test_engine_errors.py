"""Named errors with their exact, one-line messages: malformed blocks, deadlock, ranges."""

import numpy as np
import pytest

from archsim.engine.block import make_block
from archsim.engine.errors import (
    BlockShapeError,
    DeadlockError,
    RowRangeError,
    ShareRangeError,
    SimError,
    TimeRangeError,
    WorkRangeError,
)
from archsim.engine.sim import PoolDecl, Sim, StoreDecl, UnitDecl

ONE = 1 << 20


def new_sim(log="off"):
    return Sim([UnitDecl("u"), UnitDecl("v")], [PoolDecl("p", 100)], [StoreDecl("s", 2)], log=log)


@pytest.mark.parametrize(
    ("kind", "row", "text"),
    [
        (RowRangeError, {"unit": 2}, "unit 2 does not exist"),
        (RowRangeError, {"priority": 1 << 22}, "priority 4194304 is outside -2**22 .. 2**22"),
        (RowRangeError, {"weight": 0}, "weight 0 is outside 1 .. 2**30"),
        (RowRangeError, {"lead": -1}, "lead -1 ps is outside 0 .. 2**60"),
        (WorkRangeError, {"work": -1}, "work -1 is negative or above 32 GiB (2**63); split the row"),
        (RowRangeError, {"cap": 1 << 41}, "cap 2199023255552 is neither in 0 .. 2**41 nor NO_CAP"),
        (RowRangeError, {"pool": [1]}, "a pool id is unknown"),
        (RowRangeError, {"coef": [1 << 41]}, "a coefficient is outside 0 .. 2**41"),
        (
            RowRangeError,
            {"coef": [1 << 40], "weight": 1 << 16},
            "weight 65536 times a coefficient reaches 2**56; use a smaller weight",
        ),
        (RowRangeError, {"claim": 1}, "claimed pool 1 does not exist"),
        (RowRangeError, {"stream": 8}, "stream 8 is outside 0 .. 7"),
        (RowRangeError, {"store": [1]}, "a store id is unknown"),
        (RowRangeError, {"store": [0, 0]}, "both store references name one store; add the changes up"),
        (RowRangeError, {"store_mode": [4]}, "a store mode is outside 0 .. 3"),
        (RowRangeError, {"heir": 3}, "heir 3 is no row of the block"),
    ],
)
def test_ranges(kind, row, text):
    sim = new_sim()
    with pytest.raises(kind) as caught:
        sim.emit(make_block([{}, row]), label="b")
    assert str(caught.value) == f"row 1 of block 'b': {text}"
    good = sim.emit(make_block([{"unit": 0, "lead": 5}]))  # nothing of the bad one is left
    sim.run()
    assert (good.id, good.done, sim.now) == (0, True, 5)
    assert sim.rows()["row"].tolist() == [0, 1]


def test_block_shapes():
    sim = new_sim()
    block = make_block([{}, {}], "chain")

    def refuse(text, **columns):
        with pytest.raises(BlockShapeError) as caught:
            sim.emit(block._replace(**columns))
        assert str(caught.value) == text

    refuse("column 'work' of a block of 3 rows is float64; it must be int64", work=np.zeros(3))
    refuse("column 'lead' of a block of 3 rows has shape (2,), not (3,)", lead=np.zeros(2, dtype=np.int64))
    refuse("column 'pool' of a block of 3 rows has shape (4, 3), not (3, 4)", pool=np.zeros((4, 3), dtype=np.int64))
    refuse("column 'succ' of a block of 3 rows is int32; it must be int64", succ=np.array([1, 2], dtype=np.int32))
    refuse(
        "block of 3 rows: succ_ptr needs n + 1 entries, from 0 to 2, and n > 0",
        succ_ptr=np.array([0, 1, 2], dtype=np.int64),
    )
    refuse("row 0 of the block: succ_ptr falls, or a successor is no row of the block", succ=np.array([3, 2]))
    refuse("row 0 of the block: the edges close a cycle".replace("row 0", "row 2"), succ=np.array([0, 2]))
    refuse(
        "row 1 of the block: every row but the last (the join row) needs a successor, and the last none",
        succ=np.array([2, 2]),
        succ_ptr=np.array([0, 2, 2, 2]),
    )
    refuse(
        "row 2 of the block: the join row (the last) must have unit -1, lead 0 and work 0",
        lead=np.array([0, 0, 1], dtype=np.int64),
    )
    with pytest.raises(BlockShapeError, match=r"^unknown row column 'wrok'; known: unit, priority"):
        make_block([{"wrok": 1}])
    with pytest.raises(BlockShapeError, match=r"^edge \(0, 1\) leaves a block of 1 rows"):
        make_block([{}], [(0, 1)])
    with pytest.raises(BlockShapeError, match=r"^priority 4194304 of block 'x'"):
        sim.emit(block, priority=1 << 22, label="x")


def test_edges_need_not_ascend():
    sim = new_sim()
    sim.emit(make_block([{"unit": 0, "lead": 3}, {"unit": 1, "lead": 5}], [(1, 0)]))
    sim.run()
    assert sim.rows()["start_ps"].tolist() == [5, 0, 8]


def test_deadlock_lists_processes_rows_and_stores():
    sim = new_sim()

    def waiter():
        yield sim.any_of(sim.signal("go"), block)

    block = sim.emit(
        make_block(
            [
                {"unit": 0, "work": 10, "pool": [0], "coef": [ONE]},
                {"unit": 0, "lead": 1},
                {"unit": 1, "lead": 1, "claim": 0, "store": [0], "store_end": [-1]},
                {"claim": 0},
                {"store": [0], "store_start": [3]},
                {},
            ],
            [(4, 5)],
        ),
        label="b",
    )
    later = sim.emit(make_block([]), after=block)
    sim.process(waiter(), "w")
    with pytest.raises(DeadlockError) as caught:
        sim.run()
    assert str(caught.value) == (
        "deadlock at 1 ps: process 'w' waits for any of (signal 'go', block 0 'b'); "
        "row 0 of block 0 'b' on 'u' is stalled: pool 'p' is claimed by row 2 of block 0 'b' on 'v'; "
        "row 1 of block 0 'b' on 'u' waits for unit 'u' held by row 0 of block 0 'b' on 'u'; "
        "row 2 of block 0 'b' on 'v' waits for store 's' to end with -1; "
        "row 3 of block 0 'b' waits for the claim on pool 'p' of row 2 of block 0 'b' on 'v'; "
        "row 4 of block 0 'b' waits for store 's' to start with +3; "
        "row 5 of block 0 'b' waits for 1 rows; row 6 of block 0 'b' waits for 5 rows; "
        "row 0 of block 1 waits for 1 blocks; store 's' is at 0 of 2"
    )
    assert caught.value.processes == ["process 'w' waits for any of (signal 'go', block 0 'b')"]
    assert len(caught.value.rows) == 8
    assert later.status == "open"


@pytest.mark.parametrize(
    ("name", "text"),
    [("u", "is stalled: unit 'u' has rate 0"), ("p", "is stalled: pool 'p' has capacity 0")],
)
def test_deadlock_of_stalled_rows(name, text):
    sim = new_sim()
    sim.emit(make_block([{"unit": 0, "work": 10, "cap": 10, "pool": [0], "coef": [ONE]}]))
    sim.set_rate(name, 0)
    sim.run(until_ps=100)  # a bounded run may stall: the rate can change afterwards
    with pytest.raises(DeadlockError, match=text):
        sim.run()


def test_long_lists_are_cut_short_in_the_message_only():
    sim = new_sim()
    sim.emit(make_block([{"store": [0], "store_start": [3]}] * 70))
    with pytest.raises(DeadlockError, match=r"; and 21 more rows \(all in error\.rows\); store 's'") as caught:
        sim.run()
    assert len(caught.value.rows) == 71
    assert "\n" not in str(caught.value)


def test_too_many_heavy_rows_on_one_pool():
    sim = new_sim()
    heavy = {"work": 1 << 40, "weight": 1 << 29, "pool": [0], "coef": [1 << 26]}
    sim.emit(make_block([heavy, heavy]))
    with pytest.raises(
        ShareRangeError, match=r"^pool 'p' at 0 ps: the rows on it reach a sum of weight \* coef of 2\*\*56"
    ):
        sim.run()


def test_clock_range():
    sim = new_sim()
    sim.emit(make_block([{"unit": 0, "work": (1 << 63) - 1, "cap": 1}]))
    with pytest.raises(TimeRangeError, match=r"^the next event after 0 ps lies beyond 2\*\*62 ps: "):
        sim.run()


def test_largest_row():
    """32 GiB less one unit at 2**40 per ps."""
    sim = new_sim()
    sim.emit(make_block([{"unit": 0, "work": (1 << 63) - 1, "cap": 1 << 40}]))
    sim.run(until_ps=3)
    sim.set_rate("u", 0.5)
    sim.run()
    assert sim.now == 3 + -(-((1 << 63) - 1 - (3 << 40)) // (1 << 39))


def test_every_error_is_a_sim_error():
    from archsim.engine import errors

    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    assert len(kinds) >= 12
    assert all(issubclass(kind, SimError) for kind in kinds)
