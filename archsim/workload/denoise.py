"""State of a request that is denoised: which positions are masked, drafted, visible or stable, and what a pass changes.

A block is the unit of commitment, left to right; a window is what one pass computes. They differ when the window slides
or looks ahead: positions of future blocks may be *drafted* (they hold a token that others see) but only positions of
the current block commit, and a block's drafts are judged afresh once it is current.

Three stages (arXiv 2606.13740): *invisible* (masked), *visible* (a concrete token that may still be revised) and
*stable*. Without stages a committed position is stable at once.

The quality proxy is an expectation, not a draw: a position that commits with confidence c is wrong with probability
``WRONG (1 - c)``, c being its confidence with every draft counted as a mask; each later evaluation repairs it with
probability ``REPAIR``. Both numbers are assumed: only the order of policies means anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from archsim.streams.denoise import DenoisingStream

MASKED, DRAFT, VISIBLE, STABLE = range(4)
#: Evaluations after which a visible position is stable whatever its confidence (assumed).
CHECKS = 2
WRONG = 0.5
REPAIR = 0.6


@dataclass(frozen=True)
class Rules:
    """How positions come to a token.

    Attributes
    ----------
    block : int
        Positions per block.
    commit : str
        ``one``: the most confident masked position of the current block per pass; ``threshold``: all at or above
        `visible`, or the most confident one where there is none.
    visible, stable : float
        Confidence at which a position commits, and at which it is no longer revised (with `staged`).
    staged : bool
        Whether committed positions stay revisable until stable.
    sliding : bool
        Whether the window starts at the first unresolved position instead of the block's first.
    draft_weight : float
        What a draft counts, as a fraction of a mask, for the positions to its right.
    carry : bool
        Whether rows that committed in a pass join the next one, which writes their final keys and values.
    """

    block: int = 32
    commit: Literal["one", "threshold"] = "threshold"
    visible: float = 0.9
    stable: float = 0.9
    staged: bool = False
    sliding: bool = False
    draft_weight: float = 0.25
    carry: bool = False


class Window(NamedTuple):
    """Rows of a pass: positions ``first <= i < stop``, and `carried` rows from before them."""

    first: int
    stop: int
    carried: int

    @property
    def rows(self) -> int:
        """Rows of the pass."""
        return self.stop - self.first + self.carried


class Outcome(NamedTuple):
    """What a pass changed: tokens committed, and drafts held after it."""

    committed: int
    drafts: int


class Denoise:
    """Positions of one request.

    Parameters
    ----------
    rules : Rules
        Policy.
    stream : DenoisingStream
        Confidences.
    request, tokens : int
        Which request, and its output length.
    """

    def __init__(self, rules: Rules, stream: DenoisingStream, request: int, tokens: int) -> None:
        self.rules = rules
        self.stream = stream
        self.request = request
        self.tokens = tokens
        self.state = np.full(tokens, MASKED, dtype=np.int64)
        self.checks = np.zeros(tokens, dtype=np.int64)
        self.wrong = np.zeros(tokens)
        self.cached = np.zeros(tokens, dtype=bool)  # keys and values are those of the committed token
        self.front = 0
        self.step = 0
        self.block_step = 0

    @property
    def finished(self) -> bool:
        """Whether every position has a token."""
        return self.front >= self.tokens

    @property
    def block(self) -> int:
        """Number of the current block."""
        return self.front // self.rules.block

    @property
    def block_first(self) -> int:
        """First position of the current block."""
        return self.block * self.rules.block

    @property
    def block_stop(self) -> int:
        """End of the current block."""
        return min(self.block_first + self.rules.block, self.tokens)

    @property
    def masks(self) -> int:
        """Unresolved positions of the current block."""
        return int((self.state[self.front : self.block_stop] < VISIBLE).sum())

    @property
    def expected_wrong(self) -> float:
        """Expected number of wrong tokens (quality proxy)."""
        return float(self.wrong.sum())

    def window(self, extra: int = 0) -> Window:
        """Rows of the next pass, `extra` positions of look-ahead included."""
        rules = self.rules
        first = self.front if rules.sliding else self.block_first
        stop = first + rules.block + extra if rules.sliding else self.block_stop + extra
        carried = int((~self.cached[:first]).sum()) if rules.carry else 0
        return Window(first, min(stop, self.tokens), carried)

    def scored(self, window: Window) -> int:
        """Rows of a window whose confidence can still change something."""
        return int((self.state[window.first : window.stop] < STABLE).sum())

    def open(self, window: Window) -> int:
        """Rows of a window without a token of their own: masked or drafted."""
        return int((self.state[window.first : window.stop] < VISIBLE).sum())

    def revisable(self, window: Window, most: int) -> np.ndarray:
        """Visible positions left of a window, the oldest first, `most` at most."""
        return np.flatnonzero(self.state[: window.first] == VISIBLE)[:most]

    def advance(self, window: Window, *, stale: bool, whole: bool = False) -> Outcome:
        """One pass over a window: evaluate it, commit, draft, stabilise.

        Parameters
        ----------
        window : Window
            The rows.
        stale : bool
            Whether the cached rows are older than this pass.
        whole : bool
            Whether the pass also computed all other rows (a refresh).
        """
        first, stop = window.first, window.stop
        known = self.state >= VISIBLE
        state = self.state[first:stop]
        open_ = state < VISIBLE
        masks, plain = self._masks(state)
        confidence, sober = self.stream.score(
            self.request,
            step=self.step,
            block=self.block,
            block_step=self.block_step,
            first=first,
            masks=masks,
            plain=plain,
            stale=stale,
        )
        inside = np.arange(first, stop) < self.block_stop
        commit = self._commits(open_ & inside, confidence, first)
        if self.rules.staged:
            self._check(np.flatnonzero(state == VISIBLE) + first, confidence[state == VISIBLE])
        ahead = open_ & ~inside
        state[ahead] = np.where(confidence[ahead] >= self.rules.visible, DRAFT, MASKED)
        state[open_ & inside & ~commit] = MASKED  # a draft of the current block that was not taken is dropped
        sure = confidence >= self.rules.stable
        state[commit] = np.where(sure[commit] | (not self.rules.staged), STABLE, VISIBLE)
        surety = np.where(np.isnan(sober), 1.0, sober)  # a recording without a confidence adds no error
        self.wrong[first:stop][commit] = WRONG * (1.0 - surety[commit])
        self._write(known, slice(None) if whole else slice(first, stop))
        if window.carried:
            self.cached[:first] = True
        self._advance()
        return Outcome(int(commit.sum()), int((state == DRAFT).sum()))

    def revise(self, positions: np.ndarray) -> None:
        """Evaluate visible positions apart from the window, against everything before it, and renew their cache rows.

        Call it before :meth:`advance` of the same step: both see the positions as the step found them.
        """
        none = np.zeros(1)
        for position in positions.tolist():
            scores = self.stream.score(
                self.request,
                step=self.step,
                block=position // self.rules.block,
                block_step=self.block_step,
                first=position,
                masks=none,
                plain=none,
                stale=False,
            )
            self._check(np.array([position]), scores.confidence)
        self.cached[positions] = True

    def write(self) -> None:
        """A pass over the finished block that only writes its keys and values."""
        self.cached[: self.front] = True

    def _masks(self, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Masks to the left of each row: drafts by their weight, and as whole ones."""
        weight = np.where(state == MASKED, 1.0, np.where(state == DRAFT, self.rules.draft_weight, 0.0))
        whole = (state < VISIBLE).astype(float)
        return np.cumsum(weight) - weight, np.cumsum(whole) - whole

    def _commits(self, candidates: np.ndarray, confidence: np.ndarray, first: int) -> np.ndarray:
        recorded = self.stream.commits(self.request, self.block, self.block_step)
        if recorded is not None:
            commit = np.zeros(len(candidates), dtype=bool)
            here = np.flatnonzero(recorded) + self.block_first - first
            commit[here[(here >= 0) & (here < len(commit))]] = True
            return commit & candidates
        commit = candidates & (confidence >= self.rules.visible)
        if self.rules.commit == "one" or not commit.any():
            commit[:] = False
            commit[np.argmax(np.where(candidates, confidence, -1.0))] = True
        return commit

    def _check(self, positions: np.ndarray, confidence: np.ndarray) -> None:
        """Another evaluation of visible positions."""
        self.checks[positions] += 1
        self.wrong[positions] *= 1.0 - REPAIR
        stable = (confidence >= self.rules.stable) | (self.checks[positions] >= CHECKS)
        self.state[positions[stable]] = STABLE

    def _write(self, known: np.ndarray, rows: slice) -> None:
        """Rows that held their token before the pass now have their final keys and values."""
        self.cached[rows] |= known[rows]

    def _advance(self) -> None:
        """Move on to the next step, and to the next block where this one is complete."""
        block = self.block
        unresolved = np.flatnonzero(self.state[self.front :] < VISIBLE)
        self.front = self.front + int(unresolved[0]) if len(unresolved) else self.tokens
        self.step += 1
        self.block_step = self.block_step + 1 if self.block == block else 0
