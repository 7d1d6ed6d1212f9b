"""The validation page: regimes, errors and causes from rows; reading rows of strangers."""

import json

import pytest

from archsim.cli import run_cli
from archsim.reproduce.regimes import OTHER, regime_of
from archsim.reproduce.rows import Row
from archsim.reproduce.validation import (
    BEGIN,
    END,
    claims,
    error_of,
    markdown,
    misses,
    page,
    placed,
    read_rows,
    regimes,
    save_rows,
)
from archsim.units import InputError

ROWS = [
    Row("npu.matrix.llama-3.1-8b.rows1", "paper", "us", 404.0, 404.0, None, "fitted", 0.1),
    Row("npu.matrix.qwen3-8b.rows1", "paper", "us", 100.0, 110.0, 150.0, "predicted", 0.05, why="a | cause"),
    Row("npu.matrix.qwen3-4b.rows1", "paper", "us", 100.0, 98.0, 150.0, "predicted", 0.1),
    Row("flash.mqsim.a.time", "simulator", "ns", 5.0, 5.0, None, "predicted", 0.0),
    Row("npu.v75.graph.order", "paper", "x", 6.0, 1.0, None, "reported", verdict="does_not_follow"),
]
ORDERS = [
    Row("lever.order.one", "paper", "holds", 1.0, 1.0, None, "ordering", 0.0, verdict="follows"),
    Row("lever.order.two", "paper", "holds", 1.0, 0.0, None, "ordering", 0.0, verdict="contradicts"),
]


def test_regimes_count_kinds_apart():
    found = {(e["regime"], e["kind"]): e for e in regimes(placed({"devices": ROWS}))}
    held = found["NPU and CPU, products", "held out"]
    assert held["rows"] == 2
    assert held["median_error"] == pytest.approx(0.06)
    assert (held["worst"], held["worst_error"]) == ("npu.matrix.qwen3-8b.rows1", pytest.approx(0.10))
    assert held["within_tolerance"] == 0.5
    assert held["null_median_error"] == pytest.approx(0.5)
    assert found["NPU and CPU, products", "fitted"]["rows"] == 1
    assert found["flash, event by event", "predicted"]["worst_error"] == 0
    assert ("NPU, prefill", "predicted") not in found


def test_misses_name_their_cause():
    (miss,) = misses(placed({"devices": ROWS}))
    assert (miss["row"], miss["why"]) == ("devices: npu.matrix.qwen3-8b.rows1", "a | cause")
    assert "| a / cause |" in markdown({"devices": ROWS})


def test_orders_and_claims_have_no_error():
    assert [error_of(row) for row in ORDERS] == [None, None]
    (entry,) = claims(placed({"lever": ORDERS}))
    assert (entry["orders"], entry["hold"], entry["follows"], entry["contradicts"]) == (2, 1, 1, 1)


def test_every_row_that_ships_has_a_regime():
    assert regime_of("nobody", "nothing") == OTHER
    assert regime_of("devices", "npu.v81.pp25").batch == "2 to 32 rows"
    assert regime_of("devices", "npu.v81.pp128").batch == "33 rows and more"
    assert regime_of("trends", "trends.rank.flash.tau").level == "trend"


def test_rows_survive_a_file(tmp_path):
    tables = {"devices": ROWS, "lever": ORDERS}
    file = save_rows(tables, tmp_path / "rows.json", "a command")
    document = json.loads(file.read_text())
    assert document["provenance"]["command"] == "a command"
    assert read_rows([file]) == tables
    assert markdown(read_rows([file])) == markdown(tables)
    assert [p.name for p in tmp_path.iterdir()] == ["rows.json"]


def test_rows_of_several_files_add_up(tmp_path):
    for name, rows in (("devices", ROWS), ("lever", ORDERS)):
        document = {"rows": [row.to_json() for row in rows], "score": {}}
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
    found = read_rows(sorted(tmp_path.iterdir()))
    assert {name: len(rows) for name, rows in found.items()} == {"devices": 5, "lever": 2}
    counted = page(found)
    assert counted["against_simulators"] == {
        "predicted": 1, "equal": 1, "within_10_percent": 1, "within_25_percent": 1,
    }  # fmt: skip
    assert counted["against_measurements"]["predicted"] == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "cannot be read as JSON"),
        ("[]", "expected the document"),
        ('{"rows": 3}', "no list of up to"),
        ('{"rows": [3]}', "expected a row with the texts"),
        ('{"rows": [{"id": "a", "source": "b", "unit": "c", "paper": "4"}]}', "paper is '4', expected a number"),
        ('{"rows": [{"id": "a", "source": "b", "unit": "c", "why": 4}]}', "must be texts"),
        ('{"tables": 1}', "no mapping"),
    ],
)
def test_bad_files_are_refused(tmp_path, text, words):
    file = tmp_path / "bad.json"
    file.write_text(text)
    with pytest.raises(InputError, match=words):
        read_rows([file])


def test_command_prints_the_page(tmp_path, capsys):
    file = save_rows({"devices": ROWS}, tmp_path / "rows.json", "a command")
    assert run_cli(["reproduce", "validation", "--from", str(file), "--markdown"]) == 0
    text = capsys.readouterr().out
    assert text.startswith(BEGIN)
    assert text.rstrip().endswith(END)
    assert text == markdown({"devices": ROWS}) + "\n"
    assert run_cli(["reproduce", "validation", "--from", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["against_simulators"]["predicted"] == 1


def test_options_of_the_page_are_refused_elsewhere(tmp_path, capsys):
    assert run_cli(["reproduce", "devices", "--from", "x.json"]) == 2
    assert "--from is for archsim reproduce validation" in capsys.readouterr().err
    assert run_cli(["reproduce", "validation", "--from", str(tmp_path / "none.json")]) == 2
    assert "no such file" in capsys.readouterr().err
