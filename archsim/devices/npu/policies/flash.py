"""Attention: on vector threads, or in blocks on HMX (FlashAttention).

Blocks of query rows and keys stay in VTCM. Per pair of blocks HMX computes scores and weighted values of whole tiles
(masked pairs are computed too), HVX the softmax; with at least three key blocks the two overlap. The mask (FP16, one
value per query and key) is read by each head from DRAM through one thread's vector loads (assumed: with it the
fall of long prompts on v81 follows); keys and values come by DMA
once per block of queries.

Source: ggml-hexagon (from five query rows and head sizes of whole tiles on; three key blocks for the pipeline).
"""

from __future__ import annotations

from archsim.devices.npu.hmx import MILLI, products_milli, tiles
from archsim.devices.npu.hvx import vector_attention, weight_vectors
from archsim.devices.npu.numbers import (
    GGML_HMX,
    HMX_FP16,
    HVX_FP16,
    STATIC_GRAPH,
    VTCM_READ,
    VTCM_WRITE,
    context_fs,
    milli_fs,
)
from archsim.jit import callee

#: Key rows of a block, and key blocks from which the pipeline starts.
KEYS_PER_BLOCK = 64
PIPELINED_BLOCKS = 3


@callee
def on_matrix_unit(ops, i, c, policy):
    """Whether attention runs on HMX."""
    allowed = policy in (STATIC_GRAPH, GGML_HMX)
    return allowed and ops.m[i] >= c.hmx_attention_rows and ops.head_dim[i] % c.tile_depth == 0


@callee
def flash_blocks(ops, i, c):
    """How many blocks of query rows one head takes, as many rows in a block as VTCM holds; 0: not one row tile fits."""
    keys = KEYS_PER_BLOCK
    # per query row: query and output (FP16, FP32), scores of two key blocks; keys and values twice
    per_row = 6 * ops.head_dim[i] + 4 * keys
    left = c.vtcm_bytes - 2 * 2 * 2 * keys * ops.head_dim[i]
    row_tiles = max(left, 0) // per_row // c.tile_rows
    return 0 if row_tiles == 0 else -(-tiles(ops.m[i], c.tile_rows) // row_tiles)


@callee
def kv_unpack(ops, i, c, policy, factor):
    """Context cycles (thousandths) to make FP16 of the quantised keys and values of operator i, once."""
    per_vector = c.graph_unpack if policy == STATIC_GRAPH else c.unpack
    return weight_vectors(ops.head_dim[i], 2 * ops.kv_heads[i] * (ops.kv[i] + ops.m[i])) * per_vector * factor // 1000


@callee
def attention_work(ops, i, c, policy, factor, counts):
    """Attention of operator i; `factor` is the cost of unpacking its keys and values (thousandths of Q4_0, 0: floats).

    Returns
    -------
    tuple of int
        Duration on chip (fs), context cycles (thousandths), how often keys and values are read (0: a block does not fit
        in VTCM), and bytes of masks.
    """
    if not on_matrix_unit(ops, i, c, policy):
        pairs = ops.macs[i] // (2 * ops.head_dim[i])
        counts[i, HVX_FP16] = ops.macs[i]
        counts[i, VTCM_READ] = ops.kv_bytes[i] + 2 * pairs
        counts[i, VTCM_WRITE] = ops.kv_bytes[i] + 2 * pairs
        vector = vector_attention(ops.macs[i], pairs, c.fp16_mac, c.softmax) + kv_unpack(ops, i, c, policy, factor)
        return context_fs(c, vector), vector, 1, 0
    keys = ops.kv[i] + ops.m[i]
    row_tiles, key_tiles = tiles(ops.m[i], c.tile_rows), tiles(keys, c.tile_columns)
    depth_tiles = ops.head_dim[i] // c.tile_depth
    products = 2 * ops.heads[i] * row_tiles * key_tiles * depth_tiles
    counts[i, HMX_FP16] = products * c.tile_rows * c.tile_columns * c.tile_depth
    counts[i, VTCM_READ] = 2 * products * 2 * c.tile_rows * c.tile_columns
    scores = ops.heads[i] * row_tiles * key_tiles * c.tile_rows * c.tile_columns
    counts[i, VTCM_WRITE] = 2 * scores + ops.kv_bytes[i]
    milli = products_milli(ops.heads[i] * row_tiles, key_tiles, 1, c.hmx_units, 2 * depth_tiles * c.tile_fp16 * MILLI)
    matrix = milli_fs(milli, c.hmx_khz) + c.wake_ps * MILLI
    blocks = 1 if policy == STATIC_GRAPH else flash_blocks(ops, i, c)
    vector = vector_attention(0, scores, c.fp16_mac, c.softmax) + blocks * kv_unpack(ops, i, c, policy, factor)
    softmax = context_fs(c, vector)
    if policy == STATIC_GRAPH:
        return matrix + softmax, vector, 1, 0
    mask = 2 * ops.heads[i] * ops.m[i] * keys
    if -(-keys // KEYS_PER_BLOCK) < PIPELINED_BLOCKS:
        return matrix + softmax, vector, blocks, mask
    return max(matrix, softmax) + min(matrix, softmax) * KEYS_PER_BLOCK // keys, vector, blocks, mask
