"""Speed of the flash kernel: CPU time per request, compiled and warm, making the requests included."""

import pytest

from archsim.devices.flash.replay import device_spec, run_pattern

pytestmark = pytest.mark.bench


@pytest.mark.parametrize(
    ("device", "pattern", "size", "depth", "requests"),
    [
        ("ufs_2ch_2chip_2die_4pl", "rand_read", 16384, 32, 300_000),
        ("ufs_2ch_2chip_2die_4pl", "seq_read", 131072, 8, 60_000),
        ("ufs_2ch_2chip_2die_4pl", "rand_write", 4096, 32, 100_000),
        ("ufs_4_0", "rand_read", 4096, 32, 100_000),
    ],
)
def test_requests(benchmark, device, pattern, size, depth, requests):
    spec = device_spec(device)
    run_pattern(spec, pattern, size, 1000, depth=depth)
    done = benchmark.pedantic(lambda: run_pattern(spec, pattern, size, requests, depth=depth), rounds=3)
    assert len(done.responses_ns) == requests
    benchmark.extra_info["cpu_us_per_request"] = done.cpu_s / requests * 1e6
