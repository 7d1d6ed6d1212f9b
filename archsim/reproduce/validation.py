"""The validation page: where archsim is right, where it is wrong and by how much, from the rows of all tables.

Nothing here is written by hand: regimes are counted, errors taken from the rows, causes from their ``why``. *Fitted*
rows have a value fitted to them. *Held out* are predicted rows in a regime in which something was fitted to other rows;
*predicted* ones have nothing of the kind beside them. Orders and verdicts are counted apart: they have no error.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from archsim.config.regular import read_regular, replaced
from archsim.reproduce.regimes import LEVELS, Regime, regime_of
from archsim.reproduce.rows import Row
from archsim.reproduce.runner import TABLES, reproduce
from archsim.units import InputError, quote

#: Largest file of rows that is read, and rows that it may have.
MOST_BYTES, MOST_ROWS = 64 << 20, 200_000
#: Predicted rows that are further off than this are listed, whatever their tolerance.
FAR = 0.25
LISTED = 20
KINDS = ("predicted", "held out", "fitted")
_FIELDS = ("id", "source", "unit", "paper", "simulated", "null_model", "kind", "tolerance", "verdict", "why", "storage")
_NUMBERS = ("paper", "simulated", "null_model", "tolerance")
_VERDICTS = ("follows", "follows_if", "does_not_follow", "contradicts")
#: Markers of the block that a document carries.
BEGIN, END = "<!-- validation: begin -->", "<!-- validation: end -->"


class Placed(NamedTuple):
    """A row, its table and its regime."""

    table: str
    row: Row
    regime: Regime


def computed(progress: Any = None) -> dict[str, list[Row]]:
    """Rows of all tables, simulated now."""
    return {name: reproduce(name, progress)[0] for name in TABLES}


def read_rows(files: Sequence[Path]) -> dict[str, list[Row]]:
    """Rows from files: documents of ``archsim reproduce TABLE --json``, or what :func:`save_rows` wrote.

    Raises
    ------
    InputError
        For a file that cannot be read, is too large, or holds no rows.
    """
    found: dict[str, list[Row]] = {}
    for file in files:
        document = _document(file)
        tables = document.get("tables", {document.get("table", file.stem): document.get("rows")})
        if not isinstance(tables, Mapping):
            raise InputError(f"{file}: tables is no mapping of names to rows")
        for name, rows in tables.items():
            if not isinstance(rows, list) or len(rows) > MOST_ROWS:
                raise InputError(f"{file}: table {quote(str(name))} has no list of up to {MOST_ROWS} rows")
            found.setdefault(str(name), []).extend(_row(file, i, row) for i, row in enumerate(rows))
    return found


def _document(file: Path) -> Mapping[str, Any]:
    try:
        document = json.loads(read_regular(file, MOST_BYTES, "rows").decode("utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise InputError(f"{file}: cannot be read as JSON ({error})") from None
    if not isinstance(document, Mapping):
        raise InputError(f"{file}: expected the document of archsim reproduce TABLE --json")
    return document


def _row(file: Path, at: int, values: Any) -> Row:
    where = f"{file}: row {at}"
    if not isinstance(values, Mapping) or not all(isinstance(values.get(k), str) for k in ("id", "source", "unit")):
        raise InputError(f"{where}: expected a row with the texts id, source and unit")
    given = {key: values[key] for key in _FIELDS if key in values}
    for key in _NUMBERS:
        number = given.get(key)
        if number is not None and (isinstance(number, bool) or not isinstance(number, int | float)):
            raise InputError(f"{where}: {key} is {quote(str(number))}, expected a number or null")
    if not isinstance(given.get("why", ""), str) or not isinstance(given.get("kind", "predicted"), str):
        raise InputError(f"{where}: kind and why must be texts")
    return Row(**{"paper": None, "simulated": None, **given})


def save_rows(tables: Mapping[str, Sequence[Row]], file: Path, command: str, version: str = "") -> Path:
    """Write rows with their provenance, one a line; those without a published value or verdict are left out."""
    lines = []
    for name, rows in tables.items():
        kept = [row for row in rows if row.paper is not None or row.verdict is not None]
        body = ",\n".join(json.dumps(_compact(row), ensure_ascii=False) for row in kept)
        lines.append(f"{json.dumps(name)}: [\n{body}\n]")
    head = json.dumps({"command": command, "archsim": version})
    text = f'{{"provenance": {head},\n"tables": {{\n' + ",\n".join(lines) + "\n}}\n"
    with replaced(file) as partial:
        partial.write_text(text, encoding="utf-8")
    return file


def _compact(row: Row) -> dict[str, Any]:
    """Fields that say something, numbers to twelve digits."""
    values = row.to_json()
    found = {key: values[key] for key in _FIELDS if values[key] is not None and values[key] != "" and key != "storage"}
    found |= {"storage": True} if row.storage else {}
    return {key: float(f"{v:.12g}") if key in _NUMBERS and isinstance(v, float) else v for key, v in found.items()}


def placed(tables: Mapping[str, Sequence[Row]]) -> list[Placed]:
    """Rows with their regimes, by level and then in the order of the tables."""
    found = [Placed(name, row, regime_of(name, row.id)) for name, rows in tables.items() for row in rows]
    return sorted(found, key=lambda one: LEVELS.index(one.regime.level))


def error_of(row: Row) -> float | None:
    """Relative error of a scored row; None for what has no published value, orders, claims and quotations."""
    if row.kind not in ("predicted", "fitted") or row.ratio is None or row.paper == 0:
        return None
    return abs(row.ratio - 1)


def regimes(rows: Sequence[Placed]) -> list[dict[str, Any]]:
    """One entry per regime and kind.

    Returns
    -------
    list of dict
        ``level``, ``regime``, ``batch``, ``kind``, ``rows``, ``median_error``, ``worst_error``, ``worst`` (id),
        ``within_tolerance`` (share of those that have one) and ``null_median_error``.
    """
    groups: dict[Regime, list[Placed]] = {}
    for one in rows:
        if error_of(one.row) is not None:
            groups.setdefault(one.regime, []).append(one)
    found = []
    for regime, members in groups.items():
        fitted = any(one.row.kind == "fitted" for one in members)
        by_kind: dict[str, list[Row]] = {}
        for one in members:
            kind = "fitted" if one.row.kind == "fitted" else "held out" if fitted else "predicted"
            by_kind.setdefault(kind, []).append(one.row)
        found += [_entry(regime, kind, by_kind[kind]) for kind in KINDS if kind in by_kind]
    return found


def _entry(regime: Regime, kind: str, rows: Sequence[Row]) -> dict[str, Any]:
    errors = {row.id: error_of(row) or 0.0 for row in rows}
    worst = max(errors, key=lambda name: errors[name])
    judged = [row.ok for row in rows if row.ok is not None]
    null = [abs(row.null_model / row.paper - 1) for row in rows if row.null_model is not None and row.paper]
    return {
        "level": regime.level,
        "regime": regime.name,
        "batch": regime.batch,
        "kind": kind,
        "rows": len(rows),
        "median_error": median(errors[row.id] for row in rows),
        "worst_error": errors[worst],
        "worst": worst,
        "within_tolerance": sum(judged) / len(judged) if judged else None,
        "null_median_error": median(null) if null else None,
    }


def misses(rows: Sequence[Placed]) -> list[dict[str, Any]]:
    """Predicted rows beyond their tolerance or 25 % off, worst first, with their cause."""
    far = [
        (error, one)
        for one in rows
        if one.row.kind == "predicted"
        and (error := error_of(one.row)) is not None
        and (one.row.ok is False or error > FAR)
    ]
    return [
        {
            "row": f"{one.table}: {one.row.id}", "unit": one.row.unit, "published": one.row.paper,
            "simulated": one.row.simulated, "error": error, "why": one.row.why or "not known",
        }
        for error, one in sorted(far, key=lambda pair: (-pair[0], pair[1].table, pair[1].row.id))
    ]  # fmt: skip


def claims(rows: Sequence[Placed]) -> list[dict[str, Any]]:
    """Orders that hold, and verdicts, by regime."""
    groups: dict[Regime, list[Row]] = {}
    for one in rows:
        if one.row.kind == "ordering" or one.row.verdict is not None:
            groups.setdefault(one.regime, []).append(one.row)
    return [
        {
            "level": regime.level, "regime": regime.name,
            "orders": sum(row.kind == "ordering" for row in members),
            "hold": sum(row.kind == "ordering" and row.ok is True for row in members),
            **{verdict: sum(row.verdict == verdict for row in members) for verdict in _VERDICTS},
        }
        for regime, members in groups.items()
    ]  # fmt: skip


def page(tables: Mapping[str, Sequence[Row]]) -> dict[str, Any]:
    """Everything on the page, as plain data."""
    rows = placed(tables)
    return {
        "tables": {name: len(members) for name, members in tables.items()},
        "against_simulators": _count(one for one in rows if one.regime.simulator),
        "against_measurements": _count(one for one in rows if not one.regime.simulator),
        "regimes": regimes(rows),
        "misses": misses(rows),
        "claims": claims(rows),
    }


def _count(rows: Iterable[Placed]) -> dict[str, int]:
    """Predicted rows, and how many are equal, within 10 % and within 25 %."""
    scored = [error for one in rows if one.row.kind == "predicted" and (error := error_of(one.row)) is not None]
    return {
        "predicted": len(scored),
        "equal": sum(error == 0 for error in scored),
        "within_10_percent": sum(error <= 0.10 for error in scored),
        "within_25_percent": sum(error <= FAR for error in scored),
    }


def markdown(tables: Mapping[str, Sequence[Row]]) -> str:
    """The page in Markdown, between its markers; the same text for the same rows."""
    data = page(tables)
    parts = (_regime_lines(data), _miss_lines(data), _claim_lines(data))
    return "\n".join([BEGIN, *_head(data), *(line for part in parts for line in ("", *part)), END])


def _head(data: Mapping[str, Any]) -> Iterator[str]:
    others, measured = data["against_simulators"], data["against_measurements"]
    yield f"Generated by `archsim reproduce validation --markdown` from the rows of {', '.join(data['tables'])}."
    yield (
        f"Against other simulators {others['equal']} of {others['predicted']} predicted rows are equal and "
        f"{others['within_10_percent']} within 10 %; against measurements and published systems "
        f"{measured['within_10_percent']} of {measured['predicted']} are within 10 % and "
        f"{measured['within_25_percent']} within 25 %."
    )
    yield (
        "*Held out*: a value was fitted to other rows of the regime; *predicted*: to none of it. The null model is a "
        "roofline of bytes and operations."
    )


def _regime_lines(data: Mapping[str, Any]) -> Iterator[str]:
    yield "| level | regime | batch | kind | rows | median error | worst | within tolerance | null model, median |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for entry in data["regimes"]:
        numbers = (
            _percent(entry[key]) for key in ("median_error", "worst_error", "within_tolerance", "null_median_error")
        )
        first = (entry[key] for key in ("level", "regime", "batch", "kind", "rows"))
        yield "| " + " | ".join(str(value) for value in (*first, *numbers)) + " |"


def _miss_lines(data: Mapping[str, Any]) -> Iterator[str]:
    listed = data["misses"][:LISTED]
    yield f"Predicted rows beyond their tolerance or more than 25 % off, worst first ({len(data['misses'])} in all):"
    yield ""
    yield "| row | unit | published | simulated | error | why |"
    yield "|---|---|---|---|---|---|"
    for entry in listed:
        numbers = f"{entry['published']:.4g} | {entry['simulated']:.4g} | {_percent(entry['error'])}"
        yield f"| {_cell(entry['row'])} | {_cell(entry['unit'])} | {numbers} | {_cell(entry['why'])} |"


def _claim_lines(data: Mapping[str, Any]) -> Iterator[str]:
    yield "Orders and claims (a claim follows from the hardware as listed, follows under a condition, does not, or is"
    yield "contradicted):"
    yield ""
    yield "| level | regime | orders that hold | follows | follows if | does not follow | contradicts |"
    yield "|---|---|---|---|---|---|---|"
    for entry in data["claims"]:
        orders = f"{entry['hold']} of {entry['orders']}" if entry["orders"] else "-"
        counts = " | ".join(str(entry[verdict] or "-") for verdict in _VERDICTS)
        yield f"| {entry['level']} | {entry['regime']} | {orders} | {counts} |"


def _percent(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{100 * value:.2g} %" if 0 < value < 0.1 else f"{100 * value:.0f} %"


def _cell(text: str) -> str:
    return text.replace("|", "/").replace("\n", " ")
