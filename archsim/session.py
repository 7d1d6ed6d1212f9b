"""The verbs: load a run, simulate it, replay it, report on it.

These are what the command line and Python users call; everything below works on plain objects.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from archsim import __version__, registry, units
from archsim.background import start_background, with_streams
from archsim.columns import length
from archsim.config import InputError, JobSpec, Override, Resolved, load_config
from archsim.device import OpKind
from archsim.engine.sim import PoolDecl, Sim, StoreDecl, UnitDecl
from archsim.recording import script_of, tables_of
from archsim.report.answers import Replay, Report
from archsim.spill import Spill, drop_with, scratch
from archsim.stored import StoredTable
from archsim.streams import DecisionStream, label, open_stream
from archsim.system import System
from archsim.thermal import Governor, thermal_spec
from archsim.trace import SCRIPT, Columns, Trace, TraceWriter, build_manifest, check_target, diff
from archsim.workload.job import Job
from archsim.workload.model import ModelSpec

TRACE_MODES = ("off", "tasks", "full")
#: Values of a run that ``archsim run`` has an option of their own for.
OPTIONS = ("system", "schedule", "target", "draft", "stream", "prompts", "tokens", "seed", "thermal")
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


def load(
    file: str | Path | Mapping[str, Any] | None = None,
    *,
    system: str | None = None,
    schedule: str | None = None,
    job: Mapping[str, Any] | None = None,
    sets: Iterable[str] = (),
) -> Resolved:
    """Load a run from a file (or mapping) under overrides, or put one together from names.

    Parameters
    ----------
    file : str, Path or Mapping, optional
        A run file, the name of one, or a run as plain data.
    system, schedule : str, optional
        Names; they replace the file's.
    job : Mapping, optional
        Fields of the job; None values are left out.
    sets : iterable of str
        Overrides ``"dotted.path=value"``.

    Raises
    ------
    InputError
        For anything missing or wrong, in one line.
    """
    job = {key: value for key, value in (job or {}).items() if value is not None}
    named = {"system": system, "schedule": schedule, **{f"job.{key}": value for key, value in job.items()}}
    given = [Override(path, value, _origin(path)) for path, value in named.items() if value is not None]
    if file is None:
        needed = ("system", "schedule", "job.target", "job.stream")
        missing = [_origin(path) for path in needed if named.get(path) is None]
        if missing:
            raise InputError(f"give a run file, or also {', '.join(missing)} (see archsim run --help)")
        file = {"name": "run", "system": system, "schedule": {}, "job": {}}
    return load_config("run", file, [*given, *sets])


def _origin(path: str) -> str:
    """Option of ``archsim run`` that gives a value; the path itself where there is none."""
    key = path.removeprefix("job.")
    return f"--{key}" if key in OPTIONS else f"run: {path}"


def build_job(resolved: Resolved) -> tuple[System, Any, Job]:
    """Build the machine, the schedule and the job of a resolved run."""
    system = System.from_data(resolved.data["system"], resolved.sources)
    if resolved.data.get("background"):
        system = with_streams(system, resolved.data["background"])
    chosen = dict(resolved.data["schedule"])
    schedule = registry.get("schedule", chosen.pop("name"))(**chosen)
    spec = units.from_numbers(JobSpec, resolved.data["job"])
    models = {
        role: units.from_numbers(ModelSpec, {**entry["spec"], "name": entry["name"]})
        for role, entry in resolved.data["model"].items()
    }
    stream = open_stream(
        spec.stream,
        spec.seed,
        target=spec.target,
        prompt_tokens=spec.prompt_tokens,
        tokens=spec.longest_tokens,
        acceptance=spec.acceptance,
    )
    check_models(schedule, resolved.data["schedule"]["name"], models)
    if spec.prefill_rows and not schedule.causal:
        raise InputError(
            f"job.prefill_rows: schedule {resolved.data['schedule']['name']} prefills with attention over the whole "
            "prompt, which cannot be cut into passes; leave it out"
        )
    check_features(schedule, resolved.data["schedule"]["name"], stream)
    job = Job(spec, system, models, schedule, stream)
    return system, schedule, job


def check_models(schedule: Any, name: str, models: Mapping[str, ModelSpec]) -> None:
    """Refuse a model whose attention is not of the kind that the schedule decodes with."""
    for role, model in models.items():
        if role in schedule.roles and model.causal != schedule.causal:
            kind = ("bidirectional", "causal")
            raise InputError(
                f"schedule {name} decodes {kind[schedule.causal]} models; {model.name} ({role}) is {kind[model.causal]}"
            )


def check_features(schedule: Any, name: str, stream: DecisionStream) -> None:
    """Refuse a stream that has none of the kinds of data that the schedule can decode by."""
    if not set(schedule.features) & set(stream.features):
        raise InputError(
            f"stream {stream.name} cannot serve schedule {name}: it has {', '.join(sorted(stream.features))}, "
            f"the schedule needs {' or '.join(schedule.features)}"
        )


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
        For a job the machine cannot hold or a stream that cannot serve it.
    SimError
        When the simulation fails (deadlock, overflow of a store, ...).
    InvariantError
        When `check` finds an invariant that does not hold; the run folder is kept.
    """
    if trace not in TRACE_MODES:
        raise InputError(f"--trace {units.quote(trace)} is not one of {', '.join(TRACE_MODES)}")
    if not isinstance(resolved, Resolved):
        resolved = load(resolved)
    target = Path(output) if output is not None else RUNS / resolved.digest[:16]
    if trace != "off":
        check_target(target, resolved.digest)
    system, schedule, job = build_job(resolved)
    described = system.describe(job.store_levels())
    described["stores"] += job.stores
    kept, script = trace != "off", check or trace != "off"
    store = Spill(lambda: TraceWriter(target, resolved.digest)) if kept else scratch(resolved.digest)
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
        processes = [sim.process(steps, name) for name, steps in schedule.start(metered, job).items()]
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
        if progress is not None:
            progress.stop()
    folder = None
    if kept:
        folder = target if store.finished else made.save(target)
    from archsim.report.cautions import cautions
    from archsim.report.summary import summarise

    summary = {**summarise(made), "cpu_s": cpu_s}
    if check:
        from archsim.report.invariants import check_trace

        summary["checks"] = check_trace(made, summary).to_json()
    return Result(summary, made, folder, _title(resolved, job), tuple(cautions(made)))


