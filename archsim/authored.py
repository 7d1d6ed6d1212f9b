"""Mistakes in devices and schedules: where they are in their author's code, and what a method must return.

An exception that leaves a device or a schedule is one line for whoever wrote it: the innermost line of a user's file
(a module found by ``ARCHSIM_PATH``), or else of a module of ``archsim.devices`` or ``archsim.schedules``. With
``ARCHSIM_TRACEBACK`` set to anything but 0 the command line shows the whole traceback as well.
"""

from __future__ import annotations

import inspect
import os
import traceback
from collections.abc import Mapping
from typing import Any

from archsim.units import InputError

#: Environment variable that asks for whole tracebacks.
TRACEBACK = "ARCHSIM_TRACEBACK"
#: How the names of modules of a user's folder begin.
USER_MODULE = "archsim_user_"
_HOMES = ("archsim.devices.", "archsim.schedules.")


def wants_traceback() -> bool:
    """Whether whole tracebacks are asked for."""
    return os.environ.get(TRACEBACK, "") not in ("", "0")


def place_of(error: BaseException, *, user_only: bool = False) -> str:
    """``file:line`` of the innermost line of a device or schedule that an exception came through; empty for none.

    Parameters
    ----------
    error : BaseException
        An exception that was raised.
    user_only : bool
        Look in users' files alone.
    """
    frames = [(frame.f_globals.get("__name__", ""), frame, line) for frame, line in _frames(error)]
    for begin in ((USER_MODULE,), () if user_only else _HOMES):
        for name, frame, line in reversed(frames):
            if begin and name.startswith(begin):
                return f"{frame.f_code.co_filename}:{line}"
    return ""


def _frames(error: BaseException) -> list[tuple[Any, int]]:
    return list(traceback.walk_tb(error.__traceback__))


def mistake(error: BaseException) -> str:
    """One line for an exception out of a device or schedule: where, what, and what to do; empty for any other."""
    place = place_of(error) if isinstance(error, Exception) else ""
    if not place:
        return ""
    said = error.args[0] if isinstance(error, LookupError) and len(error.args) == 1 else error
    words = " ".join(str(said).split())
    more = "" if wants_traceback() else f"; mend it there ({TRACEBACK}=1 shows how it came to this)"
    return f"{place}: {type(error).__name__}{': ' if words else ''}{words}{more}"


def located(error: BaseException) -> str:
    """Message of a known error, with the line of the user's file that it came through, if any."""
    place = place_of(error, user_only=True)
    return f"{error} (from {place})" if place else str(error)


def defined_at(method: Any) -> str:
    """``file:line: name`` of a method or function."""
    code = getattr(inspect.unwrap(method), "__code__", None)
    name = getattr(method, "__qualname__", repr(method))
    return name if code is None else f"{code.co_filename}:{code.co_firstlineno}: {name}"


def mapping_of(method: Any, of: type, what: str, *arguments: Any) -> Mapping[str, Any]:
    """What a method returns for `arguments`, which must be a mapping of names to `of`.

    Raises
    ------
    InputError
        Naming the method, its file and line, and what it returned.
    """
    made = method(*arguments)
    if not isinstance(made, Mapping):
        raise InputError(f"{defined_at(method)} must return {what} by name, not {shown(made)}")
    for key, value in made.items():
        if not isinstance(key, str) or not isinstance(value, of):
            raise InputError(f"{defined_at(method)} must return {what} by name; under {shown(key)} is {shown(value)}")
    return made


def sequence_of(method: Any, of: type, what: str) -> list[Any] | tuple[Any, ...]:
    """What a method returns, which must be a list or tuple of `of`.

    Raises
    ------
    InputError
        Naming the method, its file and line, and what it returned.
    """
    made = method()
    if not isinstance(made, (list, tuple)) or not all(isinstance(item, of) for item in made):
        raise InputError(f"{defined_at(method)} must return a list of {what}, not {shown(made)}")
    return made


def shown(value: Any) -> str:
    """A value as it stands in an error: on one line, shortened."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:57] + "..."
