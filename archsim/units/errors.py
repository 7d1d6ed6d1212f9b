"""The error for bad input, and how values and hints are written in it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any


class InputError(ValueError):
    """Bad input: one line that says what, where and what to do.

    Attributes
    ----------
    message : str
        The line itself.
    others : tuple of str
        Further problems found in the same file, one line each.
    """

    def __init__(self, message: str, others: Iterable[str] = ()) -> None:
        self.message = " ".join(str(message).split())
        self.others = tuple(others)
        super().__init__(self.message)


class DiskError(InputError):
    """A disk that is full, or a folder that cannot be written: of this machine, not of what was asked."""


def quote(value: Any) -> str:
    """Value as it stands in an error: quoted, on one line, shortened after 60 characters; YAML's words for the rest."""
    if value is None:
        return "nothing"
    if isinstance(value, (dict, list)):
        return "a mapping" if isinstance(value, dict) else "a list"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    text = text if len(text) <= 60 else text[:57] + "..."
    return "'" + "".join(c if c.isprintable() else "?" for c in text) + "'"


def suggest(name: str, known: Iterable[str]) -> str:
    """Hint for an unknown `name`: the nearest known name, or else the list of known ones."""
    names = sorted(set(known))
    folded = {candidate.casefold(): candidate for candidate in names}
    near = difflib.get_close_matches(str(name).casefold(), folded, n=1, cutoff=0.6)
    if near:
        return f"did you mean {quote(folded[near[0]])}?"
    if not names:
        return "there are none"
    shown = ", ".join(names[:24])
    return f"known: {shown}" + (f" and {len(names) - 24} more" if len(names) > 24 else "")
