"""Long contexts: sizes, bytes and times of keys and values against closed forms, and where they may live."""

import re

import numpy as np
import pytest

from archsim.config import InputError
from archsim.report.latency import timeline
from archsim.report.window import window
from archsim.session import load, run

LLAMA = {"target": "llama-3.1-8b", "stream": "synthetic:llama-3.1-8b:gsm8k", "tokens": 3, "prefill_rows": 512}
LLADA = {"target": "llada-8b", "stream": "synthetic:llada-8b:gsm8k", "tokens": 32}
LAYERS, Q_WIDTH, KV_WIDTH = 32, 4096, 1024
#: One token's key and value in one layer at FP16.
ROW = 2 * KV_WIDTH * 2
RUNS = {}


def simulated(prompt, *sets, schedule="resident_ar", system="oneplus_12", **job):
    key = (prompt, sets, schedule, system, tuple(job.items()))
    if key not in RUNS:
        job = {**LLAMA, "prompt_tokens": prompt, **job}
        RUNS[key] = run(load(system=system, schedule=schedule, job=job, sets=sets), trace="off")
    return RUNS[key]


def attention(trace, phase, column):
    """Sum of a column of attention operators over the blocks of a phase."""
    mine = np.append(trace.blocks["phase"] == phase, False)[trace.row_block] & (trace.row_op >= 0)
    at = trace.row_op[mine]
    return int(trace.ops[column][at][trace.ops["kind"][at] == "attention"].sum())


def attention_s(trace, phase):
    slices = timeline(trace)
    mine = (slices["name"] == "attn.attention") & (np.char.endswith(slices["block"].astype(str), phase))
    return float((slices["end_ps"] - slices["start_ps"])[mine].sum()) * 1e-12


def test_the_cache_of_32k_tokens_is_larger_than_the_layers():
    result = simulated(32_765)
    held = result.summary["footprint_bytes"]["dram"]
    assert held["target KV of 32768 rows"] == 32_768 * ROW * LAYERS == 4_294_967_296
    model = result.trace.manifest["config"]["model"]["target"]["spec"]
    assert model["kv_dtype"] == "FP16"
    layers = LAYERS * 4096 * (2 * 4096 + 2 * 1024 + 3 * 14_336) * 18 // 32
    assert held["target KV of 32768 rows"] > layers


def test_a_decode_step_at_32k_reads_more_keys_and_values_than_weights():
    short, long = (simulated(n).summary["bytes_per_step"] for n in (512, 32_765))
    # the second and third token attend to n and n + 1 cached rows and their own, whose rows they also write
    assert long["kv"] == (32_765 + 32_766 + 2 + 2) / 2 * ROW * LAYERS
    assert long["weights"] == short["weights"]
    assert long["kv"] > 0.9 * long["weights"] > 10 * short["kv"]
    assert long["activations"] < 0.01 * long["kv"]


@pytest.mark.parametrize("rows", [512, 2048])
def test_a_prefill_in_passes_does_the_same_attention_as_in_one(rows):
    n = 2500
    pieces = simulated(n, prefill_rows=rows).trace
    assert attention(pieces, "prefill", "macs") == 2 * Q_WIDTH * n * (n + 1) // 2 * LAYERS


def test_attention_is_quadratic_in_prefill_and_linear_in_decode():
    sizes = (4096, 8192, 16_384)
    traces = [simulated(n).trace for n in sizes]
    for n, trace in zip(sizes, traces):
        assert attention(trace, "prefill", "macs") == Q_WIDTH * n * (n + 1) * LAYERS
        assert attention(trace, "decode", "macs") == 2 * Q_WIDTH * (2 * n + 3) * LAYERS
    prefill = [attention_s(trace, "prefill") for trace in traces]
    decode = [attention_s(trace, "decode") for trace in traces]
    assert prefill[2] / prefill[1] == pytest.approx(4, rel=0.06)
    # a call costs the same at any length: the increments are in the ratio of the lengths
    assert (decode[2] - decode[1]) / (decode[1] - decode[0]) == pytest.approx(2, rel=0.02)
    # no faster than the memory and no slower than one thread's worth of contexts
    least = 2 * (16_384 - 8192) * ROW * LAYERS / 62e9
    assert least < decode[2] - decode[1] < 4 * least


def test_a_long_prefill_is_lowered_pass_by_pass_and_layers_once():
    few, many = (len(simulated(n).trace.ops["op"]) for n in (8192, 32_765))
    assert many - few <= 2 * (32_765 - 8192) // 512 + 30  # a pass more is an attention more, not 32


TYPES = {"FP16": 64, "INT8": 32, "Q8_0": 34, "Q4_0": 18}


@pytest.mark.parametrize("dtype", TYPES)
def test_the_type_of_the_cache_scales_its_bytes(dtype):
    plain, typed = simulated(4096), simulated(4096, kv_dtype=dtype)
    ratio = TYPES[dtype] / 64
    assert typed.summary["bytes_per_step"]["kv"] == plain.summary["bytes_per_step"]["kv"] * ratio
    held = typed.summary["footprint_bytes"]["dram"]["target KV of 4099 rows"]
    assert held == 4099 * ROW * LAYERS * ratio


