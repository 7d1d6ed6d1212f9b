"""House style of the figures: legible in black and white and to the colour-blind, and the same bytes every time.

Colours are Okabe and Ito's eight (Color Universal Design, jfly.uni-koeln.de/color, 2008), which differ for the common
kinds of colour blindness; each goes with a hatch and a line style, so that print without colour keeps them apart.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archsim.config.regular import replaced
from archsim.units import PS_PER_S, InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#7F7F7F")
HATCHES = ("", "////", "....", "\\\\\\\\", "xxxx", "----", "oooo", "||||")
MARKERS = "os^Dv<>P"
LINES = ("-", "--", ":", "-.", (0, (5, 1)), (0, (1, 1)), (0, (3, 1, 1, 1)), (0, (8, 3)))
#: Width of a figure in inches: two columns of a paper.
WIDTH_IN = 7.0
#: Characters of a legend's row across a figure, a handle counted as seven.
_LEGEND_CHARS = 100
_RC: Mapping[str, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 8.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.titlesize": 9.0,
    "axes.titlelocation": "left",
    "grid.color": "#D0D0D0",
    "grid.linewidth": 0.5,
    "hatch.linewidth": 0.5,
    "legend.frameon": False,
    "legend.handlelength": 2.2,
    "legend.handleheight": 1.1,
    "lines.linewidth": 1.3,
    "patch.linewidth": 0.4,
    "pdf.fonttype": 42,
    "savefig.dpi": 200,
    "svg.hashsalt": "archsim",
    "svg.fonttype": "path",
}
#: Metadata that would otherwise hold dates or versions.
_METADATA: Mapping[str, Mapping[str, str | None]] = {
    ".svg": {"Date": None, "Creator": "archsim"},
    ".pdf": {"CreationDate": None, "Creator": "archsim", "Producer": "archsim"},
    ".png": {"Software": "archsim"},
}


@contextmanager
def house() -> Iterator[None]:
    """Draw in the house style, whatever the user's own settings are."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_RC)
        yield


def blank(height_in: float, rows: int = 1, columns: int = 1, **options: Any) -> tuple[Figure, Any]:
    """Return an empty figure of the house's width and its axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH_IN, height_in), layout="constrained")
    return figure, figure.subplots(rows, columns, **options)


def look(index: int) -> dict[str, Any]:
    """Colour and hatch of the `index`-th of several areas; after eight, colours repeat with other hatches."""
    hatch = (index + 3 * (index // len(COLOURS))) % len(HATCHES)
    return {"facecolor": COLOURS[index % len(COLOURS)], "hatch": HATCHES[hatch], "edgecolor": "black"}


def line(index: int) -> dict[str, Any]:
    """Colour and dashes of the `index`-th of several lines; after eight, colours repeat with other dashes."""
    return {"color": COLOURS[index % len(COLOURS)], "linestyle": LINES[(index + index // 8) % len(LINES)]}


def marked(index: int) -> dict[str, Any]:
    """Look of a line with markers; the first 64 are told apart without colour."""
    return {**line(index), "marker": MARKERS[index % len(MARKERS)], "markersize": 3.5}


def wrapped(name: str, width: int = 24, lines: int = 2) -> str:
    """Break a name into `lines` of up to `width` characters, at dots and underscores if need be.

    What is too long for that loses its middle: the ends of names tell them apart. ``$`` starts no formula.
    """
    parts, rest = [], " ".join(str(name).split())
    while rest and len(parts) < lines:
        if len(rest) <= width:
            parts, rest = [*parts, rest], ""
            break
        cut = max(rest.rfind(mark, width // 2, width) + 1 for mark in " ._-/:,")
        cut = cut or width
        parts, rest = [*parts, rest[:cut].rstrip()], rest[cut:].lstrip()
    if rest:
        parts[-1] = f"{parts[-1][: width - 9].rstrip()}…{rest[-8:]}"
    return "\n".join(parts).replace("$", r"\$")


def rows_of(names: Sequence[str], width: int = 24) -> tuple[list[str], float]:
    """Names for a vertical axis, and the inches that each row of it needs."""
    made = [wrapped(name, width) for name in names]
    return made, 0.3 if any("\n" in name for name in made) else 0.2


def si(largest: float, unit: str) -> tuple[float, str]:
    """Factor and unit text that make values up to `largest` readable: ``si(0.003, "s")`` is ``(1e3, "ms")``."""
    for power, prefix in ((0, ""), (3, "m"), (6, "u"), (9, "n"), (12, "p")):
        if largest * 10**power >= 1:
            return float(10**power), f"{prefix}{unit}"
    return 1.0, unit


def three(value: float) -> str:
    """Three significant digits without a power of ten up to a million: ``three(1049.3)`` is ``1049``."""
    return f"{value:.0f}" if 1000 <= abs(value) < 1e6 else f"{value:.3g}"


def seconds(ps: int) -> tuple[float, str]:
    """Factor from ps and unit text for a span of `ps`."""
    factor, unit = si(ps / PS_PER_S, "s")
    return factor / PS_PER_S, unit


def legend_below(figure: Figure, axes: Axes, columns: int) -> None:
    """Put the legend of `axes` below the figure, where it covers nothing; the figure grows by what it needs."""
    handles, labels = axes.get_legend_handles_labels()
    if not handles:
        return
    labels = [wrapped(text, 44) for text in labels]
    longest = max(len(part) for text in labels for part in text.split("\n"))
    count = max(1, min(columns, len(labels), _LEGEND_CHARS // (longest + 7)))
    rows = -(-len(labels) // count)
    lines = 2 if any("\n" in text for text in labels) else 1
    figure.set_figheight(figure.get_figheight() + max(0.0, rows * lines - 3) * 0.18)
    figure.legend(handles, labels, loc="outside lower center", ncols=count)


def check_ending(file: str | os.PathLike[str]) -> Path:
    """Path of a figure; another ending than ``.svg``, ``.pdf`` or ``.png`` raises InputError."""
    path = Path(file)
    if path.suffix not in _METADATA:
        raise InputError(f"{path}: a figure is written as .svg, .pdf or .png")
    return path


def save(figure: Figure, file: str | os.PathLike[str]) -> Path:
    """Write a figure as ``.svg``, ``.pdf`` or ``.png``; equal figures give equal bytes.

    Raises
    ------
    InputError
        For another ending, or when `file` is something other than a regular file or cannot be written.
    """
    path = check_ending(file)
    with house(), replaced(path) as partial:
        figure.savefig(partial, format=path.suffix[1:], metadata=dict(_METADATA[path.suffix]))
    return path
