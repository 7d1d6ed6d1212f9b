"""Runs and sweeps to resolved data, and the two doors for files of any kind: load one, check one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from archsim.config.arrivals import read_arrivals
from archsim.config.background import checked_background
from archsim.config.checking import Checked, Row, check_model, check_schedule
from archsim.config.files import RunFile, find_named, load_run, load_system
from archsim.config.finding import find, is_path, known_kind
from archsim.config.job import ROLES, JobSpec
from archsim.config.layers import KEYS, Section, load_layers, plain_section, stated_kind, subsection
from archsim.config.reading import Where, read, shown
from archsim.config.resolve import (
    Resolved,
    checked_model,
    checked_system,
    digest,
    fields_only,
    is_derived,
    model_section,
    registered,
    resolve_model,
    resolve_part,
    resolve_system,
)
from archsim.config.setting import Override, Setting, apply, parse_sets
from archsim.config.sweeps import SweepSpec
from archsim.sharing import shared, sharing
from archsim.units import InputError, quote, suggest

_ROOTS = ("system", "schedule", "job", "model", "background")


def load_config(
    kind: str, name_or_path: str | Path | Mapping[str, Any], sets: Iterable[str | Override] = ()
) -> Resolved:
    """Load, override and validate a configuration.

    Parameters
    ----------
    kind : str
        ``part``, ``system``, ``model``, ``run`` or ``sweep``.
    name_or_path : str, Path or Mapping
        Name of a file on the search path, path of a file, or (runs only) the run itself as plain data.
    sets : iterable of str or Override
        Overrides ``"dotted.path=value"``: ``spec.<field>`` for a part or model, ``system.<device>[.<field>]`` for a
        system, and for a run also ``system``, ``schedule[.<field>]``, ``job.<field>``, ``model.<role>.<field>`` and
        ``background.<stream>[.<field>]``.

    Raises
    ------
    InputError
        For anything wrong in the files or overrides: one line with file, line and dotted path.
    """
    return _LOADERS[known_kind(kind)](name_or_path, tuple(sets))


def resolve_schedule(name: str, sets: Iterable[str | Override] = ()) -> Checked:
    """Knobs of a schedule under overrides ``schedule.<field>=value``.

    Raises
    ------
    InputError
        For an unknown schedule or field, or a value it cannot have.
    """
    settings = fields_only(parse_sets(sets, ("schedule",)), 2)
    for setting in settings:
        if setting.path[1:] == ("name",):
            raise setting.where.error(f"cannot rename the schedule {quote(name)} that is shown")
    section = plain_section("schedule", {"name": name}, Where(f"schedule {name}"), "")
    return _checked_schedule(section, settings)[1]


def describe(resolved: Resolved) -> list[Row]:
    """Rows (path, value, unit, source, range) of a resolved configuration, as ``archsim show`` prints them."""
    return list(resolved.rows)


def check_file(path: str | Path) -> list[str]:
    """Problems of a file of any kind, one line each; none when it is right."""
    try:
        file = find("part", Path(path))
        kind = stated_kind(read(file))
        resolved = load_config(kind, file)
        if kind == "sweep":
            return _axis_problems(resolved)
    except InputError as error:
        return [error.message, *error.others]
    return []


def _resolve_run(name_or_path: Any, sets: Sequence[str | Override]) -> Resolved:
    run = load_run(name_or_path)
    near = run.file.parent if run.file is not None else None
    settings = parse_sets(sets, _ROOTS)
    by_root = {root: [setting for setting in settings if setting.path[0] == root] for root in _ROOTS}
    machine = _machine(run, near, by_root["system"])
    schedule_class, schedule = _checked_schedule(run.schedule.copy(), by_root["schedule"])
    section = run.job.copy()
    apply(section, fields_only(by_root["job"], 2), 1)
    listed = section.values.get("arrivals")
    if isinstance(listed, str) and listed.endswith(".csv"):
        where = section.place(("arrivals",))
        section.put(("arrivals",), read_arrivals(listed, near, where), where, f"file {listed}")
    job = check_model(JobSpec, section, sourced=False, default_source=f"chosen by the run {run.name}")
    job = _with_roles(job, schedule_class, schedule.data["name"], section)
    models = _checked_models(run.model, job, near, by_root["model"], section)
    background = checked_background(run, near, by_root["background"], machine.data["devices"])
    pieces = [machine, schedule, job, *models.values(), *background.values()]
    data = {
        "kind": "run",
        "name": run.name,
        "system": machine.data,
        "schedule": schedule.data,
        "job": job.data,
        "model": {role: {"name": job.data[role], "spec": model.data} for role, model in models.items()},
    }
    if background:
        data["background"] = {name: stream.data for name, stream in background.items()}
    sources = {path: source for piece in pieces for path, source in piece.sources.items()}
    rows = tuple(row for piece in pieces for row in piece.rows)
    return Resolved("run", run.name, data, sources, digest(data), run.file, rows)


def _machine(run: RunFile, near: Path | None, settings: list[Setting]) -> Checked:
    """Validated system of a run; ``system=NAME`` swaps it as a whole."""
    name, where = run.system, run.here
    if settings and len(settings[0].path) == 1:
        name, where = settings[0].text(), settings[0].where
    system = shared(
        "system", (name, where, near), lambda: load_system(find_named("system", name, where, "system", near))
    )
    return checked_system(system, [setting for setting in settings if len(setting.path) > 1])


def _checked_schedule(section: Section, settings: list[Setting]) -> tuple[type, Checked]:
    """Schedule class and its validated fields; ``schedule=NAME`` drops the fields of the one it replaces."""
    for setting in settings:
        if len(setting.path) == 1 or setting.path[1:] == ("name",):
            name = setting.text()
            if section.values.get("name") != name:
                section = plain_section("schedule", {"name": name}, setting.where, "")
        elif len(setting.path) == 2:
            apply(section, [setting], 1)
        else:
            raise setting.where.error("a schedule's fields have no fields of their own")
    name = section.values.pop("name", None)
    where = section.place(("name",))
    if not isinstance(name, str):
        raise where.error(f"expected the name of a schedule, not {quote(name)}", "schedule.name")
    schedule_class = registered("schedule", name, where, "schedule.name")
    return schedule_class, check_schedule(schedule_class, name, section)


def _with_roles(job: Checked, schedule_class: type, schedule: str, section: Section) -> Checked:
    """Job with the models that its schedule needs; a missing draft is the EAGLE3 head derived from the target.

    Raises
    ------
    InputError
        When the schedule needs another role that the job does not fill, or has no predictor and is given one.
    """
    data, sources, rows = dict(job.data), dict(job.sources), list(job.rows)
    roles = getattr(schedule_class, "roles", ("target",))
    if data.get("predictor") is not None and "predictor" not in roles:
        where = section.place(("predictor",))
        raise where.error(f"schedule {quote(schedule)} has no role 'predictor'; leave it out", "job.predictor")
    for role in roles:
        if data.get(role) is not None:
            continue
        if role != "draft":
            raise section.here.error(f"schedule {quote(schedule)} needs a model in the role {quote(role)}", "job")
        data[role] = f"eagle3-{data['target']}"
        row = Row("job.draft", data[role], "", f"default of schedule {schedule}", None)
        rows = [row if old.path == row.path else old for old in rows]
    return Checked(data, sources, tuple(rows))


def _checked_models(
    overrides: Section, job: Checked, near: Path | None, settings: list[Setting], section: Section
) -> dict[str, Checked]:
    """Validated models of all filled roles, under the run file's and the command line's overrides."""
    filled = [role for role in ROLES if job.data[role] is not None]
    stated = {role: subsection(overrides, role, f"model.{role}") for role in overrides.values}
    for role, where in [
        *((role, inner.here) for role, inner in stated.items()),
        *((setting.path[1], setting.where) for setting in fields_only(settings, 3)),
    ]:
        if role not in filled:
            raise where.error(f"the job has no model in the role {quote(role)}; {suggest(role, filled)}", "model")
    models = {}
    for role in filled:
        own = [setting for setting in settings if setting.path[1] == role]
        kv = (job.data["kv_dtype"], section.place(("kv_dtype",))) if role == "target" else (None, section.here)
        given = (role, job.data[role], section.place((role,)), near)
        job.data[role], checked = shared(
            "model",
            (*given, *kv, repr(stated.get(role)), repr(own)),
            lambda: _checked_model(*given, kv, stated.get(role), own),  # noqa: B023 (called at once)
            lambda kept: len(kept[1].rows),
        )
        models[role] = checked.copy()
    return models


def _checked_model(
    role: str,
    name: str,
    where: Where,
    near: Path | None,
    kv: tuple[Any, Where],
    stated: Section | None,
    own: list[Setting],
) -> tuple[str, Checked]:
    """Name and validated model of one role; `kv` is the type of its cache that the job asks for (or None)."""
    file = None if is_derived(name) else find_named("model", name, where, f"job.{role}", near)
    name = name if file is None else file.stem
    model = model_section(name, file, where, near, f"model.{role}")
    if kv[0] is not None:
        model.put(("kv_dtype",), *kv, "job.kv_dtype")
    if stated is not None:
        model.cover(stated)
    apply(model, own, 2)
    return name, checked_model(model)


def _resolve_sweep(name_or_path: Any, sets: Sequence[str | Override]) -> Resolved:
    if sets:
        raise InputError(f"--set {quote(sets[0])} cannot change a sweep; put the value under its 'set:'")
    layers = load_layers("sweep", find("sweep", name_or_path))
    section = Section("", layers.top.where())
    for key in KEYS["sweep"]:
        value = layers.get(key)
        if isinstance(value, dict):
            inner = layers.section(key)
            value = inner.values
            section.where.update({(key, *below): where for below, where in inner.where.items()})
        if value is not None:
            section.values[key] = value
            section.where[(key,)] = layers.where(key)
    checked = check_model(SweepSpec, section, sourced=False)
    data = {"kind": "sweep", "name": layers.name, **checked.data}
    return Resolved("sweep", layers.name, data, {}, digest(data), layers.path, checked.rows)


def sweep_run(sweep: Resolved) -> Path:
    """Run file below a sweep: by name, or by its path from the sweep's folder or, failing that, from here.

    Raises
    ------
    InputError
        When there is none.
    """
    name, near = sweep.data["run"], sweep.file.parent if sweep.file else None
    if not is_path(name):
        return find_named("run", name, _place_of(sweep), "run", near)
    beside = near / name if near is not None else None
    return find("run", beside if beside is not None and beside.is_file() else Path(name))


def _place_of(sweep: Resolved) -> Where:
    return Where(shown(sweep.file) if sweep.file else sweep.name, 1)


def _axis_problems(sweep: Resolved) -> list[str]:
    """Problems of a sweep's axes: every value is tried on the run, alone with what the sweep sets."""
    try:
        run = sweep_run(sweep)
    except InputError as error:
        return [error.message]
    fixed = [Override(path, value, f"set.{path}") for path, value in sweep.data["set"].items()]
    values = [
        (path, value)
        for path, axis in sweep.data["axes"].items()
        for value in (axis if isinstance(axis, list) else [axis["low"], axis["high"]])
    ]
    problems: dict[str, None] = {}
    with sharing():
        for path, value in values:
            try:
                load_config("run", run, [*fixed, Override(path, value, f"axes.{path}")])
            except InputError as error:
                problems[placed(error, sweep.file, sweep.data, path).message] = None
    return list(problems)


def placed(error: InputError, file: Path | None, data: Mapping[str, Any], axis: str = "") -> InputError:
    """An error of a sweep's point, with file and line of the axis or fixed value that it is about.

    One that names neither is about `axis`, where one is given.
    """
    known = [(section, path) for section in ("axes", "set") for path in data.get(section, {})]
    about = next((at for at in known if error.message.startswith(f"{'.'.join(at)}: ")), None)
    if file is None or (about is None and not axis):
        return error
    where = read(file).where(*(about or ("axes", axis)))
    return InputError(where.error(error.message, "" if about else f"axes.{axis}").message, error.others)


_LOADERS: dict[str, Callable[[Any, Sequence[str | Override]], Resolved]] = {
    "part": resolve_part,
    "system": resolve_system,
    "model": resolve_model,
    "run": _resolve_run,
    "sweep": _resolve_sweep,
}
