"""What a schedule is: a frozen set of knobs and a generator that emits blocks and waits."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from archsim.engine.sim import Sim
    from archsim.workload.job import Job
    from archsim.workload.plan import Placement

Steps = Generator[Any, Any, Any]


@dataclass(frozen=True)
class Schedule:
    """A decoding policy.

    Subclasses are frozen dataclasses; their fields are the knobs of ``schedule.<field>`` (``metadata`` may hold
    ``min``, ``max`` and ``doc``). They name the model roles they need and say where each role's parts run.
    """

    #: Model roles the schedule needs.
    roles: ClassVar[tuple[str, ...]] = ("target",)

    #: Whether the models decode left to right (else they denoise, with bidirectional attention).
    causal: ClassVar[bool] = True
    #: Kinds of stream data the schedule can decode by (one of them is enough).
    features: ClassVar[tuple[str, ...]] = ("chain", "tree", "steps")

    def placements(self) -> Mapping[str, Placement]:
        """Where the parts of each role's model live and run."""
        raise TypeError(f"schedule {type(self).__name__} places no models")

    def draft_len(self) -> int:
        """Largest number of tokens drafted per verification (0: none); sizes the KV store."""
        return 0

    def stores(self) -> list[dict[str, Any]]:
        """Stores of the schedule's own (queues): ``name``, ``capacity``, ``unit``, ``level`` at the start."""
        return []

    def start(self, sim: Sim, job: Job) -> Mapping[str, Steps]:
        """Processes of the run, by name; they are registered in this order."""
        raise TypeError(f"schedule {type(self).__name__} starts nothing")
