"""JSON Schemas: every file that comes along is valid under its own, and one that is mistyped is not."""

import json

import pytest

from archsim import registry
from archsim.cli import run_cli
from archsim.config import find, names
from archsim.config.reading import read
from archsim.schema import KINDS, schema

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed; it comes with archsim[test]")

FILES = [(kind, name) for kind in ("part", "system", "model", "run", "sweep") for name in names(kind)]
PRICES = {
    "kind": "prices",
    "name": "mine",
    "source": "a desk",
    "energy_pj": {"dram.io_bits": {"value": "3.4 pJ", "range": ["1.4 pJ", "17 pJ"]}, "npu.mac": "0.4 pJ"},
    "nodes": {"npu": {"from_nm": 4, "to_nm": 7}},
}
_cache = {}


def validator(kind):
    if kind not in _cache:
        made = schema(kind)
        jsonschema.Draft202012Validator.check_schema(made)
        _cache[kind] = jsonschema.Draft202012Validator(made)
    return _cache[kind]


def problems(kind, data):
    return [error.message for error in validator(kind).iter_errors(data)]


@pytest.mark.parametrize(("kind", "name"), FILES)
def test_every_shipped_file_is_valid(kind, name):
    data = read(find(kind, name)).data
    assert problems(kind, data) == []
    if kind == "part" and "device" in data:
        assert problems(f"part:{data['device']}", data) == []


@pytest.mark.parametrize(("kind", "name"), FILES)
def test_a_mistyped_key_is_not(kind, name):
    data = json.loads(json.dumps(read(find(kind, name)).data))
    assert problems(kind, {**data, "nmae": "x"})
    section = {"part": "spec", "model": "spec", "run": "job"}.get(kind)
    if section and section in data and (kind != "part" or "device" in data):
        data[section]["capcity_bytes"] = 1
        assert problems(kind, data)


def test_mistyped_values_are_not():
    ufs = read(find("part", "ufs_4_0")).data
    for bad in ("3 parsecs too many!", 12, "GB/s"):
        assert problems("part:flash", {**ufs, "spec": {**ufs["spec"], "stream_bytes_per_s": bad}})
    assert problems("part:flash", {**ufs, "device": "flsh"})
    assert problems("part", {key: value for key, value in ufs.items() if key != "device"})
    assert problems("part:flash", {**ufs, "spec": {}})
    run = read(find("run", "lever")).data
    assert problems("run", {**run, "schedule": {"name": "lever", "rnig": 3}})
    assert problems("run", {**run, "job": {**run["job"], "tokens": "many"}})
    phone = read(find("system", "oneplus_12")).data
    wrong = {"part": "ufs_4_0", "spec": {"stream_byts_per_s": "4 GB/s"}}
    assert problems("system", {**phone, "devices": {**phone["devices"], "flash": wrong}})
    assert not problems("system", {**phone, "devices": {**phone["devices"], "flash": "one_of_my_own"}})


def test_prices():
    assert problems("prices", PRICES) == []
    assert problems("prices", {**PRICES, "energy_pj": {"dram.io_bits": 3.4}})
    assert problems("prices", {**PRICES, "energy": {}})


@pytest.mark.parametrize("kind", [*KINDS, *(f"part:{name}" for name in registry.names("device"))])
def test_schemas_name_themselves_and_describe_their_fields(kind):
    made = schema(kind)
    assert made["$schema"].endswith("2020-12/schema")
    assert made["title"].startswith("archsim ")
    assert made["description"]
    if kind.startswith("part:"):
        spec = made["properties"]["spec"]
        described = [field for field in spec["properties"].values() if field.get("description")]
        assert len(described) >= 0.8 * len(spec["properties"])
        assert spec["title"].endswith("Spec")


def test_units_are_described():
    field = schema("part:flash")["properties"]["spec"]["properties"]["stream_bytes_per_s"]
    assert "kept in B/s" in json.dumps(field)
    assert "4 GB/s" in json.dumps(field)


def test_the_command_prints_and_writes(tmp_path, capsys):
    assert run_cli(["schema", "run"]) == 0
    assert json.loads(capsys.readouterr().out) == schema("run")
    file = tmp_path / "run.schema.json"
    assert run_cli(["schema", "run", "-o", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"kind": "run", "file": str(file)}
    assert json.loads(file.read_text()) == schema("run")
    for kind, words in (("rnu", "no schema of 'rnu'"), ("part:flsh", "unknown device 'flsh'")):
        assert run_cli(["schema", kind]) == 2
        said = capsys.readouterr().err
        assert words in said
        assert said.count("\n") == 1


def test_background_streams_of_a_run():
    run = read(find("run", "camera_background")).data
    for good in ({"part": "camera_4k30"}, {"kind": "cpu"}, "camera_4k30"):
        assert problems("run", {**run, "background": {"camera": good}}) == []
    for bad in ({}, {"part": "camera_4k30", "kind": "dram"}, {"kind": "gpu"}, {"kind": "cpu", "colour": 3}, 3):
        assert problems("run", {**run, "background": {"camera": bad}})
