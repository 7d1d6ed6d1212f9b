"""Chips and channels of the flash device in plain Python; see the module ``oracle``."""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass, field

import numpy as np

from archsim.devices.flash.geometry import SsdSpec
from archsim.devices.flash.tables import Config, Tables

READS = ("read", "update", "gc_read", "map_read", "ahead")


@dataclass(eq=False)
class Request:
    """A request and its progress."""

    time: int
    write: int
    sector: int
    sectors: int
    started: int = 0
    left: int = 0
    pages: list = field(default_factory=list)  # (logical page, sector bitmap)
    link_ns: int = 0
    head: int = 0


@dataclass(eq=False)
class Page:
    """One page's operation at a chip."""

    kind: str
    logical: int
    sectors: int = 0
    request: Request | None = None
    plane: Plane | None = None
    block: Block | None = None
    page: int = 0
    data: int = 0
    link: Page | None = None
    waits: bool = False


@dataclass(eq=False)
class Block:
    """A block; ``owner`` has the logical page written to each of its pages."""

    number: int
    stamp: int
    state: str = "free"
    owner: list = field(default_factory=list)
    invalid: int = 0
    erases: int = 0
    reads: int = 0
    programs: int = 0
    collected: bool = False
    moves: int = 0


@dataclass(eq=False)
class Chip:
    """A scheduling unit with its queues."""

    number: int
    busy: bool = False
    command: list = field(default_factory=list)
    left: int = 0
    queues: dict = field(default_factory=lambda: {name: [] for name in QUEUES})
    urgent: int = 0


@dataclass(eq=False)
class Channel:
    """A bus: its owner, whose turn it is, and read data that wait."""

    chips: list
    busy: bool = False
    moving: Page | None = None
    sender: Chip | None = None
    turn: int = 0
    waiting: dict = field(default_factory=lambda: {"map_read": deque(), "host": deque(), "gc_read": deque()})


@dataclass(eq=False)
class Plane:
    """A plane: its blocks, open ones first for the host and for collection."""

    chip: Chip
    die: int
    bit: int
    blocks: list
    user: Block
    gc: Block | None
    free: int
    stamp: int
    running: int = 0
    reserved: int = 0
    waiting: deque = field(default_factory=deque)


QUEUES = ("map_read", "read", "gc_read", "write", "gc_write", "erase", "map_write")
COMMANDS = ("read", "multiplane_read", "program", "multiplane_program", "erase", "multiplane_erase")


