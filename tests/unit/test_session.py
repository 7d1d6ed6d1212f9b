"""Runs as a whole: one digest however it is run, run folders, replay, reports."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from archsim.config import InputError
from archsim.session import load, replay, report, run
from archsim.trace import Trace

JOB = {"target": "smollm2-135m", "stream": "recorded:exit_layers:15", "tokens": 10, "prompts": 2}


def resolved(schedule="chain_sd", **extra):
    return load(system="oneplus_12", schedule=schedule, job={**JOB, **extra})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return run(resolved(), output=tmp_path_factory.mktemp("runs") / "one").folder


def test_a_run_twice_gives_one_digest(folder, tmp_path):
    again = run(resolved(), output=tmp_path / "again")
    assert again.summary["digest"] == Trace.load(folder).digest
    assert again.summary["digest"] != run(resolved(tokens=9), trace="off").summary["digest"]


def test_jit_off_gives_the_same_digest():
    code = (
        "from archsim.session import load, run\n"
        f"job = {dict(JOB, tokens=4, prompts=1)!r}\n"
        "print(run(load(system='oneplus_12', schedule='chain_sd', job=job), trace='off').summary['digest'])"
    )
    plain = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "NUMBA_DISABLE_JIT": "1"}, capture_output=True, text=True
    )
    assert plain.returncode == 0, plain.stderr[-2000:]
    assert plain.stdout.strip() == run(resolved(tokens=4, prompts=1), trace="off").summary["digest"]


def test_full_logging_does_not_change_the_run(folder, tmp_path):
    full = run(resolved(), trace="full", output=tmp_path / "full")
    assert full.summary["digest"] == Trace.load(folder).digest
    assert len(full.trace.tables["pool_log"]["time_ps"]) > 0


def test_trace_off_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(resolved(), trace="off").folder is None
    assert list(tmp_path.iterdir()) == []


def test_replay_is_identical_and_notices_a_difference(folder, tmp_path):
    outcome = replay(folder)
    assert outcome["identical"]
    assert outcome["difference"] is None
    assert outcome["digest"] == Trace.load(folder).digest
    trace = Trace.load(folder)
    slower = {**trace.manifest, "pools": [dict(p, fixed=p["fixed"] // 2, mix=[]) for p in trace.manifest["pools"]]}
    other = Trace(trace.tables, slower).save(tmp_path / "other")
    changed = replay(other)
    assert not changed["identical"]
    assert changed["difference"].startswith("rows[")


def test_rows_carry_ids_that_resolve(folder):
    trace = Trace.load(folder)
    assert set(trace.rows["request"]) == {0, 1}
    assert (trace.row_block >= 0).all()
    assert set(trace.blocks["phase"]) == {"prefill", "draft", "verify"}
    arrivals = trace.notes["time_ps"][trace.notes["kind"] == "arrival"]
    assert len(arrivals) == 2


def test_useful_marks_follow_the_outcome(folder):
    trace = Trace.load(folder)
    verified = trace.blocks["phase"] == "verify"
    commits = trace.notes["kind"] == "commit"
    in_steps = commits & np_isin(trace.notes["time_ps"], trace.notes["time_ps"][trace.notes["kind"] == "step"])
    assert trace.blocks["useful"][verified].sum() == trace.notes["value"][in_steps].sum()
    assert (trace.blocks["useful"] <= trace.blocks["total"]).all()


def np_isin(values, among):
    return [value in set(among.tolist()) for value in values.tolist()]


def test_report_has_every_table_and_files(folder, tmp_path):
    document = report(folder, perfetto=tmp_path / "run.perfetto", figures=tmp_path / "figures")
    assert {"Units", "Energy by device and action", "Useful and wasted energy", "Area"} <= set(document["tables"])
    assert document["summary"]["digest"] == Trace.load(folder).digest
    assert all(os.path.getsize(file) > 0 for file in document["files"])
    assert len(document["files"]) >= 6


def test_jobs_that_do_not_fit_are_refused():
    job = {"target": "qwen3-14b", "stream": "recorded:exit_layers:25", "tokens": 4}
    sets = ("system.dram.capacity_bytes=4 GiB",)
    with pytest.raises(InputError, match=r"needs .* of dram and oneplus_12 has 4\.29 GB"):
        run(load(system="oneplus_12", schedule="resident_ar", job=job, sets=sets), trace="off")


def test_recordings_end_requests_early():
    result = run(resolved(tokens=200), trace="off")
    assert result.summary["tokens"] < 400
    assert any("ended early" in warning for warning in result.warnings)


def test_progress_is_told(tmp_path):
    class Told:
        def __init__(self):
            self.seen, self.stopped = [], False

        def start(self, title):
            self.title = title

        def update(self, done, total, title=""):
            self.seen.append((done, total))

        def stop(self):
            self.stopped = True

    told = Told()
    run(resolved(), trace="off", progress=told)
    assert told.seen[-1] == (20, 20)
    assert told.stopped


def test_drafts_are_marked_by_what_the_target_took(folder):
    trace = Trace.load(folder)
    accepted = trace.notes["value"][trace.notes["kind"] == "accept"]
    drafts = trace.blocks["phase"] == "draft"
    useful = trace.blocks["useful"][drafts]
    assert len(useful) == len(accepted)
    committed = trace.notes["value"][(trace.notes["kind"] == "commit") & (trace.notes["extra"] > 0)]
    assert useful.tolist() == [min(took, counted) for took, counted in zip(accepted, committed)]
    assert useful.sum() > 0


def test_prefill_of_the_draft_is_no_part_of_the_decode_speed():
    def speed(prompt):
        job = {"target": "llama-3.1-8b", "stream": "synthetic:llama-3.1-8b:mbpp", "tokens": 8, "prompt_tokens": prompt}
        return run(load(system="oneplus_12", schedule="chain_sd", job=job), trace="off").summary

    short, long = speed(10), speed(1000)
    assert long["ttft_s"] > short["ttft_s"]
    assert long["decode_tokens_per_s"] == pytest.approx(short["decode_tokens_per_s"], rel=0.05)


@pytest.mark.parametrize(
    ("stream", "draft", "label"),
    [
        ("synthetic:llama-3.1-8b:mbpp", None, "synthetic"),
        ("synthetic:qwen3-8b:mbpp", None, "synthetic-proxy:qwen3-8b+eagle3-qwen3-8b"),
        ("synthetic:llama-3.1-8b:mbpp", "llama-3.2-1b", "synthetic-proxy:llama-3.1-8b+eagle3-llama-3.1-8b"),
        ("recorded:exit_layers:25", None, "recorded-proxy:smollm2-135m"),
    ],
)
def test_borrowed_acceptance_is_labelled(stream, draft, label):
    job = {"target": "llama-3.1-8b", "stream": stream, "draft": draft, "tokens": 3}
    result = run(load(system="oneplus_12", schedule="chain_sd", job=job), trace="off")
    assert result.trace.manifest["stream"]["label"] == label
    assert result.summary["stream_kind"] == label.partition(":")[0]
    assert ("proxy" in result.warnings[0]) == ("proxy" in label)


def test_a_stream_that_is_no_text_is_refused():
    with pytest.raises(InputError, match="cannot serve schedule flash_ar: it has denoise, records"):
        run(resolved("flash_ar", stream="recorded:mdm_small:one"), trace="off")


def test_bandwidth_of_dram_binds():
    """The pool's capacity is the bound of a bandwidth-bound run once it falls below what the NPU asks for."""
    job = {"target": "llama-3.1-8b", "stream": "recorded:exit_layers:25", "tokens": 4}

    def speed(rate):
        sets = (f"system.dram.achievable_bytes_per_s={rate} GB/s", "system.dram.mix={}")
        return run(load(system="oneplus_12", schedule="resident_ar", job=job, sets=sets), trace="off").summary

    assert speed(20)["decode_tokens_per_s"] == pytest.approx(2 * speed(10)["decode_tokens_per_s"], rel=0.1)
    assert speed(20)["decode_tokens_per_s"] < 0.6 * speed(62)["decode_tokens_per_s"]


