"""Products shared out by columns, and plans that share their edges."""

from __future__ import annotations

import numpy as np
import pytest

from archsim.config import load_config
from archsim.device import OpKind
from archsim.session import declare
from archsim.system import System
from archsim.units import from_numbers
from archsim.workload.model import ModelSpec
from archsim.workload.plan import COLUMN_SHARES, Pass, Placement, Planner


@pytest.fixture(scope="module")
def system():
    return System.from_data(load_config("system", "gpu_pim").data)


def planner(system, name="smollm2-135m", **placement):
    spec = from_numbers(ModelSpec, {**load_config("model", name).data["spec"], "name": name})
    place = Placement(**{"layers_on": ("gpu",), "head_on": ("gpu",), "beside": ("pim",)} | placement)
    return Planner(system, {"target": spec}, {"target": place.within(spec, 0.0)}, {})


def asked(beside, rows=4, kv=50):
    return Pass("target", "verify", rows, kv, beside=beside)


def totals(plan, block):
    """MACs and weight bytes of products by device."""
    ops = plan.ops.tables()["ops"]
    entries = block.op[block.op >= 0]
    product = np.isin(ops["kind"][entries], ["matmul", "projection"])
    return {
        device: tuple(
            int(ops[c][entries][product & (ops["device"][entries] == device)].sum()) for c in ("macs", "weight_bytes")
        )
        for device in ("gpu", "pim")
    }


def seconds(system, block):
    sim = declare(system.describe(), log="tasks")
    sim.emit(block)
    sim.run()
    return float(sim.blocks()["end_ps"][0]) / 1e12


@pytest.mark.parametrize("share", [1, 300, 512, 1000])
def test_shares_of_the_columns_add_up(system, share):
    plan = planner(system)
    whole = totals(plan, plan.block(asked(0)))
    parts = totals(plan, plan.block(asked(share)))
    assert whole["pim"] == (0, 0)
    for i in range(2):
        assert parts["gpu"][i] + parts["pim"][i] == whole["gpu"][i]
        assert parts["pim"][i] / whole["gpu"][i] == pytest.approx(share / COLUMN_SHARES, rel=0.02, abs=0.002)


def test_all_columns_leave_the_first_device_without_products(system):
    plan = planner(system)
    parts = totals(plan, plan.block(asked(COLUMN_SHARES)))
    assert parts["gpu"] == (0, 0)
    assert parts["pim"] == totals(plan, plan.block(asked(0)))["gpu"]


def test_both_shares_run_at_the_same_time(system):
    """Shared by the times of either side alone, a pass ends well before the faster side alone would."""
    plan = planner(system, "llama-3.1-8b")
    gpu, pim = (seconds(system, plan.block(asked(s, rows=16))) for s in (0, COLUMN_SHARES))
    share = round(COLUMN_SHARES * gpu / (gpu + pim))
    both = seconds(system, plan.block(asked(share, rows=16)))
    ideal = gpu * pim / (gpu + pim)
    assert ideal < both < 0.85 * min(gpu, pim)


def test_branches_meet_before_what_follows(system):
    plan = planner(system)
    block = plan.block(asked(512))
    source = np.repeat(np.arange(block.rows), np.diff(block.succ_ptr))
    units = block.unit
    forks = [row for row in range(block.rows) if (source == row).sum() >= 2 and units[row] == -1]
    products = sum(plan.ops.tables()["ops"]["kind"][block.op[block.op >= 0]] == "matmul")
    assert products == 2 * (len(forks) - 1) or products == 2 * len(forks)  # the projection forks too
    for fork in forks:
        first, second = block.succ[block.succ_ptr[fork] : block.succ_ptr[fork + 1]]
        ends = [first, second]
        for i, row in enumerate(ends):
            while units[row] != -1:
                (row,) = block.succ[block.succ_ptr[row] : block.succ_ptr[row + 1]]
            ends[i] = row
        assert ends[0] == ends[1]


@pytest.mark.parametrize("beside", [0, 256])
@pytest.mark.parametrize("rows", [1, 2, 9, 17])
def test_a_plan_of_another_size_equals_planning_afresh(system, beside, rows):
    """Edges are kept from the first size planned, the rest is lowered anew."""
    used, fresh = planner(system), planner(system)
    used.block(asked(beside, rows=5))
    made, expected = used.block(asked(beside, rows=rows, kv=77)), fresh.block(asked(beside, rows=rows, kv=77))
    for name in made._fields:
        if name != "op":
            assert np.array_equal(getattr(made, name), getattr(expected, name)), name
    mine, theirs = used.ops.tables()["ops"], fresh.ops.tables()["ops"]
    for column in ("name", "kind", "device", "m", "n", "kv", "macs"):
        a = mine[column][made.op[made.op >= 0]]
        assert (a == theirs[column][expected.op[expected.op >= 0]]).all(), column
    assert OpKind.MATMUL in {OpKind[k.upper()] for k in mine["kind"].tolist()}
