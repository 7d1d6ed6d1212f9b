"""Stages of an operator: they end when the row ends, follow one another, and add up to what the row counts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archsim.config import load_config
from archsim.device import DType
from archsim.devices.npu import Npu
from archsim.devices.npu.timeline import (
    DEQUANT,
    DMA,
    HMX,
    OUTPUT,
    POLICY_STAGES,
    STAGES,
    StageTable,
    busy_milli,
    counted,
    duration_milli,
    stages,
)
from archsim.npu_trace import build_op
from archsim.system import System


def npu(**changes):
    resolved = load_config("system", "oneplus_12")
    machine = System.from_data(resolved.data, resolved.sources)
    device = Npu("npu", machine.devices["npu"].spec.model_copy(update=changes))
    device.bind(machine.binding)
    return device


GRAPH = npu(policy_one="static_graph", policy_many="static_graph")
NARROW = npu(policy_one="static_graph", policy_many="static_graph", vtcm_bytes=200_000)
MANY = npu(policy_one="static_graph", policy_many="static_graph", tile_buffers=5, hmx_units=2)
side = st.integers(1, 300)


@settings(max_examples=60)
@given(st.sampled_from([GRAPH, NARROW, MANY]), side, side, side, st.sampled_from([DType.FP16, DType.Q4_0, DType.INT8]))
def test_walked_stages_end_with_the_row_and_keep_their_order(device, m, k, n, dtype):
    ops = build_op("matmul", {"m": m, "k": k, "n": n}, dtype)
    rows = device.lower(ops)
    table = stages(device, ops, rows, "static_graph")
    # the row is rounded up to a cycle and a ps; its rate is rounded down
    slack = 1001 + duration_milli(device, rows) // int(rows.cap.min())
    assert 0 <= duration_milli(device, rows) + 1 - int(table.end_milli.max()) <= slack
    length = table.end_milli - table.start_milli
    for stage in (DMA, DEQUANT, HMX, OUTPUT):
        mine = table.stage == stage
        assert (table.start_milli[mine][1:] >= table.end_milli[mine][:-1]).all()
        assert (length[mine] > 0).all()
    dma, dequant, hmx = (table.stage == stage for stage in (DMA, DEQUANT, HMX))
    assert (table.start_milli[dequant] >= table.end_milli[dma]).all()
    assert (table.start_milli[hmx] >= table.end_milli[dequant]).all()
    # HVX unpacks or converts results, never both
    vector = np.isin(table.stage, (DEQUANT, OUTPUT))
    order = np.argsort(table.start_milli[vector], kind="stable")
    assert (table.start_milli[vector][order][1:] >= table.end_milli[vector][order][:-1]).all()
    products = counted(device, rows, "hmx_mac_fp16") + counted(device, rows, "hmx_mac_int8")
    is_int8 = dtype == DType.INT8
    cycles = device.spec.tile_cycles_int8 if is_int8 else device.spec.tile_cycles_fp16
    if device.spec.hmx_units == 1:
        expected = products // (32**3 * (2 if is_int8 else 1)) * cycles * 1000
        assert busy_milli(table)["hmx"] == pytest.approx(expected, rel=1e-3)
    # a raw buffer is free when its tile is unpacked
    depth, starts = device.spec.tile_buffers, table.start_milli[dma]
    walk = np.flatnonzero(np.diff(table.tile[dma]) < 0)
    if not walk.size:
        assert (starts[depth:] >= table.end_milli[dequant][: max(starts.size - depth, 0)]).all()


@pytest.mark.parametrize("policy", ["gemv", "ggml_hvx"])
@pytest.mark.parametrize("rows_m", [1, 7, 64])
def test_vector_kernels(policy, rows_m):
    device = npu(policy_one=policy, policy_many=policy)
    ops = build_op("matmul", {"m": rows_m, "k": 4096, "n": 1024}, DType.Q4_0)
    rows = device.lower(ops)
    table, total = stages(device, ops, rows, policy), duration_milli(device, rows)
    busy, spec = busy_milli(table), device.spec
    assert table.end_milli.max() == total
    vectors = 4096 // 128 * 1024
    assert busy["hvx"] == pytest.approx(vectors * rows_m * spec.mac_cycles * 1000 / spec.hvx_contexts, rel=1e-6)
    if policy == "gemv":
        once = vectors * rows_m * (spec.gemv_cycles - spec.mac_cycles)
    else:
        once = vectors * -(-rows_m // spec.pass_rows) * spec.unpack_cycles
    assert busy["dequant"] == pytest.approx(once * 1000 / spec.hvx_contexts, rel=1e-3)
    assert busy["hmx"] == busy["flush"] == 0
    # activations: in and out, FP32, through the vector path at 20 GB/s
    moved = 4 * rows_m * (4096 + 1024)
    assert busy["activation"] + busy["output"] == pytest.approx(moved / 20e9 * spec.clock_hz * 1000, rel=1e-3)
    assert busy["activation"] == pytest.approx(4 * busy["output"], rel=1e-3)


@pytest.mark.parametrize(
    ("op", "sizes", "stage"),
    [
        ("attention", {"m": 64, "kv": 512, "heads": 32, "kv_heads": 8, "head_dim": 128}, "hvx"),
        ("norm", {"m": 64, "k": 4096}, "dma"),
        ("rope", {"m": 64, "k": 4096}, "dma"),
        ("swiglu", {"m": 64, "k": 14336}, "dma"),
    ],
)
@pytest.mark.parametrize("policy", ["ggml_hvx", "static_graph"])
def test_other_operators_end_with_their_row(op, sizes, stage, policy):
    device = npu(policy_one=policy, policy_many=policy)
    ops = build_op(op, sizes, DType.FP16)
    rows = device.lower(ops)
    table, total = stages(device, ops, rows, policy), duration_milli(device, rows)
    assert total - 1001 <= table.end_milli.max() <= total
    assert (table.start_milli >= 0).all()
    # under a static graph activations stay in local memory
    resident = policy == "static_graph" and op in ("rope", "swiglu")
    assert busy_milli(table)["hvx" if resident else stage] > 0
    assert busy_milli(table)["dma"] == 0 or not resident
    if op == "attention":
        assert (busy_milli(table)["hmx"] > 0) == (policy == "static_graph")


def test_a_walk_for_a_policy_is_one_entry(monkeypatch):
    mine = StageTable(*(np.array([value]) for value in (HMX, 0, 5000, 0)))
    device = npu(policy_one="gemv")
    ops = build_op("matmul", {"m": 1, "k": 64, "n": 64}, DType.Q4_0)
    rows = device.lower(ops)
    assert (stages(device, ops, rows, "gemv").tile == -1).all()
    monkeypatch.setitem(POLICY_STAGES, "gemv", lambda npu, ops: mine)
    assert stages(device, ops, rows, "gemv") is mine
    monkeypatch.setitem(POLICY_STAGES, "gemv", lambda npu, ops: None)
    assert (stages(device, ops, rows, "gemv").tile == -1).all()


def test_busy_time_counts_overlaps_once():
    columns = [(0, 0, 10), (0, 5, 12), (0, 20, 30), (3, 4, 8), (3, 4, 6)]
    table = StageTable(*(np.array([c[i] for c in columns]) for i in range(3)), np.full(5, -1))
    assert busy_milli(table) == {**dict.fromkeys(STAGES, 0), "dma": 22, "hmx": 4}
