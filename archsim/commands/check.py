"""``archsim check``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from archsim.cli import print_json, say
from archsim.commands.options import Json, path


def check(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE|DIR...", parser=path, help="Files to check, or run folders.")
    ],
    as_json: Json = False,
) -> None:
    """Check files (part, system, model, run, sweep, prices, decision stream) and the invariants of run folders."""
    code, found = 0, []
    for file in files:
        entry, failed = _check_run(file) if file.is_dir() else _check_file(file)
        code = failed if code == 0 or failed == 2 else code  # bad input comes first
        found.append({"file": str(file), **entry})
    if as_json:
        print_json({"files": found})
    else:
        for entry in found:
            for problem in entry["problems"]:
                say(problem)
            if not entry["problems"]:
                counts = entry.get("checks", {}).get("counts", {})
                more = f", {sum(counts.values()):,} comparisons of {len(counts)} invariants" if counts else ""
                sys.stdout.write(f"{entry['file']}: ok{more}\n")
    if code:
        raise typer.Exit(code)


def _check_file(file: Path) -> tuple[dict[str, Any], int]:
    from archsim.catalogue import check_files

    problems = check_files([file])[str(file)]
    return {"problems": problems}, 2 if problems else 0


def _check_run(folder: Path) -> tuple[dict[str, Any], int]:
    from archsim.report.invariants import InvariantError, check_trace
    from archsim.trace import Trace
    from archsim.units import InputError

    try:
        return {"problems": [], "checks": check_trace(Trace.load(folder)).to_json()}, 0
    except InputError as error:
        return {"problems": [error.message]}, 2
    except InvariantError as error:
        return {"problems": [f"{folder}: {error}"]}, 3
