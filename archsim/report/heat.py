"""Temperatures, clocks and decoding speed over a session, from the notes and rates of a thermal run."""

from __future__ import annotations

from typing import Any

import numpy as np

from archsim.report.power import power
from archsim.trace import Trace
from archsim.units import PS_PER_S, InputError

#: Start of the kinds of notes that hold temperatures, in thousandths of a kelvin.
PREFIX = "kelvin_"
CELSIUS_K = 273.15


def is_thermal(trace: Trace) -> bool:
    """Whether the run had a thermal model."""
    return bool(trace.manifest.get("thermal"))


def heat(trace: Trace, bin_ps: int = 10 * PS_PER_S) -> list[dict[str, Any]]:
    """Speed, power, temperatures and clocks of a session by interval.

    Parameters
    ----------
    bin_ps : int
        Length of an interval; the last one may be shorter.

    Returns
    -------
    list of dict
        ``start_s``, ``tokens_per_s`` committed in it, ``power_w``, ``<node>_celsius`` (the last note before its end)
        and ``<target>_rate`` at its end.

    Raises
    ------
    InputError
        When the run had no thermal model, or an interval is not positive.
    """
    if not is_thermal(trace):
        raise InputError("the run has no temperatures; simulate it with --thermal phone_passive (job.thermal)")
    watts = power(trace, bin_ps)
    edges, total = watts.edges_ps, watts.total_w()
    notes, rates = trace.notes, trace.tables["rates"]
    commits = notes["kind"] == "commit"
    tokens = np.histogram(notes["time_ps"][commits], edges, weights=notes["value"][commits])[0]
    levels: dict[str, np.ndarray] = {}
    for kind in sorted({kind for kind in np.unique(notes["kind"]).tolist() if kind.startswith(PREFIX)}):
        mine = notes["kind"] == kind
        celsius = notes["value"][mine] / 1000 - CELSIUS_K
        levels[f"{kind.removeprefix(PREFIX)}_celsius"] = _last(notes["time_ps"][mine], celsius, edges[1:], celsius[:1])
    for target in np.unique(rates["target"]).tolist():
        mine = rates["target"] == target
        levels[f"{target}_rate"] = _last(rates["time_ps"][mine], rates["fraction"][mine], edges[1:], np.ones(1))
    span = np.diff(edges) / PS_PER_S
    return [
        {
            "start_s": float(edges[i] / PS_PER_S),
            "tokens_per_s": float(tokens[i] / span[i]) if span[i] else 0.0,
            "power_w": float(total[i]),
            **{name: float(values[i]) for name, values in levels.items()},
        }
        for i in range(len(span))
    ]


def _last(times: np.ndarray, values: np.ndarray, at: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Value of the last change at or before each time; `first` before any."""
    order = np.argsort(times, kind="stable")
    return np.concatenate([first, values[order]])[np.searchsorted(times[order], at, "right")]
