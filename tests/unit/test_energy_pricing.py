"""Pricing an old run anew: what changes, what does not, and what is refused (exit code 2 at the command line)."""

import pytest

from archsim.catalogue import check_files
from archsim.cli import run_cli
from archsim.report.area import area_mm2
from archsim.report.energy import energy
from archsim.report.pricing import bounded, repriced
from archsim.report.totals import against, overhead, totals
from archsim.session import load, run
from archsim.trace import Trace
from archsim.units import InputError

JOB = {"target": "smollm2-135m", "stream": "recorded:exit_layers:25", "tokens": 5}
HEAD = "kind: prices\nname: other\nsource: a test\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "run"
    run(load(system="oneplus_12", schedule="chain_sd", job=JOB), output=path)
    return path


@pytest.fixture(scope="module")
def trace(folder):
    return Trace.load(folder)


def prices(tmp_path, text):
    path = tmp_path / "prices.yaml"
    path.write_text(HEAD + text, encoding="utf-8")
    return path


def test_one_price_changes_its_action_alone(trace, tmp_path):
    made = repriced(trace, prices(tmp_path, "energy_pj:\n  dram.io_bits: {value: 2.8 pJ, range: [1 pJ, 9 pJ]}\n"))
    old, new = energy(trace), energy(made)
    assert new.action_j["dram.io_bits"] == pytest.approx(2 * old.action_j["dram.io_bits"])
    assert {k: v for k, v in new.action_j.items() if k != "dram.io_bits"} == {
        k: v for k, v in old.action_j.items() if k != "dram.io_bits"
    }
    assert new.counts == old.counts
    assert made.digest == trace.digest
    assert made.manifest["prices"]["energy_pj"]["dram.io_bits"]["source"] == "a test"
    assert energy(bounded(made, "low")).action_j["dram.io_bits"] == pytest.approx(old.action_j["dram.io_bits"] / 1.4)


def test_static_power_and_area_are_priced_anew_too(trace, tmp_path):
    made = repriced(trace, prices(tmp_path, "power_mw: {rails.base: 2.6 W}\narea_um2: {npu.hvx: 7 mm2}\n"))
    assert energy(made).static_j["rails.base"] == pytest.approx(2 * energy(trace).static_j["rails.base"])
    assert area_mm2(made)["npu.hvx"] == 7.0


def test_another_node_scales_one_device(trace, tmp_path):
    made = repriced(trace, prices(tmp_path, "nodes:\n  npu: {from_nm: 4, to_nm: 7}\n"))
    old, new = energy(trace).by_device(), energy(made).by_device()
    assert new["npu"] == pytest.approx(old["npu"] / (0.70 * 0.90))
    assert {d: j for d, j in new.items() if d != "npu"} == {d: j for d, j in old.items() if d != "npu"}
    assert area_mm2(made)["npu.hmx"] == pytest.approx(area_mm2(trace)["npu.hmx"] * 1.84 * 1.06)
    wide = made.manifest["prices"]["energy_pj"]["npu.hvx_cycle"]["range"]
    assert wide[1] / wide[0] > 120 / 25


def test_a_table_of_its_own_needs_every_action(trace, tmp_path):
    counted = sorted(set(trace.counts["action"].tolist()))
    lines = "".join(f"  {action}: 1 pJ\n" for action in counted)
    made = repriced(trace, prices(tmp_path, f"base: none\nenergy_pj:\n{lines}"))
    spent = energy(made)
    assert spent.dynamic_j == pytest.approx(sum(spent.counts.values()) * 1e-12)
    lacking = "".join(f"  {action}: 1 pJ\n" for action in counted[1:])
    with pytest.raises(InputError, match=f"no price for action '{counted[0]}', which the run counts"):
        repriced(trace, prices(tmp_path, f"base: none\nenergy_pj:\n{lacking}"))


