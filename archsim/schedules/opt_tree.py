"""OPT-Tree: the nodes of largest reach over all depths; verification streams and projects all rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from archsim.registry import schedule
from archsim.schedules.lever.schedule import Lever
from archsim.schedules.schedule import knob


@schedule("opt_tree")
@dataclass(frozen=True)
class OptTree(Lever):
    """Speculative decoding with trees of the largest expected length for their size (OPT-Tree)."""

    policy: Literal["lever", "specinfer", "opt_tree"] = knob("opt_tree", "who shapes the tree")
    drafting: Literal["batched", "cpu", "npu"] = knob("cpu", "single nodes on the CPU")
    pruning: bool = knob(False, "drop rows at the exit layer")
    projection: Literal["cpu_on_demand", "npu_on_demand", "npu_eager"] = knob("npu_eager", "all rows on the NPU")
