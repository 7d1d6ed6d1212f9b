"""Trace language and bad input: one line that says what, where and what to do."""

import pytest

from archsim.devices.pim.gemv import gemv, parse_shape
from archsim.devices.pim.isa import Cmd, Field
from archsim.devices.pim.reader import parse_trace, read_trace
from archsim.devices.pim.replay import replay
from archsim.devices.pim.standard import devices, load_pim
from archsim.units import InputError

GDDR6 = load_pim("gddr6_aim")


def test_names_of_devices():
    names = ["gddr6_aim", "lpddr5_aim_noref", "lpddr5_aim_refab", "lpddr5_pim", "lpddr5x_pim"]
    assert devices() == ["ahasd_listed_pim", *names]


def test_blanks_commas_comments_and_prefix():
    text = "# head\n\n,AiM,ISR_MAC_ABK,4,0xC0000000,7,\nW GPR 3\nR GPR 3\nW CFR 2 5\nAiM AF 1\nAiM EOC\n# end\n"
    program = parse_trace(text, GDDR6)
    assert program.lines[0].tolist() == [1, Cmd.MAC16, 4, -1, 7, 0, 0, 3]
    assert program.on[0].nonzero()[0].tolist() == [0, 1]
    assert program.lines[4, Field.ROW] == (1 << 29) + 5


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("AiM MAC_ABK 64 0xffffffff", "MAC_ABK has 2 fields; expected 3: opsize mask row"),
        ("AiM MAC_ABC 64 0xffffffff 0", "unknown opcode 'MAC_ABC'; did you mean 'MAC_ABK'?"),
        ("Aim EOC", "'Aim' starts no line of an AiM trace (AiM, R or W); did you mean 'AiM'?"),
        ("AiM MAC_ABK 64 0x1ffffffff 0", "MAC_ABK: mask 0x1ffffffff is out of range; expected 1 to 4294967295"),
        ("AiM MAC_ABK 64 0 0", "MAC_ABK: mask 0 is out of range; expected 1 to 4294967295"),
        ("AiM MAC_ABK 0 1 0", "MAC_ABK: opsize 0 is out of range; expected 1 to 1048576"),
        ("AiM MAC_ABK 1 1 16384", "MAC_ABK: row 16384 is out of range; expected 0 to 16383"),
        ("AiM MAC_ABK -1 1 0", "MAC_ABK: opsize '-1' is not a whole number of 0 or more"),
        ("AiM MAC_SBK 1 1 16 0", "MAC_SBK: bank 16 is out of range; expected 0 to 15"),
        ("AiM WR_ABK 0 3 0", "WR_ABK takes one channel; mask 0x3 names 2"),
        ("W MEM 32 0 0", "W MEM: channel 32 is out of range; expected 0 to 31"),
        ("R RAM 0 0 0", "'RAM' is no memory region; known: CFR, GPR, MEM"),
        ("W CFR 3 1", "W CFR: CFR 3 is out of range; expected 0 to 2"),
        ("AiM", "AiM without an opcode"),
        ("AiM EOC 1", "EOC has 1 fields; expected 0: no fields"),
    ],
)
def test_bad_lines_name_file_and_line(tmp_path, line, message):
    path = tmp_path / "t.trace"
    path.write_text(f"AiM SYNC\n{line}\nAiM EOC\n")
    with pytest.raises(InputError) as error:
        read_trace(path, GDDR6)
    assert str(error.value) == f"{path}:2: {message}"


def test_no_end_nothing_after_it_and_no_file(tmp_path):
    with pytest.raises(InputError, match=r"^trace: no 'AiM EOC' at the end; add it, the run ends there$"):
        parse_trace("AiM SYNC\n", GDDR6)
    with pytest.raises(InputError, match=r"^trace:2: an instruction after EOC; EOC ends the run$"):
        parse_trace("AiM EOC\nAiM SYNC", GDDR6)
    with pytest.raises(InputError, match=r"none\.trace: no such file; expected a trace of AiM instructions"):
        read_trace(tmp_path / "none.trace", GDDR6)
    (tmp_path / "b").write_bytes(b"AiM \xff\n")
    with pytest.raises(InputError, match="not a text trace"):
        read_trace(tmp_path / "b", GDDR6)


def test_unknown_device_and_missing_command(tmp_path):
    with pytest.raises(InputError, match="unknown pim_standard 'gddr6_aim2'; did you mean 'gddr6_aim'"):
        load_pim("gddr6_aim2")
    path = tmp_path / "t.trace"
    path.write_text("AiM SYNC\nAiM EWMUL 4 0x1 0\nAiM EOC\n")
    with pytest.raises(InputError, match=rf"^{path}:2: lpddr5x_pim has no EWMUL16 command; it has "):
        replay_on_four_channels(path)


def replay_on_four_channels(path):
    return replay("lpddr5x_pim", path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("4096", "GEMV shape '4096' is not OUTxIN; for example 4096x4096"),
        ("axb", "GEMV shape 'axb' is not OUTxIN; for example 4096x4096"),
        ("4096x-1", "GEMV shape '4096x-1' is not OUTxIN; for example 4096x4096"),
    ],
)
def test_bad_shapes(text, message):
    with pytest.raises(InputError) as error:
        parse_shape(text)
    assert str(error.value) == message


def test_bad_gemv_arguments():
    assert parse_shape("512x1024") == (512, 1024)
    for arguments, message in (
        ((0, 4), "GEMV: 0 outputs; expected 1 to 4194304"),
        ((4, 0), "GEMV: 0 inputs; expected 1 to 4194304"),
        ((4194304, 4194304), r"GEMV 4194304x4194304 needs \d+ rows a bank; lpddr5x_pim has 65536"),
    ):
        with pytest.raises(InputError, match=message):
            gemv("lpddr5x_pim", *arguments)
    with pytest.raises(InputError, match="lpddr5x_pim has no data type 'W8A9'; did you mean 'W8A8'"):
        gemv("lpddr5x_pim", 4, 4, dtype="W8A9")
    with pytest.raises(InputError, match="GEMV: 0 tokens; expected 1 to 4096"):
        gemv("lpddr5x_pim", 4, 4, tokens=0)
    with pytest.raises(InputError, match="gddr6_aim has no data type 'W8A8'; known: W16A16"):
        gemv("gddr6_aim", 4, 4, dtype="W8A8")


@pytest.mark.parametrize("name", devices())
def test_every_number_has_a_source(name):
    standard = load_pim(name)
    assert set(standard.cycles) <= set(standard.sources)
    assert all(text.strip() for text in standard.sources.values())
