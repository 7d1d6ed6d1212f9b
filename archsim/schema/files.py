"""Schemas of whole files: parts, machines, runs, sweeps and prices."""

from __future__ import annotations

from typing import Any

from archsim import registry
from archsim.config import JobSpec, SweepSpec, load_part, names
from archsim.config.job import ROLES
from archsim.devices.background import KINDS
from archsim.report.pricing import UNITS
from archsim.schema.models import TEXT, Schema, as_written, complete, envelope, schedule_section, section, wrapped
from archsim.units import quantity

_PART = "The numbers of one device, each with its source."


def part_schema(device: Any = None) -> Schema:
    """Schema of part files: of one kind of device, or of all."""
    if device is not None:
        spec, definitions, required = section(device.Spec)
        sections = {"device": {"const": device.kind}, "spec": spec}
        return {**complete(envelope("part", sections, _PART), "spec", required), "$defs": definitions}
    definitions, branches = {}, []
    for name in registry.names("device"):
        spec, inner, required = _prefixed(name)
        definitions |= inner
        branches.append(
            {
                "if": {"properties": {"device": {"const": name}}, "required": ["device"]},
                "then": {"properties": {"spec": {"$ref": f"#/$defs/{name}"}}},
            }
        )
    sections = {"device": {"enum": registry.names("device")}, "spec": {"type": "object"}}
    return {**envelope("part", sections, _PART), "allOf": branches, "$defs": definitions}


def _prefixed(name: str) -> tuple[Schema, dict[str, Schema], list[str]]:
    """Section of a device whose definitions, the section's own included, bear the device's name."""
    spec, definitions, required = section(registry.get("device", name).Spec)
    renames = {f"#/$defs/{old}": f"#/$defs/{name}.{old}" for old in definitions}
    found = {f"{name}.{old}": _renamed(inner, renames) for old, inner in definitions.items()}
    found[name] = _renamed(spec, renames)
    return found[name], found, required


def _renamed(made: Any, renames: dict[str, str]) -> Any:
    if isinstance(made, dict):
        return {key: renames.get(v, v) if key == "$ref" else _renamed(v, renames) for key, v in made.items()}
    return [_renamed(item, renames) for item in made] if isinstance(made, list) else made


def system_schema() -> Schema:
    """Schema of machines; what a part's values may be is known for the parts that are found now."""
    kinds = {part: load_part(part).device for part in names("part")}
    definitions: dict[str, Schema] = {}
    branches = []
    for device in sorted(set(kinds.values())):
        _, inner, _ = _prefixed(device)
        definitions |= inner
        parts = [part for part, kind in kinds.items() if kind == device]
        branches.append(
            {
                "if": {"properties": {"part": {"enum": parts}}, "required": ["part"]},
                "then": {"properties": {"spec": {"$ref": f"#/$defs/{device}"}}},
            }
        )
    part = {"type": "string", "anyOf": [{"enum": sorted(kinds)}, {"minLength": 1}], "description": "name of a part"}
    own = {
        "type": "object",
        "properties": {"part": part, "spec": {"type": "object", "description": "values over the part's own"}},
        "required": ["part"],
        "additionalProperties": False,
        "allOf": branches,
    }
    devices = {
        "type": "object",
        "propertyNames": {"pattern": "^[a-z][a-z0-9_]{0,39}$"},
        "additionalProperties": {"anyOf": [part, own]},
        "description": "devices by name: a part, or a part with values of its own",
    }
    return {**envelope("system", {"devices": devices}, "A machine: its devices as parts."), "$defs": definitions}


