"""Kernels of the CPU: core cycles and bytes of operators.

A parallel job on ``threads`` cores is one machine whose clock is the sum of theirs: the runtime hands out chunks of
rows as threads become free, so faster cores take more. Cycles below are core cycles of that machine; they are held
in thousandths so that fractions stay integers.

MATMUL, PROJECTION
    per block of 32 weights: unpack (once, by weight type) + m rows of multiply-accumulate.
ATTENTION
    its MACs at the FP16 rate plus a softmax cost per (query, key, head), and unpacking of quantised keys and values.
NORM, ROPE, ELEMENTWISE, SAMPLE
    a cost per element; EMBED pays a DRAM latency per row; KV_WRITE, COPY are bytes; CONTROL is instructions.
    Logits that another device wrote are read past the caches.

Every operator takes the longer of its cycles and its bytes at the rate its cores can ask for. Activations count as
DRAM traffic: they are written by one device and read by another.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from archsim.device import OpKind
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
    WRITE_BYTES,
    bytes_to_ps,
    count_traffic,
    cycles_to_ps,
)

MATMUL, PROJECTION, ATTENTION = int(OpKind.MATMUL), int(OpKind.PROJECTION), int(OpKind.ATTENTION)
NORM, ROPE, ELEMENTWISE = int(OpKind.NORM), int(OpKind.ROPE), int(OpKind.ELEMENTWISE)
EMBED, SAMPLE, COPY = int(OpKind.EMBED), int(OpKind.SAMPLE), int(OpKind.COPY)
CONTROL, KV_WRITE = int(OpKind.CONTROL), int(OpKind.KV_WRITE)

#: Own actions in the order of the count columns; DRAM's four follow.
ACTIONS: tuple[str, ...] = (
    *("mac_int8", "mac_fp16", "prime_cycle", "performance_cycle", "efficiency_cycle"),
    "fabric_bytes",
)
FABRIC, DRAM = 5, 6


class CpuNumbers(NamedTuple):
    """A CPU's spec as integers: times in ps, rates in 1e6 bytes/s, clocks in kHz, cycles in thousandths."""

    sync_ps: int
    job_khz: int  # sum of the clocks of the job's cores
    job_cores: int
    single_khz: int  # clock of the core that runs single-threaded operators
    control_khz: int
    bandwidth: int  # all cores
    single_bandwidth: int
    copy_rate: int  # bytes copied, each read and written
    uncached_rate: int  # bytes that another device wrote, read past the caches
    random_row_ps: int
    instruction: int  # cycles per instruction of control code
    mac_block: int  # per block of 32 MACs
    attention_mac: int  # per MAC
    softmax: int  # per query, key and head
    norm: int
    rope: int
    elementwise: int
    sample: int
    inflight: int
    compute_unit: int
    control_unit: int
    copy_unit: int
    seq_stream: int
    random_stream: int
    copy_stream: int


