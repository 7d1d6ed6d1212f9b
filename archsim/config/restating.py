"""Resolved data back to what a file states, so that a stored run can be had again.

Resolved data and manifests hold plain numbers in the unit of their field; a file (and an override) must write the unit.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from archsim.config.checking import leaves
from archsim.units import from_numbers


def stated(model: type[BaseModel], data: Mapping[str, Any]) -> dict[str, Any]:
    """Values of a validated model as its file would state them: ``0.1`` of a rate is ``"0.1 Hz"``.

    Parameters
    ----------
    model : type
        The model that the data were validated against.
    data : Mapping
        Its plain data, numbers in the units of their fields.

    Raises
    ------
    pydantic.ValidationError
        When the data are none of the model's.
    """
    found = copy.deepcopy(dict(data))
    for leaf in leaves(from_numbers(model, data)):
        if leaf.quantity is None:
            continue
        holder: Any = found
        for key in leaf.key[:-1]:
            holder = holder.get(key) if isinstance(holder, dict) else holder[int(key)]
            if holder is None:
                break
        if holder is not None and (isinstance(holder, list) or leaf.key[-1] in holder):
            holder[leaf.key[-1]] = with_unit(holder[leaf.key[-1]], leaf.quantity.unit)
    return found


def with_unit(value: Any, unit: str) -> Any:
    """A number (or the numbers of a list or mapping) with its unit; everything else as it is."""
    if isinstance(value, (list, tuple)):
        return [with_unit(item, unit) for item in value]
    if isinstance(value, Mapping):
        return {key: with_unit(item, unit) for key, item in value.items()}
    if not unit or isinstance(value, bool) or not isinstance(value, (int, float)):
        return value
    return f"{value!r} {unit}"


def first_difference(one: Any, other: Any, path: str = "") -> str:
    """Dotted path of the first value in which two plain documents differ; empty where none does."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in sorted({*one, *other}, key=str):
            found = first_difference(one.get(key), other.get(key), f"{path}.{key}" if path else str(key))
            if found:
                return found
        return ""
    return "" if one == other else path
