"""``archsim plot``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from archsim.cli import print_json
from archsim.options import path, text


def plot(
    source: Annotated[
        Path, typer.Argument(parser=path, metavar="TABLE|DIR", help="A table, a JSON document of archsim, or a run.")
    ],
    kind: Annotated[
        str,
        typer.Option(help="Runs: timeline latency energy area power. Tables: lines heat pareto reproduction tornado."),
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", parser=path, metavar="FILE", help="The figure: .svg, .pdf or .png.")
    ],
    x: Annotated[str | None, typer.Option(parser=text, metavar="TEXT", help="Column of the horizontal axis.")] = None,
    y: Annotated[str | None, typer.Option(parser=text, metavar="TEXT", help="Column of the vertical axis.")] = None,
    by: Annotated[
        str | None, typer.Option(parser=text, metavar="TEXT", help="lines: column with one line per value.")
    ] = None,
    value: Annotated[str | None, typer.Option(parser=text, metavar="TEXT", help="heat: column of the cells.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Draw one figure of a run or of a table."""
    from archsim.config.regular import check_output
    from archsim.report.style import check_ending, save

    check_ending(check_output(output))
    made = _figure(source, kind, {"x": x, "y": y, "by": by, "value": value})
    path = save(made, output)
    if as_json:
        print_json({"kind": kind, "file": str(path)})
    else:
        typer.echo(str(path))


def _figure(source: Path, kind: str, options: dict[str, str | None]) -> Any:
    from archsim.report import figures, table_figures
    from archsim.units import InputError, suggest

    known = (*figures.KINDS, *table_figures.KINDS)
    if kind not in known:
        raise InputError(f"--kind {kind!r}: {suggest(kind, known)}")
    if kind in figures.KINDS:
        from archsim.trace import Trace

        unused = [name for name, given in options.items() if given is not None]
        if unused:
            raise InputError(f"--{unused[0]} is for tables; a run's {kind} figure takes none")
        return figures.figure(Trace.load(source), kind)
    draw, wanted = table_figures.KINDS[kind]
    unused = [name for name, given in options.items() if given is not None and name not in wanted]
    if unused:
        raise InputError(f"--{unused[0]} means nothing to {kind}; it takes {', '.join(wanted) or 'no columns'}")
    return draw(_rows(source, kind), **{name: options[name] for name in wanted})


def _rows(source: Path, kind: str) -> Any:
    """Rows of a table, of a sweep's folder, or of a document of ``archsim reproduce`` or ``archsim explain``."""
    from archsim.config.regular import read_regular
    from archsim.report.tables import read_table
    from archsim.units import InputError

    if source.is_dir():
        return read_table(source / "table.parquet")
    if source.suffix == ".json":
        import json

        raw = read_regular(source, 1 << 28, "a JSON document")
        try:
            document = json.loads(raw)
        except (ValueError, RecursionError):
            raise InputError(f"{source}: is no JSON document") from None
        if isinstance(document, dict):
            rows = document.get("sensitivity" if kind == "tornado" else "rows")
            if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
                raise InputError(f"{source}: holds no rows to draw")
            return rows
    return read_table(source)


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command()(plot)
