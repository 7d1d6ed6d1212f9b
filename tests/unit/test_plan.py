"""Plans: blocks hold every operator, reads take and give ring slots, templates agree with planning afresh."""

from __future__ import annotations

import numpy as np
import pytest

from archsim.config import InputError, load_config
from archsim.system import System
from archsim.units import from_numbers
from archsim.workload.blocks import chain
from archsim.workload.graph import pass_graph
from archsim.workload.model import ModelSpec
from archsim.workload.plan import Pass, Placement, Planner

RING = 7


@pytest.fixture(scope="module")
def system():
    return System.from_data(load_config("system", "oneplus_12").data)


def model(name):
    resolved = load_config("model", name)
    return from_numbers(ModelSpec, {**resolved.data["spec"], "name": name})


def planner(system, name="smollm2-135m", **placement):
    spec = model(name)
    fraction = placement.pop("fraction", 0.0)
    place = Placement(**placement).within(spec, fraction)
    return Planner(system, {"target": spec}, {"target": place}, {"target": RING})


def total(plan, block, column):
    ops = plan.ops.tables()["ops"]
    return int(ops[column][block.op[block.op >= 0]].sum())


def test_resident_pass_holds_every_weight_once(system):
    plan = planner(system)
    spec = plan.models["target"]
    block = plan.block(Pass("target", "decode", 1, 50))
    ops = plan.ops.tables()["ops"]
    matmul = np.isin(ops["kind"][block.op[block.op >= 0]], ["matmul"])
    assert int(ops["weight_bytes"][block.op[block.op >= 0]][matmul].sum()) == spec.layers_bytes
    assert not (block.store >= 0).any()


@pytest.mark.parametrize("pinned", [0, 10, 30])
def test_streamed_layers_take_and_give_one_slot_each(system, pinned):
    plan = planner(system, layers_in="flash", fraction=pinned / 30)
    block = plan.block(Pass("target", "decode", 1, 50))
    takes, gives = block.store_start > 0, block.store_end < 0
    assert takes.sum() == gives.sum() == 30 - pinned
    assert (block.store[takes] == RING).all()
    heirs = block.heir[takes.any(axis=1)]
    assert sorted(heirs) == sorted(np.flatnonzero(gives.any(axis=1)))
    ops = plan.ops.tables()["ops"]
    loads = block.op[takes.any(axis=1)]
    assert (ops["kind"][loads] == "load").all()
    assert (ops["weight_bytes"][loads] == plan.models["target"].layer_bytes).all()


def test_a_streamed_projection_is_read_as_a_whole_and_waited_for(system):
    plan = planner(system, "llama-3.1-8b", layers_in="flash", head_in="flash", head_on=("npu",))
    spec = plan.models["target"]
    block = plan.block(Pass("target", "verify", 9, 50))
    ops = plan.ops.tables()["ops"]
    named = np.append(ops["name"][block.op[:-1]], "join")
    (read,) = np.flatnonzero(named == "head.load")
    assert ops["weight_bytes"][block.op[read]] == spec.head_bytes
    assert (block.store[read] == -1).all()  # a buffer of its own, not the ring's
    after = block.succ[block.succ_ptr[read] : block.succ_ptr[read + 1]]
    assert named[after].tolist() == ["head.projection"]


LANDED = 8


@pytest.mark.parametrize("pinned", [0, 10, 30])
def test_reads_ahead_and_landed_layers_are_the_pass_taken_apart(system, pinned):
    spec = model("smollm2-135m")
    place = Placement(layers_in="flash").within(spec, pinned / 30)
    plan = Planner(system, {"target": spec}, {"target": place}, {"target": RING}, {"target": LANDED})
    if pinned == 30:
        assert not (plan.block(Pass("target", "verify", 4, 50, reads="landed")).store >= 0).any()
        return
    whole = plan.block(Pass("target", "verify", 4, 50, first=0, last=30))
    reads = plan.block(Pass("target", "verify", last=30, reads="ahead"))
    parts = [
        plan.block(Pass("target", "verify", 4, 50, first=first, last=last, reads="landed", projected=0))
        for first, last in ((0, 18), (18, 30))
    ]
    streamed = 30 - pinned

    def changes(block, store):
        return int(block.store_start[block.store == store].sum()), int(block.store_end[block.store == store].sum())

    assert reads.rows == streamed + 1
    assert (changes(reads, RING), changes(reads, LANDED)) == ((streamed, 0), (0, streamed))
    assert sum(changes(part, RING)[1] for part in parts) == -streamed
    assert sum(changes(part, LANDED)[0] for part in parts) == -streamed
    tail = plan.block(Pass("target", "verify", 4, 50, first=30, last=30))
    assert sum(int(b.work.sum()) for b in (reads, *parts, tail)) == int(whole.work.sum())


