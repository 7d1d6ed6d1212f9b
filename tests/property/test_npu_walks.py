"""Walks of every kernel policy: sizes, splits, shares of DRAM, local memory."""

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archsim.device import OpKind, make_ops
from archsim.devices.npu.alone import SHAPES, devices_of, layer, matmul, row_ps, times_us
from archsim.devices.npu.vtcm import VtcmOverflowError, aligned, footprint, tiling
from archsim.units import rate_fixed

POLICIES = ("gemv", "ggml_hvx", "ggml_hmx", "static_graph", "sequential")
NPUS = [(machine, policy) for machine in ("oneplus_12", "oneplus_15") for policy in POLICIES]
SHARES = (1.0, 0.75, 0.5, 0.25)
CASES = [(machine, policy, rows) for machine, policy in NPUS for rows in (1, 5, 32, 33, 128, 700)]


@functools.cache
def npu_of(machine, policy, *sets):
    """The NPU of a machine that runs every product by one policy."""
    policies = (f"system.npu.policy_one={policy}", f"system.npu.policy_many={policy}", "system.npu.hmx_rows=5")
    return devices_of(machine, *policies, *sets)["npu"]


@pytest.mark.parametrize(("machine", "policy", "rows"), CASES)
@pytest.mark.parametrize(("k", "n"), [(2560, 9728), (14336, 4096), (4096, 1024)])
def test_rows_last_as_long_as_the_walk_at_every_share(machine, policy, rows, k, n):
    """The walk runs again with a slower DMA (and no path above it); the rows of the fast one get that share of DRAM."""
    npu = npu_of(machine, policy)
    op = matmul(rows, k, n)
    full = npu.spec.dma_bytes_per_s
    lowered = npu.lower(make_ops([op]))
    paths = {"dma_bytes_per_s": full, "l2fetch_bytes_per_s": 32e9, "vector_load_limit_bytes_per_s": 20e9}
    for share in SHARES:
        rates = (f"system.npu.{path}={min(rate, full * share) / 1e9:.6f} GB/s" for path, rate in paths.items())
        slower = npu_of(machine, policy, *rates)
        walked = times_us(slower, [op])[0]
        granted = row_ps(lowered, share, rate_fixed(full)).sum() / 1e6
        assert granted == pytest.approx(walked, rel=0.03), share


@pytest.mark.parametrize(("machine", "policy"), NPUS)
@pytest.mark.parametrize("axis", ["m", "k", "n"])
def test_time_grows_with_every_dimension(machine, policy, axis):
    """Monotone at fixed tiling: in VTCM so large that it does not bind."""
    npu = npu_of(machine, policy, "system.npu.pipeline_rows=1", "system.npu.vtcm_bytes=4 GiB")
    sizes = {"m": (6, 32, 33, 64, 100, 128, 256), "k": (32, 64, 500, 1024, 4096), "n": (32, 33, 500, 1024, 4096)}
    base = {"m": 64, "k": 1024, "n": 1024}
    times = times_us(npu, [matmul(**{**base, axis: size}) for size in sizes[axis]])
    assert (np.diff(times) >= -1e-3).all()  # a tile's bytes are rounded up, to 1 ns in all
    assert times[-1] > times[0]


@pytest.mark.parametrize(("machine", "policy"), NPUS)
def test_split_operators_converge(machine, policy):
    npu, op = npu_of(machine, policy), matmul(96, 4096, 4096)
    whole = npu.lower(make_ops([op]))
    for parts in (4, 16, 64):
        split = npu.lower(make_ops([dict(op, parts=parts)]))
        assert row_ps(split).sum() == pytest.approx(row_ps(whole).sum(), rel=1e-3)
        assert split.counts.sum(axis=0).tolist() == whole.counts.sum(axis=0).tolist()
        # each part holds all phases, so a reader that feeds part by part meets the whole pipeline
        assert split.op.size == parts * whole.op.size
        share = split.work.reshape(parts, -1).sum(axis=0)
        assert np.allclose(share, whole.work, rtol=1e-3)


@given(
    m=st.integers(1, 3000),
    n=st.integers(32, 20_000),
    k=st.integers(1, 1500).map(lambda tiles: 32 * tiles),
    buffers=st.integers(1, 2),
    vtcm=st.sampled_from([1 << 20, 4 << 20, 8 << 20, 64 << 20]),
)
@settings(max_examples=300, deadline=None)
def test_chunks_never_overflow_local_memory(m, n, k, buffers, vtcm):
    m_padded, n_padded, packed = -(-m // 32) * 32, -(-n // 32) * 32, 20 * k // 32
    mc, nc = tiling(m_padded, n_padded, k, 32, 32, packed, buffers, vtcm)
    if mc == 0:
        return
    assert mc % 32 == nc % 32 == 0
    assert mc <= m_padded
    assert nc <= n_padded
    assert footprint(mc, nc, k, packed, buffers) <= vtcm


def test_search_finds_the_cheapest_chunks():
    """Against every pair of chunk sizes that fits."""
    m, n, k, packed, vtcm = 512, 1024, 4096, 2560, 8 << 20
    best = min(
        -(-m // mc) * n * 3 + -(-n // nc) * m * 2
        for mc in range(32, m + 1, 32)
        for nc in range(32, n + 1, 32)
        if footprint(mc, nc, k, packed, 2) <= vtcm
    )
    mc, nc = tiling(m, n, k, 32, 32, packed, 2, vtcm)
    assert -(-m // mc) * n * 3 + -(-n // nc) * m * 2 == best


def test_areas_are_whole_tiles():
    assert [aligned(size) for size in (0, 1, 2048, 2049)] == [0, 2048, 2048, 4096]


def test_attention_that_local_memory_cannot_hold_is_a_named_error():
    npu = devices_of("oneplus_15", "system.npu.vtcm_bytes=64 KiB")["npu"]
    op = next(op for op in layer(SHAPES["qwen3-4b"], 64, 64) if op["kind"] == OpKind.ATTENTION)
    with pytest.raises(
        VtcmOverflowError, match="queries and keys with heads of 128 does not fit in 65536 bytes of VTCM"
    ):
        npu.lower(make_ops([op]))


@pytest.mark.parametrize("policy", ["ggml_hmx", "static_graph"])
def test_a_product_that_local_memory_cannot_hold_is_a_named_error(policy):
    npu = devices_of("oneplus_15", f"system.npu.policy_many={policy}", "system.npu.vtcm_bytes=256 KiB")["npu"]
    with pytest.raises(VtcmOverflowError, match="32 rows of k = 65536 do not fit in 262144 bytes of VTCM"):
        npu.lower(make_ops([matmul(64, 65_536, 64)]))
