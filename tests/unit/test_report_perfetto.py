"""Perfetto files are read back with the protobuf classes of the perfetto package."""

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos

from archsim.report import perfetto
from archsim.report.energy import energy
from archsim.report.perfetto import write_perfetto
from archsim.trace import Trace

sys.path.insert(0, str(Path(__file__).parent))
from test_report_sample import BYTE, US, sample, sample_manifest, sample_tables

BEGIN, END, INSTANT, COUNTER = (
    protos.TrackEvent.Type.Value(f"TYPE_{name}") for name in ("SLICE_BEGIN", "SLICE_END", "INSTANT", "COUNTER")
)


class Reading:
    """What a viewer sees: tracks, slices with arguments, counter samples."""

    def __init__(self, path):
        trace = protos.Trace()
        trace.ParseFromString(path.read_bytes())
        names = {"event_names": {}, "event_categories": {}, "debug_annotation_names": {}}
        self.tracks, self.parents, self.units = {}, {}, {}
        self.slices, self.instants, self.counters, opened = [], [], {}, {}
        assert trace.packet[0].sequence_flags == 3
        assert trace.packet[0].first_packet_on_sequence
        for packet in trace.packet:
            assert packet.trusted_packet_sequence_id == 1
            for table, known in names.items():
                for entry in getattr(packet.interned_data, table):
                    assert entry.iid not in known
                    known[entry.iid] = entry.name
            if packet.HasField("track_descriptor"):
                track = packet.track_descriptor
                self.tracks[track.uuid], self.parents[track.uuid] = track.name, track.parent_uuid
                self.units[track.name] = track.counter.unit_name
                continue
            event = packet.track_event
            where = self.tracks[event.track_uuid]
            if event.type == COUNTER:
                self.counters.setdefault(where, []).append((packet.timestamp, event.double_counter_value))
                continue
            notes = {
                names["debug_annotation_names"][note.name_iid]: note.string_value or note.int_value
                for note in event.debug_annotations
            }
            name = names["event_names"].get(event.name_iid)
            if event.type == BEGIN:
                assert event.track_uuid not in opened, "slices of a serial unit nest"
                category = names["event_categories"][event.category_iids[0]]
                opened[event.track_uuid] = (where, name, category, packet.timestamp, list(event.flow_ids), notes)
            elif event.type == END:
                self.slices.append((*opened.pop(event.track_uuid), packet.timestamp))
            else:
                assert event.type == INSTANT
                self.instants.append((packet.timestamp, name, notes))
        assert not opened


def read(trace, tmp_path, **options) -> Reading:
    return Reading(write_perfetto(trace, tmp_path / "run.pftrace", **options))


