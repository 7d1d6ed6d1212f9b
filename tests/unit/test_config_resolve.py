"""Good configurations: what they resolve to."""

from __future__ import annotations

import importlib.util
import json
import random
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from archsim import config, units
from archsim.config import InputError, JobSpec, Source, finding, load_config
from archsim.config.reading import read


def _fakes() -> ModuleType:
    """Module of the fake device, schedule and model: a file beside the tests, so loaded by its path."""
    path = Path(__file__).parent / "data_config" / "fakes.py"
    spec = importlib.util.spec_from_file_location("config_fakes", path)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


fakes = _fakes()
tree = fakes.tree


def test_part_values_are_plain_numbers_in_field_units(tree):
    resolved = load_config("part", "disk_a")
    assert resolved.data == {
        "kind": "part",
        "name": "disk_a",
        "device": "disk",
        "spec": {
            "read_bytes_per_s": 4e9,
            "page_bytes": 16384,
            "queue": 32,
            "cell": "tlc",
            "timing": {"read_ps": 35_000_000, "program_ps": 300_000_000},
            "spare": 0.07,
            "active_mw": None,
            "lanes_hz": [],
            "energy": {},
            "cache": False,
        },
    }
    assert isinstance(resolved.data["spec"]["page_bytes"], int)
    assert resolved.file == tree / "parts/disk_a.yaml"


def test_resolved_data_builds_the_spec_again(tree):
    spec = units.from_numbers(fakes.DiskSpec, load_config("part", "disk_b").data["spec"])
    assert (spec.read_bytes_per_s, spec.timing.read_ps, spec.energy) == (2.1e9, 35_000_000, {"read": 2100.0})
    with pytest.raises(ValidationError):
        fakes.DiskSpec(**load_config("part", "disk_b").data["spec"])


def test_sources_and_ranges_are_kept_beside_the_values(tree):
    sources = load_config("part", "disk_a").sources
    assert sources["spec.read_bytes_per_s"] == Source("measured", 3e9, 5e9, "parts/disk_a.yaml", 6)
    assert sources["spec.read_bytes_per_s"].range == (3e9, 5e9)
    assert sources["spec.page_bytes"] == Source("data sheet, table 1", None, None, "parts/disk_a.yaml", 7)
    assert sources["spec.timing.program_ps"].text == "assumed: typical"
    assert sources["spec.timing.read_ps"] == Source("data sheet, table 1", None, None, "parts/disk_a.yaml", 11)
    assert sources["spec.spare"] == Source("default of DiskSpec")
    assert load_config("part", "memory_a").sources["spec.io_pj_per_bit"].range == (0.3, 0.5)


def test_base_gives_values_and_keeps_its_own_sources(tree):
    resolved = load_config("part", "disk_b")
    assert (resolved.data["device"], resolved.data["spec"]["read_bytes_per_s"]) == ("disk", 2.1e9)
    assert resolved.sources["spec.read_bytes_per_s"] == Source(
        "data sheet of the successor", None, None, "parts/disk_b.yaml", 6
    )
    assert resolved.sources["spec.queue"] == Source("data sheet, table 1", None, None, "parts/disk_a.yaml", 8)


def test_system_lays_its_overrides_over_its_parts(tree):
    resolved = load_config("system", "phone")
    assert list(resolved.data["devices"]) == ["flash", "dram"]
    dram = resolved.data["devices"]["dram"]
    assert (dram["part"], dram["device"], dram["spec"]["size_bytes"]) == ("memory_a", "memory", 16 << 30)
    assert resolved.sources["system.dram.size_bytes"] == Source("tear-down", None, None, "systems/phone.yaml", 6)
    assert resolved.sources["system.dram.banks"].text == "JEDEC"


def test_run_resolves_everything_it_names(tree):
    data = load_config("run", "chat").data
    assert data["system"]["name"] == "phone"
    assert data["schedule"] == {
        "name": "chain", "length": 4, "margin": 0.5, "where": "npu", "greedy": True, "wait_ps": 0, "widths": [1, 2]
    }  # fmt: skip
    assert data["job"] == JobSpec(target="big", draft="small", stream="synthetic:big:chat", tokens=16).model_dump()
    assert data["model"] == {
        "target": {"name": "big", "spec": {"name": "big", "layers": 32, "kv_dtype": "FP16"}},
        "draft": {"name": "small", "spec": {"name": "small", "layers": 1, "kv_dtype": "FP16"}},
    }


