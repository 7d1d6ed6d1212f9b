"""The validation page that ships: regenerated from the rows beside it, it must read as in the README."""

from pathlib import Path

import pytest

from archsim.reproduce.regimes import OTHER
from archsim.reproduce.validation import BEGIN, END, markdown, placed, read_rows

ROOT = Path(__file__).parents[2]
ROWS = ROOT / "plots" / "tables" / "validation.json"
README = ROOT / "README.md"


@pytest.fixture(scope="module")
def tables():
    return read_rows([ROWS])


def test_shipped_rows_have_regimes(tables):
    assert not [one for one in placed(tables) if one.regime == OTHER]
    assert {"devices", "energy", "llada", "ahasd", "trends"} <= set(tables)


def test_the_page_is_the_same_text_each_time(tables):
    assert markdown(tables) == markdown(read_rows([ROWS]))
    assert markdown(tables).startswith(BEGIN)


def test_readme_carries_the_generated_page(tables):
    text = README.read_text(encoding="utf-8")
    assert text.count(BEGIN) == text.count(END) == 1
    assert text[text.index(BEGIN) : text.index(END) + len(END)] == markdown(tables)
