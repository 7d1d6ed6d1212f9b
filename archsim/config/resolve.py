"""Parts, models and systems to resolved data.

What stands above this package in the import order (the registry, the model's own model) is reached by name, when it is
needed.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from archsim.config.checking import Checked, Row, Source, check_model
from archsim.config.files import Part, SystemFile, find_named, load_model, load_part, load_system, named_part
from archsim.config.finding import find, is_path, names
from archsim.config.layers import Section, plain_section
from archsim.config.reading import Where
from archsim.config.setting import Override, Setting, apply, parse_sets
from archsim.sharing import shared
from archsim.units import InputError, from_numbers, quote, suggest

_MODELS = "archsim.workload.model"


@dataclasses.dataclass(frozen=True)
class Resolved:
    """A configuration ready for use.

    Attributes
    ----------
    kind, name : str
        What it is.
    data : Mapping
        Plain validated data; dimensional values are numbers in the unit that their field's name ends in.
    sources : Mapping of str to Source
        Source of every number, by the dotted path that ``--set`` uses.
    digest : str
        SHA-256 of the data (:func:`digest`).
    file : Path or None
        File it was read from.
    rows : tuple of Row
        Every value with unit, source and range, in the order of the file's model.
    """

    kind: str
    name: str
    data: Mapping[str, Any]
    sources: Mapping[str, Source]
    digest: str
    file: Path | None
    rows: tuple[Row, ...]


def digest(data: Mapping[str, Any]) -> str:
    """SHA-256 (hex) of plain data, whatever the order of its keys."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def registered(kind: str, name: str, where: Where, path: str = "") -> Any:
    """Class registered under a name that `where` mentions; an unknown one is an error at that place."""
    try:
        return import_module("archsim.registry").get(kind, name)
    except InputError as error:
        raise where.error(error.message, path) from None


def resolve_part(name_or_path: str | Path, sets: Sequence[str | Override]) -> Resolved:
    """Resolve a part; overrides are ``spec.<field>``."""
    part = load_part(name_or_path)
    section = part.section.copy()
    apply(section, fields_only(parse_sets(sets, ("spec",)), 2), 1)
    checked = checked_part(part, section)
    data = {"kind": "part", "name": part.name, "device": part.device, "spec": checked.data}
    return Resolved("part", part.name, data, checked.sources, digest(data), part.file, checked.rows)


def resolve_model(name_or_path: str | Path, sets: Sequence[str | Override]) -> Resolved:
    """Resolve a model; overrides are ``spec.<field>``."""
    settings = fields_only(parse_sets(sets, ("spec",)), 2)
    file = find("model", name_or_path) if not is_derived(name_or_path) else None
    name = file.stem if file is not None else str(name_or_path)
    section = model_section(name, file, Where(f"model {name}"), None, "spec")
    apply(section, settings, 1)
    checked = checked_model(section)
    data = {"kind": "model", "name": name, "spec": checked.data}
    return Resolved("model", name, data, checked.sources, digest(data), file, checked.rows)


def resolve_system(name_or_path: str | Path, sets: Sequence[str | Override]) -> Resolved:
    """Resolve a system; overrides are ``system.<device>`` and ``system.<device>.<field>``."""
    system = load_system(name_or_path)
    checked = checked_system(system, parse_sets(sets, ("system",)))
    data = {"kind": "system", **checked.data}
    return Resolved("system", system.name, data, checked.sources, digest(data), system.file, checked.rows)


def fields_only(settings: list[Setting], length: int) -> list[Setting]:
    """Refuse overrides whose path is too short to name a field."""
    for setting in settings:
        if len(setting.path) < length:
            raise setting.where.error(f"names no field; write {setting.dotted}.FIELD=VALUE")
    return settings


def checked_part(part: Part, section: Section) -> Checked:
    """Validate a part's section against its device's ``Spec``."""
    spec = registered("device", part.device, part.device_at, "device").Spec
    return check_model(spec, section, sourced=True)


