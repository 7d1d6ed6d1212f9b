"""Figures of drafting ahead: of tables that ``archsim reproduce ahasd --json`` wrote, and of a run's queue."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from archsim.config.regular import read_regular
from archsim.report import style
from archsim.report.ahead import queue_depth
from archsim.trace import Trace
from archsim.units import PS_PER_S, InputError, suggest

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Rows = Mapping[str, Mapping[str, Any]]
STEPS = {"async": "ahead", "aau": "+ AAU", "edc": "+ EDC", "tvc": "+ TVC"}
PAIRS = {"opt": "OPT 1.3B / 6.7B", "palm": "PaLM-like 8B / 30B"}
DRAFTERS = ("specdec++", "svip", "adaedl", "banditspec")
#: Largest table that is read, bytes.
LARGEST = 1 << 26


def read_rows(files: Sequence[str | Path]) -> dict[str, dict[str, Any]]:
    """Rows of tables by id.

    Raises
    ------
    InputError
        When a file is not such a table.
    """
    found: dict[str, dict[str, Any]] = {}
    for file in files:
        try:
            rows = json.loads(read_regular(Path(file), LARGEST, "a JSON document"))["rows"]
            found |= {row["id"]: row for row in rows}
        except (ValueError, KeyError, TypeError):
            raise InputError(f"{file}: not a table of archsim reproduce ahasd --json") from None
    return found


def _value(rows: Rows, name: str, column: str = "simulated") -> float:
    value = rows.get(name, {}).get(column)
    if value is None:
        raise InputError(f"the table has no {column} value of {name}; {suggest(name, rows)}")
    return float(value)


def _series(rows: Rows, prefix: str, ending: str = "") -> tuple[list[str], list[float]]:
    """Middle parts of the ids ``<prefix><middle><ending>`` in order, and the values."""
    names = [name for name in rows if name.startswith(prefix) and name.endswith(ending)]
    if not names:
        raise InputError(f"the table has no rows {prefix}...{ending}")
    return [name[len(prefix) : len(name) - len(ending)] for name in names], [_value(rows, name) for name in names]


def _paired_bars(axes: Any, names: Sequence[str], paper: Sequence[float], ours: Sequence[float]) -> None:
    at = np.arange(len(names))
    axes.bar(at - 0.2, paper, 0.38, label="published", **style.look(7))
    axes.bar(at + 0.2, ours, 0.38, label="simulated", **style.look(0))
    axes.set_xticks(at, names)
    axes.axhline(1.0, color="black", linewidth=0.6)
    axes.grid(axis="y")


def ablation_figure(rows: Rows) -> Figure:
    """Throughput and energy efficiency over the mobile GPU by step, published and simulated."""
    with style.house():
        figure, panels = style.blank(2.6, columns=2)
        for axes, what in zip(panels, ("throughput", "efficiency"), strict=True):
            ids = [f"ablation.{name}.{what}" for name in STEPS]
            paper, ours = ([_value(rows, name, column) for name in ids] for column in ("paper", "simulated"))
            _paired_bars(axes, list(STEPS.values()), paper, ours)
            axes.set_title(f"{'throughput' if what == 'throughput' else 'energy efficiency'} over the mobile GPU")
            axes.set_ylabel("ratio")
        style.legend_below(figure, panels[0], 2)
    return figure


def grid_figure(rows: Rows) -> Figure:
    """Full system over the mobile GPU by pair and drafter, published and simulated."""
    with style.house():
        figure, panels = style.blank(4.4, rows=2, columns=2)
        for across, (pair, title) in zip(panels, PAIRS.items(), strict=True):
            for axes, what in zip(across, ("throughput", "efficiency"), strict=True):
                ids = [f"grid.{pair}.{drafter}.{what}" for drafter in DRAFTERS]
                paper, ours = ([_value(rows, name, column) for name in ids] for column in ("paper", "simulated"))
                _paired_bars(axes, DRAFTERS, paper, ours)
                axes.set_title(f"{title}: {'throughput' if what == 'throughput' else 'energy efficiency'}")
                axes.set_ylabel("ratio to the GPU")
        style.legend_below(figure, panels[0][0], 2)
    return figure


def maps_figure(rows: Rows) -> Figure:
    """Where EDC, TVC, the vector units and drafting ahead pay: ratios above 1."""
    with style.house():
        figure, panels = style.blank(5.4, rows=2, columns=2)
        for axes, draw in zip(panels.flat, (_edc_panel, _tvc_panel, _aau_panel, _plain_panel), strict=True):
            draw(axes, rows)
            axes.axhline(1.0, color="black", linewidth=0.8)
            axes.grid(axis="y")
            axes.legend(fontsize=7)
    return figure


def _edc_panel(axes: Any, rows: Rows) -> None:
    _, slowed = _series(rows, "map.edc.", ".slowed")
    order = np.argsort(slowed)
    for i, (name, label) in enumerate((("table", "EDC's table"), ("oracle", "knowing the text"))):
        _, gains = _series(rows, "map.edc.", f".{name}")
        axes.plot(
            np.array(slowed)[order], np.array(gains)[order], marker="o", markersize=3, label=label, **style.line(i)
        )
    axes.set_title("stopping look-ahead")
    axes.set_xlabel("time of a verification beside drafting over one alone")
    axes.set_ylabel("gain over drafting always")


def _tvc_panel(axes: Any, rows: Rows) -> None:
    for i, reuse in enumerate((1, 4)):
        names, gains = _series(rows, f"map.tvc.reuse{reuse}.ranks")
        axes.plot(
            [int(n) for n in names], gains, marker="o", markersize=3, label=f"{reuse} token(s) a pass", **style.line(i)
        )
    axes.set_xticks([1, 2, 3, 4])
    axes.set_title("pre-verification")
    axes.set_xlabel("ranks of a channel that the target is striped over")
    axes.set_ylabel("gain over none")


def _aau_panel(axes: Any, rows: Rows) -> None:
    for i, (ending, label) in enumerate(((".ahead", "drafting ahead"), (".in_turns", "taking turns"))):
        names, gains = _series(rows, "map.aau.interrupt", f"us{ending}")
        axes.plot([float(n) for n in names], gains, marker="o", markersize=3, label=label, **style.line(i))
    axes.set_xscale("log")
    axes.set_title("vector units in the memory")
    axes.set_xlabel("interrupt of a trip to the host (us)")
    axes.set_ylabel("gain over trips")


def _plain_panel(axes: Any, rows: Rows) -> None:
    names, gains = _series(rows, "map.plain.")
    table: dict[str, list[tuple[float, float]]] = {}
    for name, gain in zip(names, gains, strict=True):
        rate, _, level = name.partition("GBps.a")
        table.setdefault(rate, []).append((float(level), gain))
    for i, (rate, points) in enumerate(table.items()):
        axes.plot(*zip(*points, strict=True), marker="o", markersize=3, label=f"{rate} GB/s inside", **style.line(i))
    axes.set_title("AHASD over plain decoding in the memory")
    axes.set_xlabel("acceptance of a drafted token")
    axes.set_ylabel("ratio")


def idle_figure(rows: Rows) -> Figure:
    """Idle shares of NPU and memory over the draft's length, taking turns and drafting ahead."""
    with style.house():
        figure, panels = style.blank(2.4, columns=2, sharey=True)
        for axes, (name, title) in zip(panels, (("sync", "taking turns"), ("ahead", "drafting ahead")), strict=True):
            for i, unit in enumerate(("npu", "pim")):
                names, idle = _series(rows, f"map.idle.{name}.length", f".{unit}")
                axes.plot([int(n) for n in names], idle, marker="o", markersize=3, label=unit.upper(), **style.line(i))
            axes.set_xscale("log", base=2)
            axes.set_xticks([int(n) for n in names], names)
            axes.set_ylim(0, 1)
            axes.set_title(title)
            axes.set_xlabel("tokens of a draft")
            axes.grid(axis="y")
        panels[0].set_ylabel("idle share")
        style.legend_below(figure, panels[0], 2)
    return figure


