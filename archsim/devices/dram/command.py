"""Command-level DRAM controller, event-skipping: the fast twin of :mod:`archsim.devices.dram.oracle`.

The rules and their order inside a cycle are in the oracle's docstring; this file says only how they are made fast.

* Time advances from event to event. A channel's next command and its cycle are known from one scan over *candidates*;
  only refreshes, closed-row precharges, offers and departures can come before it.
* A bank has at most two candidates a queue: its oldest hit (or, when closed, its oldest request) and its oldest row
  miss. Each carries the bank's own earliest cycle and the places of those that its group and its rank have in common,
  so a scan is max and min over packed keys (cycles from now, age).
* Requests of a bank and queue are a doubly linked list in order of age; a list is walked only when its bank opens.
* A new request opens the choice again only if it makes a new candidate that comes earlier, or changes the mode.

State is the vector of :mod:`archsim.devices.dram.layout`; ``m[handle + FIELD]`` throughout. ``run`` is one long
function over leaf functions: numba counts references in every function that calls another which it does not inline, and
those atomic counts would double the time of a request.
"""

from __future__ import annotations

from numba import njit

# isort: off
from archsim.devices.dram.layout import (
    ACT, ACT2, AGE, ALL_BANK, AT, AT_REQUEST, BANK, BANKS, BANK_CHANNEL, BANK_ID, BANK_RANK, CAS_RD, CELL, CHANNEL,
    CHANNELS, CLOCK, CLOSED_CAP, CLOSE_AT, CLOSING, CONFLICTS, COUNT, COUNTED_BIT, COUNTS, C_BANK, C_MISS, C_QUEUE,
    DEADLINE, DEPARTED, DID_ARRIVE, DID_BANK, DID_DEPART, DID_SLOT, DIRTY, END, EXPIRY, FIRST_BANK, FIRST_RANK,
    FOLLOW, FOLLOW_AT, FRESH, GATES, HEAD, HIT, HITS, LAST, LIMITED, LISTS, LIST_SIZE, LOGGED, MISS, MISSES, NEVER,
    NEXT_AGE, N_ACTIVE, N_BANKS, N_CHANNELS, N_PRIORITY, N_RANKS, N_SOURCES, OF_ACTIVE, OF_PRIORITY, OF_QUEUE, OPEN,
    OPENED_FOR, OPEN_BANKS, OUTSTANDING, PENDING, PER_RANK, PRE, PREAB, PRIORITY, RANK, RANK_BANKS, RANK_ID,
    RANK_READY, RD, RDA, READ_DEPTH, REFAB, REFPB, REFRESH, REFRESH_AT, REFRESH_STEP, ROW, SLOT_BANK, SOURCE,
    SOURCES, SYNC, SYNC_AFTER, TAG, TURN, TURN_SOURCE, USES, WHAT, WHICH, WRITE_BIT,
)  # fmt: skip

# isort: on
from archsim.devices.dram.effects import (
    after_activate,
    after_column,
    after_precharge,
    after_rank_precharge,
    apply_timing,
)
from archsim.devices.dram.queues import (
    ANSWERED_NOW,
    QUEUED,
    accept,
    answered,
    book_offer,
    choose_queued,
    choose_urgent,
    earliest,
    judge,
    leave_queue,
    offer_at,
    pop_priority,
    push_priority,
    refresh_bank,
)
from archsim.jit import borrower

# Why `run` came back.
DONE, NEEDS_REQUESTS, LOG_FULL, STUCK, TIME_UP = range(5)
LOG_WORDS = 7


@borrower
def upkeep(m, channel):
    """Command that the head of the priority queue needs next; its bank or rank goes to DID_BANK."""
    head, target = m[m[channel + PRIORITY]], m[channel + WHICH]
    if head == REFAB:
        command = PREAB if m[target + OPEN_BANKS] > 0 else REFAB
    else:
        command = PRE if m[target + OPEN] >= 0 else REFPB
    if command == head:
        pop_priority(m, channel)
    m[DID_BANK] = target
    return command


@borrower
def needed(m, channel, now):
    """Command the chosen request needs, counted if it is its first; slot and bank go to DID_SLOT and DID_BANK."""
    which = m[channel + WHICH]
    if m[channel + WHAT] == OF_ACTIVE:
        here = m[which]
        bank = m[here + SLOT_BANK]
    else:
        bank = m[which + C_BANK]
        requests = bank + LISTS + m[which + C_QUEUE] * LIST_SIZE
        here = m[requests + (MISS if m[which + C_MISS] == 1 else HEAD if m[bank + OPEN] < 0 else HIT)]
    write = m[here + TAG] & WRITE_BIT
    outcome, command = HITS, RD + write
    if m[bank + OPEN] < 0:
        outcome, command = MISSES, ACT
    elif m[bank + OPEN] != m[here + ROW]:
        outcome, command = CONFLICTS, PRE
    elif m[SYNC] == 1 and now >= m[m[bank + BANK_RANK] + EXPIRY]:
        command = CAS_RD + write
    elif m[CLOSED_CAP] > 0 and m[bank + USES] >= m[CLOSED_CAP]:
        command = RDA + write
    if m[here + TAG] & COUNTED_BIT == 0:
        m[here + TAG] |= COUNTED_BIT
        m[outcome] += 1
    m[DID_SLOT], m[DID_BANK] = here, bank
    return command


