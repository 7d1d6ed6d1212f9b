"""Whatever the run, power integrates to energy, splits add up, and owners share out the whole time."""

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archsim.report.energy import energy
from archsim.report.owner import owner
from archsim.report.power import power, spread
from archsim.report.summary import busy_fraction, busy_ps
from archsim.report.traffic import fractions
from archsim.trace import Trace

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))
from test_report_sample import BLOCKS, OPS, sample_manifest, sample_tables

ROW = st.tuples(
    st.integers(0, 2),  # unit
    st.integers(-1, len(OPS) - 1),
    st.integers(0, len(BLOCKS) - 1),
    st.integers(0, 10**9),  # gap since the unit's last row
    st.integers(0, 10**10),  # lead
    st.integers(0, 10**11),  # flow
    st.integers(0, 2),  # status
    st.integers(0, 1 << 40),  # work
    st.floats(0, 1),  # done of work when cut
)


def run_of(entries) -> Trace:
    """Rows one after the other on each unit, some cut in their lead or flow, some never started."""
    free, rows = [0, 0, 0], []
    for unit, op, block, gap, lead, flow, status, work, part in entries:
        start = free[unit] + gap
        done = int(work * part) if status == 1 else (work if status == 0 else 0)
        elapsed = lead if status == 0 or done else lead // 2
        end = start + elapsed + (flow if status == 0 or done else 0)
        if status == 2:
            rows.append((unit, op, block, -1, -1, start, status, work, 0, 0))
            continue
        free[unit] = end
        flowed = start + elapsed if status == 0 or done else -1
        rows.append((unit, op, block, start, flowed, end, status, work, done, elapsed))
    names = ("unit", "op", "block", "start_ps", "flow_ps", "end_ps", "status", "work", "done", "lead_ps")
    columns = dict(zip(names, np.array(rows, dtype=np.int64).reshape(-1, len(names)).T))
    zero = np.zeros(len(rows), dtype=np.int64)
    tables = sample_tables()
    return Trace(
        {**tables, "rows": {**columns, "row": np.arange(len(rows)), "request": zero, "priority": zero}},
        sample_manifest(),
    )


@settings(max_examples=60, deadline=None)
@given(st.lists(ROW, max_size=30), st.integers(1, 200))
def test_power_integrates_to_energy_and_shares_add_up(entries, bins):
    trace = run_of(entries)
    spent = energy(trace)
    watts = power(trace, max(1, trace.duration_ps // bins))
    integral = watts.total_w() @ np.diff(watts.edges_ps) * 1e-12
    assert integral == pytest.approx(spent.total_j, rel=1e-9)
    for device, joule in spent.by_device().items():
        mine = watts.device_w[device] @ np.diff(watts.edges_ps) * 1e-12
        assert mine == pytest.approx(joule, rel=1e-9, abs=1e-9 * spent.total_j)
    assert (watts.total_w() >= 0).all()
    assert spent.useful_j + spent.wasted_j == pytest.approx(spent.dynamic_j, rel=1e-9)
    assert sum(spent.phase_j.values()) == pytest.approx(spent.dynamic_j, rel=1e-9)
    prices = trace.manifest["prices"]["energy_pj"]
    assert spent.dynamic_j == sum(count * prices[a]["value"] / 10**12 for a, count in spent.counts.items())
    share = fractions(trace)
    assert ((share >= 0) & (share <= 1)).all()


@settings(max_examples=60, deadline=None)
@given(st.lists(ROW, max_size=30))
def test_owners_share_out_the_whole_run(entries):
    trace = run_of(entries)
    owned = owner(trace)
    assert sum(owned.values()) == pytest.approx(trace.duration_ps * 1e-12, rel=1e-9)
    for unit, seconds in owned.items():
        if unit != "wait":
            assert seconds <= busy_fraction(trace)[unit] * trace.duration_ps * 1e-12 * (1 + 1e-9)


SPAN = st.tuples(st.integers(0, 100), st.integers(0, 60), st.floats(0, 1e6))


@settings(max_examples=100, deadline=None)
@given(st.lists(SPAN, max_size=20), st.sets(st.integers(0, 160), min_size=2, max_size=12))
def test_spread_equals_spreading_one_unit_of_time_after_the_other(spans, marks):
    edges = np.array(sorted(marks))
    begin = np.array([a for a, _, _ in spans], dtype=np.int64)
    end = begin + np.array([n for _, n, _ in spans], dtype=np.int64)
    amount = np.array([x for _, _, x in spans])
    slow = np.zeros(len(edges) - 1)
    for a, b, x in zip(begin, end, amount):
        for t in range(a, max(b, a + 1)):
            inside = edges[0] <= t < edges[-1] or (a == b == edges[-1])
            if inside:
                slow[min(np.searchsorted(edges, t, "right") - 1, len(slow) - 1)] += x / max(b - a, 1)
    assert spread(begin, end, amount, edges) == pytest.approx(slow, rel=1e-9, abs=1e-6)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=12))
def test_union_of_intervals_counts_each_ps_once(spans):
    start = np.array([a for a, _ in spans], dtype=np.int64)
    end = start + np.array([n for _, n in spans], dtype=np.int64)
    assert busy_ps(start, end) == len({t for a, b in zip(start, end) for t in range(a, b)})
