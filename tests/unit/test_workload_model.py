"""ModelSpec: storage types, sizes of rare fields, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from archsim.config.reading import read
from archsim.device import DType
from archsim.workload.model import ModelSpec, Quant, derive_eagle3, resolve_model, summary

MODELS = Path(__file__).resolve().parents[2] / "arch_configs" / "models"
TINY = {
    "name": "tiny",
    "layers": 2,
    "hidden": 64,
    "heads": 4,
    "kv_heads": 2,
    "head_dim": 32,
    "ffn": 96,
    "vocab": 100,
    "max_position": 128,
    "activation": "silu",
    "gated": True,
    "tied_embeddings": False,
    "quant": {"default": "Q4_0"},
}


def tiny(**changes) -> ModelSpec:
    return ModelSpec(**{**TINY, **changes})


def test_sizes_of_a_model_small_enough_to_count_by_hand():
    spec = tiny()
    # q 64x128, k and v 64x64, o 128x64, gate and up 64x96, down 96x64
    assert spec.layer_parameters == 8192 + 2 * 4096 + 8192 + 3 * 6144
    assert spec.layer_bytes == spec.layer_parameters * 18 // 32
    assert spec.parameters == {
        "attn_qkv": 2 * 16384,
        "attn_out": 2 * 8192,
        "ffn_up": 2 * 12288,
        "ffn_down": 2 * 6144,
        "embed": 6400,
        "head": 6400,
        "norm": 2 * 128 + 64,
        "bias": 0,
    }
    assert spec.weight_bytes["norm"] == 4 * 320
    assert spec.kv_token_bytes == 2 * 2 * 64 * 2


def test_storage_by_class():
    spec = tiny(quant={"default": "Q4_0", "ffn_down": "Q8_0", "embed": "FP16", "attn_qkv": "INT8"})
    assert spec.matrix_bytes(spec.layer_matrices[-1]) == 6144 // 32 * 34
    assert spec.weight_bytes["attn_qkv"] == 2 * 16384
    assert spec.weight_bytes["embed"] == 12800
    assert spec.dtype_of("head") is DType.Q4_0


def test_biases_and_norms():
    spec = tiny(qkv_bias=True, out_bias=True, ffn_bias=True, norm="layer", qk_norm=True, sub_norms=True)
    assert spec.parameters["bias"] == 2 * (128 + 128 + 64 + 2 * 96 + 64)
    assert spec.parameters["norm"] == 2 * (2 * (64 + 64 + 128 + 96) + 2 * 32) + 2 * 64


def test_parallel_block_has_one_norm():
    assert tiny(parallel_block=True).parameters["norm"] == 2 * 64 + 64


def test_learned_positions_are_counted():
    spec = tiny(position="learned", position_offset=2)
    assert spec.parameters["position"] == 130 * 64
    assert spec.total_parameters == tiny().total_parameters + 130 * 64


def test_tied_embeddings_are_stored_once_but_projected():
    spec = tiny(tied_embeddings=True, quant={"default": "Q4_0", "head": "Q8_0"})
    assert "head" not in spec.parameters
    assert spec.head_bytes == spec.weight_bytes["embed"] == 6400 // 32 * 34
    assert spec.dtype_of("embed") is DType.Q8_0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kv_heads": 3}, "heads (4) must be a multiple of kv_heads (3)"),
        ({"quant": {"default": "Q6_K"}}, "attn.q: rows of 64 elements are not whole Q6_K blocks of 256"),
        ({"head_dim": 16, "kv_dtype": "Q4_0"}, "kv cache: rows of 16 elements are not whole Q4_0 blocks of 32"),
        ({"kv_dtype": "Q6_K"}, "kv_dtype Q6_K is not one of FP32, FP16, BF16, INT8, Q4_0, Q8_0"),
        ({"activation_dtype": "Q4_0"}, "activation_dtype Q4_0 is not one of FP32, FP16, BF16, INT8"),
        ({"quant": {"default": "Q5_K"}}, "unknown storage type 'Q5_K'"),
        ({"quant": {"default": 5}}, "unknown storage type 5"),
        ({"draft_vocab": 200}, "draft_vocab (200) is larger than vocab (100)"),
        ({"tied_embeddings": True, "draft_vocab": 10}, "draft_vocab and shared_embedding need tied_embeddings: false"),
        (
            {"tied_embeddings": True, "quant": {"default": "Q4_0", "head": "Q8_0", "embed": "FP16"}},
            "tied embeddings are one tensor: quant.embed and quant.head must be equal",
        ),
        ({"position_offset": 2}, "position_offset needs position: learned"),
        ({"layers": 0}, "greater than 0"),
        ({"layers": 10**9}, "less than or equal to 4096"),
        ({"windows": 1}, "Extra inputs are not permitted"),
        ({"activation": "swish"}, "'silu', 'gelu', 'relu' or 'relu2'"),
    ],
)
def test_refusals(changes, message):
    with pytest.raises(ValidationError) as caught:
        tiny(**changes)
    assert message in str(caught.value)


def test_frozen_and_hashable():
    spec = tiny()
    with pytest.raises(ValidationError):
        spec.layers = 3
    assert hash(spec) == hash(tiny())
    assert spec == tiny()


def test_digest_ignores_the_name_and_nothing_else():
    spec = tiny()
    assert tiny(name="other").digest == spec.digest
    changed = [
        tiny(layers=3),
        tiny(causal=False),
        tiny(kv_dtype="INT8"),
        tiny(quant={"default": "Q4_0", "head": "Q8_0"}),
    ]
    assert len({spec.digest, *(other.digest for other in changed)}) == 5


def test_replace_checks_and_recomputes():
    spec = tiny()
    assert spec.layers_bytes * 2 == spec.replace(layers=4).layers_bytes
    with pytest.raises(ValidationError):
        spec.replace(kv_heads=3)


def test_dump_loads_back():
    spec = tiny(quant={"default": "Q4_0", "head": "Q8_0"}, qkv_bias=True)
    assert ModelSpec(**json.loads(spec.model_dump_json())) == spec
    assert ModelSpec(**spec.model_dump(mode="json", exclude_defaults=True)) == spec


def test_eagle3_refuses_bidirectional_targets_and_heads():
    with pytest.raises(Exception, match="no EAGLE3 head for tiny: its attention is bidirectional"):
        derive_eagle3(tiny(causal=False))
    with pytest.raises(Exception, match="no EAGLE3 head for eagle3-tiny: it is a drafting head itself"):
        derive_eagle3(derive_eagle3(tiny()))


def test_eagle3_storage_follows_the_target():
    head = derive_eagle3(tiny(quant={"default": "Q8_0", "embed": "FP16"}, kv_dtype="INT8", activation_dtype="INT8"))
    assert head.quant == Quant(default=DType.Q8_0, embed=DType.FP16)
    assert head.kv_dtype is DType.FP16
    assert head.draft_vocab == 100  # never more than the target has


def test_resolve_model_names_and_derives():
    asked = []

    def load(name):
        asked.append(name)
        return tiny(name="")

    assert resolve_model("small", load).name == "small"
    assert resolve_model("eagle3-small", load).name == "eagle3-small"
    assert asked == ["small", "small"]


def test_summary_has_units_and_adds_up():
    spec = tiny(quant={"default": "Q4_0", "head": "Q8_0"})
    facts = summary(spec)
    assert (
        sum(v for k, v in facts.items() if k.endswith("_bytes") and k[:-6] in spec.weight_bytes) == facts["total_bytes"]
    )
    assert facts["attn_qkv_parameters"] == 32768
    assert facts["kv_bytes_per_token"] == 512
    assert facts["storage"]["head"] == "Q8_0"
    assert json.loads(json.dumps(facts)) == facts


@pytest.mark.parametrize("path", sorted(MODELS.glob("*.yaml")), ids=lambda path: path.stem)
def test_model_files(path):
    data = read(path).data
    assert data["kind"] == "model"
    assert data["name"] == path.stem
    assert len(data["source"]) > 20
    spec = ModelSpec(**data["spec"])
    if spec.causal:
        assert derive_eagle3(spec).layers == 1
