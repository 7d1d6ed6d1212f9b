"""Drafting and verifying as two processes that meet through queues.

The draft side drafts batch after batch, up to `depth` unverified ones; the target side takes the batches that wait (all
of them, or one) as one pass. Feedback is read between batches (or between tokens): what was drafted on a refuted text
is thrown away then, and is counted. Positions are output positions of the request; ``head`` is the next one to draft.

A target pass over n drafted tokens yields one token more, its own (the bonus). If the look-ahead's first token is that
token, the look-ahead lives and its first token counts as confirmed; else it is flushed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from archsim.schedules.ahasd.text import Text
from archsim.workload.plan import Pass

if TYPE_CHECKING:
    from archsim.engine.sim import Handle, Sim
    from archsim.schedules.ahasd.controls import Controls
    from archsim.schedules.ahasd.drafters import Drafter
    from archsim.schedules.schedule import Steps
    from archsim.workload.job import Job

#: The schedule's own store of unverified batches, where the machine has no queue hardware.
DRAFTS = "queue.drafts"


@dataclass(eq=False)
class Batch:
    """Drafted tokens that wait for the target.

    Attributes
    ----------
    first, length : int
        Output position of the first token, and how many there are.
    entropy : float
        Mean entropy of the draft's distributions, nats.
    begun_ps : int
        When drafting it began.
    blocks : list of Handle
        The draft passes.
    ready : Handle
        The hand-over to the target's side.
    settled : int
        Leading tokens that a bonus has confirmed already (0 or 1).
    """

    first: int
    length: int
    entropy: float
    begun_ps: int
    blocks: list[Handle] = field(default_factory=list)
    ready: Handle | None = None
    settled: int = 0

    @property
    def end(self) -> int:
        """Output position behind the last token."""
        return self.first + self.length


class Pair:
    """A draft and its target on one request after the other.

    Parameters
    ----------
    sim, job
        Where rows are emitted and tokens committed.
    drafter : Drafter
        Says how long batches are.
    controls : Controls
        Says whether to draft ahead, and what to do instead.
    depth : int
        Unverified batches the draft side may have; 1 makes both sides take turns.
    take_all : bool
        Whether a target pass takes all waiting batches, or one.
    token_grain : bool
        Whether the draft side reads feedback behind every token instead of behind every batch.
    hand_over : int
        Instructions of the host that pass a batch, or a verdict, from one side to the other.
    queue_store : str
        Store whose level is the number of waiting batches.
    """

    def __init__(
        self,
        sim: Sim,
        job: Job,
        drafter: Drafter,
        controls: Controls,
        *,
        depth: int,
        take_all: bool,
        token_grain: bool,
        hand_over: int,
        queue_store: str,
    ) -> None:
        self.sim, self.job, self.drafter, self.controls = sim, job, drafter, controls
        self.depth, self.take_all, self.token_grain, self.hand_over = depth, take_all, token_grain, hand_over
        self.queue_store = queue_store
        self.begun, self.pushed = sim.signal("request begun"), sim.signal("batch pushed")
        self.feedback, self.rested = sim.signal("feedback"), sim.signal("draft side at rest")
        self.text: Text | None = None
        self.queue: list[Batch] = []
        self.flight: list[Batch] = []
        self.drafting: Batch | None = None
        self.running: list[Handle] = []
        self._done_early: list[Batch] = []
        self.resting = True
        self.head = self.kept = self.epoch = self.waiting = 0
        self.missed: int | None = None
        self.corrected: int | None = None
        self.over = False

    # -- target side ----------------------------------------------------------------------------------------

    def verify(self) -> Steps:
        """Process of the target: prefill, then pass after pass, for all requests."""
        job = self.job
        for request in job.requests():
            yield from job.arrived()
            prefilled = job.emit("target", "prefill")
            yield job.emit("draft", "prefill", after=prefilled)
            job.commit()
            self._open(request)
            while not job.finished:
                yield from self._pass()
            yield from self._close()
            job.end(request)
        self.over = True
        self.begun.fire()

    def _open(self, request: int) -> None:
        job = self.job
        self.text = Text(job.stream, request, job.limit)
        self.head, self.kept, self.missed, self.corrected = job.position, job.position - 1, None, None
        self.begun.fire()

    def _close(self) -> Steps:
        """Stop the draft side: what it still holds is pending and will not be verified."""
        held = [*self.queue, *([self.drafting] if self.drafting else [])]
        self.text = None
        for block in self.running:
            self.sim.cut(block)
        self._empty_queue()
        self.feedback.fire()
        while not self.resting:
            yield self.rested
        self.job.note("pending", sum(batch.length - batch.settled for batch in held))

    def _pass(self) -> Steps:
        """One pass of the target over what waits, and its verdict."""
        job, text = self.job, self.text
        while not self.queue and text.room(job.position, 1):
            yield self.pushed
        taken = self.queue[:] if self.take_all else self.queue[:1]
        self.flight, self.queue = taken, self.queue[len(taken) :]
        self._queue_level(-len(taken))
        drafted = taken[-1].end - job.position if taken else 0
        step = job.emit("target", "verify", rows=drafted + 1, after=[b.ready for b in taken if b.ready])
        self.controls.pass_begins(self)
        yield step
        self.controls.pass_ends(self)
        yield job.control("feedback", self.hand_over)
        self._verdict(step, taken, drafted)

    def _verdict(self, step: Handle, taken: list[Batch], drafted: int) -> None:
        """Commit what the target took, tell the draft side, and throw away what stood on refuted text."""
        job, text = self.job, self.text
        began = job.position
        accepted = text.hits(began, drafted)
        right = began + accepted  # position of the target's own token
        job.commit(accepted=accepted, drafted=drafted, step=step, newly_drafted=0)
        self.flight = []
        if accepted < drafted:
            alive = self.corrected == right + 1
        else:
            alive = self.head > right and text.hits(right, 1) == 1
            if alive:
                self._confirm(right)
        self.corrected = None
        self._judge(taken, right, survivors=alive)
        if self._done_early:
            self._judge(self._done_early, right + 1)
            self._done_early = []
        if not alive:
            self._restart(right + 1, right)
        self.feedback.fire()

    def _judge(self, batches: list[Batch], right: int, survivors: bool = True) -> None:
        """Outcome of the oldest batches, whose accepted tokens end before `right`; whether later ones live on."""
        for batch in batches:
            accepted = max(0, min(right, batch.end) - batch.first)
            for block in batch.blocks:
                self.sim.mark(block, accepted, batch.length)
            reached = batch.first <= right
            if reached:
                self.job.note("batch", accepted, batch.length)
            self.drafter.learn(accepted, batch.length, accepted + int(reached), self.sim.now - batch.begun_ps)
        self.controls.verified([batch.end <= right for batch in batches], survivors)

    def _confirm(self, right: int) -> None:
        """The look-ahead's first token is the target's own: it is settled and leaves the next window."""
        self.job.note("confirm", 1)
        batch = self.queue[0] if self.queue else self.drafting
        batch.settled = 1
        if self.queue and batch.end == right + 1:
            self.queue.pop(0)
            self._queue_level(-1)
            self._done_early.append(batch)

    def _restart(self, position: int, known: int) -> None:
        """Draft anew from `position`; the draft's rows up to `known` (exclusive) are right."""
        self.epoch += 1
        for batch in self.queue:
            self._flush(batch)
        self.controls.dropped(len(self.queue))
        self._empty_queue()
        self.head, self.missed = position, None
        self.kept = min(self.kept, known)

    def _flush(self, batch: Batch) -> None:
        self.job.note("flush", batch.length - batch.settled)
        for block in batch.blocks:
            self.sim.mark(block, 0, batch.length)

    def _empty_queue(self) -> None:
        self._queue_level(-len(self.queue))
        self.queue = []

    def _queue_level(self, change: int) -> None:
        if change:
            self.sim.add(self.queue_store, change)
            self.waiting += change
            self.job.note("queue", self.waiting)

    # -- draft side -----------------------------------------------------------------------------------------

    def draft(self) -> Steps:
        """Process of the draft: batch after batch while there is text to draft and room in the queue."""
        while not self.over:
            if self.text is None:
                self.resting = True
                self.rested.fire()
                yield self.begun
                self.resting = False
            elif not (self._unverified() < self.depth and self.text.room(self.head, 1)):
                yield self.feedback
            else:
                yield from self._next()

    def _unverified(self) -> int:
        return len(self.queue) + len(self.flight)

    def _next(self) -> Steps:
        """Draft one batch, unless the controls would rather do something else."""
        if self._unverified():
            epoch = self.epoch
            goes = yield from self.controls.look_ahead(self)
            if self.epoch != epoch or self.text is None:
                return
            if not goes:
                yield from self.controls.instead(self)
                return
        yield from self.batch()

    def batch(self) -> Steps:
        """Draft one batch and push it, or throw it away if its text was refuted meanwhile."""
        text, epoch, head = self.text, self.epoch, self.head
        met: list[float] = []

        def entropy(i: int) -> float:
            while len(met) <= i:
                met.append(self._meet(text, head + len(met)))
            return met[i]

        length = self.drafter.plan(entropy, text.room(head, self.job.draft_len))
        mean = sum(entropy(i) for i in range(length)) / length
        batch = self.drafting = Batch(head, length, mean, self.sim.now)
        fresh = head - self.kept
        passes = [Pass("draft", "draft", fresh, self.job.prompt + self.kept, projected=1)]
        one = Pass("draft", "draft_next", 1, projected=1)
        passes += [one.at(self.job.prompt + head + i) for i in range(length - 1)]
        self.head, self.kept = head + length, head + length - 1
        yield from self._run(batch, passes, epoch)
        self.drafting = None
        self.job.note("draft", batch.length)
        if self.text is not text:
            return
        if self.epoch != epoch:
            self._flush(batch)
            return
        self.controls.drafted(self, batch)
        if batch.end <= self.job.position:
            self._judge([batch], self.job.position)
        else:
            batch.ready = self.job.control("hand_over", self.hand_over)
            self.queue.append(batch)
            self._queue_level(1)
            self.pushed.fire()

    def _meet(self, text: Text, position: int) -> float:
        """Entropy at a position; notes where the draft leaves the path."""
        entropy = text.entropy(position, self.missed)
        if self.missed is None and not text.hits(position, 1):
            self.missed = position
        return entropy

    def _run(self, batch: Batch, passes: list[Pass], epoch: int) -> Steps:
        """Run a batch's passes: as one block, or token by token so that a refuted batch ends with its present token."""
        for part in [[one] for one in passes] if self.token_grain else [passes]:
            self.running = [self.job.emit_passes(part)]
            batch.blocks += self.running
            yield self.running[0]
            if self.epoch != epoch or self.text is None:
                batch.length = len(batch.blocks) if self.token_grain else batch.length
                break
        self.running = []

    # -- pre-verification -----------------------------------------------------------------------------------

    def found_miss(self, position: int) -> None:
        """The draft side knows, before the target, that the token at `position` is wrong: draft from behind it."""
        self._restart(position + 1, position)
        self.corrected = position + 1
