"""What there is: lists, single things with their numbers and sources, checks of files, imported models."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from archsim import registry, units
from archsim.config import InputError, check_file, describe, load_config, names
from archsim.config.layers import stated_kind
from archsim.config.reading import read
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
}
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
        return [{"name": name, "what": _config_line(single, name)} for name in names(single)]
    if single == "stream":
        return _streams()
    return [{"name": name, "what": _first_line(registry.get(single, name))} for name in registry.names(single)]


def _streams() -> list[dict[str, str]]:
    """Shipped recordings, and the pairs and tasks that the generator knows."""
    from archsim.streams import recorded_names
    from archsim.streams.acceptance import table
    from archsim.streams.opening import manifest

    facts = {Path(name).stem: entry for name, entry in manifest().items()}
    found = [{"name": f"recorded:{name}", "what": facts[name]["source"]} for name in recorded_names()]
    for (target, draft), cells in table().pairs.items():
        for task, cell in cells.items():
            found.append({"name": f"synthetic:{target}+{draft}:{task}", "what": f"{cell.value:.3g}: {cell.source}"})
    return found


def _first_line(item: Any) -> str:
    return (item.__doc__ or "").strip().splitlines()[0]


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
        return _show_schedule(name)
    if single not in ("system", "part", "model", "run"):
        raise InputError(
            f"cannot show {units.quote(kind)}; {suggest(kind, ('system', 'part', 'model', 'run', 'schedule'))}"
        )
    resolved = load_config(single, name, sets)
    values = [
        {"path": row.path, "value": row.value, "unit": row.unit, "range": _range(row.range), "source": row.source}
        for row in describe(resolved)
    ]
    document: dict[str, Any] = {"kind": single, "name": resolved.name, "values": values}
    if single == "model":
        from archsim.workload.model import ModelSpec, summary

        sizes = summary(units.from_numbers(ModelSpec, {**resolved.data["spec"], "name": resolved.name}))
        document["summary"] = sizes
        document["tables"] = {"Sizes": _flat_rows(sizes)}
    return document


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


def _show_schedule(name: str) -> dict[str, Any]:
    chosen = registry.get("schedule", name)
    values = [
        {
            "path": f"schedule.{item.name}",
            "value": item.default,
            "unit": "",
            "range": " to ".join(str(item.metadata[k]) for k in ("min", "max") if k in item.metadata) or None,
            "source": item.metadata.get("doc", ""),
        }
        for item in dataclasses.fields(chosen)
    ]
    return {"kind": "schedule", "name": name, "roles": list(chosen.roles), "values": values}


def check_files(files: Sequence[str | Path]) -> dict[str, list[str]]:
    """Problems of each file, one line each; streams are told by their ending."""
    found = {}
    for file in files:
        path = Path(file)
        found[str(file)] = _check_stream(path) if path.suffix in (".jsonl", ".npz") else _check_config(path)
    return found


def _check_config(path: Path) -> list[str]:
    """Problems of a configuration file; a machine is also wired up, so that missing pools and units show."""
    problems = check_file(path)
    if problems:
        return problems
    kind = stated_kind(read(path))
    if kind not in ("system", "run"):
        return []
    data = load_config(kind, path).data
    try:
        System.from_data(data if kind == "system" else data["system"])
    except InputError as error:
        return [f"{path}: {error.message}"]
    return []


def _check_stream(path: Path) -> list[str]:
    from archsim.streams import open_stream

    try:
        open_stream(str(path), 0)
    except InputError as error:
        return [error.message, *error.others]
    return []


def import_model(file: str | Path, output: str | Path | None, name: str | None, force: bool) -> dict[str, Any]:
    """Make a model from a ``config.json`` or a GGUF file, and write it where asked.

    Raises
    ------
    InputError
        For a file that is no model archsim can express, or an output that exists.
    """
    from archsim.workload.importer import import_model as convert
    from archsim.workload.importer import write_model_yaml
    from archsim.workload.model import summary

    made = convert(file)
    spec = made.spec.model_copy(update={"name": name or (Path(output).stem if output else made.spec.name)})
    written = write_model_yaml(spec, output, made.source, overwrite=force) if output else None
    return {
        "name": spec.name,
        "source": made.source,
        "summary": {row["what"]: row["value"] for row in _flat_rows(summary(spec))},
        "file": str(written) if written else None,
    }
