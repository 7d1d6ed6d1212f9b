"""Real matrices in a layout: packed into bytes and back, and multiplied tile by tile in the matrix unit's order."""

from __future__ import annotations

import numpy as np

from archsim.devices.npu.layouts.formats import NOTHING, Layout, locate, locate_scale

BLOCK = 32
_TYPES = {16: np.float16, 8: np.int8}


def quantise(weights: np.ndarray, bits: int) -> tuple[np.ndarray, np.ndarray]:
    """Blocks of 32 along the rows: ggml's Q4_0 (`bits` 4) or Q8_0 (8).

    Parameters
    ----------
    weights : float32[k, n]
        k a multiple of 32.

    Returns
    -------
    tuple
        Quants int8[k, n] (4 bits: 0 to 15, 8 stands for zero), scales float16[k // 32, n].
    """
    blocks = weights.astype(np.float32).reshape(-1, BLOCK, weights.shape[1])
    if bits == 8:
        scale = np.abs(blocks).max(axis=1) / np.float32(127)
        inverse = np.divide(1, scale, out=np.zeros_like(scale), where=scale != 0)
        return np.rint(blocks * inverse[:, None]).astype(np.int8).reshape(weights.shape), scale.astype(np.float16)
    peak = np.take_along_axis(blocks, np.abs(blocks).argmax(axis=1)[:, None], axis=1)[:, 0]
    scale = peak / np.float32(-8)
    inverse = np.divide(1, scale, out=np.zeros_like(scale), where=scale != 0)
    quants = np.minimum(15, (blocks * inverse[:, None] + np.float32(8.5)).astype(np.int8))
    return quants.reshape(weights.shape), scale.astype(np.float16)


def dequantise(quants: np.ndarray, scales: np.ndarray, bits: int) -> np.ndarray:
    """Weights float32[k, n] of quants and scales."""
    zero = 8 if bits == 4 else 0
    return (quants.astype(np.float32) - zero) * np.repeat(scales.astype(np.float32), BLOCK, axis=0)


def pack(layout: Layout, matrix: np.ndarray, scales: np.ndarray | None = None) -> np.ndarray:
    """Bytes uint8[n] of a matrix: float16 or int8 elements, or quants with their scales; padding is zero bytes."""
    rows, cols = matrix.shape
    data = np.zeros(layout.nbytes(rows, cols), np.uint8)
    row, col = np.arange(rows)[:, None], np.arange(cols)[None, :]
    place = locate(layout, rows, cols, row, col)
    at = place.tile * layout.tile_bytes + place.byte
    if layout.bits == 4:
        # two elements share a byte: the halves are filled one after the other
        for half in (0, 1):
            mine = np.broadcast_to(place.nibble, at.shape) == half
            data[at[mine]] |= matrix.astype(np.uint8)[mine] << (4 * half)
    else:
        values = np.ascontiguousarray(matrix, _TYPES[layout.bits])
        for i in range(layout.bits // 8):
            data[at + i] = values.view(np.uint8).reshape(rows, cols, -1)[:, :, i]
    if layout.scale_byte != NOTHING:
        if scales is None:
            raise ValueError(f"{layout.name} needs scales")
        place = locate_scale(layout, rows, cols, np.arange(0, rows, BLOCK)[:, None], col)
        at = place.tile * layout.tile_bytes + place.byte
        halves = np.ascontiguousarray(scales, np.float16).view(np.uint8).reshape(*scales.shape, 2)
        data[at], data[at + 1] = halves[:, :, 0], halves[:, :, 1]
    return data


def unpack(layout: Layout, data: np.ndarray, rows: int, cols: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Matrix [rows, cols] of packed bytes, and its scales where the layout has them."""
    row, col = np.arange(rows)[:, None], np.arange(cols)[None, :]
    place = locate(layout, rows, cols, row, col)
    at = place.tile * layout.tile_bytes + place.byte
    if layout.bits == 4:
        matrix = ((data[at] >> (4 * place.nibble)) & 15).astype(np.int8)
    else:
        parts = np.stack([data[at + i] for i in range(layout.bits // 8)], axis=-1)
        matrix = np.ascontiguousarray(parts).view(_TYPES[layout.bits])[:, :, 0]
    if layout.scale_byte == NOTHING:
        return matrix, None
    place = locate_scale(layout, rows, cols, np.arange(0, rows, BLOCK)[:, None], col)
    at = place.tile * layout.tile_bytes + place.byte
    return matrix, np.ascontiguousarray(np.stack([data[at], data[at + 1]], axis=-1)).view(np.float16)[:, :, 0]


def tile_product(left: Layout, a: np.ndarray, right: Layout, b: np.ndarray, shape: tuple[int, int, int]) -> np.ndarray:
    """Product [m, n] of packed activations [m, k] and packed weights [k, n], in the order of the tile walk.

    Weight tiles are taken in the order they lie in memory: column by column, all of k. Sums are FP32, or INT32 for
    INT8 tiles; quantised tiles are unpacked to FP16 first, as the vector threads do it.
    """
    m, k, n = shape
    is_int8 = right.bits == 8 and right.scale_byte == NOTHING
    kind = np.int32 if is_int8 else np.float32
    (heights, depths), (_, columns) = left.grid(m, k), right.grid(k, n)
    sums = np.zeros((heights * left.tile_rows, columns * right.tile_cols), kind)
    for column in range(columns):
        for step in range(depths):
            tile = int(right.tile_index(k, n, step, column))
            weights = _tile(right, b, tile)
            for height in range(heights):
                rows = _tile(left, a, int(left.tile_index(m, k, height, step))).astype(kind)
                at = slice(height * left.tile_rows, (height + 1) * left.tile_rows)
                sums[at, column * right.tile_cols : (column + 1) * right.tile_cols] += rows @ weights.astype(kind)
    return sums[:m, :n]


def _tile(layout: Layout, data: np.ndarray, tile: int) -> np.ndarray:
    """Elements of one tile; of a quantised tile the unpacked FP16 weights."""
    part = data[tile * layout.tile_bytes : (tile + 1) * layout.tile_bytes]
    matrix, scales = unpack(layout, part, layout.tile_rows, layout.tile_cols)
    return matrix if scales is None else dequantise(matrix, scales, layout.bits).astype(np.float16)
