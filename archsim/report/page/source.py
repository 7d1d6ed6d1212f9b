"""Which page a path gets: a sweep's folder and a table get an explorer; everything else is a run."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from archsim.config.regular import read_regular
from archsim.report.page.build import write_table_page
from archsim.report.tables import Table, read_table
from archsim.units import InputError

_SPEC, _TABLE, _MEANS = "sweep.json", "table.parquet", "means.parquet"
_ENDINGS = (".parquet", ".csv", ".json")
_LIMIT = 1 << 28


def is_table(source: str | os.PathLike[str]) -> bool:
    """Whether a path is a sweep's folder or a table, not a run."""
    path = Path(source)
    if path.is_dir():
        return (path / _SPEC).exists() and not (path / "manifest.json").exists()
    return path.suffix in _ENDINGS


def write_page(source: str | os.PathLike[str], file: str | os.PathLike[str]) -> dict[str, Any]:
    """Write the page of a sweep's folder or of a table; returns its title, its number of rows and the file.

    Raises
    ------
    InputError
        When the table is missing, damaged or empty, or `file` cannot be written.
    """
    path = Path(source)
    if path.is_dir():
        title, rows, options = _sweep(path)
    else:
        title, rows, options = path.name, _rows(path), {}
    options["units"] = _units(path / _TABLE if path.is_dir() else path)
    made = write_table_page(rows, file, title, **options)
    return {"title": title, "rows": len(rows), "files": [str(made)]}


def _sweep(folder: Path) -> tuple[str, Table, dict[str, Any]]:
    if not (folder / _TABLE).exists():
        raise InputError(f"{folder}: the sweep has no table yet; run archsim sweep again to finish it")
    averaged = (folder / _MEANS).exists()
    rows = read_table(folder / (_MEANS if averaged else _TABLE))
    raw = read_regular(folder / _SPEC, _LIMIT, "a sweep's description")
    try:
        spec = json.loads(raw)
    except (ValueError, RecursionError):
        spec = None
    if not isinstance(spec, dict):
        raise InputError(f"{folder / _SPEC}: cannot be read; it is damaged or of another kind")
    objectives, axes = spec.get("objectives") or {}, spec.get("axes") or {}
    known = rows[0] if rows else {}
    if not isinstance(objectives, dict) or not isinstance(axes, dict):
        raise InputError(f"{folder / _SPEC}: cannot be read; it is damaged or of another kind")
    options = {
        "objectives": {name: way for name, way in objectives.items() if name in known and way in ("min", "max")},
        "axes": [name for name in axes if name in known],
        "facts": spec,
    }
    repeated = spec.get("repeat")
    if averaged and isinstance(repeated, list):
        over = ", ".join(map(str, repeated))
        options["subtitle"] = f"{len(rows):,} means over {over}, with 95 % confidence; single points are in {_TABLE}"
    return f"sweep {spec.get('name', folder.name)}", rows, options


def _rows(path: Path) -> Table:
    """Rows of a table, or of a document of ``archsim reproduce``."""
    if path.suffix != ".json":
        return read_table(path)
    raw = read_regular(path, _LIMIT, "a table")
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        raise InputError(f"{path}: is no JSON document") from None
    rows = found.get("rows") if isinstance(found, dict) else found
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise InputError(f"{path}: holds no rows to show")
    return rows


def _units(path: Path) -> dict[str, str]:
    """Units of a Parquet table's columns, from their metadata."""
    if path.suffix != ".parquet":
        return {}
    import pyarrow.parquet as pq

    fields = pq.read_schema(path)
    found = {field.name: (field.metadata or {}).get(b"unit", b"").decode("utf-8", "replace") for field in fields}
    return {name: unit for name, unit in found.items() if unit}
