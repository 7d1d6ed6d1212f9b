"""Long runs leave memory while they go on: same digest, same summary, same replay as a run held in memory."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Mapping

import numpy as np
import pytest

from archsim import trace
from archsim.config import InputError
from archsim.engine import record, results
from archsim.report.energy import by_phase_and_device, energy
from archsim.report.null import null_model
from archsim.report.waste import waste
from archsim.session import load, replay, report, run, tables
from archsim.trace import Trace, diff, runfolder, spill, stored
from archsim.trace.spill import Spill
from archsim.trace.stored import StoredTable

JOB = {"target": "smollm2-135m", "stream": "recorded:exit_layers:15", "tokens": 10, "prompts": 2}


def resolved():
    return load(system="oneplus_12", schedule="chain_sd", job=JOB)


@pytest.fixture(scope="module")
def held():
    return run(resolved(), trace="off")


@pytest.fixture
def short(monkeypatch):
    """Tables count as long from 2,000 rows on, in row groups of 512."""
    for module in (spill, stored, runfolder, tables, trace):
        for name, rows in (("LONG_ROWS", 2000), ("ROW_GROUP", 512)):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, rows)
    monkeypatch.setattr(record, "KEEP_ROWS", 500)
    monkeypatch.setattr(record, "CHUNK", 512)
    monkeypatch.setattr(results, "RETIRE_ROWS", 512)


def same(a, b):
    if isinstance(a, Mapping):
        assert a.keys() == b.keys()
        for key in a:
            same(a[key], b[key])
    elif isinstance(a, list):
        assert len(a) == len(b)
        for one, other in zip(a, b):
            same(one, other)
    elif isinstance(a, float):
        assert a == pytest.approx(b, rel=1e-12)
    else:
        assert a == b


@pytest.mark.parametrize("mode", ["off", "tasks"])
def test_a_stored_run_has_the_digest_and_the_summary_of_one_in_memory(held, short, tmp_path, mode):
    result = run(resolved(), trace=mode, output=tmp_path / "run" if mode == "tasks" else None)
    assert result.trace.stored
    assert (tmp_path / "run").exists() == (mode == "tasks")
    summaries = [{k: v for k, v in r.summary.items() if k != "cpu_s"} for r in (held, result)]
    same(*summaries)
    assert all(np.array_equal(held.trace.rows[name], result.trace.rows[name]) for name in held.trace.rows)


@pytest.mark.parametrize("most", [0, 3, 1000])
def test_a_summary_is_the_same_however_many_pieces_it_keeps(held, short, monkeypatch, most):
    monkeypatch.setattr(trace, "KEPT_PARTS", most)
    result = run(resolved(), trace="off")
    assert result.trace.stored
    same(*({k: v for k, v in r.summary.items() if k != "cpu_s"} for r in (held, result)))
    assert result.warnings == held.warnings


def test_pieces_are_kept_while_a_trace_is_asked_to(short, monkeypatch):
    made = run(resolved(), trace="off").trace
    number = made.rows.file.metadata.num_row_groups
    monkeypatch.setattr(trace, "KEPT_PARTS", number - 1)
    with made.keeping():
        first = list(made.parts())
        with made.keeping():
            pass
        again = list(made.parts())
    assert [a is b for a, b in zip(first, again)] == [True] * (number - 1) + [False]
    assert all(a is not b for a, b in zip(first, made.parts()))
    alive, folder = weakref.ref(made), made.rows.path.parent
    del made, first, again
    assert alive() is None  # no circle holds it, and its folder goes with it
    assert not folder.exists()


def test_pieces_of_a_very_long_trace_are_not_kept(short, monkeypatch):
    made = run(resolved(), trace="off").trace
    monkeypatch.setattr(trace, "KEPT_PARTS", (made.rows.file.metadata.num_row_groups - 1) // 4)
    with made.keeping():
        assert next(made.parts()) is not next(made.parts())


def test_a_stored_folder_loads_reports_and_replays(held, short, tmp_path):
    folder = run(resolved(), output=tmp_path / "run").folder
    saved = Trace.load(folder)
    assert isinstance(saved.tables["script_rows"], StoredTable)
    assert saved.digest == held.summary["digest"]
    assert diff(saved, saved) == ""
    assert len(list(saved.parts())) == -(-saved.rows.rows // 512)
    for question in (energy, by_phase_and_device, waste, null_model):
        answers = [question(t) for t in (held.trace, saved)]
        same(*(vars(a) if hasattr(a, "__dict__") else a for a in answers))
    again = replay(folder)
    assert again == {"identical": True, "rows": saved.rows.rows, "digest": saved.digest, "difference": None}


def test_a_stored_folder_is_reported(short, tmp_path):
    """All of a report, with columns of rows read whole where a table needs them."""
    folder = run(resolved(), output=tmp_path / "run").folder
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(stored, "LONG_ROWS", 1 << 20)
        patched.setattr(runfolder, "LONG_ROWS", 1 << 20)
        assert not Trace.load(folder).stored
        expected = report(folder)
    same(report(folder), expected)


def test_a_stored_replay_notices_a_difference(short, tmp_path):
    saved = Trace.load(run(resolved(), output=tmp_path / "run").folder)
    slower = {**saved.manifest, "pools": [dict(p, fixed=p["fixed"] // 2, mix=[]) for p in saved.manifest["pools"]]}
    changed = replay(Trace(saved.tables, slower).save(tmp_path / "other"))
    assert not changed["identical"]
    assert changed["difference"].startswith("rows[")


def test_a_damaged_long_table_is_refused(short, tmp_path):
    folder = run(resolved(), output=tmp_path / "run").folder
    other = run(load(system="oneplus_12", schedule="chain_sd", job={**JOB, "tokens": 9}), output=tmp_path / "b").folder
    (folder / "rows.parquet").write_bytes((other / "rows.parquet").read_bytes())
    with pytest.raises(InputError, match="contents differ from the digest"):
        Trace.load(folder)


def test_a_failed_run_leaves_nothing(short, tmp_path, monkeypatch):
    monkeypatch.setattr(Spill, "finish", lambda self, manifest: (_ for _ in ()).throw(KeyboardInterrupt))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    for mode in ("off", "tasks"):
        with pytest.raises(KeyboardInterrupt):
            run(resolved(), trace=mode, output=tmp_path / "run" if mode == "tasks" else None)
    assert not (tmp_path / "run").exists()
    assert list((tmp_path / "scratch").iterdir()) == []


def test_rows_are_written_in_order_of_their_ids_however_they_come(short, tmp_path):
    pieces = []

    class Writer:
        def append(self, table, columns):
            pieces.append(columns["row"])

    kept = Spill(Writer)
    order = np.arange(5000).reshape(50, 100)
    order[[3, 20]] = order[[20, 3]]
    for chunk in order:
        kept.extend({"row": chunk.astype(np.int64)})
    written = np.concatenate([*pieces, kept.columns()["row"]])
    assert np.array_equal(written, np.arange(5000))
    assert kept.written >= 2000


def test_a_trace_goes_as_soon_as_nobody_holds_it(held):
    gc.collect()
    gc.disable()
    try:
        gone = weakref.ref(run(resolved(), trace="off").trace)
        assert gone() is None
    finally:
        gc.enable()
