"""Field types for pydantic models: what a dimensional field takes, and what a bare number may be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, Field, ValidationInfo

from archsim.units.text import (
    BITS,
    BYTES,
    BYTES_PER_S,
    HZ,
    J_PER_K,
    KELVIN,
    KELVIN_PER_W,
    MA,
    MW,
    OPS_PER_S,
    PJ,
    PJ_PER_BIT,
    PJ_PER_BYTE,
    PJ_PER_OP,
    PS,
    SECONDS,
    TOKENS_PER_S,
    TRANSFERS_PER_S,
    UM2,
    UM2_PER_BIT,
    VOLTS,
    Quantity,
    number,
    parse,
)

#: Validation context under which dimensional fields take plain numbers in their own unit.
NUMBERS = {"archsim": "numbers"}
Model = TypeVar("Model", bound=BaseModel)


def from_numbers(spec: type[Model], values: Mapping[str, Any]) -> Model:
    """Build `spec` from plain numbers in its fields' units, as resolved data and manifests hold them."""
    return spec.model_validate(dict(values), context=NUMBERS)


def _reader(want: Quantity) -> BeforeValidator:
    def read(value: Any, info: ValidationInfo) -> int | float:
        return number(value, want) if info.context == NUMBERS else parse(value, want)

    return BeforeValidator(read)


Bytes = Annotated[int, _reader(BYTES), BYTES]
Bits = Annotated[int, _reader(BITS), BITS]
BytesPerS = Annotated[float, _reader(BYTES_PER_S), BYTES_PER_S]
TransfersPerS = Annotated[float, _reader(TRANSFERS_PER_S), TRANSFERS_PER_S]
TokensPerS = Annotated[float, _reader(TOKENS_PER_S), TOKENS_PER_S]
OpsPerS = Annotated[float, _reader(OPS_PER_S), OPS_PER_S]
Hz = Annotated[float, _reader(HZ), HZ]
Ps = Annotated[int, _reader(PS), PS]
Seconds = Annotated[float, _reader(SECONDS), SECONDS]
Pj = Annotated[float, _reader(PJ), PJ]
PjPerBit = Annotated[float, _reader(PJ_PER_BIT), PJ_PER_BIT]
PjPerByte = Annotated[float, _reader(PJ_PER_BYTE), PJ_PER_BYTE]
PjPerOp = Annotated[float, _reader(PJ_PER_OP), PJ_PER_OP]
Mw = Annotated[float, _reader(MW), MW]
Um2 = Annotated[float, _reader(UM2), UM2]
Um2PerBit = Annotated[float, _reader(UM2_PER_BIT), UM2_PER_BIT]
Volts = Annotated[float, _reader(VOLTS), VOLTS]
Ma = Annotated[float, _reader(MA), MA]
Kelvin = Annotated[float, _reader(KELVIN), KELVIN]
KelvinPerW = Annotated[float, _reader(KELVIN_PER_W), KELVIN_PER_W]
JPerK = Annotated[float, _reader(J_PER_K), J_PER_K]

# Bare numbers: these carry no unit in their text.
Fraction01 = Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]
Factor = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]
PositiveFactor = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]
#: Largest bare count: more of anything is no hardware, and products of two counts stay inside 62 bits.
COUNT_MAX = (1 << 31) - 1
#: Longest latency in cycles of any clock: about a second.
CYCLES_MAX = 10**9
Count = Annotated[int, Field(strict=True, ge=0, le=COUNT_MAX)]
PositiveInt = Annotated[int, Field(strict=True, ge=1, le=COUNT_MAX)]
Cycles = Annotated[int, Field(strict=True, ge=0, le=CYCLES_MAX)]
