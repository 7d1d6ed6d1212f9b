"""What a sweep would take, before it runs: points, time and disk, and which points are refused."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from archsim.config import InputError
from archsim.sweep.banded import draw_point
from archsim.sweep.executors import check_workers
from archsim.sweep.points import points
from archsim.sweep.runner import Sweep, keys_of, load_sweep
from archsim.sweep.tables import write_tables
from archsim.sweep.uncertainty import METRICS, check_samples
from archsim.sweep.work import resolve, simulate

#: Time in which configurations are resolved; the ends of the axes always are.
CHECK_S = 5.0


def estimate(
    source: str | Path | Mapping[str, Any], *, workers: int = 1, uncertainty: int | None = None
) -> dict[str, Any]:
    """Points, time and disk of a sweep, from running its first point twice (and two of its draws).

    The configurations of the other points are resolved, not run: all of them, or those that :data:`CHECK_S` allows,
    the ends of each axis first.

    Returns
    -------
    dict
        ``checked`` (points resolved), ``wrong`` (those that are refused) and ``first_wrong`` (why); ``points``,
        ``cpu_s_per_point``, ``time_s`` with `workers`, ``disk_bytes``; with draws also ``draws`` and
        ``cpu_s_per_draw``, which are in the time and on the disk.
    """
    check_workers(workers)
    made = load_sweep(source)
    listed = points(made.spec)
    keys_of(made, listed)
    result = simulate(made.run, made.spec.set, listed[0])
    began = time.process_time()
    result = simulate(made.run, made.spec.set, listed[0])
    each = time.process_time() - began
    total, disk = each * len(listed), _disk(made, listed, result)
    drawn: dict[str, Any] = {}
    if uncertainty is not None:
        cpu_s, size = _draw_cost(made, listed[0], uncertainty)
        draws = uncertainty * len(listed)
        drawn = {"draws": draws, "cpu_s_per_draw": cpu_s}
        total, disk = total + cpu_s * draws, disk + size * draws
    return {
        "points": len(listed),
        "cpu_s_per_point": each,
        **drawn,
        "time_s": total / workers,
        "disk_bytes": disk,
        "first_point": result["status"],
        **_checked(made, listed),
    }


def _checked(made: Sweep, listed: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """How many points were resolved, how many of them are refused, and why the first is."""
    values = {path: list(dict.fromkeys(point[path] for point in listed)) for path in made.spec.axes}
    ends = [
        i
        for i, point in enumerate(listed)
        if sum(point[path] != known[0] for path, known in values.items()) <= 1
        and all(point[path] in (known[0], known[-1]) for path, known in values.items())
    ]
    order = dict.fromkeys((*ends, *range(len(listed))))
    until, tried, wrong = time.monotonic() + CHECK_S, 0, {}
    for i in order:
        if tried >= len(ends) and time.monotonic() > until:
            break
        tried += 1
        try:
            resolve(made.run, made.spec.set, listed[i])
        except InputError as error:
            wrong[i] = error.message
    first = min(wrong, default=None)
    why = "" if first is None else f"point {first}: {wrong[first]}"
    return {"checked": tried, "wrong": len(wrong), "first_wrong": why}


def _disk(made: Sweep, listed: Sequence[Mapping[str, Any]], result: Mapping[str, Any]) -> int:
    """Bytes of a sweep's folder: what a few points with one result take, and what each more of them adds."""
    few = [listed[:count] for count in sorted({1, min(16, len(listed))})]
    sizes = []
    with TemporaryDirectory() as folder:
        for some in few:
            write_tables(made, some, [result] * len(some), Path(folder))
            sizes.append(sum(file.stat().st_size for file in Path(folder).iterdir()))
    each = (sizes[-1] - sizes[0]) / max(1, len(few[-1]) - 1)
    line = len(json.dumps({"key": "0" * 64, "sum": 0, "result": result}))
    spec = len(json.dumps(made.data, indent=1))
    return round(sizes[0] + each * (len(listed) - 1)) + line * len(listed) + spec


def _draw_cost(made: Sweep, point: Mapping[str, Any], samples: int) -> tuple[float, int]:
    """Seconds and bytes of one draw, from two of a point; the first also compiles."""
    check_samples(samples)
    began, result = 0.0, {}
    for index in (0, samples - 1):
        began = time.process_time()
        result = draw_point(made.run, made.spec.set, point, index, samples, 0, METRICS)
    return time.process_time() - began, len(json.dumps({"key": "0" * 64, "result": result}))
