"""Perfetto files are read back with the protobuf classes of the perfetto package."""

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos

from archsim.report import perfetto
from archsim.report.counters import counters
from archsim.report.depends import across
from archsim.report.energy import energy
from archsim.report.perfetto import write_perfetto
from archsim.session import load, run
from archsim.trace import Trace

sys.path.insert(0, str(Path(__file__).parent))
from test_page import layered
from test_report_sample import BYTE, US, sample, sample_manifest, sample_tables

BEGIN, END, INSTANT, COUNTER = (
    protos.TrackEvent.Type.Value(f"TYPE_{name}") for name in ("SLICE_BEGIN", "SLICE_END", "INSTANT", "COUNTER")
)


class Reading:
    """What a viewer sees: tracks, nested slices with arguments, arrows, instants, counter samples.

    Events are taken in the order of time, then of the file, as a viewer does; names are resolved from what was
    interned before. A slice is ``(track, name, category, begin, arrows out, notes, arrows in, end, depth)``.
    """

    def __init__(self, path):
        trace = protos.Trace()
        trace.ParseFromString(path.read_bytes())
        names = {"event_names": {}, "event_categories": {}, "debug_annotation_names": {}}
        self.tracks, self.parents, self.units = {}, {}, {}
        self.slices, self.instants, self.counters, opened = [], [], {}, {}
        assert trace.packet[0].sequence_flags == 3
        assert trace.packet[0].first_packet_on_sequence
        events = []
        for packet in trace.packet:
            assert packet.trusted_packet_sequence_id == 1
            for table, known in names.items():
                for entry in getattr(packet.interned_data, table):
                    assert entry.iid not in known
                    known[entry.iid] = entry.name
            if packet.HasField("track_descriptor"):
                track = packet.track_descriptor
                assert track.uuid not in self.tracks
                assert not track.parent_uuid or track.parent_uuid in self.tracks
                self.tracks[track.uuid], self.parents[track.uuid] = track.name, track.parent_uuid
                self.units[track.name] = track.counter.unit_name
                continue
            event = packet.track_event
            assert event.track_uuid in self.tracks
            assert not event.name_iid or event.name_iid in names["event_names"]
            assert all(i in names["event_categories"] for i in event.category_iids)
            assert all(note.name_iid in names["debug_annotation_names"] for note in event.debug_annotations)
            events.append((packet.timestamp, event))
        for time, event in sorted(events, key=lambda entry: entry[0]):
            where = self.tracks[event.track_uuid]
            if event.type == COUNTER:
                self.counters.setdefault(where, []).append((time, event.double_counter_value))
                continue
            notes = {
                names["debug_annotation_names"][note.name_iid]: note.string_value or note.int_value
                for note in event.debug_annotations
            }
            name = names["event_names"].get(event.name_iid)
            stack = opened.setdefault(event.track_uuid, [])
            if event.type == BEGIN:
                category = names["event_categories"][event.category_iids[0]]
                out, into = list(event.flow_ids), list(event.terminating_flow_ids)
                stack.append((where, name, category, time, out, notes, into))
            elif event.type == END:
                self.slices.append((*stack.pop(), time, len(stack)))
            else:
                assert event.type == INSTANT
                self.instants.append((time, name, notes))
        assert not any(opened.values()), "every slice ends"
        for track in set(self.tracks.values()):  # a slice lies whole inside the one around it: no partial overlap
            around = []
            for one in sorted((s for s in self.slices if s[0] == track), key=lambda s: (s[3], -s[7], s[8])):
                while around and around[-1][7] <= one[3] and one[8] <= around[-1][8]:
                    around.pop()
                assert not around or one[7] <= around[-1][7], (around[-1], one)
                around.append(one)

    def rows(self):
        return [entry for entry in self.slices if "row" in entry[5]]

    def kinds(self):
        return Counter(entry[2] for entry in self.slices)

    def arrows(self):
        """Pairs of slices by arrow; each arrow has one source and one target, in the order of time."""
        source, target = {}, {}
        for entry in self.slices:
            for flow in entry[4]:
                assert source.setdefault(flow, entry) is entry
            for flow in entry[6]:
                assert target.setdefault(flow, entry) is entry
        assert set(source) == set(target)
        for flow in source:
            assert source[flow][3] < target[flow][3]
            assert source[flow][7] <= target[flow][3]
        return [(source[flow], target[flow]) for flow in sorted(source)]


def read(trace, tmp_path, **options) -> Reading:
    return Reading(write_perfetto(trace, tmp_path / "run.pftrace", **options))


