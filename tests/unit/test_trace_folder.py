"""Traces: digests, differences, and run folders that are read back, refused or broken."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from archsim.report.document import document
from archsim.trace import DIGESTED, SCHEMA, Trace, TraceWriter, diff, runfolder
from archsim.trace.columns import REQUIRED
from archsim.trace.manifest import seal
from archsim.units import InputError

sys.path.insert(0, str(Path(__file__).parent))
from test_report_sample import sample, sample_manifest, sample_tables


def equal(a: Trace, b: Trace) -> bool:
    return set(a.tables) == set(b.tables) and all(
        np.array_equal(a.tables[t][c], b.tables[t][c]) and a.tables[t][c].dtype.kind == b.tables[t][c].dtype.kind
        for t in a.tables
        for c in a.tables[t]
    )


def test_round_trip(tmp_path):
    before = sample()
    after = Trace.load(before.save(tmp_path / "run"))
    assert equal(before, after)
    assert after.digest == before.digest == after.manifest["digest"]
    assert diff(before, after) == ""
    assert after.manifest["prices"] == before.manifest["prices"]
    assert sorted(p.name for p in (tmp_path / "run").iterdir()) == [
        "blocks.parquet", "counts.parquet", "levels_log.parquet", "manifest.json", "notes.parquet", "ops.parquet",
        "rates.parquet", "rows.parquet",
    ]  # fmt: skip


def test_round_trip_of_an_empty_run_and_of_a_script(tmp_path):
    empty = {table: {column: np.empty(0) for column in SCHEMA[table]} for table in REQUIRED}
    script = {"time_ps": np.arange(3), "name": np.array(["a", "", "µ"]), "fraction": np.array([0.5, 1.0, 2.0])}
    before = Trace({**empty, "script": script}, sample_manifest())
    after = Trace.load(before.save(tmp_path / "run"))
    assert equal(before, after)
    assert after.duration_ps == 0


def test_writing_in_pieces_gives_the_same_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(runfolder, "ROW_GROUP", 4)
    whole = sample()
    with TraceWriter(
        tmp_path / "run", "c0ffee", adapt={"notes": lambda c: {**c, "kind": c["kind"].astype(object)}}
    ) as w:
        for table, columns in whole.tables.items():
            for i in range(len(next(iter(columns.values())))):
                w.append(table, {name: values[i : i + 1] for name, values in columns.items()})
        folder = w.finish(whole.manifest)
    assert equal(Trace.load(folder), whole)
    assert json.loads((folder / "manifest.json").read_text())["digest"] == whole.digest
    assert pq.ParquetFile(folder / "rows.parquet").num_row_groups == 3


def test_digest_is_pinned():
    """The digest is a format: it may change only together with the format's version."""
    assert sample().digest == "5c614b0ef767dfc89f52a6cac53b49b5ca81c5e288772d1e7d4a62e5a155f048"


@pytest.mark.parametrize(("table", "column"), [(t, c) for t in DIGESTED for c in SCHEMA[t]])
def test_digest_feels_every_column(table, column):
    tables = sample_tables()
    values = tables[table][column].copy()
    if values.dtype.kind == "U":
        values = np.array([*values[:-1], values[-1] + "x"])
    else:
        values[-1] = 0 if column == "unit" else values[-1] - 1
    tables[table][column] = values
    changed = Trace(tables, sample_manifest())
    assert changed.digest != sample().digest
    assert diff(sample(), changed).startswith(f"{table}[{len(values) - 1}].{column}: ")


def test_digest_is_independent_of_manifest_text_width_and_byte_order():
    tables = sample_tables()
    tables["rows"]["work"] = tables["rows"]["work"].astype(">i8")
    tables["blocks"]["label"] = tables["blocks"]["label"].astype("U40")
    assert Trace(tables, sample_manifest(seed=8, versions={})).digest == sample().digest


