"""Published measurements of the SM8650 against the devices of `oneplus_12`.

``fitted`` marks cells from which a parameter was taken; all others are predictions. Ratios are simulated / published.
"""

import numpy as np
import pytest

from archsim.config import load_config
from archsim.device import DType, OpKind, dtype_bytes, make_ops
from archsim.system import System

#: Layers, hidden width, query width, key/value width, feed-forward width, whether queries and keys are normed.
SHAPES = {
    "llama-3.1-8b": (32, 4096, 4096, 1024, 14336, False),
    "qwen3-8b": (36, 4096, 4096, 1024, 12288, True),
    "qwen3-4b": (36, 2560, 4096, 1024, 9728, True),
}


def machine(*sets):
    data = load_config("system", "oneplus_12", sets=sets)
    return System.from_data(data.data, data.sources).devices


DEVICES = machine()
GRAPH = machine("system.npu.policy_one=static_graph", "system.npu.policy_many=static_graph")


def matmul(m, k, n, dtype=DType.Q4_0, kind=OpKind.MATMUL):
    weights = n * dtype_bytes(dtype, k)
    sizes = {"weight_bytes": weights, "in_bytes": 2 * m * k, "out_bytes": 2 * m * n, "macs": m * k * n}
    return {"kind": kind, "m": m, "k": k, "n": n, "wdtype": dtype, "adtype": DType.FP16, **sizes}


def matrices(model, m):
    _, h, q, kv, ffn, _ = SHAPES[model]
    return [matmul(m, *shape) for shape in ((h, q), (h, kv), (h, kv), (q, h), (h, ffn), (h, ffn), (ffn, h))]


def vector(kind, m, width, inputs=1):
    row = 2 * m * width
    return {"kind": kind, "m": m, "k": width, "in_bytes": inputs * row, "out_bytes": row, "adtype": DType.FP16}


