"""Chips and channels of the flash kernel: which command a chip takes next, and how data move.

A chip takes a command only when it is wholly idle; the oldest entry of the queue it serves sets die and page index, and
further entries of that die join, one a plane, when their page index is the same. A channel has one owner at a time;
when it falls free, waiting read data go first, then its chips are asked in turn.

Source of the rules: MQSim (CMU-SAFARI, commit 7ec40e3), out-of-order scheduler.
"""

from __future__ import annotations

from archsim.devices.flash import columns as k
from archsim.devices.flash.memory import append, at, remove
from archsim.jit import borrower


@borrower
def gather(m, ends, unit, key, mask):
    """Move entries of a queue that can share a command to the chip; returns the planes taken so far.

    All but the first must have the `key`, die and page; the first may have another page, when the oldest entry, whose
    key that is, is not ready.
    """
    tr = m[ends]
    while tr >= 0 and mask != m[k.Z_ALL_PLANES]:
        after = m[tr + k.T_NEXT]
        fits = m[tr + k.T_KEY] == key or (mask == 0 and m[tr + k.T_KEY] >> k.PAGE_BITS == key >> k.PAGE_BITS)
        if fits and not mask & m[tr + k.T_BIT] and m[tr + k.T_READY]:
            mask |= m[tr + k.T_BIT]
            remove(m, ends, tr)
            append(m, unit + k.U_HEAD, tr)
            m[unit + k.U_QUEUED] -= 1
            m[m[unit + k.U_CHANNEL] + k.C_QUEUED] -= 1
        tr = after
    return mask


@borrower
def send(m, unit):
    """Occupy chip and channel with the command whose transactions the chip has been given."""
    tr = m[unit + k.U_HEAD]
    kind = m[tr + k.T_KIND]
    count, data = 0, 0
    while tr >= 0:
        count += 1
        data += m[tr + k.T_DATA]
        tr = m[tr + k.T_NEXT]
    if kind < k.WRITE:
        m[k.N_READ if count == 1 else k.N_MULTI_READ] += 1
        m[k.N_PAGE_READ] += count
        duration = m[m[k.A_READ_NS] + count]
    elif kind < k.ERASE:
        m[k.N_PROGRAM if count == 1 else k.N_MULTI_PROGRAM] += 1
        m[k.N_PAGE_PROGRAM] += count
        duration = m[m[k.A_PROGRAM_CMD_NS] + count] + data
    else:
        m[k.N_ERASE if count == 1 else k.N_MULTI_ERASE] += 1
        m[k.N_BLOCK_ERASE] += count
        duration = m[m[k.A_ERASE_CMD_NS] + count]
    channel = m[unit + k.U_CHANNEL]
    m[unit + k.U_BUSY], m[unit + k.U_LEFT] = 1, count
    m[channel + k.C_BUSY], m[channel + k.C_TRANSACTION] = 1, -1
    command = m[k.NOW] + duration
    if kind < k.WRITE:
        array = m[m[k.A_ARRAY_NS] + m[m[unit + k.U_HEAD] + k.T_PAGE]]
    else:
        array = m[k.K_PROGRAM_NS] if kind < k.ERASE else m[k.K_ERASE_NS]
    at(m, m[channel + k.C_SLOT], command)
    at(m, m[unit + k.U_SLOT], command + array)
    m[m[unit + k.U_SLOT] + k.E_START] = command


@borrower
def settle(m, channel):
    """Find out whether a channel is busy: a command whose end nobody waited for may be over.

    If it is not over, somebody does wait now, so its end becomes an event; its row has kept the place in the order.
    """
    if m[channel + k.C_BUSY] == k.QUIET:
        slot, until = m[channel + k.C_SLOT], m[channel + k.C_UNTIL]
        gap = m[slot + k.E_START] - m[k.NOW_START]
        sooner = gap < 0 or (gap == 0 and m[slot + k.E_ORDER] < m[k.NOW_ORDER])
        over = until < m[k.NOW] or (until == m[k.NOW] and sooner)
        m[channel + k.C_BUSY] = 0 if over else 1
        m[slot] = k.NEVER if over else until
    return m[channel + k.C_BUSY]


