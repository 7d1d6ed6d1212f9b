"""Plain cycle-by-cycle DRAM controller: the rules of :mod:`archsim.devices.dram.command` without any of its tricks.

Each cycle is stepped, each queue is a list in order of age, and each command is checked against every constraint row.
It is slow and meant to be read; the property tests hold the event-skipping kernel against it, cycle by cycle.

One cycle: offer one request (cycle c), go to c + 1, queue refreshes that are due, queue precharges of the closed-row
policy, decide read or write mode, issue at most one command a channel. The command slot goes, in this order, to

1. a second activate at its deadline;
2. the oldest ready request of the active buffer (requests whose own activate opened the row);
3. the head of the priority queue (refresh, closed-row precharge) if that is ready; while it holds anything, nothing
   below but a pending second activate may use the slot;
4. the oldest ready request of the read or the write queue, by mode;
5. a pending second activate.

Source of the rules: the published behaviour of Ramulator 2.1's LPDDR5 controller (c5b1c3a).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from archsim.devices.dram.oracle_channel import FOLLOW, TURN, WRITE_MODE, append, new_channels, one, remove
from archsim.devices.dram.table import Cmd, Level, Refresh
from archsim.jit import callee

ACT, ACT2, PRE, PREAB = int(Cmd.ACT), int(Cmd.ACT2), int(Cmd.PRE), int(Cmd.PREAB)
RD, WR, RDA, WRA = int(Cmd.RD), int(Cmd.WR), int(Cmd.RDA), int(Cmd.WRA)
REFAB, REFPB, CAS_RD, CAS_WR = int(Cmd.REFAB), int(Cmd.REFPB), int(Cmd.CAS_RD), int(Cmd.CAS_WR)
BY_GROUP, BY_BANK, BY_OTHER_RANK = int(Level.BANKGROUP), int(Level.BANK), int(Level.OTHER_RANK)
ALL_BANK, PER_BANK = int(Refresh.ALL_BANK), int(Refresh.PER_BANK)

READS, WRITES, ACTIVE, PRIORITY = 0, 1, 2, 3
HIT, MISS, CONFLICT, ANSWERED = 0, 1, 2, 3


class Requests(NamedTuple):
    """Decoded requests in trace order, int64; ``bank`` counts over the ranks of a channel."""

    channel: np.ndarray
    bank: np.ndarray
    row: np.ndarray
    column: np.ndarray
    write: np.ndarray
    release: np.ndarray  # first cycle in which it may be offered


class Outcome(NamedTuple):
    """Per request, int64: cycle accepted, cycle departed (last data beat, or write command), hit/miss/..., or -1."""

    arrive: np.ndarray
    depart: np.ndarray
    kind: np.ndarray


class Choice(NamedTuple):
    """What the command slot is used for; -1 where it does not apply."""

    command: int
    bank: int  # or rank
    request: int
    queue: int
    position: int


class Gates(NamedTuple):
    """Constraint rows sorted by the command they hold back; those of command c are ``row[start[c]:start[c + 1]]``."""

    row: np.ndarray
    start: np.ndarray


def gates(rows: np.ndarray, commands: int) -> Gates:
    """Sort constraint rows (int64 [n, 5]) for commands ``0 .. commands - 1``."""
    order = np.argsort(rows[:, 1], kind="stable")
    return Gates(rows[order], np.searchsorted(rows[order, 1], np.arange(commands + 1)).astype(np.int64))


@callee
def timing_met(rows, issued, org, rank, group, bank, command, clock):
    """True if every constraint row allows `command` at `clock`; `issued` is that of a Channel."""
    for r in range(rows.start[command], rows.start[command + 1]):
        first, level = rows.row[r, 0], rows.row[r, 2]
        window, cycles = rows.row[r, 3], rows.row[r, 4]
        if level == BY_OTHER_RANK:
            for other in range(org.ranks):
                if other != rank and issued[0, other, first, window - 1] + cycles > clock:
                    return False
            continue
        node = bank if level == BY_BANK else group if level == BY_GROUP else rank
        if issued[level, node, first, window - 1] + cycles > clock:
            return False
    return True


@callee
def note_issue(issued, rank, group, bank, command, clock):
    """Record an issue at every level (a rank command carries group and bank -1)."""
    for level in range(3):
        node = rank if level == 0 else group if level == 1 else bank
        if node < 0:
            continue
        for k in range(issued.shape[3] - 1, 0, -1):
            issued[level, node, command, k] = issued[level, node, command, k - 1]
        issued[level, node, command, 0] = clock


@callee
def next_command(ch, rules, req, request, rank, clock):
    """Command a request needs next, given the state of its bank and of the data clock."""
    bank, write = req.bank[request], req.write[request]
    if ch.open_row[bank] < 0:
        return ACT
    if ch.open_row[bank] != req.row[request]:
        return PRE
    if rules.sync == 1 and clock >= ch.expiry[rank]:
        return CAS_WR if write else CAS_RD
    if rules.closed_cap > 0 and ch.accesses[bank] >= rules.closed_cap:
        return WRA if write else RDA
    return WR if write else RD


@callee
def hit_before(ch, req, kind, end, bank):
    """True if one of the first `end` requests of a queue hits the row open in `bank`."""
    for k in range(end):
        request = ch.queue[kind, k]
        if req.bank[request] == bank and req.row[request] == ch.open_row[bank]:
            return True
    return False


@callee
def may_issue(ch, org, rules, rows, req, source, position, command, clock):
    """True if the controller's rules and the timing allow a request's next command."""
    request = ch.queue[source, position]
    bank, write = req.bank[request], req.write[request]
    if command == ACT and (ch.pending[0] >= 0 or (source != ACTIVE and ch.size[ACTIVE] >= rules.active_depth)):
        return False
    if command == PRE and hit_before(ch, req, ACTIVE, ch.size[ACTIVE], bank):
        return False
    if command == PRE and source != ACTIVE and rules.row_hit == 1 and hit_before(ch, req, source, position, bank):
        return False
    gate = command
    if command in (CAS_RD, CAS_WR):  # may issue when the column command itself could
        gate = WR if write else RD
    return timing_met(rows, ch.issued, org, bank // (org.groups * org.banks), bank // org.banks, bank, gate, clock)


@callee
def answered(ch, req, request):
    """True if the write queue holds the address of a request."""
    for k in range(ch.size[WRITES]):
        w = ch.queue[WRITES, k]
        if req.bank[w] == req.bank[request] and req.row[w] == req.row[request] and req.column[w] == req.column[request]:
            return True
    return False


@callee
def offer(ch, rules, req, out, request, depth, gap, clock):
    """Offer a request to its channel; True if it is taken."""
    if req.release[request] > clock:
        return False
    if depth > 0:
        in_flight = 0
        for k in range(request):
            if req.write[k] == 0 and (out.depart[k] < 0 or out.depart[k] + gap > clock):
                in_flight += 1
        if in_flight >= depth:
            return False
    write = req.write[request]
    if (rules.merge if write else rules.forward) == 1 and answered(ch, req, request):
        out.depart[request], out.kind[request] = clock + (0 if write else 1), ANSWERED
    elif ch.size[write] < (rules.write_depth if write else rules.read_depth):
        append(ch, write, request)
    else:
        return False
    out.arrive[request] = clock
    return True


@callee
def queue_maintenance(ch, org, rules, rows, clock):
    """Queue what is due: refreshes, and closed-row precharges. Entries are (command << 32) + bank or rank."""
    per_rank = org.groups * org.banks
    if rules.refresh == ALL_BANK and clock % rules.refresh_all_interval == 0:
        for rank in range(org.ranks):
            append(ch, PRIORITY, (REFAB << 32) + rank)
    if rules.refresh == PER_BANK and clock % rules.refresh_bank_interval == 0:
        for rank in range(org.ranks):
            append(ch, PRIORITY, (REFPB << 32) + rank * per_rank + ch.flag[TURN])
        ch.flag[TURN] = (ch.flag[TURN] + 1) % per_rank
    if rules.closed_cap > 0:
        for bank in range(org.ranks * per_rank):
            due = ch.open_row[bank] >= 0 and ch.accesses[bank] >= rules.closed_cap and ch.closing[bank] == 0
            if due and timing_met(rows, ch.issued, org, bank // per_rank, bank // org.banks, bank, PRE, clock):
                append(ch, PRIORITY, (PRE << 32) + bank)
                ch.closing[bank] = 1
    # The row that the head wanted closed may have been closed by an auto-precharge.
    while ch.size[PRIORITY] > 0 and ch.queue[PRIORITY, 0] >> 32 == PRE:
        bank = ch.queue[PRIORITY, 0] & 0xFFFFFFFF
        if ch.open_row[bank] >= 0:
            break
        ch.closing[bank] = 0
        remove(ch, PRIORITY, 0)


@callee
def decide_mode(ch, rules):
    """Read or write mode, by the fill of the queues."""
    fill = 1000 * ch.size[WRITES]
    if ch.flag[WRITE_MODE] == 0:
        if fill > rules.high_permille * rules.write_depth or ch.size[READS] == 0:
            ch.flag[WRITE_MODE] = 1
    elif fill < rules.low_permille * rules.write_depth and ch.size[READS] > 0:
        ch.flag[WRITE_MODE] = 0


@callee
def choose_maintenance(ch, org, rows, clock):
    """What the head of the priority queue needs, if that is ready."""
    per_rank = org.groups * org.banks
    head, target = ch.queue[PRIORITY, 0] >> 32, ch.queue[PRIORITY, 0] & 0xFFFFFFFF
    command, bank = head, target
    if head == REFAB:
        # Rows to a rank command are rank rows: any bank of the rank stands for all.
        bank = target * per_rank
        for b in range(bank, bank + per_rank):
            if ch.open_row[b] >= 0:
                command = PREAB
    elif head == REFPB and ch.open_row[target] >= 0:
        command = PRE
    if timing_met(rows, ch.issued, org, bank // per_rank, bank // org.banks, bank, command, clock):
        return Choice(command, target, -1, PRIORITY, 0)
    return Choice(-1, -1, -1, -1, -1)


@callee
def choose_request(ch, org, rules, rows, req, source, clock):
    """Oldest ready request of a queue; one whose CAS issued in the cycle before comes first."""
    choice = Choice(-1, -1, -1, -1, -1)
    for k in range(ch.size[source]):
        request = ch.queue[source, k]
        if choice.command >= 0 and request != ch.flag[FOLLOW]:
            continue
        bank = req.bank[request]
        command = next_command(ch, rules, req, request, bank // (org.groups * org.banks), clock)
        if may_issue(ch, org, rules, rows, req, source, k, command, clock):
            choice = Choice(command, bank, request, source, k)
    return choice


@callee
def choose(ch, org, rules, rows, req, clock):
    """Use of the command slot; the order of the module's docstring."""
    second = Choice(ACT2, ch.pending[0], ch.pending[2], -1, -1)
    if ch.pending[0] >= 0 and clock == ch.pending[1] + rules.deadline:
        return second
    choice = choose_request(ch, org, rules, rows, req, ACTIVE, clock)
    if choice.command < 0:
        if ch.size[PRIORITY] > 0:
            choice = choose_maintenance(ch, org, rows, clock)
        else:
            choice = choose_request(ch, org, rules, rows, req, ch.flag[WRITE_MODE], clock)
    if choice.command < 0 and ch.pending[0] >= 0:
        return second
    return choice


