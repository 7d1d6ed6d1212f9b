"""``archsim trace pim`` on odd files, absurd sizes and outputs: one line, at once, nothing half-written."""

from __future__ import annotations

import json
import os
import time

import numpy as np
import pytest

from archsim.cli import run_cli
from archsim.devices.pim import oracle
from archsim.devices.pim.isa import Cmd
from archsim.devices.pim.reader import MAX_BYTES, read_trace
from archsim.devices.pim.replay import execute
from archsim.devices.pim.standard import load_pim
from archsim.streams.opening import packed_traces

SAMPLES = sorted((packed_traces() / "pim" / "samples").glob("*.trace"))
AIM = ("gddr6_aim", "lpddr5_aim_noref", "lpddr5_aim_refab")
FOUR = ("lpddr5x_pim", "lpddr5_pim")
RUNS = [(path, device) for path in SAMPLES for device in (FOUR if path.stem == "four_channels" else AIM)]


def call(args, capsys):
    code = run_cli(["trace", "pim", *(str(arg) for arg in args)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_there_are_samples():
    assert [path.stem for path in SAMPLES] == ["activation", "four_channels", "host_between", "products"]


@pytest.mark.parametrize(("path", "device"), RUNS, ids=lambda value: getattr(value, "stem", value))
def test_every_sample_runs_as_the_plain_model_says(path, device, capsys):
    code, out, err = call([path, "--device", device, "--baseline", "--json"], capsys)
    assert (code, err) == (0, "")
    document = json.loads(out)
    standard = load_pim(device)
    program = read_trace(path, standard)
    run = execute(standard, program)
    assert document["cycles"] == run.cycles
    assert sum(document["commands_total"].values()) == run.counts.sum()
    if device in ("gddr6_aim", "lpddr5x_pim"):  # the plain model is slow
        cycles, counts = oracle.run(standard, program)
        assert cycles == run.cycles
        assert np.array_equal(np.array([[c.get(k, 0) for k in Cmd] for c in counts]), run.counts)
    assert 15 <= len(path.read_text().splitlines()) <= 25


def test_commands_are_written_in_order_and_whole(tmp_path, capsys):
    target = tmp_path / "commands.csv"
    code, out, _ = call([SAMPLES[-1], "--device", "gddr6_aim", "--commands", target, "--json"], capsys)
    assert code == 0
    lines = [line.split(",") for line in target.read_text().splitlines()]
    assert lines[0] == ["clock", "command"]
    clocks = [int(clock) for clock, _ in lines[1:]]
    assert clocks == sorted(clocks)
    assert clocks[-1] <= json.loads(out)["cycles"]
    written = {name: sum(1 for _, command in lines[1:] if command == name) for _, name in lines[1:]}
    assert written == json.loads(out)["commands"]
    assert [path.name for path in tmp_path.iterdir()] == ["commands.csv"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: os.mkfifo(p), "is a pipe, not a file; expected a trace of AiM instructions"),
        (lambda p: p.mkdir(), "is a folder, not a file; expected a trace of AiM instructions"),
        (lambda p: None, "no such file; expected a trace of AiM instructions"),
        (lambda p: p.symlink_to("/dev/zero"), "is a device, not a file; expected a trace of AiM instructions"),
        (lambda p: p.write_bytes(b""), "no 'AiM EOC' at the end; add it, the run ends there"),
        (lambda p: p.write_bytes(b"\n# only a comment\n\n"), "no 'AiM EOC' at the end; add it, the run ends there"),
        (lambda p: p.write_bytes(os.urandom(64) + b"\xff"), "not a text trace (byte "),
        (lambda p: p.write_bytes(bytes(5000)), "starts no line of an AiM trace"),
        (lambda p: p.write_bytes(b"AiM " * 100_000), "100000 fields in one line"),
        (lambda p: p.write_bytes(b"x" * 1_000_000), "starts no line of an AiM trace (AiM, R or W)"),
        (lambda p: p.write_text("AiM WR_GB 99999999999999999999999 0 1\n"), "opsize '99999999999999999999999'"),
        (lambda p: p.write_text("AiM WR_GB 1048577 0 1\nAiM EOC\n"), "opsize 1048577 is out of range"),
        (lambda p: p.write_text("AiM WR_GB 1048576 0 1\n" * 257 + "AiM EOC\n"), "more than 268435456 requests"),
    ],
)
def test_odd_files_are_refused_in_one_line(tmp_path, capsys, make, message):
    path = tmp_path / "t.trace"
    make(path)
    began = time.process_time()
    code, out, err = call([path, "--device", "gddr6_aim"], capsys)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert len(err) < 400
    assert message in err
    assert time.process_time() - began < 5.0


