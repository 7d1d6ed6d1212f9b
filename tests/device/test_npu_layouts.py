"""Layouts: bytes of single elements, runs, and costs worked out by hand."""

import numpy as np
import pytest

from archsim.devices.npu.layouts import (
    Region,
    conversion_cycles,
    cpu_read,
    find,
    locate,
    pack,
    quantise,
    runs,
    scatter_penalty,
    sparse_row_update,
    whole,
)
from archsim.units import InputError


@pytest.mark.parametrize(
    ("name", "shape", "element", "place"),
    [
        ("row_major", (10, 20), (3, 7), (67, 0, 0)),
        ("col_major", (10, 20), (3, 7), (73, 0, 0)),
        # rows 4 and 5 share vector 2; column 7 at 28, the second of the pair 2 further
        ("hmx_activation", (64, 96), (5, 7), (0, 2 * 128 + 28 + 2, 0)),
        ("hmx_activation", (64, 96), (33, 64), (3 + 2, 2, 0)),
        ("hmx_weight", (64, 96), (33, 64), (2 * 2 + 1, 2, 0)),
        ("int8_activation", (65, 33), (64, 32), (3, 0, 0)),
        ("int8_weight", (64, 64), (37, 40), (2 * 1 + 1, 128 + 4 * 8 + 1, 0)),
        ("q4_0_rows", (64, 3), (50, 2), (5, 2 + 2, 1)),
        ("q8_0_rows", (64, 3), (50, 2), (5, 2 + 18, 0)),
        # pair 9 of column 2: low half k = 18, high half k = 19
        ("q4_0_tiles", (64, 64), (51, 34), (3, 9 * 32 + 2, 1)),
        ("q8_0_tiles", (64, 64), (51, 34), (3, 9 * 64 + 4 + 1, 0)),
    ],
)
def test_places(name, shape, element, place):
    assert tuple(int(part) for part in locate(find(name), *shape, *element)) == place


@pytest.mark.parametrize(
    ("name", "tile", "staged"), [("q4_0_tiles", 576, 640), ("q8_0_tiles", 1088, 1152), ("hmx_weight", 2048, 2048)]
)
def test_tile_sizes(name, tile, staged):
    layout = find(name)
    assert (layout.tile_bytes, layout.staged_bytes) == (tile, staged)
    assert layout.nbytes(33, 32) == 2 * tile


def test_packed_bytes_of_a_known_tile():
    """Weights of -8 in column 0 (scale 1, quants 0) but one 7 (quant 15); zeros in column 1 (scale -0, quants 8)."""
    weights = np.zeros((32, 2), np.float32)
    weights[:, 0] = -8.0
    weights[1, 0] = 7.0
    quants, scales = quantise(weights, 4)
    data = pack(find("q4_0_tiles"), quants, scales)
    assert scales[0, 0] == 1.0
    assert data[0] == (15 << 4) | 0  # k = 0: -8 is 0, k = 1: 7 is 15
    assert data[32] == 0
    assert data[1] == 0x88  # zero weights
    assert data[512:516].tolist() == [0x00, 0x3C, 0x00, 0x80]
    rows = pack(find("q4_0_rows"), quants, scales)
    assert rows[:2].tolist() == [0x00, 0x3C]
    assert rows[2:5].tolist() == [0x00, 0x0F, 0x00]


@pytest.mark.parametrize(("name", "bits"), [("q4_0_rows", 4), ("q8_0_rows", 8)])
def test_blocks_are_those_of_the_gguf_package(name, bits):
    gguf = pytest.importorskip("gguf")
    weights = np.random.default_rng(5).normal(size=(96, 40)).astype(np.float32)
    weights[32:64, 3] = 0
    kind = getattr(gguf.GGMLQuantizationType, f"Q{bits}_0")
    expected = gguf.quants.quantize(np.ascontiguousarray(weights.T), kind)
    assert (pack(find(name), *quantise(weights, bits)) == expected.ravel()).all()


@pytest.mark.parametrize(
    ("name", "region", "count", "length"),
    [
        ("row_major", whole(4096, 4096), 1, 1 << 25),
        ("row_major", Region(4096, 4096, 0, 0, 4096, 32), 4096, 64),
        ("hmx_weight", Region(4096, 4096, 0, 0, 4096, 32), 1, 128 * 2048),  # a column of tiles
        ("hmx_weight", Region(4096, 4096, 0, 0, 32, 4096), 128, 2048),
        ("hmx_activation", Region(4096, 4096, 0, 0, 32, 4096), 1, 128 * 2048),
        ("hmx_activation", Region(4096, 4096, 8, 0, 2, 4096), 128, 128),  # one vector of each tile
        ("hmx_activation", Region(4096, 4096, 9, 0, 1, 4096), 4096, 2),  # every other element
        ("q4_0_tiles", Region(4096, 4096, 0, 0, 4096, 32), 1, 128 * 576),
    ],
)
def test_runs(name, region, count, length):
    found = runs(find(name), region)
    assert found.count == count
    assert (found.length == length).all()


