"""Numbers of the reports against arithmetic by hand on the sample run of test_report_sample."""

import sys
from pathlib import Path

import numpy as np
import pytest

from archsim.report.area import area_mm2
from archsim.report.energy import by_token, energy
from archsim.report.latency import latency, timeline
from archsim.report.owner import gains, owner, sentence, walk
from archsim.report.power import power
from archsim.report.summary import acceptance, busy_fraction, busy_ps, decode_phases, requests, summarise
from archsim.report.tables import TABLES, flat, read_table, table, write_table
from archsim.report.traffic import action_counts, fractions, traffic
from archsim.trace import Trace
from archsim.units import InputError

sys.path.insert(0, str(Path(__file__).parent))
from test_report_sample import NOTES, US, sample, sample_manifest, sample_tables

KEYS = [
    "digest", "tokens", "request_latency_s", "ttft_s", "itl_p50_s", "itl_p99_s", "commit_gap_p50_s", "commit_gap_p99_s",
    "ttft_p50_s", "ttft_p99_s", "queue_p50_s", "queue_p99_s", "turns", "decode_tokens_per_s",
    "energy_j", "energy_per_token_j",
    "mean_power_w", "peak_power_w", "area_mm2", "steps", "accepted_per_step", "phases", "units",
    "kernel_table", "bytes", "bytes_per_step", "footprint_bytes", "background", "stream_kind", "off_trace_nodes",
]  # fmt: skip
PJ = 1e-12


def changed(**tables) -> Trace:
    return Trace({**sample_tables(), **tables}, sample_manifest())


def with_notes(notes) -> Trace:
    """Sample run with other notes: (us, kind, request, value, extra)."""
    time, kind, request, value, extra = zip(*notes)
    whole = {"time_ps": np.array(time) * US, "request": np.array(request), "value": np.array(value)}
    return changed(notes={**whole, "extra": np.array(extra), "kind": np.array(kind)})


def test_summary():
    found = summarise(sample())
    assert list(found) == KEYS
    assert found["tokens"] == 4
    assert found["request_latency_s"] == pytest.approx(40e-6, rel=1e-12)
    assert found["ttft_s"] == pytest.approx(20e-6, rel=1e-12)
    # three tokens committed 18 us after the first: three gaps of a third for a mean, one for a reader
    assert [found[f"itl_p{p}_s"] for p in (50, 99)] == pytest.approx([6e-6] * 2, rel=1e-12)
    assert [found[f"commit_gap_p{p}_s"] for p in (50, 99)] == pytest.approx([18e-6] * 2, rel=1e-12)
    assert [found[f"ttft_p{p}_s"] for p in (50, 99)] == pytest.approx([20e-6] * 2, rel=1e-12)
    assert (found["queue_p50_s"], found["background"]) == (0.0, {})
    assert found["decode_tokens_per_s"] == pytest.approx(3 / 18e-6, rel=1e-12)
    assert (found["steps"], found["accepted_per_step"]) == (1, 3.0)
    assert found["phases"] == pytest.approx(
        {"draft": 6e-6, "io": 8e-6, "compute": 8e-6, "projection": 2e-6, "control": 1e-6}, rel=1e-12
    )
    assert found["units"] == {"flash.queue": 18 / 40, "npu.hmx": 26 / 40, "cpu.core": 1 / 40}
    assert found["area_mm2"] == 4.0
    assert (found["stream_kind"], found["off_trace_nodes"]) == ("synthetic", 3)
    # 0.25 mW + 0.5 mW for 40 us are 30 nJ; the dynamic part is in the next test
    assert found["energy_j"] == pytest.approx(30e-9 + 21335.625 * PJ, rel=1e-12)
    assert found["energy_per_token_j"] == pytest.approx(found["energy_j"] / 4, rel=1e-12)
    assert found["mean_power_w"] == pytest.approx(found["energy_j"] / 40e-6, rel=1e-12)


def test_a_cut_row_executes_its_share():
    found = fractions(sample())
    assert found[0] == 1.0
    # completed rows of the entry spend 1 us of 4 us in their lead: the cut one did all the lead, and 15/60 of the rest
    assert found[7] == 0.25 * 1.0 + 0.75 * 0.25
    assert found[8] == 0.0
    assert found[9] == 0.25  # no lead