def test_a_trace_above_the_limit_is_not_read_whole(tmp_path, capsys):
    path = tmp_path / "big.trace"
    with open(path, "wb") as file:
        file.truncate(1 << 40)  # a hole: no blocks on the disk
    code, _, err = call([path, "--device", "gddr6_aim"], capsys)
    assert (code, err) == (
        2,
        f"archsim: {path}: is larger than {MAX_BYTES} bytes, the limit for a trace of AiM instructions\n",
    )


def test_outputs_never_replace_the_trace(tmp_path, capsys):
    trace, text = tmp_path / "t.trace", SAMPLES[0].read_text()
    trace.write_text(text)
    (tmp_path / "link.csv").symlink_to(trace)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for target, part in (
        (trace, "is the trace itself; give it another name"),
        (tmp_path / "link.csv", "is the trace itself; give it another name"),
        (tmp_path, "is a folder, not a file; choose another output"),
        (pipe, "is a pipe, not a file; choose another output"),
        (tmp_path / "none" / "c.csv", "there is no folder"),
    ):
        code, out, err = call([trace, "--device", "gddr6_aim", "--commands", target], capsys)
        assert (code, out) == (2, "")
        assert part in err
        assert err.count("\n") == 1
    assert trace.read_text() == text
    code, _, err = call([trace, "--device", "lpddr5x_pim", "--commands", tmp_path / "c.csv"], capsys)
    assert code == 2  # 32-channel masks on four channels
    assert not (tmp_path / "c.csv").exists()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--gemv", "4194304x4194304"], "rows a bank; lpddr5x_pim has 65536"),
        (["--gemv", "999999999x999999999"], "GEMV: 999999999 outputs; expected 1 to 4194304"),
        (["--gemv", "4194304x512", "--tokens", "4096"], "more than"),
        (["--gemv", "64x4194304", "--tokens", "4096", "--fence"], "more than"),
        (["--gemv", "0x0"], "GEMV: 0 outputs; expected 1 to 4194304"),
        (["--gemv", "1x1", "--tokens", "0"], "GEMV: 0 tokens; expected 1 to 4096"),
        (["--gemv", "1x1", "--tokens", "99999999"], "GEMV: 99999999 tokens; expected 1 to 4096"),
        (["--gemv", "8x8", "--commands", "c.csv"], "--commands belongs to a trace"),
        (["--gemv", "8x8", "--device", "/dev/zero"], "/dev/zero"),
    ],
)
def test_absurd_products_are_refused_at_once(args, message, capsys):
    began = time.process_time()
    code, out, err = call(args, capsys)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert message in err
    assert time.process_time() - began < 5.0


def test_the_end_alone_runs(tmp_path, capsys):
    path = tmp_path / "end.trace"
    path.write_text("AiM EOC")
    code, out, _ = call([path, "--device", "gddr6_aim", "--baseline", "--json"], capsys)
    assert code == 0
    document = json.loads(out)
    assert document["commands_total"] == {}
    assert document["cycles_baseline"] == 0


def test_slices_of_the_kernel_change_nothing(monkeypatch):
    from archsim.devices.pim import replay

    standard = load_pim("lpddr5_aim_refab")
    program = read_trace(packed_traces() / "pim" / "mac_64rows_32ch.trace", standard)
    whole = execute(standard, program, log=True)
    monkeypatch.setattr(replay, "SLICE_STEPS", 7)
    sliced = execute(standard, program, log=True)
    assert whole.cycles == sliced.cycles
    assert np.array_equal(whole.counts, sliced.counts)
    assert np.array_equal(whole.log, sliced.log)
