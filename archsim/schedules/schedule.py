"""What a schedule is: a frozen set of knobs and a generator that emits blocks and waits."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from archsim.engine.sim import Sim
    from archsim.workload.job import Job
    from archsim.workload.plan import Placement
    from archsim.workload.residency import Residency

Steps = Generator[Any, Any, Any]


def knob(default: Any, doc: str, low: float | None = None, high: float | None = None) -> Any:
    """Field of a schedule: its default, what it means, and its bounds (None: none)."""
    bounds = {key: value for key, value in (("min", low), ("max", high)) if value is not None}
    return field(default=default, metadata={**bounds, "doc": doc})


def ring_knob() -> Any:
    """Knob ``ring`` of schedules that stream layers from flash."""
    return knob(
        6, "layer buffers the reader may fill ahead; chosen on the DRAM budgets of arXiv 2605.16786, table 6", 1, 1024
    )


@dataclass(frozen=True)
class Schedule:
    """A decoding policy.

    Subclasses are frozen dataclasses; their fields are the knobs of ``schedule.<field>``, written with :func:`knob`.
    They name the model roles they need and say where each role's parts run.
    """

    #: Model roles the schedule needs.
    roles: ClassVar[tuple[str, ...]] = ("target",)

    #: Whether the models decode left to right (else they denoise, with bidirectional attention).
    causal: ClassVar[bool] = True
    #: Devices, by name, that a machine must have for the schedule's defaults.
    needs: ClassVar[tuple[str, ...]] = ()
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

    def residency(self) -> Residency | None:
        """How buffers are kept in the NPU's address window (None: mapped at first touch); ``job.mapping`` overrules."""
        return None

    def start(self, sim: Sim, job: Job) -> Mapping[str, Steps]:
        """Processes of the run, by name; they are registered in this order."""
        raise TypeError(f"schedule {type(self).__name__} starts nothing")
