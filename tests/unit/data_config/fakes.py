"""A device, a schedule and a model of their own for the configuration tests, and a tree of files that use them."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, model_validator

from archsim import registry
from archsim.config import finding, resolve
from archsim.units import Bytes, BytesPerS, Count, Fraction01, Hz, Mw, Pj, PjPerBit, PositiveInt, Ps, TransfersPerS, Um2

TREE = Path(__file__).parent / "tree"
EAGLE3_PREFIX = "eagle3-"


class Cell(StrEnum):
    TLC = "tlc"
    QLC = "qlc"


class Timing(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    read_ps: Ps
    program_ps: Ps


class DiskSpec(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    read_bytes_per_s: Annotated[BytesPerS, Field(le=1e11)]
    page_bytes: Annotated[Bytes, Field(ge=512)]
    queue: PositiveInt
    cell: Cell
    timing: Timing
    spare: Fraction01 = 0.07
    active_mw: Mw | None = Field(default=None, description="assumed: none stated")
    lanes_hz: tuple[Hz, ...] = ()
    energy: dict[str, Pj] = Field(default_factory=dict)
    cache: bool = False

    @model_validator(mode="after")
    def _queue_fits(self) -> DiskSpec:
        if self.queue > 64 and self.cell is Cell.QLC:
            raise ValueError("a QLC disk queues at most 64 requests")
        return self


class Disk:
    Spec = DiskSpec


class MemorySpec(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    transfer_rate_per_s: TransfersPerS
    size_bytes: Bytes
    io_pj_per_bit: PjPerBit
    area_um2: Um2
    banks: Count


class Memory:
    Spec = MemorySpec


@dataclass(frozen=True)
class Chain:
    roles = ("target", "draft")

    length: int = field(default=8, metadata={"min": 1, "max": 256, "doc": "tokens drafted"})
    margin: float = field(default=0.5, metadata={"min": 0})
    where: Literal["cpu", "npu"] = "npu"
    greedy: bool = True
    wait_ps: Ps = 0
    widths: tuple[int, ...] = (1, 2)


@dataclass(frozen=True)
class Plain:
    steps: int


class ModelSpec(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = ""
    layers: Annotated[int, Field(gt=0)]
    kv_dtype: str = "FP16"


def derive_eagle3(target: ModelSpec) -> ModelSpec:
    if target.layers < 2:
        raise ValueError(f"no head for {target.name}")
    return ModelSpec(name=EAGLE3_PREFIX + target.name, layers=1)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copy of the tree as current folder and only place to look in; the fakes are all that is registered."""
    shutil.copytree(TREE, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ARCHSIM_PATH", raising=False)
    monkeypatch.setattr(finding, "packed_folder", lambda: tmp_path)
    monkeypatch.setattr(resolve, "_MODELS", __name__)
    monkeypatch.setattr(registry, "_items", {})
    monkeypatch.setattr(registry, "_HOMES", {})
    registry.register("device", "disk")(Disk)
    registry.register("device", "memory")(Memory)
    registry.register("schedule", "chain")(Chain)
    registry.register("schedule", "plain")(Plain)
    return tmp_path
