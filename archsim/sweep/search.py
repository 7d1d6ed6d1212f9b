"""Search over the axes of a sweep with optuna: one or several objectives, constraints, resumable.

Trials are drawn by a seeded sampler and kept in the sweep's folder like points; a search that is called again replays
the finished trials into the sampler and goes on, so its table is that of an uninterrupted search. A trial is a point
that was not tried before: the sampler is told the result of one that it draws again; after a few of those an untried
point is drawn for it. Where every axis has values, a search ends once all points are tried.
"""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from archsim.config import InputError, SweepSpec, digest
from archsim.config.sweeps import Span
from archsim.results import code_digest
from archsim.sweep.outcome import SweepResult
from archsim.sweep.points import MOST_POINTS, axis_values, ends
from archsim.sweep.runner import SWEEPS, Sweep, load_sweep
from archsim.sweep.store import Store
from archsim.sweep.tables import axis_units, check_metrics, write_tables
from archsim.sweep.work import resolve, simulate

#: Draws of points that were tried, one after the other, before an untried one is put in their place.
MOST_AGAIN = 8
#: Largest seed of the samplers.
MOST_SEED = 2**32 - 1


def search(
    source: str | Path | Mapping[str, Any] | Sweep,
    *,
    trials: int,
    seed: int = 0,
    output: str | Path | None = None,
    progress: Any = None,
) -> SweepResult:
    """Search until there are `trials` trials in the folder; more that are there already stay in the table.

    Axes with values, steps or a step are searched over these; spans without are continuous.

    Parameters
    ----------
    source : path, name, Mapping or Sweep
        The sweep, with its objectives.
    trials : int
        Trials (different points) in all, those of earlier calls included.
    seed : int
        Seed of the sampler.
    output : path, optional
        Folder; ``archsim-runs/search-<name>-<digest>`` by default.
    progress : object, optional
        Receives ``start``, ``update`` and ``stop``.

    Returns
    -------
    SweepResult
        One row per trial.

    Raises
    ------
    InputError
        For a sweep without objectives, a result that the runs do not have, or a missing optuna.
    """
    try:
        import optuna
    except ImportError:
        raise InputError("a search needs the package 'optuna'; install it with 'pip install optuna'") from None

    if not 1 <= trials <= MOST_POINTS:
        raise InputError(f"--trials {trials}: 1 to {MOST_POINTS} can be asked for")
    if not 0 <= seed <= MOST_SEED:
        raise InputError(f"--seed {seed}: it must lie between 0 and {MOST_SEED}")
    made = source if isinstance(source, Sweep) else load_sweep(source)
    spec = made.spec
    if not spec.objectives:
        raise InputError("a search needs objectives, such as 'objectives: {energy_per_token_j: min}'")
    if spec.sample is not None or spec.zip or spec.repeat or spec.where:
        raise InputError("a search draws every axis by itself; leave out sample, zip, where and repeat")
    identity = {**made.data, "search_seed": seed}
    folder = Path(output) if output is not None else SWEEPS / f"search-{made.name}-{digest(identity)[:12]}"
    store = Store(folder, identity)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler_class = optuna.samplers.TPESampler if len(spec.objectives) == 1 else optuna.samplers.NSGAIISampler
    with warnings.catch_warnings():  # experimental in old versions of optuna, deprecated in new ones
        warnings.simplefilter("ignore")
        sampler = sampler_class(seed=seed, constraints_func=_violations if spec.constraints else None)
    study = optuna.create_study(
        directions=["minimize" if way == "min" else "maximize" for way in spec.objectives.values()], sampler=sampler
    )
    choices = {path: _choices(path, axis) for path, axis in spec.axes.items()}
    base = f"{made.data['resolved_run']}:{code_digest()}"
    sizes = [len(values) for values in choices.values() if values is not None]
    space = math.prod(sizes) if len(sizes) == len(choices) else None
    tried: dict[str, dict[str, Any]] = {}
    rng, again, ran = random.Random(seed), 0, 0
    if progress is not None:
        progress.start(f"search {made.name}")
    try:
        with store.held():
            while space is None or len(tried) < space:
                if again >= MOST_AGAIN and space is not None:
                    study.enqueue_trial(_untried(choices, rng, lambda point: _key(base, spec, point) in tried))
                trial = study.ask()
                point = {path: _suggest(trial, path, axis, choices[path]) for path, axis in spec.axes.items()}
                key = _key(base, spec, point)
                if key not in store.done and len(tried) >= trials:
                    break  # those that are in the folder are in the table, however few are asked for
                again = again + 1 if key in tried else 0
                if again > MOST_AGAIN:  # a sampler that has settled on one point of a continuous space
                    break
                if not tried:
                    resolve(made.run, spec.set, point)
                if key not in store.done:
                    fresh = simulate(made.run, spec.set, point)
                    check_metrics(spec, fresh)
                    store.add(key, fresh)
                    ran += 1
                _tell(study, trial, spec, store.done[key])
                tried.setdefault(key, point)
                if progress is not None:
                    progress.update(len(tried), max(trials, len(tried)))
            listed, results = list(tried.values()), [store.done[key] for key in tried]
            rows, _ = write_tables(made, listed, results, folder)
    finally:
        if progress is not None:
            progress.stop()
    failed = sum(row["status"] == "failed" for row in rows)
    reused, units = len(rows) - ran, axis_units(made, listed[0])
    note = ""
    if len(rows) < trials:
        note = f"all {space} points of the axes are tried, fewer than the {trials} trials asked for"
        if space is None:
            note = f"the sampler keeps to points that are tried: {len(rows)} instead of {trials} trials"
    return SweepResult(folder, rows, [], ran, reused, failed, units, spec, note)