BAD = {
    "negative": ("energy_pj: {dram.io_bits: -1 pJ}\n", "energy_pj.dram.io_bits: '-1 pJ' is negative"),
    "unit": ("energy_pj: {dram.io_bits: 3 mW}\n", "energy_pj.dram.io_bits: '3 mW' is a power; expected an energy"),
    "bare": ("power_mw: {rails.base: 12}\n", "power_mw.rails.base: '12' has no unit"),
    "unknown": ("energy_pj: {dram.io_bit: 1 pJ}\n", "the run has no such price; did you mean 'dram.io_bits'?"),
    "range": (
        "energy_pj: {dram.io_bits: {value: 5 pJ, range: [6 pJ, 9 pJ]}}\n",
        "5 pJ lies outside its range of 6 to 9",
    ),
    "node": ("nodes: {npu: {from_nm: 4, to_nm: 6}}\n", "nodes.npu: node 6 nm is not in the scaling tables"),
    "node of a price": ("energy_pj: {npu.hvx_cycle: {value: 5 pJ, node_nm: 2}}\n", "node 2 nm is not in the scaling"),
    "key": ("energies: {}\n", "energies: unknown key"),
    "entry": ("energy_pj: {dram.io_bits: {value: 5 pJ, scale: 2}}\n", "energy_pj.dram.io_bits.scale: unknown key"),
    "value": ("energy_pj: {dram.io_bits: {source: x}}\n", "energy_pj.dram.io_bits: has no value"),
    "base": ("base: mine\n", "base: 'mine' is not one of run, none"),
    "device": ("nodes: {nqu: {from_nm: 4, to_nm: 7}}\n", "the run has no such device; did you mean 'npu'?"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_tables_are_named_errors_with_exit_code_2(folder, tmp_path, case, capsys):
    text, message = BAD[case]
    path = prices(tmp_path, text)
    assert run_cli(["report", str(folder), "--tables", str(path)]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert "prices.yaml:" in said
    assert said.count("\n") == 1


def test_a_report_says_by_what_it_is_priced(folder, tmp_path, capsys):
    path = prices(tmp_path, "power_mw: {rails.base: 2 W}\n")
    assert run_cli(["report", str(folder), "--tables", str(path)]) == 0
    assert "priced by the table other, not by the run's own prices" in capsys.readouterr().out


def test_other_files_and_missing_sources_are_refused(trace, tmp_path):
    path = tmp_path / "part.yaml"
    path.write_text("kind: part\nname: x\n", encoding="utf-8")
    with pytest.raises(InputError, match="not a table of prices; it begins with 'kind: prices'"):
        repriced(trace, path)
    path.write_text("kind: prices\nenergy_pj: {dram.io_bits: 1 pJ}\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"energy_pj\.dram\.io_bits: has no source"):
        repriced(trace, path)
    with pytest.raises(InputError, match="no such file"):
        repriced(trace, tmp_path / "nothing.yaml")


def test_a_thermal_run_keeps_its_prices(trace, tmp_path):
    hot = Trace(trace.tables, {**trace.manifest, "thermal": {"part": "phone_passive"}})
    with pytest.raises(InputError, match="the timing of a thermal run follows its power"):
        repriced(hot, prices(tmp_path, ""))


def test_totals_have_a_range_and_products_of_energy_and_delay(trace):
    rows = {row["quantity"]: row for row in totals(trace)}
    for row in rows.values():
        assert row["low"] <= row["typical"] <= row["high"]
    seconds = trace.duration_ps * 1e-12
    assert rows["energy-delay product"]["typical"] == pytest.approx(rows["energy"]["typical"] * seconds)
    assert rows["mean power"]["typical"] * seconds == pytest.approx(rows["energy"]["typical"])
    assert rows["energy per token"]["typical"] * 5 == pytest.approx(rows["energy"]["typical"])
    parts = sum(row["typical"] for name, row in rows.items() if name.startswith("energy of "))
    assert parts == pytest.approx(rows["energy"]["typical"])


def test_area_and_totals_against_a_baseline(trace, tmp_path):
    bigger = run(
        load(system="oneplus_12", schedule="chain_sd", job=JOB, sets=("system.npu.hvx_contexts=6",)), trace="off"
    ).trace
    rows = overhead(bigger, trace)
    assert [row["block"] for row in rows] == ["npu.hvx", "total"]
    assert rows[0]["added_mm2"] == pytest.approx(0.7)
    assert rows[1]["added_share"] == pytest.approx(0.7 / sum(area_mm2(trace).values()))
    assert overhead(trace, trace)[0]["block"] == "total"
    compared = {row["quantity"]: row for row in against(bigger, trace)}
    assert compared["area"]["ratio"] > 1
    assert compared["energy"]["ratio"] == pytest.approx(energy(bigger).total_j / energy(trace).total_j)


@pytest.mark.parametrize("ending", ["csv", "parquet", "json"])
def test_the_command_exports_every_table(folder, tmp_path, ending, capsys):
    out = tmp_path / "tables"
    assert run_cli(["report", str(folder), "--export", str(out), "--format", ending, "--baseline", str(folder)]) == 0
    assert "Area against the baseline's machine" in capsys.readouterr().out
    written = {path.name for path in out.iterdir()}
    assert {
        f"{name}.{ending}" for name in ("energy", "states", "totals", "waste", "tokens", "power", "area")
    } <= written
    assert run_cli(["report", str(folder), "--export", str(out), "--format", "xls"]) == 2


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "energy_pj:\n  dram.io_bits: {value: 2.8 pJ, range: [1 pJ, 9 pJ]}\nnodes:\n  npu: {from_nm: 4, to_nm: 7}\n",
            None,
        ),
        ("energy_pj:\n  dram.io_bits: 2.8 W\n", "energy_pj.dram.io_bits"),
        ("energy_pj: {io_bits: 1 pJ}\n", "a price is named <device>.<action or block>"),
        ("nodes: {npu: {from_nm: 4, to_nm: 1}}\n", "nodes.npu"),
        ("base: mine\n", "'mine' is not one of run, none"),
        ("energy_mj: {}\n", "energy_mj: unknown key"),
    ],
)
def test_a_table_is_checked_without_a_run(text, problem, tmp_path):
    path = prices(tmp_path, text)
    found = check_files([path])[str(path)]
    assert len(found) == (problem is not None)
    assert problem is None or problem in found[0]
