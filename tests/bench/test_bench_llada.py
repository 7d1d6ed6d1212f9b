"""How fast a diffusion request is simulated, in CPU time."""

from __future__ import annotations

import time

import pytest

from archsim.session import load, run


def cpu_s(prompts: int) -> float:
    job = {"target": "llada-8b", "stream": "synthetic:llada-8b:gsm8k", "mapping": "resident", "prompts": prompts}
    resolved = load(system="llada_ace5_pro", schedule="llada", job=job)
    began = time.process_time()
    run(resolved, trace="off")
    return time.process_time() - began


@pytest.mark.bench
def test_one_request_of_128_tokens():
    cpu_s(1)
    assert min(cpu_s(1) for _ in range(3)) < 0.5


@pytest.mark.bench
@pytest.mark.slow
def test_two_hundred_requests():
    cpu_s(1)
    assert cpu_s(200) < 60
