"""Blocks and plans that were used last, within a number of rows: a long run does not keep all it ever planned."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

Item = TypeVar("Item")

#: Rows that are kept of each kind of plan: some 16 int64 columns each, so 17 MB.
ROWS = 1 << 17


class Recent(Generic[Item]):
    """Items by key; those unused for longest go when all together have more than `rows` rows, all but the last one.

    Parameters
    ----------
    rows : int
        Rows that are kept.
    """

    def __init__(self, rows: int = ROWS) -> None:
        self._most, self._rows = rows, 0
        self._kept: dict[Hashable, tuple[Item, int]] = {}  # used last: last

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def rows(self) -> int:
        """Rows of all that is kept."""
        return self._rows

    def get(self, key: Hashable) -> Item | None:
        """Item of `key`, None where it is not kept (any more)."""
        found = self._kept.pop(key, None)
        if found is None:
            return None
        self._kept[key] = found
        return found[0]

    def keep(self, key: Hashable, item: Item, rows: int) -> Item:
        """Keep an item of so many rows under a key that has none; returns it."""
        self._kept[key] = item, rows
        self._rows += rows
        while self._rows > self._most and len(self._kept) > 1:
            self._rows -= self._kept.pop(next(iter(self._kept)))[1]
        return item
