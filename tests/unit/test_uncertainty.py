"""Bands of a run: what they must be whatever the ranges are."""

from __future__ import annotations

import dataclasses
import json

import pytest

from archsim import load, run
from archsim.cli import run_cli
from archsim.config import InputError
from archsim.sweep import executors
from archsim.sweep import ranges as ranges_of
from archsim.sweep import uncertainty as module
from archsim.sweep.uncertainty import METRICS, uncertainty

RUN = {
    "name": "small",
    "system": "oneplus_12",
    "schedule": {"name": "chain_sd"},
    "job": {"target": "smollm2-135m", "stream": "synthetic:llama-3.1-8b:mbpp", "tokens": 4},
}


def only(monkeypatch, keep, **changes):
    """Draw only the numbers that `keep` keeps, with fields replaced."""
    real = ranges_of.uncertain

    def some(resolved):
        return [dataclasses.replace(item, **changes) for item in real(resolved) if keep(item)]

    monkeypatch.setattr(module, "uncertain", some)


def test_ranges_of_no_width_give_the_nominal_run_exactly(monkeypatch):
    real = ranges_of.uncertain
    flat = lambda resolved: [  # noqa: E731
        dataclasses.replace(item, low=item.value, high=item.value) for item in real(resolved)
    ]
    monkeypatch.setattr(module, "uncertain", flat)
    found = uncertainty(RUN, samples=3, keep=False)
    summary = run(load(RUN), trace="off").summary
    for name in METRICS:
        assert found.bands[name] == dict.fromkeys(("nominal", "p10", "p50", "p90"), summary[name])


def test_the_nominal_run_lies_among_the_draws_and_bands_are_ordered():
    found = uncertainty(RUN, samples=16, keep=False)
    assert found.failed == 0
    for name in METRICS:
        drawn = [entry[name] for entry in found.draws]
        band = found.bands[name]
        assert min(drawn) <= band["nominal"] <= max(drawn)
        assert band["p10"] <= band["p50"] <= band["p90"]
    band = found.bands["decode_tokens_per_s"]
    assert band["p10"] < band["nominal"] < band["p90"]


def test_same_bytes_by_seed_and_after_a_resume(tmp_path):
    one = uncertainty(RUN, samples=6, output=tmp_path / "one")
    assert uncertainty(RUN, samples=6, seed=1, keep=False).draws != one.draws
    record = tmp_path / "one" / "points.jsonl"
    lines = record.read_bytes().splitlines(keepends=True)
    record.write_bytes(b"".join(lines[:3]) + lines[3][:20])
    again = uncertainty(RUN, samples=6, output=tmp_path / "one")
    assert again.draws == one.draws
    assert record.read_bytes().count(b"\n") == 7
    with pytest.raises(InputError, match="belongs to another sweep"):
        uncertainty(RUN, samples=7, output=tmp_path / "one")


@pytest.mark.slow
def test_same_bytes_for_any_worker_count(tmp_path, monkeypatch):
    monkeypatch.setattr(executors, "_until_awake", lambda *_: None)
    for name, workers in (("one", 1), ("two", 2)):
        uncertainty(RUN, samples=8, output=tmp_path / name, workers=workers)
    one, two = (sorted((tmp_path / name / "points.jsonl").read_bytes().splitlines()) for name in ("one", "two"))
    assert one == two
    assert (
        uncertainty(RUN, samples=8, output=tmp_path / "one").bands
        == uncertainty(RUN, samples=8, output=tmp_path / "two").bands
    )


def test_prices_are_drawn_without_simulating_again(monkeypatch):
    only(monkeypatch, lambda item: item.priced)
    runs = []
    real = module.run
    monkeypatch.setattr(module, "run", lambda *a, **k: runs.append(1) or real(*a, **k))
    found = uncertainty(RUN, samples=20, keep=False)
    assert len(runs) == 1
    speed = found.bands["decode_tokens_per_s"]
    assert speed["p10"] == speed["nominal"] == speed["p90"]
    energy = found.bands["energy_j"]
    assert energy["p10"] < energy["nominal"] < energy["p90"]


