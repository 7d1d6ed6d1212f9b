"""Logs, marks, notes, scripts, retirement and bounded memory."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from archsim.engine import record
from archsim.engine.block import make_block
from archsim.engine.errors import ScriptError, SimError
from archsim.engine.record import Script
from archsim.engine.results import RETIRE_ROWS
from archsim.engine.sim import PoolDecl, Sim, StoreDecl, UnitDecl

ONE = 1 << 20


def row(work=1000, unit=0, **more):
    return {"unit": unit, "work": work, "pool": [0], "coef": [ONE], **more}


def new_sim(**options):
    return Sim([UnitDecl("u0"), UnitDecl("u1")], [PoolDecl("p", 100)], **options)


def with_store():
    return Sim([UnitDecl("u0")], [PoolDecl("p", 100)], [StoreDecl("s", 10)], log="tasks")


class Sink:
    """Keeps the chunks it is given."""

    def __init__(self):
        self.chunks = {}

    def __call__(self, kind, columns):
        self.chunks.setdefault(kind, []).append(columns)

    def table(self, kind, key):
        chunks = self.chunks[kind]
        joined = {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]}
        order = np.argsort(joined[key], kind="stable")
        return {name: column[order] for name, column in joined.items()}


def feed(sim, blocks, keep=None):
    block = make_block([row(100 + i, unit=i % 2, op=i) for i in range(99)], [(i, i + 2) for i in range(97)])
    before = sim.emit(block, request=-1)
    for i in range(blocks - 1):
        after = sim.emit(block, request=i, label=f"b{i % 3}", after=before if i % 2 else None)
        if keep is not None:
            keep.append(after)
        if i % 50 == 7:
            sim.cut(after)
        yield before
        sim.mark(before, i % 5, 5)
        sim.note("token", i, i * i)
        before = after


def test_columns_of_blocks_and_notes():
    sim = new_sim(log="tasks")

    def process():
        a = sim.emit(make_block([row(100)]), request=7, label="a")
        yield a
        sim.mark(a, 2, 5)
        sim.note("token", 7, 42, 1)
        sim.emit(make_block([row(100)]), label="b")

    sim.process(process())
    sim.run(until_ps=1)
    blocks = {name: column.tolist() for name, column in sim.blocks().items()}
    assert blocks == {
        "block": [0, 1],
        "label": [0, 1],
        "request": [7, 0],
        "emit_ps": [0, 1],
        "end_ps": [1, -1],
        "useful": [2, -1],
        "total": [5, -1],
        "status": [0, 2],
    }
    assert sim.labels == ["a", "b"]
    assert {k: v.tolist() for k, v in sim.notes().items()} == {
        "time_ps": [1],
        "kind": [0],
        "request": [7],
        "value": [42],
        "extra": [1],
    }
    assert sim.kinds == ["token"]


def test_digest_covers_rows_blocks_and_notes():
    def run(work=100, mark=1, value=1):
        sim = new_sim()
        a = sim.emit(make_block([row(work)]))
        sim.run()
        sim.mark(a, mark, 1)
        sim.note("n", 0, value)
        return sim.digest()

    base = run()
    assert len(base) == 64
    assert run() == base
    assert len({base, run(work=101), run(mark=0), run(value=2)}) == 4


def test_retired_and_kept_runs_are_equal():
    """The same run with everything kept, with a sink, and without a log."""
    blocks = 1000
    kept, sunk, silent = new_sim(log="tasks"), Sink(), new_sim()
    with_sink = new_sim(log="tasks", sink=sunk)
    handles = []
    for sim in (kept, with_sink, silent):
        sim.process(feed(sim, blocks, handles if sim is with_sink else None))
        sim.run()
    assert len(with_sink.rows()["row"]) < len(kept.rows()["row"]) == 100 * blocks
    assert kept.digest() == with_sink.digest() == silent.digest()
    done = {handle.status for handle in handles}
    assert done == {"done", "cut"}
    assert sum(with_sink.progress(handle)[0] for handle in handles[:5]) > 0
    assert with_sink.row_status(handles[0], 0) == "done"
    with_sink.flush()
    with pytest.raises(SimError, match=r"^mark of block 1: its line has gone to the sink already"):
        with_sink.mark(handles[0], 1, 1)
    assert kept.digest() == with_sink.digest()
    for kind, key, table in (("rows", "row", kept.rows()), ("blocks", "block", kept.blocks())):
        got = sunk.table(kind, key)
        for name, column in table.items():
            np.testing.assert_array_equal(got[name], column, err_msg=name)
    tables = {name: sunk.table(name, next(iter(sunk.chunks[name][0]))) for name in ("script_rows", "script_edges")}
    tables |= {name: sunk.chunks[name][0] for name in ("script", "script_after")}
    script = Script.from_tables(tables, with_sink.labels, with_sink.kinds)
    again = new_sim(log="tasks")
    again.play(script)
    assert again.digest() == kept.digest()


def test_an_old_open_block_does_not_hold_memory():
    """Rows behind a block that runs for ever are retired all the same, and its own rows stay in place."""
    sim = new_sim()
    slow = sim.emit(make_block([row(10**9, unit=1, cap=1)]))
    block = make_block([row(100)] * 100)
    for _ in range(5 * RETIRE_ROWS // 100):
        sim.emit(block)
        sim.run(until_ps=sim.now + 200)
    assert len(sim.window.s.rows) <= 2 * RETIRE_ROWS + 200
    done, asked = sim.progress(slow)
    assert (done, asked) == (sim.now, 10**9)
    sim.cut(slow)
    sim.run()
    assert slow.status == "cut"


def test_late_marks_reach_retired_blocks():
    sim = new_sim(log="tasks")
    first = sim.emit(make_block([row(100)]))
    block = make_block([row(100)] * 200)
    for _ in range(2 * RETIRE_ROWS // 200):
        sim.emit(block)
        sim.run()
    assert first.id not in sim.window.slot
    sim.mark(first, 3, 4)
    assert sim.blocks()["useful"][:2].tolist() == [3, -1]
    del first
    assert sim.blocks()["useful"][:2].tolist() == [3, -1]


def test_script_needs_a_log_and_a_fresh_run():
    sim = new_sim()
    with pytest.raises(ScriptError, match=r'^log="off" records no script'):
        sim.script()
    sim = new_sim(log="tasks", sink=Sink())
    with pytest.raises(ScriptError, match=r"^the script went to the sink"):
        sim.script()
    sim = new_sim(log="tasks")
    sim.emit(make_block([row(100)]))
    with pytest.raises(ScriptError, match=r"^a script is played in a fresh simulation"):
        sim.play(sim.script())


@pytest.mark.parametrize("index", [9, -1])
@pytest.mark.parametrize(
    ("kind", "column"), [("EMIT", "a"), ("EMIT", "d"), ("CUT", "a"), ("RATE", "b"), ("NOTE", "a"), ("ADD", "a")]
)
def test_script_of_another_system_is_refused(kind, column, index):
    sim = with_store()

    def process():
        handle = sim.emit(make_block([row(100)]))
        yield sim.timer(5)
        sim.set_rate(sim.units[0].name, 0.5)
        sim.add(sim.stores[0].name, 0)
        sim.note("n", 0, 0)
        sim.cut(handle)

    sim.process(process())
    sim.run()
    script = sim.script()
    (place,) = np.flatnonzero(script.actions["kind"] == getattr(record, kind))[:1]
    script.actions[column][place] = index
    with pytest.raises(ScriptError, match=rf"^action {place} at .* names what this run does not have: "):
        with_store().play(script)


def test_recorded_columns_become_read_only():
    sim = new_sim(log="tasks")
    block = make_block([row(100)])
    sim.emit(block)
    with pytest.raises(ValueError, match="read-only"):
        block.work[0] = 5
    assert len(sim.script().templates) == 1
    sim.emit(block)
    assert len(sim.script().templates) == 1
    table = np.zeros((4, 2), dtype=np.int64)
    view = block._replace(lead=table[:2, 0])  # a view can still change below: it is copied
    sim.emit(view)
    table[0, 0] = 99
    assert sim.script().templates[1].lead.tolist() == [0, 0]


def test_rounds_of_one_instant_are_replayed():
    """Emissions of zero-length blocks in successive rounds of one instant keep their rounds."""
    sim = new_sim(log="tasks")

    def process():
        for _ in range(4):
            yield sim.emit(make_block([{}, {}], "chain"))
        signal = sim.signal()

        def other():
            yield signal
            sim.note("late", 0, 0)
            yield sim.emit(make_block([row(300)]))

        sim.process(other())
        yield sim.emit(make_block([{}, {}], "chain"))
        signal.fire()

    sim.process(process())
    sim.run()
    script = sim.script()
    assert len(set(script.actions["round"].tolist())) >= 6
    again = new_sim(log="tasks")
    again.play(script)
    assert again.digest() == sim.digest()
    assert again.now == sim.now == 3


MEMORY = """
from pathlib import Path
from archsim.engine.block import make_block
from archsim.engine.sim import Sim, UnitDecl, PoolDecl
rows = 0
def sink(kind, columns):
    global rows
    if kind == "rows":
        rows += len(columns["row"])
