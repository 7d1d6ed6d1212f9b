"""Invariants of energy over every device of every shipped machine, on real runs of the smallest model."""

import numpy as np
import pytest

from archsim import registry
from archsim.config import load_config, names
from archsim.report.area import area_mm2
from archsim.report.energy import PJ_PER_J, energy, prices_pj, static_mw
from archsim.report.power import power
from archsim.report.pricing import bounded
from archsim.report.states import spans
from archsim.report.waste import waste
from archsim.session import load, run
from archsim.system import System
from archsim.trace import Trace

JOB = {"target": "smollm2-135m", "stream": "recorded:exit_layers:25", "tokens": 6, "prompts": 1}
#: Schedules that decode a causal model along a chain, which is what the small recorded stream can serve.
SCHEDULES = [
    name
    for name in registry.names("schedule")
    for kind in (registry.get("schedule", name),)
    if kind.causal and "chain" in kind.features and set(kind.roles) <= {"target", "draft"}
]
RUNS = [("ahasd_samsung" if registry.get("schedule", name).needs else "oneplus_12", name) for name in SCHEDULES]
RUNS += [(system, "resident_ar") for system in names("system") if system != "oneplus_12"]
TRACES = {}


def traced(system, schedule):
    if (system, schedule) not in TRACES:
        TRACES[system, schedule] = run(load(system=system, schedule=schedule, job=JOB), trace="off").trace
    return TRACES[system, schedule]


@pytest.mark.parametrize(("system", "schedule"), RUNS)
def test_energy_is_counts_times_table_to_the_last_bit(system, schedule):
    trace = traced(system, schedule)
    spent, prices = energy(trace), prices_pj(trace)
    assert set(spent.action_j) == set(spent.counts)
    for action, joule in spent.action_j.items():
        assert joule == spent.counts[action] * prices[action] / PJ_PER_J
    assert spent.total_j == sum(spent.action_j.values()) + sum(spent.static_j.values())


@pytest.mark.parametrize(("system", "schedule"), RUNS)
def test_power_integrates_to_energy_by_device_in_any_bin(system, schedule):
    trace = traced(system, schedule)
    spent = energy(trace)
    for bin_ps in (trace.duration_ps // 7, trace.duration_ps // 333, 10 * trace.duration_ps):
        watts = power(trace, bin_ps)
        seconds = np.diff(watts.edges_ps) * 1e-12
        for device, joule in spent.by_device().items():
            assert watts.device_w[device] @ seconds == pytest.approx(joule, rel=1e-9)
        assert watts.mean_w() * trace.duration_ps * 1e-12 == pytest.approx(spent.total_j, rel=1e-9)
        assert watts.peak_w() >= watts.mean_w() * (1 - 1e-12)


@pytest.mark.parametrize(("system", "schedule"), RUNS)
def test_every_action_is_priced_once(system, schedule):
    trace = traced(system, schedule)
    counted = set(trace.counts["action"].tolist())
    assert counted <= set(prices_pj(trace))
    pairs = list(zip(trace.counts["op"].tolist(), trace.counts["action"].tolist()))
    assert len(set(pairs)) == len(pairs)
    dynamic = {f"{name}" for name in trace.manifest["prices"]["energy_pj"]}
    assert not dynamic & set(trace.manifest["prices"]["power_mw"])


@pytest.mark.parametrize(("system", "schedule"), RUNS)
def test_a_block_is_in_one_state_at_a_time(system, schedule):
    trace = traced(system, schedule)
    found = spans(trace)
    assert set(found) == set(static_mw(trace))
    for block, entry in trace.manifest["prices"]["states"].items():
        time = sum(int((found[f"{block}.{s}"].end_ps - found[f"{block}.{s}"].begin_ps).sum()) for s in entry["states"])
        assert time == trace.duration_ps


@pytest.mark.parametrize(("system", "schedule"), RUNS)
def test_waste_and_ranges_bracket_the_energy(system, schedule):
    trace = traced(system, schedule)
    low, typical, high = (energy(priced).total_j for priced in (bounded(trace, "low"), trace, bounded(trace, "high")))
    assert 0 < low < typical < high
    lost = waste(trace)
    assert 0 <= sum(row["energy_j"] for row in lost) < typical
    dynamic = sum(row["energy_j"] for row in lost if row["cause"] != "idle")
    assert dynamic == pytest.approx(energy(trace).wasted_j, rel=1e-9, abs=1e-15)


def test_area_does_not_depend_on_the_run():
    areas = [area_mm2(traced(*run)) for run in RUNS if run[0] == "oneplus_12"]
    assert all(area == areas[0] for area in areas)
    assert sum(areas[0].values()) > 0


def test_energy_follows_the_trace():
    short, long = (
        energy(run(load(system="oneplus_12", schedule="resident_ar", job={**JOB, "tokens": n}), trace="off").trace)
        for n in (6, 12)
    )
    assert long.total_j > short.total_j
    assert long.counts["npu.dispatch"] > short.counts["npu.dispatch"]
    flash = [energy(traced("oneplus_12", schedule)).by_device()["flash"] for schedule in ("resident_ar", "flash_ar")]
    assert flash[1] > flash[0]


@pytest.mark.parametrize("system", names("system"))
def test_clocks_name_units_and_pools_of_the_machine(system):
    machine = load_config("system", system)
    built = System.from_data(machine.data, machine.sources)
    targets = {item.name for item in (*built.units, *built.pools)}
    prices = built.prices()
    assert prices.clocks or system != "oneplus_12"
    for clock in prices.clocks:
        assert set(clock.targets) <= targets
        assert clock.source
    for block, entry in prices.states.items():
        assert set(entry.units) <= {unit.name for unit in built.units}
        values = [cost.value for cost in entry.states.values()]
        assert values == sorted(values, reverse=True), block


def test_a_missing_price_is_an_error_and_never_zero():
    from archsim.units import InputError

    trace = traced("oneplus_12", "resident_ar")
    for action in np.unique(trace.counts["action"]).tolist():
        prices = {**trace.manifest["prices"]}
        prices["energy_pj"] = {name: cost for name, cost in prices["energy_pj"].items() if name != action}
        with pytest.raises(InputError, match=f"action '{action}' is counted but has no energy price"):
            energy(Trace(trace.tables, {**trace.manifest, "prices": prices}))
