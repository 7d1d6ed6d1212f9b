"""Results kept on disk between calls: where, under which key, and written so that none is ever half there."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import archsim
from archsim.config import InputError


def cache_folder() -> Path:
    """Folder of everything that can be computed again: ``ARCHSIM_CACHE``, or ``archsim`` in the user's cache folder."""
    base = os.environ.get("ARCHSIM_CACHE")
    return Path(base) if base else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "archsim"


@cache
def code_digest(apart: tuple[str, ...] = (), but: tuple[str, ...] = ()) -> str:
    """Digest (hex) of archsim's sources and the data beside them, on which every result depends.

    Parameters
    ----------
    apart : tuple of str
        Packages, below archsim, that do not count (reports of results, say).
    but : tuple of str
        Files, relative to archsim, that count nevertheless.
    """
    root = Path(archsim.__file__).parent
    hashed = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root)
        if path.suffix not in (".py", ".yaml", ".json") or name.parts[0] == "_data":
            continue
        if name.parts[0] in apart and str(name) not in but:
            continue
        hashed.update(str(name).encode())
        hashed.update(path.read_bytes())
    return hashed.hexdigest()


def result_file(*parts: str) -> Path:
    """File of a reproduced result: the parts are what it depends on."""
    return cache_folder() / "reproduce" / f"{hashlib.sha256(':'.join(parts).encode()).hexdigest()[:32]}.json"


def stored(file: Path) -> dict[str, Any] | None:
    """A kept result; None where there is none that can be read."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def store(file: Path, found: Mapping[str, Any]) -> None:
    """Keep a result; where nothing can be written it is computed again next time."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_suffix(f".{os.getpid()}")
        partial.write_text(json.dumps(found), encoding="utf-8")
        partial.replace(file)
    except OSError:
        return


def geometric(values: Sequence[float]) -> float:
    """Geometric mean of values above zero."""
    if not values or min(values) <= 0:
        raise InputError("a geometric mean needs values above zero")
    return math.exp(math.fsum(map(math.log, values)) / len(values))
