"""Invariants of a finished run: what every trace must keep, whatever was simulated.

Only the trace is read, so a run that was written long ago, or by another version, is held to the same rules.

========= =============================================================================================================
times     a row's emission, start, flow and end do not go backwards; nothing ends after the run; a lead lasts as long as
          it says; marks are in order
cuts      a row that was done did all its work; one that never started did none; a block's rows and status agree
units     a unit runs one row at a time, and an exclusive claim on a pool is held by one row at a time
order     no row starts before its predecessors, in its block and in the blocks it waits for, have ended; what depends
          on a cut row is cut
bytes     what the rows asked of each pool is what it served and what was left when rows were cut; weights crossed a
          pool or a capped link, and nothing was computed in no time
pools     no row, and no group of rows, was served faster than the pools allow under the mix of their streams
stores    levels stay within their stores, and what was only borrowed is back at the end
tokens    tokens committed, the marks of the requests' ends and the summary agree; no more is accepted than was drafted
energy    energy by rows, by actions and by phases add up to that of the summary
========= =============================================================================================================

A run kept with ``--trace full`` is also held against its log of pool use and of levels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from archsim.report.invariants.ledgers import check_energy, check_tokens
from archsim.report.invariants.moved import check_moved
from archsim.report.invariants.order import check_order
from archsim.report.invariants.stock import check_stores
from archsim.report.invariants.supply import Supplied, check_bytes, check_pools
from archsim.report.invariants.times import check_cuts, check_times, check_units
from archsim.report.invariants.view import InvariantError, View
from archsim.trace import Trace

__all__ = ["Checks", "InvariantError", "Supplied", "check_trace"]


@dataclass(frozen=True)
class Checks:
    """What was checked in a trace in which every invariant holds.

    Attributes
    ----------
    counts : Mapping[str, int]
        Comparisons made, by invariant.
    pools : Mapping[str, Supplied]
        Ledger of each pool (asked = served + left).
    skipped : Mapping[str, str]
        Invariants that this trace does not hold the data for, and why.
    """

    counts: Mapping[str, int]
    pools: Mapping[str, Supplied]
    skipped: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        """Plain data: ``counts``, ``pools`` with units in the keys, and ``skipped``."""
        return {
            "counts": dict(self.counts),
            "pools": {name: entry.to_json() for name, entry in self.pools.items()},
            "skipped": dict(self.skipped),
        }


def check_trace(trace: Trace, summary: Mapping[str, Any] | None = None) -> Checks:
    """Check every invariant of a finished trace.

    Parameters
    ----------
    trace : Trace
        Columns and manifest.
    summary : Mapping, optional
        Headline numbers that were reported of it; made anew from the trace by default.

    Returns
    -------
    Checks

    Raises
    ------
    InvariantError
        For the first invariant that does not hold, in one line that names it and the first rows that violate it.
    """
    from archsim.report.summary import summarise

    view = View.of(trace)
    counts = {"times": check_times(view), "cuts": check_cuts(view), "units": check_units(view)}
    pools: dict[str, Supplied] = {}
    skipped = {}
    if view.scripted:
        counts["order"] = check_order(view)
        counts["bytes"], pools = check_bytes(view)
        counts["bytes"] += check_moved(view)
        counts["pools"] = check_pools(view)
        counts["stores"] = check_stores(view)
    else:
        skipped = dict.fromkeys(("order", "bytes", "pools", "stores"), "the trace was kept without its script")
    reported = summarise(trace) if summary is None else summary
    counts["tokens"] = check_tokens(view, reported)
    counts["energy"] = check_energy(view, reported)
    return Checks(counts, pools, skipped)