def test_a_row_cut_in_its_lead_did_its_share_of_the_lead():
    tables = sample_tables()
    tables["rows"]["done"][7], tables["rows"]["flow_ps"][7], tables["rows"]["lead_ps"][7] = 0, -1, US // 4
    assert fractions(Trace(tables, sample_manifest()))[7] == 0.25 * 0.25
    # nothing but latency: half of the 2 us of the completed one
    tables["rows"]["op"][9], tables["rows"]["work"][9], tables["rows"]["lead_ps"][9] = 3, 0, US
    assert fractions(Trace(tables, sample_manifest()))[9] == 0.5


def test_cut_in_the_lead_without_a_completed_execution_is_free():
    tables = sample_tables()
    tables["rows"]["status"][3] = 1  # the only completed draft row is now a cut one: no share of the lead is known
    tables["rows"]["done"][3] = 0
    assert fractions(Trace(tables, sample_manifest()))[[3, 7]].tolist() == [0.0, 0.25]
    assert (energy(Trace(tables, sample_manifest())).free_rows, energy(sample()).free_rows) == (1, 0)


def test_a_row_still_running_when_the_run_stops():
    tables = sample_tables()
    tables["rows"]["status"][9], tables["rows"]["end_ps"][9] = 3, -1
    tables["rows"]["status"][8] = 1  # cut before it started
    trace = Trace(tables, sample_manifest())
    assert fractions(trace)[8:10].tolist() == [0.0, 0.25]
    assert busy_fraction(trace) == busy_fraction(sample()) | {"cpu.core": 2 / 40}
    assert power(trace, 20 * US).device_w["cpu"] == pytest.approx(np.array([0, 20]) / (20 * US), rel=1e-12)
    assert owner(trace) == pytest.approx({"npu.hmx": 20e-6, "flash.queue": 18e-6, "cpu.core": 2e-6})
    assert timeline(trace)["end_ps"][-1] == 40 * US


def test_counts_and_bytes():
    assert action_counts(sample()) == {
        "flash.page": 4,
        "flash.read_bytes": 2000,
        "dram.write_bytes": 2000,
        "dram.read_bits": 2 * 4000 + 480 * 1.4375,
        "npu.mac": 2 * 1000 + 200 + 60 * 1.4375,
        "cpu.instruction": 2,
    }
    assert traffic(sample()) == {"flash_read": 2000, "dram_write": 2000, "dram_read": 1000 + 86}  # 60 + 26.25, down


def test_energy_is_counts_times_prices():
    spent = energy(sample())
    assert spent.action_j == pytest.approx(
        {
            "flash.page": 4000 * PJ,
            "flash.read_bytes": 8000 * PJ,
            "dram.write_bytes": 6000 * PJ,
            "dram.read_bits": 8690 * 0.25 * PJ,
            "npu.mac": 2286.25 * 0.5 * PJ,
            "cpu.instruction": 20 * PJ,
        },
        rel=1e-14,
    )
    assert spent.static_j == pytest.approx({"dram.background": 10e-9, "npu.leakage": 20e-9}, rel=1e-14)
    assert spent.dynamic_j == sum(spent.action_j.values())
    assert spent.total_j == spent.dynamic_j + sum(spent.static_j.values())
    assert spent.by_device()["npu"] == pytest.approx(20e-9 + 1143.125 * PJ, rel=1e-14)
    assert spent.phase_j == pytest.approx(
        {
            "prefill": 10500 * PJ,
            "io": 9000 * PJ,
            "compute": 1500 * PJ,
            "draft": 215.625 * PJ,
            "projection": 100 * PJ,
            "control": 20 * PJ,
        },
        rel=1e-12,
    )


