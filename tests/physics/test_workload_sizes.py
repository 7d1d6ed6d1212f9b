"""Model sizes against published figures, to their printed digits."""

from __future__ import annotations

from pathlib import Path

import pytest

from archsim.config.reading import read
from archsim.device import DType
from archsim.workload.model import ModelSpec, derive_eagle3, resolve_model

MODELS = Path(__file__).resolve().parents[2] / "arch_configs" / "models"


def load(name: str) -> ModelSpec:
    return ModelSpec(**read(MODELS / f"{name}.yaml").data["spec"], name=name)


# Parameter counts of the public checkpoints (the sizes of their weight files; Hugging Face model cards).
PUBLISHED_PARAMETERS = {
    "llama-3.1-8b": 8_030_261_248,
    "llama-3-8b": 8_030_261_248,
    "llama-3.2-1b": 1_235_814_400,
    "qwen3-0.6b": 596_049_920,
    "qwen3-4b": 4_022_468_096,
    "qwen3-8b": 8_190_735_360,
    "qwen3-14b": 14_768_307_200,
    "qwen2.5-3b": 3_085_938_688,
    "smollm2-135m": 134_515_008,
    "llada-8b": 8_015_581_184,
    "dream-7b": 7_615_616_512,
    "llama2-7b": 6_738_415_616,
    "llama2-13b": 13_015_864_320,
    "opt-1.3b": 1_315_758_080,
    "opt-6.7b": 6_658_473_984,
    "bitnet-2b": 2_412_820_480,
}


@pytest.mark.parametrize("name", PUBLISHED_PARAMETERS)
def test_total_parameters_equal_the_public_checkpoint(name):
    assert load(name).total_parameters == PUBLISHED_PARAMETERS[name]


# Layers in 1e9 weights and GB at 4.5 bits, MB per layer, head in 1e9 weights and GB; derived
# from Lever (arXiv 2605.16786).
LEVER = {
    "llama-3.1-8b": ("6.979", "3.926", "122.7", "0.525", "0.296"),
    "qwen3-4b": ("3.633", "2.044", "56.8", "0.389", None),
    "qwen3-8b": ("6.946", "3.907", "108.5", "0.622", None),
    "qwen3-14b": ("13.212", "7.432", "185.8", "0.778", None),
}


@pytest.mark.parametrize("name", LEVER)
def test_lever_targets(name):
    spec = load(name)
    layers, layers_gb, layer_mb, head, head_gb = LEVER[name]
    assert f"{spec.layers_parameters / 1e9:.3f}" == layers
    assert f"{spec.layers_bytes / 1e9:.3f}" == layers_gb
    assert f"{spec.layer_bytes / 1e6:.1f}" == layer_mb
    assert f"{spec.head_parameters / 1e9:.3f}" == head
    assert head_gb is None or f"{spec.head_bytes / 1e9:.3f}" == head_gb
    assert spec.layers_bytes * 8 == spec.layers_parameters * 4.5


def test_head_storage_is_a_field():
    spec = load("llama-3.1-8b")
    other = spec.replace(quant={"default": "Q4_0", "head": "Q6_K"})
    assert f"{other.head_bytes / 1e9:.3f}" == "0.431"
    assert other.layers_bytes == spec.layers_bytes


# Weights per layer in 1e6, layers GB, head GB, GFLOP per token in layers and head, FP16 KV bytes per token
# (LLaDA, Dream and
# Llama-3 from their public configurations).
DIFFUSION = {
    "llada-8b": ("218.1", "3.926", "0.291", "13.96", "1.036", 524_288),
    "dream-7b": ("233.0", "3.670", "0.307", "13.05", "1.090", 57_344),
    "llama-3-8b": ("218.1", "3.926", "0.296", "13.96", "1.051", 131_072),
}


@pytest.mark.parametrize("name", DIFFUSION)
def test_diffusion_models(name):
    spec = load(name)
    layer, layers_gb, head_gb, flop, head_flop, kv = DIFFUSION[name]
    assert f"{spec.layer_parameters / 1e6:.1f}" == layer
    assert f"{spec.layers_bytes / 1e9:.3f}" == layers_gb
    assert f"{spec.head_bytes / 1e9:.3f}" == head_gb
    assert f"{spec.layers_gflop_per_token:.2f}" == flop
    assert f"{spec.head_gflop_per_token:.3f}" == head_flop
    assert spec.kv_token_bytes == kv


def test_llama_kv_bytes_follow_the_kv_type():
    spec = load("llama-3.1-8b")
    assert spec.kv_token_bytes == 131_072
    assert spec.replace(kv_dtype="INT8").kv_token_bytes == 65_536
    assert spec.replace(kv_dtype="Q4_0").kv_token_bytes == 36_864


def test_published_count_of_llada_without_norms():
    """8.015 B is layers, embedding and head; the norms add 0.3 M."""
    counts = load("llada-8b").parameters
    assert f"{sum(n for kind, n in counts.items() if kind != 'norm') / 1e9:.3f}" == "8.015"


def test_eagle3_head_of_llama():
    head = resolve_model("eagle3-llama-3.1-8b", load)
    assert head.name == "eagle3-llama-3.1-8b"
    assert f"{head.total_parameters / 1e9:.3f}" == "0.425"
    assert f"{(head.layers_bytes + head.head_bytes) / 1e9:.2f}" == "0.24"
    assert head.kv_token_bytes == 2 * 8 * 128 * 2
    assert head.kv_dtype is DType.FP16
    assert "embed" not in head.parameters


@pytest.mark.parametrize(("name", "billions"), [("qwen3-4b", 0.218), ("qwen3-8b", 0.400), ("qwen3-14b", 0.610)])
def test_eagle3_heads_of_qwen_follow_the_same_rule(name, billions):
    target = load(name)
    h, q, kv, f = target.hidden, target.q_width, target.kv_width, target.ffn
    head = derive_eagle3(target)
    matrices = 3 * h * h + 2 * h * (q + 2 * kv) + q * h + 3 * h * f + h * 32_000
    assert head.total_parameters == matrices + 4 * h
    assert head.total_parameters / 1e9 == pytest.approx(billions, abs=5e-4)


def test_palm_like_models_have_the_size_in_their_name():
    assert f"{load('palm-8b').total_parameters / 1e9:.2f}" == "8.63"  # 8.63 B: arXiv 2204.02311, Table 1
    assert 30e9 < load("palm-30b").total_parameters < 36e9