def test_a_batched_pass_runs_where_batches_do(system):
    spec = model("smollm2-135m")
    place = Placement(layers_on=("cpu",), batch_on=("npu",)).within(spec, 0.0)
    plan = Planner(system, {"draft": spec}, {"draft": place}, {})
    units = {
        batched: set(plan.block(Pass("draft", "draft_next", 4, 50, batched=batched, depths=(4,) * 4)).unit.tolist())
        for batched in (False, True)
    }
    npu = system.binding.unit("npu.core")
    assert npu in units[True]
    assert npu not in units[False]


@pytest.mark.parametrize("phase", ["decode", "verify"])
@pytest.mark.parametrize("kv", [1, 77, 5000])
def test_a_template_at_another_length_equals_planning_afresh(system, phase, kv):
    rows = 1 if phase == "decode" else 5
    reused, afresh = planner(system), planner(system)
    reused.block(Pass("target", phase, rows, 300))
    got = reused.block(Pass("target", phase, rows, kv))
    want = afresh.block(Pass("target", phase, rows, kv))
    for column in ("unit", "lead", "work", "cap", "weight", "pool", "coef", "succ", "succ_ptr"):
        assert np.array_equal(getattr(got, column), getattr(want, column)), column


def reachable(block):
    """For each row, the set of rows that must come after it."""
    after = [set() for _ in range(block.rows)]
    for row in reversed(range(block.rows)):
        for successor in block.succ[block.succ_ptr[row] : block.succ_ptr[row + 1]]:
            after[row] |= {int(successor)} | after[int(successor)]
    return after


def spans(plan, block, graph):
    """First and last row of each node: the rows of an operator are consecutive entries of one name."""
    names, first, last, row = plan.ops.tables()["ops"]["name"], {}, {}, 0
    for node in graph:
        first[node] = row
        row += 1
        while block.op[row] == block.op[row - 1] + 1 and names[block.op[row]] == names[block.op[row - 1]]:
            row += 1
        last[node] = row - 1
    return first, last


@pytest.mark.parametrize("name", ["smollm2-135m", "bitnet-2b", "palm-8b"])
def test_rows_depend_as_the_graph_says(system, name):
    plan = planner(system, name)
    block = plan.block(Pass("target", "verify", 3, 20))
    graph = pass_graph(plan.models["target"], "verify")
    first, last = spans(plan, block, graph)
    assert last[list(graph)[-1]] == block.rows - 2
    after = reachable(block)
    for a, b in graph.edges:
        assert first[b] in after[last[a]]
    assert sum(map(len, (block.succ[block.succ_ptr[i] : block.succ_ptr[i + 1]] for i in last.values()))) == (
        graph.number_of_edges() + sum(graph.out_degree(node) == 0 for node in graph)
    )


def test_layers_can_run_in_two_passes(system):
    plan = planner(system)
    whole = plan.block(Pass("target", "verify", 4, 30))
    lower = plan.block(Pass("target", "verify", 4, 30, last=12))
    upper = plan.block(Pass("target", "verify", 4, 30, first=12))
    assert lower.rows + upper.rows == whole.rows + 1
    assert total(plan, lower, "macs") + total(plan, upper, "macs") == total(plan, whole, "macs")


def test_without_projected_rows_there_is_no_tail(system):
    plan = planner(system)
    block = plan.block(Pass("target", "prefill", 4, 0, projected=0))
    ops = plan.ops.tables()["ops"]
    assert "head.projection" not in set(ops["name"][block.op[block.op >= 0]])


def test_a_whole_budget_and_a_tied_projection_leave_nothing_to_stream(system):
    whole = planner(system, "llama-3.1-8b", layers_in="flash", head_in="flash", fraction=1.0)
    assert not whole.placements["target"].streams
    tied = planner(system, "qwen3-4b", layers_in="flash", head_in="flash").placements["target"]
    assert (tied.layers_in, tied.head_in) == ("flash", "dram")


def test_a_placement_without_any_of_its_devices_is_refused(system):
    plan = planner(system, layers_on=("gup",))
    with pytest.raises(
        InputError, match="system 'oneplus_12' has no gup that runs NORM; it has: flash, dram, cpu, npu"
    ):
        plan.block(Pass("target", "decode", 1, 10))


def test_planning_is_pure(system):
    one, two = planner(system), planner(system)
    for plan in (one, two):
        plan.block(Pass("target", "prefill", 40, 0))
        plan.block(Pass("target", "decode", 1, 40))
    tables = one.ops.tables(), two.ops.tables()
    for name in tables[0]:
        for column in tables[0][name]:
            assert np.array_equal(tables[0][name][column], tables[1][name][column])


