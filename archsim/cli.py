"""The command line: thin wrappers that parse, call the library and print.

Exit codes: 0 ok, 2 bad input (one line on stderr), 3 the simulation failed (one line), 130 interrupted.
Everything heavy is imported inside the commands, so that ``archsim --help`` stays quick.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(
    name="archsim",
    help="Simulate language-model inference on phones: NPU, DRAM, PIM, flash and CPU on one clock.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
import_app = typer.Typer(help="Make archsim files from other tools' files.", no_args_is_help=True)
app.add_typer(import_app, name="import")

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]
Sets = Annotated[
    list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Override one value; may be given many times.")
]
Out = Annotated[Path | None, typer.Option("-o", "--output", help="Folder for the run.")]


def main(args: list[str] | None = None) -> None:
    """Run the command line and exit with the documented code."""
    sys.exit(run_cli(sys.argv[1:] if args is None else args))


def run_cli(args: list[str]) -> int:
    """Run one command; return its exit code instead of raising."""
    command = typer.main.get_command(app)
    try:
        result = command.main(args=args, prog_name="archsim", standalone_mode=False)
    except KeyboardInterrupt:
        return _fail("interrupted", 130)
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except Exception as error:
        return _explain(error)
    return result if isinstance(result, int) else 0


def _explain(error: Exception) -> int:
    """Turn a known error into one line and its exit code; re-raise what is a defect of archsim itself."""
    name = type(error).__name__
    if name == "NoArgsIsHelpError":
        return 2
    if name == "Abort":
        return _fail("interrupted", 130)
    if hasattr(error, "format_message") and hasattr(error, "exit_code"):  # the option parser's own errors
        return _fail(error.format_message(), 2)
    from archsim.config import InputError

    if isinstance(error, InputError):
        return _fail(str(error), 2)
    if isinstance(error, OSError) and error.filename is not None:
        return _fail(f"{error.filename}: {error.strerror or error}", 2)
    from archsim.engine.sim import SimError

    if isinstance(error, SimError):
        return _fail(str(error), 3)
    raise error


def _fail(message: str, code: int) -> int:
    sys.stderr.write("archsim: " + " ".join(message.split()) + "\n")
    return code


def _print_json(document: Any) -> None:
    import json

    sys.stdout.write(json.dumps(document, indent=2, allow_nan=False) + "\n")


@app.command()
def demo(
    output: Out = None,
    tokens: Annotated[int, typer.Option(help="Output tokens.")] = 64,
    as_json: Json = False,
) -> None:
    """Decode Llama-3.1-8B from flash on a OnePlus 12, plainly and speculatively, and compare."""
    from archsim.demo import demo as run_demo
    from archsim.report import terminal

    document = run_demo(output or Path("archsim-runs"), tokens=tokens, progress=terminal.progress())
    if as_json:
        _print_json(document)
    else:
        terminal.show_demo(document)


@app.command()
def run(
    file: Annotated[str | None, typer.Argument(metavar="[RUN.yaml]", help="A run file, or the name of one.")] = None,
    system: Annotated[str | None, typer.Option(help="Machine (archsim list systems).")] = None,
    schedule: Annotated[str | None, typer.Option(help="Decoding schedule (archsim list schedules).")] = None,
    target: Annotated[str | None, typer.Option(help="Target model (archsim list models).")] = None,
    draft: Annotated[
        str | None, typer.Option(help="Draft model; a speculative schedule takes eagle3-<target>.")
    ] = None,
    stream: Annotated[str | None, typer.Option(help="Decision stream (archsim list streams).")] = None,
    prompts: Annotated[int | None, typer.Option(help="Prompts to decode, one after the other.")] = None,
    tokens: Annotated[int | None, typer.Option(help="Output tokens per prompt.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the synthetic draws.")] = None,
    sets: Sets = None,
    output: Out = None,
    trace: Annotated[str, typer.Option(help="off | tasks | full")] = "tasks",
    as_json: Json = False,
) -> None:
    """Simulate one job and write its run folder."""
    from archsim.report import terminal
    from archsim.session import load
    from archsim.session import run as simulate

    job = {"target": target, "draft": draft, "stream": stream, "prompts": prompts, "tokens": tokens, "seed": seed}
    resolved = load(file, system=system, schedule=schedule, job=job, sets=sets or ())
    result = simulate(resolved, trace=trace, output=output, progress=terminal.progress())
    if as_json:
        _print_json(result.summary)
    else:
        terminal.show_run(result)


@app.command()
def replay(folder: Annotated[Path, typer.Argument(metavar="DIR", help="A run folder.")], as_json: Json = False) -> None:
    """Execute a recorded run again and compare it row by row."""
    from archsim.report import terminal
    from archsim.session import replay as play

    outcome = play(folder, progress=terminal.progress())
    if as_json:
        _print_json(outcome)
    else:
        terminal.show_replay(outcome)
    if not outcome["identical"]:
        raise typer.Exit(3)


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A run folder.")],
    perfetto: Annotated[Path | None, typer.Option(help="Write a Perfetto trace to this file.")] = None,
    figures: Annotated[Path | None, typer.Option(help="Write the figures of the run into this folder.")] = None,
    as_json: Json = False,
) -> None:
    """Tell where time, bytes, energy and area of a run went."""
    from archsim.report import terminal
    from archsim.session import report as make

    document = make(folder, perfetto=perfetto, figures=figures, progress=terminal.progress())
    if as_json:
        _print_json(document)
    else:
        terminal.show_report(document)


@app.command()
def check(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files to check.")], as_json: Json = False
) -> None:
    """Check files (part, system, model, run, decision stream) without running anything."""
    from archsim.catalogue import check_files

    problems = check_files(files)
    if as_json:
        _print_json({"files": [{"file": str(f), "problems": problems[str(f)]} for f in files]})
    else:
        for file in files:
            for problem in problems[str(file)]:
                sys.stderr.write(f"archsim: {problem}\n")
            if not problems[str(file)]:
                sys.stdout.write(f"{file}: ok\n")
    if any(problems.values()):
        raise typer.Exit(2)


@app.command("list")
def list_(
    kind: Annotated[str, typer.Argument(help="systems | parts | models | runs | schedules | devices | streams")],
    as_json: Json = False,
) -> None:
    """List what there is of a kind."""
    from archsim.catalogue import catalogue

    found = catalogue(kind)
    if as_json:
        _print_json({kind: found})
    else:
        from archsim.report import terminal

        terminal.show_rows([{"name": e["name"], "what": e["what"]} for e in found])


@app.command()
def show(
    kind: Annotated[str, typer.Argument(help="system | part | model | run | schedule")],
    name: Annotated[str, typer.Argument(help="Its name, or a file.")],
    sources: Annotated[bool, typer.Option("--sources", help="Print where each number comes from.")] = False,
    sets: Sets = None,
    as_json: Json = False,
) -> None:
    """Show one thing: its values, units and, with --sources, where each comes from."""
    from archsim.catalogue import show_thing

    document = show_thing(kind, name, sets or ())
    if as_json:
        _print_json(document)
    else:
        from archsim.report import terminal

        terminal.show_thing(document, sources=sources)


@import_app.command("model")
def import_model(
    file: Annotated[Path, typer.Argument(help="A Hugging Face config.json or a GGUF file.")],
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Write the model file here.")] = None,
    name: Annotated[str | None, typer.Option(help="Name of the model; the file's stem by default.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    as_json: Json = False,
) -> None:
    """Make a model file from a config.json or a GGUF file."""
    from archsim.catalogue import import_model as convert

    document = convert(file, output, name, force)
    if as_json:
        _print_json(document)
    else:
        from archsim.report import terminal

        terminal.show_import(document)
