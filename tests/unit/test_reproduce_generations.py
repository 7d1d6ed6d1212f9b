"""Hold-out by generation: every published figure has a band, and one outside its band a cause."""

from __future__ import annotations

import pytest

from archsim.config import InputError, Override, load_config, names
from archsim.reproduce import generations
from archsim.reproduce.generations import NPUS, drawn_devices, generation_rows
from archsim.reproduce.rows import Row, markdown, score
from archsim.sweep.ranges import machine_numbers, shares


def test_inside_is_a_row_s_own_reading_of_its_band():
    row = Row("x", "s", "us", 2.0, 3.0, kind="reported", p10=1.0, p90=2.0)
    assert row.inside is True
    assert row.to_json()["inside"] is True
    assert Row("x", "s", "us", 2.1, 3.0, p10=1.0, p90=2.0).inside is False
    assert Row("x", "s", "us", 2.0, 3.0).inside is None
    assert (score([row])["banded"], score([row])["inside"]) == (1, 1)
    assert "inside" not in score([Row("x", "s", "us", 2.0, 3.0)])


def test_markdown_has_band_columns_only_where_there_are_bands():
    plain, banded = Row("x", "s", "us", 2.0, 3.0), Row("y", "s", "us", 2.0, 3.0, p10=1.0, p90=2.5, why="w")
    assert (
        markdown([plain]).splitlines()[0] == "| row | unit | published | simulated | null model | ratio | kind | ok |"
    )
    head, _, first, second = markdown([plain, banded]).splitlines()
    assert " p10 | p90 | inside | why |" in head
    assert "| 1 | 2.5 | yes | w |" in second
    assert "| - | - | - | - |" in first


@pytest.mark.parametrize(("system", "sets"), NPUS, ids=str)
def test_npu_rows_are_nominal_in_the_middle_of_real_draws(monkeypatch, system, sets):
    monkeypatch.setattr(generations, "SAMPLES", 3)
    for row in generations._alone(system, sets, NPUS[system, sets]):
        assert row.p10 <= row.p90
        assert row.p10 < 1.5 * row.simulated
        assert row.p90 > row.simulated / 1.5


def test_a_row_outside_its_band_says_why():
    row = Row("x", "s", "us", 9.0, 3.0, p10=1.0, p90=2.0)
    assert generations.explained(row, "because").why == "because"
    assert generations.explained(row, "").why
    assert generations.explained(Row("x", "s", "us", 1.5, 3.0, p10=1.0, p90=2.0), "because").why == ""


def test_draws_of_a_machine_differ_and_repeat():
    one, again = (list(drawn_devices("oneplus_15", (), 3)) for _ in range(2))
    clocks = [devices["npu"].spec.hmx_clock_hz for devices in one]
    assert clocks == [devices["npu"].spec.hmx_clock_hz for devices in again]
    assert len(set(clocks)) == 3


@pytest.mark.parametrize("system", names("system"))
def test_the_ranges_of_every_machine_go_together(system):
    resolved = load_config("system", system)
    numbers = machine_numbers(resolved.rows, resolved.data["devices"])
    for i in range(6):
        drawn = {number: number.at(shares(number.group, 6, 5)[i]) for number in numbers}
        sets = [Override(n.path, f"{x!r} {n.unit}" if n.unit else x, n.path) for n, x in drawn.items()]
        try:
            load_config("system", system, sets=sets)
        except InputError as error:
            pytest.fail(f"draw {i}: {error}")


@pytest.mark.slow
def test_most_published_figures_of_other_generations_lie_in_their_bands():
    rows = list(generation_rows())
    found = score(rows)
    assert found["banded"] == len(rows) == 26
    assert found["inside"] >= 16
    assert not [row.id for row in rows if not row.inside and "not known" in row.why]
    assert {row.id for row in rows if row.id.startswith("generations.v79.")} >= {
        f"generations.v79.{name}" for name in ("prefill", "decode", "vector_q8_0")
    }
