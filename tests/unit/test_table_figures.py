"""Figures of tables and ``archsim plot``."""

from __future__ import annotations

import json
import re

import pytest

from archsim.cli import run_cli
from archsim.report.selection import select
from archsim.report.table_figures import (
    KINDS,
    heat_figure,
    label,
    lines_figure,
    pareto_figure,
    reproduction_figure,
)
from archsim.report.tables import write_table
from archsim.units import InputError

ROWS = [
    {"a": a, "b": b, "speed_s": 1.0 / (a + b), "status": "ok", "pareto": a == 4 and b == 2, "name": f"n{b}"}
    for a in (1, 2, 4)
    for b in (1, 2)
]


def test_lines_average_over_the_rest():
    figure = lines_figure(ROWS, "a", "speed_s")
    (line,) = figure.axes[0].lines
    assert line.get_xdata().tolist() == [1, 2, 4]
    assert line.get_ydata().tolist() == pytest.approx([(1 / 2 + 1 / 3) / 2, (1 / 3 + 1 / 4) / 2, (1 / 5 + 1 / 6) / 2])
    assert len(lines_figure(ROWS, "a", "speed_s", "name").axes[0].lines) == 2


def test_heat_puts_each_value_in_its_cell():
    figure = heat_figure(ROWS, "a", "b", "speed_s")
    grid = figure.axes[0].images[0].get_array()
    assert grid.shape == (2, 3)
    assert grid[1, 2] == pytest.approx(1 / 6)


def test_pareto_draws_the_front():
    figure = pareto_figure(ROWS, "a", "speed_s")
    assert {text.get_text() for text in figure.legends[0].get_texts()} == {"dominated", "Pareto front"}


def test_reproduction_shows_rows_with_two_numbers():
    rows = [
        {"id": "x", "paper": 2.0, "simulated": 2.1, "kind": "predicted"},
        {"id": "y", "paper": None, "simulated": 3.0, "kind": "reported"},
    ]
    figure = reproduction_figure(rows)
    assert "predicted" in {text.get_text() for text in figure.legends[0].get_texts()}
    with pytest.raises(InputError, match="no row with a published"):
        reproduction_figure(rows[1:])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("system.npu.clock_hz", "npu clock (Hz)"),
        ("decode_tokens_per_s", "decode (tokens/s)"),
        ("job.dram_fraction", "dram fraction"),
        ("system.flash.stream_bytes_per_s", "flash stream (B/s)"),
    ],
)
def test_labels(name, words):
    assert label(name) == words


WRONG = [
    (["--kind", "lines", "--x", "a"], "name a column with --y; columns: a, b, speed_s, status, pareto, name"),
    (["--kind", "lines", "--x", "a", "--y", "name"], "--y name: 'n1' is no number"),
    (["--kind", "lines", "--x", "c", "--y", "a"], "--x c: the table has no such column"),
    (["--kind", "heat", "--x", "a", "--y", "b", "--by", "a"], "--by means nothing to heat; it takes x, y, value"),
    (["--kind", "pie"], "--kind 'pie'"),
    (["--kind", "timeline", "--x", "a"], "--x is for tables; a run's timeline figure takes none"),
    (["--kind", "lines", "--x", "a", "--y", "b", "-o", "f.txt"], "a figure is written as .svg, .pdf or .png"),
]


@pytest.mark.parametrize(("options", "message"), WRONG)
def test_wrong_plots(tmp_path, capsys, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    write_table(ROWS, tmp_path / "t.csv")
    output = [] if "-o" in options else ["-o", "f.png"]
    assert run_cli(["plot", "t.csv", *options, *output]) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.glob("f.*"))


def test_plot_reads_tables_documents_and_folders(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_table(ROWS, tmp_path / "table.parquet")
    (tmp_path / "doc.json").write_text(json.dumps({"rows": ROWS}))
    for source in ("table.parquet", ".", "doc.json"):
        assert run_cli(["plot", source, "--kind", "lines", "--x", "a", "--y", "speed_s", "-o", "f.svg", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["file"] == "f.svg"
    (tmp_path / "bad.json").write_text("{}")
    assert run_cli(["plot", "bad.json", "--kind", "lines", "-o", "g.svg"]) == 2
    assert run_cli(["plot", "none.csv", "--kind", "lines", "-o", "g.svg"]) == 2


SWEPT = [
    {"point": i, "system.flash.stream_bytes_per_s": rate, "job.dram_fraction": share, "schedule.drafter": word,
     "status": "ok", "speed": rate * (1 + share)}
    for i, (rate, share, word) in enumerate(
        (rate, share, word) for rate in (2e9, 4.7e9) for share in (0.1 + 0.2, 0.6) for word in ("fixed", "adaptive")
    )
]  # fmt: skip


@pytest.mark.parametrize(
    ("texts", "points"),
    [
        ([], range(8)),
        (["job.dram_fraction=0.3"], [0, 1, 4, 5]),
        (["system.flash.stream_bytes_per_s=4700000000.0,job.dram_fraction=0.60"], [6, 7]),
        (["system.flash.stream_bytes_per_s=4.7e9", "schedule.drafter=fixed"], [4, 6]),
        (["job.dram_fraction=0.3,job.dram_fraction=0.6", "schedule.drafter = adaptive"], [1, 3, 5, 7]),
    ],
)
def test_rows_are_selected_by_the_values_of_axes(texts, points):
    assert [row["point"] for row in select(SWEPT, texts)] == list(points)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("job.dram_fracton=0.3", r"job.dram_fracton=0.3: the table has no such axis; .*job.dram_fraction"),
        ("speed=2", r"speed=2: the table has no such axis; .*system.flash.stream_bytes_per_s"),
        ("job.dram_fraction=0.31", r"no such value; known: 0.30000000000000004, 0.6$"),
        ("schedule.drafter=1", r"no such value; known: fixed, adaptive$"),
        ("job.dram_fraction", r"write AXIS=VALUE"),
    ],
)
def test_an_axis_or_a_value_that_is_not_there_is_one_line(text, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_table(SWEPT, tmp_path / "table.csv")
    made = ["plot", "table.csv", "--kind", "lines", "--x", "point", "--y", "speed", "-o", "f.svg"]
    assert run_cli([*made, "--where", text]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(words, line)
    assert not (tmp_path / "f.svg").exists()


def test_values_that_never_meet_and_tables_without_axes_are_one_line():
    with pytest.raises(InputError, match="no row of the table has these together"):
        select(SWEPT[:1] + SWEPT[-1:], ["job.dram_fraction=0.3", "schedule.drafter=adaptive"])
    with pytest.raises(InputError, match="is of no sweep"):
        select(ROWS, ["a=1"])


def test_plot_draws_the_rows_selected(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_table(SWEPT, tmp_path / "table.csv")
    drawn = []
    monkeypatch.setitem(KINDS, "lines", (lambda rows, x, y: drawn.extend(rows) or lines_figure(rows, x, y), ("x", "y")))
    made = ["plot", "table.csv", "--kind", "lines", "--x", "point", "--y", "speed", "-o", "f.svg"]
    assert run_cli([*made, "--where", "job.dram_fraction=0.6,schedule.drafter=fixed"]) == 0
    assert [row["point"] for row in drawn] == [2, 6]
    capsys.readouterr()
    write_table([{"paper": 1.0, "simulated": 1.0, "kind": "a"}], tmp_path / "other.csv")
    assert run_cli(["plot", "other.csv", "--kind", "reproduction", "--where", "job.seed=1", "-o", "g.svg"]) == 2
    assert "--where means nothing to reproduction" in capsys.readouterr().err
