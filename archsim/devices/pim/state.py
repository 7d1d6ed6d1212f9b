"""State of PIM channels for the command kernel: layout, timing gates, row and data-clock state.

One int64 vector ``m``: a header, the tables of the device, then one block for each class of channels (``h`` is where
a block starts; ``m[h + FIELD]``). Times are cycles.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from archsim.devices.pim.isa import SYNC_FOR, Cmd, Field, Kind
from archsim.devices.pim.standard import MAX_BANKS, MAX_GROUPS, PimStandard
from archsim.jit import borrower

NEVER = 1 << 60
QUEUE = 33  # a queue accepts while its length is at most 32
RING = 256
N = len(Cmd)

# Header.
CLASSES, FIRST, TWO_STEP, REFRESH, BANKS, PER_GROUP, STALLED, LINE, HOLD, LOGGED, NOW, HELD_UP = range(12)
LATENCY = 16
REGISTER = LATENCY + N  # 1: the command needs the register mode
CAS = REGISTER + N  # command that starts the data clock first; -1: none
OPENS = CAS + N  # 1: an all-bank command that needs its row open in all banks
SPACING = OPENS + N  # cycles by which an all-bank command keeps itself away
EFFECT = SPACING + N  # by command: (first entry, entries) at channel, bank group, bank
ENTRIES = EFFECT + 6 * N

# Block of a class.
(
    SYNC_UNTIL, MODE, PRIORITY, SEGMENT, SEGMENTS, TOTAL, OVER, WRITERS, READER, READERS, NEXT_REFRESH, WRITE_MODE,
    N_ACTIVE, N_READ, N_WRITE, UNIFORM, UNIFORM_ROW, WHAT, WHICH, DIRTY, NEXT_AT, NEXT_COMMAND,
) = range(22)  # fmt: skip
COUNTS = 24
GATE = COUNTS + N
GROUP_GATE = GATE + N
BANK_GATE = GROUP_GATE + MAX_GROUPS * N
STATE = BANK_GATE + MAX_BANKS * N
ROW = STATE + MAX_BANKS
SEGMENT_RING = ROW + MAX_BANKS  # (instruction, requests left) of the in-order queue
READER_RING = SEGMENT_RING + 128  # (done at, instruction) of answers under way
ACTIVE_LIST = READER_RING + 2 * RING
READ_LIST = ACTIVE_LIST + 128
WRITE_LIST = READ_LIST + QUEUE
BLOCK = WRITE_LIST + QUEUE

CLOSED, HALF, OPEN, MIXED = 0, 1, 2, 3
NOTHING, PROTECTED = -1, -2
PATIENCE = 1 << 16  # cycles in a row in which a row may be protected before the run is called stuck
FROM_ACTIVE, FROM_PRIORITY, FROM_QUEUE, FROM_READS, FROM_WRITES = range(5)

ACT, ACT2, PRE, PREA, RD, WR, ACT16, ACT16_2, MAC, MAC16, TMOD, REFAB, RDCP, WRCP = (
    int(c) for c in (Cmd.ACT, Cmd.ACT2, Cmd.PRE, Cmd.PREA, Cmd.RD, Cmd.WR, Cmd.ACT16, Cmd.ACT16_2, Cmd.MAC,
                     Cmd.MAC16, Cmd.TMOD, Cmd.REFAB, Cmd.RDCP, Cmd.WRCP)
)  # fmt: skip
F_KIND, F_COMMAND, F_COUNT, F_BANK, F_ROW, F_BLOCKING, F_DELAY = (
    int(f) for f in (Field.KIND, Field.COMMAND, Field.COUNT, Field.BANK, Field.ROW, Field.BLOCKING, Field.DELAY)
)
K_PIM, K_BARRIER, K_READ, K_WRITE = int(Kind.PIM), int(Kind.BARRIER), int(Kind.READ), int(Kind.WRITE)


@borrower
def is_single(command):
    """Whether the command works in one bank."""
    return command in (RD, WR, MAC, RDCP, WRCP)


@borrower
def gate(m, h, command, bank):
    """Earliest cycle of `command`."""
    at = m[h + GATE + command]
    if bank >= 0:
        at = max(at, m[h + GROUP_GATE + bank // m[PER_GROUP] * N + command], m[h + BANK_GATE + bank * N + command])
    return at


@borrower
def opener(m, h, command, row):
    """Command that an all-bank command needs next for its row: precharge, activate, or itself."""
    if m[h + UNIFORM] != MIXED:
        state = m[h + UNIFORM]
        if state == OPEN:
            return command if m[h + UNIFORM_ROW] == row else PREA
        return ACT16 if state == CLOSED else ACT16_2
    closed, half = False, False
    for b in range(m[BANKS]):
        state = m[h + STATE + b]
        if state == OPEN and m[h + ROW + b] != row:
            return PREA
        closed |= state == CLOSED
        half |= state == HALF
    return ACT16 if closed else ACT16_2 if half else command


@borrower
def needed(m, h, command, bank, row):
    """Command to issue next for a request, data clock apart."""
    if command == REFAB:
        if m[h + UNIFORM] == MIXED:
            for b in range(m[BANKS]):
                if m[h + STATE + b] != CLOSED:
                    return PREA
            return REFAB
        return REFAB if m[h + UNIFORM] == CLOSED else PREA
    if m[OPENS + command] == 1:
        return opener(m, h, command, row)
    if is_single(command):
        state = m[h + STATE + bank]
        if state == CLOSED:
            return ACT
        if state == HALF:
            return ACT2
        if m[h + ROW + bank] != row:
            return PRE
    return command


@borrower
def due(m, h, command, bank, row, now):
    """Next command of a request and the first cycle from `now` on in which it may issue: (cycle, command)."""
    first = needed(m, h, command, bank, row)
    cas = m[CAS + first]
    if cas < 0:
        return max(now, gate(m, h, first, bank)), first
    at = max(now, gate(m, h, first, bank))
    if at <= m[h + SYNC_UNTIL]:
        return at, first
    return max(now, m[h + SYNC_UNTIL] + 1, gate(m, h, cas, bank)), cas


@borrower
def set_all(m, h, state, row):
    """All banks to one state."""
    m[h + UNIFORM], m[h + UNIFORM_ROW] = state, row
    for b in range(m[BANKS]):
        m[h + STATE + b], m[h + ROW + b] = state, row


@borrower
def issue(m, h, command, bank, row, now):
    """Issue a command: count it, raise the gates it shuts, change bank and data-clock state."""
    m[h + COUNTS + command] += 1
    entry = m[EFFECT + 6 * command]
    for e in range(entry, entry + 2 * m[EFFECT + 6 * command + 1], 2):
        at = h + GATE + m[e]
        m[at] = max(m[at], now + m[e + 1])
    if bank >= 0:
        for level in range(1, 3):
            entry = m[EFFECT + 6 * command + 2 * level]
            base = h + GROUP_GATE + bank // m[PER_GROUP] * N if level == 1 else h + BANK_GATE + bank * N
            for e in range(entry, entry + 2 * m[EFFECT + 6 * command + 2 * level + 1], 2):
                m[base + m[e]] = max(m[base + m[e]], now + m[e + 1])
    half = HALF if m[TWO_STEP] == 1 else OPEN
    if command == ACT16:
        set_all(m, h, half, row)
    elif command == ACT16_2:
        set_all(m, h, OPEN, row)
    elif command == PREA:
        set_all(m, h, CLOSED, -1)
    elif command in (ACT, ACT2, PRE):
        m[h + UNIFORM] = MIXED
        m[h + STATE + bank] = CLOSED if command == PRE else OPEN if command == ACT2 else half
        m[h + ROW + bank] = -1 if command == PRE else row
    elif m[CAS + command] >= 0:
        m[h + SYNC_UNTIL] = now + m[LATENCY + command]
    elif command > TMOD:
        for c in range(N):
            if m[CAS + c] == command:
                m[h + SYNC_UNTIL] = now + m[LATENCY + c] + 1


def new_state(standard: PimStandard, classes: int) -> np.ndarray:
    """State vector at cycle 0: banks closed, register mode off, data clock stopped."""
    return _at_rest(standard, classes).copy()


@lru_cache(maxsize=64)
def _at_rest(standard: PimStandard, classes: int) -> np.ndarray:
    entries: list[int] = []
    m = np.zeros(ENTRIES, np.int64)
    m[CLASSES], m[TWO_STEP], m[REFRESH], m[NOW] = classes, standard.two_step, standard.refresh_cycles, 1
    m[BANKS], m[PER_GROUP] = standard.banks, standard.organisation["banks_per_group"]
    m[CAS : CAS + N] = -1
    for command in Cmd:
        m[LATENCY + command] = standard.latency.get(command, 0)
        m[REGISTER + command] = command in standard.register_mode
        m[OPENS + command] = command in standard.opens_row
        if command in standard.sync:
            m[CAS + command] = SYNC_FOR[command]
        for level in range(3):
            longest: dict[int, int] = {}
            for _, then, _, cycles in standard.rows[(standard.rows[:, 0] == command) & (standard.rows[:, 2] == level)]:
                longest[int(then)] = max(int(cycles), longest.get(int(then), 0))
            m[EFFECT + 6 * command + 2 * level] = ENTRIES + len(entries)
            m[EFFECT + 6 * command + 2 * level + 1] = len(longest)
            entries += [x for pair in sorted(longest.items()) for x in pair]
            if level == 0:
                m[SPACING + command] = longest.get(int(command), 0)
    m[FIRST] = ENTRIES + len(entries)
    block = np.zeros(BLOCK, np.int64)
    block[SYNC_UNTIL] = block[UNIFORM_ROW] = -1
    block[NEXT_AT] = NEVER
    block[NEXT_REFRESH] = standard.refresh_cycles or NEVER
    return np.concatenate([m, np.array(entries, np.int64), np.tile(block, classes)])
