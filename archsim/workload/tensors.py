"""Weight matrices, vectors and storage types of a model."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer

from archsim.device import DType

#: Classes of matrices that can have a storage type of their own.
TENSOR_CLASSES: tuple[str, ...] = ("fc", "attn_qkv", "attn_out", "ffn_up", "ffn_down", "embed", "head")
ACTIVATION_DTYPES = frozenset({DType.FP32, DType.FP16, DType.BF16, DType.INT8})
KV_DTYPES = ACTIVATION_DTYPES | {DType.Q8_0, DType.Q4_0}


def _to_dtype(value: Any) -> DType:
    """Accept a :class:`DType` or its name."""
    if isinstance(value, DType):
        return value
    if isinstance(value, str) and value in DType.__members__:
        return DType[value]
    raise ValueError(f"unknown storage type {value!r}; known: {', '.join(DType.__members__)}")


#: Bounds keep every derived size inside 63 bits and a graph inside memory, whatever file a shape came from.
Size = Annotated[int, Field(gt=0, le=1 << 24)]
Layers = Annotated[int, Field(gt=0, le=4096)]
TypeName = Annotated[DType, BeforeValidator(_to_dtype), PlainSerializer(lambda dtype: dtype.name, return_type=str)]


class Matrix(NamedTuple):
    """A weight matrix: ``n`` rows of ``k`` elements, stored row by row; ``y[n] = W x[k]``."""

    name: str
    tensor_class: str
    k: int
    n: int

    @property
    def elements(self) -> int:
        """Number of weights."""
        return self.k * self.n


class Vector(NamedTuple):
    """A norm or a bias: acts on rows of ``width`` elements and holds ``parameters`` FP32 values."""

    name: str
    width: int
    parameters: int


class Quant(BaseModel):
    """Storage type by tensor class; a class left out has ``default``. ``ffn_up`` covers the gate too."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    default: TypeName
    fc: TypeName | None = None
    attn_qkv: TypeName | None = None
    attn_out: TypeName | None = None
    ffn_up: TypeName | None = None
    ffn_down: TypeName | None = None
    embed: TypeName | None = None
    head: TypeName | None = None
