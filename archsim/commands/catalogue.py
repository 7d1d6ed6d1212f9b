"""``archsim list``, ``show`` and ``import model``: what there is, and what other tools' files give."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from archsim.cli import print_json
from archsim.commands import completion
from archsim.commands.options import Json, Sets, path

#: What can be listed and shown; the catalogue itself is imported only to do it.
LISTED = ("systems", "parts", "models", "runs", "sweeps", "schedules", "devices", "streams")
LISTED += ("flash_devices", "pim_devices", "standards", "controllers")
SHOWN = ("system", "part", "model", "run", "schedule", "device", "flash_device", "pim_device", "standard", "controller")


def list_(
    kind: Annotated[
        str,
        typer.Argument(
            autocompletion=completion.words(*LISTED),
            help="systems | parts | models | runs | schedules | devices | streams | standards | ...",
        ),
    ],
    as_json: Json = False,
) -> None:
    """List what there is of a kind."""
    from archsim.catalogue import catalogue

    found = catalogue(kind)
    if as_json:
        print_json({kind: found})
    else:
        from archsim.report import terminal

        terminal.show_rows([{"name": e["name"], "what": e["what"]} for e in found])


def show(
    kind: Annotated[
        str,
        typer.Argument(
            autocompletion=completion.words(*SHOWN),
            help="system | part | model | run | schedule | standard | flash_device | ...",
        ),
    ],
    name: Annotated[str, typer.Argument(autocompletion=completion.shown_names, help="Its name, or a file.")],
    sources: Annotated[bool, typer.Option("--sources", help="Print where each number comes from.")] = False,
    figure: Annotated[
        Path | None, typer.Option(parser=path, metavar="FILE", help="Draw the machine (.svg, .pdf or .png).")
    ] = None,
    sets: Sets = None,
    as_json: Json = False,
) -> None:
    """Show one thing: a machine's drawing, and values, units and, with --sources, where each comes from."""
    from archsim.catalogue import show_figure, show_thing

    document = show_thing(kind, name, sets or ())
    if figure is not None:
        document["files"] = [str(show_figure(document, figure))]
    if as_json:
        print_json(document)
    else:
        from archsim.report import terminal

        terminal.show_thing(document, sources=sources)


def import_model(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", parser=path, help="A Hugging Face config.json or a GGUF file.")
    ],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", parser=path, metavar="FILE", help="Write the model file NAME.yaml here."),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the model; the output's stem by default.")] = None,
    quant: Annotated[
        str | None, typer.Option(help="Storage type to assume for every tensor, such as Q4_0, instead of the file's.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    as_json: Json = False,
) -> None:
    """Make a model file from a config.json or a GGUF file."""
    from archsim.catalogue import import_model as convert

    document = convert(file, output, name, force, quant)
    if as_json:
        print_json(document)
    else:
        from archsim.report import terminal

        terminal.show_import(document)
