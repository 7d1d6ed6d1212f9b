"""Skip-ahead, one-picosecond stepping, the plain reference and a replay give the same rows, bit for bit."""

import os
import random
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archsim.engine.block import make_block
from archsim.engine.errors import DeadlockError, SimError
from archsim.engine.oracle import Oracle
from archsim.engine.randomised import System
from archsim.engine.record import Script
from archsim.engine.sim import PoolDecl, Sim, UnitDecl

PROPERTY = settings(max_examples=200, deadline=None, derandomize=True)
randoms = st.randoms(use_true_random=False)


def played(run, script):
    try:
        run.play(script)
    except SimError as error:
        return type(error)
    return None


def assert_equal(a, b):
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)


@PROPERTY
@given(randoms)
def test_oracle_agrees(r):
    sim, error = System(r).run(log="tasks")
    oracle = Oracle(sim.units, sim.pools, sim.stores)
    assert played(oracle, sim.script()) == error
    if error in (None, DeadlockError):
        assert_equal(sim.rows(), oracle.columns())
        assert [sim.level(store.name) for store in sim.stores] == oracle.level
        assert sim.events == oracle.events
        spent = sim.mix_time()
        assert all(spent[p, mask] == ps for (p, mask), ps in oracle.mix_time.items())


@PROPERTY
@given(randoms)
def test_stepping_agrees(r):
    system = System(r)
    sim, error = system.run(log="full")
    if sim.now > 100_000:
        return
    other = system.sim(log="full", step_ps=True)
    assert played(other, sim.script()) == error
    assert_equal(sim.rows(), other.rows())
    assert_equal(sim.levels_log(), other.levels_log())
    assert sim.digest() == other.digest()
    np.testing.assert_array_equal(sim.mix_time(), other.mix_time())


@PROPERTY
@given(randoms)
def test_play_agrees(r):
    """Also through the tables a sink receives, and the replay records the same script."""
    system = System(r)
    sim, error = system.run(log="tasks")
    script = sim.script()
    again = system.sim(log="full")
    assert played(again, Script.from_tables(script.tables(), script.labels, script.kinds)) == error
    assert again.digest() == sim.digest()
    for a, b in ((sim.rows(), again.rows()), (sim.blocks(), again.blocks()), (sim.notes(), again.notes())):
        assert_equal(a, b)
    assert_equal(script.actions, again.script().actions)


@PROPERTY
@given(randoms)
def test_log_level_does_not_change_the_run(r):
    seed = r.getrandbits(64)
    digests = set()
    for log in ("off", "tasks", "full"):
        sim, _ = System(random.Random(seed)).run(log=log)
        digests.add((sim.digest(), sim.now, sim.events))
    assert len(digests) == 1


def test_many_rows_without_a_unit():
    """More flow than there is room for at first, so that the slots move while rows flow."""
    rng = random.Random(3)

    def rows(n):
        return [
            {
                "unit": rng.choice([-1, -1, -1, 0, 1]),
                "lead": rng.randint(0, 30),
                "work": rng.randint(1, 3000),
                "weight": rng.randint(1, 50),
                "cap": rng.randint(1, 90),
                "pool": rng.sample(range(3), 2),
                "coef": [1 << 20, rng.randint(1, 1 << 21)],
                "stream": rng.randint(0, 7),
            }
            for _ in range(n)
        ]

    blocks = [make_block(rows(n)) for n in (6, 40, 100)]
    machine = [UnitDecl("a"), UnitDecl("b")], [PoolDecl(f"p{i}", 90 + i, {6: 80}) for i in range(3)], []
    sim = Sim(*machine, log="tasks")
    for block in blocks:
        sim.emit(block)
        sim.run(until_ps=sim.now + 20)
    sim.run()
    oracle = Oracle(*machine)
    assert_equal(sim.rows(), oracle.play(sim.script()))
    other = Sim(*machine, step_ps=True)
    other.play(sim.script())
    assert other.digest() == sim.digest()


PROGRAM = """
import random
from archsim.engine.randomised import System
for seed in range({count}):
    sim, error = System(random.Random(seed)).run(log="full")
    print(seed, sim.digest(), sim.now, sim.events, error and error.__name__)
"""


def outputs(environment, count):
    """What two runs of the random program print: here, and in `environment`."""
    program = PROGRAM.format(count=count)
    for variables in (dict(os.environ), environment):
        command = [sys.executable, "-W", "error", "-c", program]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("\n") == count
        yield done.stdout


def test_without_jit_agrees():
    here, there = outputs(os.environ | {"NUMBA_DISABLE_JIT": "1"}, 5)
    assert here == there


@pytest.mark.slow
def test_with_bounds_checks_agrees(tmp_path):
    """Compiled anew, since cached kernels carry no checks."""
    here, there = outputs(os.environ | {"NUMBA_BOUNDSCHECK": "1", "ARCHSIM_CACHE": str(tmp_path)}, 200)
    assert here == there