@borrower
def choose_queues(m, unit):
    """Queue a chip serves next and the one whose entries may join (0: none), as ``first << 8 | second``; or -1.

    Reads before writes before erases, mapping before all; collection comes after the host's pages, and before them once
    a plane of the chip is nearly out of free blocks.
    """
    urgent = m[unit + k.U_URGENT] > 0
    read, collection = m[unit + k.Q_READ] >= 0, m[unit + k.Q_GC_READ] >= 0
    write, rewrite, erase = m[unit + k.Q_WRITE] >= 0, m[unit + k.Q_GC_WRITE] >= 0, m[unit + k.Q_ERASE] >= 0
    if m[unit + k.Q_MAP_READ] >= 0:
        second = k.Q_GC_READ if urgent and collection else k.Q_READ if read else 0
        return k.Q_MAP_READ << 8 | second
    if read and not urgent:
        return k.Q_READ << 8 | (k.Q_GC_READ if collection else 0)
    if collection and (urgent or not write):
        return k.Q_GC_READ << 8 | (k.Q_READ if read else 0)
    if read and not rewrite and not erase:
        return k.Q_READ << 8
    if urgent and rewrite:
        return k.Q_GC_WRITE << 8 | (k.Q_WRITE if write else 0)
    if write and not (urgent and erase):
        return k.Q_WRITE << 8 | (k.Q_GC_WRITE if rewrite else 0)
    if rewrite:
        return k.Q_GC_WRITE << 8
    if erase:
        return k.Q_ERASE << 8
    return k.Q_MAP_WRITE << 8 if m[unit + k.Q_MAP_WRITE] >= 0 else -1


@borrower
def some_ready(m, channel):
    """Whether a chip of a channel is idle and has anything queued."""
    if m[channel + k.C_QUEUED] == 0:
        return False
    for unit in range(m[channel + k.C_UNITS], m[channel + k.C_END], k.U_FIELDS):
        if m[unit + k.U_QUEUED] > 0 and not m[unit + k.U_BUSY]:
            return True
    return False


@borrower
def ask_channel(m, channel):
    """Offer a free channel to its chips in turn until one takes it.

    When no chip is ready, asking all would leave the turn where it is: nobody needs to ask then.
    """
    for _ in range(m[k.K_CHIPS]):
        unit = m[channel + k.C_TURN]
        after = unit + k.U_FIELDS
        m[channel + k.C_TURN] = after if after < m[channel + k.C_END] else m[channel + k.C_UNITS]
        if m[unit + k.U_BUSY] or m[unit + k.U_QUEUED] == 0:
            continue
        queues = choose_queues(m, unit)
        if queues < 0:
            continue
        key = m[m[unit + (queues >> 8)] + k.T_KEY]
        m[unit + k.U_HEAD] = m[unit + k.U_TAIL] = -1
        mask = gather(m, unit + (queues >> 8), unit, key, 0)
        if queues & 255:
            gather(m, unit + (queues & 255), unit, key, mask)
        if m[unit + k.U_HEAD] >= 0:
            send(m, unit)
            return


