"""Ramulator 2.1's LPDDR5 controller, six configurations x eleven traces: cycle for cycle."""

import csv
import gzip
import json

import pytest

from archsim.devices.dram.controller import load_memory
from archsim.devices.dram.replay import replay
from archsim.streams.opening import packed_traces

DATA = packed_traces() / "dram"
TRACES = json.loads((DATA / "traces.json").read_text())["traces"]
RUNS = list(csv.DictReader((DATA / "results_ramulator2.csv").read_text().splitlines()))
COUNTS = {
    "n_act": ["ACT1"],
    "n_pre_pb": ["PREpb"],
    "n_pre_ab": ["PREab"],
    "n_cas": ["CAS_RD", "CAS_WR"],
    "n_rd": ["RD", "RDA"],
    "n_wr": ["WR", "WRA"],
    "n_refab": ["REFab"],
    "n_refpb": ["REFpb"],
}


def case(run):
    return f"{run['config'][0]}-{run['trace'][:3]}"


def play(run, **options):
    memory = load_memory("lpddr5-6400", f"reference_{run['config'][0].lower()}", channels=int(run["channels"]))
    return replay(memory, DATA / f"{run['trace']}.txt.gz", injection=run["injection"], **options)


def test_all_runs_are_here():
    assert len(RUNS) == 66
    assert {r["trace"] for r in RUNS} == set(TRACES)


@pytest.mark.parametrize("run", RUNS, ids=case)
def test_run_is_exact(run):
    result = play(run)
    assert result.requests == TRACES[run["trace"]]["requests"]
    assert result.cycles == int(run["total_cycles"])
    assert [result.row_hits, result.row_misses, result.row_conflicts] == [
        int(run[k]) for k in ("row_hits", "row_misses", "row_conflicts")
    ]
    assert {k: sum(result.commands[n] for n in names) for k, names in COUNTS.items()} == {
        k: int(run[k]) for k in COUNTS
    }
    # The reference prints three digits.
    assert result.read_latency_cycles_avg == pytest.approx(float(run["avg_read_lat_cycles"]), abs=0.001)
    assert result.write_wait_cycles_avg == pytest.approx(float(run["avg_write_wait_cycles"]), abs=0.0005001)
    assert result.bandwidth_gb_s == pytest.approx(float(run["bandwidth_GBps"]), abs=0.00005001)
    assert [result.percentile(p) for p in (0.5, 0.95, 0.99)] == [int(run[f"p{p}_lat"]) for p in (50, 95, 99)]


@pytest.mark.parametrize("run", [r for r in RUNS if r["config"][0] in "AB"], ids=case)
def test_first_commands_are_identical(run, tmp_path):
    out = tmp_path / "commands.csv"
    play(run, command_trace=out)
    head, *mine = out.read_text().split()
    for channel in range(int(run["channels"])):
        name = f"ramulator2_{run['config'][0]}_{run['trace']}.ch{channel}.csv.gz"
        reference = gzip.decompress((DATA / name).read_bytes()).decode().split()
        own = [line for line in mine if line.split(",")[2] == str(channel)]
        assert head == reference[0]
        assert own[: len(reference) - 1] == reference[1:]
        assert len(reference) == 601


def test_ten_fold_runs_of_the_speed_table(tmp_path):
    # Totals of the reference's speed table, configuration B: the trace repeated ten times.
    for name, cycles in (("t02_seq_read_bgrot", 436588), ("t05_rand_read", 455522), ("t08_mix_seq_2r1w", 358310)):
        path = tmp_path / "ten.txt"
        path.write_bytes(gzip.decompress((DATA / f"{name}.txt.gz").read_bytes()) * 10)
        assert replay(load_memory("lpddr5-6400", "reference_b"), path).cycles == cycles
