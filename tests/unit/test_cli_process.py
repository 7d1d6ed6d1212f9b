"""The command line as a process: broken streams, full disks and interrupts end in one line and the right code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

ARCHSIM = [sys.executable, "-m", "archsim"]
RUN = ["run", "--system", "oneplus_12", "--schedule", "flash_ar", "--target", "smollm2-135m", "--tokens", "4"]
RUN += ["--stream", "recorded:exit_layers:25"]


def shell(command: str, cwd=None) -> tuple[int, str, str]:
    """Run a shell command in which ``archsim`` is this archsim; its code, stdout and stderr."""
    text = command.replace("archsim", f"{sys.executable} -m archsim")
    done = subprocess.run(["bash", "-c", text], capture_output=True, text=True, cwd=cwd, timeout=120)
    return done.returncode, done.stdout, done.stderr


def slow(*values):
    """A case of the slow run: each is a process, and the default run has others of its kind."""
    return pytest.param(*values, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    "command", [slow("list systems"), "list systems --json", "show system oneplus_12", slow("--help")]
)
def test_a_full_stdout_is_one_line_and_2(command):
    code, _, err = shell(f"archsim {command} > /dev/full")
    assert (code, err) == (2, "archsim: cannot write: No space left on device\n")


def test_a_closed_stdout_is_one_line_and_2(tmp_path):
    code, _, err = shell(f"archsim {' '.join(RUN)} >&-", tmp_path)
    assert (code, err) == (2, "archsim: the standard output is closed\n")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("stderr", "command", "expected"),
    [
        ("2>/dev/full", "list systems", 0),
        ("2>&-", "list systems", 0),
        slow("2>/dev/full", "show system nope", 2),
        ("2>&-", "show system nope", 2),
        ("2>/dev/full", "check nope.yaml", 2),
        slow("2>&-", "check nope.yaml", 2),
        slow("2>/dev/full", "nope", 2),
        ("2>&-", "nope", 2),
        ("2>/dev/full", "", 2),
        slow("2>&-", "", 2),
    ],
)
def test_a_broken_stderr_keeps_the_code(stderr, command, expected):
    assert shell(f"archsim {command} {stderr}")[0] == expected


@pytest.mark.parametrize(
    "command", ["list systems", slow("list streams"), "show system oneplus_12 --sources", slow("--help")]
)
def test_a_closed_pipe_is_fine(command):
    code, _, err = shell(f"archsim {command} | true; exit ${{PIPESTATUS[0]}}")
    assert (code, err) == (0, "")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Folder that holds a finished run; the kernels are compiled by then, so nothing else is written."""
    path = tmp_path_factory.mktemp("runs")
    assert shell(f"archsim {' '.join(RUN)} -o run", path)[0] == 0
    assert shell(f"archsim report run --figures {tmp_path_factory.mktemp('figures')}", path)[0] == 0
    return path


def test_a_full_disk_leaves_no_run(folder, tmp_path):
    code, out, err = shell(f"ulimit -f 1; archsim {' '.join(RUN)} -o a/b", tmp_path)
    assert (code, out) == (2, "")
    assert err == "archsim: a/b: cannot be written: File too large\n"
    assert os.listdir(tmp_path) == []


def test_a_full_disk_leaves_no_report(folder):
    code, _, err = shell("ulimit -f 1; archsim report run --figures figures", folder)
    assert (code, err) == (2, "archsim: figures/timeline.svg: cannot be written: File too large\n")
    code, _, err = shell("ulimit -f 1; archsim report run --perfetto x", folder)
    assert (code, err) == (2, "archsim: x: cannot be written: File too large\n")
    assert os.listdir(folder) == ["run"]


