"""Answers as objects: they read like the plain documents they hold, print as short tables, and give pandas frames."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from archsim.report.document import TITLES
from archsim.report.tables import TABLES, flat, table
from archsim.trace import Trace
from archsim.units import InputError, suggest

Rows = Sequence[Mapping[str, Any]]
#: Rows of a table that are printed.
SHOWN = 12
_SUFFIX_UNITS = (
    ("_bytes_per_s", "B/s"),
    ("_per_s", "1/s"),
    ("_s", "s"),
    ("_j", "J"),
    ("_w", "W"),
    ("_mm2", "mm2"),
    ("_bytes", "B"),
    ("_hz", "Hz"),
    ("_ps", "ps"),
)
#: Columns of a trace whose name does not end in their unit.
_TRACE_UNITS = {"work": "2**-28 B", "done": "2**-28 B"}
#: Tables of a trace that a frame can be made of.
RAW = ("rows", "blocks", "ops", "counts", "notes", "rates", "mix", "pool_log", "levels_log", "draws")


def unit_of(name: str) -> str:
    """Unit of a result by the ending of its name; empty for pure numbers and text."""
    head = name.partition(".")[0]
    if head == "alike":
        return ""
    if head == "phases":
        return "s"
    if head == "bytes":
        return "B"
    return next((unit for suffix, unit in _SUFFIX_UNITS if name.endswith(suffix)), "")


def to_frame(rows: Rows | Mapping[str, Any], units: Mapping[str, str] | None = None) -> Any:
    """Rows (or columns by name) as a pandas frame.

    Parameters
    ----------
    rows : sequence of Mapping, or Mapping of arrays
        The table.
    units : Mapping, optional
        Units by column; the others are told by the ending of the column's name.

    Returns
    -------
    pandas.DataFrame
        ``frame.attrs["units"]`` holds the unit of every column that has one.
    """
    import pandas as pd

    frame = pd.DataFrame({**rows} if isinstance(rows, Mapping) else list(rows))
    known = {str(name): (units or {}).get(str(name)) or unit_of(str(name)) for name in frame.columns}
    frame.attrs["units"] = {name: unit for name, unit in known.items() if unit}
    return frame


def trace_frame(trace: Trace, name: str) -> Any:
    """Table of a trace (:data:`RAW`) or of its reports (``archsim.report.tables.TABLES``) as a pandas frame.

    Raises
    ------
    InputError
        For an unknown name.
    """
    if name in RAW:
        return to_frame(trace.tables[name], _TRACE_UNITS)
    if name not in TABLES:
        raise InputError(f"no table {name!r}; {suggest(name, (*RAW, *TABLES))}")
    return to_frame(table(trace, name))


def text_of(tables: Mapping[str, Rows], title: str = "") -> str:
    """Tables as text, the first rows of each."""
    from archsim.report.terminal import table_text

    parts = [f"{title}\n"] if title else []
    for name, rows in tables.items():
        more = f"  ... {len(rows) - SHOWN:,} more\n" if len(rows) > SHOWN else ""
        parts.append(table_text(rows[:SHOWN], title=name, width=120) + more)
    return "\n".join(parts).rstrip("\n")


def html_of(tables: Mapping[str, Rows], title: str = "") -> str:
    """Tables as HTML for notebooks, the first rows of each."""
    from html import escape

    parts = [f"<p><b>{escape(title)}</b></p>"] if title else []
    for name, rows in tables.items():
        parts.append(f"<p>{escape(name)}</p>" + to_frame(rows[:SHOWN]).to_html(index=False, border=0))
    return "\n".join(parts)


def summary_rows(summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Headline numbers as rows ``quantity``, ``value``, ``unit``; nested ones are left out."""
    plain = {key: value for key, value in summary.items() if not isinstance(value, (Mapping, list))}
    return [{"quantity": key, "value": value, "unit": unit_of(key)} for key, value in plain.items() if key != "digest"]


class Printed:
    """What prints as short tables and gives pandas frames; a subclass says what its tables are."""

    @property
    @abstractmethod
    def tables(self) -> Mapping[str, Rows]:
        """Tables by name."""

    @property
    def title(self) -> str:
        """One line that says what it is."""
        return type(self).__name__

    def frame(self, name: str = "rows") -> Any:
        """One table as a pandas frame; ``frame.attrs["units"]`` holds the units.

        Raises
        ------
        InputError
            For a table that there is not.
        """
        tables = self.tables
        if name not in tables:
            raise InputError(f"no table {name!r}; {suggest(name, tables)}")
        return to_frame(tables[name])

    def _shown(self) -> Mapping[str, Rows]:
        return self.tables

    def __str__(self) -> str:
        return text_of(self._shown(), self.title)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return html_of(self._shown(), self.title)


