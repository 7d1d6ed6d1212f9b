"""Data files of the devices that run alone: DRAM standards and controllers, PIM devices, event-level flash devices."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from archsim.config.checking import Row
from archsim.units import InputError, quote, suggest

#: Keys of a file, and of a value in it, that say something about the values.
_ABOUT = ("kind", "name", "title", "source", "base", "note", "range")


@dataclass(frozen=True)
class Shelf:
    """A folder of data files.

    Attributes
    ----------
    folder : Path
    kind : str
        What the files state as their kind.
    check : callable
        Loads one by name or path as the simulator does, so that nothing broken is shown.
    """

    folder: Path
    kind: str
    check: Callable[[str], Any]


def shelf(kind: str) -> Shelf:
    """Where the files of a kind are: ``standard``, ``controller`` or ``pim_device``."""
    if kind == "pim_device":
        from archsim.devices.pim.standard import STANDARDS as PIM
        from archsim.devices.pim.standard import load_pim

        return Shelf(PIM, "pim_standard", load_pim)
    from archsim.devices.dram.controller import CONTROLLERS, load_controller
    from archsim.devices.dram.standard import STANDARDS, load_standard

    if kind == "standard":
        return Shelf(STANDARDS, "standard", load_standard)
    return Shelf(CONTROLLERS, "controller", load_controller)


def file_names(kind: str) -> list[str]:
    """Names of a kind: those of :func:`shelf`, or ``flash_device``."""
    if kind == "flash_device":
        from archsim.devices.flash.replay import device_names

        return device_names()
    return sorted(path.stem for path in shelf(kind).folder.glob("*.yaml"))


def file_line(kind: str, name: str) -> str:
    """One line about a file."""
    if kind == "flash_device":
        from archsim.devices.flash.replay import device_spec

        spec = device_spec(name)
        size = spec.logical_sectors * 512 / 1e9
        ways = f"{spec.channels} x {spec.chips} x {spec.dies} x {spec.planes}"
        return f"{size:.3g} GB simulated, channels x chips x dies x planes {ways}"
    data = _layers(kind, name)[-1]
    return str(data.get("title") or data.get("source", ""))


def file_rows(kind: str, name: str) -> list[Row]:
    """Values of a file and its base with their sources.

    Raises
    ------
    InputError
        When there is no such file, or the simulator would not take it.
    """
    if kind == "flash_device":
        from archsim.devices.flash.replay import device_rows

        return device_rows(name)
    place = shelf(kind)
    known = file_names(kind)
    if "/" not in name and not name.endswith((".yaml", ".yml")) and name not in known:
        raise InputError(f"unknown {kind.replace('_', ' ')} {quote(name)}; {suggest(name, known)}")
    place.check(name)
    entries: dict[tuple[str, ...], tuple[Any, str]] = {}
    for data in _layers(kind, name):
        origin = str(data.get("source", ""))
        for key, value in data.items():
            if key in _ABOUT:
                continue
            if not isinstance(value, Mapping):
                entries = {path: entry for path, entry in entries.items() if path[0] != key}
                entries[(key,)] = value, origin
                continue
            stated = str(value.get("source", origin))
            entries |= {(key, str(inner)): (entry, stated) for inner, entry in value.items() if inner not in _ABOUT}
    return [row for path, (value, source) in entries.items() for row in _flat(".".join(path), value, source, None)]


def _layers(kind: str, name: str) -> list[dict[str, Any]]:
    """The base of a file, if it has one, and the file itself."""
    from archsim.devices.dram.reading import read_yaml

    place = shelf(kind)
    data, _ = read_yaml(place.folder, name, place.kind)
    if "base" not in data:
        return [data]
    return [read_yaml(place.folder, str(data["base"]), place.kind)[0], data]


def _flat(path: str, value: Any, source: str, bounds: Any) -> Iterator[Row]:
    """Rows of a value and what is in it; each part has the nearest source around it."""
    if isinstance(value, Mapping):
        source, bounds = str(value.get("source", source)), value.get("range", bounds)
        inner = {key: part for key, part in value.items() if key not in _ABOUT}
        for key, part in inner.items():
            yield from _flat(path if key == "value" else f"{path}.{key}", part, source, bounds)
    elif isinstance(value, list) and any(isinstance(part, Mapping) for part in value):
        for number, part in enumerate(value):
            stated = str(part.get("source", source)) if isinstance(part, Mapping) else source
            shown = {key: v for key, v in part.items() if key != "source"} if isinstance(part, Mapping) else part
            yield Row(f"{path}[{number}]", _text(shown), "", stated, None)
    else:
        yield Row(path, _text(value), "", source, tuple(bounds) if bounds else None)


def _text(value: Any) -> Any:
    """Scalars as they are, the rest as one line."""
    return value if isinstance(value, str | int | float | bool) else json.dumps(value, default=str)
