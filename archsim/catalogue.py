"""What there is: lists, single things with their numbers and sources, checks of files, imported models."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from archsim import registry, units
from archsim.config import InputError, check_file, check_name, describe, load_config, load_part, names, resolve_schedule
from archsim.config.checking import Row
from archsim.config.layers import stated_kind
from archsim.config.reading import read
from archsim.config.setting import SET_SOURCE
from archsim.datafiles import file_line, file_names, file_rows
from archsim.system import System
from archsim.units import suggest

#: Plural of each kind that can be listed -> kind.
KINDS = {
    "systems": "system",
    "parts": "part",
    "models": "model",
    "runs": "run",
    "sweeps": "sweep",
    "schedules": "schedule",
    "devices": "device",
    "streams": "stream",
    "flash_devices": "flash_device",
    "pim_devices": "pim_device",
    "standards": "standard",
    "controllers": "controller",
}
#: Kinds whose files belong to a device that runs alone (``archsim trace``).
_FILES = ("flash_device", "pim_device", "standard", "controller")
_SHOWN = ("system", "part", "model", "run", "schedule", "device", *_FILES)
_CONFIG = ("system", "part", "model", "run", "sweep")


def catalogue(kind: str) -> list[dict[str, str]]:
    """Names of a kind (plural or singular) with one line each.

    Raises
    ------
    InputError
        For a kind that cannot be listed.
    """
    single = KINDS.get(kind, kind)
    if single not in KINDS.values():
        raise InputError(f"cannot list {units.quote(kind)}; {suggest(kind, KINDS)}")
    if single in _CONFIG:
        return [{"name": name, "what": _or_fault(_config_line, single, name)} for name in names(single)]
    if single == "stream":
        return _streams()
    if single in _FILES:
        return [{"name": name, "what": _or_fault(file_line, single, name)} for name in file_names(single)]
    return [{"name": name, "what": _first_line(registry.get(single, name))} for name in registry.names(single)]


def _streams() -> list[dict[str, str]]:
    """Shipped recordings, and the pairs and tasks that the generator knows; every name can be run."""
    from archsim.streams import recorded_names
    from archsim.streams.acceptance import ANY_TASK, table
    from archsim.streams.denoise import DEFAULT_PRESET, denoise_table
    from archsim.streams.opening import manifest

    facts = {Path(name).stem: entry for name, entry in manifest().items()}
    found = [{"name": f"recorded:{name}", "what": facts[name]["source"]} for name in recorded_names()]
    known = table()
    for (target, draft), cells in known.pairs.items():
        for task in known.tasks if target not in known.diffusion else ():
            cell = cells.get(task) or cells.get(ANY_TASK)
            if cell is not None:
                level = cell.level
                what = f"{level.value:.3g}: {level.source}"
                found.append({"name": f"synthetic:{target}+{draft}:{task}", "what": what})
    for model, presets in denoise_table().levels.items():
        for task, level in presets[DEFAULT_PRESET].items():
            found.append({"name": f"synthetic:{model}:{task}", "what": f"level {level.value:.3g}: {level.source}"})
    return found


def _first_line(item: Any) -> str:
    return (item.__doc__ or "").strip().splitlines()[0]


def _or_fault(line: Callable[[str, str], str], kind: str, name: str) -> str:
    """Line of a file, or what is wrong with it: one broken file must not hide the others."""
    try:
        return line(kind, name)
    except InputError as error:
        return f"cannot be used: {error.message}"


def _config_line(kind: str, name: str) -> str:
    resolved = load_config(kind, name)
    data = resolved.data
    if kind == "system":
        return ", ".join(f"{device}: {entry['part']}" for device, entry in data["devices"].items())
    if kind == "part":
        return data["device"]
    if kind == "model":
        spec = data["spec"]
        return f"{spec['layers']} layers of {spec['hidden']}"
    if kind == "run":
        return (
            f"{data['schedule']['name']} on {data['system']['name']}, {data['job']['target']}, {data['job']['stream']}"
        )
    return f"{len(data['axes'])} axes over {data['run']}"


def show_thing(kind: str, name: str, sets: Iterable[str] = ()) -> dict[str, Any]:
    """One thing with its values, units, sources and ranges; a model also with the sizes that follow.

    Raises
    ------
    InputError
        When there is no such thing.
    """
    single = KINDS.get(kind, kind)
    if single == "schedule":
        return _show_schedule(name, sets)
    if single == "device":
        return _show_device(name, sets)
    if single not in _SHOWN:
        raise InputError(f"cannot show {units.quote(kind)}; known: {', '.join(sorted(_SHOWN))}")
    if single in _FILES:
        if list(sets):
            raise InputError(f"--set does not apply to a {single.replace('_', ' ')}; give a file of your own instead")
        return {"kind": single, "name": name, "values": _values(file_rows(single, name))}
    resolved = load_config(single, name, sets)
    values = _values(describe(resolved))
    document: dict[str, Any] = {"kind": single, "name": resolved.name, "values": values}
    if single == "system":
        from archsim.report.machine import drawing

        parts = {name: entry["part"] for name, entry in resolved.data["devices"].items()}
        document["drawing"] = drawing(System.from_data(resolved.data), parts)
    if single == "model":
        from archsim.workload.model import ModelSpec, summary

        sizes = summary(units.from_numbers(ModelSpec, {**resolved.data["spec"], "name": resolved.name}))
        document["summary"] = sizes
        document["tables"] = {"Sizes": _flat_rows(sizes)}
    return document


def show_figure(document: dict[str, Any], file: str | Path) -> Path:
    """Draw the machine of a document of :func:`show_thing` into a file.

    Raises
    ------
    InputError
        When it is about something else, or the file cannot be written.
    """
    from archsim.config.regular import check_output
    from archsim.report.machine import machine_figure
    from archsim.report.style import check_ending, save

    if "drawing" not in document:
        raise InputError(f"--figure draws a system; a {document['kind'].replace('_', ' ')} has no drawing")
    check_ending(check_output(file))
    return save(machine_figure(document["drawing"]), file)


def _values(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Rows as ``archsim show`` prints them."""
    return [
        {"path": row.path, "value": row.value, "unit": row.unit, "range": _range(row.range), "source": row.source}
        for row in rows
    ]


