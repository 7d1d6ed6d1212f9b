"""One point: what a worker process does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from archsim.authored import located, mistake
from archsim.config import Override
from archsim.engine.errors import SimError
from archsim.units import DiskError, InputError

#: Results that differ from run to run, or whose names do (what lies in DRAM, by tensor); they are not part of a table.
VOLATILE = ("cpu_s", "footprint_bytes")

#: Errors of a point that came from no device or schedule.
_FAILURES = (ArithmeticError, ValueError, LookupError, TypeError, AssertionError, MemoryError)


def overrides(fixed: Mapping[str, Any], point: Mapping[str, Any]) -> list[Override]:
    """Overrides of a point."""
    return [
        Override(path, value, f"{where}.{path}")
        for where, values in (("set", fixed), ("axes", point))
        for path, value in values.items()
    ]


def resolve(run: Any, fixed: Mapping[str, Any], point: Mapping[str, Any]) -> Any:
    """Resolved run of a point."""
    from archsim.session import load

    return load(run, sets=overrides(fixed, point))


def simulate(run: Any, fixed: Mapping[str, Any], point: Mapping[str, Any]) -> dict[str, Any]:
    """Run one point and return its results; an error of the point is a result too.

    Returns
    -------
    dict
        ``status`` (``ok`` or ``failed``), ``error``, and with ``ok`` the summary's numbers, nested ones by dotted name.
    """
    from archsim.session import run as simulate_run

    def work() -> dict[str, Any]:
        return {"status": "ok", "error": "", **flat(simulate_run(resolve(run, fixed, point), trace="off").summary)}

    return attempt(work)


def attempt(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What `work` returns, or the error that it ends in as a result."""
    try:
        return work()
    except DiskError:  # of this machine, not of the point: it is tried again when there is room
        raise
    except (InputError, SimError) as error:
        return {"status": "failed", "error": located(error) if isinstance(error, SimError) else str(error)}
    except Exception as error:
        words = mistake(error)
        if not words and not isinstance(error, _FAILURES):
            raise
        return {"status": "failed", "error": words or f"{type(error).__name__}: {error}"}


def flat(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers of a summary, nested ones as ``outer.inner``; what differs between equal runs is left out."""
    found: dict[str, Any] = {}
    for key, value in summary.items():
        if key in VOLATILE:
            continue
        if isinstance(value, Mapping):
            found |= {f"{key}.{inner}": v for inner, v in flat(value).items()}
        elif value is None or isinstance(value, (int, float, str, bool)):
            found[key] = value
    return found
