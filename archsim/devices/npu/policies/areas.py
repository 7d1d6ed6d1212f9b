"""Policy ``sequential``: VTCM carved into fixed areas, stages one after the other.

Weights, activations and outputs have an area of ``area_bytes`` each. Rows are taken in chunks that fill the
activation area; for each, weights come in chunks that fill theirs: HVX unpacks one while DMA brings the next, then
HMX multiplies it. So weights are streamed and unpacked again per row chunk. A k too long for 32 columns in an
area is cut. Activations are FP16, loaded and stored by one thread.

Source: open Hexagon operator library of arXiv 2509.23324 (four stages overlap only from 1,024 rows on).
"""

from __future__ import annotations

from archsim.devices.npu.hmx import MILLI, output_tile, products_milli, tiles
from archsim.devices.npu.hvx import WEIGHTS_PER_VECTOR
from archsim.devices.npu.numbers import HMX_FP16, HMX_INT8, VTCM_READ, VTCM_WRITE, bytes_fs, context_fs, milli_fs
from archsim.devices.npu.policies.graph import tile_shape
from archsim.jit import callee


@callee
def area_chunks(op, c):
    """Row chunks and weight chunks (of all of k and n) of an operator; (0, 0) when an area holds no tile."""
    row_tile, _, _ = tile_shape(op, c)
    longest = c.area_bytes // (2 * max(row_tile, c.tile_columns)) // c.tile_depth * c.tile_depth
    if longest == 0:
        return 0, 0
    k_padded = tiles(op.k, c.tile_depth) * c.tile_depth
    pieces = -(-k_padded // longest)
    k_piece = tiles(-(-k_padded // pieces), c.tile_depth) * c.tile_depth
    rows = c.area_bytes // (2 * k_piece) // row_tile * row_tile
    columns = c.area_bytes // (2 * k_piece) // c.tile_columns * c.tile_columns
    return -(-op.m // rows), pieces * -(-op.n // columns)


@callee
def area_walk(op, c, factor, row_chunks, chunks, rate):
    """Duration (fs) and context cycles (thousandths) of a matrix product."""
    row_tile, cycles, _ = tile_shape(op, c)
    k_tiles, columns = tiles(op.k, c.tile_depth), tiles(op.n, c.tile_columns)
    vectors = k_tiles * columns * -(-c.tile_depth * c.tile_columns // WEIGHTS_PER_VECTOR)
    unpack_context = vectors * c.tile_unpack * factor // MILLI
    dma = bytes_fs(-(-op.weight_bytes // chunks), rate)
    unpack = -(-context_fs(c, unpack_context) // chunks)
    tile = output_tile(k_tiles, cycles * MILLI, c.packet_tiles, c.packet, c.store, c.accumulators)
    matrix = milli_fs(products_milli(tiles(op.m, row_tile), columns, k_tiles, c.hmx_units, tile), c.hmx_khz)
    each = row_chunks * chunks
    duration = dma + (each - 1) * max(dma, unpack) + unpack + matrix + c.wake_ps * MILLI
    return duration, row_chunks * unpack_context


@callee
def area_counts(op, c, row_chunks, counts):
    """Count tile products and VTCM traffic of an operator."""
    row_tile, _, int8 = tile_shape(op, c)
    k_tiles, columns = tiles(op.k, c.tile_depth), tiles(op.n, c.tile_columns)
    products = tiles(op.m, row_tile) * columns * k_tiles
    tile_bytes = 2 * c.tile_depth * c.tile_columns
    counts[HMX_INT8 if int8 else HMX_FP16] = products * row_tile * c.tile_columns * c.tile_depth
    stream_bytes = row_chunks * op.weight_bytes
    counts[VTCM_READ] = (products + row_chunks * columns * k_tiles) * tile_bytes + stream_bytes
    counts[VTCM_WRITE] = row_chunks * columns * k_tiles * tile_bytes + stream_bytes + op.in_bytes