def test_job_defaults():
    job = JobSpec(target="t", stream="s")
    assert (job.tokens, job.prompts, job.seed, job.dram_fraction, job.prompt_tokens) == (128, 1, 0, 0.0, None)


@pytest.mark.parametrize(
    ("setting", "path", "value"),
    [
        ("job.tokens=64", ("job", "tokens"), 64),
        ("job.dram_fraction=1", ("job", "dram_fraction"), 1.0),
        ("job.prompt_tokens=null", ("job", "prompt_tokens"), None),
        ("schedule.length=2", ("schedule", "length"), 2),
        ("schedule.margin=1", ("schedule", "margin"), 1),
        ("schedule.wait_ps=1.5 us", ("schedule", "wait_ps"), 1_500_000),
        ("schedule.widths=[4, 2, 1]", ("schedule", "widths"), [4, 2, 1]),
        ("system.flash=disk_b", ("system", "devices", "flash", "spec", "read_bytes_per_s"), 2.1e9),
        ("system.flash.read_bytes_per_s=2.5 GB/s", ("system", "devices", "flash", "spec", "read_bytes_per_s"), 2.5e9),
        ("system.flash.timing.read_ps=40us", ("system", "devices", "flash", "spec", "timing", "read_ps"), 40_000_000),
        ("system.flash.energy.read=1 nJ", ("system", "devices", "flash", "spec", "energy", "read"), 1000.0),
        (" model.target.layers = 16 ", ("model", "target", "spec", "layers"), 16),
        ("job.kv_dtype=Q8_0", ("model", "target", "spec", "kv_dtype"), "Q8_0"),
        ("job.acceptance=0.7", ("job", "acceptance"), 0.7),
        ("job.draft=eagle3-big", ("model", "draft", "spec", "name"), "eagle3-big"),
        ("job.draft=null", ("model", "draft", "name"), "eagle3-big"),
        ("schedule.name=chain", ("schedule", "length"), 4),
    ],
)
def test_set_changes_one_value(tree, setting, path, value):
    found = load_config("run", "chat", [setting]).data
    for part in path:
        found = found[part]
    assert found == value
    assert load_config("run", "chat", [setting]).digest != load_config("run", "chat", ["job.seed=9"]).digest


def test_set_value_has_the_command_line_as_its_source(tree):
    resolved = load_config("run", "chat", ["system.flash.read_bytes_per_s=2.5 GB/s", "job.tokens=3"])
    assert resolved.sources["system.flash.read_bytes_per_s"].text == "set on the command line"
    assert resolved.sources["system.flash.read_bytes_per_s"].range is None
    assert resolved.sources["job.tokens"].text == "set on the command line"


def test_a_swapped_part_takes_overrides_in_any_order(tree):
    sets = ["system.flash.queue=8", "system.flash=disk_b"]
    for order in (sets, sets[::-1]):
        flash = load_config("system", "phone", order).data["devices"]["flash"]
        assert (flash["part"], flash["spec"]["queue"], flash["spec"]["read_bytes_per_s"]) == ("disk_b", 8, 2.1e9)


def test_swapping_the_schedule_drops_the_fields_of_the_old_one(tree):
    data = load_config("run", "chat", ["schedule=plain", "schedule.steps=3"]).data
    assert data["schedule"] == {"name": "plain", "steps": 3}


def test_whole_system_is_swapped_by_name_or_path(tree):
    other = tree / "elsewhere" / "tablet.yaml"
    other.parent.mkdir()
    text = (tree / "systems/phone.yaml").read_text().replace("name: phone", "name: tablet")
    other.write_text(text.replace("disk_a", "disk_b"))
    data = load_config("run", "chat", ["system=elsewhere/tablet.yaml"]).data
    assert (data["system"]["name"], data["system"]["devices"]["flash"]["part"]) == ("tablet", "disk_b")


