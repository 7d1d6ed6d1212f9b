"""Warm CPU time of lowering one operator, by kernel policy: below 50 us."""

import time

import pytest

from archsim.device import OpKind, make_ops
from archsim.devices.npu.alone import SHAPES, devices_of, layer, matmul

LIMIT_S = 50e-6


@pytest.mark.bench
@pytest.mark.parametrize("policy", ["gemv", "ggml_hvx", "ggml_hmx", "static_graph", "sequential"])
def test_lowering_one_operator(policy):
    sets = (f"system.npu.policy_one={policy}", f"system.npu.policy_many={policy}")
    npu = devices_of("oneplus_15", *sets)["npu"]
    attention = next(op for op in layer(SHAPES["qwen3-4b"], 128, 512) if op["kind"] == OpKind.ATTENTION)
    for op in (matmul(1, 4096, 4096), matmul(128, 2560, 9728), matmul(512, 9728, 2560), attention):
        ops = make_ops([op])
        npu.lower(ops)
        best = min(_seconds(npu, ops) for _ in range(5))
        assert best < LIMIT_S, op


def _seconds(npu, ops, times=100):
    start = time.process_time()
    for _ in range(times):
        npu.lower(ops)
    return (time.process_time() - start) / times
