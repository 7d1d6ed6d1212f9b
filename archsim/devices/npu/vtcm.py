"""VTCM: areas in local memory, and the tiling that fits.

An allocation takes areas from the bottom, each a multiple of 2,048 bytes (one FP16 tile, the burst of HMX); what
does not fit is an error with a name, never an overlap.

The tiling of a product [m, k] x [k, n] on HMX keeps mc rows of activations and nc columns of weights. Per column: the
packed weights (twice when pipelined) and the unpacked ones (twice when pipelined), 2 k bytes each; per row 2 k bytes;
per output element 2 bytes (twice when pipelined); and a fixed block for column scales. Among what fits, the search
takes the least ``ceil(m / mc) n 3 + ceil(n / nc) m 2``: unpacking a weight costs 3 where converting an activation
costs 2 (ggml-hexagon, matmul-ops).
"""

from __future__ import annotations

from archsim.jit import callee

ALIGN = 2048
DEQUANTISE_COST, CONVERT_COST = 3, 2


class VtcmOverflowError(ValueError):
    """An allocation that local memory does not hold."""


@callee
def aligned(nbytes):
    """Size of an area, rounded up."""
    return -(-nbytes // ALIGN) * ALIGN


@callee
def footprint(mc, nc, k_padded, packed_column, buffers):
    """Bytes of the areas of one chunk: activations, packed and unpacked weights, outputs, column scales."""
    weights = aligned(buffers * nc * packed_column) + aligned(buffers * nc * 2 * k_padded)
    return aligned(mc * 2 * k_padded) + weights + aligned(buffers * mc * nc * 2) + ALIGN


@callee
def tiling(m_padded, n_padded, k_padded, row_tile, column_tile, packed_column, buffers, vtcm_bytes, least_chunks=1):
    """Rows and columns of a chunk: the least cost that fits, with at least `least_chunks` chunks of columns.

    Ties go to more columns. (0, 0) when nothing fits.
    """
    best, mc, nc = 1 << 62, 0, 0
    per_column = buffers * (packed_column + 2 * k_padded)
    columns = column_tile
    widest = max(-(-n_padded // least_chunks), column_tile)
    while columns <= widest:
        left = vtcm_bytes - columns * per_column
        rows = min(max(left, 0) // (2 * k_padded + 2 * buffers * columns) // row_tile * row_tile, m_padded)
        while rows > 0 and footprint(rows, columns, k_padded, packed_column, buffers) > vtcm_bytes:
            rows -= row_tile  # alignment of the areas
        if rows <= 0:
            break
        cost = -(-m_padded // rows) * n_padded * DEQUANTISE_COST + -(-n_padded // columns) * m_padded * CONVERT_COST
        if cost <= best:
            best, mc, nc = cost, rows, columns
        columns += column_tile
    return mc, nc
