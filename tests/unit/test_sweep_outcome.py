"""What a sweep gives: a front of means, what is said of failed and of infeasible points, and its tables again."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import pytest

from archsim.cli import run_cli
from archsim.config import InputError
from archsim.config.sweeps import Span
from archsim.report.tables import read_table
from archsim.report.terminal import table_text
from archsim.sweep import runner, tables
from archsim.sweep.forecast import estimate
from archsim.sweep.outcome import load_result
from archsim.sweep.points import axis_values, ends
from archsim.sweep.runner import sweep
from archsim.sweep.search import search

RUN = {
    "name": "small",
    "system": "oneplus_12",
    "schedule": {"name": "chain_sd"},
    "job": {"target": "smollm2-135m", "stream": "synthetic:llama-3.1-8b:mbpp", "tokens": 4},
}
AXES = {"schedule.length": [1, 2, 3], "job.seed": [0, 1]}
#: Speed and cost by length and seed: length 2 has the best single seed in speed, length 1 the best mean in both.
FOUND = {
    (1, 0): (10.0, 1.0),
    (1, 1): (12.0, 1.0),
    (2, 0): (3.0, 2.0),
    (2, 1): (14.0, 2.0),
    (3, 0): (20.0, 9.0),
    (3, 1): (22.0, 9.0),
}


@pytest.fixture
def fake(monkeypatch):
    """Points whose results are known; none is simulated."""

    def simulate(run, fixed, point):
        speed, cost = FOUND[point["schedule.length"], point.get("job.seed", 0)]
        if speed is None:
            return {"status": "failed", "error": "no room"}
        return {"status": "ok", "error": "", "decode_tokens_per_s": speed, "cost_j": cost}

    monkeypatch.setattr(runner, "simulate", simulate)


def made(**fields):
    objectives = {"decode_tokens_per_s": "max", "cost_j": "min"}
    return {"name": "small", "run": RUN, "axes": AXES, "repeat": ["job.seed"], "objectives": objectives, **fields}


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Writes a sweep's file and gives its path; the current folder is empty but for it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.yaml").write_text(json.dumps({"kind": "run", **RUN}))

    def write(**fields):
        (tmp_path / "s.yaml").write_text(
            json.dumps({"kind": "sweep", **made(**fields), "name": "s", "run": "small.yaml"})
        )
        return "s.yaml"

    return write


def test_the_front_is_that_of_the_means(fake, tmp_path):
    found = sweep(made(), output=tmp_path / "s")
    assert [(row["decode_tokens_per_s"], row["pareto"]) for row in found.means] == [
        (11, True),
        (8.5, False),
        (21, True),
    ]
    assert [row["pareto"] for row in found.rows] == [True, True, False, False, True, True]
    front = found.tables["Pareto front of the means over job.seed, with 95 % confidence"]
    assert [row["schedule.length"] for row in front] == [1, 3]
    assert found.front[0]["decode_tokens_per_s.ci95"] == pytest.approx(12.706)
    assert front[0]["decode_tokens_per_s"] == "11 +- 13"
    assert len(found.tables["Means over job.seed, with 95 % confidence"]) == 3
    assert [row["pareto"] for row in read_table(tmp_path / "s" / "means.parquet")] == [True, False, True]
    assert load_result(tmp_path / "s").tables == found.tables


def test_draws_of_means_make_the_front_of_bands():
    spec = runner.load_sweep(made()).spec
    rows = [
        {
            "point": i,
            **dict(zip(AXES, key)),
            "status": "ok",
            "decode_tokens_per_s": FOUND[key][0],
            "cost_j": FOUND[key][1],
        }
        for i, key in enumerate(FOUND)
    ]
    draws = [
        [
            {"status": "ok", "decode_tokens_per_s": row["decode_tokens_per_s"] * c, "cost_j": row["cost_j"]}
            for c in (1, 2)
        ]
        for row in rows
    ]
    marked, averaged = tables._marked(rows, tables.means(rows, spec, draws), spec, draws)
    assert [row["front"] for row in averaged] == ["on front", "dominated", "on front"]
    assert [row["front"] for row in marked[::2]] == ["on front", "dominated", "on front"]


def test_the_page_and_the_figure_of_a_sweep_are_of_its_means(fake, tmp_path, capsys):
    sweep(made(), output=tmp_path / "s")
    page, figure = tmp_path / "p.html", tmp_path / "f.svg"
    assert run_cli(["report", str(tmp_path / "s"), "--html", str(page)]) == 0
    assert "3 means over job.seed" in page.read_text()
    assert run_cli(["plot", str(tmp_path / "s"), "--kind", "pareto", "-o", str(figure)]) == 0
    assert run_cli(["plot", str(tmp_path / "s"), "--kind", "energy", "-o", str(figure)]) == 2


def test_report_prints_what_the_sweep_printed(fake, files, capsys):
    assert run_cli(["sweep", files(), "-o", "out"]) == 0
    first = capsys.readouterr().out.rpartition("\n\n")[0]
    assert run_cli(["report", "out"]) == 0
    again = capsys.readouterr().out
    assert "Pareto front of the means over job.seed" in again
    assert again.rpartition("\n\n")[0] == first


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ({"decode_tokens_per_s": {"min": 100}}, "decode_tokens_per_s (min 100) comes nearest at 21"),
        ({"decode_tokens_per_s": {"min": 20}, "cost_j": {"max": 1}}, "is met by some, but never all by one"),
    ],
)
def test_constraints_that_nothing_meets_are_said(fake, files, capsys, bounds, words):
    assert run_cli(["sweep", files(constraints=bounds), "-o", "out"]) == 2
    said = capsys.readouterr().err.strip()
    assert said.startswith("archsim: no mean meets the constraints: ")
    assert words in said
    assert "\n" not in said
    assert {row["status"] for row in read_table("out/means.parquet")} == {"infeasible"}


def test_failed_points_are_said(fake, files, capsys, monkeypatch):
    monkeypatch.setitem(FOUND, (1, 0), (None, None))
    assert run_cli(["sweep", files(), "-o", "some"]) == 0
    assert capsys.readouterr().err.startswith("archsim: 1 of 6 points failed; point 0: no room (all reasons: column")
    for key in FOUND:
        monkeypatch.setitem(FOUND, key, (None, None))
    assert run_cli(["sweep", files(), "-o", "all"]) == 3
    assert "6 of 6 points failed" in capsys.readouterr().err


def searched(fake_search, tmp_path, trials, **fields):
    spec = {key: value for key, value in made(**fields).items() if key != "repeat"}
    spec["axes"] = fields.get("axes", {"schedule.length": [1, 2, 3]})
    return search(spec, trials=trials, output=tmp_path / "s")


@pytest.fixture
def fake_search(monkeypatch):
    """Points of a search by their length; counts how often each was simulated."""
    counts: dict[int, int] = {}

    def simulate(run, fixed, point):
        length = point["schedule.length"]
        counts[length] = counts.get(length, 0) + 1
        return {"status": "ok", "error": "", "decode_tokens_per_s": float(length), "cost_j": float(length)}

    monkeypatch.setattr("archsim.sweep.search.simulate", simulate)
    return counts


def test_a_search_tries_each_point_once_and_ends_with_the_space(fake_search, tmp_path):
    found = searched(fake_search, tmp_path, 14, axes={"schedule.length": [1, 2, 3, 4, 6, 8]})
    assert sorted(row["schedule.length"] for row in found.rows) == [1, 2, 3, 4, 6, 8]
    assert set(fake_search.values()) == {1}
    assert found.note == "all 6 points of the axes are tried, fewer than the 14 trials asked for"


def test_fewer_trials_than_before_do_not_shrink_the_table(fake_search, tmp_path):
    axes = {"schedule.length": {"low": 1, "high": 32, "step": 2}}
    first = searched(fake_search, tmp_path, 9, axes=axes)
    again = searched(fake_search, tmp_path, 3, axes=axes)
    assert len(first.rows) == 9
    assert again.rows[:9] == first.rows
    assert again.ran == 0
    assert all(row["schedule.length"] % 2 == 1 for row in first.rows)


def test_spans_snap_to_their_step():
    span = Span(low="64 KiB", high="1024 KiB", step="64 KiB", log=True)
    between = ends("x", span)
    assert [int(between.at(i / 7).split()[0]) % 65536 for i in range(8)] == [0] * 8
    assert between.at(1.0) == "1048576 B"
    assert len(axis_values("x", span)) == 16
    with pytest.raises(InputError, match="not in the unit of the bounds"):
        ends("x", Span(low="1 GHz", high="2 GHz", step=3))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"axes": {"job.tokens": {"low": 1, "high": 5, "steps": 0}}}, "axes.job.tokens.steps: 0 steps; 2 to 10000 can"),
        (
            {"axes": {"job.tokens": {"low": 1, "high": 5, "steps": 10**9}}},
            "1000000000 steps; 2 to 10000 can be asked for",
        ),
        ({"axes": {"job.tokenz": [1]}}, "axes.job.tokenz: unknown field 'tokenz'; did you mean 'tokens'?"),
        (
            {"axes": {"job.tokens": [1, 3]}, "where": ["job.tokens > 2"]},
            "where: write a condition in three fields: {left: job.tokens, op: '>', right: 2}",
        ),
    ],
)
@pytest.mark.parametrize("command", ["sweep", "check"])
def test_wrong_files_are_told_with_their_line(fake, files, capsys, command, fields, words):
    assert run_cli([command, files(repeat=[], **fields)]) == 2
    captured = capsys.readouterr()
    said = captured.err if command == "sweep" else captured.out + captured.err
    assert "s.yaml:1: " in said
    assert words in " ".join(said.split())


def test_a_part_of_another_device_is_told(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    flags = ["--set", "system.flash=sm8650_cpu", "--set", "job.tokens=2", "--trace", "off"]
    assert run_cli(["run", "lever_dram_40", *flags]) == 2
    assert "no memory in 'flash', which is a part of device cpu" in capsys.readouterr().err


def test_the_estimate_tells_refused_points_and_the_size_of_the_folder(tmp_path, monkeypatch):
    axes = {
        "system.flash.stream_bytes_per_s": ["2 GB/s", "3 GB/s", "9 GB/s"],
        "job.seed": [0, 1],
    }  # 9 is above the link
    plain = {"name": "small", "run": RUN, "axes": axes}
    found = estimate(plain)
    assert (found["points"], found["checked"], found["wrong"]) == (6, 6, 2)
    assert found["first_wrong"].startswith("point 4: ")
    sweep({**plain, "axes": {**axes, "system.flash.stream_bytes_per_s": ["2 GB/s"]}}, output=tmp_path / "s")
    size = sum(path.stat().st_size for path in (tmp_path / "s").iterdir())
    axes["system.flash.stream_bytes_per_s"] = ["2 GB/s"]
    assert estimate(plain)["disk_bytes"] == pytest.approx(size, rel=0.1)


def test_a_changed_result_is_run_again_with_a_word(fake, tmp_path):
    first = sweep(made(), output=tmp_path / "s")
    record = tmp_path / "s" / "points.jsonl"
    record.write_text(record.read_text().replace("cost_j", "cost_k", 1))
    again = sweep(made(), output=tmp_path / "s")
    assert (again.ran, again.reused) == (1, 5)
    assert "1 line(s) are damaged or were changed" in again.note
    assert again.rows == first.rows


def test_a_sweep_without_dask_leaves_no_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("archsim.sweep.executors.find_spec", lambda name: None)
    with pytest.raises(InputError, match="pip install distributed"):
        sweep(made(), output=tmp_path / "s", dask="nowhere")
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("there", [False, True])
def test_a_cluster_that_does_not_answer_leaves_nothing_new(there, fake, tmp_path, monkeypatch):
    def client(*_, **__):
        raise OSError("timed out\nafter 10 s")

    monkeypatch.setitem(sys.modules, "distributed", SimpleNamespace(Client=client, LocalCluster=None))
    monkeypatch.setattr("archsim.sweep.executors.find_spec", lambda name: True)
    if there:
        (tmp_path / "s").mkdir()
    with pytest.raises(InputError, match=r"--dask tcp://nowhere:1: cannot be reached: timed out after 10 s"):
        sweep(made(), output=tmp_path / "s", dask="tcp://nowhere:1")
    assert list(tmp_path.rglob("*")) == ([tmp_path / "s"] if there else [])


def test_a_title_is_not_broken_to_the_width_of_its_table():
    assert (
        table_text([{"n": 1}], title="a title wider than its table").splitlines()[0] == "a title wider than its table"
    )
