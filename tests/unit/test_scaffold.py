"""``archsim new``: what it writes works at once, follows what it is derived from, and refuses what cannot be."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from archsim import registry
from archsim.cli import run_cli
from archsim.config import InputError, load_config, names
from archsim.scaffold import DEFAULTS, new
from archsim.session import load, run

ROOT = Path(__file__).parents[2]
JOB = {"target": "smollm2-135m", "stream": "recorded:exit_layers:25", "tokens": 6}
#: Of no machine: `thermal` is a model of the phone's case, a stream runs beside a job.
ALONE = ("thermal", "cpu_stream", "dram_stream", "flash_stream")
#: Every device that stands in a shipped machine.
DEVICES = [name for name in registry.names("device") if name not in ALONE]
#: Names that no kind can have.
BAD = ("", "a/b", "../up", "Upper", "9lives", "has space", "class", "match", "dash-ed", "dotted.name", "x" * 41, "ünï")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("ARCHSIM_PATH", str(tmp_path))
    return tmp_path


def pytest_of(folder, name, *options):
    """Run a generated test, or all of them, in a process of its own, from another folder and without ARCHSIM_PATH."""
    env = {key: value for key, value in os.environ.items() if key != "ARCHSIM_PATH"} | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, str(folder / "tests" / name)]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=900)


def passed(outcome):
    found = re.search(r"(\d+) passed", outcome.stdout)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert "skipped" not in outcome.stdout
    return int(found.group(1))


@pytest.mark.parametrize("source", [None, *names("system")])
def test_a_new_machine_is_checked_short_and_equal_to_its_source(folder, source, capsys):
    document = new("machine", "mine", source=source)
    file = Path(document["files"][0])
    assert file == folder / "systems" / "mine.yaml"
    assert run_cli(["check", str(file)]) == 0
    lines = file.read_text().splitlines()
    assert len(lines) < 30
    assert sum("#" in line for line in lines) >= 2
    made, original = load_config("system", "mine"), load_config("system", source or DEFAULTS["machine"])
    assert made.data["devices"] == original.data["devices"]


def test_the_example_of_a_new_machine_holds_without_its_marks(folder, capsys):
    file = Path(new("machine", "mine")["files"][0])
    lines = file.read_text().splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("# One number"))
    example = [line[1:] for line in lines[first + 1 :]]
    device = example[0].strip()
    plain = [line for line in lines[:first] if not line.startswith(f"  {device}")]
    file.write_text("\n".join([*plain, *example]) + "\n")
    assert run_cli(["check", str(file)]) == 0
    source = next(row.source for row in load_config("system", "mine").rows if row.source == "measured on my desk")
    assert source


def test_a_new_machine_runs(folder, capsys):
    new("machine", "mine", source="oneplus_15")
    mine, theirs = (
        run(load(system=name, schedule="resident_ar", job=JOB), trace="off") for name in ("mine", "oneplus_15")
    )
    assert mine.trace.digest == theirs.trace.digest


def test_a_new_machine_passes_its_test_and_a_broken_one_does_not(folder):
    document = new("machine", "mine")
    assert passed(pytest_of(folder, "test_mine_machine.py")) == 2
    assert [line for line in document["next"] if line.startswith("python")] == [
        f"python -m pytest -q {folder / 'tests' / 'test_mine_machine.py'}"
    ]
    file = folder / "systems" / "mine.yaml"
    file.write_text(re.sub(r"(?m)^  cpu:.*\n", "", file.read_text()))
    assert pytest_of(folder, "test_mine_machine.py").returncode == 1


def test_where_pytest_is_missing_its_installation_comes_first(folder, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    first, second, *_ = new("machine", "mine")["next"]
    assert first == "python -m pip install pytest"
    assert second.startswith("python -m pytest -q ")


def test_a_new_schedule_passes_its_test_and_is_its_source(folder):
    document = new("schedule", "mine")
    assert passed(pytest_of(folder, "test_mine_schedule.py")) == 4
    mine, theirs = (
        run(load(system="oneplus_12", schedule=name, job=JOB), trace="off") for name in ("mine", "chain_sd")
    )
    assert mine.trace.digest == theirs.trace.digest
    assert document["next"][-1].startswith("archsim run --system oneplus_12 --schedule mine")


def test_a_new_device_passes_its_test_and_is_its_source(folder):
    new("device", "mine", source="rails")
    assert passed(pytest_of(folder, "test_mine_device.py")) == 5


SOURCES = {
    "device": [name for name in DEVICES if name != "rails"],
    "schedule": [name for name in registry.names("schedule") if name != DEFAULTS["schedule"]],
}


def started(kind, folder):
    """Everything that a kind can be started from, and the tests of all of them, passed by name, in one process."""
    documents = {source: new(kind, f"my_{source}", source=source, folder=folder) for source in SOURCES[kind]}
    outcome = pytest_of(folder, "", "-rA")
    return folder, documents, outcome, re.findall(rf"(?m)^PASSED .*test_my_(\w+)_{kind}\.py::", outcome.stdout)


@pytest.fixture(scope="module")
def devices(tmp_path_factory):
    return started("device", tmp_path_factory.mktemp("devices"))


@pytest.fixture(scope="module")
def schedules(tmp_path_factory):
    return started("schedule", tmp_path_factory.mktemp("schedules"))


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES["device"])
def test_every_device_can_be_started_from(devices, source, monkeypatch):
    folder, documents, outcome, tests = devices
    monkeypatch.setenv("ARCHSIM_PATH", str(folder))
    assert passed(outcome) == 5 * len(documents)
    assert tests.count(source) == 5
    command = documents[source]["next"][-1].split()
    assert run_cli([*command[1:], "--trace", "off", "--json"]) == 0
    assert run_cli(["check", str(folder / "parts" / f"my_{source}.yaml")]) == 0


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES["schedule"])
def test_every_schedule_can_be_started_from(schedules, source, monkeypatch, capsys):
    folder, documents, outcome, tests = schedules
    monkeypatch.setenv("ARCHSIM_PATH", str(folder))
    assert passed(outcome) == 4 * len(documents)
    assert tests.count(source) == 4
    command = documents[source]["next"][-1].split()
    assert run_cli([*command[1:], "--trace", "off", "--json"]) == 0
    mine = json.loads(capsys.readouterr().out)["digest"]
    command[command.index(f"my_{source}")] = source
    assert run_cli([*command[1:], "--trace", "off", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["digest"] == mine


def test_what_is_written_keeps_the_house_rules(folder):
    ruff = shutil.which("ruff")
    if ruff is None:
        pytest.skip("ruff is not installed")
    for kind, source in (("device", "gpu"), ("device", "cpu"), ("schedule", "chain_sd"), ("schedule", "ahasd")):
        new(kind, f"a_{source}", source=source)
    config = ["--config", str(ROOT / "pyproject.toml")]
    own = [
        "--config",
        "lint.isort.known-first-party=['archsim']",
        "--config",
        "lint.per-file-ignores={'tests/**'=['D']}",
    ]
    for command in (["check", *config, *own], ["format", "--check", *config]):
        outcome = subprocess.run([ruff, *command, "."], cwd=folder, capture_output=True, text=True, timeout=60)
        assert outcome.returncode == 0, outcome.stdout


@pytest.mark.parametrize("kind", DEFAULTS)
@pytest.mark.parametrize("name", BAD)
def test_bad_names_are_refused(folder, kind, name):
    with pytest.raises(InputError, match="cannot name a"):
        new(kind, name)
    assert not list(folder.iterdir())


@pytest.mark.parametrize(
    ("kind", "name", "words"),
    [
        ("machine", "oneplus_12", "a machine 'oneplus_12' exists already"),
        ("device", "gpu", "a device 'gpu' exists already"),
        ("device", "ufs_4_0", "a part 'ufs_4_0' exists already"),
        ("schedule", "lever", "a schedule 'lever' exists already"),
    ],
)
def test_names_that_are_taken_are_refused(folder, kind, name, words, capsys):
    assert run_cli(["new", kind, name]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["robot", "x"], "cannot make a new 'robot'"),
        (["machine", "x", "--from", "oneplus_21"], "no system 'oneplus_21'"),
        (["machine", "x", "--from", "a/b.yaml"], "not a path"),
        (["device", "x", "--from", "gppu"], "unknown device 'gppu'"),
        *((["device", "x", "--from", name], f"no machine has a device of kind '{name}'") for name in ALONE),
        (["schedule", "x", "--from", "./lever"], "not a path"),
        (["schedule", "x", "--from", "levr"], "unknown schedule 'levr'"),
    ],
)
def test_bad_sources_are_refused(folder, args, words, capsys):
    assert run_cli(["new", *args]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1
    assert not list(folder.iterdir())


def test_nothing_is_overwritten_and_nothing_left_half(folder, capsys):
    (folder / "tests").mkdir()
    mine = folder / "tests" / "test_mine_device.py"
    mine.write_text("# my own\n")
    assert run_cli(["new", "device", "mine"]) == 2
    assert "exists already and is not overwritten" in capsys.readouterr().err
    assert mine.read_text() == "# my own\n"
    assert [path.name for path in folder.iterdir()] == ["tests"]


def test_a_folder_that_is_a_file_leaves_nothing(folder, capsys):
    (folder / "tests").write_text("")
    assert run_cli(["new", "device", "mine"]) == 2
    assert "not a folder" in capsys.readouterr().err
    assert [path.name for path in folder.iterdir()] == ["tests"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_is_one_line(tmp_path, capsys, monkeypatch):
    tmp_path.chmod(0o500)
    monkeypatch.delenv("ARCHSIM_PATH", raising=False)
    assert run_cli(["new", "machine", "mine", "-o", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "cannot be made" in said
    assert said.count("\n") == 1


def test_a_file_system_that_takes_nothing_is_one_line(capsys, monkeypatch):
    monkeypatch.delenv("ARCHSIM_PATH", raising=False)
    assert run_cli(["new", "machine", "mine", "-o", "/proc/nowhere"]) == 2
    said = capsys.readouterr().err
    assert "cannot be made" in said
    assert said.count("\n") == 1


def test_without_a_path_it_goes_to_the_current_folder_and_says_how_to_use_it(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("ARCHSIM_PATH", raising=False)
    monkeypatch.chdir(tmp_path)
    assert run_cli(["new", "machine", "mine", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["files"] == ["systems/mine.yaml", "tests/test_mine_machine.py"]
    assert document["next"][0] == f"export ARCHSIM_PATH={tmp_path}"
