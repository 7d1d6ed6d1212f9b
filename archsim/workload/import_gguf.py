"""Fields of a model description from a GGUF file: architecture metadata and tensor shapes and types.

The tensors decide: what the metadata says must give as many elements in every tensor class as the file holds.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

from archsim.config import InputError
from archsim.device import DType
from archsim.workload.gguf_file import GgufHeader, TensorInfo, read_gguf_header

_DTYPES = {
    "F32": DType.FP32,
    "F16": DType.FP16,
    "BF16": DType.BF16,
    "I8": DType.INT8,
    **{name: DType[name] for name in ("Q4_0", "Q4_1", "Q6_K", "Q8_0", "TQ2_0")},
}
#: Types of equal size per weight, described as the one on the right: 144 B / 256 and 18 B / 32 are 4.5 bits.
_EQUAL_SIZE = {"Q4_K": DType.Q4_0, "IQ4_NL": DType.Q4_0}
_CLASSES = {
    "attn_q": "attn_qkv",
    "attn_k": "attn_qkv",
    "attn_v": "attn_qkv",
    "attn_qkv": "attn_qkv",
    "attn_output": "attn_out",
    "ffn_gate": "ffn_up",
    "ffn_up": "ffn_up",
    "ffn_down": "ffn_down",
    "token_embd": "embed",
    "output": "head",
}
_FAMILIES = ("llama", "qwen2", "qwen3", "phi3", "bitnet", "bitnet-b1.58", "dream", "llada")


class _Tensors:
    """Tensors of a file by class, and how the file differs from a plain description."""

    def __init__(self, file: Path, header: GgufHeader) -> None:
        self.file = file
        self.header = header
        self.classes: dict[str, list[TensorInfo]] = {}
        self.notes: list[str] = []
        for name, info in header.tensors.items():
            self.classes.setdefault(_class_of(name), []).append(info)
        other = sorted(name for name in header.tensors if _class_of(name) == "other")
        if other:
            shown = ", ".join(other[:4]) + (f" and {len(other) - 4} more" if len(other) > 4 else "")
            self.notes.append(f"tensors not described: {shown}")

    def fail(self, text: str) -> InputError:
        """Error that names the file."""
        return InputError(f"{self.file}: {text}")

    def has(self, name: str) -> bool:
        """Whether the first layer (or the file) holds a tensor of that name."""
        return f"blk.0.{name}" in self.header.tensors or name in self.header.tensors

    def count(self, key: str, default: int | None = None) -> int:
        """Metadata value of the architecture: a whole number >= 1."""
        full = f"{self.header.metadata['general.architecture']}.{key}"
        value = self.header.metadata.get(full, default)
        if isinstance(value, tuple):
            if len(set(value)) != 1:
                raise self.fail(f"{full} differs between layers, which is not supported")
            value = value[0]
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise self.fail(f"metadata {full} must be a whole number >= 1, not {value!r}")
        return value

    def storage(self, tensor_class: str) -> str:
        """Storage type of a class: the one most of its bytes have."""
        sizes: Counter[str] = Counter()
        for info in self.classes[tensor_class]:
            sizes[info.type_name] += info.size_bytes
        name = sizes.most_common(1)[0][0]
        if len(sizes) > 1:
            kinds = ", ".join(f"{kind} {size} B" for kind, size in sizes.most_common())
            self.notes.append(f"{tensor_class} mixes storage types ({kinds}); described as {name}")
        if name in _DTYPES:
            return _DTYPES[name].name
        if name in _EQUAL_SIZE:
            self.notes.append(
                f"{tensor_class}: {name} is described as {_EQUAL_SIZE[name].name}, which has the same size"
            )
            return _EQUAL_SIZE[name].name
        known = ", ".join([*_DTYPES, *_EQUAL_SIZE])
        raise self.fail(f"storage type {name} of {tensor_class} is not supported; known: {known}; or give --quant NAME")


def _class_of(name: str) -> str:
    """Tensor class of a GGUF tensor name; ``norm``, ``bias`` or ``other`` where it is no matrix."""
    match = re.fullmatch(r"(?:blk\.\d+\.)?(\w+)\.(weight|bias)", name, re.ASCII)
    if match is None:
        return "other"
    stem, part = match.groups()
    if stem.endswith("norm"):
        return "norm"
    if part == "bias":
        return "bias"
    return _CLASSES.get(stem, "other")


def read_gguf(file: Path, quant: str | None) -> tuple[dict[str, Any], str, list[str]]:
    """Read a GGUF file into the fields of a model description, a source line and notes.

    Raises
    ------
    InputError
        For a malformed file, an unknown architecture or storage type, or tensors that contradict the metadata.
    """
    header = read_gguf_header(file)
    family = header.metadata.get("general.architecture")
    if family not in _FAMILIES:
        raise InputError(f"{file}: unknown architecture {str(family)[:60]!r}; known: {', '.join(_FAMILIES)}")
    tensors = _Tensors(file, header)
    fields = _shapes(tensors, family)
    if quant:
        fields["quant"] = {"default": quant}
    else:
        matrices = [kind for kind in dict.fromkeys(_CLASSES.values()) if kind in tensors.classes]
        storage = {kind: tensors.storage(kind) for kind in matrices}
        storage.setdefault("head", storage["embed"])  # tied: one tensor
        fields["quant"] = _quant(storage)
    name = header.metadata.get("general.name")
    fields["name"] = name if isinstance(name, str) and name else file.stem
    source = (
        f"imported from {file.name} (GGUF version {header.version}, architecture {family}, {file.stat().st_size} bytes)"
    )
    return fields, source, tensors.notes


def _quant(storage: dict[str, str]) -> dict[str, str]:
    """Storage types as fields: the most frequent one as default, the others by class."""
    default = Counter(storage.values()).most_common(1)[0][0]
    return {"default": default, **{kind: name for kind, name in storage.items() if name != default}}


def _shapes(tensors: _Tensors, family: str) -> dict[str, Any]:
    """Shapes from metadata and tensor names, checked against the tensors."""
    count, has = tensors.count, tensors.has
    embedding = tensors.header.tensors.get("token_embd.weight")
    if embedding is None or len(embedding.shape) != 2:
        raise tensors.fail("no two-dimensional tensor token_embd.weight; this is no whole language model")
    if count("expert_count", 1) > 1:
        raise tensors.fail("mixtures of experts are not supported")
    hidden, heads = count("embedding_length"), count("attention.head_count")
    head_dim = count("attention.key_length", max(1, hidden // heads))
    if count("attention.value_length", head_dim) != head_dim:
        raise tensors.fail("keys and values of different width are not supported")
    fields = {
        "layers": count("block_count"),
        "hidden": hidden,
        "heads": heads,
        "kv_heads": count("attention.head_count_kv", heads),
        "head_dim": head_dim,
        "ffn": count("feed_forward_length"),
        "vocab": embedding.shape[1],
        "max_position": count("context_length"),
        "activation": "relu2" if family.startswith("bitnet") else "silu",
        "gated": True,
        "tied_embeddings": not has("output.weight"),
        "causal": family not in ("dream", "llada"),
        "qkv_bias": has("attn_q.bias") or has("attn_qkv.bias"),
        "out_bias": has("attn_output.bias"),
        "ffn_bias": has("ffn_down.bias"),
        "qk_norm": has("attn_q_norm.weight"),
        "sub_norms": has("attn_sub_norm.weight"),
    }
    _compare(tensors, fields)
    return fields


def _compare(tensors: _Tensors, fields: dict[str, Any]) -> None:
    """Refuse a file whose tensors do not have the elements its metadata says."""
    layers, hidden, ffn = fields["layers"], fields["hidden"], fields["ffn"]
    query, key = fields["heads"] * fields["head_dim"], fields["kv_heads"] * fields["head_dim"]
    expected = {
        "attn_qkv": layers * hidden * (query + 2 * key),
        "attn_out": layers * query * hidden,
        "ffn_up": layers * 2 * hidden * ffn,
        "ffn_down": layers * ffn * hidden,
        "embed": fields["vocab"] * hidden,
        **({} if fields["tied_embeddings"] else {"head": fields["vocab"] * hidden}),
    }
    for kind, elements in expected.items():
        held = sum(info.elements for info in tensors.classes.get(kind, []))
        if held != elements:
            raise tensors.fail(f"tensors of class {kind} hold {held} elements, the metadata gives {elements}")
