"""Every time of a machine scaled at once: a run on hardware that is uniformly faster, and how far it is from that.

If all rates of a machine are multiplied by `speed` and all its times divided by it, a run must take ``1 / speed`` of
its time and decide everything alike: nothing in the simulator but the machine's numbers may know what a second is. If
that fails, a constant hides that is no parameter. Dimensionless numbers, sizes, counts and cycles stay as they are;
cycles follow their clock.

A machine twice as fast is exact in its parameters (rates double, and every time of the parts is an even number of
picoseconds); half as fast is not, because kernels hold rates in whole MB/s. What is left is rounding: a row's time is
rounded up to a picosecond, and rates inside the engine are held in 2**-28 byte per picosecond.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from archsim.config import Resolved
from archsim.config.resolve import digest
from archsim.engine.errors import SimError
from archsim.session import run
from archsim.trace import Trace
from archsim.units import InputError

#: Exponent of a second, negated, in each unit that has one: what a value is multiplied by is ``speed`` to that power.
RATE_UNITS = ("B/s", "T/s", "tok/s", "op/s", "Hz")
TIME_UNITS = ("ps", "s")
#: Fields without a unit in their text that are rates or times all the same, by the end of their name.
RATE_NAMES, TIME_NAMES = ("_per_s",), ("timing_factor",)
#: Kernels hold rates in whole MB/s and clocks in whole kHz: a moved one stays whole, so that the step is what it says.
GRAINS: Mapping[str, float] = {"_bytes_per_s": 1e6, "_elements_per_s": 1e6, "_hz": 1e3}
#: Columns that hold no time: what a run did, and in which order.
STRUCTURE: Mapping[str, tuple[str, ...]] = {
    "rows": ("row", "unit", "op", "block", "request", "priority", "status"),
    "blocks": ("block", "request", "useful", "total", "status", "label", "role", "phase"),
    "notes": ("request", "value", "extra", "kind"),
}
#: Notes whose values are times.
TIMED_NOTES = ("latency", "cycle")


@dataclass(frozen=True)
class Dimension:
    """A number of the machine that has a second in its unit.

    Attributes
    ----------
    path, unit, source : str
        As ``archsim show`` prints them.
    value : float, int or list
        A list is one parameter: the clocks of all cores.
    power : int
        1 for a rate, -1 for a time.
    """

    path: str
    value: Any
    unit: str
    source: str
    power: int


def power_of(path: str, unit: str) -> int:
    """1 for a rate, -1 for a time, 0 for what has no second in it."""
    if unit in RATE_UNITS or (not unit and path.endswith(RATE_NAMES)):
        return 1
    return -1 if unit in TIME_UNITS or (not unit and path.endswith(TIME_NAMES)) else 0


def dimensions(resolved: Resolved) -> list[Dimension]:
    """Rates and times of a run's machine and of what loads it (streams beside the job, arrivals), in their order."""
    found = []
    for row in resolved.rows:
        power = power_of(row.path, row.unit)
        single = next(iter(row.value), None) if isinstance(row.value, list | tuple) else row.value
        if (
            row.path.startswith(("system.", "background.", "job.arrival_"))
            and power
            and isinstance(single, int | float)
        ):
            found.append(Dimension(row.path, row.value, row.unit, row.source, power))
    return found


def moved(resolved: Resolved, factors: Mapping[str, float]) -> Resolved:
    """A run whose numbers at these paths are multiplied.

    Raises
    ------
    InputError
        For a path that is no number of the machine; for a whole number that its factor leaves without one.
    """
    data = deepcopy(dict(resolved.data))
    for path, factor in factors.items():
        root, *keys = path.split(".")
        holder: Any = data.get(root, {})
        if root in ("system", "background") and keys:
            holder = (data["system"]["devices"] if root == "system" else holder).get(keys.pop(0), {}).get("spec", {})
        for key in keys[:-1]:
            holder = holder.get(key, {})
        if root not in ("system", "background", "job") or not keys or holder.get(keys[-1]) is None:
            raise InputError(f"{path} is no number of the machine; see archsim show system --sources")
        holder[keys[-1]] = _times(holder[keys[-1]], factor, path)
    return replace(resolved, data=data, digest=digest(data))


