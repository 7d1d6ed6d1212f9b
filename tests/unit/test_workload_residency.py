"""Residency: rows of the mapping thread in a pass's block, choices by name, errors, and runs that replay."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from archsim.config import InputError, load_config
from archsim.session import load, replay, run
from archsim.system import System
from archsim.units import from_numbers
from archsim.workload.buffers import pack, swapped
from archsim.workload.model import ModelSpec
from archsim.workload.plan import Pass, Placement, Planner
from archsim.workload.residency import MAPPINGS, DropAll, FirstTouch, PerOperator, Resident, Unmapped, mapping
from archsim.workload.runtime import Runtime

JOB = {"target": "smollm2-135m", "stream": "recorded:exit_layers:25", "tokens": 6}
SMALL = ("system.npu.window_bytes=48 MB", "system.npu.window_sessions=1", "system.npu.max_buffer_bytes=8 MiB")


def runtime(how, *sets, name="smollm2-135m", **placement):
    data = load_config("system", "oneplus_12", [f"system.npu.{one}" for one in sets]).data
    spec = from_numbers(ModelSpec, {**load_config("model", name).data["spec"], "name": name})
    place = Placement(**placement).within(spec, 0.0)
    planner = Planner(System.from_data(data), {"target": spec}, {"target": place}, {"target": 90})
    return Runtime(planner, {"target": 200 * spec.kv_token_bytes}, how, 91)


SMALL_NPU = [one.removeprefix("system.npu.") for one in SMALL]
HOWS = [
    FirstTouch(),
    FirstTouch(evict="lru", fit="best", compact=True),
    PerOperator(),
    DropAll(scratch_bytes=1 << 20),
    Resident(scratch_bytes=1 << 20),
    Resident(scratch_bytes=1 << 20, spread="tail", slots=3),
]


def edges(block):
    source = np.repeat(np.arange(block.rows), np.diff(block.succ_ptr))
    return set(zip(source.tolist(), block.succ.tolist()))


@pytest.mark.parametrize("how", HOWS, ids=str)
@pytest.mark.parametrize("rows", [1, 5])
def test_a_decorated_pass_holds_the_plan_and_rows_of_the_host(how, rows):
    made = runtime(how, *SMALL_NPU)
    asked = Pass("target", "decode" if rows == 1 else "verify", rows, 50)
    plan = made.planner.planned(asked)[1]
    made.plan([asked])
    _, block, _ = made.plan([asked])
    n = plan.block.rows - 1
    assert edges(block) >= {(a, b) for a, b in edges(plan.block) if b < n}
    for name in ("unit", "work", "cap", "op", "weight", "stream"):
        assert np.array_equal(getattr(block, name)[:n], getattr(plan.block, name)[:n])
    control = made.planner.system.binding.unit("cpu.control")
    assert (block.unit[n:-1] == control).all()
    assert block.unit[-1] == -1
    ends = {a for a, b in edges(block) if b == block.rows - 1}
    assert ends >= set(range(block.rows - 1)) - {a for a, _ in edges(block)}


@pytest.mark.parametrize("how", HOWS, ids=str)
def test_a_warm_plan_equals_one_made_afresh_at_its_length(how):
    warm = runtime(how, *SMALL_NPU)
    for kv in (50, 51, 60, 61):
        _, block, _ = warm.plan([Pass("target", "verify", 5, kv)])
    cold = runtime(how, *SMALL_NPU)
    for kv in (70, 71, 72):
        cold.plan([Pass("target", "verify", 5, kv)])
    _, fresh, _ = cold.plan([Pass("target", "verify", 5, 61)])
    for name in fresh._fields:
        if name != "op":  # numbered in order of lowering
            assert np.array_equal(getattr(block, name), getattr(fresh, name)), name


@pytest.mark.parametrize("how", HOWS, ids=str)
def test_a_plan_of_another_size_equals_one_made_afresh(how):
    warm, cold = runtime(how, *SMALL_NPU), runtime(how, *SMALL_NPU)
    warm.plan([Pass("target", "verify", 5, 61)])
    cold.plan([Pass("target", "verify", 6, 61)])
    for one in (warm, cold):
        one.plan([Pass("target", "verify", 6, 61)])  # the windows are as this pass leaves them
    (_, block, _), (_, fresh, _) = (one.plan([Pass("target", "verify", 6, 61)]) for one in (warm, cold))
    for name in fresh._fields:
        if name != "op":  # numbered in order of lowering
            assert np.array_equal(getattr(block, name), getattr(fresh, name)), name


def test_naive_offload_is_a_chain_that_gives_back_what_it_takes():
    made = runtime(PerOperator())
    asked = Pass("target", "verify", 5, 61)
    _, block, _ = made.plan([asked])
    window = made.planner.system.binding.store("npu.window")
    takes = (block.store == window) & (block.store_start > 0)
    gives = (block.store == window) & (block.store_end < 0)
    assert takes.sum() == gives.sum() == 15 * 30
    assert block.store_start[takes].sum() == -block.store_end[gives].sum()
    hosts = np.flatnonzero(takes.any(axis=1))
    assert np.array_equal(block.heir[hosts], np.flatnonzero(gives.any(axis=1)))
    for host, before in zip(hosts[1:], block.heir[hosts][:-1]):
        assert (int(before), int(host)) in edges(block)
    kv_row = made.planner.models["target"].kv_row_bytes
    longer = made.plan([replace(asked, kv=61 + 4096)])[1]
    assert longer.store_start.sum() - block.store_start.sum() == 30 * 4096 * kv_row


def test_a_swapped_matrix_takes_a_slot_until_its_operator_ends():
    made = runtime(Resident(scratch_bytes=1 << 20), *SMALL_NPU)
    assert made.stores == [{"name": "npu.staging", "capacity": 2, "unit": "slots", "level": 0}]
    _, block, _ = made.plan([Pass("target", "decode", 1, 61)])
    takes, gives = (block.store == 91) & (block.store_start == 1), (block.store == 91) & (block.store_end == -1)
    assert takes.sum() == gives.sum() == len(made.keeper("target").swapped) > 10
    assert np.array_equal(block.heir[takes.any(axis=1)], np.flatnonzero(gives.any(axis=1)))


def test_the_resident_set_is_mapped_once_before_the_first_pass():
    made = runtime(Resident())
    prelude, _, _ = made.plan([Pass("target", "decode", 1, 61)])
    assert int(prelude.store_start.sum()) > made.planner.models["target"].layers_bytes
    assert made.plan([Pass("target", "decode", 1, 62)])[0] is None


def test_the_operators_own_calls_move_to_the_host():
    plain, made = runtime(Unmapped()), runtime(Resident())
    asked = Pass("target", "decode", 1, 61)
    before, after = plain.plan([asked])[1], made.plan([asked])[1]
    moved = before.lead[:-1] - after.lead[: before.rows - 1]
    still, call_ps = np.unique(moved).tolist()
    assert still == 0
    assert 11e6 <= call_ps <= 35e6  # a call of 11-35 us (llama.cpp #18139), the same for all
    assert (moved > 0).sum() == 15 * 30


@pytest.mark.parametrize("name", MAPPINGS)
def test_every_mapping_runs_and_replays(name, tmp_path):
    window_mb = {"drop": 96, "resident": 120}.get(name.partition("_")[0], 48)
    sets = (f"system.npu.window_bytes={window_mb} MB", *SMALL[1:])
    result = run(load(system="oneplus_12", schedule="resident_ar", job={**JOB, "mapping": name}, sets=sets),
                 output=tmp_path / "run")  # fmt: skip
    assert result.summary["tokens"] == 6
    assert replay(result.folder)["identical"]


def test_an_unknown_mapping_names_the_known_ones():
    with pytest.raises(InputError, match=r"job\.mapping: no mapping 'residnt'; did you mean 'resident'\?"):
        mapping("residnt")
    with pytest.raises(InputError, match="no mapping 'residnt'"):
        run(load(system="oneplus_12", schedule="resident_ar", job={**JOB, "mapping": "residnt"}), trace="off")


@pytest.mark.parametrize(
    ("how", "sets", "placement", "message"),
    [
        (PerOperator(), ["window_bytes=400 kB"], {}, "does not fit the address window of npu, 400 kB in 1 session"),
        (Resident(), ["window_bytes=40 MB"], {}, "does not fit the address window of npu"),
        (Resident(), [], {"layers_in": "flash"}, "a resident set needs all layers in DRAM"),
        (DropAll(sessions=5), [], {}, "the mapping uses 5 sessions and npu opens 4"),
        (DropAll(), ["max_buffer_bytes=1 MiB"], {"head_on": ("npu",)}, "is larger than a buffer may be"),
    ],
)
def test_what_cannot_be_mapped_is_refused(how, sets, placement, message):
    with pytest.raises(InputError, match=message):
        runtime(how, *sets, **placement).plan([Pass("target", "decode", 1, 61)])


@pytest.mark.parametrize("how", [PerOperator(), Resident()])
def test_a_part_that_does_not_say_what_swapping_costs_is_refused(how):
    made = runtime(how)
    npu = made.planner.system.devices["npu"]
    npu.spec = npu.spec.model_copy(update={"swap_ps_per_gib": None})
    with pytest.raises(InputError, match=r"system\.npu\.swap_ps_per_gib is not given"):
        made.plan([Pass("target", "decode", 1, 61)])


def test_packing_and_choosing_by_hand():
    where, made = pack({"a": 4, "b": 5, "c": 2, "d": 9}, 10, "target")
    assert where == {"a": 0, "b": 0, "c": 1, "d": 2}
    assert made == [9, 2, 9]
    matrices = [(f"m{i}", 10 if i % 2 else 4) for i in range(8)]  # four of 10: m1 m3 m5 m7
    assert swapped(matrices, 0, "even") == []
    assert swapped(matrices, 11, "even") == ["m3", "m7"]
    assert swapped(matrices, 11, "tail") == ["m5", "m7"]
    assert swapped(matrices, 41, "tail") == ["m2", "m3", "m4", "m5", "m6", "m7"]
