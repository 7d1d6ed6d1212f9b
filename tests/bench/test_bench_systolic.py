"""CPU time of the systolic walk, warm, single thread."""

import time

import pytest

from archsim.devices.npu.systolic import Array, multiply

#: SCALE-Sim 3.0.0, output-stationary 32 x 32, [32, 1024] x [1024, 1024], wall = CPU seconds on an idle core.
SCALESIM_S = 5.55


def best_s(array, *shape, tries=20):
    multiply(array, *shape)
    times = []
    for _ in range(tries):
        start = time.process_time()
        for _ in range(50):
            multiply(array, *shape)
        times.append((time.process_time() - start) / 50)
    return min(times)


@pytest.mark.bench
@pytest.mark.parametrize("link_words", [0, 32])
def test_ten_thousand_times_faster_than_scalesim(link_words):
    assert best_s(Array(32, 32, "os", link_words=link_words), 32, 1024, 1024) <= SCALESIM_S / 10_000


@pytest.mark.bench
def test_a_projection_of_57344_folds_in_2_ms():
    assert best_s(Array(32, 32, "ws", link_words=32), 128, 4096, 14336, tries=3) <= 2e-3
