"""Queues of the command kernel: lists of requests, candidates for the next command, and the choice among them.

Part of :mod:`archsim.devices.dram.command`, which explains the method; state and handles are those of
:mod:`archsim.devices.dram.layout`.
"""

from __future__ import annotations

# isort: off
from archsim.devices.dram.layout import (
    ACT, ACTIVE, ACTIVE_DEPTH, AGE, AGE_BITS, ANSWERED, ARRIVE, AT, AT_REQUEST, AWAITED, BANK, BANKS, BANK_CANDIDATES,
    BANK_CHANNEL, BANK_GROUP, BANK_ID, BANK_RANK, BINS, CANDIDATE, CELL, CLOSING, COUNT, C_AGE, C_BANK, C_GROUP,
    C_PLACE, C_QUEUE, C_RANK, C_READY, DEPARTED, DEPTH, DIRTY, END, FILTER, FILTER_SIZE, FIRST, FOLLOW, FOLLOW_AT,
    FORWARD, FORWARDED, FREE, FRESH, GAP, GATES, HEAD, HIGH, HIT, IN_FLIGHT, LAST, LATENCY, LIST, LISTS, LIST_SIZE,
    LIVE, LOW, MISS, MODE, NEVER, NEXT, NEXT_AGE, NOTHING, N_ACTIVE, N_FREE, N_PRIORITY, OFFERED, OF_ACTIVE,
    OF_PRIORITY, OF_QUEUE, OPEN, OPEN_BANKS, OUTSTANDING, PACE, POSTED, PRE, PREAB, PREV, PRIORITY, RANK_READY, RD,
    READS, READY, REFAB, REFPB, RING, RING_SIZE, ROW, ROW_HIT, SLOT_BANK, SOURCES, SOURCE_SHIFT, TAG, TAIL, WHAT,
    WHICH, WRAP, WRITE_BIT,
)  # fmt: skip

# isort: on
from archsim.jit import borrower

QUEUED, ANSWERED_NOW = range(2)


@borrower
def earliest(m, bank, gate):
    """Earliest cycle of a command of a gate in a bank."""
    return max(m[bank + READY + gate], m[m[bank + BANK_GROUP] + gate], m[m[bank + BANK_RANK] + RANK_READY + gate])


@borrower
def filter_at(m, bank, cell):
    """Counter of an address in the write filter of its channel."""
    mixed = ((cell << 6) + m[bank + BANK_ID]) * 0x19E3779  # below 2**62: rows, columns and banks take 37 bits at most
    return m[m[bank + BANK_CHANNEL] + FILTER] + ((mixed >> 20) & (FILTER_SIZE - 1))


@borrower
def drop_candidate(m, candidate):
    """Take a candidate out of its list, if it stands there."""
    place = m[candidate + C_PLACE]
    if place >= 0:
        queue = m[m[candidate + C_BANK] + BANK_CHANNEL] + m[candidate + C_QUEUE]
        last = m[queue + LIVE] - 1
        m[queue + LIVE] = last
        moved = m[m[queue + LIST] + last]
        m[m[queue + LIST] + place] = moved
        m[moved + C_PLACE] = place
        m[candidate + C_PLACE] = -1


@borrower
def set_candidate(m, candidate, bank, gate, age):
    """Make a candidate live (or change it)."""
    m[candidate + C_READY] = m[bank + READY + gate]
    m[candidate + C_GROUP] = m[bank + BANK_GROUP] + gate
    m[candidate + C_RANK] = m[bank + BANK_RANK] + RANK_READY + gate
    m[candidate + C_AGE] = age
    if m[candidate + C_PLACE] < 0:
        queue = m[bank + BANK_CHANNEL] + m[candidate + C_QUEUE]
        place = m[queue + LIVE]
        m[m[queue + LIST] + place] = candidate
        m[candidate + C_PLACE] = place
        m[queue + LIVE] = place + 1


