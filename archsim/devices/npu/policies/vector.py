"""Policies ``gemv`` and ``ggml_hvx``: matrix products on vector threads.

``gemv`` takes rows one by one, each with the whole weight stream. ``ggml_hvx`` streams the weights once; for each group
of weight rows all activation rows are taken in passes of ``pass_rows``, and each pass unpacks the group again (unpacked
tiles of a pass stay in VTCM, those of all passes would not). Activations are FP32 in DRAM and go through the vector
load path of all threads (quantising 1 MiB takes 42-56 us, llama.cpp #18139).
"""

from __future__ import annotations

from archsim.devices.npu.dma import descriptors, transfer_fs
from archsim.devices.npu.hvx import batch_port, gemv_port, spilled_bytes, vector_batch, vector_gemv
from archsim.devices.npu.numbers import (
    GEMV,
    HVX_FP16,
    HVX_INT8,
    VTCM_READ,
    VTCM_WRITE,
    context_fs,
    milli_fs,
)
from archsim.jit import callee

#: Rows that share one read of an activation-sized register block in HVX kernels (assumed register blocking).
ROW_REUSE = 4


@callee
def vector_work(op, c, policy, factor, float_weights):
    """Rows, context cycles (thousandths), duration on chip (fs), and how often the weights are streamed."""
    k, n = op.k, op.n
    mac = c.fp16_mac if float_weights else c.mac
    if policy == GEMV:
        rows = op.m
        cycles = vector_gemv(rows, k, n, (c.one_row - c.mac) * factor // 1000 + mac)
        return rows, cycles, max(context_fs(c, cycles), milli_fs(gemv_port(rows, k, n, c.ports), c.khz)), rows
    rows = -(-op.m // c.row_multiple) * c.row_multiple
    cycles = vector_batch(rows, k, n, c.pass_rows, c.unpack * factor // 1000, mac)
    port = batch_port(rows, k, n, c.pass_rows, c.ports)
    return rows, cycles, max(context_fs(c, cycles), milli_fs(port, c.khz)), 1


@callee
def vector_walk(op, c, busy_fs, streams, rate):
    """Duration (fs) at a DMA rate: contexts work on one group of rows while DMA brings the next."""
    row_bytes = -(-op.weight_bytes // op.n)
    group = c.contexts * c.row_group
    pieces = -(-op.n // group) * descriptors(group, row_bytes, c.dma_limit)
    return max(busy_fs, transfer_fs(streams * op.weight_bytes, streams * pieces, c, rate))


@callee
def vector_counts(op, c, policy, rows, streams, float_weights, counts):
    """Count multiply-accumulates and VTCM traffic of an operator."""
    k, n = op.k, op.n
    macs = rows * k * n
    counts[HVX_FP16 if float_weights else HVX_INT8] = macs
    unpacked = 0 if policy == GEMV else -(-rows // c.pass_rows) * k * n
    counts[VTCM_READ] = streams * op.weight_bytes + unpacked + -(-macs // ROW_REUSE)
    counts[VTCM_WRITE] = streams * op.weight_bytes + unpacked + op.in_bytes


@callee
def vector_spill(op, c, rows):
    """Bytes of activations that a batch fetches again."""
    return spilled_bytes(rows, op.k, op.n, c.activation_bytes, c.contexts * c.row_group)
