"""Memory layout of the command kernel: everything a run remembers is one int64 vector.

The kernel's functions take that vector and *handles*, positions of records in it, so that a call passes one array:
numba passes each array as seven words, and separate arrays cost thirty times as much a request. A record's field is
``m[handle + FIELD]``. Records: header (at 0), source, channel, rank, group, bank, candidate, slot; plain lists:
effects, active buffer, priority queue, free slots, filter, histogram, rings, windows.
"""

from __future__ import annotations

import numpy as np

from archsim.devices.dram.table import COMMANDS, Cmd, Dense, Org, Refresh, Rules

NEVER = 1 << 60
AGE_BITS = 40  # requests of one run; with 20 bits of time a key (cycles from now, age) fits 62 bits
FILTER_SIZE = 4096  # counters a channel that tell which addresses cannot be in the write queue
HISTOGRAM_BINS = 1 << 16  # one bin a cycle of read latency; the last holds all longer ones
WINDOW = 16

# Header: progress, outcome of the last issue, where things are, and the rules.
CLOCK, LAST, OUTSTANDING, LOGGED, TURN_SOURCE, NEXT_AGE, DEPARTED, HITS, MISSES, CONFLICTS = range(10)
MERGED, FORWARDED, DID_SLOT, DID_BANK, DID_ARRIVE, DID_DEPART = range(10, 16)
SOURCES, N_SOURCES, CHANNELS, N_CHANNELS, BANKS, HISTOGRAM, EFFECTS, N_RANKS, N_GROUPS, PER_RANK = range(17, 27)
READ_DEPTH, WRITE_DEPTH, HIGH, LOW, ACTIVE_DEPTH, ROW_HIT, CLOSED_CAP, REFRESH, SYNC, FORWARD = range(27, 37)
MERGE, READ_DATA, DEADLINE_CYCLES, REFRESH_STEP, SYNC_AFTER, BASES, GATES = 37, 38, 39, 40, 41, 43, 46
HEADER = GATES + COMMANDS  # SYNC_AFTER, BASES and GATES are indexed (by write, by level, by command)

# Source of requests: [AT_REQUEST, END) of the request columns; FIRST is where it starts again if WRAP is 1.
AT_REQUEST, END, FIRST, WRAP, DEPTH, GAP, PACE, POSTED, OFFERED, IN_FLIGHT = range(10)
RING, RING_SIZE, READS, LATENCY, WRITES, WAIT, ANSWERED, BINS, LIMITED, SOURCE = range(10, 20)

# Channel. COUNT, CANDIDATES, LIST and LIVE are indexed by queue (0 read, 1 write).
COUNT, CANDIDATES, LIST, LIVE, MODE, AT, WHAT, WHICH, DIRTY = 0, 2, 4, 6, 8, 9, 10, 11, 12
FRESH, PENDING, DEADLINE, FOLLOW, FOLLOW_AT, ACTIVE, N_ACTIVE, PRIORITY, N_PRIORITY = range(13, 22)
REFRESH_AT, CLOSE_AT, TURN, FREE, N_FREE, FILTER, FIRST_BANK, FIRST_RANK, N_BANKS, OPENED_FOR, COUNTS = range(22, 33)
CHANNEL = COUNTS + COMMANDS
# What a channel's next command is for.
NOTHING, OF_ACTIVE, OF_PRIORITY, OF_QUEUE = range(4)

# Rank; group (earliest cycle by gate); bank.
EXPIRY, OPEN_BANKS, OPEN_SINCE, OPEN_CYCLES, RANK_BANKS, RANK_CHANNEL, RANK_ID, WINDOWS = range(8)
RANK_READY = WINDOWS + COMMANDS
RANK = RANK_READY + COMMANDS
GROUP = COMMANDS
OPEN, USES, CLOSING, AWAITED, LISTS = 0, 1, 2, 3, 4
BANK_CHANNEL, BANK_RANK, BANK_GROUP, BANK_CANDIDATES, BANK_ID, BUFFERED, READY = 12, 13, 14, 15, 17, 18, 19
BANK = READY + COMMANDS
HEAD, TAIL, HIT, MISS, LIST_SIZE = range(5)

# Candidate and slot, eight words each: one cache line.
C_READY, C_GROUP, C_RANK, C_AGE, C_PLACE, C_BANK, C_QUEUE, C_MISS, CANDIDATE = range(9)
NEXT, PREV, CELL, ROW, AGE, ARRIVE, SLOT_BANK, TAG, SLOT = range(9)
WRITE_BIT, COUNTED_BIT, SOURCE_SHIFT = 1, 2, 2

