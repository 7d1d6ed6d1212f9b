"""A small simulated run, from the engine's columns through a run folder to every report."""

import sys
from pathlib import Path

import pytest

from archsim.engine.block import make_block
from archsim.engine.sim import PoolDecl, Sim, StoreDecl, UnitDecl
from archsim.report.energy import energy
from archsim.report.figures import KINDS, figure
from archsim.report.owner import owner
from archsim.report.perfetto import write_perfetto
from archsim.report.power import power
from archsim.report.style import save
from archsim.report.summary import summarise
from archsim.session.tables import tables_of
from archsim.trace import CUT, Trace, diff

sys.path.insert(0, str(Path(__file__).parent))
from test_report_sample import BYTE, sample_manifest, sample_tables

RATE = BYTE // 1000  # 1 byte per ns
LOAD = {"unit": 0, "op": 0, "lead": 2000, "work": 1000 * BYTE, "cap": RATE, "pool": [0], "coef": [1 << 20]}
COMPUTE = {"unit": 1, "op": 1, "work": 500 * BYTE, "cap": RATE, "pool": [0], "coef": [1 << 20]}


@pytest.fixture(scope="module", params=["tasks", "full"])
def run(request):
    """Prefill, then a verification beside a look-ahead draft that is cut; the pool serves one row at its cap."""
    sim = Sim(
        [UnitDecl("flash.queue"), UnitDecl("npu.hmx"), UnitDecl("cpu.core")],
        [PoolDecl("dram.bandwidth", RATE)],
        [StoreDecl("npu.vtcm", 8 << 20)],
        log=request.param,
    )

    def decode():
        sim.note("arrival", 0, 5)
        prefill = sim.emit(make_block([LOAD, COMPUTE], "chain"), label="target.prefill")
        yield prefill
        sim.note("commit", 0, 1)
        verify = sim.emit(make_block([LOAD, COMPUTE], "chain"), label="target.verify")
        ahead = sim.emit(make_block([COMPUTE | {"unit": 2, "op": 2}] * 8, "chain"), label="draft.draft")
        yield verify
        sim.cut(ahead)
        sim.mark(verify, 2, 4)
        sim.note("step", 0, 1)
        sim.note("commit", 0, 2, 3)
        sim.note("end", 0, 3)

    sim.process(decode(), "decode")
    sim.run()
    operators = {name: sample_tables()[name] for name in ("ops", "counts")}
    return Trace({**tables_of(sim), **operators}, sample_manifest())


def test_the_run_survives_its_folder(run, tmp_path):
    again = Trace.load(run.save(tmp_path / "run"))
    assert diff(run, again) == ""
    assert again.digest == run.digest


def test_summary_of_the_run(run):
    found = summarise(run)
    assert found["ttft_s"] == pytest.approx(1502e-9, rel=1e-3)
    assert (found["tokens"], found["steps"], found["accepted_per_step"]) == (3, 1, 2.0)
    assert found["units"]["flash.queue"] > 0.3
    assert set(found["phases"]) == {"io", "compute", "draft"}


def test_energy_is_conserved_and_the_cut_draft_is_wasted(run):
    spent = energy(run)
    watts = power(run)
    assert watts.mean_w() * run.duration_ps * 1e-12 == pytest.approx(spent.total_j, rel=1e-9)
    assert spent.useful_j + spent.wasted_j == pytest.approx(spent.dynamic_j, rel=1e-12)
    draft_j = spent.dynamic_j - 2 * 10500e-12  # besides prefill and verification
    assert 2 * 150e-12 < draft_j < 8 * 150e-12
    assert (run.rows["status"] == CUT).sum() > 1
    # the load's 10 000 pJ are shared by the rows of the pass; of the product's 500 pJ half were of rejected rows
    assert spent.wasted_j == pytest.approx(500e-12 / 2 + draft_j, rel=1e-9)
    assert spent.free_rows == 0


def test_owner_and_files(run, tmp_path):
    owned = owner(run)
    assert sum(owned.values()) == pytest.approx(run.duration_ps * 1e-12, rel=1e-12)
    assert owned.get("wait", 0.0) == 0.0
    assert {"flash.queue", "npu.hmx"} <= set(owned)
    assert write_perfetto(run, tmp_path / "run.pftrace").stat().st_size > 1000
    for kind in KINDS:
        save(figure(run, kind), tmp_path / f"{kind}.svg")
