"""Measured perturbations: signs, slopes, and the knobs behind them."""

import math

import pytest

from archsim.config import load_config
from archsim.devices.npu.alone import devices_of, matmul, times_us
from archsim.reproduce.trends_perturbations import perturbation_rows
from archsim.units import InputError

SETS = ("system.npu.call=rpc",)


def test_polling_saves_the_wake_up_of_a_call():
    waits, polls = (devices_of("oneplus_15", *SETS, *more)["npu"] for more in ((), ("system.npu.host_polls=true",)))
    assert waits.operator_call_ps - polls.operator_call_ps == 200_000_000
    assert polls.operator_call_ps / waits.operator_call_ps == pytest.approx(0.5)
    queue = [devices_of("oneplus_15", f"system.npu.host_polls={b}")["npu"].operator_call_ps for b in ("true", "false")]
    assert queue[0] == queue[1]  # batches in a queue are not called one by one


def test_a_wake_up_longer_than_the_call_is_refused():
    with pytest.raises((InputError, ValueError), match="host_wake_ps"):
        devices_of("oneplus_15", "system.npu.host_wake_ps=1 ms")
    assert load_config("system", "oneplus_15").data["devices"]["npu"]["spec"]["host_polls"] is False


def test_in_order_descriptors_cost_their_gap():
    op = matmul(1, 3072, 8192)
    base = "system.npu.dma_in_order=true"
    times = [
        times_us(devices_of("oneplus_15", *sets)["npu"], [op])[0]
        for sets in ((), (base, "system.npu.dma_order_ps=0 ns"), (base,), (base, "system.npu.dma_order_ps=600 ns"))
    ]
    assert times == sorted(times)
    assert times[3] > 2 * times[0] > times[2]


@pytest.mark.slow
def test_signs_are_right_and_most_slopes_within_30_percent():
    rows = {row.id.removeprefix("trends.perturbation."): row for row in perturbation_rows()}
    assert rows["signs"].ok
    assert rows["within_30_percent"].simulated > 0.5
    for row in rows.values():
        if row.kind == "predicted" and row.ok is False:
            assert row.why
    assert math.isclose(rows["clock.decode"].simulated, 1.0)
