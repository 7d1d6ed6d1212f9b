"""Rows of a reproduction table, and its score."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, Literal

import numpy as np

Kind = Literal["fitted", "predicted", "ordering", "reported", "quoted", "excluded"]
Verdict = Literal["follows", "follows_if", "does_not_follow", "contradicts"]


@dataclass(frozen=True)
class Row:
    """One published figure.

    Attributes
    ----------
    id, source, unit : str
        Name of the cell, where it was published, and its unit.
    paper, simulated, null_model : float or None
        The published value, archsim's, and the null model's.
    kind : str
        ``predicted`` rows make the score; ``fitted`` ones say which number was fitted to them, in `why`.
    tolerance : float or None
        Largest relative error of an `ok` row (0: equal).
    verdict : str or None
        For claims: whether they follow from the hardware as listed.
    why : str
        Cause of a miss, or what the row rests on.
    storage : bool
        Whether the row rests on a storage rate that was fitted to speeds of the same phone.
    p10, p90 : float or None
        Band of the simulated value over the ranges of what is uncertain, where it was drawn.
    """

    id: str
    source: str
    unit: str
    paper: float | None
    simulated: float | None
    null_model: float | None = None
    kind: Kind = "predicted"
    tolerance: float | None = None
    verdict: Verdict | None = None
    why: str = ""
    storage: bool = False
    p10: float | None = None
    p90: float | None = None

    @property
    def inside(self) -> bool | None:
        """Whether the published value lies in the band; None where there is none."""
        if self.paper is None or self.p10 is None or self.p90 is None:
            return None
        return bool(self.p10 <= self.paper <= self.p90)

    @property
    def ratio(self) -> float | None:
        """Simulated over published."""
        if self.paper is None or self.simulated is None:
            return None
        return float(self.simulated / self.paper if self.paper else self.simulated == 0)

    @property
    def ok(self) -> bool | None:
        """Whether the row lies within its tolerance; None where it has none."""
        if self.tolerance is None or self.ratio is None:
            return None
        return bool(abs(self.ratio - 1) <= self.tolerance)

    def to_json(self) -> dict[str, Any]:
        """Plain dictionary, with ratio and ok."""
        plain = {key: value.item() if isinstance(value, np.generic) else value for key, value in asdict(self).items()}
        return {**plain, "ratio": self.ratio, "ok": self.ok, "inside": self.inside}


def score(rows: Sequence[Row]) -> dict[str, Any]:
    """Score over the predicted rows: how many lie within 10 % and 25 %, and the same for the null model.

    Returns
    -------
    dict
        ``predicted`` (number), ``ok``, ``within_10_percent``, ``within_25_percent``, ``median_error``, ``worst``
        (id), ``null_rows`` and ``null_within_10_percent``; ``without_storage_predicted`` and
        ``without_storage_within_10_percent`` leave out the rows that rest on a fitted storage rate. Of rows with a
        band, ``banded`` says how many, and ``inside`` how many published values lie in theirs.
    """
    bands = [row for row in rows if row.inside is not None]
    predicted = [row for row in rows if row.kind == "predicted" and row.ratio is not None]
    errors = {row.id: abs(row.ratio - 1) for row in predicted if row.ratio is not None}
    apart = [errors[row.id] for row in predicted if not row.storage]
    null = [abs(row.null_model / row.paper - 1) for row in predicted if row.null_model is not None and row.paper]
    return {
        "predicted": len(predicted),
        "ok": sum(row.ok is True for row in predicted),
        "within_10_percent": sum(error <= 0.10 for error in errors.values()),
        "within_25_percent": sum(error <= 0.25 for error in errors.values()),
        "without_storage_predicted": len(apart),
        "without_storage_within_10_percent": sum(error <= 0.10 for error in apart),
        "median_error": median(errors.values()) if errors else None,
        "worst": max(errors, key=lambda key: errors[key]) if errors else None,
        "null_rows": len(null),
        "null_within_10_percent": sum(error <= 0.10 for error in null),
        **({"banded": len(bands), "inside": sum(row.inside is True for row in bands)} if bands else {}),
    }


def shown(rows: Sequence[Row]) -> tuple[str, ...]:
    """Columns worth printing; those of bands only where there are any."""
    banded = ("p10", "p90", "inside", "why") if any(row.inside is not None for row in rows) else ()
    return ("id", "unit", "paper", "simulated", "null_model", "ratio", *banded, "kind", "ok")


def markdown(rows: Iterable[Row]) -> str:
    """Table in Markdown."""
    rows = list(rows)
    names = shown(rows)
    heads = {"id": "row", "paper": "published", "null_model": "null model"}
    lines = [f"| {' | '.join(heads.get(name, name) for name in names)} |", "|" + "---|" * len(names)]
    for row in rows:
        plain = row.to_json()
        lines.append(f"| {' | '.join(_cell(plain[name]) for name in names)} |")
    return "\n".join(lines)


def _cell(value: Any) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.5g}" if isinstance(value, (int, float)) else str(value)