# Effects of a command: where its plain entries, those for other ranks and its windows stand, each with their number. A
# plain entry is (level, gate, cycles) with levels of BASES; the others are (back, gate, cycles).
PLAIN, N_PLAIN, OTHERS, N_OTHERS, WINDOWED, N_WINDOWED, EFFECT = range(7)
ENTRY = 3
IN_BANK, IN_GROUP, IN_RANK = range(3)


class _Builder:
    """Places records one behind another; the vector is made when all sizes are known."""

    def __init__(self) -> None:
        self.size = HEADER
        self.values: dict[int, int] = {}

    def take(self, words: int) -> int:
        at = self.size
        self.size += words
        return at

    def put(self, at: int, values: dict[int, int]) -> None:
        for field, value in values.items():
            self.values[at + field] = int(value)

    def vector(self) -> np.ndarray:
        m = np.zeros(self.size, np.int64)
        m[list(self.values)] = list(self.values.values())
        return m


def new_state(org: Org, rules: Rules, effects: Dense, depths: tuple[int, ...] = (0,)) -> np.ndarray:
    """Fresh state: all banks closed, nothing queued, clock 0.

    Parameters
    ----------
    depths : tuple of int
        For each source of requests the number that may be in flight (0: no limit).
    """
    b = _Builder()
    per_rank = org.groups * org.banks
    all_bank = rules.refresh == Refresh.ALL_BANK
    header = {
        N_SOURCES: len(depths), N_CHANNELS: org.channels, N_RANKS: org.ranks, N_GROUPS: org.groups, PER_RANK: per_rank,
        READ_DEPTH: rules.read_depth, WRITE_DEPTH: rules.write_depth, HIGH: rules.high_permille * rules.write_depth,
        LOW: rules.low_permille * rules.write_depth, ACTIVE_DEPTH: rules.active_depth, ROW_HIT: rules.row_hit,
        CLOSED_CAP: rules.closed_cap, REFRESH: rules.refresh, SYNC: rules.sync, FORWARD: rules.forward,
        MERGE: rules.merge, READ_DATA: rules.read_data, DEADLINE_CYCLES: rules.deadline,
        REFRESH_STEP: rules.refresh_all_interval if all_bank else rules.refresh_bank_interval,
        SYNC_AFTER: rules.sync_after_read, SYNC_AFTER + 1: rules.sync_after_write,
        EFFECTS: _place_effects(b, effects),
    }  # fmt: skip
    header |= {GATES + c: gate for c, gate in enumerate(effects.gate_of.tolist())}
    header[SOURCES] = b.take(SOURCE * len(depths))
    for s, depth in enumerate(depths):
        at = header[SOURCES] + s * SOURCE
        b.put(at, {DEPTH: depth, LIMITED: depth > 0, POSTED: 1, RING: b.take(depth + 1), BINS: b.take(HISTOGRAM_BINS)})
    header[CHANNELS] = b.take(CHANNEL * org.channels)
    ranks = b.take(RANK * org.channels * org.ranks)
    groups = b.take(GROUP * org.channels * org.ranks * org.groups)
    header[BANKS] = b.take(BANK * org.channels * org.ranks * per_rank)
    b.put(0, header)
    for c in range(org.channels):
        _place_channel(b, header[CHANNELS] + c * CHANNEL, ranks, header[BANKS], c, org, rules)
    for r in range(org.channels * org.ranks):
        at = ranks + r * RANK
        b.put(at, {
            EXPIRY: -NEVER, RANK_BANKS: header[BANKS] + r * per_rank * BANK,
            RANK_CHANNEL: header[CHANNELS] + r // org.ranks * CHANNEL, RANK_ID: r,
        })  # fmt: skip
        b.put(at + RANK_READY, dict.fromkeys(range(COMMANDS), -NEVER))
        for command in range(len(effects.window_ptr) - 1):
            if effects.window_ptr[command + 1] > effects.window_ptr[command]:
                ring = b.take(1 + WINDOW)  # where the last issue stands, then the issues
                b.put(at, {WINDOWS + command: ring})
                b.put(ring + 1, dict.fromkeys(range(WINDOW), -NEVER))
    for g in range(org.channels * org.ranks * org.groups):
        b.put(groups + g * GROUP, dict.fromkeys(range(GROUP), -NEVER))
    for k in range(org.channels * org.ranks * per_rank):
        _place_bank(b, k, header, ranks, groups, org)
    return b.vector()


