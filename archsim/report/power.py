"""Power over time: the energy of each row spread evenly over the time in which its data flowed, plus static power."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from archsim.report.energy import PJ_PER_MW_PS, device_pj, row_pj, static_mw
from archsim.report.states import spans, voltage_factors
from archsim.report.sums import cached, sums
from archsim.report.traffic import cut_rows
from archsim.trace import Trace
from archsim.units import PS_PER_S, InputError

#: Default bin of peak power: 1 ms, the shortest time over which a phone's supply and battery see a load.
#: assumed: bulk capacitors smooth what is shorter.
BIN_PS = PS_PER_S // 1000
#: Entries that are worked on at a time where a run is too long for memory.
ROWS = 1 << 17


@dataclass(frozen=True)
class Power:
    """Power over time.

    ``edges_ps[n + 1]`` are the edges of n bins; ``device_w`` gives n mean powers per device, static power included.
    The peak is that of a bin, so it depends on the bin.
    """

    edges_ps: np.ndarray
    device_w: Mapping[str, np.ndarray]
    bin_ps: int

    def total_w(self) -> np.ndarray:
        """Power of the machine, by bin."""
        return sum(self.device_w.values(), np.zeros(len(self.edges_ps) - 1))

    def mean_w(self) -> float:
        """Mean power over the run."""
        span = float(self.edges_ps[-1] - self.edges_ps[0])
        energy = np.sum(self.total_w() * np.diff(self.edges_ps))  # no BLAS: its threads would spin on beside the run
        return float(energy) / span if span else 0.0

    def peak_w(self) -> float:
        """Largest mean power of a bin."""
        return float(self.total_w().max(initial=0.0))


def power(trace: Trace, bin_ps: int | None = None) -> Power:
    """Power of a run in bins.

    Parameters
    ----------
    bin_ps : int, optional
        Width of a bin (the last one may be shorter). Default: 1 ms, or a fiftieth of the run if that is shorter.
    """
    edges, bin_ps = _edges(trace, bin_ps)
    names, spent = _spent(trace, edges)
    width = np.maximum(np.diff(edges), 1)
    return Power(edges, {name: pj / width for name, pj in zip(names, spent)}, bin_ps)  # pJ per ps is W


def headline_w(trace: Trace) -> tuple[float, float]:
    """Mean and peak power of a run (see :func:`power`), in bounded memory where the rows are in a file."""
    if not trace.stored:
        found = power(trace)
        return found.mean_w(), found.peak_w()
    return sums(trace, Binned).headline_w(trace)


class Binned:
    """Energy of rows by bin of the default width, pJ."""

    def __init__(self, trace: Trace) -> None:
        self._grid = _Grid(trace, None)
        self._spent = np.zeros(self._grid.bins)
        self._devices, self._cost = device_pj(trace)
        self._whole = sum(self._cost, np.zeros(self._cost.shape[1]))

    def add(self, part: Trace) -> None:
        """Add the rows of a part."""
        begin, end, ran = _span(part)
        if begin.size:
            _add(self._spent, self._grid, begin, end, self._pj(part)[ran])

    def _pj(self, part: Trace) -> np.ndarray:
        """Energy of each row on all devices."""
        factors = voltage_factors(part)
        if factors or cached(part, cut_rows).size:
            each = (row_pj(part, cost) * factors.get(name, 1.0) for name, cost in zip(self._devices, self._cost))
            return sum(each, np.zeros(len(part.rows["row"])))
        # rows that executed whole or not at all: the sum over the devices is that of the operator, to the last bit
        return row_pj(part, self._whole)

    def headline_w(self, trace: Trace) -> tuple[float, float]:
        """Mean and peak power, static power included."""
        grid, spent = self._grid, self._spent.copy()
        if not grid.bins:
            return 0.0, 0.0
        when = cached(trace, spans)
        for block, mw in static_mw(trace).items():
            span = when[block]
            for first in range(0, len(span.begin_ps), ROWS):
                piece = [column[first : first + ROWS] for column in span]
                _add(spent, grid, piece[0], piece[1], mw * PJ_PER_MW_PS * piece[2])
        peaks = [float((spent[at:to] / np.diff(grid.edges(at, to))).max()) for at, to in grid.pieces(0, grid.bins)]
        return float(spent.sum()) / float(trace.duration_ps), max(peaks)


class _Grid:
    """Bins of a run, whose edges are made where they are needed."""

    def __init__(self, trace: Trace, bin_ps: int | None) -> None:
        self.duration = trace.duration_ps
        self.bin_ps = min(BIN_PS, max(1, self.duration // 50)) if bin_ps is None else bin_ps
        if self.bin_ps <= 0:
            raise InputError(f"power bin of {self.bin_ps} ps; it must be positive")
        self.bins = -(-self.duration // self.bin_ps)

    def edges(self, left: int, right: int) -> np.ndarray:
        """Edges of the bins ``left <= bin < right``: int64 [right - left + 1]."""
        return np.minimum(np.arange(left, right + 1, dtype=np.int64) * self.bin_ps, self.duration)

    def pieces(self, left: int, right: int) -> Iterator[tuple[int, int]]:
        """Bins ``left <= bin < right``, and one at least, by `ROWS` of them."""
        for first in range(left, max(right, left + 1), ROWS):
            yield first, min(first + ROWS, self.bins)

    def touched(self, begin: int, end: int) -> tuple[int, int]:
        """First bin that ``[begin, end)`` touches, and the one after the last."""
        first = self.bins if begin >= self.duration else begin // self.bin_ps
        return first, min(-(-end // self.bin_ps), self.bins)


def _add(spent: np.ndarray, grid: _Grid, begin: np.ndarray, end: np.ndarray, pj: np.ndarray) -> None:
    """Spread amounts over the bins that their intervals touch."""
    if not begin.size:
        return
    for left, right in grid.pieces(*grid.touched(int(begin.min()), int(end.max()))):
        bins = Bins(begin, end, grid.edges(left, right), last=right == grid.bins, width=grid.bin_ps)
        spent[left:right] += bins.spread(pj)


def _edges(trace: Trace, bin_ps: int | None) -> tuple[np.ndarray, int]:
    """Edges of the bins of a run, and their width."""
    grid = _Grid(trace, bin_ps)
    return grid.edges(0, grid.bins), grid.bin_ps


def energy_between(trace: Trace, edges_ps: np.ndarray) -> np.ndarray:
    """Energy in pJ by device and interval between ascending `edges_ps`: ``[devices, intervals]``."""
    return _spent(trace, np.asarray(edges_ps, dtype=np.int64))[1]


def device_energy_between(trace: Trace, edges_ps: np.ndarray) -> dict[str, np.ndarray]:
    """Energy in pJ between ascending `edges_ps`, static energy included: one value per interval, by device."""
    names, spent = _spent(trace, np.asarray(edges_ps, dtype=np.int64))
    return dict(zip(names, spent))


def _spent(trace: Trace, edges: np.ndarray) -> tuple[list[str], np.ndarray]:
    devices, cost = device_pj(trace)
    static, when = static_mw(trace), cached(trace, spans)
    names = sorted({*devices, *(block.split(".", 1)[0] for block in static)})
    spent = np.zeros((len(names), len(edges) - 1))
    for part in trace.parts():
        begin, end, ran = _span(part)
        bins, factors = Bins(begin, end, edges), voltage_factors(part)
        for device, each in zip(devices, cost):
            pj = row_pj(part, each)
            if device in factors:
                pj = pj * factors[device]
            spent[names.index(device)] += bins.spread(pj[ran])
    for block, mw in static.items():
        span = when[block]
        amount = mw * PJ_PER_MW_PS * span.weight_ps
        spent[names.index(block.split(".", 1)[0])] += spread(span.begin_ps, span.end_ps, amount, edges)
    return names, spent


def _span(trace: Trace) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Interval over which the energy of each row that ran is spread, and which rows ran.

    From flow to end; from start to end where nothing flowed (pure latencies and rows cut in their lead).
    """
    rows, ran = trace.rows, trace.ran
    start, flow, end, done = rows["start_ps"], rows["flow_ps"], trace.row_end_ps, rows["done"]
    if not ran.all():
        start, flow, end, done = start[ran], flow[ran], end[ran], done[ran]
    flowed = (flow >= start) & (flow < end) & (done > 0)
    return np.where(flowed, flow, start), end, ran


