"""Calibration: its numbers, its cache, the shipped table and how a DRAM part uses them."""

import json
from itertools import combinations

import pytest

from archsim.devices.dram import Dram, DramSpec, calibrate
from archsim.devices.dram.calibrate import CLASSES, SHIPPED, class_fractions, class_key, subsets
from archsim.devices.dram.controller import load_memory
from archsim.devices.dram.streams import StreamSpec
from archsim.units import InputError, from_numbers

SPEC = {
    "standard": "lpddr5x-9600",
    "transfer_rate_per_s": 9.6e9,
    "bus_width_bits": 64,
    "channels": 4,
    "ranks": 2,
    "achievable_bytes_per_s": 62.0e9,
    "capacity_bytes": 16 << 30,
    "mix": {"cpu_seq_read+npu_seq_read": 0.776},
    "calibrated": "command",
}


@pytest.fixture
def quick(monkeypatch, tmp_path):
    """Short runs and an empty cache on disk and in memory."""
    monkeypatch.setenv("ARCHSIM_CACHE", str(tmp_path))
    monkeypatch.setattr(calibrate, "REQUESTS", 3000)
    monkeypatch.setattr(calibrate, "ENOUGH", 100)
    monkeypatch.setattr(calibrate, "SEEDS", (1,))
    monkeypatch.setattr(calibrate, "_RUNS", {})
    return tmp_path / "dram-calibration"


@pytest.fixture
def runs(monkeypatch):
    """Streams of every run of the kernel."""
    seen = []

    def counted(memory, specs):
        seen.append(specs)
        return real(memory, specs)

    real = calibrate._run
    monkeypatch.setattr(calibrate, "_run", counted)
    return seen


MIX = (StreamSpec(64), StreamSpec(64, "random"))


def test_numbers_of_a_mix_hang_together(quick):
    found = calibrate.calibrate("lpddr5x-9600", streams=MIX)
    assert found.capacity_bytes_per_s == pytest.approx(sum(s.bandwidth_bytes_per_s for s in found.shares))
    assert found.capacity_bytes_per_s < found.peak_bytes_per_s == pytest.approx(19.2e9)
    for share in found.shares:
        assert share.in_flight_bytes == pytest.approx(share.bandwidth_bytes_per_s * share.latency_ns * 1e-9)
        assert share.bandwidth_bytes_per_s <= share.cap_bytes_per_s
        assert share.unloaded_ns < share.latency_ns
    rates, weights = zip(*((s.bandwidth_bytes_per_s, s.weight_bytes) for s in found.shares))
    assert rates[0] / rates[1] == pytest.approx(weights[0] / weights[1])
    assert not found.predicted


def test_random_readers_are_predicted_from_one_reader(quick, runs):
    mix = (StreamSpec(3, "random"), StreamSpec(8), StreamSpec(9, "random"))
    found = calibrate.calibrate("lpddr5x-9600", streams=mix)
    assert found.predicted
    assert (mix[1], StreamSpec(12, "random")) in runs
    assert mix not in runs
    first, second, third = found.shares
    assert third.bandwidth_bytes_per_s == pytest.approx(3 * first.bandwidth_bytes_per_s)
    assert third.latency_ns == first.latency_ns != second.latency_ns
    deep = (StreamSpec(3, "random"), StreamSpec(8), StreamSpec(40, "random"))  # 51 do not fit in half of 64
    assert not calibrate.calibrate("lpddr5x-9600", streams=deep).predicted


def test_runs_are_cached_in_memory_and_on_disk(quick, runs, monkeypatch):
    first = calibrate.calibrate("lpddr5x-9600", streams=MIX)
    count = len(runs)
    assert count == 5  # the mix, each alone, each as a chain
    assert calibrate.calibrate("lpddr5x-9600", streams=MIX) == first
    monkeypatch.setattr(calibrate, "_RUNS", {})
    assert calibrate.calibrate("lpddr5x-9600", streams=MIX) == first
    assert len(runs) == count
    assert sorted(p.suffix for p in quick.iterdir()) == [".json"] * count
    for path in quick.iterdir():
        path.write_text('[{"bandwidth')  # damaged
    monkeypatch.setattr(calibrate, "_RUNS", {})
    assert calibrate.calibrate("lpddr5x-9600", streams=MIX) == first
    assert len(runs) == 2 * count
    calibrate.calibrate("lpddr5x-8533", streams=MIX)
    assert len(runs) == 3 * count


