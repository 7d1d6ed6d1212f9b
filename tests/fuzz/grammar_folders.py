"""Run folders, sweep folders and model files in which something was changed, swapped or is missing."""

from __future__ import annotations

import json
from typing import Any

import material
from changes import changed_bytes, changed_data
from harness import Case
from hypothesis import strategies as st

BINARY = [b"\0" * 8, b"\xff" * 8, b"PAR1", b"GGUF", b"PK\x03\x04", b"PK\x05\x06", b"\x1f\x8b", b"\x80\x02]."]
READERS = (
    ["report", "done", "--json"],
    ["replay", "done", "--json"],
    ["explain", "done", "--json"],
    ["diff", "done", "done"],
)


@st.composite
def run_folders(draw: Any) -> Case:
    """A run folder in which files were changed, swapped or are missing."""
    files = dict(material.run_folder())
    for _ in range(draw(st.integers(1, 2))):
        name = draw(st.sampled_from(sorted(files)))
        match draw(st.integers(0, 5)):
            case 0:
                del files[name]
            case 1:
                files[name] = files[draw(st.sampled_from(sorted(files)))]
            case 2:
                files[name] = b""
            case _:
                files[name] = draw(changed_bytes(files[name], BINARY))
    return Case(tuple(draw(st.sampled_from(READERS))), files)


EXTREME = [0, 1, -1, 2, 7, 2**31, 2**40, 2**62, -(2**63), 2**63 - 1]


@st.composite
def resealed_folders(draw: Any) -> Case:
    """A run folder whose tables or manifest say something else, with digests and seal made anew: whole, and wrong."""
    tables, manifest = material.run_tables()
    for _ in range(draw(st.integers(1, 3))):
        table = draw(st.sampled_from(sorted(tables)))
        columns = tables[table]
        name = draw(st.sampled_from(sorted(columns)))
        values = columns[name]
        size = len(values)
        at = draw(st.integers(0, max(size - 1, 0)))
        match draw(st.integers(0, 7)):
            case 0 | 1 | 2 if size and values.dtype.kind == "i":
                values[at] = draw(st.sampled_from(EXTREME))
            case 0 | 1 if size and values.dtype.kind == "f":
                values[at] = draw(st.sampled_from([0.0, -1.0, 1e300, 1e-300, float("inf"), float("nan")]))
            case 2 | 3 if size and values.dtype.kind == "U":
                columns[name] = values.astype(object)
                columns[name][at] = draw(st.sampled_from(["", "x", "$x$", "a.b", "\n", "x" * 300, "\u202e"]))
                columns[name] = columns[name].astype(str)
            case 3 | 4 if size:
                other = draw(st.integers(0, size - 1))
                values[[at, other]] = values[[other, at]]
            case 5:
                tables[table] = {key: column[:at] for key, column in columns.items()}
            case 6:
                tables[table] = {key: column[::-1].copy() for key, column in columns.items()}
            case 7:
                other_name = draw(st.sampled_from(sorted(columns)))
                columns[name], columns[other_name] = columns[other_name], columns[name]
            case _:
                manifest = draw(changed_data(manifest, 1))
    if draw(st.integers(0, 3)) == 0:
        manifest = draw(changed_data(manifest, 2))
    return Case(tuple(draw(st.sampled_from(READERS))), material.resealed(tables, manifest))


@st.composite
def model_files(draw: Any) -> Case:
    """A GGUF file or a ``config.json`` with something changed, imported."""
    if draw(st.booleans()):
        return Case(
            ("import", "model", "m.gguf", "-o", "m.yaml"), {"m.gguf": draw(changed_bytes(material.gguf_file(), BINARY))}
        )
    data = material.FILES["config.json"]
    if draw(st.integers(0, 3)):
        data = json.dumps(draw(changed_data(json.loads(data)))).encode()
    else:
        data = draw(changed_bytes(data))
    return Case(("import", "model", "config.json", "-o", "m.yaml"), {"config.json": data})


@st.composite
def sweep_folders(draw: Any) -> Case:
    """The folder of a sweep in which files were changed: gone on with, or plotted."""
    files = dict(material.sweep_folder())
    for _ in range(draw(st.integers(1, 2))):
        name = draw(st.sampled_from(sorted(files)))
        match draw(st.integers(0, 4)):
            case 0:
                del files[name]
            case 1:
                files[name] = files[draw(st.sampled_from(sorted(files)))]
            case _:
                files[name] = draw(changed_bytes(files[name], BINARY))
    files |= {name: material.FILES[name] for name in ("run.yaml", "sweep.yaml")}
    plot = ["--kind", draw(st.sampled_from(["lines", "pareto", "heat", "bars", "tornado"])), "-o", "f.svg"]
    plot += ["--x", "job.seed", "--y", "decode_tokens_per_s"]
    source = draw(st.sampled_from(["table", "table/table.csv", "table/table.parquet"]))
    args = draw(st.sampled_from([["sweep", "sweep.yaml", "-o", "table"], ["plot", source, *plot]]))
    return Case(tuple(args), files, works=True)
