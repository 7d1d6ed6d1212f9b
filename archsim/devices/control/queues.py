"""The three queues between drafting and verification: bounded, first in first out, never blocking."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Item = TypeVar("Item")


@dataclass
class TaskQueue(Generic[Item]):
    """A queue of `depth` entries; `alarm` is the level at which its owner should stop filling it."""

    depth: int
    alarm: int = 0
    items: deque[Item] = field(default_factory=deque)

    def push(self, item: Item) -> bool:
        """Append; False when it is full, and nothing changes."""
        if len(self.items) >= self.depth:
            return False
        self.items.append(item)
        return True

    def pop(self) -> Item:
        """Take the oldest.

        Raises
        ------
        IndexError
            When it is empty.
        """
        return self.items.popleft()

    def take(self) -> list[Item]:
        """Take all, oldest first."""
        taken = list(self.items)
        self.items.clear()
        return taken

    def drop(self) -> int:
        """Empty it; returns how many went."""
        return len(self.take())

    @property
    def alarmed(self) -> bool:
        """Whether the level is at the alarm or above."""
        return len(self.items) >= (self.alarm or self.depth)

    def __len__(self) -> int:
        return len(self.items)
