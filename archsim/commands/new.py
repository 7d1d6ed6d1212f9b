"""``archsim new``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from archsim.cli import print_json
from archsim.commands import completion
from archsim.commands.options import Json, path, text


def new(
    kind: Annotated[
        str,
        typer.Argument(
            autocompletion=completion.words("machine", "device", "schedule"),
            metavar="machine|device|schedule",
            help="What to start.",
        ),
    ],
    name: Annotated[str, typer.Argument(help="Its name: lower-case letters, digits and '_'.")],
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            parser=text,
            autocompletion=completion.sources,
            metavar="NAME",
            help="One of its kind to start from.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            parser=path,
            metavar="DIR",
            help="Folder; by default the first of ARCHSIM_PATH, or the current one.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Start a machine, device or schedule of your own: files that work at once, with a test that passes."""
    from archsim.scaffold import new as make

    document = make(kind, name, source=source, folder=output)
    if as_json:
        print_json(document)
        return
    for file in document["files"]:
        typer.echo(f"wrote {file}")
    typer.echo("next:")
    for line in document["next"]:
        typer.echo(f"  {line}")
