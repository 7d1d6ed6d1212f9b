"""Command kernel of PIM channels, event-skipping: the fast twin of :mod:`archsim.devices.pim.oracle`.

The rules and their order inside a cycle are in the oracle's docstring. What makes this fast: channels that receive the
same instructions move in step, so one of each *class* is simulated (:func:`classes`); the clock jumps to the next
cycle in which a class can issue, a completion is due, a refresh is due or the host can move or decode something; and
of one class, a command that the queue's head repeats at equal distances is issued many times at once (:func:`repeat`).

State is the vector of :mod:`archsim.devices.pim.state`.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from archsim.devices.pim.isa import Program

# isort: off
from archsim.devices.pim.queues import push_reader, pop_queue, is_last, leave, to_active, answer_due, give_answer, host
from archsim.devices.pim.state import (
    ACT, ACT16, ACT2, ACTIVE_LIST, BLOCK, CAS, CLASSES, COUNTS, DIRTY, FIRST, FROM_ACTIVE, FROM_PRIORITY, FROM_QUEUE,
    FROM_READS, FROM_WRITES, F_BANK, F_BLOCKING, F_COMMAND, F_KIND, F_ROW, HELD_UP, HOLD, K_PIM, K_READ, LATENCY,
    LINE, LOGGED, MAC16, MODE, NEVER, NEXT_AT, NEXT_COMMAND, NEXT_REFRESH, NOTHING, NOW, N_ACTIVE, N_READ, N_WRITE,
    OVER, PATIENCE, PRE, PRIORITY, PROTECTED, QUEUE, READERS, READ_LIST, REFAB, REFRESH, REGISTER, RING, SEGMENT,
    SEGMENTS, SEGMENT_RING, SPACING, STALLED, TMOD, TOTAL, TWO_STEP, WHAT, WHICH, WRITERS, WRITE_LIST, WRITE_MODE,
    due, is_single, issue,
)  # fmt: skip

# isort: on
from archsim.jit import borrower

#: Returned by :func:`run` when its steps are used up before the program has ended.
MORE = -3


@borrower
def best_of(m, h, lines, first, count, now):
    """FR-FCFS: the request of a list that may issue first, oldest on a tie: (cycle, command, index)."""
    at, command, index = NEVER, -1, -1
    for k in range(count):
        i = m[h + first + k]
        when, what = due(m, h, lines[i, F_COMMAND], lines[i, F_BANK], lines[i, F_ROW], now)
        if when < at:
            at, command, index = when, what, k
    return at, command, index


@borrower
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


@borrower
def set_write_mode(m, h):
    """Plain requests: to writes above 80 % of the queue or without reads, back below 20 % with reads."""
    if m[h + WRITE_MODE] == 0:
        if 10 * m[h + N_WRITE] > 8 * (QUEUE - 1) or m[h + N_READ] == 0:
            m[h + WRITE_MODE] = 1
    elif 10 * m[h + N_WRITE] < 2 * (QUEUE - 1) and m[h + N_READ] > 0:
        m[h + WRITE_MODE] = 0


@borrower
def protects(m, h, lines, bank):
    """Whether an activated plain request waits for the row that is open in `bank`."""
    found = False
    for k in range(m[h + N_ACTIVE]):
        found |= lines[m[h + ACTIVE_LIST + k], F_BANK] == bank
    return found


@borrower
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


@borrower
def finish(m, h, lines, i, what, now):
    """The final command of a request has issued: it leaves its list, its answer or its end is booked."""
    if what == FROM_PRIORITY:
        m[h + PRIORITY] -= 1
        return
    done = now + m[LATENCY + lines[i, F_COMMAND]]
    if lines[i, F_BLOCKING] == 1 and what == FROM_QUEUE and m[h + READERS] == 0 and not is_last(m, h):
        m[STALLED] -= 1
    elif lines[i, F_BLOCKING] == 1 or lines[i, F_KIND] == K_READ:
        push_reader(m, h, done, i)
    else:
        m[h + WRITERS] = max(m[h + WRITERS], done)
    if what == FROM_QUEUE:
        pop_queue(m, h)
    else:
        leave(m, h, what)


@borrower
def repeats(m, h, lines, now):
    """How often the head of the queue will issue its final command in steps of ``SPACING``, all else unchanged.

    From `now` on, until the next answer or refresh, or until the host does more than let one refused request in for
    each that is issued. Only for one class.
    """
    command, head = m[h + NEXT_COMMAND], h + SEGMENT_RING + 2 * m[h + SEGMENT]
    if m[h + WHAT] != FROM_QUEUE or m[h + DIRTY] == 1 or command < MAC16 or command >= REFAB:
        return 0
    i, gap = m[head], max(1, m[SPACING + command])
    if command != lines[i, F_COMMAND] or lines[i, F_KIND] != K_PIM:
        return 0
    if lines[i, F_BLOCKING] == 1 and m[h + READERS] > 0:
        return 0
    if lines[i, F_BANK] >= 0 or m[REGISTER + command] != m[h + MODE] or m[h + NEXT_AT] != now + gap:
        return 0
    if m[CAS + command] >= 0 and gap > m[LATENCY + command]:
        return 0
    count = (min(answer_due(m, h, lines), m[h + NEXT_REFRESH]) - 1 - now) // gap
    if m[h + OVER] == 0:
        return min(count, m[head + 1] - 1) if m[STALLED] > 0 else 0
    tail = h + SEGMENT_RING + 2 * ((m[h + SEGMENT] + m[h + SEGMENTS] - 1) % 64)
    if m[h + TOTAL] != QUEUE - 1 or m[tail] != m[LINE] or lines[m[LINE], F_KIND] != K_PIM:
        return 0
    return min(count, m[h + OVER] - 1) if head == tail else min(count, m[h + OVER] - 1, m[head + 1] - 1)


@borrower
def repeat(m, h, lines, log, count, now):
    """Issue what the head of the queue issues next `count` times; returns the cycle of the last.

    Each time raises the same gates by the same distance, so the state is that after the last one.
    """
    command, head = m[h + NEXT_COMMAND], h + SEGMENT_RING + 2 * m[h + SEGMENT]
    gap = max(1, m[SPACING + command])
    last = now + count * gap
    for k in range(m[LOGGED], min(m[LOGGED] + count, log.shape[0])):
        log[k, 0], log[k, 1] = now + (k + 1 - m[LOGGED]) * gap, command
    m[LOGGED] += count
    issue(m, h, command, -1, lines[m[head], F_ROW], last)
    m[h + COUNTS + command] += count - 1
    if lines[m[head], F_BLOCKING] == 1:
        m[STALLED] -= count
    else:
        m[h + WRITERS] = max(m[h + WRITERS], last + m[LATENCY + command])
    m[head + 1] -= count
    if m[h + OVER] > 0:
        m[h + OVER] -= count
        m[h + SEGMENT_RING + 2 * ((m[h + SEGMENT] + m[h + SEGMENTS] - 1) % 64) + 1] += count
    else:
        m[h + TOTAL] -= count
    m[h + NEXT_AT] = last + gap
    return last


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
        Called again with the same arguments, it goes on where it stopped. After a program whose last instruction
        blocks, another one goes on there once ``m[LINE]`` is 0.

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
                count = repeats(m, h, lines, now) if m[CLASSES] == 1 else 0
                if count > 0:
                    now = repeat(m, h, lines, log, count, now)
                    soonest = now + 1 if m[h + OVER] > 0 else NEVER
            if m[h + READERS] >= RING - 2:
                return -2
            soonest = min(soonest, max(now + 1, min(m[h + NEXT_AT], answer_due(m, h, lines), m[h + NEXT_REFRESH])))
        if m[HOLD] > now:
            soonest = min(soonest, m[HOLD])
        if m[LINE] == lines.shape[0] and m[STALLED] == 0:
            m[NOW], m[HELD_UP] = soonest, blocked
            return now
        if soonest >= NEVER:
            return -1
        now = soonest
    m[NOW], m[HELD_UP] = now, blocked
    return MORE


def classes(program: Program) -> tuple[np.ndarray, np.ndarray]:
    """Channels that receive the same instructions: (`on` by class [n, classes], class of each channel)."""
    if (program.on == program.on[:, :1]).all():
        return np.ascontiguousarray(program.on[:, :1]), np.zeros(program.on.shape[1], np.int64)
    packed = np.packbits(program.on.astype(np.uint8), axis=0)
    _, first, which = np.unique(packed, axis=1, return_index=True, return_inverse=True)
    return np.ascontiguousarray(program.on[:, first]), np.asarray(which, np.int64).reshape(-1)
