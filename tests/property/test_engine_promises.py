"""What every run of a random system must keep: pools, units, work, order, stores, claims."""

from collections import defaultdict
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from archsim.engine.randomised import System

PROPERTY = settings(max_examples=60, deadline=None, derandomize=True)
randoms = st.randoms(use_true_random=False)


@PROPERTY
@given(randoms)
def test_pools_are_never_exceeded(r):
    sim, _ = System(r).run(log="full")
    log = sim.pool_log()
    assert (log["usage"] <= log["capacity"]).all()


@PROPERTY
@given(randoms)
def test_a_unit_runs_one_row_at_a_time(r):
    sim, error = System(r).run(log="tasks")
    rows = sim.rows()
    for unit in range(len(sim.units)):
        mine = np.flatnonzero((rows["unit"] == unit) & (rows["start_ps"] >= 0))
        end = np.where(rows["end_ps"] < 0, sim.now, rows["end_ps"])
        order = mine[np.lexsort((end[mine], rows["start_ps"][mine]))]
        assert (rows["start_ps"][order[1:]] >= end[order[:-1]]).all()
        assert (end[mine] - rows["start_ps"][mine]).sum() == sim.busy_ps()[unit]
    assert error is not None or (rows["status"] <= 1).all()


@PROPERTY
@given(randoms)
def test_work_asked_is_served_or_left(r):
    """What the rows report as done is what the pools served, seen from the log of usage."""
    sim, _ = System(r).run(log="full")
    rows = sim.rows()
    assert (rows["done"][rows["status"] == 0] == rows["work"][rows["status"] == 0]).all()
    assert ((rows["done"] >= 0) & (rows["done"] <= rows["work"])).all()
    assert (rows["done"][rows["flow_ps"] < 0] == 0).all()
    log = sim.pool_log()
    for p in range(len(sim.pools)):
        mine = log["pool"] == p
        ps, usage = np.diff(log["time_ps"][mine], append=sim.now), log["usage"][mine]
        excess = int((ps * usage).sum()) - _drawn(sim, rows, p)
        busy_ps = int((ps * (usage > 0)).sum())  # usage is rounded up to whole units in each of them
        last_ps = len(rows["row"]) * int(log["capacity"].max(initial=0))  # a row may need only part of its last one
        assert -1 <= excess <= busy_ps + last_ps


def _drawn(sim, rows, p):
    """Pool units drawn by the rows' work, from the templates of the script."""
    script, drawn, row = sim.script(), 0, 0
    for step in script.steps():
        if step[2] != 0:
            continue
        block = script.templates[step[3]]
        for i in range(block.rows):
            coef = int(block.coef[i][block.pool[i] == p].sum())
            drawn += coef * int(rows["done"][row])
            row += 1
    return drawn >> 20


@PROPERTY
@given(randoms)
def test_rows_run_in_dependency_order(r):
    sim, _ = System(r).run(log="tasks")
    rows, script = sim.rows(), sim.script()
    first, row, at = [], 0, 0
    for step in script.steps():
        if step[2] != 0:
            continue
        block, count = script.templates[step[3]], step[7]
        before = [first[b + 1] - 1 if b + 1 < len(first) else row - 1 for b in script.after[at : at + count]]
        at += count
        first.append(row)
        for i in range(block.rows):
            for j in [*block.succ[block.succ_ptr[i] : block.succ_ptr[i + 1]]]:
                _check_order(rows, row + i, row + j)
        for join in before:
            for i in range(block.rows):
                _check_order(rows, join, row + i)
        row += block.rows


def _check_order(rows, a, b):
    if rows["start_ps"][b] >= 0:
        assert rows["status"][a] == 0
        assert rows["start_ps"][b] >= rows["end_ps"][a]
    if rows["status"][a] == 1:
        assert rows["status"][b] == 1
        assert rows["done"][b] == 0


@PROPERTY
@given(randoms)
def test_levels_stay_in_range_and_return(r):
    system = System(r, balanced=True)
    sim, error = system.run(log="full")
    log = sim.levels_log()
    capacity = np.array([store.capacity for store in sim.stores], dtype=np.int64)
    assert (log["level"] >= 0).all()
    assert (log["level"] <= capacity[log["store"]]).all() if len(capacity) else not len(log["level"])
    if error is None:
        assert [sim.level(store.name) for store in sim.stores] == [0] * len(sim.stores)


@PROPERTY
@given(randoms)
def test_claims_are_exclusive(r):
    sim, _ = System(r).run(log="tasks")
    rows, script = sim.rows(), sim.script()
    claims = np.concatenate([script.templates[s[3]].claim for s in script.steps() if s[2] == 0] or [np.zeros(0, int)])
    held = defaultdict(list)
    for i in np.flatnonzero((claims >= 0) & (rows["start_ps"] >= 0)):
        end = rows["end_ps"][i] if rows["end_ps"][i] >= 0 else sim.now
        held[int(claims[i])].append((int(rows["start_ps"][i]), int(end)))
    for spans in held.values():
        spans.sort()
        assert all(after[0] >= before[1] for before, after in pairwise(spans))


@PROPERTY
@given(randoms)
def test_mix_times_fill_the_run(r):
    sim, _ = System(r).run()
    assert (sim.mix_time().sum(axis=1) == sim.now).all()
