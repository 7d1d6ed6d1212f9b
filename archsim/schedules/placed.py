"""Plain decoding on other units than the NPU, for comparisons of power and contention.

``cpu_ar``
    Autoregressive decoding with every weight in DRAM and every operator on the CPU.
``co_run``
    Two decodings at once that share nothing but the memory: the target on the NPU, the draft model on the CPU's
    threads, over and over until the target is done. The draft's tokens go nowhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from archsim.registry import schedule
from archsim.schedules.baselines import ResidentAr
from archsim.schedules.schedule import Steps
from archsim.workload.plan import Placement

if TYPE_CHECKING:
    from archsim.engine.process import Signal
    from archsim.engine.sim import Sim
    from archsim.workload.job import Job


@schedule("cpu_ar")
@dataclass(frozen=True)
class CpuAr(ResidentAr):
    """Autoregressive decoding with every weight in DRAM, all on the CPU."""

    def placements(self) -> Mapping[str, Placement]:
        """Target in DRAM, layers and projection on the CPU."""
        return {"target": Placement(layers_on=("cpu",))}


@schedule("co_run")
@dataclass(frozen=True)
class CoRun(ResidentAr):
    """The target on the NPU beside a second decoding on the CPU."""

    roles: ClassVar[tuple[str, ...]] = ("target", "draft")

    def placements(self) -> Mapping[str, Placement]:
        """Target with its projection on the NPU, draft on the CPU, both in DRAM."""
        return {
            "target": Placement(head_on=("npu", "gpu", "cpu")),
            "draft": Placement(layers_on=("cpu",)),
        }

    def start(self, sim: Sim, job: Job) -> Mapping[str, Steps]:
        """Two processes that do not wait for each other."""
        begun, running = sim.signal("begun"), [True]
        # a signal has no memory: the one that waits for it comes first
        return {"beside": self.beside(job, begun, running), "decode": self.first(sim, job, begun, running)}

    def first(self, sim: Sim, job: Job, begun: Signal, running: list[bool]) -> Steps:
        """Decode all requests of the target; the second decoding may begin with the first prefill."""
        steps = self.generate(sim, job)
        wanted = next(steps)
        begun.fire()
        while True:
            outcome = yield wanted
            try:
                wanted = steps.send(outcome)
            except StopIteration:
                running[0] = False
                return

    def beside(self, job: Job, begun: Signal, running: list[bool]) -> Steps:
        """Decode token after token on the CPU until the target is done."""
        yield begun
        while running[0]:
            yield job.emit("draft", "draft")
