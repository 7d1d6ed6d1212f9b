"""Slices of work on named tracks: as a figure with a closer look, and as a Perfetto trace."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from archsim.report import style
from archsim.report.perfetto import write_slices

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Slices that the closer look shows on the busiest track.
CLOSE = 24


class Slices(NamedTuple):
    """Columns of equal length: index of the track, start and end in ps, number of the piece of work (-1: none)."""

    track: np.ndarray
    start_ps: np.ndarray
    end_ps: np.ndarray
    piece: np.ndarray


def stage_figure(tracks: Sequence[str], slices: Slices, title: str) -> Figure:
    """What each track does over time: the whole, and a window in the middle in which single pieces can be seen."""
    shown = [i for i in range(len(tracks)) if (slices.track == i).any()]
    end = int(slices.end_ps.max())
    busiest = max(shown, key=lambda i: int((slices.track == i).sum()))
    count = int((slices.track == busiest).sum())
    close = count > 2 * CLOSE
    with style.house():
        figure, axes = style.blank(0.7 + (0.25 * len(shown) + 0.5) * (1 + close), rows=1 + close, squeeze=False)
        _draw(axes[0, 0], tracks, shown, slices, 0, end)
        axes[0, 0].set_title(title)
        if close:
            starts = np.sort(slices.start_ps[slices.track == busiest])
            low = int(starts[count // 2 - CLOSE // 2])
            high = int(starts[count // 2 + CLOSE // 2])
            _draw(axes[1, 0], tracks, shown, slices, low, max(high, low + 1))
            axes[1, 0].set_title("a closer look")
    return figure


def _draw(axes, tracks: Sequence[str], shown: Sequence[int], slices: Slices, low: int, high: int) -> None:
    factor, unit = style.seconds(high)
    seen = (slices.end_ps > low) & (slices.start_ps < high)
    for y, track in enumerate(shown):
        mine = seen & (slices.track == track)
        start, end = np.maximum(slices.start_ps[mine], low), np.minimum(slices.end_ps[mine], high)
        order = np.argsort(start, kind="stable")
        start, end = start[order], np.maximum.accumulate(end[order])
        if start.size:
            # slices closer than a two-thousandth of the window are one
            apart = start[1:] - end[:-1] > (high - low) // 2000
            if mine.sum() <= 4 * CLOSE:
                apart = np.ones(start.size - 1, bool)
            first, last = np.append(True, apart), np.append(apart, True)
            spans = [(a * factor, (b - a) * factor) for a, b in zip(start[first].tolist(), end[last].tolist())]
            axes.broken_barh(spans, (y - 0.38, 0.76), linewidth=0.4 if len(spans) < 300 else 0.0, **style.look(track))
    axes.set_yticks(range(len(shown)), [tracks[i] for i in shown])
    axes.set_ylim(len(shown) - 0.5, -0.5)
    axes.set_xlim(low * factor, high * factor)
    axes.set_xlabel(f"time ({unit})")
    axes.grid(axis="x")


def stage_perfetto(tracks: Sequence[str], slices: Slices, title: str, file: str | os.PathLike[str]) -> Path:
    """Write slices as a Perfetto trace in which a nanosecond is a picosecond (single tiles last a few of them)."""
    return write_slices(file, title, tracks, slices.track, slices.start_ps, slices.end_ps, slices.piece)
