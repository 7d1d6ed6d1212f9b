"""``archsim plot``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from archsim.cli import print_json
from archsim.commands.options import Json, path, text


def plot(
    source: Annotated[
        Path, typer.Argument(parser=path, metavar="TABLE|DIR", help="A table, a JSON document of archsim, or a run.")
    ],
    kind: Annotated[
        str,
        typer.Option(
            help="Runs: timeline latency energy area power flow roofline window heat. "
            "Tables: lines heat pareto reproduction tornado."
        ),
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", parser=path, metavar="FILE", help="The figure: .svg, .pdf or .png.")
    ],
    x: Annotated[
        str | None,
        typer.Option(parser=text, metavar="TEXT", help="Column of the horizontal axis; pareto: objective 1."),
    ] = None,
    y: Annotated[
        str | None, typer.Option(parser=text, metavar="TEXT", help="Column of the vertical axis; pareto: objective 2.")
    ] = None,
    by: Annotated[
        str | None, typer.Option(parser=text, metavar="TEXT", help="lines: column with one line per value.")
    ] = None,
    value: Annotated[str | None, typer.Option(parser=text, metavar="TEXT", help="heat: column of the cells.")] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            parser=text,
            metavar="AXIS=VALUE[,AXIS=VALUE...]",
            help="lines, heat, pareto of a sweep: rows with these values; repeat an axis for several of its values.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Draw one figure of a run or of a table."""
    from archsim.config.regular import check_output
    from archsim.report.style import check_ending, save

    check_ending(check_output(output))
    made = _figure(source, kind, {"x": x, "y": y, "by": by, "value": value}, where or [])
    path = save(made, output)
    if as_json:
        print_json({"kind": kind, "file": str(path)})
    else:
        typer.echo(str(path))


def _figure(source: Path, kind: str, options: dict[str, str | None], where: list[str]) -> Any:
    from archsim.report import figures, table_figures
    from archsim.report.selection import select
    from archsim.units import InputError, suggest

    known = tuple(dict.fromkeys((*figures.ALL_KINDS, *table_figures.KINDS)))
    if kind not in known:
        raise InputError(f"--kind {kind!r}: {suggest(kind, known)}")
    # a session's heat and a table's heat map share a name; the source tells which is meant
    if kind in figures.ALL_KINDS and (kind not in table_figures.KINDS or (source / "manifest.json").exists()):
        from archsim.trace import Trace

        unused = [name for name, given in {**options, "where": where or None}.items() if given is not None]
        if unused:
            raise InputError(f"--{unused[0]} is for tables; a run's {kind} figure takes none")
        return figures.figure(Trace.load(source), kind)
    draw, wanted = table_figures.KINDS[kind]
    unused = [name for name, given in options.items() if given is not None and name not in wanted]
    if unused:
        raise InputError(f"--{unused[0]} means nothing to {kind}; it takes {', '.join(wanted) or 'no columns'}")
    if where and not wanted:
        raise InputError(f"--where means nothing to {kind}; it selects rows of a sweep")
    rows = select(table_figures.rows_to_draw(source, kind), where)
    if kind == "pareto":
        first, second = table_figures.objectives_of(source)
        options = {**options, "x": options["x"] or first, "y": options["y"] or second}
    return draw(rows, **{name: options[name] for name in wanted})
