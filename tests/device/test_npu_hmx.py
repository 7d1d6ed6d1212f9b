"""Tile walk: cycles worked out by hand, padding, and skipping against walking every tile."""

import numpy as np
import pytest

from archsim.devices.npu.hmx import MILLI, TILE, rows_in_vtcm, tile_walk, tiles


def walk(columns, k_tiles, dma, unpack, multiply, output, depth=2, skip=1):
    """Cycles of a walk whose stages take whole cycles."""
    total = tile_walk(columns, k_tiles, depth, dma * MILLI, unpack * MILLI, multiply * MILLI, output * MILLI, skip)
    assert total % MILLI == 0
    return total // MILLI


def test_one_tile_passes_the_stages_in_turn():
    assert walk(1, 1, 10, 4, 8, 3) == 10 + 4 + 8 + 3


def test_second_tile_overlaps_where_dma_binds():
    # dma 10, 20; unpack 14, 24; multiply 22, 32; output 35
    assert walk(1, 2, 10, 4, 8, 3) == 35


def test_third_tile_waits_for_a_buffer_where_hmx_binds():
    # multiply ends 11, 19; the third unpack starts when the first product is done: 11..12; multiply 19..27; output 32
    assert walk(1, 3, 2, 1, 8, 5) == 32


@pytest.mark.parametrize(("depth", "cycles"), [(1, 34), (2, 32), (3, 32)])
def test_depth_of_buffers_by_hand(depth, cycles):
    # one buffer: 2|3|11, dma 3..5, unpack 11..12, multiply 20, unpack 20..21, multiply 29, output 34
    assert walk(1, 3, 2, 1, 8, 5, depth) == cycles


def test_next_column_waits_until_hvx_has_stored_the_outputs():
    # column one as above ends at 32 with DMA two tiles ahead: unpack 33, multiply 41, unpack 34 -> multiply 49, then
    # unpack 41..42 -> multiply 57, output 62
    assert walk(2, 3, 2, 1, 8, 5) == 62


def test_steady_state_is_the_slowest_stage():
    many = 10_000
    assert walk(1, many, 3, 2, 8, 0) == 3 + 2 + 8 * many
    assert walk(1, many, 9, 2, 8, 0) == 9 * many + 2 + 8


@pytest.mark.parametrize("seed", range(12))
def test_skipping_equals_walking_every_tile(seed):
    draw = np.random.default_rng(seed)
    for _ in range(40):
        columns, k_tiles, depth = (int(draw.integers(1, high)) for high in (40, 60, 6))
        times = [int(draw.integers(0, 20_000)) for _ in range(4)]
        assert tile_walk(columns, k_tiles, depth, *times, 1) == tile_walk(columns, k_tiles, depth, *times, 0)


def test_walk_agrees_with_an_event_by_event_model():
    """Independent model: every stage keeps the full list of its ends."""

    def model(columns, k_tiles, depth, dma, unpack, multiply, output):
        d, u, m, hvx = [], [], [], 0
        for _ in range(columns):
            for _ in range(k_tiles):
                t = len(d)
                d.append(max(d[-1] if d else 0, u[t - depth] if t >= depth else 0) + dma)
                u.append(max(hvx, d[t], m[t - depth] if t >= depth else 0) + unpack)
                hvx = u[t]
                m.append(max(m[-1] if m else 0, u[t]) + multiply)
            hvx = max(hvx, m[-1]) + output
        return hvx

    draw = np.random.default_rng(7)
    for _ in range(60):
        size = [int(draw.integers(1, high)) for high in (8, 20, 5)]
        times = [int(draw.integers(0, 30)) for _ in range(4)]
        assert tile_walk(*size, *times, 1) == model(*size, *times)


def test_longer_stages_never_shorten_the_walk():
    base = [9000, 5000, 8000, 40_000]
    for stage in range(4):
        longer = list(base)
        longer[stage] += 1500
        assert tile_walk(12, 17, 2, *longer, 1) >= tile_walk(12, 17, 2, *base, 1)


def test_tiles_round_up():
    assert [tiles(size) for size in (1, 31, 32, 33, 4096)] == [1, 1, 1, 2, 128]


def test_rows_that_fit_in_local_memory():
    assert rows_in_vtcm(8 << 20, 4096, 2) == 992  # 31 row tiles of 256 KiB and 4 KiB of outputs, 8 KiB of buffers
    assert rows_in_vtcm(8 << 20, 14336, 2) == 288
    assert rows_in_vtcm(1 << 20, 32768, 2) == 0


def test_peak_rate_of_the_matrix_unit():
    """1024-cube in local memory: 12,032.5 GFLOP/s at 8 cycles per product (EuroSys'26, arXiv 2509.23324, Table 2)."""
    side = 1024 // 32
    cycles = walk(side, side, 0, 0, 8 * side, 0)
    gflop_s = 2 * side**3 * TILE**3 / (cycles / 1.469e9) / 1e9
    assert gflop_s == pytest.approx(12_032.5, rel=0.001)
