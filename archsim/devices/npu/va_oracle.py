"""The address windows again, page by page: the slow reference that the kernel must equal.

Each window is a list with the buffer id of every page. Nothing is shared with :mod:`archsim.devices.npu.va` but the
names of rules and events.
"""

from __future__ import annotations

from archsim.devices.npu.va import BEST_FIT, DROP_UNUSED, EVICT_LRU, MAPPED, MOVED, UNMAPPED, Rules

Event = tuple[int, int, int, int]
FREE = -1


class PagedWindows:
    """Windows as lists of pages.

    Parameters
    ----------
    rules : Rules
        As the kernel takes them.
    sessions : int
        Windows.
    """

    def __init__(self, rules: Rules, sessions: int) -> None:
        self.rules = rules
        self.pages = [[FREE] * (rules.window // rules.page) for _ in range(sessions)]
        self.used: dict[int, int] = {}

    def buffers(self, session: int) -> list[int]:
        """Ids in order of address."""
        return list(dict.fromkeys(page for page in self.pages[session] if page != FREE))

    def mapped(self) -> list[list[tuple[int, int, int]]]:
        """As :meth:`archsim.devices.npu.va.AddressWindows.mapped`."""
        size = self.rules.page
        return [[(p.index(b) * size, p.count(b) * size, b) for b in self.buffers(s)] for s, p in enumerate(self.pages)]

    def holes(self, session: int) -> list[tuple[int, int]]:
        """First page and pages of each hole, in order of address."""
        found: list[tuple[int, int]] = []
        for i, page in enumerate(self.pages[session]):
            if page == FREE and i and self.pages[session][i - 1] == FREE:
                found[-1] = (found[-1][0], found[-1][1] + 1)
            elif page == FREE:
                found.append((i, 1))
        return found

    def touch(self, needs: list[tuple[int, int]], now: int) -> tuple[list[Event], int]:
        """Events of using buffers together, and the index of one that cannot be mapped (-1: none)."""
        events: list[Event] = []
        for buffer, _ in needs:
            if buffer in self.used:
                self.used[buffer] = now
        free = sum(line.count(FREE) for line in self.pages)
        missing = sum(-(-nbytes // self.rules.page) for buffer, nbytes in needs if buffer not in self.used)
        if self.rules.evict == DROP_UNUSED and missing > free:
            self._drop([b for b in self._order() if self.used[b] != now], events)
        for anew in (False, True):
            failed = -1
            for i, (buffer, nbytes) in enumerate(needs):
                if buffer not in self.used and not self._map(buffer, -(-nbytes // self.rules.page), now, events):
                    failed = i
                    break
            if failed < 0 or anew:
                return events, failed
            self._drop(self._order(), events)
        return events, failed

    def _map(self, buffer: int, pages: int, now: int, events: list[Event]) -> bool:
        while not self._place(buffer, pages, now, events):
            gone = [(tick, b) for b, tick in self.used.items() if tick != now]
            if not gone:
                return False
            free = [b for b in self._order() if self.used[b] != now]
            if self.rules.evict == EVICT_LRU:
                free = [min(free, key=lambda b: self.used[b])]
            elif self.rules.evict != DROP_UNUSED:
                free = [max(reversed(free), key=lambda b: self.used[b])]
            self._drop(free, events)
        return True

    def _order(self) -> list[int]:
        """All buffers, by session and then from the highest address down."""
        return [buffer for session in range(len(self.pages)) for buffer in reversed(self.buffers(session))]

    def _place(self, buffer: int, pages: int, now: int, events: list[Event]) -> bool:
        if len(self.used) >= self.rules.slots:
            return False
        for attempt in range(2):
            for session, line in enumerate(self.pages):
                fitting = [hole for hole in self.holes(session) if hole[1] >= pages]
                if self.rules.fit == BEST_FIT:
                    fitting.sort(key=lambda hole: hole[1])
                if fitting:
                    at = fitting[0][0]
                    line[at : at + pages] = [buffer] * pages
                    self.used[buffer] = now
                    events.append((MAPPED, buffer, pages * self.rules.page, session))
                    return True
            roomy = [s for s, line in enumerate(self.pages) if line.count(FREE) >= pages]
            if attempt or not self.rules.compact or not roomy:
                return False
            self._slide(roomy[0], events)
        return False

    def _slide(self, session: int, events: list[Event]) -> None:
        line, place = self.pages[session], 0
        for buffer in self.buffers(session):
            if line.index(buffer) != place:
                events.append((MOVED, buffer, line.count(buffer) * self.rules.page, session))
            place += line.count(buffer)
        kept = [page for page in line if page != FREE]
        self.pages[session] = kept + [FREE] * (len(line) - len(kept))

    def _drop(self, buffers: list[int], events: list[Event]) -> None:
        for buffer in buffers:
            for session, line in enumerate(self.pages):
                if buffer in line:
                    events.append((UNMAPPED, buffer, line.count(buffer) * self.rules.page, session))
                    self.pages[session] = [FREE if page == buffer else page for page in line]
            del self.used[buffer]