def test_conversion_by_hand():
    # 64 x 64: 64 vectors in and out; each target vector of two rows takes two sources, one shuffle makes two
    found = conversion_cycles("row_major", "hmx_activation", 64, 64)
    assert (found.loads, found.stores, found.permutes, found.cycles) == (64, 64, 32, 128)
    # columns: each target vector holds 32 columns, so 32 sources, five steps
    found = conversion_cycles("col_major", "hmx_weight", 64, 64)
    assert (found.loads, found.stores, found.permutes, found.cycles) == (64, 64, 160, 160)
    # nothing to do but copy, whichever way
    for method in ("shuffle", "scatter"):
        assert conversion_cycles("hmx_weight", "hmx_weight", 64, 64, method=method).cycles == 128
    # element by element: 64 loads and 4096 stores
    assert conversion_cycles("row_major", "hmx_activation", 64, 64, method="scatter").cycles == 64 + 4096
    # blocks of packed tiles unpack in place
    found = conversion_cycles("q4_0_tiles", "hmx_weight", 64, 64)
    assert (found.loads, found.stores, found.permutes) == (18, 64, 0)


def test_a_conversion_is_the_sum_of_its_parts():
    one = conversion_cycles("row_major", "hmx_activation", 64, 64)
    many = conversion_cycles("row_major", "hmx_activation", 64 * 7, 64 * 5)
    assert many.cycles == 35 * one.cycles
    edge = conversion_cycles("row_major", "hmx_activation", 64 * 7 + 1, 64 * 5)
    assert edge.stores == many.stores + 5 * 2 * 1  # one vector of each of two tiles of a block
    assert edge.cycles > many.cycles


def test_the_penalty_of_scattering_lies_where_it_was_measured():
    """EuroSys'26 (arXiv 2509.23324): 9.65 to 19.0 times over matrices; words of 4 and 2 bytes, nothing fitted."""
    low, high = scatter_penalty("q4_0_rows", "hmx_weight", 4), scatter_penalty("q4_0_rows", "hmx_weight", 2)
    assert low == pytest.approx((3.32 - 1 + 32) / 3.32)
    assert high == pytest.approx((3.32 - 1 + 64) / 3.32)
    assert low == pytest.approx(9.65, rel=0.10)
    assert high == pytest.approx(19.0, rel=0.10)


def test_updates_by_hand():
    # one row of 128 values: 256 bytes in 4 lines
    row = sparse_row_update("row_major", 1024, 128, np.array([7]))
    assert (row.bytes, row.runs, row.stores, row.lines, row.partial_lines) == (256, 1, 16, 4, 0)
    # in weight tiles every other element of 4 vectors: 128 runs of 2 bytes in 8 lines, each kept in half
    value = sparse_row_update("hmx_weight", 1024, 128, np.array([7]))
    assert (value.bytes, value.runs, value.lines, value.partial_lines) == (256, 128, 8, 8)
    # a key is a column of K^T: 4 bytes of each of 64 vectors
    key = sparse_row_update("hmx_weight", 128, 1024, np.array([7]), axis="cols")
    assert (key.bytes, key.runs, key.lines, key.partial_lines) == (256, 64, 64, 64)
    assert key.moved_bytes == 32 * row.moved_bytes
    # two rows of a pair fill their lines
    pair = sparse_row_update("hmx_weight", 1024, 128, np.array([6, 7, 7]))
    assert (pair.bytes, pair.lines, pair.partial_lines) == (512, 8, 0)
    nothing = sparse_row_update("hmx_weight", 1024, 128, np.array([], np.int64))
    assert (nothing.bytes, nothing.lines, nothing.cycles) == (0, 0, 0)


def test_reading_by_hand():
    lines = cpu_read("row_major", Region(64, 64, 3, 0, 1, 64))
    assert (lines.loads, lines.permutes, lines.lines, lines.useful_bytes) == (8, 0, 2, 128)
    tiled = cpu_read("hmx_activation", Region(64, 64, 3, 0, 1, 64))
    assert (tiled.runs, tiled.lines, tiled.line_bytes) == (64, 4, 256)
    assert tiled.cycles > lines.cycles
    both = [cpu_read(name, whole(64, 64)) for name in ("row_major", "hmx_activation")]
    assert both[0].lines == both[1].lines == 128
    assert (both[0].permutes, both[1].permutes) == (0, 512)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: find("crouton"), "no layout 'crouton'"),
        (lambda: find("hmx_weights"), "did you mean 'hmx_weight'?"),
        (lambda: conversion_cycles("row_major", "hmx_weight", 0, 4), "rows is 0; it must be between 1 and"),
        (lambda: conversion_cycles("row_major", "hmx_weight", 4, 1 << 23), "cols is 8388608"),
        (lambda: conversion_cycles("row_major", "hmx_weight", 4, 4, method="skatter"), "did you mean 'scatter'?"),
        (lambda: conversion_cycles("row_major", "hmx_weight", 4, 4, word_bytes=3), "words of 2 or 4 bytes, not 3"),
        (lambda: Region(4, 4, 0, 0, 5, 1), "rows 0 to 5 do not lie in a matrix 4 x 4"),
        (lambda: Region(4, 4, 0, 4, 4, 1), "cols 4 to 5 do not lie in a matrix 4 x 4"),
        (lambda: sparse_row_update("hmx_weight", 4, 4, np.array([4])), "rows 4 to 5 do not lie"),
        (lambda: sparse_row_update("hmx_weight", 4, 4, np.array([0]), axis="row"), "did you mean 'rows'?"),
    ],
)
def test_bad_input(make, text):
    with pytest.raises(InputError) as error:
        make()
    assert text in str(error.value)
    assert "\n" not in str(error.value)
