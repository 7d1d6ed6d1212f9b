"""Simulate a run: the machine, the job and the schedule on one engine, and the trace they leave."""

from __future__ import annotations

import ctypes
import dataclasses
import importlib.metadata
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from archsim import __version__, units
from archsim.authored import mapping_of
from archsim.config import InputError, Resolved
from archsim.device import OpKind
from archsim.engine.sim import PoolDecl, Sim, StoreDecl, UnitDecl
from archsim.session.background import start_background
from archsim.session.loading import build_job, load
from archsim.session.tables import tables_of
from archsim.session.thermal import Governor, thermal_spec
from archsim.streams import label
from archsim.system import System
from archsim.trace import Columns, Trace, TraceWriter, build_manifest, check_target
from archsim.trace.scratch import Scratch
from archsim.trace.spill import Spill
from archsim.workload.job import Job

TRACE_MODES = ("off", "tasks", "full")
RUNS = Path("archsim-runs")


@dataclass(frozen=True, repr=False)
class Result:
    """A finished run; it prints as its headline, and :meth:`frame` gives its tables.

    Attributes
    ----------
    summary : dict
        Headline numbers, with the keys of ``archsim run --json``.
    trace : Trace
        Columns and manifest.
    folder : Path or None
        Where the trace was written.
    title : str
        One line that says what ran.
    warnings : tuple of str
        What a reader of the numbers should know.
    """

    summary: dict[str, Any]
    trace: Trace
    folder: Path | None
    title: str
    warnings: tuple[str, ...]

    def frame(self, name: str = "rows") -> Any:
        """Table of the trace (``rows``, ``blocks``, ``ops``, ``notes``, ...) or of its reports as a pandas frame.

        ``frame.attrs["units"]`` holds the units; reports have the names of ``archsim.report.tables.TABLES``.

        Raises
        ------
        InputError
            For an unknown name.
        """
        from archsim.report.answers import trace_frame

        return trace_frame(self.trace, name)

    def __str__(self) -> str:
        from archsim.report.answers import summary_rows, text_of

        where = "" if self.folder is None else f"\nrun folder: {self.folder}"
        return text_of({"": summary_rows(self.summary)}, self.title) + where

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        from archsim.report.answers import html_of, summary_rows

        return html_of({"": summary_rows(self.summary)}, self.title)


def declare(
    system: Mapping[str, Sequence[Mapping[str, Any]]], *, log: str, store: Spill | None = None, script: bool = True
) -> Sim:
    """Make an empty simulation from a system's description (:meth:`archsim.system.System.describe`)."""
    return Sim(
        [UnitDecl(unit["name"]) for unit in system["units"]],
        [PoolDecl(p["name"], p["fixed"], dict(p["mix"])) for p in system["pools"]],
        [StoreDecl(s["name"], s["capacity"], s["level"]) for s in system["stores"]],
        log=log,
        store=store,
        script=script,
    )


def run(
    resolved: Resolved | str | Path | Mapping[str, Any],
    *,
    trace: str = "tasks",
    output: str | Path | None = None,
    check: bool = False,
    progress: Any = None,
) -> Result:
    """Simulate a run.

    Parameters
    ----------
    resolved : Resolved, or what :func:`load` takes
        The run.
    trace : str
        ``off`` writes nothing, ``tasks`` writes the run folder, ``full`` also pool use and store levels over time.
    output : path, optional
        Run folder; ``archsim-runs/<digest of the configuration>`` by default.
    check : bool
        Hold the finished trace against every invariant (:mod:`archsim.report.invariants`); what was checked is the
        summary's ``checks``.
    progress : object, optional
        Receives ``start``, ``update`` and ``stop``.

    Returns
    -------
    Result

    Raises
    ------
    InputError
        For a job the machine cannot hold, a stream that cannot serve it, or an `output` with ``trace="off"``.
    SimError
        When the simulation fails (deadlock, overflow of a store, ...).
    InvariantError
        When `check` finds an invariant that does not hold; the run folder is kept.
    """
    if trace not in TRACE_MODES:
        raise InputError(f"--trace {units.quote(trace)} is not one of {', '.join(TRACE_MODES)}")
    if trace == "off" and output is not None:
        raise InputError(
            f"--trace off writes no run folder, so -o {output} would stay empty; leave one of them out, or keep the "
            "headline numbers alone with --json"
        )
    if not isinstance(resolved, Resolved):
        resolved = load(resolved)
    target = Path(output) if output is not None else RUNS / resolved.digest[:16]
    if trace != "off":
        check_target(target, resolved.digest)
    made, folder, title, cpu_s = _simulate(resolved, trace, target, script=check or trace != "off", progress=progress)
    if made.stored:
        _give_back()
    from archsim.report.cautions import cautions
    from archsim.report.summary import summarise

    summary = {**summarise(made), "cpu_s": cpu_s}
    if check:
        from archsim.report.invariants import check_trace

        summary["checks"] = check_trace(made, summary).to_json()
    return Result(summary, made, folder, title, tuple(cautions(made)))


