"""Background streams: what a run file may say, what a run then does, and that nothing is lost or hidden."""

import re

import numpy as np
import pytest

from archsim.config import InputError, load_config, names
from archsim.devices.background import KINDS, due_amount
from archsim.report.background import background_rows
from archsim.report.cautions import cautions
from archsim.report.energy import energy
from archsim.report.owner import owner
from archsim.report.traffic import traffic
from archsim.session import load, replay, run
from archsim.system import System
from archsim.trace import Trace

JOB = {"target": "smollm2-135m", "stream": "recorded:exit_layers:25", "tokens": 4, "prompt_tokens": 16}
PHONE = {"system": "oneplus_12", "schedule": {"name": "resident_ar"}, "job": JOB}
ALL = {
    "display": "display_60hz",
    "camera": {"part": "camera_4k30", "period_ps": "5 ms"},
    "idle": "android_idle",
    "paging": "android_paging",
}


def simulated(streams, sets=(), **options):
    return run(load({**PHONE, "background": streams}, sets=sets), **{"trace": "off", **options})


@pytest.fixture(scope="module")
def all_streams(tmp_path_factory):
    folder = tmp_path_factory.mktemp("background") / "run"
    return simulated(ALL, trace="tasks", output=folder), folder


def test_a_run_without_the_block_resolves_to_what_it_was():
    assert "background" not in load(PHONE).data
    assert load({**PHONE, "background": {}}).digest == load(PHONE).digest
    taken_away = load({**PHONE, "background": ALL}, sets=[f"background.{name}=none" for name in ALL])
    assert taken_away.digest == load(PHONE).digest


def test_streams_by_part_by_kind_and_by_set():
    mine = {"kind": "dram", "read_bytes_per_s": "2 GB/s", "period_ps": "4 ms"}
    sets = ["background.mine.read_bytes_per_s=3 GB/s", "background.screen=display_60hz", "background.screen.jitter=0.5"]
    resolved = load({**PHONE, "background": {"mine": mine}}, sets=sets)
    data = resolved.data["background"]
    assert data["mine"]["device"] == "dram_stream"
    assert data["mine"]["spec"]["read_bytes_per_s"] == 3e9
    assert data["screen"]["part"] == "display_60hz"
    assert data["screen"]["spec"]["jitter"] == 0.5
    assert resolved.sources["background.mine.period_ps"].text == "chosen by the run"
    assert resolved.sources["background.screen.read_bytes_per_s"].text.startswith("derived: 3168 x 1440")
    assert {row.path for row in resolved.rows} >= {"background.mine", "background.mine.period_ps", "background.screen"}


def test_the_display_is_its_resolution_times_its_rate():
    spec = load_config("part", "display_60hz").data["spec"]
    assert spec["read_bytes_per_s"] == pytest.approx(3168 * 1440 * 4 * 60, rel=1e-3)
    assert spec["period_ps"] == round(1e12 / 60)
    spec = load_config("part", "camera_4k30").data["spec"]
    assert spec["read_bytes_per_s"] == pytest.approx(3840 * 2160 * 30 * (1.25 + 1.5 + 1.5), rel=1e-3)


PARTS = [name for name in names("part") if load_config("part", name).data["device"] in KINDS.values()]


@pytest.mark.parametrize("name", PARTS)
def test_every_number_of_a_shipped_stream_has_a_source_and_a_range(name):
    part = load_config("part", name)
    for path, source in part.sources.items():
        if not source.text.startswith("default of"):
            assert source.text.startswith(("derived:", "assumed:")), path
            assert source.range is not None or not isinstance(part.data["spec"][path.partition(".")[2]], int | float), (
                path
            )


