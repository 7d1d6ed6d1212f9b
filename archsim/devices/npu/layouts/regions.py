"""Contiguous runs of bytes that a rectangle of a matrix is in a layout: what DMA, a CPU or a cache sees of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from archsim.devices.npu.layouts.formats import NOTHING, Layout
from archsim.units import InputError


@dataclass(frozen=True)
class Region:
    """Rows ``row`` to ``row + height`` and columns ``col`` to ``col + width`` of a matrix [rows, cols]."""

    rows: int
    cols: int
    row: int = 0
    col: int = 0
    height: int = 0
    width: int = 0

    def __post_init__(self) -> None:
        for name, start, size, side in (
            ("row", self.row, self.height, self.rows),
            ("col", self.col, self.width, self.cols),
        ):
            if not (start >= 0 and size >= 1 and start + size <= side):
                raise InputError(f"{name}s {start} to {start + size} do not lie in a matrix {self.rows} x {self.cols}")


def whole(rows: int, cols: int) -> Region:
    """Return the region that is all of a matrix."""
    return Region(rows, cols, 0, 0, rows, cols)


@dataclass(frozen=True)
class Runs:
    """Runs in ascending order, none adjacent to the next.

    Attributes
    ----------
    start, length : int64[n]
        Bytes from the start of the matrix.
    """

    start: np.ndarray
    length: np.ndarray

    @property
    def count(self) -> int:
        """Number of runs."""
        return len(self.start)

    @property
    def nbytes(self) -> int:
        """Bytes in all runs."""
        return int(self.length.sum())

    def blocks(self, size: int) -> np.ndarray:
        """Numbers of the aligned blocks of `size` bytes (cache lines, bursts, pages) that the runs touch, ascending."""
        first, last = self.start // size, (self.start + self.length - 1) // size
        count = last - first + 1
        offset = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
        return np.unique(np.repeat(first, count) + offset)

    def full_blocks(self, size: int) -> int:
        """How many aligned blocks of `size` bytes the runs cover whole."""
        first, last = -(-self.start // size), (self.start + self.length) // size
        return int(np.maximum(last - first, 0).sum())

    def pieces(self, size: int) -> int:
        """Accesses of at most `size` bytes that pass no boundary of an aligned block of `size` bytes."""
        return int(((self.start + self.length - 1) // size - self.start // size + 1).sum())


def joined(start: np.ndarray, length: np.ndarray) -> Runs:
    """Runs from pieces in any order that do not overlap; adjacent ones become one."""
    order = np.argsort(start, kind="stable")
    start, length = start[order], length[order]
    first = np.append(True, start[1:] != start[:-1] + length[:-1]) if start.size else np.empty(0, bool)
    at = np.flatnonzero(first)
    return Runs(start[at], np.add.reduceat(length, at) if at.size else length)


def runs(layout: Layout, region: Region) -> Runs:
    """Runs of a region: all bytes that hold a part of its elements or their scales."""
    row_parts = _parts(region.row, region.height, layout.tile_rows)
    col_parts = _parts(region.col, region.width, layout.tile_cols)
    starts, lengths = [], []
    for row_tiles, row_low, row_high in row_parts:
        for col_tiles, col_low, col_high in col_parts:
            inside, size = _inside(layout, row_low, row_high, col_low, col_high)
            down, across = row_tiles, col_tiles
            if inside.size == 1 and size[0] == layout.tile_bytes:
                # whole tiles that follow each other are one piece
                fast = across if layout.by_rows else down
                size = size * fast.size
                down, across = (down, across[:1]) if layout.by_rows else (down[:1], across)
            tiles = layout.tile_index(region.rows, region.cols, down[:, None], across[None, :]).ravel()
            starts.append((tiles[:, None] * layout.tile_bytes + inside).ravel())
            lengths.append(np.tile(size, tiles.size))
    return joined(np.concatenate(starts), np.concatenate(lengths))


def _parts(start: int, size: int, tile: int) -> list[tuple[np.ndarray, int, int]]:
    """Tiles that a span meets, in groups met alike: (tiles, first, end) inside the tile."""
    first, last = start // tile, (start + size - 1) // tile
    low, high = start - first * tile, start + size - last * tile
    if first == last:
        return [(np.array([first]), low, high)]
    parts = []
    middle_first, middle_last = first + (low > 0), last - (high < tile)
    if low > 0:
        parts.append((np.array([first]), low, tile))
    if middle_first <= middle_last:
        parts.append((np.arange(middle_first, middle_last + 1), 0, tile))
    if high < tile:
        parts.append((np.array([last]), 0, high))
    return parts


def _inside(layout: Layout, row_low: int, row_high: int, col_low: int, col_high: int) -> tuple[np.ndarray, np.ndarray]:
    """Runs inside a tile of a rectangle of it, scales included."""
    places = np.add.outer(np.array(layout.along_rows[row_low:row_high]), np.array(layout.along_cols[col_low:col_high]))
    used = np.zeros(layout.tile_bytes, bool)
    width = max(layout.bits // 8, 1)
    for byte in range(width):
        used[places.ravel() // 2 + byte] = True
    if layout.scale_byte != NOTHING:
        scales = layout.scale_byte + 2 * np.arange(col_low, col_high)
        used[scales] = used[scales + 1] = True
    edge = np.diff(np.concatenate(([0], used.view(np.int8), [0])))
    start = np.flatnonzero(edge == 1)
    return start, np.flatnonzero(edge == -1) - start
