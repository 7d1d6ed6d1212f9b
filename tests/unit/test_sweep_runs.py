"""Sweeps as they are run: resumed, repeated, in other processes, and wrong ones by exact message."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from archsim.cli import run_cli
from archsim.config import InputError, SweepSpec
from archsim.report.answers import unit_of
from archsim.sweep import executors
from archsim.sweep.executors import drain, executor
from archsim.sweep.forecast import estimate
from archsim.sweep.points import points
from archsim.sweep.runner import load_sweep, sweep
from archsim.sweep.search import search
from archsim.sweep.store import Memory, Store
from archsim.sweep.tables import means, pareto

RUN = {
    "name": "small",
    "system": "oneplus_12",
    "schedule": {"name": "chain_sd"},
    "job": {"target": "smollm2-135m", "stream": "synthetic:llama-3.1-8b:mbpp", "tokens": 8},
}
AXES = {"job.dram_fraction": [0, 1], "schedule.length": [2, 4], "job.seed": [0, 1]}


def small(**fields):
    return {"name": "small", "run": RUN, "axes": AXES, **fields}


def files(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.glob("table.*")) + sorted(folder.glob("means.*"))}


@pytest.fixture
def only_workers(monkeypatch):
    """All points but the first run in workers."""
    monkeypatch.setattr(executors, "START_S", 0.0)
    monkeypatch.setattr(executors, "_until_awake", lambda *_: None)


def test_same_bytes_for_any_worker_count_and_after_a_resume(tmp_path, only_workers):
    whole = sweep(small(repeat=["job.seed"]), output=tmp_path / "one")
    assert (whole.ran, whole.reused, whole.failed) == (8, 0, 0)
    pooled = sweep(small(repeat=["job.seed"]), output=tmp_path / "two", workers=2)
    assert files(tmp_path / "one") == files(tmp_path / "two")
    assert pooled.rows == whole.rows
    # cut the record in the middle of its fifth line, as a killed process leaves it
    record = tmp_path / "one" / "points.jsonl"
    lines = record.read_bytes().splitlines(keepends=True)
    record.write_bytes(b"".join(lines[:4]) + lines[4][: len(lines[4]) // 2])
    for table in files(tmp_path / "one"):
        (tmp_path / "one" / table).unlink()
    again = sweep(small(repeat=["job.seed"]), output=tmp_path / "one")
    assert (again.ran, again.reused) == (4, 4)
    assert files(tmp_path / "one") == files(tmp_path / "two")
    assert sweep(small(repeat=["job.seed"]), output=tmp_path / "one").ran == 0


def test_table_holds_axes_as_numbers_with_units(tmp_path):
    import pyarrow.parquet as pq

    fields = small(axes={"system.npu.vtcm_bytes": ["4 MiB", "8 MiB"]}, objectives={"area_mm2": "min"})
    made = sweep(fields, output=tmp_path / "s")
    assert [row["system.npu.vtcm_bytes"] for row in made.rows] == [4 << 20, 8 << 20]
    assert [row["pareto"] for row in made.rows] == [True, False]
    schema = pq.read_schema(tmp_path / "s" / "table.parquet")
    units = {field.name: field.metadata[b"unit"] for field in schema}
    assert units["system.npu.vtcm_bytes"] == b"B"
    assert units["decode_tokens_per_s"] == b"1/s"
    assert units["area_mm2"] == b"mm2"
    assert len(made.frame()) == 2


def test_a_failing_point_is_kept_with_its_error_and_the_rest_go_on(tmp_path):
    made = sweep(small(axes={"job.prompt_tokens": [20, 1_000_000], "job.tokens": [4, 8]}), output=tmp_path / "s")
    assert [row["status"] for row in made.rows] == ["ok", "ok", "failed", "failed"]
    assert made.failed == 2
    assert made.rows[2]["error"].startswith("the job needs")
    assert made.rows[2]["decode_tokens_per_s"] is None


def test_quantities_of_refused_points_are_numbers_too(tmp_path):
    axes = {"system.flash.stream_bytes_per_s": ["2 GB/s", "9 GB/s"]}  # above the link
    made = sweep(small(axes=axes), output=tmp_path / "s")
    assert [row["status"] for row in made.rows] == ["ok", "failed"]
    assert [row["system.flash.stream_bytes_per_s"] for row in made.rows] == [2e9, 9e9]


def test_constraints_mark_points(tmp_path):
    area = sweep(small(axes={"system.npu.vtcm_bytes": ["4 MiB", "64 MiB"]}), output=tmp_path / "a").rows
    bound = (area[0]["area_mm2"] + area[1]["area_mm2"]) / 2
    fields = small(axes={"system.npu.vtcm_bytes": ["4 MiB", "64 MiB"]}, constraints={"area_mm2": {"max": bound}})
    assert [row["status"] for row in sweep(fields, output=tmp_path / "b").rows] == ["ok", "infeasible"]


def test_killed_sweep_goes_on_and_ends_with_the_same_table(tmp_path):
    file = tmp_path / "kill.yaml"
    axes = {"job.dram_fraction": [0, 0.5, 1], "schedule.length": [1, 2, 3, 4], "job.seed": [0, 1, 2]}
    (tmp_path / "small.yaml").write_text(json.dumps({"kind": "run", **RUN}))
    file.write_text(json.dumps({"kind": "sweep", "name": "kill", "run": "small.yaml", "axes": axes}))
    command = [sys.executable, "-m", "archsim", "sweep", str(file), "-o", str(tmp_path / "killed")]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=os.getcwd())
    record = tmp_path / "killed" / "points.jsonl"
    until = time.monotonic() + 120
    while time.monotonic() < until and not (record.exists() and record.read_bytes().count(b"\n") >= 5):
        time.sleep(0.05)
    child.send_signal(signal.SIGKILL)
    child.wait()
    before = record.read_bytes().count(b"\n")
    assert 5 <= before < 36
    assert not list((tmp_path / "killed").glob("table.*"))
    made = sweep(file, output=tmp_path / "killed")
    assert made.reused >= before - 1
    sweep(file, output=tmp_path / "whole")
    assert files(tmp_path / "killed") == files(tmp_path / "whole")


def test_estimate_counts_before_it_runs():
    found = estimate(small())
    assert found["points"] == 8
    assert found["time_s"] == pytest.approx(8 * found["cpu_s_per_point"])


def test_search_is_resumable_and_finds_the_better_end(tmp_path):
    fields = {
        **small(axes={"schedule.length": [1, 2, 3, 4, 6]}),
        "objectives": {"decode_tokens_per_s": "max"},
    }
    first = search(fields, trials=3, output=tmp_path / "s")
    more = search(fields, trials=12, output=tmp_path / "s")
    assert (more.ran, more.reused) == (2, 3)
    assert more.rows[:3] == [{**row, "pareto": again["pareto"]} for row, again in zip(first.rows, more.rows)]
    front = [row for row in more.rows if row["pareto"]]
    assert {row["decode_tokens_per_s"] for row in front} == {max(row["decode_tokens_per_s"] for row in more.rows)}
    straight = search(fields, trials=12, output=tmp_path / "t")
    assert straight.rows == more.rows


def test_pareto_by_hand():
    rows = [
        {"point": i, "status": status, "a": a, "b": b}
        for i, (status, a, b) in enumerate(
            [("ok", 1, 5), ("ok", 2, 3), ("ok", 2, 4), ("ok", 3, 3), ("failed", 0, 0), ("ok", 1, 5), ("ok", 9, None)]
        )
    ]
    assert pareto(rows, {"a": "min", "b": "min"}) == {0, 1, 5}
    assert pareto(rows, {"a": "max", "b": "min"}) == {3}


def test_means_by_hand():
    rows = [
        {"point": i, "x": i // 2, "s": i, "status": "ok", "v": v, "error": ""}
        for i, v in enumerate((1.0, 3.0, 4.0, 8.0))
    ]
    spec = SweepSpec(run="r", axes={"x": [0, 1], "s": [0, 1]}, repeat=["s"], constraints={"v": {"max": 5}})
    made = means(rows, spec)
    assert [(row["x"], row["n"], row["v"], row["status"]) for row in made] == [
        (0, 2, 2.0, "ok"),
        (1, 2, 6.0, "infeasible"),
    ]
    assert made[0]["v.ci95"] == pytest.approx(12.706 * 2**0.5 / 2**0.5)


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("ttft_s", "s"),
        ("decode_tokens_per_s", "1/s"),
        ("x_bytes_per_s", "B/s"),
        ("energy_j", "J"),
        ("phases.io", "s"),
        ("bytes.dram", "B"),
        ("steps", ""),
    ],
)
def test_units_by_name(name, unit):
    assert unit_of(name) == unit


WRONG = [
    ({"axes": {"job.tokenz": [1]}}, "axes.job.tokenz: unknown field 'tokenz'; did you mean 'tokens'?"),
    ({"axes": {"system.npu.vtcm_bytes": ["4 GHz"]}}, "axes.system.npu.vtcm_bytes:"),
    ({"axes": {}}, "sweep: a sweep needs at least one axis"),
    ({"zip": [["job.seed", "job.x"]]}, "sweep: 'job.x' is no axis"),
    ({"repeat": ["job.x"]}, "sweep: 'job.x' is no axis"),
    ({"constraints": {"area_mm2": {}}}, "sweep: constraints.area_mm2: give min, max or both"),
    ({"objectives": {"speed": "max"}, "axes": {"job.seed": [0]}}, "the runs have no result 'speed'"),
]


@pytest.mark.parametrize(("fields", "message"), WRONG)
def test_wrong_sweeps_are_one_line(fields, message, tmp_path):
    with pytest.raises(InputError) as caught:
        sweep(small(**fields), output=tmp_path / "s")
    assert message in caught.value.message
    assert "\n" not in caught.value.message


def test_folder_of_another_sweep_or_of_other_files_is_refused(tmp_path):
    sweep(small(axes={"job.seed": [0]}), output=tmp_path / "s")
    with pytest.raises(InputError, match="belongs to another sweep"):
        sweep(small(axes={"job.seed": [1]}), output=tmp_path / "s")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("x")
    with pytest.raises(InputError, match=r"holds other files \(letter.txt\)"):
        sweep(small(axes={"job.seed": [0]}), output=tmp_path / "full")


def test_two_at_once_in_one_folder_are_refused(tmp_path):
    import fcntl

    sweep(small(axes={"job.seed": [0]}), output=tmp_path / "s")
    record = tmp_path / "s" / "points.jsonl"
    with record.open("a") as stream:
        stream.write('{"key": "half a li')  # the other process is in the middle of it
    before = record.read_bytes()
    with (tmp_path / "s" / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(InputError, match="another archsim is writing into it"):
            sweep(small(axes={"job.seed": [0]}), output=tmp_path / "s")
        assert record.read_bytes() == before


def test_command_line(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.yaml").write_text(json.dumps({"kind": "run", **RUN}))
    (tmp_path / "s.yaml").write_text(
        json.dumps({"kind": "sweep", "name": "s", "run": "small.yaml", "axes": {"job.seed": [0, 1]}})
    )
    assert run_cli(["sweep", "s.yaml", "-o", "out", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["ran"], len(document["rows"])) == (2, 2)
    assert run_cli(["sweep", "s.yaml", "--estimate", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["points"] == 2
    assert run_cli(["sweep", "s.yaml", "-j", "0"]) == 2
    assert run_cli(["sweep", "none.yaml"]) == 2
    assert run_cli(["search", "s.yaml", "--trials", "2"]) == 2
    assert "objectives" in capsys.readouterr().err


def test_points_of_a_loaded_sweep():
    assert len(points(load_sweep(small()).spec)) == 8


def test_workers_use_one_thread_each(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("NUMBA_NUM_THREADS", raising=False)
    with executor(2, None) as (pool, at_once):
        asked = [pool.submit(os.getenv, name) for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS")]
        assert [future.result() for future in asked] == ["1", "1"]
        assert at_once == 2
    assert os.environ["OMP_NUM_THREADS"] == "7"
    assert "NUMBA_NUM_THREADS" not in os.environ


def test_less_work_than_the_start_of_a_worker_is_done_here(monkeypatch):
    monkeypatch.setattr(executors, "START_S", 60.0)
    made = Memory()
    calls = [(_pid, (i,)) for i in range(4)]
    assert drain(list("abcd"), calls, made, "", workers=2) == 4
    assert {result["pid"] for result in made.done.values()} == {os.getpid()}


def _pid(_: int) -> dict[str, int]:
    return {"pid": os.getpid()}


def test_results_are_read_from_their_file(tmp_path):
    with (store := Store(tmp_path / "s", {"name": "s"})).held():
        for i in range(3):
            store.add(str(i), {"status": "ok", "value": i / 3, "error": "é\u2028"})
        assert dict(store.done) == {str(i): {"status": "ok", "value": i / 3, "error": "é\u2028"} for i in range(3)}
    with (again := Store(tmp_path / "s", {"name": "s"})).held():
        assert dict(again.done) == dict(store.done)
        (tmp_path / "s" / "points.jsonl").write_text("{}\n" * 9)
        with pytest.raises(InputError, match="was changed while it was in use"):
            again.done["1"]


def test_every_axis_is_shown_with_its_results(tmp_path):
    run = {**RUN, "background": {"display": "display_60hz"}}
    axes = {"background.display.read_bytes_per_s": ["1 GB/s", "2 GB/s"], "schedule": ["chain_sd"]}
    found = sweep({"name": "s", "run": run, "axes": axes, "set": {"job.tokens": 2}}, output=tmp_path / "s")
    assert [row["background.display.read_bytes_per_s"] for row in found.shown] == [1e9, 2e9]
    assert set(axes) <= set(found.shown[0])
    assert "point" not in found.shown[0]
