"""Operators on the banks: time, counts and what other ranks lose, from runs of the command kernel.

Weights: a matrix product lies as :mod:`archsim.devices.pim.gemv` lays it. Keys and values: the heads are dealt to the
channels, each channel holds whole heads (a head is cut over several channels when there are fewer heads than channels).
Of a head, the keys are a matrix of one output a cached row and ``head_dim`` inputs, the values its transpose: one
output a dimension, the cached rows as inputs. New keys are written as whole columns; a new value is one masked column
write a dimension, because its neighbours in the column belong to other rows.

Channels that get the same instructions move in step (the kernel's classes), so one sequencer stands for all of them.

Many vectors: as many passes over the weights as span :data:`WHOLE_REFRESHES` refresh intervals (at least
:data:`WHOLE_PASSES`) are run as they are; more are continued by the difference between that many and half as many,
rounded up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from archsim.device import BLOCK, DType
from archsim.devices.pim.gemv import END, pass_lines, plan_gemv
from archsim.devices.pim.host import leftover, shares
from archsim.devices.pim.isa import Cmd, Field, Kind, Program
from archsim.devices.pim.passes import Passes, fastest, layouts
from archsim.devices.pim.power import OFF_CHIP
from archsim.devices.pim.replay import execute
from archsim.devices.pim.standard import PimStandard, load_pim

#: Counts of a product, in this order. Refreshes take time here; their energy is in the DRAM device's static power.
ACTIONS = ("activate", "access_bits", "mac_bits", "io_bits", "mode_switch")
WHOLE_PASSES = 8
WHOLE_REFRESHES = 48


class Product(NamedTuple):
    """One operator on the banks: time, counts by :data:`ACTIONS`, share that a stream in another rank loses."""

    time_ps: int
    counts: tuple[int, ...]
    lost: float


class Part(NamedTuple):
    """A PIM standard, channels driven and vectors a pass serves (0: the standard's), factor on the standard's times."""

    name: str
    channels: int = 0
    reuse: int = 0
    timing: float = 1.0


@lru_cache(maxsize=64)
def standard_of(part: Part) -> PimStandard:
    """PIM standard of a part.

    Raises
    ------
    ValueError
        More channels than the standard has.
    """
    standard = load_pim(part.name)
    there = standard.organisation["channels"]
    if part.channels > there:
        raise ValueError(f"channels is {part.channels}; {part.name} has {there}")
    organisation = {**standard.organisation, "channels": part.channels or there}
    compute = replace(standard.compute, tokens_per_pass=part.reuse or standard.compute.tokens_per_pass)
    if part.timing != 1.0:
        compute = replace(compute, fence_ns=compute.fence_ns * part.timing)
        standard = replace(standard, tck_ps=standard.tck_ps * Fraction(part.timing))
    return replace(standard, organisation=organisation, compute=compute)


def data_type(standard: PimStandard, wdtype: int, adtype: int, widen: bool = False) -> str:
    """The device's data type for weights and activations: equal weight bits, activations at least as wide.

    Scales of block formats are left out of the width; they are applied by the host to the sums.

    Parameters
    ----------
    widen : bool
        Weights of a narrower integer type are stored in the next wider one, and wider activations are quantised to the
        widest that the device has for these weights.

    Raises
    ------
    ValueError
        The device has none.
    """
    weight_bits, activation_bits = (_bits(DType(int(d))) for d in (wdtype, adtype))
    types = standard.compute.dtypes
    fitting = [(a, n) for n, (w, a) in types.items() if w == weight_bits and a >= activation_bits]
    if not fitting and widen and DType(int(wdtype)) not in (DType.FP32, DType.FP16, DType.BF16):
        wide = [w for w, _ in types.values() if w >= weight_bits]
        at = [(a, n) for n, (w, a) in types.items() if wide and w == min(wide)]
        fitting = [entry for entry in at if entry[0] >= activation_bits] or [max(at)] if at else []
    if not fitting:
        raise ValueError(
            f"{standard.name} multiplies no {DType(int(wdtype)).name} weights by {DType(int(adtype)).name} "
            f"activations; it has {', '.join(types)}"
        )
    return min(fitting)[1]


def _bits(dtype: DType) -> int:
    """Bits of one value, scales of its block left out."""
    stored, elements = BLOCK[dtype]
    return {DType.Q4_0: 4, DType.Q4_1: 4, DType.Q8_0: 8}.get(dtype, 8 * stored // elements)


def _counts(standard: PimStandard, number: np.ndarray, dtype: str, inside: tuple[Cmd, ...] = ()) -> tuple[int, ...]:
    """Counts by :data:`ACTIONS`; transfers `inside` the die are priced as column accesses, not as I/O."""
    bits, banks = 8 * standard.organisation["access_bytes"], standard.banks
    read = bits * banks // standard.compute.banks_per_block * int(number[Cmd.MAC16])
    moved = {command: bits * int(number[command]) for command in OFF_CHIP}
    local = sum(moved[c] for c in inside) + moved[Cmd.WR]
    return (
        banks * int(number[Cmd.ACT16]) + int(number[Cmd.ACT]),
        read + local,
        read * standard.compute.dtypes[dtype][1],
        sum(moved.values()) - sum(moved[c] for c in inside),
        int(number[Cmd.TMOD]),
    )


def _passes(standard: PimStandard, tokens: int, run: Callable[[int], tuple[int, np.ndarray]]) -> tuple[int, np.ndarray]:
    """Cycles and command counts for `tokens` vectors, continued as the module's docstring says."""
    at_once, refresh_cycles = standard.compute.tokens_per_pass, standard.refresh_cycles
    passes = -(-tokens // at_once)
    if passes <= WHOLE_PASSES:
        return run(tokens)
    half = max(WHOLE_PASSES, -(-WHOLE_REFRESHES * refresh_cycles // run(at_once)[0])) // 2
    left = passes - 2 * half
    if left <= 0:
        return run(tokens)
    long, short = run(tokens - at_once * left), run(tokens - at_once * (left + half))
    return (
        long[0] - (-(long[0] - short[0]) * left // half),
        long[1] - (-(long[1] - short[1]) * left // half),
    )


def _ps(standard: PimStandard, cycles: int) -> int:
    """Cycles to ps, rounded up once."""
    return int(-(-cycles * standard.tck_ps // 1))


@lru_cache(maxsize=256)
def _layouts(part: Part, k: int, n: int, dtype: str, fence: bool) -> list[Passes]:
    """Layouts of a matrix of `k` inputs and `n` outputs, with what was walked of each."""
    return layouts(standard_of(part), n, k, dtype=dtype, fence=fence)


@lru_cache(maxsize=1024)
def _lost(part: Part, m: int, k: int, n: int, dtype: str, fence: bool, ranks: int) -> float:
    """Share of its rate that a sequential stream in another rank loses to a pass of `m` vectors."""
    passes = fastest(_layouts(part, k, n, dtype, fence), m)
    return 1 - leftover(standard_of(part), passes.program(m), ranks=ranks).other_ranks


@lru_cache(maxsize=4096)
def product(part: Part, m: int, k: int, n: int, dtype: str, fence: bool, ranks: int) -> Product:
    """Time and counts of ``[m, k] x [k, n]``; `ranks` above 1 also asks what the other ranks lose."""
    standard, choice = standard_of(part), _layouts(part, k, n, dtype, fence)
    cycles, number = _passes(standard, m, lambda tokens: fastest(choice, tokens).run(tokens))
    lost = 0.0
    if ranks > 1:
        lost = _lost(part, min(m, standard.compute.tokens_per_pass), k, n, dtype, fence, ranks)
    return Product(_ps(standard, cycles), _counts(standard, number, dtype), lost)


def heads_per_channel(kv_heads: int, channels: int) -> tuple[int, int]:
    """KV heads that a channel holds, and the channels that share one head."""
    shared = max(1, channels // kv_heads)
    return -(-kv_heads * shared // channels), shared


class Heads(NamedTuple):
    """Products of the heads of one channel, one after the other.

    Attributes
    ----------
    heads, out, inner : int
        Heads; outputs and inputs of each.
    """

    part: Part  # of one channel
    heads: int
    out: int
    inner: int
    dtype: str
    fence: bool

    def program(self, tokens: int) -> Program:
        """Instructions for `tokens` vectors a head; each head lies in rows of its own."""
        one = standard_of(self.part)
        plan = plan_gemv(one, self.out, self.inner, dtype=self.dtype, tokens=tokens)
        pieces = [np.tile(lines, (times, 1)) for lines, times in pass_lines(one, plan, fence=self.fence)]
        body = np.concatenate(pieces * self.heads)
        row = body[:, Field.ROW]
        row += np.where(row >= 0, np.repeat(np.arange(self.heads) * plan.rows, len(body) // self.heads), 0)
        whole = np.concatenate([body, END])
        return Program(whole, np.ones((len(whole), 1), np.int64))


@lru_cache(maxsize=8192)
def _one_pass(heads: Heads, tokens: int, ranks: int, inside: tuple[Cmd, ...]) -> tuple[int, np.ndarray, float]:
    """Cycles, counts [commands] and loss of other ranks of `tokens` vectors that share one pass."""
    one = standard_of(heads.part)
    run = execute(one, heads.program(tokens), log=ranks > 1)
    lost = 1 - shares(one, run, ranks=ranks, inside=inside).other_ranks if ranks > 1 else 0.0
    return run.cycles, run.counts.sum(axis=0), lost


@lru_cache(maxsize=8192)
def head_products(
    part: Part, stage: str, heads: int, out: int, inner: int, tokens: int, dtype: str, fence: bool, ranks: int,
    local: bool,
) -> Product:  # fmt: skip
    """Products of all heads that one channel holds, on all channels at once.

    Parameters
    ----------
    stage : str
        ``scores`` (their sums stay on the die when `local`) or ``values`` (their vectors come from it).
    heads : int
        Heads of a channel, one after the other.
    out, inner, tokens : int
        Outputs, inputs and vectors of each.
    """
    standard, alone = standard_of(part), Heads(part._replace(channels=1), heads, out, inner, dtype, fence)
    within = ((Cmd.RDMAC16,) if stage == "scores" else (Cmd.WRGB,)) if local else ()
    first = min(tokens, standard.compute.tokens_per_pass)
    *counted, lost = _one_pass(alone, first, ranks, within)

    def run(vectors: int) -> tuple[int, np.ndarray]:
        if vectors == first:
            return counted[0], counted[1]
        done = execute(standard_of(alone.part), alone.program(vectors))
        return done.cycles, done.counts.sum(axis=0)

    cycles, number = _passes(standard_of(alone.part), tokens, run)
    number = number * standard.organisation["channels"]
    return Product(_ps(standard, cycles), _counts(standard, number, dtype, within), lost)


@lru_cache(maxsize=1024)
def kv_write(part: Part, m: int, kv_heads: int, head_dim: int, bits: int, ranks: int) -> Product:
    """Appending the keys and values of `m` rows to the banks, values as masked columns."""
    standard, one = standard_of(part), standard_of(part._replace(channels=1))
    heads, shared = heads_per_channel(kv_heads, standard.organisation["channels"])
    access = 8 * one.organisation["access_bytes"]
    rows = -(-m // shared)
    banks = one.banks
    lines = []
    for head in range(heads):
        keys = -(-rows * head_dim * bits // access)
        lines.append((int(Kind.WRITE), int(Cmd.WR), keys, head % banks, 2 * head, 0, 0, 0))
        columns = -(-rows * bits // access)
        for bank in range(min(banks, head_dim)):
            dims = len(range(bank, head_dim, banks))
            lines.append((int(Kind.WRITE), int(Cmd.WR), dims * columns, bank, 2 * head + 1, 0, 0, 0))
    lines.append((int(Kind.BARRIER), -1, 1, -1, -1, 1, 0, 0))
    table = np.array(lines, np.int64)
    program = Program(table, np.ones((len(table), 1), np.int64))
    run = execute(one, program, log=ranks > 1)
    number = run.counts.sum(axis=0) * standard.organisation["channels"]
    dtype = next(iter(standard.compute.dtypes))
    lost = 1 - shares(one, run, ranks=ranks).other_ranks if ranks > 1 else 0.0
    return Product(_ps(standard, run.cycles), _counts(standard, number, dtype), lost)
