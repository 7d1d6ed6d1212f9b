"""JSON Schema (draft 2020-12) of the files that archsim reads, for editors: completion, units and typos while writing.

Everything is derived from what reads the files: pydantic models, dataclasses of schedules, and the keys of each kind.
A schema is a little more lenient than the reader where only the whole says what is wrong (bounds between fields,
dimensions of units); ``archsim check`` has the last word.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from archsim import registry
from archsim.config.layers import KEYS
from archsim.config.regular import replaced
from archsim.schema.files import part_schema, prices_schema, run_schema, sweep_schema, system_schema
from archsim.schema.models import model_schema
from archsim.units import InputError, suggest

#: Kinds of files; ``part`` is any part, ``part:DEVICE`` one of that kind of device.
KINDS: Mapping[str, Callable[[], dict[str, Any]]] = {
    "part": part_schema,
    "system": system_schema,
    "model": model_schema,
    "run": run_schema,
    "sweep": sweep_schema,
    "prices": prices_schema,
}
assert set(KEYS) <= set(KINDS)


def schema(kind: str) -> dict[str, Any]:
    """JSON Schema of a kind of file.

    Parameters
    ----------
    kind : str
        A key of :data:`KINDS`, or ``part:DEVICE``.

    Returns
    -------
    dict
        The schema, with ``$schema``, ``title`` and descriptions.

    Raises
    ------
    InputError
        For an unknown kind or device.
    """
    single, _, device = kind.partition(":")
    if single == "part" and device:
        made = part_schema(registry.get("device", device))
    elif kind in KINDS:
        made = KINDS[kind]()
    else:
        raise InputError(f"no schema of {kind!r}; {suggest(kind, (*KINDS, 'part:DEVICE'))}")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made}


def write_schema(kind: str, file: str | Path) -> Path:
    """Write the schema of a kind of file; the file appears whole or not at all."""
    import json

    text = json.dumps(schema(kind), indent=1, allow_nan=False) + "\n"
    with replaced(file) as partial:
        partial.write_text(text, encoding="utf-8")
    return Path(file)
