"""Schemas of sections: pydantic models and schedules' dataclasses, fields described, values wrapped with a source."""

from __future__ import annotations

import dataclasses
import inspect
import re
import typing
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, TypeAdapter

from archsim.config.checking import _quantity as quantity_of
from archsim.config.layers import KEYS
from archsim.device import DType
from archsim.units import Quantity

Schema = dict[str, Any]
TEXT: Schema = {"type": "string", "minLength": 1}
_NAME = "^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$"
#: Storage types as files write them.
_TYPES = tuple(kind.name for kind in DType)
#: A number and a unit.
_WRITTEN = r"^\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?\s*[A-Za-zµμ][A-Za-z0-9µμ /*]*$"
_ENTRY = re.compile(r"^([a-z_][\w, ]*?)\s*:", re.M)
_BOUND: Schema = {"anyOf": [{"type": "number"}, {"type": "string"}]}


def section(model: type[BaseModel]) -> tuple[Schema, dict[str, Schema], list[str]]:
    """Schema of a section held against a model, the definitions it refers to, and its required fields.

    Every value may be bare, or ``{value: ..., source: ..., range: [low, high], note: ...}``. Required fields stand
    apart, as a base may give them.
    """
    made = model.model_json_schema(mode="validation", ref_template="#/$defs/{model}")
    definitions = made.pop("$defs", {})
    models = {kind.__name__: kind for kind in _models_of(model)}
    required = made.pop("required", [])
    for name, definition in (*definitions.items(), (model.__name__, made)):
        _describe(definition, models.get(name))
        if name == DType.__name__ and "enum" in definition:
            definitions[name] = {"title": name, "description": definition.get("description", ""), "enum": list(_TYPES)}
        for key, field in definition.get("properties", {}).items():
            item = models[name].model_fields[key]
            wanted = quantity_of((item.annotation, *item.metadata))
            definition["properties"][key] = wrapped(field if wanted is None else _written(field, wanted))
    return made, definitions, required


def _models_of(model: type[BaseModel]) -> list[type[BaseModel]]:
    found = [model]
    for kind in found:
        for item in kind.model_fields.values():
            found += [inner for inner in _inside(item.annotation) if inner not in found]
    return found


def _inside(hint: Any) -> list[type[BaseModel]]:
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        return [hint]
    return [inner for part in typing.get_args(hint) for inner in _inside(part)]


def _describe(made: Schema, model: type | None) -> None:
    """Title and description from the docstring, and those of fields from its ``Attributes``."""
    if model is None:
        return
    text = inspect.cleandoc(model.__doc__ or "")
    made["title"], made["description"] = model.__name__, text.partition("\n\n")[0].replace("\n", " ")
    for name, words in attributes(model).items():
        if name in made.get("properties", {}):
            _say(made["properties"][name], words)


def _say(field: Schema, words: str) -> None:
    """Put a description before what the field's type says of itself."""
    own = field.get("description", "")
    field["description"] = f"{words} ({own})" if own else words


def attributes(model: type) -> dict[str, str]:
    """Descriptions by field, from the ``Attributes`` of the NumPy docstrings of a class and its bases."""
    found: dict[str, str] = {}
    for kind in model.__mro__:
        text = inspect.cleandoc(kind.__dict__.get("__doc__") or "")
        if "Attributes\n---" in text:
            body = text.split("Attributes\n", 1)[1].partition("\n")[2]
            found = {**_entries(body.splitlines()), **found}
    return found


def _entries(lines: list[str]) -> dict[str, str]:
    """Descriptions by name: a head of names (which may go over several lines) and a type, then indented lines."""
    found: dict[str, str] = {}
    head, names = "", []
    for line in lines:
        if not line.strip():
            continue
        if line.startswith(" "):
            found |= {name: f"{found.get(name, '')} {line.strip()}".strip() for name in names}
            continue
        head = f"{head} {line.strip()}".strip()
        match = _ENTRY.match(head)
        names = [name.strip() for name in match[1].split(",")] if match else []
        head = "" if match else head
    return found


