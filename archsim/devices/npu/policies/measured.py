"""Policy ``table``: times the user measured, interpolated.

A file in CSV with the columns ``kind,m,k,n,dtype,cycles,clock_hz,dma_bytes,overlap``: kind of operator and weight
type by their names, cycles of a clock in Hz, bytes that DMA moved, and whether they overlap the cycles (``full``) or
add to them (``none``; the measured cycles then leave the transfer out). Between two measured row counts of one matrix
shape cycles and bytes are interpolated; between two shapes, by their number of weights. Outside the measured range
they are scaled in proportion, and the operator is counted as extrapolated.
"""

from __future__ import annotations

import csv
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from archsim.device import DType, OpKind, Ops
from archsim.units import InputError

COLUMNS = ("kind", "m", "k", "n", "dtype", "cycles", "clock_hz", "dma_bytes", "overlap")
OVERLAPS = ("full", "none")
KINDS = (OpKind.MATMUL, OpKind.PROJECTION)
#: Columns of what the kernels get: duration (ps), bytes, whether they add, whether extrapolated, whether there is any.
TABLE_PS, TABLE_BYTES, TABLE_ADDS, FAR, KNOWN = range(5)

Point = tuple[float, float, bool]  # duration (ps), bytes, adds
Curve = list[tuple[int, Point]]  # by rows


def _line(fields: Mapping[str, str], where: str) -> tuple[tuple[int, int], tuple[int, int], int, Point]:
    """One line: (kind, dtype), (k, n), rows, point."""
    try:
        kind, dtype = OpKind[fields["kind"].strip().upper()], DType[fields["dtype"].strip().upper()]
    except KeyError as error:
        raise InputError(
            f"{where}: unknown kind or dtype {error.args[0]!r}; use names such as matmul and q4_0"
        ) from None
    overlap = fields["overlap"].strip()
    if overlap not in OVERLAPS or kind not in KINDS:
        raise InputError(f"{where}: overlap is 'full' or 'none' and kind matmul or projection")
    try:
        m, k, n, moved = (int(fields[name]) for name in ("m", "k", "n", "dma_bytes"))
        cycles, clock = float(fields["cycles"]), float(fields["clock_hz"])
    except ValueError as error:
        raise InputError(f"{where}: {error}") from None
    if min(m, k, n) < 1 or moved < 0 or not 0 < cycles < 1e15 or not 1e6 <= clock < 1e12:
        raise InputError(f"{where}: sizes start at 1, cycles lie below 1e15, clock_hz is 1e6 to 1e12")
    return (int(kind), int(dtype)), (k, n), m, (cycles / clock * 1e12, float(moved), overlap == "none")


class Table:
    """Measured operators by kind and weight type.

    Raises
    ------
    InputError
        For a file that is not there, has other columns, no lines, a line twice, or a number out of range.
    """

    def __init__(self, path: str) -> None:
        file = Path(path)
        if not file.is_file():
            raise InputError(f"no kernel table {path!r}; give system.<npu>.table the path of a CSV file")
        try:
            lines = list(csv.DictReader(file.read_text(encoding="utf-8").splitlines(), strict=True))
        except (UnicodeDecodeError, csv.Error) as error:
            raise InputError(f"{path}: not a CSV file in UTF-8 ({error})") from None
        self._shapes: dict[tuple[int, int], list[tuple[int, Curve]]] = {}
        found: dict[tuple[int, int], dict[tuple[int, int], dict[int, Point]]] = {}
        for number, fields in enumerate(lines, start=2):
            where = f"{path}:{number}"
            if set(fields) != set(COLUMNS) or None in fields.values():
                raise InputError(f"{where}: columns are {','.join(COLUMNS)}")
            types, shape, rows, point = _line(fields, where)
            curve = found.setdefault(types, {}).setdefault(shape, {})
            if rows in curve:
                raise InputError(f"{where}: {shape[0]} x {shape[1]} with {rows} rows is there twice")
            curve[rows] = point
        if not found:
            raise InputError(f"{path}: no measurements")
        for types, shapes in found.items():
            curves = [(k * n, sorted(curve.items())) for (k, n), curve in shapes.items()]
            self._shapes[types] = sorted(curves, key=lambda entry: entry[0])

    def look_up(self, kind: int, dtype: int, m: int, k: int, n: int) -> tuple[int, int, bool, bool] | None:
        """Duration (ps), bytes, whether they add, and whether extrapolated; None for a type that was not measured."""
        shapes = self._shapes.get((kind, dtype))
        if shapes is None:
            return None
        at = bisect_left([weights for weights, _ in shapes], k * n)
        near = [shapes[j] for j in (at - 1, at) if 0 <= j < len(shapes)]
        if at < len(shapes) and shapes[at][0] == k * n:
            near = [shapes[at]]
        found = [(weights, *_along(curve, m)) for weights, curve in near]
        adds = found[0][1][2]
        far = any(entry[2] for entry in found)
        if len(found) == 1:
            scale = k * n / found[0][0]
            point = found[0][1]
            return round(point[0] * scale), round(point[1] * scale), adds, far or scale != 1
        part = (k * n - found[0][0]) / (found[1][0] - found[0][0])
        low, high = found[0][1], found[1][1]
        mixed = [low[j] + (high[j] - low[j]) * part for j in (0, 1)]
        return round(mixed[0]), round(mixed[1]), adds, far

    def columns(self, ops: Ops, wanted: np.ndarray) -> np.ndarray:
        """int64[n, 5] for the operators in `wanted`; KNOWN is 0 where the table has nothing."""
        table = np.zeros((len(ops.kind), 5), np.int64)
        for i in np.flatnonzero(wanted).tolist():
            entry = self.look_up(*(int(c[i]) for c in (ops.kind, ops.wdtype, ops.m, ops.k, ops.n)))
            if entry is not None:
                table[i] = (*entry, 1)
        return table


def _along(curve: Sequence[tuple[int, Point]], m: int) -> tuple[Point, bool]:
    """Point of a curve at m rows, and whether it lies outside the measured ones."""
    rows = [entry[0] for entry in curve]
    at = bisect_left(rows, m)
    if at < len(rows) and rows[at] == m:
        return curve[at][1], False
    if 0 < at < len(rows):
        (a, low), (b, high) = curve[at - 1], curve[at]
        part = (m - a) / (b - a)
        return (low[0] + (high[0] - low[0]) * part, low[1] + (high[1] - low[1]) * part, low[2]), False
    edge, point = curve[0] if at == 0 else curve[-1]
    # fewer rows than measured cost no less than the fewest measured; more cost in proportion, bytes stay
    scale = max(m / edge, 1.0)
    return (point[0] * scale, point[1], point[2]), True
