"""What several commands share: options, how their values are read, and where outputs may go."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from archsim.commands import completion

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
Sets = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        autocompletion=completion.set_paths,
        help="Override one value; may be given many times.",
    ),
]

_POWER = re.compile(r"[0-9.]{1,20}[eE][+]?[0-9]{1,2}")
_WHOLE = re.compile(r"[-+]?[0-9]{1,40}")


def whole(text: str | int) -> int:
    """A whole number in ASCII digits."""
    if not _WHOLE.fullmatch(str(text)):
        from archsim.units import quote

        hint = "; write it in digits alone" if _POWER.fullmatch(str(text)) else ""
        raise typer.BadParameter(f"{quote(text)} is not a whole number{hint}")
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


def integer(help_: str, *names: str) -> typer.models.OptionInfo:
    """Option that takes a whole number; its name is the parameter's where `names` gives none."""
    return typer.Option(*names, parser=whole, metavar="INTEGER", help=help_)


def check_outputs(outputs: dict[str, Path | None], inputs: dict[str, str | Path | None]) -> None:
    """Refuse outputs that would replace an input or each other, or that cannot be written, before anything runs."""
    from archsim.config.regular import check_output, keep_apart
    from archsim.report.style import check_ending

    for target in outputs.values():
        if target is not None:
            check_output(target)
    keep_apart(outputs, inputs, suffix=".yaml")
    figure = outputs.get("--figure")
    if figure is not None:
        check_ending(figure)
