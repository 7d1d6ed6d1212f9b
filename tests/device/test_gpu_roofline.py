"""GPU: launches, then the longer of arithmetic and bytes."""

import pytest

from archsim.config import load_config
from archsim.device import DType, OpKind, make_ops
from archsim.system import System

MOBILE = System.from_data(load_config("system", "mobile_gpu").data)
LAPTOP = System.from_data(load_config("system", "laptop_gpu").data)


def times(system, entry):
    rows = system.devices["gpu"].lower(make_ops([entry]))
    return int(rows.lead[0]), int(-(-rows.work[0] // rows.cap[0]))


def matmul(m, k=4096, n=4096, wdtype=DType.INT8):
    sizes = {"m": m, "k": k, "n": n, "weight_bytes": k * n, "macs": m * k * n, "wdtype": wdtype}
    return {"kind": OpKind.MATMUL, "in_bytes": m * k, "out_bytes": m * n, **sizes}


def test_one_row_is_bytes_over_bandwidth():
    lead, flow = times(MOBILE, matmul(1))
    assert lead == 20_000_000
    assert flow == pytest.approx((4096 * 4096 + 8192) / (0.75 * 51.2e9) * 1e12, rel=1e-4)


def test_many_rows_are_operations_over_rate():
    _, flow = times(MOBILE, matmul(512))
    assert flow == pytest.approx(2 * 512 * 4096**2 / (0.4 * 5.6e12) * 1e12, rel=1e-4)
    _, flow = times(LAPTOP, matmul(2048))
    assert flow == pytest.approx(2 * 2048 * 4096**2 / (0.5 * 264e12) * 1e12, rel=1e-4)
    _, flow = times(LAPTOP, matmul(2048, wdtype=DType.FP16))
    assert flow == pytest.approx(2 * 2048 * 4096**2 / (0.5 * 132e12) * 1e12, rel=1e-4)


def test_attention_takes_three_launches():
    shape = {"m": 1, "k": 4096, "kv": 99, "heads": 32, "kv_heads": 32, "head_dim": 128, "kv_bytes": 819_200}
    rows = MOBILE.devices["gpu"].lower(make_ops([{"kind": OpKind.ATTENTION, "macs": 2 * 100 * 4096, **shape}]))
    counts = dict(zip(rows.actions, rows.counts[0].tolist(), strict=True))
    assert rows.lead[0] == 60_000_000
    assert counts["gpu.launch"] == 3
    assert counts["gpu.vector_op"] == 12 * 32 * 100
    assert counts["dram.read_bits"] == 8 * 819_200


def test_the_laptop_reads_eleven_times_as_fast():
    slow, fast = times(MOBILE, matmul(1, 8192, 8192))[1], times(LAPTOP, matmul(1, 8192, 8192))[1]
    assert slow / fast == pytest.approx(576 * 0.85 / (51.2 * 0.75), rel=0.01)
