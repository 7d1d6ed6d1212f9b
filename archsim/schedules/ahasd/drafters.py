"""Adaptive drafters: how many tokens to draft before asking the target.

Each drafter reads what the draft model itself knows (the entropy of its distribution, in nats) and what earlier
verifications returned. The rules are those of the methods' own papers; where they leave a constant open the common
implementation's is used:

``fixed``
    Always `length` tokens.
``svip``
    Stop behind a token whose distribution has ``sqrt(0.15 H) > 0.3`` (arXiv 2411.18462, released evaluation code).
``specdec++``
    Stop when ``1 - prod p_accept > 0.3``, at least 2 tokens (arXiv 2405.19715). The trained acceptance head is
    replaced by the measured curve of acceptance over entropy.
``adaedl``
    Stop when ``1 - sqrt(0.2 H) < lambda``; lambda moves by 0.01 towards an acceptance of 0.9 (arXiv 2410.18351).
``banditspec``
    UCB1 over fixed lengths (arXiv 2505.15141); the reward is committed tokens per second of the batch's round.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, get_args

import numpy as np

from archsim.streams.generator import ENTROPY_CURVE

#: Most tokens of one batch (the released configuration's maximum).
CAP = 16

Name = Literal["fixed", "svip", "specdec++", "adaedl", "banditspec"]
NAMES: tuple[str, ...] = get_args(Name)

#: Entropy of the draft's distribution for its i-th token of the batch, nats.
Entropies = Callable[[int], float]


class Drafter:
    """A fixed length; the adaptive ones override :meth:`stops` or :meth:`learn`.

    Parameters
    ----------
    length : int
        Tokens per batch of the fixed drafter.
    """

    def __init__(self, length: int = 8) -> None:
        self.length = length

    def plan(self, entropies: Entropies, room: int) -> int:
        """Tokens to draft, from 1 to `room` (and :data:`CAP`), given the entropies met while drafting."""
        most = min(room, CAP)
        self.begin()
        for drafted in range(1, most):
            if self.stops(entropies(drafted - 1), drafted):
                return drafted
        return most

    def begin(self) -> None:
        """Start a batch."""

    def stops(self, entropy: float, drafted: int) -> bool:
        """Whether to stop behind the token just drafted, whose distribution had `entropy` nats."""
        return drafted >= self.length

    def learn(self, accepted: int, drafted: int, committed: int, round_ps: int) -> None:
        """Take in one verification: tokens accepted of those drafted, tokens committed, and how long the round took."""


class Svip(Drafter):
    """Entropy bound per token."""

    def stops(self, entropy: float, drafted: int) -> bool:
        """``sqrt(0.15 H) > 0.3``."""
        return math.sqrt(0.15 * entropy) > 0.3


class SpecDecPlus(Drafter):
    """Probability that at least one token of the batch is rejected."""

    def begin(self) -> None:
        """No token yet: all accepted."""
        self._all = 1.0

    def stops(self, entropy: float, drafted: int) -> bool:
        """``1 - prod p_accept > 0.3``, from the second token on; the first counts although no batch ends behind it."""
        self._all *= acceptance_at(entropy)
        return drafted >= 2 and 1.0 - self._all > 0.3


class AdaEdl(Drafter):
    """Entropy lower bound on acceptance against an adaptive threshold."""

    TARGET, STEP, SMOOTH = 0.9, 0.01, 0.9

    def __init__(self, length: int = 8) -> None:
        super().__init__(length)
        self.rate = self.TARGET
        self.threshold = 0.4  # assumed: start at which an entropy of 1.8 nats stops the batch

    def stops(self, entropy: float, drafted: int) -> bool:
        """``1 - sqrt(0.2 H) < lambda``."""
        return 1.0 - math.sqrt(0.2 * entropy) < self.threshold

    def learn(self, accepted: int, drafted: int, committed: int, round_ps: int) -> None:
        """Move the threshold up when too few tokens are accepted, and down when enough are."""
        if not drafted:
            return
        self.rate = 0.5 * self.rate + 0.5 * accepted / drafted
        moved = self.threshold + (self.STEP if self.rate < self.TARGET else -self.STEP)
        self.threshold = self.SMOOTH * self.threshold + (1.0 - self.SMOOTH) * moved


class BanditSpec(Drafter):
    """UCB over draft lengths.

    Parameters
    ----------
    arms : tuple of int
        Lengths to choose from.
    exploration : float
        Factor in the confidence bound ``sqrt(exploration ln t / n)``; rewards are scaled to the best one seen.
    """

    def __init__(self, arms: tuple[int, ...] = (2, 4, 6, 8), exploration: float = 6.0) -> None:
        super().__init__(arms[0])
        self.arms, self.exploration = arms, exploration
        self.pulls = [0] * len(arms)
        self.total = [0.0] * len(arms)
        self.best = 0.0

    def begin(self) -> None:
        """Choose the arm: two warm-up pulls each, then the largest upper bound."""
        cold = [arm for arm, pulls in enumerate(self.pulls) if pulls < 2]
        if cold:
            arm = cold[0]
        else:
            t = sum(self.pulls)
            bounds = [
                total / pulls / self.best + math.sqrt(self.exploration * math.log(t) / pulls)
                for total, pulls in zip(self.total, self.pulls)
            ]
            arm = int(np.argmax(bounds))
        self.length = self.arms[arm]

    def learn(self, accepted: int, drafted: int, committed: int, round_ps: int) -> None:
        """Credit the arm whose length is nearest to what was drafted (a batch may have been cut short by the end)."""
        if not drafted or round_ps <= 0:
            return
        reward = committed * 1e12 / round_ps
        arm = min(range(len(self.arms)), key=lambda i: (abs(self.arms[i] - drafted), i))
        self.pulls[arm] += 1
        self.total[arm] += reward
        self.best = max(self.best, reward)


def acceptance_at(entropy: float) -> float:
    """Measured acceptance of a first choice drawn at `entropy` nats (early exits of SmolLM2-135M)."""
    return float(np.interp(entropy, ENTROPY_CURVE[:, 0], ENTROPY_CURVE[:, 1]))


def make_drafter(name: str, length: int, arms: tuple[int, ...]) -> Drafter:
    """Drafter by name; `length` is the fixed one's, `arms` are the bandit's."""
    if name == "banditspec":
        return BanditSpec(arms)
    return {"fixed": Drafter, "svip": Svip, "specdec++": SpecDecPlus, "adaedl": AdaEdl}[name](length)
