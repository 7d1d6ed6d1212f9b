"""Bands on a sweep, and which of its points the model's error can tell apart.

Every point is drawn with the same hypercube (:func:`archsim.sweep.ranges.shares`), so draw `i` of two points has the
same errors in all they share. Two points are told apart in a result when the sign of their difference is the same in
at least 90 % of the draws; one is dominated when some point of the front beats it (no worse in any objective, better in
one) in at least 90 % of them, and cannot be told from the front when it is beaten in fewer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archsim.config import digest
from archsim.sweep.executors import drain
from archsim.sweep.ranges import uncertain
from archsim.sweep.store import Store
from archsim.sweep.uncertainty import METRICS, QUANTILES, check_samples, draw, quantiles, ranges_digest
from archsim.sweep.work import overrides, resolve

if TYPE_CHECKING:
    from archsim.sweep.runner import Sweep

Table = list[dict[str, Any]]
Draws = list[dict[str, Any]]

#: Share of draws in which a difference must have one sign.
APART = 0.9
ON, ALIKE, DOMINATED = "on front", "indistinguishable from front", "dominated"
FOLDER = "bands"
#: Result by which points are told apart where a sweep has no objectives.
HEADLINE = "decode_tokens_per_s"


def draw_point(
    run: Any, fixed: Mapping[str, Any], point: Mapping[str, Any], index: int, samples: int, seed: int, names: Any
) -> dict[str, Any]:
    """Draw `index` of a point."""
    return draw({"file": run, "sets": tuple(overrides(fixed, point))}, index, samples, seed, names)


def draw_points(
    made: Sweep,
    listed: Sequence[Mapping[str, Any]],
    keys: Sequence[str],
    results: Sequence[Mapping[str, Any]],
    folder: Path,
    *,
    samples: int,
    seed: int,
    workers: int,
    dask: str | None = None,
    progress: Any = None,
) -> list[Draws]:
    """Draws of every point, in order; none of a point that cannot run. They are kept below the sweep's folder.

    Raises
    ------
    InputError
        For a number of draws that makes no band, or a run that cannot be drawn.
    """
    check_samples(samples)
    spec = made.spec
    names = tuple(dict.fromkeys((*METRICS, *spec.objectives)))
    base = uncertain(resolve(made.run, spec.set, listed[0]))
    plan = {"kind": "bands", "sweep": made.data, "samples": samples, "seed": seed, "numbers": ranges_digest(base)}
    able = [i for i, result in enumerate(results) if result["status"] == "ok"]
    calls: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []
    named: list[str] = []
    for i in able:
        for k in range(samples):
            calls.append((draw_point, (made.run, spec.set, listed[i], k, samples, seed, names)))
            named.append(digest({"point": keys[i], "draw": k, "plan": digest(plan)}))
    store = Store(folder / FOLDER, plan)
    with store.held():
        drain(named, calls, store, f"bands of {made.name}", workers=workers, dask=dask, progress=progress)
        found: list[Draws] = [[] for _ in listed]
        for place, key in enumerate(named):
            found[able[place // samples]].append(store.done[key])
    return found


def banded(rows: Table, objectives: Mapping[str, str], draws: Sequence[Draws]) -> Table:
    """Rows with p10, p50 and p90 of every result, and with what can be told apart."""
    names = tuple(dict.fromkeys((*METRICS, *objectives)))
    made = []
    for row, mine in zip(rows, draws):
        columns = {}
        for name in names:
            if name in row:
                columns |= _columns(name, [entry.get(name) for entry in mine if entry["status"] == "ok"])
        made.append({**row, **columns, "draws": sum(entry["status"] == "ok" for entry in mine)})
    if objectives and all("pareto" in row for row in made):  # repeated points have the front of their means
        places = fronts(made, objectives, draws)
        made = [{**row, **place} for row, place in zip(made, places)]
    for name in objectives or (HEADLINE,):
        same = alike(made, name, draws)
        made = [{**row, f"alike.{name}": " ".join(map(str, same[row["point"]]))} for row in made]
    return made


def _columns(name: str, values: Sequence[float | None]) -> dict[str, float | None]:
    return {f"{name}.{key}": value for key, value in quantiles(values).items()}


def is_band(name: str) -> bool:
    """Whether a column holds a quantile."""
    return name.rpartition(".")[2] in QUANTILES


def fronts(rows: Table, objectives: Mapping[str, str], draws: Sequence[Draws]) -> list[dict[str, Any]]:
    """By row: ``front`` (on front, indistinguishable from front, dominated; empty where not ok), and ``front_share``.

    ``front_share`` is the share of the draws in which no other point beats it.
    """
    costs = [_costs(mine, objectives) for mine in draws]
    able = [i for i, row in enumerate(rows) if row["status"] == "ok" and any(cost is not None for cost in costs[i])]
    best = [i for i in able if rows[i]["pareto"]]
    found: list[dict[str, Any]] = [{"front": "", "front_share": None} for _ in rows]
    for i in able:
        beaten = any(_share(_beats, costs[j], costs[i]) >= APART for j in best if j != i)
        place = ON if rows[i]["pareto"] else DOMINATED if beaten else ALIKE
        found[i] = {"front": place, "front_share": _unbeaten(costs, able, i)}
    return found


def _unbeaten(costs: Sequence[list[Any]], able: Sequence[int], i: int) -> float:
    own = [(k, cost) for k, cost in enumerate(costs[i]) if cost is not None]
    free = sum(not any(_beats(costs[j][k], cost) for j in able if costs[j][k] is not None) for k, cost in own)
    return free / len(own)


def alike(rows: Table, name: str, draws: Sequence[Draws]) -> dict[int, list[int]]:
    """By point: the other points (numbers) of which the draws do not tell it apart in a result."""
    values = [_costs(mine, {name: "min"}) for mine in draws]
    able = [i for i, row in enumerate(rows) if row["status"] == "ok" and any(v is not None for v in values[i])]
    found: dict[int, list[int]] = {row["point"]: [] for row in rows}
    for place, i in enumerate(able):
        for j in able[place + 1 :]:
            if max(_share(_less, values[i], values[j]), _share(_less, values[j], values[i])) < APART:
                found[rows[i]["point"]].append(rows[j]["point"])
                found[rows[j]["point"]].append(rows[i]["point"])
    return found


def _costs(mine: Draws, objectives: Mapping[str, str]) -> list[Any]:
    """Costs of each draw; None where it did not run or has no such result."""
    made: list[Any] = []
    for entry in mine:
        values = [entry.get(name) for name in objectives]
        good = entry["status"] == "ok" and None not in values
        signs = [1.0 if way == "min" else -1.0 for way in objectives.values()]
        made.append(tuple(sign * value for sign, value in zip(signs, values)) if good else None)
    return made


def _beats(one: Any, other: Any) -> bool:
    return one != other and all(a <= b for a, b in zip(one, other))


def _less(one: Any, other: Any) -> bool:
    return one < other


def _share(test: Callable[[Any, Any], bool], one: Sequence[Any], other: Sequence[Any]) -> float:
    """Share of the draws that both have in which a test holds."""
    pairs = [(a, b) for a, b in zip(one, other) if a is not None and b is not None]
    return sum(test(a, b) for a, b in pairs) / len(pairs) if pairs else 0.0


def mean_bands(groups: Sequence[Sequence[int]], draws: Sequence[Draws], names: Sequence[str]) -> list[dict[str, Any]]:
    """Bands of the means over groups of rows: each draw is averaged over the group first."""
    made = []
    for members in groups:
        columns: dict[str, Any] = {}
        for name in names:
            lines = [[entry.get(name) for entry in draws[i]] for i in members if draws[i]]
            each = [[value for value in column if value is not None] for column in zip(*lines)]
            columns |= _columns(name, [sum(column) / len(column) for column in each if len(column) == len(lines)])
        made.append(columns)
    return made


def mean_draws(lines: Sequence[Draws]) -> Draws:
    """Draws of a mean: each is averaged over the points that have draws, where it ran in all of them."""
    made: Draws = []
    for entries in zip(*(line for line in lines if line)):
        if any(entry["status"] != "ok" for entry in entries):
            made.append({"status": "failed"})
            continue
        found: dict[str, Any] = {"status": "ok"}
        for name in entries[0]:
            values = [entry.get(name) for entry in entries]
            if all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
                found[name] = sum(values) / len(values)
        made.append(found)
    return made
