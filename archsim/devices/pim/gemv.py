"""Lowering of a matrix-vector product to PIM instructions: where the weights lie and in which order they are walked.

``y[out] = W[out, in] x[in]``. Outputs are spread over channels and MAC blocks; each block sums its own outputs.

* *Global buffer* (AiM): one output a bank at a time. A pass covers channels x banks outputs; each DRAM row of a bank
  holds the next ``vector`` inputs of its output; the input vector is reloaded for each row.
* *Registers* (LPDDR-PIM): one filling of the vector registers serves up to ``accumulators`` outputs of a block. A
  *tile* is these outputs times the inputs of one filling; tiles lie one after the other in the rows of the bank.

Padding: outputs to whole passes over the blocks, inputs to whole columns. *Reshape*: when a matrix is too narrow to
fill the accumulators, the inputs are cut into 2, 4, ... slices, each slice on its own channels; the host adds the
partial sums it reads. The cut with the fewest cycles is taken.

Tokens: ``tokens_per_pass`` of them share one pass over the weights, each with its own vector and sums.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numba import njit

from archsim.devices.pim.isa import Cmd, Field, Kind, Program
from archsim.devices.pim.replay import MAX_REQUESTS, PimResult, Run, execute, result
from archsim.devices.pim.standard import PimStandard, load_pim
from archsim.jit import borrower
from archsim.units import InputError, quote, suggest

MAX_SIDE = 1 << 22
#: The most instructions of a program: 64 bytes each.
MAX_LINES = 1 << 21
K_PIM, K_BARRIER = int(Kind.PIM), int(Kind.BARRIER)
#: The barrier that ends a program.
END = np.array([[K_BARRIER, -1, 1, -1, -1, 1, 0, 0]], np.int64)
END.setflags(write=False)
WRGB, WRMAC16, MAC16, RDMAC16 = int(Cmd.WRGB), int(Cmd.WRMAC16), int(Cmd.MAC16), int(Cmd.RDMAC16)


@dataclass(frozen=True)
class Plan:
    """How one GEMV lies in the banks.

    Attributes
    ----------
    slices : int
        Parts the inputs are cut into, each on its own channels.
    channels : int
        Channels that hold outputs of one slice.
    outputs_per_block : int
        Outputs of one block, padding included.
    tile_outputs : tuple of int
        Outputs of a block by pass.
    inputs : int
        Inputs of one slice.
    columns_per_fill : int
        Weight columns of one output that one filling of the vector store meets.
    rows : int
        DRAM rows a bank holds of the matrix.
    weight_bytes : int
        Without padding.
    padded_bytes : int
        As stored.
    """

    out: int
    inner: int
    dtype: str
    tokens: int
    slices: int
    channels: int
    outputs_per_block: int
    tile_outputs: tuple[int, ...]
    inputs: int
    columns_per_fill: int
    rows: int
    weight_bytes: int
    padded_bytes: int


def parse_shape(text: str) -> tuple[int, int]:
    """``OUTxIN`` to two whole numbers.

    Raises
    ------
    InputError
        Anything else.
    """
    parts = text.lower().split("x")
    if len(parts) != 2 or not all(p.isascii() and p.isdigit() and len(p) < 10 for p in parts):
        raise InputError(f"GEMV shape {quote(text)} is not OUTxIN; for example 4096x4096")
    return int(parts[0]), int(parts[1])


def gemv(
    device: str | PimStandard,
    out: int,
    inner: int,
    *,
    dtype: str | None = None,
    tokens: int = 1,
    fence: bool = False,
    reshape: bool = True,
    baseline: bool = True,
) -> PimResult:
    """Cycles of one GEMV on a PIM device, beside streaming its weights at peak over the channels without PIM.

    Parameters
    ----------
    dtype : str, optional
        One of the device's data types; by default its first.
    tokens : int
        Vectors that meet the same weights.
    fence : bool
        A memory fence of the device's length after each vector load.
    reshape : bool
        Allow the inputs to be cut into slices.

    Raises
    ------
    InputError
        Unknown device or data type, a side or token count out of range, a matrix that does not fit.
    """
    standard = load_pim(device) if isinstance(device, str) else device
    plan, run = best_plan(standard, out, inner, dtype=dtype, tokens=tokens, fence=fence, reshape=reshape)
    return result(standard, run, plan.weight_bytes if baseline else None)


def best_plan(
    standard: PimStandard,
    out: int,
    inner: int,
    *,
    dtype: str | None = None,
    tokens: int = 1,
    fence: bool = False,
    reshape: bool = True,
) -> tuple[Plan, Run]:
    """Layout with the fewest cycles and its run; arguments and errors of :func:`gemv`.

    The CPU time of the run is that of all layouts tried.
    """
    best: tuple[Plan, Run] | None = None
    cpu_s = 0.0
    for slices in slice_counts(standard, reshape):
        plan = plan_gemv(standard, out, inner, dtype=dtype, tokens=tokens, slices=slices)
        run = execute(standard, lower(standard, plan, fence=fence))
        cpu_s += run.cpu_s
        if best is None or run.cycles < best[1].cycles:
            best = plan, run
    return best[0], replace(best[1], cpu_s=cpu_s)


def slice_counts(standard: PimStandard, reshape: bool) -> list[int]:
    """Cuts of the inputs worth trying: powers of two that divide the channels."""
    if not reshape or standard.compute.global_buffer:
        return [1]
    channels = standard.organisation["channels"]
    return [s for s in (1 << k for k in range(channels.bit_length())) if channels % s == 0]


def plan_gemv(
    standard: PimStandard, out: int, inner: int, *, dtype: str | None = None, tokens: int = 1, slices: int = 1
) -> Plan:
    """Layout of one GEMV; `slices` parts of the inputs on as many groups of channels.

    Raises
    ------
    InputError
        As :func:`gemv`.
    """
    compute, org = standard.compute, standard.organisation
    name = dtype if dtype is not None else next(iter(compute.dtypes))
    if name not in compute.dtypes:
        raise InputError(f"{standard.name} has no data type {quote(name)}; {suggest(name, compute.dtypes)}")
    for what, value in (("outputs", out), ("inputs", inner)):
        if not 1 <= value <= MAX_SIDE:
            raise InputError(f"GEMV: {value} {what}; expected 1 to {MAX_SIDE}")
    if not 1 <= tokens <= 4096:
        raise InputError(f"GEMV: {tokens} tokens; expected 1 to 4096")
    weight_bits, activation_bits = compute.dtypes[name]
    per_column = 8 * org["access_bytes"] // weight_bits
    blocks = standard.banks // compute.banks_per_block
    used = min(org["channels"] // slices, -(-out // blocks))
    each = -(-out // (blocks * used))
    full, rest = divmod(each, compute.accumulators)
    tiles = (compute.accumulators,) * full + ((rest,) if rest else ())
    inputs = -(-inner // (slices * per_column)) * per_column
    fill = max(per_column, min(inputs, 8 * compute.vector_bytes // activation_bits))
    columns = each * inputs // per_column
    row_columns = org["columns_per_row"] * compute.banks_per_block
    rows = len(tiles) * -(-inputs // fill) if compute.global_buffer else -(-columns // row_columns)
    if rows > org["rows"]:
        raise InputError(f"GEMV {out}x{inner} needs {rows} rows a bank; {standard.name} has {org['rows']}")
    padded = columns * blocks * used * slices * org["access_bytes"]
    return Plan(
        out, inner, name, tokens, slices, used, each, tiles, inputs, -(-fill // per_column), rows,
        -(-out * inner * weight_bits // 8), padded,
    )  # fmt: skip


class Walk(NamedTuple):
    """A pass over the weights as integers: what :func:`walk` needs of a plan and its standard."""

    inputs: int
    columns_per_fill: int
    per_column: int  # weights of a column
    row_columns: int  # columns of a row that a block meets, all its banks
    vector_bits: int  # activation bits of one column's worth of inputs
    access_bits: int
    per_step: int  # MAC commands of one output and one column
    aligned: int  # 1: each filling begins in a new row
    clears: int
    blocks: int
    results_per_read: int
    delay: int  # cycles of a fence after each vector load, 0: none


@njit(cache=True)
def walk(tiles, w, group, lines):
    """One pass over all weights for `group` tokens.

    Parameters
    ----------
    tiles : int64 [t]
        Outputs of a block by tile.
    lines : int64 [n, 8] or [0, 8]
        Receives the instructions (fields of :class:`archsim.devices.pim.isa.Field`), as many as fit.

    Returns
    -------
    tuple of int
        Instructions and requests of the pass.
    """
    number, requests, at = 0, 0, 0  # at: columns walked so far in each block
    for t in range(tiles.size):
        if w.clears == 1:
            number, requests = put(lines, number, requests, K_PIM, WRMAC16, group, -1, 0, 0)
        first = 0
        while first < w.inputs:
            width = min(w.columns_per_fill, (w.inputs - first) // w.per_column)
            vectors = -(-width * w.vector_bits // w.access_bits)
            number, requests = put(lines, number, requests, K_PIM, WRGB, vectors * group, -1, 0, 0)
            if w.delay > 0:
                number, requests = put(lines, number, requests, K_BARRIER, -1, 1, -1, 1, w.delay)
            if w.aligned == 1:
                at = -(-at // w.row_columns) * w.row_columns
            left = tiles[t] * width * w.per_step
            while left > 0:
                count = min(left, w.row_columns - at % w.row_columns)
                number, requests = put(lines, number, requests, K_PIM, MAC16, count, at // w.row_columns, 0, 0)
                at, left = at + count, left - count
            first += w.columns_per_fill * w.per_column
        reads = -(-tiles[t] * group * w.blocks // w.results_per_read)
        number, requests = put(lines, number, requests, K_PIM, RDMAC16, reads, -1, 1, 0)
    return number, requests


@borrower
def put(lines, number, requests, kind, command, count, row, blocking, delay):
    """Write one instruction if there is room; returns how many there are and their requests."""
    if number < lines.shape[0]:
        line = lines[number]
        line[0], line[1], line[2], line[3], line[4], line[5], line[6], line[7] = (
            kind, command, count, -1, row, blocking, delay, 0,
        )  # fmt: skip
    return number + 1, requests + count


def lower(standard: PimStandard, plan: Plan, *, fence: bool = False) -> Program:
    """Instructions of a planned GEMV, ended by a barrier.

    Raises
    ------
    InputError
        More than :data:`MAX_LINES` instructions or :data:`~archsim.devices.pim.replay.MAX_REQUESTS` requests.
    """
    pieces = [np.tile(lines, (times, 1)) for lines, times in pass_lines(standard, plan, fence=fence)]
    lines = np.concatenate([*pieces, END])
    on = np.zeros((len(lines), standard.organisation["channels"]), np.int64)
    on[:, : plan.channels * plan.slices] = 1
    on[lines[:, Field.KIND] == K_BARRIER] = 1
    return Program(lines, on)


def pass_lines(standard: PimStandard, plan: Plan, *, fence: bool = False) -> list[tuple[np.ndarray, int]]:
    """Instructions of a pass over the weights, and how many passes: of whole groups of tokens, then of the rest.

    Raises
    ------
    InputError
        As :func:`lower`.
    """
    compute = standard.compute
    w, tiles = _walk_of(standard, plan, fence), np.array(plan.tile_outputs, np.int64)
    whole, rest = divmod(plan.tokens, compute.tokens_per_pass)
    groups = [(compute.tokens_per_pass, whole)] * (whole > 0) + [(rest, 1)] * (rest > 0)
    nothing = np.empty((0, len(Field)), np.int64)
    sizes = [walk(tiles, w, group, nothing) for group, _ in groups]
    for i, (what, most) in enumerate((("instructions", MAX_LINES), ("requests", MAX_REQUESTS))):
        total = sum(size[i] * times for size, (_, times) in zip(sizes, groups, strict=True))
        if total > most:
            raise InputError(
                f"GEMV {plan.out}x{plan.inner} with {plan.tokens} tokens takes {total} {what}, more than {most}"
            )
    pieces = []
    for (number, _), (group, times) in zip(sizes, groups, strict=True):
        lines = np.empty((number, len(Field)), np.int64)
        walk(tiles, w, group, lines)
        pieces.append((lines, times))
    return pieces


def _walk_of(standard: PimStandard, plan: Plan, fence: bool) -> Walk:
    compute, org = standard.compute, standard.organisation
    weight_bits, activation_bits = compute.dtypes[plan.dtype]
    per_column = 8 * org["access_bytes"] // weight_bits
    return Walk(
        plan.inputs,
        plan.columns_per_fill,
        per_column,
        org["columns_per_row"] * compute.banks_per_block,
        per_column * activation_bits,
        8 * org["access_bytes"],
        compute.banks_per_block if compute.global_buffer else 1,
        int(compute.global_buffer),
        compute.clears,
        standard.banks // compute.banks_per_block,
        compute.results_per_read,
        int(-(-int(compute.fence_ns) * 1000 // standard.tck_ps)) if fence else 0,
    )
