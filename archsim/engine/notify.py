"""The notify phase: processes whose wait is over run, by ascending id.

What a process does takes effect at once, and whom it wakes runs in the next round.
"""

from __future__ import annotations

import heapq
from collections.abc import Generator
from typing import Any

from archsim.engine import core
from archsim.engine.errors import SimError, TimeRangeError, ZeroTimeLoopError
from archsim.engine.handle import Handle
from archsim.engine.process import AllOf, AnyOf, Leaf, Outcome, Process, Signal, Timer, Waitable, subscribe
from archsim.engine.window import Window


class Processes:
    """Processes of a simulation, and the timers and rows that they wait for.

    Parameters
    ----------
    window : Window
        Says what time it is and which rows have ended.
    """

    def __init__(self, window: Window) -> None:
        self.window = window
        self.processes: list[Process] = []
        self._awake: dict[Process, None] = {}
        self._timers: list[tuple[int, int, Leaf]] = []
        self._timer_count = 0
        self._watchers: dict[int, list[Leaf]] = {}

    @property
    def now(self) -> int:
        """Present time, ps."""
        return int(self.window.s.m[core.NOW])

    def process(self, generator: Generator[Waitable, Outcome, Any], name: str = "", *, daemon: bool = False) -> Process:
        """Add a process; it runs first in the next notify phase. A daemon may still wait when the run ends."""
        process = Process(self, len(self.processes), generator, name or f"process {len(self.processes)}", daemon)
        self.processes.append(process)
        self.wake(process)
        return process

    def signal(self, name: str = "") -> Signal:
        """Make a signal."""
        return Signal(self, name)

    def timer(self, ps: int) -> Timer:
        """Make a timer that is due `ps` from now."""
        if not 0 <= ps < core.MAX_PS - self.now:
            raise TimeRangeError(f"timer of {ps} ps at {self.now} ps: it must lie between now and 2**62 ps")
        return Timer(self, self.now + int(ps))

    def any_of(self, *parts: Waitable) -> AnyOf:
        """The first of `parts`."""
        return AnyOf(parts)

    def all_of(self, *parts: Waitable) -> AllOf:
        """The last of `parts`."""
        return AllOf(parts)

    def wake(self, process: Process) -> None:
        """Let `process` run in the next notify phase."""
        self._awake[process] = None

    def add_timer(self, due_ps: int, leaf: Leaf) -> None:
        """Fire `leaf` at `due_ps`."""
        self._timer_count += 1
        heapq.heappush(self._timers, (due_ps, self._timer_count, leaf))

    def watch(self, handle: Handle, index: int, leaf: Leaf) -> None:
        """Fire `leaf` when row `index` of an open block ends."""
        s, line = self.window.s, self.window.slot[handle.id]
        s.rows[int(s.blk[line, core.B_ROW]) + index, core.R_WATCH] |= 1
        self._watchers.setdefault(handle.row_ids[index], []).append(leaf)

    def unwatch(self, row: int, leaf: Leaf) -> None:
        """Forget `leaf`."""
        if leaf in self._watchers.get(row, ()):
            self._watchers[row].remove(leaf)

    def next_timer(self) -> tuple[int, int]:
        """Time of the next timer that somebody waits for, and the round in which it is due: the first."""
        while self._timers and self._timers[0][2].dead:
            heapq.heappop(self._timers)
        return (self._timers[0][0], 0) if self._timers else (core.NEVER, 0)

    def collect(self) -> None:
        """Fire the waits for rows that have ended and timers that are due."""
        s = self.window.s
        woken = s.lists[core.L_WOKEN, : int(s.m[core.WOKEN])]
        for row in s.rows[woken]:
            kind = "done" if row[core.R_STATUS] == core.DONE else "cut"
            for leaf in self._watchers.pop(int(row[core.R_GID]), ()):
                leaf.fire(Outcome(kind))
        s.m[core.WOKEN] = 0
        while self._timers and self._timers[0][0] <= self.now:
            heapq.heappop(self._timers)[2].fire(Outcome("timer"))

    def notify(self) -> None:
        """Run the processes whose wait is over, by ascending id."""
        turn, self._awake = sorted(self._awake, key=lambda process: process.id), {}
        for process in turn:
            self._resume(process)
        if self._awake:
            self.window.s.m[core.CALL] = self.window.s.m[core.HAPPENED] = 1

    def _resume(self, process: Process) -> None:
        outcome = None
        if process.node is not None:
            outcome = process.node.result
            process.node.drop()
            process.node = process.waits_for = None
        for _ in range(core.MAX_ROUNDS):
            try:
                what = process.generator.send(outcome)
            except StopIteration as stop:
                process.finish(stop.value)
                return
            if not isinstance(what, Waitable):
                raise SimError(f"{process} yielded {what!r}, which is not a Waitable (block, row, signal, timer, ...)")
            node = subscribe(what, process, 0)
            if not isinstance(node, Outcome):
                process.node, process.waits_for = node, what
                return
            outcome = node
        raise ZeroTimeLoopError(
            f"{process} yielded {core.MAX_ROUNDS} times at {self.now} ps and never had to wait; give it a timer"
        )

    def close(self) -> None:
        """Forget the processes and what they wait for; results stay.

        Processes refer back to the simulation, so without this its memory waits for a garbage collection.
        """
        for process in self.processes:
            process.generator.close()
        for held in (self.processes, self._awake, self._timers, self._watchers):
            held.clear()