def test_a_price_moves_energy_by_its_own_share(monkeypatch):
    path = "prices.power_mw.dram.refresh"
    only(monkeypatch, lambda item: item.path == path, low=0.0, value=467.2, high=934.4)
    found = uncertainty(RUN, samples=40, keep=False)
    energies = [entry["energy_j"] for entry in found.draws]
    refresh = run(load(RUN), trace="off").trace.manifest["prices"]["power_mw"]["dram.refresh"]["value"] * 1e-3
    whole = refresh * found.nominal["energy_j"] / found.nominal["mean_power_w"]
    assert max(energies) - min(energies) == pytest.approx(2 * whole * (1 - 1 / 40), rel=0.03)


@pytest.mark.slow
def test_more_draws_converge(monkeypatch):
    only(monkeypatch, lambda item: item.priced)

    def band(samples, seed):
        return uncertainty(RUN, samples=samples, seed=seed, keep=False).bands["energy_per_token_j"]

    most = band(160, 99)

    def error(samples):  # in widths of the band, mean over seeds and quantiles
        off = [abs(band(samples, seed)[key] - most[key]) for seed in range(4) for key in ("p10", "p50", "p90")]
        return sum(off) / len(off) / (most["p90"] - most["p10"])

    assert error(40) < 0.1
    assert error(40) < 0.7 * error(5)


def test_bad_requests_are_one_line(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run_cli(["run", "demo_chain_sd", "--uncertainty", "0"]) == 2
    assert "1 to 100000 draws make a band" in capsys.readouterr().err
    assert run_cli(["run", "demo_chain_sd", "-j", "2"]) == 2
    assert "-j belongs to --uncertainty N" in capsys.readouterr().err
    assert run_cli(["run", "thermal_session", "--trace", "off", "--set", "job.tokens=2", "--uncertainty", "2"]) == 2
    assert "follows its power" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_the_command_prints_bands_beside_the_summary(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sets = ["--set", "job.tokens=2", "--target", "smollm2-135m"]
    assert run_cli(["run", "demo_chain_sd", *sets, "--uncertainty", "3", "-o", "out", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    found = document["uncertainty"]
    assert (found["samples"], found["seed"], found["failed"]) == (3, 0, 0)
    band = found["bands"]["decode_tokens_per_s"]
    assert band["nominal"] == document["decode_tokens_per_s"]
    assert set(band) == {"nominal", "p10", "p50", "p90"}
    assert (tmp_path / "out.bands" / "points.jsonl").is_file()


@pytest.mark.parametrize("how", ["file", "named", "set"])
def test_the_level_of_a_denoising_stream_moves_the_steps(how, monkeypatch):
    named = {"system": "llada_oneplus_12", "schedule": "dllm_npu"}
    job = {"target": "llada-8b", "tokens": 32, "stream": "synthetic:llada-8b:gsm8k"}
    data = {"name": "d", "system": named["system"], "schedule": {"name": "llada"}, "job": job}
    given = {
        "file": {"file": data},
        "named": {"file": None, **named, "schedule": "llada", "job": job},
        "set": {"file": data, "sets": ("job.stream=synthetic:llada-8b:gsm8k:even",)},
    }[how]
    item = next(one for one in ranges_of.uncertain(load(**given)) if one.path == ranges_of.LEVEL)
    low, plain = (module.drawn_summary(given, [item], {item.path: level}) for level in (item.low, item.value))
    assert low["steps"] > plain["steps"]
    assert plain["request_latency_s"] == run(load(**given), trace="off").summary["request_latency_s"]


def test_what_is_set_is_not_drawn_and_few_draws_are_named():
    path = "system.flash.queue_depth"
    found = uncertainty(RUN, samples=2, sets=["system.flash.stream_bytes_per_s=4 GB/s", f"{path}=16"], keep=False)
    assert found.held == ("system.flash.stream_bytes_per_s", path)
    assert not {item.path for item in found.drawn} & set(found.held)
    assert [note.split()[0] for note in found.notes] == ["set", "2"]
    assert found.document()["notes"] == found.notes
    assert uncertainty(RUN, samples=16, keep=False).notes == []


def test_a_run_that_cannot_be_drawn_is_refused_before_it_is_simulated(tmp_path, capsys):
    argv = ["run", "demo_flash_ar", "--thermal", "phone_passive", "--uncertainty", "2", "-o", str(tmp_path / "r")]
    assert run_cli(argv) == 2
    assert "leave thermal out" in capsys.readouterr().err
    assert not (tmp_path / "r").exists()
