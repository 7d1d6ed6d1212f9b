"""Long runs leave memory while they go on: same digest, same summary, same replay as a run held in memory."""

from __future__ import annotations

import errno
import gc
import os
import weakref
from collections.abc import Mapping

import numpy as np
import pytest

from archsim import trace
from archsim.config import InputError
from archsim.engine import record, results
from archsim.report.energy import Split, by_phase_and_device, energy
from archsim.report.null import null_model
from archsim.report.power import Binned
from archsim.report.summary import UnitTime, summarise
from archsim.report.sums import sums, take
from archsim.report.traffic import Executions
from archsim.report.waste import waste
from archsim.session import load, replay, report, run, tables
from archsim.sweep.work import attempt
from archsim.trace import SCHEMA, Trace, diff, runfolder, scratch, spill, stored
from archsim.trace.columns import digest_of
from archsim.trace.scratch import Scratch, ScratchTable
from archsim.trace.spill import Spill
from archsim.trace.stored import ParquetTable, StoredTable
from archsim.units import DiskError

JOB = {"target": "smollm2-135m", "stream": "recorded:exit_layers:15", "tokens": 10, "prompts": 2}


def resolved():
    return load(system="oneplus_12", schedule="chain_sd", job=JOB)


@pytest.fixture(scope="module")
def held():
    return run(resolved(), trace="off")


@pytest.fixture
def short(monkeypatch):
    """Tables count as long from 2,000 rows on, in row groups of 512."""
    for module in (spill, stored, runfolder, scratch, tables, trace):
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


def test_a_summary_reads_a_part_once_for_each_round_of_sums(short, monkeypatch):
    result = run(resolved(), trace="off")
    read = []
    monkeypatch.setattr(ScratchTable, "groups", lambda self: read.append(self.table) or StoredTable.groups(self))
    assert summarise(Trace(result.trace.tables, result.trace.manifest)).items() <= result.summary.items()
    assert read == ["rows"] * 4  # the check of units, the duration, and two rounds of sums


def test_sums_are_the_same_to_the_last_bit_whatever_is_taken_beside_them(short):
    made = run(resolved(), trace="off").trace

    def answers(trace):
        times, busy, split, power = (sums(trace, kind) for kind in (Executions, UnitTime, Split, Binned))
        return times.times.tolist(), busy.busy.tolist(), vars(split), power.headline_w(trace)

    together, apart = (Trace(made.tables, made.manifest) for _ in range(2))
    take(together, Binned, Split, UnitTime, Executions)
    assert answers(together) == answers(apart)


def test_what_a_run_wrote_goes_with_its_trace(short):
    made = run(resolved(), trace="off").trace
    alive, file = weakref.ref(made), made.rows._scratch._file
    assert not file.closed
    assert os.fstat(file.fileno()).st_nlink == 0  # it has no name, so a process that is killed leaves nothing
    assert 0 < os.fstat(file.fileno()).st_size < 40 * made.rows.rows
    assert made.rows.between(0, 3)["row"].tolist() == [0, 1, 2]  # what is kept of that holds no table
    del made
    assert alive() is None  # no circle holds it
    assert file.closed


def test_a_scratch_table_gives_back_what_was_written(short):
    written, rng = Scratch(), np.random.default_rng(1)
    columns = {name: rng.integers(-1, 9, 1300) * 10**place for place, name in enumerate(SCHEMA["rows"])}
    columns |= {"unit": np.full(1300, -1), "end_ps": np.where(rng.random(1300) < 0.5, -(1 << 62), 1 << 62)}
    columns |= {"work": np.full(1300, (1 << 63) - 1), "done": np.full(1300, -(1 << 63))}
    for first, last in ((0, 100), (100, 1100), (1100, 1300)):
        written.append("rows", {name: column[first:last] for name, column in columns.items()})
    table = written.table("rows")
    assert table.digest() == digest_of("rows", columns).digest()
    assert table.sizes == [512, 512, 76, 200]
    assert list(table) == list(columns)
    for name, column in columns.items():
        np.testing.assert_array_equal(table[name], column)
    with pytest.raises(KeyError):
        table["other"]


def test_a_scratch_table_may_be_empty_and_holds_whole_numbers_alone():
    written = Scratch()
    written.append("rows", {name: np.empty(0, np.int64) for name in SCHEMA["rows"]})
    table = written.table("rows")
    assert (table.rows, list(table), table["unit"].tolist()) == (0, list(SCHEMA["rows"]), [])
    with pytest.raises(TypeError, match="column 'kind' of 'script_rows' is float64, not int64"):
        written.append("script_rows", {"kind": np.array([0.5])})


def test_a_temporary_folder_that_is_not_there_is_one_line(short, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    with pytest.raises(DiskError, match=r"temporary files .TMPDIR.: No such file or directory"):
        run(resolved(), trace="off")


def test_a_full_disk_is_one_line(short, monkeypatch):
    monkeypatch.setattr(os, "write", lambda file, data: (_ for _ in ()).throw(OSError(errno.ENOSPC, "No space left")))
    with pytest.raises(DiskError, match="cannot be written: No space left"):
        run(resolved(), trace="off")
    with pytest.raises(DiskError):  # no result of a sweep's point: it is tried again when there is room
        attempt(lambda: {"status": str(run(resolved(), trace="off"))})


def test_a_stored_folder_loads_reports_and_replays(held, short, tmp_path):
    folder = run(resolved(), output=tmp_path / "run").folder
    saved = Trace.load(folder)
    assert isinstance(saved.tables["script_rows"], ParquetTable)
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
    monkeypatch.setattr(Spill, "finish", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    files = []
    aborted = Spill.abort
    monkeypatch.setattr(Spill, "abort", lambda self: (aborted(self), files.append(self.writer)))
    for mode in ("off", "tasks"):
        with pytest.raises(KeyboardInterrupt):
            run(resolved(), trace=mode, output=tmp_path / "run" if mode == "tasks" else None)
    assert not (tmp_path / "run").exists()
    assert list((tmp_path / "scratch").iterdir()) == []
    assert files[0]._file.closed  # at once, whatever holds the traceback


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