def as_written(wanted: Quantity) -> Schema:
    """Schema of a quantity as it stands in a file: text with a unit."""
    about = f"{wanted.noun} such as {wanted.example!r}, kept in {wanted.unit}"
    return {"type": "string", "pattern": _WRITTEN, "description": about, "examples": [wanted.example]}


def _written(field: Any, wanted: Quantity) -> Any:
    """Schema of a field with its numbers as quantities."""
    if isinstance(field, list):
        return [_written(item, wanted) for item in field]
    if not isinstance(field, dict):
        return field
    if field.get("type") in ("integer", "number"):
        kept = {key: field[key] for key in ("title", "default") if key in field}
        made = as_written(wanted)
        words = field.get("description")
        return {**kept, **made, "description": f"{words} ({made['description']})" if words else made["description"]}
    return {key: _written(value, wanted) if key != "default" else value for key, value in field.items()}


def wrapped(field: Schema) -> Schema:
    """Schema of a value that is bare, or wrapped with its source."""
    about = {key: field[key] for key in ("title", "description", "default") if key in field}
    bare = {key: value for key, value in field.items() if key not in about}
    value = {"value": bare, "source": TEXT, "range": {"type": "array", "items": _BOUND, "minItems": 2, "maxItems": 2}}
    stated = {
        "type": "object",
        "properties": {**value, "note": {"type": "string"}},
        "required": ["value"],
        "additionalProperties": False,
    }
    return {**about, "anyOf": [bare, stated]}


def schedule_section(schedule: Any) -> Schema:
    """Schema of a schedule's knobs."""
    hints = typing.get_type_hints(schedule, include_extras=True)
    fields = {}
    for item in dataclasses.fields(schedule):
        if not item.init or item.name.startswith("_"):
            continue
        field = TypeAdapter(hints[item.name]).json_schema(mode="validation")
        bounds = {"min": "minimum", "max": "maximum"}
        _bound(field, {bounds[k]: item.metadata[k] for k in bounds if k in item.metadata})
        _say(field, item.metadata.get("doc", ""))
        fields[item.name] = wrapped(field)
    return {"properties": fields}


def _bound(field: Schema, limits: Mapping[str, float]) -> None:
    """Put limits on the numbers of a field, inside lists and alternatives too."""
    if field.get("type") in ("integer", "number"):
        field.update(limits)
    for inner in (field.get("items"), *field.get("anyOf", ()), *field.get("prefixItems", ())):
        if isinstance(inner, dict):
            _bound(inner, limits)


def envelope(kind: str, sections: Mapping[str, Schema], about: str) -> Schema:
    """Schema of a file: what every file has, and its sections; required ones may come from a base."""
    required = [key for key, (_, needed) in KEYS[kind].items() if needed]
    return {
        "title": f"archsim {kind}",
        "description": about,
        "type": "object",
        "properties": {
            "kind": {"const": kind},
            "name": {
                "type": "string",
                "pattern": _NAME,
                "description": "the file's name",
            },
            "base": {"type": "string", "pattern": r"\.ya?ml$", "description": "file of the same kind to start from"},
            "source": {**TEXT, "description": "source of every value that states none"},
            "note": TEXT,
            **sections,
        },
        "required": ["kind", "name"],
        "additionalProperties": False,
        "if": {"not": {"required": ["base"]}},
        "then": {"required": required},
    }


def complete(made: Schema, name: str, required: list[str]) -> Schema:
    """File schema that also requires fields of a section where there is no base."""
    then = made["then"]
    return {**made, "then": {**then, "properties": {name: {"required": required}}}}


def model_schema() -> Schema:
    """Schema of model files."""
    from archsim.workload.model import ModelSpec

    spec, definitions, required = section(ModelSpec)
    spec["properties"].pop("name", None)
    made = envelope("model", {"spec": spec}, "Shape and storage types of a language model.")
    return {**complete(made, "spec", [name for name in required if name != "name"]), "$defs": definitions}
