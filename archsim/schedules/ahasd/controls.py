"""What decides whether the draft side goes on ahead of verification, and what it does when it does not.

The drafting control (EDC) and the pre-verification control (TVC) are hardware of the machine's control device: their
tables, cycles and energy come from there, and every decision and update is a row on it. The oracles know the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from archsim.workload.plan import Pass

if TYPE_CHECKING:
    from archsim.engine.sim import Handle, Sim
    from archsim.schedules.ahasd.asynchronous import Batch, Pair
    from archsim.schedules.schedule import Steps
    from archsim.workload.job import Job

Mode = Literal["off", "table", "oracle"]


class Controls:
    """No control: always draft ahead."""

    def look_ahead(self, pair: Pair) -> Steps:
        """Whether to draft behind the newest unverified batch (a generator's return value)."""
        return True
        yield

    def instead(self, pair: Pair) -> Steps:
        """What the draft side does when it is not to draft ahead: wait for feedback."""
        yield pair.feedback

    def drafted(self, pair: Pair, batch: Batch) -> None:
        """A batch has been drafted."""

    def verified(self, full: Sequence[bool], survivors: bool) -> None:
        """Outcomes of the oldest unverified batches, and whether later ones outlive a rejected one."""

    def dropped(self, count: int) -> None:
        """The newest `count` unverified batches were thrown away."""

    def pass_begins(self, pair: Pair) -> None:
        """The target starts a pass over the batches in flight."""

    def pass_ends(self, pair: Pair) -> None:
        """The target's pass has ended."""


class TableControls(Controls):
    """Drafting control by entropy history, pre-verification control by measured times.

    Parameters
    ----------
    sim, job
        Where rows are emitted.
    edc, tvc : str
        ``off``, ``table`` or ``oracle``, each.
    drafting_goes_on : bool
        Whether a pre-verification shorter than one token means drafting ahead after all (as published), or waiting.
    """

    def __init__(self, sim: Sim, job: Job, *, edc: Mode, tvc: Mode, drafting_goes_on: bool) -> None:
        self.sim, self.job = sim, job
        self.edc_mode, self.tvc_mode, self.drafting_goes_on = edc, tvc, drafting_goes_on
        self.device: Any = job.system.devices["control"]
        self.edc = self.device.new_edc()
        self.tvc = self.device.new_tvc()
        self._costs: dict[str, Any] = {}
        self._preset = False
        self._began_ps = self._kv = 0
        self._checked = 0

    def _row(self, action: str) -> Handle:
        if action not in self._costs:
            self._costs[action] = self.device.cost(action)
        return self.job.control(action, self._costs[action], on="control")

    # -- drafting control -----------------------------------------------------------------------------------

    def look_ahead(self, pair: Pair) -> Steps:
        """Ask the pattern table, or the text itself; notes the answer."""
        if self.edc_mode == "off":
            return True
        yield self._row("edc_predict")
        goes = self.edc.predict()
        if self.edc_mode == "oracle":
            goes = pair.missed is None
        self.job.note("edc", int(goes), int(pair.missed is None))
        return goes

    def drafted(self, pair: Pair, batch: Batch) -> None:
        """Enter the batch's entropy, and its time per token."""
        self.edc.drafted(round(1000 * batch.entropy))
        self.tvc.pdct.record(self.sim.now - batch.begun_ps, batch.length)

    def verified(self, full: Sequence[bool], survivors: bool) -> None:
        """Train with the outcomes."""
        self.edc.verified(full, survivors)
        if self.edc_mode != "off" and full:
            self._row("edc_update")

    def dropped(self, count: int) -> None:
        """Forget batches that stood on refuted text, unless the verdict has done so."""
        self.edc.roll_back(min(count, len(self.edc.unverified)))

    # -- pre-verification control ---------------------------------------------------------------------------

    def pass_begins(self, pair: Pair) -> None:
        """Start the register of the running verification."""
        self._began_ps, self._kv = self.sim.now, self.job.cached
        self._checked = self.job.position

    def pass_ends(self, pair: Pair) -> None:
        """Enter the verification's time."""
        self.tvc.nvct.record(self.sim.now - self._began_ps, max(1, self._kv))
        if self.tvc_mode != "off":
            self._row("tvc_update")

    def instead(self, pair: Pair) -> Steps:
        """Pre-verify what is in flight as long as there is time for it, else wait for feedback.

        Only the batches that the target is verifying can be checked: those behind them need keys and values that it
        has not produced yet. A miss found here lets the draft side go on from the correction at once.
        """
        if self.tvc_mode == "off" or not pair.flight:
            yield pair.feedback
            return
        yield self._row("tvc_decide")
        length = self._length(pair)
        if length < 1:
            if self.drafting_goes_on:
                yield from pair.batch()
            else:
                yield pair.feedback
            return
        yield from self._preverify(pair, length)

    def _length(self, pair: Pair) -> int:
        """Tokens to pre-verify now."""
        if not pair.flight:
            return 0
        if not self._preset:
            self._preset = True
            verify, draft, check = (self.job.estimate([one]) for one in self._samples())
            self.tvc.preset(verify, max(1, self._kv), draft, check)
        unchecked = pair.flight[-1].end - self._checked
        length = self.tvc.length(self.sim.now - self._began_ps, max(1, self._kv), unchecked)
        if self.tvc_mode == "oracle":
            good = pair.text.hits(self._checked, unchecked)
            return good + 1 if good < min(unchecked, length) else 0
        return length

    def _samples(self) -> list[Pass]:
        """One verification, one drafted token and one pre-verified token: what the tables begin with."""
        kv = self.job.cached
        return [
            Pass("target", "verify", 2, kv),
            Pass("draft", "draft_next", 1, kv, projected=1),
            Pass("preverify", "verify", 1, kv),
        ]

    def _preverify(self, pair: Pair, length: int) -> Steps:
        """Run the target over the next tokens in flight on the draft side's hardware."""
        job, epoch, text, first = self.job, pair.epoch, pair.text, self._checked
        began = self.sim.now
        block = job.emit_passes([Pass("preverify", "verify", length, job.prompt + first - 1)])
        pair.running = [block]
        if pair.token_grain:
            yield self.sim.any_of(block, pair.feedback)
            if pair.epoch != epoch or pair.text is not text:
                self.sim.cut(block)
        yield block
        pair.running = []
        late = pair.text is not text or pair.epoch != epoch or not pair.flight
        good = text.hits(first, length)
        job.note("tvc", length, int(good < length) + 2 * int(late))
        self.sim.mark(block, 0 if late else min(good + 1, length), length)
        if late:
            return
        self.tvc.pvct.record(self.sim.now - began, length)
        self._checked = first + length
        if good < length:
            pair.found_miss(first + good)
            yield from pair.batch()
