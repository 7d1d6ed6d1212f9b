"""llada.cpp: look-ahead windows on the NPU, revision on the CPU, and a runtime that swaps little.

The techniques of arXiv 2606.13740, each with a switch:

* **multi-block speculative decoding**: the window slides (`sliding`) and, when few masks are left in the current block,
  looks ahead into future blocks (`lookahead`), whose drafts never enter the prefix cache and are judged afresh;
* **dual-path progressive revision** (`revision`): tokens become visible early and stay revisable until stable; the NPU
  computes the dense window, the CPU revises visible tokens left of it at the same time and renews their cache rows,
  which are merged when both are done; projection and confidence skip stable rows (`logits=unstable`). The CPU's
  refreshing replaces the pass over all rows per block and the pass that writes a block;
* **swap-optimised runtime** (``job.mapping``): a resident set chosen from the graph, and two staging slots that a host
  thread fills ahead of the NPU.

The revision shares the CPU's cores with the projection and DRAM with the NPU; nothing is assumed about who wins.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from archsim.registry import schedule
from archsim.schedules.llada.decoding import TARGET, Diffusion, Logits
from archsim.schedules.llada.lookahead import LatencyTable
from archsim.schedules.schedule import knob
from archsim.workload.denoise import Denoise, Rules, Window
from archsim.workload.plan import Pass, Placement
from archsim.workload.residency import Resident

if TYPE_CHECKING:
    from archsim.engine.sim import Handle, Sim
    from archsim.workload.job import Job

REVISION = "revision"


@schedule("llada")
@dataclass(frozen=True)
class Llada(Diffusion):
    """Diffusion decoding with look-ahead windows, CPU revision and a swap-aware runtime."""

    logits: Logits = knob("unstable", "rows that go through the output projection")
    sliding: bool = knob(True, "whether the window starts at the first unresolved position")
    lookahead: bool = knob(True, "whether the window is extended when few masks are left")
    revision: bool = knob(True, "stages and CPU revision instead of refresh and write passes")
    visible: float = knob(0.7, "confidence at which a token becomes visible (public prototype)", 0.0, 1.0)
    stable: float = knob(
        0.9, "confidence at which a token is stable (public prototype); without revision tokens commit at it", 0.0, 1.0
    )
    trigger: int = knob(8, "look-ahead starts below this many masks (public prototype: 4; its benchmark: 8)", 0, 4096)
    ahead: int = knob(32, "most positions of look-ahead (public prototype)", 0, 4096)
    ahead_bytes: int = knob(
        64_000_000, "assumed: budget for keys and values of drafted rows, the reserve of the window", 0, 1 << 40
    )
    revise: int = knob(1, "visible tokens revised on the CPU per step (public prototype)", 0, 4096)
    draft_weight: float = knob(0.25, "assumed: a draft counts as this fraction of a mask for its neighbours", 0.0, 1.0)
    revise_on: Literal["cpu", "pim"] = knob("cpu", "where revision runs: the CPU, or banks that hold the weights too")
    carry: bool = knob(
        True, "whether rows that just committed join the next window, which writes their final keys and values"
    )

    def placements(self) -> Mapping[str, Placement]:
        """Dense path on the NPU, projection on the CPU, revision on the CPU or in memory."""
        where = tuple(dict.fromkeys((self.revise_on, "cpu")))
        return {TARGET: Placement(), REVISION: Placement(layers_on=where, head_on=where, shares=TARGET)}

    def residency(self) -> Resident:
        """A resident set, the remainder swapped through staging slots ahead of the NPU."""
        return Resident()

    def draft_len(self) -> int:
        """Rows of look-ahead beside the request's own (their keys and values need room)."""
        return self.ahead if self.lookahead else 0

    def rules(self) -> Rules:
        """Stages with revision; else tokens commit at the stable threshold and are final."""
        visible = self.visible if self.revision else self.stable
        return Rules(
            self.block,
            "threshold",
            visible,
            self.stable,
            staged=self.revision,
            sliding=self.sliding,
            draft_weight=self.draft_weight,
            carry=self.carry and (self.revision or self.sliding),
        )

    def profile(self, sim: Sim, job: Job) -> LatencyTable:
        """Latency of the dense path by rows, at half the cache of the longest request."""
        return LatencyTable(sim, job, TARGET, job.longest() // 2)

    def decode(self, sim: Sim, job: Job, state: Denoise, profile: LatencyTable) -> Generator[Any, Any, None]:
        """Prefill, then steps until every position has a token."""
        yield self.prefill(job)
        block = -1
        while not state.finished:
            if not self.revision and state.block != block:
                block, first = state.block, state.block_first
                yield from self._refresh(job, state)
                if not state.finished and state.block != block:
                    continue
            window = self._window(job, state, profile)
            revised = state.revisable(window, self.revise if self.revision else 0)
            step = self.step(job, state, window)
            yield step[-1] if not len(revised) else sim.all_of(step[-1], self._revise(job, window, len(revised)))
            state.revise(revised)
            self.commit(job, state, window, step, stale=True)
            if len(revised):
                yield job.copy_kv(TARGET, len(revised))
            if not self.revision and not self.sliding and (state.finished or state.block != block):
                yield self.write_block(job, state, first)[-1]

    def _refresh(self, job: Job, state: Denoise) -> Generator[Any, Any, None]:
        """Renew all rows; the pass is the block's first step."""
        window = Window(state.front if self.sliding else state.block_first, state.block_stop, 0)
        step = self.refresh(job, projected=state.scored(window) if self.logits == "unstable" else window.rows)
        yield step[-1]
        self.commit(job, state, window, step, stale=False, whole=True)

    def _window(self, job: Job, state: Denoise, table: LatencyTable) -> Window:
        """Rows of the next pass; look-ahead within bucket, limit and budget when few masks are left."""
        window = state.window()
        if not self.lookahead or state.masks >= self.trigger:
            return window
        most = min(self.ahead, self.ahead_bytes // job.models[TARGET].kv_token_bytes, state.tokens - window.stop)
        return state.window(table.extra(window.rows, most)) if most > 0 else window

    def _revise(self, job: Job, window: Window, rows: int) -> Handle:
        """The revision's pass over visible rows left of the window."""
        job.note("revise", rows)
        kv = job.prompt + window.first - rows
        return job.emit_passes([Pass(REVISION, "denoise", rows, kv, projected=rows)], label="revision.denoise")
