"""Lever's table: which rows there are, what they rest on, and the figures drawn from them (measurements are faked)."""

from __future__ import annotations

import json

import pytest

from archsim.report import lever_figures
from archsim.reproduce import lever as table
from archsim.reproduce import lever_runs
from archsim.reproduce.lever_published import SPEED
from archsim.reproduce.rows import score
from archsim.units import InputError


def fake(case):
    """A measurement that depends on the case, so that ratios and orders are not all one."""
    slow = 1.0 + 0.1 * len(case.sets) + (case.schedule != "lever")
    return {
        "tps": 2.0 / slow, "length": 2.0, "compute_s": 0.5 * slow, "io_s": 1.0, "projection_s": 0.1 * slow,
        "draft_s": 0.05 * slow, "verify_s": slow, "rows": 16.0, "kept": 8.0, "lost": 0.1,
        "null_tps": 3.0 / slow, "null_flash_s": 0.9, "null_compute_s": 0.1 * slow,
    }  # fmt: skip


@pytest.fixture
def rows(monkeypatch):
    monkeypatch.setattr(table, "measure", fake)
    return list(table.lever_rows())


def test_every_published_speed_is_a_row_and_ids_are_unique(rows):
    ids = [row.id for row in rows]
    assert len(ids) == len(set(ids))
    speeds = [row for row in rows if row.id.startswith("lever.fig10.")]
    published = [s for targets in SPEED.values() for cells in targets.values() for s in cells]
    assert [row.paper for row in speeds] == published


def test_fitted_rows_say_what_is_fitted_and_leave_the_score(rows):
    fitted = [row for row in rows if row.kind == "fitted"]
    assert all("fitted" in row.why or "chosen" in row.why for row in fitted)
    assert sum(row.id.startswith("lever.fig10.oneplus_12") for row in fitted) == 12
    assert sum(row.id.startswith("lever.fig10.honor_magic_v5.q14") for row in fitted) == 4
    counted = score(rows)
    predicted = [row for row in rows if row.kind == "predicted"]
    assert counted["predicted"] == len(predicted) > 40
    assert counted["without_storage_predicted"] == sum(not row.storage for row in predicted) < len(predicted)


def test_exclusions_say_why(rows):
    excluded = {row.id: row for row in rows if row.kind == "excluded"}
    assert set(excluded) == {"lever.table1.q4b.compute", "lever.table1.q4b.total", "lever.gain.flash_ar"}
    assert all(row.why and row.tolerance is None for row in excluded.values())


def test_fitted_scalars_are_listed_with_their_intervals(rows):
    scalars = {row.id.removeprefix("lever.scalar."): row for row in rows if row.id.startswith("lever.scalar.")}
    assert all(row.source.startswith("fitted: ") and "interval " in row.why for row in scalars.values())
    assert sum(name.startswith("acceptance.") for name in scalars) == 16
    machine = {name.partition(".")[2] for name in scalars if not name.startswith("acceptance.")}
    assert machine == {
        "npu.unpack_cycles", "npu.mac_cycles", "cpu.uncached_bytes_per_s", "flash.stream_bytes_per_s"
    }  # fmt: skip


def test_orders_hold_or_contradict(rows):
    orders = [row for row in rows if row.kind == "ordering"]
    assert {row.simulated for row in orders} <= {0.0, 1.0}
    assert all((row.verdict == "follows") == bool(row.ok) for row in orders)


def test_results_are_stored_and_found_again(monkeypatch, tmp_path):
    monkeypatch.setenv("ARCHSIM_CACHE", str(tmp_path))
    lever_runs.measure.cache_clear()
    case = lever_runs.Case("oneplus_12", "lever", "qwen3-4b", "gsm8k", prompts=1, tokens=8)
    first = lever_runs.measure(case)
    (file,) = (tmp_path / "reproduce").iterdir()
    file.write_text(json.dumps({**first, "tps": 123.0}), encoding="utf-8")
    lever_runs.measure.cache_clear()
    assert lever_runs.measure(case)["tps"] == 123.0
    lever_runs.measure.cache_clear()
    assert first["tps"] > 0


@pytest.mark.parametrize("kind", lever_figures.KINDS)
def test_figures_are_drawn_from_the_stored_table(kind, rows, tmp_path):
    file = tmp_path / "table.json"
    file.write_text(json.dumps({"rows": [row.to_json() for row in rows]}), encoding="utf-8")
    assert lever_figures.main([str(file), "--kind", kind, "-o", str(tmp_path / "f.png")]) == 0
    assert (tmp_path / "f.png").stat().st_size > 4000


def test_a_figure_needs_a_table(tmp_path, capsys):
    bad = tmp_path / "bad.json"
    bad.write_text("[]", encoding="utf-8")
    with pytest.raises(InputError, match="not a table"):
        lever_figures.read_rows(bad)
    assert lever_figures.main([str(bad), "--kind", "spede", "-o", "f.svg"]) == 2
    assert "speed" in capsys.readouterr().err