def test_useful_and_wasted():
    load, compute, draft, projection = 9000.0, 1500.0, 150.0, 100.0  # pJ of one execution
    weights = 1000.0  # of compute: read once for all five rows, so useful with any of them, like the load
    unmarked = load + compute  # prefill
    rows = compute - weights + projection
    useful = unmarked + draft * 2 / 4 + load + weights + rows * 3 / 5
    wasted = draft * 2 / 4 + rows * 2 / 5 + draft * 0.4375 + 20.0
    spent = energy(sample())
    assert spent.useful_j == pytest.approx(useful * PJ, rel=1e-12)
    assert spent.wasted_j == pytest.approx(wasted * PJ, rel=1e-12)
    assert spent.unmarked_j == pytest.approx(unmarked * PJ, rel=1e-12)
    assert spent.useful_j + spent.wasted_j == pytest.approx(spent.dynamic_j, rel=1e-12)
    assert spent.device_useful_j["flash"] == pytest.approx((6000 + 6000) * PJ, rel=1e-12)
    assert spent.device_wasted_j["cpu"] == pytest.approx(20 * PJ, rel=1e-12)


def test_an_unmarked_block_that_was_cut_is_wasted_and_a_mark_decides():
    tables = sample_tables()
    tables["blocks"]["status"][0] = 1
    assert energy(Trace(tables, sample_manifest())).device_useful_j["flash"] == pytest.approx(6000 * PJ)
    tables["blocks"]["useful"][0] = tables["blocks"]["total"][0] = 5
    assert energy(Trace(tables, sample_manifest())).device_useful_j["flash"] == pytest.approx(12000 * PJ)


def test_energy_by_token():
    first, second = by_token(sample())
    assert (first["tokens"], second["tokens"]) == (1, 3)
    assert first["energy_j"] == pytest.approx(0.75e-3 * 20e-6 + 10500 * PJ, rel=1e-12)
    assert second["energy_j"] == pytest.approx(0.75e-3 * 18e-6 + (21335.625 - 10500 - 20) * PJ, rel=1e-12)
    assert second["energy_per_token_j"] == second["energy_j"] / 3


@pytest.mark.parametrize(
    ("table_name", "key", "cost", "message"),
    [
        (
            "energy_pj",
            "npu.mac",
            None,
            "action 'npu.mac' is counted but has no energy price; add it to the energy table of device 'npu'",
        ),
        ("energy_pj", "npu.mac", "mJ", "price of action 'npu.mac' is in 'mJ'; it must be in pJ"),
        ("power_mw", "npu.leakage", "W", "static power of 'npu.leakage' is in 'W'; it must be in mW"),
        ("area_um2", "npu.hmx", "mm2", "area of 'npu.hmx' is in 'mm2'; it must be in um2"),
    ],
)
def test_prices_are_complete_and_in_their_units(table_name, key, cost, message):
    manifest = sample_manifest()
    if cost is None:
        del manifest["prices"][table_name][key]
    else:
        manifest["prices"][table_name][key]["unit"] = cost
    with pytest.raises(InputError) as caught:
        summarise(Trace(sample_tables(), manifest))
    assert str(caught.value) == message


def test_counts_of_an_unknown_op_are_refused():
    tables = sample_tables()
    tables["counts"]["op"][0] = 77
    with pytest.raises(InputError, match="table 'counts' names op 77, which table 'ops' does not list"):
        energy(Trace(tables, sample_manifest()))


def test_power_by_hand():
    watts = power(sample(), 10 * US)
    # 0-10 us: the load of prefill; 10-20: its compute (+ nothing); pJ / 10 us
    assert watts.device_w["flash"] == pytest.approx(np.array([6000, 0, 6000, 0]) / (10 * US), rel=1e-12)
    assert watts.device_w["npu"] == pytest.approx(
        0.5e-3 + np.array([0, 500, 30 * 1.4375 + 500 * 2 / 8, 500 * 6 / 8 + 100]) / (10 * US), rel=1e-12
    )
    assert watts.device_w["cpu"] == pytest.approx(np.array([0, 0, 0, 20]) / (10 * US), rel=1e-12)
    assert watts.peak_w() == watts.total_w().max()
    assert watts.mean_w() * 40e-6 == pytest.approx(energy(sample()).total_j, rel=1e-12)


def test_power_refuses_an_empty_bin():
    with pytest.raises(InputError, match="power bin of 0 ps; it must be positive"):
        power(sample(), 0)


