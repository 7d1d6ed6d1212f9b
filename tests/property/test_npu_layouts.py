"""Address maps are bijections for every shape, runs are exactly the bytes of a region, real data comes back."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archsim.devices.npu.layouts import (
    LAYOUTS,
    Place,
    Region,
    dequantise,
    element,
    locate,
    locate_scale,
    pack,
    quantise,
    runs,
    sparse_row_update,
    tile_product,
    unpack,
)

side, layout = st.integers(1, 200), st.sampled_from(list(LAYOUTS.values()))


@given(layout, side, side)
def test_elements_and_places_are_one_to_one(layout, rows, cols):
    down, across = layout.grid(rows, cols)
    row, col = np.arange(down * layout.tile_rows)[:, None], np.arange(across * layout.tile_cols)[None, :]
    place = locate(layout, rows, cols, row, col)
    code = (place.tile * layout.tile_bytes + place.byte) * 2 + place.nibble
    assert np.unique(code).size == code.size == row.size * col.size
    assert code.min() >= 0
    assert code.max() < 2 * layout.nbytes(rows, cols)
    back = element(layout, rows, cols, place)
    assert (back[0] == row).all()
    assert (back[1] == col).all()


@given(layout, side, side)
def test_every_half_byte_is_an_element_a_scale_or_nothing(layout, rows, cols):
    """From the bytes' side: the places that hold an element are as many as the elements, and go back to themselves."""
    size = layout.nbytes(rows, cols)
    byte, nibble = np.divmod(np.arange(2 * size), 2)
    place = Place(byte // layout.tile_bytes, byte % layout.tile_bytes, nibble)
    row, col = element(layout, rows, cols, place)
    held = row >= 0
    down, across = layout.grid(rows, cols)
    assert held.sum() == down * across * layout.tile_rows * layout.tile_cols
    again = locate(layout, rows, cols, row[held], col[held])
    assert all((new == old[held]).all() for new, old in zip(again, place))
    if layout.scale_byte >= 0:
        scale = locate_scale(layout, rows, cols, np.arange(rows)[:, None], np.arange(cols)[None, :])
        for part in (0, 1):
            at = Place(scale.tile, scale.byte + part, scale.nibble)
            assert (element(layout, rows, cols, at)[0] == -1).all()


@st.composite
def regions(draw):
    rows, cols = draw(side), draw(side)
    row, col = draw(st.integers(0, rows - 1)), draw(st.integers(0, cols - 1))
    return Region(rows, cols, row, col, draw(st.integers(1, rows - row)), draw(st.integers(1, cols - col)))


def bytes_of(layout, region):
    row = np.arange(region.row, region.row + region.height)[:, None]
    col = np.arange(region.col, region.col + region.width)[None, :]
    place = locate(layout, region.rows, region.cols, row, col)
    at = (place.tile * layout.tile_bytes + place.byte).ravel()
    found = set()
    for byte in range(max(layout.bits // 8, 1)):
        found |= set((at + byte).tolist())
    if layout.scale_byte >= 0:
        scale = locate_scale(layout, region.rows, region.cols, row, col)
        at = (scale.tile * layout.tile_bytes + scale.byte).ravel()
        found |= set(at.tolist()) | set((at + 1).tolist())
    return found


@given(layout, regions(), st.sampled_from([16, 64, 128]))
def test_runs_are_the_bytes_of_a_region(layout, region, block):
    found, expected = runs(layout, region), bytes_of(layout, region)
    listed = [range(start, start + size) for start, size in zip(found.start.tolist(), found.length.tolist())]
    assert {byte for run in listed for byte in run} == expected
    assert found.nbytes == len(expected)
    assert (found.start[1:] > found.start[:-1] + found.length[:-1]).all()  # none could be joined
    touched = {byte // block for byte in expected}
    assert found.blocks(block).tolist() == sorted(touched)
    assert found.full_blocks(block) == sum(all(b * block + i in expected for i in range(block)) for b in touched)


@given(layout, side, side, st.data())
def test_an_update_touches_the_bytes_of_its_rows(layout, rows, cols, data):
    axis = data.draw(st.sampled_from(["rows", "cols"]))
    limit = rows if axis == "rows" else cols
    changed = data.draw(st.lists(st.integers(0, limit - 1), min_size=1, max_size=12))
    found = sparse_row_update(layout, rows, cols, np.array(changed), axis=axis)
    expected = set()
    for i in changed:
        spot = (i, 0, 1, cols) if axis == "rows" else (0, i, rows, 1)
        expected |= bytes_of(layout, Region(rows, cols, *spot))
    assert found.bytes == len(expected)
    assert found.lines == len({byte // 64 for byte in expected})
    if layout.bits >= 8:
        whole = sum(all(line * 64 + i in expected for i in range(64)) for line in {b // 64 for b in expected})
        assert found.partial_lines == found.lines - whole


@settings(max_examples=40)
@given(side, side, st.integers(0, 2**32 - 1))
def test_elements_come_back(rows, cols, seed):
    random = np.random.default_rng(seed)
    for layout in LAYOUTS.values():
        if layout.scale_byte >= 0:
            height = -(-rows // 32) * 32
            quants, scales = quantise(random.normal(size=(height, cols)), layout.bits)
            back = unpack(layout, pack(layout, quants, scales), height, cols)
            assert (back[0] == quants).all()
            assert (back[1] == scales).all()
        elif layout.bits == 16:
            matrix = random.normal(size=(rows, cols)).astype(np.float16)
            assert (unpack(layout, pack(layout, matrix), rows, cols)[0] == matrix).all()
        else:
            matrix = random.integers(-128, 128, (rows, cols)).astype(np.int8)
            assert (unpack(layout, pack(layout, matrix), rows, cols)[0] == matrix).all()


@settings(max_examples=25)
@given(st.integers(1, 130), st.integers(1, 130), st.integers(1, 100), st.integers(0, 2**32 - 1))
def test_products_of_packed_matrices(m, k, n, seed):
    """FP16 with FP32 sums, INT8 with INT32 sums: the tile walk's product is the plain one."""
    random = np.random.default_rng(seed)
    a, b = random.normal(size=(m, k)).astype(np.float16), random.normal(size=(k, n)).astype(np.float16)
    left, right = LAYOUTS["hmx_activation"], LAYOUTS["hmx_weight"]
    found = tile_product(left, pack(left, a), right, pack(right, b), (m, k, n))
    exact = a.astype(np.float64) @ b.astype(np.float64)
    bound = np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64)) * (k + 2) * 2.0**-24  # rounding of FP32 sums
    assert (np.abs(found - exact) <= bound).all()
    a, b = random.integers(-128, 128, (m, k)).astype(np.int8), random.integers(-128, 128, (k, n)).astype(np.int8)
    left, right = LAYOUTS["int8_activation"], LAYOUTS["int8_weight"]
    found = tile_product(left, pack(left, a), right, pack(right, b), (m, k, n))
    assert (found == a.astype(np.int64) @ b.astype(np.int64)).all()


@pytest.mark.parametrize(("name", "bits"), [("q4_0_tiles", 4), ("q8_0_tiles", 8)])
@settings(max_examples=15)
@given(st.integers(1, 40), st.integers(1, 4), st.integers(1, 100), st.integers(0, 2**32 - 1))
def test_products_of_quantised_tiles(name, bits, m, blocks, n, seed):
    random, k = np.random.default_rng(seed), 32 * blocks
    a, weights = random.normal(size=(m, k)).astype(np.float16), random.normal(size=(k, n)).astype(np.float32)
    quants, scales = quantise(weights, bits)
    left, right = LAYOUTS["hmx_activation"], LAYOUTS[name]
    found = tile_product(left, pack(left, a), right, pack(right, quants, scales), (m, k, n))
    b = dequantise(quants, scales, bits).astype(np.float16).astype(np.float64)
    bound = np.abs(a.astype(np.float64)) @ np.abs(b) * (k + 2) * 2.0**-24
    assert (np.abs(found - a.astype(np.float64) @ b) <= bound).all()
    # and the weights are the ones that were quantised, to half a step
    step = np.repeat(np.abs(scales.astype(np.float64)), 32, axis=0)
    assert (np.abs(dequantise(quants, scales, bits) - weights) <= step * (1.01 if bits == 4 else 0.51) + 1e-2).all()
