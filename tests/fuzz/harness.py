"""One case: a command line in a folder of its own with some files, and what must hold however it ends.

The command runs in this process through :func:`archsim.cli.run_cli`, under an alarm. Whatever the input:

- the exit code is 0, 2 or 3, and 2 and 3 come with one line on stderr (``check``: one a problem) and nothing on stdout;
- no exception leaves, nothing outlives its time, and an interrupt is answered;
- after a refusal the folder is as it was, and never is there a temporary file or a lock left in it;
- ``--json`` prints one JSON document that any reader takes (no ``NaN``).
"""

from __future__ import annotations

import contextlib
import faulthandler
import io
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from archsim.cli import run_cli

#: CPU seconds that a case may take before it is interrupted, seconds by the clock (the machine may have other work, and
#: a case may wait), and how often it may be interrupted before it counts as hanging.
BOUND_CPU_S = 10.0
BOUND_S = 120.0
PATIENCE = 3
#: Seconds until an interrupt that was lost comes again.
AGAIN_S = 0.05
#: Seconds without an answer after which the process ends, with its stack on stderr: a kernel that never returns.
STUCK_S = 300


@dataclass(frozen=True)
class Case:
    """A command line and the files it finds.

    Attributes
    ----------
    args : tuple of str
        The command line.
    files : dict of str to bytes
        Files in the current folder, by relative path.
    specials : tuple of str
        Names of what else lies there: ``fifo``, ``loop``, ``dangling``, ``zero`` (a link to a device), ``outside``.
    works : bool
        Whether the command may have real work to do, so that its time running out says nothing.
    """

    args: tuple[str, ...]
    files: Mapping[str, bytes] = field(default_factory=dict)
    specials: tuple[str, ...] = ()
    works: bool = False

    def __repr__(self) -> str:
        sizes = {name: f"{len(data)} bytes" if len(data) > 300 else data for name, data in self.files.items()}
        return f"Case({self.args!r}, {sizes}, {self.specials})"


@dataclass(frozen=True)
class Outcome:
    """How a case ended: code and words, wall and CPU time, interrupts, and the folder before and after."""

    code: int
    out: str
    err: str
    seconds: float
    cpu_s: float
    interrupted: int
    before: dict[str, Any]
    after: dict[str, Any]


class Interrupt(KeyboardInterrupt):
    """What the alarm raises."""


class Hang(BaseException):
    """Raised where interrupts are not answered."""


@contextlib.contextmanager
def alarm(cpu_s: float = BOUND_CPU_S, wall_s: float = BOUND_S) -> Iterator[list[int]]:
    """Interrupt the block every `cpu_s` and every `wall_s`; yields the list of interrupts.

    One that falls into a finaliser or the callback of a weak reference is lost to the block, as Python lets nothing
    out of these: it does not count, and comes again at once.
    """
    rung: list[int] = []
    shown = sys.unraisablehook

    def ring(number: int, _: object) -> None:
        rung.append(number)
        raise Hang if len(rung) > PATIENCE else Interrupt

    def lost(unraisable: Any) -> None:
        if not issubclass(unraisable.exc_type, Interrupt | Hang):
            shown(unraisable)
        elif rung:
            rung.pop()
            signal.setitimer(signal.ITIMER_REAL, AGAIN_S, wall_s)

    timers = {signal.SIGALRM: (signal.ITIMER_REAL, wall_s), signal.SIGPROF: (signal.ITIMER_PROF, cpu_s)}
    before = {number: signal.signal(number, ring) for number in timers}
    sys.unraisablehook = lost
    for timer, seconds in timers.values():
        signal.setitimer(timer, seconds, seconds)
    try:
        yield rung
    finally:
        for timer, _ in timers.values():
            signal.setitimer(timer, 0)
        for number, handler in before.items():
            signal.signal(number, handler)
        sys.unraisablehook = shown


def tree(folder: Path) -> dict[str, Any]:
    """What lies in a folder: size and time of each file, by path."""
    found: dict[str, Any] = {}
    for at, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = os.path.join(at, name)
            facts = os.lstat(path)
            found[os.path.relpath(path, folder)] = None if name in folders else (facts.st_size, facts.st_mtime_ns)
    return found


def lay_out(folder: Path, case: Case) -> None:
    """Make the folder of a case."""
    folder.mkdir(parents=True)
    for name, data in case.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    for special in case.specials:
        if special == "fifo":
            os.mkfifo(folder / "fifo")
        else:
            target = {"loop": "loop", "dangling": "nowhere", "zero": "/dev/zero", "outside": "/etc/passwd"}[special]
            (folder / special).symlink_to(target)


def call(case: Case, folder: Path) -> Outcome:
    """Run a case in a fresh `folder`, which is removed afterwards."""
    shutil.rmtree(folder, ignore_errors=True)
    lay_out(folder, case)
    before, here = tree(folder), Path.cwd()
    out, err = io.StringIO(), io.StringIO()
    os.chdir(folder)
    faulthandler.dump_traceback_later(STUCK_S, exit=True, file=sys.__stderr__)
    began, busy = time.perf_counter(), time.process_time()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), alarm() as rung:
            code = run_cli(list(case.args))
        seconds, cpu_s = time.perf_counter() - began, time.process_time() - busy
        return Outcome(code, out.getvalue(), err.getvalue(), seconds, cpu_s, len(rung), before, tree(folder))
    finally:
        faulthandler.cancel_dump_traceback_later()
        os.chdir(here)
        shutil.rmtree(folder, ignore_errors=True)


def verdict(case: Case, outcome: Outcome) -> str:
    """What is wrong with the end of a case; empty when nothing is."""
    code, out, err = outcome.code, outcome.out, outcome.err
    left = [name for name in outcome.after if name.endswith((".partial", ".lock")) and name not in outcome.before]
    if left:
        return f"left behind: {left}"
    if outcome.interrupted:
        return (
            ""
            if case.works and code == 130
            else f"took {outcome.cpu_s:.0f} s of CPU, {outcome.seconds:.0f} s in all (code {code}): {err}"
        )
    if code not in (0, 2, 3):
        return f"exit code {code}: {err}"
    if "Traceback" in out + err:
        return "a traceback is shown"
    if code == 0:
        return _json_fault(out) if "--json" in case.args else ""
    if outcome.after != outcome.before:
        changed = [name for name in outcome.after if outcome.after[name] != outcome.before.get(name, 0)]
        return f"refused, but changed {changed or sorted(set(outcome.before) - set(outcome.after))}: {err}"
    return _words_fault(case, outcome)


def _words_fault(case: Case, outcome: Outcome) -> str:
    """What is wrong with the words of a refusal."""
    lines = outcome.err.splitlines()
    if lines and lines[0].startswith("Usage:"):  # a group without a command prints its help
        return ""
    told = case.args[0] in ("check", "replay")  # they print what they found, and end in 2 or 3 by it
    if told and outcome.out:
        return ""
    if outcome.out:
        return f"refused, but printed {outcome.out[:200]!r}"
    if not lines or any(not line.startswith("archsim: ") for line in lines) or (len(lines) > 1 and not told):
        return f"a refusal of {len(lines)} lines: {outcome.err[:400]!r}"
    if len(outcome.err) > 4000:
        return f"a line of {len(outcome.err)} characters"
    return ""


def _json_fault(out: str) -> str:
    def refuse(name: str) -> None:
        raise ValueError(f"{name} is no JSON")

    try:
        json.loads(out, parse_constant=refuse)
    except ValueError as error:
        return f"--json: {error}: {out[:200]!r}"
    return ""