def test_slices_are_the_rows(tmp_path):
    found = read(sample(), tmp_path)
    rows = sample().rows
    ran = (rows["status"] != 2) & (rows["unit"] >= 0)
    assert len(found.rows()) == ran.sum() == 8
    assert Counter(entry[0] for entry in found.rows()) == {"flash.queue": 2, "npu.hmx": 5, "cpu.core": 1}
    for where, _, _, begin, _, notes, _, end, _ in found.rows():
        i = notes["row"]
        assert (begin, end) == (rows["start_ps"][i] // 1000, rows["end_ps"][i] // 1000)
        assert (notes["start_ps"], notes["end_ps"]) == (rows["start_ps"][i], rows["end_ps"][i])
        assert where == sample().unit_names[rows["unit"][i]]
    first = next(entry for entry in found.rows() if entry[5]["row"] == 1)
    assert first[1:3] == ("wq", "compute")
    assert first[5] == {
        "row": 1, "op": 1, "request": 0, "start_ps": 10 * US, "end_ps": 20 * US, "m": 5, "k": 20, "n": 10,
        "weight_bytes": 400, "dynamic_energy_pj": 1500,
    }  # fmt: skip
    assert [entry[5].get("status") for entry in found.rows() if entry[5]["row"] in (7, 9)] == ["cut", "cut"]
    outer = [entry for entry in found.slices if entry[2] == "block" and entry[3] <= first[3] and first[7] <= entry[7]]
    assert [(entry[1], entry[5]["block"]) for entry in outer if entry[0] == "npu.hmx"] == [("prefill", 0)]


def test_a_row_stands_in_its_operator_layer_pass_and_block(tmp_path):
    found = read(layered(), tmp_path, ps_per_tick=1)
    assert found.kinds() == {"block": 1, "layer": 6, "operator": 6, "io": 22, "owner": 2}
    assert {(entry[2], entry[8]) for entry in found.slices} == {
        ("block", 0), ("layer", 1), ("operator", 2), ("owner", 0), ("io", 1), ("io", 2), ("io", 3),
    }  # fmt: skip
    assert [entry[1] for entry in found.slices if entry[2] == "layer"] == [
        *("layer 0", "layer 1", "layer 2", "pass 1 layer 0", "pass 1 layer 1", "pass 1 layer 2"),
    ]
    parts = [entry for entry in found.rows() if entry[1] == "attn.q"]
    assert len(parts) == 12
    assert {entry[8] for entry in parts} == {3}


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
    found = read(sample(), tmp_path)
    arrows = [(a[5]["row"], b[5]["row"]) for a, b in found.arrows()]
    assert sorted(arrows) == [(0, 1), (1, 4), (4, 5), (5, 6), (6, 9)]
    owned = [(entry[1], entry[3], entry[7]) for entry in found.slices if entry[2] == "owner"]
    assert owned == [
        *(("flash.queue", 0, 10_000), ("npu.hmx", 10_000, 20_000), ("flash.queue", 20_000, 28_000)),
        *(("npu.hmx", 28_000, 38_000), ("cpu.core", 38_000, 39_000), ("wait", 39_000, 40_000)),
    ]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A speculative run with everything logged, and what its file says."""
    job = {"target": "smollm2-135m", "draft": "smollm2-135m", "stream": "recorded:exit_layers:25", "tokens": 4}
    resolved = load(
        {"name": "x", "system": "oneplus_12", "schedule": {"name": "chain_sd"}, "job": {**job, "prompt_tokens": 4}}
    )
    at = tmp_path_factory.mktemp("perfetto")
    trace = run(resolved, trace="full", output=at / "run").trace
    return trace, Reading(write_perfetto(trace, at / "run.pftrace"))


def test_a_whole_run_nests_and_its_arrows_are_dependencies_across_units(whole):
    trace, found = whole
    assert len(found.rows()) == (trace.ran & (trace.rows["unit"] >= 0)).sum()
    assert found.kinds()["layer"] > 30
    pairs = set(zip(*(side.tolist() for side in across(trace))))
    drawn = {(a[5]["row"], b[5]["row"]) for a, b in found.arrows()}
    assert drawn <= {(int(trace.rows["row"][a]), int(trace.rows["row"][b])) for a, b in pairs}
    assert len(drawn) > 0.9 * len(pairs) > 3  # but for those within one nanosecond
    assert all(a[0] != b[0] for a, b in found.arrows())


def test_counters_of_a_whole_run_are_the_traces(whole):
    trace, found = whole
    curves = {curve.name: curve for curve in counters(trace)}
    assert set(found.counters) == set(curves)
    assert {curve.kind for curve in curves.values()} == {"power", "pool", "store", "queue"}
    for name, curve in curves.items():
        told = dict(found.counters[name])  # the last of a nanosecond holds
        at = np.array(sorted(told))
        held = curve.value[np.searchsorted(curve.time_ps, at * 1000 + 999, "right") - 1]
        assert [told[t] for t in at.tolist()] == pytest.approx(held.tolist(), rel=1e-12)
        assert found.units[name] == curve.unit
    levels = trace.tables["levels_log"]
    for i, store in enumerate(trace.manifest["stores"]):
        mine = levels["store"] == i
        if mine.any():
            assert max(v for _, v in found.counters[store["name"]]) == max(levels["value"][mine].max(), store["level"])


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
