"""The checker of finished traces: silent on whatever the engine does, cuts, claims, stops and waits included."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archsim.engine.randomised import System
from archsim.report.invariants import InvariantError, check_trace
from archsim.session.tables import tables_of
from archsim.trace import CUT, RUNNING, Trace
from archsim.units import InputError

PROPERTY = settings(max_examples=100, deadline=None, derandomize=True)
MANIFEST = {
    "format": {"kind": "archsim-trace", "version": 1},
    "config": {"system": {"name": "random"}},
    "config_digest": "",
    "schedule": "random",
    "seed": 0,
    "stream": {"kind": "none", "label": "none"},
    "warnings": {},
    "prices": {"energy_pj": {}, "power_mw": {}, "area_um2": {}},
}


def trace_of(sim):
    """Trace of a random simulation; its operators cost nothing."""
    zeros = np.zeros(8, dtype=np.int64)
    names = np.full(8, "none")
    ints = dict.fromkeys(["m", "n", "k", "kv", "macs", "weight_bytes", "in_bytes", "out_bytes", "kv_bytes"], zeros)
    ops = {"op": np.arange(8), **ints, **dict.fromkeys(("device", "kind", "name", "role", "phase"), names)}
    machine = {
        "units": [{"name": unit.name} for unit in sim.units],
        "pools": [
            {"name": p.name, "capacity": p.capacity, "unit": "bytes/s", "fixed": p.capacity, "mix": [*p.mix.items()]}
            for p in sim.pools
        ],
        "stores": [{"name": s.name, "capacity": s.capacity, "unit": "slots", "level": s.level} for s in sim.stores],
    }
    return Trace(
        {**tables_of(sim), "ops": ops, "counts": {"op": [], "count": [], "action": []}}, {**MANIFEST, **machine}
    )


def holds(trace):
    return check_trace(trace, {"tokens": 0, "energy_j": 0.0, "background": {}})


@PROPERTY
@given(st.randoms(use_true_random=False), st.sampled_from(["tasks", "full"]), st.booleans())
def test_no_run_of_the_engine_violates_an_invariant(r, log, balanced):
    sim, _ = System(r, balanced=balanced).run(log=log)
    if len(sim.rows()["row"]):
        assert set(holds(trace_of(sim)).counts) >= {"times", "cuts", "units", "order", "bytes", "pools", "stores"}


def test_the_random_runs_hold_cuts_claims_and_waits():
    """The property above is about something: its runs have what is hard to check."""
    seen = set()
    for seed in range(60):
        sim, _ = System(random.Random(seed)).run(log="tasks")
        rows = sim.rows()
        seen |= set(rows["status"].tolist())
        seen |= {"cut in flow"} if ((rows["status"] == CUT) & (rows["done"] > 0)).any() else set()
        seen |= {"stopped"} if (sim.rates()["rate"] == 0).any() else set()
        seen |= {"claim"} if any((block.claim >= 0).any() for block in sim.script().templates) else set()
    assert seen >= {0, CUT, RUNNING, "cut in flow", "stopped", "claim"}


@pytest.mark.parametrize(
    "column", ["start_ps", "flow_ps", "end_ps", "status", "work", "done", "lead_ps", "unit", "block"]
)
def test_most_changes_of_one_cell_are_seen(column):
    """A single number of a row changed: nearly always some invariant breaks."""
    tried, seen = 0, 0
    for seed in range(40):
        sim, _ = System(random.Random(seed)).run(log="full")
        trace = trace_of(sim)
        if not len(trace.rows["row"]):
            continue
        row = seed % len(trace.rows["row"])
        values = trace.rows[column].copy()
        values[row] = values[row] + 997 if column not in ("status", "unit", "block") else (values[row] + 1) % 2
        if values[row] == trace.rows[column][row]:
            continue
        tried += 1
        try:
            holds(Trace({**trace.tables, "rows": {**trace.rows, column: values}}, trace.manifest))
        except (InvariantError, InputError):
            seen += 1
    assert tried >= 10
    assert seen >= 0.9 * tried, f"{seen} of {tried}"
