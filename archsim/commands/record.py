"""``archsim record``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from archsim.cli import print_json
from archsim.commands.options import Json, integer, path, text, whole


def _file(help_: str) -> typer.models.OptionInfo:
    return typer.Option(parser=path, metavar="FILE", help=help_)


def record(
    model: Annotated[
        str,
        typer.Argument(
            parser=text, metavar="MODEL", help="smollm2, a GGUF file (llama), or the folder of a Hugging Face model."
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", parser=path, metavar="DIR", help="Folder for the streams.")],
    what: Annotated[
        str, typer.Option(parser=text, help="exits,trees,lookups, or some of them.")
    ] = "exits,trees,lookups",
    draft: Annotated[str, typer.Option(parser=text, metavar="DRAFT", help="exit:<layer>, or a model.")] = "exit:15",
    prompts: Annotated[Path | None, _file('JSON lines {"id", "kind", "text"}; the shipped ones.')] = None,
    count: Annotated[int, integer("Prompts at most; 24.")] = 24,
    tokens: Annotated[int, integer("Output tokens of a prompt at most; 256.")] = 256,
    nodes: Annotated[int, integer("Nodes of a tree; 48.")] = 48,
    beam: Annotated[int, integer("Nodes of a depth that are expanded; 8.")] = 8,
    top: Annotated[int, integer("Children of an expanded node; 6.")] = 6,
    depth: Annotated[int, integer("Depth of a tree; 8.")] = 8,
    adapters: Annotated[Path | None, _file("Exit adapters; the shipped ones.")] = None,
    train: Annotated[Path | None, _file("Train new adapters on the model's answers to these prompts.")] = None,
    exits: Annotated[str, typer.Option(parser=text, help="Layers to train.")] = "10,15,20,25",
    vocabulary: Annotated[int, integer("Tokens that trained drafts can propose; 16384.")] = 16384,
    steps: Annotated[int, integer("Training steps of an exit; 300.")] = 300,
    precision: Annotated[str, typer.Option(parser=text, help="bf16 or fp32.")] = "bf16",
    seed: Annotated[int, integer("Seed of the training.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace recordings that the folder holds.")] = False,
    as_json: Json = False,
) -> None:
    """Record decision streams of a real model: early exits, token trees, prompt look-ups; needs archsim[record]."""
    from archsim import __version__
    from archsim.config import InputError
    from archsim.recorder.session import Plan
    from archsim.recorder.session import record as record_streams
    from archsim.report import terminal

    try:
        layers = tuple(whole(part) for part in exits.split(","))
    except typer.BadParameter as error:
        raise InputError(f"--exits: {error}") from None
    plan = Plan(
        model=model,
        what=tuple(dict.fromkeys(part for part in what.split(",") if part)),
        draft=draft,
        tokens=tokens,
        count=count,
        nodes=nodes,
        beam=beam,
        top=top,
        depth=depth,
        prompts=None if prompts is None else str(prompts),
        adapters=None if adapters is None else str(adapters),
        train=None if train is None else str(train),
        exits=layers,
        vocabulary=vocabulary,
        steps=steps,
        precision=precision,
        seed=seed,
    )
    made = record_streams(
        plan, output, force=force, progress=terminal.progress(), recorder=f"archsim {__version__} record"
    )
    if as_json:
        print_json({"folder": str(made.folder), "files": list(made.files)})
        return
    keys = ("stream", "format", "requests", "records", "tokens", "tokens_per_step")
    terminal.show_rows([{key: row[key] for key in keys} for row in made.files])
