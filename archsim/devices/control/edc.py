"""Entropy-history-aware drafting control: go on drafting ahead of verification, or stop.

State machine (arXiv 2604.25326, section on the drafting control), integers only:

* The mean entropy of a drafted batch falls into one of ``2**bucket_bits`` equal intervals of [0, `hmax`]. It enters the
  local entropy history (LEHT, newest first) and the leading length (LLR, unverified batches, saturating) grows.
* The index of the pattern table (PHT) is {mean of the older half, mean of the newer half, LLR}; its two-bit counter's
  top bit says whether to go on.
* Verified batches, oldest first: fully accepted ones enter the committed history (LCEHT) and count their counter up;
  a rejected one counts down and rolls LEHT back to LCEHT.

Where the published code and text part, this follows the text: the counter that is trained is the one that predicted
(its index is kept with the batch), the history is ordered by age, a commit adds the verified batch alone, and a
rollback restores the history as a whole. Batches behind a miss in the same pass count as rejected; those drafted later
are dropped untrained unless `train_flushed`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class Batch:
    """An unverified batch: its bucket, and the PHT index of the prediction made after it (-1: none was asked)."""

    bucket: int
    index: int = -1


@dataclass
class Edc:
    """Drafting control.

    Parameters
    ----------
    hmax_milli : int
        Entropy at which the last interval ends, thousandths of a nat.
    history : int
        Entries of LEHT and LCEHT, even.
    bucket_bits, lead_bits, counter_bits : int
        Widths of a bucket, of LLR and of a counter.
    train_flushed : bool
        Whether batches dropped without verification count as rejected.
    """

    hmax_milli: int = 4000
    history: int = 8
    bucket_bits: int = 3
    lead_bits: int = 3
    counter_bits: int = 2
    train_flushed: bool = False
    leht: list[int] = field(init=False)
    lceht: list[int] = field(init=False)
    pht: list[int] = field(init=False)
    unverified: deque[Batch] = field(init=False)

    def __post_init__(self) -> None:
        if self.hmax_milli < 1 or self.history < 2 or self.history % 2:
            raise ValueError(f"hmax_milli {self.hmax_milli} must be above 0 and history {self.history} even, 2 or more")
        self.leht, self.lceht = [0] * self.history, [0] * self.history
        self.pht = [1 << (self.counter_bits - 1)] * (1 << (2 * self.bucket_bits + self.lead_bits))
        self.unverified = deque()

    @property
    def lead(self) -> int:
        """LLR: unverified batches, saturated at its width."""
        return min(len(self.unverified), (1 << self.lead_bits) - 1)

    def bucket(self, entropy_milli: int) -> int:
        """Interval of a mean entropy (thousandths of a nat); above `hmax` it is the last one."""
        intervals = 1 << self.bucket_bits
        return min(intervals - 1, max(0, entropy_milli) * intervals // self.hmax_milli)

    def index(self) -> int:
        """PHT index of the present state."""
        half = self.history // 2
        newer, older = sum(self.leht[:half]) // half, sum(self.leht[half:]) // half
        return (older << self.bucket_bits | newer) << self.lead_bits | self.lead

    def drafted(self, entropy_milli: int) -> int:
        """Enter a drafted batch with its mean entropy; returns its bucket."""
        bucket = self.bucket(entropy_milli)
        self.leht = [bucket, *self.leht[:-1]]
        self.unverified.append(Batch(bucket))
        return bucket

    def predict(self) -> bool:
        """Whether to draft a further batch ahead; the index is kept with the newest unverified batch.

        Without an unverified batch there is nothing to run ahead of: the answer is yes and nothing is trained by it.
        """
        if not self.unverified:
            return True
        index = self.index()
        self.unverified[-1].index = index
        return self.pht[index] >= 1 << (self.counter_bits - 1)

    def verified(self, fully_accepted: Sequence[bool], survivors: bool = False) -> int:
        """Enter the outcome of one verification pass over the oldest batches.

        Parameters
        ----------
        fully_accepted : sequence of bool
            One outcome per batch, oldest first.
        survivors : bool
            Whether later batches outlive a rejected one, because they were drafted from its correction.

        Returns
        -------
        int
            Unverified batches that were dropped because they lie behind a rejected one.

        Raises
        ------
        ValueError
            More outcomes than unverified batches.
        """
        if len(fully_accepted) > len(self.unverified):
            raise ValueError(f"{len(fully_accepted)} batches were verified and {len(self.unverified)} are waiting")
        good = True
        for accepted in fully_accepted:
            batch = self.unverified.popleft()
            good = good and bool(accepted)
            self._train(batch, good)
            if good:
                self.lceht = [batch.bucket, *self.lceht[:-1]]
        if good:
            return 0
        if survivors:
            self._restore()
            return 0
        return self.roll_back(len(self.unverified))

    def roll_back(self, count: int) -> int:
        """Drop the newest `count` unverified batches and restore the history to what is left; returns `count`."""
        for _ in range(count):
            batch = self.unverified.pop()
            if self.train_flushed:
                self._train(batch, good=False)
        self._restore()
        return count

    def _restore(self) -> None:
        """LEHT is what waits, newest first, before what is committed."""
        waiting = [batch.bucket for batch in reversed(self.unverified)]
        self.leht = [*waiting, *self.lceht][: self.history]

    def _train(self, batch: Batch, good: bool) -> None:
        if batch.index >= 0:
            value = self.pht[batch.index] + (1 if good else -1)
            self.pht[batch.index] = min((1 << self.counter_bits) - 1, max(0, value))

    def bits(self, waiting: int) -> dict[str, int]:
        """Storage by table; `waiting` batches carry their bucket and index."""
        width = 2 * self.bucket_bits + self.lead_bits
        return {
            "leht": self.history * self.bucket_bits,
            "lceht": self.history * self.bucket_bits,
            "llr": self.lead_bits,
            "pht": len(self.pht) * self.counter_bits,
            "kept": waiting * (self.bucket_bits + width + 1),
        }
