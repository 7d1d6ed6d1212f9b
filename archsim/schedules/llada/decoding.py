"""What all diffusion schedules share: the passes over a request, from prefill to the last block.

One request is ``[prefill] (block: [refresh] step step ... [write])*``:

* a *step* is one pass over the window, whose confidences commit tokens;
* a *refresh* is a pass over all rows, prompt and masked suffix included, that renews every cached key and value;
* a *write* is a pass over a finished block that leaves its final keys and values in the cache.

Without a cache every step is a pass over all rows.

Prefix reuse across turns (``job.prefix_reuse``): the prefill of a later turn computes the new prompt's rows alone,
which attend to the cached rows of the history; the history's keys and values stay as the turns before left them,
without the new text in their attention. That is the prefix cache's own approximation, one turn longer. A refresh renews
them with all other rows, so schedules that refresh in every block save the history in the prefill alone, and passes
without a cache (``prefix_kv: false``) save nothing.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from archsim.config import InputError
from archsim.schedules.schedule import Schedule, Steps, knob
from archsim.streams.denoise import DenoisingStream, denoising
from archsim.workload.denoise import Denoise, Rules, Window
from archsim.workload.plan import Pass

if TYPE_CHECKING:
    from archsim.engine.sim import Handle, Sim
    from archsim.workload.job import Job

TARGET = "target"

#: Which rows of a pass go through the output projection: every row of every pass; the rows of the window, in steps
#: only; those of them that are not stable.
Logits = Literal["all", "window", "unstable"]


@dataclass(frozen=True)
class Diffusion(Schedule):
    """Block-wise denoising; subclasses say where it runs and by which rules."""

    causal: ClassVar[bool] = False
    features: ClassVar[tuple[str, ...]] = ("denoise", "jacobi")

    block: int = knob(32, "positions per block (32 in Fast-dLLM and in the published times)", 1, 4096)
    logits: Logits = knob("all", "rows that go through the output projection")

    def rules(self) -> Rules:
        """How positions commit."""
        raise TypeError(f"schedule {type(self).__name__} has no rules")

    def start(self, sim: Sim, job: Job) -> Mapping[str, Steps]:
        """One process that decodes all requests, one after the other."""
        return {"decode": self.generate(sim, job)}

    def generate(self, sim: Sim, job: Job) -> Steps:
        """Decode all requests."""
        stream, profile = self._stream(job), self.profile(sim, job)
        for request in job.requests():
            yield from job.arrived()
            state = Denoise(self.rules(), stream, request, job.limit)
            yield from self.decode(sim, job, state, profile)
            job.note("quality", round(1e6 * state.expected_wrong), job.limit)
            job.end(request)

    def profile(self, sim: Sim, job: Job) -> Any:
        """What the schedule profiles offline, once per run, and needs in every request."""
        return None

    def decode(self, sim: Sim, job: Job, state: Denoise, profile: Any) -> Generator[Any, Any, None]:
        """Decode one request."""
        raise TypeError(f"schedule {type(self).__name__} decodes nothing")

    def prefill(self, job: Job) -> Handle:
        """Pass over the prompt."""
        rows = job.prompt - job.kept
        projected = rows if self.logits == "all" else 0
        spilled = job.spilled_at(job.kept)
        return job.emit_passes([Pass(TARGET, "prefill", rows, job.kept, projected=projected, spilled=spilled)])

    def refresh(self, job: Job, projected: int) -> list[Handle]:
        """Pass over all rows of the request."""
        rows = job.prompt + job.limit
        projected = rows if self.logits == "all" else projected
        return [job.emit_passes([Pass(TARGET, "denoise", rows, projected=projected)], label="target.refresh")]

    def write_block(self, job: Job, state: Denoise, first: int) -> list[Handle]:
        """Pass over a finished block, from position `first` to the front, that writes its keys and values."""
        rows = state.front - first
        projected = rows if self.logits == "all" else 0
        state.write()
        return self._dense(job, rows, first, projected, "target.write")

    def step(self, job: Job, state: Denoise, window: Window) -> list[Handle]:
        """Pass over a window whose confidences are wanted."""
        projected = {"all": window.rows, "window": window.stop - window.first, "unstable": state.scored(window)}
        rows = projected[self.logits]
        job.note("window", window.rows, rows)
        job.note("masks", state.masks, state.open(window))
        return self._dense(job, window.rows, window.first - window.carried, rows, "target.denoise")

    def commit(
        self, job: Job, state: Denoise, window: Window, step: list[Handle], *, stale: bool, whole: bool = False
    ) -> None:
        """Take the outcome of a pass into the request's state and mark its blocks."""
        outcome = state.advance(window, stale=stale, whole=whole)
        job.commit(outcome.committed, step=step[0], rows=window.rows)
        for tail in step[1:]:
            job.mark(tail, outcome.committed, window.rows)
        if outcome.drafts:
            job.note("drafts", outcome.drafts)

    def _dense(self, job: Job, rows: int, first: int, projected: int, label: str) -> list[Handle]:
        kv = job.prompt + first
        spilled = job.spilled_at(kv)
        step = job.emit_passes([Pass(TARGET, "denoise", rows, kv, projected=0, spilled=spilled)], label=label)
        if not projected:
            return [step]
        # The tail apart: a pass is planned once for its rows, however many of them are projected.
        layers = job.models[TARGET].layers
        tail = Pass(TARGET, "denoise", projected, projected=projected, first=layers, last=layers)
        return [step, job.emit_passes([tail], after=step, label=label)]

    def _stream(self, job: Job) -> DenoisingStream:
        stream = denoising(job.stream)
        if stream.width not in (0, self.block):
            raise InputError(
                f"stream {stream.name} was recorded in blocks of {stream.width}; set schedule.block={stream.width}"
            )
        return stream
