"""``archsim trace ...``: one device alone, fed by a trace of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from archsim.cli import print_json

app = typer.Typer(help="Replay a trace on one device alone.", no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")]


@app.command()
def dram(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Requests, plain or gzip.")],
    standard: Annotated[str, typer.Option(help="archsim list standards, or a file.")] = "lpddr5x-9600",
    controller: Annotated[str, typer.Option(help="archsim list controllers, or a file.")] = "mobile",
    channels: Annotated[int, typer.Option(help="Channels.")] = 1,
    injection: Annotated[str, typer.Option(help="greedy | chain | chain:1 | paced:N | recorded")] = "greedy",
    style: Annotated[
        str | None, typer.Option("--format", help="rw-hex | ldst | dramsim3; recognised by default.")
    ] = None,
    commands: Annotated[Path | None, typer.Option(help="Write the DRAM commands to this CSV file.")] = None,
    figure: Annotated[Path | None, typer.Option(help="Draw the read latencies into this file.")] = None,
    as_json: Json = False,
) -> None:
    """Replay requests on the command-level DRAM model.

    Every request is served before the run ends; cycles are those of the standard's clock.
    """
    from archsim.config.regular import check_output
    from archsim.devices.dram.controller import load_memory
    from archsim.devices.dram.replay import replay

    for target in (commands, figure):
        if target is not None:
            check_output(target)
    memory = load_memory(standard, controller, channels=channels)
    result = replay(memory, file, injection=injection, style=style, command_trace=commands)
    if figure is not None:
        from archsim.report.figures import latency_histogram_figure
        from archsim.report.style import save

        save(latency_histogram_figure(result.histogram, result.tck_ns), figure)
    if as_json:
        print_json(result.to_json())
        return
    from archsim.report import terminal
    from archsim.report.tables import flat

    document = {key: value for key, value in flat(result.to_json()).items() if value != 0 or "." not in key}
    terminal.show_rows([{"what": key, "value": value} for key, value in document.items()], title=str(file))
