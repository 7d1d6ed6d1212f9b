"""Whole runs on the host: CPU seconds of planning, simulating and summarising."""

import pytest

from archsim.session import load, run

pytestmark = pytest.mark.bench


@pytest.mark.parametrize("schedule", ["flash_ar", "chain_sd"])
def test_run_of_64_tokens(benchmark, schedule):
    resolved = load(f"demo_{schedule}")
    result = benchmark(lambda: run(resolved, trace="off"))
    assert result.summary["tokens"] == 64
