"""The verbs that explain: why a run takes its time, and what makes two runs differ."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from archsim.report.answers import Difference, Explanation
from archsim.report.explain import difference
from archsim.report.explain import explain as explain_trace
from archsim.session import Result
from archsim.trace import Trace


def trace_of(run: Result | Trace | str | Path) -> Trace:
    """Trace of a run: of its result, of its folder, or itself.

    Raises
    ------
    InputError
        When a folder holds no run that can be read.
    """
    if isinstance(run, Trace):
        return run
    return run.trace if isinstance(run, Result) else Trace.load(run)


def explain(
    run: Result | Trace | str | Path,
    *,
    sensitivity: bool = False,
    params: Sequence[str] = (),
    step: float = 0.05,
    assumptions: bool = False,
    workers: int = 1,
    progress: Any = None,
) -> Explanation:
    """Say what owns the time of a run, what more of each device could give, and what the answer hangs on.

    Parameters
    ----------
    run : Result, Trace or path
        A finished run, or its folder.
    sensitivity : bool
        Also run again with every number of the machine moved (:mod:`archsim.sweep.sensitivity`).
    params : sequence of str
        Move these numbers only (dotted paths); implies `sensitivity`.
    step : float
        Relative step of the moves.
    assumptions : bool
        Also say which assumed or fitted numbers each answer hangs on (:mod:`archsim.sweep.assumptions`).
    workers : int
        Processes for `assumptions`.
    progress : object, optional
        Receives ``start``, ``update`` and ``stop``.

    Returns
    -------
    Explanation
        Tables ``path`` (s), ``what_if`` (s), ``roofline`` and, if asked for, ``sensitivity`` (log-slopes).

    Raises
    ------
    InputError
        When the run cannot be read, or a path is no number of the machine.
    """
    trace = trace_of(run)
    document = dict(explain_trace(trace))
    if sensitivity or params or assumptions:
        from archsim.sweep.sensitivity import rebuilt, sensitivities

        source, sets = rebuilt(trace)
        if sensitivity or params:
            document["sensitivity"] = sensitivities(source, sets=sets, paths=params, step=step, progress=progress)
    if assumptions:
        from archsim.sweep.assumptions import assumptions as strongest

        document["assumptions"] = strongest(source, sets=sets, workers=workers, progress=progress)
    return Explanation(document)


def diff(one: Result | Trace | str | Path, other: Result | Trace | str | Path) -> Difference:
    """Say what makes two runs differ: time on the path by unit and phase, energy by action.

    Parameters
    ----------
    one, other : Result, Trace or path
        Finished runs, or their folders.

    Returns
    -------
    Difference
        Tables ``summary``, ``time`` (s) and ``energy`` (J), per token where both runs committed tokens.
    """
    return Difference(difference(trace_of(one), trace_of(other)))
