"""Kernel policies: how the NPU runs an operator, and what that costs.

``gemv``
    Rows one by one. Weights by DMA, unpacked and multiplied by HVX in registers. A call per operator.
``ggml_hvx``
    Rows in passes of at most 32 on HVX: each pass streams and unpacks every weight once. A call per operator.
``static_graph``
    Fixed shapes: rows padded to the graph's, no call, activations resident in VTCM, weights with one scale per
    tensor (cheaper to unpack), matrix products and attention on HMX by the tile walk.

The bytes of a row are its DRAM traffic; under the first two policies activations go through DRAM and pass one
thread's vector load path (open implementations load and store them with one thread), under ``static_graph`` they
stay in VTCM while they fit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from archsim.device import DType, OpKind
from archsim.devices.npu.hmx import MILLI, TILE, TILE_FP16_BYTES, TILE_MACS, rows_in_vtcm, tile_walk, tiles
from archsim.devices.npu.hvx import WEIGHTS_PER_VECTOR, vector_attention, vector_batch, vector_elements, vector_gemv
from archsim.lowering import (
    ITEMS,
    LEAD_PS,
    PAGE_BYTES,
    PLAN_COLUMNS,
    READ_BYTES,
    STREAM,
    TIME_PS,
    UNIT,
    WEIGHT,
    WRITE_BYTES,
    bytes_to_ps,
    count_traffic,
    cycles_to_ps,
)

MATMUL, PROJECTION, ATTENTION = int(OpKind.MATMUL), int(OpKind.PROJECTION), int(OpKind.ATTENTION)
NORM, ROPE, KV_WRITE = int(OpKind.NORM), int(OpKind.ROPE), int(OpKind.KV_WRITE)
INT8 = int(DType.INT8)

#: Policies in the order of their codes.
POLICIES: tuple[str, ...] = ("gemv", "ggml_hvx", "static_graph")
GEMV, GGML_HVX, STATIC_GRAPH = range(3)

#: Own actions in the order of the count columns; DRAM's four follow.
ACTIONS: tuple[str, ...] = (
    *("hmx_mac_fp16", "hmx_mac_int8", "hvx_mac_int8", "hvx_mac_fp16", "hvx_cycle"),
    *("vtcm_read_bytes", "vtcm_write_bytes", "dma_bytes", "dispatch"),
)
HMX_FP16, HMX_INT8, HVX_INT8, HVX_FP16, HVX_CYCLE, VTCM_READ, VTCM_WRITE, DMA, DISPATCH, DRAM = range(10)

#: Rows that share one read of an activation-sized register block in HVX kernels (assumed register blocking).
ROW_REUSE = 4


class NpuNumbers(NamedTuple):
    """An NPU's spec as integers: ps, 1e6 bytes/s, kHz, thousandths of a (context) cycle."""

    khz: int
    contexts: int
    vtcm_bytes: int
    hmx_units: int
    depth: int
    tile_fp16: int
    tile_int8: int
    graph_output: int  # context cycles per element converted and stored
    dma_rate: int
    l2fetch_rate: int
    vector_rate: int
    dispatch_ps: int
    pass_rows: int
    row_multiple: int
    hmx_attention_rows: int
    one_row: int
    unpack: int
    mac: int
    graph_unpack: int
    fp16_mac: int
    softmax: int
    norm: int
    rope: int
    elementwise: int
    policy_one: int
    policy_many: int
    inflight: int
    unit: int
    stream: int


