"""What rows waited for, read from the recorded script: nothing starts too early, stores reach the logged levels."""

from __future__ import annotations

import numpy as np
import pytest

from archsim.engine import record
from archsim.report.counters import counters
from archsim.report.depends import across, dependencies, ready_ps
from archsim.report.window import occupancy
from archsim.session import load, run
from archsim.trace import ADD, EMIT, Trace

JOB = {"target": "smollm2-135m", "stream": "recorded:exit_layers:25", "tokens": 4, "prompt_tokens": 4}


@pytest.fixture(scope="module", params=["flash_ar", "chain_sd"])
def trace(request, tmp_path_factory):
    job = {**JOB, **({"draft": "smollm2-135m"} if request.param == "chain_sd" else {})}
    resolved = load({"name": "x", "system": "oneplus_12", "schedule": {"name": request.param}, "job": job})
    return run(resolved, trace="full", output=tmp_path_factory.mktemp("runs") / "run").trace


def test_no_row_starts_before_what_it_waits_for(trace):
    before, after = dependencies(trace)
    rows = trace.rows
    started = rows["start_ps"][after] >= 0
    assert started.sum() > 500
    assert (rows["end_ps"][before][started] >= 0).all()
    assert (rows["end_ps"][before] <= rows["start_ps"][after])[started].all()


def test_a_ready_row_waits_only_for_its_unit_or_a_store(trace):
    """A row starts when it is ready, or when its unit was given up, or when a store of its let it in."""
    rows, ready = trace.rows, ready_ps(trace)
    ran = np.flatnonzero(trace.ran & (rows["unit"] >= 0))
    assert (ready[ran] <= rows["start_ps"][ran]).all()
    late = ran[ready[ran] < rows["start_ps"][ran]]
    freed = {(int(u), int(t)) for u, t in zip(rows["unit"][ran], rows["end_ps"][ran])}
    stores = set(trace.tables["levels_log"]["time_ps"].tolist())
    odd = [i for i in late.tolist() if (int(rows["unit"][i]), int(rows["start_ps"][i])) not in freed]
    assert all(int(rows["start_ps"][i]) in stores for i in odd)


def test_arrows_join_different_units_in_the_order_of_time(trace):
    before, after = across(trace)
    rows = trace.rows
    assert len(before) > 3
    assert (rows["unit"][before] != rows["unit"][after]).all()
    assert (rows["unit"][before] >= 0).all()
    assert (trace.row_end_ps[before] <= rows["start_ps"][after]).all()


def test_stores_follow_from_rows_and_script_as_the_engine_logged_them(trace):
    silent = {name: column[:0] for name, column in trace.tables["levels_log"].items()}
    told = Trace({**trace.tables, "levels_log": silent}, trace.manifest)
    logged = set(trace.tables["levels_log"]["store"].tolist())
    assert logged
    for store in logged:
        (at, level), (other_at, other) = occupancy(trace, store), occupancy(told, store)
        times = np.unique(np.append(at, other_at))
        first = level[np.searchsorted(at, times, "right") - 1]
        assert first.tolist() == other[np.searchsorted(other_at, times, "right") - 1].tolist()


def test_queues_hold_what_is_ready_and_not_started(trace):
    curves = {curve.name: curve for curve in counters(trace)}
    rows, ready = trace.rows, ready_ps(trace)
    for unit, name in enumerate(trace.unit_names):
        mine = trace.ran & (rows["unit"] == unit)
        waited = np.sum((rows["start_ps"] - ready)[mine])
        curve = curves.get(f"{name} queue")
        area = 0.0 if curve is None else np.sum(np.diff(curve.time_ps) * curve.value[:-1])
        assert area == pytest.approx(float(waited))
        assert curve is None or (curve.value.min() >= 0 and curve.value[-1] == 0)


def test_a_trace_without_a_script_tells_nothing(trace):
    bare = Trace({name: table for name, table in trace.tables.items() if not name.startswith("script")}, trace.manifest)
    assert (dependencies(bare), across(bare), ready_ps(bare)) == (None, None, None)
    assert {curve.kind for curve in counters(bare)} <= {"power", "pool", "store"}


def test_reports_read_the_kinds_of_script_actions_that_the_engine_writes():
    assert (EMIT, ADD) == (record.EMIT, record.ADD)


def test_a_script_without_edges_or_waits_is_read(trace):
    """Tables that stayed empty need not be there."""
    fewer = {name: table for name, table in trace.tables.items() if name not in ("script_after", "script_edges")}
    before, after = dependencies(Trace(fewer, trace.manifest))
    assert len(before) == len(after) == 0
