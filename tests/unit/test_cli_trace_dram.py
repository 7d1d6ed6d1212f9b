"""``archsim trace dram`` and ``archsim reproduce`` as a user calls them."""

from __future__ import annotations

import gzip
import json
import os

import numpy as np
import pytest

from archsim.cli import run_cli
from archsim.config import InputError
from archsim.devices.dram.controller import load_memory
from archsim.devices.dram.replay import replay_columns
from archsim.reproduce.rows import Row, markdown, score
from archsim.streams.opening import packed_traces

TRACE = packed_traces() / "dram" / "t03_row_stride_1bank.txt.gz"
KEYS = {
    *("cycles", "tck_ns", "requests", "row_hits", "row_misses", "row_conflicts", "read_latency_cycles_avg"),
    *("read_latency_cycles_p50", "read_latency_cycles_p99", "write_wait_cycles_avg", "bandwidth_gb_s"),
    *("peak_fraction", "commands", "energy_pj", "cpu_s", "parse_s"),
}


def call(args, capsys):
    code = run_cli([str(arg) for arg in args])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_json_has_the_documented_keys(capsys):
    code, out, err = call(["trace", "dram", TRACE, "--standard", "lpddr5-6400", "--json"], capsys)
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert set(document) >= KEYS
    assert document["requests"] == document["reads"] + document["writes"]
    assert document["requests"] == document["row_hits"] + document["row_misses"] + document["row_conflicts"]


def test_files_are_written_and_a_bad_trace_writes_none(capsys, tmp_path):
    commands, figure = tmp_path / "commands.csv", tmp_path / "latency.svg"
    args = ["trace", "dram", TRACE, "--commands", commands, "--figure", figure]
    assert call(args, capsys)[0] == 0
    assert commands.read_text().startswith("clock,command,")
    assert figure.stat().st_size > 1000
    bad = tmp_path / "bad.txt"
    bad.write_text("R 0x0\nR 0x20\nnonsense\n")
    code, out, err = call(["trace", "dram", bad, "--commands", tmp_path / "none.csv"], capsys)
    assert (code, out) == (2, "")
    assert err.startswith(f"archsim: {bad}:3: ")
    assert err.count("\n") == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad.txt", "commands.csv", "latency.svg"]


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (["--standard", "lpddr5x-9601"], "did you mean 'lpddr5x-9600'?"),
        (["--controller", "reference_g"], "did you mean 'reference_"),
        (["--channels", "3"], "channels"),
        (["--injection", "greedily"], "expected one of greedy, chain, chain:1, paced:N, recorded"),
        (["--format", "dramsim3"], "rw-hex"),
        (["--injection", "recorded"], "it looks like rw-hex"),
    ],
)
def test_bad_options(options, part, capsys):
    code, out, err = call(["trace", "dram", TRACE, *options], capsys)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert part in err


def test_outputs_never_replace_the_trace_or_each_other(capsys, tmp_path):
    trace = tmp_path / "in.svg"
    trace.write_text("R 0x0\nR 0x20\n")
    both = tmp_path / "both.svg"
    for options in (["--commands", trace], ["--figure", trace], ["--commands", both, "--figure", both]):
        code, out, err = call(["trace", "dram", trace, *options], capsys)
        assert (code, out) == (2, "")
        assert "give it another name" in err
    code, _, err = call(["trace", "dram", trace, "--commands", tmp_path / "c.csv", "--figure", "bad.xyz"], capsys)
    assert code == 2
    assert err == "archsim: bad.xyz: a figure is written as .svg, .pdf or .png\n"
    assert [p.name for p in tmp_path.iterdir()] == ["in.svg"]


def test_a_neighbour_called_part_is_left_alone(capsys, tmp_path):
    trace, neighbour = tmp_path / "t.txt", tmp_path / "c.csv.part"
    trace.write_text("R 0x0\nR 0x20\n")
    neighbour.write_text("precious")
    assert call(["trace", "dram", trace, "--commands", tmp_path / "c.csv"], capsys)[0] == 0
    assert neighbour.read_text() == "precious"


def test_special_files_and_far_cycles_are_refused(capsys, tmp_path):
    pipe, far = tmp_path / "pipe", tmp_path / "far.txt"
    os.mkfifo(pipe)
    code, _, err = call(["trace", "dram", pipe], capsys)
    assert (code, err) == (2, f"archsim: {pipe}: is a pipe, not a file; expected a trace of requests\n")
    far.write_text("0x0 READ 0\n0x20 READ 2000000000000000000\n")
    code, _, err = call(["trace", "dram", far, "--injection", "recorded"], capsys)
    assert code == 2
    assert "at cycle 2000000000000000000, beyond 1000000000000000" in err


def test_columns_from_python_are_checked():
    memory = load_memory("lpddr5-6400", "reference_a")
    for address, write, part in (
        ([0, 32], [0, 2], "1 for a write"),
        ([0.5], [0], "whole numbers"),
        (["a"], [0], "whole"),
    ):
        with pytest.raises(InputError, match=part):
            replay_columns(memory, np.array(address), np.array(write))


def test_truncated_gzip(capsys, tmp_path):
    short = tmp_path / "short.txt.gz"
    short.write_bytes(gzip.compress(b"R 0x0\n" * 10_000)[:-20])
    code, out, err = call(["trace", "dram", short], capsys)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1


def test_score_counts_predicted_rows_only():
    rows = [
        Row("a", "s", "ms", 10.0, 10.5, 20.0, tolerance=0.1),
        Row("b", "s", "ms", 10.0, 13.0, tolerance=0.1, why="far"),
        Row("c", "s", "ms", 10.0, 10.0, kind="fitted"),
        Row("d", "s", "ms", 0.0, 0.0, tolerance=0.0),
    ]
    found = score(rows)
    assert (found["predicted"], found["ok"], found["within_10_percent"], found["within_25_percent"]) == (3, 2, 2, 2)
    assert (found["worst"], found["null_rows"], found["null_within_10_percent"]) == ("b", 1, 0)
    assert "| b | ms | 10 | 13 | - | 1.3 | predicted | no |" in markdown(rows)


@pytest.mark.slow
def test_reproduce_devices(capsys):
    code, out, _ = call(["reproduce", "devices", "--json"], capsys)
    assert code == 0
    document = json.loads(out)
    assert all(row["ok"] for row in document["rows"] if row["id"].startswith("dram."))
    assert document["score"]["predicted"] >= 138


def test_unknown_table(capsys):
    code, out, err = call(["reproduce", "device"], capsys)
    assert (code, out) == (2, "")
    assert err == "archsim: no table 'device'; did you mean 'devices'?\n"
