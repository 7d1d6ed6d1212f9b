"""What runs leave in memory: nothing that waits for a garbage collection, and no plans beyond a number of rows."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from archsim.engine.sim import Sim
from archsim.report.latency import busy_ps, timeline
from archsim.session import load, run
from archsim.workload.job import Job
from archsim.workload.plan import Planner
from archsim.workload.recent import Recent

SMALL = {"target": "smollm2-135m", "stream": "recorded:exit_layers:15", "tokens": 4}
PAIR = {"target": "llama2-7b", "draft": "llama2-1.3b", "stream": "synthetic:llama2-7b+llama2-1.3b:alpaca", "tokens": 4}
RUNS = {
    "chain_sd": ("oneplus_12", "chain_sd", SMALL),
    "lever": ("oneplus_12", "lever", SMALL),
    "hot": ("oneplus_12", "flash_ar", {**SMALL, "thermal": "phone_passive"}),
    "llada": ("llada_ace5_pro", "llada", {"target": "llada-8b", "stream": "synthetic:llada-8b:gsm8k", "tokens": 32}),
    "ahasd": ("ahasd_samsung", "ahasd", PAIR),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_run_goes_without_a_garbage_collection(name):
    system, schedule, job = RUNS[name]
    run(load(system=system, schedule=schedule, job=job), trace="off")  # what compiles kernels may hold on to its frames
    gc.collect()
    before = alive()
    gc.disable()
    try:
        run(load(system=system, schedule=schedule, job=job), trace="off")
        left = [type(entry).__name__ for entry in alive() if all(entry is not other for other in before)]
    finally:
        gc.enable()
    assert not left


def alive():
    return [entry for entry in gc.get_objects() if isinstance(entry, (Sim, Job, Planner))]


def test_busy_time_is_that_of_the_slices():
    system, schedule, job = RUNS["chain_sd"]
    trace = run(load(system=system, schedule=schedule, job=job), trace="off").trace
    shown = timeline(trace)
    wanted: dict[tuple[str, str], int] = {}
    for phase, unit, start, end in zip(*(shown[name].tolist() for name in ("phase", "unit", "start_ps", "end_ps"))):
        wanted[phase, unit] = wanted.get((phase, unit), 0) + end - start
    assert busy_ps(trace) == wanted
    assert {phase for phase, _ in wanted} > {"prefill"}


def test_the_longest_unused_goes_first():
    recent: Recent[str] = Recent(10)
    for key in "abc":
        recent.keep(key, key.upper(), 3)
    assert recent.get("a") == "A"
    recent.keep("d", "D", 3)
    assert [recent.get(key) for key in "abcd"] == ["A", None, "C", "D"]
    assert (len(recent), recent.rows) == (3, 9)
    recent.keep("e", "E", 11)
    assert (len(recent), recent.rows, recent.get("e")) == (1, 11, "E")


def test_a_run_is_the_same_when_it_plans_again_what_it_forgot(monkeypatch):
    system, schedule, job = RUNS["llada"]
    kept = run(load(system=system, schedule=schedule, job=job), trace="off").summary["digest"]
    limits = []
    monkeypatch.setattr(Recent, "__init__", lambda self, rows=300: limits.append(rows) or set_up(self, rows))
    assert run(load(system=system, schedule=schedule, job=job), trace="off").summary["digest"] == kept
    assert limits


set_up = Recent.__init__

STORED = """
import sys
from archsim.engine import record, results
from archsim.session import load, run
from archsim.trace import spill, stored
for module in (spill, stored):
    module.LONG_ROWS, module.ROW_GROUP = 2000, 512
results.RETIRE_ROWS = record.CHUNK = 512
job = {"target": "smollm2-135m", "stream": "recorded:exit_layers:15", "tokens": 10, "prompts": 2}
made = run(load(system="oneplus_12", schedule="chain_sd", job=job), trace="off", check=True)
print(made.trace.stored, "pandas" in sys.modules)
"""


def test_a_stored_trace_is_read_without_pandas():
    found = subprocess.run([sys.executable, "-c", STORED], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["True", "False"]
