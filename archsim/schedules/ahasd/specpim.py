"""Speculative decoding on a GPU with processing in memory, after SpecPIM (ASPLOS 2024).

The published design searches architectures and mappings; what a verification does here is one of three stated rules.
Drafting is the memory's, taking turns with verification; there are no vector units in the memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

from archsim.registry import schedule
from archsim.schedules.ahasd.schedule import DRAFT_ON, Speculative
from archsim.schedules.schedule import knob
from archsim.workload.plan import COLUMN_SHARES, Pass, Placement

if TYPE_CHECKING:
    from archsim.workload.job import Job

#: Cached rows within which an estimate stands: weights dominate both sides' times.
ESTIMATED_KV = 64
#: Steps in which the columns are shared out: a thirty-second is finer than a die's part of a product.
SHARE_STEP = COLUMN_SHARES // 32


@dataclass(frozen=True)
class _Times:
    """Estimated times (ps) of a verification by rows and cached rows, on the host and in the memory."""

    known: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)

    def of(self, job: Job, rows: int) -> tuple[int, int]:
        """Both times alone on the machine, each estimated once."""
        key = (rows, job.cached // ESTIMATED_KV)
        if key not in self.known:
            host, memory = (job.estimate(job.passes(role, "verify", rows=rows)) for role in ("target", "beside"))
            self.known[key] = host, memory
        return self.known[key]


@schedule("specpim")
@dataclass(frozen=True)
class SpecPim(Speculative):
    """Draft on PIM and verify on the GPU, on PIM, or on both at once, taking turns.

    ``host``: the GPU verifies. ``best``: each pass runs where it is estimated to end first. ``split``: every product's
    columns are shared so that both sides would end together, by their estimated times of the whole pass; shares lie in
    ranks of their own, vector operators and attention are the GPU's.
    """

    draft_on: ClassVar[tuple[str, ...]] = DRAFT_ON
    target_on: ClassVar[tuple[str, ...]] = ("gpu", "npu", "cpu")

    verify: Literal["host", "best", "split"] = knob(
        "best", "where a verification runs: host, the faster of host and memory, or both"
    )
    times: _Times = field(default_factory=_Times, init=False, repr=False, compare=False)

    def placements(self) -> Mapping[str, Placement]:
        """Draft and target as ever; the memory beside the host computes with the target's own weights."""
        places = dict(super().placements())
        if self.verify != "host":
            places["beside"] = Placement(layers_on=DRAFT_ON, head_on=DRAFT_ON, shares="target")
        if self.verify == "split":
            places["target"] = Placement(layers_on=self.target_on, head_on=self.target_on, beside=DRAFT_ON)
        return places

    def verification(self, job: Job, rows: int) -> list[Pass]:
        """Pass of the target over `rows` rows, by the rule."""
        if self.verify == "host":
            return job.passes("target", "verify", rows=rows)
        host, memory = self.times.of(job, rows)
        if self.verify == "best":
            return job.passes("target" if host <= memory else "beside", "verify", rows=rows)
        share = round(COLUMN_SHARES * host / (host + memory) / SHARE_STEP) * SHARE_STEP
        return [Pass("target", "verify", rows, job.cached, beside=share, spilled=job.spilled)]
