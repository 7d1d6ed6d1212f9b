"""The report page: nothing loads from anywhere, all text is escaped, the packed columns are the trace's numbers."""

from __future__ import annotations

import base64
import json
import re
import sys
import zlib
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from archsim.cli import run_cli
from archsim.report.energy import energy
from archsim.report.nesting import nest
from archsim.report.page.build import run_page, table_page
from archsim.report.page.explorer import packed_table
from archsim.report.page.html import heading, number, tidy_svg
from archsim.report.page.timeline import time_line
from archsim.report.tables import write_table
from archsim.trace import Trace

sys.path.insert(0, str(Path(__file__).parent))
from test_report_sample import sample, sample_manifest, sample_tables

EVIL = "</script><script>document.title='x'</script><img src=//evil onerror=alert(1)>{{js}}"


class Reader(HTMLParser):
    """Tags with their attributes, and the texts of scripts and styles."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.raw, self.words, self._in = [], [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self._in = tag if tag in ("script", "style") else ""

    def handle_endtag(self, tag):
        self._in = ""

    def handle_data(self, data):
        (self.raw if self._in else self.words).append(data)


def harmless(text):
    page = Reader(text)
    for tag, attributes in page.tags:
        assert tag not in ("link", "iframe", "object", "embed", "img", "image", "base", "form", "audio", "video"), tag
        assert "src" not in attributes, (tag, attributes)
        assert not any(name.startswith("on") for name in attributes), (tag, attributes)
        for name in ("href", "xlink:href"):
            assert attributes.get(name, "#").startswith("#"), (tag, attributes)
        assert "url(" not in attributes.get("style", "").replace("url(#", ""), (tag, attributes)
    for part in page.raw:
        for loads in ("http://", "https://", "@import", "fetch(", "XMLHttpRequest", "WebSocket", "import(", "eval("):
            assert loads not in part, loads
        assert not re.search(r"url\((?!#)", part)
    assert [tag for tag, _ in page.tags].count("script") == 2  # the data and the program
    return page


def unpacked(text):
    coded = re.search(r'type="text/plain" id="\w+-data">([^<]*)<', text)[1]
    raw = zlib.decompress(base64.b64decode(coded), -15)
    size = int.from_bytes(raw[:4], "little")
    meta = json.loads(raw[4 : 4 + size])
    return meta, {
        name: np.frombuffer(raw, f"<{place['type']}", place["n"], 4 + size + place["at"])
        for name, place in meta["columns"].items()
    }


@pytest.fixture(scope="module")
def sample_page():
    return run_page(sample(), "a run")


def test_a_run_page_loads_nothing_and_says_everything(sample_page):
    page = harmless(sample_page)
    words = " ".join(page.words)
    for expected in ("a run", "decode", "energy per token", "Energy by device and action", "What to distrust",
                     "acceptance is drawn from a labelled generator", sample().digest, "Area", "Roofline"):  # fmt: skip
        assert expected in words
    assert sum(tag == "svg" for tag, _ in page.tags) >= 6


def evil_trace():
    tables, manifest = sample_tables(), sample_manifest()
    tables["ops"]["name"] = np.array([EVIL + str(i) for i in range(5)])
    tables["blocks"]["label"] = np.array([EVIL] * 5)
    manifest["units"] = [{"name": name} for name in ("flash.queue", f"npu.{EVIL}", f"cpu.{EVIL}")]
    manifest["stream"] = {"kind": "synthetic", "label": EVIL}
    manifest["config"] = {**manifest["config"], "name": EVIL}
    return Trace(tables, manifest)


def test_names_of_strangers_stay_text():
    page = harmless(run_page(evil_trace(), EVIL))
    assert any(EVIL in text for text in page.words)
    rows = [{"id": name, "simulated": value, EVIL: 2.0, "paper": None} for name, value in ((EVIL, 1.0), ("b", 2.0))]
    harmless(table_page(rows, EVIL, facts={EVIL: EVIL}))


def test_ids_of_the_figures_are_apart(sample_page):
    page = Reader(sample_page)
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = {attributes["href"][1:] for _, attributes in page.tags if attributes.get("href", "").startswith("#")}
    assert links <= set(ids)


def test_packed_slices_are_the_rows(sample_page):
    trace = sample()
    meta, data = unpacked(sample_page)
    ran = np.flatnonzero(trace.ran & (trace.rows["unit"] >= 0))
    assert meta["all_rows"] == sum(meta["count"]) == len(ran) == data["rows"].sum()
    assert meta["merged"] == ""
    first = 0
    for unit, n in enumerate(meta["count"]):
        gap, length = (data[name][first : first + n].astype(np.int64) for name in ("gap", "length"))
        end = np.cumsum(gap + length) * meta["tick_ps"]
        mine = ran[trace.rows["unit"][ran] == unit]
        assert end.tolist() == sorted(trace.row_end_ps[mine].tolist())
        assert (end - length * meta["tick_ps"]).tolist() == sorted(trace.rows["start_ps"][mine].tolist())
        first += n
    assert float(data["pj"].sum()) * 1e-12 == pytest.approx(energy(trace).dynamic_j, rel=1e-5)
    assert len(data["cut"]) == 2  # a draft and a control row were cut
    assert next(marks for marks in meta["marks"] if marks["kind"] == "commit")["value"] == [1, 3]
    total = next(curve for curve in meta["counters"] if curve["name"] == "total power")
    joule = np.sum(np.diff(total["time"]) * total["value"][:-1]) * meta["tick_ps"] * 1e-12
    assert joule == pytest.approx(energy(trace).total_j, rel=1e-3)


@pytest.mark.parametrize(("most", "what"), [(8, ""), (7, "layer"), (3, "part of the time")])
def test_a_run_with_too_many_rows_is_merged_and_says_so(most, what, monkeypatch):
    whole = time_line(sample())[1]
    meta, columns = time_line(sample(), most)
    assert meta["merged"] == what
    assert len(columns["rows"]) <= max(most, 3)
    for name in ("rows", "pj", "bytes"):
        assert columns[name].sum() == pytest.approx(whole[name].sum())
    monkeypatch.setattr("archsim.report.page.build.time_line", lambda trace: (meta, columns))
    monkeypatch.setattr("archsim.report.page.build._figures", lambda trace, kinds: "")  # what is said needs none
    assert ("gaps within it are not seen" in run_page(sample())) == bool(what)


def layered(passes=2, layers=3):
    """One block: passes of embedding, `layers` times (norm, product in two parts), head."""
    ops = [("embed.token", 0), ("attn.norm", 1), ("attn.q", 2), ("attn.q", 3), ("head.sample", 4)]
    order = [op for _ in range(passes) for op in (0, *(o for _ in range(layers) for o in (1, 2, 3)), 4)]
    n, tables, size = len(order), sample_tables(), len(ops)
    time = np.arange(n) * 10
    rows = {name: np.zeros(n, dtype=np.int64) for name in tables["rows"]}
    rows |= {"row": np.arange(n), "op": np.array(order), "start_ps": time, "flow_ps": time, "end_ps": time + 10}
    ops_table = {name: column[:1].repeat(size) for name, column in tables["ops"].items()}
    ops_table |= {"op": np.arange(size), "name": np.array([name for name, _ in ops])}
    blocks = {name: column[:1] for name, column in tables["blocks"].items()}
    empty = {name: {c: v[:0] for c, v in tables[name].items()} for name in ("counts", "notes")}
    return Trace({"rows": rows, "ops": ops_table, "blocks": blocks, **empty}, sample_manifest())


def test_rows_nest_by_pass_layer_and_operator():
    found = nest(layered())
    assert found.turn.tolist() == [0] * 11 + [1] * 11
    each = [-1, *(layer for layer in range(3) for _ in range(3)), -1]
    assert found.layer.tolist() == each * 2
    assert [found.names[i] for i in found.name[:4]] == ["embed.token", "attn.norm", "attn.q", "attn.q"]
    assert len(found.blocks()) == 1
    assert len(found.layers()) == 2 * 5 - 0
    assert len(found.operators()) == 2 * (2 + 3 * 2)


def test_numbers_and_headings():
    assert [number(v) for v in (0, 1.0, 1234567, 0.00012345, 1.5e-9, 123456.7, float("nan"))] == [
        "0", "1", "1\u2009234\u2009567", "0.0001234", "1.5×10⁻⁹", "123\u2009457", "–",
    ]  # fmt: skip
    assert heading("busy_per_step_s") == ("busy per step", "s")
    assert heading("peak_bytes_per_s") == ("peak", "bytes/s")
    assert heading("bytes_per_s") == ("rate", "bytes/s")
    assert heading("system.npu.clock_hz") == ("system.npu.clock", "Hz")


def test_svg_links_stay_within_their_figure():
    text = (
        '<?xml version="1.0"?>\n<svg xmlns="http://x" version="1.1"><metadata>http://y</metadata>'
        '<defs><path id="a" d="M 1.23456 2"/></defs><use xlink:href="#a" clip-path="url(#b)"/></svg>'
    )
    made = tidy_svg(text, "p", 'a "title"')
    assert "http" not in made
    assert 'id="p-a"' in made
    assert 'href="#p-a"' in made
    assert "url(#p-b)" in made
    assert 'd="M 1.23 2"' in made


# -- tables -------------------------------------------------------------------------------------------

AIMS = {"speed": "max", "energy_j": "min"}
SWEEP = [
    {
        "point": i,
        "schedule.ring": i % 3,
        "system.flash": "ufs_4_0",
        "status": "ok",
        "speed": 1.0 + i,
        "energy_j": 5.0 - i,
        "energy_j.p10": 4.0 - i,
        "energy_j.p90": 6.0 - i,
        "pareto": i > 1,
        "error": "",
    }
    for i in range(4)
]


def test_a_sweep_opens_on_its_objectives():
    text = table_page(SWEEP, "s", objectives=AIMS, axes=["schedule.ring", "system.flash"])
    meta, _ = unpacked(text)
    assert (meta["x"], meta["y"], meta["colour"]) == ("speed", "energy_j", "schedule.ring")
    assert meta["objectives"] == AIMS
    assert meta["front"]
    assert {c["name"] for c in meta["table"] if c["axis"]} == {"schedule.ring", "system.flash"}
    assert {"energy_j.p10", "energy_j.p90"} <= {c["name"] for c in meta["table"]}
    assert "error" not in {c["name"] for c in meta["table"]}  # a column that says nothing


def test_a_reproduction_opens_on_published_against_simulated_and_takes_its_ids_apart():
    rows = [{"id": f"map.cpu{n}.map0.5", "paper": None, "simulated": float(n), "kind": "reported"} for n in (1, 2, 4)]
    meta, _ = unpacked(table_page(rows, "t"))
    columns = {c["name"]: c["values"] for c in meta["table"]}
    assert columns["part cpu"] == [1.0, 2.0, 4.0]
    assert columns["part map"] == [0.5] * 3
    assert (meta["x"], meta["y"]) == ("part cpu", "simulated")
    assert (meta["filter"], meta["value"]) == ("part group", "map")
    meta, _ = unpacked(table_page([{**row, "paper": 2.0 * row["simulated"]} for row in rows], "t"))
    assert (meta["x"], meta["y"], meta["diagonal"], meta["log"]) == ("paper", "simulated", True, True)


def test_a_large_table_keeps_its_front(monkeypatch):
    monkeypatch.setattr("archsim.report.page.explorer.MOST_ROWS", 10)
    rows = [{"a": float(i), "b": 1.0 / (i + 1), "pareto": i == 17} for i in range(100)]
    meta, _ = unpacked(f'<script type="text/plain" id="e-data">{packed_table(rows)[0]}<')
    assert (meta["rows"], meta["total"]) == (11, 100)
    assert 17.0 in next(c["values"] for c in meta["table"] if c["name"] == "a")


def test_odd_values_become_nothing_or_text():
    rows = [{"a": float("nan"), "b": [1], "c": 2**70, "d": True}, {"a": 1.0, "b": "x", "c": 1, "d": False}]
    meta, _ = unpacked(table_page(rows, "t"))
    columns = {c["name"]: c["values"] for c in meta["table"]}
    assert columns == {"a": [None, 1.0], "b": ["[1]", "x"], "c": [2**70, 1], "d": ["yes", "no"]}


# -- the command --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return sample().save(tmp_path_factory.mktemp("runs") / "sample")


def test_report_writes_the_page(folder, tmp_path, capsys):
    page = tmp_path / "out.html"
    assert run_cli(["report", str(folder), "--html", str(page), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["files"] == [str(page)]
    first = page.read_bytes()
    harmless(first.decode())
    assert run_cli(["report", str(folder), "--html", str(page)]) == 0
    assert page.read_bytes() == first
    assert [path.name for path in tmp_path.iterdir()] == ["out.html"]


def test_report_of_tables_and_sweeps(tmp_path, capsys):
    swept = tmp_path / "sweep"
    swept.mkdir()
    spec = {"name": EVIL, "axes": {"schedule.ring": [0, 1, 2]}, "objectives": AIMS}
    (swept / "sweep.json").write_text(json.dumps(spec))
    write_table(SWEEP, swept / "table.parquet")
    page = tmp_path / "out.html"
    assert run_cli(["report", str(swept), "--html", str(page), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"title": f"sweep {EVIL}", "rows": 4, "files": [str(page)]}
    meta, _ = unpacked(page.read_text())
    assert (meta["x"], meta["y"]) == ("speed", "energy_j")
    harmless(page.read_text())
    for name in ("t.csv", "t.json", "t.parquet"):
        write_table(SWEEP, tmp_path / name)
        assert run_cli(["report", str(tmp_path / name), "--html", str(page)]) == 0
        assert unpacked(page.read_text())[0]["rows"] == 4


def unfinished(at):
    at.mkdir()
    (at / "sweep.json").write_text("{}")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda at: (at / "t.json").write_text("{"), "t.json: is no JSON document"),
        (lambda at: (at / "t.json").write_text("[]"), "t.json: holds no rows to show"),
        (lambda at: (at / "t.json").write_text('{"rows": [1]}'), "t.json: holds no rows to show"),
        (lambda at: None, "t.json: no such file"),
        (lambda at: unfinished(at / "t.json"), "the sweep has no table yet"),
    ],
)  # fmt: skip
def test_bad_tables_are_one_line_and_2(make, words, tmp_path, capsys):
    make(tmp_path)
    page = tmp_path / "out.html"
    page.write_text("kept")
    assert run_cli(["report", str(tmp_path / "t.json"), "--html", str(page)]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert words in err
    assert page.read_text() == "kept"


def test_the_page_replaces_no_input(folder, capsys):
    for target in (folder / "manifest.json", folder / "rows.parquet"):
        before = target.read_bytes()
        assert run_cli(["report", str(folder), "--html", str(target)]) == 2
        assert "is a file of the run; give it another name" in capsys.readouterr().err
        assert target.read_bytes() == before
    assert run_cli(["report", str(folder), "--html", str(folder.parent / "none" / "x.html")]) == 2