@njit(cache=True)
def context_ps(c, milli_cycles):
    """Duration of context cycles (thousandths) spread over all contexts, rounded up to a cycle and a ps."""
    return cycles_to_ps(-(-milli_cycles // (MILLI * c.contexts)), c.khz)


@njit(cache=True)
def graph_size(graph_rows, rows):
    """Rows of the smallest fixed shape that holds `rows`; `graph_rows` ascends."""
    for size in graph_rows:
        if size >= rows:
            return size
    return graph_rows[-1]


@njit(cache=True)
def graph_block(ops, i, c, factor, rows, counts):
    """One fixed shape of `rows` rows on HMX.

    Returns
    -------
    tuple of int
        Duration and HVX use in thousandths of a (context) cycle, and how often the weights are streamed;
        a stream count of 0 says that the activations do not fit in VTCM.
    """
    k, n = ops.k[i], ops.n[i]
    k_tiles, columns = tiles(k), tiles(n)
    fits = rows_in_vtcm(c.vtcm_bytes, k_tiles * TILE, c.depth)
    if fits == 0:
        return 0, 0, 0
    is_int8 = ops.adtype[i] == INT8
    tile_milli = (c.tile_int8 if is_int8 else c.tile_fp16) * MILLI
    # thousandths of a cycle for the bytes of one weight tile at the DMA's rate
    dma = -(-ops.weight_bytes[i] * c.khz // (k_tiles * columns * c.dma_rate))
    unpack_context = TILE * TILE // WEIGHTS_PER_VECTOR * c.graph_unpack * factor // MILLI
    total, vector, streams, left = 0, 0, 0, rows
    while left > 0:
        now = min(left, fits)
        multiply = -(-tiles(now) // c.hmx_units) * tile_milli
        output_context = now * TILE * c.graph_output
        unpack, output = -(-unpack_context // c.contexts), -(-output_context // c.contexts)
        total += tile_walk(columns, k_tiles, c.depth, dma, unpack, multiply, output, 1)
        vector += columns * (k_tiles * unpack_context + output_context)
        products = columns * k_tiles * tiles(now)
        counts[i, HMX_INT8 if is_int8 else HMX_FP16] += products * TILE_MACS
        counts[i, VTCM_READ] += (products + columns * k_tiles) * TILE_FP16_BYTES + ops.weight_bytes[i]
        counts[i, VTCM_WRITE] += (columns * (k_tiles + tiles(now))) * TILE_FP16_BYTES + ops.weight_bytes[i]
        streams += 1
        left -= now
    return total, vector, streams


@njit(cache=True)
def graph_matmul(ops, i, c, factor, graph_rows, counts):
    """Matrix product of a static graph: whole blocks of the largest shape, then the smallest that holds the rest."""
    largest = graph_rows[-1]
    whole, rest = ops.m[i] // largest, ops.m[i] % largest
    total, vector, streams = 0, 0, 0
    for _ in range(whole):
        t, v, s = graph_block(ops, i, c, factor, largest, counts)
        if s == 0:
            return -1, 0, 0
        total, vector, streams = total + t, vector + v, streams + s
    if rest > 0:
        t, v, s = graph_block(ops, i, c, factor, graph_size(graph_rows, rest), counts)
        if s == 0:
            return -1, 0, 0
        total, vector, streams = total + t, vector + v, streams + s
    return total, vector, streams


@njit(cache=True)
def hvx_matmul(ops, i, c, policy, factor, float_weights, counts):
    """Matrix product on HVX: context cycles (thousandths) and how often the weights are streamed."""
    rows = -(-ops.m[i] // c.row_multiple) * c.row_multiple if policy == GGML_HVX else ops.m[i]
    k, n = ops.k[i], ops.n[i]
    mac = c.fp16_mac if float_weights else c.mac
    if policy == GEMV:
        cycles = vector_gemv(rows, k, n, (c.one_row - c.mac) * factor // MILLI + mac)
        streams = rows
    else:
        cycles = vector_batch(rows, k, n, c.pass_rows, c.unpack * factor // MILLI, mac)
        streams = -(-rows // c.pass_rows)
    macs = rows * k * n
    counts[i, HVX_FP16 if float_weights else HVX_INT8] = macs
    unpacked = 0 if policy == GEMV else streams * k * n
    counts[i, VTCM_READ] = streams * ops.weight_bytes[i] + unpacked + -(-macs // ROW_REUSE)
    counts[i, VTCM_WRITE] = streams * ops.weight_bytes[i] + unpacked + ops.in_bytes[i]
    return cycles, streams


@njit(cache=True)
def attention_cycles(ops, i, c, policy, counts):
    """Attention: HMX cycles and HVX context cycles, both in thousandths."""
    head_dim = ops.head_dim[i]
    pairs = ops.macs[i] // (2 * head_dim)
    if policy == STATIC_GRAPH and ops.m[i] >= c.hmx_attention_rows and head_dim % TILE == 0:
        row_tiles, key_tiles = tiles(ops.m[i]), tiles(ops.kv[i] + ops.m[i])
        products = 2 * ops.heads[i] * row_tiles * key_tiles * (head_dim // TILE)
        counts[i, HMX_FP16] = products * TILE_MACS
        counts[i, VTCM_READ] = 2 * products * TILE_FP16_BYTES
        scores = ops.heads[i] * row_tiles * key_tiles * TILE * TILE
        counts[i, VTCM_WRITE] = 2 * scores + ops.kv_bytes[i]
        return products * c.tile_fp16 * MILLI, vector_attention(0, scores, c.fp16_mac, c.softmax)
    counts[i, HVX_FP16] = ops.macs[i]
    counts[i, VTCM_READ] = ops.kv_bytes[i] + 2 * pairs
    counts[i, VTCM_WRITE] = ops.kv_bytes[i] + 2 * pairs
    return 0, vector_attention(ops.macs[i], pairs, c.fp16_mac, c.softmax)


@njit(cache=True)
def light_cycles(ops, i, c):
    """Context cycles (thousandths) of norms, rotations, element-wise operators and KV writes."""
    per_vector = c.elementwise
    if ops.kind[i] == NORM:
        per_vector = c.norm
    elif ops.kind[i] == ROPE:
        per_vector = c.rope
    elif ops.kind[i] == KV_WRITE:
        return 0
    return vector_elements(ops.m[i] * ops.k[i], per_vector)


@njit(cache=True)
def plan_one(ops, i, c, factor, float_weights, graph_rows, plan, counts):
    """Plan operator i into ``plan[i]`` and ``counts[i]``; returns False when its activations do not fit in VTCM."""
    kind = ops.kind[i]
    policy = c.policy_one if ops.m[i] == 1 else c.policy_many
    resident = policy == STATIC_GRAPH and ops.in_bytes[i] + ops.out_bytes[i] <= c.vtcm_bytes
    read = 0 if resident else ops.in_bytes[i]
    write = 0 if resident else ops.out_bytes[i]
    serial_ps = bytes_to_ps(read + write, c.vector_rate)
    if kind in (MATMUL, PROJECTION):
        if policy == STATIC_GRAPH:
            cycles, vector, streams = graph_matmul(ops, i, c, factor, graph_rows, counts)
            if cycles < 0:
                return False
            busy_ps = cycles_to_ps(-(-cycles // MILLI), c.khz)
            serial_ps = 0
        else:
            vector, streams = hvx_matmul(ops, i, c, policy, factor, float_weights, counts)
            busy_ps = context_ps(c, vector)
        read += streams * ops.weight_bytes[i]
        move_ps = bytes_to_ps(streams * ops.weight_bytes[i], c.dma_rate)
    elif kind == ATTENTION:
        matrix, vector = attention_cycles(ops, i, c, policy, counts)
        busy_ps = cycles_to_ps(-(-matrix // MILLI), c.khz) + context_ps(c, vector)
        read += ops.kv_bytes[i]
        move_ps = bytes_to_ps(ops.kv_bytes[i], c.dma_rate)
    else:
        vector = light_cycles(ops, i, c)
        busy_ps = context_ps(c, vector)
        if kind == KV_WRITE:
            write += ops.kv_bytes[i]
        else:
            read += ops.weight_bytes[i]
        move_ps, serial_ps = bytes_to_ps(read + write, c.l2fetch_rate), 0
    time_ps = max(busy_ps, move_ps) + serial_ps
    if policy != STATIC_GRAPH:
        plan[i, LEAD_PS] = c.dispatch_ps
        counts[i, DISPATCH] = 1
    plan[i, UNIT], plan[i, WEIGHT], plan[i, TIME_PS], plan[i, STREAM] = c.unit, c.inflight, time_ps, c.stream
    plan[i, READ_BYTES], plan[i, WRITE_BYTES] = read, write
    # contexts held on average: context time / duration, in 2**-20
    if time_ps > 0:
        context_time = cycles_to_ps(-(-vector // MILLI), c.khz)
        plan[i, ITEMS] = min((context_time << 10) // max(time_ps >> 10, 1), c.contexts << 20)
    counts[i, HVX_CYCLE] = -(-vector // MILLI)
    counts[i, DMA] = read + write
    count_traffic(counts, i, DRAM, read, write, PAGE_BYTES)
    return True


@njit(cache=True)
def plan_npu(ops, c, unpack_factor, float_weights, graph_rows):
    """Plan and counts of NPU operators.

    Parameters
    ----------
    ops : Ops
    c : NpuNumbers
    unpack_factor : int64[dtypes]
        Cost of unpacking a weight relative to Q4_0, in thousandths.
    float_weights : int64[dtypes]
        1 where weights are multiplied as FP16.
    graph_rows : int64[g]
        Fixed shapes of static graphs, ascending.

    Returns
    -------
    tuple
        plan int64[n, PLAN_COLUMNS], counts int64[n, len(ACTIONS) + 4], and the index of the first operator that
        does not fit (-1: none).
    """
    n = ops.kind.size
    plan = np.zeros((n, PLAN_COLUMNS), np.int64)
    counts = np.zeros((n, DRAM + 4), np.int64)
    for i in range(n):
        dtype = ops.wdtype[i]
        if not plan_one(ops, i, c, unpack_factor[dtype], float_weights[dtype], graph_rows, plan, counts):
            return plan, counts, i
    return plan, counts, -1
