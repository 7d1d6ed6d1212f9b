"""The simulator's answer to a measured row, and the null model's.

An answer is the time, the bytes and the tokens of one case, so that a row may be a time or a rate. Answers are kept by
case and by the moved numbers of the devices that the case depends on: a fit runs again only what they can change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from archsim.config import InputError
from archsim.device import OpKind
from archsim.devices.flash import Flash
from archsim.devices.npu.alone import changes_alone
from archsim.measurements import passes
from archsim.measurements.machine import Machine
from archsim.measurements.operators import CannotSimulateError, seconds, work_of
from archsim.measurements.rows import Case, FlashCase, Measurement, ModelCase, OperatorCase

#: Bytes that the event-level model reads for one row, and its fewest and most requests.
EVENT_BYTES, EVENT_LEAST, EVENT_MOST = 1 << 27, 64, 1 << 14


@dataclass(frozen=True)
class Answer:
    """Time in s, bytes and tokens of one case."""

    seconds: float
    moved: float = 0.0
    tokens: float = 0.0

    def value(self, dimension: str) -> float:
        """Value in seconds, bytes per second or tokens per second.

        Raises
        ------
        CannotSimulateError
            For tokens of a read.
        """
        if dimension == "s":
            return self.seconds
        amount = self.moved if dimension == "B/s" else self.tokens
        if not amount:
            raise CannotSimulateError(f"a value in {dimension} says nothing about it")
        return amount / self.seconds


@dataclass
class Predictor:
    """Answers of one system, kept while its numbers move.

    Attributes
    ----------
    system : str
        Name or file of the system.
    runs : int
        Cases that were simulated, not taken from what was kept.
    """

    system: str
    runs: int = 0
    _kept: dict[Any, Answer | str] = field(default_factory=dict)

    def simulated(self, machine: Machine, row: Measurement) -> float:
        """Simulated value of a row, in seconds, bytes per second or tokens per second.

        Raises
        ------
        CannotSimulateError
            With the reason.
        """
        if row.case is None:
            raise CannotSimulateError(row.problem)
        return self.answer(machine, row.case).value(row.dimension)

    def answer(self, machine: Machine, case: Case) -> Answer:
        """Answer to a case."""
        used = depends_on(machine, case)
        moved = tuple(sorted((p, v) for p, v in machine.moved.items() if used is None or p.split(".")[1] in used))
        key = (case, moved)
        if key not in self._kept:
            self.runs += 1
            try:
                self._kept[key] = self._run(machine, case)
            except CannotSimulateError as error:
                self._kept[key] = str(error)
        found = self._kept[key]
        if isinstance(found, str):
            raise CannotSimulateError(found)
        return found

    def _run(self, machine: Machine, case: Case) -> Answer:
        if isinstance(case, OperatorCase):
            return _operator(machine, case)
        if isinstance(case, FlashCase):
            return _flash(machine, case) if case.level == "row" else _event(machine, case)
        time = passes.seconds(machine, self.system, case)
        return Answer(time, 0.0, case.prompt + case.generated)


def depends_on(machine: Machine, case: Case) -> set[str] | None:
    """Names of the devices whose numbers a case can depend on; None: all."""
    if isinstance(case, OperatorCase):
        memory = getattr(getattr(machine.system.devices.get(case.device), "spec", None), "memory", "dram")
        return {case.device, memory}
    if isinstance(case, FlashCase):
        return {_storage(machine)} if case.level == "row" else set()
    return None


def _operator(machine: Machine, case: OperatorCase) -> Answer:
    """Operators alone on a device."""
    if case.device not in machine.devices:
        raise CannotSimulateError(f"the system has no {case.device}; it has: {', '.join(machine.devices)}")
    spec = machine.devices[case.device].spec
    changes: dict[str, Any] = {}
    if case.kernel:
        if not hasattr(spec, "policy_one"):
            raise CannotSimulateError(f"kernel {case.kernel}: {case.device} has no kernels to choose")
        changes = {"policy_one": case.kernel, "policy_many": case.kernel}
    changes |= changes_alone(case.op, spec)
    work = work_of(case)
    try:
        device = machine.variant(case.device, changes)
        rows = device.lower(work.ops)
    except (InputError, ValueError, NotImplementedError) as error:
        raise CannotSimulateError(" ".join(str(error).split())) from None
    whole = machine.alone_ps(rows)
    start = getattr(spec, "start_ps", 0)
    time = seconds(rows.lead, whole - rows.lead, work, called=case.called, start_ps=start)
    return Answer(time, work.moved, work.tokens)


def _storage(machine: Machine) -> str:
    return next((name for name, device in machine.system.devices.items() if OpKind.LOAD in device.ops), "flash")


def _flash(machine: Machine, case: FlashCase) -> Answer:
    """Reads on the phone's part: the long-run rate of its loads."""
    name = _storage(machine)
    device = machine.devices.get(name)
    if not isinstance(device, Flash):
        raise CannotSimulateError("the system has no flash part with loads as rows")
    scattered = case.pattern == "rand_read"
    if not scattered and case.depth > 1:
        raise CannotSimulateError("loads of the part are read by one thread, one after the other; see the event level")
    changes: dict[str, Any] = {"issue_core": case.core} if case.core else {}
    if scattered and case.depth < device.spec.queue_depth:
        changes["queue_depth"] = case.depth
    if case.size_bytes < 512:
        raise CannotSimulateError("a request below a sector of 512 bytes")
    varied = machine.variant(name, changes)
    assert isinstance(varied, Flash)
    return Answer(case.size_bytes / varied.read_bytes_per_s(case.size_bytes, case.span_bytes), case.size_bytes)


