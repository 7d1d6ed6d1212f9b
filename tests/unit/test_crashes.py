"""What is killed when, and what is lost: whole results stay readable, others are told from them and made again.

A command runs in a process that strikes itself at a moment, so nothing hangs on how fast the machine is: at the n-th
emission of a block, table written, result kept, or file put in its place (every output is written beside its name and
then renamed). Disks are filled up to the last page.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from archsim.cli import run_cli
from archsim.config import InputError
from archsim.recorder import session
from archsim.trace.runfolder import read_run

RUN = ["run", "--system", "oneplus_12", "--schedule", "flash_ar", "--target", "smollm2-135m", "--tokens", "2"]
RUN += ["--stream", "recorded:exit_layers:25", "--set", "job.prompt_tokens=4", "-o", "out"]
FILES = {
    "base.yaml": "kind: run\nname: base\nsystem: oneplus_12\nschedule: {name: flash_ar}\n"
    "job: {target: smollm2-135m, stream: 'recorded:exit_layers:25', tokens: 2, prompt_tokens: 4}\n",
    "s.yaml": "kind: sweep\nname: s\nrun: base.yaml\naxes: {job.seed: [0, 1, 2, 3]}\n",
    "search.yaml": "kind: sweep\nname: search\nrun: base.yaml\nobjectives: {decode_tokens_per_s: max}\n"
    "axes: {system.flash.stream_bytes_per_s: {low: 2 GB/s, high: 3 GB/s}}\n",
    "desk.csv": "operator,shape,dtype,value,unit,device\nmatmul,1x1024x4096,Q4_0,107,us,cpu\n"
    "matmul,1x4096x4096,Q4_0,385,us,cpu\nmatmul,1x4096x14336,Q4_0,1330,us,cpu\n",
}
SWEEP = ["sweep", "s.yaml", "-o", "out"]
SEARCH = ["search", "search.yaml", "--trials", "4", "-o", "out"]
FIT = ["calibrate", "desk.csv", "--system", "oneplus_12", "--fit", "system.cpu.unpack_cycles_per_block"]
REPORTS = {
    "--html": (["report", "done", "--html", "made/page.html"], 1),
    "--export": (["report", "done", "--export", "made"], 2),
    "--perfetto": (["report", "done", "--perfetto", "made/trace.gz"], 1),
    "--figures": (["report", "done", "--figures", "made"], 2),
    "calibrate -o": ([*FIT, "-o", "made/mine.yaml"], 1),
}
SIGNALS = {"SIGKILL": signal.SIGKILL, "SIGTERM": signal.SIGTERM, "Ctrl-C": signal.SIGINT}
#: Exit codes and words of the signals that can be caught.
ENDS = {"SIGTERM": (143, "archsim: terminated\n"), "Ctrl-C": (130, "archsim: interrupted\n")}
#: Patches a moment into the process, then runs a command, or Python that follows.
CHILD = """
import json, os, signal, sys
moment, nth, number, args = json.loads(sys.argv[1])
here, seen = os.path.realpath(os.getcwd()) + os.sep, 0

def strike():
    global seen
    seen += 1
    if seen == nth:
        os.kill(os.getpid(), number)

def patch(owner, name, before=False):
    whole = getattr(owner, name)
    def patched(*args, **keys):
        ours = name != "replace" or os.path.realpath(os.fspath(args[1])).startswith(here)
        if ours and before:
            strike()
        made = whole(*args, **keys)
        if ours and not before:
            strike()
        return made
    setattr(owner, name, patched)

def half(self, key, result):
    with (self.folder / "points.jsonl").open("ab") as stream:
        stream.write(json.dumps({"key": key, "result": result})[:99].encode())
    os.kill(os.getpid(), number)

if moment.endswith("a rename"):
    patch(os, "replace", before=moment.startswith("before"))
elif moment == "a block is emitted":
    from archsim.engine.sim import Sim
    patch(Sim, "emit")
elif moment == "a table is written":
    from archsim.trace.runfolder import TraceWriter
    patch(TraceWriter, "_flush")
elif moment == "a result is kept":
    from archsim.sweep.store import Store
    patch(Store, "add")
elif moment == "half a result is written":
    from archsim.sweep.store import Store
    whole = Store.add
    Store.add = lambda self, *rest: half(self, *rest) if self.done else whole(self, *rest)
else:
    raise ValueError(moment)
if isinstance(args, str):
    exec(args)
else:
    from archsim.cli import main
    main(args)