@borrower
def queue_refreshes(m, channel, now):
    """Queue the refreshes that are due at `now`."""
    for r in range(m[N_RANKS]):
        rank = m[channel + FIRST_RANK] + r * RANK
        if m[REFRESH] == ALL_BANK:
            push_priority(m, channel, REFAB, rank)
        else:
            push_priority(m, channel, REFPB, m[rank + RANK_BANKS] + m[channel + TURN] * BANK)
    m[channel + TURN] += 1
    if m[channel + TURN] == m[PER_RANK]:
        m[channel + TURN] = 0
    m[channel + REFRESH_AT] = now + m[REFRESH_STEP]
    m[channel + DIRTY] = 1


@borrower
def queue_closes(m, channel, now):
    """Queue the closed-row precharges that `now` allows; CLOSE_AT becomes the next cycle in which one may be due."""
    gate, due = m[GATES + PRE], NEVER
    first = m[channel + FIRST_BANK]
    for bank in range(first, first + m[channel + N_BANKS] * BANK, BANK):
        if m[bank + OPEN] >= 0 and m[bank + USES] >= m[CLOSED_CAP] and m[bank + CLOSING] == 0:
            at = earliest(m, bank, gate)
            if at <= now:
                push_priority(m, channel, PRE, bank)
                m[bank + CLOSING] = 1
                m[channel + DIRTY] = 1
            else:
                due = min(due, at)
    m[channel + CLOSE_AT] = due


@borrower
def wait_second(m, channel, now):
    """Keep the next first activate away until the pending second one has had a slot of its own."""
    first = m[channel + FIRST_RANK] + RANK_READY + m[GATES + ACT]
    for at in range(first, first + m[N_RANKS] * RANK, RANK):
        m[at] = max(m[at], now + 2)


