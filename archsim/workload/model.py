"""What a language model is: shapes, storage types, and the sizes that follow from them.

A :class:`ModelSpec` lists the matrices of one decoder stack. Everything else (parameters, bytes, work per
token, KV bytes) is derived from that one list, which the operator graphs use too, so the sizes a report
prints and the sizes a simulation moves are the same numbers.

Not modelled: mixtures of experts, sliding windows, rotary scaling (they change no size of the models here),
and more than one storage type inside a tensor class.

Conventions: a multiply-accumulate is two operations; ``GB`` is 1e9 bytes; norm weights and biases are FP32
(as ggml stores them) and are counted apart from the layer weights.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from archsim.config import InputError
from archsim.device import BLOCK, DType, dtype_bytes
from archsim.workload.tensors import (
    ACTIVATION_DTYPES,
    KV_DTYPES,
    TENSOR_CLASSES,
    Layers,
    Matrix,
    Quant,
    Size,
    TypeName,
    Vector,
)

EAGLE3_PREFIX = "eagle3-"
EAGLE3_DRAFT_VOCAB = 32_000
FP32_BYTES = 4


class ModelSpec(BaseModel):
    """A decoder-only transformer, or a drafting head derived from one.

    ``attn_input_mult``, ``fc_inputs``, ``draft_vocab`` and ``shared_embedding`` describe EAGLE3 heads: the
    attention reads ``attn_input_mult * hidden`` values (token embedding beside the hidden state), ``fc``
    maps ``fc_inputs * hidden`` values of the target to ``hidden``, the projection has ``draft_vocab`` rows
    and the embedding table is the target's (not counted here).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = ""
    layers: Layers
    hidden: Size
    heads: Size
    kv_heads: Size
    head_dim: Size
    ffn: Size
    vocab: Size
    max_position: Size
    activation: Literal["silu", "gelu", "relu", "relu2"]
    gated: bool
    tied_embeddings: bool
    norm: Literal["rms", "layer", "layer_no_bias"] = "rms"
    position: Literal["rope", "learned"] = "rope"
    position_offset: int = Field(default=0, ge=0, description="rows a learned table holds before position 0")
    causal: bool = True
    qkv_bias: bool = False
    out_bias: bool = False
    ffn_bias: bool = False
    qk_norm: bool = Field(default=False, description="RMSNorm over each query and key head")
    sub_norms: bool = Field(default=False, description="norms before the attention output and FFN down matrices")
    parallel_block: bool = Field(default=False, description="attention and FFN read one norm, one residual add")
    quant: Quant
    activation_dtype: TypeName = DType.FP16
    kv_dtype: TypeName = DType.FP16
    attn_input_mult: Literal[1, 2] = 1
    fc_inputs: int = Field(default=0, ge=0, le=64)
    draft_vocab: int = Field(default=0, ge=0, le=1 << 24)
    shared_embedding: bool = False

    @model_validator(mode="after")
    def _check(self) -> ModelSpec:
        if self.heads % self.kv_heads:
            raise ValueError(f"heads ({self.heads}) must be a multiple of kv_heads ({self.kv_heads})")
        if self.activation_dtype not in ACTIVATION_DTYPES:
            raise ValueError(f"activation_dtype {self.activation_dtype.name} is not one of {_names(ACTIVATION_DTYPES)}")
        if self.kv_dtype not in KV_DTYPES:
            raise ValueError(f"kv_dtype {self.kv_dtype.name} is not one of {_names(KV_DTYPES)}")
        if self.tied_embeddings and self.quant.embed and self.quant.head and self.quant.embed != self.quant.head:
            raise ValueError("tied embeddings are one tensor: quant.embed and quant.head must be equal")
        if self.tied_embeddings and (self.draft_vocab or self.shared_embedding):
            raise ValueError("draft_vocab and shared_embedding need tied_embeddings: false")
        if self.draft_vocab > self.vocab:
            raise ValueError(f"draft_vocab ({self.draft_vocab}) is larger than vocab ({self.vocab})")
        if self.position_offset and self.position != "learned":
            raise ValueError("position_offset needs position: learned")
        for matrix in (*self.matrices, self.embed_matrix, self.head_matrix):
            self._check_blocks(matrix.name, self.dtype_of(matrix.tensor_class), matrix.k)
        self._check_blocks("kv cache", self.kv_dtype, self.head_dim)
        return self

    @staticmethod
    def _check_blocks(what: str, dtype: DType, row: int) -> None:
        block = BLOCK[dtype][1]
        if row % block:
            raise ValueError(f"{what}: rows of {row} elements are not whole {dtype.name} blocks of {block}")

    def dtype_of(self, tensor_class: str) -> DType:
        """Storage type of a tensor class (norms and biases are FP32 and have none)."""
        if self.tied_embeddings and tensor_class in ("embed", "head"):
            return self.quant.head or self.quant.embed or self.quant.default
        return getattr(self.quant, tensor_class) or self.quant.default

    @property
    def q_width(self) -> int:
        """Elements of one query row."""
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        """Elements of one key (or value) row."""
        return self.kv_heads * self.head_dim

    @property
    def logits(self) -> int:
        """Rows of the output projection."""
        return self.draft_vocab or self.vocab

    @property
    def layer_matrices(self) -> tuple[Matrix, ...]:
        """Matrices of one layer, in the order they run."""
        attn_in = self.attn_input_mult * self.hidden
        up = [Matrix("ffn.gate", "ffn_up", self.hidden, self.ffn)] if self.gated else []
        return (
            Matrix("attn.q", "attn_qkv", attn_in, self.q_width),
            Matrix("attn.k", "attn_qkv", attn_in, self.kv_width),
            Matrix("attn.v", "attn_qkv", attn_in, self.kv_width),
            Matrix("attn.o", "attn_out", self.q_width, self.hidden),
            *up,
            Matrix("ffn.up", "ffn_up", self.hidden, self.ffn),
            Matrix("ffn.down", "ffn_down", self.ffn, self.hidden),
        )

    @property
    def matrices(self) -> tuple[Matrix, ...]:
        """Matrices outside embedding and projection: ``fc`` (if any) and those of one layer."""
        fc = Matrix("fc", "fc", self.fc_inputs * self.hidden, self.hidden)
        return (fc, *self.layer_matrices) if self.fc_inputs else self.layer_matrices

    @property
    def embed_matrix(self) -> Matrix:
        """Embedding table: one row of ``hidden`` elements per token."""
        return Matrix("embed.token", "embed", self.hidden, self.vocab)

    @property
    def position_matrix(self) -> Matrix | None:
        """Learned position table, or None for rotary positions."""
        if self.position == "rope":
            return None
        return Matrix("embed.position", "embed", self.hidden, self.max_position + self.position_offset)

    @property
    def head_matrix(self) -> Matrix:
        """Output projection (the embedding table itself when tied)."""
        return Matrix("head.projection", "head", self.hidden, self.logits)

    def norm_vector(self, name: str, width: int) -> Vector:
        """Describe a norm over rows of `width` elements (a layer norm with bias holds two values each)."""
        return Vector(name, width, 2 * width if self.norm == "layer" else width)

    @property
    def layer_norms(self) -> tuple[Vector, ...]:
        """Norms of one layer."""
        names = [("attn.norm_embed", self.hidden)] if self.attn_input_mult == 2 else []
        names.append(("attn.norm", self.hidden))
        if self.sub_norms:
            names += [("attn.sub_norm", self.q_width), ("ffn.sub_norm", self.ffn)]
        if not self.parallel_block:
            names.append(("ffn.norm", self.hidden))
        norms = [self.norm_vector(name, width) for name, width in names]
        if self.qk_norm:
            norms.append(Vector("attn.qk_norm", self.q_width + self.kv_width, 2 * self.head_dim))
        return tuple(norms)

    @property
    def layer_biases(self) -> tuple[Vector, ...]:
        """Biases of one layer."""
        up = self.ffn * (2 if self.gated else 1)
        found = [
            (self.qkv_bias, "attn.qkv_bias", self.q_width + 2 * self.kv_width),
            (self.out_bias, "attn.o_bias", self.hidden),
            (self.ffn_bias, "ffn.up_bias", up),
            (self.ffn_bias, "ffn.down_bias", self.hidden),
        ]
        return tuple(Vector(name, width, width) for there, name, width in found if there)

    def matrix_bytes(self, matrix: Matrix) -> int:
        """Bytes of a matrix: its rows in whole blocks of its storage type."""
        return matrix.n * dtype_bytes(self.dtype_of(matrix.tensor_class), matrix.k)

    def _stored(self) -> list[tuple[str, Matrix, int]]:
        """(class, matrix, copies) of every matrix this model stores; a tied projection is no copy."""
        fc = [] if not self.fc_inputs else [("fc", self.matrices[0], 1)]
        stored = fc + [(matrix.tensor_class, matrix, self.layers) for matrix in self.layer_matrices]
        if not self.shared_embedding:
            stored.append(("embed", self.embed_matrix, 1))
        if self.position_matrix is not None:
            stored.append(("position", self.position_matrix, 1))
        if not self.tied_embeddings:
            stored.append(("head", self.head_matrix, 1))
        return stored

    @property
    def parameters(self) -> dict[str, int]:
        """Exact parameter count by class, ``norm`` and ``bias`` among them. A tied projection counts as ``embed``."""
        counts: dict[str, int] = {}
        for kind, matrix, copies in self._stored():
            counts[kind] = counts.get(kind, 0) + copies * matrix.elements
        final = self.norm_vector("head.norm", self.hidden).parameters
        counts["norm"] = final + self.layers * sum(norm.parameters for norm in self.layer_norms)
        counts["bias"] = self.layers * sum(bias.parameters for bias in self.layer_biases)
        return counts

    @property
    def weight_bytes(self) -> dict[str, int]:
        """Stored bytes by class, same keys as :attr:`parameters`."""
        sizes: dict[str, int] = {}
        for kind, matrix, copies in self._stored():
            sizes[kind] = sizes.get(kind, 0) + copies * self.matrix_bytes(matrix)
        sizes["norm"] = FP32_BYTES * self.parameters["norm"]
        sizes["bias"] = FP32_BYTES * self.parameters["bias"]
        return sizes

    @property
    def total_parameters(self) -> int:
        """All parameters stored by this model."""
        return sum(self.parameters.values())

    @property
    def total_bytes(self) -> int:
        """All bytes stored by this model."""
        return sum(self.weight_bytes.values())

    @property
    def layer_parameters(self) -> int:
        """Weights in the matrices of one layer."""
        return sum(matrix.elements for matrix in self.layer_matrices)

    @property
    def layers_parameters(self) -> int:
        """Weights in the matrices of all layers (and ``fc``)."""
        return self.layers * self.layer_parameters + self.parameters.get("fc", 0)

    @property
    def layer_bytes(self) -> int:
        """Bytes of the matrices of one layer."""
        return sum(self.matrix_bytes(matrix) for matrix in self.layer_matrices)

    @property
    def layers_bytes(self) -> int:
        """Bytes of the matrices of all layers (and ``fc``)."""
        return self.layers * self.layer_bytes + self.weight_bytes.get("fc", 0)

    @property
    def head_parameters(self) -> int:
        """Weights of the output projection, tied or not."""
        return self.head_matrix.elements

    @property
    def head_bytes(self) -> int:
        """Bytes the output projection reads, tied or not."""
        return self.matrix_bytes(self.head_matrix)

    @property
    def layers_gflop_per_token(self) -> float:
        """Work of one token in the matrices of the layers, in 1e9 operations; attention is not included."""
        return 2e-9 * self.layers_parameters

    @property
    def head_gflop_per_token(self) -> float:
        """Work of one projected row, in 1e9 operations."""
        return 2e-9 * self.head_parameters

    @property
    def kv_row_bytes(self) -> int:
        """Bytes of one token's key and value in one layer."""
        return 2 * dtype_bytes(self.kv_dtype, self.kv_width)

    @property
    def kv_token_bytes(self) -> int:
        """Bytes of one token's keys and values in all layers."""
        return self.layers * self.kv_row_bytes

    @property
    def digest(self) -> str:
        """sha256 of everything but the name."""
        return _digest(self)

    def replace(self, **changes: Any) -> ModelSpec:
        """Copy with some fields changed, checked like a new one."""
        return ModelSpec(**{**self.model_dump(), **changes})


