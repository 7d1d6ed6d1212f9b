"""Operators that a workload asks a device for: kinds, storage types and one column per size.

One operator per entry; :class:`archsim.device.Rows` is what a device answers.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np


class OpKind(enum.IntEnum):
    """Operator kinds a device may declare in ``Device.ops``."""

    MATMUL = 0  # [m,k] x [k,n], weights are a model parameter
    ATTENTION = 1  # m query rows against kv cached rows plus the m rows themselves
    NORM = 2  # RMSNorm over m rows of k elements
    ROPE = 3  # rotary embedding on m rows of k elements
    ELEMENTWISE = 4  # activation (SwiGLU, ...) or residual add on m rows of k elements
    EMBED = 5  # gather m rows of k elements from the embedding table
    PROJECTION = 6  # output projection (lm_head): a matmul that schedules place on its own
    LOAD = 7  # read weight_bytes from flash into a DRAM buffer, in requests of n bytes
    COPY = 8  # move in_bytes within DRAM (KV compaction, merge, layout)
    SAMPLE = 9  # arg-max or top-k over m rows of k logits; n = 1 where another device wrote them
    CONTROL = 10  # n instructions of control logic
    KV_WRITE = 11  # append m rows of kv_bytes / m each to the KV store
    MAP = 12  # map in_bytes of buffers into an address window, in n calls
    BURST = 13  # one period of a background stream


#: What a model's layers and projection consist of, embedding and sampling apart: what an accelerator runs.
LAYER_OPS = frozenset(
    {
        *(OpKind.MATMUL, OpKind.PROJECTION, OpKind.ATTENTION),
        *(OpKind.NORM, OpKind.ROPE, OpKind.ELEMENTWISE, OpKind.KV_WRITE),
    }
)


class DType(enum.IntEnum):
    """Storage types; ``BLOCK[dtype] = (bytes, elements)`` of one quantisation block.

    Source of the block sizes: the ggml block structs (block_q4_0 18 B / 32, block_q4_1 20 B / 32,
    block_q6_K 210 B / 256, block_q8_0 34 B / 32, block_tq2_0 66 B / 256).
    """

    FP32 = 0
    FP16 = 1
    BF16 = 2
    INT8 = 3
    INT4 = 4
    Q4_0 = 5
    Q4_1 = 6
    Q6_K = 7
    Q8_0 = 8
    TQ2_0 = 9


BLOCK: Mapping[DType, tuple[int, int]] = {
    DType.FP32: (4, 1),
    DType.FP16: (2, 1),
    DType.BF16: (2, 1),
    DType.INT8: (1, 1),
    DType.INT4: (1, 2),
    DType.Q4_0: (18, 32),
    DType.Q4_1: (20, 32),
    DType.Q6_K: (210, 256),
    DType.Q8_0: (34, 32),
    DType.TQ2_0: (66, 256),
}


def dtype_bytes(dtype: DType | int, elements: int) -> int:
    """Bytes that `elements` values occupy in `dtype`, whole blocks only, rounded up."""
    size, count = BLOCK[DType(dtype)]
    return -(-int(elements) // count) * size


class Ops(NamedTuple):
    """Operators to lower: int64 columns of equal length n (one operator per entry).

    Sizes are elements unless the name says bytes. ``kv`` is the number of cached KV rows *before* the
    operator; an attention operator reads ``kv`` cached rows and its own ``m``.
    """

    kind: np.ndarray  # OpKind
    m: np.ndarray  # rows (tokens)
    k: np.ndarray  # inner dimension; row width of vector operators
    n: np.ndarray  # outer dimension; request bytes of LOAD; instructions of CONTROL
    kv: np.ndarray  # cached rows (attention)
    heads: np.ndarray  # query heads
    kv_heads: np.ndarray
    head_dim: np.ndarray
    wdtype: np.ndarray  # DType of the weights
    adtype: np.ndarray  # DType of the activations
    kvdtype: np.ndarray  # DType of the KV cache
    weight_bytes: np.ndarray  # bytes of weights touched once
    in_bytes: np.ndarray  # activation bytes read
    out_bytes: np.ndarray  # activation bytes written
    kv_bytes: np.ndarray  # KV bytes read (attention) or written (KV_WRITE)
    macs: np.ndarray  # exact multiply-accumulates, without padding
    parts: np.ndarray  # rows to split the operator into (1 = whole)


def make_ops(entries: Sequence[Mapping[str, int]]) -> Ops:
    """Build :class:`Ops` from dictionaries; a missing key is 0 (``parts``: 1), an unknown one raises."""
    known = set(Ops._fields)
    for entry in entries:
        unknown = set(entry) - known
        if unknown:
            raise KeyError(f"unknown operator column {sorted(unknown)[0]!r}; known: {', '.join(Ops._fields)}")
    columns = [
        np.array([int(entry.get(name, 1 if name == "parts" else 0)) for entry in entries], dtype=np.int64)
        for name in Ops._fields
    ]
    return Ops(*columns)
