"""What is written as YAML reads back as it was."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archsim.config.reading import value_of
from archsim.config.writing import text_of

WORDS = [
    "1e9",
    "1E-3",
    "0o17",
    "0x1f",
    "010",
    "yes",
    "on",
    "~",
    "null",
    ".5",
    "1_000",
    "12:30",
    "2024-01-01",
    "a: b",
    "# c",
    "",
]


@pytest.mark.parametrize("word", WORDS)
def test_texts_stay_texts(word):
    """A text that looks like a number, in the 1.1 schema or the core one of 1.2, is quoted."""
    assert value_of(text_of({"a": word, "b": [word]}), "t") == {"a": word, "b": [word]}


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=12)
    | st.text(string.digits + "eEox+-._:", max_size=8),
    lambda values: st.lists(values, max_size=3)
    | st.dictionaries(st.text(string.ascii_letters, min_size=1), values, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(string.ascii_letters, min_size=1, max_size=6), PLAIN, min_size=1, max_size=3))
def test_a_round_trip(data):
    assert value_of(text_of(data), "t") == data