@borrower
def refresh_bank(m, bank):
    """Recompute the candidates of a bank in both queues after its state, lists or earliest cycles changed."""
    opened = m[bank + OPEN]
    for queue in range(2):
        requests = bank + LISTS + queue * LIST_SIZE
        first = m[bank + BANK_CANDIDATES + queue]
        main, main_gate, miss = m[requests + HEAD], m[GATES + ACT], -1
        if main >= 0 and opened >= 0:
            main, main_gate, miss = m[requests + HIT], m[GATES + RD + queue], m[requests + MISS]
            guarded = m[ROW_HIT] == 1 and main >= 0 and miss >= 0 and m[miss + AGE] > m[main + AGE]
            if m[bank + AWAITED] != 0 or guarded:
                miss = -1
        if main >= 0:
            set_candidate(m, first, bank, main_gate, m[main + AGE])
        else:
            drop_candidate(m, first)
        if miss >= 0:
            set_candidate(m, first + CANDIDATE, bank, m[GATES + PRE], m[miss + AGE])
        else:
            drop_candidate(m, first + CANDIDATE)


@borrower
def sort_lists(m, bank):
    """Find the oldest hit and the oldest miss of both lists of a bank that has just opened."""
    opened = m[bank + OPEN]
    for queue in range(2):
        requests = bank + LISTS + queue * LIST_SIZE
        hit, miss = -1, -1
        here = m[requests + HEAD]
        while here >= 0 and (hit < 0 or miss < 0):
            if m[here + ROW] == opened:
                if hit < 0:
                    hit = here
            elif miss < 0:
                miss = here
            here = m[here + NEXT]
        m[requests + HIT] = hit
        m[requests + MISS] = miss


@borrower
def leave_queue(m, channel, bank, here):
    """Take a request out of its queue and its bank's list, keeping its slot; the oldest hit moves on if it was this."""
    queue = m[here + TAG] & WRITE_BIT
    m[channel + COUNT + queue] -= 1
    if queue == 1:
        m[filter_at(m, bank, m[here + CELL])] -= 1
    requests = bank + LISTS + queue * LIST_SIZE
    before, after = m[here + PREV], m[here + NEXT]
    if before >= 0:
        m[before + NEXT] = after
    else:
        m[requests + HEAD] = after
    if after >= 0:
        m[after + PREV] = before
    else:
        m[requests + TAIL] = before
    if m[requests + HIT] == here:
        row = m[here + ROW]
        while after >= 0 and m[after + ROW] != row:
            after = m[after + NEXT]
        m[requests + HIT] = after


@borrower
def pop_priority(m, channel):
    """Remove the head of the priority queue."""
    m[channel + N_PRIORITY] -= 1
    first = m[channel + PRIORITY]
    for k in range(first, first + 2 * m[channel + N_PRIORITY]):
        m[k] = m[k + 2]


@borrower
def push_priority(m, channel, command, target):
    """Append to the priority queue."""
    at = m[channel + PRIORITY] + 2 * m[channel + N_PRIORITY]
    m[at], m[at + 1] = command, target
    m[channel + N_PRIORITY] += 1


@borrower
def choose_urgent(m, channel, now):
    """Set AT, WHAT and WHICH from the active buffer and the priority queue."""
    follow = m[channel + FOLLOW] if m[channel + FOLLOW_AT] == now else -1
    best, what, which = NEVER, NOTHING, -1
    head = m[channel + PRIORITY]
    while m[channel + N_PRIORITY] > 0 and m[head] == PRE and m[m[head + 1] + OPEN] < 0:
        m[m[head + 1] + CLOSING] = 0
        pop_priority(m, channel)
    first = m[channel + ACTIVE]
    for k in range(first, first + m[channel + N_ACTIVE]):
        here = m[k]
        bank = m[here + SLOT_BANK]
        opened = m[bank + OPEN]
        if opened == m[here + ROW]:
            gate = m[GATES + RD + (m[here + TAG] & WRITE_BIT)]
        elif opened < 0:
            gate = m[GATES + ACT]
        elif m[bank + AWAITED] == 0:
            gate = m[GATES + PRE]
        else:
            continue
        at = max(earliest(m, bank, gate), now)
        if at < best or here == follow:
            best, what, which = at, OF_ACTIVE, k
        if here == follow:
            break
    if best > now and m[channel + N_PRIORITY] > 0:
        target = m[head + 1]
        if m[head] == REFAB:
            at = max(m[target + RANK_READY + m[GATES + (PREAB if m[target + OPEN_BANKS] > 0 else REFAB)]], now)
        else:
            at = max(earliest(m, target, m[GATES + (PRE if m[target + OPEN] >= 0 else REFPB)]), now)
        if at < best:
            best, what, which = at, OF_PRIORITY, target
    m[channel + AT], m[channel + WHAT], m[channel + WHICH] = best, what, which


