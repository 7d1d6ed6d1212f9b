"""``archsim compare`` and ``archsim calibrate``: measurements of a real phone in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from archsim.cli import print_json
from archsim.commands.options import Json, check_outputs, integer, path, text

FILE = typer.Argument(
    parser=path, metavar="FILE", help="llama-bench JSON, fio JSON, a ggml-hexagon profile, or a table (CSV)."
)
SYSTEM = typer.Option(parser=text, metavar="TEXT", help="archsim list systems, or a file.")
FORMAT = typer.Option(
    "--format", parser=text, metavar="TEXT", help="llama-bench | fio | ggml-hexagon | table; recognised by default."
)
TARGET = typer.Option(parser=text, metavar="MODEL", help="Model of rows whose file names none that is known.")
SETS = typer.Option("--set", metavar="PATH=VALUE", help="system.<device>.<field>=value; may be given many times.")


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


def calibrate(
    file: Annotated[Path, FILE],
    system: Annotated[str, SYSTEM],
    fit: Annotated[
        list[str],
        typer.Option(
            parser=text, metavar="PATH[,PATH]", help="Numbers to fit, system.<device>.<field>; no others move."
        ),
    ],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", parser=path, metavar="SYSTEM.yaml", help="Write a system file.")
    ] = None,
    ranges: Annotated[
        list[str] | None,
        typer.Option(
            "--range", parser=text, metavar="PATH=LOW..HIGH", help="Range of a number, instead of its file's."
        ),
    ] = None,
    tolerance: Annotated[
        float, typer.Option(help="Relative tolerance of rows that have none of their own, for the intervals.")
    ] = 0.05,
    hold_out: Annotated[
        float | None,
        typer.Option("--hold-out", metavar="SHARE", help="Share of the rows that the fit is not given; 0.25."),
    ] = None,
    seed: Annotated[int, integer("Seed of the rows held out.")] = 0,
    style: Annotated[str | None, FORMAT] = None,
    target: Annotated[str | None, TARGET] = None,
    sets: Annotated[list[str] | None, SETS] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file of -o.")] = False,
    as_json: Json = False,
) -> None:
    """Fit numbers of a system to measurements, inside their ranges, and say how well the rows tell them."""
    from archsim.measurements.calibration import calibrate as calibrate_file
    from archsim.report import terminal

    if seed < 0:
        from archsim.config import InputError

        raise InputError(f"--seed {seed}: it must be 0 or more")
    paths = [part.strip() for entry in fit for part in entry.split(",") if part.strip()]
    options = {"sets": sets or (), "ranges": ranges or (), "tolerance": tolerance, "hold_out": hold_out, "seed": seed}
    options |= {"style": style or "", "target": target or "", "force": force}
    found = calibrate_file(file, system, paths, output=output, **options, progress=terminal.progress())
    document = found.document()
    if as_json:
        print_json(document)
        return
    keys = ("path", "unit", "start", "value", "interval_low", "interval_high", "low", "high", "status")
    rows = [{**{key: row[key] for key in keys}, "with": ", ".join(row["partners"])} for row in document["parameters"]]
    terminal.show_rows(rows, title=f"{file} ({found.format}) on {found.system}: fitted, with the interval in tolerance")
    for one in found.parameters:
        if one.caution:
            terminal.show_rows([{"note": one.caution}])
    keys = ("place", "label", "held_out", "measured", "unit", "start_ratio", "fitted_ratio")
    terminal.show_rows([{key: row[key] for key in keys} for row in document["rows"]], title="Simulated over measured")
    named = (("given", document["given"]), ("held out", document["held_out"]))
    spreads = [{"what": name, **spread} for name, spread in named if spread]
    terminal.show_rows(spreads, title="Mean factor between simulated and measured (1: equal), and the worst ratio")
    if document["skipped"]:
        terminal.show_rows(document["skipped"], title="Not simulated")
    if found.overlay:
        terminal.show_rows([{"file": found.overlay, "use": f"archsim run ... --system {found.overlay}"}])


def _show_rows(rows: list[dict[str, Any]], title: str) -> None:
    from archsim.report import terminal

    keys = ("place", "label", "unit", "measured", "simulated", "ratio", "null_model", "null_ratio")
    keys += ("ok",) if any(row["ok"] is not None for row in rows) else ()
    terminal.show_rows([{key: row[key] for key in keys} for row in rows if row["simulated"] is not None], title=title)


def _show_groups(groups: list[dict[str, Any]]) -> None:
    from archsim.report import terminal

    title = "Ratio simulated / measured by group: geometric mean, mean factor away from 1 (at least 1), worst"
    terminal.show_rows(groups, title=title)