def test_acceptance():
    assert acceptance(sample()) == {
        "accepted_per_verified": 2 / 4,
        "accepted_per_drafted": 2 / 6,
        "accepted_per_batch": 2 / 4,
    }
    two = with_notes([(0, "arrival", 0, 0, 0), (5, "accept", 0, 4, 4), (9, "accept", 0, 0, 2), (9, "end", 0, 6, 0)])
    assert acceptance(two) == {
        "accepted_per_verified": 4 / 6,
        "accepted_per_drafted": None,
        "accepted_per_batch": (4 / 4 + 0 / 2) / 2,
    }


def test_several_requests():
    """Medians of latencies, geometric mean of speeds, totals of tokens and steps."""
    found = summarise(
        with_notes(
            [
                (0, "arrival", 0, 5, 0), (1, "commit", 0, 1, 0), (3, "step", 0, 1, 0), (3, "commit", 0, 4, 3),
                (3, "end", 0, 5, 0),
                (3, "arrival", 1, 5, 0), (6, "commit", 1, 1, 0), (10, "step", 1, 1, 0), (10, "commit", 1, 2, 3),
                (10, "end", 1, 3, 0),
                (10, "arrival", 2, 5, 0), (12, "commit", 2, 1, 0), (13, "end", 2, 1, 1),
                (14, "thermal", -1, 9, 0),
            ]
        )
    )  # fmt: skip
    assert (found["tokens"], found["steps"], found["accepted_per_step"]) == (9, 2, 3.0)
    assert found["request_latency_s"] == pytest.approx(3e-6)  # of 3, 7, 3
    assert found["ttft_s"] == pytest.approx(2e-6)  # of 1, 3, 2
    assert found["decode_tokens_per_s"] == pytest.approx((4 / 2e-6 * 2 / 4e-6) ** 0.5)
    ends = [request["ended_early"] for request in requests(with_notes([(0, "arrival", 0, 1, 0), (2, "end", 0, 0, 1)]))]
    assert ends == [True]


def test_diffusion_commits_several_tokens_in_its_first_step():
    found = requests(with_notes([(0, "arrival", 0, 0, 0), (5, "commit", 0, 3, 0), (5, "step", 0, 1, 0)]))[0]
    assert (found["step_tokens"], found["decode_tokens_per_s"], found["latency_s"]) == (3, None, pytest.approx(5e-6))


def test_a_request_must_arrive():
    with pytest.raises(InputError, match="request 0 has notes but no 'arrival'; the trace is incomplete"):
        summarise(with_notes([(5, "commit", 0, 1, 0)]))


def test_a_run_without_anything():
    empty = {name: {c: v[:0] for c, v in columns.items()} for name, columns in sample_tables().items()}
    found = summarise(Trace(empty, sample_manifest()))
    assert (found["tokens"], found["energy_j"], found["mean_power_w"], found["phases"]) == (0, 0.0, 0.0, {})
    assert found["decode_tokens_per_s"] is found["ttft_s"] is found["energy_per_token_j"] is None
    assert sentence(Trace(empty, sample_manifest())) == "No unit did anything in this run."


def test_phases_are_unions_of_intervals():
    assert busy_ps(np.array([5, 0, 1, 20]), np.array([8, 4, 3, 21])) == 4 + 3 + 1
    assert busy_ps(np.array([]), np.array([])) == 0
    tables = sample_tables()
    rows = {name: np.append(values, values[4]) for name, values in tables["rows"].items()}
    rows["unit"][-1], rows["start_ps"][-1], rows["end_ps"][-1] = 2, 24 * US, 30 * US  # a second load, half hidden
    assert decode_phases(changed(rows=rows))["io"] == pytest.approx(10e-6)
    assert busy_fraction(changed(rows=rows))["cpu.core"] == 7 / 40


