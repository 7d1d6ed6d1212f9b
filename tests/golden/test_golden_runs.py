"""Did anything change? One file per case: the digest and a summary a person can read.

``pytest tests/golden --regold`` rewrites the files; a change in one is explained in the commit that makes it.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from archsim import registry
from archsim.config import names
from archsim.session import load, run

FOLDER = Path(__file__).parent / "cases"
CASES = {
    "resident_ar": ("resident_ar", {"target": "smollm2-135m", "stream": "recorded:exit_layers:25"}, ()),
    "flash_ar": ("flash_ar", {"target": "llama-3.1-8b", "stream": "recorded:exit_layers:25"}, ()),
    "flash_ar_half_in_dram": (
        "flash_ar",
        {"target": "qwen3-8b", "stream": "recorded:exit_layers:25"},
        ("job.dram_fraction=0.5", "system.flash=ufs_3_1"),
    ),
    "chain_sd_recorded": ("chain_sd", {"target": "llama-3.1-8b", "stream": "recorded:exit_layers:10"}, ()),
    "chain_sd_synthetic": (
        "chain_sd",
        {"target": "qwen3-8b", "stream": "synthetic:qwen3-8b:mbpp", "seed": 3},
        ("schedule.length=4",),
    ),
    "chain_sd_separate_draft": (
        "chain_sd",
        {"target": "llama-3.1-8b", "draft": "llama-3.2-1b", "stream": "recorded:exit_layers:20"},
        (),
    ),
}
CASES |= {
    "lever": ("lever", {"target": "llama-3.1-8b", "stream": "synthetic:llama-3.1-8b:mbpp", "acceptance": 0.6}, ()),
    "lever_recorded": ("lever", {"target": "qwen3-8b", "stream": "recorded:exit_layers:15"}, ("job.dram_fraction=1",)),
    "edgellm": ("edgellm", {"target": "qwen3-8b", "stream": "synthetic:qwen3-8b:gsm8k", "acceptance": 0.4}, ()),
    "opt_tree": ("opt_tree", {"target": "qwen3-8b", "stream": "synthetic:qwen3-8b:gsm8k", "acceptance": 0.4}, ()),
}
PAIR = {"target": "llama2-7b", "draft": "llama2-1.3b", "stream": "synthetic:llama2-7b+llama2-1.3b:alpaca"}
BLOCKS = {"target": "llada-8b", "stream": "synthetic:llada-8b:gsm8k"}
#: On other machines than the phone.
ELSEWHERE = {
    "ahasd": ("ahasd_samsung", "ahasd", PAIR, ()),
    "pim_sync": ("ahasd_listed", "pim_sync", PAIR, ("schedule.drafter=svip",)),
    "specpim": ("gpu_pim", "specpim", PAIR, ()),
    "llada": ("llada_ace5_pro", "llada", BLOCKS, ()),
    "dllm_npu": ("llada_ace5_pro", "dllm_npu", BLOCKS, ()),
    "lever_v81": ("oneplus_15", "lever", {"target": "qwen3-4b", "stream": "synthetic:qwen3-4b:mbpp"}, ()),
}
#: One case at least of every schedule and every machine.
TINY = {"target": "smollm2-135m", "stream": "recorded:exit_layers:25"}
TREE = {"target": "qwen3-8b", "stream": "synthetic:qwen3-8b:gsm8k", "acceptance": 0.4}
ELSEWHERE |= {
    "cpu_ar": ("oneplus_12", "cpu_ar", TINY, ()),
    "co_run": ("honor_magic_v5", "co_run", TINY, ()),
    "specinfer": ("honor_500_pro", "specinfer", TREE, ()),
    "dllm_cpu": ("llada_oneplus_12", "dllm_cpu", BLOCKS, ()),
    "ar_offload": ("llada_oneplus_15", "ar_offload", TINY, ()),
    "npu_sd": ("ahasd_without_aau", "npu_sd", PAIR, ()),
    "gpu_sd": ("mobile_gpu", "gpu_sd", PAIR, ()),
    "gpu_sd_laptop": ("laptop_gpu", "gpu_sd", PAIR, ()),
    "pim_ar": ("ahasd_samsung", "pim_ar", PAIR, ()),
    "resident_ar_ace5": ("oneplus_ace5_pro", "resident_ar", TINY, ()),
}
KEPT = ("digest", "tokens", "steps", "decode_tokens_per_s", "ttft_s", "energy_j", "phases", "units", "bytes")


def rounded(value):
    """Floats to nine digits, so that the file reads well and does not hang on the last bit of an energy sum."""
    if isinstance(value, dict):
        return {key: rounded(entry) for key, entry in value.items()}
    return float(f"{value:.9g}") if isinstance(value, float) else value


@pytest.mark.parametrize("name", [*CASES, *ELSEWHERE])
def test_golden(name, request):
    system, schedule, job, sets = ELSEWHERE.get(name) or ("oneplus_12", *CASES[name])
    result = run(load(system=system, schedule=schedule, job={**job, "tokens": 16}, sets=sets), trace="off")
    found = rounded({key: result.summary[key] for key in KEPT})
    path = FOLDER / f"{name}.json"
    if request.config.getoption("--regold"):
        FOLDER.mkdir(exist_ok=True)
        path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    assert found == json.loads(path.read_text(encoding="utf-8"))


def test_every_schedule_and_machine_has_a_case():
    cases = [*ELSEWHERE.values(), *(("oneplus_12", *case) for case in CASES.values())]
    assert {case[1] for case in cases} == set(registry.names("schedule"))
    assert {case[0] for case in cases} == set(names("system"))


def test_every_file_has_a_case():
    assert {path.stem for path in FOLDER.glob("*.json")} == CASES.keys() | ELSEWHERE.keys()
