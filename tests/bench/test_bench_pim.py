"""CPU time of the PIM command kernel, warm, single thread."""

import pytest

from archsim.devices.pim.replay import replay
from archsim.streams.opening import packed_traces

TRACE = packed_traces() / "pim" / "mac_512rows_32ch.trace"


@pytest.mark.bench
@pytest.mark.parametrize("device", ["gddr6_aim", "lpddr5_aim_noref", "lpddr5_aim_refab"])
def test_512_rows_on_32_channels_in_20_ms(device):
    replay(device, TRACE)
    assert min(replay(device, TRACE).cpu_s for _ in range(5)) <= 0.020
