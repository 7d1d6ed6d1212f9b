"""The verbs: load a run, simulate it, replay it, report on it, explain it.

These are what the command line and Python users call; everything below works on plain objects.
"""

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
