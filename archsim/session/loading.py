"""Load a run from a file, a mapping or names, and build its machine, schedule and job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from archsim import registry, units
from archsim.config import InputError, JobSpec, Override, Resolved, load_config
from archsim.jit import warm_up
from archsim.session.background import with_streams
from archsim.streams import DecisionStream, open_stream
from archsim.system import System
from archsim.workload.job import Job
from archsim.workload.model import ModelSpec

#: Values of a run that ``archsim run`` has an option of their own for.
OPTIONS = ("system", "schedule", "target", "draft", "stream", "prompts", "tokens", "seed", "thermal")


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
    warm_up()
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
