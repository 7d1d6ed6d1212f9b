"""Options of ``--uncertainty``, which several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from archsim.commands.options import integer, whole

Samples = Annotated[
    int | None,
    typer.Option(
        "--uncertainty",
        parser=whole,
        metavar="N",
        help="Also draw every uncertain number N times from its range, and print p10, p50 and p90 of the results.",
    ),
]
DrawsSeed = Annotated[
    int | None,
    integer("Seed of these draws; 0.", "--uncertainty-seed"),
]
Workers = Annotated[int | None, integer("Worker processes of the draws.", "-j", "--workers")]


def check_options(samples: int | None, **others: int | None) -> None:
    """Refuse options of the draws where nothing is drawn, and a number of draws that makes no band."""
    from archsim.config import InputError

    names = {"seed": "--uncertainty-seed", "workers": "-j"}
    if samples is None:
        for key, value in others.items():
            if value is not None:
                raise InputError(f"{names[key]} belongs to --uncertainty N")
        return
    from archsim.sweep.executors import check_workers
    from archsim.sweep.uncertainty import check_samples

    check_samples(samples)
    check_workers(1 if others.get("workers") is None else others["workers"])


def bands_of(
    file: Any,
    given: dict[str, Any],
    samples: int,
    seed: int | None,
    workers: int | None,
    output: Path | None,
    *,
    keep: bool,
) -> Any:
    """Bands of a run; its draws stand beside the run folder, as ``<folder>.bands``."""
    from archsim.report import terminal
    from archsim.sweep.uncertainty import uncertainty

    folder = None if output is None else output.with_name(f"{output.name}.bands")
    return uncertainty(
        file,
        samples=samples,
        seed=seed or 0,
        workers=workers or 1,
        output=folder,
        keep=keep,
        progress=terminal.progress(),
        **given,
    )