def test_quantised_keys_and_values_are_unpacked_once_per_pass():
    from archsim.device import OpKind, make_ops
    from archsim.session import build_job

    system, _, job = build_job(load(system="oneplus_12", schedule="cpu_ar", job=LLAMA))
    from archsim.device import DType

    def cycles(dtype, m):
        entry = {
            "kind": OpKind.ATTENTION, "m": m, "k": Q_WIDTH, "n": Q_WIDTH, "kv": 8192, "heads": 32, "kv_heads": 8,
            "head_dim": 128, "kvdtype": DType[dtype], "macs": 2 * Q_WIDTH * m * 8192,
        }  # fmt: skip
        rows = system.devices["cpu"].lower(make_ops([entry]))
        return int(rows.counts[0, rows.actions.index("cpu.prime_cycle")])

    for m in (16, 64):
        more = cycles("Q4_0", m) - cycles("FP16", m)
        blocks = 2 * 8 * 128 * (8192 + m) / 32
        spec = system.devices["cpu"].spec
        share = spec.core_hz[0] / sum(spec.core_hz[: spec.threads])
        assert more == pytest.approx(blocks * spec.unpack_cycles_per_block * share, rel=1e-3)
    # on the NPU too: fewer bytes, yet not faster in proportion
    plain, packed = (attention_s(simulated(16_384, kv_dtype=dtype).trace, "decode") for dtype in ("FP16", "Q4_0"))
    assert packed > plain * 18 / 64
    assert job.planner is not None


def test_a_cache_that_memory_cannot_hold_is_refused_or_split():
    small = "system.dram.capacity_bytes=7 GB"
    with pytest.raises(InputError, match=re.escape("job.kv_tier=split")) as error:
        simulated(32_765, small)
    assert "target KV of 32768 rows 4.29 GB" in str(error.value)
    result = simulated(32_765, small, kv_tier="split", kv_dram_tokens=8192)
    held = result.summary["footprint_bytes"]
    away = 32_768 - 8192
    assert held["flash"][f"target KV of {away} rows"] == away * ROW * LAYERS
    assert held["dram"]["target KV of 8192 rows"] == 8192 * ROW * LAYERS
    assert result.summary["bytes_per_step"]["kv_from_flash"] == away * ROW * LAYERS
    assert result.summary["itl_p50_s"] > 0.95 * away * ROW * LAYERS / 4.2e9


def test_the_split_moves_whole_blocks_and_dram_never_holds_more_than_asked():
    from archsim.config import JobSpec
    from archsim.workload.footprint import spilled_rows

    spec = JobSpec(**{**LLAMA, "kv_tier": "split", "kv_dram_tokens": 1000, "kv_block_tokens": 256})
    for cached in range(0, 3000, 7):
        away = spilled_rows(spec, cached, cached)
        assert cached - away <= 1000
        assert away in (0, cached) or away % 256 == 0
        assert away < max(cached - 1000, 0) + 256
    none = JobSpec(**{**LLAMA, "kv_tier": "split", "kv_dram_tokens": 0, "kv_block_tokens": 256})
    assert spilled_rows(none, 777, 700) == 777


def test_more_rows_in_dram_are_never_slower_per_token():
    times = [
        simulated(8192, kv_tier="split", kv_dram_tokens=kept).summary["itl_p50_s"] for kept in (0, 2048, 4096, 9000)
    ]
    assert times == sorted(times, reverse=True)
    assert times[-1] == pytest.approx(simulated(8192).summary["itl_p50_s"], rel=1e-6)


def test_a_cache_larger_than_one_window_is_mapped_in_buffers_of_whole_layers():
    made = window(simulated(32_765).trace)[0]
    assert made["mapped_bytes"] >= 4_294_967_296 + 3_500_000_000
    assert made["unmapping_passes"] == 0
    one = simulated(32_765, "system.npu.window_sessions=1")
    assert window(one.trace)[0]["mapped_bytes"] > 4 * 3_355_443_200  # every pass maps again what does not fit


def test_llada_at_8k_swaps_keys_and_values_beside_its_matrices():
    wide = "model.target.max_position=16384"
    short, long = (
        simulated(n, wide, schedule="llada", system="llada_ace5_pro", **{**LLADA, "prefill_rows": None})
        for n in (1024, 8160)
    )
    model_kv = 8160 * 32 * 2 * 4096 * 2
    capacity = 3_355_443_200
    assert model_kv > capacity  # alone more than the window, so keys and values must be swapped too
    before, after = (window(result.trace)[0] for result in (short, long))
    assert after["swapped_bytes"] > 3 * before["swapped_bytes"]
    assert after["mapped_bytes"] <= capacity
    # every pass brings in all that does not stay: weights and cache, less the window
    per_pass = after["swapped_bytes"] / (long.summary["steps"] + 1)
    assert per_pass > model_kv + 3.8e9 - capacity


def test_llada_beyond_its_positions_is_refused():
    with pytest.raises(InputError, match="llada-8b has 4096"):
        simulated(8160, schedule="llada", system="llada_ace5_pro", **{**LLADA, "prefill_rows": None})


def test_a_prefill_with_attention_both_ways_is_not_cut():
    with pytest.raises(InputError, match=re.escape("job.prefill_rows")):
        simulated(100, schedule="llada", system="llada_ace5_pro", **LLADA)


@pytest.mark.parametrize("job", [{"kv_tier": "split"}, {"kv_dram_tokens": 5}])
def test_the_split_says_how_much_stays(job):
    with pytest.raises(InputError, match="kv_dram_tokens belongs to kv_tier: split"):
        load(system="oneplus_12", schedule="resident_ar", job={**LLAMA, **job})