@pytest.mark.slow
def test_kernels_that_cannot_be_kept_are_one_line(tmp_path):
    cache = tmp_path / "kernels"
    # Python itself would leave a byte code file cut short here, which stops the next start
    setting = f"export ARCHSIM_CACHE={cache} PYTHONDONTWRITEBYTECODE=1"
    code, out, err = shell(f"{setting}; ulimit -f 1; archsim {' '.join(RUN)} -o a/b", tmp_path)
    assert (code, out) == (2, "")
    assert err.startswith(f"archsim: {cache}/")
    assert err.endswith("compiled kernels cannot be kept: File too large; ARCHSIM_CACHE takes another folder\n")
    assert err.count("\n") == 1
    assert os.listdir(tmp_path) == ["kernels"]
    assert not [name for _, _, names in os.walk(cache) for name in names if name.endswith(".nbc")]


def interrupted_after(seconds: float, args: list[str], cwd) -> tuple[int, str]:
    with subprocess.Popen([*ARCHSIM, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=cwd) as process:
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
    return process.returncode, err.decode()


@pytest.mark.parametrize("seconds", [0.3, 0.5, 0.8, 1.2, 2.0])
def test_an_interrupt_is_one_line_and_130(seconds, tmp_path):
    args = [*RUN[:5], "--target", "llama-3.1-8b", "--stream", "synthetic:llama-3.1-8b:gsm8k", "--tokens", "1000"]
    args += ["--prompts", "1000"]
    assert interrupted_after(seconds, args, tmp_path) == (130, "archsim: interrupted\n")
    assert os.listdir(tmp_path) == []


def test_an_interrupt_during_imports(tmp_path):
    """The very first import of a command meets the interrupt."""
    code = (
        "import os, signal, sys\n"
        "class Meet:\n"
        "    def find_spec(self, name, *rest):\n"
        "        if name == sys.argv[1]:\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Meet())\n"
        "from archsim.cli import main\n"
        "main(['list', 'systems'])\n"
    )
    for module in ("archsim.commands", "typer", "archsim.catalogue", "pydantic", "numpy"):
        done = subprocess.run([sys.executable, "-c", code, module], capture_output=True, text=True, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (130, "archsim: interrupted\n"), module


def test_an_interrupt_inside_an_exec():
    """The interpreter notes such an interrupt and would end by signal although it was handled."""
    code = (
        "import os, signal, typer\n"
        "from archsim import cli, commands\n"
        "commands.invoke = lambda args: exec('os.kill(os.getpid(), signal.SIGINT)')\n"
        "cli.main([])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "archsim: interrupted\n")


def test_an_interrupt_while_saving_leaves_no_folder(tmp_path):
    code = (
        "import os, signal, sys\n"
        "from archsim.trace import runfolder\n"
        "flush = runfolder.TraceWriter._flush\n"
        "def slow(self, table):\n"
        "    flush(self, table)\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "runfolder.TraceWriter._flush = slow\n"
        "from archsim.cli import main\n"
        f"main({[*RUN, '-o', 'a/b']!r})\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (130, "archsim: interrupted\n")
    assert os.listdir(tmp_path) == []


def test_interrupts_that_the_parent_ignores_stay_ignored(tmp_path):
    code, out, _ = shell("trap '' INT; archsim list systems & p=$!; sleep 0.3; kill -INT $p; wait $p", tmp_path)
    assert code == 0
    assert "oneplus_12" in out


def test_two_runs_at_once_into_one_folder(tmp_path):
    """Whichever comes second is told; the folder holds one whole run."""
    results = {}

    def start(tokens: str) -> None:
        results[tokens] = shell(f"archsim {' '.join(RUN[:-4])} --tokens {tokens} {' '.join(RUN[-2:])} -o run", tmp_path)

    threads = [threading.Thread(target=start, args=(tokens,)) for tokens in ("4", "5")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(code for code, _, _ in results.values()) == [0, 2]
    [error] = [err for code, _, err in results.values() if code]
    assert error.count("\n") == 1
    assert "another configuration" in error or "another archsim is writing" in error
    assert shell("archsim replay run", tmp_path)[0] == 0
