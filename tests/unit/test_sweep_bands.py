"""Bands of a sweep: what the model's error tells apart, and what it does not."""

from __future__ import annotations

import json
import random

import pytest

from archsim.cli import run_cli
from archsim.config import InputError
from archsim.sweep.banded import ALIKE, DOMINATED, ON, alike, banded, fronts, mean_bands
from archsim.sweep.forecast import estimate
from archsim.sweep.runner import sweep

RUN = {
    "name": "small",
    "system": "oneplus_12",
    "schedule": {"name": "chain_sd"},
    "job": {"target": "smollm2-135m", "stream": "synthetic:llama-3.1-8b:mbpp", "tokens": 4},
}
SWEEP = {
    "name": "small",
    "run": RUN,
    "axes": {"system.npu.hvx_contexts": [2, 4], "job.dram_fraction": [0, 1]},
    "objectives": {"decode_tokens_per_s": "max", "area_mm2": "min"},
}
WAYS = {"speed": "max", "area": "min"}


def points(*costs, best):
    return [
        {"point": i, "status": "ok", "speed": speed, "area": area, "pareto": i in best}
        for i, (speed, area) in enumerate(costs)
    ]


def drawn(*lines):
    return [[{"status": "ok", "speed": speed, "area": area} for speed, area in line] for line in lines]


def test_a_common_error_does_not_blur_a_difference_but_an_own_one_does():
    rng = random.Random(1)
    common = [rng.uniform(0.5, 2) for _ in range(200)]
    rows = points((10, 5), (9, 5), (9, 5), best={0})
    same = [(10 * c, 5) for c in common], [(9 * c, 5) for c in common], [(9 * rng.uniform(0.5, 2), 5) for _ in common]
    found = [entry["front"] for entry in fronts(rows, WAYS, drawn(*same))]
    assert found == [ON, DOMINATED, ALIKE]
    assert alike(rows, "speed", drawn(*same)) == {0: [2], 1: [2], 2: [0, 1]}
    assert alike(rows, "area", drawn(*same)) == {0: [1, 2], 1: [0, 2], 2: [0, 1]}


@pytest.mark.parametrize(("wins", "place"), [(18, DOMINATED), (17, ALIKE)])
def test_ninety_percent_of_the_draws_must_agree(wins, place):
    rows = points((10, 5), (9, 5), best={0})
    lines = [(10, 5)] * 20, [(9, 5)] * wins + [(11, 5)] * (20 - wins)
    found = fronts(rows, WAYS, drawn(*lines))
    assert found[1]["front"] == place
    assert found[1]["front_share"] == pytest.approx(1 - wins / 20)


def test_draws_that_failed_are_left_out_of_pairs_and_points_without_draws_are_in_no_front():
    rows = [*points((10, 5), (9, 5), best={0}), {"point": 2, "status": "failed", "pareto": False}]
    draws = drawn([(10, 5)] * 4, [(9, 5)] * 4)
    draws[1][0] = {"status": "failed", "error": "no"}
    found = fronts(rows, WAYS, [*draws, []])
    assert [entry["front"] for entry in found] == [ON, DOMINATED, ""]
    assert banded(rows, WAYS, [*draws, []])[1]["draws"] == 3


def test_the_band_of_a_mean_is_that_of_the_draws_means():
    draws = drawn([(1, 0), (3, 0)], [(3, 0), (1, 0)])
    assert mean_bands([[0, 1]], draws, ["speed"]) == [{"speed.p10": 2.0, "speed.p50": 2.0, "speed.p90": 2.0}]


def test_a_sweep_has_band_columns_and_is_the_same_bytes_after_a_resume(tmp_path):
    made = sweep(SWEEP, output=tmp_path / "s", uncertainty=3)
    for row in made.rows:
        assert row["draws"] == 3
        assert row["decode_tokens_per_s.p10"] <= row["decode_tokens_per_s.p90"]
        assert (row["front"] == ON) == row["pareto"]
    bigger, smaller = made.rows[2], made.rows[0]
    assert bigger["area_mm2"] > smaller["area_mm2"]
    assert "2" not in smaller["alike.area_mm2"].split()  # twice the contexts is more area whatever a context takes
    table = (tmp_path / "s" / "table.parquet").read_bytes()
    record = tmp_path / "s" / "bands" / "points.jsonl"
    record.write_bytes(b"".join(record.read_bytes().splitlines(keepends=True)[:5]))
    again = sweep(SWEEP, output=tmp_path / "s", uncertainty=3)
    assert (again.ran, again.reused) == (0, 4)
    assert (tmp_path / "s" / "table.parquet").read_bytes() == table
    assert "draws" not in sweep(SWEEP, output=tmp_path / "s").rows[0]


def test_units_of_bands_stand_in_the_table(tmp_path):
    import pyarrow.parquet as pq

    fields = {**SWEEP, "axes": {"job.dram_fraction": [1], "job.seed": [0, 1]}, "repeat": ["job.seed"]}
    made = sweep(fields, output=tmp_path / "s", uncertainty=2)
    for name in ("table", "means"):
        schema = pq.read_schema(tmp_path / "s" / f"{name}.parquet")
        units = {field.name: field.metadata[b"unit"] for field in schema}
        assert units["energy_per_token_j.p90"] == b"J"
        assert units["area_mm2.p10"] == b"mm2"
    assert made.means[0]["area_mm2.p10"] == made.rows[0]["area_mm2.p10"]


def test_the_estimate_counts_the_draws():
    plain, more = estimate(SWEEP), estimate(SWEEP, uncertainty=50)
    assert more["draws"] == 200
    assert more["time_s"] > 50 * 4 * more["cpu_s_per_draw"]
    assert more["disk_bytes"] > plain["disk_bytes"]


def test_a_number_of_draws_that_makes_no_band_is_refused_before_anything_runs(tmp_path):
    with pytest.raises(InputError, match="draws make a band"):
        sweep(SWEEP, output=tmp_path / "s", uncertainty=0)
    assert not (tmp_path / "s").exists()


def test_figures_draw_the_bands(tmp_path, capsys):
    sweep(SWEEP, output=tmp_path / "s", uncertainty=2)
    for kind, x, y in (("pareto", "decode_tokens_per_s", "area_mm2"), ("lines", "job.dram_fraction", "area_mm2")):
        target = str(tmp_path / f"{kind}.svg")
        assert run_cli(["plot", str(tmp_path / "s"), "--kind", kind, "--x", x, "--y", y, "-o", target, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["file"] == target
