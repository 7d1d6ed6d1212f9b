"""What a sweep or a search gave: its tables as they are shown, and in words what went wrong in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from archsim.config import InputError, SweepSpec
from archsim.config.regular import read_regular
from archsim.sweep.store import MAX_SPEC_BYTES, SPEC
from archsim.units import suggest

if TYPE_CHECKING:
    from archsim.sweep.tables import Table

_HEADLINE = ("decode_tokens_per_s", "energy_per_token_j", "request_latency_s")
_BANDED = ("decode_tokens_per_s", "energy_per_token_j")
_NEAR = "indistinguishable from front"


@dataclass(frozen=True, repr=False)
class SweepResult:
    """A finished sweep or search; it prints as short tables, and :meth:`frame` gives all of it.

    Attributes
    ----------
    folder : Path
        Where everything is.
    rows : list of dict
        One entry per point, in order (see :mod:`archsim.sweep.tables`).
    means : list of dict
        Means over the repeated axes; empty where there are none.
    ran, reused, failed : int
        Points simulated now, points that had a result before, and points whose result is an error.
    units : Mapping[str, str]
        Units of the axes; those of results are told by their names.
    spec : SweepSpec, optional
        What was varied and optimised.
    note : str
        What else there is to say of how it went; empty where nothing.
    """

    folder: Path
    rows: list[dict[str, Any]]
    means: list[dict[str, Any]]
    ran: int
    reused: int
    failed: int
    units: Mapping[str, str] = field(default_factory=dict)
    spec: SweepSpec | None = None
    note: str = ""

    def frame(self, name: str = "rows") -> Any:
        """The ``rows`` or the ``means`` as a pandas frame; ``frame.attrs["units"]`` holds the units.

        Raises
        ------
        InputError
            For another name.
        """
        from archsim.report.answers import to_frame

        if name not in ("rows", "means"):
            raise InputError(f"no table {name!r}; {suggest(name, ('rows', 'means'))}")
        return to_frame(self.rows if name == "rows" else self.means, self.units)

    @property
    def front(self) -> list[dict[str, Any]]:
        """The Pareto front, of the means where axes are repeated, and what the bands cannot tell from it."""
        return [row for row in self.means or self.rows if row.get("pareto") or row.get("front") == _NEAR]

    @property
    def shown(self) -> list[dict[str, Any]]:
        """The Pareto front, or else the means, or else all points: axes, headline columns and their bands."""
        return self._short(self.front or self.means or self.rows)

    @property
    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """What is printed, by title: the front and the means, or all points where there is neither."""
        over = f"means over {', '.join(self.spec.repeat)}" if self.spec and self.spec.repeat else "means"
        found = {}
        if self.front:
            found[f"Pareto front of the {over}, with 95 % confidence" if self.means else "Pareto front"] = self.front
        if self.means:
            found[f"{over[0].upper()}{over[1:]}, with 95 % confidence"] = self.means
        return {title: _joined(self._short(rows)) for title, rows in (found or {"": self.rows}).items()}

    def _short(self, rows: Table) -> Table:
        names = list(self.rows[0])  # the axes stand between the point's number and its status
        axes = [name for name in names[: names.index("status")] if name != "point"]
        results = dict.fromkeys((*(self.spec.objectives if self.spec else ()), *_HEADLINE))
        keys = [*axes, "status", "front"]
        for name in results:
            keys += [name, f"{name}.ci95"]
        keys += ["n", *(f"{name}.{at}" for name in _BANDED for at in ("p10", "p90"))]
        return [{key: row[key] for key in keys if key in row} for row in rows]

    @property
    def title(self) -> str:
        """One line: points by how they came about, and where they are."""
        return f"{self.ran} points ran, {self.reused} reused, {self.failed} failed: {self.folder}"

    @property
    def failures(self) -> str:
        """How many points failed, the first reason, and where all reasons stand; empty where none failed."""
        if not self.failed:
            return ""
        first = next(row for row in self.rows if row["status"] == "failed")
        return (
            f"{self.failed} of {len(self.rows)} points failed; point {first['point']}: {first['error']} "
            f"(all reasons: column 'error' of {self.folder / 'table.csv'})"
        )

    @property
    def unmet(self) -> str:
        """That no point that ran meets the constraints, and the nearest value reached; empty where one does."""
        rows = self.means or self.rows
        ran = [row for row in rows if row["status"] != "failed"]
        if self.spec is None or not self.spec.constraints or not ran or any(row["status"] == "ok" for row in ran):
            return ""
        what = "mean" if self.means else "point"
        parts = []
        for name, bound in self.spec.constraints.items():
            known = [row[name] for row in ran if row.get(name) is not None]
            near = min(known, key=lambda value: _off(value, bound), default=None)
            words = " and ".join(
                f"{way} {at:g}" for way, at in (("min", bound.min), ("max", bound.max)) if at is not None
            )
            if near is None:
                parts.append(f"{name} ({words}) has no value in any")
            elif _off(near, bound) > 0:
                parts.append(f"{name} ({words}) comes nearest at {near:.4g}")
        together = parts or [f"each of {', '.join(self.spec.constraints)} is met by some, but never all by one"]
        return f"no {what} meets the constraints: {'; '.join(together)}"

    def __str__(self) -> str:
        from archsim.report.answers import text_of

        return text_of(self.tables, self.title)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        from archsim.report.answers import html_of

        return html_of(self.tables, self.title)


def _joined(rows: Table) -> Table:
    """Rows whose half-widths stand behind their means, in one column."""
    made = []
    for row in rows:
        entry = {name: value for name, value in row.items() if not name.endswith(".ci95")}
        for name in entry:
            if (half := row.get(f"{name}.ci95")) is not None:
                entry[name] = f"{row[name]:.4g} +- {half:.2g}"
        made.append(entry)
    return made


def _off(value: float, bound: Any) -> float:
    """How far a value is outside a bound; zero inside."""
    below = bound.min - value if bound.min is not None else 0.0
    above = value - bound.max if bound.max is not None else 0.0
    return float(max(below, above, 0.0))


def load_result(folder: Path) -> SweepResult:
    """A finished sweep or search from its folder.

    Raises
    ------
    InputError
        When it has no table yet, or is damaged.
    """
    from archsim.report.tables import read_table

    if not (folder / "table.parquet").exists():
        raise InputError(f"{folder}: the sweep has no table yet; run it again to finish it")
    rows = read_table(folder / "table.parquet")
    means = read_table(folder / "means.parquet") if (folder / "means.parquet").exists() else []
    spec = load_spec(folder)
    if not rows or any(name not in rows[0] for name in ("point", "status", "error")):
        raise InputError(f"{folder / 'table.parquet'}: is no table of a sweep")
    failed = sum(row["status"] == "failed" for row in rows)
    return SweepResult(folder, rows, means if spec.repeat else [], 0, len(rows), failed, {}, spec)


def load_spec(folder: Path) -> SweepSpec:
    """What a sweep's folder says that was varied.

    Raises
    ------
    InputError
        When the file is missing or damaged.
    """
    path = folder / SPEC
    try:
        data = json.loads(read_regular(path, MAX_SPEC_BYTES, "a sweep's description"))
        fields = {key: value for key, value in data.items() if key in SweepSpec.model_fields}
        return SweepSpec(**{**fields, "run": fields["run"] if isinstance(fields["run"], str) else "inline"})
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError, ValidationError):
        raise InputError(f"{path}: cannot be read; it is damaged or of another kind") from None
