"""Outcomes that print as short tables and give pandas frames, as those of runs do."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from archsim.report.answers import html_of, text_of, to_frame
from archsim.units import InputError, suggest


class Tabled:
    """An outcome with a plain document, of which lists of mappings are tables."""

    @abstractmethod
    def document(self) -> dict[str, Any]:
        """Plain data, as ``--json`` prints it."""

    def to_json(self) -> dict[str, Any]:
        """The same, by the name that results of runs have for it."""
        return self.document()

    @property
    @abstractmethod
    def title(self) -> str:
        """One line that says what it is."""

    @property
    def tables(self) -> dict[str, list[Mapping[str, Any]]]:
        """Tables by name."""
        document = self.document()
        return {name: rows for name, rows in document.items() if isinstance(rows, list) and rows}

    def frame(self, name: str = "rows") -> Any:
        """One table as a pandas frame.

        Raises
        ------
        InputError
            For a table that the outcome does not have.
        """
        tables = self.tables
        if name not in tables:
            raise InputError(f"no table {name!r}; {suggest(name, tables)}")
        return to_frame(tables[name])

    def __str__(self) -> str:
        return text_of(self.tables, self.title)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return html_of(self.tables, self.title)
