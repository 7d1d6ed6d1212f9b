"""A machine twice as fast halves every time and changes no decision; elasticities sum to -1."""

import math
from dataclasses import replace

import pytest

from archsim import registry
from archsim.reproduce.trends_identity import GAP, SPEED, STEP, SUBJECTS, SUMMED, loaded
from archsim.session import load, run
from archsim.sweep.scaling import (
    dimensions,
    elasticities,
    elasticity_sum,
    identity,
    moved,
    power_of,
    rounding_ps,
    scaled,
)
from archsim.units import InputError

#: Fast ones, one of each kind of machine; the others are marked slow.
QUICK = ("flash_ar", "lever", "dllm_npu", "llada")


def both(subject, tokens=8):
    plain = loaded(subject, tokens)
    return [run(one, trace="off").trace for one in (plain, scaled(plain, SPEED))]


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in SUBJECTS if name not in QUICK]


@pytest.mark.parametrize("name", [*QUICK, *SLOW])
def test_twice_the_rates_halve_the_time(name):
    traces = both(SUBJECTS[name])
    found = identity(*traces, SPEED)
    assert found.first == ""
    assert found.worst_ps <= rounding_ps(traces[0], SPEED)
    assert abs(found.relative) <= GAP
    assert found.holds


def test_streams_and_arrivals_scale_with_the_machine():
    """Bursts and requests come twice as fast too; else twice as many of them would meet the same work."""
    streams = {
        "display": {"part": "display_60hz", "period_ps": "16 ms"},
        "paging": {"kind": "flash", "read_bytes_per_s": "200 MB/s", "request_bytes": "16 KiB", "period_ps": "20 ms"},
        "os": "android_idle",
    }
    job = {"target": "qwen3-0.6b", "stream": "synthetic:qwen3-4b:mbpp", "tokens": 3, "prompts": 3, "prompt_tokens": 16}
    arrivals = {"arrivals": "poisson", "arrival_rate_hz": "2 Hz"}
    file = {"name": "r", "system": "oneplus_12", "schedule": {"name": "flash_ar"}, "background": streams}
    plain = load({**file, "job": {**job, **arrivals}})
    found = identity(*(run(one, trace="off").trace for one in (plain, scaled(plain, SPEED))), SPEED)
    assert found.first == ""
    assert found.holds
    alone = moved(plain, {one.path: SPEED**one.power for one in dimensions(plain) if one.path.startswith("system.")})
    assert not identity(*(run(one, trace="off").trace for one in (plain, alone)), SPEED).holds
    with pytest.raises(InputError, match="is no number"):
        moved(plain, {"background.os.nothing": 2.0})


def test_a_constant_that_does_not_scale_is_noticed():
    """A time of the machine left as it is: the identity must fail."""
    plain = loaded(SUBJECTS["flash_ar"], 4)
    short = moved(scaled(plain, SPEED), {"system.npu.call_ps": SPEED})
    found = identity(*(run(one, trace="off").trace for one in (plain, short)), SPEED)
    assert found.decisions
    assert not found.holds


def test_a_decision_that_changes_is_noticed():
    plain = loaded(SUBJECTS["chain_sd"], 8)
    other = loaded(replace_sets(SUBJECTS["chain_sd"], "schedule.length=7"), 8)
    found = identity(*(run(one, trace="off").trace for one in (plain, other)), 1.0)
    assert not found.decisions
    assert found.first


def replace_sets(subject, *sets):
    return subject._replace(sets=sets)


def test_every_schedule_is_scaled():
    ours = {
        name for name in registry.names("schedule") if registry.get("schedule", name).__module__.startswith("archsim.")
    }
    assert ours <= {subject.schedule for subject in SUBJECTS.values()}


def test_units_and_names_say_what_scales():
    assert power_of("system.a.clock_hz", "Hz") == power_of("system.a.x_bytes_per_s", "B/s") == 1
    assert power_of("system.pim.trip_elements_per_s", "") == 1
    assert power_of("system.a.call_ps", "ps") == power_of("system.pim.timing_factor", "") == -1
    assert power_of("system.a.vtcm_bytes", "B") == power_of("system.a.packet_cycles", "") == 0


