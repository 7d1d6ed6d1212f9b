"""What a run's answers hang on: the strongest assumed and fitted numbers, with what would settle each."""

from __future__ import annotations

import json
import math

import pytest

from archsim import load, run
from archsim.cli import run_cli
from archsim.sweep.assumptions import assumptions
from archsim.sweep.ranges import UNSURE

RUN = {
    "name": "small",
    "system": "oneplus_12",
    "schedule": {"name": "flash_ar"},
    "job": {"target": "smollm2-135m", "stream": "synthetic:llama-3.1-8b:mbpp", "tokens": 2},
}


@pytest.fixture(scope="module")
def found():
    return assumptions(RUN)


def test_five_numbers_for_each_answer_strongest_first_with_range_source_and_measurement(found):
    assert set(found) == {"latency", "speed", "energy", "area"}
    for entries in found.values():
        assert len(entries) == 5
        effects = [abs(entry["effect"]) for entry in entries]
        assert effects == sorted(effects, reverse=True)
        for entry in entries:
            assert entry["source"].removeprefix("part file; ").startswith(UNSURE)
            assert entry["low"] <= entry["value"] <= entry["high"]
            assert len(entry["settle"].split()) >= 5


def test_effect_is_log_slope_times_log_range(found):
    monotone = [
        entry
        for entries in found.values()
        for entry in entries
        if entry["log_slope"] is not None
        and min(entry["at_low"], entry["at_high"]) <= entry["nominal"] <= max(entry["at_low"], entry["at_high"])
    ]
    assert len(monotone) >= 8
    for entry in monotone:
        assert entry["effect"] == pytest.approx(entry["log_slope"] * entry["log_range"])
        assert entry["effect"] == pytest.approx(math.log(entry["at_high"] / entry["at_low"]))


def test_a_run_from_flash_hangs_on_the_flash_rate_and_the_ends_are_those_of_real_runs(found):
    first = found["speed"][0]
    assert first["path"] == "system.flash.stream_bytes_per_s"
    assert first["with"] == ["system.flash.random_bytes_per_s", "system.flash.command_ps"]
    assert first["effect"] > 0 > found["latency"][0]["effect"]
    ends = ("stream_bytes_per_s=3.2 GB/s", "random_bytes_per_s=2.58 GB/s", "command_ps=7.2 us")
    slow = run(load(RUN, sets=[f"system.flash.{end}" for end in ends]), trace="off")
    assert first["at_low"] == slow.summary["decode_tokens_per_s"]


def test_prices_change_energy_and_area_alone(found):
    assert not any(entry["path"].startswith("prices.") for key in ("latency", "speed") for entry in found[key])
    assert any(entry["path"].startswith("prices.") for entry in found["energy"])


@pytest.mark.slow
def test_the_command(tmp_path, capsys):
    config = tmp_path / "small.yaml"
    config.write_text(
        "kind: run\nname: small\nsystem: oneplus_12\nschedule: {name: flash_ar}\n"
        "job: {target: smollm2-135m, stream: 'synthetic:llama-3.1-8b:mbpp', tokens: 2}\n"
    )
    assert run_cli(["run", str(config), "-o", str(tmp_path / "out"), "--json"]) == 0
    capsys.readouterr()
    assert run_cli(["explain", str(tmp_path / "out"), "--assumptions", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["assumptions"]["speed"][0]["path"] == "system.flash.stream_bytes_per_s"


def test_processes_without_assumptions_are_refused(tmp_path, capsys):
    assert run_cli(["explain", str(tmp_path), "-j", "2"]) == 2
    assert "-j belongs to --assumptions" in capsys.readouterr().err
