"""Plain and speculative decoding of a flash-resident target on a OnePlus 12, against published figures.

Per-token verification of a flash-resident target on that phone (arXiv 2605.16786, first table): compute / I/O in ms,
Llama-3.1-8B 93.2 / 990.6, Qwen3-8B 96.6 / 953.4. Neither is an input: compute follows from the GEMV policy, I/O from
the flash device's rate and the layers' bytes.
"""

from __future__ import annotations

import pytest

from archsim.report.null import null_model
from archsim.session import load, run

PUBLISHED_MS = {"llama-3.1-8b": (93.2, 990.6), "qwen3-8b": (96.6, 953.4)}


def simulate(schedule, target="llama-3.1-8b", stream="recorded:exit_layers:25", tokens=16, sets=()):
    job = {"target": target, "stream": stream, "tokens": tokens}
    return run(load(system="oneplus_12", schedule=schedule, job=job, sets=sets), trace="off")


@pytest.fixture(scope="module")
def plain():
    return simulate("flash_ar")


@pytest.mark.parametrize("target", PUBLISHED_MS)
def test_compute_and_io_of_a_token(target):
    phases = simulate("flash_ar", target).summary["phases"]
    compute_ms, io_ms = PUBLISHED_MS[target]
    assert 1e3 * phases["compute"] == pytest.approx(compute_ms, rel=0.10)
    assert 1e3 * phases["io"] == pytest.approx(io_ms, rel=0.10)


def test_io_follows_bytes_over_rate(plain):
    """Reading twice as fast halves I/O, up to the time of the commands."""
    sets = ("system.flash.link_bytes_per_s=20 GB/s", "system.flash.stream_bytes_per_s=10 GB/s")
    fast = simulate("flash_ar", sets=sets)
    assert fast.summary["phases"]["io"] < 0.5 * plain.summary["phases"]["io"]
    layer_bytes = 3_925_868_544
    assert fast.summary["phases"]["io"] > layer_bytes / 10e9


def test_flash_is_the_bound_of_plain_decoding(plain):
    units = plain.summary["units"]
    assert units["flash.queue"] > 0.95
    assert max(units, key=units.get) == "flash.queue"


def test_pinned_layers_are_not_read(plain):
    half = simulate("flash_ar", sets=("job.dram_fraction=0.5",))
    assert half.summary["bytes"]["flash_read"] == pytest.approx(plain.summary["bytes"]["flash_read"] / 2, rel=1e-3)
    assert half.summary["decode_tokens_per_s"] > 1.5 * plain.summary["decode_tokens_per_s"]


def test_a_ring_of_one_is_slower_than_six():
    """With one buffer, reading and computing a layer cannot overlap."""
    one = simulate("flash_ar", sets=("schedule.ring=1",)).summary
    six = simulate("flash_ar").summary
    serial_s = six["phases"]["compute"] + six["phases"]["io"]
    assert 1 / one["decode_tokens_per_s"] > 0.97 * serial_s
    assert one["decode_tokens_per_s"] < 0.95 * six["decode_tokens_per_s"]


def test_speculation_pays_where_drafts_are_accepted_and_loses_where_not(plain):
    def speed(acceptance):
        stream = "synthetic:llama-3.1-8b:mt_bench"
        sets = (f"job.acceptance={acceptance}", "job.prompts=4")
        return simulate("chain_sd", stream=stream, tokens=32, sets=sets).summary

    weak, good = speed(0.02), speed(0.8)
    assert weak["accepted_per_step"] < 1.15
    assert weak["decode_tokens_per_s"] < plain.summary["decode_tokens_per_s"]
    assert good["decode_tokens_per_s"] > 1.5 * plain.summary["decode_tokens_per_s"]


def test_weaker_recorded_exits_accept_less_and_decode_slower():
    speeds = [
        simulate("chain_sd", stream=f"recorded:exit_layers:{layer}", tokens=48, sets=("job.prompts=4",)).summary
        for layer in (10, 25)
    ]
    assert speeds[0]["accepted_per_step"] < speeds[1]["accepted_per_step"]
    assert speeds[0]["decode_tokens_per_s"] < speeds[1]["decode_tokens_per_s"]


def test_resident_decoding_is_bound_by_the_layers_matrices():
    resident = simulate("resident_ar").summary
    assert 1 / resident["decode_tokens_per_s"] == pytest.approx(
        resident["phases"]["compute"] + resident["phases"]["projection"], rel=0.02
    )
    assert "io" not in resident["phases"]


def test_never_faster_than_the_null_model(plain):
    """Bytes over bandwidth and operations over peak bound each part from below."""
    null = null_model(plain.trace)
    phases = plain.summary["phases"]
    assert null["flash_s"] <= phases["io"]
    assert max(null["flash_s"], null["memory_s"]) <= 1 / plain.summary["decode_tokens_per_s"]


def test_prompt_rows_in_flash_are_read_back_in_every_pass(plain):
    spilled = simulate("flash_ar", sets=("job.kv_tier=flash",)).summary
    prompt = plain.trace.notes["value"][plain.trace.notes["kind"] == "arrival"][0]
    extra = spilled["bytes"]["flash_read"] - plain.summary["bytes"]["flash_read"]
    assert extra == 15 * prompt * 131_072


def test_smaller_kv_types_move_fewer_bytes(plain):
    small = simulate("flash_ar", sets=("job.kv_dtype=Q4_0",)).summary
    assert small["bytes"]["dram_read"] < plain.summary["bytes"]["dram_read"]
