"""Every standard against closed forms: unloaded latency, peak and refresh-limited bandwidth."""

import numpy as np
import pytest

from archsim.devices.dram.controller import load_controller, load_memory
from archsim.devices.dram.reading import names
from archsim.devices.dram.replay import replay_columns
from archsim.devices.dram.standard import STANDARDS, load_standard

STANDARD_NAMES = names(STANDARDS)
QUIET = {"refresh": "none", "data_clock": "always_on", "row_policy": "open"}


def memory(name, **changes):
    return load_memory(name, load_controller("reference_f", **{**QUIET, **changes}))


def address(org, row=0, bank=0, group=0, column=0):
    """Address under the ro-ra-ba-bg-co order of the files, one channel and rank."""
    return (((row * org.banks + bank) * org.groups + group) * org.columns + column) * org.burst_bytes


def stream(org, count):
    """Group rotated every burst, then column, bank, row: no two neighbours in one group."""
    i = np.arange(count)
    group, rest = i % org.groups, i // org.groups
    column, rest = rest % org.columns, rest // org.columns
    bank, row = rest % org.banks, rest // org.banks
    return ((((row % org.rows) * org.banks + bank) * org.groups + group) * org.columns + column) * org.burst_bytes


def latencies(mem, addresses):
    addresses = np.array(addresses)
    result = replay_columns(mem, addresses, np.zeros_like(addresses), injection="chain")
    return np.repeat(np.arange(result.histogram.size), result.histogram)


@pytest.mark.parametrize("name", STANDARD_NAMES)
def test_unloaded_latency(name):
    mem = memory(name)
    cycles, org = mem.standard.cycles, mem.org
    data = 1 + cycles["nCL"] + cycles["nBL_min"]  # the first command issues one cycle after arrival
    closed = data + cycles["nRCD"]
    assert latencies(mem, [address(org)]).tolist() == [closed]
    assert latencies(mem, [address(org), address(org, column=1)]).tolist() == [data, closed]
    # The second request waits for the bank: precharge, activate, read. tRAS has passed by then.
    assert closed >= cycles["nRAS"]
    assert latencies(mem, [address(org), address(org, row=1)]).tolist() == [closed, closed + cycles["nRPpb"]]
    # A stopped data clock costs the synchronising command, one cycle.
    slow = memory(name, data_clock="need_sync")
    assert latencies(slow, [address(org)]).tolist() == [closed + 1]


@pytest.mark.parametrize("name", STANDARD_NAMES)
@pytest.mark.parametrize("write", [0, 1])
def test_peak_bandwidth(name, write):
    mem = memory(name)
    count = 60_000
    result = replay_columns(mem, stream(mem.org, count), np.full(count, write))
    floor = count * mem.standard.roles["burst"]
    start = 1 + mem.standard.cycles["nRCD"] + mem.standard.cycles["nCL"]
    assert floor <= result.cycles <= floor + start + 10
    assert result.peak_fraction == pytest.approx(floor / result.cycles)
    assert mem.peak_gb_s == pytest.approx(
        float(load_standard(name).organisation["device_bits"]) / 8 * 8 / mem.standard.tck_ns
    )


@pytest.mark.parametrize("name", STANDARD_NAMES)
def test_same_group_bandwidth_is_limited_by_tccd_l(name):
    mem = memory(name)
    addresses = np.arange(mem.org.columns) * mem.org.burst_bytes
    result = replay_columns(mem, addresses, np.zeros_like(addresses))
    cycles = mem.standard.cycles
    assert (
        result.cycles
        == 1 + cycles["nRCD"] + (mem.org.columns - 1) * cycles["nCCDL"] + cycles["nCL"] + cycles["nBL_min"]
    )


@pytest.mark.parametrize("name", STANDARD_NAMES)
def test_activate_limited_bandwidth(name):
    mem = memory(name)
    i = np.arange(20_000)
    org = mem.org
    banks = org.groups * org.banks
    addresses = address(org, row=i // banks % org.rows, bank=i // org.groups % org.banks, group=i % org.groups)
    result = replay_columns(mem, addresses, np.zeros_like(addresses))
    cycles = mem.standard.cycles
    spacing = max(cycles["nRRDS"], cycles["nFAW"] / 4, cycles["nRC"] / banks)
    assert result.cycles == pytest.approx(i.size * spacing, rel=0.01)


@pytest.mark.parametrize("name", STANDARD_NAMES)
def test_refresh_limited_bandwidth_all_bank(name):
    mem = memory(name, refresh="all_bank")
    count = 120_000
    result = replay_columns(mem, stream(mem.org, count), np.zeros(count, np.int64))
    cycles = mem.standard.cycles
    # Closed for tRP + tRFCab + tRCD each tREFI, plus at most the wait for tRTP and the ramp of activates.
    lost = cycles["nRPpb"] + cycles["nRFCab"] + cycles["nRCD"]
    best = 1 - lost / cycles["nREFI"]
    worst = 1 - (lost + cycles["nRTP"] + 2 * cycles["nRRDS"]) / cycles["nREFI"]
    assert worst - 0.002 <= result.peak_fraction <= best + 0.002


@pytest.mark.parametrize("name", STANDARD_NAMES)
def test_single_bank_rate_is_row_cycle(name):
    mem = memory(name)
    i = np.arange(1000)
    addresses = address(mem.org, row=i)
    result = replay_columns(mem, addresses, np.zeros_like(addresses))
    cycles = mem.standard.cycles
    step = max(cycles["nRC"], cycles["nRCD"] + cycles["nRTP"] + cycles["nRPpb"])
    assert result.cycles == 1 + (i.size - 1) * step + cycles["nRCD"] + cycles["nCL"] + cycles["nBL_min"]


@pytest.mark.parametrize("name", STANDARD_NAMES)
def test_refresh_counts_follow_the_interval(name):
    for scheme, command, key in (("all_bank", "REFab", "nREFI"), ("per_bank", "REFpb", "nREFIpb")):
        mem = memory(name, refresh=scheme)
        addresses = np.zeros(50, np.int64)
        result = replay_columns(mem, addresses, addresses, injection="paced:1000")
        due = result.cycles // mem.standard.cycles[key]
        assert due - 1 <= result.commands[command] <= due
