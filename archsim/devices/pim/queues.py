"""Queues of a PIM channel and the host that fills them: what the command kernel accepts, answers and drops.

Rules: :mod:`archsim.devices.pim.oracle`; state: :mod:`archsim.devices.pim.state`.
"""

from __future__ import annotations

# isort: off
from archsim.devices.pim.state import (
    ACTIVE_LIST, BLOCK, CLASSES, DIRTY, FIRST, FROM_ACTIVE, FROM_READS, F_BLOCKING, F_COUNT, F_DELAY, F_KIND, HOLD,
    K_BARRIER, K_PIM, K_READ, LINE, NEVER, N_ACTIVE, N_READ, N_WRITE, OVER, QUEUE, READER, READERS, READER_RING,
    READ_LIST, RING, SEGMENT, SEGMENTS, SEGMENT_RING, STALLED, TOTAL, WHICH, WRITERS, WRITE_LIST,
)  # fmt: skip

# isort: on
from archsim.jit import borrower


@borrower
def drop(m, h, first, count, index):
    """Take entry `index` out of a list whose length is at `count`."""
    m[h + count] -= 1
    for k in range(h + first + index, h + first + m[h + count]):
        m[k] = m[k + 1]


@borrower
def push_reader(m, h, done, i):
    """Answer of instruction `i` under way, due at `done`."""
    at = h + READER_RING + 2 * ((m[h + READER] + m[h + READERS]) % RING)
    m[at], m[at + 1] = done, i
    m[h + READERS] += 1


@borrower
def pop_queue(m, h):
    """Take the head out of the in-order queue."""
    at = h + SEGMENT_RING + 2 * m[h + SEGMENT]
    m[at + 1] -= 1
    m[h + TOTAL] -= 1
    if m[at + 1] == 0:
        m[h + SEGMENT] = (m[h + SEGMENT] + 1) % 64
        m[h + SEGMENTS] -= 1


@borrower
def is_last(m, h):
    """Whether the head of the queue is the last request of its instruction, for which the host waits.

    The answers of the others, in order and each in a cycle of its own, change nothing.
    """
    return m[h + SEGMENT_RING + 2 * m[h + SEGMENT] + 1] == 1 and m[h + OVER] == 0


@borrower
def leave(m, h, what):
    """The chosen plain request leaves its list."""
    if what == FROM_ACTIVE:
        drop(m, h, ACTIVE_LIST, N_ACTIVE, m[h + WHICH])
    elif what == FROM_READS:
        drop(m, h, READ_LIST, N_READ, m[h + WHICH])
    else:
        drop(m, h, WRITE_LIST, N_WRITE, m[h + WHICH])


@borrower
def to_active(m, h, what, i):
    """A plain request whose row was activated moves to the end of the active list."""
    leave(m, h, what)
    m[h + ACTIVE_LIST + m[h + N_ACTIVE]] = i
    m[h + N_ACTIVE] += 1


@borrower
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


@borrower
def answer_due(m, h, lines):
    """Cycle in which the oldest answer can be given; a barrier waits until no unfinished writer is left."""
    if m[h + READERS] == 0:
        return NEVER
    at = h + READER_RING + 2 * m[h + READER]
    if lines[m[at + 1], F_KIND] == K_BARRIER:
        return max(m[at] + 1, m[h + WRITERS] + 1)
    return m[at]


@borrower
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


@borrower
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
