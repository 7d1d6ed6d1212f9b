"""The acceptance process behind synthetic streams, and its shape constants with what they were measured on.

At an output position the target's token is the draft's first choice with probability ``a``, its r-th (r >= 2) with
probability ``(1 - a) w_r``, and none of its candidates otherwise. With standard normal numbers z,

    belief  m = level + seen z_request + seen' z_position        (what the draft can know)
    a         = sigmoid(m + hidden z_request' + hidden' z_position')     (what it cannot)
    q_1       = E[a | m]                                         (so that q_1 is calibrated)

where ``level`` is set so that the mean of ``a`` over requests and positions is the acceptance asked for; the seen and
hidden spreads of requests (of positions) add up, squared, to ``sd_request`` (``sd_position``) squared. The further
candidates share ``1 - q_1`` by the same ``w``, but none is more probable than the first. The draft's entropy follows
from q_1 by the measured curve with the measured scatter.

"Exits" below are the early-exit drafts of layers 10, 15, 20, 25 in ``traces/exit_layers.npz``, "trees" the recorded
``spec_exit15_tree`` and ``spec_eagle_tree``; tests measure the same figures again from the shipped files.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from archsim.config import InputError

#: Shares w_2, w_3, ... of the probability left by the first candidate.
TAILS: dict[str, tuple[float, ...]] = {
    # measured: mean over exits 10 and 15 of P(rank r | not rank 1), 2,254 tokens (exit 20 starts at .204, exit 25 at
    # .328, exit-15 trees at .160); ranks 3 and 4 evened out to .07
    "recorded": (0.158, 0.07, 0.07, 0.040, 0.032, 0.024, 0.020),
    # Infini-AI-Lab/Sequoia, acceptance-rate-vector.pt (its demo): ranks 2 to 10 over 1 - .634
    "sequoia": tuple(v / 0.366 for v in (0.108, 0.057, 0.0225, 0.0195, 0.015, 0.0045, 0.003, 0.012, 0.0045)),
}

#: Shares of ranks 2 to 8 by the acceptance of the first choice, measured on the four exits (2,254 tokens): the better a
#: draft, the more of what its first choice misses its second one takes. Tail ``measured``.
TAIL_ACCEPTANCE = (0.369, 0.429, 0.556, 0.760)
TAIL_SHARES = (
    (0.151, 0.076, 0.063, 0.037, 0.026, 0.023, 0.021),
    (0.165, 0.091, 0.054, 0.043, 0.037, 0.026, 0.019),
    (0.204, 0.102, 0.059, 0.034, 0.033, 0.025, 0.018),
    (0.328, 0.113, 0.059, 0.037, 0.030, 0.011, 0.007),
)
MEASURED_TAIL = "measured"


def measured_tail(acceptance: float) -> tuple[float, ...]:
    """Shares of the further candidates at a mean acceptance: measured, linear between exits, level outside them."""
    return tuple(float(np.interp(acceptance, TAIL_ACCEPTANCE, column)) for column in zip(*TAIL_SHARES))


#: Spread between requests, on the logit scale. With it the logit of a request's mean acceptance spreads by .58;
#: measured, sampling noise removed: exits 10/15 .59/.57 (exit-15 trees .74, exits 20/25 .86/.95: the exits that share
#: most of their target are left out).
SD_REQUEST = 0.95
#: Part of it that the draft does not see. With it a request's mean logit of q_1 spreads by .5; measured, sampling
#: noise removed: exits 10/15 .49/.52. Drafts know less about a prompt's difficulty than their outcomes show.
SD_REQUEST_HIDDEN = 0.75
#: Spread within a request. With it the logit of q_1 spreads by 1.9 within a request; measured: exits 10/15 1.87/1.92,
#: exit-15 trees 1.91, exits 20/25 2.17/2.32. Successive positions are independent (lag-1 correlation -.02 to .03).
SD_POSITION = 2.2
#: Part of it that the draft does not see. assumed: outcomes given q_1 are the same for every value, so recordings
#: of outcomes cannot tell; it moves only what else is compared with q_1.
SD_HIDDEN = 0.5

#: Draft entropy (nats) against acceptance of its first choice. measured: 9,016 pairs of the four exits in 24 equal
#: groups, joined where two neighbours were out of order; the last point is the largest entropy recorded.
ENTROPY_CURVE = np.array(
    [
        (0.0, 1.0),
        (0.031, 0.995),
        (0.101, 0.989),
        (0.244, 0.952),
        (0.440, 0.888),
        (0.644, 0.859),
        (0.833, 0.798),
        (1.041, 0.718),
        (1.353, 0.621),
        (1.639, 0.556),
        (1.828, 0.487),
        (2.089, 0.448),
        (2.379, 0.362),
        (2.570, 0.351),
        (2.763, 0.333),
        (2.986, 0.309),
        (3.344, 0.246),
        (3.780, 0.192),
        (4.147, 0.120),
        (4.593, 0.088),
        (5.268, 0.048),
        (5.9, 0.0),
    ]
)
ENTROPY_CURVE.setflags(write=False)
#: Scatter of log entropy at one q_1. measured: .215, .221, .224, .245 for the four exits.
SD_LOG_ENTROPY = 0.22

#: logit(target's top probability) = intercept + slope * logit(q_1) + sd * z. measured on exit 15 (slope .485 to .724
#: over the exits); the target is SmolLM2-135M, so only the shape carries over.
TARGET_INTERCEPT, TARGET_SLOPE, TARGET_SD = 1.74, 0.56, 2.17
#: Target entropy (nats) against the target's top probability. measured on the same 2,254 tokens in ten equal bins.
TARGET_CURVE = np.array(
    [
        (0.0, 8.3),
        (0.086, 5.19),
        (0.157, 3.81),
        (0.253, 3.04),
        (0.353, 2.46),
        (0.449, 2.02),
        (0.548, 1.68),
        (0.649, 1.405),
        (0.753, 1.14),
        (0.853, 0.77),
        (0.975, 0.164),
        (1.0, 0.0),
    ]
)
TARGET_CURVE.setflags(write=False)

#: Correlation of a node off the accepted path with the last node on it, in log entropy. measured on the trees'
#: off-path nodes against their parents: .02 (exit 15) and .08 (EAGLE head); level and spread equal those on the path.
OFFPATH_COUPLING = 0.05

_EDGE = 2.0**-50
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(40)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
_INNER_NODES, _INNER_WEIGHTS = np.polynomial.hermite_e.hermegauss(10)
_INNER_WEIGHTS = _INNER_WEIGHTS / _INNER_WEIGHTS.sum()


def sigmoid(x: np.ndarray | float) -> np.ndarray:
    """Logistic function, stable for large arguments."""
    return 0.5 * (1.0 + np.tanh(0.5 * np.asarray(x, dtype=np.float64)))


def mean_acceptance(level: float, sd: float) -> float:
    """Mean of sigmoid(level + sd z) over a standard normal z."""
    return float(_WEIGHTS @ sigmoid(level + sd * _NODES))


def level_for(acceptance: float, sd: float) -> float:
    """The level whose mean acceptance is `acceptance` (0 < acceptance < 1), by bisection to 1e-12."""
    low, high = -60.0, 60.0
    while high - low > 1e-12:
        middle = 0.5 * (low + high)
        if mean_acceptance(middle, sd) < acceptance:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


def curve_entropy(q1: np.ndarray) -> np.ndarray:
    """Draft entropy (nats) at which a first choice of probability `q1` is accepted, by the measured curve."""
    return np.interp(q1, ENTROPY_CURVE[::-1, 1], ENTROPY_CURVE[::-1, 0])


def curve_acceptance(entropy: np.ndarray) -> np.ndarray:
    """Acceptance of the first choice at a draft entropy (nats), by the measured curve."""
    return np.interp(entropy, ENTROPY_CURVE[:, 0], ENTROPY_CURVE[:, 1])


def least_entropy(top: np.ndarray) -> np.ndarray:
    """Smallest entropy (nats) of a distribution whose largest probability is `top` (0 < top <= 1).

    The least is reached by as many copies of `top` as fit and one remainder.
    """
    top = np.asarray(top, dtype=np.float64)
    copies = np.floor(1.0 / top + 1e-12)
    rest = np.maximum(1.0 - copies * top, 0.0)
    log_rest = np.log(np.where(rest > 0.0, rest, 1.0))
    return -copies * top * np.log(top) - rest * log_rest


@dataclass(frozen=True)
class Shape:
    """Constants of the process; every field may be given to ``open_stream`` by its name.

    Attributes
    ----------
    acceptance : float
        Mean probability, over requests and positions, that the first candidate is the target's token; 0 < a < 1.
    tail : str or sequence of float
        Shares of the further candidates: a name in :data:`TAILS`, ``measured`` (:func:`measured_tail`), or numbers that
        do not rise and add up to 1 at most.
    candidates : int
        Candidates per position, 1 to one more than the tail has.
    sd_request, sd_position : float
        Spreads of the logit between requests and between positions of one, 0 to 10.
    sd_request_hidden, sd_hidden : float
        Parts of them that the draft does not see.
    overconfidence : float
        Shift of the logit of the reported q_1 against the calibrated one; 0 is calibrated. measured: .42, .40, -.02,
        -.56 for exits 10, 15, 20, 25.
    depth_factor : float
        Factor on acceptance per position drafted in a row, 0 < f <= 1; 1 for EAGLE3 heads (flat to depth 7) and for
        separate draft models, below 1 for older feature-based heads.
    """

    acceptance: float
    tail: str | tuple[float, ...] = "recorded"
    candidates: int = 8
    sd_request: float = SD_REQUEST
    sd_request_hidden: float = SD_REQUEST_HIDDEN
    sd_position: float = SD_POSITION
    sd_hidden: float = SD_HIDDEN
    overconfidence: float = 0.0
    depth_factor: float = 1.0

    def __post_init__(self) -> None:
        _number("acceptance", self.acceptance, 0.0, 1.0, open_low=True, open_high=True)
        for whole, part in (("sd_request", "sd_request_hidden"), ("sd_position", "sd_hidden")):
            _number(whole, getattr(self, whole), 0.0, 10.0)
            _number(part, getattr(self, part), 0.0, 10.0)
            if getattr(self, part) > getattr(self, whole):
                raise InputError(f"{part} {getattr(self, part)} is more than {whole} {getattr(self, whole)}")
        _number("overconfidence", self.overconfidence, -10.0, 10.0)
        _number("depth_factor", self.depth_factor, 0.0, 1.0, open_low=True)
        shares = self.shares
        if any(not 0.0 <= s <= 1.0 for s in shares) or sum(shares) > 1.0 + 1e-9:
            raise InputError(f"tail {self.tail} must be shares from 0 to 1 that add up to 1 at most")
        if not isinstance(self.candidates, int) or not 1 <= self.candidates <= 1 + len(shares):
            raise InputError(f"candidates must be 1 to {1 + len(shares)} with this tail, not {self.candidates!r}")

    @property
    def shares(self) -> tuple[float, ...]:
        """w_2, w_3, ... as numbers."""
        if self.tail == MEASURED_TAIL:
            return measured_tail(self.acceptance)
        if isinstance(self.tail, str):
            if self.tail not in TAILS:
                known = ", ".join((*TAILS, MEASURED_TAIL))
                raise InputError(f"unknown tail {self.tail!r}; known: {known}, or give shares as numbers")
            return TAILS[self.tail]
        try:
            return tuple(float(share) for share in self.tail)
        except (TypeError, ValueError) as error:
            raise InputError(f"tail must be a name or numbers, not {self.tail!r}") from error


def _number(name: str, value: float, low: float, high: float, open_low: bool = False, open_high: bool = False) -> None:
    good = isinstance(value, int | float | np.floating) and not isinstance(value, bool) and low <= value <= high
    if not good or (open_low and value == low) or (open_high and value == high):
        raise InputError(f"{name} must be a number from {low:g} to {high:g}, not {value!r}")


class Drafted(NamedTuple):
    """Generated columns for n positions: acceptance ``a``, candidates ``probs`` [n, k], entropies (nats)."""

    belief: np.ndarray
    acceptance: np.ndarray
    probs: np.ndarray
    draft_entropy: np.ndarray
    target_max: np.ndarray
    target_entropy: np.ndarray


class Generator:
    """The process of a :class:`Shape`, vectorised over positions; it draws nothing itself."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.level = level_for(shape.acceptance, float(np.hypot(shape.sd_request, shape.sd_position)))
        self.sd_seen = (shape.sd_position**2 - shape.sd_hidden**2) ** 0.5
        self.sd_request_seen = (shape.sd_request**2 - shape.sd_request_hidden**2) ** 0.5
        self._hidden = float(np.hypot(shape.sd_hidden, shape.sd_request_hidden))
        self.weights = np.array(shape.shares[: shape.candidates - 1])
        self.cumulative = np.cumsum(self.weights)

    def belief(self, z_request: float, z_position: np.ndarray) -> np.ndarray:
        """What the draft can know, on the logit scale."""
        return self.request_level(z_request) + self.sd_seen * z_position

    def request_level(self, z_request: float) -> float:
        """What the draft can know of a request, on the logit scale."""
        return self.level + self.sd_request_seen * z_request

    def confidence(self, belief: np.ndarray) -> np.ndarray:
        """Calibrated q_1 of a belief: the mean acceptance over what the draft cannot know."""
        q1 = sigmoid(belief[..., None] + self._hidden * _INNER_NODES) @ _INNER_WEIGHTS
        return np.clip(q1, _EDGE, 1.0 - _EDGE)  # only so that its logit exists

    def candidates(self, q1: np.ndarray) -> np.ndarray:
        """Reported probabilities [n, k] for calibrated first probabilities `q1` [n], non-increasing along k."""
        if self.shape.overconfidence:
            q1 = sigmoid(np.log(q1) - np.log1p(-q1) + self.shape.overconfidence)
        probs = np.empty((len(q1), self.shape.candidates))
        probs[:, 0] = q1
        probs[:, 1:] = np.minimum((1.0 - q1)[:, None] * self.weights, q1[:, None])
        np.minimum.accumulate(probs, axis=1, out=probs)
        return probs

    def entropy(self, q1: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Draft entropy (nats) for first probabilities `q1`: the curve times its scatter, at least what q_1 forces."""
        return np.maximum(curve_entropy(q1) * np.exp(SD_LOG_ENTROPY * z), least_entropy(q1))

    def draft(
        self,
        z_request: tuple[float, float],
        z_position: tuple[np.ndarray, np.ndarray],
        z_scatter: tuple[np.ndarray, np.ndarray],
    ) -> Drafted:
        """Everything that belongs to n positions on the accepted path of one request.

        The numbers are standard normal: seen and hidden ones of the request, seen and hidden ones [n] of the
        positions, and the scatter [n] of the draft's entropy and of the target's probability.
        """
        belief = self.belief(z_request[0], z_position[0])
        hidden = self.shape.sd_request_hidden * z_request[1] + self.shape.sd_hidden * z_position[1]
        q1 = self.confidence(belief)
        probs = self.candidates(q1)
        target = sigmoid(TARGET_INTERCEPT + TARGET_SLOPE * belief + TARGET_SD * z_scatter[1])
        return Drafted(
            belief,
            np.clip(sigmoid(belief + hidden), _EDGE, 1.0 - _EDGE),
            probs,
            self.entropy(probs[:, 0], z_scatter[0]),
            target,
            np.interp(target, TARGET_CURVE[:, 0], TARGET_CURVE[:, 1]),
        )

    def rank(self, acceptance: float, u: float) -> int:
        """Rank of the target's token for a uniform number `u`; 0 when it is not among the candidates."""
        if u < acceptance:
            return 1
        place = int(np.searchsorted(self.cumulative, (u - acceptance) / (1.0 - acceptance), side="right"))
        return place + 2 if place < len(self.cumulative) else 0


def offpath_score(last: float, z: float) -> float:
    """Standard normal score of a node off the accepted path, loosely tied to the score `last` of the last one on it."""
    return OFFPATH_COUPLING * last + (1.0 - OFFPATH_COUPLING**2) ** 0.5 * z
