"""The text that is being decoded, as a draft running ahead sees it.

Whether the draft's token at an output position is the target's is decided by the position alone, so every schedule
meets the same text however often it drafts a position. Behind its first miss a draft is off the path: its entropies
go on (by the stream's own process), but nothing it drafts can be accepted.
"""

from __future__ import annotations

from archsim.streams import DecisionStream


class Text:
    """Truth by position for one request.

    Parameters
    ----------
    stream : DecisionStream
        Answers ranks and entropies.
    request, end : int
        Whose text, and the output positions it has.
    """

    def __init__(self, stream: DecisionStream, request: int, end: int) -> None:
        self.stream, self.request, self.end = stream, request, end

    def room(self, position: int, n: int) -> int:
        """How many of `n` tokens can be drafted from `position` on before the text ends."""
        most = min(n, self.end - position)
        return self.stream.draftable(self.request, position, most) if most > 0 else 0

    def hits(self, position: int, n: int) -> int:
        """Leading tokens of `n` drafted from `position` that the target takes."""
        return self.stream.accepted(self.request, position, n) if n > 0 else 0

    def entropy(self, position: int, missed: int | None) -> float:
        """Entropy (nats) of the draft's distribution at `position`; `missed` is where it left the path, if it did."""
        if missed is None:
            return self.stream.position(self.request, position).draft_entropy
        off = (1,) * (position - missed)
        return self.stream.candidates(self.request, missed, off).draft_entropy
