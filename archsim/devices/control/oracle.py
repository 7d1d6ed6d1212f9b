"""Plain models of the controls, by full history: what :mod:`.edc` and :mod:`.tvc` must equal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class PlainEdc:
    """Drafting control that keeps every bucket it ever saw and derives the tables from them."""

    hmax_milli: int = 4000
    history: int = 8
    train_flushed: bool = False
    committed: list[int] = field(default_factory=list)
    waiting: list[list[int]] = field(default_factory=list)  # [bucket, index or -1]
    votes: dict[int, list[int]] = field(default_factory=dict)  # index -> +1 / -1 in order

    def state(self) -> list[int]:
        """LEHT, newest first: the last buckets of what is committed and what waits."""
        seen = [0] * self.history + self.committed + [bucket for bucket, _ in self.waiting]
        return seen[::-1][: self.history]

    def counter(self, index: int) -> int:
        """Two-bit counter: the votes in order, saturating, from 2."""
        value = 2
        for vote in self.votes.get(index, []):
            value = sorted((0, value + vote, 3))[1]
        return value

    def drafted(self, entropy_milli: int) -> int:
        """Enter a batch."""
        bucket = 7
        for upper in range(7, 0, -1):
            if entropy_milli * 8 < upper * self.hmax_milli:
                bucket = upper - 1
        self.waiting.append([bucket, -1])
        return bucket

    def predict(self) -> bool:
        """Go on."""
        if not self.waiting:
            return True
        state, half = self.state(), self.history // 2
        index = 64 * (sum(state[half:]) // half) + 8 * (sum(state[:half]) // half) + min(7, len(self.waiting))
        self.waiting[-1][1] = index
        return self.counter(index) in (2, 3)

    def verified(self, outcomes: Sequence[bool]) -> int:
        """Enter a pass."""
        count = len(outcomes)
        lost = next((i for i, good in enumerate(outcomes) if not good), count)
        done, later = self.waiting[:count], self.waiting[count:]
        for i, (bucket, index) in enumerate(done):
            if i < lost:
                self.committed.append(bucket)
            self.votes.setdefault(index, []).append(1 if i < lost else -1)
        self.waiting = later
        if lost == count:
            return 0
        if self.train_flushed:
            for _, index in later:
                self.votes.setdefault(index, []).append(-1)
        self.waiting = []
        return len(later)


@dataclass
class PlainTvc:
    """Pre-verification control over lists of all measurements."""

    window: int = 4
    most: int = 8
    seen: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def record(self, table: str, time_ps: int, size: int) -> None:
        """Enter a measurement."""
        self.seen.setdefault(table, []).append((time_ps, size))

    def predict(self, table: str, size: int) -> int:
        """Mean of the last ones."""
        last = self.seen[table][-self.window :]
        total = 0
        for time_ps, entry in last:
            total += (time_ps * size) // entry
        return total // len(last)

    def length(self, elapsed_ps: int, kv_rows: int, unchecked: int) -> int:
        """Largest length whose time, with the reserve of one draft, fits before the NPU ends."""
        end, each = self.predict("nvct", kv_rows), max(1, self.predict("pvct", 1))
        used = elapsed_ps + self.predict("pdct", 1)
        found = 0
        for tokens in range(1, min(self.most, unchecked) + 1):
            if used + tokens * each <= end:
                found = tokens
        return found
