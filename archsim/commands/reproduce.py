"""``archsim reproduce``: tables of published figures, and the validation page of all of them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from archsim.cli import print_json
from archsim.commands.options import Json, path

TABLE = "devices | energy | lever | llada | llada_map | ahasd | trends | generations | all | validation"


def reproduce(
    table: Annotated[str, typer.Argument(help=TABLE)],
    sources: Annotated[
        list[Path] | None,
        typer.Option("--from", parser=path, metavar="FILE", help="validation: rows saved before, instead of new ones."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", parser=path, metavar="FILE", help="validation: also write its rows."),
    ] = None,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print the table in Markdown.")] = False,
    as_json: Json = False,
) -> None:
    """Print published figures beside archsim's and a null model's, with the score; or the validation page of all."""
    from archsim import __version__
    from archsim.report import terminal
    from archsim.reproduce.rows import markdown, shown
    from archsim.reproduce.runner import reproduce as rows_of
    from archsim.units import InputError

    if table == "validation":
        _validation(sources or [], output, as_markdown, as_json, __version__)
        return
    if sources or output is not None:
        raise InputError(f"{'--from' if sources else '--output'} is for archsim reproduce validation")
    rows, score = rows_of(table, progress=terminal.progress())
    if as_json:
        print_json({"table": table, "archsim": __version__, "rows": [row.to_json() for row in rows], "score": score})
    elif as_markdown:
        sys.stdout.write(markdown(rows) + "\n")
    else:
        names = shown(rows)
        terminal.show_rows([{key: row.to_json()[key] for key in names} for row in rows])
        terminal.show_rows([{"score": key, "value": value} for key, value in score.items()], title="")


def _validation(sources: list[Path], output: Path | None, as_markdown: bool, as_json: bool, version: str) -> None:
    """Print where archsim is right and wrong, by regime."""
    from archsim.config.regular import check_output, keep_apart
    from archsim.report import terminal
    from archsim.reproduce import validation

    if output is not None:
        check_output(output)
        keep_apart({"--output": output}, {f"--from {file}": file for file in sources})
    tables = validation.read_rows(sources) if sources else validation.computed(terminal.progress())
    if output is not None:
        validation.save_rows(tables, output, "archsim reproduce TABLE --json, one for each table", version)
    if as_json:
        print_json({"archsim": version, **validation.page(tables)})
    elif as_markdown:
        sys.stdout.write(validation.markdown(tables) + "\n")
    else:
        data = validation.page(tables)
        terminal.show_rows(data["regimes"])
        terminal.show_rows(data["misses"][: validation.LISTED], title="furthest off")
        terminal.show_rows(data["claims"], title="orders and claims")