def _times(value: Any, factor: float, path: str) -> Any:
    if isinstance(value, list | tuple):
        return [_times(one, factor, path) for one in value]
    if not isinstance(value, int):
        grain = next((grain for ends, grain in GRAINS.items() if path.endswith(ends)), 0)
        return round(value * factor / grain) * grain if grain and value % grain == 0 else value * factor
    found = value * factor
    whole = round(found)
    if value and (whole == 0 or (whole == value) != (factor == 1)):
        raise InputError(f"{path} is {value}: times {factor:g} is no other whole number")
    return whole


def scaled(resolved: Resolved, speed: float = 2.0) -> Resolved:
    """The same run on a machine that is `speed` times as fast in everything.

    Raises
    ------
    InputError
        When a time is not a whole number of picoseconds any more.
    """
    factors = {one.path: speed**one.power for one in dimensions(resolved) if one.value}
    made = moved(resolved, factors)
    for one in dimensions(resolved):
        if isinstance(one.value, int) and one.value and one.power < 0 and (one.value / speed) % 1:
            raise InputError(f"{one.path} is {one.value} ps: divided by {speed:g} it is no whole number")
    return made


@dataclass(frozen=True)
class Identity:
    """How a run on a scaled machine compares with the original.

    Attributes
    ----------
    rows : int
        Task rows.
    decisions : bool
        Whether rows, blocks and notes are the same but for their times.
    worst_ps : int
        Largest ``|speed x end - end|`` of a block, in ps of the original.
    relative : float
        The same for the end of the run, relative to it.
    bound_ps : float
        What rounding explains: see :func:`rounding_ps`.
    first : str
        Where the runs part first; empty when they do not.
    """

    rows: int
    decisions: bool
    worst_ps: int
    relative: float
    bound_ps: float
    first: str

    @property
    def holds(self) -> bool:
        """Whether decisions are equal and every end lies within the rounding."""
        return self.decisions and self.worst_ps <= self.bound_ps


def rounding_ps(trace: Trace, speed: float) -> float:
    """What rounding explains at the end of a run, in ps: no path is longer than all rows one after the other.

    In either run a row rounds its lead, its flow and its end up to a picosecond (on a scaled machine a picosecond is
    `speed` of the original's), and its rate and its pool's to 2**-28 byte per ps: one part in as many as it flows at.
    """
    rows = trace.rows
    flow = np.where(rows["flow_ps"] >= 0, rows["end_ps"] - rows["flow_ps"], 0).astype(float)
    rate = np.divide(rows["work"], flow, out=np.full(len(flow), np.inf), where=(flow > 0) & (rows["work"] > 0))
    return float(3 * (1 + speed) * len(flow) + 2 * (1 + 1 / speed) * (flow / rate).sum())


def identity(original: Trace, other: Trace, speed: float) -> Identity:
    """Compare a run with the one on the machine that is `speed` times as fast."""
    first = _parting(original, other)
    ends, others = (trace.blocks["end_ps"] for trace in (original, other))
    same = len(ends) == len(others)
    gap = np.abs(others * speed - ends) if same else np.array([np.inf])
    last = float(ends.max())
    rows = len(original.rows["row"])
    return Identity(
        rows,
        not first,
        int(gap.max()) if same else -1,
        float(others.max() * speed / last - 1),
        rounding_ps(original, speed),
        first,
    )


def _parting(original: Trace, other: Trace) -> str:
    """First difference in what two runs did, times left out."""
    streams = original.manifest["config"].get("background", {})
    # what a stream on the CPU was served is core time
    skipped = [*TIMED_NOTES, *(f"served.{name}" for name, one in streams.items() if one["device"] == "cpu_stream")]
    for table, columns in STRUCTURE.items():
        ours, theirs = original.tables[table], other.tables[table]
        timed = [np.isin(one["kind"], skipped) if table == "notes" else None for one in (ours, theirs)]
        for column in columns:
            a, b = (one[column] if skip is None else one[column][~skip] for one, skip in zip((ours, theirs), timed))
            if len(a) != len(b):
                return f"{table}: {len(a)} entries against {len(b)}"
            different = np.flatnonzero(a != b)
            if len(different):
                at = int(different[0])
                return f"{table}.{column}[{at}]: {a[at]} against {b[at]}"
    return ""


