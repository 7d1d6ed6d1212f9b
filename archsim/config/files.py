"""Files as objects: what each kind of file says, read and layered but not yet validated."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from archsim.config.finding import find, find_name, is_path
from archsim.config.layers import Layers, Section, load_layers, plain_section, subsection
from archsim.config.reading import Where
from archsim.units import InputError, quote, suggest

_GIVEN = ("kind", "name", "system", "schedule", "job", "model", "background")
_DEVICE_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


@dataclasses.dataclass(frozen=True)
class Part:
    """A part or model file, read but not yet held against its model: raw values with their sources.

    ``device`` is the kind of device (empty for a model) and ``device_at`` the place that says so.
    """

    name: str
    device: str
    section: Section
    file: Path
    device_at: Where

    @property
    def spec(self) -> Mapping[str, Any]:
        """Raw values by field: text with units, as in the file."""
        return self.section.values


@dataclasses.dataclass(frozen=True)
class SystemFile:
    """A system file: its devices as parts, with the file's own overrides laid over them."""

    name: str
    devices: Mapping[str, Part]
    file: Path


@dataclasses.dataclass(frozen=True)
class RunFile:
    """A run, read but not yet resolved; ``file`` is None when it was given as data."""

    name: str
    system: str
    schedule: Section
    job: Section
    model: Section
    background: Section
    file: Path | None
    here: Where


def load_part(name_or_path: str | Path, near: Path | None = None) -> Part:
    """Read a part file and its base; the values stay raw.

    Raises
    ------
    InputError
        When the file is missing or malformed.
    """
    layers = load_layers("part", find("part", name_or_path, near))
    section = layers.section("spec")
    return Part(layers.name, layers.get("device"), section, layers.path, layers.where("device"))


def load_model(name_or_path: str | Path, near: Path | None = None) -> Part:
    """Read a model file and its base; the values stay raw.

    Raises
    ------
    InputError
        When the file is missing or malformed.
    """
    layers = load_layers("model", find("model", name_or_path, near))
    return Part(layers.name, "", layers.section("spec"), layers.path, layers.where("spec"))


def load_system(name_or_path: str | Path, near: Path | None = None) -> SystemFile:
    """Read a system file and the parts it names.

    Raises
    ------
    InputError
        When a file is missing or malformed.
    """
    layers = load_layers("system", find("system", name_or_path, near))
    devices = layers.section("devices", "system")
    if not devices.values:
        raise devices.here.error("a system needs at least one device", "devices")
    parts = {name: _device(layers, devices, name) for name in devices.values}
    return SystemFile(layers.name, parts, layers.path)


def load_run(name_or_path: str | Path | Mapping[str, Any], near: Path | None = None) -> RunFile:
    """Read a run file, or take a run given as a mapping with the keys ``system``, ``schedule`` and ``job``.

    Raises
    ------
    InputError
        When the file is missing or malformed.
    """
    if isinstance(name_or_path, Mapping):
        return _given_run(name_or_path)
    layers = load_layers("run", find("run", name_or_path, near))
    schedule = layers.section("schedule")
    own = layers.top.data.get("schedule", {})
    if isinstance(own, dict) and "name" in own and len(layers.documents) > 1:
        base = layers.documents[0].data.get("schedule", {})
        if base.get("name") != own["name"]:  # another schedule: the base's fields are not its fields
            schedule = dataclasses.replace(layers, documents=layers.documents[1:]).section("schedule")
    job, model, background = (layers.section(key) for key in ("job", "model", "background"))
    system, here = layers.get("system"), layers.where("system")
    return RunFile(layers.name, system, schedule, job, model, background, layers.path, here)


def _device(layers: Layers, devices: Section, name: str) -> Part:
    """Part of one entry of a system's ``devices``, with the entry's overrides laid over it."""
    entry, where, path = devices.values[name], devices.place((name,)), f"devices.{name}"
    if not _DEVICE_NAME.fullmatch(name):
        raise where.error(f"{quote(name)} is not a device name: lower-case letters, digits and '_' only", "devices")
    entry = entry if isinstance(entry, dict) else {"part": entry}
    for key in entry:
        if key not in ("part", "spec"):
            message = f"unknown key {quote(key)}; {suggest(key, ('part', 'spec'))}"
            raise devices.place((name, key)).error(message, path)
    if not isinstance(entry.get("part"), str):
        raise where.error(f"expected the name of a part, not {quote(entry.get('part'))}", path)
    part = named_part(entry["part"], where, path, layers.path.parent)
    section = part.section.copy(f"system.{name}")
    if "spec" in entry:
        section.cover(subsection(subsection(devices, name, path), "spec", f"system.{name}"))
    return dataclasses.replace(part, section=section)


def named_part(name: str, where: Where, path: str, near: Path | None) -> Part:
    """Part with a name that `where` mentions (its dotted path there is `path`)."""
    return load_part(find_named("part", name, where, path, near))


def find_named(kind: str, name: Any, where: Where, path: str, near: Path | None) -> Path:
    """File of `kind` with a name that `where` mentions; only what is not in a file may be a path.

    Raises
    ------
    InputError
        When there is none, at that place.
    """
    try:
        if where.line is None and isinstance(name, str) and is_path(name):
            return find(kind, name)
        return find_name(kind, name, near)
    except InputError as error:
        raise where.error(error.message, path) from None


def _given_run(data: Mapping[str, Any]) -> RunFile:
    here = Where("run")
    for key in data:
        if key not in _GIVEN:
            raise here.error(f"unknown key {quote(key)}; {suggest(str(key), _GIVEN)}")
    for key in ("system", "schedule", "job"):
        if key not in data:
            raise here.error(f"needs {quote(key)}")
    sections = []
    for key in ("schedule", "job", "model", "background"):
        values = data.get(key, {})
        if not isinstance(values, Mapping):
            raise here.error(f"{key}: expected a mapping, not {quote(values)}")
        try:
            values = json.loads(json.dumps(dict(values)))
        except (TypeError, ValueError) as error:
            raise here.error(f"{key}: is not plain data: {error}") from None
        sections.append(plain_section(key, values, here, "given"))
    return RunFile(str(data.get("name", "run")), data["system"], *sections, None, here)
