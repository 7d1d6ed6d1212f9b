"""What the runs of one sweep share: made once within it, never across two, bounded, and as it is when made anew."""

from __future__ import annotations

from functools import partial

import pytest

from archsim.config import Override
from archsim.devices.npu import Npu
from archsim.session import load
from archsim.sharing import Kept, active, shared, sharing
from archsim.sweep.work import simulate

RUN = {
    "system": "oneplus_12",
    "schedule": {"name": "lever"},
    "job": {"target": "smollm2-135m", "stream": "synthetic:llama-3.1-8b:mbpp", "tokens": 4, "prompt_tokens": 8},
}
POINTS = [
    {"job.seed": 0},
    {"job.seed": 0, "system.npu.clock_hz": "0.5 GHz"},
    {"job.seed": 0, "system.flash.stream_bytes_per_s": "2 GB/s", "job.dram_fraction": 0.5},
    {"job.seed": 1, "system.dram": "lpddr5_6400_x64"},
    {"job.seed": 0, "job.kv_dtype": "Q8_0"},
    {"job.seed": 0, "model.target.layers": 4},
    {"job.seed": 0},
]


def test_a_thing_is_made_once_within_and_anew_outside():
    made = []
    for _ in range(2):
        assert not active()
        shared("list", 1, lambda: made.append("outside"))
        with sharing():
            for _ in range(3):
                shared("list", 1, lambda: made.append("within") or made)
            with sharing():  # the same one
                shared("list", 1, lambda: made.append("inner") or made)
            shared("another", 1, lambda: made.append("kind") or made)
    assert made == ["outside", "within", "kind"] * 2


def test_what_is_kept_of_a_kind_is_bounded_and_the_last_used_stays():
    kept = Kept(most=10)
    for key in range(100):
        assert kept.get("a", key, partial(int, key), lambda item: 3) == key
        assert kept.get("a", 0, lambda: 0, lambda item: 3) == 0
        assert kept.size("a") <= 10
    assert kept.get("a", 0, lambda: "anew", lambda item: 3) == 0
    assert kept.get("a", 1, lambda: "anew", lambda item: 3) == "anew"
    assert kept.get("b", "large", lambda: "large", lambda item: 99) == "large"


def test_an_error_is_not_kept():
    def fail():
        raise ValueError("once")

    with sharing():
        with pytest.raises(ValueError, match="once"):
            shared("a", 1, fail)
        assert shared("a", 1, lambda: 2) == 2


def test_points_that_share_have_the_results_of_runs_alone():
    alone = [simulate(RUN, {}, point) for point in POINTS]
    with sharing():
        together = [simulate(RUN, {}, point) for point in POINTS]
    assert together == alone
    assert [result["error"] for result in alone] == [""] * len(POINTS)
    assert len({str(result) for result in alone}) == len(POINTS) - 1  # the first and the last are one


def test_equal_operators_of_equal_devices_are_lowered_once(monkeypatch):
    calls, lower = [], Npu.lower
    monkeypatch.setattr(Npu, "lower", lambda self, ops: calls.append(1) or lower(self, ops))
    with sharing():
        simulate(RUN, {}, POINTS[0])
        first = len(calls)
        simulate(RUN, {}, POINTS[0])
        assert len(calls) == first > 0
        simulate(RUN, {}, POINTS[1])  # another clock: another device
        assert len(calls) == 2 * first
    simulate(RUN, {}, POINTS[0])
    assert len(calls) >= 3 * first


def test_what_a_run_does_to_its_configuration_is_not_shared():
    with sharing():
        first = load(RUN)
        first.data["system"]["devices"]["npu"]["spec"]["hmx_clock_hz"] = 1.0
        first.data["model"]["target"]["spec"]["layers"] = 1
        again = load(RUN, sets=[Override("job.seed", 3, "axes.job.seed")])
    fresh = load(RUN, sets=[Override("job.seed", 3, "axes.job.seed")])
    assert again == fresh
