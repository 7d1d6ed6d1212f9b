"""What decides whether the draft side goes on ahead of verification, and what it does when it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from archsim.schedules.ahasd.asynchronous import Batch, Pair
    from archsim.schedules.schedule import Steps


class Controls:
    """No control: always draft ahead."""

    def look_ahead(self, pair: Pair, newest: Batch) -> Steps:
        """Whether to draft behind `newest`, the newest unverified batch (a generator's return value)."""
        return True
        yield

    def instead(self, pair: Pair) -> Steps:
        """What the draft side does when it is not to draft ahead: wait for feedback."""
        yield pair.feedback

    def drafted(self, batch: Batch, now_ps: int) -> None:
        """A batch has been pushed."""

    def verified(self, batch: Batch, full: bool) -> None:
        """A batch's outcome is known: whether all of it was accepted."""

    def verdict(self, full: bool) -> None:
        """A target pass has been judged: whether all it verified was accepted."""

    def pass_begins(self, now_ps: int, kv: int) -> None:
        """The target starts a pass over `kv` cached rows."""

    def pass_ends(self, now_ps: int, kv: int) -> None:
        """The target's pass has ended."""