def test_text_columns_do_not_run_together():
    tables = sample_tables()
    tables["blocks"]["label"][:2] = ["prefil", "ldraft"]
    assert Trace(tables, sample_manifest()).digest != sample().digest


def test_diff_names_the_first_row_then_the_length():
    tables = sample_tables()
    tables["rows"]["end_ps"][4] += 5
    tables["rows"]["start_ps"][6] += 5
    assert diff(sample(), Trace(tables, sample_manifest())) == "rows[4].end_ps: 28000000 against 28000005"
    tables = sample_tables()
    tables["notes"] = {name: values[:-1] for name, values in tables["notes"].items()}
    assert diff(sample(), Trace(tables, sample_manifest())) == "notes: 8 entries against 7; the first 7 are equal"


def test_diff_of_optional_tables():
    script = {"script": {"time_ps": np.arange(2)}}
    plain, scripted = sample(), Trace({**sample_tables(), **script}, sample_manifest())
    assert diff(plain, scripted) == "script: columns none against time_ps"
    empty = Trace({**sample_tables(), "script": {"time_ps": np.empty(0)}}, sample_manifest())
    assert diff(plain, empty) == ""


def rewrite(path: Path, change) -> None:
    pq.write_table(change(pq.read_table(path)), path)


def edit(folder: Path, *, sealed: bool = True, **changes) -> None:
    """Change the manifest; sealed anew, it is a consistent one of somebody else."""
    path = folder / "manifest.json"
    manifest = {**json.loads(path.read_text()), **changes}
    kept = {key: value for key, value in manifest.items() if value is not None}
    path.write_text(json.dumps(seal(kept) if sealed else kept))


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def remove_manifest(folder: Path, *, tables: bool) -> None:
    (folder / "manifest.json").unlink()
    for path in folder.glob("*.parquet") if tables else ():
        path.unlink()


def as_double(table: pa.Table) -> pa.Table:
    return table.set_column(table.column_names.index("end_ps"), "end_ps", table["end_ps"].cast(pa.float64()))


def with_null(table: pa.Table) -> pa.Table:
    return table.set_column(1, "unit", pa.array([None, *table["unit"].to_pylist()[1:]], pa.int64()))


def one_changed(table: pa.Table) -> pa.Table:
    return table.set_column(1, "unit", pa.array([0] * len(table), pa.int64()))


