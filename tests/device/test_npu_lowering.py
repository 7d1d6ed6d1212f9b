"""NPU operators: policies by hand, padding, counts in closed form, monotone sizes."""

import numpy as np
import pytest

from archsim.device import Binding, DType, OpKind, dtype_bytes, make_ops
from archsim.devices.npu import Npu, NpuSpec
from archsim.units import from_numbers

SPEC = {
    "clock_hz": 1.0e9,
    "hmx_clock_hz": 1.0e9,
    "hmx_default_clock_hz": 0.75e9,
    "hmx_units": 1,
    "tile_rows": 32,
    "tile_columns": 32,
    "tile_depth": 32,
    "tile_rows_int8": 64,
    "tile_cycles_fp16": 8,
    "tile_cycles_int8": 8,
    "tile_cycles_int4": 8,
    "packet_tiles": 32,
    "packet_cycles": 0,
    "store_cycles": 0,
    "accumulators": 2,
    "hmx_wake_ps": 0,
    "tile_buffers": 2,
    "hvx_contexts": 4,
    "vtcm_vectors_per_cycle": 1000.0,
    "vtcm_bytes": 8 << 20,
    "window_bytes": 3_355_443_200,
    "window_sessions": 2,
    "map_call_ps": 50_000_000,
    "map_ps_per_gib": 1_000_000_000,
    "dma_bytes_per_s": 64.0e9,
    "l2fetch_bytes_per_s": 32.0e9,
    "l2fetch_one_bytes_per_s": 26.0e9,
    "vector_load_bytes_per_s": 5.0e9,
    "vector_load_limit_bytes_per_s": 20.0e9,
    "dma_latency_ps": 0,
    "dma_in_flight": 16,
    "dma_field_bits": 24,
    "call_ps": 20_000_000,
    "packet_ps": 30_000_000,
    "poll_ps": 100_000_000,
    "start_ps": 4_000_000,
    "rpc_ps": 400_000_000,
    "flush_all_ps": 5_000_000,
    "flush_all_bytes": 4 << 20,
    "batch_ops": 10,
    "pass_rows": 32,
    "row_multiple": 1,
    "row_group": 2,
    "activation_area_bytes": 1 << 20,
    "graph_rows": (1, 32, 128),
    "hmx_attention_rows": 5,
    "hmx_rows": 5,
    "pipeline_rows": 32,
    "pipeline_chunks": 1,
    "projection_limit": 32768,
    "area_bytes": 1 << 20,
    "gemv_cycles": 9.0,
    "unpack_cycles": 20.0,
    "mac_cycles": 2.0,
    "graph_unpack_cycles": 6.0,
    "tile_unpack_cycles": 10.0,
    "fp16_mac_cycles": 12.0,
    "output_cycles": 1.0,
    "convert_cycles": 8.0,
    "graph_output_cycles": 1.0,
    "softmax_cycles": 24.0,
    "norm_cycles": 8.0,
    "rope_cycles": 10.0,
    "elementwise_cycles": 16.0,
    "policy_one": "gemv",
    "policy_many": "ggml_hvx",
    "inflight_bytes": 16384,
}
POOLS = {"dram.bandwidth": 0, "npu.dma": 1, "npu.hvx": 2}


def npu(**changes):
    device = Npu("npu", from_numbers(NpuSpec, {**SPEC, **changes}))
    device.bind(Binding({"npu.core": 3, "cpu.control": 7}, POOLS, {"npu.vtcm": 0, "npu.window": 1}))
    return device


def matmul(m, k, n, dtype=DType.Q4_0, adtype=DType.FP16, **more):
    weights = n * dtype_bytes(dtype, k)
    sizes = {"weight_bytes": weights, "in_bytes": 2 * m * k, "out_bytes": 2 * m * n, "macs": m * k * n}
    return {"kind": OpKind.MATMUL, "m": m, "k": k, "n": n, "wdtype": dtype, "adtype": adtype, **sizes, **more}