def spread(begin: np.ndarray, end: np.ndarray, amount: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Share `amount` evenly over ``[begin, end)`` and sum what falls between ascending `edges` (see :class:`Bins`)."""
    return Bins(begin, end, edges).spread(amount)


class Bins:
    """Where intervals ``[begin, end)`` lie among the bins between ascending `edges`.

    An interval with ``begin == end`` lies whole in the bin that starts at or before it (the last one, for the last
    edge; outside, where `last` is false: then more bins follow). What lies outside the edges is left out.

    Parameters
    ----------
    width : int, optional
        Width of all bins but the last of the run, where they are equal: a place is then a division, not a search.
    """

    def __init__(
        self, begin: np.ndarray, end: np.ndarray, edges: np.ndarray, *, last: bool = True, width: int = 0
    ) -> None:
        self.edges, self.bins, self._width = edges, len(edges) - 1, width
        self.empty = self.bins < 1 or begin.size == 0
        if self.empty:
            return
        self._inside = self._contained = None  # all of them are, and whole
        left, right = begin, end
        if begin.min() < edges[0] or end.max() > edges[-1] or not (last or begin.max() < edges[-1]):
            self._inside = (end >= edges[0]) & (begin <= edges[-1] if last else begin < edges[-1])
            begin, end = begin[self._inside], end[self._inside]
            self._contained = (begin >= edges[0]) & (end <= edges[-1])
            left, right = np.maximum(begin, edges[0]), np.minimum(end, edges[-1])
            self._shown = right - left
        self._length = end - begin
        at = np.clip(self._place(left, "right"), 0, self.bins - 1)
        to = np.clip(self._place(right, "left"), 0, self.bins - 1)
        self._one = at >= to
        many = np.flatnonzero(~self._one)
        first, final = at[many], to[many]
        self._many = (many, first, final, edges[first + 1] - left[many], right[many] - edges[final])
        self._first_one = at[self._one]
        active = np.bincount(first + 1, minlength=self.bins + 1) - np.bincount(final, minlength=self.bins + 1)
        self._active = np.cumsum(active)[: self.bins] > 0

    def _place(self, times: np.ndarray, side: Literal["left", "right"]) -> np.ndarray:
        """Bin of each time; one on an edge lies in the bin that begins (``right``) or ends there."""
        if not self._width:
            return np.searchsorted(self.edges, times, side) - 1
        return (times - self.edges[0] - (side == "left")) // self._width

    def spread(self, amount: np.ndarray) -> np.ndarray:
        """Share an amount per interval evenly over it: the sums by bin.

        Over edges that cover everything they add up to the sum of the amounts.
        """
        out = np.zeros(self.bins if self.bins > 0 else 0)
        if self.empty:
            return out
        amount = amount if self._inside is None else amount[self._inside]
        many, first, last, begun, ended = self._many
        out += np.bincount(self._first_one, self._whole(amount)[self._one], self.bins)
        rate = amount[many] / self._length[many]
        out += np.bincount(first, rate * begun, self.bins)
        out += np.bincount(last, rate * ended, self.bins)
        # bins wholly inside a row: difference of rates, summed up
        slope = np.bincount(first + 1, rate, self.bins + 1) - np.bincount(last, rate, self.bins + 1)
        inner = np.where(self._active, np.cumsum(slope)[: self.bins], 0.0)
        return out + inner * np.diff(self.edges)

    def _whole(self, amount: np.ndarray) -> np.ndarray:
        """What of each amount falls between the edges."""
        if self._contained is None:
            return amount
        long = self._length > 0
        rate = np.divide(amount, self._length, out=np.zeros(len(amount)), where=long)
        return np.where(self._contained | ~long, amount, rate * self._shown)