BAD = {
    "needs either 'part' or 'kind'": {"x": {"period_ps": "5 ms"}},
    "unknown kind 'dma'": {"x": {"kind": "dma"}},
    "the machine has a device 'npu'": {"npu": "display_60hz"},
    "is not a stream's name": {"X y": "display_60hz"},
    "is a flash; give one of dram_stream": {"x": "ufs_4_0"},
    "no part 'nowhere'": {"x": "nowhere"},
    "unknown field 'rate'": {"x": {"kind": "cpu", "rate": 1}},
    "greater than or equal to 1000000000": {"x": {"kind": "cpu", "core_share": 0.5, "period_ps": "1 us"}},
    "gives neither read_bytes_per_s nor write_bytes_per_s": {"x": {"kind": "dram", "period_ps": "5 ms"}},
    "must be after start_ps": {"x": {"part": "android_idle", "start_ps": "2 s", "stop_ps": "1 s"}},
    "needs more than threads 1": {"x": {"part": "android_idle", "core_share": 1.5}},
    "'0.5' should be greater than or equal to 1": {"x": {"part": "display_60hz", "headroom": 0.5}},
}
BEYOND = {
    "x asks for 70.0 GB/s and dram serves at most 62.0 GB/s": {
        "x": {"kind": "dram", "read_bytes_per_s": "70 GB/s", "period_ps": "5 ms"}
    },
    "x, y together ask for 80.0 GB/s of 62.0 GB/s": {
        name: {"kind": "dram", "read_bytes_per_s": "40 GB/s", "period_ps": "5 ms"} for name in "xy"
    },
    "x asks for 4.10 GB/s and flash in bursts of": {
        "x": {"kind": "flash", "read_bytes_per_s": "4.1 GB/s", "period_ps": "5 ms"}
    },
    "x, y together ask for": {
        name: {"kind": "flash", "read_bytes_per_s": "2.5 GB/s", "period_ps": "5 ms"} for name in "xy"
    },
    "holds 4 efficiency core(s) and cpu has 2": {"x": {"part": "android_idle", "threads": 4}},
    "the machine has no flash named 'disk'": {"x": {"part": "android_paging", "flash": "disk"}},
}


@pytest.mark.parametrize("message", BAD)
def test_a_bad_stream_is_refused_in_one_line(message):
    with pytest.raises(InputError, match=re.escape(message)) as error:
        load({**PHONE, "background": BAD[message]})
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("message", BEYOND)
def test_a_rate_that_can_never_be_served_is_refused(message):
    with pytest.raises(InputError, match=re.escape(message)):
        simulated(BEYOND[message])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("background.x.jitter=0.5", "the run has no stream 'x'"),
        ("background=display_60hz", "names no stream"),
        ("background.display.rate=1", "unknown field 'rate'"),
    ],
)
def test_a_bad_override_is_refused(text, message):
    with pytest.raises(InputError, match=re.escape(message)):
        load({**PHONE, "background": {"display": "display_60hz"}}, sets=[text])


def test_bursts_of_any_rate_add_up_without_drift():
    rate, period = 1.095e9, 16_666_666_667
    sizes = [due_amount(rate, k + 1, period) - due_amount(rate, k, period) for k in range(1000)]
    assert max(sizes) - min(sizes) <= 1
    assert sum(sizes) == 1_095_000_000 * 1000 * period // 10**12


def test_bytes_and_energy_of_streams_stand_apart_and_nothing_is_lost(all_streams):
    trace, summary = all_streams[0].trace, all_streams[0].summary
    streams = summary["background"]
    assert list(streams) == list(ALL)
    moved = traffic(trace)
    for what in moved:
        apart = summary["bytes"].get(what, 0) + sum(stream["bytes"].get(what, 0) for stream in streams.values())
        assert abs(apart - moved[what]) <= len(ALL) + 1  # each part is rounded down
    joule = summary["energy_j"] + sum(stream["energy_j"] for stream in streams.values())
    assert joule == pytest.approx(energy(trace).total_j, rel=1e-12)
    assert all(stream["energy_j"] > 0 for stream in streams.values())
    assert "background" not in summary["phases"]


def test_what_was_due_is_served_or_left_over(all_streams):
    trace, streams = all_streams[0].trace, all_streams[0].summary["background"]
    rows, label = trace.rows, np.append(trace.blocks["label"], "")[trace.row_block]
    for name, stream in streams.items():
        unit = "core_s" if stream["kind"] == "cpu" else "bytes"
        assert stream[f"due_{unit}"] == pytest.approx(stream[f"served_{unit}"] + stream[f"backlog_{unit}"])
        assert stream["late_bursts"] == 0
        if stream["kind"] == "dram":
            done = int(rows["done"][(label == f"background.{name}") & (trace.row_op >= 0)].sum()) >> 28
            assert done == pytest.approx(stream["served_bytes"], abs=stream["bursts"])