"""


def struck(moment: str, nth: int, number: int, args: list[str] | str) -> tuple[int, str]:
    """Run a command that gets a signal at the n-th such moment; its code and what it said on stderr."""
    told = json.dumps([moment, nth, number, args])
    done = subprocess.run([sys.executable, "-c", CHILD, told], capture_output=True, text=True, timeout=900)
    return done.returncode, done.stderr


def archsim(*args: str) -> tuple[int, str, str]:
    """Run a command in this process, whose kernels are compiled."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run_cli(list(args))
    return code, out.getvalue(), err.getvalue()


def hidden(folder: str | Path = ".") -> list[str]:
    """Temporary files and locks below a folder."""
    return sorted(p.name for p in Path(folder).rglob("*") if p.name.endswith((".partial", ".lock")))


def lost(what: str, moment: str, number: str, words: str) -> None:
    """Print a row of the table of crashes."""
    print(f"| {what} | {moment} | {number} | {words} |")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with the files of `FILES`, in which the test runs."""
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        Path(name).write_text(text, encoding="utf-8")
    return tmp_path


# -- run ----------------------------------------------------------------------------------------------

RUN_MOMENTS = {
    "simulating": ("a block is emitted", 2),
    "first table written": ("a table is written", 1),
    "nothing renamed": ("before a rename", 1),
    "first table renamed": ("after a rename", 1),
    "all tables renamed": ("after a rename", 5),
}


def rescued_run(moment: str, name: str) -> None:
    """Strike a run; what is left is no run and says so, and the same command makes it whole."""
    code, said = struck(*RUN_MOMENTS[moment], SIGNALS[name], RUN)
    if name in ENDS:
        assert (code, said) == ENDS[name]
        assert not os.path.exists("out")
        lost("run", moment, name, "the run; no folder is left")
    else:
        assert code == -SIGNALS[name]
        code, _, said = archsim("report", "out")
        assert code == 2
        gone = not os.path.exists("out")
        assert ("no such folder" in said) if gone else ("no manifest.json: the run was interrupted" in said)
        with pytest.raises(InputError):
            read_run(Path("out"))
        lost("run", moment, name, "the run; " + ("no folder is left" if gone else "its folder is refused by name"))
    assert archsim(*RUN)[0] == 0
    assert archsim("replay", "out")[0] == 0
    assert hidden() == []


@pytest.mark.slow
@pytest.mark.parametrize("name", SIGNALS)
@pytest.mark.parametrize("moment", RUN_MOMENTS)
def test_a_run_is_struck(moment, name, place):
    rescued_run(moment, name)


def test_a_run_is_killed_between_its_files(place):
    rescued_run("first table renamed", "SIGKILL")


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["first table written", "all tables renamed"])
def test_a_run_over_an_older_one_is_killed(moment, place):
    """The older run of the same configuration stays until the new one is put in its place."""
    assert archsim(*RUN)[0] == 0
    assert struck(*RUN_MOMENTS[moment], signal.SIGKILL, RUN)[0] == -signal.SIGKILL
    whole = archsim("report", "out")[0] == 0
    assert whole == (moment == "first table written")
    lost("run over an older run", moment, "SIGKILL", "nothing: the older run stays" if whole else "both")
    assert archsim(*RUN)[0] == 0
    assert archsim("replay", "out")[0] == 0
    assert hidden() == []


# -- sweeps and searches ------------------------------------------------------------------------------

#: Moment, its number, and the results that are kept then.
SWEEP_MOMENTS = {
    "named, nothing run": ("after a rename", 1, 0),
    "second result kept": ("a result is kept", 2, 2),
    "half of the second result written": ("half a result is written", 1, 1),
    "one of two tables in place": ("after a rename", 2, 4),
}


def results() -> int:
    path = Path("out/points.jsonl")
    return path.read_bytes().count(b"\n") if path.exists() else 0


def tables(folder: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(Path(folder).glob("table.*"))}


@functools.cache
def never_struck(*args: str) -> dict[str, bytes]:
    """Tables of a command that runs through, in the folder of the first test that asks."""
    assert archsim(*args, "other")[0] == 0
    return tables("other")


@pytest.mark.slow
@pytest.mark.parametrize("name", SIGNALS)
@pytest.mark.parametrize("moment", SWEEP_MOMENTS)
@pytest.mark.parametrize("args", [SWEEP, SEARCH], ids=["sweep", "search"])
def test_a_sweep_is_struck(args, moment, name, place):
    """What was kept is kept, the same command runs the rest, and the tables are those of a sweep never struck."""
    at, nth, kept = SWEEP_MOMENTS[moment]
    code, said = struck(at, nth, SIGNALS[name], args)
    assert code == (ENDS[name][0] if name in ENDS else -SIGNALS[name])
    assert said == (ENDS[name][1] if name in ENDS else "")
    assert results() == kept
    assert name not in ENDS or hidden() == []
    again = archsim(*args, "--json")
    assert again[0] == 0, again
    found = json.loads(again[1])
    assert (found["reused"], found["ran"]) == (kept, 4 - kept)
    assert len(tables("out")) == 2
    assert tables("out") == never_struck(*args[:-1])
    assert hidden() == []
    lost(args[0], moment, name, f"{kept} of 4 results kept, the others run again; tables equal to the byte")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM"])
def test_the_workers_of_a_struck_sweep_end(name, place):
    Path("s.yaml").write_text(FILES["s.yaml"].replace("[0, 1, 2, 3]", "{low: 0, high: 999, steps: 1000}"))
    words = [sys.executable, "-m", "archsim", *SWEEP, "-j", "2"]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True) as child:
        until = time.monotonic() + 240
        while results() < 4 and time.monotonic() < until and child.poll() is None:
            time.sleep(0.05)
        child.send_signal(SIGNALS[name])
        child.wait(timeout=240)
    kept = results()
    assert 4 <= kept < 1000
    until = time.monotonic() + 120
    while time.monotonic() < until:
        try:
            os.killpg(child.pid, 0)
        except ProcessLookupError:
            break
        time.sleep(0.1)
    else:
        os.killpg(child.pid, signal.SIGKILL)
        pytest.fail("a worker outlives the sweep that started it")
    assert results() == kept  # workers write nothing: results are kept by the process that holds the folder's lock
    lost("sweep -j 2", "some results kept", name, f"all {kept} results kept; the workers end with it")


# -- reports and fits ---------------------------------------------------------------------------------


@pytest.fixture
def done(place):
    """A finished run and an empty folder to write into."""
    assert archsim(*RUN[:-1], "done")[0] == 0
    Path("made").mkdir()
    return place


def made() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(Path("made").iterdir()) if not path.name.startswith(".")}


@pytest.mark.slow
@pytest.mark.parametrize("name", SIGNALS)
@pytest.mark.parametrize("what", REPORTS)
def test_a_report_is_struck(what, name, done):
    """A file is there whole or not at all, and an older one stays until then; the run that is read is untouched."""
    args, nth = REPORTS[what]
    if nth == 1:
        Path(args[-1]).write_text("older")
        args = [*args, "--force"] if args[0] == "calibrate" else args
    code, said = struck("before a rename", nth, SIGNALS[name], args)
    assert code == (ENDS[name][0] if name in ENDS else -SIGNALS[name])
    assert said == (ENDS[name][1] if name in ENDS else "")
    found = made()
    assert name not in ENDS or hidden() == []
    again = archsim(*args)
    assert again[0] == 0, again
    whole = made()
    if nth == 1:
        assert found == {Path(args[args.index(what) + 1] if what in args else "made/mine.yaml").name: b"older"}
    else:
        assert len(found) == nth - 1 < len(whole)
        assert {file: whole[file] for file in found} == found
    assert hidden() == []
    assert archsim("replay", "done")[0] == 0
    kept = "the older file stays" if nth == 1 else f"{len(found)} of {len(whole)} files are there, whole"
    lost(f"report {what}" if args[0] == "report" else what, f"file {nth} written, not renamed", name, kept)


# -- recordings ---------------------------------------------------------------------------------------

#: A recording whose model is a table; which prompts it decodes is told on stdout.
RECORD = """
import sys, types
from pathlib import Path
from types import SimpleNamespace as Of

