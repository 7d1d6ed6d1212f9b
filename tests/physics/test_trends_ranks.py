"""Rank agreement of the engine's rows with the kernels below them, on drawn configurations."""

import numpy as np
import pytest

from archsim.devices.flash.derived import device_bytes_per_s, link_bytes_per_s, load_values
from archsim.devices.flash.replay import device_spec, run_pattern
from archsim.reproduce.trends_npu import drawn_split, lowered_ps, walked_ps
from archsim.reproduce.trends_ranks import COUNT, LEAST_TAU, drawn_reads, events_ps, kendall, load_row_ps


def test_kendall_of_known_orders():
    assert kendall([1, 2, 3, 4], [1, 2, 3, 4]) == 1
    assert kendall([1, 2, 3, 4], [4, 3, 2, 1]) == -1
    assert kendall([1, 2, 3, 4], [1, 2, 4, 3]) == pytest.approx(4 / 6)


def test_derived_numbers_are_those_of_the_measured_part():
    """UFS 4.0: what its row was fitted to follows from the geometry within a few percent."""
    found = load_values(device_spec("ufs_4_0"))
    assert found["stream_bytes_per_s"] == pytest.approx(4.265e9, rel=0.02)
    assert found["command_ps"] == pytest.approx(8_142_000, rel=0.03)
    assert found["start_ps"] == pytest.approx(106_500_000, rel=0.05)
    assert found["page_transfer_ps"] == pytest.approx(6_827_000, rel=0.001)


def test_derived_rate_by_hand():
    """One plane of 16 KiB in 50 + 6.83 us and commands; many planes are bound by the link."""
    one = device_spec("ufs_4_0").model_copy(
        update={"channels": 1, "dies": 1, "planes": 1, "read_ps": (50_000_000,) * 3, "ready_ps": 0}
    )
    page_ps = 50_000_000 + 16384 / 2.4e9 * 1e12 + 290_000
    assert device_bytes_per_s(one) == pytest.approx(16384 / page_ps * 1e12)
    wide = device_spec("ufs_4_0").model_copy(update={"channels": 8})
    assert device_bytes_per_s(wide) == link_bytes_per_s(wide) == pytest.approx(2 * 2.332e9 * 256 / 278)


def test_splits_alone_and_shared():
    """A few drawn products: the engine's rows last as long as the walk at a share that the rows were not made from."""
    splits = [drawn_split(seed) for seed in range(8)]
    rows, walks = ([of(split) for split in splits] for of in (lowered_ps, walked_ps))
    assert np.allclose(rows, walks, rtol=0.10)
    assert kendall(rows, walks) >= LEAST_TAU


def test_a_stream_beside_it_slows_a_product():
    split = drawn_split(2)
    assert lowered_ps(split._replace(share=250)) > 1.5 * lowered_ps(split._replace(share=999))


@pytest.mark.slow
def test_order_of_a_hundred_splits():
    splits = [drawn_split(seed) for seed in range(COUNT)]
    assert kendall([lowered_ps(s) for s in splits], [walked_ps(s) for s in splits]) >= LEAST_TAU


@pytest.mark.slow
def test_order_of_a_hundred_loads():
    reads = [drawn_reads(seed) for seed in range(COUNT)]
    rows, events = ([of(r) for r in reads] for of in (load_row_ps, events_ps))
    assert kendall(rows, events) >= LEAST_TAU
    for pattern in ("seq_read", "rand_read"):
        mine = [i for i, r in enumerate(reads) if r.pattern == pattern]
        assert kendall([rows[i] for i in mine], [events[i] for i in mine]) >= LEAST_TAU


@pytest.mark.slow
def test_slower_arrays_are_slower_in_both():
    ssd = drawn_reads(1).ssd
    slow = ssd.model_copy(update={"read_ps": tuple(3 * t for t in ssd.read_ps)})
    times = [run_pattern(one, "rand_read", 16384, 400, depth=1, span_bytes=1 << 26).time_ns for one in (ssd, slow)]
    assert times[1] > 1.3 * times[0]
    assert load_values(slow)["page_latency_ps"] > load_values(ssd)["page_latency_ps"]
