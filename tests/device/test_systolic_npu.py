"""Systolic NPU: the walk over weight tiles by hand and tile by tile, rooflines, pieces of a bank's layout."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archsim.config import load_config
from archsim.device import DType, OpKind, make_ops
from archsim.devices.systolic_npu import SystolicNpu, SystolicSpec, array_walk, array_walk_tiles
from archsim.system import System
from archsim.units import from_numbers

SYSTEM = System.from_data(load_config("system", "ahasd_listed").data)
NPU = SYSTEM.devices["npu"]


def ps(entry, device=NPU):
    rows = device.lower(make_ops([entry]))
    return int(rows.lead.sum()), int((-(-rows.work // rows.cap)).sum())


def matmul(m, k, n, **more):
    sizes = {"m": m, "k": k, "n": n, "weight_bytes": k * n, "macs": m * k * n, "wdtype": DType.INT8}
    return {"kind": OpKind.MATMUL, "in_bytes": m * k, "out_bytes": m * n, **sizes, **more}


def changed(**fields):
    made = SystolicNpu("npu", NPU.spec.model_copy(update=fields))
    made.bind(SYSTEM.binding)
    return made


def test_walks_by_hand():
    # One tile: bring 10, shift 4, three rows past it, drain 6.
    assert array_walk(1, 8, 10_000, 4, 3, 6) == 10 + 4 + 3 + 6
    # Bound by bringing, by shifting, by multiplying: each further tile costs the longest.
    assert array_walk(5, 8, 10_000, 4, 3, 6) == 23 + 4 * 10
    assert array_walk(5, 8, 2_000, 4, 3, 6) == 15 + 4 * 4
    assert array_walk(5, 8, 2_000, 4, 9, 6) == 21 + 4 * 9
    assert array_walk(2, 8, 2_500, 1, 1, 0) == 7  # 2.5 + 1 + 1 + 2.5


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    tiles=st.integers(1, 60), held=st.integers(2, 6), dma=st.integers(0, 30_000), shift=st.integers(1, 20),
    multiply=st.integers(1, 40), drain=st.integers(0, 20),
)  # fmt: skip
def test_the_closed_form_is_the_walk(tiles, held, dma, shift, multiply, drain):
    walked = array_walk_tiles(tiles, held, dma, shift, multiply, drain)
    assert array_walk(tiles, held, dma, shift, multiply, drain) == walked


def test_a_single_row_is_bound_by_the_memory():
    lead, flow = ps(matmul(1, 4096, 4096))
    assert lead == 1_000_000 + 10_000
    # 16 MiB at 43.5 bytes a cycle of 1 ns, then the last tile: shift 128, one row, drain 190.
    assert flow == pytest.approx((4096 * 4096 / 43.5 + 128 + 1 + 190) * 1000, rel=1e-5)


def test_many_rows_are_bound_by_the_array():
    """512 rows past 32 x 64 tiles: all but the first tile's way in and the last one's way out."""
    _, flow = ps(matmul(512, 4096, 4096))
    ops = 2 * 512 * 4096**2 / (flow * 1e-12)
    assert 0.999 * NPU.peak_ops_per_s() < ops <= NPU.peak_ops_per_s()
    assert NPU.peak_ops_per_s() == 2 * 128 * 64 * 1e9


def test_edges_pay_for_whole_tiles():
    assert ps(matmul(1, 129, 64))[1] > ps(matmul(1, 128, 64))[1]
    _, one = ps(matmul(64, 1, 1))
    assert one == pytest.approx((1 + 128 + 64 + 190) * 1000, rel=0.01)  # one padded tile


def test_float_weights_pass_the_array_per_byte():
    whole, half = ps(matmul(512, 4096, 1024)), ps(matmul(512, 4096, 1024, wdtype=DType.FP16))
    assert half[1] / whole[1] == pytest.approx(2.0, rel=0.01)


def test_weights_laid_out_for_banks_come_in_half_beats():
    rows, banks = ps(matmul(1, 4096, 4096)), ps(matmul(1, 4096, 4096), changed(piece_bytes=32))
    assert banks[1] / rows[1] == pytest.approx(43.5 / 32, rel=0.01)
    wide = NPU.spec.model_copy(update={"memory_bytes_per_s": 1e12})
    assert [wide.dma_bytes_per_s(piece) for piece in (32, 64, 96, 128)] == [32e9, 64e9, 48e9, 64e9]


def test_attention_reads_the_cache_and_grows_with_it():
    def entry(kv):
        shape = {"m": 1, "k": 4096, "n": 4096, "kv": kv, "heads": 32, "kv_heads": 32, "head_dim": 128}
        sizes = {"kv_bytes": 2 * (kv + 1) * 4096, "macs": 2 * (kv + 1) * 4096, "in_bytes": 4096, "out_bytes": 4096}
        return {"kind": OpKind.ATTENTION, **shape, **sizes}

    rows = NPU.lower(make_ops([entry(1023)]))
    assert rows.work.sum() >> 28 == 2 * 1024 * 4096
    assert ps(entry(4095))[1] / ps(entry(2047))[1] == pytest.approx(2.0, rel=0.1)


def test_activations_travel_only_when_they_do_not_fit():
    small, large = (NPU.lower(make_ops([matmul(m, 4096, 4096)])) for m in (16, 4096))
    assert small.work.sum() >> 28 == 4096 * 4096
    assert large.work.sum() >> 28 == 4096 * 4096 + 2 * 4096 * 4096


def test_an_operator_is_a_row_for_each_command():
    rows = NPU.lower(make_ops([matmul(1, 4096, 4096), matmul(1, 64, 64), matmul(1, 4096, 4096, parts=2)]))
    assert np.bincount(rows.op).tolist() == [4, 1, 8]
    assert (rows.work[:4] >> 28).tolist() == [4 << 20] * 4
    assert rows.lead.tolist() == [1_010_000, 0, 0, 0, 1_010_000, 1_010_000, *[0] * 7]
    assert ps(matmul(1, 4096, 4096), changed(quantum_bytes=1 << 30))[1] == pytest.approx(
        ps(matmul(1, 4096, 4096))[1], rel=1e-6
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"scratchpad_bytes": 32_000}, "scratchpad_bytes 32000 is below 32768, four weight tiles"),
        ({"array_rows": 8192}, "an array side is above 4096"),
    ],
)
def test_specs_that_do_not_fit(fields, message):
    with pytest.raises(ValueError, match=message):
        from_numbers(SystolicSpec, {**NPU.spec.model_dump(), **fields})
