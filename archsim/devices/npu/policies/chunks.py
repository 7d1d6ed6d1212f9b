"""Policy ``ggml_hmx``: matrix products on HMX in chunks of rows and columns that VTCM holds.

Per chunk of rows: activations (FP32) come in and HVX converts them to FP16 tiles, where they stay. Then, chunk of
columns by chunk of columns: packed weight tiles come in, HVX unpacks them, HMX multiplies, HVX converts the outputs to
FP32, and DMA writes them. Above ``pipeline_rows`` rows the stages run side by side with two buffers between each
pair: DMA brings the weights of the next chunk, HVX unpacks it while HMX works on this one, then converts the outputs
of the one before. Up to that many rows each stage waits for the one before.

Weights and activations come by DMA, or through l2fetch or vector loads of all threads (older kernels): the vector
threads then wait for them. Everything that moves shares one DRAM path.

Source: ggml-hexagon (thresholds, tiles of 576 bytes in DRAM and 640 in VTCM for Q4_0, chunk search, FP32 ends).
"""

from __future__ import annotations

from typing import NamedTuple

from archsim.devices.npu.dma import descriptors, transfer_fs
from archsim.devices.npu.hmx import MILLI, output_tile, products_milli, tiles
from archsim.devices.npu.hvx import WEIGHTS_PER_VECTOR
from archsim.devices.npu.numbers import (
    BY_DMA,
    HMX_FP16,
    HMX_INT8,
    VTCM_READ,
    VTCM_WRITE,
    bytes_fs,
    context_fs,
    milli_fs,
)
from archsim.devices.npu.policies.graph import tile_shape
from archsim.devices.npu.vtcm import tiling
from archsim.jit import callee

#: Packed tiles are aligned to 128 bytes in VTCM.
LINE = 128
FP32_BYTES = 4


class Chunks(NamedTuple):
    """Tiling of one product: padded sizes, chunk sizes, and whether its stages overlap."""

    k_tiles: int
    row_tile: int
    mc: int
    nc: int
    pipelined: int
    tile: int  # thousandths of an HMX cycle of one output tile
    unpack_tile: int  # context cycles (thousandths) of one weight tile


class Shares(NamedTuple):
    """Time (fs) that each stage works in a walk; stages overlap, so they may add up to more than its duration."""

    duration: int
    dma: int
    dequantise: int
    activation: int
    hmx: int
    output: int


