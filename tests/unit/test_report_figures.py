"""Figures and the scripts in plots/: written, deterministic, legible, and errors in one line."""

import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from archsim.report import figures, script, style
from archsim.report.summary import summarise
from archsim.report.tables import table, write_table
from archsim.reproduce.npu_tables import orders, staircase
from archsim.trace import Trace
from archsim.units import InputError

sys.path.insert(0, str(Path(__file__).parent))
from test_report_sample import sample, sample_manifest, sample_tables

ROOT = Path(__file__).parents[2]
MAGIC = {"svg": b"<?xml", "pdf": b"%PDF", "png": b"\x89PNG"}


def draw(kind):
    if kind == "compare":
        return figures.compare_figure([("a", summarise(sample())), ("b", summarise(sample()))])
    return figures.figure(sample(), kind)


@pytest.mark.parametrize("kind", [*figures.KINDS, "compare"])
def test_figures_are_vectors_with_the_same_bytes_every_time(kind, tmp_path):
    first = style.save(draw(kind), tmp_path / "a.svg").read_bytes()
    assert first.startswith(MAGIC["svg"])
    assert len(first) > 4000
    assert style.save(draw(kind), tmp_path / "b.svg").read_bytes() == first
    assert b"<dc:date>" not in first


@pytest.mark.parametrize("ending", MAGIC)
def test_endings(ending, tmp_path):
    first = style.save(draw("area"), tmp_path / f"a.{ending}").read_bytes()
    assert first.startswith(MAGIC[ending])
    assert style.save(draw("area"), tmp_path / f"b.{ending}").read_bytes() == first


def texts(figure):
    """Boxes of all visible texts in pixels."""
    FigureCanvasAgg(figure).draw()
    found = []
    for axes in figure.axes:
        for axis, coordinate in ((axes.xaxis, 0), (axes.yaxis, 1)) if axes.axison else ():
            low, high = sorted(axis.get_view_interval())
            found += [t for t in axis.get_ticklabels() if low <= t.get_position()[coordinate] <= high]
        found += [axes.xaxis.label, axes.yaxis.label, axes.title, *axes.texts]
    for legend in [*figure.legends, *(axes.get_legend() for axes in figure.axes)]:
        found += legend.get_texts() if legend else []
    return [(t.get_text(), t.get_window_extent()) for t in found if t.get_text() and t.get_visible()]


@pytest.mark.parametrize("kind", [*figures.KINDS, "compare"])
def test_texts_neither_overlap_nor_leave_the_page(kind):
    with style.house():
        figure = draw(kind)
        boxes = texts(figure)
    page = figure.bbox
    for i, (text, box) in enumerate(boxes):
        inside = page.x0 <= box.x0 and box.x1 <= page.x1 + 1 and page.y0 <= box.y0 and box.y1 <= page.y1 + 1
        assert inside, f"{text!r} is clipped"
        for other, its in boxes[i + 1 :]:
            assert not box.shrunk(0.98, 0.9).overlaps(its.shrunk(0.98, 0.9)), f"{text!r} overlaps {other!r}"


def test_a_phase_looks_the_same_in_every_figure_and_looks_differ():
    alone, together = figures.phase_look(["io"])["io"], figures.phase_look(["draft", "io", "control"])["io"]
    assert alone == together
    looks = [tuple(style.look(i).values()) for i in range(16)]
    assert len(set(looks)) == 16
    assert len({hatch for _, hatch, _ in looks[:8]}) == 8  # told apart without colour


def test_window_of_the_timeline():
    axes = figures.timeline_figure(sample(), 20e-6, 30e-6).axes[0]
    assert axes.get_xlabel() == "time since 20 us (us)"
    assert [label.get_text() for label in axes.get_yticklabels()] == ["flash.queue", "npu.hmx"]
    with pytest.raises(InputError, match=r"nothing happens between 1\.0 s and 2\.0 s; the run lasts 4e-05 s"):
        figures.timeline_figure(sample(), 1.0, 2.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: figures.figure(sample(), "powr"), "no figure 'powr'; did you mean 'power'"),
        (lambda: figures.compare_figure([]), "nothing to compare; give at least one run"),
        (lambda: figures.compare_figure([("a", {"energy_j": 1.0})], ["energy"]), "run 'a' has no number 'energy'"),
        (lambda: style.save(draw("area"), "figure.gif"), "figure.gif: a figure is written as .svg, .pdf or .png"),
    ],
)
def test_errors(make, message):
    with pytest.raises(InputError) as caught:
        make()
    assert str(caught.value).startswith(message)


def test_no_area_is_said():
    manifest = sample_manifest()
    manifest["prices"]["area_um2"] = {}
    with pytest.raises(InputError, match="the machine of this run declares no area"):
        figures.area_figure(Trace(sample_tables(), manifest))


def test_axis_words():
    assert figures.quantity("decode_tokens_per_s") == ("decode", "tokens/s")
    assert figures.quantity("energy_per_token_j") == ("energy per token", "J")
    assert figures.quantity("accepted_per_step") == ("accepted per step", "")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return sample().save(tmp_path_factory.mktemp("runs") / "sample")


@pytest.mark.parametrize("kind", figures.KINDS)
def test_script_of_one_run(kind, run, tmp_path):
    more = {"timeline": ["--end-s", "3e-5"], "power": ["--bin-s", "2e-6"]}.get(kind, [])
    assert script.of_run(kind, [str(run), "-o", str(tmp_path / "f.svg"), *more]) == 0
    assert (tmp_path / "f.svg").stat().st_size > 4000


