"""Figures of NPU kernels from tables: time over rows, and time by order of the operands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from archsim.report import style
from archsim.units import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


#: Ratio of the longest to the shortest time from which the axis is logarithmic.
WIDE = 20


def kernel_times_figure(rows: Sequence[Mapping[str, Any]], over: str, *, steps: bool = False) -> Figure:
    """Time of kernels over a size, one line per kernel.

    Parameters
    ----------
    rows : sequence of mapping
        Column `over`, and one column ``<kernel>_us`` per line.
    over : str
        Size on the horizontal axis.
    steps : bool
        Draw ticks and grid at every 32.

    Raises
    ------
    InputError
        When there are no rows, or no such columns.
    """
    names = [name for name in (rows[0] if rows else ()) if name.endswith("_us")]
    if not rows or over not in rows[0] or not names:
        raise InputError(f"the table needs a column {over!r} and at least one that ends in _us")
    sizes = [row[over] for row in rows]
    largest = max(row[name] for row in rows for name in names)
    factor, unit = style.si(largest / 1e6, "s")
    with style.house():
        figure, axes = style.blank(2.6)
        for i, name in enumerate(names):
            label = name.removesuffix("_us").replace("_", " ")
            axes.plot(sizes, [row[name] / 1e6 * factor for row in rows], label=label, **style.line(i))
        if steps:
            axes.set_xticks(range(0, int(max(sizes)) + 1, 32))
        axes.set_xlim(0, max(sizes))
        if largest > WIDE * min(row[name] for row in rows for name in names):
            axes.set_yscale("log")
        else:
            axes.set_ylim(0, None)
        axes.set_xlabel(over.replace("_", " "))
        axes.set_ylabel(f"time ({unit})")
        axes.grid(True)
        style.legend_below(figure, axes, len(names))
    return figure
