"""How latency, energy and area answer to every number of the machine: finite differences of real runs.

A parameter is moved up and down by a relative step (whole numbers by at least one) and the run is done again; the
sensitivity is the log-slope ``d ln(result) / d ln(parameter)``: 1 means proportional, -1 inversely proportional, 0 that
the run does not respond. A parameter that cannot be moved one way is moved the other way only, and says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from archsim.config import JobSpec, Override, Resolved, first_difference, names, stated, stated_background, with_unit
from archsim.engine.errors import SimError
from archsim.session import load, run
from archsim.trace import Trace
from archsim.units import InputError, quote

#: Results by the name of their column.
RESULTS: Mapping[str, str] = {
    "latency": "request_latency_s",
    "decode_time": "decode_tokens_per_s",
    "energy": "energy_j",
    "area": "area_mm2",
}

#: Least relative step: results are rounded to whole picoseconds and bytes.
LEAST_STEP = 1e-6


def sensitivities(
    source: Any,
    *,
    sets: Sequence[Any] = (),
    paths: Sequence[str] = (),
    step: float = 0.05,
    progress: Any = None,
    **named: Any,
) -> list[dict[str, Any]]:
    """Log-slopes of a run's results with respect to the numbers of its machine.

    Parameters
    ----------
    source : what :func:`archsim.session.load` takes
        The run.
    sets : sequence, optional
        Overrides of the run.
    paths : sequence of str, optional
        Parameters to move; by default every number of the machine.
    step : float
        Relative step, from :data:`LEAST_STEP` to below 0.5.
    progress : object, optional
        Receives ``start``, ``update`` and ``stop``.

    Returns
    -------
    list of dict
        One entry per parameter, strongest effect on latency first: ``path``, ``value``, ``unit``, ``source``, the
        log-slopes ``latency``, ``decode_time``, ``energy``, ``area`` (None where a result is missing) and ``note``.

    Raises
    ------
    InputError
        For a step out of range, or a path that is no number of the machine.
    """
    if not LEAST_STEP <= step < 0.5:
        raise InputError(f"step {step:g}: it must lie between {LEAST_STEP:g} and 0.5")
    plain = load(source, sets=sets, **named)
    moved = _parameters(plain)
    for path in paths:
        if path not in moved:
            raise InputError(f"{path} is no number of the machine; see archsim show system --sources")
    chosen = list(paths) or list(moved)
    centre = _results(plain)
    table = []
    if progress is not None:
        progress.start("sensitivities")
    try:
        for i, path in enumerate(chosen):
            table.append(_slopes(source, sets, named, moved[path], centre, step))
            if progress is not None:
                progress.update(i + 1, len(chosen), path)
    finally:
        if progress is not None:
            progress.stop()
    return sorted(table, key=lambda entry: -abs(entry["latency"] or 0.0))


def rebuilt(trace: Trace) -> tuple[dict[str, Any], list[Override]]:
    """The run behind a trace: what :func:`archsim.session.load` takes, and the overrides that make it the same run.

    Raises
    ------
    InputError
        When the machine's, model's, schedule's or streams' files have changed since, so that the run cannot be had
        again; the first value that differs is named.
    """
    kept = trace.manifest["config"]
    job = stated(JobSpec, {key: value for key, value in kept["job"].items() if value is not None})
    source = {
        "name": kept["name"],
        "system": _named("system", kept["system"]["name"]),
        "schedule": {key: value for key, value in kept["schedule"].items() if value is not None},
        "job": {**job, **{role: _named("model", model["name"]) for role, model in kept["model"].items()}},
        "background": stated_background(kept.get("background", {})),
    }
    swaps = [
        Override(f"system.{name}", _named("part", device["part"]), name)
        for name, device in kept["system"]["devices"].items()
        if load(source).data["system"]["devices"].get(name, {}).get("part") != device["part"]
    ]
    sets = [*swaps, *_differences(load(source, sets=swaps), kept)]
    found = load(source, sets=sets)
    if found.digest != trace.manifest["config_digest"]:
        where = first_difference(found.data, kept) or "the configuration"
        raise InputError(
            f"the run's files have changed since it was made ({where} differs); run it again to explain it"
        )
    return source, sets


def _named(kind: str, name: str) -> str:
    """What finds a file that a stored run names: its name, or its path where it is in no folder of files but here.

    Raises
    ------
    InputError
        When it is in neither.
    """
    if name in names(kind) or (kind == "model" and name.startswith("eagle3-")):
        return name
    here = next((Path(name + ending) for ending in (".yaml", ".yml") if Path(name + ending).is_file()), None)
    if here is None:
        raise InputError(
            f"the run's {kind} {quote(name)} is in no folder of files; go to the folder of {name}.yaml, "
            "or put that folder on ARCHSIM_PATH"
        )
    return f"./{here}"


def _differences(fresh: Resolved, kept: Mapping[str, Any]) -> Iterator[Override]:
    """Overrides for every value of machine, models and streams in which a stored run differs from a fresh one."""
    holders = {
        "system": kept["system"]["devices"],
        "model": kept["model"],
        "background": kept.get("background", {}),
    }
    for row in fresh.rows:
        root, _, rest = row.path.partition(".")
        name, _, field = rest.partition(".")
        value: Any = holders.get(root, {}).get(name, {}).get("spec", {})
        for key in field.split("."):
            value = value.get(key) if isinstance(value, Mapping) else None
        if value is not None and value != row.value:
            yield Override(row.path, with_unit(value, row.unit), row.path)


def _parameters(resolved: Resolved) -> dict[str, Any]:
    """Numbers of the machine that can be scaled, by path."""
    return {
        row.path: row
        for row in resolved.rows
        if row.path.startswith("system.")
        and isinstance(row.value, (int, float))
        and not isinstance(row.value, bool)
        and row.value > 0
    }


def _slopes(source: Any, sets: Sequence[Any], named: Any, row: Any, centre: Any, step: float) -> dict[str, Any]:
    value = row.value
    others = [one for one in sets if (one.path if isinstance(one, Override) else one.partition("=")[0]) != row.path]
    found = {}
    for sign in (-1, 1):
        other = value * (1 + sign * step)
        if isinstance(value, int):
            other = value + sign * max(1, round(value * step))
        if other <= 0:
            continue
        text = f"{other} {row.unit}" if row.unit else other
        try:
            moved = load(source, sets=(*others, Override(row.path, text, row.path)), **named)
            found[other] = _results(moved)
        except (InputError, SimError):
            continue
    points = sorted({value: centre, **found}.items())
    slopes = {name: _slope([(x, results[name]) for x, results in points]) for name in RESULTS}
    note = "" if len(points) == 3 else "one-sided" if len(points) == 2 else "cannot be moved"
    return {"path": row.path, "value": value, "unit": row.unit, "source": row.source, **slopes, "note": note}


def _results(resolved: Resolved) -> dict[str, float | None]:
    summary = run(resolved, trace="off").summary
    speed = summary["decode_tokens_per_s"]
    return {
        name: (1 / speed if speed else None) if name == "decode_time" else summary[key] for name, key in RESULTS.items()
    }


def _slope(points: Sequence[tuple[float, float | None]]) -> float | None:
    """Log-slope between the outer points; None where there is nothing to compare."""
    (x0, y0), (x1, y1) = points[0], points[-1]
    if x0 == x1 or not y0 or not y1:
        return None
    return math.log(y1 / y0) / math.log(x1 / x0)
