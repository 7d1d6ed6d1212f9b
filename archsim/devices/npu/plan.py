"""Plans of NPU operators: policy by policy a walk, its rows, and its counts.

The walk of an operator runs at four shares of the DMA rate and becomes a chain of rows
(:mod:`archsim.devices.npu.chain`). Activations of the vector and sequential policies, and bytes a kernel fetches
again, are a row of their own before it: they are strict phases.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from archsim.device import DType
from archsim.devices.npu.chain import PHASES, SHARES, segments, share_counts, spread
from archsim.devices.npu.dispatch import flush_ps
from archsim.devices.npu.hvx import vector_elements
from archsim.devices.npu.numbers import (
    ATTENTION,
    DISPATCH,
    DMA,
    DRAM,
    GEMV,
    GGML_HMX,
    GGML_HVX,
    HVX_CYCLE,
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
    bytes_to_ps,
    count_traffic,
    cycles_to_ps,
)

FP16 = int(DType.FP16)
#: Bytes of one row: work is held in 2**-28 byte, so larger phases are cut into more rows.
MOST_BYTES = 1 << 33
#: Why an operator was refused.
FITS, NO_ROOM, TOO_WIDE, NOT_MEASURED = range(4)
#: Columns of a draft plan: side bytes and time, streamed bytes, context cycles (thousandths), reads, writes.
SIDE_BYTES, SIDE_PS, STREAMED, VECTOR, READS, WRITES = range(6)


@callee
def policy_of(ops, i, c):
    """Kernel policy of operator i: by its rows, and ``ggml_hmx`` falls back to ``ggml_hvx`` below its threshold."""
    policy = c.policy_one if ops.m[i] == 1 else c.policy_many
    is_product = ops.kind[i] == MATMUL or ops.kind[i] == PROJECTION
    if policy == GGML_HMX and is_product and ops.m[i] < c.hmx_rows:
        return GGML_HVX
    return policy


@callee
def plan_vector(ops, i, c, policy, factor, floats, draft, times, counts):
    """Vector policies: walk at all shares, activations and spills beside it."""
    wide = 2 if ops.adtype[i] == FP16 else 1
    rows, cycles, busy, streams = vector_work(ops, i, c, policy, factor, floats)
    for s in range(4):
        times[s] = fs_ps(vector_walk(ops, i, c, busy, streams, c.dma_rate * SHARES[s][0] // SHARES[s][1]))
    spill = 0 if policy == GEMV else vector_spill(ops, i, c, rows)
    read, write = wide * ops.in_bytes[i], wide * ops.out_bytes[i]
    draft[STREAMED], draft[VECTOR] = streams * ops.weight_bytes[i], cycles
    draft[SIDE_BYTES] = read + write + spill
    draft[SIDE_PS] = bytes_to_ps(read + write, c.vector_rate) + bytes_to_ps(spill, c.l2fetch_rate)
    draft[READS], draft[WRITES] = read + spill + draft[STREAMED], write
    vector_counts(ops, i, c, policy, rows, streams, floats, counts)
    return FITS


@callee
def plan_graph(ops, i, c, factor, graph_rows, draft, times, counts):
    """Static graph: inputs and outputs stay in VTCM when they fit, else they pass through DRAM beside the weights."""
    fits = graph_fits(ops, i, c)
    if fits == 0:
        return NO_ROOM
    streams = 0
    for s in range(4):
        rate = c.dma_rate * SHARES[s][0] // SHARES[s][1]
        total, draft[VECTOR], streams = graph_walk(ops, i, c, factor, graph_rows, fits, rate)
        times[s] = fs_ps(total)
    if ops.in_bytes[i] + ops.out_bytes[i] > c.vtcm_bytes:
        # activations share the DMA with the weights and overlap the walk; they bind when they are the longer
        draft[READS], draft[WRITES] = ops.in_bytes[i], ops.out_bytes[i]
    draft[STREAMED] = streams * ops.weight_bytes[i] + draft[READS] + draft[WRITES]
    for s in range(4):
        times[s] = max(times[s], bytes_to_ps(draft[STREAMED], c.dma_rate * SHARES[s][0] // SHARES[s][1]))
    draft[READS] += streams * ops.weight_bytes[i]
    graph_counts(ops, i, c, graph_rows, streams, fits, counts)
    return FITS


@callee
def plan_chunks(ops, i, c, factor, draft, times, counts):
    """Chunked HMX kernel: everything that moves is in the walk."""
    if ops.n[i] > c.projection_limit:
        return TOO_WIDE
    t = chunked(ops, i, c, factor)
    if t.mc == 0:
        return NO_ROOM
    for s in range(4):
        times[s] = fs_ps(chunk_walk(ops, i, c, t, c.dma_rate * SHARES[s][0] // SHARES[s][1]).duration)
    streams = chunk_streams(ops, i, t)
    draft[READS], draft[WRITES] = streams * ops.weight_bytes[i] + 4 * ops.m[i] * ops.k[i], 4 * ops.m[i] * ops.n[i]
    draft[STREAMED] = draft[READS] + draft[WRITES]
    draft[VECTOR] = chunk_context(ops, i, c, t)
    chunk_counts(ops, i, c, t, counts)
    return FITS


@callee
def plan_areas(ops, i, c, factor, draft, times, counts):
    """Sequential kernel: activations by one thread beside the walk of the weights."""
    row_chunks, chunks = area_chunks(ops, i, c)
    if chunks == 0:
        return NO_ROOM
    for s in range(4):
        rate = c.dma_rate * SHARES[s][0] // SHARES[s][1]
        total, draft[VECTOR] = area_walk(ops, i, c, factor, row_chunks, chunks, rate)
        times[s] = fs_ps(total)
    draft[STREAMED] = row_chunks * ops.weight_bytes[i]
    draft[SIDE_BYTES] = ops.in_bytes[i] + ops.out_bytes[i]
    draft[SIDE_PS] = bytes_to_ps(draft[SIDE_BYTES], c.vector_one_rate)
    draft[READS], draft[WRITES] = draft[STREAMED] + ops.in_bytes[i], ops.out_bytes[i]
    area_counts(ops, i, c, row_chunks, counts)
    return FITS


@callee
def plan_table(ops, i, c, entry, draft, times, counts):
    """Measured operator: its cycles, and its bytes beside or after them."""
    if entry[KNOWN] == 0:
        return NOT_MEASURED
    draft[STREAMED] = draft[READS] = entry[TABLE_BYTES]
    for s in range(4):
        move = bytes_to_ps(draft[STREAMED], c.dma_rate * SHARES[s][0] // SHARES[s][1])
        times[s] = entry[TABLE_PS] + move if entry[TABLE_ADDS] else max(entry[TABLE_PS], move)
    counts[i, TABLE_FAR if entry[FAR] else TABLE_NEAR] = times[0] // 1000 * c.khz // 1_000_000
    return FITS


@callee
def plan_attention(ops, i, c, policy, factor, resident, draft, times, counts):
    """Attention: keys and values by DMA beside the walk; the mask, and inputs and outputs, before it."""
    busy, draft[VECTOR], streams, mask = attention_work(ops, i, c, policy, factor, counts)
    if streams == 0:
        return NO_ROOM
    draft[STREAMED] = streams * ops.kv_bytes[i]
    for s in range(4):
        times[s] = max(fs_ps(busy), bytes_to_ps(draft[STREAMED], c.dma_rate * SHARES[s][0] // SHARES[s][1]))
    if not resident:
        wide = 2 if ops.adtype[i] == FP16 and policy != SEQUENTIAL else 1
        read, write = wide * ops.in_bytes[i], wide * ops.out_bytes[i]
        draft[SIDE_BYTES], draft[WRITES] = read + write + mask, write
        rate = c.vector_one_rate if policy == SEQUENTIAL else c.vector_rate
        draft[SIDE_PS] = bytes_to_ps(read + write, rate) + bytes_to_ps(mask, c.vector_one_rate)
    draft[READS] = draft[STREAMED] + draft[SIDE_BYTES] - draft[WRITES]
    return FITS


@callee
def plan_light(ops, i, c, policy, resident, draft, times):
    """Norms, rotations, element-wise operators and KV writes: cycles against bytes through the vector threads."""
    kind = ops.kind[i]
    per_vector = c.norm if kind == NORM else c.rope if kind == ROPE else 0 if kind == KV_WRITE else c.elementwise
    draft[VECTOR] = vector_elements(ops.m[i] * ops.k[i], per_vector)
    wide = 2 if ops.adtype[i] == FP16 and policy not in (STATIC_GRAPH, SEQUENTIAL) else 1
    if not resident:
        draft[READS], draft[WRITES] = wide * ops.in_bytes[i], wide * ops.out_bytes[i]
    if kind == KV_WRITE:
        draft[WRITES] += ops.kv_bytes[i]
    else:
        draft[READS] += ops.weight_bytes[i]
    draft[STREAMED] = draft[READS] + draft[WRITES]
    rate = c.l2fetch_rate if policy in (STATIC_GRAPH, SEQUENTIAL) else c.vector_rate
    for s in range(4):
        slow = min(rate, c.dma_rate * SHARES[s][0] // SHARES[s][1])
        times[s] = max(fs_ps(context_fs(c, draft[VECTOR])), bytes_to_ps(draft[STREAMED], slow))
    return FITS


@callee
def plan_one(ops, i, c, factor, floats, graph_rows, entry, draft, times, counts):
    """Plan operator i into `draft` and `times`; returns why it cannot run, or FITS."""
    kind, policy = ops.kind[i], policy_of(ops, i, c)
    resident = policy == STATIC_GRAPH and ops.in_bytes[i] + ops.out_bytes[i] <= c.vtcm_bytes
    if kind == ATTENTION:
        return plan_attention(ops, i, c, policy, 0 if floats else factor, resident, draft, times, counts)
    if kind != MATMUL and kind != PROJECTION:
        return plan_light(ops, i, c, policy, resident, draft, times)
    if policy == STATIC_GRAPH:
        return plan_graph(ops, i, c, factor, graph_rows, draft, times, counts)
    if policy == GGML_HMX:
        return plan_chunks(ops, i, c, factor, draft, times, counts)
    if policy == SEQUENTIAL:
        return plan_areas(ops, i, c, factor, draft, times, counts)
    if policy == TABLE:
        return plan_table(ops, i, c, entry, draft, times, counts)
    return plan_vector(ops, i, c, policy, factor, floats, draft, times, counts)


@callee
def call_of(ops, i, c, counts):
    """Latency of handing operator i over (ps); static graphs run without calls."""
    if policy_of(ops, i, c) == STATIC_GRAPH:
        return 0
    counts[i, DISPATCH] = 1
    if c.flush_ps == 0:
        return c.dispatch_ps
    return c.dispatch_ps + flush_ps(ops.out_bytes[i], c.flush_ps, c.flush_bytes)


@callee
def phases_of(c, draft, times, phase_bytes, phase_ps):
    """Phases of an operator in order: side traffic first, then the chain of the walk."""
    first = 0
    if draft[SIDE_PS] > 0:
        phase_bytes[0], phase_ps[0] = draft[SIDE_BYTES], draft[SIDE_PS]
        first = 1
    base = bytes_to_ps(draft[STREAMED], c.dma_rate)
    return first + segments(
        draft[STREAMED], base, times[0], times[1], times[2], times[3], phase_bytes[first:], phase_ps[first:]
    )


@callee
def fill(c, parts, leads, vectors, phases, all_bytes, all_ps, counts, plan, owner, counted):
    """Rows of all operators: their plan, the operator each belongs to, and its counts."""
    rows = plan.shape[0]
    out_bytes, out_ps, out_share = np.zeros(rows, np.int64), np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    first = 0
    for i in range(parts.size):
        last = spread(phases[i], all_bytes[i], all_ps[i], parts[i], out_bytes, out_ps, out_share, first)
        total, before = 0, 0
        for p in range(phases[i]):
            total += all_ps[i, p]
        items = 0
        if total > 0:  # contexts held on average, in 2**-20
            context_time = cycles_to_ps(-(-vectors[i] // 1000), c.khz)
            items = min((context_time << 10) // max(total >> 10, 1), c.contexts << 20)
        for row in range(first, last):
            owner[row] = i
            plan[row, UNIT], plan[row, WEIGHT], plan[row, STREAM] = c.unit, c.inflight, c.stream
            plan[row, TIME_PS], plan[row, READ_BYTES], plan[row, ITEMS] = out_ps[row], out_bytes[row], items
            share_counts(counts, i, before, out_share[row], counted, row)
            before = out_share[row]
        plan[first, LEAD_PS] = leads[i]
        first = last


@njit(cache=True)
def plan_npu(ops, c, unpack_factor, float_weights, graph_rows, table):
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
    table : int64[n, 5]
        What was measured, by operator.

    Returns
    -------
    tuple
        plan int64[rows, PLAN_COLUMNS], owner int64[rows] (operator of each row), counts int64[rows, len(ACTIONS) + 4],
        the index of the first operator that cannot run (-1: none) and why.
    """
    n = ops.kind.size
    counts = np.zeros((n, DRAM + 4), np.int64)
    all_bytes, all_ps = np.zeros((n, PHASES), np.int64), np.zeros((n, PHASES), np.int64)
    phases, leads, vectors = np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64)
    parts = np.zeros(n, np.int64)
    draft, times = np.zeros(6, np.int64), np.zeros(4, np.int64)
    rows = 0
    for i in range(n):
        draft[:] = 0
        dtype = ops.kvdtype[i] if ops.kind[i] == ATTENTION else ops.wdtype[i]
        entry, factor = table[i], unpack_factor[dtype]
        why = plan_one(ops, i, c, factor, float_weights[dtype], graph_rows, entry, draft, times, counts)
        if why != FITS:
            return np.zeros((0, PLAN_COLUMNS), np.int64), phases, counts, i, why
        leads[i] = call_of(ops, i, c, counts)
        phases[i] = phases_of(c, draft, times, all_bytes[i], all_ps[i])
        vectors[i] = draft[VECTOR]
        counts[i, HVX_CYCLE] = -(-draft[VECTOR] // 1000)
        counts[i, DMA] = draft[READS] + draft[WRITES]
        count_traffic(counts, i, DRAM, draft[READS], draft[WRITES], PAGE_BYTES)
        parts[i] = ops.parts[i] * (all_bytes[i].max() // (ops.parts[i] * MOST_BYTES) + 1)
        rows += phases[i] * parts[i]
    plan = np.zeros((rows, PLAN_COLUMNS), np.int64)
    owner, counted = np.zeros(rows, np.int64), np.zeros((rows, DRAM + 4), np.int64)
    fill(c, parts, leads, vectors, phases, all_bytes, all_ps, counts, plan, owner, counted)
    return plan, owner, counted, -1, FITS
