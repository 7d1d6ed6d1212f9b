"""Plain decoding: resident, streamed from flash, and speculative with a fixed chain.

``resident_ar``
    Autoregressive decoding, all weights in DRAM.
``flash_ar``
    The layers are streamed from flash once per token through a ring of layer buffers; the output projection's
    weights stay in DRAM.
``chain_sd``
    A draft in DRAM proposes a chain of fixed length, the streamed target verifies it in one pass of a fixed shape and
    projects every row on the NPU; the projection's weights are streamed after the layers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from archsim.registry import schedule
from archsim.schedules.lever.execution import padded
from archsim.schedules.schedule import Schedule, Steps, knob, ring_knob
from archsim.workload.plan import Placement

if TYPE_CHECKING:
    from archsim.engine.sim import Sim
    from archsim.workload.job import Job


@schedule("resident_ar")
@dataclass(frozen=True)
class ResidentAr(Schedule):
    """Autoregressive decoding with every weight in DRAM."""

    def placements(self) -> Mapping[str, Placement]:
        """Target in DRAM, layers on the NPU, projection on the CPU."""
        return {"target": Placement()}

    def start(self, sim: Sim, job: Job) -> Mapping[str, Steps]:
        """One process: prefill, then one pass per token."""
        return {"decode": self.generate(sim, job)}

    def generate(self, sim: Sim, job: Job) -> Steps:
        """Decode all requests, one after the other."""
        for request in job.requests():
            yield from job.arrived()
            yield job.emit("target", "prefill")
            job.commit()
            while not job.finished:
                step = job.emit("target", "decode")
                yield step
                job.commit(step=step)
            job.end(request)


def streamed_whole(ring: int) -> Placement:
    """A model streamed from flash with its projection, all rows projected on the NPU and read back uncached."""
    return Placement(layers_in="flash", head_in="flash", head_on=("npu", "gpu", "cpu"), ring=ring, uncached_logits=True)


@schedule("flash_ar")
@dataclass(frozen=True)
class FlashAr(ResidentAr):
    """Autoregressive decoding of a target whose layers live in flash."""

    ring: int = ring_knob()

    def placements(self) -> Mapping[str, Placement]:
        """Layers from flash through the ring; projection's weights in DRAM, computed on the CPU."""
        return {"target": Placement(layers_in="flash", ring=self.ring)}


@schedule("chain_sd")
@dataclass(frozen=True)
class ChainSd(Schedule):
    """Speculative decoding with a chain of fixed length and one verification per cycle."""

    roles: ClassVar[tuple[str, ...]] = ("target", "draft")
    features: ClassVar[tuple[str, ...]] = ("chain",)

    length: int = knob(8, "tokens drafted per verification", 1, 256)
    shapes: tuple[int, ...] = knob((16, 32), "fixed shapes of the verification's graph, as Lever's; assumed", 1, 512)
    ring: int = ring_knob()
    draft_on: Literal["cpu", "pim", "npu", "gpu"] = knob(
        "cpu", "device that drafts; its projection goes to the CPU where it runs none"
    )

    def placements(self) -> Mapping[str, Placement]:
        """Target streamed with its projection, all rows projected on the NPU; draft in DRAM."""
        return {
            "target": streamed_whole(self.ring),
            "draft": Placement(layers_on=(self.draft_on,), head_on=tuple(dict.fromkeys((self.draft_on, "cpu")))),
        }

    def draft_len(self) -> int:
        """Tokens drafted per verification."""
        return self.length

    def start(self, sim: Sim, job: Job) -> Mapping[str, Steps]:
        """One process: draft, verify, commit."""
        return {"decode": self.generate(sim, job)}

    def generate(self, sim: Sim, job: Job) -> Steps:
        """Decode all requests, one after the other."""
        for request in job.requests():
            yield from job.arrived()
            prefilled = job.emit("target", "prefill")
            last = job.emit("draft", "prefill", after=prefilled)
            yield last
            job.commit()
            while not job.finished:
                drafted = job.draftable(self.length)
                if drafted:
                    last = job.emit("draft", "draft", steps=drafted, after=last)
                step = job.emit("target", "verify", rows=padded(drafted + 1, sorted(self.shapes)), after=last)
                yield step
                job.commit(accepted=job.accepted(drafted), drafted=drafted, step=step, drafts=last)
            job.end(request)
