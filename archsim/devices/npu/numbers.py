"""The NPU's spec as integers for the kernels, names of its actions, and time arithmetic.

Walks count in femtoseconds (1e-15 s), so that clocks of HVX and HMX and the DMA's rate need no common multiple; an
operator may last 9,000 s.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from archsim.device import DType, OpKind
from archsim.devices.npu.hmx import MILLI
from archsim.jit import callee, record_type

MATMUL, PROJECTION, ATTENTION = int(OpKind.MATMUL), int(OpKind.PROJECTION), int(OpKind.ATTENTION)
NORM, ROPE, KV_WRITE = int(OpKind.NORM), int(OpKind.ROPE), int(OpKind.KV_WRITE)
INT8, INT4 = int(DType.INT8), int(DType.INT4)

#: Policies in the order of their codes.
POLICIES: tuple[str, ...] = ("gemv", "ggml_hvx", "ggml_hmx", "static_graph", "sequential", "table")
GEMV, GGML_HVX, GGML_HMX, STATIC_GRAPH, SEQUENTIAL, TABLE = range(6)

#: Own actions in the order of the count columns; DRAM's four follow.
ACTIONS: tuple[str, ...] = (
    *("hmx_mac_fp16", "hmx_mac_int8", "hvx_mac_int8", "hvx_mac_fp16", "hvx_cycle"),
    *("vtcm_read_bytes", "vtcm_write_bytes", "dma_bytes", "dispatch", "table_cycle", "table_far_cycle"),
)
HMX_FP16, HMX_INT8, HVX_INT8, HVX_FP16, HVX_CYCLE, VTCM_READ, VTCM_WRITE, DMA, DISPATCH, TABLE_NEAR, TABLE_FAR = range(
    11
)
DRAM = 11

#: Paths by which a kernel loads: DMA into VTCM, l2fetch, plain vector loads of all threads.
PATHS: tuple[str, ...] = ("dma", "l2fetch", "vector")
BY_DMA = 0

#: Ways to hand an operator to the DSP.
CALLS: tuple[str, ...] = ("call", "queue", "rpc")


class NpuNumbers(NamedTuple):
    """An NPU's spec as integers: ps, 1e6 bytes/s, kHz, thousandths of a (context) cycle."""

    khz: int  # vector contexts
    hmx_khz: int
    contexts: int
    ports: int  # thousandths of a vector that VTCM delivers per cycle to all contexts
    vtcm_bytes: int
    activation_bytes: int  # on-chip area for a batch's quantised activations
    hmx_units: int
    depth: int
    tile_rows: int
    tile_rows_int8: int
    tile_columns: int
    tile_depth: int
    tile_fp16: int
    tile_int8: int
    tile_int4: int
    packet_tiles: int
    packet: int
    store: int
    accumulators: int
    wake_ps: int  # HMX: clock, power and lock, per operator
    graph_output: int  # context cycles per element converted and stored
    dma_rate: int
    l2fetch_rate: int
    vector_one_rate: int
    vector_rate: int
    dma_latency_ps: int
    dma_flight: int
    dma_limit: int
    dma_in_order: int
    dma_order_ps: int  # from one in-order descriptor's data to the next one's
    dispatch_ps: int
    flush_ps: int
    flush_bytes: int
    pass_rows: int
    row_multiple: int
    row_group: int
    hmx_attention_rows: int
    hmx_rows: int
    pipeline_rows: int
    pipeline_chunks: int
    weight_path: int
    activation_path: int
    projection_limit: int
    area_bytes: int
    one_row: int
    unpack: int
    mac: int
    graph_unpack: int
    tile_unpack: int
    convert: int
    output: int
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

    def record(self) -> np.void:
        """Numbers as one record, which a kernel takes as one argument."""
        return np.array([tuple(self)], record_type(self._fields))[0]


@callee
def milli_fs(milli_cycles, khz):
    """Thousandths of a cycle of a clock of `khz` in fs, rounded up."""
    return milli_cycles // khz * 1_000_000_000 + -(-(milli_cycles % khz) * 1_000_000_000 // khz)


@callee
def context_fs(c, milli_cycles):
    """Context cycles (thousandths) spread over all contexts, fs."""
    return milli_fs(-(-milli_cycles // c.contexts), c.khz)


@callee
def bytes_fs(nbytes, mb_per_s):
    """Duration of `nbytes` at `mb_per_s` (1e6 bytes/s), fs, rounded up."""
    return nbytes // mb_per_s * 1_000_000_000 + -(-(nbytes % mb_per_s) * 1_000_000_000 // mb_per_s)


@callee
def fs_ps(duration_fs):
    """Whole ps, rounded up."""
    return -(-duration_fs // MILLI)