def test_script_of_many_runs_and_of_a_table(run, tmp_path):
    output = ["-o", str(tmp_path / "f.pdf")]
    assert script.of_many([str(run), str(run), *output, "--keys", "ttft_s,phases.io"]) == 0
    rows = write_table(table(sample(), "requests"), tmp_path / "t.csv")
    assert script.of_many([str(rows), *output, "--keys", "latency_s", "--label", "request"]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: -o/--output, runs"),
        (["none", "-o", "f.svg"], "none: no such folder; give the run folder that `archsim run` wrote"),
        (["none.csv", "-o", "f.svg"], "none.csv: no such table"),
        (["{run}", "-o", "f.gif"], "f.gif: a figure is written as .svg, .pdf or .png"),
        (["{run}", "-o", "no/f.svg"], "no/f.svg: cannot be written: there is no folder 'no'"),
        (["{run}", "-o", "f.svg", "--keys", "ttft"], "run 'sample' has no number 'ttft'; did you mean 'ttft_s'?"),
    ],
)
def test_script_errors_are_one_line_and_2(arguments, message, run, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert script.of_many([argument.format(run=run) for argument in arguments]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].split(": ", 1)[1].startswith(message)


#: Needs a thermal run and is tested with one.
NEED_OTHER_INPUT = ("heat",)
#: Options of the scripts that draw columns of a table; each column is called like its option.
TABLE_COLUMNS = {"sweep_lines": ("x", "y", "by"), "sweep_heat": ("x", "y", "value"), "pareto": ("x", "y")}


SCRIPTS = [path.stem for path in sorted((ROOT / "plots").glob("*.py")) if path.stem not in NEED_OTHER_INPUT]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """Tables by the name of the script that draws them."""
    folder = tmp_path_factory.mktemp("inputs")
    table = folder / "table.json"
    cells = [f"lever.fig10.oneplus_12.{target}.{task}" for target in ("l8", "q8") for task in ("mbpp", "gsm8k")]
    rows = [{"id": cell, "paper": 2.0, "simulated": 1.9, "null_model": 3.0} for cell in cells]
    table.write_text(json.dumps({"rows": rows}), encoding="utf-8")
    steps = {"npu_staircase": staircase(k=256, n=256, most=64, step=16), "npu_order": orders(256, 128, 64)}
    swept = [{"x": x, "y": x + b, "by": b, "value": x * b, "pareto": x + b < 2} for x in range(3) for b in range(2)]
    moved = [{"path": "npu.clock_hz", "latency": -0.5, "energy": 0.1, "area": 0.0}]
    steps |= dict.fromkeys(TABLE_COLUMNS, swept) | {"tornado": moved}
    steps |= {"reproduction": [{"paper": 1.0, "simulated": 1.1, "kind": "predicted"}]}
    return {"lever": table, **{stem: write_table(made, folder / f"{stem}.csv") for stem, made in steps.items()}}


def words(stem, run, inputs):
    """A script and what it is given."""
    tables = sorted((ROOT / "plots" / "tables").glob(f"{stem}*.json"))
    columns = [word for name in TABLE_COLUMNS.get(stem, "") for word in (f"--{name}", name)]
    read = [inputs[stem]] if stem in inputs else tables or [run]
    return [str(word) for word in (ROOT / "plots" / f"{stem}.py", *read, *columns)]


@pytest.mark.parametrize("stem", SCRIPTS)
def test_every_script_draws(stem, run, inputs, tmp_path, monkeypatch, capsys):
    target = tmp_path / f"{stem}.svg"
    monkeypatch.setattr(sys, "argv", [*words(stem, run, inputs), "-o", str(target)])
    monkeypatch.chdir(ROOT)
    with pytest.raises(SystemExit) as left:
        runpy.run_path(sys.argv[0], run_name="__main__")
    assert left.value.code == 0
    assert capsys.readouterr() == ("", "")
    assert target.stat().st_size > 4000


@pytest.mark.parametrize(
    "stem",
    [stem if stem in ("roofline", "lever") else pytest.param(stem, marks=pytest.mark.slow) for stem in SCRIPTS],
)
def test_every_script_runs_as_a_program(stem, run, inputs, tmp_path):
    """A process of its own, to see that a script needs nothing but the package."""
    target = tmp_path / f"{stem}.svg"
    done = subprocess.run(
        [sys.executable, *words(stem, run, inputs), "-o", target],
        cwd=ROOT, capture_output=True, text=True, timeout=60,
        env={"PYTHONPATH": str(ROOT), "PATH": "", "HOME": str(tmp_path)},
    )  # fmt: skip
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "")
    assert target.stat().st_size > 4000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "-o", "f.svg", "--start-s", "\u0661"], "argument --start-s: '\u0661' is not a number of seconds"),
        (["run", "-o", "f.svg", "--end-s", "nan"], "argument --end-s: 'nan' is not a number of seconds"),
        (["run", "-o", ""], "argument -o/--output: the path is empty"),
        (["", "-o", "f.svg"], "argument run: the path is empty"),
    ],
)
def test_arguments_of_scripts_are_checked(arguments, message, capsys):
    assert script.of_run("timeline", arguments) == 2
    captured = capsys.readouterr()
    assert captured.err.endswith(f": {message}\n")
    assert captured.err.count("\n") == 1
