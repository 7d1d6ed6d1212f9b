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
from archsim.devices.npu.hmx import (
    DMA_END,
    HVX_FREE,
    MILLI,
    RINGS,
    TILE,
    TILE_MACS,
    rows_in_vtcm,
    step,
    tiles,
)
from archsim.devices.npu.hvx import WEIGHTS_PER_VECTOR, weight_vectors
from archsim.units import InputError

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
    """One slice per stage from a row's duration and counts."""
    spec, total = npu.spec, duration_milli(npu, rows)
    products = counted(npu, rows, "hmx_mac_fp16") * spec.tile_cycles_fp16
    products += counted(npu, rows, "hmx_mac_int8") * spec.tile_cycles_int8
    hmx = min(products * MILLI // (TILE_MACS * spec.hmx_units), total)
    hvx = min(counted(npu, rows, "hvx_cycle") * MILLI // spec.hvx_contexts, total - hmx)
    through = counted(npu, rows, "dma_bytes")
    rate = spec.dma_bytes_per_s if ops.kind[0] in HEAVY else spec.l2fetch_bytes_per_s
    idle = total - max(hmx + hvx, _milli_of_bytes(npu, through, rate))
    around = _activation_bytes(ops, through, idle)
    dma = min(_milli_of_bytes(npu, through - sum(around), rate), total)
    serial = total - max(hmx + hvx, dma) if sum(around) else 0
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


def _activation_bytes(ops: Ops, through: int, idle: int) -> tuple[int, int]:
    """Activation bytes in and out that a product or attention moved by itself: both, or none where they stay local.

    What goes through DRAM is the weights or the KV rows a whole number of times, and the activations if they do. Where
    sizes leave both open, time left over tells: the vector path is slower than DMA.
    """
    held, read, written = int(ops.weight_bytes[0] + ops.kv_bytes[0]), int(ops.in_bytes[0]), int(ops.out_bytes[0])
    if ops.kind[0] not in HEAVY or (through - read - written) % held:
        return 0, 0
    return (read, written) if through % held or idle > 0 else (0, 0)


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
def walk_slices(columns, k_tiles, depth, dma, unpack, multiply, output, start, slices, at):
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
    spec, (m, k, n) = npu.spec, (int(ops.m[0]), int(ops.k[0]), int(ops.n[0]))
    k_tiles, columns = int(tiles(k)), int(tiles(n))
    fits = int(rows_in_vtcm(spec.vtcm_bytes, k_tiles * TILE, spec.tile_buffers))
    walks = graph_blocks(m, spec.graph_rows, fits)
    if columns * k_tiles * len(walks) > MAX_TILES:
        raise InputError(f"{m} x {k} x {n} is a walk of {columns * k_tiles * len(walks)} tiles; at most {MAX_TILES}")
    is_int8 = ops.adtype[0] == DType.INT8
    tile_milli = (spec.tile_cycles_int8 if is_int8 else spec.tile_cycles_fp16) * MILLI
    khz, rate = round(spec.clock_hz / 1e3), round(spec.dma_bytes_per_s / 1e6)
    dma = -(-int(ops.weight_bytes[0]) * khz // (k_tiles * columns * rate))
    factor, vectors = round(UNPACK[DType(int(ops.wdtype[0]))] * MILLI), TILE * TILE // WEIGHTS_PER_VECTOR
    unpack = -(-(vectors * round(spec.graph_unpack_cycles * MILLI) * factor // MILLI) // spec.hvx_contexts)
    slices = np.zeros((len(walks) * columns * (3 * k_tiles + 1), 4), np.int64)
    end, at = 0, 0
    for now in walks:
        multiply = -(-int(tiles(now)) // spec.hmx_units) * tile_milli
        output = -(-(now * TILE * round(spec.graph_output_cycles * MILLI)) // spec.hvx_contexts)
        sizes = (columns, k_tiles, spec.tile_buffers, dma, unpack, multiply, output)
        end = int(walk_slices(*sizes, end, slices, at))
        at += columns * (3 * k_tiles + 1)
    return StageTable(*(np.ascontiguousarray(slices[:, i]) for i in range(4)))


#: Walks by kernel policy.
POLICY_STAGES: dict[str, StageFunction] = {"static_graph": static_graph}


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
