"""Command kernel of PIM channels, event-skipping: the fast twin of :mod:`archsim.devices.pim.oracle`.

The rules and their order inside a cycle are in the oracle's docstring. What makes this fast: channels that receive the
same instructions move in step, so one of each *class* is simulated (:func:`classes`), and the clock jumps to the next
cycle in which a class can issue, a completion is due, a refresh is due or the host can move or decode something.

State is the vector of :mod:`archsim.devices.pim.state`.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from archsim.devices.pim.isa import Program

# isort: off
from archsim.devices.pim.state import (
    ACT, ACT16, ACT2, ACTIVE_LIST, BLOCK, CLASSES, DIRTY, FIRST, FROM_ACTIVE, FROM_PRIORITY, FROM_QUEUE, FROM_READS,
    FROM_WRITES, F_BANK, F_BLOCKING, F_COMMAND, F_COUNT, F_DELAY, F_KIND, F_ROW, HELD_UP, HOLD, K_BARRIER, K_PIM,
    K_READ, LATENCY, LINE, LOGGED, MODE, NEVER, NEXT_AT, NEXT_COMMAND, NEXT_REFRESH, NOTHING, NOW, N_ACTIVE, N_READ,
    N_WRITE, OVER, PATIENCE, PRE, PRIORITY, PROTECTED, QUEUE, READER, READERS, READER_RING, READ_LIST, REFAB, REFRESH,
    REGISTER, RING, SEGMENT, SEGMENTS, SEGMENT_RING, STALLED, TMOD, TOTAL, TWO_STEP, WHAT, WHICH, WRITERS, WRITE_LIST,
    WRITE_MODE, due, is_single, issue,
)  # fmt: skip

# isort: on

#: Returned by :func:`run` when its steps are used up before the program has ended.
MORE = -3


@njit(cache=True)
def best_of(m, h, lines, first, count, now):
    """FR-FCFS: the request of a list that may issue first, oldest on a tie: (cycle, command, index)."""
    at, command, index = NEVER, -1, -1
    for k in range(count):
        i = m[h + first + k]
        when, what = due(m, h, lines[i, F_COMMAND], lines[i, F_BANK], lines[i, F_ROW], now)
        if when < at:
            at, command, index = when, what, k
    return at, command, index


@njit(cache=True)
def choose(m, h, lines, now, live):
    """What the class issues next: (cycle, command). WHAT and WHICH say for whom; the command is -1 for a barrier.

    `live` is False for a look ahead: then the choice between reads and writes stays as it is.
    """
    at, command = NEVER, -1
    if m[h + N_ACTIVE] > 0:
        at, command, m[h + WHICH] = best_of(m, h, lines, ACTIVE_LIST, m[h + N_ACTIVE], now)
        m[h + WHAT] = FROM_ACTIVE
        if at <= now:
            return at, command
    if m[h + PRIORITY] > 0:
        when, what = due(m, h, REFAB, -1, -1, now)
        if when < at:
            m[h + WHAT] = FROM_PRIORITY
            return when, what
    elif m[h + TOTAL] > 0:
        i = m[h + SEGMENT_RING + 2 * m[h + SEGMENT]]
        when, what = now, -1
        if lines[i, F_KIND] == K_PIM:
            when, what = due(m, h, lines[i, F_COMMAND], lines[i, F_BANK], lines[i, F_ROW], now)
        if when < at:
            m[h + WHAT] = FROM_QUEUE
            return when, what
    elif m[h + N_READ] + m[h + N_WRITE] > 0:
        if live:
            set_write_mode(m, h)
        writing = m[h + WRITE_MODE] == 1
        first, count = (WRITE_LIST, m[h + N_WRITE]) if writing else (READ_LIST, m[h + N_READ])
        when, what, index = best_of(m, h, lines, first, count, now)
        if when < at:
            m[h + WHAT], m[h + WHICH] = FROM_WRITES if writing else FROM_READS, index
            return when, what
    return at, command


@njit(cache=True)
def set_write_mode(m, h):
    """Plain requests: to writes above 80 % of the queue or without reads, back below 20 % with reads."""
    if m[h + WRITE_MODE] == 0:
        if 10 * m[h + N_WRITE] > 8 * (QUEUE - 1) or m[h + N_READ] == 0:
            m[h + WRITE_MODE] = 1
    elif 10 * m[h + N_WRITE] < 2 * (QUEUE - 1) and m[h + N_READ] > 0:
        m[h + WRITE_MODE] = 0


@njit(cache=True)
def drop(m, h, first, count, index):
    """Take entry `index` out of a list whose length is at `count`."""
    m[h + count] -= 1
    for k in range(h + first + index, h + first + m[h + count]):
        m[k] = m[k + 1]


@njit(cache=True)
def push_reader(m, h, done, i):
    """Answer of instruction `i` under way, due at `done`."""
    at = h + READER_RING + 2 * ((m[h + READER] + m[h + READERS]) % RING)
    m[at], m[at + 1] = done, i
    m[h + READERS] += 1


@njit(cache=True)
def protects(m, h, lines, bank):
    """Whether an activated plain request waits for the row that is open in `bank`."""
    found = False
    for k in range(m[h + N_ACTIVE]):
        found |= lines[m[h + ACTIVE_LIST + k], F_BANK] == bank
    return found


@njit(cache=True)
def pop_queue(m, h):
    """Take the head out of the in-order queue."""
    at = h + SEGMENT_RING + 2 * m[h + SEGMENT]
    m[at + 1] -= 1
    m[h + TOTAL] -= 1
    if m[at + 1] == 0:
        m[h + SEGMENT] = (m[h + SEGMENT] + 1) % 64
        m[h + SEGMENTS] -= 1


@njit(cache=True)
def serve(m, h, lines, command, now):
    """Issue the chosen command for the chosen request; a mode switch takes its place when the mode differs."""
    what = m[h + WHAT]
    final, bank, row, i = REFAB, -1, -1, -1
    if what == FROM_QUEUE:
        i = m[h + SEGMENT_RING + 2 * m[h + SEGMENT]]
    elif what != FROM_PRIORITY:
        i = m[h + (ACTIVE_LIST if what == FROM_ACTIVE else WRITE_LIST if what == FROM_WRITES else READ_LIST)
              + m[h + WHICH]]  # fmt: skip
    if i >= 0:
        final, bank, row = lines[i, F_COMMAND], lines[i, F_BANK], lines[i, F_ROW]
    if command < 0:
        push_reader(m, h, now, i)
        pop_queue(m, h)
        return NOTHING
    if command == PRE and protects(m, h, lines, bank):
        return PROTECTED
    if m[REGISTER + final] != m[h + MODE]:
        m[h + MODE] = 1 - m[h + MODE]
        command = TMOD
        issue(m, h, TMOD, -1, -1, now)
        return command
    issue(m, h, command, bank if command < ACT16 or is_single(command) else -1, row, now)
    opens = command == ACT2 or (command == ACT and m[TWO_STEP] == 0)
    if command == final:
        finish(m, h, lines, i, what, now)
    elif opens and lines[i, F_KIND] != K_PIM:
        to_active(m, h, what, i)
    return command


@njit(cache=True)
def finish(m, h, lines, i, what, now):
    """The final command of a request has issued: it leaves its list, its answer or its end is booked."""
    if what == FROM_PRIORITY:
        m[h + PRIORITY] -= 1
        return
    done = now + m[LATENCY + lines[i, F_COMMAND]]
    if lines[i, F_BLOCKING] == 1 or lines[i, F_KIND] == K_READ:
        push_reader(m, h, done, i)
    else:
        m[h + WRITERS] = max(m[h + WRITERS], done)
    if what == FROM_QUEUE:
        pop_queue(m, h)
    else:
        leave(m, h, what)


@njit(cache=True)
def leave(m, h, what):
    """The chosen plain request leaves its list."""
    if what == FROM_ACTIVE:
        drop(m, h, ACTIVE_LIST, N_ACTIVE, m[h + WHICH])
    elif what == FROM_READS:
        drop(m, h, READ_LIST, N_READ, m[h + WHICH])
    else:
        drop(m, h, WRITE_LIST, N_WRITE, m[h + WHICH])


@njit(cache=True)
def to_active(m, h, what, i):
    """A plain request whose row was activated moves to the end of the active list."""
    leave(m, h, what)
    m[h + ACTIVE_LIST + m[h + N_ACTIVE]] = i
    m[h + N_ACTIVE] += 1


@njit(cache=True)
def accept(m, h, lines, i, count, now):
    """Requests of `count` of instruction `i` that the class takes."""
    kind = lines[i, F_KIND]
    if kind in (K_PIM, K_BARRIER):
        if m[h + N_READ] + m[h + N_WRITE] > 0:
            return 0
        taken = min(count, QUEUE - m[h + TOTAL])
        if taken > 0:
            m[h + DIRTY] |= m[h + TOTAL] == 0
            tail = h + SEGMENT_RING + 2 * ((m[h + SEGMENT] + m[h + SEGMENTS] - 1) % 64)
            if m[h + SEGMENTS] == 0 or m[tail] != i:
                tail = h + SEGMENT_RING + 2 * ((m[h + SEGMENT] + m[h + SEGMENTS]) % 64)
                m[tail], m[tail + 1] = i, 0
                m[h + SEGMENTS] += 1
            m[tail + 1] += taken
            m[h + TOTAL] += taken
        return taken
    if m[h + TOTAL] > 0:
        return 0
    m[h + DIRTY] = 1
    if kind == K_READ:
        if m[h + N_WRITE] > 0:  # any queued write answers it: trace requests carry no flat address
            push_reader(m, h, now, i)
            return 1
        if m[h + N_READ] >= QUEUE:
            return 0
        m[h + READ_LIST + m[h + N_READ]] = i
        m[h + N_READ] += 1
        return 1
    if m[h + N_WRITE] >= QUEUE:
        return 0
    m[h + WRITE_LIST + m[h + N_WRITE]] = i
    m[h + N_WRITE] += 1
    return 1


@njit(cache=True)
def answer_due(m, h, lines):
    """Cycle in which the oldest answer can be given; a barrier waits until no unfinished writer is left."""
    if m[h + READERS] == 0:
        return NEVER
    at = h + READER_RING + 2 * m[h + READER]
    if lines[m[at + 1], F_KIND] == K_BARRIER:
        return max(m[at] + 1, m[h + WRITERS] + 1)
    return m[at]


@njit(cache=True)
def give_answer(m, h, lines, now):
    """Give the oldest answer; the last one of a blocking instruction lets the host go on."""
    slot, i = m[h + READER_RING + 2 * m[h + READER]], m[h + READER_RING + 2 * m[h + READER] + 1]
    m[h + READER] = (m[h + READER] + 1) % RING
    m[h + READERS] -= 1
    if lines[i, F_BLOCKING] == 1:
        m[STALLED] -= 1
        if m[STALLED] == 0:
            m[LINE] += 1
            m[HOLD] = max(now + 1, slot + lines[i, F_DELAY])


@njit(cache=True)
def host(m, lines, on, now):
    """Overflow move, then decode of one line. Returns whether it has more to do in the next cycle.

    Requests that were refused wait until the class serves something, so they are no reason to look again.
    """
    classes = m[CLASSES]
    end = m[FIRST] + classes * BLOCK
    was, left = False, False
    for h in range(m[FIRST], end, BLOCK):
        if m[h + OVER] > 0:
            was = True
            m[h + OVER] -= accept(m, h, lines, m[LINE], m[h + OVER], now)
            left |= m[h + OVER] > 0
    if m[STALLED] > 0 or m[LINE] >= lines.shape[0]:
        return False
    if was:
        if not left:
            m[LINE] += 1
        return not left
    if now < m[HOLD]:
        return False
    i = m[LINE]
    if lines[i, F_KIND] > 0:
        for c in range(classes):
            if on[i, c] == 1:
                h = m[FIRST] + c * BLOCK
                m[h + OVER] = lines[i, F_COUNT] - accept(m, h, lines, i, lines[i, F_COUNT], now)
                left |= m[h + OVER] > 0
                if lines[i, F_BLOCKING] == 1:
                    m[STALLED] += lines[i, F_COUNT]
    if not left and m[STALLED] == 0:
        m[LINE] += 1
        return True
    return False


@njit(cache=True)
def run(m, lines, on, log, steps):
    """Run a program on, for at most `steps` event steps.

    Parameters
    ----------
    m : int64 vector
        Fresh state of :func:`archsim.devices.pim.state.new_state`.
    lines, on : int64 [n, 8], int64 [n, classes]
        See :class:`archsim.devices.pim.isa.Program`; columns of `on` are classes here.
    log : int64 [commands, 2] or [0, 2]
        Receives cycle and id of each command of the first class, as many as fit.
    steps : int
        Called again with the same arguments, it goes on where it stopped.

    Returns
    -------
    int
        Cycle in which the last instruction retired; -1 if the program can never end, -2 if too many answers wait,
        :data:`MORE` if it has not ended yet.
    """
    end = m[FIRST] + m[CLASSES] * BLOCK
    now, blocked = m[NOW], m[HELD_UP]
    for _ in range(steps):
        busy = host(m, lines, on, now)
        soonest = now + 1 if busy else NEVER
        for h in range(m[FIRST], end, BLOCK):
            if answer_due(m, h, lines) <= now:
                give_answer(m, h, lines, now)
            if now >= m[h + NEXT_REFRESH]:
                m[h + PRIORITY] += 1
                m[h + NEXT_REFRESH] += m[REFRESH]
                m[h + DIRTY] = 1
            if m[h + DIRTY] == 1:
                m[h + NEXT_AT], m[h + NEXT_COMMAND] = choose(m, h, lines, now, True)
                m[h + DIRTY] = 0
            if m[h + NEXT_AT] <= now:
                command = serve(m, h, lines, m[h + NEXT_COMMAND], now)
                if h == m[FIRST] and command >= 0:
                    if m[LOGGED] < log.shape[0]:
                        log[m[LOGGED], 0], log[m[LOGGED], 1] = now, command
                    m[LOGGED] += 1
                if m[h + WHAT] != FROM_QUEUE:
                    m[h + DIRTY], soonest = 1, now + 1
                elif m[h + OVER] > 0:
                    soonest = now + 1
                blocked = blocked + 1 if command == PROTECTED else 0
                if blocked > PATIENCE:
                    return -1
                m[h + NEXT_AT], m[h + NEXT_COMMAND] = choose(m, h, lines, now + 1, False)
            if m[h + READERS] >= RING - 2:
                return -2
            soonest = min(soonest, max(now + 1, min(m[h + NEXT_AT], answer_due(m, h, lines), m[h + NEXT_REFRESH])))
        if m[LINE] == lines.shape[0] and m[STALLED] == 0:
            return now
        if m[HOLD] > now:
            soonest = min(soonest, m[HOLD])
        if soonest >= NEVER:
            return -1
        now = soonest
    m[NOW], m[HELD_UP] = now, blocked
    return MORE


def classes(program: Program) -> tuple[np.ndarray, np.ndarray]:
    """Channels that receive the same instructions: (`on` by class [n, classes], class of each channel)."""
    packed = np.packbits(program.on.astype(np.uint8), axis=0)
    _, first, which = np.unique(packed, axis=1, return_index=True, return_inverse=True)
    return np.ascontiguousarray(program.on[:, first]), np.asarray(which, np.int64).reshape(-1)