def test_a_folder_that_cannot_be_written_costs_no_result(quick, monkeypatch):
    quick.write_text("in the way")
    assert calibrate.calibrate("lpddr5x-9600", streams=MIX[:1]).capacity_bytes_per_s > 0


def test_subsets_hold_every_set(quick):
    table = subsets(load_memory("lpddr5x-9600"), (*MIX, StreamSpec(1)))
    assert len(table) == 7
    assert table[frozenset({2})].shares[0].spec == StreamSpec(1)
    assert [s.spec for s in table[frozenset({0, 1})].shares] == list(MIX)


@pytest.mark.parametrize(
    ("streams", "message"),
    [
        ((), "streams: none given"),
        ((StreamSpec(0),), "depth: 0 is out of range"),
    ],
)
def test_bad_streams_are_refused(quick, streams, message):
    with pytest.raises(InputError, match=message):
        calibrate.calibrate("lpddr5x-9600", streams=streams)


def test_a_starved_stream_is_refused(quick, monkeypatch):
    """Writes as fast as the queue takes them keep the controller draining: reads of another stream never come."""
    monkeypatch.setattr(calibrate, "REQUESTS", 60_000)
    monkeypatch.setattr(calibrate, "MOST_REQUESTS", 60_000)
    with pytest.raises(InputError, match=r"streams\[0\]: starved, nothing of it was served beside the others"):
        calibrate.calibrate("lpddr5x-9600", "mobile", 4, (StreamSpec(160), StreamSpec(160, "sequential", 0.5)), ranks=2)


def test_shipped_table_lists_every_set_of_classes():
    fractions = class_fractions("lpddr5x-9600", "mobile", 4, 2)
    every = {frozenset(c) for k in range(2, len(CLASSES) + 1) for c in combinations(CLASSES, k)}
    assert set(fractions) == every
    assert all(0 < f <= 1 for f in fractions.values())


def test_other_memories_are_run_and_keyed_by_their_data(quick):
    assert class_key("lpddr5x-9600", "mobile", 4, 2) in json.loads(SHIPPED.read_text())
    keys = {class_key("lpddr5x-9600", "mobile", c, r) for c in (1, 2) for r in (1, 2)}
    keys |= {class_key("lpddr5-6400", "mobile", 1, 1), class_key("lpddr5x-9600", "reference_a", 1, 1)}
    assert len(keys) == 6
    fractions = class_fractions("lpddr5x-9600", "mobile", 1, 1)
    assert len(fractions) == 26
    assert any(quick.iterdir())


def test_part_takes_measured_mixes_before_calibrated_ones():
    (pool,) = Dram("dram", from_numbers(DramSpec, SPEC)).pools()
    assert pool.mix[frozenset({"cpu_seq_read", "npu_seq_read"})] == pytest.approx(0.776 * 76.8e9)
    fractions = class_fractions("lpddr5x-9600", "mobile", 4, 2)
    pair = frozenset({"npu_seq_read", "flash_write"})
    assert pool.mix[pair] == pytest.approx(fractions[pair] * 62e9)
    assert len(pool.mix) == 26
    assert max(pool.mix.values()) <= pool.capacity


def test_kernel_and_measurement_agree_on_cpu_with_npu():
    """The one mix that is both: 59.6 GB/s (PowerInfer-2), and the kernel's shape on the achievable rate."""
    pair = frozenset({"cpu_seq_read", "npu_seq_read"})
    assert class_fractions("lpddr5x-9600", "mobile", 4, 2)[pair] * 62e9 == pytest.approx(59.6e9, rel=0.03)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"transfer_rate_per_s": 10e9, "mix": {}},
            "peaks at 76.8 GB/s, transfer rate x width is 80 GB/s; for another rate set system.dram.rate_factor=1.04",
        ),
        ({"standard": "lpddr5x-960"}, "lpddr5x-9600"),
        ({"controller": "mobil"}, "mobile"),
    ],
)
def test_parts_that_contradict_their_standard_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        Dram("dram", from_numbers(DramSpec, {**SPEC, **changes})).pools()
