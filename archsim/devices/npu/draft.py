"""Drafts of NPU operators: policy by policy a walk and its counts.

The walk of an operator runs at four shares of the DMA rate; :mod:`archsim.devices.npu.plan` makes rows of it.
Activations of the vector and sequential policies, and bytes a kernel fetches again, stand beside it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from archsim.device import DType
from archsim.devices.npu.chain import SHARES
from archsim.devices.npu.hvx import vector_elements
from archsim.devices.npu.numbers import (
    ATTENTION,
    DRAM,
    GEMV,
    GGML_HMX,
    GGML_HVX,
    KV_WRITE,
    MATMUL,
    NORM,
    PROJECTION,
    ROPE,
    SEQUENTIAL,
    STATIC_GRAPH,
    TABLE,
    TABLE_FAR,
    TABLE_NEAR,
    context_fs,
    fs_ps,
)
from archsim.devices.npu.policies.areas import area_chunks, area_counts, area_walk
from archsim.devices.npu.policies.chunks import chunk_context, chunk_counts, chunk_streams, chunk_walk, chunked
from archsim.devices.npu.policies.flash import attention_work
from archsim.devices.npu.policies.graph import graph_counts, graph_fits, graph_walk
from archsim.devices.npu.policies.measured import FAR, KNOWN, TABLE_ADDS, TABLE_BYTES, TABLE_PS
from archsim.devices.npu.policies.vector import vector_counts, vector_spill, vector_walk, vector_work
from archsim.jit import callee
from archsim.lowering import bytes_to_ps

FP16 = int(DType.FP16)
#: Why an operator was refused.
FITS, NO_ROOM, TOO_WIDE, NOT_MEASURED = range(4)
#: Columns of a draft: side bytes and time, streamed bytes, context cycles (thousandths), reads, writes, policy of a
#: product (-1: it is none), why it cannot run.
SIDE_BYTES, SIDE_PS, STREAMED, VECTOR, READS, WRITES, POLICY, WHY = range(8)


@callee
def policy_of(op, c):
    """Kernel policy of an operator: by its rows, and ``ggml_hmx`` falls back to ``ggml_hvx`` below its threshold."""
    policy = c.policy_one if op.m == 1 else c.policy_many
    is_product = op.kind == MATMUL or op.kind == PROJECTION
    if policy == GGML_HMX and is_product and op.m < c.hmx_rows:
        return GGML_HVX
    return policy


@callee
def plan_vector(op, c, policy, factor, floats, draft, times, counts):
    """Vector policies: walk at all shares, activations and spills beside it."""
    wide = 2 if op.adtype == FP16 else 1
    rows, cycles, busy, streams = vector_work(op, c, policy, factor, floats)
    for s in range(4):
        times[s] = fs_ps(vector_walk(op, c, busy, streams, c.dma_rate * SHARES[s][0] // SHARES[s][1]))
    spill = 0 if policy == GEMV else vector_spill(op, c, rows)
    read, write = wide * op.in_bytes, wide * op.out_bytes
    draft[STREAMED], draft[VECTOR] = streams * op.weight_bytes, cycles
    draft[SIDE_BYTES] = read + write + spill
    draft[SIDE_PS] = bytes_to_ps(read + write, c.vector_rate) + bytes_to_ps(spill, c.l2fetch_rate)
    draft[READS], draft[WRITES] = read + spill + draft[STREAMED], write
    vector_counts(op, c, policy, rows, streams, floats, counts)
    return FITS


@callee
def plan_graph(op, c, factor, graph_rows, draft, times, counts):
    """Static graph: inputs and outputs stay in VTCM when they fit, else they pass through DRAM beside the weights."""
    fits = graph_fits(op, c)
    if fits == 0:
        return NO_ROOM
    streams = 0
    for s in range(4):
        rate = c.dma_rate * SHARES[s][0] // SHARES[s][1]
        total, draft[VECTOR], streams = graph_walk(op, c, factor, graph_rows, fits, rate)
        times[s] = fs_ps(total)
    if op.in_bytes + op.out_bytes > c.vtcm_bytes:
        # activations share the DMA with the weights and overlap the walk; they bind when they are the longer
        draft[READS], draft[WRITES] = op.in_bytes, op.out_bytes
    draft[STREAMED] = streams * op.weight_bytes + draft[READS] + draft[WRITES]
    for s in range(4):
        times[s] = max(times[s], bytes_to_ps(draft[STREAMED], c.dma_rate * SHARES[s][0] // SHARES[s][1]))
    draft[READS] += streams * op.weight_bytes
    graph_counts(op, c, graph_rows, streams, fits, counts)
    return FITS


@callee
def plan_chunks(op, c, factor, draft, times, counts):
    """Chunked HMX kernel: everything that moves is in the walk."""
    if op.n > c.projection_limit:
        return TOO_WIDE
    t = chunked(op, c, factor)
    if t.mc == 0:
        return NO_ROOM
    for s in range(4):
        times[s] = fs_ps(chunk_walk(op, c, t, c.dma_rate * SHARES[s][0] // SHARES[s][1]).duration)
    streams = chunk_streams(op, t)
    draft[READS], draft[WRITES] = streams * op.weight_bytes + 4 * op.m * op.k, 4 * op.m * op.n
    draft[STREAMED] = draft[READS] + draft[WRITES]
    draft[VECTOR] = chunk_context(op, c, t)
    chunk_counts(op, c, t, counts)
    return FITS


@callee
def plan_areas(op, c, factor, draft, times, counts):
    """Sequential kernel: activations by one thread beside the walk of the weights."""
    row_chunks, chunks = area_chunks(op, c)
    if chunks == 0:
        return NO_ROOM
    for s in range(4):
        rate = c.dma_rate * SHARES[s][0] // SHARES[s][1]
        total, draft[VECTOR] = area_walk(op, c, factor, row_chunks, chunks, rate)
        times[s] = fs_ps(total)
    draft[STREAMED] = row_chunks * op.weight_bytes
    draft[SIDE_BYTES] = op.in_bytes + op.out_bytes
    draft[SIDE_PS] = bytes_to_ps(draft[SIDE_BYTES], c.vector_one_rate)
    draft[READS], draft[WRITES] = draft[STREAMED] + op.in_bytes, op.out_bytes
    area_counts(op, c, row_chunks, counts)
    return FITS


@callee
def plan_table(c, entry, draft, times, counts):
    """Measured operator: its cycles, and its bytes beside or after them."""
    if entry[KNOWN] == 0:
        return NOT_MEASURED
    draft[STREAMED] = draft[READS] = entry[TABLE_BYTES]
    for s in range(4):
        move = bytes_to_ps(draft[STREAMED], c.dma_rate * SHARES[s][0] // SHARES[s][1])
        times[s] = entry[TABLE_PS] + move if entry[TABLE_ADDS] else max(entry[TABLE_PS], move)
    counts[TABLE_FAR if entry[FAR] else TABLE_NEAR] = times[0] // 1000 * c.khz // 1_000_000
    return FITS


@callee
def plan_attention(op, c, policy, factor, resident, draft, times, counts):
    """Attention: keys and values by DMA beside the walk; the mask, and inputs and outputs, before it."""
    busy, draft[VECTOR], streams, mask = attention_work(op, c, policy, factor, counts)
    if streams == 0:
        return NO_ROOM
    draft[STREAMED] = streams * op.kv_bytes
    for s in range(4):
        times[s] = max(fs_ps(busy), bytes_to_ps(draft[STREAMED], c.dma_rate * SHARES[s][0] // SHARES[s][1]))
    if not resident:
        wide = 2 if op.adtype == FP16 and policy != SEQUENTIAL else 1
        read, write = wide * op.in_bytes, wide * op.out_bytes
        draft[SIDE_BYTES], draft[WRITES] = read + write + mask, write
        rate = c.vector_one_rate if policy == SEQUENTIAL else c.vector_rate
        draft[SIDE_PS] = bytes_to_ps(read + write, rate) + bytes_to_ps(mask, c.vector_one_rate)
    draft[READS] = draft[STREAMED] + draft[SIDE_BYTES] - draft[WRITES]
    return FITS


@callee
def plan_light(op, c, policy, resident, draft, times):
    """Norms, rotations, element-wise operators and KV writes: cycles against bytes through the vector threads."""
    kind = op.kind
    per_vector = c.norm if kind == NORM else c.rope if kind == ROPE else 0 if kind == KV_WRITE else c.elementwise
    draft[VECTOR] = vector_elements(op.m * op.k, per_vector)
    wide = 2 if op.adtype == FP16 and policy not in (STATIC_GRAPH, SEQUENTIAL) else 1
    if not resident:
        draft[READS], draft[WRITES] = wide * op.in_bytes, wide * op.out_bytes
    if kind == KV_WRITE:
        draft[WRITES] += op.kv_bytes
    else:
        draft[READS] += op.weight_bytes
    draft[STREAMED] = draft[READS] + draft[WRITES]
    rate = c.l2fetch_rate if policy in (STATIC_GRAPH, SEQUENTIAL) else c.vector_rate
    for s in range(4):
        slow = min(rate, c.dma_rate * SHARES[s][0] // SHARES[s][1])
        times[s] = max(fs_ps(context_fs(c, draft[VECTOR])), bytes_to_ps(draft[STREAMED], slow))
    return FITS


@njit(cache=True)
def draft_others(ops, c, unpack_factor, float_weights, drafts, times, counts):
    """Draft what is no matrix product, and note the policy of each product; returns the policies met, a bit each."""
    met = 0
    drafts[:, POLICY] = -1
    for i in range(ops.size):
        op = ops[i]
        policy = policy_of(op, c)
        resident = policy == STATIC_GRAPH and op.in_bytes + op.out_bytes <= c.vtcm_bytes
        if op.kind == MATMUL or op.kind == PROJECTION:
            drafts[i, POLICY] = policy
            met |= 1 << policy
        elif op.kind == ATTENTION:
            factor = 0 if float_weights[op.kvdtype] else unpack_factor[op.kvdtype]
            drafts[i, WHY] = plan_attention(op, c, policy, factor, resident, drafts[i], times[i], counts[i])
        else:
            drafts[i, WHY] = plan_light(op, c, policy, resident, drafts[i], times[i])
    return met


@njit(cache=True)
def draft_vectors(ops, c, unpack_factor, float_weights, drafts, times, counts):
    """Draft the products of the policies ``gemv`` and ``ggml_hvx``."""
    for i in range(ops.size):
        op, policy = ops[i], drafts[i, POLICY]
        if policy in (GEMV, GGML_HVX):
            factor, floats = unpack_factor[op.wdtype], float_weights[op.wdtype]
            drafts[i, WHY] = plan_vector(op, c, policy, factor, floats, drafts[i], times[i], counts[i])


@njit(cache=True)
def draft_chunks(ops, c, unpack_factor, drafts, times, counts):
    """Draft the products of the policy ``ggml_hmx``."""
    for i in range(ops.size):
        op = ops[i]
        if drafts[i, POLICY] == GGML_HMX:
            drafts[i, WHY] = plan_chunks(op, c, unpack_factor[op.wdtype], drafts[i], times[i], counts[i])


@njit(cache=True)
def draft_graphs(ops, c, unpack_factor, graph_rows, drafts, times, counts):
    """Draft the products of the policy ``static_graph``."""
    for i in range(ops.size):
        op = ops[i]
        if drafts[i, POLICY] == STATIC_GRAPH:
            drafts[i, WHY] = plan_graph(op, c, unpack_factor[op.wdtype], graph_rows, drafts[i], times[i], counts[i])


@njit(cache=True)
def draft_areas(ops, c, unpack_factor, drafts, times, counts):
    """Draft the products of the policy ``sequential``."""
    for i in range(ops.size):
        op = ops[i]
        if drafts[i, POLICY] == SEQUENTIAL:
            drafts[i, WHY] = plan_areas(op, c, unpack_factor[op.wdtype], drafts[i], times[i], counts[i])


@njit(cache=True)
def draft_tables(ops, c, table, drafts, times, counts):
    """Draft the products of the policy ``table``."""
    for i in range(ops.size):
        if drafts[i, POLICY] == TABLE:
            drafts[i, WHY] = plan_table(c, table[i], drafts[i], times[i], counts[i])


class Factors(NamedTuple):
    """Properties of weight types, by :class:`archsim.device.DType`: int64[dtypes] each.

    `unpack` is the cost of unpacking a weight relative to Q4_0, in thousandths; `floats` is 1 where weights are
    multiplied as FP16.
    """

    unpack: np.ndarray
    floats: np.ndarray


def draft_all(
    ops: np.ndarray, c: np.void, factors: Factors, graph_rows: np.ndarray, table: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draft operators, each by the kernel of its policy; a kernel is compiled when the first operator needs it.

    Parameters
    ----------
    ops : records[n]
        As :func:`archsim.lowering.records` gives them.
    c : record
        As :meth:`archsim.devices.npu.numbers.NpuNumbers.record` gives it.
    factors : Factors
    graph_rows : int64[g]
        Fixed shapes of static graphs, ascending.
    table : int64[n, 5]
        What was measured, by operator.

    Returns
    -------
    tuple
        Drafts int64[n, 8], durations at four shares of the DMA rate int64[n, 4], counts int64[n, len(ACTIONS) + 4].
    """
    n = ops.size
    drafts, times = np.zeros((n, 8), np.int64), np.zeros((n, 4), np.int64)
    counts = np.zeros((n, DRAM + 4), np.int64)
    made = (drafts, times, counts)
    met = draft_others(ops, c, factors.unpack, factors.floats, *made)
    if met & (1 << GEMV | 1 << GGML_HVX):
        draft_vectors(ops, c, factors.unpack, factors.floats, *made)
    if met & 1 << GGML_HMX:
        draft_chunks(ops, c, factors.unpack, *made)
    if met & 1 << STATIC_GRAPH:
        draft_graphs(ops, c, factors.unpack, graph_rows, *made)
    if met & 1 << SEQUENTIAL:
        draft_areas(ops, c, factors.unpack, *made)
    if met & 1 << TABLE:
        draft_tables(ops, c, table, *made)
    return made
