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
def on_matrix_unit(op, c, policy):
    """Whether attention runs on HMX."""
    allowed = policy in (STATIC_GRAPH, GGML_HMX)
    return allowed and op.m >= c.hmx_attention_rows and op.head_dim % c.tile_depth == 0


@callee
def flash_blocks(op, c):
    """How many blocks of query rows one head takes, as many rows in a block as VTCM holds; 0: not one row tile fits."""
    keys = KEYS_PER_BLOCK
    # per query row: query and output (FP16, FP32), scores of two key blocks; keys and values twice
    per_row = 6 * op.head_dim + 4 * keys
    left = c.vtcm_bytes - 2 * 2 * 2 * keys * op.head_dim
    row_tiles = max(left, 0) // per_row // c.tile_rows
    return 0 if row_tiles == 0 else -(-tiles(op.m, c.tile_rows) // row_tiles)


@callee
def kv_unpack(op, c, policy, factor):
    """Context cycles (thousandths) to make FP16 of the quantised keys and values of an operator, once."""
    per_vector = c.graph_unpack if policy == STATIC_GRAPH else c.unpack
    return weight_vectors(op.head_dim, 2 * op.kv_heads * (op.kv + op.m)) * per_vector * factor // 1000


@callee
def attention_work(op, c, policy, factor, counts):
    """Attention of an operator; `factor` is the cost of unpacking its keys and values (thousandths of Q4_0, 0: floats).

    Returns
    -------
    tuple of int
        Duration on chip (fs), context cycles (thousandths), how often keys and values are read (0: a block does not fit
        in VTCM), and bytes of masks.
    """
    if not on_matrix_unit(op, c, policy):
        pairs = op.macs // (2 * op.head_dim)
        counts[HVX_FP16] = op.macs
        counts[VTCM_READ] = op.kv_bytes + 2 * pairs
        counts[VTCM_WRITE] = op.kv_bytes + 2 * pairs
        vector = vector_attention(op.macs, pairs, c.fp16_mac, c.softmax) + kv_unpack(op, c, policy, factor)
        return context_fs(c, vector), vector, 1, 0
    keys = op.kv + op.m
    row_tiles, key_tiles = tiles(op.m, c.tile_rows), tiles(keys, c.tile_columns)
    depth_tiles = op.head_dim // c.tile_depth
    products = 2 * op.heads * row_tiles * key_tiles * depth_tiles
    counts[HMX_FP16] = products * c.tile_rows * c.tile_columns * c.tile_depth
    counts[VTCM_READ] = 2 * products * 2 * c.tile_rows * c.tile_columns
    scores = op.heads * row_tiles * key_tiles * c.tile_rows * c.tile_columns
    counts[VTCM_WRITE] = 2 * scores + op.kv_bytes
    milli = products_milli(op.heads * row_tiles, key_tiles, 1, c.hmx_units, 2 * depth_tiles * c.tile_fp16 * MILLI)
    matrix = milli_fs(milli, c.hmx_khz) + c.wake_ps * MILLI
    blocks = 1 if policy == STATIC_GRAPH else flash_blocks(op, c)
    vector = vector_attention(0, scores, c.fp16_mac, c.softmax) + blocks * kv_unpack(op, c, policy, factor)
    softmax = context_fs(c, vector)
    if policy == STATIC_GRAPH:
        return matrix + softmax, vector, 1, 0
    mask = 2 * op.heads * op.m * keys
    if -(-keys // KEYS_PER_BLOCK) < PIPELINED_BLOCKS:
        return matrix + softmax, vector, blocks, mask
    return max(matrix, softmax) + min(matrix, softmax) * KEYS_PER_BLOCK // keys, vector, blocks, mask
