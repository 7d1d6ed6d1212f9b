"""The shell completes names, values and paths, in bash with its broken words too, and nothing is compiled for it."""

import os
import subprocess
import sys

import pytest

from archsim import registry
from archsim.catalogue import _SHOWN, KINDS
from archsim.commands import catalogue, completion
from archsim.config import load_config, names

ARCHSIM = [sys.executable, "-m", "archsim"]


def asked(words, shell="bash"):
    """Completions of the last of some words, from a process as the shell starts it."""
    env = {**os.environ, "_ARCHSIM_COMPLETE": f"complete_{shell}"}
    if shell == "bash":
        env |= {"COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1)}
    else:
        env |= {"_TYPER_COMPLETE_ARGS": " ".join(words), "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    done = subprocess.run(ARCHSIM, env=env, capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "some"),
    [
        (["run", "--sys"], ["--system"]),
        (["run", "--system", "oneplus"], ["oneplus_12", "oneplus_15"]),
        (["run", "--stream", "rec"], ["recorded:exit_layers", "recorded:mdm_small"]),
        (["run", "lever", "--set", "system.flash.stream"], ["system.flash.stream_bytes_per_s="]),
        (["new", "device", "x", "--from", "g"], ["gpu"]),
    ],
)
def test_bash(words, some):
    found = asked(["archsim", *words])
    assert set(some) <= set(found)
    assert all(entry.startswith(words[-1]) for entry in found)


def test_bash_with_words_broken_at_colons_and_equals():
    assert asked(["archsim", "run", "--stream", "recorded", ":", "exit"]) == ["exit_layers", "exit_layers_long"]
    assert "qwen3-4b:gsm8k" in asked(["archsim", "run", "--stream", "synthetic", ":", "qwen3-4b"])


@pytest.mark.parametrize(("shell", "mark"), [("zsh", '"oneplus_12"'), ("fish", "oneplus_12")])
def test_other_shells(shell, mark):
    assert any(mark in entry for entry in asked(["archsim", "run", "--system", "oneplus_1"], shell))


class Context:
    params = {}


@pytest.mark.parametrize("kind", ["system", "model", "run", "sweep", "part"])
def test_names_of_files_are_all_there(kind):
    assert completion.config_names(kind)(Context, "") == names(kind)


@pytest.mark.parametrize("kind", ["schedule", "device"])
def test_names_of_plugins_are_those_that_register(kind):
    assert completion.plugin_names(kind)(Context, "") == registry.names(kind)


def test_words_are_those_that_commands_take():
    assert set(catalogue.LISTED) == set(KINDS)
    assert set(catalogue.SHOWN) == set(_SHOWN)


@pytest.mark.parametrize("words", [["lever"], ["--system", "ahasd_without_aau", "--schedule", "ahasd"]])
def test_every_path_of_set_is_one(words, monkeypatch):
    monkeypatch.setenv("COMP_WORDS", " ".join(["archsim", "run", *words, "--set", ""]))
    found = completion.set_paths(Context, "")
    assert len(found) > 60
    named = dict(zip(words[::2], words[1::2])) if words[0].startswith("--") else {}
    run = {"name": "run", "system": named.get("--system"), "schedule": {"name": named.get("--schedule")}, "job": {}}
    if named:
        run["job"] = {"target": "qwen3-4b", "stream": "synthetic:qwen3-4b:gsm8k", "acceptance": 0.5}
    rows = {row.path for row in load_config("run", run if named else words[0]).rows}
    known = {".".join(path.split(".")[:length]) for path in rows for length in (2, 3, 4)}
    assert {path.removesuffix("=") for path in found} <= known
    assert any(path.startswith("schedule.") for path in found)


def test_a_broken_folder_completes_to_nothing(monkeypatch):
    monkeypatch.setenv("ARCHSIM_PATH", "/nowhere/at/all")
    assert completion.config_names("system")(Context, "") == []
    assert completion.plugin_names("schedule")(Context, "") == []


def test_completing_imports_nothing_that_compiles():
    code = (
        "import os, sys, time\n"
        "os.environ |= {'_ARCHSIM_COMPLETE': 'complete_bash', 'COMP_CWORD': '4'}\n"
        "os.environ['COMP_WORDS'] = 'archsim run lever --set system.fl'\n"
        "from archsim.commands import invoke\n"
        "invoke([])\n"
        "print({'numba', 'numpy', 'pandas', 'networkx', 'rich.console'} & set(sys.modules), file=sys.stderr)\n"
        "print(time.process_time(), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    loaded, cpu_s = done.stderr.splitlines()
    assert loaded == "set()"
    assert "system.flash=" in done.stdout.split()
    assert float(cpu_s) < 0.8  # 0.3 s on a quiet core
