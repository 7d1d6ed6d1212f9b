"""Figures of diffusion decoding from the stored tables, and what is said of tables that are none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from archsim.report import style
from archsim.report.denoise_figures import KINDS, read_rows
from archsim.units import InputError

TABLES = sorted((Path(__file__).parents[2] / "plots" / "tables").glob("llada*.json"))


@pytest.mark.parametrize("kind", KINDS)
def test_every_figure_draws_the_stored_tables(kind, tmp_path):
    target = style.save(KINDS[kind](read_rows(TABLES)), tmp_path / "figure.svg")
    assert target.stat().st_size > 4000


def test_the_stored_table_has_the_ladder_with_a_null_model():
    rows = read_rows(TABLES)
    scored = [row for row in rows.values() if row["kind"] == "predicted"]
    assert {row["id"] for row in scored} == {"ladder.prefix_kv", "ladder.runtime", "ladder.all"}
    assert all(row["ok"] and row["null_model"] for row in scored)


def test_what_is_no_table(tmp_path):
    for name, text in (("empty.json", ""), ("list.json", "[]"), ("other.json", json.dumps({"rows": [1]}))):
        path = tmp_path / name
        path.write_text(text)
        with pytest.raises(InputError, match=r"not a table of archsim reproduce llada --json"):
            read_rows([path])
    with pytest.raises(InputError, match=r"the table has no rows map\.cpu\*"):
        KINDS["pays"]({})
