"""The door of the command line: streams, interrupts, errors and exit codes.

Exit codes: 0 ok, 2 bad input or a full disk (one line on stderr), 3 the simulation failed, a device or schedule
raised, or there is not enough memory (one line; with ARCHSIM_TRACEBACK=1 the traceback as well), 130 interrupted, 143
terminated (SIGTERM; what an interrupt cleans up is cleaned up too).
The commands themselves are in :mod:`archsim.commands`, which is imported only once an interrupt is provided for.
"""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
import threading
import traceback
from contextlib import suppress
from typing import Any, NoReturn

#: What is said of each signal, and the exit code.
_ENDED = {signal.SIGINT: ("interrupted", 130), signal.SIGTERM: ("terminated", 143)}
_PATIENCE = 3  # at this many interrupts the process ends at once, whatever it is cleaning up

#: New objects between two rounds of garbage collection.
_GARBAGE = 50_000

_LONGEST = 1000  # characters of a message of the option parser

_REPEAT_S = 3.0  # longer than any cleaning up takes

_interrupts = 0
_received: int = signal.SIGINT  # what interrupted first


def main(args: list[str] | None = None) -> NoReturn:
    """Run the command line and exit with the documented code.

    Without `args` the process is the command's own. It collects garbage less often (a run makes little), and at the end
    leaves without taking the libraries apart, which would last as long as a small run.
    """
    own = args is None
    if own:
        gc.set_threshold(_GARBAGE)
        os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # it would look through all installed packages
    try:
        _watch()
        _prepare_streams()
        code = 2 if sys.stdout is None else run_cli(sys.argv[1:] if args is None else args)
        if sys.stdout is None:
            say("the standard output is closed")
    except KeyboardInterrupt:
        code = _interrupted()
    with suppress(ValueError):  # not the main thread
        for number in _ENDED:
            signal.signal(number, signal.SIG_IGN)  # the outcome is settled
    for stream in (sys.stdout, sys.stderr):
        _settle(stream)
    alone = all(thread is threading.main_thread() or thread.daemon for thread in threading.enumerate())
    if _interrupts or (own and alone):
        # An interrupt that met an `exec` (dataclasses use it) would end the interpreter by signal, handled or not.
        atexit._run_exitfuncs()
        os._exit(code)
    sys.exit(code)


def run_cli(args: list[str]) -> int:
    """Run one command; return its exit code instead of raising."""
    global _interrupts, _received
    _interrupts, _received = 0, signal.SIGINT
    try:
        from archsim.commands import invoke

        code = invoke(args)
        sys.stdout.flush()
    except BaseException as error:
        return _explain(error)
    return _interrupted() if _interrupts else code


def say(message: str) -> None:
    """Write one line to stderr, if anybody listens."""
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write("archsim: " + " ".join(message.split()) + "\n")


def print_json(document: Any) -> None:
    """Write one JSON document to stdout; an answer is what its ``to_json`` gives."""
    import json

    plain = document.to_json() if hasattr(document, "to_json") else document
    sys.stdout.write(json.dumps(plain, indent=2, allow_nan=False) + "\n")


def _explain(error: BaseException) -> int:
    """Turn a known error, or a mistake in a device or schedule, into one line and its exit code; re-raise the rest."""
    name = type(error).__name__
    if isinstance(error, KeyboardInterrupt) or name == "Abort" or _interrupts:  # an import may turn one into the other
        return _interrupted()
    if isinstance(error, BrokenPipeError):
        return 0
    if name == "NoArgsIsHelpError":
        with suppress(OSError, ValueError, AttributeError):
            sys.stderr.write(error.format_message() + "\n")
        return 2
    if hasattr(error, "format_message") and hasattr(error, "exit_code"):  # the option parser's own errors
        words = error.format_message()  # it quotes what it was given, whatever its length
        return _fail(words if len(words) <= _LONGEST else words[:_LONGEST] + "...", 2)
    if isinstance(error, MemoryError):
        return _fail("not enough memory for this; lower the sizes it asks for", 3)
    if isinstance(error, OSError):
        words = os.strerror(error.errno) if error.errno else str(error)
        if _caching(error):
            folder = os.environ.get("NUMBA_CACHE_DIR", "")
            return _fail(f"{folder}: compiled kernels cannot be kept: {words}; ARCHSIM_CACHE takes another folder", 2)
        return _fail(f"{error.filename}: {words}" if error.filename is not None else f"cannot write: {words}", 2)
    from archsim.authored import located, mistake, wants_traceback
    from archsim.config import InputError

    if wants_traceback():
        with suppress(OSError, ValueError, AttributeError):
            traceback.print_exception(error, file=sys.stderr)
    if isinstance(error, InputError):
        return _fail(str(error), 2)
    if getattr(error, "exit_code", None) == 3:  # a simulation that failed
        return _fail(located(error), 3)
    words = mistake(error)
    if words:
        return _fail(words, 3)
    raise error


def _caching(error: BaseException) -> bool:
    """Whether an error came while a compiled kernel was written to the cache."""
    frames = traceback.walk_tb(error.__traceback__)
    return any(frame.f_globals.get("__name__") == "numba.core.caching" for frame, _ in frames)


def _fail(message: str, code: int) -> int:
    say(message)
    return code


def _interrupted() -> int:
    with suppress(ValueError):  # not the main thread
        signal.setitimer(signal.ITIMER_REAL, 0)
    return _fail(*_ENDED[_received])


def _watch() -> None:
    """Take interrupts from now on, unless whoever started the process wants them ignored."""
    with suppress(ValueError):  # not the main thread
        if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
            signal.signal(signal.SIGINT, _interrupt)
        if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            signal.signal(signal.SIGTERM, _interrupt)
    shown = sys.unraisablehook

    def hook(unraisable: Any) -> None:
        if not issubclass(unraisable.exc_type, KeyboardInterrupt):
            shown(unraisable)

    sys.unraisablehook = hook


def _interrupt(number: int, _: object) -> None:
    """Raise at the first interrupt, let the cleaning up finish at the next, end at once when it is too many."""
    global _interrupts, _received
    _interrupts += 1
    if _interrupts == 1:
        _received = number
        # Should something swallow it (an import hook, a finaliser), it comes again until it gets through.
        signal.signal(signal.SIGALRM, _again)
        signal.setitimer(signal.ITIMER_REAL, _REPEAT_S, _REPEAT_S)
        raise KeyboardInterrupt
    if _interrupts >= _PATIENCE:
        os._exit(_interrupted())


def _again(*_: object) -> None:
    raise KeyboardInterrupt


def _prepare_streams() -> None:
    """Open what is closed, so that no file of a run takes its number; let any text be written."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number: this one
    if sys.stdout is not None and hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")


def _settle(stream: Any) -> None:
    """Flush a stream; one that cannot be flushed is pointed elsewhere, as it would change the exit code at the end."""
    if stream is None:
        return
    try:
        stream.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, stream.fileno())
            os.close(null)