def _range(bounds: tuple[float, float] | None) -> str | None:
    return None if bounds is None else f"{bounds[0]:.6g} to {bounds[1]:.6g}"


def _flat_rows(values: dict[str, Any], prefix: str = "") -> list[dict[str, Any]]:
    rows = []
    for key, value in values.items():
        if isinstance(value, dict):
            rows += _flat_rows(value, f"{prefix}{key}.")
        else:
            rows.append({"what": f"{prefix}{key}", "value": value})
    return rows


def _show_schedule(name: str, sets: Iterable[str]) -> dict[str, Any]:
    chosen = registry.get("schedule", name)
    fields = {f"schedule.{item.name}": item.metadata for item in dataclasses.fields(chosen)}
    values = [
        {
            "path": row.path,
            "value": row.value,
            "unit": row.unit,
            "range": " to ".join(str(fields[row.path][k]) for k in ("min", "max") if k in fields[row.path]) or None,
            "source": row.source if row.source == SET_SOURCE else fields[row.path].get("doc", ""),
        }
        for row in resolve_schedule(name, sets).rows
    ]
    return {"kind": "schedule", "name": name, "roles": list(chosen.roles), "values": values}


def _show_device(name: str, sets: Iterable[str]) -> dict[str, Any]:
    """Operators that a kind of device runs, its numbers, and the parts that give them."""
    if list(sets):
        raise InputError("--set does not apply to a kind of device; show one of its parts, or a system")
    chosen = registry.get("device", name)
    values = [
        {
            "path": f"spec.{key}",
            "value": "needed" if field.is_required() else str(field.get_default(call_default_factory=True)),
            "unit": None,
            "range": None,
            "source": "each part's file" if field.is_required() else "default",
        }
        for key, field in chosen.Spec.model_fields.items()
    ]
    parts = [{"part": part} for part in names("part") if load_part(part).device == name]
    operators = [{"operator": kind.name.lower()} for kind in sorted(chosen.ops)]
    tables = {"Parts": parts, "Operators": operators}
    tables = {title: rows for title, rows in tables.items() if rows}
    return {"kind": "device", "name": name, "what": _first_line(chosen), "values": values, "tables": tables}


def check_files(files: Sequence[str | Path]) -> dict[str, list[str]]:
    """Problems of each file, one line each; streams are told by their ending."""
    found = {}
    for file in files:
        path = Path(file)
        found[str(file)] = _check_stream(path) if path.suffix in (".jsonl", ".npz") else _check_config(path)
    return found


def _check_config(path: Path) -> list[str]:
    """Problems of a configuration file or a table of prices; a machine is also wired up, and a run's job is built."""
    if _is_prices(path):
        from archsim.report.pricing import check_prices

        try:
            check_prices(path)
        except InputError as error:
            return [error.message, *error.others]
        return []
    problems = check_file(path)
    if problems:
        return problems
    kind = stated_kind(read(path))
    try:
        if kind == "system":
            System.from_data(load_config(kind, path).data)
        elif kind == "run":
            from archsim.session import build_job

            build_job(load_config(kind, path))
    except InputError as error:
        return [f"{path}: {error.message}"]
    return []


def _is_prices(path: Path) -> bool:
    try:
        data = read(path).data
    except InputError:
        return False
    return isinstance(data, dict) and data.get("kind") == "prices"


def _check_stream(path: Path) -> list[str]:
    from archsim.streams import open_stream

    try:
        open_stream(str(path), 0)
    except InputError as error:
        return [error.message, *error.others]
    return []


def import_model(
    file: str | Path,
    output: str | Path | None,
    name: str | None = None,
    force: bool = False,
    quant: str | None = None,
) -> dict[str, Any]:
    """Make a model from a ``config.json`` or a GGUF file, and write it where asked.

    Parameters
    ----------
    file : path
        What to read.
    output : path, optional
        The file ``<name>.yaml`` to write, or a folder for it; nothing is written without.
    name : str, optional
        The model's name; that of `output`, or else the one that `file` states, by default.
    force : bool
        Replace an existing file.
    quant : str, optional
        Storage type to assume for every tensor.

    Raises
    ------
    InputError
        For a file that is no model archsim can express, a name or output that cannot be, or an output that exists.
    """
    from archsim.workload.importer import import_model as convert
    from archsim.workload.importer import write_model_yaml
    from archsim.workload.model import summary

    if name is not None:
        check_name("model", name)
    elif output is not None and not Path(output).is_dir():
        name = Path(output).stem
    made = convert(file, quant)
    spec = made.spec.model_copy(update={"name": made.spec.name if name is None else name})
    written = None if output is None else write_model_yaml(spec, output, made.source, overwrite=force)
    return {
        "name": spec.name,
        "source": made.source,
        "summary": {row["what"]: row["value"] for row in _flat_rows(summary(spec))},
        "file": str(written) if written else None,
    }
