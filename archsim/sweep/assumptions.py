"""What an answer hangs on: the assumed and fitted numbers that move it most, and what would settle each.

Every such number (with those that move with it) is taken to both ends of its range. The effect on a result is
``ln(result at high / result at low)``: the log-slope over the range times the logarithm of the range. Where the result
turns inside the range, the effect is that between its smallest and largest value among low, nominal and high. Machine
numbers are simulated, prices only priced anew.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from archsim.session import load, run
from archsim.sweep.executors import check_workers, drain
from archsim.sweep.ranges import Uncertain, uncertain
from archsim.sweep.store import Memory
from archsim.sweep.uncertainty import drawn_summary, kept, priced_summary
from archsim.sweep.work import attempt

#: Answers, and the result that each is.
ANSWERS: Mapping[str, str] = {
    "latency": "request_latency_s",
    "speed": "decode_tokens_per_s",
    "energy": "energy_j",
    "area": "area_mm2",
}
#: Numbers named for each answer.
MOST = 5
#: Least effect that counts as one.
LEAST = 1e-6

Ends = tuple[Mapping[str, Any], Mapping[str, Any]]


def assumptions(
    source: Any,
    *,
    sets: Sequence[Any] = (),
    most: int = MOST,
    workers: int = 1,
    progress: Any = None,
    **named: Any,
) -> dict[str, list[dict[str, Any]]]:
    """The assumed and fitted numbers that a run's answers hang on most.

    Parameters
    ----------
    source : what :func:`archsim.session.load` takes
        The run; `sets` and `named` are its other arguments.
    most : int
        Numbers to name for each answer.
    workers : int
        Processes.
    progress : object, optional
        Receives ``start``, ``update`` and ``stop``.

    Returns
    -------
    dict
        By answer (``latency``, ``speed``, ``energy``, ``area``), strongest first: ``path``, ``with`` (paths that move
        along), ``value``, ``low``, ``high``, ``unit``, ``source``, ``nominal``, ``at_low``, ``at_high`` (the result),
        ``log_slope`` and ``log_range`` (None where the range touches zero), ``effect``, ``settle``.

    Raises
    ------
    InputError
        For a thermal run, or a run that cannot be done.
    """
    check_workers(workers)
    given = {**named, "file": source, "sets": tuple(sets)}
    resolved = load(**given)
    groups: dict[str, list[Uncertain]] = {}
    for item in uncertain(resolved):
        groups.setdefault(item.group, []).append(item)
    groups = {name: items for name, items in groups.items() if any(item.unsure for item in items)}
    base = run(resolved, trace="off")
    found: dict[str, Ends] = {}
    timed = [name for name, items in groups.items() if not all(item.priced for item in items)]
    keys = [(name, share) for name in timed for share in (0.0, 1.0)]
    store = Memory()
    drain(
        [f"{name}:{share}" for name, share in keys],
        [(end, (given, name, share)) for name, share in keys],
        store,
        "assumptions",
        workers=workers,
        progress=progress,
    )
    for name in timed:
        found[name] = (store.done[f"{name}:0.0"], store.done[f"{name}:1.0"])
    for name in groups.keys() - found.keys():
        low, high = (
            priced_summary(base.trace, resolved.data["system"], groups[name], _moved(groups[name], share))
            for share in (0.0, 1.0)
        )
        found[name] = (low, high)
    return {
        answer: _strongest([_entry(groups[name], base.summary, found[name], key) for name in groups], most)
        for answer, key in ANSWERS.items()
    }


def end(given: Mapping[str, Any], group: str, share: float) -> dict[str, Any]:
    """Results of a run with one group at a share of its range; what cannot run is a result too."""

    def moved() -> dict[str, Any]:
        items = [item for item in uncertain(load(**given)) if item.group == group]
        return kept(drawn_summary(given, items, _moved(items, share)))

    return attempt(moved)


def _moved(items: Sequence[Uncertain], share: float) -> dict[str, float]:
    return {item.path: item.at(share) for item in items}


def _entry(items: Sequence[Uncertain], nominal: Mapping[str, Any], ends: Ends, key: str) -> dict[str, Any]:
    """Effect of one group on one result; it is named after its first assumed or fitted number."""
    lead = next(item for item in items if item.unsure)
    low, high = (ends[1], ends[0]) if lead.flipped else ends
    middle, at_low, at_high = nominal[key], low.get(key), high.get(key)
    known = [value for value in (at_low, middle, at_high) if value]
    effect = math.log(max(known) / min(known)) if len(known) > 1 else 0.0
    turned = at_low is not None and at_high is not None and at_high < at_low
    spread = math.log(lead.high / lead.low) if lead.low > 0 else None
    slope = math.log(at_high / at_low) / spread if spread and at_low and at_high else None
    return {
        "path": lead.path,
        "with": [item.path for item in items if item is not lead],
        "value": lead.value,
        "low": lead.low,
        "high": lead.high,
        "unit": lead.unit,
        "source": lead.source,
        "nominal": middle,
        "at_low": at_low,
        "at_high": at_high,
        "log_slope": slope,
        "log_range": spread,
        "effect": -effect if turned else effect,
        "settle": lead.settle,
    }


def _strongest(entries: Sequence[dict[str, Any]], most: int) -> list[dict[str, Any]]:
    moving = [entry for entry in entries if abs(entry["effect"]) > LEAST]
    return sorted(moving, key=lambda entry: (-abs(entry["effect"]), entry["path"]))[:most]
