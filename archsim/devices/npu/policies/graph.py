"""Policy ``static_graph``: rows padded to fixed shapes, matrix products by the tile walk of HMX."""

from __future__ import annotations

from archsim.devices.npu.hmx import MILLI, output_tile, rows_in_vtcm, tile_walk, tiles
from archsim.devices.npu.hvx import WEIGHTS_PER_VECTOR
from archsim.devices.npu.numbers import (
    HMX_FP16,
    HMX_INT8,
    INT4,
    INT8,
    VTCM_READ,
    VTCM_WRITE,
    bytes_fs,
    context_fs,
    milli_fs,
)
from archsim.jit import callee


@callee
def tile_shape(op, c):
    """Rows and cycles of a tile product, by the types of activations and weights; the third says INT8."""
    if op.adtype != INT8:
        return c.tile_rows, c.tile_fp16, 0
    return c.tile_rows_int8, c.tile_int4 if op.wdtype == INT4 else c.tile_int8, 1


@callee
def graph_size(graph_rows, rows):
    """Rows of the smallest fixed shape that holds `rows`; `graph_rows` ascends."""
    for size in graph_rows:
        if size >= rows:
            return size
    return graph_rows[-1]


@callee
def graph_fits(op, c):
    """Rows of an operator that local memory holds; 0 when not one tile fits."""
    row_tile, _, _ = tile_shape(op, c)
    k_padded = tiles(op.k, c.tile_depth) * c.tile_depth
    return rows_in_vtcm(c.vtcm_bytes, k_padded, c.depth, row_tile, c.tile_columns, c.tile_depth)


@callee
def graph_block(op, c, factor, rows, fits, rate):
    """Duration (fs), context cycles (thousandths) and weight streams of one fixed shape of `rows` rows."""
    row_tile, cycles, _ = tile_shape(op, c)
    k_tiles, columns = tiles(op.k, c.tile_depth), tiles(op.n, c.tile_columns)
    dma = bytes_fs(-(-op.weight_bytes // (k_tiles * columns)), rate)
    unpack_context = -(-c.tile_depth * c.tile_columns // WEIGHTS_PER_VECTOR) * c.graph_unpack * factor // MILLI
    unpack = context_fs(c, unpack_context)
    whole = output_tile(k_tiles, cycles * MILLI, c.packet_tiles, c.packet, c.store, c.accumulators)
    total, vector, streams, left = c.wake_ps * MILLI, 0, 0, rows
    while left > 0:
        now = min(left, fits)
        each = -(-tiles(now, row_tile) // c.hmx_units)
        output_context = now * c.tile_columns * c.graph_output
        multiply = milli_fs(each * cycles * MILLI, c.hmx_khz)
        store = milli_fs(each * max(whole - k_tiles * cycles * MILLI, 0), c.hmx_khz)
        output = context_fs(c, output_context)
        total += tile_walk(columns, k_tiles, c.depth, dma, unpack, multiply, output, 1, store)
        vector += columns * (k_tiles * unpack_context + output_context)
        streams += 1
        left -= now
    return total, vector, streams


@callee
def graph_walk(op, c, factor, graph_rows, fits, rate):
    """Matrix product of a static graph: whole blocks of the largest shape, then the smallest that holds the rest.

    Returns
    -------
    tuple of int
        Duration (fs), context cycles (thousandths), and how often the weights are streamed.
    """
    largest = graph_rows[-1]
    whole, rest = op.m // largest, op.m % largest
    total, vector, streams = 0, 0, 0
    if whole > 0:
        t, v, s = graph_block(op, c, factor, largest, fits, rate)
        total, vector, streams = whole * t, whole * v, whole * s
    if rest > 0:
        t, v, s = graph_block(op, c, factor, graph_size(graph_rows, rest), fits, rate)
        total, vector, streams = total + t, vector + v, streams + s
    return total, vector, streams


@callee
def graph_counts(op, c, graph_rows, streams, fits, counts):
    """Count tile products and VTCM traffic of an operator."""
    row_tile, _, int8 = tile_shape(op, c)
    k_tiles, columns = tiles(op.k, c.tile_depth), tiles(op.n, c.tile_columns)
    largest = graph_rows[-1]
    rest = op.m % largest
    row_tiles = op.m // largest * tiles(largest, row_tile)
    row_tiles += tiles(graph_size(graph_rows, rest), row_tile) if rest > 0 else 0
    products = columns * k_tiles * row_tiles
    tile_bytes = 2 * c.tile_depth * c.tile_columns
    counts[HMX_INT8 if int8 else HMX_FP16] = products * row_tile * c.tile_columns * c.tile_depth
    stream_bytes = streams * op.weight_bytes
    counts[VTCM_READ] = (products + streams * columns * k_tiles) * tile_bytes + stream_bytes
    counts[VTCM_WRITE] = columns * (streams * k_tiles + row_tiles) * tile_bytes + stream_bytes
