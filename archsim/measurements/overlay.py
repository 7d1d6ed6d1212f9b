"""Fitted values as a system file: the system as its base, the fitted values laid over the parts of its devices."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from archsim.config import find, is_path, load_system
from archsim.config.finding import check_name, find_name
from archsim.config.layers import load_layers
from archsim.config.regular import check_output, keep_apart, replaced
from archsim.config.setting import Setting, parse_sets
from archsim.config.writing import text_of
from archsim.measurements.parameters import FittedParameter, Parameter
from archsim.units import InputError, quote

_SET = "set for the calibration"


#: A parameter and what was found for it.
Pair = tuple[Parameter, FittedParameter]


def check_overlay(output: str | Path, system: str, *, force: bool) -> Path:
    """Path of a system file that may be written, before anything is run.

    Raises
    ------
    InputError
        For a path that does not end in ``.yaml``, an existing file without `force`, the system's own file, and a folder
        from which the system's parts would not be found.
    """
    path = check_output(output)
    if path.suffix != ".yaml":
        raise InputError(f"-o {output}: a system file ends in .yaml")
    check_name("system", path.stem)
    own = find("system", system)
    keep_apart({"-o": path}, {"the system": own})
    if path.exists() and not force:
        raise InputError(f"-o {output}: exists; give --force to replace it, or another name")
    for part in load_system(system).devices.values():
        try:
            there = find_name("part", part.file.stem, path.parent)
        except InputError:
            there = None
        if there is None or there.resolve() != part.file.resolve():
            raise InputError(f"-o {output}: part {quote(part.name)} is not found from there; write into {own.parent}")
    return path


def write_overlay(path: Path, system: str, sets: Sequence[Any], fitted: Sequence[Pair], origin: str) -> Path:
    """Write the system file; it appears whole or not at all.

    Parameters
    ----------
    path : Path
        File, as :func:`check_overlay` gave it.
    system : str
        Name or file of the system.
    sets : sequence
        Overrides under which the fit was done; they become values of the file.
    fitted : sequence of (Parameter, FittedParameter)
        Values; those that are not identifiable are left out.
    origin : str
        Name of the file of measurements.
    """
    layers = load_layers("system", find("system", system))
    merged: dict[str, Any] = {}
    for document in layers.documents:
        merged |= document.data.get("devices", {})
    settings = parse_sets(sets, ("system",))
    touched = {setting.path[1] for setting in settings} | {one.path.split(".")[1] for one, _ in fitted}
    base = _base(layers.documents[0].path, path)
    if base is None:
        touched |= set(merged)
    elif len(layers.documents) > 1:
        touched |= set(layers.documents[1].data.get("devices", {}))
    devices = {name: _entry(name, merged[name], settings, fitted, origin) for name in merged if name in touched}
    data: dict[str, Any] = {"kind": "system", "name": path.stem}
    if base is not None:
        data["base"] = base
    data["note"] = f"fitted to {origin}; the range of a fitted value keeps every row of the fit within tolerance"
    data["devices"] = devices
    with replaced(path) as partial:
        partial.write_text(text_of(data), encoding="utf-8")
    return path


def _base(base: Path, path: Path) -> str | None:
    """Name of the base as the new file finds it; None where it would find another or none."""
    beside = path.parent / base.name
    try:
        found = beside if beside.is_file() else find_name("system", base.stem, path.parent)
    except InputError:
        return None
    return base.name if found.resolve() == base.resolve() and found.resolve() != path.resolve() else None


def _entry(name: str, entry: Any, settings: Sequence[Setting], fitted: Sequence[Pair], origin: str) -> Any:
    """Entry of one device: its part, and the values over it."""
    part = entry["part"] if isinstance(entry, Mapping) else entry
    spec: dict[str, Any] = dict(entry.get("spec", {})) if isinstance(entry, Mapping) else {}
    for setting in (one for one in settings if one.path[1] == name):
        if len(setting.path) == 2:
            part, spec = _part_name(setting), {}
        elif len(setting.path) == 3:
            spec[setting.path[2]] = {"value": setting.value, "source": _SET}
        else:
            raise InputError(f"--set {setting.dotted}: stands inside a list or mapping and cannot go into the file")
    for parameter, one in fitted:
        _, device, field = parameter.path.split(".")
        if device == name and one.status != "not identifiable":
            spec[field] = _value(parameter, one, origin)
    return {"part": part, "spec": spec} if spec else part


def _part_name(setting: Setting) -> str:
    name = setting.text()
    if is_path(name):
        raise InputError(
            f"--set {setting.dotted}: a file of a system names parts, not paths; got {quote(os.fspath(name))}"
        )
    return name


def _value(parameter: Parameter, one: FittedParameter, origin: str) -> dict[str, Any]:
    words = f"; {one.status}: {', '.join(one.partners)} can make up for it" if one.partners else ""
    words += f"; at the {one.beyond} end of its range, the rows ask to go beyond" if one.beyond else ""
    ends = [parameter.text(parameter.rounded(end)) for end in (one.interval_low, one.interval_high)]
    source = f"fitted: {origin}, rows {places(one.rows)}{words}"
    return {"value": parameter.text(one.value), "source": source, "range": ends}


def places(rows: Sequence[str]) -> str:
    """Places of rows, in short: ``line 3, line 4, line 5, line 9`` is ``3-5, 9``."""
    numbers = [row.removeprefix("line ").strip("[]") for row in rows]
    if not all(number.isdigit() for number in numbers):
        return ", ".join(dict.fromkeys(rows))
    runs: list[list[int]] = []
    for number in sorted({int(number) for number in numbers}):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)
