"""Integer tables that the DRAM kernels read: command ids, resolved timing rows, organisation, controller rules.

A standard (:mod:`archsim.devices.dram.standard`) is text; this module is what is left of it when every name is
resolved. :func:`dense` turns the constraint rows into the sparse effect lists the fast kernel walks; the oracle
reads the rows themselves.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Cmd(enum.IntEnum):
    """Command roles the controller knows. A standard may add commands of its own from ``FIRST_FREE_COMMAND`` on."""

    ACT = 0
    ACT2 = 1
    PRE = 2
    PREAB = 3
    RD = 4
    WR = 5
    RDA = 6
    WRA = 7
    REFAB = 8
    REFPB = 9
    CAS_RD = 10
    CAS_WR = 11


FIRST_FREE_COMMAND = len(Cmd)
COMMANDS = 32  # command ids the kernel holds

#: Role names of a standard's ``commands`` section.
ROLES = {
    "activate": Cmd.ACT,
    "activate_second": Cmd.ACT2,
    "precharge": Cmd.PRE,
    "precharge_all": Cmd.PREAB,
    "read": Cmd.RD,
    "write": Cmd.WR,
    "read_precharge": Cmd.RDA,
    "write_precharge": Cmd.WRA,
    "refresh_all": Cmd.REFAB,
    "refresh_bank": Cmd.REFPB,
    "sync_read": Cmd.CAS_RD,
    "sync_write": Cmd.CAS_WR,
}


class Level(enum.IntEnum):
    """Where a constraint holds: ``OTHER_RANK`` acts on the other ranks of the channel."""

    RANK = 0
    BANKGROUP = 1
    BANK = 2
    OTHER_RANK = 3


LEVELS = {"rank": Level.RANK, "bankgroup": Level.BANKGROUP, "bank": Level.BANK, "other_rank": Level.OTHER_RANK}


class Row(enum.IntEnum):
    """Columns of the resolved constraint rows, int64 ``[rows, 5]``."""

    PREV = 0
    NEXT = 1
    LEVEL = 2
    WINDOW = 3
    CYCLES = 4


class Refresh(enum.IntEnum):
    """Refresh schemes of a controller."""

    NONE = 0
    ALL_BANK = 1
    PER_BANK = 2


class Org(NamedTuple):
    """Sizes of one memory system, in counts; ``banks`` are per bank group."""

    channels: int
    ranks: int
    groups: int
    banks: int
    rows: int
    columns: int
    burst_bytes: int


class Rules(NamedTuple):
    """Controller and device rules as int64 scalars. Times in cycles, watermarks in thousandths of the queue depth."""

    read_depth: int
    write_depth: int
    high_permille: int
    low_permille: int
    active_depth: int
    row_hit: int  # 1: a precharge waits for older hits of its queue
    closed_cap: int  # 0: open rows; n: close a row after n column accesses
    refresh: int
    sync: int  # 1: a CAS must precede a column command once the data clock expired
    forward: int
    merge: int
    read_data: int  # read command to the end of its data
    write_data: int
    deadline: int  # latest second activate after the first; 0: activates are one command
    refresh_all_interval: int
    refresh_bank_interval: int
    sync_after_read: int
    sync_after_write: int


class Dense(NamedTuple):
    """Effects of issuing a command, by the level at which they act.

    A *gate* is a class of commands with equal constraints (a read and a read with auto-precharge share one);
    ``gate_of[c]`` names it. For level ``x`` the entries ``x_ptr[c]:x_ptr[c + 1]`` say that gate ``x_gate[e]`` stays
    shut until ``x_cycles[e]`` after an issue of ``c``: in the same bank, bank group or rank, or in the other ranks.
    Windows count in the rank from the ``window_back[e]``-th issue before this one.
    """

    gates: int
    gate_of: np.ndarray
    bank_ptr: np.ndarray
    bank_gate: np.ndarray
    bank_cycles: np.ndarray
    group_ptr: np.ndarray
    group_gate: np.ndarray
    group_cycles: np.ndarray
    rank_ptr: np.ndarray
    rank_gate: np.ndarray
    rank_cycles: np.ndarray
    other_ptr: np.ndarray
    other_gate: np.ndarray
    other_cycles: np.ndarray
    window_ptr: np.ndarray
    window_gate: np.ndarray
    window_cycles: np.ndarray
    window_back: np.ndarray


#: Largest time a constraint may ask for, in cycles; the kernel's packed keys rely on it.
MAX_CYCLES = 1 << 16
_WINDOWED = -1


def dense(rows: np.ndarray, commands: int, unused: Sequence[int] = ()) -> Dense:
    """Effect lists of resolved constraint rows.

    Parameters
    ----------
    rows : int64 [n, 5]
        Columns of :class:`Row`.
    commands : int
        Number of command ids.
    unused : sequence of int
        Commands the controller never issues; what would only delay them is left out.
    """
    columns: dict[int, list[tuple[int, int, int, int]]] = {c: [] for c in range(commands)}
    for prev, following, level, window, cycles in rows.tolist():
        if following not in unused:
            columns[following].append((prev, level, window, cycles))
    classes: dict[tuple, int] = {}
    gate_of = np.array([classes.setdefault(tuple(sorted(columns[c])), len(classes)) for c in range(commands)], np.int64)
    fields: dict[str, np.ndarray] = {}
    for name, level in (*((n.split("_")[0], int(v)) for n, v in LEVELS.items()), ("window", _WINDOWED)):
        name = {"bankgroup": "group"}.get(name, name)
        ptr, entries = [0], []
        for command in range(commands):
            longest: dict[tuple[int, int], int] = {}
            for column, gate in classes.items():
                for prev, at, window, cycles in column:
                    if prev == command and level == (at if window == 1 else _WINDOWED):
                        longest[gate, window - 1] = max(cycles, longest.get((gate, window - 1), 0))
            entries += [(gate, cycles, back) for (gate, back), cycles in sorted(longest.items())]
            ptr.append(len(entries))
        table = np.array(entries, np.int64).reshape(-1, 3).T.copy()
        fields[f"{name}_ptr"] = np.array(ptr, np.int64)
        fields[f"{name}_gate"], fields[f"{name}_cycles"] = table[0], table[1]
        if name == "window":
            fields["window_back"] = table[2]
    return Dense(gates=len(classes), gate_of=gate_of, **fields)