class Work:
    def __init__(self, plan, folder, progress):
        self.target = Of(name="table", licence="none")

    def prompts(self):
        return [Of(name=f"p{i}", kind="text", tokens=(1, 2, i)) for i in range(3)]

    def greedy(self, prompt):
        print(prompt.name)
        return [*prompt.tokens, 7]

    def recording(self, kind, prompts, outputs, keep):
        from archsim.recorder.session import lines
        return lines(outputs), {"records": 3, "requests": 3, "tokens": 12, "tokens_per_step": 1.0}

    def source(self, name, plan):
        return "a table"

sys.modules["archsim.recorder.work"] = fake = types.ModuleType("archsim.recorder.work")
fake.Work = Work
from archsim import recorder
recorder.work = fake
from archsim.recorder.session import Plan, record
record(Plan("table", what=("lookups",)), Path("out"))
"""
RECORD_MOMENTS = {"second part written, not renamed": ("before a rename", 3), "second part kept": ("after a rename", 3)}
RECORD_MOMENTS |= {"first of three files in place": ("after a rename", 5)}


@pytest.mark.parametrize("moment", RECORD_MOMENTS)
def test_a_recording_is_killed(moment, place):
    assert struck(*RECORD_MOMENTS[moment], signal.SIGKILL, RECORD)[0] == -signal.SIGKILL
    assert not Path("out", session.MANIFEST).exists()
    kept = len(list(Path("out", session.PARTS).glob("greedy-*.json")))
    assert kept == {"s": 1, "f": 3}[moment[0]] + (moment == "second part kept")
    again = subprocess.run([sys.executable, "-c", RECORD], capture_output=True, text=True, timeout=300)
    assert (again.returncode, again.stderr) == (0, "")
    assert again.stdout.split() == [f"p{i}" for i in range(kept, 3)]
    assert sorted(os.listdir("out")) == sorted(["lookups.jsonl", session.MANIFEST, session.PROMPTS])
    lost("record", moment, "SIGKILL", f"{kept} of 3 prompts kept, the others decoded again")


# -- full disks ---------------------------------------------------------------------------------------


@pytest.fixture
def disk(place):
    """A disk of its own, of 32 MiB, at ``made``; a function fills it up to a number of pages and empties it again."""
    at = place / "made"
    at.mkdir(exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", str(at)]
    try:
        tried = subprocess.run(mount, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("a small disk cannot be mounted here: there is no mount")
    if tried.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {tried.stderr.strip()}")
    ballast = at / ".ballast"

    def leave(pages: int | None) -> None:
        ballast.unlink(missing_ok=True)
        if pages is None:
            return
        free = os.statvfs(at).f_bavail * os.statvfs(at).f_frsize
        with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
            file.write(bytes(max(0, free - pages * 4096)))

    yield leave
    for _ in range(100):
        if not subprocess.run(["umount", str(at)], capture_output=True).returncode:
            break
        time.sleep(0.1)


FULL = "cannot be written: No space left on device\n"


@pytest.mark.parametrize("pages", [0, 6])
def test_a_disk_fills_up_under_a_run(pages, disk):
    args = [*RUN[:-1], "made/out"]
    disk(pages)
    code, out, err = archsim(*args)
    assert (code, out) == (2, "")
    assert err.endswith(FULL)
    assert os.listdir("made") == [".ballast"]
    disk(None)
    assert archsim(*args)[0] == 0
    lost("run", f"disk full but for {pages} pages", "full disk", "the run; one line, exit code 2, no folder is left")


@pytest.mark.slow
@pytest.mark.parametrize("args", [SWEEP, SEARCH], ids=["sweep", "search"])
def test_a_disk_fills_up_under_a_sweep(args, disk):
    args = [*args[:-1], "made/out"]
    Path("s.yaml").write_text(FILES["s.yaml"].replace("[0, 1, 2, 3]", "[0, 1, 2, 3, 4, 5, 6, 7]"))
    args = ["8" if word == "4" else word for word in args]
    disk(3)
    code, out, err = archsim(*args)
    assert (code, out) == (2, "")
    assert err.endswith(FULL)
    assert hidden("made") == []
    disk(None)
    again = archsim(*args, "--json")
    assert again[0] == 0, again
    found = json.loads(again[1])
    assert found["reused"] + found["ran"] == 8
    assert 1 <= found["reused"] < 8
    assert len(tables("made/out")) == 2
    lost(args[0], "disk full after some results", "full disk", f"{found['reused']} of 8 results kept, one line, code 2")


@pytest.mark.slow
@pytest.mark.parametrize("what", REPORTS)
def test_a_disk_fills_up_under_a_report(what, disk):
    assert archsim(*RUN[:-1], "done")[0] == 0
    args, nth = REPORTS[what]
    disk(0 if nth == 1 else 3)
    code, out, err = archsim(*args)
    assert (code, out) == (2, "")
    assert err.endswith(FULL)
    assert hidden("made") == []
    found = made()
    disk(None)
    assert archsim(*args)[0] == 0
    assert {file: made()[file] for file in found} == found
    lost(f"report {what}" if args[0] == "report" else what, "disk full", "full disk",
         f"one line, code 2; {len(found)} whole files are there, nothing half-written")  # fmt: skip


def test_a_disk_fills_up_under_a_recording(disk):
    parts = session._Parts(Path("made"), session.Plan("table"))
    disk(0)
    with pytest.raises(InputError, match="No space left on device"):
        parts.keep("greedy-0", lambda: list(range(9999)))
    assert sorted(os.listdir("made/.parts")) == ["plan.json"]
    disk(None)
    assert parts.keep("greedy-0", lambda: [1]) == [1]
    lost("record", "a prompt is kept", "full disk", "that prompt; one line, code 2, the parts before it are kept")
