"""Lever's switches, where it places the models, and the sizes it asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from archsim.config import InputError
from archsim.registry import schedule
from archsim.schedules.lever.decoding import Decoding
from archsim.schedules.schedule import Schedule, Steps, knob, ring_knob
from archsim.workload.plan import Placement

if TYPE_CHECKING:
    from archsim.engine.sim import Sim
    from archsim.workload.job import Job

#: Knobs that a policy has no use for.
UNUSED = {"specinfer": ("max_rows", "max_depth", "max_expansions"), "opt_tree": ("max_depth", "max_expansions")}


@schedule("lever")
@dataclass(frozen=True)
class Lever(Schedule):
    """Flash-resident speculative decoding with token trees grown by expected tokens per cycle time (Lever)."""

    roles: ClassVar[tuple[str, ...]] = ("target", "draft")
    features: ClassVar[tuple[str, ...]] = ("tree",)

    policy: Literal["lever", "specinfer", "opt_tree"] = knob("lever", "who shapes the tree")
    candidates: int = knob(4, "size of the candidate sets; assumed: not published", 1, 8)
    calibrate: Literal["coverage", "ratio", "off"] = knob(
        "ratio", "factor on draft probabilities: share of recent target tokens inside the candidate sets; that share "
        "over the promised one; none. assumed: the form is not published",
    )  # fmt: skip
    max_depth: int = knob(8, "deepest node; assumed: not published", 1, 64)
    max_rows: int = knob(32, "largest tree, root included; assumed: one NPU pass", 2, 256)
    max_expansions: int = knob(11, "nodes expanded per tree, root included; assumed: not published", 1, 256)
    budget: int = knob(0, "rows of every tree, whatever it costs; 0: by gain per cost", 0, 256)
    expansion: tuple[int, ...] = knob(
        (1, 1, 3, 1, 1, 1, 1, 1), "policy specinfer: children of every node by depth; SpecInfer's default", 1, 16
    )
    drafting: Literal["batched", "cpu", "npu"] = knob(
        "batched", "single nodes on the CPU and then batches on the NPU, or single nodes on one of them"
    )
    draft_on: Literal["cpu", "pim"] = knob("cpu", "device of the draft; pim drafts whole batches too")
    cpu_expansions: int = knob(3, "expansions on the CPU before batches; assumed: not published", 1, 256)
    draft_batch: int = knob(4, "most nodes of a draft batch; assumed: not published", 1, 64)
    draft_shapes: tuple[int, ...] = knob((4,), "fixed shapes of the draft's NPU graph; assumed", 1, 256)
    lower_shapes: tuple[int, ...] = knob((16, 32), "fixed shapes below the exit layer; assumed, of table 2", 1, 256)
    upper_shapes: tuple[int, ...] = knob((8, 16, 32), "fixed shapes above the exit layer; assumed", 1, 256)
    pruning: bool = knob(True, "drop rows at the exit layer")
    exit_depth: float = knob(0.5, "exit layer over layers; chosen on 12.2 % of verification (Fig 12)", 0.05, 0.95)
    theta_small: float = knob(0.1, "threshold for trees of up to 16 rows; assumed, near 48 % of rows kept", 0.0, 1.0)
    theta_large: float = knob(0.1, "threshold for larger trees; assumed, near 48 % of rows kept", 0.0, 1.0)
    theta_most: float = knob(
        0.5, "the threshold rises to this while the rows left fit no smaller graph; assumed", 0.0, 1.0
    )
    tau: float = knob(1.0, "temperature of the normalised scores; assumed: not published", 0.01, 100.0)
    shadows: bool = knob(True, "candidates outside the tree count in the normalisation")
    safeguards: bool = knob(True, "ancestors, a backbone and near-root children stay; little trees are not pruned")
    near_root_depth: int = knob(1, "depth to which several children stay; assumed", 0, 64)
    near_root_children: int = knob(3, "children that stay there at most; assumed", 1, 8)
    least_nodes: int = knob(4, "fewer nodes left cancel the pruning; assumed", 1, 256)
    least_leaves: int = knob(2, "fewer leaves left cancel the pruning; assumed", 1, 256)
    ask_table: bool = knob(False, "prune only where the latency table says that the time saved is worth the tokens")
    predictor_gain: float = knob(2.0, "nats a generated predictor adds for the target's token; assumed", 0.0, 50.0)
    predictor_noise: float = knob(1.0, "nats of its scatter; assumed", 0.0, 50.0)
    projection: Literal["cpu_on_demand", "npu_on_demand", "npu_eager"] = knob(
        "cpu_on_demand", "rows of the accepted path on the CPU, the same on the NPU, or all rows on the NPU"
    )
    head_rows: int = knob(
        2, "rows of the graph of projection npu_on_demand, the smallest batched one; chosen on figure 14", 1, 256
    )
    ring: int = ring_knob()
    read_ahead: bool = knob(False, "the reader starts with the drafting instead of the verification")
    leaf_instructions: int = knob(500_000, "bookkeeping of a leaf's temporary sequence; assumed", 0, 10**9)
    node_instructions: int = knob(2_000, "policy and mask, per node; assumed", 0, 10**7)
    merge_instructions: int = knob(2_000_000, "merge of the accepted path; assumed", 0, 10**9)
    prefill_rows: int = knob(
        0, "prompt rows per prefill pass, each of which streams the weights; 0: all in one", 0, 65536
    )
    cold_start: bool = knob(False, "what DRAM holds of both models is read from flash after the first request arrives")
    penalty: float = knob(0.10, "added to the nearest latency for a shape never seen; assumed", 0.0, 10.0)

    def __post_init__(self) -> None:
        for name in UNUSED.get(self.policy, ()):
            if getattr(self, name) != Lever.__dataclass_fields__[name].default:
                raise InputError(f"schedule.{name} means nothing to policy {self.policy}; leave it out")

    def placements(self) -> Mapping[str, Placement]:
        """Layers from flash on the NPU; projection's weights in DRAM unless all rows are projected; draft in DRAM."""
        on = ("cpu",) if self.projection == "cpu_on_demand" else ("npu", "gpu", "cpu")
        head_in: Literal["dram", "flash"] = "flash" if self.projection == "npu_eager" else "dram"
        where = tuple(dict.fromkeys((self.draft_on, "cpu")))
        batch = () if self.drafting == "cpu" or self.draft_on == "pim" else ("npu", "gpu", "cpu")
        return {
            "target": Placement(
                layers_in="flash", head_in=head_in, head_on=on, ring=self.ring, uncached_logits=True
            ),
            "draft": Placement(layers_on=where, head_on=where, batch_on=batch),
        }  # fmt: skip

    def draft_len(self) -> int:
        """Rows of the largest tree."""
        return max(self.budget, self.max_rows, sum_of_levels(self.expansion) * (self.policy == "specinfer"))

    def start(self, sim: Sim, job: Job) -> Mapping[str, Steps]:
        """One process: draft, verify, commit."""
        return {"decode": Decoding(self, sim, job).generate()}


def sum_of_levels(expansion: tuple[int, ...]) -> int:
    """Nodes of a tree of fixed expansion, its root included."""
    level = total = 1
    for width in expansion:
        level *= width
        total += level
    return total