@callee
def issue(ch, org, rules, req, out, choice, clock):
    """Change the state as the chosen command does."""
    command, bank, request = choice.command, choice.bank, choice.request
    per_rank = org.groups * org.banks
    whole = command in (PREAB, REFAB)
    rank = bank if whole else bank // per_rank
    note_issue(ch.issued, rank, -1 if whole else bank // org.banks, -1 if whole else bank, command, clock)
    if request >= 0 and out.kind[request] < 0:
        out.kind[request] = MISS if command == ACT else CONFLICT if command == PRE else HIT
    if command == ACT:
        ch.open_row[bank], ch.accesses[bank] = req.row[request], 0
        if rules.deadline > 0:
            ch.pending[0], ch.pending[1], ch.pending[2] = bank, clock, request
        if choice.queue != ACTIVE:
            remove(ch, choice.queue, choice.position)
            append(ch, ACTIVE, request)
    elif command == ACT2:
        ch.pending[0] = -1
    elif command == PRE:
        ch.open_row[bank], ch.closing[bank] = -1, 0
        if choice.queue == PRIORITY and ch.queue[PRIORITY, 0] >> 32 == PRE:
            remove(ch, PRIORITY, 0)
    elif command == PREAB:
        ch.open_row[bank * per_rank : (bank + 1) * per_rank] = -1
    elif command in (REFAB, REFPB):
        remove(ch, PRIORITY, 0)
    elif command in (CAS_RD, CAS_WR):
        ch.flag[FOLLOW] = request
        ch.expiry[rank] = clock + 1 + (rules.sync_after_read if command == CAS_RD else rules.sync_after_write)
    else:
        write = req.write[request]
        out.depart[request] = clock + (0 if write else rules.read_data)
        ch.expiry[rank] = clock + (rules.sync_after_write if write else rules.sync_after_read)
        ch.accesses[bank] += 1
        if command in (RDA, WRA):
            ch.open_row[bank] = -1
        remove(ch, choice.queue, choice.position)


@njit(cache=True)
def simulate(org, rules, rows, req, depth, gap, offers, log):
    """Step all channels until every request is served.

    Parameters
    ----------
    org, rules : Org, Rules
    rows : Gates
    req : Requests
    depth, gap : int
        Reads in flight allowed (0: no limit), and cycles from a read's departure to the next offer.
    offers : int
        Requests that may be taken in a cycle.
    log : int64 [capacity, 5]
        Receives ``cycle, command, channel, bank, request`` (bank is the rank for rank commands).

    Returns
    -------
    out : Outcome
    logged : int
        Commands issued; more than the capacity are counted, not stored.
    """
    count = req.bank.size
    out = Outcome(np.full(count, -1, np.int64), np.full(count, -1, np.int64), np.full(count, -1, np.int64))
    channels = new_channels(org, rules, rows.start.size - 1)
    logged, offered, clock = 0, 0, 0
    while offered < count or out.depart.min() < 0 or clock < out.depart.max():
        for _ in range(offers):
            if offered < count:
                ch = one(channels, req.channel[offered])
                offered += offer(ch, rules, req, out, offered, depth, gap, clock)
        clock += 1
        for c in range(org.channels):
            ch = one(channels, c)
            queue_maintenance(ch, org, rules, rows, clock)
            decide_mode(ch, rules)
            choice = choose(ch, org, rules, rows, req, clock)
            ch.flag[FOLLOW] = -1
            if choice.command < 0:
                continue
            if logged < log.shape[0]:
                log[logged, 0], log[logged, 1], log[logged, 2] = clock, choice.command, c
                log[logged, 3], log[logged, 4] = choice.bank, choice.request
            logged += 1
            issue(ch, org, rules, req, out, choice, clock)
    return out, logged