def _event(machine: Machine, case: FlashCase) -> Answer:
    """Reads on the event-level model that has the part's name."""
    from archsim.devices.flash.replay import FlashStuckError, device_names, device_spec, run_pattern

    entry = machine.resolved.data["devices"].get(_storage(machine))
    if entry is None or entry["part"] not in device_names():
        raise CannotSimulateError(f"no event-level device is named {entry['part'] if entry else 'flash'}")
    if case.size_bytes > EVENT_BYTES:
        raise CannotSimulateError(f"requests of {case.size_bytes} bytes are above {EVENT_BYTES}")
    spec = device_spec(entry["part"])
    count = min(max(EVENT_BYTES // case.size_bytes, EVENT_LEAST), EVENT_MOST)
    span = min(case.span_bytes, spec.logical_sectors * 512)
    try:
        done = run_pattern(
            spec,
            case.pattern,
            case.size_bytes,
            count,
            depth=case.depth,
            span_bytes=span,
            core=case.core or "prime",
        )
    except (InputError, FlashStuckError) as error:
        raise CannotSimulateError(str(error)) from None
    return Answer(done.time_ns / 1e9, count * case.size_bytes)


def null_answer(machine: Machine, case: Case) -> Answer:
    """Answer of the null model: the longer of bytes over bandwidth and operations over peak, nothing else.

    Raises
    ------
    CannotSimulateError
        Where the system has no such device.
    """
    if isinstance(case, FlashCase):
        device = machine.devices.get(_storage(machine))
        if device is None or not device.bandwidth_bytes_per_s():
            raise CannotSimulateError("the system has no flash part")
        return Answer(case.size_bytes / device.bandwidth_bytes_per_s(), case.size_bytes)
    device = machine.devices.get(case.device)
    if device is None:
        raise CannotSimulateError(f"the system has no {case.device}")
    bandwidth, peak = _bandwidth(machine, case.device), device.peak_ops_per_s()
    if isinstance(case, ModelCase):
        pairs, tokens = passes.totals(case), float(case.prompt + case.generated)
    else:
        work = work_of(case)
        pairs, tokens = [(work.moved, work.macs)], float(work.tokens)
    moved = sum(pair[0] for pair in pairs)
    time = sum(max(nbytes / bandwidth, 2 * macs / peak if peak else 0.0) for nbytes, macs in pairs)
    return Answer(time, moved, tokens)


def _bandwidth(machine: Machine, name: str) -> float:
    """Rate of a device's memory: its own, or the one it shares."""
    device = machine.devices[name]
    memory: Mapping[str, Any] = machine.devices
    shared = memory.get(getattr(device.spec, "memory", ""), None)
    rate = device.bandwidth_bytes_per_s() or (shared.bandwidth_bytes_per_s() if shared is not None else 0.0)
    if not rate:
        raise CannotSimulateError(f"the memory of {name} has no rate of its own")
    return float(rate)
