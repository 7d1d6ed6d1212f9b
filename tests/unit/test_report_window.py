"""Address windows in reports: occupancy from the script equals the logged one, cuts included; table and figure."""

from __future__ import annotations

import numpy as np
import pytest

from archsim.engine.block import make_block
from archsim.report import figures, style
from archsim.report.document import document
from archsim.report.window import fragmentation, occupancy, window, window_stores
from archsim.session import load, run
from archsim.session.tables import tables_of
from archsim.trace import Trace
from archsim.units import InputError

JOB = {"target": "smollm2-135m", "stream": "recorded:exit_layers:25", "tokens": 5}


def traced(mapping, window_mb, folder, trace="tasks"):
    sets = (f"system.npu.window_bytes={window_mb} MB", "system.npu.max_buffer_bytes=8 MiB",
            "system.npu.window_sessions=1")  # fmt: skip
    resolved = load(system="oneplus_12", schedule="resident_ar", job={**JOB, "mapping": mapping}, sets=sets)
    return run(resolved, trace=trace, output=folder / mapping).trace


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    sizes = {"per_operator": 48, "drop_all": 96, "resident": 120, "first_touch_lru": 48, "none": 48}
    folder = tmp_path_factory.mktemp("runs")
    return {name: traced(name, size, folder) for name, size in sizes.items()}


def steps(curve):
    """A step curve by its last level at each time, without steps of no height."""
    times, where = np.unique(curve[0][::-1], return_index=True)
    levels = curve[1][::-1][where]
    kept = np.append(True, np.diff(levels) != 0)
    return times[kept].tolist(), levels[kept].tolist()


@pytest.mark.parametrize(("mapping", "window_mb"), [("per_operator", 48), ("drop_all", 96), ("resident", 120)])
def test_occupancy_from_the_script_equals_the_logged_levels(mapping, window_mb, tmp_path):
    trace = traced(mapping, window_mb, tmp_path, trace="full")
    bare = Trace({name: table for name, table in trace.tables.items() if name != "levels_log"}, trace.manifest)
    stores = window_stores(trace)
    assert "npu.window" in stores
    for store in stores.values():
        assert steps(occupancy(trace, store)) == steps(occupancy(bare, store))
    assert max(occupancy(bare, stores["npu.window"])[1]) <= window_mb * 1e6


def test_what_cut_rows_held_is_given_back(traces):
    """A row that took and ended, whose heir is cut; one cut while it holds; one that gives at its end."""
    from archsim.session import declare

    origin = traces["none"]
    sim = declare(origin.manifest, log="full")
    store = window_stores(origin)["npu.window"]

    def steps_of():
        rows = [
            {"lead": 10, "store": (store,), "store_start": (5,), "heir": 1},
            {"lead": 100, "store": (store,), "store_end": (-5,)},
            {"lead": 100, "store": (store,), "store_start": (3,), "store_end": (-3,)},
        ]
        whole = sim.emit(make_block(rows[:2], "chain"))
        sim.emit(make_block(rows[2:]))
        first = sim.emit(make_block(rows, [(0, 1)]))
        yield sim.timer(40)
        sim.cut(first)
        yield whole

    sim.process(steps_of(), "steps")
    sim.run()
    made = tables_of(sim)
    trace = Trace({**made, "ops": origin.ops, "counts": origin.counts}, origin.manifest)
    bare = Trace({name: t for name, t in trace.tables.items() if name != "levels_log"}, trace.manifest)
    assert steps(occupancy(trace, store)) == steps(occupancy(bare, store)) == ([0, 40, 100, 110], [16, 8, 5, 0])


def test_the_table_counts_calls_and_bytes(traces):
    naive = window(traces["per_operator"])[0]
    assert naive["op_calls"] == 5 * 15 * 30  # prefill and four steps
    assert naive["map_calls"] == naive["mapped_bytes"] == 0
    assert naive["swapped_bytes"] > 5 * 70e6
    assert 0 < naive["peak_bytes"] < naive["window_bytes"] == 48_000_000
    swapping = window(traces["resident"])[0]
    assert swapping["mapped_bytes"] == swapping["peak_bytes"]
    assert 0 < swapping["swapped_bytes"] < naive["swapped_bytes"]
    dropping = window(traces["drop_all"])[0]
    assert dropping["unmapping_passes"] > 0
    assert 0 <= dropping["fragmentation"] < 1
    assert dropping["fragmentation"] == fragmentation(traces["drop_all"], "npu").max()
    nothing = window(traces["none"])[0]
    assert (nothing["map_calls"], nothing["op_calls"], nothing["host_s"], nothing["peak_bytes"]) == (0, 0, 0.0, 0)


def test_the_report_shows_the_windows_a_machine_has(traces):
    trace = traces["drop_all"]
    assert document(trace, "run")["tables"]["Address windows"] == window(trace)
    stores = [{**store, "name": "npu.other"} for store in trace.manifest["stores"]]
    without = Trace(trace.tables, {**trace.manifest, "stores": stores})
    assert "Address windows" not in document(without, "run")["tables"]
    assert "window" in figures.kinds_of(traces["drop_all"])
    assert "window" not in figures.kinds_of(traces["none"])


@pytest.mark.parametrize("mapping", ["per_operator", "resident", "drop_all"])
def test_the_figure_is_the_same_every_time(traces, mapping, tmp_path):
    first = style.save(figures.figure(traces[mapping], "window"), tmp_path / "a.svg").read_bytes()
    assert len(first) > 4000
    assert style.save(figures.figure(traces[mapping], "window"), tmp_path / "b.svg").read_bytes() == first


def test_a_trace_without_levels_and_script_has_no_curve(traces):
    trace = traces["per_operator"]
    tables = {name: table for name, table in trace.tables.items() if not name.startswith("script")}
    bare = Trace(tables, trace.manifest)
    assert window(bare)[0]["peak_bytes"] is None
    with pytest.raises(InputError, match="this run has no address window whose level its trace tells"):
        figures.figure(bare, "window")
