"""The drawing of a machine: every block and link once, lines of one width, nothing that overlaps."""

import json

import pytest

from archsim.catalogue import show_thing
from archsim.cli import run_cli
from archsim.config import names
from archsim.report.machine import machine_figure, text

DOCUMENTS = {}


def drawn(name):
    if name not in DOCUMENTS:
        DOCUMENTS[name] = show_thing("system", name)["drawing"]
    return DOCUMENTS[name]


@pytest.mark.parametrize("name", names("system"))
def test_every_block_store_and_link_is_drawn_once(name):
    document = drawn(name)
    picture = text(document)
    lines = picture.splitlines()
    assert max(map(len, lines)) <= 100
    wired = {len(line) for line in lines if line.endswith(("│", "╮", "╯")) and len(line) > 60}
    assert len(wired) <= 1
    for block in document["blocks"]:
        assert picture.count(f" {block['name']}: {block['part']} ") == 1
    assert picture.count("━┤") == sum(link["as"] == "memory" for link in document["links"])


def test_numbers_of_a_phone():
    picture = text(drawn("oneplus_12"))
    for words in ("link 5.80 GB/s", "dma 59.0 GB/s", "bandwidth 62.0 GB/s", "vtcm 8 MiB", "capacity 16 GiB", "8 cores"):
        assert words in picture
    links = {(link["from"], link["to"], link["as"]) for link in drawn("oneplus_12")["links"]}
    assert links >= {("flash", "dram", "memory"), ("cpu", "dram", "memory"), ("npu", "dram", "memory")}
    assert ("npu", "cpu", "host") in links


def test_plain_text_is_ascii():
    assert text(drawn("ahasd_samsung"), plain=True).isascii()


@pytest.mark.parametrize("name", ["oneplus_12", "ahasd_samsung", "laptop_gpu"])
def test_labels_of_the_figure_do_not_overlap(name):
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure = machine_figure(drawn(name))
    FigureCanvasAgg(figure).draw()
    (axes,) = figure.axes
    boxes = [(label.get_text(), label.get_window_extent()) for label in axes.texts]
    for i, (one, a) in enumerate(boxes):
        for other, b in boxes[i + 1 :]:
            assert not a.shrunk(0.98, 0.9).overlaps(b.shrunk(0.98, 0.9)), f"{one!r} overlaps {other!r}"
    extent = figure.get_window_extent()
    assert all(a.x0 >= extent.x0 and a.x1 <= extent.x1 and a.y0 >= extent.y0 for _, a in boxes)


def test_the_command_draws_before_the_values(tmp_path, capsys):
    file = tmp_path / "phone.svg"
    assert run_cli(["show", "system", "oneplus_12", "--figure", str(file)]) == 0
    shown = capsys.readouterr().out
    assert shown.index("dma 59.0 GB/s") < shown.index("system.npu.clock_hz")
    assert file.read_text().startswith("<?xml")
    assert run_cli(["show", "system", "oneplus_12", "--json", "--figure", str(file)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["files"] == [str(file)]
    assert {block["name"] for block in document["drawing"]["blocks"]} >= {"npu", "dram"}


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["part", "ufs_4_0", "--figure", "a.png"], "--figure draws a system"),
        (["system", "oneplus_12", "--figure", "a.gif"], "written as .svg, .pdf or .png"),
        (["system", "oneplus_12", "--figure", "/nowhere/a.png"], "there is no folder"),
    ],
)
def test_bad_figures_are_one_line(args, words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run_cli(["show", *args]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_no_border_of_a_box_is_cut_off():
    (axes,) = machine_figure(drawn("oneplus_12")).axes
    lines = 0.8 / 2 / 72  # half of a border, inches
    low, high = axes.get_ylim()
    inch = axes.get_position().height * axes.figure.get_figheight() / (high - low)
    tops = [box.get_y() + box.get_height() for box in axes.patches]
    assert max(tops) * inch + lines <= high * inch


def test_a_kind_of_device_shows_its_numbers_its_parts_and_what_it_runs(capsys):
    assert run_cli(["show", "device", "npu", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert "spec.clock_hz" in [row["path"] for row in document["values"]]
    assert {"part": "hexagon_v75"} in document["tables"]["Parts"]
    assert {"operator": "matmul"} in document["tables"]["Operators"]