def test_a_run_given_as_data_equals_the_file(tree):
    data = {
        "name": "chat",
        "system": "phone",
        "schedule": {"name": "chain", "length": 4},
        "job": {"target": "models/big.yaml", "draft": "small", "stream": "synthetic:big:chat", "tokens": 16},
    }
    assert load_config("run", data).digest == load_config("run", "chat").digest
    assert load_config("run", data).file is None


def test_run_base_merges_fields_unless_the_schedule_is_another(tree):
    text = "kind: run\nname: long\nbase: chat.yaml\njob: {tokens: 99}\n"
    (tree / "runs/long.yaml").write_text(text)
    data = load_config("run", "long").data
    assert (data["job"]["tokens"], data["job"]["target"], data["schedule"]["length"]) == (99, "big", 4)
    (tree / "runs/long.yaml").write_text(text + "schedule: {name: plain, steps: 2}\n")
    assert load_config("run", "long").data["schedule"] == {"name": "plain", "steps": 2}


def test_user_folders_come_before_the_packed_files(tree, monkeypatch):
    mine = tree / "mine"
    mine.mkdir()
    text = (tree / "parts/disk_a.yaml").read_text().replace("4.0 GB/s", "4.5 GB/s")
    (mine / "disk_a.yaml").write_text(text)
    monkeypatch.setenv("ARCHSIM_PATH", str(mine))
    assert load_config("part", "disk_a").data["spec"]["read_bytes_per_s"] == 4.5e9
    assert "disk_a" not in config.names("system")
    assert config.search_path("part") == [mine, tree / "parts"]
    (mine / "parts").mkdir()
    (mine / "parts" / "disk_a.yaml").write_text(text.replace("4.5", "4.6"))
    assert load_config("system", "phone").data["devices"]["flash"]["spec"]["read_bytes_per_s"] == 4.6e9


def test_a_file_given_by_path_finds_its_neighbours(tree):
    place = tree / "place"
    place.mkdir()
    (place / "disk_c.yaml").write_text((tree / "parts/disk_a.yaml").read_text().replace("name: disk_a", "name: disk_c"))
    text = "kind: system\nname: box\ndevices: {flash: disk_c, spare: disk_a}\n"
    (place / "box.yaml").write_text(text)
    finding_packed = tree / "packed"
    (finding_packed / "parts").mkdir(parents=True)
    (tree / "parts/disk_a.yaml").rename(finding_packed / "parts/disk_a.yaml")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(finding, "packed_folder", lambda: finding_packed)
        assert set(load_config("system", "place/box.yaml").data["devices"]) == {"flash", "spare"}


def test_digest_ignores_order_whitespace_place_and_sources(tree):
    plain = load_config("part", "disk_a")
    moved = tree / "elsewhere" / "disk_a.yaml"
    moved.parent.mkdir()
    moved.write_text(
        "# moved\nspec:\n    timing: {program_ps: 0.3 ms, read_ps: 35000 ns}\n    cell: 'tlc'\n    queue: 32\n"
        "    page_bytes: 16384 B\n    read_bytes_per_s: 4e3 MB/s\n"
        "source: other\ndevice: disk\nname: disk_a\nkind: part\n"
    )
    assert load_config("part", moved).digest == plain.digest
    assert load_config("part", "disk_a", ["spec.queue=31"]).digest != plain.digest


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(data=st.dictionaries(st.text(max_size=8), PLAIN, max_size=6), seed=st.integers(0, 1000))
def test_digest_is_independent_of_key_order(data, seed):
    keys = list(data)
    random.Random(seed).shuffle(keys)
    assert config.digest({key: data[key] for key in keys}) == config.digest(data)
    assert config.digest({**data, "one more": 1}) != config.digest({**data, "one more": 2})


WORD = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=8)
NODES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | WORD,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORD, inner, max_size=4),
    max_leaves=12,
)


@settings(deadline=None)
@given(data=st.dictionaries(WORD, NODES, min_size=1, max_size=5))
def test_any_json_mapping_reads_back_as_itself(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_text(json.dumps(data))
    assert read(path).data == data


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", "yes"), ("on", "on"), ("True", True), ("010", 10), ("0o10", 8), ("0x10", 16), ("1e3", 1000.0),
        ("1_000", "1_000"), ("~", None), ("'1'", "1"), (".5", 0.5), ("12:30", "12:30"), ("2024-01-01", "2024-01-01"),
        ("!", "!"), ("-3", -3), ("4 GB/s", "4 GB/s"), ("[1, a]", [1, "a"]), ("", None),
    ],
)  # fmt: skip
def test_scalars_follow_yaml_1_2(tmp_path, text, value):
    if text == "!":
        text, value = '"!"', "!"
    path = tmp_path / "scalar.yaml"
    path.write_text(f"key: {text}\n")
    assert read(path).data == {"key": value}


