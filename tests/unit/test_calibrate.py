"""``archsim calibrate``: parameters and ranges, the overlay it writes, and what it refuses."""

from __future__ import annotations

import json

import pytest

import archsim
from archsim.cli import run_cli
from archsim.config import InputError, load_config
from archsim.measurements.machine import Machine
from archsim.measurements.overlay import places
from archsim.measurements.parameters import Parameter, parameters, parse_ranges

UNPACK = "system.cpu.unpack_cycles_per_block"
SYNC = "system.cpu.sync_ps"
HEAD = "operator,shape,dtype,value,unit,device"


def table(tmp_path, *lines, head=HEAD):
    path = tmp_path / "desk.csv"
    path.write_text("\n".join((head, *lines)) + "\n")
    return path


@pytest.fixture
def rows(tmp_path):
    """Three products on the CPU with 10 % more than the default's time, and one on a device that is not there."""
    lines = ("1x1024x4096,Q4_0,107,us,cpu", "1x4096x4096,Q4_0,385,us,cpu", "1x4096x14336,Q4_0,1330,us,cpu")
    return table(tmp_path, *(f"matmul,{line}" for line in lines), "matmul,1x64x64,Q4_0,1,us,gpu")


def calibrate(*arguments):
    return run_cli(["calibrate", *map(str, arguments)])


