"""How a matrix lies in memory for the matrix unit: one address map per layout, forwards and back.

A layout cuts a matrix [rows, cols] into tiles, puts the tiles one after the other (along the columns first, or along
the rows first) and the elements of a tile at fixed places: ``place = along_rows[r] + along_cols[c]`` in half bytes.
Sides are padded to whole tiles. Weights have k along the rows and n along the columns, activations m along the rows and
k along the columns, so a row of the weights meets a column of the activations.

==================  ========  =========  ====================================================================
layout              tile      bytes      inside a tile
==================  ========  =========  ====================================================================
``row_major``       1 x 1     2          -
``col_major``       1 x 1     2          -  (weights as files hold them: k runs fastest)
``hmx_activation``  32 x 32   2048       two rows interleaved in each 128-byte vector (the *crouton*); tiles by rows
``hmx_weight``      32 x 32   2048       the same, pairs along k; tiles by columns, so a column's k is one run
``int8_activation`` 64 x 32   2048       rows of 32 bytes; tiles by rows
``int8_weight``     32 x 32   1024       four k of each of the 32 columns in each 128-byte vector; tiles by columns
``q4_0_rows``       32 x 1    18         a block as files hold it: scale, then k and k + 16 in one byte
``q8_0_rows``       32 x 1    34         scale, then 32 bytes
``q4_0_tiles``      32 x 32   576        k and k + 1 of a column in one byte, 32 columns, 16 such pairs; then 32 scales
``q8_0_tiles``      32 x 32   1088       k and k + 1 of a column side by side, 32 columns, 16 pairs; then 32 scales
==================  ========  =========  ====================================================================

Sources: crouton, tile orders: EuroSys'26 (arXiv 2509.23324, figure 4), htp-ops-lib; INT8 tile sizes: HexKL; order of an
INT8 weight tile: public HMX test code against ggml's tiles; packed tiles: ggml-hexagon (tiles of 576 and 1088 bytes,
640 and 1152 in VTCM); block formats: ggml. assumed: the order inside an INT8 activation tile (rows of 32 inner
elements).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from archsim.units import InputError, quote, suggest

MAX_SIDE = 1 << 22
#: Place of half bytes that hold no element.
NOTHING = -1


class Place(NamedTuple):
    """Where elements are: tile, byte of the tile, half of the byte (0 where elements are whole bytes)."""

    tile: np.ndarray
    byte: np.ndarray
    nibble: np.ndarray


@dataclass(frozen=True)
class Layout:
    """An address map.

    Attributes
    ----------
    name : str
    bits : int
        Bits of an element, 4, 8 or 16.
    tile_rows, tile_cols : int
    tile_bytes, staged_bytes : int
        Bytes of a tile in DRAM, and aligned in the NPU's local memory.
    by_rows : bool
        Tiles follow each other along a row of tiles (else along a column).
    along_rows, along_cols : tuple of int
        Half bytes that a row and a column of the tile add to an element's place.
    scale_byte : int
        Where the FP16 scales of a tile begin, one per column and 32 rows; -1: none.
    """

    name: str
    bits: int
    tile_rows: int
    tile_cols: int
    tile_bytes: int
    staged_bytes: int
    by_rows: bool
    along_rows: tuple[int, ...]
    along_cols: tuple[int, ...]
    scale_byte: int = NOTHING

    def grid(self, rows: int, cols: int) -> tuple[int, int]:
        """Tiles along the rows and along the columns of a matrix."""
        check_shape(rows, cols)
        return -(-rows // self.tile_rows), -(-cols // self.tile_cols)

    def nbytes(self, rows: int, cols: int) -> int:
        """Bytes of a matrix, padding included."""
        down, across = self.grid(rows, cols)
        return down * across * self.tile_bytes

    def tile_index(self, rows: int, cols: int, down: np.ndarray, across: np.ndarray) -> np.ndarray:
        """Number of the tiles in row `down` and column `across` of the grid."""
        height, width = self.grid(rows, cols)
        return down * width + across if self.by_rows else across * height + down


def _crouton(by_rows: bool, name: str) -> Layout:
    """FP16 tile of 16 vectors of two rows: row r in vector r // 2, columns 4 bytes apart, the pair side by side."""
    pairs = tuple(r // 2 * 256 + r % 2 * 4 for r in range(32))
    return Layout(name, 16, 32, 32, 2048, 2048, by_rows, pairs, tuple(8 * c for c in range(32)))


_COLUMN_BYTES = tuple(2 * c for c in range(32))
LAYOUTS: dict[str, Layout] = {
    layout.name: layout
    for layout in (
        Layout("row_major", 16, 1, 1, 2, 2, True, (0,), (0,)),
        Layout("col_major", 16, 1, 1, 2, 2, False, (0,), (0,)),
        _crouton(True, "hmx_activation"),
        _crouton(False, "hmx_weight"),
        Layout("int8_activation", 8, 64, 32, 2048, 2048, True, tuple(64 * r for r in range(64)), _COLUMN_BYTES),
        Layout(
            *("int8_weight", 8, 32, 32, 1024, 1024, False),
            tuple(k // 4 * 256 + k % 4 * 2 for k in range(32)),
            tuple(8 * n for n in range(32)),
        ),
        Layout("q4_0_rows", 4, 32, 1, 18, 18, False, tuple(4 + k % 16 * 2 + k // 16 for k in range(32)), (0,), 0),
        Layout("q8_0_rows", 8, 32, 1, 34, 34, False, tuple(4 + 2 * k for k in range(32)), (0,), 0),
        Layout(
            *("q4_0_tiles", 4, 32, 32, 576, 640, False),
            tuple(k // 2 * 64 + k % 2 for k in range(32)),
            _COLUMN_BYTES,
            512,
        ),
        Layout(
            *("q8_0_tiles", 8, 32, 32, 1088, 1152, False),
            tuple(k // 2 * 128 + k % 2 * 2 for k in range(32)),
            tuple(4 * n for n in range(32)),
            1024,
        ),
    )
}


def find(name: str) -> Layout:
    """Layout by name.

    Raises
    ------
    InputError
        For an unknown name.
    """
    if name not in LAYOUTS:
        raise InputError(f"no layout {quote(name)}; {suggest(name, tuple(LAYOUTS))}")
    return LAYOUTS[name]


def check_shape(rows: int, cols: int) -> None:
    """Refuse sides outside 1 to 2**22."""
    for name, side in (("rows", rows), ("cols", cols)):
        if not 1 <= side <= MAX_SIDE:
            raise InputError(f"{name} is {side}; it must be between 1 and {MAX_SIDE}")


def locate(layout: Layout, rows: int, cols: int, row: np.ndarray, col: np.ndarray) -> Place:
    """Place of elements ``[row, col]`` (arrays that broadcast) of a matrix [rows, cols].

    Elements of the padding (up to whole tiles) have places too; beyond it raises IndexError.
    """
    down, across = layout.grid(rows, cols)
    row, col = np.asarray(row, np.int64), np.asarray(col, np.int64)
    if row.size and col.size:
        low, high = min(row.min(), col.min()), (row.max() // layout.tile_rows, col.max() // layout.tile_cols)
        if low < 0 or high[0] >= down or high[1] >= across:
            raise IndexError(f"an element lies outside the {down} x {across} tiles of {layout.name}")
    tile = layout.tile_index(rows, cols, row // layout.tile_rows, col // layout.tile_cols)
    half = np.array(layout.along_rows)[row % layout.tile_rows] + np.array(layout.along_cols)[col % layout.tile_cols]
    return Place(tile, half // 2, half % 2)


def element(layout: Layout, rows: int, cols: int, place: Place) -> tuple[np.ndarray, np.ndarray]:
    """Row and column of the elements at places; -1, -1 for bytes that hold none (scales, second halves of bytes)."""
    down, across = layout.grid(rows, cols)
    held = _held(layout)[place.byte * 2 + place.nibble]
    major, minor = np.divmod(place.tile, across if layout.by_rows else down)
    row_tile, col_tile = (major, minor) if layout.by_rows else (minor, major)
    row = row_tile * layout.tile_rows + held // layout.tile_cols
    col = col_tile * layout.tile_cols + held % layout.tile_cols
    return np.where(held < 0, NOTHING, row), np.where(held < 0, NOTHING, col)


def locate_scale(layout: Layout, rows: int, cols: int, row: np.ndarray, col: np.ndarray) -> Place:
    """Place of the FP16 scale of the elements' blocks; a layout without scales raises ValueError."""
    if layout.scale_byte == NOTHING:
        raise ValueError(f"{layout.name} has no scales")
    tile = locate(layout, rows, cols, row, col).tile
    byte = layout.scale_byte + 2 * (np.broadcast_to(col, tile.shape) % layout.tile_cols)
    return Place(tile, byte, np.zeros_like(byte))


def _held(layout: Layout) -> np.ndarray:
    """Number (row * tile_cols + col) of the element at each half byte of a tile, -1 for none."""
    held = np.full(2 * layout.tile_bytes, NOTHING)
    places = np.add.outer(np.array(layout.along_rows), np.array(layout.along_cols))
    held[places.ravel()] = np.arange(places.size)
    return held