BROKEN = {
    "no manifest": (
        lambda f: remove_manifest(f, tables=True),
        "{f}: no manifest.json: not a run folder; give one that `archsim run` wrote",
    ),
    "interrupted": (
        lambda f: remove_manifest(f, tables=False),
        "{f}: no manifest.json: the run was interrupted while it was saved; delete the folder and run it again",
    ),
    "broken json": (
        lambda f: (f / "manifest.json").write_text("{"),
        "{f}/manifest.json: not valid JSON (Expecting property name enclosed in double quotes: line 1 column 2 "
        "(char 1)); run it again",
    ),
    "binary json": (
        lambda f: (f / "manifest.json").write_bytes(b"\xff\xfe"),
        "{f}/manifest.json: not valid JSON ('utf-8' codec can't decode byte 0xff in position 0: invalid start byte); "
        "run it again",
    ),
    "json list": (
        lambda f: (f / "manifest.json").write_text("[]"),
        "{f}/manifest.json: not the manifest of an archsim run; give a folder that `archsim run` wrote",
    ),
    "foreign json": (
        lambda f: edit(f, format={"kind": "other", "version": 1}),
        "{f}/manifest.json: not the manifest of an archsim run; give a folder that `archsim run` wrote",
    ),
    "newer": (
        lambda f: edit(f, format={"kind": "archsim-trace", "version": 2}),
        "{f}/manifest.json: trace format 2 is newer than this archsim reads (1); update archsim",
    ),
    "no prices": (
        lambda f: edit(f, prices=None),
        "{f}/manifest.json: 'prices' is missing; it is not what `archsim run` writes; run it again",
    ),
    "no tables": (
        lambda f: edit(f, tables={}),
        "{f}: trace without table 'rows'; it needs: rows, blocks, ops, counts, notes",
    ),
    "bad tables": (
        lambda f: edit(f, tables={"rows": 1}),
        "{f}/manifest.json: 'tables.rows': input should be a valid dictionary; it is not what `archsim run` writes; "
        "run it again",
    ),
    "unknown table": (
        lambda f: edit(f, tables={"../rows": {"digest": ""}}),
        "{f}/manifest.json: 'tables.../rows.[key]': input should be 'rows', 'blocks', 'ops', 'counts', 'notes', "
        "'rates', 'mix', 'pool_log', 'levels_log', 'draws', 'script', 'script_after', 'script_rows' or "
        "'script_edges'; it is not what `archsim run` writes; run it again",
    ),
    "too few units": (
        lambda f: edit(f, units=[{"name": "flash.queue"}]),
        "{f}: table 'rows': unit 2 is not one of the manifest's 1 units",
    ),
    "edited manifest": (
        lambda f: edit(f, sealed=False, schedule="flash_ar"),
        "{f}/manifest.json: was edited or damaged after the run; run it again",
    ),
    "seal removed": (
        lambda f: edit(f, sealed=False, manifest_digest=None),
        "{f}/manifest.json: was edited or damaged after the run; run it again",
    ),
    "nested json": (
        lambda f: (f / "manifest.json").write_text("[" * 200_000),
        "{f}/manifest.json: not valid JSON (nested too deeply); run it again",
    ),
    "not a number": (
        lambda f: (f / "manifest.json").write_text('{"a": NaN}'),
        "{f}/manifest.json: not valid JSON (NaN is no number of JSON); run it again",
    ),
    "manifest is a pipe": (
        lambda f: ((f / "manifest.json").unlink(), os.mkfifo(f / "manifest.json")),
        "{f}/manifest.json: is a pipe, not a file; expected the manifest of a run",
    ),
    "table is a pipe": (
        lambda f: ((f / "ops.parquet").unlink(), os.mkfifo(f / "ops.parquet")),
        "{f}/ops.parquet: is a pipe, not a file; run it again",
    ),
    "older": (
        lambda f: edit(f, format={"kind": "archsim-trace", "version": 0}),
        "{f}/manifest.json: trace format 0 is older than this archsim reads (1); run it again",
    ),
    "equal names": (
        lambda f: edit(f, units=[{"name": "npu"}] * 3),
        "{f}/manifest.json: two of the units have one name; it is not what `archsim run` writes; run it again",
    ),
    "no rate of memory": (
        lambda f: edit(f, peaks={"npu": {"ops_per_s": 1.0, "bytes_per_s": 0.0}}),
        "{f}: manifest.json gives no memory a rate under 'peaks'",
    ),
    "missing table": (
        lambda f: (f / "ops.parquet").unlink(),
        "{f}/ops.parquet: missing, though manifest.json lists it; run it again",
    ),
    "truncated": (
        lambda f: truncate(f / "rows.parquet"),
        "{f}/rows.parquet: truncated or not a Parquet file; run it again",
    ),
    "empty file": (
        lambda f: (f / "notes.parquet").write_bytes(b""),
        "{f}/notes.parquet: truncated or not a Parquet file; run it again",
    ),
    "foreign file": (
        lambda f: (f / "blocks.parquet").write_text("label,role\n"),
        "{f}/blocks.parquet: truncated or not a Parquet file; run it again",
    ),
    "missing column": (
        lambda f: rewrite(f / "counts.parquet", lambda t: t.drop_columns(["action"])),
        "{f}/counts.parquet: table 'counts': column 'action' is missing; expected: op, count, action",
    ),
    "extra column": (
        lambda f: rewrite(f / "counts.parquet", lambda t: t.append_column("pj", t["op"])),
        "{f}/counts.parquet: table 'counts': unknown column 'pj'; expected: op, count, action",
    ),
    "wrong type": (
        lambda f: rewrite(f / "rows.parquet", as_double),
        "{f}/rows.parquet: table 'rows': column 'end_ps' is 1-d float64, expected 1-d int64",
    ),
    "null": (
        lambda f: rewrite(f / "rows.parquet", with_null),
        "{f}/rows.parquet: column 'unit' has empty entries; run it again",
    ),
    "edited": (
        lambda f: rewrite(f / "rows.parquet", one_changed),
        "{f}/rows.parquet: contents differ from the digest in manifest.json: the file was edited or damaged after "
        "the run; run it again",
    ),
    "shortened": (
        lambda f: rewrite(f / "ops.parquet", lambda t: t.slice(0, 2)),
        "{f}/ops.parquet: contents differ from the digest in manifest.json: the file was edited or damaged after "
        "the run; run it again",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_folder(case, tmp_path):
    folder = sample().save(tmp_path / "run")
    damage, message = BROKEN[case]
    damage(folder)
    with pytest.raises(InputError) as caught:
        Trace.load(folder)
    assert str(caught.value) == message.format(f=folder)


def test_loading_what_is_no_folder(tmp_path):
    with pytest.raises(InputError) as caught:
        Trace.load(tmp_path / "none")
    assert str(caught.value) == f"{tmp_path}/none: no such folder; give the run folder that `archsim run` wrote"
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError) as caught:
        Trace.load(tmp_path / "file")
    assert str(caught.value) == f"{tmp_path}/file: is a file; give the run folder that `archsim run` wrote"


def test_rewriting_the_same_run_and_an_interrupted_one(tmp_path):
    folder = tmp_path / "run"
    sample().save(folder)
    tables = sample_tables()
    del tables["rates"]
    Trace(tables, sample_manifest()).save(folder)
    assert not (folder / "rates.parquet").exists()
    (folder / "manifest.json").unlink()
    (folder / ".lock").write_bytes(b"")  # a killed archsim leaves its lock
    sample().save(folder)
    assert equal(Trace.load(folder), sample())
    assert not (folder / ".lock").exists()


def occupied_file(folder: Path) -> None:
    folder.write_text("")


def occupied_notes(folder: Path) -> None:
    folder.mkdir()
    (folder / "thesis.tex").write_text("")


def occupied_other(folder: Path) -> None:
    Trace(sample_tables(), sample_manifest(config_digest="beef")).save(folder)


def occupied_damaged(folder: Path) -> None:
    sample().save(folder)
    (folder / "manifest.json").write_text("[]")


@pytest.mark.parametrize(
    ("occupy", "message"),
    [
        (occupied_file, "{f}: is a file, not a folder; choose another output folder"),
        (occupied_notes, "{f}: holds 'thesis.tex', which is no part of a run; choose an empty or new folder"),
        (occupied_other, "{f}: holds the run of another configuration; choose another folder or delete it"),
        (
            occupied_damaged,
            "{f}: holds a run that cannot be read ({f}/manifest.json: not the manifest of an archsim run; give a "
            "folder that `archsim run` wrote); delete the folder",
        ),
    ],
)
def test_refuses_to_overwrite(occupy, message, tmp_path):
    folder = tmp_path / "run"
    occupy(folder)
    before = sorted((p.name, p.read_bytes()) for p in folder.iterdir()) if folder.is_dir() else None
    with pytest.raises(InputError) as caught:
        sample().save(folder)
    assert str(caught.value) == message.format(f=folder)
    assert before is None or before == sorted((p.name, p.read_bytes()) for p in folder.iterdir())


def test_a_failed_save_leaves_nothing_and_keeps_the_old_run(tmp_path):
    folder = sample().save(tmp_path / "run")
    with TraceWriter(folder, "c0ffee") as writer:
        writer.append("rows", sample_tables()["rows"])
        writer._flush("rows")
        assert len(list(folder.glob(".*.partial"))) == 1
        with pytest.raises(InputError, match="column 'value' is missing"):
            writer.append("notes", {name: v for name, v in sample_tables()["notes"].items() if name != "value"})
    assert equal(Trace.load(folder), sample())
    assert not list(folder.glob(".*"))


def test_manifest_is_written_last(tmp_path, monkeypatch):
    folder = sample().save(tmp_path / "run")
    order = []
    replace = runfolder.os.replace
    monkeypatch.setattr(runfolder.os, "replace", lambda a, b: (order.append(Path(b).name), replace(a, b)))
    sample().save(folder)
    assert order[-1] == "manifest.json"
    assert "rows.parquet" in order


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("notes"), "trace without table 'notes'; it needs: rows, blocks, ops, counts, notes"),
        (lambda t: t["rows"].pop("done"), "table 'rows': column 'done' is missing; expected: row, unit, op"),
        (lambda t: t["rows"].update(done=t["rows"]["done"][:-1]), "table 'rows': columns differ in length"),
        (lambda t: t["ops"].update(name=np.arange(5)), "table 'ops': column 'name' is 1-d int64, expected 1-d text"),
        (lambda t: t.update(extra={}), "unknown trace table 'extra'; the tables are: rows, blocks"),
        (lambda t: t["rows"].update(unit=t["rows"]["unit"] + 1), "table 'rows': unit 3 is not one of the manifest's 3"),
    ],
)
def test_a_trace_is_checked_when_made(change, message):
    tables = sample_tables()
    change(tables)
    with pytest.raises(InputError) as caught:
        Trace(tables, sample_manifest())
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(("key", "table"), [("op", "ops"), ("block", "blocks")])
def test_rows_must_name_what_exists(key, table):
    tables = sample_tables()
    tables["rows"][key][0] = 99
    with pytest.raises(InputError) as caught:
        getattr(Trace(tables, sample_manifest()), f"row_{key}")
    assert str(caught.value) == f"table 'rows' names {key} 99, which table {table!r} does not list"


