"""Plain, slow model of PIM channels, cycle by cycle: the rules that :mod:`archsim.devices.pim.commands` must meet.

Rules, in their order inside a cycle (cycle 1 is the first):

1. *Overflow.* Requests of the current instruction that a channel refused are offered again. When the last one of all
   channels moves, the instruction retires and nothing is decoded in this cycle.
2. *Decode.* Unless the host waits for an answer, one instruction: `count` requests to each of its channels; a
   non-blocking one retires if all were accepted. A queue holds 33; the in-order (PIM) queue refuses while plain reads
   or writes wait, and these refuse while PIM requests wait.
3. *Each channel:* give the oldest answer that is due (the last answer of a blocking instruction retires it; the next
   is decoded a cycle later, after a fence no earlier than its delay after its slot); forget finished writers; queue a
   refresh that is due; choose and issue one command.

Choice: activated plain requests first, then a refresh (nothing else while one waits), then the head of the in-order
queue, then plain requests, FR-FCFS. A request's next command is the precharge or activate its row needs, a CAS when
the data clock has stopped, else its final command. When the chosen command could issue but the request needs the other
mode, a TMOD goes out in its place. A precharge may not close the row of an activated plain request.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from archsim.devices.pim.isa import SYNC_FOR, Cmd, Field, Kind, Program
from archsim.devices.pim.standard import PimStandard

QUEUE = 33
SINGLE = (Cmd.RD, Cmd.WR, Cmd.MAC, Cmd.RDCP, Cmd.WRCP)


@dataclass
class Channel:
    """One channel: banks, queues, answers."""

    standard: PimStandard
    lines: list[list[int]]
    banks: list[tuple[str, int]] = field(default_factory=list)
    issued: dict[tuple, int] = field(default_factory=dict)  # (command, level, place) -> last cycle
    counts: dict[Cmd, int] = field(default_factory=dict)
    queue: list[int] = field(default_factory=list)
    reads: list[int] = field(default_factory=list)
    writes: list[int] = field(default_factory=list)
    active: list[int] = field(default_factory=list)
    overflow: list[int] = field(default_factory=list)
    refreshes: int = 0
    answers: list[tuple[int, int]] = field(default_factory=list)
    writers: list[int] = field(default_factory=list)
    register: bool = False
    synced_until: int = -1
    writing: bool = False

    def __post_init__(self) -> None:
        self.banks = [("closed", -1)] * self.standard.banks

    def offer(self, i: int, now: int) -> bool:
        """Whether the channel takes one request of instruction `i`."""
        kind = self.lines[i][Field.KIND]
        if kind in (Kind.PIM, Kind.BARRIER):
            if self.reads or self.writes or len(self.queue) >= QUEUE:
                return False
            self.queue.append(i)
            return True
        if self.queue:
            return False
        if kind == Kind.READ and self.writes:  # any queued write answers it
            self.answers.append((now, i))
            return True
        waiting = self.reads if kind == Kind.READ else self.writes
        if len(waiting) >= QUEUE:
            return False
        waiting.append(i)
        return True

    def ready(self, command: Cmd, bank: int, now: int) -> bool:
        """Whether every constraint on `command` is met."""
        group = bank // self.standard.organisation["banks_per_group"]
        for before, after, level, cycles in self.standard.rows.tolist():
            place = (-1, group, bank)[level]
            if after == command and (level == 0 or bank >= 0):
                last = self.issued.get((before, level, place))
                if last is not None and now < last + cycles:
                    return False
        return True

    def next_command(self, final: Cmd, bank: int, row: int, now: int) -> Cmd:
        """Command a request needs now."""
        states = [s for s, _ in self.banks]
        if final == Cmd.REFAB and any(s != "closed" for s in states):
            return Cmd.PREA
        if final in self.standard.opens_row:
            if any(s == "open" and r != row for s, r in self.banks):
                return Cmd.PREA
            if "closed" in states:
                return Cmd.ACT16
            if "half" in states:
                return Cmd.ACT16_2
        if final in SINGLE:
            state, open_row = self.banks[bank]
            if state == "closed":
                return Cmd.ACT
            if state == "half":
                return Cmd.ACT2
            if open_row != row:
                return Cmd.PRE
        if final in self.standard.sync and now > self.synced_until:
            return SYNC_FOR[final]
        return final

    def fields(self, i: int) -> tuple[Cmd, int, int]:
        """Final command, bank and row of an instruction."""
        line = self.lines[i]
        return Cmd(line[Field.COMMAND]), line[Field.BANK], line[Field.ROW]

    def best(self, waiting: list[int], now: int) -> tuple[int, Cmd, bool] | None:
        """FR-FCFS: index, command and readiness of the best request of a list."""
        found = None
        for k, i in enumerate(waiting):
            final, bank, row = self.fields(i)
            command = self.next_command(final, bank, row, now)
            ready = self.ready(command, bank, now)
            if found is None or (ready and not found[2]):
                found = (k, command, ready)
        return found

    def choose(self, now: int) -> tuple[list[int] | None, int, Cmd | None] | None:
        """List, index and command of what issues now; the list None means a refresh, the command None a barrier."""
        if (best := self.best(self.active, now)) is not None and best[2]:
            return self.active, best[0], best[1]
        if self.refreshes:
            command = self.next_command(Cmd.REFAB, -1, -1, now)
            return (None, 0, command) if self.ready(command, -1, now) else None
        if self.queue:
            if self.lines[self.queue[0]][Field.KIND] == Kind.BARRIER:
                return self.queue, 0, None
            final, bank, row = self.fields(self.queue[0])
            command = self.next_command(final, bank, row, now)
            return (self.queue, 0, command) if self.ready(command, bank, now) else None
        if not self.writing and (len(self.writes) > 0.8 * (QUEUE - 1) or not self.reads):
            self.writing = True
        elif self.writing and len(self.writes) < 0.2 * (QUEUE - 1) and self.reads:
            self.writing = False
        waiting = self.writes if self.writing else self.reads
        best = self.best(waiting, now)
        return (waiting, best[0], best[1]) if best is not None and best[2] else None

    def issue(self, command: Cmd, bank: int, row: int, now: int) -> None:
        """Issue a command."""
        self.counts[command] = self.counts.get(command, 0) + 1
        self.issued[command, 0, -1] = now
        half = "half" if self.standard.two_step else "open"
        if command in (*SINGLE, Cmd.ACT, Cmd.ACT2, Cmd.PRE):
            self.issued[command, 1, bank // self.standard.organisation["banks_per_group"]] = now
            self.issued[command, 2, bank] = now
        if command in (Cmd.ACT, Cmd.ACT2, Cmd.PRE):
            state = {Cmd.ACT: half, Cmd.ACT2: "open", Cmd.PRE: "closed"}[command]
            self.banks[bank] = (state, -1 if command == Cmd.PRE else row)
        if command in (Cmd.ACT16, Cmd.ACT16_2, Cmd.PREA):
            state = {Cmd.ACT16: half, Cmd.ACT16_2: "open", Cmd.PREA: "closed"}[command]
            self.banks = [(state, -1 if command == Cmd.PREA else row)] * len(self.banks)
        for final, cas in SYNC_FOR.items():
            if command == cas:
                self.synced_until = now + self.standard.latency[final] + 1
        if command in self.standard.sync:
            self.synced_until = now + self.standard.latency[command]

    def tick(self, now: int) -> tuple[int, int] | None:
        """One cycle after host moves; returns when the answer given in it was due and its instruction, if one was."""
        answered = None
        if self.answers and self.answers[0][0] <= now:
            i = self.answers[0][1]
            barrier = self.lines[i][Field.KIND] == Kind.BARRIER
            if not barrier or (not self.writers and self.answers[0][0] < now):
                answered = self.answers.pop(0)
        self.writers = [w for w in self.writers if w > now]
        if self.standard.refresh_cycles and now % self.standard.refresh_cycles == 0:
            self.refreshes += 1
        if (chosen := self.choose(now)) is not None:
            self.serve(*chosen, now)
        return answered

    def serve(self, waiting: list[int] | None, k: int, command: Cmd | None, now: int) -> None:
        """Issue the chosen command and move its request on."""
        i = -1 if waiting is None else waiting[k]
        final, bank, row = (Cmd.REFAB, -1, -1) if waiting is None or command is None else self.fields(i)
        if command is None:
            self.answers.append((now, i))
            self.queue.pop(0)
            return
        if command == Cmd.PRE and any(self.fields(a)[1] == bank for a in self.active):
            return
        if (final in self.standard.register_mode) != self.register:
            self.register = not self.register
            self.issue(Cmd.TMOD, -1, -1, now)
            return
        self.issue(command, bank, row, now)
        if waiting is None:
            self.refreshes -= command == final
            return
        line = self.lines[i]
        if command == final:
            waiting.pop(k)
            done = now + self.standard.latency[final]
            if line[Field.BLOCKING] or line[Field.KIND] == Kind.READ:
                self.answers.append((done, i))
            else:
                self.writers.append(done)
        elif line[Field.KIND] != Kind.PIM and command == (Cmd.ACT2 if self.standard.two_step else Cmd.ACT):
            waiting.pop(k)
            self.active.append(i)


def run(standard: PimStandard, program: Program, limit: int = 1 << 20) -> tuple[int, list[dict[Cmd, int]]]:
    """Run a program; returns the cycle in which its last instruction retired and the counts of each channel.

    Raises
    ------
    RuntimeError
        Not at its end after `limit` cycles.
    """
    lines = program.lines.tolist()
    channels = [Channel(standard, lines) for _ in range(program.on.shape[1])]
    at, stalled, hold = 0, 0, 0
    for now in range(1, limit):
        was = any(c.overflow for c in channels)
        for c in channels:
            while c.overflow and c.offer(c.overflow[0], now):
                c.overflow.pop(0)
        left = any(c.overflow for c in channels)
        if stalled == 0 and at < len(lines):
            if was:
                at += not left
            elif now >= hold:
                line = lines[at]
                for c, on in zip(channels, program.on[at], strict=True):
                    if on and line[Field.KIND] != Kind.HOST:
                        requests = [at] * line[Field.COUNT]
                        stalled += line[Field.BLOCKING] * len(requests)
                        c.overflow = [i for i in requests if not c.offer(i, now)]
                at += stalled == 0 and not any(c.overflow for c in channels)
        for c in channels:
            answer = c.tick(now)
            if answer is not None and lines[answer[1]][Field.BLOCKING]:
                stalled -= 1
                if stalled == 0:
                    at, hold = at + 1, max(now + 1, answer[0] + lines[answer[1]][Field.DELAY])
        if at == len(lines) and stalled == 0:
            return now, [c.counts for c in channels]
    raise RuntimeError(f"not at its end after {limit} cycles")
