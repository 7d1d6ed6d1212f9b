"""Power over time: the energy of each row spread evenly over the time in which its data flowed, plus static power."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from archsim.report.energy import PJ_PER_MW_PS, device_pj, row_pj, static_mw
from archsim.report.states import spans, voltage_factors
from archsim.trace import Trace
from archsim.units import PS_PER_S, InputError

#: Default bin of peak power: 1 ms, the shortest time over which a phone's supply and battery see a load.
#: assumed: bulk capacitors smooth what is shorter.
BIN_PS = PS_PER_S // 1000


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
    duration = trace.duration_ps
    if bin_ps is None:
        bin_ps = min(BIN_PS, max(1, duration // 50))
    if bin_ps <= 0:
        raise InputError(f"power bin of {bin_ps} ps; it must be positive")
    edges = np.append(np.arange(0, duration, bin_ps, dtype=np.int64), duration)
    names, spent = _spent(trace, edges)
    width = np.maximum(np.diff(edges), 1)
    return Power(edges, {name: pj / width for name, pj in zip(names, spent)}, bin_ps)  # pJ per ps is W


def energy_between(trace: Trace, edges_ps: np.ndarray) -> np.ndarray:
    """Energy in pJ by device and interval between ascending `edges_ps`: ``[devices, intervals]``."""
    return _spent(trace, np.asarray(edges_ps, dtype=np.int64))[1]


def device_energy_between(trace: Trace, edges_ps: np.ndarray) -> dict[str, np.ndarray]:
    """Energy in pJ between ascending `edges_ps`, static energy included: one value per interval, by device."""
    names, spent = _spent(trace, np.asarray(edges_ps, dtype=np.int64))
    return dict(zip(names, spent))


def _spent(trace: Trace, edges: np.ndarray) -> tuple[list[str], np.ndarray]:
    devices, cost = device_pj(trace)
    static, when = static_mw(trace), spans(trace)
    names = sorted({*devices, *(block.split(".", 1)[0] for block in static)})
    spent = np.zeros((len(names), len(edges) - 1))
    begin, end, ran = _span(trace)
    factors = voltage_factors(trace)
    for device, each in zip(devices, cost):
        pj = (row_pj(trace, each) * factors.get(device, 1.0))[ran]
        spent[names.index(device)] = spread(begin, end, pj, edges)
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
    start, flow, end = rows["start_ps"][ran], rows["flow_ps"][ran], trace.row_end_ps[ran]
    flowed = (flow >= start) & (flow < end) & (rows["done"][ran] > 0)
    return np.where(flowed, flow, start), end, ran


def spread(begin: np.ndarray, end: np.ndarray, amount: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Share `amount` evenly over ``[begin, end)`` and sum what falls between ascending `edges`.

    An amount with ``begin == end`` goes whole into the interval that starts at or before it (the last one, for the last
    edge); what lies outside the edges is left out. The sum over edges that cover everything is the sum of the amounts.
    """
    bins = len(edges) - 1
    out = np.zeros(bins)
    if bins < 1 or begin.size == 0:
        return out
    inside = (end >= edges[0]) & (begin <= edges[-1])
    begin, end, amount = begin[inside], end[inside], amount[inside]
    length = end - begin
    rate = np.divide(amount, length, out=np.zeros(len(amount)), where=length > 0)
    left, right = np.maximum(begin, edges[0]), np.minimum(end, edges[-1])
    first = np.clip(np.searchsorted(edges, left, "right") - 1, 0, bins - 1)
    last = np.clip(np.searchsorted(edges, right, "left") - 1, 0, bins - 1)
    last = np.maximum(first, last)
    one = first == last
    whole = np.where(length > 0, rate * (right - left), amount)
    contained = (begin >= edges[0]) & (end <= edges[-1])
    out += np.bincount(first[one], np.where(contained, amount, whole)[one], bins)
    many = ~one
    first, last, rate, left, right = first[many], last[many], rate[many], left[many], right[many]
    out += np.bincount(first, rate * (edges[first + 1] - left), bins)
    out += np.bincount(last, rate * (right - edges[last]), bins)
    # bins wholly inside a row: difference of rates, summed up
    slope = np.bincount(first + 1, rate, bins + 1) - np.bincount(last, rate, bins + 1)
    active = np.bincount(first + 1, minlength=bins + 1) - np.bincount(last, minlength=bins + 1)
    inner = np.where(np.cumsum(active)[:bins] > 0, np.cumsum(slope)[:bins], 0.0)
    return out + inner * np.diff(edges)
