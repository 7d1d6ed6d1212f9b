"""What a layout costs: converting, scattering, reading from a CPU, updating single rows in place.

Everything follows from address maps and runs; the numbers of the machines are in :data:`NUMBERS`.

* **Converting** on vector threads, block by block of 64 x 64 elements: every source vector is loaded once, every
  target vector stored once. A target vector that gathers from s source vectors passes log2(s) steps of a shuffle
  network, whose instructions make two vectors at once; one that only reorders its source passes one. Memory and shuffle
  instructions share packets, so the larger sum counts. Where the element type changes, unpacking costs `unpack` per
  target vector (load, conversion, scale and store in it).
* **Scattering** stores what a source vector holds word by word, wherever two neighbours in the source are none in the
  target; stores of one vector that meet the same bank of local memory take turns. Whole vectors are stored at once.
* **A CPU** loads 16 bytes at a time and fetches lines of 64; where a load's elements are not one run along a row or a
  column it shuffles them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log2

import numpy as np

from archsim.device import Cost
from archsim.devices.npu.layouts.formats import Layout, find, locate
from archsim.devices.npu.layouts.regions import Region, Runs, joined, runs
from archsim.units import InputError, quote, suggest

BLOCK = 64
VECTOR_BYTES = 128
LOAD_BYTES = 16
LINE_BYTES = 64
METHODS = ("shuffle", "scatter")

NUMBERS: dict[str, Cost] = {
    "memory": Cost(1.0, "context cycles", "assumed: one aligned vector load or store per packet", (0.5, 1.0)),
    "permute": Cost(1.0, "context cycles", "assumed: one shuffle of a vector pair per packet", (1.0, 2.0)),
    "scatter": Cost(
        1.0,
        "context cycles",
        "assumed: one word per cycle; rows of a tile are 128 bytes apart, all in one bank",
        (0.5, 2.0),
    ),
    "unpack": Cost(
        3.32,
        "context cycles",
        "the one-row kernel's 6.64 cycles per 128 weights without products (arXiv 2605.27435)",
        (1.0, 5.0),
    ),
    "cpu_load": Cost(0.5, "core cycles", "assumed: two 16-byte loads a cycle on a big core", (0.33, 1.0)),
    "cpu_store": Cost(0.5, "core cycles", "assumed: two stores a cycle on a big core", (0.5, 1.0)),
    "cpu_permute": Cost(0.5, "core cycles", "assumed: two vector permutes a cycle", (0.25, 1.0)),
    "cpu_line": Cost(10.6, "core cycles", "assumed: 64 bytes at 20 GB/s of one core at 3.3 GHz", (6.0, 20.0)),
}
DEFAULTS = {name: cost.value for name, cost in NUMBERS.items()}


@dataclass(frozen=True)
class Conversion:
    """Work of one vector thread that converts a matrix.

    Attributes
    ----------
    cycles : float
        Context cycles; divide by the contexts at work.
    loads, stores : int
        Vectors of the source and of the target.
    permutes : float
        Shuffles of vector pairs.
    scattered : int
        Words stored one by one.
    read_bytes, written_bytes : int
        Padding and scales included.
    """

    cycles: float
    loads: int
    stores: int
    permutes: float
    scattered: int
    read_bytes: int
    written_bytes: int


@dataclass(frozen=True)
class CpuAccess:
    """What a CPU core does to read a region.

    Attributes
    ----------
    cycles : float
        The largest of loads, shuffles and lines.
    useful_bytes, line_bytes : int
        Bytes of the region's elements (and scales), and of the lines they lie in.
    runs, loads, permutes, lines : int
    """

    cycles: float
    useful_bytes: int
    line_bytes: int
    runs: int
    loads: int
    permutes: int
    lines: int


@dataclass(frozen=True)
class Update:
    """What a CPU core does to replace rows or columns of a matrix in place.

    Attributes
    ----------
    cycles : float
        The larger of stores and lines moved.
    bytes : int
        Bytes that change.
    runs, stores : int
        Contiguous pieces, and stores of at most 16 bytes.
    lines, partial_lines : int
        Lines that change, and those of them that keep some bytes (they are read first).
    moved_bytes : int
        Lines read and written back.
    rewrite_bytes : int
        Bytes of all of the matrix, what rewriting it would move.
    """

    cycles: float
    bytes: int
    runs: int
    stores: int
    lines: int
    partial_lines: int
    moved_bytes: int
    rewrite_bytes: int


def as_layout(layout: Layout | str) -> Layout:
    """Layout itself, or the one of that name."""
    return find(layout) if isinstance(layout, str) else layout


def conversion_cycles(
    src: Layout | str,
    dst: Layout | str,
    rows: int,
    cols: int,
    *,
    method: str = "shuffle",
    word_bytes: int = 2,
    numbers: dict[str, float] = DEFAULTS,
) -> Conversion:
    """Cost of converting a matrix [rows, cols] from one layout to another.

    Parameters
    ----------
    src, dst : Layout or str
    rows, cols : int
    method : str
        ``shuffle`` or ``scatter``.
    word_bytes : int
        Bytes that a scatter stores at a time (2 or 4).
    numbers : dict
        Values of :data:`NUMBERS`.

    Raises
    ------
    InputError
        For an unknown layout or method, or a bad size.
    """
    source, target = as_layout(src), as_layout(dst)
    if method not in METHODS:
        raise InputError(f"no method {quote(method)}; {suggest(method, METHODS)}")
    if word_bytes not in (2, 4):
        raise InputError(f"a scatter stores words of 2 or 4 bytes, not {word_bytes}")
    source.grid(rows, cols)
    cycles, sums = 0.0, np.zeros(4)
    for height, down in _blocks(rows):
        for width, across in _blocks(cols):
            part = _block(source, target, height, width, method, word_bytes)
            cycles += down * across * _block_cycles(source, target, part, method, numbers)
            sums += down * across * part
    loads, stores, permutes, scattered = sums.tolist()
    moved = source.nbytes(rows, cols), target.nbytes(rows, cols)
    return Conversion(cycles, round(loads), round(stores), permutes, round(scattered), *moved)


def scatter_penalty(
    src: Layout | str, dst: Layout | str, word_bytes: int = 2, numbers: dict[str, float] = DEFAULTS
) -> float:
    """How many times longer scattering a file's blocks into `dst` takes than unpacking tiles that lie in its order.

    The tiles are the packed ones of the same quantisation (``q4_0_tiles`` for ``q4_0_rows``).
    """
    source = as_layout(src)
    tiles = find(source.name.replace("_rows", "_tiles"))
    naive = conversion_cycles(source, dst, BLOCK, BLOCK, method="scatter", word_bytes=word_bytes, numbers=numbers)
    return naive.cycles / conversion_cycles(tiles, dst, BLOCK, BLOCK, numbers=numbers).cycles


def cpu_read(layout: Layout | str, region: Region, numbers: dict[str, float] = DEFAULTS) -> CpuAccess:
    """Cost of reading a region by one CPU core."""
    layout = as_layout(layout)
    found = runs(layout, region)
    loads, lines = found.pieces(LOAD_BYTES), found.blocks(LINE_BYTES).size
    steps = shuffle_steps(layout)
    # a run shorter than a load gives a part of a register, which has to be put together
    short = int((found.length < LOAD_BYTES).sum()) if region.height * region.width > 1 else 0
    permutes = loads * steps + short
    cycles = max(loads * numbers["cpu_load"], permutes * numbers["cpu_permute"], lines * numbers["cpu_line"])
    return CpuAccess(cycles, found.nbytes, lines * LINE_BYTES, found.count, loads, permutes, lines)


def shuffle_steps(layout: Layout | str) -> int:
    """Steps of shuffling that bring 16 bytes of a layout into the order of a row or a column: log2 of the interleave.

    The halves of 4-bit bytes come apart in unpacking anyway.
    """
    layout = as_layout(layout)
    places = np.add.outer(np.array(layout.along_rows), np.array(layout.along_cols))
    near = (places < places.min() + 2 * LOAD_BYTES) & (places % 2 == 0)
    rows, cols = near.any(axis=1).sum(), near.any(axis=0).sum()
    return round(log2(min(rows, cols)))


def sparse_row_update(
    layout: Layout | str,
    rows: int,
    cols: int,
    changed: np.ndarray,
    *,
    axis: str = "rows",
    numbers: dict[str, float] = DEFAULTS,
) -> Update:
    """Cost of replacing some rows (or columns) of a matrix [rows, cols] in place by one CPU core.

    Parameters
    ----------
    layout : Layout or str
    rows, cols : int
        Keys as the weights of Q K^T are [head dim, tokens], values [tokens, head dim].
    changed : int array
        Numbers of the rows or columns that change; duplicates count once.
    axis : str
        ``rows`` or ``cols``.

    Raises
    ------
    InputError
        For an unknown layout or axis, or a number outside the matrix.
    """
    layout = as_layout(layout)
    if axis not in ("rows", "cols"):
        raise InputError(f"no axis {quote(axis)}; {suggest(axis, ('rows', 'cols'))}")
    touched = _strips(layout, rows, cols, np.unique(np.asarray(changed, np.int64)), axis)
    lines = touched.blocks(LINE_BYTES).size
    partial = lines - touched.full_blocks(LINE_BYTES)
    if layout.bits < 8:
        partial = lines  # the other half of every byte stays
    stores = touched.pieces(LOAD_BYTES)
    cycles = max(stores * numbers["cpu_store"], (lines + partial) * numbers["cpu_line"])
    moved = (lines + partial) * LINE_BYTES
    return Update(*(cycles, touched.nbytes, touched.count, stores, lines, partial, moved), layout.nbytes(rows, cols))


def _strips(layout: Layout, rows: int, cols: int, changed: np.ndarray, axis: str) -> Runs:
    """Runs of several rows or columns together."""
    if changed.size == 0:
        return Runs(changed, changed)
    starts = np.flatnonzero(np.append(True, np.diff(changed) > 1))
    found = []
    for first, after in zip(starts.tolist(), [*starts[1:].tolist(), changed.size]):
        at, size = int(changed[first]), after - first
        spot = (at, 0, size, cols) if axis == "rows" else (0, at, rows, size)
        found.append(runs(layout, Region(rows, cols, *spot)))
    start, length = (np.concatenate([getattr(part, name) for part in found]) for name in ("start", "length"))
    if layout.bits < 8 or layout.scale_byte >= 0:
        start, length = _merged(start, length)
    return joined(start, length)


def _merged(start: np.ndarray, length: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pieces without overlap from pieces that may overlap (rows share bytes, and scales)."""
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.maximum.accumulate((start + length)[order])
    first = np.append(True, start[1:] > end[:-1])
    at = np.flatnonzero(first)
    return start[at], np.append(end[at[1:] - 1], end[-1]) - start[at]


