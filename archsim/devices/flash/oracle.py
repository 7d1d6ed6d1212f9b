"""Flash device in plain Python: the rules of the kernel, written to be read; a test holds the kernel to it bit for bit.

Objects and a heap of events take the place of rows and slots; nothing is made fast. For what the rules are and where
they come from see the modules ``nand``, ``translation``, ``collection``, ``host`` and ``controller``.
"""

from __future__ import annotations

import heapq
from collections import deque

import numpy as np

from archsim.devices.flash.geometry import SECTOR_BYTES
from archsim.devices.flash.oracle_chips import Page, Request
from archsim.devices.flash.oracle_pages import Pages
from archsim.devices.flash.tables import message_ns


class Oracle(Pages):
    """A device with its host, run once; for the arguments see :class:`archsim.devices.flash.oracle_chips.Chips`."""

    def __init__(self, *arguments) -> None:
        super().__init__(*arguments)
        self.link = {"down": 0, "up": 0}  # when a direction is free
        self.queue, self.waiting, self.core = deque(), deque(), deque()
        self.tail = self.head_seen = self.device_tail = self.device_head = self.taken = self.in_device = 0
        self.firmware_queue, self.current, self.at_page = deque(), None, 0
        self.sequential, self.last_end, self.ahead_next = False, -1, 0
        self.buffers: dict[int, list] = {}  # slot -> [page, arrived, waiting requests]
        self.slots = 1 << max(0, 4 * self.c.ahead - 1).bit_length()
        self.responses: list[int] = []

    def run(self, rows: np.ndarray) -> list[int]:
        """Responses in ns, in order of completion, of requests int64[n, 4] (time, write, first sector, sectors)."""
        self.source = deque(Request(*map(int, row)) for row in rows)
        self.at(self.source[0].time if not self.depth else 1, self.arrive)
        while self.events:
            self.now, _, _, action, values = heapq.heappop(self.events)
            action(*values)
        self.now = max(self.now, *self.link.values())
        return self.responses

    def arrive(self) -> None:
        """First requests of a closed loop, or the next one of a source with times."""
        if self.depth:
            for _ in range(min(self.depth, len(self.source))):
                self.submit()
            return
        self.submit()
        if self.source:
            self.at(max(self.now, self.source[0].time), self.arrive)

    def submit(self) -> None:
        """Next request of the source, by way of the core when that takes time."""
        request = self.source.popleft()
        request.started = self.now
        if self.c.issue_ns + self.c.issue_page_ns == 0:
            self.enqueue(request)
            return
        self.core.append(request)
        if len(self.core) == 1:
            self.at(self.now + self.core_ns(request), self.issued)

    def core_ns(self, request: Request) -> int:
        """Time of the core for a request."""
        return self.c.issue_ns + self.c.issue_page_ns * -(-request.sectors // 8)

    def issued(self) -> None:
        """Core is through with a request."""
        self.enqueue(self.core.popleft())
        if self.core:
            self.at(self.now + self.core_ns(self.core[0]), self.issued)

    def enqueue(self, request: Request) -> None:
        """Into the submission queue, if it has room."""
        if self.tail - self.head_seen >= self.c.host_queue - 1:
            self.waiting.append(request)
            return
        if self.c.issue_ns + self.c.issue_page_ns == 0:
            request.started = self.now
        self.queue.append(request)
        self.tail += 1
        self.send("down", self.c.doorbell_ns, self.bell)

    def send(self, way: str, duration: int, action=None, *values) -> None:
        """Message on the link, behind those that are on it; without an action it only takes its time."""
        start = max(self.now, self.link[way])
        self.link[way] = start + duration
        if action:
            self.at(self.link[way], action, *values, start=start)

    def bell(self) -> None:
        """Device learns of a request."""
        self.device_tail += 1
        if self.in_device < self.c.device_queue:
            self.fetch()

    def fetch(self) -> None:
        """Device asks for the next entry."""
        self.in_device += 1
        self.device_head += 1
        self.send("up", self.c.fetch_ns, self.send_entry)

    def send_entry(self) -> None:
        """Host sends the next entry."""
        self.send("down", self.c.entry_ns, self.entry, self.queue.popleft())

    def entry(self, request: Request) -> None:
        """Entry is at the device."""
        self.taken += 1
        sectors, first = self.c.sectors, request.sector // self.c.sectors
        last = (request.sector + request.sectors - 1) // sectors
        for page in range(first, last + 1):
            low, high = max(request.sector, page * sectors), min(request.sector + request.sectors, (page + 1) * sectors)
            request.pages.append((page, ((1 << (high - low)) - 1) << (low - page * sectors)))
        request.left = len(request.pages)
        request.link_ns = message_ns(request.sectors * SECTOR_BYTES, self.c)
        if request.write:
            self.send("up", self.c.fetch_ns, self.send_write, request)
            return
        if self.c.data_by_page:
            request.link_ns = -(-request.link_ns // request.left)
        self.arrived(request)

    def send_write(self, request: Request) -> None:
        """Host sends the data of a write."""
        self.send("down", request.link_ns, self.arrived, request)

    def completed(self, request: Request) -> None:
        """Completion is at the host."""
        self.responses.append(self.now - request.started)
        self.head_seen = request.head
        if self.waiting and self.tail - self.head_seen < self.c.host_queue - 1:
            self.enqueue(self.waiting.popleft())
        self.send("down", self.c.doorbell_ns)
        if not self.depth or not self.source:
            return
        if self.c.response_ns == 0:
            self.submit()
        else:
            self.at(self.now + self.c.response_ns, self.woken)

    def woken(self) -> None:
        """Thread issues its next request."""
        if self.source:
            self.submit()

    def arrived(self, request: Request) -> None:
        """Request, and the data of a write, is at the device."""
        if self.c.command_ns + self.c.translate_ns + self.c.ahead:
            self.firmware_queue.append(request)
            if self.current is None:
                self.firmware_next()
            return
        self.ask_all([self.locate(self.page(request, index)) for index in range(request.left)])

    def page(self, request: Request, index: int) -> Page:
        """Operation for a page of a request."""
        logical, sectors = request.pages[index]
        return Page("write" if request.write else "read", logical, sectors, request)

    def firmware_next(self) -> None:
        """Firmware starts on the next request."""
        self.current = self.firmware_queue.popleft() if self.firmware_queue else None
        if self.current:
            self.at_page = 0
            self.sequential = self.current.sector == self.last_end
            self.last_end = self.current.sector + self.current.sectors
            self.at(self.now + self.page_ns(), self.firmware)

    def page_ns(self) -> int:
        """Firmware's time for the page it is at."""
        time = self.c.command_ns if self.at_page == 0 else 0
        if not self.sequential:
            count = self.current.pages[self.at_page][1].bit_count()
            time += self.c.translate_ns * -(-count // (1 << self.c.map_shift))
        return time

    def firmware(self) -> None:
        """Firmware is through with a page."""
        request, queued, time = self.current, [], 0
        ahead = self.sequential and self.c.ahead and not request.write
        pages = len(request.pages)
        while time == 0 and self.at_page < pages:
            step = self.buffered if ahead else lambda r, i: self.locate(self.page(r, i))
            queued.append(step(request, self.at_page))
            self.at_page += 1
            if self.at_page < pages:
                time = self.page_ns()
        if time:
            self.at(self.now + time, self.firmware)
        else:
            if ahead:
                queued += self.read_ahead(request.pages[-1][0])
            self.firmware_next()
        self.ask_all(queued)

    def read_ahead(self, last: int) -> list[bool]:
        """Fill buffers with the pages after `last`."""
        if not last < self.ahead_next <= last + 1 + self.c.ahead:
            self.ahead_next = last + 1
        queued = []
        while self.ahead_next <= min(last + self.c.ahead, self.logical_pages - 1):
            buffer = self.buffers.get(self.ahead_next % self.slots, [-1, True, []])
            if buffer[0] != self.ahead_next:
                if buffer[0] >= 0 and not buffer[1]:
                    break
                queued.append(self.load(self.ahead_next, []))
            self.ahead_next += 1
        return queued

    def load(self, page: int, waiting: list) -> bool:
        """Read a page into its buffer."""
        self.buffers[page % self.slots] = [page, False, waiting]
        return self.locate(Page("ahead", page, (1 << self.c.sectors) - 1))

    def buffered(self, request: Request, index: int) -> bool:
        """Serve a page of a sequential reader."""
        page = request.pages[index][0]
        held, there, waiting = self.buffers.get(page % self.slots, [-1, True, []])
        if held == page and there:
            self.served(request)
            return False
        if held >= 0 and held != page and not there:
            return self.locate(self.page(request, index))
        if held == page:
            waiting.append(request)
            return False
        return self.load(page, [request])

    def served(self, request: Request) -> None:
        """One page of a request is done."""
        by_page = self.c.data_by_page and not request.write
        if by_page:
            self.send("up", request.link_ns)
        request.left -= 1
        if request.left:
            return
        self.in_device -= 1
        request.head = self.taken
        if not request.write and not by_page:
            self.send("up", request.link_ns)
        if self.device_head != self.device_tail:
            self.fetch()
        self.send("up", self.c.completion_ns, self.completed, request)

    def serviced(self, page: Page) -> list[bool]:
        """End of an operation; tells what it queued."""
        if page.kind == "gc_read":
            self.rewrite(page)
            return [True]
        if page.kind == "gc_write":
            return self.moved(page)
        if page.kind == "map_read":
            return self.segment_arrived(page.logical)
        if page.kind == "erase":
            return self.erased(page)
        if page.kind == "map_write":
            self.writing.remove(page.logical)
            return []
        if page.kind == "update":
            page.link.waits = False
        elif page.kind == "ahead":
            buffer = self.buffers[page.logical % self.slots]
            buffer[1] = True
            waiting, buffer[2] = buffer[2], []
            for request in waiting:
                self.served(request)
        else:
            self.served(page.request)
        if page.kind == "write":
            page.block.programs -= 1
            buffer = self.buffers.get(page.logical % self.slots)
            if buffer and buffer[0] == page.logical and buffer[1]:
                del self.buffers[page.logical % self.slots]
        else:
            page.block.reads -= 1
        if page.block.reads + page.block.programs:
            return []
        if page.block.collected:
            return [self.move(page.plane, page.block)]
        return [self.collect(page.plane, True)] if page.plane.waiting and page.plane.running == 0 else []