def is_derived(name: str | Path) -> bool:
    """Whether a model is derived by rule from another (``eagle3-<target>``) rather than read from a file."""
    prefix = import_module(_MODELS).EAGLE3_PREFIX
    return isinstance(name, str) and name.startswith(prefix) and not is_path(name) and name not in names("model")


def model_section(name: str, file: Path | None, where: Where, near: Path | None, path: str) -> Section:
    """Section of a model: that of its file, or of the EAGLE3 head derived from its target when there is none.

    Parameters
    ----------
    name : str
        The model's name.
    file : Path or None
        Its file; None to derive it.
    where : Where
        What mentions it.
    near : Path or None
        Folder of the file that mentions it.
    path : str
        Dotted path of the section.
    """
    if file is not None:
        section = load_model(file).section.copy(path)
    else:
        models = import_module(_MODELS)
        target = name.removeprefix(models.EAGLE3_PREFIX)
        target_file = _derived_from(name, target, where, path, near)
        spec = checked_model(model_section(target, target_file, where, near, path)).data
        try:
            derived = models.derive_eagle3(from_numbers(models.ModelSpec, spec))
        except ValueError as error:
            raise where.error(str(error), path) from None
        section = plain_section(path, derived.model_dump(mode="json"), Where(name), f"derived from {target} by rule")
    if "name" not in section.values:
        section.put(("name",), name, section.here, "the name of the file")
    return section


def _derived_from(name: str, target: str, where: Where, path: str, near: Path | None) -> Path:
    """File of the model that `name` is the EAGLE3 head of."""
    if is_derived(target):
        raise where.error(
            f"no model {quote(name)}: {quote(target)} is an EAGLE3 head itself and has none of its own; "
            "name another draft",
            path,
        )
    try:
        return find_named("model", target, where, path, near)
    except InputError:
        message = f"no model {quote(name)}, and no model {quote(target)} to derive it from"
        raise where.error(f"{message}; {suggest(target, names('model', near))}", path) from None


def checked_model(section: Section) -> Checked:
    """Validate a model's section."""
    spec: type[BaseModel] = import_module(_MODELS).ModelSpec
    return check_model(spec, section, sourced=False, default_source="stated in the model's file")


def checked_system(system: SystemFile, settings: list[Setting]) -> Checked:
    """Validated system under overrides whose paths begin with ``system``."""
    parts = dict(system.devices)
    for setting in settings:
        if len(setting.path) < 2:
            raise setting.where.error("names no device; write system.DEVICE=PART or system.DEVICE.FIELD=VALUE")
        name = setting.path[1]
        if name not in parts:
            raise setting.where.error(
                f"system {quote(system.name)} has no device {quote(name)}; {suggest(name, parts)}"
            )
        if len(setting.path) == 2:
            parts[name] = _swapped(name, setting, system.file.parent)
    data: dict[str, Any] = {}
    sources: dict[str, Source] = {}
    rows: list[Row] = []
    for name, part in parts.items():
        checked = _checked_device(part, [s for s in settings if s.path[1] == name and len(s.path) > 2])
        data[name] = {"part": part.name, "device": part.device, "spec": checked.data}
        sources.update(checked.sources)
        rows += [Row(f"system.{name}", part.name, "", "", None), *checked.rows]
    return Checked({"name": system.name, "devices": data}, sources, tuple(rows))


def _swapped(name: str, setting: Setting, near: Path) -> Part:
    """Part that takes the place of a device."""

    def load() -> Part:
        part = named_part(setting.text(), setting.where, "", near)
        return dataclasses.replace(part, section=part.section.copy(f"system.{name}"))

    return shared("swapped part", (name, repr(setting), near), load)


def _checked_device(part: Part, settings: list[Setting]) -> Checked:
    """Validated part of a system under overrides of its fields."""

    def check() -> tuple[Part, Checked]:
        section = part.section.copy()
        apply(section, settings, 2)
        return part, checked_part(part, section)

    # The part is kept with what was made of it, so that no other one gets its id.
    return shared("device", (id(part), repr(settings)), check, lambda kept: len(kept[1].rows))[1].copy()