class Outcome(Printed):
    """A typed outcome with a plain document, of which lists of mappings are tables."""

    @abstractmethod
    def document(self) -> dict[str, Any]:
        """Plain data, as ``--json`` prints it."""

    def to_json(self) -> dict[str, Any]:
        """The same, by the name that all answers have for it."""
        return self.document()

    @property
    def tables(self) -> dict[str, Rows]:
        """Tables of the document by name."""
        return tables_of(self.document())


@dataclass(frozen=True, eq=False, repr=False)
class Answer(Printed, Mapping[str, Any]):
    """A plain document (what ``--json`` prints) that reads as a mapping.

    Parameters
    ----------
    document : Mapping
        Plain data, units in the keys.
    """

    document: Mapping[str, Any]
    #: Names of the tables that ``print`` shows.
    headline: ClassVar[tuple[str, ...]] = ()

    def __getitem__(self, key: str) -> Any:
        return self.document[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.document)

    def __len__(self) -> int:
        return len(self.document)

    def to_json(self) -> dict[str, Any]:
        """The document as a plain dictionary."""
        return dict(self.document)

    @property
    def tables(self) -> dict[str, Rows]:
        """Tables of the document by name."""
        return tables_of(self.document)

    def _shown(self) -> dict[str, Rows]:
        return {name: rows for name, rows in self.tables.items() if name in self.headline}


def tables_of(document: Mapping[str, Any]) -> dict[str, Rows]:
    """Lists of mappings in a document, by name; empty ones are no tables."""
    return {key: value for key, value in document.items() if _is_table(value)}


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, Mapping) for row in value)


@dataclass(frozen=True, eq=False, repr=False)
class Report(Answer):
    """Report of a run: ``summary``, ``null_model``, ``tables``, ``insight``, ``notes`` and ``files``.

    A table is asked for by its title or by its name among ``archsim.report.tables.TABLES``.
    """

    headline = ("summary", "latency", "energy")

    @property
    def title(self) -> str:
        """What was reported."""
        return str(self.document["title"])

    @property
    def summary(self) -> Mapping[str, Any]:
        """Headline numbers, with the keys of ``archsim run --json``."""
        return self.document["summary"]

    @property
    def tables(self) -> dict[str, Rows]:
        """Tables by name, or by title where they have no name."""
        names = {title: name for name, title in TITLES.items()}
        found = {names.get(title, title): rows for title, rows in self.document["tables"].items()}
        flattened = [{"quantity": key, "value": value} for key, value in flat(self.summary).items()]
        return {"summary": flattened, **found}

    def frame(self, name: str) -> Any:
        """One table as a pandas frame, by name or title."""
        return super().frame({title: short for short, title in TITLES.items()}.get(name, name))

    def _shown(self) -> dict[str, Rows]:
        tables = self.tables
        return {"": summary_rows(self.summary)} | {TITLES[n]: tables[n] for n in ("latency", "phases") if n in tables}


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(Answer):
    """Why a run takes its time: ``insight``, ``path``, ``what_if``, ``roofline`` and, if asked for, ``sensitivity``."""

    headline = ("path", "what_if", "sensitivity")

    @property
    def tables(self) -> dict[str, Rows]:
        """Tables by name; those of the assumptions are ``assumptions.<answer>``."""
        assumed = self.document.get("assumptions", {})
        return super().tables | {f"assumptions.{answer}": rows for answer, rows in assumed.items()}

    @property
    def title(self) -> str:
        """What owns the time."""
        return " ".join(self.document["insight"])


@dataclass(frozen=True, eq=False, repr=False)
class Difference(Answer):
    """What makes two runs differ: ``summary``, ``time`` and ``energy``, per token or per run (``per``)."""

    headline = ("summary", "time", "energy")

    @property
    def title(self) -> str:
        """What is compared."""
        return f"run B against run A, per {self.document['per']}"


@dataclass(frozen=True, eq=False, repr=False)
class Replay(Answer):
    """A recorded run executed again: ``identical``, ``rows``, ``digest`` and the first ``difference``."""

    @property
    def identical(self) -> bool:
        """Whether every row, block and mark was met."""
        return bool(self.document["identical"])

    def __str__(self) -> str:
        if self.identical:
            return f"identical: {self.document['rows']:,} rows, digest {self.document['digest']}"
        return f"different: {self.document['difference']}"
