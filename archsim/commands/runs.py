"""``archsim demo``, ``run``, ``replay`` and ``report``: runs and their folders."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from archsim.cli import print_json, say
from archsim.commands import completion
from archsim.commands.options import Json, Sets, integer, path
from archsim.commands.uncertainty import DrawsSeed, Samples, Workers, bands_of, check_options

Out = Annotated[Path | None, typer.Option("-o", "--output", parser=path, metavar="DIR", help="Folder for the run.")]
RunFolder = Annotated[Path, typer.Argument(metavar="DIR", parser=path, help="A run folder.")]
RunFile = Annotated[
    str | None,
    typer.Argument(
        metavar="[RUN.yaml]", autocompletion=completion.config_names("run"), help="A run file, or the name of one."
    ),
]
System = Annotated[
    str | None,
    typer.Option(help="Machine (archsim list systems).", autocompletion=completion.config_names("system")),
]
Schedule = Annotated[
    str | None,
    typer.Option(
        help="Decoding schedule (archsim list schedules).", autocompletion=completion.plugin_names("schedule")
    ),
]
Target = Annotated[
    str | None,
    typer.Option(help="Target model (archsim list models).", autocompletion=completion.config_names("model")),
]
Draft = Annotated[
    str | None,
    typer.Option(
        help="Draft model; a speculative schedule takes eagle3-<target>.",
        autocompletion=completion.config_names("model"),
    ),
]
Stream = Annotated[
    str | None, typer.Option(help="Decision stream (archsim list streams).", autocompletion=completion.streams)
]
Thermal = Annotated[
    str | None,
    typer.Option(
        metavar="PART",
        autocompletion=completion.config_names("part"),
        help="Thermal model of the phone, such as phone_passive.",
    ),
]
TraceMode = Annotated[
    str, typer.Option(help="off | tasks | full", autocompletion=completion.words("off", "tasks", "full"))
]


def demo(
    output: Out = None,
    tokens: Annotated[int, integer("Output tokens.")] = 64,
    as_json: Json = False,
) -> None:
    """Decode Llama-3.1-8B from flash on a OnePlus 12, plainly and speculatively, and compare."""
    from archsim.config import InputError
    from archsim.demo import demo as run_demo
    from archsim.report import terminal

    if tokens < 2:  # one token has no decoding speed
        raise InputError(f"--tokens: '{tokens}' should be greater than or equal to 2")
    try:
        document = run_demo(output or Path("archsim-runs"), tokens=tokens, progress=terminal.progress())
    except InputError as error:
        raise InputError(error.message.replace("--set job.tokens:", "--tokens:")) from None
    if as_json:
        print_json(document)
    else:
        terminal.show_demo(document)


def run(
    file: RunFile = None,
    system: System = None,
    schedule: Schedule = None,
    target: Target = None,
    draft: Draft = None,
    stream: Stream = None,
    prompts: Annotated[int | None, integer("Prompts to decode, one after the other.")] = None,
    tokens: Annotated[int | None, integer("Output tokens per prompt.")] = None,
    seed: Annotated[int | None, integer("Seed of the synthetic draws.")] = None,
    thermal: Thermal = None,
    sets: Sets = None,
    output: Out = None,
    trace: TraceMode = "tasks",
    uncertainty: Samples = None,
    draws_seed: DrawsSeed = None,
    workers: Workers = None,
    check: Annotated[bool, typer.Option("--check", help="Check every invariant of the finished trace.")] = False,
    as_json: Json = False,
) -> None:
    """Simulate one job and write its run folder."""
    from archsim.report import terminal
    from archsim.session import load
    from archsim.session import run as simulate

    job = {"target": target, "draft": draft, "stream": stream, "prompts": prompts, "tokens": tokens, "seed": seed}
    job["thermal"] = thermal
    given = {"system": system, "schedule": schedule, "job": job, "sets": tuple(sets or ())}
    check_options(uncertainty, seed=draws_seed, workers=workers)
    resolved = load(file, **given)
    if uncertainty is not None:
        from archsim.sweep.ranges import uncertain

        uncertain(resolved)  # a run that cannot be drawn is refused before it is simulated
    result = simulate(resolved, trace=trace, output=output, check=check, progress=terminal.progress())
    found = None
    if uncertainty is not None:
        found = bands_of(file, given, uncertainty, draws_seed, workers, output, keep=trace != "off")
    if as_json:
        print_json({**result.summary, **({"uncertainty": found.document()} if found else {})})
    else:
        terminal.show_run(result)
        if found:
            terminal.show_bands(found)


def replay(folder: RunFolder, as_json: Json = False) -> None:
    """Execute a recorded run again and compare it row by row."""
    from archsim.report import terminal
    from archsim.session import replay as play

    outcome = play(folder, progress=terminal.progress())
    if as_json:
        print_json(outcome)
    else:
        terminal.show_replay(outcome)
    if not outcome["identical"]:
        raise typer.Exit(3)


def report(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", parser=path, help="A folder of a run or a sweep; with --html also a table.")
    ],
    perfetto: Annotated[
        Path | None, typer.Option(parser=path, metavar="FILE", help="Write a Perfetto trace to this file.")
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(parser=path, metavar="DIR", help="Write the figures of the run into this folder.")
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(parser=path, metavar="FILE", help="Write one HTML file: tables, figures, time line."),
    ] = None,
    tables: Annotated[
        Path | None,
        typer.Option(parser=path, metavar="FILE", help="Price the run by this file instead; nothing is simulated."),
    ] = None,
    baseline: Annotated[
        Path | None, typer.Option(parser=path, metavar="DIR", help="Set energy and area against this run's.")
    ] = None,
    export: Annotated[
        Path | None, typer.Option(parser=path, metavar="DIR", help="Write every table into this folder.")
    ] = None,
    ending: Annotated[str | None, typer.Option("--format", help="csv | parquet | json, for --export; csv")] = None,
    as_json: Json = False,
) -> None:
    """Tell where time, bytes, energy and area of a run went."""
    from archsim.config import InputError
    from archsim.config.regular import check_output, keep_apart, output_folder
    from archsim.report import terminal
    from archsim.session import report as make
    from archsim.units import quote

    if ending is not None and export is None:
        raise InputError("--format belongs to --export")
    if ending not in (None, "csv", "parquet", "json"):
        raise InputError(f"--format {quote(ending)} is not one of csv, parquet, json")
    for target in (perfetto, html):
        if target is not None:
            check_output(target)
    inputs = {"the run": folder, "--tables": tables, "--baseline": baseline}
    keep_apart({"--perfetto": perfetto, "--html": html}, inputs)
    others = (perfetto, figures, tables, baseline, export)
    if html is not None and all(other is None for other in others) and _show_page(folder, html, as_json):
        return
    if html is None and all(other is None for other in others) and _show_sweep(folder, as_json):
        return
    prices = {"tables": tables, "baseline": baseline, "export": export, "ending": ending or "csv"}
    with ExitStack() as folders:
        for target in (figures, export):
            if target is not None:
                folders.enter_context(output_folder(target))
        outputs = {"perfetto": perfetto, "figures": figures, "html": html}
        document = make(folder, **outputs, progress=terminal.progress(), **prices)
    if as_json:
        print_json(document)
    else:
        terminal.show_report(document)


def _show_sweep(source: Path, as_json: bool) -> bool:
    """Print the tables of a sweep's folder as the sweep did; False where `source` is none."""
    from archsim.commands.sweep import show_result
    from archsim.report.page.source import is_table

    if not source.is_dir() or not is_table(source):
        return False
    from archsim.sweep.outcome import load_result

    result = load_result(source)
    if as_json:
        document = {"folder": str(source), "failed": result.failed, "rows": result.rows, "means": result.means}
        print_json(document)
    else:
        show_result(result, {"points": len(result.rows), "failed": result.failed})
        for words in (result.failures, result.unmet):
            if words:
                say(words)
    return True


def _show_page(source: Path, html: Path, as_json: bool) -> bool:
    """Write the page of a sweep or of a table; False where `source` is neither."""
    from archsim.report.page.source import is_table, write_page

    if not is_table(source):
        return False
    written = write_page(source, html)
    if as_json:
        print_json(written)
    else:
        sys.stdout.write(f"{written['title']}: {written['rows']:,} rows\nwrote {html}\n")
    return True
