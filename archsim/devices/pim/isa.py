"""Commands of a PIM channel, instructions of the AiM trace language, and the program the command kernel runs.

A *command* goes over the command bus of one channel. An *instruction* is one line of a trace or one step of a lowered
GEMV; it becomes `count` requests of one final command on every channel it names, and the kernel finds the commands
that must come first (activate, precharge, mode switch, data-clock sync).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


class Cmd(enum.IntEnum):
    """Command ids. ``*16`` act on all banks of the channel; ``CAS_*`` start the data clock for a command."""

    ACT = 0
    ACT2 = 1
    PRE = 2
    PREA = 3
    RD = 4
    WR = 5
    ACT16 = 6
    ACT16_2 = 7
    MAC = 8
    MAC16 = 9
    AF16 = 10
    EWMUL16 = 11
    RDCP = 12
    WRCP = 13
    WRGB = 14
    WRMAC16 = 15
    RDMAC16 = 16
    RDAF16 = 17
    WRA16 = 18
    REFAB = 19
    TMOD = 20
    CAS_RD = 21
    CAS_WR = 22
    CAS_WRGB = 23
    CAS_WRMAC16 = 24
    CAS_RDMAC16 = 25
    CAS_RDAF16 = 26
    CAS_WRA16 = 27


#: Name in files and reports by command. A two-step activate counts its first half as ACT or ACT16.
NAMES: dict[str, Cmd] = {
    {"REFAB": "REFab"}.get(c.name, c.name.replace("CAS_", "CAS").replace("16_2", "16-2").replace("ACT2", "ACT-2")): c
    for c in Cmd
}
TEXT: dict[Cmd, str] = {c: name for name, c in NAMES.items()}
#: CAS command that starts the data clock for each command that needs one.
SYNC_FOR: dict[Cmd, Cmd] = {
    Cmd[c.name.removeprefix("CAS_")]: c for c in Cmd if c.name.startswith("CAS_")
}  # fmt: skip


class Kind(enum.IntEnum):
    """What an instruction is to the host's decoder."""

    HOST = 0  # costs one decode cycle, sends nothing
    PIM = 1  # requests to the in-order queue of each channel
    BARRIER = 2  # one request to every channel; calls back when the channel is idle
    READ = 3  # plain read of one column, to the read queue
    WRITE = 4  # plain write of one column, to the write queue


class Field(enum.IntEnum):
    """Columns of a program, int64 ``[lines, 8]``."""

    KIND = 0
    COMMAND = 1
    COUNT = 2
    BANK = 3  # -1: all banks
    ROW = 4  # -1: none
    BLOCKING = 5  # 1: the host waits for the answer
    DELAY = 6  # least cycles from a barrier's slot to the next decode (a memory fence)
    LINE = 7  # line of the trace, for messages


class Program(NamedTuple):
    """Instructions and, by channel, whether each goes there.

    Attributes
    ----------
    lines : int64 [n, 8]
        Columns of :class:`Field`.
    on : int64 [n, channels]
        1 where the instruction goes to the channel.
    """

    lines: np.ndarray
    on: np.ndarray


@dataclass(frozen=True)
class Instruction:
    """One instruction of the AiM trace language: its final command and the fields that follow its name."""

    command: Cmd | None
    fields: tuple[str, ...]
    blocking: bool = False
    one_channel: bool = False


#: AiM instruction set (arkhadem/aim_simulator 0f28a07, README table of ISR instructions).
INSTRUCTIONS: dict[str, Instruction] = {
    "WR_SBK": Instruction(Cmd.WR, ("gpr", "mask", "bank", "row")),
    "RD_SBK": Instruction(Cmd.RD, ("gpr", "mask", "bank", "row")),
    "WR_ABK": Instruction(Cmd.WRA16, ("gpr", "mask", "row"), one_channel=True),
    "WR_GB": Instruction(Cmd.WRGB, ("opsize", "gpr", "mask")),
    "WR_BIAS": Instruction(Cmd.WRMAC16, ("gpr", "mask")),
    "RD_MAC": Instruction(Cmd.RDMAC16, ("gpr", "mask"), blocking=True),
    "RD_AF": Instruction(Cmd.RDAF16, ("gpr", "mask"), blocking=True),
    "COPY_BKGB": Instruction(Cmd.RDCP, ("opsize", "mask", "bank", "row")),
    "COPY_GBBK": Instruction(Cmd.WRCP, ("opsize", "mask", "bank", "row")),
    "MAC_SBK": Instruction(Cmd.MAC, ("opsize", "mask", "bank", "row")),
    "MAC_ABK": Instruction(Cmd.MAC16, ("opsize", "mask", "row")),
    "AF": Instruction(Cmd.AF16, ("mask",)),
    "EWMUL": Instruction(Cmd.EWMUL16, ("opsize", "mask", "row")),
    "EWADD": Instruction(None, ("opsize", "gpr", "gpr")),
    "SYNC": Instruction(None, (), blocking=True),
    "EOC": Instruction(None, (), blocking=True),
}
#: Row that an activation function reads: this plus the function's number, so it always activates.
AF_ROW = 1 << 29


class Steps:
    """Program under construction: instructions in order, each to a set of channels."""

    def __init__(self, channels: int) -> None:
        self.channels = channels
        self.lines: list[tuple[int, ...]] = []
        self.masks: list[int] = []

    def add(
        self,
        kind: Kind,
        mask: int,
        command: Cmd | None = None,
        *,
        count: int = 1,
        bank: int = -1,
        row: int = -1,
        blocking: bool = False,
        delay: int = 0,
        line: int = 0,
    ) -> None:
        """Append one instruction; bit ``c`` of `mask` is channel ``c``."""
        number = -1 if command is None else int(command)
        self.lines.append((int(kind), number, count, bank, row, int(blocking), delay, line))
        self.masks.append(mask)

    def barrier(self, delay: int = 0, line: int = 0) -> None:
        """Append a barrier over all channels; the host sends nothing for at least `delay` cycles from its slot on."""
        self.add(Kind.BARRIER, (1 << self.channels) - 1, blocking=True, delay=delay, line=line)

    def program(self) -> Program:
        """The columns."""
        masks = np.array(self.masks, np.int64).reshape(-1, 1)
        on = (masks >> np.arange(self.channels)) & 1
        return Program(np.array(self.lines, np.int64).reshape(-1, len(Field)), np.ascontiguousarray(on))
