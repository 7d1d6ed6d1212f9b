"""The commands: thin wrappers that parse, call the library and print; one file for each group of them.

Everything heavy is imported inside the commands, so that ``archsim --help`` stays quick.
"""

from __future__ import annotations

import os

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

app = typer.Typer(
    name="archsim",
    help="Simulate language-model inference on phones: NPU, DRAM, PIM, flash and CPU on one clock.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
import_app = typer.Typer(help="Make archsim files from other tools' files.", no_args_is_help=True)
trace_app = typer.Typer(help="Replay a trace on one device alone.", no_args_is_help=True)

#: In the order of ``archsim --help``: run and read, vary, hold against phones and papers, look up and start your own.
for _command in (
    *(runs.demo, runs.run, runs.replay, runs.report, explain.explain, explain.diff, plot.plot),
    *(sweep.sweep, sweep.search, measurements.compare, measurements.calibrate, reproduce.reproduce),
    *(catalogue.list_, catalogue.show, check.check, schema.schema, new.new, record.record, bench.bench),
):
    app.command(_command.__name__.rstrip("_"))(_command)
for _command in (trace.dram, trace.pim, trace.flash, trace.npu):
    trace_app.command()(_command)
import_app.command("model")(catalogue.import_model)
app.add_typer(import_app, name="import")
app.add_typer(trace_app, name="trace")


def invoke(args: list[str]) -> int:
    """Run one command and return its exit code; errors are left to the caller."""
    command = typer.main.get_command(app)
    if "_ARCHSIM_COMPLETE" in os.environ:  # the shell asks for completions
        return completion.answer(lambda: command.main(args=args, prog_name="archsim", standalone_mode=False))
    try:
        # `command.main` would end the process at a closed pipe and hide an interrupt.
        with command.make_context("archsim", list(args)) as context:
            command.invoke(context)
    except typer.Exit as left:
        return left.exit_code
    return 0