@dataclass(frozen=True)
class Elasticity:
    """Log-slope of a run's length in one rate or time.

    Attributes
    ----------
    paths : tuple of str
        What was moved: one parameter, or those that only move together.
    power : int
        1 for a rate, -1 for a time.
    slope : float
        ``d ln(length) / d ln(parameter)``.
    decisions : bool
        Whether the moved runs decided as the original did.
    note : str
        ``one-sided`` or ``cannot be moved``; ``kink`` where the slopes of both sides differ by more than a tenth, as at
        two limits of equal height: their mean then says little, and a sum of such slopes is not -1; empty otherwise.
    """

    paths: tuple[str, ...]
    power: int
    slope: float
    decisions: bool
    note: str = ""


def elasticities(resolved: Resolved, step: float = 2e-3, paths: Sequence[str] = ()) -> list[Elasticity]:
    """Log-slopes of a run's length in every rate and time of its machine, by finite differences of real runs.

    Parameters
    ----------
    step : float
        Relative step up and down. It is a small one, so that decisions stay; where they do not, the entry says so.
    paths : sequence of str, optional
        Parameters to move; by default all.

    Returns
    -------
    list of Elasticity
        In the order of the machine's files. Their sum, slopes of times negated (:func:`elasticity_sum`), is -1 when
        every second of the run comes from the machine.
    """
    base = run(resolved, trace="off").trace
    chosen = [group for group in _groups(resolved) if not paths or any(one.path in paths for one in group[0])]
    return [_elasticity(resolved, base, members, power, step) for members, power in chosen]


def _groups(resolved: Resolved) -> list[tuple[tuple[Dimension, ...], int]]:
    """Parameters, each alone but for transfer rate and timings of a memory that is calibrated by its standard."""
    every = {one.path: one for one in dimensions(resolved) if one.value}
    groups, taken = [], set()
    for path, one in every.items():
        if path in taken:
            continue
        device = path.rpartition(".")[0]
        spec = resolved.data["system"]["devices"].get(device.partition(".")[2], {}).get("spec", {})
        pair = (f"{device}.transfer_rate_per_s", f"{device}.timing_factor")
        if spec.get("calibrated") == "command" and path in pair:
            groups.append((tuple(every[name] for name in pair), 1))
            taken |= set(pair)
        else:
            groups.append(((one,), one.power))
    return groups


def _elasticity(resolved: Resolved, base: Trace, members: tuple[Dimension, ...], power: int, step: float) -> Elasticity:
    points, decisions = [(0.0, _length_ps(base))], True
    for sign in (-1, 1):
        factor = 1 + sign * step
        try:
            other = moved(resolved, {one.path: factor ** (one.power * power) for one in members})
            trace = run(other, trace="off").trace
        except (InputError, SimError, ValueError):
            continue
        now, before = _spec_value(other, members[0].path), members[0].value
        actual = factor if isinstance(before, list | tuple) else now / before
        points.append((math.log(actual), _length_ps(trace)))
        decisions &= not _parting(base, trace)
    points.sort()
    (x0, y0), (x1, y1) = points[0], points[-1]
    slope = math.log(y1 / y0) / (x1 - x0) if x1 > x0 else 0.0
    note = ("cannot be moved", "one-sided", "kink" if _bent(points) else "")[len(points) - 1]
    return Elasticity(tuple(one.path for one in members), power, slope, decisions, note)


def _bent(points: Sequence[tuple[float, float]]) -> bool:
    """Whether up to three points (logarithm of the factor, length) have slopes on both sides that differ by a tenth.

    Differences below 1e-6 of the length are rounding of times to whole ps and of work to whole cycles.
    """
    (x0, y0), (x1, y1), (x2, y2) = (points * 3)[:3]
    expected = y0 + (y2 - y0) * (x1 - x0) / (x2 - x0) if x2 > x0 else y1
    return abs(y1 - expected) > max(0.025 * abs(y2 - y0), 1e-6 * y1)


def _length_ps(trace: Trace) -> int:
    return int(trace.blocks["end_ps"].max())


def _spec_value(resolved: Resolved, path: str) -> Any:
    _, device, *keys = path.split(".")
    value = resolved.data["system"]["devices"][device]["spec"]
    for key in keys:
        value = value[key]
    return value


def elasticity_sum(found: Iterable[Elasticity]) -> float:
    """Sum of log-slopes, those of times negated."""
    return sum(one.power * one.slope for one in found)
