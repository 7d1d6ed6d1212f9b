"""Row of a load against the event-level model of the same part: one fact, two models."""

import pytest

from archsim.config import load_config
from archsim.device import Binding, OpKind, make_ops
from archsim.devices.flash import Flash, FlashSpec
from archsim.devices.flash.replay import device_spec, run_pattern
from archsim.units import from_numbers

KIB = 1024
POOLS = {"dram.bandwidth": 0, "flash.link": 1, "cpu.cores": 2}


def load_us(part, size, **changes):
    """Time of one load alone, lead included."""
    spec = {**load_config("part", part).data["spec"], **changes}
    device = Flash("flash", from_numbers(FlashSpec, spec))
    device.bind(Binding({"flash.queue": 0}, POOLS, {"flash.capacity": 0}))
    rows = device.lower(make_ops([{"kind": OpKind.LOAD, "weight_bytes": size}]))
    assert len(rows.work) == 1
    return (rows.lead[0] - rows.work[0] // -rows.cap[0]) / 1e6


def events_us(part, size, hot=False):
    """Time of the same reads, one request of up to 512 KiB after the other, on the event-level device."""
    spec, request = device_spec(part), min(size, 512 * KIB)
    done = run_pattern(spec, "seq_read", request, size // request, core="performance", hot=hot)
    return done.responses_ns.sum() / 1e3 + (size // request - 1) * spec.response_ps / 1e6


SIZES = [
    4 * KIB,
    8 * KIB,
    16 * KIB,
    64 * KIB,
    256 * KIB,
    512 * KIB,
    *(512 * KIB * count for count in (2, 4, 8, 32, 190)),
]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("part", ["ufs_4_0", "ufs_3_1"])
def test_a_load_takes_what_the_event_level_model_takes(part, size):
    """From 4 KiB to 100 MB. UFS 4.1 is left out: its rate is fitted to what the decoding speed of a phone needs."""
    assert load_us(part, size) == pytest.approx(events_us(part, size), rel=0.05)


def test_a_hot_device_is_slower_by_the_same_share():
    size = 190 * 512 * KIB
    hot = load_us("ufs_4_0", size, state="hot") / load_us("ufs_4_0", size)
    assert hot == pytest.approx(events_us("ufs_4_0", size, hot=True) / events_us("ufs_4_0", size), rel=0.05)
