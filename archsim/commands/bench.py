"""``archsim bench``."""

from __future__ import annotations

from typing import Annotated

import typer

from archsim.cli import print_json
from archsim.commands.options import Json, text


def bench(
    only: Annotated[
        list[str] | None,
        typer.Option(parser=text, metavar="NAME", help="Only this figure or group (engine, run, memory); repeatable."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Two repeats, and nothing that takes minutes.")] = False,
    as_json: Json = False,
) -> None:
    """Measure how fast archsim is on this machine: CPU time and memory, beside the aims."""
    from archsim.bench.suite import chosen, machine, measure
    from archsim.report import terminal

    wanted = chosen(only or (), quick=quick)
    before, progress, found = machine(), terminal.progress(), []
    if progress is not None:
        progress.start("bench")
    try:
        for i, one in enumerate(wanted):
            found.append(measure(one, quick=quick))
            if progress is not None:
                progress.update(i + 1, len(wanted))
    finally:
        if progress is not None:
            progress.stop()
    if as_json:
        print_json({"machine": before, "benchmarks": found})
        return
    terminal.show_rows([{"machine": key, "value": value} for key, value in before.items()])
    terminal.show_rows(found)
