"""Every figure with odd inputs: texts neither overlap nor leave the page, and nothing is told apart by colour alone."""

from __future__ import annotations

import math
import sys
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest

from archsim.report import figures, style
from archsim.report.summary import summarise
from archsim.report.table_figures import (
    heat_figure,
    lines_figure,
    pareto_figure,
    reproduction_figure,
    tornado_figure,
)
from archsim.trace import Trace

sys.path.insert(0, str(Path(__file__).parent))
from test_report_figures import texts
from test_report_sample import sample, sample_manifest, sample_tables

LONG = "a.very_long_name.of_something.that_nobody_abbreviated.and_that_goes_on_and_on"


def legible(figure):
    with style.house():
        boxes = texts(figure)
    assert boxes
    page = figure.bbox
    for i, (text, box) in enumerate(boxes):
        assert page.x0 - 1 <= box.x0 <= box.x1 <= page.x1 + 1, f"{text!r} is clipped"
        assert page.y0 - 1 <= box.y0 <= box.y1 <= page.y1 + 1, f"{text!r} is clipped"
        for other, its in boxes[i + 1 :]:
            assert not box.shrunk(0.98, 0.85).overlaps(its.shrunk(0.98, 0.85)), f"{text!r} overlaps {other!r}"
    for axes in figure.axes:
        size = axes.get_window_extent()
        assert min(size.width, size.height) > 8 or not axes.axison, "no room is left for the data"


def table(points, series, name, scale):
    return [
        {
            "x": scale(i), "y": scale(i) * (1 + s), "series": f"{name}{s}", "status": "ok",
            "pareto": i == 0, "z": scale(i + s),
        }
        for s in range(series)
        for i in range(points)
    ]  # fmt: skip


SCALES = {
    "plain": lambda i: 1.0 + i,
    "negative": lambda i: -3.0 + i,
    "zero": lambda i: 0.0,
    "huge": lambda i: 1.7e12 * (1 + i),
    "tiny": lambda i: 2.3e-9 * (1 + i),
    "wide": lambda i: 10.0 ** (i - 2),
    "nan": lambda i: math.nan if i % 2 else 1.0 + i,
}
SHAPES = {"one_point": (1, 1, "s"), "some": (5, 3, "s"), "forty_series": (3, 40, "s"), "long_names": (4, 5, LONG)}


def crossed(*lists, keep):
    """All combinations; those that `keep` refuses only in the slow run."""
    return [
        pytest.param(*some, marks=() if keep(*some) else pytest.mark.slow, id="-".join(map(str, some)))
        for some in product(*lists)
    ]


@pytest.mark.parametrize(
    ("shape", "scale"), crossed(SHAPES, SCALES, keep=lambda a, b: (a == "some") + (b == "wide") + (b == "nan") == 1)
)
def test_tables(shape, scale):
    rows = table(*SHAPES[shape], SCALES[scale])
    legible(lines_figure(rows, "x", "y", "series"))
    legible(heat_figure(rows, "x", "series", "z"))
    legible(heat_figure(rows, "series", "x", "z"))
    legible(pareto_figure(rows, "x", "y"))


def renamed(rows):
    return [
        {LONG if key == "x" else f"{LONG}_bytes_per_s" if key == "y" else key: v for key, v in r.items()} for r in rows
    ]


def test_long_columns():
    rows = renamed(table(4, 2, "s", SCALES["plain"]))
    legible(lines_figure(rows, LONG, f"{LONG}_bytes_per_s", "series"))
    legible(heat_figure(rows, LONG, "series", f"{LONG}_bytes_per_s"))
    legible(pareto_figure(rows, LONG, f"{LONG}_bytes_per_s"))


@pytest.mark.parametrize(
    ("kinds", "scale"),
    crossed([1, 5, 40], ["plain", "negative", "huge", "wide"], keep=lambda a, b: a == 40 or b == "negative"),
)
def test_reproductions(kinds, scale):
    rows = [
        {"paper": SCALES[scale](i), "simulated": 1.1 * SCALES[scale](i), "kind": f"kind {i % kinds}"} for i in range(40)
    ]
    figure = reproduction_figure(rows)
    legible(figure)
    assert ("are not shown" in figure.axes[0].get_xlabel()) == (scale == "negative")


@pytest.mark.parametrize(
    ("name", "count", "sign"),
    crossed(["n", LONG], [1, 60], [1, -1], keep=lambda a, n, s: a == LONG and (n > 1) == (s < 0)),
)
def test_tornados(name, count, sign):
    row = lambda i: {"path": f"{name}.{i}", "latency": sign * 0.9**i, "energy": None, "area": math.nan if i else 0.1}  # noqa: E731
    legible(tornado_figure([row(i) for i in range(count)]))


def odd_run(units=3, phases=5, name=""):
    """The sample with many units, phases and blocks, and long names."""
    tables, manifest = sample_tables(), sample_manifest()
    n = 8 * units
    times = np.arange(n) // units * 5 * 10**6
    rows = dict.fromkeys(tables["rows"], np.zeros(n, dtype=np.int64)) | {
        "row": np.arange(n),
        "unit": np.arange(n) % units,
        "block": np.full(n, 2),
    }
    rows |= {"op": np.arange(n) % phases, "start_ps": times, "flow_ps": times, "end_ps": times + 4 * 10**6}
    ops = {key: np.resize(column, phases) for key, column in tables["ops"].items()}
    ops |= {"op": np.arange(phases), "phase": np.array([f"phase{i}{name}" for i in range(phases)])}
    ops["name"] = np.array([f"{name}op{i}" for i in range(phases)])
    manifest["units"] = [{"name": f"npu.unit{i}{name}"} for i in range(units)]
    area = manifest["prices"]["area_um2"]["npu.hmx"]
    manifest["prices"]["area_um2"] = {f"npu.block{i}{name}": area for i in range(units)}
    return Trace({**tables, "rows": rows, "ops": ops}, manifest)


ODD_RUNS = {
    "plain": {},
    "many": {"units": 24, "phases": 40},
    "long": {"name": LONG},
    "both": {"units": 12, "phases": 20, "name": LONG},
}


@pytest.mark.parametrize(("kind", "odd"), crossed(figures.KINDS, ODD_RUNS, keep=lambda kind, odd: odd == "both"))
def test_runs(kind, odd):
    legible(figures.figure(odd_run(**ODD_RUNS[odd]), kind))


@pytest.mark.parametrize("runs", [1, 30])
def test_comparisons(runs):
    legible(figures.compare_figure([(f"{LONG}{i}", summarise(sample())) for i in range(runs)]))


def test_names_are_wrapped():
    assert style.wrapped("short") == "short"
    assert style.wrapped("npu.hmx.array_of_tiles_in_use") == "npu.hmx.array_of_tiles_\nin_use"
    assert style.wrapped("x" * 100).split("\n") == ["x" * 24, "x" * 15 + "…" + "x" * 8]
    assert style.wrapped("a$b$c") == r"a\$b\$c"


def test_lines_differ_without_colour():
    looks = [(str(style.marked(i)["linestyle"]), style.marked(i)["marker"]) for i in range(64)]
    assert len(set(looks)) == 64
    assert all(a != b for a, b in pairwise(looks))
