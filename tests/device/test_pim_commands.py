"""Hand-computed command times: each gate is shut one cycle early and open on its cycle."""

import numpy as np
import pytest

from archsim.devices.pim import commands
from archsim.devices.pim.gemv import lower, plan_gemv
from archsim.devices.pim.isa import TEXT, Cmd, Kind, Steps
from archsim.devices.pim.reader import parse_trace
from archsim.devices.pim.replay import PimError, execute
from archsim.devices.pim.standard import load_pim


def issued(device, text):
    standard = load_pim(device)
    run = execute(standard, parse_trace(text, standard), log=True)
    return [f"{TEXT[Cmd(c)]}@{t}" for t, c in run.log.tolist()], run.cycles


def test_row_of_macs_on_gddr6():
    log, cycles = issued("gddr6_aim", "AiM MAC_ABK 2 0xffffffff 0\nAiM MAC_ABK 1 0xffffffff 1\nAiM EOC")
    # ACT16 + 56, nCCD 2; PREA after nRTP 12 and nRAS 54; nRP 32 and nRC 89; 56.
    assert log == ["ACT16@1", "MAC16@57", "MAC16@59", "PREA@71", "ACT16@103", "MAC16@159"]
    assert cycles == 161


def test_bias_then_result_switches_mode_once():
    log, cycles = issued("gddr6_aim", "AiM WR_BIAS 0 0xffffffff\nAiM RD_MAC 0 0xffffffff\nAiM EOC")
    assert (log, cycles) == (["TMOD@1", "WRMAC16@33", "RDMAC16@47"], 51)


def test_data_clock_is_synchronised_again_when_it_stopped():
    log, _ = issued("lpddr5_aim_noref", "AiM WR_BIAS 0 0xffffffff\nAiM RD_MAC 0 0xffffffff\nAiM EOC")
    assert log == ["TMOD@1", "CASWRMAC16@33", "WRMAC16@34", "CASRDMAC16@40", "CASRDMAC16@46", "RDMAC16@49"]


def test_two_step_activate_goes_out_back_to_back():
    log, cycles = issued("lpddr5_aim_noref", "AiM MAC_ABK 1 0xffffffff 0\nAiM EOC")
    assert log == ["ACT16@1", "ACT16-2@2", "MAC16@57"]
    assert cycles == 59


def test_refresh_while_computing():
    text = "AiM WR_GB 1000 0 0xffffffff\nAiM EOC"
    log, _ = issued("lpddr5_aim_refab", text)
    at = log.index("REFab@3157")
    assert (log[at - 1], log[at + 1]) == ("TMOD@3125", "TMOD@3158")
    assert log[at + 2 : at + 4] == ["CASWRGB@3190", "WRGB@3191"]


def test_refresh_opens_the_row_again():
    log, _ = issued("lpddr5_aim_refab", "AiM MAC_ABK 800 0xffffffff 0\nAiM EOC")
    at = next(i for i, c in enumerate(log) if c.startswith("REFab"))
    times = [int(c.split("@")[1]) for c in log]
    assert [c.split("@")[0] for c in log[at - 1 : at + 4]] == ["PREA", "REFab", "ACT16", "ACT16-2", "MAC16"]
    assert np.diff(times[at - 1 : at + 4]).tolist() == [17, 304, 1, 55]


def test_single_bank_mac_opens_its_bank_only():
    log, _ = issued("gddr6_aim", "AiM MAC_SBK 2 0xffffffff 3 7\nAiM MAC_SBK 1 0xffffffff 3 8\nAiM EOC")
    assert log == ["ACT@1", "MAC@57", "MAC@59", "PRE@71", "ACT@103", "MAC@159"]


def test_lpddr5x_row_change_and_vector_load():
    standard = load_pim("lpddr5x_pim")
    plan = plan_gemv(standard, 4096, 512, dtype="W8A8")
    log = execute(standard, lower(standard, plan), log=True).log
    first = {c: int(log[log[:, 1] == c][0, 0]) for c in (Cmd.WRGB, Cmd.ACT16, Cmd.MAC16)}
    # Four vector writes 4 CK apart from cycle 1, then ACT16, tRCD of 23 CK (18.75 ns at 1.2 GHz).
    assert first == {Cmd.WRGB: 1, Cmd.ACT16: 14, Cmd.MAC16: 37}
    macs = log[log[:, 1] == Cmd.MAC16][:, 0]
    # Within a row tCCD_L 4 CK; from row to row tRTP 12 + tRPab 26 + tRCD 23.
    assert set(np.diff(macs[:64]).tolist()) == {4}
    assert macs[64] - macs[63] == 61


def test_fence_keeps_the_host_silent_for_its_time():
    standard = load_pim("lpddr5x_pim")
    plan = plan_gemv(standard, 4096, 128, dtype="W8A8")
    log = execute(standard, lower(standard, plan, fence=True), log=True).log
    opened = log[log[:, 1] == Cmd.ACT16][0, 0]
    # The barrier takes the slot after the fourth write (cycle 13): 150 ns are 180 CK at 1.2 GHz.
    assert opened == 14 + 180


def test_a_row_protected_for_ever_is_named():
    # The write of row 5 is activated; the MAC then closes its row for row 7, and its own precharge is never allowed.
    text = "W MEM 0 0 5\nAiM MAC_ABK 64 0x80000000 7\nAiM EOC"
    standard = load_pim("gddr6_aim")
    assert execute(standard, parse_trace(text, standard)).cycles > 0
    steps = Steps(1)
    steps.add(Kind.WRITE, 1, Cmd.WR, bank=0, row=5)
    steps.add(Kind.PIM, 1, Cmd.WRGB, count=40)
    steps.add(Kind.PIM, 1, Cmd.MAC16, row=7)
    steps.barrier()
    assert execute(standard, steps.program()).cycles > 0


def test_program_without_a_barrier_never_ends():
    steps = Steps(2)
    steps.add(Kind.PIM, 3, Cmd.MAC16, row=0)
    with pytest.raises(PimError, match="never ends"):
        execute(load_pim("gddr6_aim"), steps.program())


def test_channels_with_the_same_instructions_are_one_class():
    standard = load_pim("gddr6_aim")
    text = "AiM MAC_ABK 2 0xf0000000 1\nAiM MAC_ABK 1 0xffffffff 2\nAiM EOC"
    on, which = commands.classes(parse_trace(text, standard))
    assert on.shape == (3, 2)
    assert [len(set(w.tolist())) for w in (which[:4], which[4:], which)] == [1, 1, 2]
