"""The AiM simulator's totals and command counts, and the closed forms behind them, to the cycle."""

import csv

import pytest

from archsim.devices.pim.gemv import gemv
from archsim.devices.pim.reader import parse_trace
from archsim.devices.pim.replay import execute, named, replay
from archsim.devices.pim.standard import load_pim
from archsim.streams.opening import packed_traces

DATA = packed_traces() / "pim"
RUNS = list(csv.DictReader((DATA / "results_aim.csv").read_text().splitlines()))
COUNTED = ("ACT16", "PREA", "MAC16", "WRGB", "WRMAC16", "RDMAC16", "REFab")
MODE_SWITCHES = {
    ("gddr6_aim", "gemv_14336x4096_32ch"): 225,
    ("gddr6_aim", "gemv_4096x4096_32ch"): 65,
    ("lpddr5_aim_noref", "gemv_14336x4096_32ch"): 225,
    ("lpddr5_aim_refab", "gemv_14336x4096_32ch"): 245,
    ("lpddr5_aim_refab", "gemv_4096x4096_32ch"): 71,
    ("lpddr5_aim_refab", "wrgb_64x16_32ch"): 3,
}


@pytest.mark.parametrize("row", RUNS, ids=lambda r: f"{r['config']}-{r['trace']}")
def test_cycles_and_command_counts_are_exact(row):
    device = row["config"].removesuffix("_as_shipped")
    found = replay(device, DATA / f"{row['trace']}.trace")
    assert found.cycles == int(row["cycles"])
    assert [found.commands.get(c, 0) for c in COUNTED] == [int(row[f"ch_{c}"]) for c in COUNTED]
    switches = MODE_SWITCHES.get((device, row["trace"]))
    assert switches is None or found.commands["TMOD"] == switches


def cycles(device, text):
    standard = load_pim(device)
    return execute(standard, parse_trace(text, standard)).cycles


@pytest.mark.parametrize(("device", "first", "per_row"), [("gddr6_aim", 185, 226), ("lpddr5_aim_noref", 311, 329)])
@pytest.mark.parametrize("rows", [1, 2, 7, 100])
def test_a_further_row_costs_the_closed_form(device, first, per_row, rows):
    text = "".join(f"AiM MAC_ABK 64 0xffffffff {r}\n" for r in range(rows)) + "AiM EOC\n"
    assert cycles(device, text) == first + (rows - 1) * per_row


@pytest.mark.parametrize(("passes", "rows"), [(1, 1), (3, 1), (2, 5), (7, 3)])
def test_gemv_closed_forms(passes, rows):
    out, inner = 512 * passes, 1024 * rows
    assert gemv("gddr6_aim", out, inner).cycles == passes * (414 + 406 * (rows - 1))
    assert gemv("lpddr5_aim_noref", out, inner).cycles == (
        671 + 644 * (rows - 1) + (passes - 1) * (654 + 644 * (rows - 1))
    )


@pytest.mark.parametrize("device", ["gddr6_aim", "lpddr5_aim_noref", "lpddr5_aim_refab"])
@pytest.mark.parametrize("shape", ["1024x1024", "4096x4096", "14336x4096"])
def test_gemv_by_shape_equals_the_trace(device, shape):
    out, inner = map(int, shape.split("x"))
    asked = gemv(device, out, inner)
    traced = replay(device, DATA / f"gemv_{shape}_32ch.trace", baseline=True)
    assert (asked.cycles, asked.commands) == (traced.cycles, traced.commands)
    # Each channel moves 32 B in nBL cycles: FP16 weights over 32 channels.
    burst = load_pim(device).cycles["nBL"]
    assert asked.cycles_baseline == traced.cycles_baseline == out * inner * 2 // (32 * 32) * burst


@pytest.mark.parametrize(
    ("text", "total"),
    [
        ("W MEM 0 0 5\nAiM WR_GB 1 0 0x80000000\nAiM EOC", 104),
        ("W MEM 0 0 5\nW MEM 0 0 6\nAiM WR_GB 1 0 0x80000000\nAiM EOC", 205),
        ("W MEM 0 0 5\nW MEM 0 0 6\nR MEM 0 3 9\nAiM EOC", 104),
        ("AiM WR_GB 64 0 0x80000000\nR MEM 0 3 9\nAiM EOC", 194),
        ("AiM WR_ABK 0 0x1 1\nAiM WR_ABK 0 0x1 2\nAiM WR_ABK 0 0x1 3\nAiM EOC", 272),
    ],
)
def test_plain_requests_among_instructions_on_gddr6(text, total):
    assert cycles("gddr6_aim", text) == total


def test_write_to_all_banks_needs_no_row_on_lpddr5():
    text = "AiM WR_ABK 0 0x1 1\nAiM WR_ABK 0 0x1 2\nAiM WR_ABK 0 0x1 3\nAiM EOC"
    assert cycles("lpddr5_aim_noref", text) == 43


def test_the_one_channel_trace_works_on_the_last_channel():
    standard = load_pim("gddr6_aim")
    run = execute(standard, parse_trace("AiM MAC_ABK 64 0x1 0\nAiM EOC", standard))
    assert named(run.counts[31]) == {"ACT16": 1, "MAC16": 64}
    assert not run.counts[:31].any()
