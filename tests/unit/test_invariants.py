"""A run tampered with in each way is found out, by the invariant that it breaks and the row that breaks it."""

import copy
import json
import time

import numpy as np
import pytest

from archsim.cli import run_cli
from archsim.report.invariants import InvariantError, check_trace
from archsim.report.invariants.times import check_cuts, check_times, check_units
from archsim.report.invariants.view import View
from archsim.report.window import template_rows
from archsim.session import load, run, running
from archsim.trace import Trace

JOB = {"target": "smollm2-135m", "stream": "recorded:exit_layers:25", "tokens": 6}


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    loaded = load(system="oneplus_12", schedule="lever", job=JOB)
    return run(loaded, trace="full", output=tmp_path_factory.mktemp("runs") / "honest", check=True)


def changed(trace, table, column, change):
    """Trace with one column of a table passed through `change` (which gets a copy)."""
    values = trace.tables[table][column].copy()
    made = change(values)
    values = values if made is None else made
    return Trace({**trace.tables, table: {**trace.tables[table], column: values}}, trace.manifest)


def machine(trace, what, name, **values):
    """Trace whose manifest says something else of a pool or store."""
    manifest = copy.deepcopy(dict(trace.manifest))
    next(entry for entry in manifest[what] if entry["name"] == name).update(values)
    return Trace(trace.tables, manifest)


def shift(rows, by):
    """Change that adds to some rows."""

    def change(values):
        values[rows] += by

    return change


def busy_row(trace):
    """A row on a unit that began when the one before it on that unit ended."""
    rows = trace.rows
    order = np.lexsort((rows["start_ps"], rows["unit"]))
    unit, start, end = (rows[name][order] for name in ("unit", "start_ps", "end_ps"))
    next_to = (unit[1:] >= 0) & (unit[1:] == unit[:-1]) & (start[1:] == end[:-1]) & (end[1:] > start[1:])
    return int(order[1:][np.flatnonzero(next_to)[0]])


def flowing(trace, pool="dram.bandwidth"):
    """The row that drew most from a pool."""
    names = [entry["name"] for entry in trace.manifest["pools"]]
    drawn, _ = View.of(trace).pool_coef[names.index(pool)]
    return int(drawn[np.argmax(trace.rows["done"][drawn])])


def note(trace, kind):
    return int(np.flatnonzero(trace.notes["kind"] == kind)[0])


def script_row(trace, row):
    """Line of a row in the script."""
    return int(template_rows(trace)[0][row])


def swapped_edges(trace):
    """Trace whose first template's dependencies point the other way."""
    edges = trace.tables["script_edges"]
    turned = {"template": edges["template"], "row": edges["succ"], "succ": edges["row"]}
    return Trace({**trace.tables, "script_edges": turned}, trace.manifest)


def overlapping(trace):
    """Trace with a row moved, whole, one picosecond into the one before it."""
    row = busy_row(trace)
    for column in ("start_ps", "flow_ps", "end_ps"):
        trace = changed(trace, "rows", column, shift([row], -1))
    return trace


def faster(trace):
    """Trace with a row that did a hundred times its work in the same time, and was asked to."""
    row = flowing(trace)
    for column in ("work", "done"):
        trace = changed(trace, "rows", column, shift([row], 99 * int(trace.rows[column][row])))
    lines = [script_row(trace, row)]
    return changed(
        trace,
        "script_rows",
        "work",
        shift(lines, int(trace.rows["work"][row] - trace.tables["script_rows"]["work"][lines[0]])),
    )


def without_gives(trace):
    """Trace whose rows never give back what they took."""
    for j in range(2):
        trace = changed(trace, "script_rows", f"store_end_{j}", np.zeros_like)
    return trace


def claimed(trace):
    """Trace whose rows all claim the first pool."""
    return changed(trace, "script_rows", "claim", np.zeros_like)


def cut(trace):
    """Trace with a row said to be cut although what depends on it went on."""
    return changed(trace, "rows", "status", shift([flowing(trace)], 1))


