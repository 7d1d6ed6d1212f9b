"""Virtual-address windows of the NPU's sessions: which buffers are mapped, and where.

A process on the DSP has 32 bits of virtual addresses; what a session can map at a time is its window. A buffer takes
whole pages at one offset of one window, so holes between mapped buffers count: a buffer may find no hole although
enough bytes are free. What then happens is a rule: slide the mapped buffers together (each is mapped again), evict one
by last use, or drop every buffer that the batch at hand does not use.

Modelled: first and best fit, compaction, eviction, the number of map slots. Not modelled: guard pages, address
randomisation, several buffers sharing a page.

Sources: windows per session, 16 map slots, buffers of at most 1 GiB and the drop-all rule are ggml-hexagon's
(ggml-org/llama.cpp, #21705).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from archsim.jit import callee

#: Columns of a mapped buffer: offset in its window and length (whole pages), tick of the last use, buffer id.
OFFSET, LENGTH, USED, BUFFER = range(4)
#: Which hole a buffer takes: the first or the smallest that holds it.
FIRST_FIT, BEST_FIT = range(2)
#: What makes room: the least or the most recently used buffer goes, or all that the batch at hand does not use.
EVICT_LRU, EVICT_MRU, DROP_UNUSED = range(3)
#: Kinds of events: a buffer was mapped, was unmapped, or changed its offset (it is unmapped and mapped again).
MAPPED, UNMAPPED, MOVED = range(3)

FITS = ("first", "best")
EVICTIONS = ("lru", "mru", "drop")


class Rules(NamedTuple):
    """How buffers are placed: window and page in bytes (the window whole pages), and the choices above."""

    window: int
    page: int
    slots: int  # buffers that can be mapped at a time, all sessions together
    fit: int
    evict: int
    compact: int  # 1: buffers are slid together before anything is evicted


@callee
def find_hole(table, count, session, rules, length):
    """Index and offset of the hole of `session` that takes `length` bytes, (-1, -1) when none does."""
    index, offset, least = -1, -1, rules.window + 1
    at = 0
    for i in range(count[session] + 1):
        end = rules.window if i == count[session] else table[session, i, OFFSET]
        if length <= end - at < least:
            index, offset, least = i, at, end - at
            if rules.fit == FIRST_FIT:
                break
        if i < count[session]:
            at = table[session, i, OFFSET] + table[session, i, LENGTH]
    return index, offset


@callee
def insert(table, count, session, index, offset, length, now, buffer):
    """Enter a mapped buffer before entry `index` of a session; entries stay in order of offset."""
    for i in range(count[session], index, -1):
        for c in range(4):
            table[session, i, c] = table[session, i - 1, c]
    table[session, index, OFFSET], table[session, index, LENGTH] = offset, length
    table[session, index, USED], table[session, index, BUFFER] = now, buffer
    count[session] += 1


@callee
def remove(table, count, session, index):
    """Take entry `index` of a session out; its bytes join the holes on both sides."""
    count[session] -= 1
    for i in range(index, count[session]):
        for c in range(4):
            table[session, i, c] = table[session, i + 1, c]


@callee
def locate(table, count, buffer):
    """Session and entry of a buffer, (-1, -1) when it is not mapped."""
    for session in range(count.size):
        for i in range(count[session]):
            if table[session, i, BUFFER] == buffer:
                return session, i
    return -1, -1


@callee
def note(events, at, kind, buffer, length, session):
    """Write one line of events; returns the next line."""
    events[at, 0], events[at, 1], events[at, 2], events[at, 3] = kind, buffer, length, session
    return at + 1


@callee
def slide(table, count, session, events, at):
    """Move the buffers of a session to its start, without holes; returns the next line of events."""
    offset = 0
    for i in range(count[session]):
        if table[session, i, OFFSET] != offset:
            table[session, i, OFFSET] = offset
            at = note(events, at, MOVED, table[session, i, BUFFER], table[session, i, LENGTH], session)
        offset += table[session, i, LENGTH]
    return at


@callee
def free_bytes(table, count, session, window):
    """Bytes of a session that no buffer holds."""
    free = window
    for i in range(count[session]):
        free -= table[session, i, LENGTH]
    return free


@callee
def make_room(table, count, rules, now, events, at):
    """Evict by the rules; buffers used at `now` stay. Returns the next line of events, the same one if none can go."""
    chosen, entry = -1, -1
    for session in range(count.size):
        for i in range(count[session] - 1, -1, -1):
            used = table[session, i, USED]
            if used == now:
                continue
            if rules.evict == DROP_UNUSED:
                at = note(events, at, UNMAPPED, table[session, i, BUFFER], table[session, i, LENGTH], session)
                remove(table, count, session, i)
                continue
            older = chosen < 0 or used < table[chosen, entry, USED]
            if chosen < 0 or older == (rules.evict == EVICT_LRU):
                chosen, entry = session, i
    if chosen >= 0:
        at = note(events, at, UNMAPPED, table[chosen, entry, BUFFER], table[chosen, entry, LENGTH], chosen)
        remove(table, count, chosen, entry)
    return at


@callee
def map_one(table, count, rules, buffer, length, now, events, at):
    """Map one buffer, making room if need be; returns (1 when mapped or else 0, next line of events)."""
    while True:
        total = 0
        for session in range(count.size):
            total += count[session]
        if total < rules.slots:
            for session in range(count.size):
                index, offset = find_hole(table, count, session, rules, length)
                if index >= 0:
                    insert(table, count, session, index, offset, length, now, buffer)
                    return 1, note(events, at, MAPPED, buffer, length, session)
            moved = 0
            if rules.compact == 1:
                for session in range(count.size):
                    if moved == 0 and free_bytes(table, count, session, rules.window) >= length:
                        at = slide(table, count, session, events, at)
                        moved = 1
            if moved == 1:
                continue
        after = make_room(table, count, rules, now, events, at)
        if after == at:
            return 0, at
        at = after


@callee
def excess_bytes(table, count, rules, needs):
    """Bytes by which what is mapped and what of `needs` is not would exceed the windows together."""
    total = 0
    for session in range(count.size):
        total -= free_bytes(table, count, session, rules.window)
    for i in range(needs.shape[0]):
        session, _ = locate(table, count, needs[i, 0])
        if session < 0:
            total += -(-needs[i, 1] // rules.page) * rules.page
    return total


@callee
def unmap_all(table, count, events, at):
    """Unmap every buffer of every session; returns the next line of events."""
    for session in range(count.size):
        for i in range(count[session] - 1, -1, -1):
            at = note(events, at, UNMAPPED, table[session, i, BUFFER], table[session, i, LENGTH], session)
        count[session] = 0
    return at


@njit(cache=True)
def touch(table, count, rules, needs, now, events):
    """Map all buffers of `needs` that are not mapped; all of them stay mapped together.

    Under :data:`DROP_UNUSED` room is made before anything is mapped when what is mapped and what is missing exceed the
    windows. Where those already mapped leave holes too small for the others, everything is unmapped and the needs are
    mapped anew, in order.

    Parameters
    ----------
    table : int64[sessions, entries, 4]
        Mapped buffers of each session in order of offset; changed in place.
    count : int64[sessions]
        Entries in use.
    rules : Rules
    needs : int64[n, 2]
        Buffer id (each once) and bytes; lengths are rounded up to whole pages.
    now : int
        Tick of this use, above all ticks before.
    events : int64[m, 4]
        Receives kind, buffer, length and session of what was done; room for ``2 (n + 1) (mapped + n + 1)`` lines.

    Returns
    -------
    tuple of int
        Lines of `events`, and the index of the first need that cannot be mapped beside the others (-1: none).
    """
    at = 0
    for i in range(needs.shape[0]):
        session, entry = locate(table, count, needs[i, 0])
        if session >= 0:
            table[session, entry, USED] = now
    if rules.evict == DROP_UNUSED and excess_bytes(table, count, rules, needs) > 0:
        at = make_room(table, count, rules, now, events, at)
    anew = 0
    i = 0
    while i < needs.shape[0]:
        session, _ = locate(table, count, needs[i, 0])
        if session < 0:
            length = -(-needs[i, 1] // rules.page) * rules.page
            mapped, at = map_one(table, count, rules, needs[i, 0], length, now, events, at)
            if mapped == 0 and anew == 1:
                return at, i
            if mapped == 0:
                at = unmap_all(table, count, events, at)
                anew, i = 1, -1
        i += 1
    return at, -1


def map_ps(nbytes: np.ndarray, ps_per_gib: int) -> np.ndarray:
    """Host time to map `nbytes` (int64 columns, below 2**42) at a price per GiB, in ps, rounded up."""
    mib = nbytes >> 20
    return (mib * ps_per_gib >> 10) + -(-((nbytes & 0xFFFFF) * ps_per_gib + ((mib * ps_per_gib & 1023) << 20)) >> 30)


class Changes(NamedTuple):
    """What a use of buffers changed: calls and bytes mapped (moved ones included), and unmapped.

    `failed` is the index of a buffer that cannot be mapped beside the others; nothing has changed then. Else it is -1.
    """

    map_calls: int
    mapped_bytes: int
    unmap_calls: int
    unmapped_bytes: int
    failed: int


class AddressWindows:
    """The windows of some sessions, and what is mapped in them.

    Parameters
    ----------
    window_bytes, page_bytes : int
        Of each session; the window is cut to whole pages.
    sessions : int
        Windows.
    buffers : int
        Buffer ids are below this.
    slots : int
        Buffers that can be mapped at a time.
    fit, evict : str
        One of :data:`FITS` and :data:`EVICTIONS`.
    compact : bool
        Slide buffers together before evicting any.
    """

    def __init__(
        self,
        window_bytes: int,
        page_bytes: int,
        sessions: int,
        buffers: int,
        *,
        slots: int,
        fit: str = "first",
        evict: str = "lru",
        compact: bool = False,
    ) -> None:
        self.rules = Rules(
            window_bytes // page_bytes * page_bytes,
            page_bytes,
            slots,
            FITS.index(fit),
            EVICTIONS.index(evict),
            int(compact),
        )
        self._table = np.zeros((sessions, buffers + 1, 4), dtype=np.int64)
        self._count = np.zeros(sessions, dtype=np.int64)
        self._now = 0

    def touch(self, needs: np.ndarray) -> Changes:
        """Use buffers together: `needs` is int64 [n, 2] of buffer id (each once) and bytes."""
        before = self.snapshot()
        self._now += 1
        lines = 2 * (len(needs) + 1) * (int(self._count.sum()) + len(needs) + 1)
        events = np.zeros((lines, 4), dtype=np.int64)
        made, failed = touch(self._table, self._count, self.rules, needs, self._now, events)
        if failed >= 0:
            self.restore(before)
            return Changes(0, 0, 0, 0, int(failed))
        kind, length = events[:made, 0], events[:made, 2]
        new, gone, moved = (kind == MAPPED), (kind == UNMAPPED), (kind == MOVED)
        return Changes(
            int((new | moved).sum()),
            int(length[new | moved].sum()),
            int((gone | moved).sum()),
            int(length[gone | moved].sum()),
            -1,
        )

    @property
    def total_bytes(self) -> int:
        """Bytes of all windows."""
        return self.rules.window * len(self._count)

    @property
    def level_bytes(self) -> int:
        """Bytes mapped, all sessions together."""
        return sum(int(self._table[s, : self._count[s], LENGTH].sum()) for s in range(len(self._count)))

    @property
    def free_bytes(self) -> int:
        """Bytes not mapped, all sessions together."""
        return self.total_bytes - self.level_bytes

    @property
    def largest_hole_bytes(self) -> int:
        """Largest buffer that would find a hole now."""
        largest = 0
        for s, n in enumerate(self._count.tolist()):
            starts = np.append(self._table[s, :n, OFFSET], self.rules.window)
            ends = np.insert(self._table[s, :n, OFFSET] + self._table[s, :n, LENGTH], 0, 0)
            largest = max(largest, int((starts - ends).max()))
        return largest

    def mapped(self) -> list[list[tuple[int, int, int]]]:
        """For each session the (offset, length, buffer id) of its mapped buffers, in order of offset."""
        return [
            [(int(e[OFFSET]), int(e[LENGTH]), int(e[BUFFER])) for e in self._table[s, :n]]
            for s, n in enumerate(self._count.tolist())
        ]

    def digest(self) -> bytes:
        """What later uses depend on: equal digests meet equal fates. Of the ticks only their order counts."""
        parts = [self._table[s, :n] for s, n in enumerate(self._count.tolist())]
        entries = np.concatenate(parts) if parts else np.zeros((0, 4), dtype=np.int64)
        order = np.unique(entries[:, USED], return_inverse=True)[1].astype(np.int64)
        return self._count.tobytes() + entries[:, [OFFSET, LENGTH, BUFFER]].tobytes() + order.tobytes()

    def snapshot(self) -> tuple[np.ndarray, np.ndarray, int]:
        """State to return to with :meth:`restore`."""
        return self._table.copy(), self._count.copy(), self._now

    def restore(self, state: tuple[np.ndarray, np.ndarray, int]) -> None:
        """Return to a state that :meth:`snapshot` gave."""
        self._table, self._count, self._now = state[0].copy(), state[1].copy(), state[2]
