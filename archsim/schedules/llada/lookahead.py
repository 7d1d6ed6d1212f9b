"""How far a window looks ahead: an offline-profiled latency table of the NPU, its buckets, and a memory budget.

A matrix unit computes in tiles of rows, so the latency of a pass over its rows is a staircase. A window that does not
fill its step of the stairs is extended to the end of it; one that does goes to the end of the next (arXiv 2606.13740,
as described by third parties: tokens are added until the next latency bucket or the memory budget would be crossed).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from archsim.workload.plan import Pass, Planner

if TYPE_CHECKING:
    from archsim.engine.sim import Sim
    from archsim.workload.job import Job

#: Growth of latency from one row count to the next that counts as a step of the stairs. Costs that grow with each row
#: (activations in and out, softmax) stay below; one more row of tiles is above for windows of a few tiles.
STEP = 0.03


@dataclass
class LatencyTable:
    """Latency of one layer by the rows of a pass, measured when first asked and kept.

    The profile is taken apart from the run: nothing of it appears in the trace.
    """

    sim: Sim
    job: Job
    role: str
    kv: int
    _planner: Planner = field(init=False)
    _latency_ps: dict[int, int] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._planner = Planner(self.job.system, self.job.models, self.job.placements, {})

    def latency_ps(self, rows: int) -> int:
        """Uncontended time of one layer with `rows` rows against the profiled cache length."""
        if rows not in self._latency_ps:
            layer = Pass(self.role, "denoise", rows, self.kv, projected=0, first=1, last=2)
            if self.job.models[self.role].layers == 1:
                layer = Pass(self.role, "denoise", rows, self.kv, projected=0)
            self._latency_ps[rows] = self.sim.estimate(self._planner.block(layer))
        return self._latency_ps[rows]

    def bucket_end(self, rows: int, most: int) -> int:
        """Last row count of the bucket that `rows` is in, `most` at most."""
        while rows < most and self.latency_ps(rows + 1) <= (1.0 + STEP) * self.latency_ps(rows):
            rows += 1
        return rows

    def extra(self, rows: int, most: int) -> int:
        """Rows to add to a window of `rows`, `most` at most."""
        limit = rows + most
        end = self.bucket_end(rows, limit)
        if end == rows and end < limit:
            end = self.bucket_end(rows + 1, limit)
        return end - rows
