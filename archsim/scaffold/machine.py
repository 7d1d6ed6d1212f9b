"""A new machine: the parts of another one, each with what could stand in its place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from archsim.config import InputError, find, is_path, load_part, names
from archsim.config.reading import read
from archsim.scaffold.draft import Draft, filled
from archsim.units import quote

#: A value with a unit, as an example to change: the same value, so that it can stand as it is.
_QUANTITY = re.compile(r"[0-9.]+ [A-Za-z/]+")
_ALTERNATIVES = 4


def machine(name: str, source: str, based: bool) -> Draft:
    """Draft ``systems/<name>.yaml`` and ``tests/test_<name>_machine.py``.

    Parameters
    ----------
    name, source : str
        Names of the new machine and of the one to start from.
    based : bool
        Whether the file keeps that one as its base; else it lists all parts on its own.

    Raises
    ------
    InputError
        When there is no such machine, or it cannot be a base.
    """
    if is_path(source):
        raise InputError(f"--from {source}: give the name of a machine (archsim list systems), not a path")
    file = find("system", source)
    data = read(file).data
    head = [
        f"# The machine {name}, started from {source}: a list of parts, each a file of numbers with their sources.",
        "# `archsim show part NAME --sources` prints a part; `archsim check` this file after every change.",
        "kind: system",
        f"name: {name}",
    ]
    if "base" in data:  # one level only: the base stays the same, and what lies over it is copied
        return _draft(name, [*head, f"base: {data['base']}", *_devices(file)])
    if based:
        head.append(f"base: {source}.yaml  # whatever is not said here is as there")
    entries = data["devices"]
    overridden = {device: entry for device, entry in entries.items() if isinstance(entry, dict)}
    if overridden and not based:
        raise InputError(f"machine {quote(source)} has values of its own; give --from {source} to keep it as the base")
    kinds = {part: load_part(part).device for part in names("part")}
    lines = [_line(device, entry, kinds) for device, entry in entries.items()]
    return _draft(name, [*head, "devices:", *lines, *_example(entries)])


def _draft(name: str, lines: list[str]) -> Draft:
    file = f"systems/{name}.yaml"
    run = f"archsim run --system {name} --schedule resident_ar --target smollm2-135m --stream recorded:exit_layers:25"
    files = {file: "\n".join(lines) + "\n", f"tests/test_{name}_machine.py": filled("machine_test.txt", {"name": name})}
    return Draft(files, (f"archsim show system {name}", run))


def _devices(file: Path) -> list[str]:
    """The ``devices`` of a machine, as they stand in its file."""
    lines = file.read_text(encoding="utf-8").splitlines()
    first = lines.index("devices:")
    last = next((i for i in range(first + 1, len(lines)) if re.match(r"[^\s#]", lines[i])), len(lines))
    return lines[first:last]


def _line(device: str, entry: Any, kinds: Mapping[str, str]) -> str:
    """One device of the list, with parts of its kind that could replace it; one with values of its own as a comment."""
    part = entry["part"] if isinstance(entry, dict) else entry
    others = [name for name, kind in kinds.items() if kind == kinds.get(part) and name != part]
    more = ", ..." if len(others) > _ALTERNATIVES else ""
    if isinstance(entry, dict):
        changed = ", ".join(list(entry.get("spec", {}))[:3])
        return f"  # {device}: {part}, with its own {changed} (from the base; `archsim show system`)"
    return f"  {device}: {part}" + (f"  # or {', '.join(others[:_ALTERNATIVES])}{more}" if others else "")


def _example(entries: Mapping[str, Any]) -> list[str]:
    """How to change one number of a part: lines that hold as they are once the '#' are gone."""
    for device, entry in entries.items():
        part = load_part(entry["part"] if isinstance(entry, dict) else entry)
        for field, value in part.spec.items():
            if isinstance(value, str) and _QUANTITY.fullmatch(value) and isinstance(entry, str):
                return [
                    f"# One number of a part changed, with its source; take it in place of the line `{device}` above:",
                    f"#  {device}:",
                    f"#    part: {entry}",
                    "#    spec:",
                    f'#      {field}: {{value: {value}, source: "measured on my desk"}}',
                ]
    return []
