"""Drafting ahead of verification: CPU seconds of a long request."""

import pytest

from archsim.session import load, run

pytestmark = pytest.mark.bench

JOB = {
    "target": "llama2-13b",
    "draft": "llama2-7b",
    "stream": "synthetic:llama2-13b+llama2-7b:alpaca",
    "tokens": 1024,
}


def test_a_request_of_1024_tokens_takes_two_seconds():
    """Planning and simulating, once the kernels are compiled and the products of the banks are known."""

    def cpu_s(seed):
        resolved = load(system="ahasd_samsung", schedule="ahasd", job={**JOB, "seed": seed})
        return run(resolved, trace="off").summary["cpu_s"]

    seeds = (0, 1, 2)
    for seed in seeds:
        cpu_s(seed)
    best = [min(cpu_s(seed) for _ in range(3)) for seed in seeds]  # other work on the machine only adds to it
    assert sum(best) / len(best) < 2.0
