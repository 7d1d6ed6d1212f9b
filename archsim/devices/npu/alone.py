"""Operators alone on the devices of a machine: what kernel measurements report.

A measured kernel has the machine to itself. Its time is the sum of its rows' leads and flows, at the rates they were
planned for; :func:`at_share` gives the time when DRAM grants only a share of the DMA's rate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from archsim import registry
from archsim.config import load_config
from archsim.device import Binding, Device, DType, OpKind, Rows, dtype_bytes, make_ops
from archsim.devices.npu import Npu
from archsim.devices.npu.dma import descriptors, transfer_fs
from archsim.devices.npu.hmx import MILLI, output_tile, products_milli, tiles
from archsim.devices.npu.numbers import milli_fs
from archsim.devices.npu.policies.chunks import chunk_walk, chunked
from archsim.lowering import operator
from archsim.units import from_numbers

Entry = Mapping[str, int]
Entries = list[dict[str, int]]


class Shape(NamedTuple):
    """Shape of a decoder: layers, hidden width, query width, key/value width, feed-forward width, normed q and k."""

    layers: int
    hidden: int
    query: int
    key: int
    ffn: int
    normed: bool = False


#: Decoders of the published measurements (public configurations).
SHAPES: Mapping[str, Shape] = {
    "llama-3.1-8b": Shape(32, 4096, 4096, 1024, 14336),
    "llama-3.2-1b": Shape(16, 2048, 2048, 512, 8192),
    "llama2-7b": Shape(32, 4096, 4096, 4096, 11008),
    "qwen3-8b": Shape(36, 4096, 4096, 1024, 12288, normed=True),
    "qwen3-4b": Shape(36, 2560, 4096, 1024, 9728, normed=True),
}


def devices_of(system: str, *sets: str) -> dict[str, Device]:
    """Devices of a machine, bound among themselves. `sets` are paths as in ``--set``."""
    data = load_config("system", system, sets=sets).data["devices"]
    found: dict[str, Device] = {}
    for name, entry in data.items():
        kind = registry.get("device", entry["device"])
        found[name] = kind(name, from_numbers(kind.Spec, entry["spec"]))
    columns = (
        {item.name: i for i, item in enumerate(item for device in found.values() for item in getattr(device, what)())}
        for what in ("units", "pools", "stores")
    )
    binding = Binding(*columns)
    for device in found.values():
        device.bind(binding)
    return found


def changes_alone(op: str, spec: Any) -> dict[str, Any]:
    """Fields of a device's spec that change when an operator runs by itself.

    Softmax is a part of attention in a graph; alone it is an element-wise pass at softmax's cost.
    """
    return {"elementwise_cycles": spec.softmax_cycles} if op == "softmax" and hasattr(spec, "softmax_cycles") else {}


def matmul(
    m: int, k: int, n: int, dtype: DType = DType.Q4_0, adtype: DType = DType.FP16, kind: OpKind = OpKind.MATMUL
) -> dict[str, int]:
    """Product [m, k] x [k, n] with FP16-sized activations."""
    sizes = {"weight_bytes": n * dtype_bytes(dtype, k), "in_bytes": 2 * m * k, "out_bytes": 2 * m * n}
    return {"kind": kind, "m": m, "k": k, "n": n, "wdtype": dtype, "adtype": adtype, "macs": m * k * n, **sizes}


def matrices(shape: Shape, m: int, dtype: DType = DType.Q4_0, adtype: DType = DType.FP16) -> list[dict[str, int]]:
    """Matrix products of one layer on m rows."""
    h, q, kv, ffn = shape.hidden, shape.query, shape.key, shape.ffn
    pairs = ((h, q), (h, kv), (h, kv), (q, h), (h, ffn), (h, ffn), (ffn, h))
    return [matmul(m, k, n, dtype, adtype) for k, n in pairs]


def _light(kind: OpKind, m: int, width: int, inputs: int = 1) -> dict[str, int]:
    row = 2 * m * width
    return {"kind": kind, "m": m, "k": width, "in_bytes": inputs * row, "out_bytes": row, "adtype": DType.FP16}


def layer(shape: Shape, m: int, kv: int, dtype: DType = DType.Q4_0, adtype: DType = DType.FP16) -> Entries:
    """Operators of one layer on m rows after kv cached ones, products first."""
    heads = {"heads": shape.query // 128, "kv_heads": max(shape.key // 128, 1), "head_dim": 128, "adtype": DType.FP16}
    row, pairs = 4 * shape.key, m * kv + m * (m + 1) // 2
    attention = {"kind": OpKind.ATTENTION, "m": m, "k": shape.query, "kv": kv, "in_bytes": 2 * m * shape.query}
    attention |= {
        "out_bytes": 2 * m * shape.query,
        "kv_bytes": (m + kv) * row,
        "macs": 2 * pairs * shape.query,
        **heads,
    }
    write = {"kind": OpKind.KV_WRITE, "m": m, "k": 2 * shape.key, "in_bytes": m * row, "kv_bytes": m * row, **heads}
    both = shape.query + shape.key
    return [
        *matrices(shape, m, dtype, adtype),
        attention,
        *([_light(OpKind.NORM, m, shape.hidden)] * 2 + [_light(OpKind.NORM, m, both)] * shape.normed),
        _light(OpKind.ROPE, m, both),
        write,
        *([_light(OpKind.ELEMENTWISE, m, shape.hidden, 2)] * 2 + [_light(OpKind.ELEMENTWISE, m, shape.ffn, 2)]),
    ]


def row_ps(rows: Rows, share: float = 1.0, rate_fixed: int = 0) -> np.ndarray:
    """Lead and flow of each row, in ps; with `rate_fixed` (2**-28 byte per ps) bytes flow at most at `share` of it."""
    cap = rows.cap.astype(float)
    if rate_fixed:
        cap = np.where(rows.pool[:, 1] >= 0, np.minimum(cap, share * rate_fixed), cap)
    return rows.lead + np.ceil(rows.work / cap)


def times_us(device: Device, ops: Sequence[Entry]) -> np.ndarray:
    """Time of each operator alone, call included, in us."""
    rows = device.lower(make_ops(ops))
    return np.bincount(rows.op, row_ps(rows), len(ops)) / 1e6


def pass_ms(npu: Device, shape: Shape, m: int, kv: int = 0, **types: DType) -> float:
    """All layers of a pass of m rows after kv cached ones, in ms."""
    return float(times_us(npu, layer(shape, m, kv, **types)).sum()) * shape.layers / 1e3


def head_ms(cpu: Device, hidden: int, vocabulary: int, dtype: DType = DType.Q6_K) -> float:
    """Vocabulary projection of one row on the CPU, in ms."""
    return float(times_us(cpu, [matmul(1, hidden, vocabulary, dtype, kind=OpKind.PROJECTION)])[0]) / 1e3


def prefill_ms(devices: Mapping[str, Device], shape: Shape, tokens: int, vocabulary: int, batch: int = 512) -> float:
    """Prefill of `tokens` in batches of at most `batch` rows, the last row projected on the CPU, in ms."""
    layers = sum(pass_ms(devices["npu"], shape, min(batch, tokens - at), at) for at in range(0, tokens, batch))
    return layers + head_ms(devices["cpu"], shape.hidden, vocabulary)


def shares(npu: Npu, op: Entry) -> dict[str, float]:
    """Share of an operator's duration that each stage of the ``ggml_hmx`` kernel works; they overlap.

    Keys are dma, dequant, activation, hmx and output, and ``time_us``, the walk without the call.
    """
    one, numbers = operator(make_ops([op])), npu.numbers
    tiling = chunked(one, numbers, MILLI)
    walk = chunk_walk(one, numbers, tiling, numbers.dma_rate)
    names = ("dma", "dequant", "activation", "hmx", "output")
    return {"time_us": walk.duration / 1e9} | {name: work / walk.duration for name, work in zip(names, walk[1:])}


def product_gflop_s(npu: Npu, side: int, *, int8: bool = False) -> float:
    """Rate of a cube product on the matrix units with operands and results in local memory."""
    c = npu.numbers
    row_tile, cycles = (c.tile_rows_int8, c.tile_int8) if int8 else (c.tile_rows, c.tile_fp16)
    k_tiles, columns = tiles(side, c.tile_depth), tiles(side, c.tile_columns)
    tile = output_tile(k_tiles, cycles * MILLI, c.packet_tiles, c.packet, c.store, c.accumulators)
    milli = products_milli(tiles(side, row_tile), columns, k_tiles, c.hmx_units, tile)
    return 2e-9 * side**3 / (milli_fs(milli, c.hmx_khz) / 1e15)


def vector_gflop_s(npu: Npu) -> float:
    """FP16 multiply-add rate of one vector context."""
    return 2e-9 * 128 / npu.spec.fp16_mac_cycles * npu.spec.clock_hz


def path_gb_s(npu: Npu, path: str, threads: int) -> float:
    """Rate of a path into the NPU with some threads: ``dma``, ``l2fetch`` or ``vector``, in 1e9 bytes/s.

    DMA: 64 blocks of 1 MiB; the others by thread, up to what L2 can fill or the load ports reach.
    """
    spec, c = npu.spec, npu.numbers
    if path == "dma":
        size = 1 << 20
        pieces = 64 * descriptors(1, size, c.dma_limit)
        return 64 * size / (transfer_fs(64 * size, pieces, c, c.dma_rate) / 1e15) / 1e9
    one, most = (
        (spec.l2fetch_one_bytes_per_s, spec.l2fetch_bytes_per_s)
        if path == "l2fetch"
        else (spec.vector_load_bytes_per_s, spec.vector_load_limit_bytes_per_s)
    )
    return min(threads * one, most) / 1e9
