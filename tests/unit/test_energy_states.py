"""Static power by state and under slower clocks, by hand on the sample run of test_report_sample."""

import sys
from pathlib import Path

import numpy as np
import pytest

from archsim.device import Cost
from archsim.report.energy import energy
from archsim.report.power import power
from archsim.report.states import spans, union, voltage_factors
from archsim.trace import Trace
from archsim.units import InputError

sys.path.insert(0, str(Path(__file__).parent))
from test_report_sample import US, sample_manifest, sample_tables

STATES = {"units": ["npu.hmx"], "states": ["active", "idle", "retention"], "after_ps": {"retention": 2 * US}}
CLOCK = {"name": "npu.core", "hz": 1e9, "targets": ["npu.hmx"], "corners": [[0.5, 0.6], [1.0, 0.75]], "source": "x"}


def with_states(rates=False, clocks=(CLOCK,), **changes):
    manifest = sample_manifest()
    cost = lambda value: {"value": value, "unit": "mW", "source": "assumed: a test", "range": None}  # noqa: E731
    power_mw = {**manifest["prices"]["power_mw"], "npu.core.active": cost(8.0), "npu.core.idle": cost(4.0)}
    power_mw["npu.core.retention"] = cost(1.0)
    states = {"npu.core": {**STATES, **changes}}
    manifest["prices"] = {**manifest["prices"], "power_mw": power_mw, "states": states, "clocks": list(clocks)}
    tables = sample_tables()
    if not rates:
        tables["rates"] = {name: column[:0] for name, column in tables["rates"].items()}
    return Trace(tables, manifest)


def test_quiet_time_goes_through_the_states_in_order():
    """The matrix unit works 10-28 (8 us of it apart) and 28-38 of 40 us: quiet 0-10, then what remains."""
    trace = with_states()
    found = spans(trace)
    mine = trace.ran & (trace.rows["unit"] == 1)
    begin, end = union(trace.rows["start_ps"][mine], trace.row_end_ps[mine])
    busy = int((end - begin).sum())
    assert busy == 26 * US
    gaps = [b - a for a, b in zip([0, *end.tolist()], [*begin.tolist(), 40 * US]) if b > a]
    idle = sum(min(gap, 2 * US) for gap in gaps)
    assert int(found["npu.core.idle"].weight_ps.sum()) == idle
    assert int(found["npu.core.retention"].weight_ps.sum()) == sum(gaps) - idle
    spent = energy(trace).static_j
    assert spent["npu.core.active"] == pytest.approx(8e-3 * 26e-6)
    assert spent["npu.core.idle"] == pytest.approx(4e-3 * idle * 1e-12)
    assert spent["npu.leakage"] == pytest.approx(0.5e-3 * 40e-6)  # without states: the whole run


def test_power_over_time_shows_the_states():
    trace = with_states()
    watts = power(trace, US).device_w["npu"]
    idle, kept = 4e-3 + 0.5e-3, 1e-3 + 0.5e-3
    assert watts[:3] == pytest.approx([idle, idle, kept])
    assert power(trace, US).mean_w() * 40e-6 == pytest.approx(energy(trace).total_j, rel=1e-12)


def test_a_slower_clock_draws_less_and_its_actions_cost_less():
    """The rate of the unit halves at 5 us, before anything ran on it: 0.6 of 0.75 V."""
    full, slow = with_states(), with_states(rates=True)
    factor = (0.6 / 0.75) ** 2
    assert set(voltage_factors(slow)) == {"npu"}
    assert voltage_factors(full) == {}
    for action, joule in energy(full).action_j.items():
        assert energy(slow).action_j[action] == pytest.approx(joule * (factor if action == "npu.mac" else 1.0))
    assert energy(slow).counts == energy(full).counts
    assert energy(slow).static_j["npu.core.active"] == pytest.approx(0.5 * factor * 8e-3 * 26e-6)
    assert energy(slow).static_j["npu.core.idle"] == energy(full).static_j["npu.core.idle"]
    watts = power(slow, 3 * US)
    assert watts.total_w() @ np.diff(watts.edges_ps) * 1e-12 == pytest.approx(energy(slow).total_j, rel=1e-12)


def test_rates_of_other_things_change_no_voltage():
    assert voltage_factors(with_states(rates=True, clocks=())) == {}


def test_memory_without_units_is_active_while_something_counts_there():
    trace = with_states(units=[])
    trace.manifest["prices"]["states"] = {"dram.bank": {**STATES, "units": []}}
    for state, mw in (("active", 8.0), ("idle", 4.0), ("retention", 1.0)):
        trace.manifest["prices"]["power_mw"][f"dram.bank.{state}"] = {
            "value": mw,
            "unit": "mW",
            "source": "",
            "range": None,
        }
    counted = set(trace.counts["op"][np.char.startswith(trace.counts["action"], "dram.")].tolist())
    mine = trace.ran & np.isin(trace.rows["op"], list(counted))
    begin, end = union(trace.rows["start_ps"][mine], trace.row_end_ps[mine])
    assert int(spans(trace)["dram.bank.active"].weight_ps.sum()) == int((end - begin).sum()) > 0


def test_a_state_without_power_is_refused():
    trace = with_states()
    del trace.manifest["prices"]["power_mw"]["npu.core.idle"]
    with pytest.raises(InputError, match=r"state 'npu\.core\.idle' has no power"):
        energy(trace)


def test_hot_memory_refreshes_twice_as_often():
    manifest = sample_manifest()
    manifest["prices"]["power_mw"]["dram.refresh"] = {
        "value": 1.0,
        "unit": "mW",
        "range": None,
        "source": Cost(1.0, "mW", "assumed: a test").source,
    }
    tables = sample_tables()
    notes = tables["notes"]
    more = {
        "time_ps": [10 * US, 30 * US],
        "kind": ["hot_dram"] * 2,
        "request": [-1, -1],
        "value": [1, 0],
        "extra": [0, 0],
    }
    tables["notes"] = {name: np.concatenate([notes[name], np.array(more[name])]) for name in notes}
    trace = Trace(tables, manifest)
    assert energy(trace).static_j["dram.refresh"] == pytest.approx(1e-3 * (40e-6 + 20e-6))
    watts = power(trace, 10 * US).device_w["dram"]
    plain = power(Trace(sample_tables(), sample_manifest()), 10 * US).device_w["dram"]
    assert watts - plain == pytest.approx([1e-3, 2e-3, 2e-3, 1e-3])
