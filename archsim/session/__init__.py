"""The verbs: load a run, simulate it, replay it, report on it, explain it.

These are what the command line and Python users call; everything below works on plain objects. Each is loaded on first
use: a run needs none of what reads runs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from archsim.session.loading import OPTIONS, build_job, load
    from archsim.session.reading import diff, explain, replay, report
    from archsim.session.running import RUNS, TRACE_MODES, Result, declare, run

__all__ = [
    "OPTIONS",
    "RUNS",
    "TRACE_MODES",
    "Result",
    "build_job",
    "declare",
    "diff",
    "explain",
    "load",
    "replay",
    "report",
    "run",
]

_HOMES = {
    **dict.fromkeys(("OPTIONS", "build_job", "load"), "archsim.session.loading"),
    **dict.fromkeys(("diff", "explain", "replay", "report"), "archsim.session.reading"),
    **dict.fromkeys(("RUNS", "TRACE_MODES", "Result", "declare", "run"), "archsim.session.running"),
}


def __dir__() -> list[str]:
    """Public names, loaded or not."""
    return sorted({*globals(), *_HOMES})


def __getattr__(name: str) -> Any:
    """Load a verb from its module on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module 'archsim.session' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value
