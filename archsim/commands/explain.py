"""``archsim explain`` and ``archsim diff``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from archsim.cli import print_json
from archsim.commands.options import Json, integer, path


def explain(
    folder: Annotated[Path, typer.Argument(parser=path, metavar="DIR", help="A run folder.")],
    sensitivity: Annotated[
        bool, typer.Option("--sensitivity", help="Also run again with every number of the machine moved.")
    ] = False,
    params: Annotated[
        list[str] | None,
        typer.Option("--param", metavar="PATH", help="Move this number only; may be given many times."),
    ] = None,
    step: Annotated[float | None, typer.Option(help="Relative step of --sensitivity; 0.05.")] = None,
    figure: Annotated[
        Path | None,
        typer.Option(parser=path, metavar="FILE", help="Draw the sensitivities as a tornado (.png, .svg, .pdf)."),
    ] = None,
    assumptions: Annotated[
        bool,
        typer.Option("--assumptions", help="Also name the assumed and fitted numbers that the answers hang on most."),
    ] = False,
    workers: Annotated[int | None, integer("Processes of --assumptions.", "-j", "--workers")] = None,
    as_json: Json = False,
) -> None:
    """Say what owns the time of a run, what more of each device could give, and what the answer hangs on."""
    from archsim.config import InputError
    from archsim.config.regular import check_output
    from archsim.report import terminal
    from archsim.report.style import check_ending
    from archsim.session.reading import explain as explain_run

    if figure is not None and not (sensitivity or params):
        raise InputError("--figure draws the sensitivities; give --sensitivity or --param too")
    if step is not None and not (sensitivity or params):
        raise InputError("--step belongs to --sensitivity and --param")
    if workers is not None and not assumptions:
        raise InputError("-j belongs to --assumptions")
    if figure is not None:
        check_ending(check_output(figure))
    moves = {"params": params or (), "step": 0.05 if step is None else step, "progress": terminal.progress()}
    moves |= {"assumptions": assumptions, "workers": 1 if workers is None else workers}
    document: dict[str, Any] = explain_run(folder, sensitivity=sensitivity, **moves).to_json()
    if figure is not None:
        from archsim.report.style import save
        from archsim.report.table_figures import tornado_figure

        document["files"] = [str(save(tornado_figure(document["sensitivity"]), figure))]
    if as_json:
        print_json(document)
        return
    for sentence in document["insight"]:
        terminal.show_rows([{"what": sentence}])
    titles = {"path": "What the run waited for", "what_if": "If a device were infinitely fast", "roofline": "Roofline"}
    for key, title in titles.items():
        terminal.show_rows(document[key][:15], title=title)
    if "sensitivity" in document:
        keys = ("path", "value", "unit", "latency", "decode_time", "energy", "area", "note")
        rows = [{key: row[key] for key in keys} for row in document["sensitivity"]]
        moving = [row for row in rows if any(abs(row[key] or 0) > 1e-4 for key in ("latency", "energy", "area"))]
        terminal.show_rows(moving, title="Log-slopes: change of the result over change of the number")
        stuck = [str(row["path"]) for row in rows if row["note"] == "cannot be moved"]
        still = [str(row["path"]) for row in rows if row not in moving and row["note"] != "cannot be moved"]
        for what, names in (("does not respond to", still), ("cannot be moved", stuck)):
            if names:
                terminal.show_rows([{what: ", ".join(names)}])
    if "assumptions" in document:
        _show_assumptions(document["assumptions"])


def _show_assumptions(found: dict[str, list[dict[str, Any]]]) -> None:
    """What each answer hangs on, and the measurements, each named once."""
    from archsim.report import terminal

    for answer, entries in found.items():
        rows = [
            {
                "path": entry["path"],
                "value": entry["value"],
                "range": f"{entry['low']:.4g} to {entry['high']:.4g} {entry['unit']}".strip(),
                "nominal": entry["nominal"],
                "at low": entry["at_low"],
                "at high": entry["at_high"],
                "source": entry["source"],
            }
            for entry in entries
        ]
        terminal.show_rows(rows, title=f"Assumed and fitted numbers that {answer} hangs on most")
    settle = {entry["path"]: entry["settle"] for entries in found.values() for entry in entries}
    terminal.show_rows([{"path": path, "what would settle it": text} for path, text in settle.items()])


def diff(
    one: Annotated[Path, typer.Argument(parser=path, metavar="A", help="A run folder.")],
    other: Annotated[Path, typer.Argument(parser=path, metavar="B", help="Another run folder.")],
    as_json: Json = False,
) -> None:
    """Say what makes two runs differ, by cause: time by unit and phase, energy by action."""
    from archsim.report import terminal
    from archsim.session.reading import diff as compare

    document = compare(one, other)
    if as_json:
        print_json(document)
        return
    terminal.show_rows(document["summary"], title=f"A = {one}, B = {other}")
    terminal.show_rows(document["time"][:15], title=f"Time on the path per {document['per']}, s")
    terminal.show_rows(document["energy"][:15], title=f"Energy per {document['per']}, J")
