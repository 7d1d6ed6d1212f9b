"""The NPU's weight fetch, tile by tile in the order of the walk, on the command-level DRAM: does DRAM keep up with DMA?

The device assumes that DMA gets its rate (59 GB/s on the OnePlus 12) whatever it fetches. Weight tiles lie in the order
of the walk for that; rows would have to be gathered. DMA is deep (16 KiB in flight), so requests are offered as fast as
the queues take them; bursts of 32 bytes go round the four channels. A replay offers one request a cycle, less than four
channels can serve, so channels are run one by one, and the slowest counts."""

import numpy as np
import pytest

from archsim.config import load_config
from archsim.devices.dram.controller import load_memory
from archsim.devices.dram.replay import replay_columns
from archsim.devices.npu.layouts import Region, find, runs

K = N = 4096
CHANNELS, BURST = 4, 32
COLUMNS = 4  # of tiles: 1 MiB of FP16 weights


def fetched(name):
    """Addresses of the bursts in the order of the walk, and the bytes that were wanted."""
    layout, wanted, parts = find(name), 0, []
    for column in range(COLUMNS):
        for step in range(K // 32):
            tile = runs(layout, Region(K, N, 32 * step, 32 * column, 32, 32))
            wanted += tile.nbytes
            parts.append(tile.blocks(BURST) * BURST)
    return np.concatenate(parts), wanted


def bandwidth_gb_s(name):
    """Wanted bytes over the time of the slowest channel, and the share of row hits."""
    address, wanted = fetched(name)
    memory = load_memory("lpddr5x-9600", "mobile", channels=1)
    cycles, hits = 0, 0
    for channel in range(CHANNELS):
        mine = address[address // BURST % CHANNELS == channel] // (BURST * CHANNELS) * BURST
        result = replay_columns(memory, mine, np.zeros_like(mine))
        cycles, hits = max(cycles, result.cycles), hits + result.row_hits
    return wanted / (cycles * memory.standard.tck_ns), hits / address.size


@pytest.fixture(scope="module")
def dma_gb_s():
    devices = load_config("system", "oneplus_12").data["devices"]
    return devices["npu"]["spec"]["dma_bytes_per_s"] / 1e9


@pytest.mark.parametrize("name", ["hmx_weight", "q4_0_tiles", "q8_0_tiles"])
def test_tiles_in_the_order_of_the_walk_keep_up_with_dma(name, dma_gb_s):
    achieved, hits = bandwidth_gb_s(name)
    assert dma_gb_s == 59.0
    assert achieved >= 1.15 * dma_gb_s  # so the rate that is assumed is DMA's own limit
    assert achieved <= 76.8
    assert hits > 0.97


def test_rows_gathered_into_tiles_do_not(dma_gb_s):
    """64-byte runs 8 KiB apart: a row of DRAM for each burst of a channel."""
    achieved, hits = bandwidth_gb_s("row_major")
    assert hits < 0.01
    assert 0.3 * dma_gb_s < achieved < 0.5 * dma_gb_s


def test_one_column_of_tiles_by_rows_meets_half_of_the_channels():
    address, _ = fetched("row_major")
    column = address[: K * 2]
    assert np.unique(column // BURST % CHANNELS).tolist() == [0, 1]
    memory = load_memory("lpddr5x-9600", "mobile", channels=CHANNELS)
    in_order = replay_columns(memory, address, np.zeros_like(address)).bandwidth_gb_s
    assert in_order < 0.6 * bandwidth_gb_s("row_major")[0]


def test_blocks_as_files_hold_them_waste_bursts(dma_gb_s):
    """18-byte blocks in 32-byte bursts: 1.5 to 2 bursts a block."""
    address, wanted = fetched("q4_0_rows")
    assert 2.4 < address.size * BURST / wanted < 3.6
    assert bandwidth_gb_s("q4_0_rows")[0] < 0.6 * dma_gb_s
