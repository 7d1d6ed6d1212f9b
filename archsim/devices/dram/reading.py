"""Data files of memories: read by name or path, each field checked, or refused in one line that says where."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from archsim.config.reading import read
from archsim.units import InputError, quote, suggest


def names(folder: Path, extra: Any = ()) -> list[str]:
    """Names of the YAML files in `folder`."""
    return sorted([p.stem for p in folder.glob("*.yaml")] + list(extra))


def read_yaml(folder: Path, name: str, kind: str) -> tuple[dict[str, Any], Path]:
    """One data file by name or path.

    Raises
    ------
    InputError
        Unknown name (the nearest is named), unreadable file, not a mapping, wrong kind.
    """
    if not isinstance(name, str):
        raise InputError(f"{kind} {quote(name)} is not a name or a path; give text")
    path = Path(name) if name.endswith((".yaml", ".yml")) else folder / f"{name}.yaml"
    if path.parent == folder and name not in names(folder):
        raise InputError(f"unknown {kind} {quote(name)}; {suggest(name, names(folder))}")
    data = copy.deepcopy(dict(read(path).data))  # the reader keeps what it has read
    if data.get("kind") != kind:
        raise InputError(f"{path}: kind is {quote(data.get('kind'))}; expected {quote(kind)}")
    return data, path


def mapping_of(where: str, given: Any) -> Mapping[str, Any]:
    """`given` if it is a mapping, or a one-line error."""
    if not isinstance(given, Mapping):
        raise InputError(f"{where}: expected a mapping, found {quote(given)}")
    return given


def list_of(where: str, given: Any, noun: str) -> list[Any]:
    """`given` if it is a list of at least one item, or a one-line error."""
    if not isinstance(given, list):
        raise InputError(f"{where}: expected a list of {noun}, found {quote(given)}")
    if not given:
        raise InputError(f"{where}: is empty; give at least one of {noun}")
    return given


def choice(where: str, given: Any, known: Any, noun: str) -> str:
    """`given` if it is one of the known names, or a one-line error with the nearest."""
    if not isinstance(given, str) or given not in known:
        raise InputError(f"{where}: unknown {noun} {quote(given)}; {suggest(str(given), known)}")
    return given


def text(where: str, given: Any) -> str:
    """`given` if it is text that says something, or a one-line error."""
    if not isinstance(given, str):
        raise InputError(f"{where}: {quote(given)} is not text")
    if not given.strip():
        raise InputError(f"{where} is empty; say what it is")
    return given


def check_keys(where: str, given: Any, known: Any, needed: Any = ()) -> None:
    """Refuse unknown and missing keys of a mapping; the nearest known name is suggested."""
    mapping_of(where, given)
    for key in given:
        if key not in known:
            raise InputError(f"{where}: unknown key {quote(key)}; {suggest(str(key), known)}")
    for key in needed:
        if key not in given:
            raise InputError(f"{where}: {key} is missing; add it")


def whole(where: str, value: Any, low: int, high: int, power_of_two: bool = False) -> int:
    """Whole number in ``[low, high]`` (a power of two if asked) or a one-line error."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(f"{where}: {quote(value)} is not a whole number")
    if not low <= value <= high:
        raise InputError(f"{where}: {value} is out of range; expected {low} to {high}")
    if power_of_two and value & (value - 1):
        raise InputError(f"{where}: {value} is not a power of two")
    return value


def nanoseconds(where: str, value: Any) -> Fraction:
    """A time in ns, exactly as it is written, or a one-line error."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise InputError(f"{where}: {quote(value)} is not a time in ns of 0 or more")
    return Fraction(str(value))