def test_a_whole_dram_budget_streams_nothing():
    job = {"target": "llama-3.1-8b", "stream": "recorded:exit_layers:25", "tokens": 4, "dram_fraction": 1.0}
    summary = run(load(system="oneplus_12", schedule="chain_sd", job=job), trace="off").summary
    assert summary["bytes"].get("flash_read", 0) == 0
    assert "io" not in summary["phases"]


@pytest.mark.parametrize(
    ("schedule", "job", "sets", "message"),
    [
        ("resident_ar", {"target": "llada-8b"}, (), "schedule resident_ar decodes causal models; llada-8b (target) is"),
        ("chain_sd", {"draft": "dream-7b"}, (), "schedule chain_sd decodes causal models; dream-7b (draft) is"),
        (
            "flash_ar",
            {"target": "opt-1.3b", "tokens": 2500},
            (),
            "positions (prompt, output and drafts) and opt-1.3b has",
        ),
        ("flash_ar", {}, ("system.npu.window_bytes=1 kB",), "does not fit the address window of npu"),
        ("flash_ar", {}, ("system.npu.vtcm_bytes=1 KiB",), "vtcm_bytes 1024 is below 7424"),
        ("flash_ar", {}, ("system.npu.hvx_contexts=1000",), "pool npu.hvx of 1000 contexts is outside"),
        ("flash_ar", {}, ("system.npu.dma_bytes_per_s=1000 TB/s",), "pool npu.dma of 1e+15 bytes/s is outside"),
        ("flash_ar", {}, ("system.flash.inflight_bytes=1 GiB",), "layer.load on flash has a bytes in flight"),
    ],
)
def test_what_cannot_run_is_refused_before_it_runs(schedule, job, sets, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as raised:
        run(load(system="oneplus_12", schedule=schedule, job={**JOB, **job}, sets=sets))
    assert message in str(raised.value)
    assert list(tmp_path.iterdir()) == []