def _give_back() -> None:
    """Return what a simulation held to the system: reports of a long run want as much again."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc keeps freed memory otherwise
        if trim is not None:
            trim(0)


def _simulate(
    resolved: Resolved, trace: str, target: Path, *, script: bool, progress: Any
) -> tuple[Trace, Path | None, str, float]:
    """Trace of a run, the folder it was written to, the run's title, and the CPU seconds it took."""
    system, schedule, job = build_job(resolved)
    described = system.describe(job.store_levels())
    described["stores"] += job.stores
    kept = trace != "off"
    store = Spill((lambda: TraceWriter(target, resolved.digest)) if kept else Scratch)
    sim = declare(described, log="full" if trace == "full" else "tasks", store=store, script=script)
    heat = None
    if job.spec.thermal is not None:
        spec, heat = thermal_spec(job.spec.thermal)
        governor = Governor(spec, system, sim, job)
    metered: Any = sim if heat is None else governor.meter
    job.bind(metered, progress)
    began = time.process_time()
    if progress is not None:
        progress.start(resolved.data["schedule"]["name"])
    try:
        started = mapping_of(schedule.start, Generator, "generators (functions that yield)", metered, job)
        processes = [sim.process(job.progress.over(steps), name) for name, steps in started.items()]
        if heat is not None:
            governor.processes += processes
            sim.process(governor.steps(), "thermal", daemon=True)
        if job.open_loop:
            sim.process(job.arrivals(), "arrivals")
        start_background(sim, metered, job, processes)
        sim.run()
        cpu_s = time.process_time() - began
        manifest = _manifest(resolved, system, described, job, sim)
        if heat is not None:
            manifest["thermal"] = heat
        made = finished(sim, store, manifest, job.planner.ops.tables(), script=script)
    finally:
        store.abort()
        sim.close()
        if progress is not None:
            progress.stop()
    folder = None
    if kept:
        folder = target if store.finished else made.save(target)
    return made, folder, _title(resolved, job), cpu_s


@cache
def _versions() -> dict[str, str]:
    """Versions of the packages that results depend on."""
    return {name: importlib.metadata.version(name) for name in ("numpy", "numba", "networkx", "pyarrow")}


def _title(resolved: Resolved, job: Job) -> str:
    models = " + ".join(entry["name"] for entry in resolved.data["model"].values())
    return (
        f"{resolved.data['schedule']['name']} on {resolved.data['system']['name']}: {models}, "
        f"{job.spec.requests} prompt(s) of up to {job.spec.longest_tokens} tokens, stream {job.spec.stream}"
    )


def finished(sim: Sim, store: Spill, manifest: dict[str, Any], ops: Mapping[str, Columns], *, script: bool) -> Trace:
    """Trace of a finished simulation; of a long one, the store has the rows."""
    tables = {**tables_of(sim, script=script, store=store), **ops}
    if store.writer is None:
        return Trace(tables, manifest)
    made = Trace(store.finish(tables, manifest), manifest)
    if isinstance(store.writer, TraceWriter):
        vars(made)["digest"] = store.writer.document["digest"]
    return made


def _manifest(
    resolved: Resolved, system: System, described: Mapping[str, list[dict[str, Any]]], job: Job, sim: Sim
) -> dict[str, Any]:
    """Manifest of a finished simulation."""
    prices = system.prices()
    origin = label(job.stream, job.spec.target, job.spec.draft if "draft" in job.models else None)
    manifest = build_manifest(
        archsim=__version__,
        config=resolved.data,
        config_digest=resolved.digest,
        schedule=resolved.data["schedule"]["name"],
        seed=job.spec.seed,
        system=described,
        prices=prices.document(),
        stream={
            "kind": origin.partition(":")[0],
            "label": origin,
            "name": job.stream.name,
            "source": job.stream.source,
        },
        warnings={
            "off_trace_nodes": job.stream.off_trace_nodes,
            "synthetic_offpath": job.stream.synthetic_offpath,
            "ended_early": job.ended_early,
        },
        versions=dict(_versions()),
    )
    manifest["peaks"] = {
        name: {"ops_per_s": device.peak_ops_per_s(), "bytes_per_s": device.bandwidth_bytes_per_s()}
        for name, device in system.devices.items()
    }
    manifest["keep_weights"] = [name for name, device in system.devices.items() if device.keeps_weights]
    manifest["footprint"] = job.footprint
    manifest["placements"] = {
        role: {"layers": job.planner.device(role, OpKind.MATMUL).name, **dataclasses.asdict(place)}
        for role, place in job.placements.items()
    }
    manifest |= {"labels": sim.labels, "note_kinds": sim.kinds}
    return manifest
