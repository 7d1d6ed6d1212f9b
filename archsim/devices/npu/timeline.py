"""When each stage of an operator works, tile by tile where its kernel walks tiles.

:func:`stages` gives a table of (stage, start, end, tile). A kernel policy that walks tiles has a function in
:data:`POLICY_STAGES`, ``(npu, ops) -> StageTable or None``; it must end when the row that the device lowers ends. Where
there is none, or it has nothing to say about an operator (None), the stages come from the row's own duration and
counts, one slice each: activations in, then DMA beside matrix unit and vector threads, then results out.

Times are thousandths of a cycle of the NPU's clock from the end of the call (a row's lead), which is no stage.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numba import njit

from archsim.device import DType, OpKind, Ops, Rows
from archsim.devices.npu import UNPACK, Npu
from archsim.devices.npu.draft import policy_of
from archsim.devices.npu.hmx import DMA_END, HVX_FREE, MILLI, RINGS, output_tile, step, tiles
from archsim.devices.npu.hvx import WEIGHTS_PER_VECTOR, weight_vectors
from archsim.devices.npu.numbers import (
    GEMV,
    GGML_HMX,
    GGML_HVX,
    SEQUENTIAL,
    STATIC_GRAPH,
    bytes_fs,
    context_fs,
    milli_fs,
)
from archsim.devices.npu.policies.chunks import chunk_walk, chunked
from archsim.devices.npu.policies.graph import graph_fits, tile_shape
from archsim.lowering import operator
from archsim.units import WORK_BITS, InputError

#: ``activation``: activations through the vector path; ``hvx``: products and element-wise work on vector threads.
STAGES = ("dma", "dequant", "activation", "hmx", "hvx", "output", "flush")
DMA, DEQUANT, ACTIVATION, HMX, HVX, OUTPUT, FLUSH = range(len(STAGES))

#: Kinds whose activations pass the vector path before and after the work; others stream them.
HEAVY = (OpKind.MATMUL, OpKind.PROJECTION, OpKind.ATTENTION)
MAX_TILES = 1 << 22
PS_PER_S = 10**12


class StageTable(NamedTuple):
    """Slices of work: int64 columns of equal length, in the order of each stage.

    ``tile`` counts weight tiles (or columns of them) in the order of the walk; -1 where a slice is none.
    """

    stage: np.ndarray
    start_milli: np.ndarray
    end_milli: np.ndarray
    tile: np.ndarray


StageFunction = Callable[[Npu, Ops], "StageTable | None"]


def stages(npu: Npu, ops: Ops, rows: Rows, policy: str) -> StageTable:
    """Slices of one operator.

    Parameters
    ----------
    npu : Npu
        The device, bound.
    ops : Ops
        One operator.
    rows : Rows
        What ``npu.lower(ops)`` gave.
    policy : str
        Kernel policy that lowered it.

    Raises
    ------
    InputError
        When the walk has more than 2**22 tiles.
    """
    walk = POLICY_STAGES.get(policy)
    table = walk(npu, ops) if walk is not None else None
    return whole_slices(npu, ops, rows) if table is None else table


def duration_milli(npu: Npu, rows: Rows) -> int:
    """Duration of the rows without their leads, alone on the machine, in thousandths of a cycle, rounded down."""
    time_ps = sum(-(-work // cap) for work, cap in zip(rows.work.tolist(), rows.cap.tolist()))
    return time_ps * round(npu.spec.clock_hz) // (PS_PER_S // MILLI)


def counted(npu: Npu, rows: Rows, action: str) -> int:
    """How often the rows do one of the NPU's actions."""
    return int(rows.counts[:, rows.actions.index(f"{npu.name}.{action}")].sum())


