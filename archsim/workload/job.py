"""A job: models by role, placements, prompt and length, and the decision stream that says what gets accepted.

Schedules ask a job for blocks and outcomes; the job keeps the context (:mod:`archsim.workload.context`), emits the
blocks and writes the marks that reports read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from archsim.authored import mapping_of
from archsim.config import InputError, JobSpec
from archsim.device import Device, OpKind, Ops, make_ops
from archsim.engine.sim import Block, Handle, Sim
from archsim.system import System
from archsim.units import quote, suggest
from archsim.workload.blocks import chain, row_block
from archsim.workload.context import Context
from archsim.workload.footprint import check_memory, footprint
from archsim.workload.model import ModelSpec
from archsim.workload.plan import Pass, Placement, Planner
from archsim.workload.progress import Progress
from archsim.workload.requests import requests_of
from archsim.workload.residency import mapping
from archsim.workload.runtime import Runtime

if TYPE_CHECKING:
    from archsim.schedules.schedule import Schedule
    from archsim.streams.interface import DecisionStream


class Job(Context):
    """What is decoded, and how far decoding has come.

    Parameters
    ----------
    spec : JobSpec
        Lengths and budgets.
    system : System
        The machine.
    models : Mapping[str, ModelSpec]
        Models by role.
    schedule : Schedule
        Gives the placements.
    stream : DecisionStream
        Answers what is accepted.

    Raises
    ------
    InputError
        When the weights, buffers and KV rows do not fit the machine's memory or flash.
    """

    def __init__(
        self,
        spec: JobSpec,
        system: System,
        models: Mapping[str, ModelSpec],
        schedule: Schedule,
        stream: DecisionStream,
    ) -> None:
        self.system = system
        self._plan = requests_of(spec, stream)
        self.draft_len = schedule.draft_len()
        super().__init__(spec, *_placed(schedule, models, spec.dram_fraction), stream)
        self.stores = [
            {"name": f"ring.{role}", "capacity": place.ring, "unit": "slots", "level": 0}
            for role, place in self.placements.items()
            if place.streams
        ]
        ids = {ring["name"].partition(".")[2]: len(system.stores) + i for i, ring in enumerate(self.stores)}
        landed = {role: len(system.stores) + len(ids) + i for i, role in enumerate(ids)}
        self.stores += [
            {"name": f"landed.{role}", "capacity": self.models[role].layers, "unit": "layers", "level": 0}
            for role in landed
        ]
        self.planner = Planner(system, self.models, self.placements, ids, landed)
        rows = self.longest()
        kv_bytes = {role: rows * self.models[role].kv_token_bytes for role in self.placements}
        chosen = schedule.residency() if spec.mapping is None else mapping(spec.mapping)
        self.runtime = Runtime(self.planner, kv_bytes, chosen, len(system.stores) + len(self.stores))
        self.stores += [*self.runtime.stores, *schedule.stores()]
        self.footprint = footprint(self)
        check_memory(self)
        self._check_context(rows)
        self.sim: Sim | None = None
        self._controls: dict[int, Block] = {}  # by the operator's entry in the table
        self.ended_early = 0
        self._progress: Any = None
        self.progress = Progress()
        self._bookkeeping: dict[tuple[int, ...], Block] = {}

    def longest(self) -> int:
        """KV rows of the longest request: prompt, output and drafted rows that may be rejected."""
        return max(request.prompt + request.tokens for request in self._plan) + self.draft_len

    def longest_prompt(self) -> int:
        """Rows of the longest context before an output."""
        return max(request.prompt for request in self._plan)

    @property
    def open_loop(self) -> bool:
        """Whether requests arrive by themselves."""
        return self._plan[0].arrival_ps is not None

    def _check_context(self, rows: int) -> None:
        for role in self.placements:
            model = self.models[role]
            if rows > model.max_position:
                raise InputError(
                    f"the longest request needs {rows} positions (prompt, output and drafts) and {model.name} has "
                    f"{model.max_position}; lower job.tokens or job.prompt_tokens"
                )

    def store_levels(self) -> dict[str, int]:
        """Levels of the system's stores when the run starts, by name."""
        return {f"{device}.capacity": sum(parts.values()) for device, parts in self.footprint.items() if parts}

    def bind(self, sim: Sim, progress: Any = None) -> None:
        """Attach the simulation the job emits into, and who is told how far it is."""
        self.sim = sim
        self._progress = progress

    def requests(self) -> Iterator[int]:
        """Begin one request after the other: positions start anew; in a closed loop it arrives now, and that is noted.

        In an open loop a schedule waits with :meth:`arrived` before it does anything for the request.
        """
        for number, request in enumerate(self._plan):
            self.begin(number, request)
            self._made("since its begin")
            if not self.open_loop:
                self.note("arrival", self.prompt, self.kept)
            yield number

    def arrived(self) -> Iterator[Any]:
        """Wait until the present request has arrived, and note that its service begins; nothing in a closed loop."""
        assert self.sim is not None
        arrival = self._plan[self.request].arrival_ps
        if arrival is None:
            return
        if arrival > self.sim.now:
            yield self.sim.timer(arrival - self.sim.now)
        self.note("begin", self.request)

    def arrivals(self) -> Iterator[Any]:
        """Process that notes the arrival of every request when it happens."""
        assert self.sim is not None
        for number, request in enumerate(self._plan):
            assert request.arrival_ps is not None
            yield self.sim.timer(request.arrival_ps - self.sim.now)
            self.sim.note("arrival", number, request.prompt, request.kept)

    def emit(self, role: str, phase: str, *, rows: int = 1, steps: int = 1, after: Any = None) -> Handle:
        """Emit the passes of :meth:`passes` for the current position, one after the other."""
        return self.emit_passes(self.passes(role, phase, rows=rows, steps=steps), after=after)

    def emit_passes(self, passes: Sequence[Pass], *, after: Any = None, label: str = "", priority: int = 0) -> Handle:
        """Emit passes of one role as one block; rows that the runtime adds (maps) run before it.

        Parameters
        ----------
        passes : sequence of Pass
            Run one after the other.
        after : Handle or sequence of Handle, optional
            What the block waits for.
        label : str, optional
            ``<role>.<phase>`` as the trace names the block; by default of the first pass.
        priority : int, optional
            Lower goes first where rows wait for one unit.
        """
        assert self.sim is not None
        for one in passes:
            self._check_pass(one)
        self.progress.count()
        role = passes[0].role
        label = label or f"{role}.{passes[0].phase}"
        prelude, block, changes = self.runtime.plan(passes)
        for change in changes:
            self.note(f"window.{change.device}", change.free_bytes, change.largest_hole_bytes)
        if prelude is not None:
            after = self.sim.emit(prelude, after=after, request=self.request, label=label)
        return self.sim.emit(block, after=after, priority=priority, request=self.request, label=label)

    def _check_pass(self, one: Pass) -> None:
        """Refuse a pass of a role that is not placed, or one whose projection would be left out."""
        if one.role not in self.placements:
            raise ValueError(f"no model is placed for the role {quote(one.role)}; {suggest(one.role, self.placements)}")
        if one.projected and one.last is not None and one.last < self.models[one.role].layers:
            raise ValueError(
                f"a pass of {one.role} that ends before layer {one.last} of {self.models[one.role].layers} projects "
                f"nothing, and projected={one.projected} was asked for; leave it out, or run the last layer"
            )

    def emit_ops(self, label: str, phase: str, ops: Mapping[str, Ops], *, after: Any = None) -> Handle:
        """Emit operators that belong to no pass (bookkeeping, copies, small products, reads), in a chain.

        Reads come from flash, all else runs on the CPU.

        Parameters
        ----------
        label : str
            ``<role>.<phase>`` as the trace names the block.
        phase : str
            Phase that their time is counted for.
        ops : mapping of str to Ops
            Operators of length 1 by name.
        after : Handle or sequence of Handle, optional
            What the block waits for.
        """
        assert self.sim is not None
        self.progress.count()
        role = label.partition(".")[0]
        lowered = [
            self.planner.ops.lower(self._host(OpKind(int(op.kind[0]))), role, phase, name, op)
            for name, op in ops.items()
        ]
        key = tuple(int(one.op[0]) for one in lowered)
        if key not in self._bookkeeping:
            self._bookkeeping[key] = chain([row_block(one) for one in lowered])
        return self.sim.emit(self._bookkeeping[key], after=after, request=self.request, label=label)

    def _host(self, kind: OpKind) -> Device:
        """Device for an operator that belongs to no pass: storage for reads, else the CPU."""
        return self.system.having(kind) if kind == OpKind.LOAD else self.system.having(kind, "cpu")

    def estimate(self, passes: Sequence[Pass]) -> int:
        """Time of passes alone on the machine, ps."""
        assert self.sim is not None
        return self.sim.estimate(self.planner.chained(passes))

    def control(self, name: str, work: int | Ops, *, on: str = "cpu", after: Any = None) -> Handle:
        """Emit control logic on a device: `work` instructions of a CPU, or an operator that the device has priced."""
        assert self.sim is not None
        self.progress.count()
        ops = _instructions(work) if isinstance(work, int) else work
        lowered = self.planner.ops.lower(self.system.having(OpKind.CONTROL, on), "target", "control", name, ops)
        entry = int(lowered.op[0])
        if entry not in self._controls:
            self._controls[entry] = row_block(lowered)
        return self.sim.emit(self._controls[entry], after=after, request=self.request, label=f"control.{name}")

    def copy_kv(self, role: str, rows: int, *, after: Any = None) -> Handle:
        """Emit the copy of `rows` tokens' keys and values of all layers into the cache, in the layout it has there."""
        assert self.sim is not None
        self.progress.count()
        block = row_block(self.planner.copy(role, rows, self.longest()))
        return self.sim.emit(block, after=after, request=self.request, label=f"{role}.merge")

    def commit(
        self,
        tokens: int = 1,
        *,
        accepted: int = 0,
        drafted: int = 0,
        step: Handle | None = None,
        drafts: Handle | None = None,
        rows: int | None = None,
        newly_drafted: int | None = None,
    ) -> int:
        """Commit tokens: mark their time and what was useful, and advance the text.

        Parameters
        ----------
        tokens : int
            Tokens the pass yields beside the accepted ones (its own, 1).
        accepted, drafted : int
            Drafted tokens the target took, and all that were verified.
        step, drafts : Handle, optional
            The verification and the drafting that this ends: their useful rows are marked.
        rows : int, optional
            Rows of the step; by default the drafted ones and the target's own.
        newly_drafted : int, optional
            Drafted tokens to be noted here, `drafted` by default; 0 where the drafter notes its own (:meth:`note`).

        Returns
        -------
        int
            Tokens that count, no more than the request still wants.

        Raises
        ------
        ValueError
            For fewer than no tokens, or more accepted than drafted.
        """
        assert self.sim is not None
        if tokens < 0 or not 0 <= accepted <= drafted:
            raise ValueError(
                f"commit of {tokens} tokens and {accepted} accepted of {drafted} drafted: tokens must be at least 0, "
                "and accepted between 0 and drafted"
            )
        counted = min(tokens + accepted, self.limit - self.position)
        if step is not None:
            self.note("step", 1)
            self.sim.mark(step, counted, drafted + 1 if rows is None else rows)
        newly_drafted = drafted if newly_drafted is None else newly_drafted
        if newly_drafted:
            self.note("draft", newly_drafted)
        if drafted:
            self.note("accept", accepted, drafted)
            if drafts is not None:
                self.sim.mark(drafts, min(accepted, counted), drafted)
        self.note("commit", counted, drafted)
        self.fresh = {"committed": tokens + accepted, "drafted": drafted}
        self.position += counted
        if counted:
            self._made(f"since token {self.position:,}")
        if self._progress is not None:
            most = self.spec.longest_tokens
            self._progress.update(self.request * most + self.position, self.spec.requests * most)
        return counted

    def mark(self, handle: Handle, useful: int, total: int) -> None:
        """Mark how many of a block's rows turned out useful."""
        assert self.sim is not None
        self.sim.mark(handle, useful, total)

    def end(self, request: int) -> None:
        """Note the end of a request, and whether the recording ended it early."""
        self._made("since its end")
        early = int(self.position < self.asked)
        self.ended_early += early
        self.note("end", self.position, early)

    def _made(self, what: str) -> None:
        self.progress.made(f"{what} (request {self.request})", self.prompt + self.asked)

    def note(self, kind: str, value: int, extra: int = 0) -> None:
        """Time-stamp a mark in the current request."""
        assert self.sim is not None
        self.sim.note(kind, self.request, value, extra)


@lru_cache(maxsize=64)
def _instructions(number: int) -> Ops:
    """Control logic of so many instructions."""
    return make_ops([{"kind": OpKind.CONTROL, "n": number}])


def _placed(
    schedule: Schedule, models: Mapping[str, ModelSpec], dram_fraction: float
) -> tuple[dict[str, ModelSpec], dict[str, Placement]]:
    """Models and placements by role; a role that shares another's weights runs the same model elsewhere."""
    models, placements = dict(models), {}
    for role, place in mapping_of(schedule.placements, Placement, "placements").items():
        if place.shares:
            models[role] = models[place.shares]
        placements[role] = place.within(models[role], dram_fraction)
    return models, placements
