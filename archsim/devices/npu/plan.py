"""Plans of NPU operators: drafts become rows.

The walk of an operator runs at four shares of the DMA rate and becomes a chain of rows
(:mod:`archsim.devices.npu.chain`). Activations of the vector and sequential policies, and bytes a kernel fetches
again, are a row of their own before it: they are strict phases.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from archsim.devices.npu.chain import PHASES, segments, share_counts, spread
from archsim.devices.npu.dispatch import flush_ps
from archsim.devices.npu.draft import (
    FITS,
    READS,
    SIDE_BYTES,
    SIDE_PS,
    STREAMED,
    VECTOR,
    WHY,
    WRITES,
    Factors,
    draft_all,
    policy_of,
)
from archsim.devices.npu.numbers import (
    DISPATCH,
    DMA,
    DRAM,
    HVX_CYCLE,
    STATIC_GRAPH,
)
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

#: Bytes of one row: work is held in 2**-28 byte, so larger phases are cut into more rows.
MOST_BYTES = 1 << 33


@callee
def call_of(op, c, counts):
    """Latency of handing an operator over (ps); static graphs run without calls."""
    if policy_of(op, c) == STATIC_GRAPH:
        return 0
    counts[DISPATCH] = 1
    if c.flush_ps == 0:
        return c.dispatch_ps
    return c.dispatch_ps + flush_ps(op.out_bytes, c.flush_ps, c.flush_bytes)


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
def fill(c, parts, leads, drafts, phases, all_bytes, all_ps, counts, plan, owner, counted):
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
            context_time = cycles_to_ps(-(-drafts[i, VECTOR] // 1000), c.khz)
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
def draft_rows(ops, c, drafts, times, counts):
    """Plan, owner and counts of the rows of drafted operators, and the first that cannot run and why."""
    n = ops.size
    all_bytes, all_ps = np.zeros((n, PHASES), np.int64), np.zeros((n, PHASES), np.int64)
    phases, leads, parts = np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64)
    rows = 0
    for i in range(n):
        op, draft = ops[i], drafts[i]
        if draft[WHY] != FITS:
            return np.zeros((0, PLAN_COLUMNS), np.int64), phases, counts, i, draft[WHY]
        leads[i] = call_of(op, c, counts[i])
        phases[i] = phases_of(c, draft, times[i], all_bytes[i], all_ps[i])
        counts[i, HVX_CYCLE] = -(-draft[VECTOR] // 1000)
        counts[i, DMA] = draft[READS] + draft[WRITES]
        count_traffic(counts, i, DRAM, draft[READS], draft[WRITES], PAGE_BYTES)
        most = 0
        for p in range(phases[i]):
            most = max(most, all_bytes[i, p])
        parts[i] = op.parts * (most // (op.parts * MOST_BYTES) + 1)
        rows += phases[i] * parts[i]
    plan = np.zeros((rows, PLAN_COLUMNS), np.int64)
    owner, counted = np.zeros(rows, np.int64), np.zeros((rows, DRAM + 4), np.int64)
    fill(c, parts, leads, drafts, phases, all_bytes, all_ps, counts, plan, owner, counted)
    return plan, owner, counted, -1, FITS


def plan_npu(
    ops: np.ndarray, c: np.void, factors: Factors, graph_rows: np.ndarray, table: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int, int]:
    """Plan and counts of NPU operators; parameters as of :func:`~archsim.devices.npu.draft.draft_all`.

    Returns
    -------
    tuple
        plan int64[rows, PLAN_COLUMNS], owner int64[rows] (operator of each row), counts int64[rows, len(ACTIONS) + 4],
        the index of the first operator that cannot run (-1: none) and why.
    """
    return draft_rows(ops, c, *draft_all(ops, c, factors, graph_rows, table))
