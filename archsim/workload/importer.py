"""Model descriptions from public files: a Hugging Face ``config.json`` or a GGUF file.

Both are read for shapes and storage types only. A family that is not known is refused, never guessed; what a
file says and a :class:`~archsim.workload.model.ModelSpec` cannot express is listed in the notes of the result.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from archsim.config import InputError, check_name
from archsim.config.regular import replaced, what_is
from archsim.config.writing import text_of
from archsim.device import DType
from archsim.units import quote
from archsim.workload.gguf_file import is_gguf
from archsim.workload.import_gguf import read_gguf
from archsim.workload.import_hf import read_config
from archsim.workload.model import ModelSpec


class Imported(NamedTuple):
    """A model read from a file: its description, one line on where it came from, and what was approximated."""

    spec: ModelSpec
    source: str
    notes: tuple[str, ...]


def import_model(path: str | Path, quant: str | None = None) -> Imported:
    """Read a model description.

    Parameters
    ----------
    path : path
        A GGUF file, a ``config.json``, or a folder that holds one.
    quant : str, optional
        Storage type (a :class:`~archsim.device.DType` name) for every tensor class, instead of the file's own.

    Raises
    ------
    InputError
        For a file that is missing, malformed, of an unknown family, or describes what cannot be modelled.
    """
    file = Path(path)
    if file.is_dir():
        file = file / "config.json"
    if quant is not None and quant not in DType.__members__:
        raise InputError(f"unknown storage type {quant!r}; known: {', '.join(DType.__members__)}")
    problem = what_is(file)
    if problem:
        raise InputError(f"{file}: {problem}; give a config.json, the folder of one, or a GGUF file")
    try:
        gguf = is_gguf(file)
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror or error}") from None
    reader = read_gguf if gguf or file.suffix == ".gguf" else read_config
    fields, source, notes = reader(file, quant)
    fields["name"] = _slug(fields["name"]) or "imported"
    try:
        spec = ModelSpec(**fields)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        text = " ".join(first["msg"].removeprefix("Value error, ").split())
        raise InputError(
            f"{file}: not a model this simulator describes: {where + ': ' if where else ''}{text}"
        ) from None
    return Imported(spec, source, tuple(notes))


def write_model_yaml(spec: ModelSpec, path: str | Path, source: str, *, overwrite: bool = False) -> Path:
    """Write a model file; the file appears whole or not at all.

    Parameters
    ----------
    spec : ModelSpec
        With a name.
    path : path
        The file, ``<name>.yaml``, or an existing folder to put that in.
    source : str
        Where the shapes come from.
    overwrite : bool
        Replace an existing file.

    Raises
    ------
    InputError
        When the file exists and `overwrite` is false, the model has no name or one that no file may have, the file is
        not called after the model, or it cannot be written.
    """
    if not spec.name or not source:
        raise InputError("a model file needs a name and a source")
    check_name("model", spec.name)
    if not os.fspath(path):
        raise InputError("the path of the file to write is empty; give one")
    target = Path(path)
    if target.is_dir():
        target = target / f"{spec.name}.yaml"
    if target.suffix != ".yaml":
        raise InputError(f"{target}: a model file ends in .yaml")
    if target.stem != spec.name:
        raise InputError(f"{target}: the file of model {quote(spec.name)} must be called {spec.name}.yaml")
    if not what_is(target) and not overwrite:
        raise InputError(f"{target} exists; give --force to replace it")
    body = spec.model_dump(mode="json", exclude={"name"}, exclude_defaults=True)
    document = {"kind": "model", "name": spec.name, "source": source, "spec": body}
    with replaced(target) as partial:
        partial.write_text(text_of(document), encoding="utf-8")
    return target


def _slug(name: str) -> str:
    """Name in lower case with only letters, digits, dots and dashes."""
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-.")[:80]
