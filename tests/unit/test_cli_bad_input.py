"""Bad input: one exact line on stderr, exit code 2, nothing written."""

from __future__ import annotations

from pathlib import Path

import pytest

from archsim.cli import run_cli

RUN = """kind: run
name: {name}
system: oneplus_12
schedule: {{name: flash_ar}}
job: {{target: llama-3.1-8b, stream: "recorded:exit_layers:25", tokens: 8}}
"""
GIVEN = ["run", "--system", "oneplus_12", "--schedule", "flash_ar", "--target", "smollm2-135m", "--tokens", "4"]
GIVEN += ["--stream", "recorded:exit_layers:25"]


def swapped(option: str, value: str) -> list[str]:
    args = list(GIVEN)
    args[args.index(option) + 1] = value
    return args


def write(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


#: Command line -> the line on stderr, without the leading "archsim: ".
COMMANDS: dict[str, tuple[list[str], str]] = {}


def call(args, capsys) -> tuple[int, str, str]:
    code = run_cli(args)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize("name", COMMANDS)
def test_bad_command_line(name, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    args, line = COMMANDS[name]
    code, out, err = call(args, capsys)
    assert err == f"archsim: {line}\n"
    assert code == 2
    assert out == ""
    assert list(tmp_path.iterdir()) == []