def test_slices_are_the_rows(tmp_path):
    found = read(sample(), tmp_path)
    rows = sample().rows
    ran = (rows["status"] != 2) & (rows["unit"] >= 0)
    assert len(found.slices) == ran.sum() == 8
    assert Counter(entry[0] for entry in found.slices) == {"flash.queue": 2, "npu.hmx": 5, "cpu.core": 1}
    for where, _, _, begin, _, notes, end in found.slices:
        i = notes["row"]
        assert (begin, end) == (rows["start_ps"][i] // 1000, rows["end_ps"][i] // 1000)
        assert (notes["start_ps"], notes["end_ps"]) == (rows["start_ps"][i], rows["end_ps"][i])
        assert where == sample().unit_names[rows["unit"][i]]
    first = found.slices[1]
    assert first[1:3] == ("wq", "compute")
    assert first[5] == {
        "row": 1, "op": 1, "request": 0, "start_ps": 10 * US, "end_ps": 20 * US, "block": "0 prefill", "m": 5, "k": 20,
        "n": 10, "weight_bytes": 400,
    }  # fmt: skip
    assert [entry[5].get("status") for entry in found.slices if entry[5]["row"] in (7, 9)] == ["cut", "cut"]


def test_tracks_have_their_device_as_parent(tmp_path):
    found = read(sample(), tmp_path)
    named = {name: uuid for uuid, name in found.tracks.items()}
    assert found.tracks[found.parents[named["npu.hmx"]]] == "npu"
    assert found.tracks[found.parents[named["npu"]]] == "archsim chain_sd"
    assert len(named) == len(found.tracks)


def test_notes_are_instants(tmp_path):
    found = read(sample(), tmp_path)
    assert [(time, name) for time, name, _ in found.instants] == [
        (0, "arrival"), (20_000, "commit"), (24_000, "draft"), (26_000, "draft"), (38_000, "step"), (38_000, "accept"),
        (38_000, "commit"), (40_000, "end"),
    ]  # fmt: skip
    assert found.instants[6][2] == {"request": 0, "value": 3, "extra": 4}


def test_arrows_follow_the_owning_path(tmp_path):
    flows = {}
    for entry in read(sample(), tmp_path).slices:
        for flow in entry[4]:
            flows.setdefault(flow, []).append(entry[5]["row"])
    assert sorted(flows.values()) == [[0, 1], [1, 4], [4, 5], [5, 6], [6, 9]]


def test_power_counters_integrate_to_the_energy(tmp_path):
    found = read(sample(), tmp_path, ps_per_tick=1)
    for device, joule in energy(sample()).by_device().items():
        times, watts = zip(*found.counters[f"{device} power"])
        assert np.sum(np.diff(times) * watts[:-1]) * 1e-12 == pytest.approx(joule, rel=1e-9)
    assert found.units["npu power"] == "W"


def with_draws() -> Trace:
    tables = sample_tables()
    tables["draws"] = {"op": np.array([0, 1]), "pool": np.array([0, 0]), "coef": np.array([1 << 20, 2 << 20])}
    return Trace(tables, sample_manifest())


def test_pool_counter_is_reconstructed_from_draws(tmp_path):
    found = read(with_draws(), tmp_path, ps_per_tick=1)
    times, rate = zip(*found.counters["dram.bandwidth"])
    assert found.units["dram.bandwidth"] == "GB/s"
    # two loads of 1000 bytes at 1, two computes of 500 at 2
    assert np.sum(np.diff(times) * rate[:-1]) / 1000 == pytest.approx(2 * 1000 + 2 * 500 * 2, rel=1e-9)
    assert dict(zip(times, rate))[2 * US] == pytest.approx(1000 / 8e-6 / 1e9)
    assert rate[-1] == 0.0
    assert "dram.bandwidth" not in read(sample(), tmp_path).counters


def test_logs_of_a_full_trace_win(tmp_path):
    tables = with_draws().tables | {
        "pool_log": {
            "time_ps": np.array([0, US, US * 2]),
            "pool": np.zeros(3, int),
            "value": np.array([BYTE, BYTE, 0]),
        },
        "levels_log": {"time_ps": np.array([0, US]), "store": np.zeros(2, int), "value": np.array([4096, 0])},
    }
    found = read(Trace(tables, sample_manifest()), tmp_path)
    assert found.counters["dram.bandwidth"] == [(0, 1000.0), (2000, 0.0)]  # 1 byte per ps; the repeat is left out
    assert found.counters["npu.vtcm"] == [(0, 4096.0), (1000, 0.0)]
    assert found.units["npu.vtcm"] == "bytes"


def test_bytes_are_the_same_every_time_and_in_any_chunks(tmp_path, monkeypatch):
    first = write_perfetto(sample(), tmp_path / "a").read_bytes()
    monkeypatch.setattr(perfetto, "CHUNK", 3)
    assert write_perfetto(sample(), tmp_path / "b").read_bytes() == first
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_an_empty_run(tmp_path):
    empty = {name: {c: v[:0] for c, v in columns.items()} for name, columns in sample_tables().items()}
    found = read(Trace(empty, sample_manifest()), tmp_path)
    assert (found.slices, found.instants) == ([], [])
