"""Mistakes in a user's own device or schedule are one line with the file and line to correct, and end."""

import pytest

from archsim import registry
from archsim.cli import run_cli
from archsim.scaffold import new
from archsim.sweep.work import simulate
from archsim.workload import progress

DEVICE = ["--system", "mobile_gpu", "--schedule", "resident_ar", "--set", "system.gpu=own"]
SCHEDULE = ["--system", "oneplus_12", "--schedule", "own"]
JOB = ["--target", "smollm2-135m", "--stream", "recorded:exit_layers:25", "--tokens", "2", "--set"]
JOB += ["job.prompt_tokens=4", "--trace", "off"]
LOWER = "        return build_rows(ops, plan, counts, self._actions, self._pools)\n"
VERIFY = 'job.emit("target", "verify"'
DRAFT = 'job.emit("draft", "draft", steps=drafted, after=last)'
COMMIT = "                job.commit(accepted=job.accepted(drafted), drafted=drafted, step=step, drafts=last)\n"
PASS = "job.emit_passes([Pass({}, after=last)"


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A user's folder with a device or schedule of which one piece of text is replaced; gives the file."""
    monkeypatch.setenv("ARCHSIM_PATH", str(tmp_path))
    monkeypatch.delenv("ARCHSIM_TRACEBACK", raising=False)

    def make(kind, old, text):
        new(kind, "own", source="gpu" if kind == "device" else "chain_sd", folder=tmp_path)
        file = tmp_path / f"{kind}s" / "own.py"
        source = file.read_text()
        assert old in source
        source = source.replace("import Placement", "import Pass, Placement").replace(old, text, 1)
        file.write_text(source)
        return file

    return make


def line_of(file, text):
    """Number of the line of a file that holds a text."""
    return next(number for number, line in enumerate(file.read_text().splitlines(), 1) if text in line)


def said(capsys):
    """The one line on stderr."""
    text = capsys.readouterr().err
    assert text.count("\n") == 1, text
    return text


@pytest.mark.parametrize(
    ("kind", "old", "text", "marked", "words"),
    [
        (
            "device",
            LOWER,
            "        return ops.nope\n",
            "ops.nope",
            "AttributeError: 'Ops' object",
        ),
        ("schedule", VERIFY, 'job.emit("target", "verifyy"', "verifyy", "unknown phase 'verifyy'; known: prefill"),
        ("schedule", DRAFT, PASS.format('"drafft", "draft")]'), "drafft", "did you mean 'draft'?"),
        ("schedule", DRAFT, PASS.format('"target", "verify", projected=1, last=2)]'), "last=2", "projects nothing"),
        ("schedule", "accepted=job.accepted(drafted)", "accepted=99", "accepted=99", "99 accepted of"),
    ],
)
def test_what_it_raises_is_one_line_with_its_place(own, capsys, kind, old, text, marked, words):
    file = own(kind, old, text)
    assert run_cli(["run", *(DEVICE if kind == "device" else SCHEDULE), *JOB]) == 3
    line = said(capsys)
    assert f"archsim: {file}:{line_of(file, marked)}: " in line
    assert words in line
    assert "ARCHSIM_TRACEBACK=1" in line


def test_the_traceback_can_be_seen(own, capsys, monkeypatch):
    own("device", LOWER, "        return ops.nope\n")
    monkeypatch.setenv("ARCHSIM_TRACEBACK", "1")
    assert run_cli(["run", *DEVICE, *JOB]) == 3
    text = capsys.readouterr().err
    assert text.startswith("Traceback (most recent call last):")
    assert text.splitlines()[-1].startswith("archsim: ")


@pytest.mark.parametrize(
    ("kind", "old", "text", "method", "words"),
    [
        ("device", "        spec = self.spec\n        values", "        return 3\n        values", "energy", "not 3"),
        ("device", LOWER, "        return None\n", "lower", "must return rows"),
        ("device", LOWER, LOWER[:-1] + "._replace(work=np.zeros(0, np.int64))\n", "lower", "and work 0"),
        ("schedule", 'return {"decode": self.generate(sim, job)}', "return 7", "start", "not 7"),
        ("schedule", '"target": streamed_whole(self.ring)', '"target": 5', "placements", "under 'target' is 5"),
    ],
)
def test_what_it_returns_is_held_to_its_contract(own, capsys, kind, old, text, method, words):
    file = own(kind, old, text)
    assert run_cli(["run", *(DEVICE if kind == "device" else SCHEDULE), *JOB]) == 2
    line = said(capsys)
    assert f"{file}:{line_of(file, f'def {method}(')}: Own.{method} must return" in line
    assert words in line


@pytest.mark.parametrize("text", ["", "                yield sim.timer(1000)\n"])
def test_a_schedule_that_never_commits_ends(own, capsys, monkeypatch, text):
    monkeypatch.setattr(progress, "FREE", 100)
    monkeypatch.setattr(progress, "PER_TOKEN", 1)
    file = own("schedule", COMMIT, text)
    assert run_cli(["run", *SCHEDULE, *JOB]) == 3
    line = said(capsys)
    assert "does not get on: 106 blocks and waits since token 1 (request 0)" in line
    assert f"(from {file}:" in line


def test_a_point_of_a_sweep_is_failed_with_the_line(own):
    file = own("device", LOWER, "        return ops.nope\n")
    job = {"target": "smollm2-135m", "stream": "recorded:exit_layers:25", "tokens": 2, "prompt_tokens": 4}
    run = {"name": "r", "system": "mobile_gpu", "schedule": {"name": "resident_ar"}, "job": job}
    result = simulate(run, {}, {"system.gpu": "own"})
    assert result["status"] == "failed"
    assert result["error"].startswith(f"{file}:{line_of(file, 'ops.nope')}: AttributeError")
    assert simulate(run, {}, {})["status"] == "ok"


def test_a_defect_of_archsim_itself_is_not_explained_away(monkeypatch):
    def broken(*_):
        raise RuntimeError("elsewhere")

    monkeypatch.setattr(registry, "names", broken)
    with pytest.raises(RuntimeError, match="elsewhere"):
        run_cli(["list", "devices"])


@pytest.mark.parametrize(
    ("tail", "words"),
    [
        ("._replace(work=rows.work * 0)", "moved 0 over pools"),
        ("._replace(pool=np.full_like(rows.pool, -1), cap=np.full_like(rows.cap, 1 << 62))", "moved 0 over pools"),
        ("._replace(work=rows.work // 2)", "bytes of weights"),
    ],
)
def test_weights_moved_in_no_time_are_named(own, capsys, tail, words):
    own("device", LOWER, f"        rows = {LOWER.strip().removeprefix('return ')}\n        return rows{tail}\n")
    assert run_cli(["run", *DEVICE, *JOB, "--check"]) == 3
    line = said(capsys)
    assert "invariant 'bytes' does not hold: target: " in line
    assert words in line


def test_the_device_as_it_was_started_holds(own):
    own("device", LOWER, LOWER)
    assert run_cli(["run", *DEVICE, *JOB, "--check"]) == 0
