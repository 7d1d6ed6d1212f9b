"""SpecInfer: trees of a fixed expansion; verification streams and projects all rows, as the plain baselines do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from archsim.registry import schedule
from archsim.schedules.lever.schedule import Lever
from archsim.schedules.schedule import knob


@schedule("specinfer")
@dataclass(frozen=True)
class SpecInfer(Lever):
    """Speculative decoding with token trees of fixed expansion (SpecInfer)."""

    policy: Literal["lever", "specinfer", "opt_tree"] = knob("specinfer", "who shapes the tree")
    drafting: Literal["batched", "cpu", "npu"] = knob("cpu", "single nodes on the CPU")
    pruning: bool = knob(False, "drop rows at the exit layer")
    projection: Literal["cpu_on_demand", "npu_on_demand", "npu_eager"] = knob("npu_eager", "all rows on the NPU")
