"""``archsim schema``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from archsim.cli import print_json
from archsim.commands import completion
from archsim.commands.options import Json, path


def schema(
    kind: Annotated[
        str,
        typer.Argument(
            autocompletion=completion.kinds, help="part | part:DEVICE | system | model | run | sweep | prices"
        ),
    ],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", parser=path, metavar="FILE", help="Write it to this file.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print the JSON Schema of a kind of file, for editors that complete and check while you write."""
    from archsim.schema import schema as schema_of
    from archsim.schema import write_schema

    if output is None:
        print_json(schema_of(kind))
        return
    file = write_schema(kind, output)
    if as_json:
        print_json({"kind": kind, "file": str(file)})
    else:
        typer.echo(f"wrote {file}")