def test_every_time_of_every_machine_is_scaled():
    """Each field whose name says that a second is in it has a power, on every machine that ships."""
    endings = ("_hz", "_ps", "_per_s", "_ps_per_gib")
    for subject in SUBJECTS.values():
        resolved = loaded(subject, 4)
        paths = {one.path for one in dimensions(resolved)}
        named = {
            row.path for row in resolved.rows
            if row.path.startswith("system.") and row.path.endswith(endings) and row.value is not None
        }  # fmt: skip
        assert named <= paths, named - paths


def test_moving_says_what_cannot_be_moved():
    plain = loaded(SUBJECTS["flash_ar"], 4)
    with pytest.raises(InputError, match=r"system\.npu\.nothing is no number"):
        moved(plain, {"system.npu.nothing": 2.0})
    with pytest.raises(InputError, match="no other whole number"):
        moved(plain, {"system.flash.queue_depth": 1.001})
    odd = moved(plain, {"system.npu.call_ps": (23_000_001) / 23_000_000})
    with pytest.raises(InputError, match="no whole number"):
        scaled(replace(plain, data=odd.data, rows=tuple(
            row._replace(value=23_000_001) if row.path == "system.npu.call_ps" else row for row in plain.rows
        )))  # fmt: skip


def test_pim_timings_follow_their_factor():
    """Twice the standard's period doubles a product on the banks, to the cycle."""
    from archsim.devices.pim.products import Part, product

    one, two = (product(Part("lpddr5x_pim", timing=f), 1, 1024, 1024, "W8A8", False, 1) for f in (1.0, 2.0))
    assert two.counts == one.counts
    assert abs(two.time_ps - 2 * one.time_ps) <= 1


@pytest.mark.parametrize("name", ["flash_ar", *(pytest.param(n, marks=pytest.mark.slow) for n in SUMMED[1:])])
def test_elasticities_sum_to_minus_one(name):
    found = elasticities(loaded(SUBJECTS[name], 2 if name == "flash_ar" else 16), STEP)
    assert all(one.decisions for one in found)
    assert elasticity_sum(found) == pytest.approx(-1.0, abs=0.01)


def test_two_limits_of_equal_height_are_a_kink():
    """The vector unit's load rate and its limit are equal on this phone: slower counts, faster does not."""
    pair = [f"system.npu.vector_load{limit}_bytes_per_s" for limit in ("", "_limit")]
    found = elasticities(loaded(SUBJECTS["chain_sd"], 4), STEP, [*pair, "system.npu.l2fetch_bytes_per_s"])
    notes = {one.paths[0]: one.note for one in found}
    assert notes == {**dict.fromkeys(pair, "kink"), "system.npu.l2fetch_bytes_per_s": ""}


def test_a_parameter_that_cannot_be_moved_has_no_slope(monkeypatch):
    def refused(*_):
        raise InputError("no other value works")

    plain = loaded(SUBJECTS["flash_ar"], 1)
    monkeypatch.setattr("archsim.sweep.scaling.moved", refused)
    (found,) = elasticities(plain, STEP, ["system.flash.stream_bytes_per_s"])
    assert (found.slope, found.note) == (0.0, "cannot be moved")


def test_elasticity_of_a_known_share():
    """A flash-resident run's length answers to the stream rate by its share of the time."""
    plain = loaded(SUBJECTS["flash_ar"], 4)
    (rate,) = elasticities(plain, STEP, ["system.flash.stream_bytes_per_s"])
    longer = run(moved(plain, {"system.flash.stream_bytes_per_s": 0.98}), trace="off").trace
    base = run(plain, trace="off").trace
    ratio = float(longer.blocks["end_ps"].max() / base.blocks["end_ps"].max())
    assert rate.slope == pytest.approx(math.log(ratio) / math.log(0.98), rel=0.02)
    assert -1 < rate.slope < -0.5
