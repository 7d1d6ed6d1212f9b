"""Tile walk of the matrix unit: weights tile by tile through DMA, HVX and HMX.

A matrix product [m, k] x [k, n] is padded to 32 x 32 tiles. Weight tiles are taken column by column (32 outputs, all of
k), and pass three stages:

* DMA brings the packed tile into one of `depth` raw buffers in VTCM,
* HVX unpacks it into one of `depth` tile buffers,
* HMX multiplies it with the column of m / 32 activation tiles, which stay in VTCM.

After the last tile of a column HVX converts and stores its output tiles; it can then not unpack, so HMX drains, while
DMA runs on until the raw buffers are full. A buffer is free again when the next stage has read it.

Times are in any unit that is fine enough (callers use fs), so that a DMA that moves 40.16 bytes per cycle loses
nothing. The walk is a max-plus system: once two successive steps leave the same relative state, all later
ones repeat them, and the rest of the column (or of the columns) is added at once. ``skip=0`` walks every tile.

Sources: 32 x 32 x 32 FP16 tile products in 8 cycles and staging through VTCM (EuroSys'26, arXiv 2509.23324); padding
and staircase (HeteroInfer, arXiv 2501.14794); stages and their order (open Hexagon operator libraries).
"""

from __future__ import annotations

import numpy as np

from archsim.jit import callee

TILE = 32
MILLI = 1000

#: First entries of a walk's state: end of the last DMA, time at which HVX is free. Two rings follow.
DMA_END, HVX_FREE, RINGS = range(3)


@callee
def tiles(size, tile=TILE):
    """Tiles of `tile` elements that cover `size`; a rest counts as a whole tile."""
    return -(-size // tile)


@callee
def output_tile(k_tiles, cycles, packet_tiles, packet, store, accumulators):
    """Thousandths of an HMX cycle of one output tile: clear, accumulate along k, store with column scale and bias.

    A packet takes up to `packet_tiles` tile pairs along k and costs `packet` to issue. With two accumulators the store
    of one tile runs beside the products of the next and only shows where k is short; with one it is added.
    """
    products = k_tiles * cycles + -(-k_tiles // packet_tiles) * packet
    return max(products, store) if accumulators > 1 else products + store


@callee
def products_milli(row_tiles, columns, k_tiles, units, tile):
    """Thousandths of an HMX cycle of row_tiles x columns output tiles spread over `units`, `tile` each."""
    return -(-row_tiles // units) * columns * tile


@callee
def step(state, depth, dma, unpack, multiply):
    """Advance the state by one weight tile.

    ``state[2:2 + depth]`` are the ends of the last `depth` unpacks, ``state[2 + depth:]`` of the last `depth`
    multiplications, oldest first.
    """
    dma_end = max(state[DMA_END], state[RINGS]) + dma
    unpack_end = max(state[HVX_FREE], dma_end, state[RINGS + depth]) + unpack
    multiply_end = max(state[RINGS + 2 * depth - 1], unpack_end) + multiply
    for i in range(depth - 1):
        state[RINGS + i] = state[RINGS + i + 1]
        state[RINGS + depth + i] = state[RINGS + depth + i + 1]
    state[DMA_END], state[HVX_FREE] = dma_end, unpack_end
    state[RINGS + depth - 1], state[RINGS + 2 * depth - 1] = unpack_end, multiply_end


@callee
def moved_alike(before, after):
    """Whether all entries grew by the same amount."""
    grown = after[0] - before[0]
    for i in range(1, before.size):  # noqa: SIM110 - no generators in kernels
        if after[i] - before[i] != grown:
            return False
    return True


@callee
def walk_column(state, before, k_tiles, depth, dma, unpack, multiply, output, skip, store):
    """Advance the state by a column: its weight tiles, then HVX converts its outputs. `before` is scratch."""
    t = 0
    while t < k_tiles:
        before[:] = state
        step(state, depth, dma, unpack, multiply)
        t += 1
        if skip and t < k_tiles and moved_alike(before, state):
            grown = state[0] - before[0]
            state += grown * (k_tiles - t)
            t = k_tiles
    state[RINGS + 2 * depth - 1] += store
    state[HVX_FREE] = max(state[HVX_FREE], state[RINGS + 2 * depth - 1]) + output


@callee
def tile_walk(columns, k_tiles, depth, dma, unpack, multiply, output, skip, store=0):
    """Duration of a matrix product, in the unit of its stage times.

    Parameters
    ----------
    columns, k_tiles : int
        Weight tiles along n and along k.
    depth : int
        Raw buffers and tile buffers, each (2: double buffering).
    dma, unpack, multiply : int
        Time per weight tile of each stage.
    output : int
        Time to convert and store the outputs of one column.
    skip : int
        0: walk every tile; 1: add repeating stretches at once (same result).
    store : int
        What HMX needs at the end of a column before its outputs can be read (stores that no product hides).

    Returns
    -------
    int
        End of the last output, from an idle start.
    """
    state = np.zeros(RINGS + 2 * depth, np.int64)
    before, column = state.copy(), state.copy()
    c = 0
    while c < columns:
        column[:] = state
        walk_column(state, before, k_tiles, depth, dma, unpack, multiply, output, skip, store)
        c += 1
        if skip and c < columns and moved_alike(column, state):
            state += (state[0] - column[0]) * (columns - c)
            c = columns
    return state[HVX_FREE]


@callee
def rows_in_vtcm(vtcm_bytes, k_padded, depth, row_tile=TILE, column_tile=TILE, depth_tile=TILE):
    """Activation rows (FP16, whole row tiles) that fit beside weight buffers and two output tiles per row tile.

    0 when not even one row tile fits.
    """
    buffers = 2 * depth * 2 * column_tile * depth_tile
    per_row_tile = row_tile * 2 * k_padded + 2 * 2 * row_tile * column_tile
    return max(0, vtcm_bytes - buffers) // per_row_tile * row_tile