def _key(base: str, spec: SweepSpec, point: Mapping[str, Any]) -> str:
    return digest({"base": base, "set": spec.set, "point": point})


def _untried(
    choices: Mapping[str, list[Any] | None], rng: random.Random, tried: Callable[[Mapping[str, Any]], bool]
) -> dict[str, int]:
    """Places, by axis, of the values of a point that was not tried; there must be one."""
    while True:
        places = {path: rng.randrange(len(values or ())) for path, values in choices.items()}
        if not tried({path: (choices[path] or ())[place] for path, place in places.items()}):
            return places


def _choices(path: str, axis: Any) -> list[Any] | None:
    """Values an axis is searched over; None for a continuous span."""
    return None if isinstance(axis, Span) and axis.steps is None and axis.step is None else axis_values(path, axis)


def _suggest(trial: Any, path: str, axis: Any, choices: list[Any] | None) -> Any:
    if choices is not None:
        return choices[trial.suggest_int(path, 0, len(choices) - 1)]
    between = ends(path, axis)
    if between.whole:
        return between.text(trial.suggest_int(path, int(between.low), int(between.high), log=between.log))
    return between.text(trial.suggest_float(path, between.low, between.high, log=between.log))


def _tell(study: Any, trial: Any, spec: SweepSpec, result: Mapping[str, Any]) -> None:
    import optuna

    check_metrics(spec, result)
    values = [result.get(name) for name in spec.objectives]
    if result["status"] != "ok" or any(value is None for value in values):
        study.tell(trial, state=optuna.trial.TrialState.FAIL)
        return
    over = []
    for name, bound in spec.constraints.items():
        value = result[name]
        broken = [_below(value, bound.min), _above(value, bound.max)] if value is not None else [float("inf")]
        over.append(max(broken))
    trial.set_user_attr("violations", over)
    study.tell(trial, values)


def _below(value: float, least: float | None) -> float:
    return float("-inf") if least is None else least - value


def _above(value: float, most: float | None) -> float:
    return float("-inf") if most is None else value - most


def _violations(trial: Any) -> list[float]:
    """How far each constraint is broken; zero or less is kept."""
    return trial.user_attrs["violations"]