def cut_block(trace):
    """Trace with a block, whole, said to be cut although what waited for it went on."""
    block = int(trace.tables["script_after"]["block"][0])
    rows = np.flatnonzero(trace.rows["block"] == block)
    return changed(changed(trace, "rows", "status", shift(rows, 1)), "blocks", "status", shift([block], 1))


def early(trace):
    """Trace with a row that ends one picosecond before it flows."""
    row = flowing(trace)
    return changed(trace, "rows", "end_ps", shift([row], int((trace.rows["flow_ps"] - trace.rows["end_ps"])[row]) - 1))


TAMPERINGS = {
    "start before emission": ("times", lambda t: changed(t, "blocks", "emit_ps", shift([2], 10**12))),
    "flow before start": ("times", lambda t: changed(t, "rows", "flow_ps", shift([flowing(t)], -(10**15)))),
    "end before flow": ("times", early),
    "another lead": ("times", lambda t: changed(t, "rows", "lead_ps", shift([5], 1))),
    "marks out of order": ("times", lambda t: changed(t, "notes", "time_ps", lambda v: v[::-1].copy())),
    "an action after the end": ("times", lambda t: changed(t, "script", "time_ps", shift([-1], 10**15))),
    "mixes that miss time": ("times", lambda t: changed(t, "mix", "time_ps", shift([0], -1))),
    "done without its work": ("cuts", lambda t: changed(t, "rows", "done", shift([flowing(t)], -1))),
    "a cut row in a block that is done": ("cuts", cut),
    "a cut block with what depends on it done": ("order", cut_block),
    "an unknown status": ("cuts", lambda t: changed(t, "rows", "status", shift([3], 7))),
    "a block that ends early": ("cuts", lambda t: changed(t, "blocks", "end_ps", shift([1], -1))),
    "a mark of too much": ("cuts", lambda t: changed(t, "blocks", "useful", shift([0], 99))),
    "a row that is missing": ("cuts", lambda t: changed(t, "rows", "row", shift([7], 1))),
    "two rows on a unit": ("units", overlapping),
    "two claims on a pool": ("units", claimed),
    "dependencies turned round": ("order", swapped_edges),
    "a block before what it waits for": ("order", lambda t: changed(t, "script_after", "block", shift([0], 5))),
    "a row of another block": ("order", lambda t: changed(t, "rows", "block", shift([flowing(t)], 1))),
    "another operator": ("bytes", lambda t: changed(t, "rows", "op", shift([flowing(t)], -1))),
    "other work than emitted": ("bytes", lambda t: changed(t, "script_rows", "work", shift([0], 1))),
    "faster than its pools": ("pools", faster),
    "a pool half as wide": ("pools", lambda t: halved(t)),
    "a log above the capacity": ("pools", lambda t: changed(t, "pool_log", "value", shift([40], 1 << 40))),
    "a log that lost bytes": ("pools", lambda t: changed(t, "pool_log", "value", lambda v: v // 2)),
    "a store half as large": ("stores", lambda t: machine(t, "stores", "npu.window", capacity=1)),
    "nothing given back": ("stores", without_gives),
    "a level that does not follow": ("stores", lambda t: changed(t, "levels_log", "value", shift([5], 1))),
    "a token more": ("tokens", lambda t: changed(t, "notes", "value", shift([note(t, "commit")], 1))),
    "more accepted than verified": ("tokens", lambda t: changed(t, "notes", "extra", shift([note(t, "accept")], -99))),
    "an action undone": ("energy", lambda t: changed(t, "counts", "count", shift([0], -(10**12)))),
}


def halved(trace):
    entry = next(pool for pool in trace.manifest["pools"] if pool["name"] == "dram.bandwidth")
    mix = [[mask, fixed // 2] for mask, fixed in entry["mix"]]
    return machine(trace, "pools", "dram.bandwidth", fixed=entry["fixed"] // 2, mix=mix)


@pytest.mark.parametrize("what", TAMPERINGS)
def test_tampering_is_named(honest, what):
    invariant, tamper = TAMPERINGS[what]
    with pytest.raises(InvariantError) as caught:
        check_trace(tamper(honest.trace), honest.summary)
    said = str(caught.value)
    assert f"invariant '{invariant}'" in said
    assert "\n" not in said
    assert any(word in said for word in ("row ", "rows ", "block ", "mark ", "pool ", "store ", "request ", "entry "))


@pytest.mark.parametrize(("key", "by", "invariant"), [("tokens", 1, "tokens"), ("energy_j", 1e-6, "energy")])
def test_a_summary_that_disagrees_is_named(honest, key, by, invariant):
    with pytest.raises(InvariantError, match=f"invariant '{invariant}'"):
        check_trace(honest.trace, {**honest.summary, key: honest.summary[key] + by})


def test_what_was_checked_is_counted(honest):
    checks = honest.summary["checks"]
    assert list(checks["counts"]) == ["times", "cuts", "units", "order", "bytes", "pools", "stores", "tokens", "energy"]
    assert all(count > 0 for count in checks["counts"].values())
    assert checks["skipped"] == {}
    dram = checks["pools"]["dram.bandwidth"]
    assert dram["asked_bytes"] == dram["served_bytes"] > 1e8
    assert dram["left_bytes"] == 0
    json.dumps(checks, allow_nan=False)


def test_a_kept_run_is_checked_from_its_folder(honest, capsys):
    assert run_cli(["check", str(honest.folder)]) == 0
    assert "comparisons of 9 invariants" in capsys.readouterr().out
    assert run_cli(["check", str(honest.folder), "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)["files"]
    assert entry["checks"]["counts"] == honest.summary["checks"]["counts"]


def test_a_violation_is_one_line_and_exit_3(honest, tmp_path, capsys, monkeypatch):
    folder = overlapping(honest.trace).save(tmp_path / "bad")
    assert run_cli(["check", str(folder)]) == 3
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "invariant 'units' does not hold: rows" in said

    made = running.finished
    monkeypatch.setattr(running, "finished", lambda *args, **named: overlapping(made(*args, **named)))
    command = ["run", "--system", "oneplus_12", "--schedule", "lever", "--tokens", "6", "--trace", "off", "--json"]
    command += ["--target", JOB["target"], "--stream", JOB["stream"]]
    assert run_cli(command) == 0
    capsys.readouterr()
    assert run_cli([*command, "--check"]) == 3
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    assert "invariant 'units'" in shown.err


def test_bad_input_comes_before_a_violation(honest, tmp_path, capsys):
    folder = overlapping(honest.trace).save(tmp_path / "bad")
    assert run_cli(["check", str(folder), str(tmp_path / "missing.yaml")]) == 2
    assert capsys.readouterr().err.count("\n") == 2


def test_without_a_script_the_rest_is_checked(honest):
    bare = {name: table for name, table in honest.trace.tables.items() if not name.startswith("script")}
    checks = check_trace(Trace(bare, honest.trace.manifest))
    assert set(checks.skipped) == {"order", "bytes", "pools", "stores"}
    assert set(checks.counts) == {"times", "cuts", "units", "tokens", "energy"}


def repeated(trace, copies):
    """The run over and over, one after the other, without its script."""
    rows, blocks = dict(trace.rows), dict(trace.blocks)
    span = trace.duration_ps
    for table, key in ((rows, "row"), (blocks, "block")):
        number = np.repeat(np.arange(copies), len(table[key]))
        for name, column in table.items():
            table[name] = np.tile(column, copies)
            if name.endswith("_ps") and name != "lead_ps":
                table[name] = table[name] + number * span
        for name, size in (("row", len(trace.rows["row"])), ("block", len(trace.blocks["block"]))):
            if name in table:
                table[name] = table[name] + number * size
    kept = {name: trace.tables[name] for name in ("ops", "counts", "notes")}
    return Trace({**kept, "rows": rows, "blocks": blocks}, trace.manifest)


def test_a_million_rows_take_seconds(honest):
    """The checks are over columns, not loops: their time is that of sorting."""
    many = repeated(honest.trace, -(-1_000_000 // len(honest.trace.rows["row"])))
    view = View.of(many)
    began = time.process_time()
    checked = check_times(view) + check_cuts(view) + check_units(view)
    assert time.process_time() - began < 8
    assert checked > 10_000_000
