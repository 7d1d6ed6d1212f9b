"""How options are read: whole numbers in ASCII digits, and texts and paths that are not empty."""

from __future__ import annotations

import re
from pathlib import Path

import typer

_WHOLE = re.compile(r"[-+]?[0-9]{1,40}")


def whole(text: str | int) -> int:
    """A whole number in ASCII digits."""
    if not _WHOLE.fullmatch(str(text)):
        from archsim.units import quote

        raise typer.BadParameter(f"{quote(text)} is not a whole number")
    return int(text)


def path(text: str | Path) -> Path:
    """A path that is not empty (``Path("")`` would be the current folder)."""
    if not str(text):
        raise typer.BadParameter("the path is empty")
    return Path(text)


def text(given: str) -> str:
    """A text that is not empty: an empty one would pass for an option that was not given."""
    if not given.strip():
        raise typer.BadParameter("the value is empty; leave the option out for its default")
    return given
