"""Bad input to trace, sweep, search, explain, plot and report: one line, exit code 2, and nothing replaced."""

from __future__ import annotations

import json
import os

import pytest

from archsim.cli import run_cli
from archsim.config import InputError
from archsim.config.regular import keep_apart
from archsim.report.table_figures import heat_figure, pareto_figure, reproduction_figure, tornado_figure
from archsim.report.tables import read_table, write_table
from archsim.session import load
from archsim.sweep.runner import load_sweep, sweep
from archsim.sweep.search import MOST_SEED, search

RUN = {
    "name": "base",
    "system": "oneplus_12",
    "schedule": {"name": "flash_ar"},
    "job": {"target": "smollm2-135m", "stream": "recorded:exit_layers:25", "tokens": 2, "prompt_tokens": 4},
}
PRODUCT = ["trace", "npu", "--m", "8", "--k", "16", "--n", "16"]
ON_ARRAY = [*PRODUCT, "--array", "8x8", "--dataflow", "ws"]


def fails(args, capsys, words):
    code = run_cli(args)
    out, err = capsys.readouterr()
    assert (code, out, err.count("\n")) == (2, "", 1), (code, out, err)
    assert words in err


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("runs") / "run"
    args = ["run", "--system", "oneplus_12", "--schedule", "flash_ar", "--target", "smollm2-135m", "--tokens", "2"]
    stream = ["--stream", "recorded:exit_layers:25", "--set", "job.prompt_tokens=4"]
    assert run_cli([*args, *stream, "-o", str(made), "--json"]) == 0
    return made


# -- outputs ------------------------------------------------------------------------------------------


def test_a_report_replaces_neither_prices_nor_a_run(folder, tmp_path, capsys):
    prices = tmp_path / "prices.yaml"
    prices.write_text('kind: prices\nname: p\nsource: "x"\nenergy_pj: {dram.io_bits: 3.4 pJ}\n')
    link = tmp_path / "link.json"
    link.symlink_to(folder / "manifest.json")
    before = {path.name: path.read_bytes() for path in (prices, *folder.iterdir())}
    tables = ["report", str(folder), "--tables", str(prices)]
    fails([*tables, "--perfetto", str(prices)], capsys, "is --tables itself; give it another name")
    for target in (folder / "manifest.json", folder / "rows.parquet", link):
        fails(["report", str(folder), "--perfetto", str(target)], capsys, "is a file of the run")
    other = ["report", str(folder), "--baseline", str(folder), "--perfetto", str(folder / "ops.parquet")]
    fails(other, capsys, "is a file of")
    assert {path.name: path.read_bytes() for path in (prices, *folder.iterdir())} == before
    assert run_cli([*tables, "--perfetto", str(folder / "trace.json"), "--json"]) == 0
    (folder / "trace.json").unlink()