def feed(sim, count):
    rows = [dict(unit=i % 4, work=100 + i, pool=[0], coef=[1 << 20], lead=i % 3) for i in range(399)]
    edges = [(i, i + 4) for i in range(395)]
    for i in range(count):
        rows[0]["work"] = i + 1 if i % 100 == 0 else rows[0]["work"]
        if i % 100 == 0:
            block = make_block(rows, edges)  # now and then a new template
        yield sim.emit(block)
sim = Sim([UnitDecl(str(i)) for i in range(4)], [PoolDecl("p", 100)], log="tasks", sink=sink)
sim.process(feed(sim, {blocks}))
sim.run()
sim.flush()
status = Path("/proc/self/status").read_text()  # getrusage would count the parent before exec
print(rows, int(status.split("VmHWM:")[1].split()[0]) // 1024)
"""


def peak(blocks):
    """Peak resident MiB of a process that simulates `blocks` blocks of 400 rows into a sink."""
    program = MEMORY.format(blocks=blocks)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    rows, mib = map(int, done.stdout.split())
    assert rows == 400 * blocks
    return mib


needs_proc = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak from /proc")


@needs_proc
def test_a_million_rows_fit():
    peak(1)  # compiling takes memory too, once
    assert peak(2500) < 400


@pytest.mark.slow
@needs_proc
def test_ten_million_rows_fit():
    peak(1)
    assert peak(25000) < 400
