"""Faults that generated input found, each in its smallest form."""

from __future__ import annotations

import json
import zipfile

import numpy as np
import pytest

from archsim.cli import run_cli
from archsim.config import InputError
from archsim.config.reading import value_of
from archsim.datafiles import shelf
from archsim.devices.pim.standard import load_pim
from archsim.streams import open_stream
from archsim.trace import Trace

RUN = "kind: run\nname: run\nsystem: oneplus_12\nschedule: {name: flash_ar}\n"
RUN += "job: {target: smollm2-135m, stream: 'recorded:exit_layers:25', tokens: 2, prompt_tokens: 4}\n"
JOB = {"target": "smollm2-135m", "stream": "recorded:exit_layers:25", "tokens": 2, "prompt_tokens": 4}


def refused(args, capsys):
    code = run_cli(args)
    out, err = capsys.readouterr()
    assert (code, out, err.count("\n")) == (2, "", 1), err
    return err


@pytest.mark.parametrize("command", [["sweep", "s.yaml"], ["search", "s.yaml", "--trials", "2"]])
def test_a_misspelt_objective_leaves_no_folder(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.yaml").write_text(RUN)
    text = "kind: sweep\nname: s\nrun: run.yaml\naxes: {job.seed: [0, 1]}\nobjectives: {decode_tokens_peb_s: max}\n"
    (tmp_path / "s.yaml").write_text(text)
    assert "did you mean 'decode_tokens_per_s'?" in refused([*command, "-o", "a/out"], capsys)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.yaml", "s.yaml"]


def test_an_endless_sweep_file_is_not_read(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.yaml").write_text(RUN)
    (tmp_path / "s.yaml").write_text("kind: sweep\nname: s\nrun: run.yaml\naxes: {job.seed: [0, 1]}\n")
    for name in ("sweep.json", "points.jsonl"):
        folder = tmp_path / f"with_{name}"
        assert run_cli(["sweep", "s.yaml", "-o", str(folder)]) == 0
        capsys.readouterr()
        with (folder / name).open("ab") as stream:
            stream.truncate(1 << 40)  # a hole
        assert f"with_{name}" in refused(["sweep", "s.yaml", "-o", str(folder)], capsys)


@pytest.mark.parametrize(("key", "words"), [("ns", "is not a time in ns of 0 or more"), ("min_ck", "min_ck")])
def test_a_pim_timing_that_is_no_number(key, words, tmp_path, capsys):
    text = (shelf("pim_device").folder / "lpddr5x_pim.yaml").read_text()
    lines = text.splitlines()
    at = next(i for i, line in enumerate(lines) if "ns:" in line and "{" in line)
    name, _, _ = lines[at].partition("{")
    value = "{x: 1}"
    entry = f"ns: {value}" if key == "ns" else f"ns: 1, min_ck: {value}"
    lines[at] = f"{name}{{{entry}, source: x}}"
    path = tmp_path / "lpddr5x_pim.yaml"
    path.write_text("\n".join(lines) + "\n")
    assert words in refused(["trace", "pim", "--gemv", "64x64", "--device", str(path)], capsys)


@pytest.mark.parametrize("tokens", [-1, 2**40])
def test_a_trace_that_commits_what_no_run_can(tokens, tmp_path):
    from archsim.session import load, run

    given = {"name": "x", "system": "oneplus_12", "schedule": {"name": "flash_ar"}, "job": JOB}
    made = run(load(given), trace="off").trace
    notes = {name: column.copy() for name, column in made.notes.items()}
    notes["value"][np.flatnonzero(notes["kind"] == "commit")[0]] = tokens
    Trace({**made.tables, "notes": notes}, made.manifest).save(tmp_path / "run")
    with pytest.raises(InputError, match=f"{tokens} tokens committed at once"):
        Trace.load(tmp_path / "run")


@pytest.mark.parametrize("odd", [None, [[1]], [{"a": 1}], 7], ids=str)
@pytest.mark.parametrize("key", ["from", "to"])
def test_a_constraint_of_a_pim_device_that_names_no_commands(key, odd, tmp_path):
    data = value_of((shelf("pim_device").folder / "gddr6_aim.yaml").read_text(), "gddr6_aim")
    data["constraints"][0][key] = odd
    path = tmp_path / "gddr6_aim.yaml"
    path.write_text(json.dumps(data))
    with pytest.raises(InputError, match=r"constraints\[0\]: (unknown command|expected a list of commands)"):
        load_pim(str(path))


def test_what_a_library_quotes_of_a_file_is_cut(tmp_path):
    """A name of 50,000 bytes in the header of an entry is quoted whole by zipfile."""
    path = tmp_path / "exits.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("ids.npy", bytes(60_000))
    raw = bytearray(path.read_bytes())
    raw[26:28] = (50_000).to_bytes(2, "little")
    path.write_bytes(raw)
    with pytest.raises(InputError) as refusal:
        open_stream(str(path), 0)
    assert len(str(refusal.value)) < 1000


def test_a_command_of_any_length_is_refused_in_a_line_that_can_be_read(capsys):
    assert len(refused(["x" * 5000], capsys)) < 1100
