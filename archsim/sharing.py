"""What the runs of one sweep have in common: made once, and kept while the sweep goes on.

Outside of :func:`sharing` nothing is kept, so a file or a class that changes between two runs is seen. Within, files
are taken as they were when first read, as the keys of a sweep's points take them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

Item = TypeVar("Item")

#: Size of all that is kept of one kind, in the units of `size` (some 1 kB each).
MOST = 1 << 15


class Kept:
    """Items by kind and key; those of a kind unused for longest go when together they are larger than `most`.

    Parameters
    ----------
    most : int
        Size of all items of one kind.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._items: dict[str, dict[Hashable, tuple[Any, int]]] = {}  # used last: last
        self._sizes: dict[str, int] = {}

    def size(self, kind: str) -> int:
        """Size of all items of a kind."""
        return self._sizes.get(kind, 0)

    def holds(self, kind: str, key: Hashable) -> bool:
        """Whether there is an item of a key."""
        return key in self._items.get(kind, {})

    def get(self, kind: str, key: Hashable, make: Callable[[], Item], size: Callable[[Item], int]) -> Item:
        """Item of a key; made, and kept, where there is none. What `make` raises is not kept."""
        items = self._items.setdefault(kind, {})
        found = items.pop(key, None)
        if found is None:
            made = make()
            found = made, size(made)
            self._sizes[kind] = self.size(kind) + found[1]
        items[key] = found
        while self._sizes[kind] > self._most and len(items) > 1:
            self._sizes[kind] -= items.pop(next(iter(items)))[1]
        item: Item = found[0]
        return item


_kept: ContextVar[Kept | None] = ContextVar("kept", default=None)


def begin() -> None:
    """Keep from here on, for as long as this thread lives (a worker of one sweep)."""
    if _kept.get() is None:
        _kept.set(Kept())


@contextmanager
def sharing() -> Iterator[None]:
    """Keep what is shared until the end of the block; within another such block, until the end of that one."""
    token = _kept.set(_kept.get() or Kept())
    try:
        yield
    finally:
        _kept.reset(token)


def active() -> bool:
    """Whether anything is kept now."""
    return _kept.get() is not None


def holds(kind: str, key: Hashable) -> bool:
    """Whether :func:`shared` would return what was made before."""
    kept = _kept.get()
    return kept is not None and kept.holds(kind, key)


def shared(kind: str, key: Hashable, make: Callable[[], Item], size: Callable[[Item], int] = lambda item: 1) -> Item:
    """What `make` returns, or returned before for the same key.

    Parameters
    ----------
    kind : str
        What it is; keys are apart by kind.
    key : Hashable
        All that it depends on, beside files and classes.
    make : callable
        Makes it; whoever gets the item does not change it, or only adds what depends on the key alone.
    size : callable
        Size of an item (:data:`MOST` are kept of a kind).
    """
    kept = _kept.get()
    return make() if kept is None else kept.get(kind, key, make, size)
