"""A systolic array that multiplies [m, k] x [k, n], fold by fold: weight-, output- or input-stationary.

The operand that stays (or the result, ``os``) is cut into *folds* of rows x cols; one fold passes through the array at
a time, and the next starts when the last product of this one is done. In a fold of an R x C array

======  ==========================  =====================  =========================  ====================
flow    along the rows (R)          along the cols (C)     streams (T)                cycles
======  ==========================  =====================  =========================  ====================
``ws``  k                           n                      rows m of the input        R + T + R - 1 + C - 1
``is``  k                           m                      columns n of the weights   R + T + R - 1 + C - 1
``os``  m                           n                      k                          T + R - 1 + C - 1
======  ==========================  =====================  =========================  ====================

R cycles fill the stationary tile (``os`` has none), T stream, the rest is the skew: the operand of row r enters r
cycles late and reaches column c after another c. A fold that does not fill the array takes as long, with zeros; words
that do not exist are neither read nor written. Folds run through the rows' dimension first, then the columns'. Under
``os`` results leave by a register chain while the next fold computes; the chain of the last fold takes `drain_cycles`
more.

Memory: each operand has an SRAM of two halves, one in use, one for words to come, and a link of its own to DRAM. Words
are fetched once as long as all that is read until they are wanted again fits in a half, and again in each round if not;
results, partial sums included, are written through and may wait in both halves. Before cycle 0 a half is filled. A fold
starts when its words are there; a fetch starts when the folds have started that the fetches filling a half before it
were for. See :func:`fold_walk`.

Conventions of SCALE-Sim (arXiv 1811.02883, arXiv 2504.15377; the reference of the tests): it numbers cycles from 0 and
reports the last number, one less than the length (its issue 125), and its counter of ``os`` results adds
rows + cols per fold to the words written. :class:`Systolic` has both forms.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
from numba import njit

from archsim.jit import callee
from archsim.units import InputError, quote, suggest

Dataflow = Literal["ws", "os", "is"]
DATAFLOWS: tuple[str, ...] = get_args(Dataflow)
WS, OS, IS = range(3)

MAX_SIDE = 1 << 22
MAX_ARRAY = 1 << 12
MAX_FOLDS = 1 << 24
MAX_BYTES = 1 << 40

#: Entries of a walk's result.
LENGTH, STALL, IFMAP_DRAM, FILTER_DRAM, IFMAP_SRAM, FILTER_SRAM, OFMAP_WORDS, USED = range(8)


class Shape(NamedTuple):
    """One product on one array: sizes in elements, buffers (halves) in words, links in words a cycle (0: no limit)."""

    flow: int
    rows: int
    cols: int
    m: int
    k: int
    n: int
    ifmap_half: int
    filter_half: int
    ofmap_half: int
    link: int


@dataclass(frozen=True)
class Array:
    """A systolic array with its memories.

    Attributes
    ----------
    rows, cols : int
        Processing elements.
    dataflow : str
        ``ws``, ``os`` or ``is``: what stays in the array.
    ifmap_bytes, filter_bytes, ofmap_bytes : int
        SRAM of the input, the weights and the result, both halves.
    word_bytes : int
        Bytes of an element.
    link_words : int
        Words a cycle between DRAM and each SRAM; 0: as many as wanted.
    """

    rows: int
    cols: int
    dataflow: str
    ifmap_bytes: int = 512 * 1024
    filter_bytes: int = 512 * 1024
    ofmap_bytes: int = 256 * 1024
    word_bytes: int = 1
    link_words: int = 0

    def __post_init__(self) -> None:
        for name in ("rows", "cols"):
            _within(f"array {name}", getattr(self, name), 1, MAX_ARRAY)
        if self.dataflow not in DATAFLOWS:
            raise InputError(f"no dataflow {quote(self.dataflow)}; {suggest(self.dataflow, DATAFLOWS)}")
        _within("word bytes", self.word_bytes, 1, 8)
        for name in ("ifmap_bytes", "filter_bytes", "ofmap_bytes"):
            _within(name, getattr(self, name), 2 * self.word_bytes, MAX_BYTES)
        _within("link words a cycle", self.link_words, 0, 1 << 20)


@dataclass(frozen=True)
class Systolic:
    """What a product costs on an array. Words are elements.

    Attributes
    ----------
    folds, fold_cycles : int
        Folds, and the cycles of each.
    length_cycles : int
        Cycles from the first fold's start to the last product, stalls included.
    stall_cycles : int
        Cycles in which a fold waits for its words, or for room for its results.
    prefetch_cycles : int
        Cycles before the first fold in which halves are filled (0 without a limit on the links).
    drain_cycles : int
        Cycles after the last product until the last result has left the array.
    ifmap_reads, filter_reads, ofmap_writes : int
        SRAM words.
    ifmap_dram_reads, filter_dram_reads, ofmap_dram_writes : int
        DRAM words.
    macs : int
        Products, padding excluded.
    mapping_efficiency, utilisation : float
        Part of the array that a fold uses, on average; products per element and cycle, stalls included.
    scalesim_cycles, scalesim_ofmap_writes : int
        Last cycle's number and results counted in SCALE-Sim's way.
    """

    array: Array
    m: int
    k: int
    n: int
    folds: int
    fold_cycles: int
    length_cycles: int
    stall_cycles: int
    prefetch_cycles: int
    drain_cycles: int
    ifmap_reads: int
    filter_reads: int
    ofmap_writes: int
    ifmap_dram_reads: int
    filter_dram_reads: int
    ofmap_dram_writes: int
    macs: int
    mapping_efficiency: float
    utilisation: float
    scalesim_cycles: int
    scalesim_ofmap_writes: int


@njit(cache=True)
def ceil_div(a, b):
    """Smallest integer not below a / b."""
    return -(-a // b)


@njit(cache=True)
def spatial(s):
    """Extent along the rows, along the columns, and the length of the stream of a shape."""
    if s.flow == WS:
        return s.k, s.n, s.m
    if s.flow == OS:
        return s.m, s.n, s.k
    return s.k, s.m, s.n


@njit(cache=True)
def fold_length(s):
    """Cycles of one fold: fill, stream, skew."""
    _, _, stream = spatial(s)
    fill = 0 if s.flow == OS else s.rows
    return fill + stream + s.rows + s.cols - 2


@callee
def fold_words(s, outer, inner, used_rows, used_cols):
    """SRAM words of a fold (input, weights, results), and which of input and weights come from DRAM (0 or 1)."""
    if s.flow == WS:
        again = s.m * s.k > s.ifmap_half
        return s.m * used_rows, used_rows * used_cols, s.m * used_cols, int(outer == 0 or again), 1
    if s.flow == OS:
        again_ifmap = s.m * s.k > s.ifmap_half
        again_filter = s.k * min(s.cols, s.n) > s.filter_half
        new = int(outer == 0 or again_ifmap), int(inner == 0 or again_filter)
        return used_rows * s.k, s.k * used_cols, used_rows * used_cols, new[0], new[1]
    again = s.k * s.n > s.filter_half
    return used_rows * used_cols, used_rows * s.n, s.n * used_cols, 1, int(outer == 0 or again)


@callee
def lookahead(half, words, folds):
    """Folds whose words fit in a half, at least one."""
    return max(1, min(half // max(words, 1), folds))


@njit(cache=True)
def fold_walk(s, log):
    """Walk the folds in order.

    Parameters
    ----------
    s : Shape
    log : int64[folds] or int64[0]
        Filled with the cycles in which the folds start, where it has room.

    Returns
    -------
    int64[8]
        Length and stalls in cycles; DRAM words of input and weights; SRAM words of input, weights and results; used
        elements summed over the folds.
    """
    result = np.zeros(8, np.int64)
    along_rows, along_cols, _ = spatial(s)
    inner_folds, outer_folds = ceil_div(along_rows, s.rows), ceil_div(along_cols, s.cols)
    folds, length = inner_folds * outer_folds, fold_length(s)
    full = fold_words(s, 0, 0, min(s.rows, along_rows), min(s.cols, along_cols))
    ahead_i, ahead_f = lookahead(s.ifmap_half, full[0], folds), lookahead(s.filter_half, full[1], folds)
    limited = int(s.link > 0)
    # starts of the folds that the last fetches were for
    ring_i, ring_f = np.zeros(ahead_i * limited, np.int64), np.zeros(ahead_f * limited, np.int64)
    now, ready_i, ready_f, written, fetch_i, fetch_f = 0, 0, 0, 0, 0, 0
    for outer in range(outer_folds):
        used_cols = min(s.cols, along_cols - outer * s.cols)
        for inner in range(inner_folds):
            used_rows = min(s.rows, along_rows - inner * s.rows)
            ifmap, weights, out, new_i, new_f = fold_words(s, outer, inner, used_rows, used_cols)
            result[IFMAP_SRAM] += ifmap
            result[FILTER_SRAM] += weights
            result[OFMAP_WORDS] += out
            result[IFMAP_DRAM] += ifmap * new_i
            result[FILTER_DRAM] += weights * new_f
            result[USED] += used_rows * used_cols
            start, f = now, outer * inner_folds + inner
            if limited:
                if new_i and fetch_i >= ahead_i:
                    ready_i = max(ready_i, ring_i[fetch_i % ahead_i]) + ceil_div(ifmap, s.link)
                if new_f and fetch_f >= ahead_f:
                    ready_f = max(ready_f, ring_f[fetch_f % ahead_f]) + ceil_div(weights, s.link)
                start = max(now, ready_i, ready_f)
                if new_i:
                    ring_i[fetch_i % ahead_i] = start
                if new_f:
                    ring_f[fetch_f % ahead_f] = start
                fetch_i, fetch_f = fetch_i + new_i, fetch_f + new_f
                written = max(written, start) + ceil_div(out, s.link)
            if f < log.size:
                log[f] = start
            now = start + length
            if limited:
                now = max(now, written - 2 * s.ofmap_half // s.link)
    result[LENGTH], result[STALL] = now, now - folds * length
    return result


def shape_of(array: Array, m: int, k: int, n: int) -> Shape:
    """Kernel arguments of a product.

    Raises
    ------
    InputError
        For sizes that are not between 1 and 2**22, or more than 2**24 folds.
    """
    for name, size in (("m", m), ("k", k), ("n", n)):
        _within(name, size, 1, MAX_SIDE)
    halves = [size // array.word_bytes // 2 for size in (array.ifmap_bytes, array.filter_bytes, array.ofmap_bytes)]
    shape = Shape(DATAFLOWS.index(array.dataflow), array.rows, array.cols, m, k, n, *halves, array.link_words)
    folds = fold_count(shape)
    if folds > MAX_FOLDS:
        raise InputError(f"{m} x {k} x {n} on a {array.rows}x{array.cols} array is {folds} folds; at most {MAX_FOLDS}")
    return shape


def fold_count(shape: Shape) -> int:
    """Folds of a product."""
    along_rows, along_cols, _ = spatial(shape)
    return int(ceil_div(along_rows, shape.rows) * ceil_div(along_cols, shape.cols))


def fold_starts(array: Array, m: int, k: int, n: int) -> np.ndarray:
    """Cycles int64[folds] in which the folds of a product start."""
    shape = shape_of(array, m, k, n)
    log = np.zeros(fold_count(shape), np.int64)
    fold_walk(shape, log)
    return log


def multiply(array: Array, m: int, k: int, n: int) -> Systolic:
    """Cost of [m, k] x [k, n] on an array; bad sizes raise InputError as in :func:`shape_of`."""
    shape = shape_of(array, m, k, n)
    folds, halves = fold_count(shape), (shape.ifmap_half, shape.filter_half)
    walked = [int(value) for value in fold_walk(shape, np.empty(0, np.int64))]
    length, used, elements = walked[LENGTH], walked[USED], array.rows * array.cols
    by_os = array.dataflow == "os"
    prefetch = 0
    if array.link_words:
        first = min(halves[0], walked[IFMAP_DRAM]), min(halves[1], walked[FILTER_DRAM])
        prefetch = -(-max(first) // array.link_words)
    return Systolic(
        array,
        *(m, k, n, folds, int(fold_length(shape)), length, walked[STALL], prefetch),
        drain_cycles=array.rows if by_os else 0,
        ifmap_reads=walked[IFMAP_SRAM],
        filter_reads=walked[FILTER_SRAM],
        ofmap_writes=walked[OFMAP_WORDS],
        ifmap_dram_reads=walked[IFMAP_DRAM],
        filter_dram_reads=walked[FILTER_DRAM],
        ofmap_dram_writes=walked[OFMAP_WORDS],
        macs=m * k * n,
        mapping_efficiency=used / (folds * elements),
        utilisation=m * k * n / (length * elements),
        scalesim_cycles=length - 1,
        scalesim_ofmap_writes=walked[OFMAP_WORDS] + (folds * (array.rows + array.cols) if by_os else 0),
    )


def parse_array(text: str) -> tuple[int, int]:
    """``ROWSxCOLS`` to two sizes.

    Raises
    ------
    InputError
        Anything else, and sizes that no array has.
    """
    parts = text.lower().split("x")
    if len(parts) != 2 or not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        raise InputError(f"array {quote(text)} is not ROWSxCOLS; for example 32x32")
    rows, cols = int(parts[0]), int(parts[1])
    _within("array rows", rows, 1, MAX_ARRAY)
    _within("array cols", cols, 1, MAX_ARRAY)
    return rows, cols


def _within(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise InputError(f"{name} is {value}; it must be between {least} and {most}")