def layer(model, m, kv):
    """Operators of one layer: matrices, norms, rotation, KV write, attention, activation, residual adds."""
    _, h, q_width, kv_width, ffn, normed = SHAPES[model]
    heads = {"heads": q_width // 128, "kv_heads": kv_width // 128, "head_dim": 128, "adtype": DType.FP16}
    row, pairs = 4 * kv_width, m * kv + m * (m + 1) // 2
    attention = {"kind": OpKind.ATTENTION, "m": m, "k": q_width, "kv": kv, "in_bytes": 2 * m * q_width}
    attention |= {"out_bytes": 2 * m * q_width, "kv_bytes": (m + kv) * row, "macs": 2 * pairs * q_width, **heads}
    light = [
        *([vector(OpKind.NORM, m, h)] * 2 + [vector(OpKind.NORM, m, q_width + kv_width)] * normed),
        vector(OpKind.ROPE, m, q_width + kv_width),
        {"kind": OpKind.KV_WRITE, "m": m, "k": 2 * kv_width, "in_bytes": m * row, "kv_bytes": m * row, **heads},
        *([vector(OpKind.ELEMENTWISE, m, h, 2)] * 2 + [vector(OpKind.ELEMENTWISE, m, ffn, 2)]),
    ]
    return [*matrices(model, m), attention, *light]


def times_us(device, ops):
    """Time of each operator alone, call included."""
    rows = device.lower(make_ops(ops))
    return np.bincount(rows.op, (rows.lead + -(-rows.work // rows.cap)) / 1e6, len(ops))


def all_layers_ms(device, model, ops):
    return times_us(device, ops).sum() * SHAPES[model][0] / 1e3


@pytest.mark.parametrize(
    ("model", "device", "published_us", "tolerance"),
    [
        ("llama-3.1-8b", "npu", 404, 0.005),  # fitted: gemv_cycles
        ("qwen3-8b", "npu", 359, 0.02),
        ("qwen3-4b", "npu", 210, 0.06),
        ("llama-3.1-8b", "cpu", 646, 0.01),  # fitted: unpack_cycles_per_block
        ("qwen3-8b", "cpu", 589, 0.04),
        ("qwen3-4b", "cpu", 324, 0.08),
    ],
)
def test_gemv_per_matrix(model, device, published_us, tolerance):
    """Mean over all layer matrices of one layer, arXiv 2605.27435."""
    assert times_us(DEVICES[device], matrices(model, 1)).mean() == pytest.approx(published_us, rel=tolerance)


@pytest.mark.parametrize(
    ("model", "device", "published_us", "tolerance"),
    [
        # activations beyond 1 MiB are fetched again; unpack and mac are fitted to 16 and 32 rows elsewhere
        ("llama-3.1-8b", "npu", 20_378, 0.10),
        ("qwen3-8b", "npu", 18_444, 0.10),
        ("qwen3-4b", "npu", 10_352, 0.10),
        # fitted: mac_cycles_per_block, to the geometric mean of the three
        ("llama-3.1-8b", "cpu", 16_085, 0.10),
        ("qwen3-8b", "cpu", 12_033, 0.12),
        ("qwen3-4b", "cpu", 7_181, 0.06),
    ],
)
def test_128_rows_per_matrix(model, device, published_us, tolerance):
    """Mean over all layer matrices of one layer, 128 rows, arXiv 2605.27435."""
    assert times_us(DEVICES[device], matrices(model, 128)).mean() == pytest.approx(published_us, rel=tolerance)


@pytest.mark.parametrize(("model", "published_ms"), [("llama-3.1-8b", 93.2), ("qwen3-8b", 96.6)])
def test_compute_of_one_token(model, published_ms):
    """All layers with 100 cached rows, arXiv 2605.16786 Table 1."""
    assert all_layers_ms(DEVICES["npu"], model, layer(model, 1, 100)) == pytest.approx(published_ms, rel=0.10)


@pytest.mark.parametrize(("rows", "derived_ms"), [(16, 591), (32, 970)])
def test_batched_layers(rows, derived_ms):
    """Fitted (unpack_cycles, mac_cycles): all operators, 200 cached rows; arXiv 2605.16786 Table 2 less projection."""
    model = "llama-3.1-8b"
    assert all_layers_ms(DEVICES["npu"], model, layer(model, rows, 200)) == pytest.approx(derived_ms, rel=0.01)


def test_64_rows_gain_over_one_in_the_batched_kernel():
    """Fixed graph: 64 rows together against one by one, 8.0x (arXiv 2605.16786 Fig 4)."""
    model, npu = "llama-3.1-8b", machine("system.npu.policy_one=ggml_hvx")["npu"]
    one, many = (all_layers_ms(npu, model, matrices(model, rows)) for rows in (1, 64))
    assert 64 * one / many == pytest.approx(8.0, rel=0.10)


def test_static_graph_prefill():
    """Fitted (graph_output_cycles): 468 tok/s on an 8 Gen 3 (PowerServe on QNN), batches of 128 rows."""
    ms = all_layers_ms(GRAPH["npu"], "llama-3.1-8b", layer("llama-3.1-8b", 128, 0))
    assert 128e3 / ms == pytest.approx(468, rel=0.02)


def test_static_graph_decode():
    """Predicted: 12.0 tok/s with the vocabulary on the CPU (PowerServe on QNN, 8 Gen 3)."""
    head = times_us(DEVICES["cpu"], [matmul(1, 4096, 128_256, DType.Q4_0, OpKind.PROJECTION)]).sum() / 1e3
    ms = all_layers_ms(GRAPH["npu"], "llama-3.1-8b", layer("llama-3.1-8b", 1, 256)) + head
    assert 1e3 / ms == pytest.approx(12.0, rel=0.15)


def test_vocabulary_projection_on_the_cpu():
    """Between the CPU's own 43.9 GB/s and the 26 GB/s of its GEMV (arXiv 2406.06282)."""
    us = times_us(DEVICES["cpu"], [matmul(1, 4096, 128_256, DType.Q6_K, OpKind.PROJECTION)])[0]
    assert 26 <= 128_256 * dtype_bytes(DType.Q6_K, 4096) / us / 1e3 <= 43.9


@pytest.mark.parametrize(
    ("size", "span", "published_mb_s", "tolerance"),
    [
        (4 << 10, 0, 450, 0.01),  # fitted
        (512 << 10, 0, 4000, 0.01),  # fitted
        (4 << 10, 1 << 27, 1007.95, 0.01),  # fitted (performance core)
        (512 << 10, 1 << 27, 3500, 0.01),  # fitted
    ],
)
def test_flash_curve_at_its_measured_points(size, span, published_mb_s, tolerance):
    """PowerInfer-2, arXiv 2406.06282, OnePlus 12."""
    assert DEVICES["flash"].read_bytes_per_s(size, span) / 1e6 == pytest.approx(published_mb_s, rel=tolerance)


@pytest.mark.parametrize(
    ("core", "published_mb_s"), [("prime", 1076.10), ("performance", 1007.95), ("efficiency", 761.87)]
)
def test_random_reads_by_issuing_core(core, published_mb_s):
    """Fitted: PowerInfer-2 Table 1, 4 KB within 128 MB."""
    flash = machine(f"system.flash.issue_core={core}")["flash"]
    assert flash.read_bytes_per_s(4096, 1 << 27) / 1e6 == pytest.approx(published_mb_s, rel=0.01)


def test_small_random_reads_are_bound_by_requests():
    """Ripple, arXiv 2410.19274: bandwidth is about linear in size below 24 KB."""
    flash = DEVICES["flash"]
    assert flash.read_bytes_per_s(8192, 1 << 27) / flash.read_bytes_per_s(4096, 1 << 27) > 1.5
    assert flash.read_bytes_per_s(4 << 20, 1 << 27) / flash.read_bytes_per_s(1 << 20, 1 << 27) < 1.05


@pytest.mark.parametrize(("model", "published_ms"), [("llama-3.1-8b", 990.6), ("qwen3-8b", 953.4), ("qwen3-4b", 474.4)])
def test_streaming_all_layers(model, published_ms):
    """Predicted: arXiv 2605.16786 Table 1, I/O of one token."""
    size = sum(op["weight_bytes"] for op in matrices(model, 1))
    load = [{"kind": OpKind.LOAD, "weight_bytes": size}]
    assert all_layers_ms(DEVICES["flash"], model, load) == pytest.approx(published_ms, rel=0.10)


def test_shares_of_dram_bandwidth():
    """Pools: 62 GB/s in all, 59.6 with CPU and NPU together, 43.9 for the CPU and 59 for the NPU's DMA alone."""
    (pool,) = DEVICES["dram"].pools()
    assert pool.capacity == 62e9
    assert pool.mix[frozenset({"cpu_seq_read", "npu_seq_read"})] == pytest.approx(59.6e9, rel=0.001)
    capacities = {pool.name: pool.capacity for name in ("cpu", "npu") for pool in DEVICES[name].pools()}
    assert (capacities["cpu.bandwidth"], capacities["npu.dma"]) == (43.9e9, 59e9)


@pytest.mark.parametrize(
    ("devices", "name", "rows", "low_w", "high_w"),
    [
        (DEVICES, "npu", 1, 4.0, 5.6),  # 4.3-5.0 W in NPU decoding (arXiv 2509.23324, arXiv 2511.11248)
        (DEVICES, "cpu", 1, 4.0, 8.3),  # 4.07 W (arXiv 2406.06282) to 8.2 W (arXiv 2511.11248)
        (GRAPH, "npu", 128, 3.5, 6.0),  # 5.13 W at peak (QNN, arXiv 2406.06282)
    ],
)
def test_whole_phone_power_is_in_the_measured_range(devices, name, rows, low_w, high_w):
    system = System("phone", devices)
    lowered = devices[name].lower(make_ops(layer("llama-3.1-8b", rows, 100)))
    prices = system.prices()
    pj = np.array([prices.energy_pj[action].value for action in lowered.actions])
    duration_ps = float((lowered.lead + -(-lowered.work // lowered.cap)).sum())
    static_w = sum(cost.value for cost in prices.power_mw.values()) / 1e3
    assert low_w < (lowered.counts @ pj).sum() / duration_ps + static_w < high_w
