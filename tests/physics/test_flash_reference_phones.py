"""UFS models against published measurements of phones."""

import json

import pytest

from archsim.devices.flash.replay import device_spec, result, run_pattern
from archsim.streams.opening import packed_traces

DATA = packed_traces() / "flash"
ONEPLUS_12 = json.loads((DATA / "oneplus_12.json").read_text())
ONEPLUS_15R = json.loads((DATA / "oneplus_15r.json").read_text())
KIB, MIB = 1024, 1 << 20


def mb_s(device, pattern, size, requests, **how):
    spec = device_spec(device)
    return result(spec, run_pattern(spec, pattern, size, requests, **how))["bandwidth_mb_s"]


@pytest.mark.parametrize("size", ONEPLUS_12["sequential"])
def test_oneplus_12_sequential(size):
    got = mb_s("ufs_4_0", "seq_read", int(size), 3000)
    assert got == pytest.approx(ONEPLUS_12["sequential"][size], rel=0.10)


def test_oneplus_12_sequential_grows_with_size():
    curve = [mb_s("ufs_4_0", "seq_read", size * KIB, 1500) for size in (4, 16, 64, 128, 256, 512)]
    assert curve == sorted(curve)


def test_oneplus_12_random_512k():
    assert mb_s("ufs_4_0", "rand_read", 512 * KIB, 1000, depth=32) == pytest.approx(ONEPLUS_12["random_512k"], rel=0.10)


@pytest.mark.parametrize("core", ONEPLUS_12["random_4k_128mb"])
def test_oneplus_12_random_4k_by_issuing_core(core):
    got = mb_s("ufs_4_0", "rand_read", 4096, 20000, depth=32, span_bytes=128 * 10**6, core=core)
    assert got == pytest.approx(ONEPLUS_12["random_4k_128mb"][core], rel=0.10)


def test_oneplus_12_random_4k_in_a_span_beyond_the_mapping_cache():
    got = mb_s("ufs_4_0", "rand_read", 4096, 20000, depth=32, span_bytes=512 * 10**6)
    bound = ONEPLUS_12["random_4k_512mb_below"]
    assert 0.9 * bound < got < bound


def mib_s(size_kib, lanes, hot=False):
    requests = max(60, min(800, 400 * 1024 // size_kib))
    how = {"depth": lanes, "span_bytes": 62 * 10**9, "core": "performance", "hot": hot}
    return mb_s("ufs_4_0_oneplus_15r", "rand_read", size_kib * KIB, requests, **how) * 1e6 / MIB


CELLS = [
    (int(size), lanes, value)
    for size, row in ONEPLUS_15R["size_kib_by_lanes_2_4_8"].items()
    for lanes, value in zip((2, 4, 8), row, strict=True)
] + [(4096, int(lanes), value) for lanes, value in ONEPLUS_15R["lanes_4_mib"].items()]


@pytest.mark.parametrize(("size_kib", "lanes", "value"), CELLS)
def test_oneplus_15r_level_with_one_fitted_scalar(size_kib, lanes, value):
    assert mib_s(size_kib, lanes) == pytest.approx(value, rel=0.15)


def test_oneplus_15r_saturates_with_lanes_and_size():
    by_lanes = [mib_s(4096, lanes) for lanes in (1, 2, 8)]
    assert by_lanes[1] == pytest.approx(by_lanes[2], rel=0.02)
    assert by_lanes[0] < by_lanes[1]
    by_size = [mib_s(size, 4) for size in (128, 256, 4096)]
    assert by_size[0] < 0.8 * by_size[2]
    assert by_size[1] > 0.9 * by_size[2]


def test_oneplus_15r_hot_device_is_a_third_slower():
    assert mib_s(4096, 2, hot=True) / mib_s(4096, 2) == pytest.approx(ONEPLUS_15R["hot_4_mib"] / 2460, rel=0.02)


def test_generations_differ_by_link_and_nand_interface():
    rates = [mb_s(device, "seq_read", 512 * KIB, 800) for device in ("ufs_3_1", "ufs_4_0", "ufs_4_1")]
    assert rates[0] == pytest.approx(2100, rel=0.10)  # nominal UFS 3.1
    assert rates[0] < rates[1] <= rates[2] * 1.001
