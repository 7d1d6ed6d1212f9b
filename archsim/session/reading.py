"""The verbs that read a finished run: replay, report, explain, diff."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from archsim.report.answers import Difference, Explanation, Replay, Report
from archsim.session.running import Result, declare, finished
from archsim.session.tables import script_of
from archsim.trace import Trace
from archsim.trace import diff as first_difference
from archsim.trace.columns import length
from archsim.trace.scratch import Scratch
from archsim.trace.spill import Spill


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


def replay(folder: str | Path, *, progress: Any = None) -> Replay:
    """Execute the recorded script of a run folder again.

    Parameters
    ----------
    folder : path
        A run folder.
    progress : object, optional
        Receives ``start`` and ``stop``.

    Returns
    -------
    Replay
        A mapping of ``identical``, ``rows``, ``digest`` and, when different, ``difference`` (first differing row).
    """
    recorded = Trace.load(folder)
    script = script_of(recorded, str(folder))
    long = recorded.stored
    store = Spill(Scratch)
    sim = declare(recorded.manifest, log="tasks", store=store, script=not long)
    if progress is not None:
        progress.start("replay")
    try:
        sim.play(script)
        priced = {name: recorded.tables[name] for name in ("ops", "counts", "draws")}
        again = finished(sim, store, dict(recorded.manifest), priced, script=not long)
    finally:
        store.abort()
    logs = {name: recorded.tables[name] for name in ("pool_log", "levels_log")}  # not kept of the second execution
    again = Trace({**recorded.tables, **again.tables, **logs}, recorded.manifest)
    differing = first_difference(recorded, again)
    return Replay(
        {
            "identical": not differing,
            "rows": length(again.rows),
            "digest": again.digest,
            "difference": differing or None,
        }
    )


def report(
    folder: str | Path,
    *,
    perfetto: str | Path | None = None,
    figures: str | Path | None = None,
    html: str | Path | None = None,
    tables: str | Path | None = None,
    baseline: str | Path | None = None,
    export: str | Path | None = None,
    ending: str = "csv",
    progress: Any = None,
) -> Report:
    """Report on a run folder: where time, bytes, energy and area went.

    Parameters
    ----------
    folder : path
        A run folder.
    perfetto : path, optional
        Also write a Perfetto trace here.
    figures : path, optional
        Also write the figures into this folder.
    html : path, optional
        Also write the report as one HTML file, with a time line.
    tables : path, optional
        A file of prices; the run is reported under these instead of its own.
    baseline : path, optional
        Another run folder to set energy and area against.
    export, ending : path and str, optional
        Also write every table into this folder, as ``csv``, ``parquet`` or ``json``.

    Returns
    -------
    Report
        A mapping (see :func:`archsim.report.document.document`); ``files`` lists what was written.
    """
    from archsim.report.document import compared, document, write_figures, write_tables
    from archsim.report.pricing import repriced

    trace = Trace.load(folder)
    if tables is not None:
        trace = repriced(trace, tables)
    if progress is not None:
        progress.start("report")
    made = document(trace, f"{trace.manifest['schedule']} on {trace.manifest['config']['system']['name']}: {folder}")
    if baseline is not None:
        other = Trace.load(baseline)
        compared(made, trace, other if tables is None else repriced(other, tables))
    if export is not None:
        made["files"] += write_tables(trace, Path(export), ending)
    if perfetto is not None:
        from archsim.report.perfetto import write_perfetto

        made["files"].append(str(write_perfetto(trace, perfetto)))
    if figures is not None:
        made["files"] += write_figures(trace, Path(figures))
    if html is not None:
        from archsim.report.page.build import write_run_page

        made["files"].append(str(write_run_page(trace, html, made["title"], made)))
    return Report(made)


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
    from archsim.report.explain import explain as explain_trace

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
    from archsim.report.explain import difference

    return Difference(difference(trace_of(one), trace_of(other)))
