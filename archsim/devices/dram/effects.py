"""What an issued command changes: earliest cycles of later commands, banks, buffers, statistics of its source."""

from __future__ import annotations

# isort: off
from archsim.devices.dram.layout import (
    ACTIVE, ARRIVE, AWAITED, BANK, BANK_GROUP, BANK_RANK, BASES, BINS, BUFFERED, CLOSED_CAP, CLOSE_AT, CLOSING,
    DEADLINE, DEADLINE_CYCLES, DEPTH, DID_ARRIVE, DID_DEPART, EFFECT, EFFECTS, ENTRY, EXPIRY, FIRST_RANK, FREE,
    GATES, HISTOGRAM_BINS, IN_BANK, IN_GROUP, IN_RANK, LAST, LATENCY, N_ACTIVE, N_FREE, N_OTHERS, N_PLAIN, N_RANKS,
    N_WINDOWED, OF_ACTIVE, OF_QUEUE, OPEN, OPENED_FOR, OPEN_BANKS, OPEN_CYCLES, OPEN_SINCE, OTHERS, OUTSTANDING,
    PENDING, PER_RANK, PLAIN, POSTED, PRE, RANK, RANK_BANKS, RANK_CHANNEL, RANK_READY, RDA, READS, READY, READ_DATA,
    ROW, SLOT_BANK, SOURCES, SOURCE_SHIFT, SYNC_AFTER, TAG, USES, WAIT, WHAT, WHICH, WINDOW, WINDOWED, WINDOWS,
    WRITES, WRITE_BIT,
)  # fmt: skip

# isort: on
from archsim.devices.dram.queues import earliest, note_departure, refresh_bank, sort_lists
from archsim.jit import borrower


@borrower
def apply_timing(m, command, rank, bank, now):
    """Raise the earliest cycles that an issue of `command` pushes; a rank command has bank -1."""
    effect = m[EFFECTS] + command * EFFECT
    if bank >= 0:
        m[BASES + IN_BANK], m[BASES + IN_GROUP] = bank + READY, m[bank + BANK_GROUP]
    m[BASES + IN_RANK] = rank + RANK_READY
    at = m[effect + PLAIN]
    for e in range(at, at + ENTRY * m[effect + N_PLAIN], ENTRY):
        gate = m[BASES + m[e]] + m[e + 1]
        m[gate] = max(m[gate], now + m[e + 2])
    if m[N_RANKS] > 1 and m[effect + N_OTHERS] > 0:
        first = m[m[rank + RANK_CHANNEL] + FIRST_RANK]
        at = m[effect + OTHERS]
        for other in range(first, first + m[N_RANKS] * RANK, RANK):
            if other != rank:
                for e in range(at, at + ENTRY * m[effect + N_OTHERS], ENTRY):
                    gate = other + RANK_READY + m[e + 1]
                    m[gate] = max(m[gate], now + m[e + 2])
    if m[effect + N_WINDOWED] > 0:
        ring = m[rank + WINDOWS + command]
        last = (m[ring] + 1) & (WINDOW - 1)
        m[ring], m[ring + 1 + last] = last, now
        at = m[effect + WINDOWED]
        for e in range(at, at + ENTRY * m[effect + N_WINDOWED], ENTRY):
            gate = rank + RANK_READY + m[e + 1]
            m[gate] = max(m[gate], m[ring + 1 + ((last - m[e]) & (WINDOW - 1))] + m[e + 2])


@borrower
def close_banks(m, rank, banks, now):
    """`banks` banks of the rank close: account the time in which any was open."""
    if banks > 0:
        m[rank + OPEN_BANKS] -= banks
        if m[rank + OPEN_BANKS] == 0:
            m[rank + OPEN_CYCLES] += now - m[rank + OPEN_SINCE]


@borrower
def after_column(m, channel, bank, here, command, now):
    """After a column command: statistics of its source, bank, data clock, buffers, next closed-row precharge."""
    write, rank = m[here + TAG] & WRITE_BIT, m[bank + BANK_RANK]
    source = m[SOURCES] + (m[here + TAG] >> SOURCE_SHIFT)
    gone = now
    if write == 1:
        m[source + WRITES] += 1
        m[source + WAIT] += now - m[here + ARRIVE]
    else:
        gone += m[READ_DATA]
        waited = gone - m[here + ARRIVE]
        m[source + READS] += 1
        m[source + LATENCY] += waited
        m[m[source + BINS] + min(waited, HISTOGRAM_BINS - 1)] += 1
    m[LAST] = max(m[LAST], gone)
    m[OUTSTANDING] -= 1
    m[DID_ARRIVE], m[DID_DEPART] = m[here + ARRIVE], gone
    if m[source + DEPTH] > 0 and (write == 0 or m[source + POSTED] == 0):
        note_departure(m, source, gone)
    m[rank + EXPIRY] = now + m[SYNC_AFTER + write]
    m[bank + USES] += 1
    if m[channel + WHAT] == OF_ACTIVE:
        m[channel + N_ACTIVE] -= 1
        for k in range(m[channel + WHICH], m[channel + ACTIVE] + m[channel + N_ACTIVE]):
            m[k] = m[k + 1]
        m[bank + AWAITED] -= 1
        m[bank + BUFFERED] -= 1
    if command >= RDA:
        m[bank + OPEN], m[bank + AWAITED] = -1, 0
        close_banks(m, rank, 1, now)
    elif m[CLOSED_CAP] > 0 and m[bank + USES] >= m[CLOSED_CAP]:
        m[channel + CLOSE_AT] = min(m[channel + CLOSE_AT], earliest(m, bank, m[GATES + PRE]))
    m[m[channel + FREE] + m[channel + N_FREE]] = here
    m[channel + N_FREE] += 1


@borrower
def after_activate(m, channel, bank, here, now):
    """State after a (first) activate: its request moves to the active buffer."""
    rank, row = m[bank + BANK_RANK], m[here + ROW]
    m[bank + OPEN], m[bank + USES] = row, 0
    if m[rank + OPEN_BANKS] == 0:
        m[rank + OPEN_SINCE] = now
    m[rank + OPEN_BANKS] += 1
    if m[DEADLINE_CYCLES] > 0:
        m[channel + PENDING], m[channel + DEADLINE] = bank, now + m[DEADLINE_CYCLES]
        m[channel + OPENED_FOR] = here
    first = m[channel + ACTIVE]
    if m[channel + WHAT] == OF_QUEUE:
        m[first + m[channel + N_ACTIVE]] = here
        m[channel + N_ACTIVE] += 1
        m[bank + BUFFERED] += 1
    m[bank + AWAITED] = 1
    if m[bank + BUFFERED] > 1:  # another one's row was closed by a refresh
        m[bank + AWAITED] = 0
        for k in range(first, first + m[channel + N_ACTIVE]):
            if m[m[k] + SLOT_BANK] == bank and m[m[k] + ROW] == row:
                m[bank + AWAITED] += 1
    sort_lists(m, bank)


@borrower
def after_precharge(m, bank, now):
    """State after a precharge."""
    m[bank + OPEN], m[bank + CLOSING], m[bank + AWAITED] = -1, 0, 0
    close_banks(m, m[bank + BANK_RANK], 1, now)


@borrower
def after_rank_precharge(m, rank, now):
    """State after a precharge of all banks, or of nothing before a refresh."""
    first = m[rank + RANK_BANKS]
    for bank in range(first, first + m[PER_RANK] * BANK, BANK):
        m[bank + OPEN], m[bank + AWAITED] = -1, 0
        refresh_bank(m, bank)
    close_banks(m, rank, m[rank + OPEN_BANKS], now)
