"""The jitted kernel against the plain cycle-by-cycle model, on random instruction streams."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archsim.devices.pim import oracle
from archsim.devices.pim.gemv import lower, plan_gemv
from archsim.devices.pim.isa import Cmd
from archsim.devices.pim.reader import parse_trace
from archsim.devices.pim.replay import PimError, execute
from archsim.devices.pim.standard import load_pim

DEVICES = ["gddr6_aim", "lpddr5_aim_noref", "lpddr5_aim_refab"]
MASKS = ["0xffffffff", "0x1", "0x80000000", "0xf0f0f0f0"]
LIMIT = 20_000

mask, row, bank = st.sampled_from(MASKS), st.integers(0, 2), st.integers(0, 5)
size = st.sampled_from([1, 2, 31, 32, 33, 34, 35, 64, 100])
pim_line = st.one_of(
    st.builds("AiM WR_GB {} 0 {}".format, size, mask),
    st.builds("AiM WR_BIAS 0 {}".format, mask),
    st.builds("AiM RD_MAC 0 {}".format, mask),
    st.builds("AiM RD_AF 0 {}".format, mask),
    st.builds("AiM MAC_ABK {} {} {}".format, size, mask, row),
    st.builds("AiM MAC_SBK {} {} {} {}".format, size, mask, bank, row),
    st.builds("AiM COPY_BKGB {} {} {} {}".format, size, mask, bank, row),
    st.builds("AiM COPY_GBBK {} {} {} {}".format, size, mask, bank, row),
    st.builds("AiM EWMUL {} {} {}".format, size, mask, row),
    st.builds("AiM AF {}".format, mask),
    st.builds("AiM WR_ABK 0 {} {}".format, st.sampled_from(["0x1", "0x80000000"]), row),
    st.just("AiM EWADD 4 0 1"),
    st.just("AiM SYNC"),
    st.builds("W CFR 2 {}".format, st.integers(0, 7)),
)
plain_line = st.one_of(
    st.builds("W MEM {} {} {}".format, st.sampled_from([0, 31]), bank, row),
    st.builds("R MEM {} {} {}".format, st.sampled_from([0, 31]), bank, row),
    st.builds("AiM WR_SBK 0 {} {} {}".format, mask, bank, row),
    st.builds("AiM RD_SBK 0 {} {} {}".format, mask, bank, row),
)


def outcome(device, lines):
    standard = load_pim(device)
    program = parse_trace("\n".join([*lines, "AiM EOC"]), standard)
    try:
        run = execute(standard, program)
    except PimError:
        run = None
    try:
        cycles, counts = oracle.run(standard, program, LIMIT)
    except RuntimeError:
        return run is None or run.cycles >= LIMIT, None
    if run is None:
        return False, (cycles, "the kernel stopped")
    table = np.array([[c.get(k, 0) for k in Cmd] for c in counts])
    return run.cycles == cycles and np.array_equal(table, run.counts), (cycles, run.cycles)


def agrees(device, streams, count):
    """Draw streams of lines and compare."""

    @settings(max_examples=count, deadline=None, derandomize=True)
    @given(lines=streams)
    def one(lines):
        same, seen = outcome(device, lines)
        assert same, seen

    one()


def counts(few, many):
    """Streams of the default run, and of the slow one: the plain model is slow."""
    return pytest.mark.parametrize("count", [few, pytest.param(many, marks=pytest.mark.slow)])


@counts(8, 25)
@pytest.mark.parametrize("device", DEVICES)
def test_instruction_streams(device, count):
    agrees(device, st.lists(pim_line, max_size=7), count)


@counts(12, 40)
@pytest.mark.parametrize("device", DEVICES)
def test_streams_with_plain_requests(device, count):
    agrees(device, st.lists(st.one_of(plain_line, plain_line, pim_line), max_size=25), count)


def in_every_channel(lines):
    """The same stream with masks of all channels, and without what names one."""
    lines = [line for line in lines if "MEM" not in line and "WR_ABK" not in line]
    for some in MASKS[1:]:
        lines = [line.replace(f" {some}", " 0xffffffff") for line in lines]
    return lines


@counts(4, 12)
@pytest.mark.parametrize("device", DEVICES)
def test_one_class_of_channels(device, count):
    lines = st.lists(st.one_of(pim_line, pim_line, plain_line), max_size=8)
    agrees(device, lines.map(in_every_channel), count)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(sizes=st.lists(size, min_size=1, max_size=6), rows=st.lists(row, min_size=6, max_size=6))
def test_served_equals_asked(sizes, rows):
    standard = load_pim("lpddr5_aim_refab")
    text = "".join(f"AiM MAC_ABK {n} 0xffffffff {r}\n" for n, r in zip(sizes, rows, strict=False)) + "AiM EOC"
    run = execute(standard, parse_trace(text, standard))
    assert (run.counts[:, Cmd.MAC16] == sum(sizes)).all()
    assert (run.counts[:, Cmd.ACT16] == run.counts[:, Cmd.ACT16_2]).all()


@pytest.mark.parametrize("name", ["lpddr5x_pim", "lpddr5_pim", "lpddr5_aim_refab"])
@settings(max_examples=6, deadline=None, derandomize=True)
@given(out=st.integers(1, 900), inner=st.integers(1, 700), tokens=st.integers(1, 5), fence=st.booleans())
def test_lowered_gemvs(name, out, inner, tokens, fence):
    standard = load_pim(name)
    program = lower(standard, plan_gemv(standard, out, inner, tokens=tokens), fence=fence)
    run = execute(standard, program)
    cycles, counts = oracle.run(standard, program)
    assert run.cycles == cycles
    assert np.array_equal(np.array([[c.get(k, 0) for k in Cmd] for c in counts]), run.counts)


def test_commands_of_the_last_cycle_count_in_every_channel():
    lines = ["AiM WR_SBK 0 0x80000001 3 0", "R MEM 0 3 0", "R MEM 31 5 0", "R MEM 0 2 1", "R MEM 31 5 2"]
    same, seen = outcome("lpddr5_aim_noref", lines)
    assert same, seen
