"""Lists, single things, checks and imports from the command line."""

from __future__ import annotations

import json
import os

import pytest

from archsim.catalogue import catalogue, check_files, import_model, show_thing
from archsim.cli import run_cli
from archsim.config import InputError, Override, load_config
from archsim.session import load
from archsim.streams import open_stream

CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "vocab_size": 1000,
    "max_position_embeddings": 512,
    "hidden_act": "silu",
    "torch_dtype": "bfloat16",
}


def test_every_listed_stream_opens():
    listed = [entry["name"] for entry in catalogue("streams")]
    assert len(listed) > 20
    assert not [name for name in listed if name.endswith(":any")]
    for name in listed:
        assert open_stream(name, 0).name
    assert "synthetic:llama-3.1-8b+llama-3.2-1b:gsm8k" in listed  # known for any task


def test_a_broken_file_does_not_hide_the_others(tmp_path, monkeypatch, capsys):
    (tmp_path / "systems").mkdir()
    (tmp_path / "systems" / "broken.yaml").write_text("kind: system\nname: broken\ndevices: {flash: nope}\n")
    (tmp_path / "systems" / "not yaml.yaml").write_text("][")
    os.mkfifo(tmp_path / "systems" / "pipe.yaml")
    monkeypatch.setenv("ARCHSIM_PATH", str(tmp_path))
    rows = {entry["name"]: entry["what"] for entry in catalogue("systems")}
    assert "flash: ufs_4_0" in rows["oneplus_12"]
    assert rows["broken"].startswith(f"cannot be used: {tmp_path}/systems/broken.yaml:3: devices.flash: no part 'nope'")
    assert rows["not yaml"].startswith("cannot be used: ")
    assert "pipe" not in rows
    assert run_cli(["list", "systems"]) == 0
    assert "oneplus_12" in capsys.readouterr().out


def test_a_schedule_is_shown_under_overrides():
    plain = {row["path"]: row for row in show_thing("schedule", "chain_sd")["values"]}
    assert plain["schedule.length"]["value"] == 8
    assert plain["schedule.length"]["range"] == "1 to 256"
    changed = {row["path"]: row for row in show_thing("schedule", "chain_sd", ["schedule.length=4"])["values"]}
    assert changed["schedule.length"]["value"] == 4
    assert changed["schedule.length"]["source"] == "set on the command line"
    assert changed["schedule.ring"] == plain["schedule.ring"]
    with pytest.raises(InputError, match=r"^--set schedule\.length: '0' is out of range; 1 to 256 is allowed$"):
        show_thing("schedule", "chain_sd", ["schedule.length=0"])


@pytest.mark.parametrize(
    ("kind", "count", "name", "path", "value", "words"),
    [
        ("flash_devices", 6, "ufs_2ch_1chip_2die_4pl", "spec.pages_per_block", 384, "MQSim"),
        ("pim_devices", 6, "lpddr5x_pim", "compute.accumulators", 64, "fitted: this reading among 16"),
        ("standards", 4, "lpddr5x-9600", "data_rate_mt_s", 9600, "no public LPDDR5X timing table"),
        ("standards", 4, "lpddr5x-9600", "organisation.rows", 65536, "16 Gb x16 die"),
        ("controllers", 7, "mobile", "read_queue", 64, "assumed: a phone controller"),
    ],
)
def test_files_of_devices_that_run_alone_are_listed_and_shown(kind, count, name, path, value, words):
    listed = catalogue(kind)
    assert len(listed) == count
    assert all(entry["what"] and "cannot be used" not in entry["what"] for entry in listed)
    assert name in [entry["name"] for entry in listed]
    rows = {row["path"]: row for row in show_thing(kind, name)["values"]}
    assert rows[path]["value"] == value
    assert words in rows[path]["source"]
    for entry in listed:
        shown = show_thing(kind, entry["name"])["values"]
        numbers = [row for row in shown if isinstance(row["value"], int | float) and not isinstance(row["value"], bool)]
        assert numbers
        assert all(row["source"] for row in numbers)


@pytest.mark.parametrize(
    ("kind", "name", "line"),
    [
        ("flash_device", "ufs_4.0", "unknown flash device 'ufs_4.0'; did you mean 'ufs_4_0'?"),
        ("pim_device", "lpddr5x_pin", "unknown pim device 'lpddr5x_pin'; did you mean 'lpddr5x_pim'?"),
        ("standard", "lpddr5-6401", "unknown standard 'lpddr5-6401'; did you mean 'lpddr5-6400'?"),
        ("controller", "mobil", "unknown controller 'mobil'; did you mean 'mobile'?"),
        ("standards", "none.yaml", "none.yaml: no such file"),
    ],
)
def test_files_that_there_are_not(kind, name, line):
    with pytest.raises(InputError) as caught:
        show_thing(kind, name)
    assert str(caught.value).startswith(line)
    with pytest.raises(InputError, match="--set does not apply to a"):
        show_thing(kind, name, ["x=1"])


RUN = (
    "kind: run\nname: {name}\nsystem: {system}\nschedule: {{name: {schedule}}}\n"
    "job: {{target: {target}, stream: '{stream}'}}\n"
)
GOOD = {"system": "oneplus_12", "schedule": "flash_ar", "target": "smollm2-135m", "stream": "recorded:exit_layers:25"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, None),
        ({"stream": "gone.jsonl"}, "gone.jsonl: no such file; give the path of a recording or recorded:<name>"),
        ({"stream": "recorded:gone"}, "no recording 'gone'"),
        ({"stream": "recorded:mdm_small:one"}, "cannot serve schedule flash_ar"),
        ({"system": "no_flash"}, "flash"),
    ],
)
def test_checking_a_run_builds_its_job(change, words, tmp_path):
    system = "kind: system\nname: no_flash\ndevices: {dram: lpddr5x_9600_x64, cpu: sm8650_cpu, npu: hexagon_v75}\n"
    (tmp_path / "no_flash.yaml").write_text(system)
    path = tmp_path / "mine.yaml"
    path.write_text(RUN.format(name="mine", **GOOD | change))
    problems = check_files([path])[str(path)]
    if words is None:
        assert problems == []
    else:
        assert len(problems) == 1
        assert words in problems[0]
        assert problems[0].startswith(f"{path}: ")


