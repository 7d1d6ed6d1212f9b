"""One digest whatever runs it: processes, hash seeds, workers, runs one after the other, and the JIT off."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from archsim.sweep.runner import sweep

SCRIPT = Path(__file__).with_name("digests.py")
spec = importlib.util.spec_from_file_location("digests", SCRIPT)
digests = importlib.util.module_from_spec(spec)
spec.loader.exec_module(digests)
KEPT = json.loads(digests.FILE.read_text(encoding="utf-8"))


def elsewhere(*names: str, **environment: str) -> dict:
    """What the script prints in a process of its own."""
    words = [sys.executable, str(SCRIPT), *names]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, **environment}, timeout=900)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_case_is_kept():
    assert list(KEPT) == list(digests.CASES)
    assert len(set(KEPT.values())) == len(KEPT)


@pytest.mark.parametrize("name", digests.CASES)
def test_a_case_has_its_digest_twice_over(name):
    assert [digests.digest(name) for _ in range(2)] == [KEPT[name]] * 2


def test_cases_in_the_other_order_in_another_process_with_another_hash_seed():
    assert elsewhere(*reversed(digests.CASES), PYTHONHASHSEED="1")["digests"] == KEPT


@pytest.mark.slow
@pytest.mark.parametrize("seed", ["0", "2", "4294967295"])
def test_hash_seeds(seed):
    assert elsewhere(PYTHONHASHSEED=seed)["digests"] == KEPT


@pytest.mark.slow
def test_without_the_jit():
    found = elsewhere(digests.TINIEST, NUMBA_DISABLE_JIT="1")
    assert found["versions"]["jit"] == "off"
    assert found["digests"] == {digests.TINIEST: KEPT[digests.TINIEST]}


@pytest.mark.slow
def test_any_number_of_workers(tmp_path):
    """Points of a sweep, in this process and in two others, are the run of the case."""
    system, schedule, job = digests.CASES[digests.TINIEST]
    run = {"name": "run", "system": system, "schedule": {"name": schedule}, "job": job}
    fields = {"name": "s", "run": run, "axes": {"job.seed": [0, 1, 2, 3]}}
    found = {}
    for workers in (1, 2):
        sweep(fields, workers=workers, output=tmp_path / str(workers))
        lines = (tmp_path / str(workers) / "points.jsonl").read_text(encoding="utf-8").splitlines()
        found[workers] = {entry["key"]: entry["result"] for entry in map(json.loads, lines)}
    assert found[1] == found[2]
    assert {result["digest"] for result in found[1].values()} == {KEPT[digests.TINIEST]}
