"""CPU time of the command kernel per request, warm, single thread, and its scaling."""

import resource
import time

import numpy as np
import pytest

from archsim.bench.kernels import dram_requests as requests
from archsim.devices.dram.controller import load_memory
from archsim.devices.dram.replay import replay, replay_columns

MILLION = 1_000_000


def best_us(controller, kind, tries=5):
    memory = load_memory("lpddr5-6400", controller)
    address, write = requests(kind, MILLION)
    replay_columns(memory, address[:100], write[:100])
    return min(replay_columns(memory, address, write).cpu_s for _ in range(tries)) / MILLION * 1e6


@pytest.mark.bench
@pytest.mark.parametrize("controller", ["reference_a", "reference_b", "mobile"])
@pytest.mark.parametrize(("kind", "bar_us"), [("sequential", 0.10), ("random reads", 0.45), ("random 2:1", 0.6)])
def test_cpu_time_per_request(controller, kind, bar_us):
    assert best_us(controller, kind) <= bar_us


@pytest.mark.bench
def test_parsing_costs_no_more_than_simulating(tmp_path):
    path = tmp_path / "t.txt"
    path.write_text("".join(f"R {a:x}\n" for a in requests("sequential", MILLION)[0].tolist()))
    memory = load_memory("lpddr5-6400", "reference_b")
    replay(memory, path)
    result = min((replay(memory, path) for _ in range(3)), key=lambda x: x.parse_s)
    assert result.parse_s <= result.cpu_s


@pytest.mark.bench
def test_ten_million_requests_scale_linearly_in_bounded_memory(tmp_path):
    memory = load_memory("lpddr5-6400", "reference_b")
    times, used = [], []
    for count in (MILLION, 10 * MILLION):
        path = tmp_path / "t.txt"
        with path.open("w") as out:
            for start in range(0, count, MILLION):
                out.write("".join(f"R {a:x}\n" for a in (np.arange(start, start + MILLION) * 32 % (1 << 31)).tolist()))
        replay(memory, path)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        began = time.process_time()
        replay(memory, path)
        times.append((time.process_time() - began) / count)
        used.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    assert times[1] <= 1.25 * times[0]
    assert used[1] <= 20_000  # kB