@borrower
def choose_queued(m, channel, now):
    """Put a queued request in place of the channel's choice if it comes earlier; the oldest of the first ready wins."""
    queue = m[channel + MODE]
    follow = m[channel + FOLLOW] if m[channel + FOLLOW_AT] == now else -1
    if follow >= 0 and (m[follow + TAG] & WRITE_BIT) == queue:
        m[channel + AT], m[channel + WHAT] = now, OF_QUEUE
        m[channel + WHICH] = m[m[follow + SLOT_BANK] + BANK_CANDIDATES + queue]
    else:
        lowest, which = NEVER << 1, -1
        full = m[channel + N_ACTIVE] >= m[ACTIVE_DEPTH]
        first = m[channel + LIST + queue]
        for k in range(first, first + m[channel + LIVE + queue]):
            candidate = m[k]
            wait = max(m[candidate + C_READY], m[m[candidate + C_GROUP]], m[m[candidate + C_RANK]], now) - now
            key = (wait << AGE_BITS) + m[candidate + C_AGE]
            if key < lowest and not (full and m[m[candidate + C_BANK] + OPEN] < 0):
                lowest, which = key, candidate
        if which >= 0 and now + (lowest >> AGE_BITS) < m[channel + AT]:
            m[channel + AT], m[channel + WHAT] = now + (lowest >> AGE_BITS), OF_QUEUE
            m[channel + WHICH] = which


@borrower
def answered(m, source, place, cell, clock):
    """True if the write queue answers a request: a read is forwarded, a write merged; it departs at DEPARTED."""
    write = place & 1
    bank = m[BANKS] + (place >> 1) * BANK
    here = -1
    if m[FORWARD + write] == 1 and m[filter_at(m, bank, cell)] > 0:
        here = m[bank + LISTS + LIST_SIZE + HEAD]
        while here >= 0 and m[here + CELL] != cell:
            here = m[here + NEXT]
    if here >= 0:
        m[FORWARDED - write] += 1
        m[source + ANSWERED] += 1
        m[DEPARTED] = clock + 1 - write
    m[LAST] = max(m[LAST], m[DEPARTED])
    return here >= 0


@borrower
def accept(m, source, place, cell, row, clock):
    """Queue one request (there is room); it becomes a candidate if it is the first of its kind in its bank."""
    write = place & 1
    bank = m[BANKS] + (place >> 1) * BANK
    channel = m[bank + BANK_CHANNEL]
    m[channel + COUNT + write] += 1
    m[channel + N_FREE] -= 1
    here = m[m[channel + FREE] + m[channel + N_FREE]]
    requests = bank + LISTS + write * LIST_SIZE
    tail = m[requests + TAIL]
    age = m[NEXT_AGE]
    m[here + NEXT], m[here + PREV], m[here + CELL], m[here + ROW] = -1, tail, cell, row
    m[here + AGE], m[here + ARRIVE], m[here + SLOT_BANK] = age, clock, bank
    m[here + TAG] = ((source - m[SOURCES]) << SOURCE_SHIFT) + write
    if tail >= 0:
        m[tail + NEXT] = here
    else:
        m[requests + HEAD] = here
    m[requests + TAIL] = here
    if write == 1:
        m[filter_at(m, bank, cell)] += 1
    opened = m[bank + OPEN]
    candidate, gate = m[bank + BANK_CANDIDATES + write], -1
    if opened < 0:
        if tail < 0:
            gate = m[GATES + ACT]
    elif opened == row:
        if m[requests + HIT] < 0:
            m[requests + HIT] = here
            gate = m[GATES + RD + write]
    elif m[requests + MISS] < 0:
        m[requests + MISS] = here
        candidate += CANDIDATE
        if m[bank + AWAITED] == 0 and (m[ROW_HIT] == 0 or m[requests + HIT] < 0):
            gate = m[GATES + PRE]
    fresh = m[channel + FRESH]
    if gate >= 0:
        set_candidate(m, candidate, bank, gate, age)
        if fresh > 0:
            m[channel + DIRTY] = 1
        fresh = candidate
    m[channel + FRESH] = max(fresh, 0)


