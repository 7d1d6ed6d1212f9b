"""llada.cpp's published ladder, and what must hold of each mechanism, at few prompts (the table has them all)."""

from __future__ import annotations

import pytest

from archsim.reproduce.llada import ALL, LADDER, OFFLOAD, PREFIX_KV, REVISION, RUNTIME, VANILLA, Rung
from archsim.reproduce.llada_claims import AR
from archsim.reproduce.llada_runs import Bench, Cell

BENCH = Bench()
FEW = 4
RUNGS = {rung.id: rung for rung in LADDER}


def latency(cell: Cell) -> float:
    return BENCH(cell).latency_s


@pytest.mark.parametrize("name", [rung.id for rung in LADDER if rung.paper is not None and rung.cell.prompts == 1])
def test_cells_that_do_not_hang_on_the_stream(name):
    rung: Rung = RUNGS[name]
    assert latency(rung.cell) == pytest.approx(rung.paper, rel=rung.tolerance)


@pytest.mark.slow
def test_all_techniques_over_two_hundred_prompts():
    rung = RUNGS["ladder.all"]
    assert latency(rung.cell) == pytest.approx(rung.paper, rel=rung.tolerance)


def test_vanilla_computes_every_row_in_every_step():
    # 128 passes of 203 rows against 137 passes of 5,111 rows in all: times go as rows where the product is bound.
    assert latency(VANILLA) / latency(PREFIX_KV) == pytest.approx(128 * 203 / 5111, rel=0.02)


def test_logits_of_the_window_only_are_cheaper_by_the_rows_left_out():
    less = latency(PREFIX_KV) - latency(PREFIX_KV.but("schedule.logits=window"))
    projected = 75 + 4 * 203 + 4 * 32  # prefill, refreshes, writes
    assert less == pytest.approx(projected * 8e-3, rel=0.05)  # 8 ms a row: 1.036 GFLOP at 131 GFLOP/s


def test_wide_addresses_take_the_mapping_out_of_the_gain():
    wide = "system.npu.address_bits=64"
    narrow = latency(OFFLOAD) / latency(RUNTIME)
    left = latency(OFFLOAD.but(wide)) / latency(RUNTIME.but(wide))
    assert narrow > 3.5
    assert 1.2 < left < 1.6  # the calls
    assert latency(RUNTIME.but(wide)) < latency(RUNTIME)


def test_a_larger_window_swaps_less_and_a_large_one_nothing():
    times = [latency(RUNTIME.but(f"system.npu.window_bytes={size} GB")) for size in (3.0, 3.3554432, 4.1)]
    assert times[0] > 1.05 * times[1] > 1.1 * times[2]
    assert BENCH(RUNTIME.but("system.npu.window_bytes=4.1 GB")).swapped_bytes == 0


def test_spread_swaps_overlap_better_than_a_tail_or_none():
    tail, apart = (latency(RUNTIME.but(f"job.mapping={name}")) for name in ("resident_tail", "resident_sync"))
    assert latency(RUNTIME) < tail < apart


def test_half_the_hmx_clock_hides_under_mapping_but_not_without():
    half = "system.npu.hmx_clock_hz=1.065 GHz"
    wide = "system.npu.address_bits=64"
    hidden = latency(RUNTIME.but(half)) / latency(RUNTIME)
    plain = latency(RUNTIME.but(half, wide)) / latency(RUNTIME.but(wide))
    assert 1.0 <= hidden < plain


def test_look_ahead_adds_rows_and_does_not_pay_at_the_fitted_projection():
    ahead, block = (BENCH(cell.but(prompts=FEW)) for cell in (ALL, REVISION))
    tail = ahead.notes["masks"][1] < 8
    assert ahead.notes["window"][1][tail].mean() > 1.3 * block.notes["window"][1].mean()
    assert ahead.steps <= block.steps
    assert ahead.latency_s > block.latency_s


def test_energy_per_request_is_far_below_the_cpu():
    assert BENCH(ALL.but(prompts=FEW)).energy_j < 0.1 * BENCH(PREFIX_KV).energy_j


def test_autoregressive_decoding_by_how_it_swaps():
    none, runtime, apart, naive = (
        latency(AR.but(f"job.mapping={name}", tokens=16))
        for name in ("none", "resident", "resident_sync", "per_operator")
    )
    assert none < runtime < apart < naive
    whole = latency(ALL.but(prompts=FEW))
    assert 3.0 < apart / 16 * 128 / whole < 5.0
    assert none / 16 * 128 / whole < 1.5


@pytest.mark.parametrize("stream", ["synthetic:llada-8b:math", "synthetic:dream-7b:gsm8k"])
def test_fewer_tokens_per_step_take_longer(stream):
    target = stream.split(":")[1]
    other = BENCH(ALL.but(stream=stream, target=target, prompts=FEW))
    easy = BENCH(ALL.but(prompts=FEW))
    assert other.tokens_per_step < easy.tokens_per_step
    assert other.latency_s > easy.latency_s