def test_aliases_are_read_and_keep_their_lines(tree):
    path = tree / "parts" / "disk_a.yaml"
    path.write_text(path.read_text().replace("35 us", "&t 35 us").replace("300 us", "*t "))
    assert load_config("part", "disk_a").data["spec"]["timing"]["program_ps"] == 35_000_000


def test_describe_lists_every_value_with_its_unit(tree):
    rows = {row.path: row for row in config.describe(load_config("part", "disk_b"))}
    assert rows["spec.read_bytes_per_s"][1:] == (2.1e9, "B/s", "data sheet of the successor", None)
    assert rows["spec.energy.read"][1:3] == (2100.0, "pJ")
    assert rows["spec.timing.read_ps"][1:3] == (35_000_000, "ps")
    assert rows["spec.cell"][1:4] == ("tlc", "", "data sheet, table 1")
    assert rows["spec.lanes_hz"][1:3] == ([], "Hz")
    paths = [row.path for row in config.describe(load_config("run", "chat"))]
    assert {"system.flash", "system.flash.queue", "schedule.length", "job.tokens", "model.draft.layers"} <= set(paths)


def test_every_number_has_a_source(tree):
    for kind, name in (("part", "disk_b"), ("system", "phone"), ("run", "chat"), ("model", "big")):
        resolved = load_config(kind, name)
        numbers = [r for r in resolved.rows if isinstance(r.value, (int, float)) and not isinstance(r.value, bool)]
        assert numbers
        assert [row.path for row in numbers if not row.source] == []
        assert all(resolved.sources[row.path].text for row in numbers)


def test_check_file_accepts_the_whole_tree(tree):
    files = sorted(tree.rglob("*.yaml"))
    assert len(files) == 8
    assert {str(path): config.check_file(path) for path in files} == {str(path): [] for path in files}


def test_check_file_tries_the_axes_of_a_sweep(tree):
    path = tree / "sweeps/lengths.yaml"
    path.write_text(path.read_text().replace("[2, 4, 8]", "[2, 4, 800]").replace("2 GB/s", "2 GB"))
    assert config.check_file(path) == [
        "sweeps/lengths.yaml:5: axes.schedule.length: '800' is out of range; 1 to 256 is allowed",
        "sweeps/lengths.yaml:6: axes.system.flash.read_bytes_per_s: '2 GB' is a size; expected a rate such as '4 GB/s'",
    ]


def test_check_file_reports_all_problems(tree):
    path = tree / "parts/disk_a.yaml"
    path.write_text(path.read_text().replace("16 KiB", "16").replace("queue: 32", "queue: 0"))
    assert config.check_file(path) == [
        "parts/disk_a.yaml:7: spec.page_bytes: '16' has no unit; expected a size such as '8 MiB'",
        "parts/disk_a.yaml:8: spec.queue: '0' should be greater than or equal to 1",
    ]


def test_import_is_light():
    code = (
        "import sys, archsim.config, archsim.units, archsim.registry\n"
        "print([name for name in ('pint', 'pandas', 'numba', 'numpy') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_errors_are_value_errors_of_one_line():
    error = InputError("one\ntwo", ["three"])
    assert isinstance(error, ValueError)
    assert (str(error), error.message, error.others) == ("one two", "one two", ("three",))


@pytest.mark.bench
def test_loading_a_system_of_four_parts_is_quick(tree):
    devices = "{a: disk_a, b: disk_b, c: memory_a, d: {part: disk_a, spec: {queue: 4}}}"
    Path("systems/four.yaml").write_text(f"kind: system\nname: four\nsource: s\ndevices: {devices}\n")
    load_config("system", "four")
    start = time.perf_counter()
    load_config("system", "four")
    assert time.perf_counter() - start < 0.06
