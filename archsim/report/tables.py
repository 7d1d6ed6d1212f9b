"""The reports of a run as tables: lists of flat dictionaries with units in their keys, and files of them."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from archsim.config.regular import read_regular, replaced, what_is
from archsim.report.ahead import ahead
from archsim.report.area import area_mm2
from archsim.report.background import background, background_table
from archsim.report.energy import PJ_PER_J, PJ_PER_MW_PS, by_token, energy, static_mw
from archsim.report.latency import latency
from archsim.report.owner import owner
from archsim.report.power import power
from archsim.report.service import inter_token
from archsim.report.states import spans
from archsim.report.summary import acceptance, busy_fraction, requests, summarise
from archsim.report.totals import totals
from archsim.report.traffic import traffic
from archsim.report.waste import waste
from archsim.report.window import window
from archsim.trace import Trace
from archsim.units import PS_PER_S, InputError, quote, suggest

Table = list[dict[str, Any]]
MOST_BYTES = 1 << 28  # of a file that is read as a table
MOST_CELLS = 50_000_000
_INT = re.compile(r"[-+]?[0-9]{1,40}")
_FLOAT = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?|[-+]?inf|nan")


def flat(document: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten nested dictionaries: ``{"units": {"npu.hmx": 0.5}}`` gives ``{"units.npu.hmx": 0.5}``."""
    found: dict[str, Any] = {}
    for key, value in document.items():
        if isinstance(value, Mapping):
            found.update(flat(value, f"{prefix}{key}."))
        else:
            found[f"{prefix}{key}"] = value
    return found


def _summary(trace: Trace) -> Table:
    return [{"quantity": key, "value": value} for key, value in flat(summarise(trace)).items()]


def _acceptance(trace: Trace) -> Table:
    return [{"definition": name, "fraction": value} for name, value in acceptance(trace).items()]


def _units(trace: Trace) -> Table:
    owned, total = owner(trace), trace.duration_ps / PS_PER_S
    return [
        {"unit": unit, "busy_fraction": busy, "busy_s": busy * total, "owned_s": owned.get(unit, 0.0)}
        for unit, busy in busy_fraction(trace).items()
    ]


def _known(cost: Mapping[str, Any]) -> dict[str, Any]:
    """What is known of a price: its ends, process, scope, grade and source."""
    low, high = cost["range"] or (cost["value"],) * 2
    facts = {key: cost.get(key) or None for key in ("node_nm", "voltage_v", "scope", "confidence")}
    return {"unit": cost["unit"], "price": cost["value"], "low": low, "high": high, **facts, "source": cost["source"]}


def _energy(trace: Trace) -> Table:
    spent = energy(trace)
    prices = trace.manifest["prices"]
    dynamic = [
        {
            "device": action.split(".", 1)[0],
            "what": action.split(".", 1)[1],
            "kind": "dynamic",
            "count": spent.counts[action],
            "energy_j": joule,
            **_known(prices["energy_pj"][action]),
        }
        for action, joule in spent.action_j.items()
    ]
    static = [
        {
            "device": block.split(".", 1)[0],
            "what": block.split(".", 1)[-1],
            "kind": "static",
            "count": None,
            "energy_j": joule,
            **_known(prices["power_mw"][block]),
        }
        for block, joule in spent.static_j.items()
    ]
    return dynamic + static


def _use(trace: Trace) -> Table:
    spent = energy(trace)
    return [
        {"device": device, "useful_j": useful, "wasted_j": spent.device_wasted_j[device]}
        for device, useful in spent.device_useful_j.items()
    ]


def _waste(trace: Trace) -> Table:
    return waste(trace) or [{"cause": "none", "device": "", "energy_j": 0.0, "share": 0.0}]


def _phases(trace: Trace) -> Table:
    return [{"phase": phase, "energy_j": joule} for phase, joule in energy(trace).phase_j.items()]


def _states(trace: Trace) -> Table:
    power_mw, prices = static_mw(trace), trace.manifest["prices"]["power_mw"]
    return [
        {
            "block": block,
            "time_s": float((span.end_ps - span.begin_ps).sum()) / PS_PER_S,
            "power_mw": power_mw[block],
            "energy_j": power_mw[block] * float(span.weight_ps.sum()) * PJ_PER_MW_PS / PJ_PER_J,
            "confidence": prices[block].get("confidence", ""),
        }
        for block, span in spans(trace).items()
    ]


def _power(trace: Trace) -> Table:
    watts = power(trace)
    starts = (watts.edges_ps[:-1] / PS_PER_S).tolist()
    columns = {f"{device}_w": values.tolist() for device, values in watts.device_w.items()}
    return [
        {"start_s": start, **{name: values[i] for name, values in columns.items()}} for i, start in enumerate(starts)
    ]


def _area(trace: Trace) -> Table:
    sources = trace.manifest["prices"]["area_um2"]
    return [{"block": block, "area_mm2": area, **_known(sources[block])} for block, area in area_mm2(trace).items()]


