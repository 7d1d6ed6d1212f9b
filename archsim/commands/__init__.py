"""The commands: thin wrappers that parse, call the library and print; one file for each group of them.

Everything heavy is imported inside the commands, so that ``archsim --help`` stays quick.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from typing import Any

import typer

from archsim.commands import (
    bench,
    catalogue,
    check,
    completion,
    explain,
    measurements,
    new,
    plot,
    record,
    reproduce,
    runs,
    schema,
    sweep,
    trace,
)

import_app = typer.Typer(help="Make archsim files from other tools' files.", no_args_is_help=True)
import_app.command("model")(catalogue.import_model)
trace_app = typer.Typer(help="Replay a trace on one device alone.", no_args_is_help=True)
for _command in (trace.dram, trace.pim, trace.flash, trace.npu):
    trace_app.command()(_command)

#: In the order of ``archsim --help``: run and read, vary, hold against phones and papers, look up and start your own.
COMMANDS: dict[str, Callable[..., Any]] = {
    command.__name__.rstrip("_"): command
    for command in (
        *(runs.demo, runs.run, runs.replay, runs.report, explain.explain, explain.diff, plot.plot),
        *(sweep.sweep, sweep.search, measurements.compare, measurements.calibrate, reproduce.reproduce),
        *(catalogue.list_, catalogue.show, check.check, schema.schema, new.new, record.record, bench.bench),
    )
}
GROUPS = {"import": import_app, "trace": trace_app}


@cache
def parser(name: str = "") -> Any:
    """Parser of the whole command line, or of its one command or group `name`: to build all of them takes 0.1 s."""
    app = typer.Typer(
        name="archsim",
        help="Simulate language-model inference on phones: NPU, DRAM, PIM, flash and CPU on one clock.",
        no_args_is_help=True,
        add_completion=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    for each, command in COMMANDS.items():
        if name in ("", each):
            app.command(each)(command)
    for each, group in GROUPS.items():
        if name in ("", each):
            app.add_typer(group, name=each)
    return typer.main.get_group(app) if name else typer.main.get_command(app)


def invoke(args: list[str]) -> int:
    """Run one command and return its exit code; errors are left to the caller."""
    if "_ARCHSIM_COMPLETE" in os.environ:  # the shell asks for completions
        return completion.answer(lambda: parser().main(args=args, prog_name="archsim", standalone_mode=False))
    first = args[0] if args else ""
    command = parser(first if first in COMMANDS or first in GROUPS else "")
    try:
        # `command.main` would end the process at a closed pipe and hide an interrupt.
        with command.make_context("archsim", list(args)) as context:
            command.invoke(context)
    except typer.Exit as left:
        return left.exit_code
    return 0
