"""What is required of a simulator that architects trust, R1 to R20: each in a sentence, and the tests that hold it."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import time
import tomllib
from functools import cache
from pathlib import Path

import numba
import numpy as np
import pytest

import archsim
from archsim.bench.suite import SUITE
from archsim.cli import run_cli
from archsim.config import digest
from archsim.report.summary import summarise
from archsim.session import load, run, running
from archsim.trace import Trace

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
HERE = "unit/test_requirements.py"
#: Requirement -> its sentence, and the tests that hold it (file below ``tests``, then the function).
REQUIREMENTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "R1": (
        "It installs into an empty environment without a compiler, and the first command answers within 60 s.",
        (f"{HERE}::test_the_package_holds_nothing_to_compile", "bench/test_bench_suite.py::test_aim"),
    ),
    "R2": (
        "The oldest and the newest NumPy and numba that are claimed give the same digests.",
        (
            f"{HERE}::test_versions_that_are_claimed_have_a_lower_bound",
            "golden/test_digests.py::test_a_case_has_its_digest_twice_over",
        ),
    ),
    "R3": (
        "An unknown key is refused with its file, its path and the nearest known name.",
        ("unit/test_config_errors.py::test_broken_file", "unit/test_config_errors.py::test_broken_set"),
    ),
    "R4": (
        "Every shipped machine runs every schedule that it has the units for, and every shipped run file runs.",
        (
            "smoke/test_every_machine_and_schedule.py::test_runs_and_replays",
            "smoke/test_every_machine_and_schedule.py::test_shipped_runs",
            "golden/test_golden_runs.py::test_every_schedule_and_machine_has_a_case",
        ),
    ),
    "R5": (
        "Every number in a document has its unit in its key, and power times time is energy.",
        (
            "unit/test_sweep_runs.py::test_units_by_name",
            "unit/test_api.py::test_a_result_gives_frames_with_units",
            "device/test_energy_every_device.py::test_power_integrates_to_energy_by_device_in_any_bin",
        ),
    ),
    "R6": (
        "Bytes, tokens and energy are conserved, and more hardware is not slower.",
        (
            "property/test_invariants.py::test_no_run_of_the_engine_violates_an_invariant",
            "property/test_report_conservation.py::test_power_integrates_to_energy_and_shares_add_up",
            "property/test_flash_ssd.py::test_reads_are_not_slower_with_more_hardware_or_depth",
            "property/test_npu_walks.py::test_time_grows_with_every_dimension",
        ),
    ),
    "R7": (
        "Equal runs are equal to the byte, for any number of workers and in any order.",
        (
            "unit/test_sweep_runs.py::test_same_bytes_for_any_worker_count_and_after_a_resume",
            "golden/test_digests.py::test_any_number_of_workers",
            "golden/test_digests.py::test_cases_in_the_other_order_in_another_process_with_another_hash_seed",
            "property/test_streams_order.py::test_call_order_does_not_matter",
        ),
    ),
    "R8": (
        "Memory stays bounded with tracing on.",
        (
            "unit/test_stored_runs.py::test_a_stored_run_has_the_digest_and_the_summary_of_one_in_memory",
            "bench/test_bench_suite.py::test_aim",
        ),
    ),
    "R9": (
        "`--trace off` costs less than 5 % of a run and writes nothing.",
        (
            f"{HERE}::test_trace_off_writes_nothing_anywhere",
            f"{HERE}::test_trace_off_costs_less_than_5_percent",
        ),
    ),
    "R10": (
        "The time lines that are written parse with a reader that is not archsim's.",
        (
            "unit/test_report_perfetto.py::test_slices_are_the_rows",
            "unit/test_report_perfetto.py::test_a_whole_run_nests_and_its_arrows_are_dependencies_across_units",
        ),
    ),
    "R11": (
        "Latency has percentiles, bandwidth is in GB/s and in percent of the peak, by unit and in all.",
        (f"{HERE}::test_latency_has_percentiles_and_bandwidth_its_peak",),
    ),
    "R12": (
        "What was served is what was asked for, or the exit code is not 0.",
        (
            "property/test_engine_promises.py::test_work_asked_is_served_or_left",
            "property/test_dram_kernel_equals_oracle.py::test_served_equals_asked_and_energy_adds_up",
            "property/test_pim_kernel_equals_oracle.py::test_served_equals_asked",
            "unit/test_invariants.py::test_a_violation_is_one_line_and_exit_3",
            "property/test_values_given.py::test_a_number_is_the_one_that_was_given_or_is_refused",
        ),
    ),
    "R13": (
        "A run drains at its end, and what precedes the decode window is told apart from it.",
        (
            f"{HERE}::test_a_run_drains_and_its_windows_are_named",
            "unit/test_session.py::test_prefill_of_the_draft_is_no_part_of_the_decode_speed",
        ),
    ),
    "R14": (
        "Fields that must fit each other are checked when a file is loaded.",
        (
            "unit/test_session.py::test_what_cannot_run_is_refused_before_it_runs",
            "unit/test_config_errors.py::test_range_of_a_schedule_field_is_checked",
        ),
    ),
    "R15": (
        "The exit codes are documented: 0 ok, 2 bad input, 3 the simulation failed.",
        (
            f"{HERE}::test_exit_codes_stand_in_the_readme",
            "unit/test_cli_bad_input.py::test_bad_command_line",
            "unit/test_cli_bad_input.py::test_simulation_failures_exit_with_3",
        ),
    ),
    "R16": (
        "No command waits for a key or needs a standard input.",
        (f"{HERE}::test_commands_need_no_standard_input",),
    ),
    "R17": (
        "The commands of the documentation are run by tests.",
        ("smoke/test_readme.py::test_snippets_run", "smoke/test_readme.py::test_what_is_left_out_stands_in_the_readme"),
    ),
    "R18": (
        "Importing takes less than a second, kernels are compiled once, and the time for that is told apart.",
        (
            "unit/test_api.py::test_importing_the_package_alone_is_light",
            "bench/test_bench_suite.py::test_aim",
            f"{HERE}::test_compiled_kernels_are_kept_and_the_cold_start_is_measured_apart",
        ),
    ),
    "R19": (
        "Every constant carries its source and how well it is known.",
        (
            "physics/test_devices_contract.py::test_every_number_of_the_parts_has_a_source",
            "physics/test_devices_contract.py::test_every_price_has_a_source_a_unit_and_a_range_around_it",
            "unit/test_technology_scaling.py::test_a_cost_says_how_well_it_is_known",
        ),
    ),
    "R20": (
        "A result carries the version, the digest of its configuration and the seed.",
        (f"{HERE}::test_a_result_says_what_made_it",),
    ),
}
RUN = ["run", "--system", "oneplus_12", "--schedule", "flash_ar", "--target", "smollm2-135m", "--tokens", "2"]
RUN += ["--stream", "recorded:exit_layers:25", "--set", "job.prompt_tokens=4"]
JOB = {"target": "smollm2-135m", "stream": "recorded:exit_layers:25", "tokens": 2, "prompt_tokens": 4}


@cache
def functions(file: str) -> set[str]:
    """Names of the functions of a test file."""
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("number", REQUIREMENTS)
def test_tests_of_a_requirement_exist(number):
    sentence, held = REQUIREMENTS[number]
    assert sentence.endswith(".")
    assert held
    for entry in held:
        file, name = entry.split("::")
        assert name.startswith("test_"), entry
        assert name in functions(file), entry


def test_there_are_twenty():
    assert list(REQUIREMENTS) == [f"R{number}" for number in range(1, 21)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "run"
    run(load(system="oneplus_12", schedule="flash_ar", job={**JOB, "seed": 7}), output=path)
    return path


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_package_holds_nothing_to_compile():
    """R1: pure Python behind a build backend that knows no compiler; what is compiled comes in wheels."""
    assert project()["build-system"]["build-backend"] == "hatchling.build"
    endings = {path.suffix for folder in ("archsim", "arch_configs") for path in (ROOT / folder).rglob("*")}
    assert not endings & {".c", ".cc", ".cpp", ".h", ".f", ".pyx", ".rs", ".so", ".cu"}


def test_versions_that_are_claimed_have_a_lower_bound():
    """R2: and none an upper one, so the newest is what is installed."""
    for wanted in project()["project"]["dependencies"]:
        assert ">=" in wanted, wanted
        assert "<" not in wanted, wanted


def tree(*folders: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for top in folders for path in top.rglob("*") if path.is_file()}


def test_trace_off_writes_nothing_anywhere(tmp_path, monkeypatch, capsys):
    """R9: neither where it runs, nor at home, nor among temporary files (the kernels are compiled by the first run)."""
    for name in ("here", "home", "temporary"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    assert run_cli([*RUN, "--trace", "off"]) == 0
    assert tree(tmp_path) == {}
    assert run_cli([*RUN, "-o", "out"]) == 0
    assert tree(tmp_path / "here")
    capsys.readouterr()


@pytest.mark.bench
def test_trace_off_costs_less_than_5_percent(monkeypatch):
    """R9: of the CPU time of a run, what makes the columns of its trace from the engine's; the best of five."""
    spent = {"run": 0.0, "trace": 0.0}

    def timed(name, work):
        def inner(*args, **keys):
            began = time.process_time()
            made = work(*args, **keys)
            spent[name] += time.process_time() - began
            return made

        return inner

    monkeypatch.setattr(running, "finished", timed("trace", running.finished))
    loaded = load("lever", sets=("job.tokens=256",))
    run(loaded, trace="off")
    shares = []
    for _ in range(5):
        spent.update(run=0.0, trace=0.0)
        timed("run", run)(loaded, trace="off")
        shares.append(spent["trace"] / spent["run"])
    print(f"{100 * min(shares):.1f} % of {spent['run']:.2f} s")
    assert min(shares) < 0.05