def run_schema() -> Schema:
    """Schema of runs."""
    from archsim.workload.model import ModelSpec

    job, definitions, _ = section(JobSpec)
    model, more, _ = section(ModelSpec)
    model["properties"].pop("name", None)
    known = registry.names("schedule")
    branches = []
    for name in known:
        knobs = schedule_section(registry.get("schedule", name))["properties"]
        branches.append(
            {
                "if": {"properties": {"name": {"const": name}}, "required": ["name"]},
                "then": {"properties": {"name": True, **knobs}, "additionalProperties": False},
            }
        )
    schedule = {
        "type": "object",
        "properties": {"name": {"type": "string", "anyOf": [{"enum": known}, {"minLength": 1}]}},
        "allOf": branches,
        "description": "decoding schedule by name, with its knobs",
    }
    sections = {
        "system": {"type": "string", "examples": names("system"), "description": "name of a machine"},
        "schedule": schedule,
        "job": job,
        "model": {
            "type": "object",
            "properties": {role: {"$ref": "#/$defs/ModelValues"} for role in ROLES},
            "additionalProperties": False,
            "description": "values over those of a model, by role",
        },
    }
    sections["background"], streams = _background()
    made = envelope("run", sections, "One run: a machine, a schedule and a job.")
    return {**made, "$defs": {**definitions, **more, **streams, "ModelValues": model}}


def _background() -> tuple[Schema, dict[str, Schema]]:
    """Schema of a run's background streams, and its definitions: a part by name, or a part's or kind's own values."""
    of = {part: load_part(part).device for part in names("part")}
    branches, definitions, fields = [], {}, {}
    for kind, device in KINDS.items():
        spec, inner, _ = _prefixed(device)
        definitions |= inner
        own = {"part": {"type": "string"}, "kind": {"enum": list(KINDS)}, **spec["properties"]}
        fields |= dict.fromkeys(own, True)
        parts = [part for part, found in of.items() if found == device]
        chosen = [
            {"properties": {key: {"enum": e}}, "required": [key]} for key, e in (("kind", [kind]), ("part", parts))
        ]
        branches.append({"if": {"anyOf": chosen}, "then": {"properties": own, "additionalProperties": False}})
    stream = {
        "type": "object",
        "properties": {**fields, "kind": {"enum": list(KINDS)}},
        "additionalProperties": False,
        "oneOf": [{"required": ["part"]}, {"required": ["kind"]}],
        "allOf": branches,
    }
    part = {"type": "string", "examples": sorted(part for part, found in of.items() if found in KINDS.values())}
    made = {
        "type": "object",
        "propertyNames": {"pattern": "^[a-z][a-z0-9_]{0,39}$"},
        "additionalProperties": {"anyOf": [part, stream]},
        "description": "streams that run beside the job by name: a part, or a part or kind with values of its own",
    }
    return made, definitions


def sweep_schema() -> Schema:
    """Schema of sweeps; values are bare here, as they are axes."""
    made = SweepSpec.model_json_schema(mode="validation", ref_template="#/$defs/{model}")
    definitions = made.pop("$defs", {})
    described, _, _ = section(SweepSpec)
    properties = made["properties"]
    for name, field in described["properties"].items():
        properties[name] = {**properties[name], **{k: field[k] for k in ("description",) if k in field}}
    return {**envelope("sweep", properties, "A run over axes of its parameters."), "$defs": definitions}


def prices_schema() -> Schema:
    """Schema of tables of prices."""
    tables = {}
    for key, unit in UNITS.items():
        bare = as_written(quantity(unit))
        entry = wrapped(bare)
        entry["anyOf"][1]["properties"] |= {
            "node_nm": {"type": "number"},
            "voltage_v": {"type": "number"},
            "scope": {"type": "string"},
        }
        tables[key] = {
            "type": "object",
            "propertyNames": {"pattern": r"^[^.]+\..+$"},
            "additionalProperties": entry,
            "description": f"prices in {unit}, by <device>.<action or block>",
        }
    node = {
        "type": "object",
        "properties": {"from_nm": {"type": "number"}, "to_nm": {"type": "number"}},
        "required": ["from_nm", "to_nm"],
        "additionalProperties": False,
    }
    return {
        "title": "archsim prices",
        "description": "Energy, static power and area to price a finished run by.",
        "type": "object",
        "properties": {
            "kind": {"const": "prices"},
            "name": TEXT,
            "base": {"enum": ["run", "none"], "description": "keep what the run was priced with, or not"},
            "source": TEXT,
            "note": TEXT,
            **tables,
            "nodes": {"type": "object", "additionalProperties": node, "description": "process nodes by device"},
        },
        "required": ["kind", "name"],
        "additionalProperties": False,
    }
