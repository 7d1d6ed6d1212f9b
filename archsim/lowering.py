"""Rows that draw on DRAM: the columns every lowering fills, and what a row counts there.

A device plans each operator as a whole in an int64 table ``plan[n, PLAN_COLUMNS]``; :func:`expand` turns the plan
into task rows. Conventions shared by all devices:

* A row that moves bytes has ``work`` = bytes of DRAM traffic (read and written) and ``cap`` = bytes / duration alone,
  so one row is a roofline: it takes its duration when DRAM keeps up and longer when it does not. It draws 1.0 on the
  DRAM pool and on the device's own bandwidth pool. Rounding the cap down makes it at most 1/cap longer.
* A row without bytes is a *time row*: ``work`` = duration_ps * :data:`TIME_RATE` and ``cap`` = :data:`TIME_RATE`, so it
  lasts exactly its duration and draws on no bandwidth.
* Splitting cuts bytes, duration and counts into equal shares whose sums are exact; only the first row has the lead.

Actions are counted under full names (``<device>.<action>``); DRAM's are counted by whoever causes the traffic.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import numpy as np
from numba import njit
from pydantic import Field

from archsim.device import MAX_POOLS, OpKind, Ops, Rows
from archsim.jit import callee, record_type
from archsim.units import COEF_ONE, WORK_BITS, BytesPerS, Hz, PositiveFactor, Ps

#: Spec fields that kernels take as integers, within bounds that keep their products below 63 bits: rates in whole 1e6
#: bytes/s, clocks in whole kHz, latencies in ps, factors in thousandths (and those whose inverse is taken).
KernelRate = Annotated[BytesPerS, Field(ge=1e6)]
KernelClock = Annotated[Hz, Field(ge=1e6)]
KernelTime = Annotated[Ps, Field(le=10**12)]
KernelFactor = Annotated[PositiveFactor, Field(ge=1e-3, le=1e6)]
KernelInverse = Annotated[PositiveFactor, Field(ge=1e-3, le=1e3)]

#: Work units per ps of a row without bytes: 2**-12 byte per ps, so a row may last 2**46 ps (70 s).
TIME_RATE = 1 << 16

#: Columns of a plan, all per whole operator.
UNIT, WEIGHT, LEAD_PS, TIME_PS, READ_BYTES, WRITE_BYTES, ITEMS, STREAM = range(8)
PLAN_COLUMNS = 8

#: DRAM actions in the order :func:`count_traffic` fills them.
DRAM_ACTIONS: tuple[str, ...] = ("activate", "read_bits", "write_bits", "io_bits")

#: Bytes of one activated row that a sequential stream uses: the 2 KiB page of a x16 LPDDR5 die in 16-bank mode.
PAGE_BYTES = 2048


#: One operator as kernels take it: a record of the columns of :class:`archsim.device.Ops`.
OPERATOR = record_type(Ops._fields)


def records(ops: Ops) -> np.ndarray:
    """Operators as records[n], which a kernel takes as one argument: ``records(ops)[i].m`` is ``ops.m[i]``."""
    return np.concatenate(ops).reshape(len(ops), -1).T.copy().view(OPERATOR)[:, 0]


def operator(ops: Ops, i: int = 0) -> Ops:
    """Operator i alone, its columns plain numbers, for functions that take one operator."""
    return Ops(*(int(column[i]) for column in ops))


@callee
def share(total, part, parts):
    """Share of `total` that falls to `part` of `parts`; the shares add up to `total`."""
    return total * (part + 1) // parts - total * part // parts


@callee
def bytes_to_ps(nbytes, mb_per_s):
    """Duration of `nbytes` at `mb_per_s` (1e6 bytes/s) in ps, rounded up."""
    per_s = mb_per_s * 1_000_000
    return nbytes // per_s * 1_000_000_000_000 + -(-(nbytes % per_s) * 1_000_000 // mb_per_s)


@callee
def cycles_to_ps(cycles, khz):
    """Duration of `cycles` of a clock of `khz` in ps, rounded up once; whole ms apart, so that no product overflows."""
    return cycles // khz * 1_000_000_000 + -(-(cycles % khz) * 1_000_000_000 // khz)


@callee
def count_traffic(counts, i, first, read_bytes, write_bytes, page_bytes):
    """Count one operator's DRAM actions in ``counts[i, first:first + 4]``; each page touched is activated once."""
    counts[i, first] = -(-read_bytes // page_bytes) + -(-write_bytes // page_bytes)
    counts[i, first + 1] = 8 * read_bytes
    counts[i, first + 2] = 8 * write_bytes
    counts[i, first + 3] = 8 * (read_bytes + write_bytes)


@njit(cache=True)
def expand(parts, plan, counts, dram_pool, own_pool, item_pool):
    """Rows of planned operators.

    Parameters
    ----------
    parts : int64[n]
        Rows per operator.
    plan : int64[n, PLAN_COLUMNS]
        Whole operators; ``ITEMS`` are the cores or contexts held at full rate, in 2**-20 (at most 2**12 items).
    counts : int64[n, a]
    dram_pool, own_pool, item_pool : int
        Pool ids, -1 for none.

    Returns
    -------
    tuple
        Columns op, unit, weight, lead, work, cap, pool, coef, stream, counts. A cap of 0 means that the row
        is slower than the engine's smallest rate.
    """
    n = parts.size
    total = 0
    for i in range(n):
        total += parts[i]
    op, unit = np.empty(total, np.int64), np.empty(total, np.int64)
    weight, lead = np.empty(total, np.int64), np.zeros(total, np.int64)
    work, cap = np.empty(total, np.int64), np.empty(total, np.int64)
    pool, coef = np.full((total, MAX_POOLS), -1, np.int64), np.zeros((total, MAX_POOLS), np.int64)
    stream = np.empty(total, np.int64)
    counted = np.empty((total, counts.shape[1]), np.int64)
    r = 0
    for i in range(n):
        for p in range(parts[i]):
            time_ps = share(plan[i, TIME_PS], p, parts[i])
            nbytes = share(plan[i, READ_BYTES] + plan[i, WRITE_BYTES], p, parts[i])
            op[r], unit[r], weight[r] = i, plan[i, UNIT], plan[i, WEIGHT]
            if p == 0:
                lead[r] = plan[i, LEAD_PS]
            slot = 0
            if nbytes > 0:
                work[r] = nbytes << WORK_BITS
                cap[r] = work[r] // max(time_ps, 1)
                stream[r] = plan[i, STREAM]
                pool[r, 0], coef[r, 0] = dram_pool, COEF_ONE
                slot = 1
                if own_pool >= 0:
                    pool[r, 1], coef[r, 1] = own_pool, COEF_ONE
                    slot = 2
            else:
                work[r], cap[r], stream[r] = time_ps * TIME_RATE, TIME_RATE, 0
            if item_pool >= 0 and plan[i, ITEMS] > 0 and cap[r] > 0:
                pool[r, slot] = item_pool
                coef[r, slot] = (plan[i, ITEMS] << WORK_BITS) // cap[r]
            for a in range(counts.shape[1]):
                counted[r, a] = share(counts[i, a], p, parts[i])
            r += 1
    return op, unit, weight, lead, work, cap, pool, coef, stream, counted


def build_rows(
    ops: Ops,
    plan: np.ndarray,
    counts: np.ndarray,
    actions: tuple[str, ...],
    pools: tuple[int, int, int],
) -> Rows:
    """Task rows of planned operators.

    Parameters
    ----------
    ops : Ops
        The operators; only ``parts`` is read.
    plan, counts : ndarray of int64
        As :func:`expand` takes them.
    actions : tuple of str
        Full names of the columns of `counts`.
    pools : tuple of int
        Ids of the DRAM pool, the device's own bandwidth pool and its pool of items (-1: none).

    Raises
    ------
    ValueError
        When a row would be slower than 2**-28 byte per ps.
    """
    op, unit, weight, lead, work, cap, pool, coef, stream, counted = expand(ops.parts, plan, counts, *pools)
    if cap.size and cap.min() < 1:
        raise ValueError(f"operator {int(op[cap.argmin()])}: slower than 3726 bytes/s, the engine's smallest rate")
    claim = np.full(op.size, -1, np.int64)
    return Rows(op, unit, weight, lead, work, cap, pool, coef, claim, stream, counted, actions)


#: Columns that must be at least 1, by kind of operator; every other size may be 0.
_SIZED: dict[OpKind, tuple[str, ...]] = {
    OpKind.MATMUL: ("m", "k", "n", "weight_bytes"),
    OpKind.PROJECTION: ("m", "k", "n", "weight_bytes"),
    OpKind.ATTENTION: ("m", "heads", "head_dim"),
    OpKind.NORM: ("m", "k"),
    OpKind.ROPE: ("m", "k"),
    OpKind.ELEMENTWISE: ("m", "k"),
    OpKind.EMBED: ("m", "k"),
    OpKind.SAMPLE: ("m", "k"),
    OpKind.LOAD: ("weight_bytes",),
    OpKind.KV_WRITE: ("m",),
}
_LEAST = np.array(
    [[name == "parts" or name in _SIZED.get(kind, ()) for name in Ops._fields] for kind in OpKind], np.int64
)


@njit(cache=True)
def first_bad(columns, kinds, least, allowed):
    """First operator that breaks a rule: (operator, column), column -1 for its kind; (-1, -1) when all are good.

    `least[kind, column]` is the least value, `allowed[kind]` 1 where the device runs the kind.
    """
    for i in range(kinds.size):
        if kinds[i] < 0 or kinds[i] >= allowed.size or allowed[kinds[i]] == 0:
            return i, -1
        for c, column in enumerate(columns):
            if column[i] < least[kinds[i], c]:
                return i, c
    return -1, -1


def action_names(device: str, own: Iterable[str], memory: str) -> tuple[str, ...]:
    """Names of the counts of a lowered operator: the device's own actions, then its traffic in `memory`."""
    return (*(f"{device}.{action}" for action in own), *(f"{memory}.{action}" for action in DRAM_ACTIONS))


def allowed_kinds(kinds: frozenset[OpKind]) -> np.ndarray:
    """Mask over all kinds, 1 for those in `kinds`, as :func:`check_ops` takes it."""
    return np.array([kind in kinds for kind in OpKind], np.int64)


def check_ops(ops: Ops, allowed: np.ndarray, device: str) -> None:
    """Refuse operators that the device does not run or that have no size.

    Raises
    ------
    ValueError
        Naming the first bad operator and the rule.
    """
    at, column = first_bad(tuple(ops), ops.kind, _LEAST, allowed)
    if at < 0:
        return
    code = int(ops.kind[at])
    kind = OpKind(code).name if 0 <= code < len(OpKind) else f"kind {code}"
    if column < 0:
        raise ValueError(f"operator {at}: device {device!r} does not run {kind}")
    name = Ops._fields[column]
    raise ValueError(
        f"operator {at} ({kind}) on device {device!r}: {name} is {int(ops[column][at])}; "
        f"it must be at least {int(_LEAST[code, column])}"
    )
