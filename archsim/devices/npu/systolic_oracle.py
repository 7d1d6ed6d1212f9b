"""Slow oracle of the systolic array: every register of every processing element, every cycle, with numbers in them.

An operand enters at the left or top edge of its row or column one cycle after its neighbour, moves one element a cycle,
and meets its partner on the way. Nothing is computed from closed forms: a fold ends when nothing moves any more, counts
are words that passed the edges, and the product must come out right.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

NONE = -1


@dataclass
class Seen:
    """What passed the edges of the array.

    Attributes
    ----------
    product : ndarray
        [m, n].
    cycles : int
        Cycles until nothing moved in the last fold.
    ifmap_reads, filter_reads, ofmap_writes, macs : int
        Words and products (of words that exist).
    last_result : int
        Cycles until the last result has left the array.
    """

    product: np.ndarray
    cycles: int = 0
    ifmap_reads: int = 0
    filter_reads: int = 0
    ofmap_writes: int = 0
    macs: int = 0
    last_result: int = 0


def simulate(flow: str, rows: int, cols: int, a: np.ndarray, b: np.ndarray) -> Seen:
    """Multiply integer matrices a [m, k] and b [k, n] on a rows x cols array."""
    seen = Seen(np.zeros((a.shape[0], b.shape[1]), np.int64))
    if flow == "os":
        _output_stationary(seen, rows, cols, a, b)
    elif flow == "ws":
        seen.filter_reads, seen.ifmap_reads = _stationary(seen, seen.product, rows, cols, b, a)
    else:
        # the input stays, transposed, and the columns of the weights stream: (b^T a^T)^T
        seen.ifmap_reads, seen.filter_reads = _stationary(seen, seen.product.T, rows, cols, a.T, b.T)
    return seen


def _shift(values: np.ndarray, entering: np.ndarray, axis: int) -> np.ndarray:
    """Move registers by one element along an axis (1: right, 0: down); `entering` takes the edge."""
    if axis == 1:
        return np.concatenate((entering[:, None], values[:, :-1]), axis=1)
    return np.concatenate((entering[None, :], values[:-1]), axis=0)


def _stationary(seen, product, rows, cols, stays, streams):
    """Tiles of `stays` [k, n] are shifted in from the top; rows of `streams` [m, k] pass; sums move down."""
    (inner, outer), length = stays.shape, streams.shape[0]
    tile_reads = stream_reads = 0
    for left in range(0, outer, cols):
        for top in range(0, inner, rows):
            used = stays[top : top + rows, left : left + cols]
            kept = np.zeros((rows, cols), np.int64)
            tile = kept.copy()
            tile[: used.shape[0], : used.shape[1]] = used
            value, tag = np.zeros((rows, cols), np.int64), np.full((rows, cols), NONE)
            total, row_of = np.zeros((rows, cols), np.int64), np.full((rows, cols), NONE)
            t = 0
            while True:
                if t < rows:
                    kept = _shift(kept, tile[rows - 1 - t], 0)
                    tile_reads += used.shape[1] if rows - 1 - t < used.shape[0] else 0
                at = t - rows - np.arange(rows)
                live = (at >= 0) & (at < length)
                exists = live & (np.arange(rows) < used.shape[0])
                entering = np.zeros(rows, np.int64)
                entering[exists] = streams[at[exists], top + np.flatnonzero(exists)]
                stream_reads += int(exists.sum())
                value, tag = _shift(value, entering, 1), _shift(tag, np.where(live, at, NONE), 1)
                if t >= rows and not (tag != NONE).any():
                    break
                total = _shift(total, np.zeros(cols, np.int64), 0) + kept * value
                row_of = _shift(row_of, np.full(cols, NONE), 0)
                row_of[0] = tag[0]
                seen.macs += int((tag[: used.shape[0], : used.shape[1]] != NONE).sum())
                for c in range(used.shape[1]):
                    if row_of[rows - 1, c] != NONE:
                        product[row_of[rows - 1, c], left + c] += total[rows - 1, c]
                        seen.ofmap_writes += 1
                        seen.last_result = seen.cycles + t + 1
                t += 1
            seen.cycles += t
    return tile_reads, stream_reads


def _output_stationary(seen: Seen, rows: int, cols: int, a: np.ndarray, b: np.ndarray) -> None:
    """Inputs move right, weights down, sums stay; a finished sum moves up and out while the next fold computes."""
    depth = a.shape[1]
    chain: list[tuple[int, int, int]] = []  # column, cycle in which it enters the chain, row
    for left in range(0, b.shape[1], cols):
        for top in range(0, a.shape[0], rows):
            used_a, used_b = a[top : top + rows], b[:, left : left + cols]
            value_a, tag_a = np.zeros((rows, cols), np.int64), np.full((rows, cols), NONE)
            value_b, total = value_a.copy(), value_a.copy()
            t = 0
            while True:
                value_a, tag_a, read_a = _enter(value_a, tag_a, used_a, rows, depth, t, 1)
                value_b, _, read_b = _enter(value_b, tag_a, used_b.T, cols, depth, t, 0)
                if t and not (tag_a != NONE).any():
                    break
                seen.ifmap_reads += read_a
                seen.filter_reads += read_b
                total += value_a * value_b
                seen.macs += int((tag_a[: used_a.shape[0], : used_b.shape[1]] != NONE).sum())
                for r, c in np.argwhere(tag_a == depth - 1).tolist():
                    if r < used_a.shape[0] and c < used_b.shape[1]:
                        seen.product[top + r, left + c] = total[r, c]
                        chain.append((c, seen.cycles + t + 1, r))
                t += 1
            seen.cycles += t
    seen.ofmap_writes = len(chain)
    seen.last_result = _drain(chain)


def _enter(value, tag, operand, lanes, depth, t, axis):
    """Next registers of an operand [lane, depth] that enters skewed, with the words read."""
    at = t - np.arange(lanes)
    live = (at >= 0) & (at < depth)
    exists = live & (np.arange(lanes) < operand.shape[0])
    entering = np.zeros(lanes, np.int64)
    entering[exists] = operand[np.flatnonzero(exists), at[exists]]
    return _shift(value, entering, axis), _shift(tag, np.where(live, at, NONE), axis), int(exists.sum())


def _drain(chain: list[tuple[int, int, int]]) -> int:
    """Cycles until all words have moved up one row a cycle and out; a word waits when its register is taken."""
    last, taken = 0, set()
    for column, cycle, row in sorted(chain, key=lambda word: (word[1], word[2])):
        start = cycle
        while any((column, row - step, start + step) in taken for step in range(row + 1)):
            start += 1
        taken.update((column, row - step, start + step) for step in range(row + 1))
        last = max(last, start + row + 1)
    return last