@njit(cache=True)
def run(m, place, cell, row, release, offers, final, until, log, served):
    """Advance until the requests run out, all are served (`final`), the log is full, or cycle `until`.

    Parameters
    ----------
    m : int64 vector
        State; see :mod:`archsim.devices.dram.layout`. Its sources say which requests are whose.
    place, cell, row : int64 [requests]
        ``(bank over all channels << 1) + write``, ``row * columns + column``, and the row of each request.
    release : int64 [requests] or [0]
        First cycle in which each may be offered; empty: no limit.
    offers : int
        Requests that may be taken in a cycle over all channels.
    final : int
        1: no more requests follow these.
    until : int
        Stop at this cycle.
    log : int64 [LOG_WORDS * n] or [0]
        ``cycle, command, channel, bank over all channels (rank for rank commands), request, its cell, its write bit``
        of each command (-1: the command serves no request). The caller resets LOGGED when it has taken them.
    served : int64 [2 * requests] or [0]
        Arrival and departure of each request since the start of the run.

    Returns
    -------
    int
        DONE, NEEDS_REQUESTS, LOG_FULL, STUCK or TIME_UP.
    """
    first = m[CHANNELS]
    end = first + m[N_CHANNELS] * CHANNEL
    sources = m[N_SOURCES]
    clock = m[CLOCK]
    outcome = -1
    while outcome < 0:
        m[CLOCK] = clock
        if clock >= until:
            outcome = TIME_UP
            break
        if log.size > 0 and LOG_WORDS * (m[LOGGED] + m[N_CHANNELS]) > log.size:
            outcome = LOG_FULL
            break
        # Offers of this cycle, from the first source in turn that can; `ahead` is when the next may be taken.
        ahead, left = NEVER, 0
        for _ in range(offers):
            ahead, left = NEVER, 0
            s = m[TURN_SOURCE]
            for _turn in range(sources):
                source = m[SOURCES] + s * SOURCE
                s = s + 1 if s + 1 < sources else 0
                k = m[source + AT_REQUEST]
                if k >= m[source + END]:
                    continue
                left = 1
                when = clock if m[source + LIMITED] == 0 else offer_at(m, source, clock)
                if release.size > 0:
                    when = max(when, release[k])
                if when > clock:
                    ahead = min(ahead, when)
                    continue
                write = place[k] & 1
                home = m[m[BANKS] + (place[k] >> 1) * BANK + BANK_CHANNEL]
                if m[home + COUNT + 1] > 0 and answered(m, source, place[k], cell[k], clock):
                    if served.size > 0:
                        served[2 * m[NEXT_AGE]], served[2 * m[NEXT_AGE] + 1] = clock, m[DEPARTED]
                    book_offer(m, source, k, write, ANSWERED_NOW, clock)
                elif m[home + COUNT + write] < m[READ_DEPTH + write]:
                    accept(m, source, place[k], cell[k], row[k], clock)
                    book_offer(m, source, k, write, QUEUED, clock)
                else:
                    continue
                m[TURN_SOURCE] = s
                ahead = clock
                break
            if ahead != clock:
                break
        if left == 0:
            if final == 0:
                outcome = NEEDS_REQUESTS
                break
            if m[OUTSTANDING] == 0:
                if clock >= m[LAST]:
                    outcome = DONE
                    break
                ahead = m[LAST]
        # The cycle itself.
        now = clock + 1
        soonest = NEVER
        for channel in range(first, end, CHANNEL):
            if now >= m[channel + REFRESH_AT]:
                queue_refreshes(m, channel, now)
            if now >= m[channel + CLOSE_AT]:
                queue_closes(m, channel, now)
            if m[channel + DIRTY] == 1 or m[channel + FRESH] >= 0:
                judge(m, channel, now)
                if m[channel + DIRTY] == 1:
                    m[channel + AT] = NEVER
                    if m[channel + N_ACTIVE] + m[channel + N_PRIORITY] > 0:
                        choose_urgent(m, channel, now)
                    if m[channel + N_PRIORITY] == 0 and m[channel + AT] > now:
                        choose_queued(m, channel, now)
                    m[channel + DIRTY] = 0
            pending = m[channel + PENDING]
            if m[channel + AT] <= now or pending >= 0:
                here = -1
                if pending >= 0 and (now == m[channel + DEADLINE] or m[channel + AT] > now):
                    command, bank, here = ACT2, pending, m[channel + OPENED_FOR]
                    m[channel + PENDING] = -1
                    m[channel + DIRTY] = 1 if m[channel + AT] <= now else 0
                else:
                    m[channel + DIRTY] = 1
                    if m[channel + WHAT] == OF_PRIORITY:
                        command = upkeep(m, channel)
                    else:
                        command = needed(m, channel, now)
                        here = m[DID_SLOT]
                    bank = m[DID_BANK]
                    whole_rank = command in (PREAB, REFAB)
                    if whole_rank:  # `bank` is a rank
                        apply_timing(m, command, bank, -1, now)
                        after_rank_precharge(m, bank, now)
                    elif command >= CAS_RD:
                        m[channel + FOLLOW], m[channel + FOLLOW_AT] = here, now + 1
                        m[m[bank + BANK_RANK] + EXPIRY] = now + 1 + m[SYNC_AFTER + (m[here + TAG] & WRITE_BIT)]
                    else:
                        apply_timing(m, command, m[bank + BANK_RANK], bank, now)
                        if command != PRE and m[channel + WHAT] == OF_QUEUE:
                            leave_queue(m, channel, bank, here)
                        if here >= 0 and command >= RD:
                            after_column(m, channel, bank, here, command, now)
                            if served.size > 0:
                                served[2 * m[here + AGE]], served[2 * m[here + AGE] + 1] = m[DID_ARRIVE], m[DID_DEPART]
                        elif command == ACT:
                            after_activate(m, channel, bank, here, now)
                        elif command == PRE:
                            after_precharge(m, bank, now)
                        refresh_bank(m, bank)
                    if m[channel + PENDING] >= 0:
                        wait_second(m, channel, now)
                m[channel + COUNTS + command] += 1
                if log.size > 0:
                    at = LOG_WORDS * m[LOGGED]
                    log[at], log[at + 1], log[at + 2] = now, command, (channel - first) // CHANNEL
                    log[at + 3] = m[bank + (RANK_ID if command in (PREAB, REFAB) else BANK_ID)]
                    log[at + 4] = m[here + AGE] if here >= 0 else -1
                    log[at + 5] = m[here + CELL] if here >= 0 else -1
                    log[at + 6] = m[here + TAG] & WRITE_BIT if here >= 0 else -1
                    m[LOGGED] += 1
            if m[channel + DIRTY] == 1 or m[channel + PENDING] >= 0:
                soonest = now + 1
            else:
                soonest = min(soonest, m[channel + AT], m[channel + REFRESH_AT], m[channel + CLOSE_AT])
        clock = max(now, min(ahead, soonest - 1, until))
        if clock >= NEVER - 1:
            outcome = STUCK
    return outcome
