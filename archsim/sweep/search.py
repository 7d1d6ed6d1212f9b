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
from archsim.sharing import sharing
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
    _optuna()
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
    hunt = _Hunt(made, seed, store)
    if progress is not None:
        progress.start(f"search {made.name}")
    try:
        with store.held(), sharing():
            while hunt.step(trials):
                if progress is not None:
                    progress.update(len(hunt.tried), max(trials, len(hunt.tried)))
            listed, results = list(hunt.tried.values()), [store.done[key] for key in hunt.tried]
            rows, _ = write_tables(made, listed, results, folder)
    finally:
        if progress is not None:
            progress.stop()
    failed = sum(row["status"] == "failed" for row in rows)
    reused, units = len(rows) - hunt.ran, axis_units(made, listed[0])
    return SweepResult(folder, rows, [], hunt.ran, reused, failed, units, spec, hunt.note(trials))


def _optuna() -> Any:
    """The package of samplers.

    Raises
    ------
    InputError
        When it is not installed.
    """
    try:
        import optuna
    except ImportError:
        raise InputError("a search needs the package 'optuna'; install it with 'pip install optuna'") from None
    return optuna


def _study(spec: SweepSpec, seed: int) -> Any:
    """Study with a seeded sampler: one for a single objective, another for several."""
    optuna = _optuna()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler_class = optuna.samplers.TPESampler if len(spec.objectives) == 1 else optuna.samplers.NSGAIISampler
    with warnings.catch_warnings():  # experimental in old versions of optuna, deprecated in new ones
        warnings.simplefilter("ignore")
        sampler = sampler_class(seed=seed, constraints_func=_violations if spec.constraints else None)
    return optuna.create_study(
        directions=["minimize" if way == "min" else "maximize" for way in spec.objectives.values()], sampler=sampler
    )


class _Hunt:
    """A search as it goes on.

    Parameters
    ----------
    made : Sweep
        What is searched.
    seed : int
        Seed of the sampler.
    store : Store
        Where results are kept.

    Attributes
    ----------
    tried : dict
        Points by key, in the order of their trials.
    ran : int
        How many of them were simulated.
    """

    def __init__(self, made: Sweep, seed: int, store: Store) -> None:
        self.made, self.spec, self.store = made, made.spec, store
        self.study = _study(made.spec, seed)
        self.choices = {path: _choices(path, axis) for path, axis in made.spec.axes.items()}
        sizes = [len(values) for values in self.choices.values() if values is not None]
        self.space = math.prod(sizes) if len(sizes) == len(self.choices) else None
        self.tried: dict[str, dict[str, Any]] = {}
        self.ran = 0
        self._again = 0
        self._rng = random.Random(seed)
        self._base = f"{made.data['resolved_run']}:{code_digest()}"

    def step(self, trials: int) -> bool:
        """Make one trial; whether there was one to make."""
        if self.space is not None and len(self.tried) >= self.space:
            return False
        trial, point = self._draw()
        key = self._key(point)
        if key not in self.store.done and len(self.tried) >= trials:
            return False  # those that are in the folder are in the table, however few are asked for
        self._again = self._again + 1 if key in self.tried else 0
        if self._again > MOST_AGAIN:  # a sampler that has settled on one point of a continuous space
            return False
        if not self.tried:
            resolve(self.made.run, self.spec.set, point)
        if key not in self.store.done:
            fresh = simulate(self.made.run, self.spec.set, point)
            check_metrics(self.spec, fresh)
            self.store.add(key, fresh)
            self.ran += 1
        _tell(self.study, trial, self.spec, self.store.done[key])
        self.tried.setdefault(key, point)
        return True

    def _draw(self) -> tuple[Any, dict[str, Any]]:
        """The sampler's next trial and its point: an untried one after too many that were tried."""
        if self._again >= MOST_AGAIN and self.space is not None:
            self.study.enqueue_trial(_untried(self.choices, self._rng, lambda point: self._key(point) in self.tried))
        trial = self.study.ask()
        return trial, {path: _suggest(trial, path, axis, self.choices[path]) for path, axis in self.spec.axes.items()}

    def _key(self, point: Mapping[str, Any]) -> str:
        return digest({"base": self._base, "set": self.spec.set, "point": point})

    def note(self, trials: int) -> str:
        """Why there are fewer trials than were asked for; empty where there are not."""
        if len(self.tried) >= trials:
            return ""
        if self.space is None:
            return f"the sampler keeps to points that are tried: {len(self.tried)} instead of {trials} trials"
        return f"all {self.space} points of the axes are tried, fewer than the {trials} trials asked for"


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
