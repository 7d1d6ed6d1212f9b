"""Figures of tables and ``archsim plot``."""

from __future__ import annotations

import json

import pytest

from archsim.cli import run_cli
from archsim.report.table_figures import heat_figure, label, lines_figure, pareto_figure, reproduction_figure
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