def whole_slices(npu: Npu, ops: Ops, rows: Rows) -> StageTable:
    """One slice per stage from the rows' durations and counts."""
    spec, total = npu.spec, duration_milli(npu, rows)
    hmx = min(_hmx_milli(npu, rows), total)
    hvx = min(counted(npu, rows, "hvx_cycle") * MILLI // spec.hvx_contexts, total - hmx)
    first = 1 if _side_row(npu, ops, rows) else 0
    serial = duration_milli(npu, _from(rows, 0, first)) if first else 0
    policy = policy_of(operator(ops), npu.numbers)
    light = spec.l2fetch_all_bytes_per_s if policy in (STATIC_GRAPH, SEQUENTIAL) else spec.vector_all_bytes_per_s
    rate = spec.dma_bytes_per_s if ops.kind[0] in HEAVY else light
    flows = rows.pool[first:, 1] >= 0
    dma = min(_milli_of_bytes(npu, int((rows.work[first:][flows] >> WORK_BITS).sum()), rate), total - serial)
    around = int(ops.in_bytes[0]), int(ops.out_bytes[0])
    before = serial * around[0] // max(sum(around), 1)
    dequant, hvx = _unpack_share(npu, ops, rows, hvx)
    slices = [(ACTIVATION, 0, before), (DMA, before, before + dma)]
    at = before
    for stage, length in ((DEQUANT, dequant), (HMX, hmx), (HVX, hvx)):
        slices.append((stage, at, at + length))
        at += length
    slices.append((OUTPUT, total - (serial - before), total))
    kept = np.array([s for s in slices if s[2] > s[1]], np.int64).reshape(-1, 3)
    return StageTable(kept[:, 0], kept[:, 1], kept[:, 2], np.full(len(kept), -1, np.int64))


def _hmx_milli(npu: Npu, rows: Rows) -> int:
    """Time of the tile products that the rows count, spread over the matrix units."""
    spec, tile = npu.spec, npu.spec.tile_columns * npu.spec.tile_depth
    cycles = counted(npu, rows, "hmx_mac_fp16") * spec.tile_cycles_fp16 // (tile * spec.tile_rows)
    cycles += counted(npu, rows, "hmx_mac_int8") * spec.tile_cycles_int8 // (tile * spec.tile_rows_int8)
    return round(cycles * MILLI / spec.hmx_units * spec.clock_hz / spec.hmx_hz)


def _side_row(npu: Npu, ops: Ops, rows: Rows) -> bool:
    """Whether the first row holds the activations that the vector path moves beside the walk."""
    policy = policy_of(operator(ops), npu.numbers)
    if ops.kind[0] == OpKind.ATTENTION:
        return policy != STATIC_GRAPH and rows.op.size > 1
    product = ops.kind[0] in (OpKind.MATMUL, OpKind.PROJECTION)
    return product and policy in (GEMV, GGML_HVX, SEQUENTIAL) and rows.op.size > 1


def _from(rows: Rows, first: int, last: int) -> Rows:
    """Rows `first` up to `last`."""
    return rows._replace(work=rows.work[first:last], cap=rows.cap[first:last])


def _unpack_share(npu: Npu, ops: Ops, rows: Rows, hvx: int) -> tuple[int, int]:
    """Vector time of a quantised product taken apart into unpacking and products."""
    products = counted(npu, rows, "hvx_mac_int8") + counted(npu, rows, "hvx_mac_fp16")
    if ops.kind[0] not in (OpKind.MATMUL, OpKind.PROJECTION) or not products:
        return 0, hvx
    spec = npu.spec
    mac = spec.mac_cycles if counted(npu, rows, "hvx_mac_int8") else spec.fp16_mac_cycles
    padded = products // int(ops.k[0] * ops.n[0])
    spent = round(int(weight_vectors(ops.k[0], ops.n[0])) * padded * mac * MILLI / spec.hvx_contexts)
    return max(hvx - spent, 0), min(spent, hvx)


def _milli_of_bytes(npu: Npu, nbytes: int, bytes_per_s: float) -> int:
    """Thousandths of a cycle for bytes at a rate, rounded up."""
    return -(-nbytes * round(npu.spec.clock_hz) * MILLI // round(bytes_per_s))


@njit(cache=True)
def walk_slices(columns, k_tiles, depth, dma, unpack, multiply, output, store, start, slices, at):
    """Log the tile walk of :func:`archsim.devices.npu.hmx.tile_walk` into ``slices[at:]``; returns its end.

    Rows of `slices` are (stage, start, end, tile), times from `start` on; three per tile and one per column.
    """
    state = np.zeros(RINGS + 2 * depth, np.int64)
    for c in range(columns):
        for t in range(k_tiles):
            step(state, depth, dma, unpack, multiply)
            ends = (state[DMA_END], state[RINGS + depth - 1], state[RINGS + 2 * depth - 1])
            for i in range(3):
                stage, length = (DMA, dma) if i == 0 else ((DEQUANT, unpack) if i == 1 else (HMX, multiply))
                slices[at, 0], slices[at, 3] = stage, c * k_tiles + t
                slices[at, 1], slices[at, 2] = start + ends[i] - length, start + ends[i]
                at += 1
        state[RINGS + 2 * depth - 1] += store
        done = max(state[HVX_FREE], state[RINGS + 2 * depth - 1])
        state[HVX_FREE] = done + output
        slices[at, 0], slices[at, 3] = OUTPUT, c * k_tiles + k_tiles - 1
        slices[at, 1], slices[at, 2] = start + done, start + done + output
        at += 1
    return start + state[HVX_FREE]


def graph_blocks(rows: int, graph_rows: tuple[int, ...], fits: int) -> list[int]:
    """Rows of the walks that a product of `rows` rows becomes: fixed shapes, cut to what fits in local memory."""
    largest = graph_rows[-1]
    shapes = [largest] * (rows // largest)
    if rows % largest:
        shapes.append(next(size for size in graph_rows if size >= rows % largest))
    walks = []
    for shape in shapes:
        walks += [fits] * (shape // fits) + ([shape % fits] if shape % fits else [])
    return walks


def static_graph(npu: Npu, ops: Ops) -> StageTable | None:
    """Tile walks of a static graph's matrix product, one after the other."""
    if ops.kind[0] not in (OpKind.MATMUL, OpKind.PROJECTION):
        return None
    c, (m, k, n) = npu.numbers, (int(ops.m[0]), int(ops.k[0]), int(ops.n[0]))
    row_tile, cycles, _ = tile_shape(operator(ops), c)
    k_tiles, columns = int(tiles(k, c.tile_depth)), int(tiles(n, c.tile_columns))
    walks = graph_blocks(m, npu.spec.graph_rows, int(graph_fits(operator(ops), c)))
    if columns * k_tiles * len(walks) > MAX_TILES:
        raise InputError(f"{m} x {k} x {n} is a walk of {columns * k_tiles * len(walks)} tiles; at most {MAX_TILES}")
    dma = bytes_fs(-(-int(ops.weight_bytes[0]) // (k_tiles * columns)), c.dma_rate)
    factor, vectors = (
        round(UNPACK[DType(int(ops.wdtype[0]))] * MILLI),
        c.tile_depth * c.tile_columns // WEIGHTS_PER_VECTOR,
    )
    unpack = context_fs(c, vectors * c.graph_unpack * factor // MILLI)
    whole = output_tile(k_tiles, cycles * MILLI, c.packet_tiles, c.packet, c.store, c.accumulators)
    slices = np.zeros((len(walks) * columns * (3 * k_tiles + 1), 4), np.int64)
    end, at = c.wake_ps * MILLI, 0
    for now in walks:
        each = -(-int(tiles(now, row_tile)) // c.hmx_units)
        multiply = milli_fs(each * cycles * MILLI, c.hmx_khz)
        store = milli_fs(each * max(whole - k_tiles * cycles * MILLI, 0), c.hmx_khz)
        output = context_fs(c, now * c.tile_columns * c.graph_output)
        sizes = (columns, k_tiles, c.depth, dma, unpack, multiply, output, store)
        end = int(walk_slices(*sizes, end, slices, at))
        at += columns * (3 * k_tiles + 1)
    slices[:, 1:3] = _milli_of_fs(npu, slices[:, 1:3])
    return StageTable(*(np.ascontiguousarray(slices[:, i]) for i in range(4)))


def chunks(npu: Npu, ops: Ops) -> StageTable | None:
    """What each stage of the chunked kernel works, one slice each; they overlap."""
    c, op = npu.numbers, operator(ops)
    if op.kind not in (OpKind.MATMUL, OpKind.PROJECTION) or policy_of(op, c) != GGML_HMX:
        return None
    factor = round(UNPACK[DType(int(ops.wdtype[0]))] * MILLI)
    walk = chunk_walk(op, c, chunked(op, c, factor), c.dma_rate)
    total, dma, dequant, activation, hmx, output = _milli_of_fs(npu, np.array(walk, np.int64)).tolist()
    ends = ((DMA, dma, dma), (DEQUANT, dequant, min(activation + dequant, total)), (ACTIVATION, activation, activation),
            (HMX, hmx, max(total - output, hmx)), (OUTPUT, output, total))  # fmt: skip
    columns = np.array([(stage, end - length, end) for stage, length, end in ends if length > 0], np.int64)
    return StageTable(columns[:, 0], columns[:, 1], columns[:, 2], np.full(len(columns), -1, np.int64))


def _milli_of_fs(npu: Npu, duration_fs: np.ndarray) -> np.ndarray:
    """Thousandths of a cycle of the vector clock, rounded down to a ps."""
    return duration_fs // MILLI * npu.numbers.khz // 10**6


#: Walks by kernel policy.
POLICY_STAGES: dict[str, StageFunction] = {"static_graph": static_graph, "ggml_hmx": chunks}


def busy_milli(table: StageTable) -> dict[str, int]:
    """Time in which each stage works (overlapping slices of a stage count once)."""
    found = dict.fromkeys(STAGES, 0)
    for code, name in enumerate(STAGES):
        mine = table.stage == code
        if mine.any():
            start, end = table.start_milli[mine], table.end_milli[mine]
            order = np.argsort(start, kind="stable")
            start, reach = start[order], np.maximum.accumulate(end[order])
            first = np.append(True, start[1:] > reach[:-1])
            at = np.flatnonzero(first)
            found[name] = int((np.append(reach[at[1:] - 1], reach[-1]) - start[at]).sum())
    return found
