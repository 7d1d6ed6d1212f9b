"""What a tree policy knows: how far the draft can be relied on, what drafting and verifying cost. All of it measured.

Times are in ps. Nothing here looks into the simulator: tables are seeded by estimates made before the run and then
hold what the policy itself has met.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

#: Weight of the newest value in running means.
NEWEST = 0.2


def running(old: float, new: float, weight: float = NEWEST) -> float:
    """Running mean: `old` moved towards `new`."""
    return old + weight * (new - old)


@dataclass
class Reliability:
    """How the draft's probabilities relate to what the target takes, learned from recent verifications.

    ``coverage``: the factor is the running share (memory 0.9) of expanded nodes on the verified path whose candidates
    held the target's token. ``ratio``: that share over the share that the candidates' probabilities promised, 1 at
    most, so that a calibrated draft keeps its probabilities. ``off``: 1. The factor is the same for all candidates, so
    their ranking is kept.
    """

    mode: str
    memory: float = 0.9
    held: float = 1.0
    promised: float = 1.0

    def learn(self, held: bool, promised: float) -> None:
        """One expanded node on the verified path: whether its candidates held the token, and their probability."""
        self.held = running(self.held, float(held), 1.0 - self.memory)
        self.promised = running(self.promised, promised, 1.0 - self.memory)

    @property
    def factor(self) -> float:
        """Factor on the draft's probabilities."""
        if self.mode == "off":
            return 1.0
        if self.mode == "coverage":
            return self.held
        return min(self.held / self.promised, 1.0) if self.promised > 0.0 else 1.0


@dataclass
class DraftCost:
    """Running means of the latency of one expansion on the CPU and of a batch on the NPU, ps."""

    single: float
    batch: float

    def learn(self, batched: bool, ps: int) -> None:
        """Enter a measured latency."""
        if batched:
            self.batch = running(self.batch, ps)
        else:
            self.single = running(self.single, ps)


@dataclass
class LatencyTable:
    """End-to-end latency of verifications by shape: padded rows, and leaves in groups.

    Parameters
    ----------
    shape : callable
        Padded rows of a number of rows.
    penalty : float
        Share added to a shape that was neither seeded nor met.
    group : int
        Leaves that share an entry.
    """

    shape: Callable[[int], int]
    penalty: float = 0.10
    group: int = 4
    seeds: dict[tuple[int, int], float] = field(default_factory=dict)
    met: dict[tuple[int, int], float] = field(default_factory=dict)
    #: Running mean of met over seeded latency; what was only seeded is scaled by it.
    bias: float = 1.0
    _known: dict[tuple[int, int], float] = field(default_factory=dict)

    def key(self, rows: int, leaves: int) -> tuple[int, int]:
        """Entry of a shape."""
        return self.shape(rows), -(-leaves // self.group)

    def seed(self, rows: int, leaves: int, ps: float) -> None:
        """Enter an estimate made before the run."""
        self.seeds[self.key(rows, leaves)] = float(ps)
        self._known.clear()

    def learn(self, rows: int, leaves: int, ps: int) -> None:
        """Enter a measured latency."""
        key = self.key(rows, leaves)
        if key in self.seeds:
            self.bias = ps / self.seeds[key] if not self.met else running(self.bias, ps / self.seeds[key])
        self.met[key] = running(self.met[key], ps) if key in self.met else float(ps)
        self._known.clear()

    def latency(self, rows: int, leaves: int) -> float:
        """Expected latency, ps: met, else seeded and scaled, else that of the nearest entry with the penalty."""
        key = self.key(rows, leaves)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._look_up(key)
        return found

    def _look_up(self, key: tuple[int, int]) -> float:
        if key in self.met:
            return self.met[key]
        if key in self.seeds:
            return self.seeds[key] * self.bias
        known = {**{k: ps * self.bias for k, ps in self.seeds.items()}, **self.met}
        rows, leaves = key
        nearest = min(known, key=lambda k: (abs(k[0] - rows), abs(k[1] - leaves), k))
        return known[nearest] * max(rows / nearest[0], 1.0) * (1.0 + self.penalty)