LEAVES = (None, True, -1, 2**70, 0.5, "", "$x$", [], {}, [[]], {"a": 1})


def places(node, path=()):
    """Every key and item of a document that reports read, by path."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from places(value, (*path, key))


def changed(manifest, path, value):
    copy = json.loads(json.dumps(manifest))
    node = copy
    for part in path[:-1]:
        node = node[part]
    if value is KeyError:
        del node[path[-1]]
    else:
        node[path[-1]] = value
    return copy


def refusals(folder, changes):
    """Load and report a run folder under each of these manifests; what is refused, as said."""
    refused = []
    for manifest in changes:
        (folder / "manifest.json").write_text(json.dumps(seal(manifest)))
        try:
            trace = Trace.load(folder)
            title = f"{trace.manifest['schedule']} on {trace.manifest['config']['system']['name']}"
            json.dumps(document(trace, title), allow_nan=False)
        except InputError as error:
            refused.append(str(error))
    return refused


@pytest.mark.parametrize("each", ["one value", pytest.param("every value", marks=pytest.mark.slow)])
def test_a_sealed_manifest_of_any_content_is_reported_or_refused(each, tmp_path):
    """Whatever a foreign manifest says, what loads can be reported on, and what cannot is one line."""
    folder = sample().save(tmp_path / "run")
    manifest = json.loads((folder / "manifest.json").read_text())
    values = (KeyError, *LEAVES)
    read = {k: v for k, v in manifest.items() if k not in ("versions", "manifest_digest", "tables")}
    refused = refusals(
        folder,
        (
            changed(manifest, place, value)
            for i, place in enumerate(places(read))
            for value in (values if each == "every value" else values[i % len(values) :][:1])
        ),
    )
    assert len(refused) > (500 if each == "every value" else 500 // len(values))
    assert not any("\n" in line for line in refused)


def test_every_edit_without_the_seal_is_refused(tmp_path):
    folder = sample().save(tmp_path / "run")
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    for place in places(manifest):
        path.write_text(json.dumps(changed(manifest, place, "edited")))
        with pytest.raises(InputError):
            Trace.load(folder)
    path.write_text(json.dumps(manifest, indent=4, sort_keys=True))  # another layout says the same
    assert equal(Trace.load(folder), sample())


def test_of_two_writers_the_second_is_refused(tmp_path):
    folder = tmp_path / "run"
    other = Trace(sample_tables(), sample_manifest(config_digest="beef"))
    with TraceWriter(folder, "c0ffee") as writer:
        with pytest.raises(InputError) as caught:
            other.save(folder)
        assert str(caught.value) == f"{folder}: another archsim is writing into it; choose another output folder"
        for table, columns in sample_tables().items():
            writer.append(table, columns)
        writer.finish(sample_manifest())
    assert equal(Trace.load(folder), sample())
    with pytest.raises(InputError, match="holds the run of another configuration"):
        other.save(folder)


def test_an_empty_path_is_no_folder():
    with pytest.raises(InputError, match="the path of the run folder is empty; give one"):
        sample().save("")


def test_what_appears_while_a_run_is_written_is_not_overwritten(tmp_path):
    folder = tmp_path / "run"
    with TraceWriter(folder, "c0ffee") as writer:
        (folder / "rows.parquet").write_text("mine")
        with pytest.raises(InputError, match=r"holds 'rows\.parquet' but no manifest\.json"):
            writer.finish(sample_manifest())
    assert [path.name for path in folder.iterdir()] == ["rows.parquet"]
    assert (folder / "rows.parquet").read_text() == "mine"


def test_a_killed_writer_leaves_nothing_behind_the_next(tmp_path):
    folder = tmp_path / "run"
    code = (
        "import os, signal, sys\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from test_report_sample import sample_tables\n"
        "from archsim.trace import TraceWriter\n"
        f"writer = TraceWriter({str(folder)!r}, 'c0ffee')\n"
        "writer.append('rows', sample_tables()['rows'])\n"
        "writer._flush('rows')\n"
        "os.rename(writer._partial('rows.parquet'), writer.folder / 'rows.parquet')\n"
        "writer.append('notes', sample_tables()['notes'])\n"
        "writer._flush('notes')\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert child.returncode == -signal.SIGKILL, child.stderr
    assert len(list(folder.iterdir())) == 3
    sample().save(folder)
    assert equal(Trace.load(folder), sample())
    assert not list(folder.glob(".*"))


@pytest.mark.parametrize(
    "name", ["rows.parquet", "manifest.txt", "thesis.partial", ".rows.parquet.partial", ".lock", "notes.parquet"]
)
def test_foreign_files_are_kept(name, tmp_path):
    (tmp_path / name).write_text("mine")
    with pytest.raises(InputError, match="choose an empty or new folder"):
        sample().save(tmp_path)
    assert (tmp_path / name).read_text() == "mine"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_foreign_table_beside_a_run_is_kept(tmp_path):
    folder = sample().save(tmp_path / "run")
    (folder / "pool_log.parquet").write_text("mine")
    with pytest.raises(InputError, match=r"holds 'pool_log\.parquet', which is no part of its run"):
        sample().save(folder)
    assert (folder / "pool_log.parquet").read_text() == "mine"


@pytest.mark.parametrize("made", [True, False])
@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "x")])
def test_a_save_that_fails_while_renaming_leaves_no_half_run(error, made, tmp_path, monkeypatch):
    folder = tmp_path / "a" / "run"
    if not made:
        folder.mkdir(parents=True)
    replace = runfolder.os.replace

    def fail(a, b):
        if Path(b).name == "ops.parquet":
            raise error
        replace(a, b)

    monkeypatch.setattr(runfolder.os, "replace", fail)
    with pytest.raises(KeyboardInterrupt if error is KeyboardInterrupt else InputError):
        sample().save(folder)
    assert folder.exists() is not made
    assert made or not list(folder.iterdir())
    assert (tmp_path / "a").exists() is not made
