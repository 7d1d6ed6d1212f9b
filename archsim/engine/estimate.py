"""The uncontended time of a block: each row alone at its rate, units serialised, edges kept."""

import numpy as np
from numba import njit

from archsim.engine import core
from archsim.engine.block import Block
from archsim.engine.errors import RateRangeError
from archsim.engine.window import State
from archsim.jit import borrower


def uncontended(s: State, block: Block) -> int:
    """End of the last row of a block that has the machine to itself, ps.

    Raises
    ------
    RateRangeError
        A row flows at rate 0 even alone.
    """
    unit = np.array(block.unit)
    fraction = np.append(s.unit[:-1, core.U_RATE], 1 << core.RATE_BITS)[unit]
    free = block.cap == core.NO_CAP
    rate = np.where(
        free, np.where(fraction > 0, core.MAX_FLOW, 0), np.where(free, 0, block.cap) * fraction >> core.RATE_BITS
    )
    for j in range(4):
        uses = np.flatnonzero((block.pool[:, j] >= 0) & (block.coef[:, j] > 0))
        p = block.pool[uses, j]
        mask = (1 << block.stream[uses]) & ~1
        capacity = s.mix[p, mask] * s.pool[p, core.P_RATE] >> core.RATE_BITS
        rate[uses] = np.minimum(rate[uses], (capacity << core.COEF_BITS) // block.coef[uses, j])
    stuck = np.flatnonzero((rate == 0) & (block.work > 0))
    if len(stuck):
        raise RateRangeError(f"row {stuck[0]} of the block has rate 0 even alone, so its time has no estimate")
    flow = np.where(block.work > 0, (block.work - 1) // np.maximum(rate, 1) + 1, 0)
    ptr, succ = np.array(block.succ_ptr), np.array(block.succ)
    return int(critical_path(unit, np.array(block.lead + flow), ptr, succ, len(s.unit) - 1))


@borrower
def sooner(ready, a, b):
    """Whether row `a` comes before row `b` by (ready time, index)."""
    return ready[a] < ready[b] or (ready[a] == ready[b] and a < b)


@njit(cache=True)
def critical_path(unit, length, ptr, succ, units):
    """End of the last row when rows run in order of readiness, one at a time per unit (ps).

    Parameters
    ----------
    unit, length : int64[n]
        Unit (-1 none) and duration alone of each row, ps.
    ptr, succ : int64
        Edges as in a block, without cycles.
    units : int
        Number of units.
    """
    n = len(unit)
    pend = np.zeros(n, dtype=np.int64)
    ready = np.zeros(n, dtype=np.int64)
    free = np.zeros(units + 1, dtype=np.int64)
    heap = np.zeros(n + 1, dtype=np.int64)
    for e in range(ptr[n]):
        pend[succ[e]] += 1
    size = 0
    for i in range(n):
        if pend[i] == 0:
            heap[size] = i
            size += 1
    last = 0
    while size > 0:
        row = heap[0]
        size -= 1
        moved = heap[size]
        i = 0
        while 2 * i + 1 < size:
            c = 2 * i + 1
            if c + 1 < size and sooner(ready, heap[c + 1], heap[c]):
                c += 1
            if sooner(ready, moved, heap[c]):
                break
            heap[i] = heap[c]
            i = c
        heap[i] = moved
        end = ready[row] + length[row]
        if unit[row] >= 0:
            end = max(ready[row], free[unit[row]]) + length[row]
            free[unit[row]] = end
        last = max(last, end)
        for e in range(ptr[row], ptr[row + 1]):
            to = succ[e]
            ready[to] = max(ready[to], end)
            pend[to] -= 1
            if pend[to] == 0:
                i = size
                size += 1
                while i > 0 and sooner(ready, to, heap[(i - 1) >> 1]):
                    heap[i] = heap[(i - 1) >> 1]
                    i = (i - 1) >> 1
                heap[i] = to
    return last
