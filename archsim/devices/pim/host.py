"""What PIM work leaves of its channel to the host.

In the rank that computes, all banks are open on PIM rows and the mode is PIM's, so plain accesses to it wait until the
program ends: an exclusive claim. The other ranks of the channel share command bus and data bus with it. PIM commands
go first (a MAC walk must not stall); the host takes the slots they leave. :func:`leftover` replays the command log of
the kernel against a sequential read stream in another rank and counts the bursts that still fit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from archsim.devices.pim.isa import Cmd, Program
from archsim.devices.pim.replay import Run, execute
from archsim.devices.pim.standard import PimStandard
from archsim.units import InputError

#: Commands of a DRAM row beside its column reads: both halves of the activate, and a precharge.
ROW_COMMANDS_TWO_STEP = 3


@dataclass(frozen=True)
class Leftover:
    """Shares of a channel during a PIM program, 0 to 1.

    Attributes
    ----------
    cycles : int
        Length of the program.
    command_slots : float
        Command-bus slots that the program takes.
    data_slots : float
        Data-bus time that its vector loads and result reads take.
    same_rank : float
        Peak read bandwidth that the computing rank keeps: 0.
    other_ranks : float
        Sequential read bandwidth of another rank over what the same stream has without PIM; 0 when the standard
        keeps one rank a channel.
    """

    cycles: int
    command_slots: float
    data_slots: float
    same_rank: float
    other_ranks: float


@njit(cache=True)
def count_reads(cycles, at, data_at, burst, gap, per_row, row_commands, read_latency):
    """Bursts that a sequential read stream of another rank gets through in `cycles`.

    Parameters
    ----------
    at : int64 [n]
        Cycles of the PIM commands, ascending.
    data_at : int64 [k]
        First cycles of the PIM data bursts, ascending.
    burst, gap : int
        Data-bus cycles of a burst, and between bursts of different ranks.
    per_row, row_commands, read_latency : int
        Reads of a row, its other commands, cycles from a read to its data.
    """
    reads, owed, next_read, p, d = 0, row_commands, 1, 0, 0
    for now in range(1, cycles + 1):
        if p < at.size and at[p] == now:
            p += 1
            continue
        begin = now + read_latency
        while d < data_at.size and data_at[d] + burst + gap <= begin:
            d += 1
        free = d >= data_at.size or data_at[d] >= begin + burst + gap
        if now >= next_read and free and owed < row_commands:
            reads += 1
            next_read = now + burst
            if reads % per_row == 0:
                owed += row_commands
        elif owed > 0:
            owed -= 1
    return reads


def leftover(standard: PimStandard, program: Program, *, ranks: int = 2, inside: tuple[Cmd, ...] = ()) -> Leftover:
    """Channel 0's shares during a program.

    Parameters
    ----------
    inside : tuple of Cmd
        Commands whose data stay on the die (between MAC blocks and a unit of the die): slots, but no bus time.

    Raises
    ------
    InputError
        No ranks.
    """
    if ranks < 1:
        raise InputError(f"{ranks} ranks; expected 1 or more")
    return shares(standard, execute(standard, program, log=True), ranks=ranks, inside=inside)


def shares(standard: PimStandard, run: Run, *, ranks: int = 2, inside: tuple[Cmd, ...] = ()) -> Leftover:
    """Shares during a run whose commands were logged; `ranks` and `inside` as of :func:`leftover`."""
    at, command = np.ascontiguousarray(run.log[:, 0]), run.log[:, 1]
    delay = np.zeros(len(Cmd), np.int64)
    burst = standard.cycles["nBL"]
    for moved in (Cmd.WRGB, Cmd.WRMAC16, Cmd.RDMAC16, Cmd.RDAF16, Cmd.RD, Cmd.WR):
        delay[moved] = 0 if moved in inside else max(1, standard.latency.get(moved, 0) - burst)
    data_at = np.sort((at + delay[command])[delay[command] > 0])
    other = 0.0
    if ranks > 1:
        rules = (burst, standard.cycles.get("nCS", 2), standard.organisation["columns_per_row"])
        commands = (ROW_COMMANDS_TWO_STEP if standard.two_step else 2, standard.cycles["nCL"])
        nothing = np.empty(0, np.int64)
        alone = count_reads(run.cycles, nothing, nothing, *rules, *commands)
        other = count_reads(run.cycles, at, data_at, *rules, *commands) / alone if alone else 0.0
    return Leftover(run.cycles, at.size / run.cycles, data_at.size * burst / run.cycles, 0.0, other)
