"""What a new thing consists of before it is written."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from string import Template
from typing import NamedTuple


class Draft(NamedTuple):
    """Texts of the files by their path below the folder, and command lines that use them."""

    files: Mapping[str, str]
    lines: tuple[str, ...]


def filled(template: str, values: Mapping[str, str]) -> str:
    """Text of a template (``$name`` stands for a value) with its values."""
    text = resources.files("archsim.scaffold").joinpath("templates", template).read_text(encoding="utf-8")
    return Template(text).substitute(values)