def test_the_overlay_is_a_system_that_says_what_it_was_fitted_to(rows, tmp_path, capsys):
    overlay = tmp_path / "mine.yaml"
    assert calibrate(rows, "--system", "oneplus_12", "--fit", UNPACK, "-o", overlay, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    (found,) = document["parameters"]
    assert found["status"] == "identified"
    assert document["skipped"][0]["label"] == "matmul 1x64x64 Q4_0"
    assert document["overlay"] == str(overlay)
    resolved = load_config("system", overlay, ())
    source = resolved.sources[UNPACK]
    assert source.text == "fitted: desk.csv, rows 2-4"
    assert source.range == (found["interval_low"], found["interval_high"])
    assert resolved.data["devices"]["cpu"]["spec"]["unpack_cycles_per_block"] == found["value"]
    plain = load_config("system", "oneplus_12", ()).data["devices"]
    assert {name for name in plain if resolved.data["devices"][name] != plain[name]} == {"cpu"}
    again = archsim.compare(rows, str(overlay))
    assert again.rows[0].ratio == pytest.approx(document["rows"][0]["fitted_ratio"])


def test_an_overlay_runs(rows, tmp_path):
    overlay = tmp_path / "mine.yaml"
    assert calibrate(rows, "--system", "oneplus_12", "--fit", UNPACK, "-o", overlay) == 0
    job = {"target": "qwen3-0.6b", "stream": "recorded:exit_layers", "tokens": 2, "prompt_tokens": 8}
    times = [
        archsim.run(archsim.load(system=system, schedule="cpu_ar", job=job), trace="off").summary["request_latency_s"]
        for system in ("oneplus_12", str(overlay))
    ]
    assert times[1] > times[0]


def test_overlays_of_overlays_keep_what_was_fitted_before(rows, tmp_path):
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    assert calibrate(rows, "--system", "oneplus_12", "--fit", UNPACK, "-o", first) == 0
    sets = ("--set", "system.npu.hvx_contexts=6")
    assert calibrate(rows, "--system", first, "--fit", SYNC, "-o", second, *sets) == 0
    resolved = load_config("system", second, ())
    assert resolved.sources[UNPACK].text == "fitted: desk.csv, rows 2-4"
    assert resolved.sources[SYNC].text.startswith("fitted: desk.csv, rows 2-4")
    assert resolved.data["devices"]["npu"]["spec"]["hvx_contexts"] == 6
    assert resolved.sources["system.npu.hvx_contexts"].text == "set for the calibration"


def test_a_machine_with_overrides_of_its_own_keeps_them(rows, tmp_path):
    overlay = tmp_path / "mine.yaml"
    assert calibrate(rows, "--system", "llada_oneplus_12", "--fit", UNPACK, "-o", overlay) == 0
    assert load_config("system", overlay, ()).data["devices"]["cpu"]["spec"]["mac_cycles_per_block"] == 11.08


def test_an_existing_file_is_replaced_only_by_force(rows, tmp_path, capsys):
    overlay = tmp_path / "mine.yaml"
    overlay.write_text("precious\n")
    arguments = (rows, "--system", "oneplus_12", "--fit", UNPACK, "-o", overlay)
    assert calibrate(*arguments) == 2
    assert "exists; give --force to replace it" in capsys.readouterr().err
    assert overlay.read_text() == "precious\n"
    assert calibrate(*arguments, "--force") == 0
    assert overlay.read_text().startswith("kind: system\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["--fit", f"{UNPACK},{SYNC},system.cpu.norm_cycles,system.cpu.rope_cycles"],
            "4 parameters cannot be fitted to 3",
        ),
        (["--fit", "system.cpu.unpack"], "'system.cpu.unpack' is no number of oneplus_12; did you mean"),
        (["--fit", f"{UNPACK},{UNPACK}"], "names system.cpu.unpack_cycles_per_block twice"),
        (["--fit", " , "], "--fit names no parameter"),
        (["--fit", "system.flash.prime_hz"], "has no range; give --range system.flash.prime_hz=LOW..HIGH"),
        (["--fit", UNPACK, "--range", f"{UNPACK}=3"], "write PATH=LOW..HIGH"),
        (["--fit", UNPACK, "--range", f"{SYNC}=1 us..2 us"], "is not among the parameters of --fit"),
        (["--fit", SYNC, "--range", f"{SYNC}=1..2"], "'1' has no unit"),
        (["--fit", SYNC, "--range", f"{SYNC}=3 us..2 us"], "must go from a lower to a higher number"),
        (["--fit", UNPACK, "--tolerance", "0"], "--tolerance 0: it must lie between"),
        (["--fit", UNPACK, "--hold-out", "1"], "--hold-out 1: it must be a share"),
        (["--fit", UNPACK, "--seed", "-1"], "--seed -1: it must be 0 or more"),
        (["--fit", UNPACK, "-o", "{folder}/mine.txt"], "a system file ends in .yaml"),
        (["--fit", UNPACK, "-o", "{folder}/none/mine.yaml"], "there is no folder"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(rows, tmp_path, capsys, arguments, words):
    before = sorted(tmp_path.iterdir())
    filled = [text.format(folder=tmp_path) for text in arguments]
    assert calibrate(rows, "--system", "oneplus_12", *filled) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert words in lines[0]
    assert sorted(tmp_path.iterdir()) == before


def test_rows_are_held_out_by_share_or_by_the_file(rows, tmp_path):
    found = archsim.calibrate(rows, "oneplus_12", [UNPACK], hold_out=0.34, seed=1)
    assert sum(row.held_out for row in found.rows) == 1
    assert found.held_out.fitted < found.held_out.start
    marked = table(
        tmp_path,
        "matmul,1x1024x4096,Q4_0,107,us,cpu,no",
        "matmul,1x4096x4096,Q4_0,385,us,cpu,yes",
        head=HEAD + ",hold_out",
    )
    assert [row.held_out for row in archsim.calibrate(marked, "oneplus_12", [UNPACK]).rows] == [False, True]
    with pytest.raises(InputError, match="the file's column hold_out says already"):
        archsim.calibrate(marked, "oneplus_12", [UNPACK], hold_out=0.5)


def test_only_the_named_parameters_move_and_stay_in_their_ranges(rows):
    found = archsim.calibrate(rows, "oneplus_12", [UNPACK], ranges=[f"{UNPACK}=9..10.5"])
    (one,) = found.parameters
    assert one.value == 10.5
    assert (one.low, one.high) == (9.0, 10.5)
    assert one.status == "one-sided"
    assert one.beyond == "high"
    assert "stands at the high end of its range" in one.caution
    inside = archsim.calibrate(rows, "oneplus_12", [UNPACK]).parameters[0]
    assert (inside.beyond, inside.caution) == ("", "")


def test_results_are_frozen_and_the_same_every_time(rows):
    one, two = (archsim.calibrate(rows, "oneplus_12", [UNPACK, SYNC]) for _ in range(2))
    assert one == two
    with pytest.raises(AttributeError):
        one.tolerance = 1.0


def test_whole_numbers_and_scales():
    machine = Machine.load("oneplus_12")
    threads, sync, unpack = parameters(machine, ["system.cpu.threads", SYNC, UNPACK], {})
    assert (threads.counted, sync.counted, unpack.counted) == (True, False, False)
    assert (threads.values, sync.whole) == (range(1, 9), True)
    assert isinstance(sync.value(0.37), int)
    for one in (threads, sync, unpack):
        assert one.value(one.place(one.start)) == pytest.approx(one.start)
        assert (one.value(0.0), one.value(1.0)) == (one.low, one.high)
    assert sync.text(sync.start) == "10 us"
    assert Parameter("p", "", 1.0, 0.0, 2.0, False, False).value(0.5) == 1.0
    assert parse_ranges(["a.b = 1 us .. 2 us"]) == {"a.b": ("1 us", "2 us")}


def test_places_in_short():
    assert places(("line 3", "line 4", "line 5", "line 9")) == "3-5, 9"
    assert places(("[0]", "[1]")) == "0-1"
    assert places(("jobs[0]", "jobs[2]", "jobs[2]")) == "jobs[0], jobs[2]"