@borrower
def ask_for_reads(m, channel):
    """Offer a free channel to its chips in the usual case: the next one that is ready has only reads of the host's.

    Returns 1 when that chip has taken the channel, 0 when none is ready; -1 in the unusual case, with nothing done.
    """
    unit, first = -1, m[channel + k.C_TURN]
    turn = first
    while unit < 0:
        if m[turn + k.U_QUEUED] > 0 and not m[turn + k.U_BUSY]:
            unit = turn
        turn += k.U_FIELDS
        if turn == m[channel + k.C_END]:
            turn = m[channel + k.C_UNITS]
        if turn == first and unit < 0:
            return 0 * m[k.NOW]
    others = m[unit + k.Q_MAP_READ] >= 0 or m[unit + k.Q_GC_READ] >= 0 or m[unit + k.U_URGENT] > 0
    tr = m[unit + k.Q_READ]
    if others or tr < 0:
        return -1 + 0 * m[k.NOW]
    m[channel + k.C_TURN] = turn
    key, mask, count = m[tr + k.T_KEY], 0, 0
    m[unit + k.U_HEAD] = m[unit + k.U_TAIL] = -1
    while tr >= 0 and mask != m[k.Z_ALL_PLANES]:
        after = m[tr + k.T_NEXT]
        if m[tr + k.T_KEY] == key and not mask & m[tr + k.T_BIT]:
            mask |= m[tr + k.T_BIT]
            count += 1
            remove(m, unit + k.Q_READ, tr)
            append(m, unit + k.U_HEAD, tr)
        tr = after
    m[unit + k.U_QUEUED] -= count
    m[channel + k.C_QUEUED] -= count
    m[k.N_READ if count == 1 else k.N_MULTI_READ] += 1
    m[k.N_PAGE_READ] += count
    m[unit + k.U_BUSY], m[unit + k.U_LEFT] = 1, count
    command, slot = m[k.NOW] + m[m[k.A_READ_NS] + count], m[channel + k.C_SLOT]
    at(m, slot, command)
    at(m, m[unit + k.U_SLOT], command + m[m[k.A_ARRAY_NS] + m[m[unit + k.U_HEAD] + k.T_PAGE]])
    m[m[unit + k.U_SLOT] + k.E_START] = command
    m[channel + k.C_BUSY], m[channel + k.C_TRANSACTION], m[channel + k.C_UNTIL] = 1, -1, command
    if not some_ready(m, channel):
        m[channel + k.C_BUSY], m[slot] = k.QUIET, k.NEVER
    return 1 + 0 * m[k.NOW]


@borrower
def some_idle(m):
    """Whether a channel is free whose chips have anything queued."""
    first = m[k.A_CHANNELS]
    for channel in range(first, first + m[k.K_CHANNELS] * k.C_FIELDS, k.C_FIELDS):
        if some_ready(m, channel) and not settle(m, channel):
            return True
    return False


@borrower
def ask_all(m):
    """Offer every free channel to its chips, as newly queued pages do."""
    first = m[k.A_CHANNELS]
    for channel in range(first, first + m[k.K_CHANNELS] * k.C_FIELDS, k.C_FIELDS):
        if some_ready(m, channel) and not settle(m, channel):
            ask_channel(m, channel)


@borrower
def transfer(m, channel, tr):
    """Start moving the data of a page that was read over its channel."""
    m[channel + k.C_BUSY], m[channel + k.C_TRANSACTION] = 1, tr
    at(m, m[channel + k.C_SLOT], m[k.NOW] + m[tr + k.T_DATA])


@borrower
def array_read(m, unit):
    """Array time of a read is over: its pages claim the channel; those that find it busy wait in order."""
    channel = m[unit + k.U_CHANNEL]
    tr = m[unit + k.U_HEAD]
    settle(m, channel)
    while tr >= 0:
        after = m[tr + k.T_NEXT]
        if m[channel + k.C_BUSY]:
            kind = m[tr + k.T_KIND]
            append(m, channel + k.C_FIFO + (0 if kind == k.MAP_READ else 4 if kind == k.GC_READ else 2), tr)
        else:
            transfer(m, channel, tr)
        tr = after


@borrower
def release(m, channel):
    """Give a channel that has just fallen free to waiting read data; returns whether to ask its chips instead."""
    m[channel + k.C_BUSY] = 0
    for fifo in range(channel + k.C_FIFO, channel + k.C_FIFO + 6, 2):
        tr = m[fifo]
        if tr >= 0:
            remove(m, fifo, tr)
            transfer(m, channel, tr)
            return False
    return some_ready(m, channel)


@borrower
def command_taken(m, channel):
    """Offer a channel that has just fallen free to its chips when commands go first; returns whether one took it."""
    if not m[k.K_COMMANDS_FIRST] or not some_ready(m, channel):
        return False
    m[channel + k.C_BUSY] = 0
    ask_channel(m, channel)
    return m[channel + k.C_BUSY] > 0