@lru_cache(maxsize=256)
def _digest(spec: ModelSpec) -> str:
    text = json.dumps(spec.model_dump(mode="json", exclude={"name"}), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _names(dtypes: frozenset[DType]) -> str:
    return ", ".join(dtype.name for dtype in sorted(dtypes))


def derive_eagle3(target: ModelSpec) -> ModelSpec:
    """Derive the EAGLE3 drafting head of a target by rule.

    One decoder layer of the target's width whose attention input is twice as wide, ``fc`` from three hidden
    states to one, a projection of at most 32,000 rows, the target's own embedding, FP16 keys and values, and
    the target's default storage type.

    Parameters
    ----------
    target : ModelSpec
        A causal model that is no drafting head itself.

    Raises
    ------
    InputError
        When the target is bidirectional or a drafting head.
    """
    if not target.causal:
        raise InputError(f"no EAGLE3 head for {target.name or 'this model'}: its attention is bidirectional")
    if target.fc_inputs:
        raise InputError(f"no EAGLE3 head for {target.name or 'this model'}: it is a drafting head itself")
    return ModelSpec(
        name=EAGLE3_PREFIX + target.name,
        layers=1,
        hidden=target.hidden,
        heads=target.heads,
        kv_heads=target.kv_heads,
        head_dim=target.head_dim,
        ffn=target.ffn,
        vocab=target.vocab,
        max_position=target.max_position,
        activation="silu",
        gated=True,
        tied_embeddings=False,
        quant=Quant(default=target.quant.default, embed=target.dtype_of("embed")),
        activation_dtype=target.activation_dtype,
        kv_dtype=DType.FP16,
        attn_input_mult=2,
        fc_inputs=3,
        draft_vocab=min(EAGLE3_DRAFT_VOCAB, target.vocab),
        shared_embedding=True,
    )


def resolve_model(name: str, load: Callable[[str], ModelSpec]) -> ModelSpec:
    """Find a model by name: a stored one through `load`, or ``eagle3-<target>`` derived from its target."""
    if name.startswith(EAGLE3_PREFIX):
        return derive_eagle3(resolve_model(name.removeprefix(EAGLE3_PREFIX), load))
    spec = load(name)
    return spec if spec.name else spec.replace(name=name)


def summary(spec: ModelSpec) -> dict[str, Any]:
    """Sizes of a model for printing; a key ends in its unit where the value has one."""
    classes = {f"{kind}_parameters": count for kind, count in spec.parameters.items()}
    sizes = {f"{kind}_bytes": size for kind, size in spec.weight_bytes.items()}
    used = [kind for kind in TENSOR_CLASSES if kind in spec.parameters or kind in ("embed", "head")]
    return {
        "name": spec.name,
        "layers": spec.layers,
        **classes,
        "total_parameters": spec.total_parameters,
        **sizes,
        "total_bytes": spec.total_bytes,
        "layer_bytes": spec.layer_bytes,
        "layers_bytes": spec.layers_bytes,
        "projection_parameters": spec.head_parameters,
        "projection_bytes": spec.head_bytes,
        "layers_gflop_per_token": spec.layers_gflop_per_token,
        "projection_gflop_per_token": spec.head_gflop_per_token,
        "kv_bytes_per_token": spec.kv_token_bytes,
        "storage": {kind: spec.dtype_of(kind).name for kind in used},
        "activation_dtype": spec.activation_dtype.name,
        "kv_dtype": spec.kv_dtype.name,
        "digest": spec.digest,
    }