def added_area_figure(rows: Rows) -> Figure:
    """Area of the additions, published and built from bits, lanes and gates."""
    names = ("aau", "edc", "tvc", "queues")
    with style.house():
        figure, axes = style.blank(2.2)
        paper, ours = ([_value(rows, f"area.{n}", column) for n in names] for column in ("paper", "simulated"))
        at = np.arange(len(names))
        axes.barh(at - 0.2, paper, 0.38, label="published", **style.look(7))
        axes.barh(at + 0.2, ours, 0.38, label="from bits, lanes and gates", **style.look(0))
        axes.set_yticks(at, [n.upper() if n != "queues" else n for n in names])
        axes.set_xscale("log")
        axes.set_xlabel("area at 28 nm (mm2)")
        axes.grid(axis="x")
        style.legend_below(figure, axes, 2)
    return figure


def queue_figure(trace: Trace) -> Figure:
    """Unverified batches that wait for the target over time."""
    times, depth = queue_depth(trace)
    if not times.size:
        raise InputError("this run queues no drafts; give one of schedule ahasd")
    factor, text = style.seconds(trace.duration_ps)
    with style.house():
        figure, axes = style.blank(2.2)
        axes.step(times * PS_PER_S * factor, depth, where="post", linewidth=0.7, **style.line(0))
        axes.set_yticks(range(int(depth.max()) + 2))
        axes.set_xlim(0, trace.duration_ps * factor)
        axes.set_xlabel(f"time ({text})")
        axes.set_ylabel("batches that wait")
        axes.grid(axis="y")
    return figure


#: Figures of a table by kind.
KINDS: Mapping[str, Callable[[Rows], Figure]] = {
    "ablation": ablation_figure,
    "grid": grid_figure,
    "maps": maps_figure,
    "idle": idle_figure,
    "area": added_area_figure,
}


def ahead_figure(sources: Sequence[str | Path], kind: str) -> Figure:
    """Figure by kind: ``queue`` of one run folder, the others of tables."""
    if kind == "queue":
        return queue_figure(Trace.load(sources[0]))
    return KINDS[kind](read_rows(sources))
