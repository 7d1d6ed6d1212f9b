"""Rows of a sweep's table by the values of its axes: ``--where AXIS=VALUE[,AXIS=VALUE...]``."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from archsim.units import InputError, quote, suggest

#: What the columns begin with that a sweep varies.
AXES = ("system.", "schedule.", "model.", "job.", "background.")
#: Columns between the number of a row and its results that are axes too (names as wholes).
_WHOLE = ("system", "schedule")
#: Relative difference within which a number is the one that was written: spans are rounded to twelve digits.
_SAME = 1e-12
#: Values that an error names.
_MOST_NAMED = 20


def axes_of(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Columns of a table that a sweep varies."""
    return [name for name in (rows[0] if rows else ()) if name.startswith(AXES) or name in _WHOLE]


def conditions(texts: Iterable[str]) -> dict[str, list[str]]:
    """Values asked for, by axis, of texts ``axis=value[,axis=value...]``.

    Raises
    ------
    InputError
        For a part that is no ``axis=value``.
    """
    found: dict[str, list[str]] = {}
    for text in texts:
        for part in re.split(r",(?=[^,=]*=)", text):  # a value may have commas of its own
            name, equals, value = (piece.strip() for piece in part.partition("="))
            if not (name and equals and value):
                raise InputError(f"--where {quote(part)}: write AXIS=VALUE, such as job.dram_fraction=0.4")
            found.setdefault(name, []).append(value)
    return found


def select(rows: Sequence[Mapping[str, Any]], texts: Iterable[str]) -> list[Mapping[str, Any]]:
    """Rows that have, of every axis named, one of the values asked for; all of them where nothing is asked.

    Parameters
    ----------
    rows : sequence of Mapping
        A sweep's table; the numbers of an axis are in the unit that its name ends in.
    texts : iterable of str
        ``axis=value[,axis=value...]``; several values of one axis are alternatives.

    Raises
    ------
    InputError
        For an axis or a value that the table does not have, and when no row has them together.
    """
    kept, asked = list(rows), conditions(texts)
    for name, values in asked.items():
        axes = axes_of(rows)
        if name not in axes:
            hint = f"; {suggest(name, axes)}" if axes else ": it is of no sweep"
            raise InputError(f"--where {name}={values[0]}: the table has no such axis{hint}")
        known = list(dict.fromkeys(row.get(name) for row in rows))
        for value in values:
            if not any(_is(one, value) for one in known):
                raise InputError(f"--where {name}={value}: the axis has no such value; known: {_named(known)}")
        kept = [row for row in kept if any(_is(row.get(name), value) for value in values)]
    if not kept and asked:
        together = ", ".join(f"{name}={value}" for name, values in asked.items() for value in values)
        raise InputError(f"--where {together}: no row of the table has these together")
    return kept


def _is(value: Any, text: str) -> bool:
    """Whether a value of the table is the one that was written."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            return math.isclose(value, float(text), rel_tol=_SAME)
        except ValueError:
            return False
    return _word(value) == text


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _named(values: Sequence[Any]) -> str:
    more = f" and {len(values) - _MOST_NAMED} more" if len(values) > _MOST_NAMED else ""
    return ", ".join(map(_word, values[:_MOST_NAMED])) + more