def _place_effects(b: _Builder, effects: Dense) -> int:
    table = b.take(EFFECT * len(effects.gate_of))
    parts = ("ptr", "gate", "cycles")
    for command in range(len(effects.gate_of)):
        lists: dict[int, list[tuple[int, int, int]]] = {PLAIN: [], OTHERS: [], WINDOWED: []}
        for name, kind, level in (
            ("bank", PLAIN, IN_BANK), ("group", PLAIN, IN_GROUP), ("rank", PLAIN, IN_RANK), ("other", OTHERS, 0),
            ("window", WINDOWED, 0),
        ):  # fmt: skip
            ptr, gate, cycles = (getattr(effects, f"{name}_{part}") for part in parts)
            for k in range(int(ptr[command]), int(ptr[command + 1])):
                first = int(effects.window_back[k]) if kind == WINDOWED else level
                lists[kind].append((first, int(gate[k]), int(cycles[k])))
        for kind, entries in lists.items():
            at = b.take(ENTRY * len(entries))
            b.put(table + EFFECT * command, {kind: at, kind + 1: len(entries)})
            b.put(at, dict(enumerate(value for entry in entries for value in entry)))
    return table


def _place_channel(b: _Builder, at: int, ranks: int, banks: int, index: int, org: Org, rules: Rules) -> None:
    count = org.ranks * org.groups * org.banks
    slots = rules.read_depth + rules.write_depth + rules.active_depth + 1
    first_slot = b.take(SLOT * slots)
    free = b.take(slots)
    step = {Refresh.ALL_BANK: rules.refresh_all_interval, Refresh.PER_BANK: rules.refresh_bank_interval}
    b.put(free, {k: first_slot + k * SLOT for k in range(slots)})
    b.put(at, {
        AT: NEVER, CLOSE_AT: NEVER, REFRESH_AT: step.get(Refresh(rules.refresh), NEVER), DIRTY: 1, FRESH: -1,
        PENDING: -1, FOLLOW: -1, FOLLOW_AT: -1, ACTIVE: b.take(rules.active_depth + 1),
        PRIORITY: b.take(4 * (count + 64)),
        FREE: free, N_FREE: slots, FILTER: b.take(FILTER_SIZE), FIRST_BANK: banks + index * count * BANK,
        FIRST_RANK: ranks + index * org.ranks * RANK, N_BANKS: count,
    })  # fmt: skip
    for queue in range(2):
        b.put(at, {CANDIDATES + queue: b.take(2 * count * CANDIDATE), LIST + queue: b.take(2 * count)})


def _place_bank(b: _Builder, index: int, header: dict[int, int], ranks: int, groups: int, org: Org) -> None:
    per_rank = org.groups * org.banks
    count = org.ranks * per_rank
    at, channel = header[BANKS] + index * BANK, header[CHANNELS] + index // count * CHANNEL
    b.put(at, {
        OPEN: -1, BANK_CHANNEL: channel, BANK_RANK: ranks + index // per_rank * RANK,
        BANK_GROUP: groups + index // org.banks * GROUP, BANK_ID: index,
    })  # fmt: skip
    b.put(at + LISTS, dict.fromkeys(range(2 * LIST_SIZE), -1))
    b.put(at + READY, dict.fromkeys(range(COMMANDS), -NEVER))
    for queue in range(2):
        first = b.values[channel + CANDIDATES + queue] + index % count * 2 * CANDIDATE
        b.put(at, {BANK_CANDIDATES + queue: first})
        for miss in range(2):
            b.put(first + miss * CANDIDATE, {C_PLACE: -1, C_BANK: at, C_QUEUE: queue, C_MISS: miss})


#: Commands by id, for the kernel.
ACT, ACT2, PRE, PREAB = int(Cmd.ACT), int(Cmd.ACT2), int(Cmd.PRE), int(Cmd.PREAB)
RD, WR, RDA, WRA = int(Cmd.RD), int(Cmd.WR), int(Cmd.RDA), int(Cmd.WRA)
REFAB, REFPB, CAS_RD, CAS_WR = int(Cmd.REFAB), int(Cmd.REFPB), int(Cmd.CAS_RD), int(Cmd.CAS_WR)
ALL_BANK, PER_BANK = int(Refresh.ALL_BANK), int(Refresh.PER_BANK)
