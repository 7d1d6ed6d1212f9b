"""Closed forms of the AiM totals on shapes nobody recorded: odd sides, one row, few channels, reloads of the buffer.

A pass covers 512 outputs (32 channels x 16 banks); each DRAM row of it holds the next 1024 inputs, of which a last one
may be short. With c columns (16 inputs each) in a row, derived by hand from the worked totals of whole rows:

* GDDR6: first row of a pass 158 + 4 c, each further one 150 + 4 c.
* LPDDR5 without refresh: first row of the first pass 159 + 8 c, of another 142 + 8 c, each further row 132 + 8 c.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archsim.devices.pim import oracle
from archsim.devices.pim.gemv import gemv, lower, plan_gemv
from archsim.devices.pim.isa import Cmd
from archsim.devices.pim.reader import parse_trace
from archsim.devices.pim.replay import execute
from archsim.devices.pim.standard import load_pim

#: Sides that cut a column, a row, a pass or a channel short.
outs = st.one_of(st.integers(1, 17), st.integers(1, 3000), st.sampled_from([16, 31, 512, 513, 1024]))
inners = st.one_of(st.integers(1, 33), st.integers(1, 5000), st.sampled_from([1008, 1023, 1024, 1025, 2048]))


def by_hand(device, out, inner):
    """Cycles of a product by the closed forms above."""
    used = min(32, -(-out // 16))
    passes = -(-out // (16 * used))
    columns = [min(64, -(-inner // 16) - 64 * row) for row in range(-(-inner // 1024))]
    first, again, further, slope = (158, 158, 150, 4) if device == "gddr6_aim" else (159, 142, 132, 8)
    rest = sum(further + slope * c for c in columns[1:])
    return first + again * (passes - 1) + passes * (slope * columns[0] + rest)


@pytest.mark.parametrize("device", ["gddr6_aim", "lpddr5_aim_noref"])
@settings(max_examples=60, deadline=None, derandomize=True)
@given(out=outs, inner=inners)
def test_products_of_any_shape(device, out, inner):
    found = gemv(device, out, inner)
    assert found.cycles == by_hand(device, out, inner)
    channels = min(32, -(-out // 16))
    passes = -(-out // (16 * channels))
    columns, rows = -(-inner // 16), -(-inner // 1024)
    assert found.commands["MAC16"] == found.commands["WRGB"] == passes * columns
    assert found.commands["RDMAC16"] == found.commands["WRMAC16"] == passes
    assert found.commands["ACT16"] == passes * rows
    assert found.commands.get("PREA", 0) == passes * rows - 1
    assert found.commands_total["MAC16"] == channels * passes * columns


def test_the_form_of_whole_rows_is_the_recorded_one():
    for passes, rows in ((1, 1), (3, 2), (8, 4)):
        shape = (512 * passes, 1024 * rows)
        assert by_hand("gddr6_aim", *shape) == passes * (414 + 406 * (rows - 1))
        assert by_hand("lpddr5_aim_noref", *shape) == 671 + 644 * (rows - 1) + (passes - 1) * (654 + 644 * (rows - 1))


@pytest.mark.parametrize("device", ["gddr6_aim", "lpddr5_aim_noref"])
@settings(max_examples=8, deadline=None, derandomize=True)
@given(out=st.integers(1, 600), inner=st.integers(1, 1500))
def test_and_so_says_the_plain_model(device, out, inner):
    standard = load_pim(device)
    program = lower(standard, plan_gemv(standard, out, inner))
    cycles, counts = oracle.run(standard, program)
    run = execute(standard, program)
    assert cycles == run.cycles == by_hand(device, out, inner)
    assert np.array_equal(np.array([[c.get(k, 0) for k in Cmd] for c in counts]), run.counts)


@pytest.mark.parametrize(
    ("device", "first", "per_row", "step"), [("gddr6_aim", 59, 100, 2), ("lpddr5_aim_noref", 59, 77, 4)]
)
@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    columns=st.lists(st.integers(1, 200), min_size=1, max_size=12),
    mask=st.sampled_from(["0x1", "0x80000000", "0xffffffff"]),
)
def test_walks_over_rows_of_any_length(device, first, per_row, step, columns, mask):
    """One ACT and the MACs; each further row adds a precharge and an ACT (59 = 1 + 56 + 2, 100 = 12 + 32 + 56)."""
    standard = load_pim(device)
    text = "".join(f"AiM MAC_ABK {c} {mask} {row}\n" for row, c in enumerate(columns)) + "AiM EOC\n"
    run = execute(standard, parse_trace(text, standard))
    walked = sum(step * (c - 1) for c in columns)
    assert run.cycles == first + walked + per_row * (len(columns) - 1)
    assert run.counts[:, Cmd.MAC16].sum() == sum(columns) * (32 if mask == "0xffffffff" else 1)


@pytest.mark.parametrize("device", ["gddr6_aim", "lpddr5_aim_noref", "lpddr5_aim_refab", "lpddr5_pim"])
def test_nothing_but_the_end(device):
    standard = load_pim(device)
    run = execute(standard, parse_trace("AiM EOC\n", standard))
    assert run.cycles == oracle.run(standard, parse_trace("AiM EOC\n", standard))[0] == 2
    assert run.counts.sum() == 0


@pytest.mark.parametrize("name", ["lpddr5x_pim", "lpddr5_pim"])
@settings(max_examples=10, deadline=None, derandomize=True)
@given(out=st.integers(1, 3000), inner=st.integers(1, 3000), tokens=st.integers(1, 5))
def test_registers_are_refilled_as_often_as_the_vector_needs(name, out, inner, tokens):
    """Counts of the LPDDR parts by hand: fillings of 128 B a tile of 64 outputs, whole columns of 32 weights."""
    standard = load_pim(name)
    found = execute(standard, lower(standard, plan_gemv(standard, out, inner, tokens=tokens, dtype="W8A8")))
    channels = min(4, -(-out // 16))
    each = -(-out // (16 * channels))
    tiles = [min(64, each - 64 * t) for t in range(-(-each // 64))]
    columns = -(-inner // 32)
    at_once = standard.compute.tokens_per_pass
    groups = [at_once] * (tokens // at_once) + [tokens % at_once] * (tokens % at_once > 0)
    counts = found.counts[0]
    assert counts[Cmd.MAC16] == len(groups) * each * columns
    assert counts[Cmd.WRGB] == tokens * len(tiles) * columns
    assert counts[Cmd.RDMAC16] == sum(-(-tile * group * 16 // 8) for tile in tiles for group in groups)
    assert (found.counts[:channels] == counts).all()
    assert not found.counts[channels:].sum(axis=0)[[Cmd.MAC16, Cmd.WRGB, Cmd.RDMAC16]].any()
