"""Whole runs: CPU time in this process; start-up and peak memory of processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any

#: Runs of the three systems by name.
JOBS: Mapping[str, Mapping[str, Any]] = {
    "lever": {
        "system": "oneplus_12",
        "schedule": "lever",
        "job": {"target": "llama-3.1-8b", "stream": "recorded:exit_layers", "tokens": 128},
    },
    "llada": {
        "system": "llada_ace5_pro",
        "schedule": "llada",
        "job": {"target": "llada-8b", "stream": "synthetic:llada-8b:gsm8k", "mapping": "resident"},
    },
    "ahasd": {
        "system": "ahasd_samsung",
        "schedule": "ahasd",
        "job": {
            "target": "llama2-13b",
            "draft": "llama2-7b",
            "stream": "synthetic:llama2-13b+llama2-7b:alpaca",
            "tokens": 1024,
        },
    },
}
#: Arguments of the smallest run there is.
SMALLEST = (
    *("run", "--system", "oneplus_12", "--schedule", "resident_ar", "--target", "smollm2-135m"),
    *("--stream", "recorded:exit_layers:15", "--tokens", "1", "--trace", "off", "--json"),
)
_CHILD = """
import json, resource, sys
from archsim.session import load, run
wanted = json.loads(sys.argv[1])
wanted["job"] = {**wanted["job"], **json.loads(sys.argv[2])}
rows = 0
for _ in range(int(sys.argv[3])):
    trace = run(load(**wanted), trace="off").trace
    rows += sum(len(part.rows["row"]) for part in trace.parts())
try:  # the kernel's figure of this program alone: getrusage keeps what the process held before, its parent's memory
    with open("/proc/self/status", encoding="ascii") as status:
        peak_kb = next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))
except (OSError, StopIteration):
    peak_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"rows": rows, "peak_kb": peak_kb}))
"""


def run_cpu(name: str, **job: Any) -> Callable[[], float]:
    """CPU seconds of one run, from its configuration to its summary, in a process that has run it before."""
    from archsim.session import load, run

    wanted = {**JOBS[name], "job": {**JOBS[name]["job"], **job}}
    run(load(**wanted), trace="off")

    def once() -> float:
        began = time.process_time()
        run(load(**wanted), trace="off")
        return time.process_time() - began

    return once


def process_s(arguments: tuple[str, ...], *, cold: bool = False) -> float:
    """CPU seconds (user and system) of one ``archsim`` process; `cold` gives it an empty folder of kernels.

    It keeps the bytecode of its modules, as an installed package does, whatever the environment says.
    """
    with tempfile.TemporaryDirectory(prefix="archsim-bench-") as folder:
        environment = {**os.environ, "ARCHSIM_CACHE": folder} if cold else dict(os.environ)
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        before = os.times()
        subprocess.run(
            [sys.executable, "-m", "archsim", *arguments], env=environment, check=True, stdout=subprocess.DEVNULL
        )
        after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def peak(name: str, times: int = 1, **job: Any) -> dict[str, float]:
    """Peak memory of a process that does `times` runs: ``peak_mb`` (10^6 bytes) and ``rows`` simulated.

    Kernels are compiled before, in another process, as the compiler needs more memory than any run.
    """
    wanted = json.dumps(JOBS[name])
    command = [sys.executable, "-c", _CHILD, wanted]
    subprocess.run([*command, "{}", "1"], check=True, stdout=subprocess.DEVNULL)
    found = subprocess.run(
        [*command, json.dumps(job), str(times)], check=True, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    )
    answer = json.loads(found.stdout)
    return {"peak_mb": answer["peak_kb"] * 1024 / 1e6, "rows": answer["rows"]}
