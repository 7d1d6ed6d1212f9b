"""What a run's numbers are over time, as step curves: power, pools, stores, and rows that wait at a unit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from archsim.report.depends import ready_ps
from archsim.report.power import power, spread
from archsim.report.window import occupancy
from archsim.trace import Trace, positions
from archsim.units import COEF_ONE, PS_PER_S, WORK_ONE

#: Bins of curves that are reconstructed from rows.
BINS = 2000


@dataclass(frozen=True)
class Counter:
    """A step curve: ``value[i]`` holds from ``time_ps[i]`` on. `kind` is power, pool, store or queue."""

    kind: str
    name: str
    unit: str
    time_ps: np.ndarray
    value: np.ndarray


def counters(trace: Trace) -> Iterator[Counter]:
    """Curves of a run, one at a time: power by device, use of pools, levels of stores, rows waiting at units.

    Pools are exact where the run logged them (``--trace full``), else the mean of each of `BINS` equal parts of the
    run. Stores and queues follow from the rows and the recorded script; a trace without one has neither.
    """
    watts = power(trace, max(1, -(-trace.duration_ps // BINS)))
    yield Counter("power", "total power", "W", watts.edges_ps, np.append(watts.total_w(), 0.0))
    for device, values in watts.device_w.items():
        yield Counter("power", f"{device} power", "W", watts.edges_ps, np.append(values, 0.0))
    for i, pool in enumerate(trace.manifest["pools"]):
        times, values = pool_use(trace, i)
        if len(times):
            rate = pool["unit"] == "bytes/s"
            scale = PS_PER_S / 1000**3 if rate else 1.0
            yield Counter("pool", pool["name"], "GB/s" if rate else pool["unit"], times, values * scale)
    for i, store in enumerate(trace.manifest["stores"]):
        held = occupancy(trace, i)
        if held is not None and len(held[0]) > 1:
            yield Counter("store", store["name"], store["unit"], *_settled(held[0], held[1].astype(float)))
    yield from _queues(trace)


def _settled(times: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What holds after each instant: the last of several values logged for it."""
    last = np.append(times[1:] != times[:-1], True) if len(times) else np.empty(0, dtype=bool)
    return times[last], values[last]


def pool_use(trace: Trace, pool: int) -> tuple[np.ndarray, np.ndarray]:
    """Times and use of a pool from then on, in bytes per ps or in items: logged, or else reconstructed from rows."""
    log = trace.tables["pool_log"]
    mine = log["pool"] == pool
    if mine.any():
        return _settled(log["time_ps"][mine], log["value"][mine] / WORK_ONE)
    draws, rows = trace.tables["draws"], trace.rows
    drawing = np.flatnonzero(draws["pool"] == pool)
    place = positions(draws["op"][drawing], rows["op"])
    used = np.flatnonzero((place >= 0) & (rows["done"] > 0))
    if used.size == 0 or trace.duration_ps == 0:
        return np.empty(0), np.empty(0)
    coef = draws["coef"][drawing][place[used]]
    amount = rows["done"][used] / WORK_ONE * (coef / COEF_ONE)
    edges = np.unique(np.linspace(0, trace.duration_ps, BINS + 1).astype(np.int64))
    values = spread(rows["flow_ps"][used], trace.row_end_ps[used], amount, edges) / np.diff(edges)
    return edges, np.append(values, 0.0)


def _queues(trace: Trace) -> Iterator[Counter]:
    """Rows that could run, had their unit been free: ready (see :func:`ready_ps`) and not started."""
    ready = ready_ps(trace)
    if ready is None:
        return
    rows = trace.rows
    left = np.where(trace.ran, rows["start_ps"], rows["end_ps"])  # cut while it waited
    waits = (ready >= 0) & (left > ready) & (rows["unit"] >= 0)
    for unit, name in enumerate(trace.unit_names):
        mine = np.flatnonzero(waits & (rows["unit"] == unit))
        if mine.size:
            at = np.concatenate([ready[mine], left[mine]])
            times, where = np.unique(at, return_inverse=True)
            change = np.bincount(where.ravel(), np.repeat([1.0, -1.0], mine.size), len(times))
            yield Counter("queue", f"{name} queue", "rows", np.append(0, times), np.append(0.0, np.cumsum(change)))