def attention(m, kv, heads=8, kv_heads=2, head_dim=64):
    pairs = m * kv + m * (m + 1) // 2
    sizes = {"kv_bytes": (m + kv) * 4 * kv_heads * head_dim, "in_bytes": 2 * m * heads * head_dim}
    shape = {"heads": heads, "kv_heads": kv_heads, "head_dim": head_dim, "k": heads * head_dim, "kv": kv, "m": m}
    sizes.update(out_bytes=sizes["in_bytes"], macs=2 * pairs * heads * head_dim)
    return {"kind": OpKind.ATTENTION, **shape, **sizes, "adtype": DType.FP16}


def flow_ps(rows):
    """Duration of each operator alone, lead apart: its rows one after the other."""
    return np.bincount(rows.op, -(-rows.work // rows.cap)).astype(np.int64)


def counts(rows):
    """Counts of all rows by action."""
    return dict(zip(rows.actions, rows.counts.sum(axis=0).tolist()))


def test_gemv_by_hand():
    rows = npu().lower(make_ops([matmul(1, 4096, 64)]))
    # activations, FP32: 4 x (4096 + 64) bytes at 20 GB/s; then 32 vectors x 64 outputs x 9 cycles on 4 contexts, 1 GHz
    assert (rows.work >> 28).tolist() == [16_640, 64 * 2304]
    assert flow_ps(rows)[0] == pytest.approx(832_000 + 4_608_000, abs=3)
    assert rows.lead.tolist() == [20_000_000, 0]
    for row in (0, 1):
        assert rows.pool[row].tolist() == [0, 1, 2, -1]
        assert rows.coef[row, :2].tolist() == [1 << 20, 1 << 20]
    assert rows.unit.tolist() == [3, 3]


def test_gemv_is_bound_by_dma_when_hvx_is_fast():
    rows = npu(gemv_cycles=2.5, vector_load_bytes_per_s=1e15, vector_load_limit_bytes_per_s=1e15).lower(
        make_ops([matmul(1, 4096, 4096)])
    )
    # 9,437,184 bytes at 64 GB/s and 16,384 bytes of activations in no time
    assert flow_ps(rows)[0] == pytest.approx(9_437_184 / 64e9 * 1e12, rel=1e-4)


@pytest.mark.parametrize(("m", "passes"), [(2, 1), (16, 1), (32, 1), (33, 2), (64, 2), (128, 4)])
def test_ggml_hvx_by_hand(m, passes):
    rows = npu().lower(make_ops([matmul(m, 256, 64)]))
    vectors = 2 * 64
    cycles = vectors * (passes * 20 + m * 2) / 4
    activations_ps = 4 * m * (256 + 64) * 1000 / 20
    moved_ps = 64 * 144 / 64e9 * 1e12
    assert flow_ps(rows)[0] == pytest.approx(max(cycles * 1000, moved_ps) + activations_ps, rel=2e-4)
    assert counts(rows)["npu.hvx_mac_int8"] == m * 256 * 64
    assert counts(rows)["dram.read_bits"] == 8 * (64 * 144 + 4 * m * 256)


def test_ggml_hvx_pads_rows_only_when_told_to():
    ops = make_ops([matmul(17, 512, 64), matmul(24, 512, 64), matmul(32, 512, 64)])
    free, padded = (
        flow_ps(npu().lower(ops)),
        flow_ps(npu(row_multiple=8, vector_load_bytes_per_s=1e15, vector_load_limit_bytes_per_s=1e15).lower(ops)),
    )
    assert free[0] < free[1] < free[2]
    assert padded[0] == pytest.approx(padded[1], rel=1e-3)
    assert padded[1] < padded[2]


def graph(**changes):
    return npu(policy_one="static_graph", policy_many="static_graph", **changes)


def test_static_graph_by_hand():
    # one tile of 576 bytes: DMA 9 cycles at 64 bytes a cycle, unpack 8 vectors x 6 / 4 = 12, product 8, output of
    # one row of 32 elements on 4 contexts 8
    rows = graph().lower(make_ops([matmul(1, 32, 32)]))
    assert flow_ps(rows)[0] == pytest.approx((9 + 12 + 8 + 8) * 1000, abs=2)
    assert rows.lead[0] == 0
    assert counts(rows)["npu.hmx_mac_fp16"] == 32**3
    assert counts(rows)["dram.write_bits"] == 0


def test_static_graph_pads_every_dimension_to_a_tile():
    small = [matmul(m, k, n, weight_bytes=576, in_bytes=0, out_bytes=0) for m, k, n in ((2, 32, 32), (32, 32, 32))]
    ragged = matmul(32, 20, 7, weight_bytes=576, in_bytes=0, out_bytes=0)
    times = flow_ps(graph().lower(make_ops([*small, ragged])))
    assert times.tolist() == [times[0]] * 3


def test_static_graph_pads_int8_rows_to_64():
    ops = make_ops([matmul(m, 1024, 1024, adtype=DType.INT8) for m in (2, 64, 65)])
    times = flow_ps(graph(graph_unpack_cycles=0.5, graph_output_cycles=0.01, graph_rows=(64, 128)).lower(ops))
    assert times[0] == times[1] < times[2]


def test_static_graph_staircase_in_rows():
    ops = make_ops([matmul(m, 1024, 1024) for m in (2, 32, 33, 128, 130, 160, 161, 256)])
    times = flow_ps(graph(graph_output_cycles=0.01).lower(ops))
    assert times[0] == times[1] < times[2] == times[3] < times[4] == times[5] < times[6] == times[7]


def test_static_graph_int8_products_are_faster():
    ops = make_ops([matmul(128, 1024, 1024), matmul(128, 1024, 1024, adtype=DType.INT8)])
    rows = graph(graph_unpack_cycles=1.0, graph_output_cycles=0.01).lower(ops)
    wide, narrow = flow_ps(rows)
    assert narrow < wide
    assert counts(rows)["npu.hmx_mac_int8"] == 128 * 1024 * 1024


def test_static_graph_streams_weights_again_when_rows_overflow_local_memory():
    # 600,000 bytes hold 64 rows of 4096; inputs and outputs do not stay there and pass through DRAM
    ops = make_ops([matmul(128, 4096, 64)])
    once, twice = graph().lower(ops), graph(vtcm_bytes=600_000).lower(ops)
    weights = 64 * 2304
    assert counts(once)["dram.read_bits"] == 8 * weights
    assert counts(twice)["dram.read_bits"] == 8 * (2 * weights + 2 * 128 * 4096)
    # activations of 2 x 128 x (4096 + 64) bytes share the DMA with both weight streams, and bind
    assert flow_ps(twice)[0] == pytest.approx((2 * weights + 2 * 128 * 4160) / 64e9 * 1e12, rel=1e-4)
    with pytest.raises(ValueError, match=r"32 rows of k = 4096 do not fit in 100000 bytes of VTCM"):
        graph(vtcm_bytes=100_000).lower(ops)


def test_contexts_held_are_the_context_time_over_the_duration():
    ops = make_ops([matmul(1, 4096, 64)])
    for device, context_cycles in ((npu(), 32 * 64 * 9), (graph(), 2 * (128 * 8 * 6 + 32))):
        rows = device.lower(ops)
        assert counts(rows)["npu.hvx_cycle"] == context_cycles
        for row in range(rows.op.size):
            slot = rows.pool[row].tolist().index(2)
            held = int(rows.coef[row, slot]) * int(rows.cap[row]) / 2**48
            assert held == pytest.approx(context_cycles * 1000 / flow_ps(rows)[0], rel=1e-3)


def test_attention_on_vectors_and_on_the_matrix_unit():
    ops = make_ops([attention(1, 100), attention(64, 64)])
    rows = npu().lower(ops)
    assert counts(rows)["npu.hvx_mac_fp16"] == int(ops.macs.sum())
    tiled = graph().lower(ops)
    # the single row stays on vectors; 64 rows are 2 x 4 tiles, 8 heads, 2 products, 2 tiles along the head
    assert counts(tiled)["npu.hvx_mac_fp16"] == int(ops.macs[0])
    assert counts(tiled)["npu.hmx_mac_fp16"] == 2 * 8 * 2 * 4 * 2 * 32**3


def test_light_operators_cost_a_call_and_little_else():
    row = {"m": 1, "k": 4096, "in_bytes": 8192, "out_bytes": 8192, "adtype": DType.FP16}
    ops = make_ops([{"kind": kind, **row} for kind in (OpKind.NORM, OpKind.ROPE, OpKind.ELEMENTWISE)])
    rows = npu().lower(ops)
    # 64 vectors x 8, 10, 16 cycles on 4 contexts, against 32,768 bytes (FP32) at 20 GB/s = 1638.4 ns
    assert flow_ps(rows).tolist() == pytest.approx([1_638_400] * 3, rel=1e-4)
    assert (rows.lead == 20_000_000).all()
    assert (graph().lower(ops).pool[:, 0] == 2).all()  # resident in VTCM: only contexts are drawn


@pytest.mark.parametrize("device", [npu(), graph()], ids=["ggml", "static_graph"])
@pytest.mark.parametrize("axis", ["m", "k", "n"])
def test_time_grows_with_every_dimension(device, axis):
    sizes = [{"m": 24, "k": 512, "n": 512, axis: size} for size in (8, 64, 96, 320, 1024, 4096)]
    times = flow_ps(device.lower(make_ops([matmul(**size) for size in sizes])))
    assert (np.diff(times) >= 0).all()
    assert times[-1] > times[0]


def test_contexts_are_never_asked_for_more_than_there_are():
    ops = make_ops([matmul(m, 4096, 1024) for m in (1, 5, 32, 100)])
    for device in (npu(), graph()):
        rows = device.lower(ops)
        for cap, pool, coef in zip(rows.cap, rows.pool, rows.coef):
            slot = pool.tolist().index(2)
            assert -(-int(coef[slot]) * int(cap) >> 20) <= 4 << 28


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"kind": OpKind.LOAD, "m": 1, "weight_bytes": 4}, "operator 0: device 'npu' does not run LOAD"),
        (matmul(0, 32, 32), r"operator 0 \(MATMUL\) on device 'npu': m is 0; it must be at least 1"),
        (matmul(1, 32, 32, parts=0), r"operator 0 \(MATMUL\) on device 'npu': parts is 0; it must be at least 1"),
        (matmul(1, 32, 32, weight_bytes=0), r"weight_bytes is 0; it must be at least 1"),
        ({**attention(1, 4), "head_dim": 0}, r"head_dim is 0"),
    ],
)
def test_bad_operators_are_refused(entry, message):
    with pytest.raises(ValueError, match=message):
        npu().lower(make_ops([entry]))


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("graph_rows", (32, 1), "graph_rows must ascend"),
        ("gemv_cycles", 1.5, "gemv_cycles 1.5 must be above mac_cycles 2.0"),
        ("tile_buffers", 17, "tile_buffers"),
        ("policy_many", "magic", "policy_many"),
        ("clock_hz", 0.0, "clock_hz"),
    ],
)
def test_bad_specs_are_refused(field, value, message):
    with pytest.raises(ValueError, match=message):
        from_numbers(NpuSpec, {**SPEC, field: value})


def test_maps_are_latency_on_the_hosts_control_core():
    rows = npu().lower(make_ops([{"kind": OpKind.MAP, "n": 3, "in_bytes": 1 << 29}]))
    assert rows.unit.tolist() == [7]
    assert rows.lead.tolist() == [3 * 50_000_000 + 500_000_000]
    assert rows.work.tolist() == [0]
    assert counts(rows) == {"npu.map_call": 3}


def test_maps_do_not_mix_with_other_operators():
    with pytest.raises(ValueError, match="MAP operators on device 'npu' are lowered apart from others"):
        npu().lower(make_ops([{"kind": OpKind.MAP, "n": 1, "in_bytes": 1}, matmul(1, 64, 64)]))


def test_window_and_peak_follow_the_spec():
    assert npu().window_bytes == 2 * 3_355_443_200
    assert npu().peak_ops_per_s() == 2 * 32**3 / 8 * 1e9