def test_a_row_is_a_burst_so_the_trace_stays_bounded(all_streams):
    trace = all_streams[0].trace
    label = np.append(trace.blocks["label"], "")[trace.row_block]
    for name, entry in trace.manifest["config"]["background"].items():
        mine = (label == f"background.{name}") & (trace.row_op >= 0)
        assert 0 < mine.sum() <= trace.duration_ps // entry["spec"]["period_ps"] + 1


def test_replay_is_identical(all_streams):
    outcome = replay(all_streams[1])
    assert outcome["identical"], outcome["difference"]
    assert Trace.load(all_streams[1]).digest == all_streams[0].summary["digest"]


def test_the_run_ends_with_the_job_and_streams_own_none_of_its_path(all_streams):
    trace = all_streams[0].trace
    ends = trace.notes["time_ps"][trace.notes["kind"] == "end"]
    assert trace.duration_ps == ends.max()
    assert not any(unit.endswith(".burst") for unit in owner(trace))


def test_the_same_seed_draws_the_same_bursts_whatever_is_decoded():
    def starts(tokens, seed=0):
        trace = simulated({"idle": "android_idle"}, [f"job.tokens={tokens}", f"job.seed={seed}"]).trace
        mine = background_rows(trace) & (trace.row_op >= 0)
        return trace.rows["start_ps"][mine]

    few, many = starts(2), starts(6)
    assert len(many) > len(few) > 1
    assert np.array_equal(few[:-1], many[: len(few) - 1])
    assert not np.array_equal(starts(6, seed=1)[1:3], many[1:3])


def test_start_and_stop_bound_a_stream():
    sets = [
        "background.display.start_ps=10 ms",
        "background.display.stop_ps=30 ms",
        "background.display.period_ps=5 ms",
    ]
    result = simulated({"display": "display_60hz"}, sets)
    mine = background_rows(result.trace) & (result.trace.row_op >= 0)
    assert result.trace.rows["start_ps"][mine].tolist() == [10**10, 15 * 10**9, 20 * 10**9, 25 * 10**9]
    assert result.summary["background"]["display"]["due_bytes"] == due_amount(1.095e9, 4, 5 * 10**9)


def test_a_stream_that_cannot_keep_up_says_so():
    heavy = {"kind": "dram", "read_bytes_per_s": "58 GB/s", "period_ps": "2 ms", "inflight_bytes": "256 B"}
    result = simulated({"x": heavy}, ["job.tokens=12"])
    stream = result.summary["background"]["x"]
    assert stream["late_bursts"] > 0
    assert stream["late_max_s"] > 0
    assert stream["backlog_bytes"] == stream["due_bytes"] - stream["served_bytes"]
    assert stream["backlog_bytes"] > 58e9 * 2e-3
    assert any("x could not keep up" in line for line in cautions(result.trace))


def test_a_camera_slows_decoding_and_costs_the_phone_power():
    heavy = {"part": "camera_4k30", "write_bytes_per_s": "20 GB/s", "period_ps": "2 ms"}
    quiet, busy = simulated({}), simulated({"camera": heavy})
    assert busy.summary["itl_p50_s"] > quiet.summary["itl_p50_s"]
    assert busy.summary["bytes"] == quiet.summary["bytes"]
    assert busy.summary["mean_power_w"] > quiet.summary["mean_power_w"]


def test_the_machine_without_streams_is_untouched():
    resolved = load({**PHONE, "background": ALL})
    assert set(System.from_data(resolved.data["system"]).devices).isdisjoint(ALL)


def test_tables_and_perfetto_show_the_streams(all_streams, tmp_path):
    from archsim.report.document import document
    from archsim.report.perfetto import write_perfetto

    trace = all_streams[0].trace
    made = document(trace, "all")
    assert [row["stream"] for row in made["tables"]["Background streams"]] == list(ALL)
    assert "Background streams" not in document(simulated({}).trace, "none")["tables"]
    raw = write_perfetto(trace, tmp_path / "trace.pf").read_bytes()
    assert b"camera.burst" in raw
    assert b"display.burst" in raw