@callee
def matmul_cycles(m, k, n, unpack_block, mac_block):
    """Core cycles of [m, k] x [k, n] with quantised weights, rounded up; costs in thousandths per block of 32."""
    blocks = -(-k // 32) * n
    return -(-blocks * (unpack_block + m * mac_block) // 1000)


@callee
def job_cycles(ops, i, c, unpack, float_macs):
    """Core cycles of a parallel operator, rounded up."""
    kind, elements = ops.kind[i], ops.m[i] * ops.k[i]
    if kind in (MATMUL, PROJECTION):
        mac = c.mac_block * (2 if float_macs[ops.wdtype[i]] else 1)
        return matmul_cycles(ops.m[i], ops.k[i], ops.n[i], unpack[ops.wdtype[i]], mac)
    if kind == ATTENTION:
        pairs = ops.macs[i] // (2 * ops.head_dim[i])  # (query, key) pairs, summed over heads
        blocks = 0  # of 32 quantised keys or values, unpacked once for all queries
        if float_macs[ops.kvdtype[i]] == 0:
            blocks = -(-2 * ops.kv_heads[i] * ops.head_dim[i] * (ops.kv[i] + ops.m[i]) // 32)
        return -(-(ops.macs[i] * c.attention_mac + pairs * c.softmax + blocks * unpack[ops.kvdtype[i]]) // 1000)
    if kind == NORM:
        return -(-elements * c.norm // 1000)
    if kind == ROPE:
        return -(-elements * c.rope // 1000)
    return -(-elements * c.elementwise // 1000)


@njit(cache=True)
def plan_cpu(ops, c, unpack, float_macs, job_class_khz):
    """Plan and counts of CPU operators.

    Parameters
    ----------
    ops : Ops
    c : CpuNumbers
    unpack : int64[dtypes]
        Thousandths of a core cycle to unpack 32 weights of each type.
    float_macs : int64[dtypes]
        1 where weights are multiplied as floats, at half the rate of INT8.
    job_class_khz : int64[9]
        Sum of clocks by class of core (prime, performance, efficiency): of a parallel job, of the
        single-threaded core, of the control core.

    Returns
    -------
    tuple
        plan int64[n, PLAN_COLUMNS] and counts int64[n, len(ACTIONS) + 4].
    """
    n = ops.kind.size
    plan = np.zeros((n, PLAN_COLUMNS), np.int64)
    counts = np.zeros((n, DRAM + 4), np.int64)
    for i in range(n):
        kind = ops.kind[i]
        read = ops.weight_bytes[i] + ops.in_bytes[i]
        write = ops.out_bytes[i]
        unit, stream, lead, cores, who = c.compute_unit, c.seq_stream, c.sync_ps, 1, 3
        if kind == CONTROL:
            read, write, unit, lead, who = 0, 0, c.control_unit, 0, 6
            time_ps = cycles_to_ps(-(-ops.n[i] * c.instruction // 1000), c.control_khz)
        elif kind == COPY:
            read, write, unit, stream, lead = ops.in_bytes[i], ops.in_bytes[i], c.copy_unit, c.copy_stream, 0
            time_ps = bytes_to_ps(read, c.copy_rate)
        elif kind == KV_WRITE:
            write = ops.kv_bytes[i]
            time_ps = bytes_to_ps(read + write, c.single_bandwidth)
        elif kind == EMBED:
            stream = c.random_stream
            time_ps = ops.m[i] * c.random_row_ps + bytes_to_ps(read + write, c.single_bandwidth)
        elif kind == SAMPLE:
            cycles = -(-ops.m[i] * ops.k[i] * c.sample // 1000)
            time_ps = max(cycles_to_ps(cycles, c.single_khz), bytes_to_ps(read + write, c.single_bandwidth))
            if ops.n[i] > 0:  # logits of another device
                time_ps = max(time_ps, bytes_to_ps(read, c.uncached_rate))
        else:
            if kind == ATTENTION:
                read += ops.kv_bytes[i]
                counts[i, 1] = ops.macs[i]
            elif kind in (MATMUL, PROJECTION):
                counts[i, 1 if float_macs[ops.wdtype[i]] else 0] = ops.macs[i]
            cores, who = c.job_cores, 0
            cycles = job_cycles(ops, i, c, unpack, float_macs)
            time_ps = max(cycles_to_ps(cycles, c.job_khz), bytes_to_ps(read + write, c.bandwidth))
        plan[i, UNIT], plan[i, WEIGHT], plan[i, LEAD_PS], plan[i, TIME_PS] = unit, c.inflight, lead, time_ps
        plan[i, READ_BYTES], plan[i, WRITE_BYTES] = read, write
        plan[i, ITEMS], plan[i, STREAM] = cores << 20, stream
        for a in range(3):  # whole ns x kHz = 1e-6 cycles: exact to a ns and free of overflow up to 400 s
            khz = job_class_khz[who + a]
            counts[i, 2 + a] = (lead + time_ps) // 1000 * khz // 1_000_000
        counts[i, FABRIC] = read + write
        count_traffic(counts, i, DRAM, read, write, PAGE_BYTES)
    return plan, counts