def test_chained_blocks_run_one_after_the_other(system):
    plan = planner(system)
    blocks = [plan.block(Pass("target", "decode", 1, kv)) for kv in (10, 11, 12)]
    chained = chain(blocks)
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
    plan.block(Pass("target", "decode", 1, 10))
    assert set(plan.ops.tables()["ops"]["device"]) == {"cpu"}


def draft_planner(name="ahasd_samsung", on=("pim",)):
    machine = System.from_data(load_config("system", name).data)
    spec = model("llama2-1.3b")
    return Planner(machine, {"draft": spec}, {"draft": Placement(layers_on=on).within(spec, 0.0)}, {})


def in_a_row(first, lengths, rows=1, phase="draft_next"):
    return [Pass("draft", phase, rows, kv, projected=1) for kv in range(first, first + lengths)]


#: Passes one after the other: alike, of two sizes, with a length met before, of several rows.
SERIES = {
    "one": in_a_row(40, 1),
    "alike": in_a_row(40, 6),
    "two sizes": in_a_row(40, 1, 3, "draft") + in_a_row(43, 5),
    "again": in_a_row(40, 3) + in_a_row(41, 4),
    "rows": in_a_row(40, 1, 2, "verify") + in_a_row(50, 3, 4, "verify"),
}


@pytest.mark.parametrize("on", [("pim",), ("npu",)])
@pytest.mark.parametrize("name", SERIES)
def test_passes_in_a_row_are_planned_as_one_by_one(name, on):
    alone, together = draft_planner(on=on), draft_planner(on=on)
    for _ in range(2):  # the second time from what is kept
        expected = chain([alone.block(asked) for asked in SERIES[name]])
        found = together.chained(SERIES[name])
        for column in expected._fields:
            np.testing.assert_array_equal(getattr(found, column), getattr(expected, column), err_msg=column)
    for table, columns in alone.ops.tables().items():
        for column, values in columns.items():
            np.testing.assert_array_equal(together.ops.tables()[table][column], values, err_msg=column)


def test_lengths_whose_attention_has_as_many_rows_share_a_plan(monkeypatch):
    """The NPU cuts attention against 1500 rows in two."""
    plan, planned = draft_planner(on=("npu",)), []
    monkeypatch.setattr(plan, "_plan", lambda asked, made=plan._plan: planned.append(asked.kv) or made(asked))
    for kv in (30, 1500, 31, 1501, 32):
        found = plan.block(Pass("draft", "verify", 9, kv))
        alone = draft_planner(on=("npu",)).block(Pass("draft", "verify", 9, kv))
        for column in found._fields:
            if column != "op":  # numbered in order of lowering
                np.testing.assert_array_equal(getattr(found, column), getattr(alone, column), err_msg=column)
    assert planned == [30, 1500]


def test_attention_of_passes_in_a_row_is_lowered_in_one_call(monkeypatch):
    plan, sizes = draft_planner(), []
    plan.block(in_a_row(39, 1)[0])
    device = plan.system.devices["pim"]
    monkeypatch.setattr(device, "lower", lambda ops, lower=device.lower: sizes.append(len(ops.kind)) or lower(ops))
    plan.chained(in_a_row(40, 6))
    plan.chained(in_a_row(44, 4))
    assert sizes == [6, 2]


def test_equal_operators_under_other_names_are_lowered_once_in_one_call(monkeypatch):
    """A layer has norms, projections and sums of equal sizes; a pass of another size lowers each size once."""
    plan, sizes = draft_planner(), []
    plan.block(Pass("draft", "verify", 4, 30))
    device = plan.system.devices["pim"]
    monkeypatch.setattr(device, "lower", lambda ops, lower=device.lower: sizes.append(len(ops.kind)) or lower(ops))
    plan.block(Pass("draft", "verify", 5, 30))
    assert len(sizes) == 1
    assert sizes[0] > 3
    assert not plan.ops._prepared  # nothing is kept that nobody will ask for


@pytest.mark.parametrize(
    "spoiled",
    [
        lambda ops, lower: lower(ops) if ops.kv.item() >= 0 else None,  # numbers of one operator only
        lambda ops, lower: lower(ops._replace(**{name: column[:1] for name, column in ops._asdict().items()})),
    ],
)
def test_a_device_that_lowers_one_operator_at_a_time_is_asked_for_one(monkeypatch, spoiled):
    expected, plan = draft_planner(), draft_planner()
    device = plan.system.devices["pim"]
    monkeypatch.setattr(device, "lower", lambda ops, lower=device.lower: spoiled(ops, lower))
    passes = in_a_row(40, 4)
    for column, other in zip(plan.chained(passes), expected.chained(passes)):
        np.testing.assert_array_equal(column, other)
