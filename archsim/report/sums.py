"""Sums over the rows of a trace, several of them in one pass over its parts.

A long trace is read part by part, and what a part's rows follow from (the operator and the block of each, what it
executed) takes longer to find than to add up. So each report keeps its sums in a class of its own, and a summary takes
all that it needs in one pass; a report by itself takes its own. Parts are added in order, so a sum is the same to the
last bit whatever else is taken beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from archsim.trace import Trace


class Sums(Protocol):
    """Sums of one kind, made for a whole trace."""

    def add(self, part: Trace) -> None:
        """Add the rows of a part."""


Kind = TypeVar("Kind", bound=Sums)
Found = TypeVar("Found")


def cached(trace: Trace, function: Callable[[Trace], Found]) -> Found:
    """``function(trace)``, computed once for as long as the trace lives."""
    kept = _kept(trace)
    if function not in kept:
        kept[function] = function(trace)
    found: Found = kept[function]
    return found


def sums(trace: Trace, kind: Callable[[Trace], Kind]) -> Kind:
    """Sums of one kind over a whole trace, taken once for as long as it lives."""
    take(trace, kind)
    found: Kind = _kept(trace)[kind]
    return found


def take(trace: Trace, *kinds: Callable[[Trace], Sums]) -> None:
    """Take sums of several kinds in one pass; those that are there already are left out."""
    kept = _kept(trace)
    fresh = {kind: kind(trace) for kind in kinds if kind not in kept}
    if fresh:
        for part in trace.parts():
            for each in fresh.values():
                each.add(part)
    kept |= fresh


def _kept(trace: Trace) -> dict[Any, Any]:
    found: dict[Any, Any] = vars(trace).setdefault("_kept", {})
    return found
