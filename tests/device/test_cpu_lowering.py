"""CPU operators: cycles and bytes by hand, cores drawn, counts in closed form."""

import numpy as np
import pytest

from archsim.device import Binding, DType, OpKind, dtype_bytes, make_ops
from archsim.devices.cpu import Cpu, CpuSpec
from archsim.units import from_numbers

SPEC = {
    "core_hz": (2.0e9, 1.0e9, 1.0e9, 0.5e9),
    "core_classes": ("prime", "performance", "performance", "efficiency"),
    "threads": 3,
    "control_core": 0,
    "single_core": 1,
    "bandwidth_bytes_per_s": 40.0e9,
    "single_bandwidth_bytes_per_s": 10.0e9,
    "copy_bytes_per_s": 8.0e9,
    "uncached_bytes_per_s": 2.0e8,
    "sync_ps": 10_000_000,
    "random_row_ps": 240_000,
    "control_ipc": 2.0,
    "unpack_cycles_per_block": 10.0,
    "mac_cycles_per_block": 2.0,
    "attention_macs_per_cycle": 8.0,
    "softmax_cycles": 4.0,
    "norm_cycles": 1.0,
    "rope_cycles": 2.0,
    "elementwise_cycles": 3.0,
    "sample_cycles": 0.5,
    "inflight_bytes": 5120,
}
UNITS = {"cpu.compute": 0, "cpu.control": 1, "cpu.copy": 2}
POOLS = {"dram.bandwidth": 0, "cpu.bandwidth": 1, "cpu.cores": 2}


def cpu(**changes):
    device = Cpu("cpu", from_numbers(CpuSpec, {**SPEC, **changes}))
    device.bind(Binding(UNITS, POOLS, {}))
    return device


def matmul(m, k, n, dtype=DType.Q4_0, **more):
    weights = n * dtype_bytes(dtype, k)
    sizes = {"weight_bytes": weights, "in_bytes": 2 * m * k, "out_bytes": 2 * m * n, "macs": m * k * n}
    return {"kind": OpKind.MATMUL, "m": m, "k": k, "n": n, "wdtype": dtype, **sizes, **more}


