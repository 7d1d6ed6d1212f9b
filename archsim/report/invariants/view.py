"""The columns of a trace as the checks read them, and the error for an invariant that does not hold."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NoReturn

import numpy as np

from archsim.report.window import template_rows
from archsim.trace import Columns, Trace
from archsim.units import InputError


class InvariantError(Exception):
    """An invariant does not hold; the message names it and the first rows that violate it."""

    exit_code = 3


@dataclass(frozen=True)
class View:
    """One trace under check; rows are by ascending id, without gaps.

    Attributes
    ----------
    trace : Trace
        The trace.
    rows : Columns
        Its rows.
    """

    trace: Trace
    rows: Columns

    @classmethod
    def of(cls, trace: Trace) -> View:
        """View of a trace.

        Raises
        ------
        InvariantError
            When its row ids have gaps or come twice.
        """
        ids = trace.rows["row"]
        if (np.diff(ids) == 1).all() and ids[:1].sum() == 0:
            return cls(trace, trace.rows)
        order = np.argsort(ids, kind="stable")
        wrong = np.flatnonzero(ids[order] != np.arange(ids.size))
        if wrong.size:
            fail("cuts", f"row {ids[order][wrong[0]]} where row {wrong[0]} should be: ids have gaps or come twice")
        return cls(trace, {name: column[order] for name, column in trace.rows.items()})

    @cached_property
    def scripted(self) -> bool:
        """Whether the trace holds what was emitted, so that rows can be held against it."""
        return "script" in self.trace.tables and "script_rows" in self.trace.tables

    @cached_property
    def template(self) -> tuple[np.ndarray, np.ndarray]:
        """Line of each row in ``script_rows``, and the id of the first row of its block."""
        try:
            return template_rows(self.trace)
        except (KeyError, IndexError, ValueError) as error:
            raise InputError(f"the script of this trace cannot be read ({error}); run it again") from None

    def asked(self, name: str) -> np.ndarray:
        """Column of ``script_rows`` for each row of the trace."""
        return self.trace.tables["script_rows"][name][self.template[0]]

    @cached_property
    def ran(self) -> np.ndarray:
        """Whether each row ever started."""
        return self.rows["start_ps"] >= 0

    @cached_property
    def end_ps(self) -> np.ndarray:
        """End of each row that ran; the end of the run for those still running then; -1 for the others."""
        stopped = np.maximum(self.trace.duration_ps, self.rows["flow_ps"])  # a flow may be the last thing that happened
        return np.where(self.ran & (self.rows["end_ps"] < 0), stopped, self.rows["end_ps"])

    @cached_property
    def pool_coef(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """By pool, the rows that draw on it and their coefficients (2**-20 pool units per unit of work)."""
        found = []
        for pool in range(len(self.trace.manifest["pools"])):
            coef = np.zeros(len(self.rows["row"]), dtype=np.int64)
            for j in range(4):
                coef += np.where(self.asked(f"pool_{j}") == pool, self.asked(f"coef_{j}"), 0)
            drawn = np.flatnonzero(coef > 0)
            found.append((drawn, coef[drawn]))
        return found


def fail(invariant: str, text: str, more: int = 0) -> NoReturn:
    """Raise for the first violation of an invariant; `more`: how many others there are."""
    others = f" (and {more:,} more)" if more > 0 else ""
    raise InvariantError(f"invariant '{invariant}' does not hold: {text}{others}")


def first(bad: np.ndarray) -> tuple[int, int]:
    """Index of the first violation, and how many others there are."""
    where = np.flatnonzero(bad)
    return int(where[0]), len(where) - 1
