"""``archsim compare``: residuals by row and group, the null model, and rows that cannot be simulated."""

from __future__ import annotations

import json
import math

import pytest

import archsim
from archsim.cli import run_cli
from archsim.config import InputError
from archsim.devices.npu.alone import SHAPES, devices_of, matrices, times_us
from archsim.measurements.machine import Machine
from archsim.measurements.predict import Predictor
from archsim.measurements.readers import read_measurements
from archsim.measurements.residuals import compare, residuals
from archsim.session import load, run
from archsim.streams.opening import packed_traces

SAMPLES = packed_traces() / "measurements"
HEAD = "operator,shape,dtype,value,unit,device,kernel,model,group"


def table(tmp_path, *lines, head=HEAD):
    path = tmp_path / "t.csv"
    path.write_text("\n".join((head, *lines)) + "\n")
    return path


@pytest.mark.parametrize("rows", [1, 128])
@pytest.mark.parametrize("device", ["npu", "cpu"])
def test_operators_take_the_time_that_the_kernels_alone_take(tmp_path, device, rows):
    path = table(tmp_path, f"matrices,{rows},Q4_0,1,us,{device},,llama-3.1-8b,")
    found = compare(path, "oneplus_12").rows[0].simulated
    alone = times_us(devices_of("oneplus_12")[device], matrices(SHAPES["llama-3.1-8b"], rows)).mean()
    assert found == pytest.approx(alone, rel=1e-4)


def test_decoding_takes_the_time_of_a_run(tmp_path):
    path = table(tmp_path, "decode,16@64,-,1,tok/s,npu,,llama-3.1-8b,", "decode,16@64,-,1,tok/s,cpu,,llama-3.1-8b,")
    found = [row.simulated for row in compare(path, "oneplus_12").rows]
    job = {"target": "llama-3.1-8b", "stream": "synthetic:llama-3.1-8b:mt_bench", "prompt_tokens": 64, "tokens": 17}
    for speed, schedule in zip(found, ("resident_ar", "cpu_ar")):
        result = run(load(system="oneplus_12", schedule=schedule, job=job), trace="off")
        assert speed == pytest.approx(result.summary["decode_tokens_per_s"], rel=0.01)


def test_a_long_prompt_runs_in_batches(tmp_path):
    path = table(
        tmp_path,
        *(f"prefill,{n},-,1,ms,cpu,,qwen3-0.6b," for n in (512, 1024)),
        "prefill,512@512,-,1,ms,cpu,,qwen3-0.6b,",
    )
    half, whole, second = (row.simulated for row in compare(path, "oneplus_12").rows)
    assert whole == pytest.approx(half + second, rel=1e-3)
    assert second > half


def test_rates_and_times_are_two_views_of_one_prediction(tmp_path):
    path = table(tmp_path, "matmul,4x4096x4096,Q4_0,1,us,npu,,,", "matmul,4x4096x4096,Q4_0,1,tok/s,npu,,,")
    time_us, rate = (row.simulated for row in compare(path, "oneplus_12").rows)
    assert rate == pytest.approx(4 / (time_us * 1e-6))
    null_us, null_rate = (row.null_model for row in compare(path, "oneplus_12").rows)
    assert null_rate == pytest.approx(4 / (null_us * 1e-6))
    assert null_us < time_us


def test_the_null_model_is_the_longer_of_bytes_and_operations(tmp_path):
    path = table(tmp_path, "matmul,1x4096x4096,Q4_0,1,us,cpu,,,", "matmul,512x4096x4096,Q4_0,1,us,cpu,,,")
    small, large = (row.null_model for row in compare(path, "oneplus_12").rows)
    cpu = devices_of("oneplus_12")["cpu"]
    nbytes = 4096 * 4096 / 32 * 18 + 2 * 2 * 4096
    assert small == pytest.approx(nbytes / 62e9 * 1e6)
    assert large == pytest.approx(2 * 512 * 4096 * 4096 / cpu.peak_ops_per_s() * 1e6)


def test_groups_are_geometric_and_name_the_worst(tmp_path):
    path = table(tmp_path, "norm,1x4096,-,1,us,npu,,,a", "norm,2x4096,-,1,us,npu,,,a", "norm,4x4096,-,1,us,npu,,,b")
    found = compare(path, "oneplus_12")
    one, two, three = (row.simulated for row in found.rows)
    first, second, every = found.groups
    assert [first.group, second.group, every.group] == ["a", "b", "all"]
    assert first.bias == pytest.approx(math.sqrt(one * two))
    assert (first.worst, first.worst_at) == (pytest.approx(two), "line 3")
    assert every.bias == pytest.approx((one * two * three) ** (1 / 3))
    assert second.spread == pytest.approx(max(three, 1 / three))


def test_rows_that_cannot_be_simulated_are_listed_with_the_reason(tmp_path):
    path = table(
        tmp_path,
        "matmul,1x4096x4096,Q4_0,1,us,gpu,,,",
        "matmul,1x4096x4096,Q4_0,1,us,cpu,gemv,,",
        "matmul,1x8388608x32,Q4_0,1,us,cpu,,,",
        "matrices,1,-,1,us,npu,,qwen3-4b,",
        "decode,4@2000000,-,1,tok/s,npu,,qwen3-4b,",
    )
    found = compare(path, "oneplus_12")
    assert len(found.rows) == 5
    reasons = [row.problem for row in found.skipped]
    assert reasons[0].startswith("the system has no gpu; it has: flash, dram, cpu, npu")
    assert reasons[1] == "kernel gemv: cpu has no kernels to choose"
    assert reasons[2] == "a size of 8388608 is above 4194304"
    assert reasons[3] == "2000004 tokens are more than 1048576"
    assert [group.rows for group in found.groups] == [1]