def test_latency_has_percentiles_and_bandwidth_its_peak(folder, capsys):
    """R11: of requests, of tokens, and of every unit."""
    trace = ["trace", "dram", str(ROOT / "traces" / "dram" / "t05_rand_read.txt.gz"), "--standard", "lpddr5-6400"]
    assert run_cli([*trace, "--json"]) == 0
    dram = json.loads(capsys.readouterr().out)
    assert 0 < dram["read_latency_cycles_p50"] <= dram["read_latency_cycles_p99"]
    peak_gb_s = dram["bandwidth_gb_s"] / dram["peak_fraction"]
    assert peak_gb_s == pytest.approx(12.8)  # 6400 MT/s on 16 bits
    summary = summarise(Trace.load(folder))
    assert 0 < summary["itl_p50_s"] <= summary["itl_p99_s"]
    assert len(summary["units"]) >= 4
    assert all(0 <= busy <= 1 for busy in summary["units"].values())


def test_a_run_drains_and_its_windows_are_named(folder):
    """R13: every row has ended, and prefill and decode are told apart."""
    trace = Trace.load(folder)
    assert set(np.asarray(trace.tables["rows"]["status"]).tolist()) == {0}
    assert {"prefill", "decode"} <= set(np.asarray(trace.tables["blocks"]["phase"]).tolist())
    summary = summarise(trace)
    decoding_s = summary["request_latency_s"] - summary["ttft_s"]
    assert summary["decode_tokens_per_s"] == pytest.approx((summary["tokens"] - 1) / decoding_s)


