"""GEMV lowering: every weight is met once, more channels are never slower, times grow with the sides."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archsim.devices.pim.gemv import gemv, lower, plan_gemv, slice_counts
from archsim.devices.pim.host import leftover
from archsim.devices.pim.isa import Cmd, Field
from archsim.devices.pim.passes import Passes
from archsim.devices.pim.power import ENERGY, energy_pj
from archsim.devices.pim.replay import execute
from archsim.devices.pim.standard import devices, load_pim
from archsim.units import InputError

side = st.integers(1, 3000)


@pytest.mark.parametrize("name", devices())
@settings(max_examples=20, deadline=None, derandomize=True)
@given(out=side, inner=side, tokens=st.integers(1, 6))
def test_stored_equals_walked_and_covers_the_weights(name, out, inner, tokens):
    standard = load_pim(name)
    for slices in slice_counts(standard, True):
        plan = plan_gemv(standard, out, inner, tokens=tokens, slices=slices)
        assert plan.padded_bytes >= plan.weight_bytes
        assert sum(plan.tile_outputs) == plan.outputs_per_block
        assert plan.outputs_per_block * standard.banks * plan.channels >= out
        assert plan.inputs * plan.slices >= inner
        program = lower(standard, plan)
        macs = program.lines[program.lines[:, Field.COMMAND] == Cmd.MAC16]
        passes = -(-tokens // standard.compute.tokens_per_pass)
        channels = plan.channels * plan.slices
        walked = int(macs[:, Field.COUNT].sum()) * standard.banks * channels * standard.organisation["access_bytes"]
        assert walked == passes * plan.padded_bytes
        assert macs[:, Field.ROW].max() < plan.rows
        assert (macs[:, Field.COUNT] <= standard.organisation["columns_per_row"]).all()


@pytest.mark.parametrize("name", ["gddr6_aim", "lpddr5_aim_noref", "lpddr5x_pim"])
@settings(max_examples=15, deadline=None, derandomize=True)
@given(out=side, inner=side, factor=st.sampled_from([2, 4]))
def test_more_channels_are_never_slower(name, out, inner, factor):
    standard = load_pim(name)
    channels = standard.organisation["channels"]
    less = replace(standard, organisation={**standard.organisation, "channels": channels // factor})
    assert gemv(standard, out, inner).cycles <= 1.01 * gemv(less, out, inner).cycles


@pytest.mark.parametrize("name", ["gddr6_aim", "lpddr5_aim_noref"])
@settings(max_examples=20, deadline=None, derandomize=True)
@given(out=side, inner=side, more=st.integers(0, 2000))
def test_cycles_grow_with_the_sides(name, out, inner, more):
    here = gemv(name, out, inner).cycles
    assert gemv(name, out + more, inner).cycles >= here
    assert gemv(name, out, inner + more).cycles >= here


def test_tokens_of_a_pass_share_the_weights():
    one, four, five = (gemv("lpddr5_pim", 4096, 4096, tokens=t) for t in (1, 4, 5))
    assert four.commands["MAC16"] == one.commands["MAC16"]
    assert five.commands["MAC16"] == 2 * one.commands["MAC16"]
    assert one.cycles < four.cycles < 1.1 * one.cycles
    assert five.cycles > 1.9 * one.cycles


def test_a_shared_block_takes_its_banks_in_turn():
    standard = load_pim("lpddr5x_pim")
    shared = replace(standard, compute=replace(standard.compute, banks_per_block=2))
    assert shared.internal_bytes_per_s == standard.internal_bytes_per_s / 2
    slow, fast = gemv(shared, 4096, 4096), gemv(standard, 4096, 4096)
    assert slow.commands["MAC16"] == 2 * fast.commands["MAC16"]
    assert 1.8 < slow.cycles / fast.cycles < 2.1


def test_what_the_host_keeps():
    standard = load_pim("lpddr5x_pim")
    program = lower(standard, plan_gemv(standard, 4096, 4096))
    left = leftover(standard, program)
    assert left.same_rank == 0.0
    assert 0.18 < left.command_slots < 0.25  # one MAC slot in four, less at row changes
    assert 0.9 < left.other_ranks < 1.0
    assert leftover(standard, program, ranks=1).other_ranks == 0.0
    loads = load_pim("gddr6_aim")
    heavy = leftover(loads, lower(loads, plan_gemv(loads, 4096, 4096)))
    assert heavy.other_ranks < 1 - heavy.data_slots + 0.01
    with pytest.raises(InputError, match="0 ranks; expected 1 or more"):
        leftover(standard, program, ranks=0)


def test_energy_is_counts_times_prices():
    standard = load_pim("lpddr5x_pim")
    counts = {"MAC16": 10, "WRGB": 3, "TMOD": 2}
    parts = energy_pj(standard, counts, 0, activation_bits=8)
    assert parts["access"] == pytest.approx(10 * 16 * 256 * ENERGY["access_bits"].value)
    assert parts["mac"] == pytest.approx(10 * 16 * 32 * 64 * ENERGY["mac_bits"].value)  # 32 INT8 products a bank
    assert parts["io"] == pytest.approx(3 * 256 * ENERGY["io_bits"].value)
    assert parts["total"] == pytest.approx(sum(v for k, v in parts.items() if k != "total"))


@pytest.mark.parametrize("name", ["gddr6_aim", "lpddr5_pim", "lpddr5x_pim"])
@pytest.mark.parametrize("fence", [False, True])
@settings(max_examples=6, deadline=None, derandomize=True)
@given(out=side, inner=side, asked=st.lists(st.integers(1, 13), min_size=2, max_size=4), slices=st.integers(0, 8))
def test_runs_continued_from_each_other_equal_whole_ones(name, fence, out, inner, asked, slices):
    standard = load_pim(name)
    choice = slice_counts(standard, True)
    passes = Passes(standard, out, inner, dtype=next(iter(standard.compute.dtypes)), fence=fence,
                    slices=choice[slices % len(choice)])  # fmt: skip
    for tokens in asked:
        cycles, counts = passes.run(tokens)
        whole = execute(standard, passes.program(tokens))
        assert cycles == whole.cycles
        assert (counts == whole.counts.sum(axis=0)).all()