@callee
def chunked(op, c, factor):
    """Tiling of an operator; mc is 0 when VTCM does not hold one row tile and one column tile."""
    row_tile, cycles, _ = tile_shape(op, c)
    k_tiles = tiles(op.k, c.tile_depth)
    m_padded = tiles(op.m, row_tile) * row_tile
    n_padded = tiles(op.n, c.tile_columns) * c.tile_columns
    pipelined = 1 if op.m > c.pipeline_rows else 0
    # bytes of one column's share of a packed tile, tiles aligned
    tile_count = k_tiles * (n_padded // c.tile_columns)
    tile_bytes = -(-op.weight_bytes // tile_count)
    packed_tile = -(-tile_bytes // LINE) * LINE
    packed_column = -(-packed_tile * k_tiles // c.tile_columns)
    k_padded = k_tiles * c.tile_depth
    buffers = 1 + pipelined
    least = c.pipeline_chunks if pipelined else 1
    mc, nc = tiling(m_padded, n_padded, k_padded, row_tile, c.tile_columns, packed_column, buffers, c.vtcm_bytes, least)
    unpack_tile = -(-c.tile_depth * c.tile_columns // WEIGHTS_PER_VECTOR) * c.tile_unpack * factor // MILLI
    tile = output_tile(k_tiles, cycles * MILLI, c.packet_tiles, c.packet, c.store, c.accumulators)
    return Chunks(k_tiles, row_tile, mc, nc, pipelined, tile, unpack_tile)


@callee
def path_rate(c, path, rate):
    """Rate (1e6 bytes/s) of a load path when DMA has `rate`: all paths share DRAM."""
    if path == BY_DMA:
        return rate
    return min(c.l2fetch_rate if path == 1 else c.vector_rate, rate)


@callee
def load_weights(op, c, t, columns, rate):
    """Time (fs) to bring the weights of `columns` columns."""
    nbytes = -(-op.weight_bytes * columns // op.n)
    if c.weight_path == BY_DMA:
        return transfer_fs(nbytes, descriptors(1, nbytes, c.dma_limit), c, rate)
    return bytes_fs(nbytes, path_rate(c, c.weight_path, rate))


@callee
def stage_times(op, c, t, rows, columns, rate):
    """Times (fs) of one chunk of columns: fetch, unpack, multiply, convert outputs, write them."""
    column_tiles = tiles(columns, c.tile_columns)
    milli = products_milli(tiles(rows, t.row_tile), column_tiles, t.k_tiles, c.hmx_units, t.tile)
    return (
        load_weights(op, c, t, columns, rate) if columns > 0 else 0,
        context_fs(c, t.k_tiles * column_tiles * t.unpack_tile),
        milli_fs(milli, c.hmx_khz),
        context_fs(c, rows * columns * c.output),
        bytes_fs(rows * columns * FP32_BYTES, rate),
    )


@callee
def rows_walk(op, c, t, rows, rate):
    """One chunk of rows from an idle start: :class:`Shares`."""
    n = op.n
    load = bytes_fs(rows * op.k * FP32_BYTES, path_rate(c, c.activation_path, rate))
    convert = context_fs(c, -(-rows * op.k // 64) * c.convert)
    ahead = t.pipelined == 1 and c.weight_path == BY_DMA
    dma, hvx = load, load + convert
    work_dma, work_unpack, work_hmx, work_out = load, 0, 0, 0
    unpacked, multiplied, multiplied_before, stored, stored_before = hvx, hvx, 0, 0, 0
    waiting_out = waiting_write = 0  # outputs multiplied but not converted (pipelined)
    done, columns = 0, min(t.nc, n)
    times = whole = stage_times(op, c, t, rows, columns, rate)
    last = stage_times(op, c, t, rows, n % columns, rate)
    if ahead:
        dma += times[0]
    ready = dma
    while done < n:
        fetch, unpack, multiply, out, write = times
        columns_next = min(t.nc, n - done - columns)
        times = whole if columns_next == t.nc else last if columns_next > 0 else (0, 0, 0, 0, 0)
        if ahead:
            fetched = ready
            dma = max(dma, unpacked if done > 0 else 0) + times[0]
            ready = dma
        else:
            fetched = dma = max(dma, hvx) + fetch
        unpacked = max(hvx, fetched, multiplied_before) + unpack
        ended = max(multiplied, unpacked, stored_before) + multiply
        hvx = unpacked
        if t.pipelined == 0:
            hvx = dma = max(dma, ended + out) + write
        elif done > 0:
            hvx = max(hvx, multiplied) + waiting_out
            dma = max(dma, hvx) + waiting_write
            stored_before, stored = stored, dma
        waiting_out, waiting_write = out, write
        multiplied_before, multiplied = multiplied, ended
        work_dma, work_unpack = work_dma + fetch + write, work_unpack + unpack
        work_hmx, work_out = work_hmx + multiply, work_out + out
        done, columns = done + columns, columns_next
    if t.pipelined == 1:
        hvx = max(hvx, multiplied) + waiting_out
        dma = max(dma, hvx) + waiting_write
    return Shares(max(dma, hvx), work_dma, work_unpack, convert, work_hmx, work_out)


@callee
def chunk_walk(op, c, t, rate):
    """Walk of a whole product: :class:`Shares`, at a DMA rate."""
    start = c.wake_ps * MILLI
    whole, rest = op.m // t.mc, op.m % t.mc
    dma, dequantise, activation, hmx, output, end = 0, 0, 0, 0, 0, start
    if whole > 0:
        one = rows_walk(op, c, t, t.mc, rate)
        end += whole * one.duration
        dma, dequantise, activation = whole * one.dma, whole * one.dequantise, whole * one.activation
        hmx, output = whole * one.hmx, whole * one.output
    if rest > 0:
        one = rows_walk(op, c, t, rest, rate)
        end += one.duration
        dma, dequantise, activation = dma + one.dma, dequantise + one.dequantise, activation + one.activation
        hmx, output = hmx + one.hmx, output + one.output
    return Shares(end, dma, dequantise, activation, hmx, output)


@callee
def chunk_streams(op, t):
    """How often the weights are streamed: once per chunk of rows."""
    return -(-op.m // t.mc)


@callee
def chunk_context(op, c, t):
    """Context cycles (thousandths) of unpacking, converting activations and converting outputs."""
    weight_tiles = t.k_tiles * tiles(op.n, c.tile_columns)
    activation = -(-op.m * op.k // 64) * c.convert
    return chunk_streams(op, t) * weight_tiles * t.unpack_tile + activation + op.m * op.n * c.output


@callee
def chunk_counts(op, c, t, counts):
    """Count tile products and VTCM traffic of an operator."""
    row_tile, _, int8 = tile_shape(op, c)
    columns = tiles(op.n, c.tile_columns)
    products = tiles(op.m, row_tile) * columns * t.k_tiles
    tile_bytes = 2 * c.tile_depth * c.tile_columns
    streams = chunk_streams(op, t)
    counts[HMX_INT8 if int8 else HMX_FP16] = products * row_tile * c.tile_columns * c.tile_depth
    outputs = 2 * op.m * op.n
    stream_bytes = streams * op.weight_bytes
    counts[VTCM_READ] = (products + streams * columns * t.k_tiles) * tile_bytes + stream_bytes + outputs
    staged = streams * columns * t.k_tiles * tile_bytes + stream_bytes
    counts[VTCM_WRITE] = staged + outputs + 2 * op.m * op.k
