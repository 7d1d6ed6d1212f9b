"""Did anything change? One file per case: the digest and a summary a person can read.

``pytest tests/golden --regold`` rewrites the files; a change in one is explained in the commit that makes it.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

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