@borrower
def note_departure(m, source, gone):
    """Insert a departure into a source's ring, kept in ascending order."""
    first = m[source + RING]
    k = first + m[source + RING_SIZE]
    while k > first and m[k - 1] > gone:
        m[k] = m[k - 1]
        k -= 1
    m[k] = gone
    m[source + RING_SIZE] += 1


@borrower
def book_offer(m, source, k, write, answer, clock):
    """Account a request that a source has got rid of."""
    m[NEXT_AGE] += 1
    m[source + OFFERED] += 1
    m[source + AT_REQUEST] = k + 1
    if m[source + WRAP] == 1 and k + 1 == m[source + END]:
        m[source + AT_REQUEST] = m[source + FIRST]
    counted = m[source + DEPTH] > 0 and (write == 0 or m[source + POSTED] == 0)
    if counted:
        m[source + IN_FLIGHT] += 1
    if answer == QUEUED:
        m[OUTSTANDING] += 1
    else:
        if write == 0:
            m[source + READS] += 1
            m[source + LATENCY] += m[DEPARTED] - clock
            m[m[source + BINS] + m[DEPARTED] - clock] += 1
        if counted:
            note_departure(m, source, m[DEPARTED])


@borrower
def offer_at(m, source, clock):
    """First cycle from `clock` on in which a source may offer its next request (NEVER: not before a departure)."""
    when = clock
    if m[source + DEPTH] > 0:
        ring = m[source + RING]
        gone = 0
        while gone < m[source + RING_SIZE] and m[ring + gone] + m[source + GAP] <= clock:
            gone += 1
        if gone > 0:
            m[source + RING_SIZE] -= gone
            m[source + IN_FLIGHT] -= gone
            for k in range(ring, ring + m[source + RING_SIZE]):
                m[k] = m[k + gone]
        if m[source + IN_FLIGHT] >= m[source + DEPTH]:
            when = max(when, m[ring] + m[source + GAP]) if m[source + RING_SIZE] > 0 else NEVER
    return max(when, m[source + OFFERED] * m[source + PACE] >> 16)


@borrower
def judge(m, channel, now):
    """Decide read or write mode; say in DIRTY whether the choice must be made again."""
    reads, writes = m[channel + COUNT], 1000 * m[channel + COUNT + 1]
    if m[channel + MODE] == 0:
        if writes > m[HIGH] or reads == 0:
            m[channel + MODE], m[channel + DIRTY] = 1, 1
    elif writes < m[LOW] and reads > 0:
        m[channel + MODE], m[channel + DIRTY] = 0, 1
    fresh = m[channel + FRESH]
    if m[channel + DIRTY] == 0 and fresh > 0 and m[fresh + C_QUEUE] == m[channel + MODE]:
        # A single new candidate may come before the chosen command; being youngest it loses ties.
        at = max(m[fresh + C_READY], m[m[fresh + C_GROUP]], m[m[fresh + C_RANK]], now)
        m[channel + DIRTY] = 1 if at < m[channel + AT] else 0
    m[channel + FRESH] = -1
