"""Explanations of runs: path, bounds, roofline, sensitivities against runs done by hand, differences."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace

import pytest

from archsim.cli import run_cli
from archsim.config import InputError
from archsim.report.explain import difference, explain
from archsim.report.table_figures import tornado_figure
from archsim.session import load, run
from archsim.sweep.sensitivity import rebuilt, sensitivities
from archsim.trace import Trace

JOB = {"target": "llama-3.1-8b", "stream": "synthetic:llama-3.1-8b:mbpp", "tokens": 10}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    base = tmp_path_factory.mktemp("explain")
    sets = ("system.npu.clock_hz=1.3 GHz", "system.flash=ufs_3_1")
    for name, schedule, given in (("flash", "flash_ar", ()), ("odd", "flash_ar", sets), ("chain", "chain_sd", ())):
        run(load(system="oneplus_12", schedule=schedule, job=JOB, sets=given), output=base / name)
    return base


def test_path_adds_up_and_flash_owns_decoding_from_flash(folders):
    trace = Trace.load(folders / "flash")
    found = explain(trace)
    total = sum(row["time_s"] for row in found["path"])
    assert total == pytest.approx(trace.duration_ps / 1e12, rel=1e-9)
    assert found["path"][0]["unit"] == "flash.queue"
    assert found["what_if"][0]["device"] == "flash"
    for row in found["what_if"]:
        assert row["run_at_least_s"] + row["owns_s"] == pytest.approx(total)


def test_roofline_never_exceeds_its_roof(folders):
    for name in ("flash", "chain"):
        for row in explain(Trace.load(folders / name))["roofline"]:
            assert 0 < row["of_roof"] <= 1.0 + 1e-9, row


def test_each_device_has_the_side_and_the_roof_that_bind_it(folders):
    trace = Trace.load(folders / "chain")
    rows = {row["device"]: row for row in explain(trace)["roofline"]}
    dram = next(pool for pool in trace.manifest["pools"] if pool["name"] == "dram.bandwidth")
    assert (rows["flash"]["side"], rows["flash"]["ops_per_s"]) == ("memory", 0)
    for name in ("npu", "cpu"):
        row = rows[name]
        assert 0 < row["peak_bytes_per_s"] <= dram["capacity"]
        assert row["ridge_ops_per_byte"] == pytest.approx(row["peak_ops_per_s"] / row["peak_bytes_per_s"])
        assert (row["side"] == "compute") == (row["ops_per_byte"] >= row["ridge_ops_per_byte"])
        roof = min(row["peak_ops_per_s"], row["ops_per_byte"] * row["peak_bytes_per_s"])
        assert row["of_roof"] == pytest.approx(row["ops_per_s"] / roof)


def test_sensitivities_agree_with_runs_done_by_hand(folders):
    source, sets = rebuilt(Trace.load(folders / "flash"))
    path = "system.flash.stream_bytes_per_s"
    (row,) = sensitivities(source, sets=sets, paths=[path], step=0.05)
    times = []
    for factor in (0.95, 1.05):
        moved = load(system="oneplus_12", schedule="flash_ar", job=JOB, sets=(f"{path}={row['value'] * factor} B/s",))
        times.append(run(moved, trace="off").summary["request_latency_s"])
    by_hand = math.log(times[1] / times[0]) / math.log(1.05 / 0.95)
    assert row["latency"] == pytest.approx(by_hand, rel=0.05)
    assert row["latency"] < -0.3
    assert row["area"] == 0


def test_a_run_with_overrides_is_rebuilt_with_them(folders):
    trace = Trace.load(folders / "odd")
    source, sets = rebuilt(trace)
    assert load(source, sets=sets).digest == trace.manifest["config_digest"]
    (row,) = sensitivities(source, sets=sets, paths=["system.npu.clock_hz"])
    assert row["note"] == ""
    assert row["latency"] < -0.05


def test_changed_machine_is_noticed(folders):
    trace = Trace.load(folders / "flash")
    trace.manifest["config"]["system"]["devices"]["npu"]["spec"]["policy_one"] = "nonsense"
    with pytest.raises(InputError):
        rebuilt(trace)


def test_difference_adds_up(folders):
    one, other = Trace.load(folders / "flash"), Trace.load(folders / "chain")
    found = difference(one, other)
    change = sum(row["change_s"] for row in found["time"])
    per_token = [t.duration_ps / 1e12 / JOB["tokens"] for t in (one, other)]
    assert change == pytest.approx(per_token[1] - per_token[0], rel=1e-9)
    assert found["time"][0]["unit"] == "flash.queue"
    joules = {row["what"]: row for row in found["summary"]}["energy_per_token_j"]
    assert sum(row["change_j"] for row in found["energy"]) == pytest.approx(joules["b"] - joules["a"], rel=1e-9)


def test_commands(folders, capsys, tmp_path):
    run_folder = str(folders / "flash")
    figure = tmp_path / "t.png"
    options = ["--param", "system.flash.command_ps", "--figure", str(figure), "--json"]
    assert run_cli(["explain", run_folder, *options]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["sensitivity"][0]["latency"] > 0
    assert figure.stat().st_size > 1000
    assert run_cli(["diff", run_folder, str(folders / "chain"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["per"] == "token"
    assert run_cli(["explain", run_folder]) == 0
    assert run_cli(["diff", run_folder, run_folder]) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--figure", "x.png"], "--figure draws the sensitivities; give --sensitivity or --param too"),
        (["--param", "system.npu.nothing"], "system.npu.nothing is no number of the machine"),
        (["--sensitivity", "--step", "0.7"], "step 0.7: it must lie between 1e-06 and 0.5"),
    ],
)
def test_wrong_options(folders, capsys, options, message):
    assert run_cli(["explain", str(folders / "flash"), *options]) == 2
    assert message in capsys.readouterr().err


def test_tornado_needs_something_to_draw():
    with pytest.raises(InputError, match="a tornado needs"):
        tornado_figure([])
    with pytest.raises(InputError, match="nothing to draw"):
        tornado_figure([{"path": "a", "latency": 0.0, "energy": None, "area": 0.0}])


SYNC = {
    "kind": "flash",
    "read_bytes_per_s": "100 MB/s",
    "request_bytes": "128 KiB",
    "period_ps": "50 ms",
    "stop_ps": "2 s",
}
ALONE = {"system": "oneplus_12", "schedule": {"name": "flash_ar"}, "job": JOB, "background": {"sync": SYNC}}
FIXED = ("job.arrivals=fixed", "job.arrival_period_ps=2 s", "job.prompts=2")
REBUILT = {
    "streams and a rate": (
        "camera_background",
        ("job.prompts=2", "job.arrivals=poisson", "job.arrival_rate_hz=0.1 Hz", "background.camera=none"),
    ),
    "a stream changed": ("chat_turns", ("background.display.read_bytes_per_s=3 GB/s",)),
    "a stream without part": (ALONE, ()),
    "model, part, period": (
        "long_context_32k",
        (*FIXED, "model.target.layers=2", "system.flash=ufs_3_1", "system.flash.queue_depth=16"),
    ),
}


@pytest.mark.parametrize("case", REBUILT)
def test_any_run_is_rebuilt_from_its_manifest(case):
    file, sets = REBUILT[case]
    resolved = load(file, sets=sets)
    stored = json.loads(json.dumps(resolved.data))
    source, again = rebuilt(SimpleNamespace(manifest={"config": stored, "config_digest": resolved.digest}))
    assert load(source, sets=again).digest == resolved.digest
    ranges = {row.path for row in resolved.rows if row.range is not None and "set on" not in row.source}
    assert ranges <= {row.path for row in load(source, sets=again).rows if row.range is not None}


def test_what_differs_from_a_stored_run_is_named():
    resolved = load("chat_turns")
    stored = json.loads(json.dumps(resolved.data))
    stored["background"]["display"]["spec"]["period_ps"] = "nonsense"
    with pytest.raises(InputError, match=r"period_ps"):
        rebuilt(SimpleNamespace(manifest={"config": stored, "config_digest": "other"}))
    stored = json.loads(json.dumps(resolved.data))
    stored["model"]["target"]["spec"]["gone"] = 3
    with pytest.raises(InputError, match=r"model\.target\.spec\.gone differs"):
        rebuilt(SimpleNamespace(manifest={"config": stored, "config_digest": "other"}))


def test_a_run_of_a_file_that_is_on_no_path_is_rebuilt_beside_it(tmp_path, monkeypatch):
    (tmp_path / "mine.yaml").write_text(
        "kind: system\nname: mine\nbase: oneplus_12.yaml\ndevices:\n  flash:\n    part: ufs_4_0\n    spec:\n"
        "      queue_depth: {value: 16, source: 'assumed: half', range: [8, 32]}\n"
    )
    monkeypatch.chdir(tmp_path)
    resolved = load({**ALONE, "system": "./mine.yaml"})
    kept = SimpleNamespace(manifest={"config": json.loads(json.dumps(resolved.data)), "config_digest": resolved.digest})
    source, again = rebuilt(kept)
    found = {row.path: row for row in load(source, sets=again).rows}["system.flash.queue_depth"]
    assert (found.value, found.range) == (16, (8, 32))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    with pytest.raises(InputError, match=r"system 'mine' is in no folder of files; go to the folder of mine\.yaml"):
        rebuilt(kept)
