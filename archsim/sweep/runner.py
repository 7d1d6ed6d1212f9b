"""Run a sweep: all points that have no result yet, then the tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from archsim.config import InputError, Resolved, SweepSpec, digest, find, is_path, load_config, sweep_run
from archsim.config.runs import placed
from archsim.results import code_digest
from archsim.sweep.banded import draw_points
from archsim.sweep.executors import check_dask, check_workers, drain
from archsim.sweep.outcome import SweepResult
from archsim.sweep.points import points
from archsim.sweep.store import Store
from archsim.sweep.tables import axis_units, check_metrics, write_tables
from archsim.sweep.uncertainty import check_samples
from archsim.sweep.work import resolve, simulate

SWEEPS = Path("archsim-runs")


@dataclass(frozen=True)
class Sweep:
    """A sweep ready to run.

    Attributes
    ----------
    name : str
        Its name.
    spec : SweepSpec
        What it varies.
    run : str or dict
        Run file, or run as plain data, below every point.
    data : dict
        Plain data that identifies it.
    numbers : dict
        Values of axes as numbers in the parameter's unit, as far as they are known.
    file : Path, optional
        File that it was read from, for errors.
    """

    name: str
    spec: SweepSpec
    run: Any
    data: dict[str, Any]
    numbers: dict[tuple[str, Any], Any] = field(default_factory=dict, compare=False)
    file: Path | None = None


def load_sweep(source: str | Path | Mapping[str, Any]) -> Sweep:
    """Load a sweep from a file, a name or plain data, and try its first point.

    Raises
    ------
    InputError
        For anything wrong in it: an axis that names no parameter, a value that does not fit, ...
    """
    file = None
    if isinstance(source, Mapping):
        data = {"name": "sweep", **source}
        run: Any = data["run"] if isinstance(data.get("run"), Mapping) else None
        fields = {key: value for key, value in data.items() if key not in ("name", "kind")}
        spec = _checked(fields if run is None else {**fields, "run": "inline"})
        run = spec.run if run is None else run
    else:
        resolved: Resolved = load_config("sweep", source)
        data, file = dict(resolved.data), resolved.file
        spec = SweepSpec(**{key: value for key, value in data.items() if key not in ("name", "kind")})
        run = spec.run
        run = str(sweep_run(resolved))
    if isinstance(run, str) and is_path(run):
        run = str(find("run", Path(run)))
    try:
        base = _base_digest(run, spec)
    except InputError as error:
        raise placed(error, file, data) from None
    return Sweep(str(data["name"]), spec, run, {**data, "resolved_run": base}, file=file)


def _checked(fields: Mapping[str, Any]) -> SweepSpec:
    try:
        return SweepSpec(**fields)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InputError(
            f"sweep{': ' + where if where else ''}: {first['msg'].removeprefix('Value error, ')}"
        ) from None


def _base_digest(run: Any, spec: SweepSpec) -> str:
    return resolve(run, spec.set, {}).digest


def sweep(
    source: str | Path | Mapping[str, Any] | Sweep,
    *,
    output: str | Path | None = None,
    workers: int = 1,
    dask: str | None = None,
    uncertainty: int | None = None,
    uncertainty_seed: int = 0,
    progress: Any = None,
) -> SweepResult:
    """Run a sweep and write its tables; points that have a result in the folder are not run again.

    Parameters
    ----------
    source : path, name, Mapping or Sweep
        The sweep.
    output : path, optional
        Folder; ``archsim-runs/sweep-<name>-<digest>`` by default.
    workers : int
        Processes.
    dask : str, optional
        See :func:`archsim.sweep.executors.executor`.
    uncertainty, uncertainty_seed : int, optional
        Draws of every point, and their seed (see :mod:`archsim.sweep.banded`); none by default.
    progress : object, optional
        Receives ``start``, ``update`` and ``stop``.

    Raises
    ------
    InputError
        For a sweep that is wrong, a folder that cannot be used, or workers that die.
    """
    check_workers(workers)
    check_dask(dask)
    if uncertainty is not None:
        check_samples(uncertainty)
    made = source if isinstance(source, Sweep) else load_sweep(source)
    listed = points(made.spec)
    keys = keys_of(made, listed)
    folder = Path(output) if output is not None else SWEEPS / f"sweep-{made.name}-{digest(made.data)[:12]}"
    store = Store(folder, made.data)
    with store.held():
        reused = sum(key in store.done for key in keys)
        _run(made, listed, keys, store, workers, dask, progress)
        results, draws = [store.done[key] for key in keys], None
        if uncertainty is not None:
            how = {"samples": uncertainty, "seed": uncertainty_seed, "workers": workers, "dask": dask}
            draws = draw_points(made, listed, keys, results, folder, **how, progress=progress)
        rows, means = write_tables(made, listed, results, folder, draws)
    failed = sum(row["status"] == "failed" for row in rows)
    units = axis_units(made, listed[0])
    return SweepResult(folder, rows, means, len(listed) - reused, reused, failed, units, made.spec, store.lost)


def keys_of(made: Sweep, listed: list[dict[str, Any]]) -> list[str]:
    """Key of each point: digest of what it sets, of the run below, and of archsim's sources.

    The first value of every axis is resolved, so that an axis that names no parameter is an error before anything runs.
    """
    seen: dict[str, set[Any]] = {path: set() for path in made.spec.axes}
    for point in listed:
        fresh = [path for path, value in point.items() if value not in seen[path]]
        if fresh and any(not seen[path] for path in fresh):
            try:
                resolve(made.run, made.spec.set, point)
            except InputError as error:
                raise placed(error, made.file, made.data) from None
        for path in fresh:
            seen[path].add(point[path])
    base = f"{made.data['resolved_run']}:{code_digest()}"
    return [digest({"base": base, "set": made.spec.set, "point": point}) for point in listed]


def _run(
    made: Sweep,
    listed: list[dict[str, Any]],
    keys: list[str],
    store: Store,
    workers: int,
    dask: str | None,
    progress: Any,
) -> None:
    spec = made.spec
    calls = [(simulate, (made.run, spec.set, point)) for point in listed]
    title = f"sweep {made.name}"
    check = partial(check_metrics, spec)
    drain(keys, calls, store, title, workers=workers, dask=dask, check=check, progress=progress)