def test_a_trace_replaces_no_file_it_reads(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.txt").write_text("R 0x40\n")
    for name in ("mine.yaml", "sys.yaml"):
        (tmp_path / name).write_text("kind: x\n")
    os.link("t.txt", "hard.csv")
    dram = ["trace", "dram", "t.txt"]
    fails([*dram, "--standard", "./mine.yaml", "--commands", "mine.yaml"], capsys, "is --standard itself")
    fails([*dram, "--controller", "./mine", "--commands", "mine.yaml"], capsys, "is --controller itself")
    fails([*dram, "--commands", "hard.csv"], capsys, "is the trace itself")
    fails(["trace", "pim", "t.txt", "--device", "./mine.yaml", "--commands", "mine.yaml"], capsys, "is --device itself")
    fails([*PRODUCT, "--system", "./sys.yaml", "--perfetto", "sys.yaml"], capsys, "is --system itself")
    assert (tmp_path / "mine.yaml").read_text() == (tmp_path / "sys.yaml").read_text() == "kind: x\n"
    assert (tmp_path / "hard.csv").read_text() == "R 0x40\n"


def test_outputs_are_kept_apart(tmp_path):
    keep_apart({"-o": tmp_path / "a", "--figure": None}, {"in": tmp_path / "b", "name": "a"})
    with pytest.raises(InputError, match=r"--figure .* is also -o"):
        keep_apart({"-o": tmp_path / "a", "--figure": tmp_path / "." / "a"}, {})


# -- options ------------------------------------------------------------------------------------------

OPTIONS = [
    ([*ON_ARRAY, "--link", "1_6"], "'1_6' is not a whole number"),
    (["trace", "pim", "--gemv", "64x64", "--tokens", "\u0661"], "is not a whole number"),
    (["trace", "flash", "--pattern", "rand_read", "--requests", "1e3"], "'1e3' is not a whole number"),
    ([*ON_ARRAY, "--dtype", ""], "'--dtype': the value is empty"),
    ([*ON_ARRAY, "--sram", ""], "'--sram': the value is empty"),
    ([*ON_ARRAY, "--perfetto", ""], "'--perfetto': the path is empty"),
    (["trace", "dram", ""], "'FILE': the path is empty"),
    (["trace", "flash", "--pattern", "rand_read", "--span", ""], "'--span': the value is empty"),
    (["trace", "flash", "--pattern", "rand_read", "--span", "0 B"], "a span of '0 B' holds nothing"),
    (["trace", "flash", "--pattern", "rand_read", "--unit", "s"], "--unit belongs to a trace"),
    (["trace", "flash", "t.txt", "--seed", "1"], "--seed belongs to --pattern"),
    (["trace", "flash", "t.txt", "--requests", "10000"], "--requests belongs to --pattern"),
    (["sweep", "x", "-o", ""], "the path is empty"),
    (["sweep", "x", "-j", "0"], "-j 0: 1 to 4096 processes can work"),
    (["sweep", "x", "-j", "0", "--estimate"], "-j 0: 1 to 4096"),
    (["search", "x", "--trials", "0"], "--trials 0: 1 to 1000000 can be asked for"),
    (["search", "x", "--trials", "2", "--seed", str(MOST_SEED + 1)], "it must lie between 0 and 4294967295"),
    (["diff", "", "x"], "the path is empty"),
    (["explain", "x", "--step", "0.2"], "--step belongs to --sensitivity"),
    (["explain", "x", "--param", "p", "--figure", "nowhere/t.svg"], "there is no folder"),
    (["explain", "x", "--param", "p", "--figure", "t.csv"], "a figure is written as"),
    (["plot", "t.csv", "--kind", "lines", "--by", "", "-o", "t.svg"], "'--by': the value is empty"),
    (["plot", "t.csv", "--kind", "lines", "-o", "nowhere/t.svg"], "there is no folder"),
    (["report", "x", "--format", "json"], "--format belongs to --export"),
]


@pytest.mark.parametrize(
    ("args", "words"), OPTIONS, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_options_are_read_strictly(args, words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.txt").write_text("0 0 0 8 1\n")
    fails(args, capsys, words)
    assert [path.name for path in tmp_path.iterdir()] == ["t.txt"]


# -- knobs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schedule", "setting"),
    [
        ("lever", "lower_shapes=[]"),
        ("lever", "upper_shapes=[]"),
        ("lever", "draft_shapes=[]"),
        ("specinfer", "expansion=[]"),
        ("edgellm", "shapes=[]"),
        ("npu_sd", "arms=[]"),
        ("ahasd", "arms=[0, 2]"),
        ("specpim", "arms=[17]"),
    ],
)
def test_lists_of_a_schedule_are_neither_empty_nor_out_of_range(schedule, setting):
    with pytest.raises(InputError, match=r"list is empty; give at least one|is out of range; 1 to 16 is allowed"):
        load({**RUN, "schedule": {"name": schedule}}, sets=[f"schedule.{setting}"])


def test_lever_runs_on_a_graph_of_a_single_row():
    from archsim.session import run

    sets = ["schedule.lower_shapes=[1]", "schedule.upper_shapes=[1]"]
    made = run(load({**RUN, "schedule": {"name": "lever"}}, sets=sets), trace="off")
    assert made.summary["tokens"] == 2


# -- tables ------------------------------------------------------------------------------------------

TABLES = {
    "long row.csv": ("a,b\n1,2,3\n", ":2: the row has not the 2 columns of the first line"),
    "short row.csv": ("a,b\n1,2\n3\n", ":3: the row has not the 2 columns"),
    "twice.csv": ("a,a\n1,2\n", ":1: the column 'a' comes twice"),
    "deep.json": ("[" * 100_000, "is no JSON document"),
    "words.json": ('[{"a": {"x": 1}, "b": [1]}]', "is neither a number nor a word"),
}


@pytest.mark.parametrize("name", TABLES)
def test_damaged_tables_are_one_line(name, capsys, tmp_path):
    text, words = TABLES[name]
    (tmp_path / name).write_text(text)
    out = tmp_path / "o.svg"
    args = ["plot", str(tmp_path / name), "--kind", "heat", "--x", "a", "--y", "b", "--value", "b", "-o", str(out)]
    fails(args, capsys, words)
    assert not out.exists()


def test_csv_gives_back_what_was_written(tmp_path):
    rows = [{"a": 1, "pareto": True, "w": "x"}, {"a": None, "pareto": False, "w": "y"}]
    assert read_table(write_table(rows, tmp_path / "t.csv")) == rows
    (tmp_path / "marked.csv").write_text("\ufeffa,b\n1,2\n", encoding="utf-8")
    assert read_table(tmp_path / "marked.csv") == [{"a": 1, "b": 2}]


def test_a_front_read_from_csv_is_that_of_the_table(tmp_path):
    rows = [{"a": 1, "b": 2, "pareto": False}, {"a": 2, "b": 1, "pareto": True}]
    again = read_table(write_table(rows, tmp_path / "t.csv"))
    drawn = [c.get_label() for c in pareto_figure(again, "a", "b").axes[0].collections]
    assert drawn == ["dominated", "Pareto front"]


def test_columns_of_several_types_are_written_as_text(tmp_path):
    rows = [{"v": 2, "n": 2**70, "f": 1}, {"v": "2 GHz", "n": 1, "f": 0.5}, {"v": True, "n": None, "f": None}]
    found = read_table(write_table(rows, tmp_path / "t.parquet"))
    assert [row["v"] for row in found] == ["2", "2 GHz", "True"]
    assert [row["n"] for row in found] == [str(2**70), "1", None]
    assert [row["f"] for row in found] == [1.0, 0.5, None]


def test_rows_without_a_column_are_left_out_or_refused():
    with pytest.raises(InputError, match="'q' is no number"):
        tornado_figure([{"path": "x", "latency": "q", "energy": 1.0, "area": 1.0}])
    tornado_figure([{"path": "x", "latency": 1.0, "energy": 1.0, "area": 1.0}, {"path": "y"}])
    reproduction_figure([{"kind": "p", "paper": 1.0, "simulated": 2.0}, {"paper": 1.0}])
    heat_figure([{"a": 1, "b": 2.0}, {"b": 3.0}], "a", "b", "b")


# -- sweeps ------------------------------------------------------------------------------------------


def test_an_axis_of_numbers_and_words_has_its_table(tmp_path):
    made = sweep({"name": "s", "run": RUN, "axes": {"job.tokens": [2, "frog", 10**30]}}, output=tmp_path / "s")
    assert [row["status"] for row in made.rows] == ["ok", "failed", "failed"]
    assert [row["job.tokens"] for row in read_table(tmp_path / "s" / "table.parquet")] == ["2", "frog", str(10**30)]


@pytest.mark.parametrize("field", [{"objectives": {"digest": "max"}}, {"constraints": {"digest": {"max": 3}}}])
def test_results_that_are_no_numbers_are_refused_after_the_first_point_and_leave_nothing(field, tmp_path):
    made = {"name": "s", "run": RUN, "axes": {"job.tokens": [2, 3, 4]}, **field}
    with pytest.raises(InputError, match="the result 'digest' is no number; known: accepted_per_step"):
        sweep(made, output=tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_records_that_are_no_results_are_run_again(tmp_path):
    made = {"name": "s", "run": RUN, "axes": {"job.tokens": [2]}}
    sweep(made, output=tmp_path / "s")
    record = tmp_path / "s" / "points.jsonl"
    key = json.loads(record.read_text())["key"]
    for result in (5, {}, {"status": "?"}, [1]):
        record.write_text(json.dumps({"key": key, "result": result}) + "\n")
        assert sweep(made, output=tmp_path / "s").ran == 1


def test_a_refused_search_claims_no_folder(tmp_path):
    made = {"name": "s", "run": RUN, "axes": {"job.tokens": [2, 3]}, "objectives": {"energy_j": "min"}}
    with pytest.raises(InputError, match="--seed"):
        search(made, trials=1, seed=MOST_SEED + 1, output=tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_search_with_constraints_warns_of_nothing(tmp_path):
    made = {"name": "s", "run": RUN, "axes": {"job.tokens": [2, 3]}, "objectives": {"energy_j": "min"}}
    found = search({**made, "constraints": {"energy_j": {"max": -1}}}, trials=2, output=tmp_path / "s")
    assert {row["status"] for row in found.rows} == {"infeasible"}


@pytest.mark.parametrize("text", ["./base.yaml", "base"])
def test_check_and_sweep_find_the_same_run(text, tmp_path, capsys, monkeypatch):
    place = tmp_path / "there"
    place.mkdir()
    (place / "base.yaml").write_text("".join(f"{k}: {json.dumps(v)}\n" for k, v in {"kind": "run", **RUN}.items()))
    (place / "s.yaml").write_text(json.dumps({"kind": "sweep", "name": "s", "run": text, "axes": {"job.tokens": [2]}}))
    monkeypatch.chdir(tmp_path)
    assert load_sweep(place / "s.yaml").run == str(place / "base.yaml")
    assert run_cli(["check", "there/s.yaml"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "argv",
    [
        [
            "trace",
            "dram",
            "traces/dram/t05_rand_read.txt.gz",
            "--standard",
            "lpddr5-6400",
            "--controller",
            "reference_a",
        ],
        ["trace", "pim", "traces/pim/mac_1row_1ch.trace", "--device", "lpddr5x_pim"],
    ],
)
def test_traces_that_come_along_are_found_from_any_folder(argv, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run_cli([*argv, "--json"]) == 0, capsys.readouterr().err
