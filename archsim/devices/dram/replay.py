"""Trace replay: stream a trace file, or columns of requests, through the command kernel.

Memory stays bounded: a trace is read block by block, the latency histogram has a fixed number of bins, and a command
trace is written while the run goes on (to a side file that takes its name only when all went well).
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numba import njit

from archsim.config.regular import replaced
from archsim.devices.dram import command, layout
from archsim.devices.dram.controller import Memory
from archsim.devices.dram.power import energy_pj, prices
from archsim.devices.dram.reader import LAST_CYCLE, Block, blocks
from archsim.devices.dram.table import Cmd
from archsim.units import InputError, quote

LOG_COMMANDS = 1 << 15
SLICE_CYCLES = 1 << 24
PIECE = 1 << 14  # requests decoded at a time: they stay in the cache
INJECTIONS = "greedy, chain, chain:1, paced:N, recorded"
COLUMNS = "clock,command,Channel,Rank,BankGroup,Bank,Row,Column,type,source"


class ReplayError(RuntimeError):
    """The simulation broke one of its own promises (a request was lost, or nothing can go on)."""

    exit_code = 3


@dataclass(frozen=True)
class Injection:
    """How requests are offered: reads in flight (0: any), cycles from departure to next offer, pace, recorded."""

    depth: int = 0
    gap: int = 0
    pace: int = 0
    recorded: bool = False


@dataclass(frozen=True)
class ReplayResult:
    """Outcome of a replay. Cycles are clock cycles of `tck_ns`; latencies run from acceptance to the last data beat.

    Attributes
    ----------
    cycles : int
        Until the last read has returned and the last write command has issued.
    row_hits, row_misses, row_conflicts : int
        Requests by the state of their bank when the first command was issued for them; forwarded and merged have none.
    read_latency_cycles_p50, read_latency_cycles_p99 : int
        The latency at rank ``floor(share * reads)``; 65,535 stands for all longer ones too.
    write_wait_cycles_avg : float
        From acceptance to the write command, merged writes left out.
    bandwidth_gb_s : float
        All requests' bytes over the run, GB/s (1e9).
    peak_fraction : float
        Bytes that crossed the data bus over what it could carry.
    commands : dict
        Command name -> count, all channels.
    energy_pj : dict
        By action, summed over all dies, core only; scope and source of the prices in `energy_scope`.
    cpu_s, parse_s : float
        CPU time of simulation (decode included) and of reading and parsing.
    histogram : int64 [bins]
        Reads by latency in cycles; the last bin holds all longer ones.
    """

    cycles: int
    tck_ns: float
    requests: int
    reads: int
    writes: int
    forwarded: int
    merged: int
    row_hits: int
    row_misses: int
    row_conflicts: int
    read_latency_cycles_avg: float
    read_latency_cycles_p50: int
    read_latency_cycles_p99: int
    write_wait_cycles_avg: float
    bandwidth_gb_s: float
    peak_fraction: float
    commands: Mapping[str, int]
    energy_pj: Mapping[str, float]
    energy_scope: str
    cpu_s: float
    parse_s: float
    histogram: np.ndarray

    def percentile(self, share: float) -> int:
        """Read latency at rank ``floor(share * reads)``, cycles; 0 without reads."""
        return _percentile(self.histogram, share)

    def to_json(self) -> dict[str, Any]:
        """Plain dictionary with the keys of ``archsim trace dram --json``."""
        data = {key: value for key, value in vars(self).items() if key != "histogram"}
        return {**data, "commands": dict(self.commands), "energy_pj": dict(self.energy_pj)}


def parse_injection(text: str) -> Injection:
    """``greedy``, ``chain``, ``chain:1``, ``paced:N`` or ``recorded``.

    Raises
    ------
    InputError
        Anything else.
    """
    if text == "greedy":
        return Injection()
    if text == "recorded":
        return Injection(recorded=True)
    if match := re.fullmatch(r"chain(?::([0-9]{1,6}))?", text):
        return Injection(depth=1, gap=int(match[1] or 0))
    if (match := re.fullmatch(r"paced:([0-9]{1,9})", text)) and int(match[1]) > 0:
        return Injection(pace=int(match[1]))
    raise InputError(f"unknown injection {quote(text)}; expected one of {INJECTIONS} (N: whole cycles above 0)")


@njit(cache=True)
def decode(address, write, pieces, hashes, org, place, cell, row):
    """Addresses (int64, bytes) to the kernel's columns.

    `pieces` and `hashes` are those of :class:`archsim.devices.dram.controller.Memory`; fields are channel, rank, bank
    group, bank, row, column.
    """
    sizes = (org.channels, org.ranks, org.groups, org.banks, org.rows, org.columns)
    # Fields stand side by side in `place` (above the write bit) and in `cell`: where each begins.
    column_bits, begins = 0, np.zeros(6, np.int64)
    while 1 << column_bits < org.columns:
        column_bits += 1
    begins[4] = column_bits
    begins[3] = 1
    for f in range(2, -1, -1):
        begins[f] = begins[f + 1]
        while 1 << (begins[f] - begins[f + 1]) < sizes[f + 1]:
            begins[f] += 1
    for k in range(address.size):
        where, inside = write[k], 0
        for p in range(pieces.shape[0]):
            f = pieces[p, 0]
            part = ((address[k] >> pieces[p, 1]) & ((1 << pieces[p, 2]) - 1)) << (pieces[p, 3] + begins[f])
            if f < 4:
                where |= part
            else:
                inside |= part
        for h in range(hashes.shape[0]):
            f, g = hashes[h, 0], hashes[h, 1]
            other = (where if g < 4 else inside) >> begins[g] & (sizes[g] - 1)
            mixed = ((other >> hashes[h, 2]) & (sizes[f] - 1)) << begins[f]
            if f < 4:
                where ^= mixed
            else:
                inside ^= mixed
        place[k], cell[k], row[k] = where, inside, inside >> column_bits


def replay(
    memory: Memory,
    path: str | Path,
    *,
    injection: str = "greedy",
    style: str | None = None,
    command_trace: str | Path | None = None,
) -> ReplayResult:
    """Replay a trace file.

    Parameters
    ----------
    style : str, optional
        Format of the file (:data:`archsim.devices.dram.reader.FORMATS`); by default recognised by its first request.
    command_trace : path, optional
        Where to write the DRAM commands as CSV (Ramulator's columns).

    Raises
    ------
    InputError
        Bad input; nothing is written then.
    ReplayError
        A request was lost.
    """
    how = parse_injection(injection)
    if how.recorded and style is not None and style != "dramsim3":
        raise InputError(f"{path}: injection 'recorded' needs cycles, which {style} lacks; use greedy or paced:N")
    return _Replay(memory, how).over(_checked(path, how, style, memory), command_trace)


def replay_columns(
    memory: Memory,
    address: np.ndarray,
    write: np.ndarray,
    cycle: np.ndarray | None = None,
    *,
    injection: str = "greedy",
    command_trace: str | Path | None = None,
) -> ReplayResult:
    """Replay requests given as int64 columns: addresses in bytes, 1 for writes, cycles for ``recorded``.

    Raises
    ------
    InputError
        No requests, columns of unequal length, addresses out of range or unaligned, decreasing cycles.
    """
    how = parse_injection(injection)
    for column in (address, write, cycle):
        if column is not None and np.asarray(column).dtype.kind not in "iub":
            raise InputError(f"requests: expected columns of whole numbers, not {np.asarray(column).dtype}")
    columns = [np.ascontiguousarray(address, np.int64), np.ascontiguousarray(write, np.int64)]
    columns.append(np.zeros_like(columns[0]) if cycle is None else np.ascontiguousarray(cycle, np.int64))
    block = Block(*columns)
    if block.address.size == 0 or len({c.shape for c in columns}) != 1:
        raise InputError("requests: expected columns of one equal length of at least 1")
    if ((block.write != 0) & (block.write != 1)).any():
        raise InputError("requests: expected 1 for a write and 0 for a read")
    if block.address.min() < 0 or block.address.max() >= memory.capacity_bytes:
        raise InputError(f"requests: an address is out of range; the memory ends at 0x{memory.capacity_bytes:x}")
    if (block.address % memory.org.burst_bytes).any():
        raise InputError(f"requests: an address is not a multiple of the {memory.org.burst_bytes}-byte burst")
    if how.recorded and (cycle is None or block.cycle[0] < 0 or (np.diff(block.cycle) < 0).any()):
        raise InputError("requests: injection 'recorded' needs cycles of 0 or more that do not decrease")
    if block.cycle.max() > LAST_CYCLE:
        raise InputError(f"requests: cycle {block.cycle.max()} is beyond {LAST_CYCLE}, the last that can be replayed")
    return _Replay(memory, how).over([block], command_trace)


def _checked(path: str | Path, how: Injection, style: str | None, memory: Memory) -> Iterator[Block]:
    if how.recorded:
        style = style or "dramsim3"
    return blocks(path, style, memory.capacity_bytes, memory.org.burst_bytes)


class _Replay:
    """One run: state, output of the command trace, and the clocks."""

    def __init__(self, memory: Memory, how: Injection) -> None:
        self.memory, self.how = memory, how
        self.m = layout.new_state(memory.org, memory.rules, memory.effects, (how.depth,))
        source = self.m[layout.SOURCES]
        self.m[source + layout.GAP] = how.gap
        self.m[source + layout.PACE] = how.pace << 16
        self.m[source + layout.LIMITED] = int(how.depth > 0 or how.pace > 0)
        self.asked, self.cpu_s = 0, 0.0
        self.columns = tuple(np.empty(PIECE, np.int64) for _ in range(3))

    def over(self, requests: Iterable[Block], command_trace: str | Path | None) -> ReplayResult:
        """Run all requests and drain."""
        if command_trace is None:
            return self._run(requests, None)
        with replaced(command_trace) as side, side.open("w", encoding="ascii") as out:
            out.write(COLUMNS + "\n")
            return self._run(requests, out)

    def _run(self, requests: Iterable[Block], out: TextIO | None) -> ReplayResult:
        began = time.process_time()
        log = np.empty(command.LOG_WORDS * LOG_COMMANDS if out else 0, np.int64)
        for block in requests:
            for k in range(0, block.address.size, PIECE):
                self._feed(Block(*(column[k : k + PIECE] for column in block)), out, log)
        empty = np.empty(0, np.int64)
        self._advance((empty, empty, empty, empty), 1, out, log)
        return self._result(time.process_time() - began - self.cpu_s)

    def _feed(self, block: Block, out: TextIO | None, log: np.ndarray) -> None:
        began = time.process_time()
        place, cell, row = (column[: block.address.size] for column in self.columns)
        memory = self.memory
        decode(block.address, block.write, memory.pieces, memory.hashes, memory.org, place, cell, row)
        self.asked += place.size
        release = block.cycle if self.how.recorded else np.empty(0, np.int64)
        source = self.m[layout.SOURCES]
        self.m[source + layout.AT_REQUEST], self.m[source + layout.END] = 0, place.size
        self.cpu_s += time.process_time() - began
        self._advance((place, cell, row, release), 0, out, log)

    def _advance(self, columns: tuple[np.ndarray, ...], final: int, out: TextIO | None, log: np.ndarray) -> None:
        nothing = np.empty(0, np.int64)
        why = command.LOG_FULL
        while why in (command.LOG_FULL, command.TIME_UP):
            began = time.process_time()
            until = self.m[layout.CLOCK] + SLICE_CYCLES  # an interrupt is seen between two slices
            why = command.run(self.m, *columns, 1, final, until, log, nothing)
            self.cpu_s += time.process_time() - began
            if out is not None:
                self._write(out, log.reshape(-1, command.LOG_WORDS)[: self.m[layout.LOGGED]])
                self.m[layout.LOGGED] = 0
        if why != (command.DONE if final else command.NEEDS_REQUESTS):
            raise ReplayError(
                f"the memory stopped at cycle {self.m[layout.CLOCK]} with {self.m[layout.OUTSTANDING]} requests waiting"
            )

    def _write(self, out: TextIO, log: np.ndarray) -> None:
        org, names = self.memory.org, self.memory.standard.commands
        clock, number, channel, bank, _, cell, write = log.T
        whole = (number == Cmd.PREAB) | (number == Cmd.REFAB)
        per_rank = org.groups * org.banks
        rank = np.where(whole, bank, bank // per_rank) % org.ranks
        group = np.where(whole, -1, bank // org.banks % org.groups)
        inner = np.where(whole, -1, bank % org.banks)
        row, column = np.where(cell < 0, -1, cell // org.columns), np.where(cell < 0, -1, cell % org.columns)
        kind = np.where(write < 0, -1, write)
        origin = np.where(write < 0, -1, 0)
        columns = (x.tolist() for x in (clock, number, channel, rank, group, inner, row, column, kind, origin))
        out.writelines(f"{t},{names[n]},{','.join(map(str, rest))}\n" for t, n, *rest in zip(*columns, strict=True))

    def _result(self, parse_s: float) -> ReplayResult:
        m, memory = self.m, self.memory
        s = m[layout.SOURCES]
        reads, writes = int(m[s + layout.READS]), int(m[s + layout.WRITES])
        merged, cycles = int(m[layout.MERGED]), int(m[layout.LAST])
        if reads + writes + merged != self.asked:
            raise ReplayError(f"{self.asked} requests asked, {reads + writes + merged} served")
        bins = m[m[s + layout.BINS] :][: layout.HISTOGRAM_BINS].copy()
        counts = command_counts(memory, m)
        total_ns = cycles * memory.standard.tck_ns
        moved = reads - int(m[layout.FORWARDED]) + writes
        return ReplayResult(
            cycles=cycles,
            tck_ns=memory.standard.tck_ns,
            requests=self.asked,
            reads=reads,
            writes=writes + merged,
            forwarded=int(m[layout.FORWARDED]),
            merged=merged,
            row_hits=int(m[layout.HITS]),
            row_misses=int(m[layout.MISSES]),
            row_conflicts=int(m[layout.CONFLICTS]),
            read_latency_cycles_avg=float(m[s + layout.LATENCY] / reads) if reads else 0.0,
            read_latency_cycles_p50=_percentile(bins, 0.50),
            read_latency_cycles_p99=_percentile(bins, 0.99),
            write_wait_cycles_avg=float(m[s + layout.WAIT] / writes) if writes else 0.0,
            bandwidth_gb_s=self.asked * memory.org.burst_bytes / total_ns,
            peak_fraction=moved * memory.org.burst_bytes / total_ns / memory.peak_gb_s,
            commands={memory.standard.commands[c]: n for c, n in counts.items()},
            energy_pj=energy_of(memory, m, cycles),
            energy_scope=prices(memory.standard).scope,
            cpu_s=self.cpu_s,
            parse_s=parse_s,
            histogram=bins,
        )


def command_counts(memory: Memory, m: np.ndarray) -> dict[int, int]:
    """Commands issued so far by id, over all channels, those the standard has."""
    first = m[layout.CHANNELS] + layout.COUNTS
    total = [
        sum(int(m[first + c + k * layout.CHANNEL]) for k in range(memory.org.channels)) for c in range(layout.COMMANDS)
    ]
    return {c: total[c] for c, name in enumerate(memory.standard.commands) if name}


def energy_of(memory: Memory, m: np.ndarray, cycles: int) -> dict[str, float]:
    """Energy of a run of `cycles`, pJ by action, summed over the dies of all ranks and channels."""
    counts = command_counts(memory, m)
    first = m[m[layout.CHANNELS] + layout.FIRST_RANK]
    opened = 0
    for rank in range(first, first + memory.org.channels * memory.org.ranks * layout.RANK, layout.RANK):
        opened += int(m[rank + layout.OPEN_CYCLES])
        if m[rank + layout.OPEN_BANKS] > 0:
            opened += max(0, cycles - int(m[rank + layout.OPEN_SINCE]))
    total = cycles * memory.org.channels * memory.org.ranks
    tck_ns = memory.standard.tck_ns
    return energy_pj(
        prices(memory.standard),
        activates=counts.get(Cmd.ACT, 0),
        reads=counts.get(Cmd.RD, 0) + counts.get(Cmd.RDA, 0),
        writes=counts.get(Cmd.WR, 0) + counts.get(Cmd.WRA, 0),
        refreshes_all=counts.get(Cmd.REFAB, 0),
        refreshes_bank=counts.get(Cmd.REFPB, 0),
        open_ns=opened * tck_ns,
        closed_ns=(total - opened) * tck_ns,
    )


def _percentile(bins: np.ndarray, share: float) -> int:
    """Latency at rank ``floor(share * reads)`` (from 0, in ascending order) of a histogram with one bin a cycle."""
    total = int(bins.sum())
    if total == 0:
        return 0
    return int(np.searchsorted(np.cumsum(bins), min(int(share * total), total - 1), side="right"))