def _blocks(side: int) -> list[tuple[int, int]]:
    """Blocks of up to 64 along a side: (size, how many)."""
    whole, rest = divmod(side, BLOCK)
    return [(size, count) for size, count in ((BLOCK, whole), (rest, 1)) if size and count]


def _block(source: Layout, target: Layout, height: int, width: int, method: str, word_bytes: int) -> np.ndarray:
    """Loads, stores, shuffles and scattered words of one block, as if it were a matrix of its own."""
    row, col = np.arange(height)[:, None], np.arange(width)[None, :]
    place = [locate(layout, height, width, row, col) for layout in (source, target)]
    src, dst = (
        ((p.tile * layout.tile_bytes + p.byte) * 2 + p.nibble).ravel() for layout, p in zip((source, target), place)
    )
    from_vector, to_vector = src // (2 * VECTOR_BYTES), dst // (2 * VECTOR_BYTES)
    loads, stores = np.unique(from_vector).size, np.unique(to_vector).size
    if method == "scatter":
        return np.array([loads, stores, 0, _scattered(target, src, dst, word_bytes)])
    order = np.argsort(dst, kind="stable")
    pairs = np.unique(to_vector * (from_vector.max() + 1) + from_vector)
    sources = np.unique(pairs // (from_vector.max() + 1), return_counts=True)[1]
    apart = (np.diff(src[order]) * target.bits != np.diff(dst[order]) * source.bits) & (np.diff(to_vector[order]) == 0)
    mixed = np.unique(to_vector[order][1:][apart]).size
    steps = np.ceil(np.log2(sources)).sum() + max(mixed - int((sources > 1).sum()), 0)
    return np.array([loads, stores, steps / 2, 0])


def _scattered(target: Layout, src: np.ndarray, dst: np.ndarray, word_bytes: int) -> int:
    """Stores when elements leave in the order of the source: whole vectors at once, other runs word by word."""
    order = np.argsort(src, kind="stable")
    src, dst = src[order] // (2 * VECTOR_BYTES), dst[order] // 2
    size = target.bits // 8 or 1
    vector = dst // VECTOR_BYTES
    breaks = np.flatnonzero((np.diff(dst) != size) | (np.diff(vector) != 0)) + 1
    lengths = np.diff(np.concatenate(([0], breaks, [dst.size]))) * size
    whole = lengths == VECTOR_BYTES
    left = ~np.repeat(whole, lengths // size)
    # a word leaves when its elements come from the same source vector
    words = np.unique(src[left] * (dst.max() // word_bytes + 1) + dst[left] // word_bytes).size
    return int(whole.sum()) + words


def _block_cycles(source: Layout, target: Layout, part: np.ndarray, method: str, numbers: dict[str, float]) -> float:
    loads, stores, permutes, scattered = part.tolist()
    unpacks = source.bits != target.bits
    if method == "scatter":
        # unpacking has one store a vector in it, which the scattered words replace
        before = (numbers["unpack"] - numbers["memory"]) * stores if unpacks else numbers["memory"] * loads
        return before + numbers["scatter"] * scattered
    if unpacks:
        return numbers["unpack"] * stores + numbers["permute"] * permutes
    return max(numbers["memory"] * (loads + stores), numbers["permute"] * permutes)
