"""``archsim sweep`` and ``archsim search``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from archsim.cli import print_json, say
from archsim.commands import completion
from archsim.commands.options import Json, integer, path, text
from archsim.commands.uncertainty import DrawsSeed, Samples, check_options

#: Rows of a table that are printed.
SHOWN = 40

FILE = typer.Argument(
    autocompletion=completion.config_names("sweep"),
    metavar="SWEEP.yaml",
    help="A sweep file, or the name of one (archsim list sweeps).",
)
WORKERS = integer("Worker processes.", "-j", "--workers")
OUT = typer.Option("-o", "--output", parser=path, metavar="DIR", help="Folder; a sweep in it goes on where it stopped.")
DASK = typer.Option(
    "--dask", parser=text, metavar="ADDRESS", help="Run on a dask cluster; 'local' starts one on this machine."
)


def sweep(
    file: Annotated[str, FILE],
    workers: Annotated[int, WORKERS] = 1,
    dask: Annotated[str | None, DASK] = None,
    output: Annotated[Path | None, OUT] = None,
    estimate: Annotated[
        bool, typer.Option("--estimate", help="Say points, time, disk and refused points; run one.")
    ] = False,
    uncertainty: Samples = None,
    draws_seed: DrawsSeed = None,
    as_json: Json = False,
) -> None:
    """Run every point of a sweep and write one table; a killed sweep goes on where it stopped."""
    from archsim.report import terminal
    from archsim.sweep.forecast import estimate as forecast
    from archsim.sweep.runner import sweep as run_sweep

    check_options(uncertainty, seed=draws_seed)
    if estimate:
        document = forecast(file, workers=workers, uncertainty=uncertainty)
        if as_json:
            print_json(document)
        else:
            terminal.show_rows([{"what": key, "value": value} for key, value in document.items()])
        return
    result = run_sweep(
        file,
        output=output,
        workers=workers,
        dask=dask,
        uncertainty=uncertainty,
        uncertainty_seed=draws_seed or 0,
        progress=terminal.progress(),
    )
    _show(result, as_json)


def search(
    file: Annotated[str, FILE],
    trials: Annotated[int, integer("Trials in all, with those of earlier calls.")],
    seed: Annotated[int, integer("Seed of the sampler.")] = 0,
    output: Annotated[Path | None, OUT] = None,
    as_json: Json = False,
) -> None:
    """Search the axes of a sweep for its objectives, within its constraints."""
    from archsim.report import terminal
    from archsim.sweep.search import search as run_search

    result = run_search(file, trials=trials, seed=seed, output=output, progress=terminal.progress())
    _show(result, as_json)


def _show(result: Any, as_json: bool) -> None:
    """Print a sweep; say on stderr what went wrong in it, and end with 2 (no point is feasible) or 3 (all failed)."""
    counts = {"ran": result.ran, "reused": result.reused, "failed": result.failed}
    if as_json:
        print_json({"folder": str(result.folder), **counts, "rows": result.rows, "means": result.means})
    else:
        show_result(result, counts)
    for words in (result.note, result.failures, result.unmet):
        if words:
            say(words)
    if result.failed == len(result.rows):
        raise typer.Exit(3)
    if result.unmet:
        raise typer.Exit(2)


def show_result(result: Any, counts: dict[str, int]) -> None:
    """Print the tables of a sweep, the first rows of each."""
    from archsim.report import terminal

    for title, rows in result.tables.items():
        terminal.show_rows(rows[:SHOWN], title=title)
        more = f"... {len(rows) - SHOWN:,} more rows in the table\n" if len(rows) > SHOWN else ""
        sys.stdout.write(more + ("\n" if title else ""))
    text = ", ".join(f"{count} {what}" for what, count in counts.items())
    terminal.show_rows([{"table": str(result.folder / "table.parquet"), "points": text}])
