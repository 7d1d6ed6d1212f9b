"""Drafting ahead of verification: CPU seconds and memory of a long request."""

import resource

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
        return run(load(system="ahasd_samsung", schedule="ahasd", job={**JOB, "seed": seed}), trace="off").summary[
            "cpu_s"
        ]

    cpu_s(0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert min(cpu_s(seed) for seed in (1, 2, 3)) < 2.0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000  # kB