def test_exit_codes_stand_in_the_readme():
    """R15."""
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert "Exit codes: 0 ok, 2 bad input" in text
    assert "3 the simulation failed" in text


@pytest.mark.parametrize("stdin", ["closed", "a pipe that stays open"])
def test_commands_need_no_standard_input(stdin):
    """R16: a reader of the standard input would wait for ever, or fail."""
    words = [sys.executable, "-m", "archsim", "list", "systems"]
    if stdin == "closed":
        done = subprocess.run(["bash", "-c", '"$@" <&-', "-", *words], capture_output=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return
    read, write = os.pipe()
    try:
        assert subprocess.run(words, stdin=read, capture_output=True, timeout=120).returncode == 0
    finally:
        os.close(read)
        os.close(write)


def test_compiled_kernels_are_kept_and_the_cold_start_is_measured_apart():
    """R18."""
    assert {"start.cold", "start.warm", "start.help"} <= {bench.name for bench in SUITE}
    kept = Path(numba.config.CACHE_DIR)
    assert list(kept.rglob("*.nbc"))


def test_a_result_says_what_made_it(folder):
    """R20."""
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["archsim"] == archsim.__version__
    assert manifest["versions"].keys() >= {"numpy", "numba"}
    assert manifest["config"]["job"]["seed"] == 7
    assert manifest["seed"] == 7
    assert manifest["config_digest"] == Trace.load(folder).manifest["config_digest"] == digest(manifest["config"])