class Chips:
    """Events, and chips that take commands over channels; what a page's end means is the subclass's.

    Parameters
    ----------
    spec : SsdSpec
    config, lookup : Config and Tables
        Kernel view of the spec.
    depth : int
        Requests outstanding in a closed loop; 0: requests have their own times.
    random : int64[6]
        Start state of the stream of garbage collection.
    """

    def __init__(self, spec: SsdSpec, config: Config, lookup: Tables, depth: int, random: np.ndarray) -> None:
        self.c, self.t, self.depth, self.random = config, lookup, depth, random
        self.logical_pages = spec.logical_pages
        self.events: list = []
        self.order, self.now = 0, 0
        self.chips = [Chip(number) for number in range(config.units)]
        self.channels = [
            Channel(self.chips[first : first + config.chips]) for first in range(0, config.units, config.chips)
        ]
        self.planes = [self._plane(number) for number in range(config.total_planes)]
        self.commands = dict.fromkeys(COMMANDS, 0)

    def _plane(self, number: int) -> Plane:
        blocks = [Block(index, index) for index in range(self.c.blocks)]
        for block in blocks[:3]:
            block.state = "open"
        chip = self.chips[self.t.unit[number]]
        place = int(self.t.die[number]), 1 << int(self.t.plane[number])
        return Plane(chip, *place, blocks, blocks[0], blocks[2], len(blocks) - 3, len(blocks))

    def at(self, time: int, action, *values, start: int | None = None) -> None:
        """Schedule an action at the end of something that begins now, or at `start`."""
        start = self.now if start is None else start
        heapq.heappush(self.events, (int(time), start, self.order, action, values))
        self.order += 1

    def choose(self, chip: Chip) -> tuple[str, str] | None:
        """Queue to serve and queue that may join."""
        q, urgent = chip.queues, chip.urgent > 0
        if q["map_read"]:
            return "map_read", "gc_read" if urgent and q["gc_read"] else "read"
        if q["read"] and not urgent:
            return "read", "gc_read"
        if q["gc_read"] and (urgent or not q["write"]):
            return "gc_read", "read"
        if q["read"] and not q["gc_write"] and not q["erase"]:
            return "read", ""
        if urgent and q["gc_write"]:
            return "gc_write", "write"
        if q["write"] and not (urgent and q["erase"]):
            return "write", "gc_write"
        return next(((name, "") for name in ("gc_write", "erase", "map_write") if q[name]), None)

    def ask_chip(self, channel: Channel, chip: Chip) -> None:
        """Offer the channel to a chip."""
        choice = None if chip.busy else self.choose(chip)
        if not choice:
            return
        first, second = choice
        head = chip.queues[first][0]
        command: list[Page] = []
        for name in (first, second):
            for page in list(chip.queues.get(name, ())):
                free = not any(other.plane.bit == page.plane.bit for other in command)
                if (
                    not page.waits
                    and page.plane.die == head.plane.die
                    and free
                    and (not command or page.page == head.page)
                ):
                    command.append(page)
                    chip.queues[name].remove(page)
        if command:
            self.start(channel, chip, command)

    def start(self, channel: Channel, chip: Chip, command: list[Page]) -> None:
        """Send a command to a chip."""
        kind, count = command[0].kind, len(command)
        group = "read" if kind in READS else "erase" if kind == "erase" else "program"
        self.commands["multiplane_" * (count > 1) + group] += 1
        time = {"read": self.t.read_ns, "program": self.t.program_cmd_ns, "erase": self.t.erase_cmd_ns}[group][count]
        if group == "program":
            time += sum(page.data for page in command)
        chip.busy, chip.command, chip.left = True, command, count
        channel.busy, channel.sender = True, chip
        array = {"read": self.t.array_ns[command[0].page], "program": self.c.program_ns, "erase": self.c.erase_ns}[
            group
        ]
        sent = self.now + time
        self.at(sent, self.release, channel)
        self.at(sent + array, self.array_done, channel, chip, group, start=sent)

    def array_done(self, channel: Channel, chip: Chip, group: str) -> None:
        """Array operation is over."""
        if group == "read":
            for page in chip.command:
                if channel.busy:
                    channel.waiting[page.kind if page.kind in ("map_read", "gc_read") else "host"].append(page)
                else:
                    self.transfer(channel, page)
            return
        queued = [flag for page in chip.command for flag in self.serviced(page)]
        self.ask_all(queued)
        chip.busy = False
        if not channel.busy:
            self.ask(channel)

    def transfer(self, channel: Channel, page: Page) -> None:
        """Move the data of a page."""
        channel.busy = True
        self.at(self.now + page.data, self.page_arrived, channel, page)

    def page_arrived(self, channel: Channel, page: Page) -> None:
        """Data of a page are in the controller."""
        chip = page.plane.chip
        self.ask_all(self.serviced(page))
        chip.left -= 1
        if chip.left == 0:
            chip.busy = False
        self.release(channel)

    def release(self, channel: Channel) -> None:
        """Channel falls free."""
        channel.busy = False
        if self.c.commands_first:
            self.ask(channel)
        for waiting in channel.waiting.values():
            if waiting and not channel.busy:
                self.transfer(channel, waiting.popleft())
        if not channel.busy and not self.c.commands_first:
            self.ask(channel)

    def ask(self, channel: Channel) -> None:
        """Offer the channel to its chips in turn."""
        if not any(chip.queues[name] for chip in channel.chips for name in QUEUES):
            return
        for _ in channel.chips:
            chip = channel.chips[channel.turn]
            channel.turn = (channel.turn + 1) % len(channel.chips)
            self.ask_chip(channel, chip)
            if channel.busy:
                return

    def ask_all(self, queued: list[bool]) -> None:
        """Offer all free channels when anything was queued."""
        if any(queued):
            for channel in self.channels:
                if not channel.busy:
                    self.ask(channel)

    def serviced(self, page: Page) -> list[bool]:
        """End of an operation; tells what it queued."""
        raise TypeError(f"{type(self).__name__} does not say what ends with {page.kind}")
