"""A new device or schedule: the class of another one in a module of its own, and a test that passes.

One that is a single file is copied, with what it needs; of one that is a folder a subclass is made.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from archsim import registry
from archsim.config import InputError, find, is_path, load_config, load_part, names
from archsim.scaffold.copying import copied, identifiers
from archsim.scaffold.draft import Draft, filled
from archsim.units import quote

SMALL = {"target": "smollm2-135m", "stream": "recorded:exit_layers:25"}
DENOISING = {"target": "llada-8b", "stream": "synthetic:llada-8b:gsm8k"}
#: Schedule that makes a device of a kind work; plain decoding for the others.
WORKS_UNDER = {"flash": "flash_ar", "pim": "pim_ar", "control": "ahasd"}
#: Machines to try a schedule on, the plainest first.
MACHINES = ("oneplus_12", "ahasd_samsung", "mobile_gpu")


def device(name: str, source: str, based: bool) -> Draft:
    """Draft ``devices/<name>.py``, ``parts/<name>.yaml`` and ``tests/test_<name>_device.py``.

    Raises
    ------
    InputError
        For a source that no machine has, or that cannot be derived from.
    """
    original = _original("device", source)
    machine, role = _place_of(source)
    part = _part_of(source)
    new_class = _class_name(name, "Device", original)
    spec = original.Spec.__name__
    renames = {"": name, original.__name__: new_class, spec: f"{new_class}Spec"}
    more = {"spec": spec}
    schedule = WORKS_UNDER.get(source, "resident_ar")
    job = _job(registry.get("schedule", schedule))
    values = {"name": name, "system": machine, "role": role, "schedule": schedule, "job": _literal(job)}
    files = {
        f"devices/{name}.py": _module("device", name, source, original, renames, more),
        f"parts/{name}.yaml": _part_text(name, source, part),
        f"tests/test_{name}_device.py": filled("device_test.txt", values),
    }
    run = f"{_command(machine, schedule, job)} --set system.{role}={name}"
    return Draft(files, (f"archsim show part {name} --sources", run))


def schedule(name: str, source: str, based: bool) -> Draft:
    """Draft ``schedules/<name>.py`` and ``tests/test_<name>_schedule.py``.

    Raises
    ------
    InputError
        For a source that is none, or that cannot be derived from.
    """
    original = _original("schedule", source)
    renames = {"": name, original.__name__: _class_name(name, "Schedule", original)}
    machine, job = _machine_for(original), _job(original)
    files = {
        f"schedules/{name}.py": _module("schedule", name, source, original, renames, {}),
        f"tests/test_{name}_schedule.py": filled(
            "schedule_test.txt", {"name": name, "system": machine, "job": _literal(job)}
        ),
    }
    return Draft(files, (f"archsim show schedule {name}", _command(machine, name, job)))


def _original(kind: str, source: str) -> Any:
    if is_path(source):
        raise InputError(f"--from {source}: give the name of a {kind} (archsim list {kind}s), not a path")
    return registry.get(kind, source)


def _job(of_schedule: Any) -> dict[str, str]:
    return SMALL if of_schedule.causal else DENOISING


def _literal(job: Mapping[str, str]) -> str:
    return "{" + ", ".join(f'"{key}": "{value}"' for key, value in job.items()) + ', "tokens": 8}'


def _command(system: str, schedule: str, job: Mapping[str, str]) -> str:
    options = " ".join(f"--{key} {value}" for key, value in job.items())
    return f"archsim run --system {system} --schedule {schedule} {options} --tokens 8"


def _module(kind: str, name: str, source: str, original: Any, renames: dict[str, str], more: dict[str, str]) -> str:
    """Text of the new module: a copy where the source is one file of its kind's folder, else a subclass."""
    file = Path(inspect.getfile(original))
    doc = (original.__doc__ or "").strip().splitlines()[0]
    if file.name != "__init__.py" and file.parent.name == f"{kind}s":
        text = file.read_text(encoding="utf-8")
        if text.count(f"@{kind}(") == 1:  # the module is about nothing else
            doc = inspect.cleandoc(inspect.getmodule(original).__doc__ or doc)
        head = textwrap.fill(f"The {kind} {name}, started from ``{source}``.", 118)
        return copied(text, original.__name__, f"{head}\n\n{doc}", renames, kind)
    if not original.__module__.startswith("archsim."):
        raise InputError(
            f"--from {source}: is a folder of your own, {file.parent}; copy it, or start from another {kind}"
        )
    values = {
        "name": name,
        "source": source,
        "doc": doc,
        "class": renames[original.__name__],
        "base": original.__name__,
        "imports": _imports(kind, original),
        **more,
    }
    return filled(f"{kind}_subclass.txt", values)


def _imports(kind: str, original: Any) -> str:
    """Sorted import lines of a subclass."""
    wanted = {"archsim.registry": {kind}, original.__module__: {original.__name__}}
    if kind == "device":
        wanted.setdefault(original.Spec.__module__, set()).add(original.Spec.__name__)
        wanted.setdefault("archsim.device", set()).update(("Cost", "Ops", "Rows"))
    else:
        wanted |= {"archsim.schedules.schedule": {"Steps"}, "archsim.workload.plan": {"Placement"}}
    return "\n".join(f"from {module} import {', '.join(sorted(found))}" for module, found in sorted(wanted.items()))


def _class_name(name: str, noun: str, original: Any) -> str:
    """Name of the new class: the name in camel case, unless the module or its imports use that."""
    made = "".join(word.capitalize() for word in name.split("_"))
    taken = identifiers(Path(inspect.getfile(original)).read_text(encoding="utf-8"))
    return f"{made}{noun}" if made in taken or f"{made}Spec" in taken or not made.isidentifier() else made


def _place_of(kind: str) -> tuple[str, str]:
    """Machine that has a device of a kind, and the device's name there; where it has the kind's name, if any does.

    Raises
    ------
    InputError
        When no machine has one.
    """
    found = []
    for machine in dict.fromkeys((*MACHINES, *names("system"))):
        for role, entry in load_config("system", machine).data["devices"].items():
            if entry["device"] == kind:
                found.append((role != kind, machine, role))
    if not found:
        raise InputError(f"--from {kind}: no machine has a device of kind {quote(kind)}; start from another")
    _, machine, role = min(found, key=lambda entry: entry[0])
    return machine, role


def _part_of(kind: str) -> Path:
    """File of a part of a kind that has no base, so that it holds all of its numbers."""
    for name in names("part"):
        file = find("part", name)
        if load_part(name).device == kind and not re.search(r"^base:", file.read_text(encoding="utf-8"), re.M):
            return file
    raise InputError(f"--from {kind}: no part of kind {quote(kind)} stands on its own; start from another")


def _part_text(name: str, source: str, part: Path) -> str:
    """Text of a part under another name and device."""
    text = part.read_text(encoding="utf-8")
    text = re.sub(r"^name:.*$", f"name: {name}", text, count=1, flags=re.M)
    text = re.sub(r"^device:.*$", f"device: {name}", text, count=1, flags=re.M)
    return f"# Numbers of {name}, started from the part {part.stem} of the device {source}.\n{text}"


def _machine_for(original: Any) -> str:
    """Machine that has what a schedule's defaults need."""
    needs = {*original.needs, *(("control",) if getattr(original(), "controlled", False) else ())}
    for machine in dict.fromkeys((*MACHINES, *names("system"))):
        if needs <= set(load_config("system", machine).data["devices"]):
            return machine
    raise InputError(f"no machine has all of {', '.join(sorted(needs))}; start from another schedule")