def test_options_mean_the_same_with_and_without_a_file():
    job = {"target": "smollm2-135m", "stream": "recorded:exit_layers:25", "tokens": 4}
    without = load(system="oneplus_12", schedule="flash_ar", job=job)
    with_file = load("demo_flash_ar", system="oneplus_12", schedule="flash_ar", job=job)
    for key in ("system", "schedule", "model"):
        assert with_file.data[key] == without.data[key]
    assert {key: with_file.data["job"][key] for key in job} == job
    assert without.data["name"] == "run"


@pytest.mark.parametrize("value", ["null", "a: b", "[1]", "x # y", "1e3", "'quoted'", "true"])
def test_values_of_options_are_not_parsed(value):
    with pytest.raises(InputError) as caught:
        load("demo_flash_ar", job={"target": value})
    assert str(caught.value).startswith(f"--target: {value!r}" if value != "'quoted'" else "--target: ''quoted''") or (
        str(caught.value).startswith(f"--target: no model {value!r} in ")
    )


def test_values_without_an_option_are_named_by_their_path():
    with pytest.raises(InputError, match=r"^run: job\.dram_fraction: '2' should be less than or equal to 1$"):
        load("demo_flash_ar", job={"dram_fraction": 2})
    with pytest.raises(InputError, match=r"^here: job\.seed: '-1' should be"):
        load_config("run", "demo_flash_ar", [Override("job.seed", -1, "here")])


def test_a_missing_draft_is_what_is_missing():
    with pytest.raises(InputError) as caught:
        load(
            system="oneplus_12",
            schedule="chain_sd",
            job={"target": "eagle3-qwen3-8b", "stream": "recorded:exit_layers"},
        )
    assert "no model 'eagle3-eagle3-qwen3-8b': 'eagle3-qwen3-8b' is an EAGLE3 head itself" in str(caught.value)


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG))
    return path


def test_an_imported_model_is_one_that_config_finds(config, tmp_path):
    document = import_model(config, tmp_path / "mine.yaml")
    assert document["name"] == "mine"
    assert load_config("model", tmp_path / "mine.yaml").name == "mine"
    folder = tmp_path / "models"
    folder.mkdir()
    assert import_model(config, folder, "my_model.v2")["file"] == str(folder / "my_model.v2.yaml")
    assert import_model(config, None)["file"] is None


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--name", "../x", "-o", "x.yaml"], "'../x' is not the name of a model: a name has letters, digits, '.', '_'"),
        (["--name", "../x"], "'../x' is not the name of a model"),
        (["--name", ""], "'' is not the name of a model"),
        (["--name", "\u00fc"], "'\u00fc' is not the name of a model"),
        (["-o", "a b.yaml"], "'a b' is not the name of a model"),
        (["-o", "x.json"], "x.json: a model file ends in .yaml"),
        (["-o", "x"], "x: a model file ends in .yaml"),
        (["--name", "y", "-o", "x.yaml"], "x.yaml: the file of model 'y' must be called y.yaml"),
        (["-o", ""], "Invalid value for '-o' / '--output': the path is empty"),
        (["-o", "none/x.yaml"], "none/x.yaml: cannot be written: there is no folder 'none'"),
        (["-o", "old.yaml"], "old.yaml exists; give --force to replace it"),
        (["--quant", "Q9"], "unknown storage type 'Q9'; known: FP32"),
        (["-o", "pipe.yaml"], "pipe.yaml: is a pipe, not a file; choose another output"),
        (["-o", "pipe.yaml", "--force"], "pipe.yaml: is a pipe, not a file; choose another output"),
    ],
)
def test_imports_that_are_refused(options, line, config, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old.yaml").write_text("old")
    os.mkfifo(tmp_path / "pipe.yaml")
    before = sorted(os.listdir(tmp_path))
    code = run_cli(["import", "model", "config.json", *options])
    captured = capsys.readouterr()
    assert captured.err.startswith(f"archsim: {line}")
    assert (code, captured.out, captured.err.count("\n")) == (2, "", 1)
    assert sorted(os.listdir(tmp_path)) == before
    assert (tmp_path / "old.yaml").read_text() == "old"


def test_force_replaces(config, tmp_path, capsys):
    (tmp_path / "old.yaml").write_text("old")
    assert run_cli(["import", "model", str(config), "-o", str(tmp_path / "old.yaml"), "--force"]) == 0
    assert (tmp_path / "old.yaml").read_text().startswith("kind: model")


def test_a_quantised_checkpoint_names_the_option_that_helps(config, capsys):
    config.write_text(json.dumps({**CONFIG, "quantization_config": {"quant_method": "awq"}}))
    assert run_cli(["import", "model", str(config)]) == 2
    assert capsys.readouterr().err == (
        f"archsim: {config}: the checkpoint is quantised ('awq'); give --quant NAME (such as Q4_0) to say which "
        "storage type to assume\n"
    )
    assert run_cli(["import", "model", str(config), "--quant", "Q4_0"]) == 0
