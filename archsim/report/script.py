"""What the scripts in ``plots/`` share: arguments, one-line errors and exit codes (0 ok, 2 bad input)."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from archsim.report import figures, style, table_figures
from archsim.report.npu_figures import kernel_times_figure
from archsim.report.summary import summarise
from archsim.report.tables import read_table
from archsim.trace import Trace
from archsim.units import PS_PER_S, InputError, quote

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_NUMBER = re.compile(r"([0-9]{1,20}(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]{1,2})?")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InputError(message)


def parser(description: str) -> argparse.ArgumentParser:
    """Parser with the output option that every script has."""
    made = _Parser(description=description)
    made.add_argument("-o", "--output", required=True, type=_path, help="the figure: .svg, .pdf or .png")
    return made


def draw(arguments: argparse.ArgumentParser, argv: Sequence[str] | None, make: Callable[[Any], Figure]) -> int:
    """Parse, draw, write the figure; return the exit code."""
    try:
        options = arguments.parse_args(argv)
        style.save(make(options), options.output)
    except InputError as error:
        return _fail(arguments, str(error), 2)
    except OSError as error:
        words = error.strerror or str(error)
        return _fail(arguments, f"{error.filename}: {words}" if error.filename else words, 2)
    except KeyboardInterrupt:
        return _fail(arguments, "interrupted", 130)
    return 0


def _fail(arguments: argparse.ArgumentParser, message: str, code: int) -> int:
    with suppress(OSError, AttributeError):  # nobody may listen on stderr
        sys.stderr.write(f"{arguments.prog}: {' '.join(message.split())}\n")
    return code


def _seconds(text: str) -> float:
    """A plain number of seconds, in ASCII digits."""
    if not _NUMBER.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{quote(text)} is not a number of seconds")
    return float(text)


def _path(text: str) -> Path:
    if not text:
        raise argparse.ArgumentTypeError("the path is empty")
    return Path(text)


def of_run(kind: str, argv: Sequence[str] | None = None) -> int:
    """Draw one figure (a name in `archsim.report.figures.ALL_KINDS`) of one run folder."""
    arguments = parser(figures.ALL_KINDS[kind].__doc__.splitlines()[0])
    arguments.add_argument("run", type=_path, help="a run folder")
    if kind == "timeline":
        arguments.add_argument("--start-s", type=_seconds, default=0.0, help="begin of the window in s")
        arguments.add_argument("--end-s", type=_seconds, help="end of the window in s")
    if kind == "power":
        arguments.add_argument("--bin-s", type=_seconds, help="width of a bin in s")

    def make(options: argparse.Namespace) -> Figure:
        trace = Trace.load(options.run)
        if kind == "timeline":
            return figures.timeline_figure(trace, options.start_s, options.end_s)
        if kind == "power" and options.bin_s is not None:
            return figures.power_figure(trace, round(options.bin_s * PS_PER_S))
        return figures.figure(trace, kind)

    return draw(arguments, argv, make)


def of_many(argv: Sequence[str] | None = None) -> int:
    """Compare run folders, or the rows of tables (a sweep's, say)."""
    arguments = parser("Compare quantities of several runs: one bar per run.")
    arguments.add_argument("runs", nargs="+", type=_path, help="run folders, or tables (.csv, .json, .parquet)")
    arguments.add_argument("--keys", help="quantities, separated by commas")
    arguments.add_argument("--label", help="column of the tables that names their rows")

    def make(options: argparse.Namespace) -> Figure:
        entries = [entry for run in options.runs for entry in _entries(run, options.label)]
        return figures.compare_figure(entries, *([options.keys.split(",")] if options.keys else []))

    return draw(arguments, argv, make)


def _entries(path: Path, label: str | None) -> list[tuple[str, dict[str, Any]]]:
    if path.is_dir() or not path.suffix:
        return [(path.name, summarise(Trace.load(path)))]
    rows = read_table(path)
    if label is None or any(label not in row for row in rows):
        known = ", ".join(rows[0]) if rows else "none"
        raise InputError(f"{path}: name the column that labels the rows with --label; columns: {known}")
    return [(str(row[label]), row) for row in rows]


def of_table(kind: str, argv: Sequence[str] | None = None) -> int:
    """Draw one figure (a name in `archsim.report.table_figures.KINDS`) of a table."""
    make, wanted = table_figures.KINDS[kind]
    arguments = parser((make.__doc__ or kind).splitlines()[0])
    arguments.add_argument("table", type=_path, help="a table (.csv, .json, .parquet), or a sweep's folder")
    for name in wanted:
        arguments.add_argument(f"--{name}", help="a column of the table")
    return draw(
        arguments,
        argv,
        lambda options: make(
            table_figures.rows_to_draw(options.table, kind), **{name: getattr(options, name) for name in wanted}
        ),
    )


def of_kernels(over: str, argv: Sequence[str] | None = None) -> int:
    """Draw the times of NPU kernels over a size, from a table."""
    arguments = parser(f"Times of NPU kernels over {over}: one line per column that ends in _us.")
    arguments.add_argument("table", type=_path, help="a table (.csv, .json, .parquet)")

    def make(options: argparse.Namespace) -> Figure:
        return kernel_times_figure(read_table(options.table), over, steps=True)

    return draw(arguments, argv, make)
