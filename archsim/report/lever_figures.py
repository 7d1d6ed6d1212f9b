"""Figures of Lever's table, published beside simulated, from the rows of ``archsim reproduce lever --json``."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archsim.report import style
from archsim.units import InputError, quote, suggest

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Rows = Mapping[str, Mapping[str, Any]]
_TARGETS = {"l8": "Llama-3.1-8B", "q4b": "Qwen3-4B", "q8": "Qwen3-8B", "q14": "Qwen3-14B"}
_TASKS = {"humaneval": "HumanEval", "mbpp": "MBPP", "gsm8k": "GSM8K", "mt_bench": "MT-Bench"}


def read_rows(file: str | Path) -> Rows:
    """Rows of a stored table by id.

    Raises
    ------
    InputError
        When the file is no table of ``archsim reproduce``.
    """
    path = Path(file)
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return {row["id"]: row for row in document["rows"]}
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    except (ValueError, KeyError, TypeError):
        raise InputError(f"{path}: not a table; write one with archsim reproduce lever --json > FILE") from None


def _chosen(rows: Rows, prefix: str) -> dict[str, Mapping[str, Any]]:
    """Rows whose id begins with `prefix`, by the rest of the id."""
    found = {id_.removeprefix(prefix): row for id_, row in rows.items() if id_.startswith(prefix)}
    if not found:
        raise InputError(f"the table has no rows {quote(prefix)}; is it that of archsim reproduce lever?")
    return found


def speed_figure(rows: Rows) -> Figure:
    """Decoding speed by phone, target and task: published, simulated, null model."""
    cells = _chosen(rows, "lever.fig10.")
    phones = list(dict.fromkeys(key.partition(".")[0] for key in cells))
    with style.house():
        figure, axes = style.blank(2.2 * len(phones), len(phones), squeeze=False)
        for panel, phone in zip(axes[:, 0], phones):
            mine = {key.partition(".")[2]: row for key, row in cells.items() if key.startswith(f"{phone}.")}
            for i, (what, label) in enumerate(
                (("paper", "published"), ("simulated", "simulated"), ("null_model", "null model"))
            ):
                at = [x + 0.27 * (i - 1) for x in range(len(mine))]
                panel.bar(at, [row[what] for row in mine.values()], 0.27, label=label, **style.look(i))
            names = [key.split(".") for key in mine]
            panel.set_xticks(range(len(mine)), [f"{_TARGETS[t]}\n{_TASKS[k]}" for t, k in names], rotation=60)
            panel.tick_params(axis="x", labelsize=6)
            panel.set_title(phone)
            panel.set_ylabel("tokens/s")
            panel.grid(axis="y")
        style.legend_below(figure, axes[0, 0], 3)
    return figure


def budget_figure(rows: Rows) -> Figure:
    """Decoding speed by the share of layers in DRAM: published points, simulated lines."""
    cells = _chosen(rows, "lever.table6.")
    loads = list(dict.fromkeys(key.rpartition(".")[0] for key in cells))
    with style.house():
        figure, axes = style.blank(3.0)
        for i, load in enumerate(loads):
            target, task = load.split(".")
            points = {0: rows[f"lever.fig10.oneplus_12.{target}.{task}"]}
            points |= {int(key.rpartition(".")[2]): row for key, row in cells.items() if key.startswith(f"{load}.")}
            label = f"{_TARGETS[target]}, {_TASKS[task]}"
            axes.plot(list(points), [r["simulated"] for r in points.values()], label=label, **style.line(i))
            axes.plot(
                list(points), [r["paper"] for r in points.values()], "os^D"[i % 4], color=style.COLOURS[i],
                label="published" if i == 0 else None,
            )  # fmt: skip
        axes.set_xlabel("layers in DRAM (%)")
        axes.set_ylabel("tokens/s")
        axes.set_ylim(bottom=0)
        axes.grid()
        style.legend_below(figure, axes, 3)
    return figure


def tree_figure(rows: Rows) -> Figure:
    """Decoding speed and accepted length by tree budget."""
    cells = _chosen(rows, "lever.fig5.")
    budgets = sorted({int(key.partition(".")[0]) for key in cells if key[0].isdigit()})
    with style.house():
        figure, axes = style.blank(2.4, 1, 2)
        panels = (("tps", "tokens/s", "speed"), ("length", "tokens", "length of a step"))
        for i, (panel, (what, unit, name)) in enumerate(zip(axes, panels)):
            panel.plot(budgets, [cells[f"{b}.{what}"]["simulated"] for b in budgets], marker="o", **style.line(i))
            panel.set_xscale("log", base=2)
            panel.set_xticks(budgets, [str(b) for b in budgets])
            panel.set_xlabel("rows of the tree")
            panel.set_ylabel(unit)
            panel.set_title(name)
            panel.grid()
    return figure


def pruning_figure(rows: Rows) -> Figure:
    """What pruning gains, by the share of layers in DRAM."""
    cells = _chosen(rows, "lever.fig12.gain.")
    with style.house():
        figure, axes = style.blank(2.4)
        axes.plot(
            [int(key) for key in cells], [row["simulated"] for row in cells.values()], marker="o", **style.line(0)
        )
        axes.axhline(1.0, color="black", linewidth=0.6)
        axes.set_xlabel("layers in DRAM (%)")
        axes.set_ylabel("speed with over without pruning")
        axes.grid()
    return figure


def stages_figure(rows: Rows) -> Figure:
    """Drafting and projection per cycle, by how they are run."""
    with style.house():
        figure, axes = style.blank(2.4, 1, 2)
        for panel, prefix, name in zip(axes, ("lever.fig13.", "lever.fig14."), ("drafting", "projection")):
            cells = _chosen(rows, prefix)
            for i, row in enumerate(cells.values()):
                panel.bar(i, row["simulated"], 0.7, **style.look(i))
            panel.set_xticks(range(len(cells)), [key.replace("_", "\n", 1) for key in cells])
            panel.set_ylabel("ms per cycle")
            panel.set_title(name)
            panel.grid(axis="y")
    return figure


#: Figures by name.
KINDS: Mapping[str, Callable[[Rows], Figure]] = {
    "speed": speed_figure,
    "budget": budget_figure,
    "tree": tree_figure,
    "pruning": pruning_figure,
    "stages": stages_figure,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Draw one figure of a stored table; returns the exit code."""
    from archsim.report.script import draw, parser

    arguments = parser("Draw a figure of Lever's table.")
    arguments.add_argument("table", help="what archsim reproduce lever --json printed")
    arguments.add_argument("--kind", default="speed", help=" | ".join(KINDS))

    def make(options: Any) -> Figure:
        if options.kind not in KINDS:
            raise InputError(f"no figure {quote(options.kind)}; {suggest(options.kind, KINDS)}")
        return KINDS[options.kind](read_rows(options.table))

    return draw(arguments, argv, make)