def _title(resolved: Resolved, job: Job) -> str:
    models = " + ".join(entry["name"] for entry in resolved.data["model"].values())
    return (
        f"{resolved.data['schedule']['name']} on {resolved.data['system']['name']}: {models}, "
        f"{job.spec.requests} prompt(s) of up to {job.spec.longest_tokens} tokens, stream {job.spec.stream}"
    )


def finished(sim: Sim, store: Spill, manifest: dict[str, Any], ops: Mapping[str, Columns], *, script: bool) -> Trace:
    """Trace of a finished simulation; a long one is in the folder that its store has written by then."""
    tables = {**tables_of(sim, script=script, store=store), **ops}
    if store.writer is None:
        return Trace(tables, manifest)
    for table, columns in tables.items():
        if table != "rows":
            store.append(table, columns)
    folder = store.finish(manifest)
    if store.written:
        tables["rows"] = StoredTable(folder / "rows.parquet", "rows")
    for table in SCRIPT:
        if table in store.tables and table not in tables:
            tables[table] = StoredTable(folder / f"{table}.parquet", table)
    made = Trace(tables, manifest)
    vars(made)["digest"] = store.writer.document["digest"]
    if store.temporary:
        drop_with(made, folder)
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
        versions={name: importlib.metadata.version(name) for name in ("numpy", "numba", "networkx", "pyarrow")},
    )
    manifest["peaks"] = {
        name: {"ops_per_s": device.peak_ops_per_s(), "bytes_per_s": device.bandwidth_bytes_per_s()}
        for name, device in system.devices.items()
    }
    manifest["footprint"] = job.footprint
    manifest["placements"] = {
        role: {"layers": job.planner.device(role, OpKind.MATMUL).name, **dataclasses.asdict(place)}
        for role, place in job.placements.items()
    }
    manifest |= {"labels": sim.labels, "note_kinds": sim.kinds}
    return manifest


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
    store = scratch(recorded.manifest["config_digest"])
    sim = declare(recorded.manifest, log="tasks", store=store, script=not long)
    if progress is not None:
        progress.start("replay")
    try:
        sim.play(script)
        priced = {name: recorded.tables[name] for name in ("ops", "counts", "draws")}
        again = finished(sim, store, dict(recorded.manifest), priced, script=not long)
    finally:
        store.abort()
    again = Trace({**recorded.tables, **again.tables}, recorded.manifest)
    difference = diff(recorded, again)
    return Replay(
        {
            "identical": not difference,
            "rows": length(again.rows),
            "digest": again.digest,
            "difference": difference or None,
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
