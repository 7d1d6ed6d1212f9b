"""State of one channel of the plain controller (:mod:`archsim.devices.dram.oracle`): banks, queues, issues so far."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from archsim.jit import callee

LONG_AGO = -(1 << 40)
WRITE_MODE, FOLLOW, TURN = 0, 1, 2


class Channel(NamedTuple):
    """State of one channel, int64."""

    issued: np.ndarray  # [level, node, command, k]: cycle of the k-th last issue
    open_row: np.ndarray  # by bank, -1 closed
    accesses: np.ndarray  # column commands since the activate, by bank
    closing: np.ndarray  # 1 if a closed-row precharge is queued, by bank
    expiry: np.ndarray  # data clock, by rank
    queue: np.ndarray  # [reads, writes, active buffer, priority queue] in order of age
    size: np.ndarray  # entries in each
    pending: np.ndarray  # bank, cycle and request of an activate without its second half
    flag: np.ndarray  # [WRITE_MODE, FOLLOW, TURN]


@callee
def new_channels(org, rules, commands):
    """Idle channels, all banks closed: a Channel with one more dimension in front."""
    count, nodes = org.channels, org.ranks * org.groups * org.banks
    room = 1 + max(rules.read_depth, rules.write_depth, rules.active_depth) + nodes + 128
    flag = np.zeros((count, 3), np.int64)
    flag[:, FOLLOW] = -1
    return Channel(
        np.full((count, 3, nodes, commands, 16), LONG_AGO, np.int64),
        np.full((count, nodes), -1, np.int64),
        np.zeros((count, nodes), np.int64),
        np.zeros((count, nodes), np.int64),
        np.full((count, org.ranks), LONG_AGO, np.int64),
        np.zeros((count, 4, room), np.int64),
        np.zeros((count, 4), np.int64),
        np.full((count, 3), -1, np.int64),
        flag,
    )


@callee
def one(channels, c):
    """Views of one channel's state."""
    return Channel(
        channels.issued[c],
        channels.open_row[c],
        channels.accesses[c],
        channels.closing[c],
        channels.expiry[c],
        channels.queue[c],
        channels.size[c],
        channels.pending[c],
        channels.flag[c],
    )


@callee
def remove(ch, kind, position):
    """Take one entry out of a queue, keeping the order."""
    for k in range(position, ch.size[kind] - 1):
        ch.queue[kind, k] = ch.queue[kind, k + 1]
    ch.size[kind] -= 1


@callee
def append(ch, kind, entry):
    """Add an entry at the end of a queue."""
    ch.queue[kind, ch.size[kind]] = entry
    ch.size[kind] += 1
