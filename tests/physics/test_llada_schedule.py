"""llada.cpp's schedule: what a pass holds, what runs beside what, and how far a window looks ahead."""

from __future__ import annotations

import numpy as np
import pytest

from archsim.config import InputError
from archsim.schedules.llada.lookahead import LatencyTable
from archsim.session import build_job, declare, load, run

JOB = {"target": "llada-8b", "stream": "synthetic:llada-8b:gsm8k", "tokens": 40, "mapping": "resident"}


def made(schedule="llada", *sets, **job):
    return run(load(system="llada_ace5_pro", schedule=schedule, job={**JOB, **job}, sets=sets), trace="off")


def marks(result, kind):
    notes = result.trace.notes
    return notes["value"][notes["kind"] == kind], notes["extra"][notes["kind"] == kind]


@pytest.fixture(scope="module")
def whole():
    return made()


def spans(result, device, role):
    """Begin and end of the rows of a role on a device."""
    trace = result.trace
    ops = (trace.ops["device"] == device) & (trace.ops["role"] == role) & (trace.ops["phase"] != "merge")
    of = np.append(ops, False)[trace.row_op]
    return trace.rows["start_ps"][of], trace.row_end_ps[of]


def test_revision_runs_beside_the_dense_path_and_before_the_projection(whole):
    npu = spans(whole, "npu", "target")
    cpu = spans(whole, "cpu", "revision")
    assert len(cpu[0])
    inside = [(npu[0] < end).any() and (npu[1] > start).any() for start, end in zip(*cpu)]
    assert np.mean(inside) > 0.9
    trace = whole.trace
    projection = np.append(trace.ops["phase"] == "projection", False)[trace.row_op]
    begin, end = trace.rows["start_ps"][projection], trace.row_end_ps[projection]
    for start, stop in zip(*cpu):  # one CPU: they never overlap
        assert not ((begin < stop) & (end > start)).any()


def test_refreshed_rows_merge_at_step_boundaries(whole):
    trace = whole.trace
    merges = trace.blocks["phase"] == "merge"
    assert merges.sum() == len(marks(whole, "revise")[0]) > 0
    steps = trace.blocks["phase"] == "denoise"
    for start, end in zip(trace.blocks["emit_ps"][merges], trace.blocks["end_ps"][merges]):
        begin, stop = trace.blocks["emit_ps"][steps], trace.blocks["end_ps"][steps]
        assert not ((begin < end) & (stop > start)).any()


def test_selective_logits_skip_stable_and_carried_rows(whole):
    rows, projected = marks(whole, "window")
    assert (projected <= rows).all()
    assert (projected < rows).any()
    every = made("llada", "schedule.logits=all")
    rows, projected = marks(every, "window")
    assert (projected == rows).all()
    assert every.summary["request_latency_s"] > whole.summary["request_latency_s"]


def test_look_ahead_fills_the_tail_and_needs_few_masks():
    ahead, plain, never = (
        made("llada", knob, tokens=96)
        for knob in ("schedule.trigger=8", "schedule.lookahead=false", "schedule.trigger=0")
    )
    masks, _ = marks(ahead, "masks")
    rows, _ = marks(ahead, "window")
    flat, _ = marks(plain, "window")
    assert (rows[masks >= 8] <= flat.max()).all()
    assert rows[masks < 8].max() == 64
    assert marks(never, "window")[0].tolist() == flat.tolist()


def test_latency_buckets_are_tiles_of_rows():
    resolved = load(system="llada_ace5_pro", schedule="llada", job=JOB)
    system, _, job = build_job(resolved)
    described = system.describe(job.store_levels())
    described["stores"] += job.stores
    table = LatencyTable(declare(described, log="tasks"), job, "target", 100)
    assert table.bucket_end(5, 100) == 32
    assert table.bucket_end(33, 100) == 64
    assert table.extra(32, 32) == 32  # a full bucket: to the end of the next
    assert table.extra(37, 32) == 27  # a started one: to its end
    assert table.extra(37, 10) == 10
    assert table.latency_ps(64) > table.latency_ps(33) > 1.1 * table.latency_ps(32)


def test_the_budget_for_drafts_bounds_the_look_ahead():
    kv = 524_288  # bytes of a token's keys and values
    small = made("llada", f"schedule.ahead_bytes={4 * kv}", "schedule.carry=false", tokens=96)
    rows, _ = marks(small, "window")
    assert rows.max() == 32 + 4


@pytest.mark.parametrize("tokens", [1, 7, 33, 50])
@pytest.mark.parametrize("schedule", ["dllm_cpu", "dllm_npu", "llada"])
def test_odd_lengths_and_blocks(schedule, tokens):
    result = made(schedule, "schedule.block=12", tokens=tokens)
    assert result.summary["tokens"] == tokens
    assert int(marks(result, "commit")[0].sum()) == tokens


def test_one_token_per_step_and_passes_of_the_baseline():
    result = made("dllm_cpu", tokens=64)
    phases = result.trace.blocks["phase"]
    assert result.summary["steps"] == 64
    assert (phases == "refresh").sum() == (phases == "write").sum() // 2 == 2
    assert result.summary["accepted_per_step"] == 1


def test_threshold_baseline_commits_on_the_refresh_too():
    result = made("dllm_npu", "schedule.commit_rule=threshold", tokens=64)
    assert result.summary["steps"] < 40
    committed, _ = marks(result, "commit")
    assert committed.max() > 1


def test_recorded_streams_in_their_own_blocks():
    result = made("llada", stream="recorded:mdm_small", tokens=64)
    assert result.summary["stream_kind"] == "recorded-proxy"
    with pytest.raises(InputError, match=r"was recorded in blocks of 16; set schedule\.block=16"):
        made("llada", stream="recorded:jacobi_smollm2")
    assert made("llada", "schedule.block=16", stream="recorded:jacobi_smollm2", tokens=20).summary["tokens"] == 20


def test_revision_needs_no_memory_of_its_own():
    resolved = load(system="llada_ace5_pro", schedule="llada", job=JOB)
    _, _, job = build_job(resolved)
    assert job.models["revision"] is job.models["target"]
    assert not [what for what in job.footprint["dram"] if what.startswith("revision")]


def test_same_seed_same_run():
    one, two = made(), made()
    assert one.summary["digest"] == two.summary["digest"]
    assert made(seed=5).summary["digest"] != one.summary["digest"]


@pytest.mark.parametrize(("schedule", "mapping"), [("llada", "resident"), ("dllm_npu", "per_operator")])
def test_each_schedule_brings_its_own_way_into_the_address_window(schedule, mapping):
    digests = {made(schedule, tokens=4, mapping=how).summary["digest"] for how in (None, mapping)}
    assert len(digests) == 1
    assert made(schedule, tokens=4, mapping="none").summary["digest"] not in digests
