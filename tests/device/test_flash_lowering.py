"""UFS loads: times by hand, the issuing core, the queue, counts in closed form."""

import numpy as np
import pytest

from archsim.device import STREAMS, Binding, OpKind, make_ops
from archsim.devices.flash import Flash, FlashSpec
from archsim.units import from_numbers

SPEC = {
    "capacity_bytes": 512 * 10**9,
    "link_bytes_per_s": 5.8e9,
    "stream_bytes_per_s": 4.0e9,
    "random_bytes_per_s": 2.0e9,
    "queue_depth": 32,
    "command_ps": 8_000_000,
    "issue_prime_ps": 2_000_000,
    "issue_performance_ps": 3_000_000,
    "issue_efficiency_ps": 4_000_000,
    "issue_core": "prime",
    "page_latency_ps": 50_000_000,
    "prime_hz": 3.0e9,
    "performance_hz": 2.5e9,
    "efficiency_hz": 2.0e9,
    "start_ps": 100_000_000,
    "ahead_ps": 60_000_000,
    "page_transfer_ps": 8_000_000,
    "state": "cool",
    "hot_fraction": 0.5,
    "translation_span_bytes": 1 << 27,
    "translation_miss_ps": 1_000_000,
    "page_bytes": 16384,
    "request_bytes": 65536,
    "inflight_bytes": 4096,
}
POOLS = {"dram.bandwidth": 0, "flash.link": 1, "cpu.cores": 2}


def flash(**changes):
    device = Flash("flash", from_numbers(FlashSpec, {**SPEC, **changes}))
    device.bind(Binding({"flash.queue": 4}, POOLS, {"flash.capacity": 0}))
    return device


def load(size, request=0, span=0, **more):
    return {"kind": OpKind.LOAD, "weight_bytes": size, "n": request, "k": span, **more}


def flow_ps(rows):
    """Duration of each row alone, lead apart."""
    return -(-rows.work // rows.cap)


def test_sequential_load_by_hand():
    rows = flash().lower(make_ops([load(1_000_000)]))
    # 16 requests of 64 KiB: 15 x 8 us, 60 us until pages are read ahead, and 1 MB at 4 GB/s = 250 us
    assert flow_ps(rows)[0] == pytest.approx(120_000_000 + 60_000_000 + 250_000_000, rel=1e-6)
    assert rows.lead.tolist() == [2_000_000 + 100_000_000 + 8_000_000]
    assert rows.work.tolist() == [1_000_000 << 28]
    assert rows.pool[0].tolist() == [0, 1, 2, -1]
    assert rows.coef[0, :2].tolist() == [1 << 20, 1 << 20]
    assert STREAMS[rows.stream[0]] == "flash_write"


def test_issuing_core_is_drawn_for_its_share_of_the_time():
    rows = flash(issue_core="efficiency").lower(make_ops([load(1_000_000)]))
    cores = rows.coef[0, 2] * rows.cap[0] / 2**48
    assert cores == pytest.approx(16 * 4 / 430, rel=1e-4)


def test_one_small_request_has_no_command_and_no_reading_ahead():
    rows = flash().lower(make_ops([load(4096)]))
    assert flow_ps(rows)[0] == pytest.approx(1_024_000, rel=1e-6)
    assert rows.lead.tolist() == [2_000_000 + 100_000_000 + 2_000_000]


def test_a_hot_device_runs_at_a_fraction_of_its_rates():
    cool, hot = (flow_ps(flash(state=state).lower(make_ops([load(100 << 20)])))[0] for state in ("cool", "hot"))
    assert hot - 60_000_000 == pytest.approx(2 * (cool - 60_000_000), rel=1e-5)
    assert flash(state="hot").pools()[0].capacity == 0.5 * flash().pools()[0].capacity


def test_the_issuing_core_burns_cycles():
    for core, cycles in (("prime", 6000), ("performance", 7500), ("efficiency", 8000)):
        rows = flash(issue_core=core).lower(make_ops([load(1_000_000)]))
        assert dict(zip(rows.actions, rows.counts[0]))[f"cpu.{core}_cycle"] == 16 * cycles


def test_random_load_by_hand():
    near, far = flow_ps(flash().lower(make_ops([load(64 * 4096, 4096, 1 << 27), load(64 * 4096, 4096, 1 << 29)])))
    assert near == pytest.approx((64 * 2 + 131.072) * 1e6, rel=1e-5)
    assert far - near == pytest.approx(64e6, rel=1e-5)


def test_a_shallow_queue_shows_the_page_latency():
    rows = flash(queue_depth=1).lower(make_ops([load(64 * 4096, 4096, 1 << 20)]))
    assert flow_ps(rows)[0] == pytest.approx(64 * (50 + 2 + 2.048) * 1e6, rel=1e-4)


def test_counts_in_closed_form():
    size = 10 * 65536 + 5
    rows = flash().lower(make_ops([load(size), load(3 * 4096, 4096, 1 << 20)]))
    got = [dict(zip(rows.actions, row)) for row in rows.counts.tolist()]
    assert [row["flash.page_read"] for row in got] == [41, 3]
    assert [row["flash.read_bits"] for row in got] == [8 * size, 8 * 3 * 4096]
    assert [row["dram.write_bits"] for row in got] == [8 * size, 8 * 3 * 4096]
    assert [row["dram.read_bits"] for row in got] == [0, 0]
    assert [row["dram.activate"] for row in got] == [-(-size // 2048), 6]
    total_ns = (rows.lead + flow_ps(rows)) / 1000
    assert [row["flash.active_ns"] for row in got] == pytest.approx(total_ns.tolist(), rel=1e-5)


def test_rate_rises_with_request_size_and_stays_below_the_stream():
    rates = [flash().read_bytes_per_s(4096 << i) for i in range(12)]
    assert (np.diff(rates) > 0).all()
    assert rates[-1] < 4.0e9


def test_smaller_requests_cost_more_time():
    times = flow_ps(flash().lower(make_ops([load(1 << 20, request) for request in (4096, 16384, 65536, 1 << 20)])))
    assert (np.diff(times) < 0).all()


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("stream_bytes_per_s", 6e9, r"stream_bytes_per_s 6e\+09 is above link_bytes_per_s 5.8e\+09"),
        ("random_bytes_per_s", 6e9, "random_bytes_per_s"),
        ("issue_core", "tiny", "issue_core"),
        ("request_bytes", 0, "request_bytes"),
        ("queue_depth", 0, "queue_depth"),
    ],
)
def test_bad_specs_are_refused(field, value, message):
    with pytest.raises(ValueError, match=message):
        from_numbers(FlashSpec, {**SPEC, field: value})


def test_an_empty_load_is_refused():
    with pytest.raises(ValueError, match="weight_bytes is 0; it must be at least 1"):
        flash().lower(make_ops([load(0)]))