def flow_ps(rows):
    """Duration of each row alone, lead apart."""
    return -(-rows.work // rows.cap)


@pytest.mark.parametrize("m", [1, 2, 16, 128])
def test_matmul_by_hand(m):
    rows = cpu().lower(make_ops([matmul(m, 256, 64)]))
    cycles = 8 * 64 * (10 + 2 * m)  # three threads share 4e9 cycles per second
    nbytes = 64 * 144 + 2 * m * (256 + 64)
    expected_ps = max(cycles / 4e9, nbytes / 40e9) * 1e12
    assert rows.work[0] == nbytes << 28
    assert flow_ps(rows)[0] == pytest.approx(expected_ps, rel=1e-4)
    assert rows.lead[0] == 10_000_000


def test_matmul_is_bound_by_bandwidth_when_cores_are_fast():
    rows = cpu(unpack_cycles_per_block=0.1, mac_cycles_per_block=0.1).lower(make_ops([matmul(1, 4096, 1024)]))
    assert flow_ps(rows)[0] == pytest.approx((1024 * 2304 + 2 * 5120) / 40e9 * 1e12, rel=1e-4)


def test_a_partial_block_counts_as_a_whole_one():
    short, whole = flow_ps(cpu().lower(make_ops([matmul(4, 33, 512), matmul(4, 64, 512)])))
    assert short == pytest.approx(whole, rel=1e-3)


def test_float_weights_multiply_at_half_rate():
    ops = make_ops([matmul(64, 256, 64, DType.INT8), matmul(64, 256, 64, DType.FP16)])
    rows = cpu().lower(ops)
    assert flow_ps(rows)[1] > 1.8 * flow_ps(rows)[0]
    names = list(rows.actions)
    assert rows.counts[:, names.index("cpu.mac_int8")].tolist() == [64 * 256 * 64, 0]
    assert rows.counts[:, names.index("cpu.mac_fp16")].tolist() == [0, 64 * 256 * 64]


def test_control_is_an_exact_time_on_its_own_unit():
    rows = cpu().lower(make_ops([{"kind": OpKind.CONTROL, "n": 4_000}]))
    assert flow_ps(rows).tolist() == [1_000_000]  # 2000 cycles at 2 GHz
    assert rows.unit[0] == 1
    assert rows.lead[0] == 0
    assert rows.pool[0].tolist() == [2, -1, -1, -1]
    assert rows.coef[0, 0] * rows.cap[0] >> 20 == 1 << 28  # one core at full rate


def test_copy_moves_every_byte_twice():
    rows = cpu().lower(make_ops([{"kind": OpKind.COPY, "in_bytes": 80_000}]))
    assert rows.work[0] == 160_000 << 28
    assert flow_ps(rows)[0] == pytest.approx(10_000_000, rel=1e-6)
    assert rows.unit[0] == 2


def test_other_operators_by_hand():
    entries = [
        {"kind": OpKind.NORM, "m": 2, "k": 4000, "in_bytes": 16, "out_bytes": 16},
        {"kind": OpKind.ROPE, "m": 2, "k": 4000, "in_bytes": 16, "out_bytes": 16},
        {"kind": OpKind.ELEMENTWISE, "m": 2, "k": 4000, "in_bytes": 16, "out_bytes": 16},
        {"kind": OpKind.SAMPLE, "m": 1, "k": 32_000, "in_bytes": 128_000, "out_bytes": 4},
        {"kind": OpKind.EMBED, "m": 3, "k": 64, "weight_bytes": 108, "out_bytes": 384},
        {"kind": OpKind.KV_WRITE, "m": 1, "k": 64, "in_bytes": 128, "kv_bytes": 128},
    ]
    expected = [2_000_000, 4_000_000, 6_000_000, 16_000_000, 720_000 + 49_200, 25_600]
    assert flow_ps(cpu().lower(make_ops(entries))).tolist() == pytest.approx(expected, rel=2e-3)


def test_attention_by_hand():
    pairs, heads, head_dim = 10 * 4 + 10, 4, 64
    entry = {"kind": OpKind.ATTENTION, "m": 4, "kv": 10, "heads": heads, "kv_heads": 2, "head_dim": head_dim}
    rows = cpu().lower(make_ops([{**entry, "kv_bytes": 14 * 512, "macs": 2 * pairs * heads * head_dim}]))
    cycles = 2 * pairs * heads * head_dim / 8 + pairs * heads * 4
    assert flow_ps(rows)[0] == pytest.approx(cycles / 4e9 * 1e12, rel=1e-3)
    assert rows.work[0] == 14 * 512 << 28


def test_busy_cycles_by_class_of_core():
    rows = cpu().lower(make_ops([matmul(128, 4096, 1024)]))
    busy_ps = int(rows.lead[0] + flow_ps(rows)[0])
    got = dict(zip(rows.actions, rows.counts[0].tolist()))
    for name, hz in (("prime", 2e9), ("performance", 2e9), ("efficiency", 0)):
        assert got[f"cpu.{name}_cycle"] == pytest.approx(busy_ps * hz / 1e12, rel=1e-4)


@pytest.mark.parametrize("axis", ["m", "k", "n"])
def test_time_grows_with_every_dimension(axis):
    sizes = [{"m": 4, "k": 512, "n": 512, axis: size} for size in (32, 64, 96, 320, 1024, 4096)]
    assert (np.diff(flow_ps(cpu().lower(make_ops([matmul(**size) for size in sizes])))) > 0).all()


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("core_classes", ("prime",), "core_classes has 1 entries, core_hz has 4"),
        ("threads", 5, "threads is 5; with 4 cores it can be at most 4"),
        ("control_core", 4, "control_core is 4; with 4 cores it can be at most 3"),
        ("single_core", -1, "single_core"),
    ],
)
def test_bad_specs_are_refused(field, value, message):
    with pytest.raises(ValueError, match=message):
        from_numbers(CpuSpec, {**SPEC, field: value})


def test_load_is_refused():
    with pytest.raises(ValueError, match="operator 0: device 'cpu' does not run LOAD"):
        cpu().lower(make_ops([{"kind": OpKind.LOAD, "weight_bytes": 1}]))