def test_an_operator_does_not_run_a_model_and_is_run_once():
    predictor, machine = Predictor("oneplus_12"), Machine.load("oneplus_12")
    rows = read_measurements(SAMPLES / "oneplus_12_published.csv").rows
    for row in rows:
        predictor.simulated(machine, row)
    first = predictor.runs
    moved = machine.move({"system.cpu.unpack_cycles_per_block": 11.0})
    changed = [predictor.simulated(moved, row) for row in rows]
    assert predictor.runs - first == 6  # those of the CPU
    assert changed[6] > predictor.simulated(machine, rows[6])
    assert changed[0] == predictor.simulated(machine, rows[0])


def test_moving_a_number_is_setting_it(tmp_path):
    path = table(tmp_path, "matrices,1,Q4_0,1,us,npu,,qwen3-4b,", "decode,4@64,-,1,tok/s,npu,,qwen3-0.6b,")
    wanted = [row.simulated for row in compare(path, "oneplus_12", sets=["system.npu.gemv_cycles=7.5"]).rows]
    machine = Machine.load("oneplus_12").move({"system.npu.gemv_cycles": 7.5})
    found = residuals(read_measurements(path), machine, Predictor("oneplus_12"))
    assert [row.simulated for row in found.rows] == wanted
    with pytest.raises(InputError, match=r"system\.npu: .*gemv_cycles"):
        machine.move({"system.npu.gemv_cycles": -1.0})


def test_the_command_prints_tables_and_json(tmp_path, capsys):
    path, figure = table(tmp_path, "matrices,1,Q4_0,404,us,npu,,llama-3.1-8b,"), tmp_path / "f.svg"
    assert run_cli(["compare", str(path), "--system", "oneplus_12", "--tolerance", "0.1", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["rows"][0]["ok"] is True
    assert document == {**archsim.compare(path, "oneplus_12", tolerance=0.1).document()}
    assert run_cli(["compare", str(path), "--system", "oneplus_12", "--figure", str(figure)]) == 0
    assert "npu matrices one row" in capsys.readouterr().out
    assert figure.read_bytes().startswith(b"<?xml")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["{table}", "--system", "oneplus_13"], "no system 'oneplus_13'"),
        (["{table}", "--system", "oneplus_12", "--tolerance", "0"], "tolerance 0: it must lie between"),
        (["{table}", "--system", "oneplus_12", "--figure", "{folder}/a.txt"], "a figure is written as"),
        (["{table}", "--system", "oneplus_12", "--figure", "{table}"], "is the measurements itself"),
        (["{folder}/none.csv", "--system", "oneplus_12"], "none.csv: no such file"),
        (["{table}", "--system", "oneplus_12", "--set", "system.npu.gemv=3"], "unknown field 'gemv'"),
    ],
)
def test_bad_input_is_one_line(tmp_path, capsys, arguments, words):
    path = table(tmp_path, "matrices,1,Q4_0,404,us,npu,,llama-3.1-8b,")
    filled = [text.format(table=path, folder=tmp_path) for text in arguments]
    assert run_cli(["compare", *filled]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert words in lines[0]


@pytest.mark.parametrize("file", ["llama_bench.jsonl", "hexagon_profile.log", "operators.csv"])
def test_samples_are_simulated(file, tmp_path):
    found = compare(SAMPLES / file, "oneplus_12")
    assert all(row.ratio is not None and 0.3 < row.ratio < 3 for row in found.rows if not row.problem)
    assert any(row.ratio is not None for row in found.rows)


def test_outcomes_print_short_and_give_frames(tmp_path):
    path = table(tmp_path, *(f"norm,{m}x4096,-,10,us,npu,,," for m in range(1, 20)))
    found = compare(path, "oneplus_12")
    assert str(found) == repr(found)
    assert len(str(found).splitlines()) < 60
    assert "on oneplus_12" in str(found)
    assert list(found.frame()["measured"]) == [10.0] * 19
    assert list(found.frame("groups")["rows"]) == [1, 18, 19]
    with pytest.raises(InputError, match="no table 'row'"):
        found.frame("row")


@pytest.mark.parametrize(
    "line",
    [
        "matmul,4194304x4194304x4194304,FP32,1,us,npu,,,",
        "attention,4194304x4194304x4194304x1x4194304,-,1,us,cpu,,,",
        "layers,4194304@4194304,-,1,us,npu,,qwen3-4b,",
        "prefill,1048000,-,1,us,npu,,qwen3-4b,",
        "seq_read,1 TB,-,1,MB/s,event,,,",
        "rand_read,1 B@1 B@1,-,1,MB/s,row,,,",
        "rand_read,1 GB@1 B@4000000,-,1,MB/s,event,,,",
        "decode,1,-,1,tok/s,cpu,,llada-8b,",
    ],
)
def test_absurd_rows_are_reasons_not_crashes(tmp_path, line):
    (row,) = compare(table(tmp_path, line), "oneplus_12").rows
    assert row.problem
    assert row.simulated is None
