"""Replay of PIM programs: AiM instruction traces and lowered GEMVs, with the same work without PIM as baseline."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from archsim.config.regular import replaced
from archsim.devices.pim import commands, state
from archsim.devices.pim.isa import TEXT, Cmd, Field, Kind, Program, Steps
from archsim.devices.pim.reader import read_trace
from archsim.devices.pim.standard import PimStandard, devices, load_pim
from archsim.units import InputError

MAX_REQUESTS = 1 << 28  # the most requests of a program, a channel: about half a minute
MAX_LOGGED = 1 << 22  # the most requests of a channel whose commands are written to a file
SLICE_STEPS = 1 << 22  # steps of the kernel between two looks for an interrupt


class PimError(RuntimeError):
    """A program that can never end on the device."""

    exit_code = 3


@dataclass(frozen=True)
class PimResult:
    """Outcome of one program.

    Attributes
    ----------
    cycles : int
        Until the last instruction has retired.
    cycles_baseline : int or None
        The same weights over the channels' data buses at peak, without PIM and without refresh; None when not asked.
    tck_ns, time_us : float
        Clock period and duration.
    commands : dict
        Command name -> count in the channel that issued most (of several, the lowest); zero counts are left out. A
        two-step activate counts as its first half.
    commands_total : dict
        The same over all channels.
    cpu_s : float
        CPU time of the command kernel and its preparation.
    """

    cycles: int
    cycles_baseline: int | None
    tck_ns: float
    time_us: float
    commands: Mapping[str, int]
    commands_total: Mapping[str, int]
    cpu_s: float

    @property
    def gain(self) -> float | None:
        """Baseline over PIM time."""
        return None if self.cycles_baseline is None else self.cycles_baseline / self.cycles

    def to_json(self) -> dict[str, Any]:
        """Plain dictionary with the keys of ``archsim trace pim --json``."""
        return {**vars(self), "commands": dict(self.commands), "commands_total": dict(self.commands_total)}


@dataclass(frozen=True)
class Run:
    """What the kernel did: end cycle, counts [channels, commands], CPU seconds, log of one channel [n, 2]."""

    cycles: int
    counts: np.ndarray
    cpu_s: float
    log: np.ndarray


@cache
def load_kernel() -> None:
    """Compile or load the kernel before its time is taken: run the empty program, once a process."""
    steps = Steps(1)
    steps.barrier()
    program = steps.program()
    m = state.new_state(load_pim(devices()[0]), 1)
    commands.run(m, program.lines, program.on, np.empty((0, 2), np.int64), SLICE_STEPS)


def advance(m: np.ndarray, lines: np.ndarray, on: np.ndarray, log: np.ndarray) -> int:
    """Run a program on from state `m`, slice by slice, so that an interrupt is seen: the cycle in which it ends.

    Parameters
    ----------
    m : int64 vector
        State of the kernel, changed in place.
    lines, on, log : int64 arrays
        As :func:`archsim.devices.pim.commands.run` takes them.

    Raises
    ------
    PimError
        The program can never end.
    """
    while (cycles := commands.run(m, lines, on, log, SLICE_STEPS)) == commands.MORE:
        pass
    if cycles == -2:
        raise PimError("more answers wait in a channel than the model holds")
    if cycles < 0:
        line = int(lines[min(int(m[state.LINE]), len(lines) - 1), Field.LINE])
        raise PimError(f"the program stops at instruction {m[state.LINE] + 1} (line {line}) and never ends")
    return int(cycles)


def counts_of(m: np.ndarray, which: np.ndarray) -> np.ndarray:
    """Commands issued so far [channels, commands] of state `m`; `which` is the class of each channel."""
    first = m[state.FIRST] + state.COUNTS
    blocks = [m[first + c * state.BLOCK :][: state.N] for c in range(int(m[state.CLASSES]))]
    return np.stack(blocks)[which]


def execute(standard: PimStandard, program: Program, *, log: bool = False, where: str = "") -> Run:
    """Run a program.

    Parameters
    ----------
    log : bool
        Record cycle and id of each command of channel 0 (the kernel runs again where they are far more than requests).
    where : str
        File the program comes from, for messages.

    Raises
    ------
    InputError
        More than 2**28 requests, or a command the device lacks.
    PimError
        The program can never end.
    """
    requests = int(program.lines[:, Field.COUNT].sum())
    if requests > MAX_REQUESTS:
        raise InputError(f"the program has more than {MAX_REQUESTS} requests a channel; split it")
    if program.lines[-1:, Field.KIND].tolist() != [int(Kind.BARRIER)]:
        raise PimError("the program has no barrier at its end, so it never ends")
    check(standard, program.lines, where)
    load_kernel()
    began = time.process_time()
    on, which = commands.classes(program)
    if log:  # the kernel logs the first class
        order = np.argsort(np.arange(on.shape[1]) != which[0], kind="stable")
        on, which = np.ascontiguousarray(on[:, order]), np.argsort(order)[which]
    recorded = np.empty((min(requests + requests // 4 + 1024, MAX_LOGGED) if log else 0, 2), np.int64)
    m = state.new_state(standard, on.shape[1])
    cycles = advance(m, program.lines, on, recorded)
    cpu_s = time.process_time() - began
    if log and m[state.LOGGED] > len(recorded):
        recorded = np.empty((int(m[state.LOGGED]), 2), np.int64)
        advance(state.new_state(standard, on.shape[1]), program.lines, on, recorded)
    return Run(cycles, counts_of(m, which), cpu_s, recorded[: m[state.LOGGED]] if log else recorded)


def check(standard: PimStandard, lines: np.ndarray, where: str = "") -> None:
    """Refuse commands the device lacks.

    Raises
    ------
    InputError
        Names the first.
    """
    strange = _lacks(standard)[lines[:, Field.COMMAND]]
    if strange.any():
        first = lines[strange.argmax()]
        at = f"{where}:{first[Field.LINE]}: " if where else ""
        known_names = ", ".join(TEXT[c] for c in sorted(standard.latency))
        command = TEXT[Cmd(int(first[Field.COMMAND]))]
        raise InputError(f"{at}{standard.name} has no {command} command; it has {known_names}")


@lru_cache(maxsize=64)
def _lacks(standard: PimStandard) -> np.ndarray:
    """By command id, whether the device lacks it; False for -1, no command."""
    return np.array([command not in standard.latency for command in Cmd] + [False])


def named(counts: np.ndarray) -> dict[str, int]:
    """Counts by command name; zeros left out."""
    return {TEXT[c]: int(counts[c]) for c in Cmd if counts[c]}


def result(standard: PimStandard, run: Run, weight_bytes: int | None) -> PimResult:
    """Result of a run; `weight_bytes` asks for the baseline."""
    baseline = None if weight_bytes is None else baseline_cycles(standard, weight_bytes)
    busiest = int(run.counts.sum(axis=1).argmax())
    return PimResult(
        run.cycles,
        baseline,
        standard.tck_ns,
        run.cycles * standard.tck_ns / 1000,
        named(run.counts[busiest]),
        named(run.counts.sum(axis=0)),
        run.cpu_s,
    )


def baseline_cycles(standard: PimStandard, weight_bytes: int) -> int:
    """Cycles to stream `weight_bytes` over all channels' data buses at peak, whole bursts, no refresh."""
    channels, size = standard.organisation["channels"], standard.organisation["access_bytes"]
    return -(-weight_bytes // (channels * size)) * standard.cycles["nBL"]


def write_commands(standard: PimStandard, program: Program, path: str | Path, where: str = "") -> Run:
    """Run a program and write channel 0's commands to a CSV file (``clock,command``), whole or not at all.

    Raises
    ------
    InputError
        As :func:`execute`, more than :data:`MAX_LOGGED` commands, or a file that may not be written.
    """
    channel0 = program.lines[:, Field.COUNT] * (program.on[:, 0] > 0)
    if int(channel0.sum()) > MAX_LOGGED:
        raise InputError(f"{where}: more than {MAX_LOGGED} requests in channel 0; drop --commands or split the trace")
    run = execute(standard, program, log=True, where=where)
    names = [TEXT[c] for c in Cmd]
    with replaced(path) as partial, open(partial, "w", encoding="ascii") as file:
        file.write("clock,command\n")
        file.writelines(f"{clock},{names[command]}\n" for clock, command in run.log.tolist())
    return run


def replay(
    device: str, path: str | Path, *, baseline: bool = False, command_trace: str | Path | None = None
) -> PimResult:
    """Replay an AiM instruction trace on a PIM device.

    The baseline streams every column that a MAC or element-wise command read from its banks; `command_trace` receives
    channel 0's commands.

    Raises
    ------
    InputError
        Bad input.
    PimError
        The program can never end.
    """
    standard = load_pim(device)
    program = read_trace(path, standard)
    asked = touched_bytes(standard, program) if baseline else None
    if command_trace is not None:
        return result(standard, write_commands(standard, program, command_trace, str(path)), asked)
    return result(standard, execute(standard, program, where=str(path)), asked)


def touched_bytes(standard: PimStandard, program: Program) -> int:
    """Bytes of bank columns that MAC and element-wise requests read, over all channels."""
    lines = program.lines
    all_banks = np.isin(lines[:, Field.COMMAND], (Cmd.MAC16, Cmd.EWMUL16)) * standard.banks
    banks = all_banks + (lines[:, Field.COMMAND] == Cmd.MAC)
    requests = lines[:, Field.COUNT] * program.on.sum(axis=1) * (lines[:, Field.KIND] == Kind.PIM)
    return int((requests * banks).sum()) * standard.organisation["access_bytes"]
