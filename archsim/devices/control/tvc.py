"""Time-aware pre-verification control: how many tokens PIM can verify before the NPU is done.

Asked only when drafting was told to stop (arXiv 2604.25326). Three tables hold the last `window` measurements as
(time, size): NVCT of NPU verifications by KV length, PDCT of PIM drafts and PVCT of PIM pre-verifications by tokens. A
prediction is the mean of time / size over the table, times the size at hand. From

    left = NPU verification predicted - (its time so far + one more draft)

the pre-verification gets left / (time of one token), rounded down; below one token there is none. The reserve of one
draft keeps the NPU fed when the pre-verification fails.

Times are whole ps of one common clock, so no clock ratio enters twice. The tables begin with presets: without one a
table that only its own outcome fills could never fire. Verification time is not proportional to KV length when weights
dominate: after a jump of the prompt's length NVCT mispredicts until it has refilled.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field


@dataclass
class Table:
    """The last measurements of one kind: (ps, size), newest last."""

    window: int
    entries: deque[tuple[int, int]] = field(init=False)

    def __post_init__(self) -> None:
        if self.window < 1:
            raise ValueError(f"a table of {self.window} entries cannot predict; give 1 or more")
        self.entries = deque(maxlen=self.window)

    def record(self, time_ps: int, size: int) -> None:
        """Enter a measurement.

        Raises
        ------
        ValueError
            A size below 1 or a negative time.
        """
        if size < 1 or time_ps < 0:
            raise ValueError(f"a measurement of {time_ps} ps for a size of {size} has no rate")
        self.entries.append((time_ps, size))

    def predict(self, size: int) -> int:
        """Time of `size`, ps: mean of time / size over the entries, times `size`, rounded down entry by entry.

        Raises
        ------
        ValueError
            The table is empty.
        """
        if not self.entries:
            raise ValueError("a table without a measurement or preset cannot predict")
        return sum(time_ps * size // entry for time_ps, entry in self.entries) // len(self.entries)


@dataclass
class Tvc:
    """Pre-verification control; `most` caps a pre-verification, in tokens."""

    window: int = 4
    most: int = 8
    nvct: Table = field(init=False)
    pdct: Table = field(init=False)
    pvct: Table = field(init=False)

    def __post_init__(self) -> None:
        self.nvct, self.pdct, self.pvct = Table(self.window), Table(self.window), Table(self.window)

    def preset(self, verify_ps: int, kv_rows: int, draft_ps: int, preverify_ps: int) -> None:
        """Enter offline means: a verification at `kv_rows`, and one token of drafting and of pre-verification."""
        self.nvct.record(verify_ps, kv_rows)
        self.pdct.record(draft_ps, 1)
        self.pvct.record(preverify_ps, 1)

    def length(self, elapsed_ps: int, kv_rows: int, unchecked: int) -> int:
        """Tokens to pre-verify now; 0: none.

        Parameters
        ----------
        elapsed_ps : int
            Time since the NPU began the verification in flight.
        kv_rows : int
            Its KV rows.
        unchecked : int
            Tokens of the batch in flight that were not pre-verified yet: only their prefix is known to PIM, queued
            batches need keys and values that the NPU has not produced.
        """
        left = self.nvct.predict(kv_rows) - (elapsed_ps + self.pdct.predict(1))
        each = max(1, self.pvct.predict(1))
        return max(0, min(left // each, self.most, unchecked))

    def bits(self) -> dict[str, int]:
        """Storage: three tables of 64-bit times and 32-bit sizes, the register of the running verification, control."""
        return {"tables": 3 * self.window * (64 + 32), "ncr": 64, "control": 200}