def test_timeline_and_latency():
    slices = timeline(sample())
    assert slices["phase"].tolist() == [
        "prefill", "prefill", "io", "draft", "draft", "compute", "projection", "control",
    ]  # fmt: skip
    assert slices["unit"][:3].tolist() == ["flash.queue", "npu.hmx", "flash.queue"]
    assert slices["block"][4] == "ahead"
    found = {(row["phase"], row["unit"]): (row["busy_s"], row["busy_per_step_s"]) for row in latency(sample())}
    assert found[("prefill", "npu.hmx")] == (pytest.approx(10e-6), None)
    assert found[("draft", "npu.hmx")] == (pytest.approx(6e-6), pytest.approx(6e-6))


def test_owner_walks_back_through_what_was_waited_for():
    # 39-40 nothing, control 38-39, projection 36-38, compute 28-36, load 20-28 (same block), compute 10-20, load 0-10
    assert list(zip(*walk(sample()))) == [
        (-1, 39 * US, 40 * US), (9, 38 * US, 39 * US), (6, 36 * US, 38 * US), (5, 28 * US, 36 * US),
        (4, 20 * US, 28 * US), (1, 10 * US, 20 * US), (0, 0, 10 * US),
    ]  # fmt: skip
    found = owner(sample())
    assert found == pytest.approx({"npu.hmx": 20e-6, "flash.queue": 18e-6, "cpu.core": 1e-6, "wait": 1e-6})
    assert list(found)[:2] == ["npu.hmx", "flash.queue"]
    assert gains(sample(), 0.25) == pytest.approx({"npu": 4e-6, "flash": 3.6e-6, "cpu": 0.2e-6})
    assert sentence(sample()) == (
        "Of 40.0 us: npu.hmx 50%, flash.queue 45%, cpu.core 2%, wait 2%. At this schedule, 10% more npu saves at most "
        "1.82 us (4.5%); 10% more flash saves at most 1.64 us (4.1%); 10% more cpu saves at most 90.9 ns (0.2%)."
    )
    with pytest.raises(InputError, match="must be positive"):
        gains(sample(), 0)


def test_owner_prefers_the_queue_to_a_stranger():
    """Two rows end when a third starts: the one on its unit counts, unless the other is of its block."""
    tables = sample_tables()
    base = {name: values[[0, 0, 0]].copy() for name, values in tables["rows"].items()}
    base["row"] = np.arange(3)
    base["unit"] = np.array([2, 1, 1])
    base["block"] = np.array([1, 2, 3])
    base["start_ps"] = base["flow_ps"] = np.array([0, 10, 30]) * US
    base["end_ps"] = np.array([30, 30, 40]) * US
    assert walk(changed(rows=base)).row.tolist() == [2, 1, -1]
    base["block"] = np.array([3, 2, 3])
    assert walk(changed(rows=base)).row.tolist() == [2, 0]


def test_area():
    assert area_mm2(sample()) == {"npu.hmx": 2.0, "npu.vtcm": 1.5, "dram.controller": 0.5}


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("ending", ["csv", "json", "parquet"])
def test_tables_are_written_and_read_back(name, ending, tmp_path):
    rows = table(sample(), name)
    if name in ("ahead", "background"):  # the sample drafts nothing ahead, and is alone
        assert rows == []
        return
    assert rows
    assert all(list(row) == list(rows[0]) for row in rows)
    if (name, ending) == ("summary", "parquet"):
        rows = [{key: str(value) for key, value in row.items()} for row in rows]
    assert read_table(write_table(rows, tmp_path / f"t.{ending}")) == rows


def test_table_errors(tmp_path):
    with pytest.raises(InputError, match="no table 'energi'; did you mean 'energy'"):
        table(sample(), "energi")
    with pytest.raises(InputError, match="a table is written as"):
        write_table([], tmp_path / "t.xls")
    with pytest.raises(InputError, match="no such table"):
        read_table(tmp_path / "t.csv")
    for name, text in (("t.json", "{"), ("u.json", "{}"), ("t.parquet", "x")):
        (tmp_path / name).write_text(text)
        with pytest.raises(InputError, match="table"):
            read_table(tmp_path / name)
    assert flat({"a": 1, "b": {"c.d": 2, "e": {"f": 3}}}) == {"a": 1, "b.c.d": 2, "b.e.f": 3}


def test_notes_of_the_sample_are_in_order():
    assert [note[0] for note in NOTES] == sorted(note[0] for note in NOTES)