#: Tables of a run by name.
TABLES: Mapping[str, Callable[[Trace], Table]] = {
    "summary": _summary,
    "requests": requests,
    "acceptance": _acceptance,
    "inter_token": lambda trace: [inter_token(trace)],
    "ahead": ahead,
    "latency": latency,
    "units": _units,
    "energy": _energy,
    "phases": _phases,
    "tokens": by_token,
    "states": _states,
    "totals": totals,
    "use": _use,
    "waste": _waste,
    "power": _power,
    "area": _area,
    "window": window,
    "background": lambda trace: background_table(background(trace)),
    "bytes": lambda trace: [{"what": name, "bytes": count} for name, count in traffic(trace).items()],
}


def table(trace: Trace, name: str) -> Table:
    """Table of a run by its name in `TABLES`; an unknown name raises InputError with the known ones."""
    if name not in TABLES:
        raise InputError(f"no table {name!r}; {suggest(name, TABLES)}")
    return TABLES[name](trace)


def to_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as CSV text; numbers in full precision, None empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def to_arrow(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Rows as an Arrow table; a column of several types (numbers and words, say) or of huge integers becomes text."""
    import pyarrow as pa

    columns = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [row.get(name) for row in rows]
        kinds = {float if isinstance(v, (int, float)) and not isinstance(v, bool) else type(v) for v in values}
        huge = any(isinstance(v, int) and abs(v) >= 2**63 for v in values)
        if huge or len(kinds - {type(None)}) > 1:
            values = [None if v is None else str(v) for v in values]
        elif any(isinstance(v, float) for v in values):
            values = [None if v is None else float(v) for v in values]
        columns[name] = values
    return pa.table(columns)


def write_table(rows: Sequence[Mapping[str, Any]], file: str | os.PathLike[str]) -> Path:
    """Write rows as ``.csv``, ``.json`` or ``.parquet``, by the ending of `file`.

    Raises
    ------
    InputError
        For another ending, or when `file` is something other than a regular file or cannot be written.
    """
    path = Path(file)
    if path.suffix not in (".csv", ".json", ".parquet"):
        raise InputError(f"{path}: a table is written as .csv, .json or .parquet")
    with replaced(path) as partial:
        if path.suffix == ".csv":
            partial.write_text(to_csv(rows), encoding="utf-8")
        elif path.suffix == ".json":
            partial.write_text(json.dumps(list(rows), indent=1, allow_nan=False) + "\n", encoding="utf-8")
        else:
            import pyarrow.parquet as pq

            pq.write_table(to_arrow(rows), partial)
    return path


def read_table(file: str | os.PathLike[str]) -> Table:
    """Read a table that :func:`write_table` or a sweep wrote; numbers in CSV are read as such."""
    path = Path(file)
    problem = what_is(path)
    if problem:
        raise InputError(f"{path}: {problem.replace('file', 'table')}")
    try:
        if path.suffix == ".csv":
            text = read_regular(path, MOST_BYTES, "a table").decode("utf-8-sig")
            return _read_csv(path, io.StringIO(text, newline=""))
        if path.suffix == ".json":
            rows = json.loads(read_regular(path, MOST_BYTES, "a table").decode("utf-8"))
            if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
                raise InputError(f"{path}: not a table; expected a list of objects")
            return rows
        if path.suffix == ".parquet":
            return _read_parquet(path)
    except InputError:
        raise
    except (ValueError, OSError, csv.Error, RecursionError):
        raise InputError(f"{path}: cannot be read as a table; it is damaged or of another kind") from None
    raise InputError(f"{path}: a table is a .csv, .json or .parquet file")


def _read_parquet(path: Path) -> Table:
    """Rows of a Parquet file, once its sizes are known to be those of a table."""
    import pyarrow.parquet as pq

    if path.stat().st_size > MOST_BYTES:
        raise InputError(f"{path}: {path.stat().st_size} bytes are more than the limit of {MOST_BYTES} for a table")
    with pq.ParquetFile(path) as file:
        cells = file.metadata.num_rows * file.metadata.num_columns
        if cells > MOST_CELLS:
            raise InputError(f"{path}: {cells} cells are more than the limit of {MOST_CELLS} for a table")
        return file.read().to_pylist()


def _read_csv(path: Path, text: Iterable[str]) -> Table:
    """Rows of a CSV file that all have the columns of its first line."""
    reader = csv.DictReader(text, strict=True)
    names = reader.fieldnames or []
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"{path}:1: the column {quote(twice)} comes twice")
    rows = []
    for row in reader:
        if None in row or None in row.values():
            raise InputError(f"{path}:{reader.line_num}: the row has not the {len(names)} columns of the first line")
        rows.append({key: _number(value) for key, value in row.items()})
    return rows


def _number(text: str | None) -> Any:
    if text is None or text == "":
        return None
    if text in ("True", "False"):
        return text == "True"
    for pattern, kind in ((_INT, int), (_FLOAT, float)):
        if pattern.fullmatch(text):
            return kind(text)
    return text
