"""Fields of a model description from a Hugging Face ``config.json``, by ``model_type``.

Sources of the rules: the configuration classes of the public library transformers and, for LLaDA and Dream, of
the model repositories. A family that is not listed is refused, and so is a variant whose shapes differ.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from archsim.config import InputError
from archsim.config.regular import read_regular
from archsim.device import DType

MAX_CONFIG_BYTES = 16_000_000
_ACTIVATIONS = {
    "silu": "silu",
    "swish": "silu",
    "gelu": "gelu",
    "gelu_new": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "relu": "relu",
    "relu2": "relu2",
}
_TORCH_DTYPES = {"float32": DType.FP32, "float16": DType.FP16, "bfloat16": DType.BF16}


_ASSUME = "give --quant NAME (such as Q4_0) to say which storage type to assume"


class _Config:
    """A ``config.json`` with checked access."""

    def __init__(self, file: Path, data: Mapping[str, Any]) -> None:
        self.file = file
        self.data = data
        self.notes: list[str] = []

    def fail(self, text: str) -> InputError:
        return InputError(f"{self.file}: {text}")

    def count(self, key: str, default: int | None = None) -> int:
        """Whole positive number; `default` stands for a key that is absent or null."""
        value = self.data.get(key)
        if value is None and default is not None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise self.fail(f"field {key!r} must be a whole number >= 1, not {_short(value)}")
        return value

    def flag(self, key: str, default: bool) -> bool:
        value = self.data.get(key)
        value = default if value is None else value
        if not isinstance(value, bool):
            raise self.fail(f"field {key!r} must be true or false, not {_short(value)}")
        return value

    def activation(self, key: str) -> str:
        value = self.data.get(key)
        if not isinstance(value, str) or value not in _ACTIVATIONS:
            raise self.fail(f"field {key!r} is {_short(value)}; known: {', '.join(_ACTIVATIONS)}")
        return _ACTIVATIONS[value]

    def head_dim(self, hidden: int, heads: int, key: str = "head_dim") -> int:
        if self.data.get(key) is not None:
            return self.count(key)
        if hidden % heads:
            raise self.fail(f"hidden size {hidden} is no multiple of {heads} heads, and no {key!r} is given")
        return hidden // heads


def _llama_like(config: _Config, **fixed: Any) -> dict[str, Any]:
    """Fields that llama, mistral, qwen, phi3, dream and bitnet configurations share."""
    hidden, heads = config.count("hidden_size"), config.count("num_attention_heads")
    bias = config.flag("attention_bias", False)
    if config.data.get("sliding_window") and config.flag("use_sliding_window", True):
        config.notes.append("sliding-window attention is modelled as full attention")
    return {
        "layers": config.count("num_hidden_layers"),
        "hidden": hidden,
        "heads": heads,
        "kv_heads": config.count("num_key_value_heads", heads),
        "head_dim": config.head_dim(hidden, heads),
        "ffn": config.count("intermediate_size"),
        "vocab": config.count("vocab_size"),
        "max_position": config.count("max_position_embeddings"),
        "activation": config.activation("hidden_act"),
        "gated": True,
        "tied_embeddings": config.flag("tie_word_embeddings", False),
        "qkv_bias": bias,
        "out_bias": bias,
        "ffn_bias": config.flag("mlp_bias", False),
        **fixed,
    }


def _opt(config: _Config) -> dict[str, Any]:
    hidden, heads = config.count("hidden_size"), config.count("num_attention_heads")
    if config.count("word_embed_proj_dim", hidden) != hidden or not config.flag("do_layer_norm_before", True):
        raise config.fail("an OPT model with projected embeddings or norms after the blocks is not supported")
    bias = config.flag("enable_bias", True)
    return {
        "layers": config.count("num_hidden_layers"),
        "hidden": hidden,
        "heads": heads,
        "kv_heads": heads,
        "head_dim": config.head_dim(hidden, heads),
        "ffn": config.count("ffn_dim"),
        "vocab": config.count("vocab_size"),
        "max_position": config.count("max_position_embeddings"),
        "activation": config.activation("activation_function"),
        "gated": False,
        "tied_embeddings": config.flag("tie_word_embeddings", True),
        "norm": "layer",
        "position": "learned",
        "position_offset": 2,
        "qkv_bias": bias,
        "out_bias": bias,
        "ffn_bias": bias,
    }


def _llada(config: _Config) -> dict[str, Any]:
    hidden, heads = config.count("d_model"), config.count("n_heads")
    if config.data.get("block_type") != "llama":
        raise config.fail(f"LLaDA block_type {_short(config.data.get('block_type'))} is not supported; known: llama")
    if config.flag("attention_layer_norm", False) or config.data.get("layer_norm_type") != "rms":
        raise config.fail("a LLaDA model with attention norms, or with norms other than rms, is not supported")
    bias, vocab = config.flag("include_bias", False), config.count("vocab_size")
    return {
        "layers": config.count("n_layers"),
        "hidden": hidden,
        "heads": heads,
        "kv_heads": config.count("n_kv_heads", heads),
        "head_dim": config.head_dim(hidden, heads),
        "ffn": config.count("mlp_hidden_size"),
        "vocab": config.count("embedding_size", vocab),
        "max_position": config.count("max_sequence_length"),
        "activation": config.activation("activation_type"),
        "gated": True,
        "tied_embeddings": config.flag("weight_tying", False),
        "causal": False,
        "qkv_bias": bias or config.flag("include_qkv_bias", False),
        "out_bias": bias,
        "ffn_bias": bias,
    }


_FAMILIES: dict[str, Callable[[_Config], dict[str, Any]]] = {
    "llama": _llama_like,
    "mistral": _llama_like,
    "qwen2": lambda config: _llama_like(config, qkv_bias=True, out_bias=False),
    "qwen3": lambda config: _llama_like(config, qk_norm=True),
    "phi3": _llama_like,
    "opt": _opt,
    "llada": _llada,
    "Dream": lambda config: _llama_like(config, qkv_bias=True, out_bias=False, causal=False),
    "bitnet": lambda config: _llama_like(config, sub_norms=True),
}


def read_config(file: Path, quant: str | None) -> tuple[dict[str, Any], str, list[str]]:
    """Read a configuration into the fields of a model description, a source line and notes.

    Raises
    ------
    InputError
        For a file that is no configuration of a known family, naming the field.
    """
    raw = read_regular(file, MAX_CONFIG_BYTES, "a model configuration or a GGUF file")
    try:
        data = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file}: neither a GGUF file nor JSON: {' '.join(str(error).split())}") from None
    if not isinstance(data, dict):
        raise InputError(f"{file}: a model configuration must be a JSON object, not {type(data).__name__}")
    family = data.get("model_type")
    if not isinstance(family, str) or family not in _FAMILIES:
        raise InputError(f"{file}: unknown model_type {_short(family)}; known: {', '.join(_FAMILIES)}")
    config = _Config(file, data)
    fields = _FAMILIES[family](config)
    fields["quant"] = {"default": quant} if quant else _config_storage(config, family)
    named = data.get("_name_or_path")
    name = named.rsplit("/", 1)[-1] if isinstance(named, str) else ""
    fields["name"] = name or file.resolve().parent.name
    digest = hashlib.sha256(raw).hexdigest()[:16]
    source = f"imported from {file.name} (model_type {family}, sha256 {digest})"
    return fields, source, config.notes


def _config_storage(config: _Config, family: str) -> dict[str, str]:
    """Storage types of the checkpoint a configuration describes."""
    quantised = config.data.get("quantization_config")
    if family == "bitnet":
        config.notes.append("ternary matrices are described as TQ2_0, the embedding as FP16")
        return {"default": DType.TQ2_0.name, "embed": DType.FP16.name, "head": DType.FP16.name}
    if quantised is not None:
        method = quantised.get("quant_method") if isinstance(quantised, dict) else quantised
        raise config.fail(f"the checkpoint is quantised ({_short(method)}); {_ASSUME}")
    dtype = config.data.get("torch_dtype", config.data.get("dtype"))
    if not isinstance(dtype, str) or dtype not in _TORCH_DTYPES:
        raise config.fail(f"torch_dtype is {_short(dtype)} (known: {', '.join(_TORCH_DTYPES)}); {_ASSUME}")
    return {"default": _TORCH_DTYPES[dtype].name}


def _short(value: Any) -> str:
    """A value for an error message: at most 60 characters, on one line."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:57] + "..."
