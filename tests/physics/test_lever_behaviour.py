"""Lever as a system on a OnePlus 12: what each part does to speed, and that what is lost is lost."""

from __future__ import annotations

from functools import cache

import pytest

from archsim.report.cycles import cycles, exposed_projection_s
from archsim.report.service import inter_token
from archsim.session import load, run


@cache
def simulate(schedule="lever", *sets, target="llama-3.1-8b", acceptance=0.65, prompts=2, tokens=48):
    job = {"target": target, "stream": f"synthetic:{target}:mbpp", "prompts": prompts, "tokens": tokens}
    job["acceptance"] = acceptance
    return run(load(system="oneplus_12", schedule=schedule, job=job, sets=sets), trace="off")


def speed(*sets, schedule="lever", **job):
    return simulate(schedule, *sets, **job).summary["decode_tokens_per_s"]


def met(result):
    return {row["quantity"]: row for row in cycles(result.trace)}


def test_speed_rises_with_the_share_in_dram():
    speeds = [speed(f"job.dram_fraction={share}") for share in (0.0, 0.4, 1.0)]
    assert speeds == sorted(speeds)
    assert speeds[2] > 1.5 * speeds[0]


def test_a_shallow_ring_is_slower_where_layers_are_pinned():
    assert speed("job.dram_fraction=0.4", "schedule.ring=2") < 0.95 * speed("job.dram_fraction=0.4")


def test_reading_during_the_draft_helps():
    assert speed("schedule.read_ahead=true") > speed()


def test_the_table_predicts_the_latency_it_meets():
    row = met(simulate())["verification latency"]
    assert row["predicted"] == pytest.approx(row["met"], rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["llama-3.1-8b", "qwen3-8b"])
def test_expected_tokens_are_those_of_the_stream(target):
    """Without calibration the reach of a calibrated draft is unbiased."""
    row = met(simulate("lever", "schedule.calibrate=off", "schedule.pruning=false", target=target, prompts=24))
    assert row["tokens per cycle"]["predicted"] == pytest.approx(row["tokens per cycle"]["met"], rel=0.08)


def test_pruning_saves_rows_and_time_and_loses_tokens():
    on, off = (simulate("lever", "job.dram_fraction=1.0", f"schedule.pruning={flag}") for flag in ("true", "false"))
    assert met(on)["rows above the exit layer"]["met"] < 0.8 * met(on)["rows of the tree"]["met"]
    assert met(on)["verification latency"]["met"] < 0.97 * met(off)["verification latency"]["met"]
    assert on.summary["accepted_per_step"] <= off.summary["accepted_per_step"]
    blind = simulate("lever", "job.dram_fraction=1.0", "schedule.predictor_gain=0.0", "schedule.predictor_noise=3.0")
    assert met(blind)["tokens lost by pruning"]["met"] > 2 * met(on)["tokens lost by pruning"]["met"]


@pytest.mark.slow
def test_without_safeguards_more_is_pruned_and_more_is_lost():
    with_, without = (
        met(simulate("lever", "job.dram_fraction=1.0", f"schedule.safeguards={flag}", prompts=12))
        for flag in ("true", "false")
    )
    assert without["rows above the exit layer"]["met"] < with_["rows above the exit layer"]["met"]
    assert without["tokens lost by pruning"]["met"] > with_["tokens lost by pruning"]["met"]


def test_projection_on_demand_beats_eager_and_the_cpu_beats_the_npu():
    sets = ("schedule.pruning=false", "model.target.quant.head=Q6_K")
    exposed = [
        exposed_projection_s(simulate("lever", f"schedule.projection={mode}", *sets).trace)
        for mode in ("npu_eager", "npu_on_demand", "cpu_on_demand")
    ]
    assert exposed == sorted(exposed, reverse=True)


def test_batches_draft_faster_than_single_nodes():
    drafting = [
        met(simulate("lever", f"schedule.drafting={mode}", "schedule.pruning=false"))["drafting"]["met"]
        for mode in ("batched", "cpu", "npu")
    ]
    assert drafting == sorted(drafting)


def test_opt_tree_accepts_more_and_is_not_faster():
    own, best = simulate(), simulate("lever", "schedule.policy=opt_tree")
    assert best.summary["accepted_per_step"] > own.summary["accepted_per_step"]
    assert best.summary["decode_tokens_per_s"] < 1.02 * own.summary["decode_tokens_per_s"]


@pytest.mark.parametrize("schedule", ["chain_sd", "edgellm", "specinfer", "opt_tree"])
def test_lever_is_faster_than_each_baseline(schedule):
    assert speed(target="qwen3-8b", acceptance=0.4) > speed(schedule=schedule, target="qwen3-8b", acceptance=0.4)


def test_edgellm_drafts_while_the_target_works():
    trace = simulate("edgellm").trace
    assert "ahead" in set(trace.blocks["phase"].tolist())
    idle = simulate("edgellm", "schedule.ahead=0")
    assert idle.summary["decode_tokens_per_s"] < simulate("edgellm").summary["decode_tokens_per_s"]


def test_first_token_waits_for_the_chunks_and_the_cold_start():
    def summary(*sets):
        return simulate("lever", *sets, prompts=1, tokens=4).summary

    whole, chunks = summary(), summary("schedule.prefill_rows=32")
    assert chunks["bytes"]["flash_read"] - whole["bytes"]["flash_read"] == 4 * 3_925_868_544  # five chunks of 137 rows
    fast = ("system.npu.policy_many=static_graph", "job.prompt_tokens=96")
    assert summary("schedule.prefill_rows=32", *fast)["ttft_s"] > 2 * summary(*fast)["ttft_s"]
    warm = summary("job.dram_fraction=0.5")["ttft_s"]
    assert summary("schedule.cold_start=true", "job.dram_fraction=0.5")["ttft_s"] > warm + 0.4


def test_time_between_tokens_has_a_tail():
    found = inter_token(simulate().trace)
    assert 0 < found["per_token_p50_s"] < found["per_token_p99_s"] <= found["per_step_p99_s"]


def test_a_recorded_exit_serves_draft_and_predictor():
    job = {"target": "llama-3.1-8b", "stream": "recorded:exit_layers:10", "prompts": 2, "tokens": 32}
    result = run(load(system="oneplus_12", schedule="lever", job=job), trace="off")
    assert result.summary["tokens"] == 64
    assert result.summary["accepted_per_step"] > 1.2


def test_a_recorded_tree_is_pruned_and_never_grown():
    job = {"target": "llama-3.1-8b", "stream": "recorded:spec_exit15_tree", "tokens": 24}
    result = run(load(system="oneplus_12", schedule="lever", job=job), trace="off")
    assert result.summary["off_trace_nodes"] > 0


def test_reads_in_a_block_of_their_own_cost_what_reads_in_the_pass_cost():
    """Without pruning, reads ahead with landed layers are the same pipeline as a pass that reads for itself."""
    ahead = met(simulate("lever", "schedule.pruning=false"))["verification latency"]["met"]
    phases = simulate("lever", "schedule.pruning=false").summary["phases"]
    assert phases["io"] < ahead < phases["io"] + phases["projection"] + phases["bookkeeping"] + 0.05
