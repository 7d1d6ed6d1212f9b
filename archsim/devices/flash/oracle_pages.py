"""Translation and garbage collection of the flash device in plain Python; see the module ``oracle``."""

from __future__ import annotations

from archsim.devices.flash.oracle_chips import Block, Chips, Page, Plane
from archsim.devices.flash.random import draw


class Pages(Chips):
    """Logical pages, their places, and the blocks that hold them."""

    def __init__(self, *arguments) -> None:
        super().__init__(*arguments)
        self.map: dict[int, tuple[Block, int]] = {}
        self.held: dict[int, int] = {}
        self.locked: set[int] = set()
        self.barrier: list[Page] = []
        self.cached: dict[int, int] = {}
        self.changed: set[int] = set()
        self.writing: set[int] = set()
        self.fetching: dict[int, list[Page]] = {}
        self.clock = 0

    def locate(self, page: Page) -> bool:
        """Translate a page and queue it; tells whether anything was queued."""
        plane = self.planes[page.logical % self.c.total_planes]
        segment = page.logical >> self.c.segment_shift
        if self.c.segment_slots:
            if segment not in self.cached:
                return self.fetch_segment(segment, page)
            self.clock += 1
            self.cached[segment] = self.clock
            if page.kind == "write":
                self.changed.add(segment)
        if page.logical in self.locked:
            self.barrier.append(page)
            return False
        fresh = page.logical not in self.map
        if (fresh or page.kind == "write") and not self.has_space(plane):
            plane.waiting.append(page)
            return plane.running == 0 and self.collect(plane, True)
        if page.kind == "write":
            return self.write(page, plane)
        if fresh:
            self.map[page.logical] = self.next_page(plane, "user", page.logical)
            self.held[page.logical] = page.sectors
        self.aim(page, plane, *self.map[page.logical])
        page.block.reads += 1
        page.data = self.t.data_ns[page.sectors.bit_count()]
        plane.chip.queues["read"].append(page)
        if fresh:
            self.filled(plane, page.page)
        return True

    def write(self, page: Page, plane: Plane) -> bool:
        """Give a write its new page."""
        update = None
        if page.logical in self.map:
            block, index = self.map[page.logical]
            missing = self.held[page.logical] & ~page.sectors
            if missing:
                update = Page("update", page.logical, missing, page.request, link=page)
                self.aim(update, plane, block, index)
                block.reads += 1
                update.data = self.t.data_ns[missing.bit_count()]
                page.waits = True
            block.invalid += 1
        self.map[page.logical] = self.next_page(plane, "user", page.logical)
        self.held[page.logical] = self.held.get(page.logical, 0) | page.sectors
        self.aim(page, plane, *self.map[page.logical])
        page.block.programs += 1
        page.data = self.t.data_ns[page.sectors.bit_count()]
        plane.chip.queues["write"].append(page)
        if update:
            plane.chip.queues["read"].append(update)
        self.filled(plane, page.page)
        return True

    @staticmethod
    def aim(page: Page, plane: Plane, block: Block, index: int) -> None:
        """Aim an operation at a physical page."""
        page.plane, page.block, page.page = plane, block, index

    def filled(self, plane: Plane, index: int) -> None:
        """Collect when a block is full and few are free."""
        if index + 1 == self.c.pages_per_block and plane.free < self.c.gc_threshold:
            self.collect(plane, False)

    def fetch_segment(self, segment: int, page: Page) -> bool:
        """Wait for a mapping page."""
        waiting = self.fetching.setdefault(segment, [])
        waiting.append(page)
        if len(waiting) > 1:
            return False
        self.map_operation("map_read", segment)
        return True

    def map_operation(self, kind: str, segment: int) -> None:
        """Read or write a mapping page."""
        page = Page(kind, segment, data=self.c.map_data_ns)
        plane = self.planes[segment % self.c.total_planes]
        self.aim(page, plane, plane.blocks[0], 0)
        plane.chip.queues[kind].append(page)

    def segment_arrived(self, segment: int) -> list[bool]:
        """Mapping page is in the cache."""
        queued = []
        if len(self.cached) == self.c.segment_slots:
            victim = min(self.cached, key=self.cached.get)
            del self.cached[victim]
            if victim in self.changed and victim not in self.writing:
                self.writing.add(victim)
                self.map_operation("map_write", victim)
                queued.append(True)
            self.changed.discard(victim)
        self.clock += 1
        self.cached[segment] = self.clock
        return queued + [self.locate(page) for page in self.fetching.pop(segment)]

    def free_changed(self, plane: Plane, step: int) -> None:
        """Count free blocks and planes nearly out of them."""
        before = plane.free < self.c.gc_hard
        plane.free += step
        plane.chip.urgent += (plane.free < self.c.gc_hard) - before

    def take_block(self, plane: Plane) -> Block | None:
        """Open the free block with the fewest erases."""
        free = [block for block in plane.blocks if block.state == "free"]
        if not free:
            return None
        block = min(free, key=lambda block: (block.erases, block.stamp))
        block.state = "open"
        self.free_changed(plane, -1)
        return block

    def next_page(self, plane: Plane, frontier: str, logical: int) -> tuple[Block, int]:
        """Hand out the next page of an open block."""
        block = getattr(plane, frontier)
        block.owner.append(logical)
        index = len(block.owner) - 1
        if len(block.owner) == self.c.pages_per_block:
            block.state = "full"
            setattr(plane, frontier, self.take_block(plane))
        return block, index

    def room(self, plane: Plane) -> int:
        """Pages collection can still write."""
        room = plane.free * self.c.pages_per_block - plane.reserved
        return room + (self.c.pages_per_block - len(plane.gc.owner) if plane.gc else 0)

    def has_space(self, plane: Plane) -> bool:
        """Whether the host may take a page."""
        return plane.free >= self.c.write_stop and self.room(plane) >= self.c.pages_per_block

    def collect(self, plane: Plane, needed: bool) -> bool:
        """Start a collection."""
        if plane.running >= self.c.gc_per_plane:
            return False
        greedy = needed or plane.free <= self.c.write_stop
        tries = (
            plane.blocks
            if greedy
            else [plane.blocks[int(draw(self.random) * self.c.blocks)] for _ in range(self.c.gc_sample)]
        )
        best = None
        for block in tries:
            idle = block.state == "full" and not block.programs and not block.collected
            if idle and block.invalid > (best.invalid if best else 0):
                best = block
        if best is None or self.c.pages_per_block - best.invalid > self.room(plane):
            return False
        best.moves = self.c.pages_per_block - best.invalid
        plane.running += 1
        plane.reserved += best.moves
        best.collected = True
        self.locked |= {logical for index, logical in enumerate(best.owner) if self.map.get(logical) == (best, index)}
        return best.reads == 0 and self.move(plane, best)

    def move(self, plane: Plane, block: Block) -> bool:
        """Queue the moves of a block and its erase."""
        erase = Page("erase", -1)
        self.aim(erase, plane, block, 0)
        for index, logical in enumerate(block.owner):
            if self.map.get(logical) == (block, index):
                page = Page("gc_read", logical, data=self.t.data_ns[self.c.sectors], link=erase)
                self.aim(page, plane, block, index)
                plane.chip.queues["gc_read"].append(page)
        erase.waits = block.moves > 0
        plane.chip.queues["erase"].append(erase)
        return True

    def rewrite(self, page: Page) -> None:
        """Write a page that is moved."""
        plane = page.plane
        page.block.invalid += 1
        if plane.gc is None:
            plane.gc = self.take_block(plane)
        self.map[page.logical] = self.next_page(plane, "gc", page.logical)
        self.aim(page, plane, *self.map[page.logical])
        page.block.programs += 1
        plane.reserved -= 1
        page.kind = "gc_write"
        plane.chip.queues["gc_write"].append(page)

    def moved(self, page: Page) -> list[bool]:
        """Page is at its new place."""
        self.locked.discard(page.logical)
        page.block.programs -= 1
        source = page.link.block
        source.moves -= 1
        if source.moves == 0:
            page.link.waits = False
        waiting = [other for other in self.barrier if other.logical == page.logical]
        self.barrier = [other for other in self.barrier if other.logical != page.logical]
        return [self.locate(other) for other in waiting]

    def erased(self, page: Page) -> list[bool]:
        """Block is free again."""
        plane, block = page.plane, page.block
        block.state, block.owner, block.invalid, block.collected = "free", [], 0, False
        block.erases += 1
        block.stamp = plane.stamp
        plane.stamp += 1
        plane.running -= 1
        self.free_changed(plane, 1)
        queued = []
        while plane.waiting and self.has_space(plane):
            queued.append(self.locate(plane.waiting.popleft()))
        if plane.waiting and plane.running == 0:
            queued.append(self.collect(plane, True))
        return queued
