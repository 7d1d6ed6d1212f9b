"""``archsim compare`` and ``archsim calibrate``: measurements of a real phone in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from archsim.cli import print_json
from archsim.options import path, text

FILE = typer.Argument(
    parser=path, metavar="FILE", help="llama-bench JSON, fio JSON, a ggml-hexagon profile, or a table (CSV)."
)
SYSTEM = typer.Option(parser=text, metavar="TEXT", help="archsim list systems, or a file.")
FORMAT = typer.Option(
    "--format", parser=text, metavar="TEXT", help="llama-bench | fio | ggml-hexagon | table; recognised by default."
)
TARGET = typer.Option(parser=text, metavar="MODEL", help="Model of rows whose file names none that is known.")
SETS = typer.Option("--set", metavar="PATH=VALUE", help="system.<device>.<field>=value; may be given many times.")
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]


def compare(
    file: Annotated[Path, FILE],
    system: Annotated[str, SYSTEM],
    style: Annotated[str | None, FORMAT] = None,
    target: Annotated[str | None, TARGET] = None,
    sets: Annotated[list[str] | None, SETS] = None,
    tolerance: Annotated[
        float | None, typer.Option(help="Relative tolerance of rows that have none of their own; 0.1 is 10 %.")
    ] = None,
    figure: Annotated[
        Path | None,
        typer.Option(parser=path, metavar="FILE", help="Draw measured against simulated (.png, .svg, .pdf)."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Set measurements against the simulator: residuals by row and by group, the null model beside."""
    from archsim.measurements.residuals import compare as compare_file
    from archsim.report import terminal
    from archsim.trace_commands import check_outputs

    check_outputs({"--figure": figure}, {"the measurements": file, "--system": system})
    options = {"sets": sets or (), "style": style or "", "target": target or "", "tolerance": tolerance}
    found = compare_file(file, system, **options, progress=terminal.progress())
    document = found.document()
    if figure is not None:
        from archsim.report.residual_figures import residual_figure
        from archsim.report.style import save

        drawn = residual_figure(found.points(), f"{file.name} on {found.system}")
        document["files"] = [str(save(drawn, figure))]
    if as_json:
        print_json(document)
        return
    _show_rows(document["rows"], f"{file} ({found.format}) on {found.system}")
    _show_groups(document["groups"])
    skipped = [row for row in document["rows"] if row["simulated"] is None]
    if skipped:
        keys = ("place", "label", "problem")
        terminal.show_rows([{key: row[key] for key in keys} for row in skipped], title="Not simulated")


def _show_rows(rows: list[dict[str, Any]], title: str) -> None:
    from archsim.report import terminal

    keys = ("place", "label", "unit", "measured", "simulated", "ratio", "null_model", "null_ratio")
    keys += ("ok",) if any(row["ok"] is not None for row in rows) else ()
    terminal.show_rows([{key: row[key] for key in keys} for row in rows if row["simulated"] is not None], title=title)


def _show_groups(groups: list[dict[str, Any]]) -> None:
    from archsim.report import terminal

    title = "Ratio simulated / measured by group: geometric mean, mean distance from 1, worst"
    terminal.show_rows(groups, title=title)


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command()(compare)
