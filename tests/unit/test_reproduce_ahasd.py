"""The table of drafting ahead: its store of runs, its arithmetic, and its figures."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from archsim.report import ahead_figures, style
from archsim.reproduce import ahasd_runs
from archsim.reproduce.ahasd import held
from archsim.reproduce.ahasd_cases import FULL, NPU, PLAIN, grid, specpim
from archsim.reproduce.ahasd_claims import area_rows, scaled_energy
from archsim.reproduce.ahasd_runs import Bench, Measured, geometric
from archsim.units import InputError

TABLE = Path(__file__).parents[2] / "plots" / "tables" / "ahasd.json"
SMALL = {"pair": "opt", "tokens": 6, "prompts": 1}
FOUND = Measured(4.0, 1.0, 3.0, 2.0, 6.0, {"npu.core": 0.9}, 4.0, 5.0, {}, {}, {})


def test_results_outlive_the_process_and_damage_is_repaired(tmp_path, monkeypatch):
    monkeypatch.setenv("ARCHSIM_CACHE", str(tmp_path))
    first, seen = Bench(), []
    first.watch = seen.append
    made = first(NPU.having(**SMALL))
    assert first(NPU.having(**SMALL)) is made
    assert seen == [1]
    again = Bench()
    assert again(NPU.having(**SMALL)) == made
    assert again.simulated == 0
    (file,) = (tmp_path / "reproduce").glob("*.json")
    file.write_text('{"tps": 1}', encoding="utf-8")
    third = Bench()
    assert third(NPU.having(**SMALL)) == made
    assert third.simulated == 1


def test_results_depend_on_sources_and_configuration(tmp_path, monkeypatch):
    monkeypatch.setenv("ARCHSIM_CACHE", str(tmp_path))
    monkeypatch.setattr(ahasd_runs, "run", lambda chosen, trace: chosen)
    monkeypatch.setattr(ahasd_runs, "_measured", lambda chosen: FOUND)
    bench = Bench()
    for case in (NPU, NPU.having(seed=1), NPU.having("system.npu.arrays=2"), NPU.having(tokens=7)):
        bench(case)
    assert bench.simulated == 4
    monkeypatch.setattr(ahasd_runs, "code_digest", lambda *apart: "other sources")
    other = Bench()
    other(NPU)
    assert other.simulated == 1


def test_ratios_pair_cases_and_mean_them_geometrically(monkeypatch):
    bench = Bench()
    monkeypatch.setattr(
        Bench,
        "__call__",
        lambda _, case: replace(FOUND, tps={"opt": 2.0, "palm": 8.0}[case.pair] * (1 + (case == FULL))),
    )
    pairs = ("opt", "palm")
    ours, theirs = ([FULL.having(pair=p) for p in pairs], [NPU.having(pair=p) for p in pairs])
    assert bench.geometric(ours, theirs) == pytest.approx(1.0)
    assert geometric([2.0, 8.0]) == pytest.approx(4.0)
    with pytest.raises(InputError, match="above zero"):
        geometric([1.0, 0.0])


def test_energy_scales_by_the_memorys_share_alone():
    assert scaled_energy(FOUND, 1.0) == FOUND.energy_j
    assert scaled_energy(FOUND, 2.0) == pytest.approx(1.5)


def test_cases_of_a_grid_come_in_one_order():
    assert [(c.pair, c.drafter) for c in grid(FULL)] == [(c.pair, c.drafter) for c in grid(specpim("best"))]
    assert len(grid(PLAIN)) == 12


def test_a_claim_follows_within_its_tolerance():
    assert held(2.0, 2.29) == held(2.0, 1.71) == "follows"
    assert held(2.0, 2.31) == held(2.0, 1.69) == "does_not_follow"


def test_area_is_built_from_bits_lanes_and_gates():
    rows = {row.id: row for row in area_rows()}
    tables = rows["area.edc"].simulated + rows["area.tvc"].simulated + rows["area.queues"].simulated
    assert tables < 0.03  # kilobits of SRAM cannot fill the published 0.09 mm2
    assert rows["area.share_of_50mm2.paper_aau"].simulated == pytest.approx(0.025, abs=0.001)
    assert rows["area.share_of_18mm2.paper_aau"].verdict == "contradicts"


@pytest.mark.parametrize("kind", ahead_figures.KINDS)
def test_figures_of_the_stored_table(kind, tmp_path):
    made = style.save(ahead_figures.ahead_figure([TABLE], kind), tmp_path / "a.svg").read_bytes()
    assert len(made) > 4000
    assert style.save(ahead_figures.ahead_figure([TABLE], kind), tmp_path / "b.svg").read_bytes() == made


def test_tables_that_lack_rows_are_refused(tmp_path):
    file = tmp_path / "t.json"
    for text in ("{", "[]", '{"rows": [1]}'):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match="not a table of archsim reproduce ahasd"):
            ahead_figures.read_rows([file])
    file.write_text(json.dumps({"rows": [{"id": "area.aau", "simulated": 1.0, "paper": None}]}), encoding="utf-8")
    with pytest.raises(InputError, match="the table has no paper value of ablation"):
        ahead_figures.ahead_figure([file], "ablation")
