"""Autoregressive decoding as the diffusion systems' counterpart: all weights in DRAM, layers on the NPU or on the CPU.

``resident_ar`` with a choice of where the layers run. How weights come into the NPU's address window is the job's
mapping, as for every schedule.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from archsim.registry import schedule
from archsim.schedules.baselines import ResidentAr
from archsim.schedules.schedule import knob
from archsim.workload.plan import Placement


@schedule("ar_offload")
@dataclass(frozen=True)
class ArOffload(ResidentAr):
    """Autoregressive decoding with the layers on the NPU or on the CPU, projection on the CPU."""

    needs: ClassVar[tuple[str, ...]] = ("npu",)

    layers_on: Literal["npu", "cpu"] = knob("npu", "device of the layers")

    def placements(self) -> Mapping[str, Placement]:
        """Layers where asked, projection on the CPU."""
        return {"target": Placement(layers_on=(self.layers_on,))}
