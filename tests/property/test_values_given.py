"""No value is clamped in silence: what is given is what the manifest says and what ran, or it is refused."""

from __future__ import annotations

import contextlib
import functools
import io
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archsim.cli import run_cli
from archsim.config import InputError, describe, load_config

RUNS = ("demo_chain_sd", "ahasd_full", "llada_gsm8k")


@functools.cache
def numbers(run: str) -> list:
    """Rows of a run whose value is a number."""
    rows = describe(load_config("run", run))
    return [row for row in rows if isinstance(row.value, (int, float)) and not isinstance(row.value, bool)]


@st.composite
def changes(draw):
    """Run, path, number that is given, and its text: scaled, at the ends of the range, and beyond."""
    run = draw(st.sampled_from(RUNS))
    row = draw(st.sampled_from(numbers(run)))
    factor = st.sampled_from([0, -1, 0.5, 0.999, 1.001, 2, 3, 7, 1000, 10**6, 10**9])
    ends = [end + step for end in row.range or () for step in (-1, 0, 1)]
    value = draw(st.one_of(factor.map(lambda f: row.value * f), st.sampled_from([0, 1, 2, -1, 2**31, 2**62, *ends])))
    if isinstance(row.value, int):
        value = int(value)
    return run, row.path, value, f"{value!r} {row.unit}".strip()


def check(change) -> bool:
    """Whether the value is taken; it is then the one that was given, and a refusal names the field."""
    run, path, value, text = change
    refused = ""
    try:
        made = load_config("run", run, [f"{path}={text}"])
    except InputError as error:
        refused = str(error)
    if refused:
        assert path.rpartition(".")[2] in refused, (change, refused)
        return False
    (row,) = [row for row in describe(made) if row.path == path]
    assert row.value == pytest.approx(value, rel=1e-12, abs=0), change
    return True


@settings(max_examples=60)
@given(changes())
def test_a_number_is_the_one_that_was_given_or_is_refused(change):
    check(change)


@pytest.mark.slow
@settings(max_examples=1500)
@given(changes())
def test_many_numbers(change):
    check(change)


def test_some_numbers_are_taken_and_some_are_not():
    assert check(("demo_chain_sd", "schedule.length", 9, "9"))
    assert not check(("demo_chain_sd", "schedule.length", 0, "0"))


@pytest.mark.parametrize(
    ("options", "key", "value"),
    [
        (["--tokens", "3"], "tokens", 3),
        (["--prompts", "2"], "prompts", 2),
        (["--seed", "4294967297"], "seed", 4294967297),
        (["--set", "job.prompt_tokens=5"], "prompt_tokens", 5),
        (["--set", "job.dram_fraction=0.123456789"], "dram_fraction", 0.123456789),
    ],
)
def test_an_option_stands_in_the_manifest_of_the_run(options, key, value, tmp_path):
    args = ["run", "--system", "oneplus_12", "--schedule", "flash_ar", "--target", "smollm2-135m", "--tokens", "2"]
    args += ["--stream", "recorded:exit_layers:25", "-o", str(tmp_path / "out")]
    args = [word for word in args if "--tokens" not in options or word not in ("--tokens", "2")]
    said = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
        code = run_cli([*args, *options])
    assert code == 0, said.getvalue()
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["config"]["job"][key] == value
    assert key != "seed" or manifest["seed"] == value
