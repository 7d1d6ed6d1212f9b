"""Plans: blocks hold every operator, reads take and give ring slots, templates agree with planning afresh."""

from __future__ import annotations

import numpy as np
import pytest

from archsim.config import load_config
from archsim.system import System
from archsim.units import from_numbers
from archsim.workload.model import ModelSpec
from archsim.workload.plan import Placement, Planner, to_block

RING = 7


@pytest.fixture(scope="module")
def system():
    return System.from_data(load_config("system", "oneplus_12").data)


def model(name):
    resolved = load_config("model", name)
    return from_numbers(ModelSpec, {**resolved.data["spec"], "name": name})


def planner(system, name="smollm2-135m", **placement):
    return Planner(system, {"target": model(name)}, {"target": Placement(**placement)}, {"target": RING})


def total(plan, block, column):
    ops = plan.ops.tables()["ops"]
    return int(ops[column][block.op[block.op >= 0]].sum())


def test_resident_pass_holds_every_weight_once(system):
    plan = planner(system)
    spec = plan.models["target"]
    block = plan.block("target", "decode", 1, 50)
    ops = plan.ops.tables()["ops"]
    matmul = np.isin(ops["kind"][block.op[block.op >= 0]], ["matmul"])
    assert int(ops["weight_bytes"][block.op[block.op >= 0]][matmul].sum()) == spec.layers_bytes
    assert not (block.store >= 0).any()


@pytest.mark.parametrize("pinned", [0, 10, 30])
def test_streamed_layers_take_and_give_one_slot_each(system, pinned):
    plan = planner(system, layers_in="flash", pinned=pinned)
    block = plan.block("target", "decode", 1, 50)
    takes, gives = block.store_start > 0, block.store_end < 0
    assert takes.sum() == gives.sum() == 30 - pinned
    assert (block.store[takes] == RING).all()
    heirs = block.heir[takes.any(axis=1)]
    assert sorted(heirs) == sorted(np.flatnonzero(gives.any(axis=1)))
    ops = plan.ops.tables()["ops"]
    loads = block.op[takes.any(axis=1)]
    assert (ops["kind"][loads] == "load").all()
    assert (ops["weight_bytes"][loads] == plan.models["target"].layer_bytes).all()


def test_a_streamed_projection_is_read_in_layer_sized_pieces(system):
    plan = planner(system, "llama-3.1-8b", layers_in="flash", head_in="flash", head_on="npu")
    spec = plan.models["target"]
    block = plan.block("target", "verify", 9, 50)
    ops = plan.ops.tables()["ops"]
    entries = block.op[block.op >= 0]
    reads = ops["weight_bytes"][entries[ops["name"][entries] == "head.load"]]
    assert reads.sum() == spec.head_bytes
    assert reads.max() <= spec.layer_bytes
    assert total(plan, block, "macs") == pytest.approx(9 * (spec.layers_parameters + spec.head_parameters), rel=0.01)


@pytest.mark.parametrize("phase", ["decode", "verify"])
@pytest.mark.parametrize("kv", [1, 77, 5000])
def test_a_template_at_another_length_equals_planning_afresh(system, phase, kv):
    rows = 1 if phase == "decode" else 5
    reused, afresh = planner(system), planner(system)
    reused.block("target", phase, rows, 300)
    got = reused.block("target", phase, rows, kv)
    want = to_block(afresh._pass("target", phase, rows, kv, None, 1, None, 0))
    for column in ("unit", "lead", "work", "cap", "weight", "pool", "coef", "succ", "succ_ptr"):
        assert np.array_equal(getattr(got, column), getattr(want, column)), column


def test_planning_is_pure(system):
    one, two = planner(system), planner(system)
    for plan in (one, two):
        plan.block("target", "prefill", 40, 0)
        plan.block("target", "decode", 1, 40)
    tables = one.ops.tables(), two.ops.tables()
    for name in tables[0]:
        for column in tables[0][name]:
            assert np.array_equal(tables[0][name][column], tables[1][name][column])


def test_chained_blocks_run_one_after_the_other(system):
    plan = planner(system)
    blocks = [plan.block("target", "decode", 1, kv) for kv in (10, 11, 12)]
    chained = plan.chain(blocks)
    n = len(blocks[0].unit)
    assert len(chained.unit) == 3 * n
    for i in (1, 2):
        followers = chained.succ[chained.succ_ptr[i * n - 1] : chained.succ_ptr[i * n]]
        assert len(followers) > 0
        assert ((followers >= i * n) & (followers < (i + 1) * n)).all()
    assert np.array_equal(chained.work[n : 2 * n], blocks[1].work)


def test_without_an_npu_everything_runs_on_the_cpu():
    resolved = load_config("system", "oneplus_12").data
    devices = {name: entry for name, entry in resolved["devices"].items() if name != "npu"}
    plan = planner(System.from_data({"name": "no_npu", "devices": devices}))
    plan.block("target", "decode", 1, 10)
    assert set(plan.ops.tables()["ops"]["device"]) == {"cpu"}
