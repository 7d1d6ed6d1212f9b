"""Calibration closes the loop: hidden values are found again, rows held out fit better, collinear ones are told.

Synthetic measurements are made by running archsim itself with hidden values of a device's parameters.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from archsim.measurements.calibration import calibrate
from archsim.measurements.machine import Machine
from archsim.measurements.predict import Predictor
from archsim.measurements.readers import read_measurements
from archsim.streams.opening import packed_traces

PUBLISHED = packed_traces() / "measurements" / "oneplus_12_published.csv"
HEAD = "operator,shape,dtype,unit,device,kernel,model"
NPU = (
    *(f"matmul,1x{k}x{n},Q4_0,us,npu,gemv," for k, n in ((4096, 4096), (4096, 14336), (2560, 1024))),
    *(f"matmul,{m}x4096x4096,Q4_0,ms,npu,ggml_hvx," for m in (16, 64, 128)),
    "layers,16@200,-,ms,npu,,qwen3-4b",
)
CPU = (*(f"matmul,{m}x{k}x4096,Q4_0,us,cpu,," for m in (1, 8, 128) for k in (1024, 4096)), "norm,1x256,-,us,cpu,,")
FLASH = (
    *(f"seq_read,{kib} KiB,-,MB/s,row,prime," for kib in (4, 32, 128, 512, 2048)),
    *(f"rand_read,{kib} KiB@128 MiB,-,MB/s,row,prime," for kib in (4, 64, 512)),
    "rand_read,4 KiB@1 GiB,-,MB/s,row,prime,",
)
#: Device: rows, and parameters.
CASES = {
    "npu": (NPU, ("system.npu.gemv_cycles", "system.npu.mac_cycles", "system.npu.call_ps")),
    "cpu": (CPU, ("system.cpu.unpack_cycles_per_block", "system.cpu.mac_cycles_per_block", "system.cpu.sync_ps")),
    "flash": (FLASH, ("system.flash.stream_bytes_per_s", "system.flash.translation_miss_ps")),
}


def synthetic(path, lines, hidden, noise=0.0, seed=0):
    """Write rows with the values that a machine with hidden parameters has, and return the path."""
    draw = np.random.default_rng(seed)
    header = HEAD.split(",")
    header.insert(header.index("unit"), "value")

    def text(values):
        table = [",".join(header)]
        for line, value in zip(lines, values):
            cells = line.split(",")
            cells.insert(header.index("value"), f"{value:.9g}")
            table.append(",".join(cells))
        return "\n".join(table) + "\n"

    path.write_text(text([1.0] * len(lines)))
    machine, predictor = Machine.load("oneplus_12").move(hidden), Predictor("oneplus_12")
    rows = read_measurements(path).rows
    path.write_text(
        text([predictor.simulated(machine, row) / row.base_value * math.exp(noise * draw.normal()) for row in rows])
    )
    return path


def drawn(machine, paths, seed):
    """Hidden values, drawn evenly from the inner four fifths of each range."""
    draw, hidden = np.random.default_rng(seed), {}
    for path in paths:
        low, high = machine.ranges[path]
        value = low + (high - low) * draw.uniform(0.1, 0.9)
        hidden[path] = round(value) if isinstance(machine.numbers[path].value, int) else value
    return hidden


DRAWS = [(1, 0.01), *(pytest.param(seed, noise, marks=pytest.mark.slow) for seed in (2, 3, 4) for noise in (0.0, 0.01))]


@pytest.mark.parametrize(("seed", "noise"), DRAWS)
@pytest.mark.parametrize("device", CASES)
def test_hidden_values_lie_in_the_stated_intervals(tmp_path, device, seed, noise):
    lines, paths = CASES[device]
    hidden = drawn(Machine.load("oneplus_12"), paths, seed)
    path = synthetic(tmp_path / "m.csv", lines, hidden, noise, seed)
    found = calibrate(path, "oneplus_12", paths, tolerance=0.05)
    for one in found.parameters:
        assert one.interval_low <= hidden[one.path] <= one.interval_high, one
        if one.status == "identified" and not noise:
            assert one.value == pytest.approx(hidden[one.path], rel=0.01), one
    assert any(one.status == "identified" for one in found.parameters)
    assert found.given.fitted < (1.001 if not noise else 1.02)
    assert found.given.fitted <= found.given.start + 1e-4


def test_a_number_of_threads_is_found_among_whole_numbers(tmp_path):
    path = synthetic(tmp_path / "m.csv", CPU, {"system.cpu.threads": 4})
    found = calibrate(path, "oneplus_12", ["system.cpu.threads"])
    (one,) = found.parameters
    assert (one.value, one.interval_low, one.interval_high, one.status) == (4, 4, 4, "identified")
    assert isinstance(one.value, int)


#: Parameters by what measures them, and values to start from, away from those in use but in their ranges.
STARTS = {
    "operators": {
        "system.npu.gemv_cycles": "6.5",
        "system.npu.mac_cycles": "3.6",
        "system.cpu.unpack_cycles_per_block": "12.5",
        "system.cpu.mac_cycles_per_block": "1.9",
    },
    "flash": {
        "system.flash.stream_bytes_per_s": "3.3 GB/s",
        "system.flash.command_ps": "9.0 us",
        "system.flash.issue_prime_ps": "2.9 us",
    },
}


@pytest.mark.parametrize("what", STARTS)
def test_published_rows_that_were_held_out_fit_better(what):
    """Given: Llama-3.1-8B (one row and 128, NPU and CPU), reads within 128 MiB. Held out: two Qwen3, reads beyond."""
    starts = STARTS[what]
    sets = [f"{path}={value}" for path, value in starts.items()]
    found = calibrate(PUBLISHED, "oneplus_12", list(starts), sets=sets)
    moved = [row for row in found.rows if row.start_ratio != row.fitted_ratio]
    given, held = ([row for row in moved if row.held_out == out] for out in (False, True))
    assert (len(given), len(held)) == {"operators": (4, 8), "flash": (4, 1)}[what]

    def distance(rows, key):
        return sum(abs(math.log(getattr(row, key))) for row in rows) / len(rows)

    assert distance(given, "fitted_ratio") < 0.1 * distance(given, "start_ratio")
    # of the rows that the fit was not given, at least half of the distance is gone
    assert distance(held, "fitted_ratio") < 0.5 * distance(held, "start_ratio")
    assert found.held_out.fitted < found.held_out.start
    # the intervals are not empty at either end, unless a range ends there
    for one in found.parameters:
        assert one.interval_low < one.value or one.value == one.low, one
        assert one.interval_high > one.value or one.value == one.high, one


def test_parameters_that_trade_against_each_other_are_told(tmp_path):
    """Rows of one token see the sum of the cycles that unpack a block and multiply it; batches tell them apart."""
    paths = ("system.cpu.unpack_cycles_per_block", "system.cpu.mac_cycles_per_block")
    hidden, wide = {paths[0]: 11.0, paths[1]: 3.0}, {paths[1]: ("0.5", "8")}
    path = synthetic(tmp_path / "m.csv", CPU[:2], hidden)
    found = calibrate(path, "oneplus_12", paths, ranges=wide)
    assert {one.status for one in found.parameters} == {"not separately identifiable"}
    assert [one.partners for one in found.parameters] == [(paths[1],), (paths[0],)]
    assert sum(one.value for one in found.parameters) == pytest.approx(14.0, rel=0.01)
    path = synthetic(tmp_path / "n.csv", CPU, hidden)
    found = calibrate(path, "oneplus_12", paths, ranges=wide)
    assert {one.status for one in found.parameters} == {"identified"}
    assert [one.value for one in found.parameters] == pytest.approx([11.0, 3.0], rel=0.01)


def test_a_parameter_that_no_row_sees_keeps_its_value(tmp_path):
    paths = ["system.cpu.unpack_cycles_per_block", "system.npu.softmax_cycles"]
    path = synthetic(tmp_path / "m.csv", CPU, {paths[0]: 11.0})
    seen, blind = calibrate(path, "oneplus_12", paths).parameters
    assert seen.status == "identified"
    assert (blind.status, blind.value, blind.rows) == ("not identifiable", 24.0, ())
    assert (blind.interval_low, blind.interval_high) == (10.0, 60.0)
