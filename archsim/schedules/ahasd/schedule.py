"""Drafting and verifying on two machines at once, and the schedules it is compared with.

``ahasd``
    A draft on PIM and its target on the NPU as independent processes (arXiv 2604.25326).
``pim_sync``
    The same placement, taking turns.
``npu_sd``
    Draft and target on the NPU, taking turns.
``gpu_sd``
    Draft and target on the GPU, taking turns.
``pim_ar``
    The target alone on PIM, without speculation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from archsim.config import InputError
from archsim.registry import schedule
from archsim.schedules.ahasd.asynchronous import DRAFTS, Pair
from archsim.schedules.ahasd.controls import Controls, Mode, TableControls
from archsim.schedules.ahasd.drafters import CAP, Name, make_drafter
from archsim.schedules.baselines import ResidentAr
from archsim.schedules.schedule import Schedule, Steps, knob
from archsim.workload.plan import Pass, Placement

if TYPE_CHECKING:
    from archsim.engine.sim import Sim
    from archsim.workload.job import Job

#: Where each side runs, in order of preference: the last ones let the schedules run on machines without PIM.
DRAFT_ON = ("pim", "cpu")
TARGET_ON = ("npu", "gpu", "cpu")
PREVERIFY_ON = ("pim_target", "pim", "cpu")


@dataclass(frozen=True)
class Speculative(Schedule):
    """Draft and target in DRAM, taking turns: draft a batch of adaptive length, verify it in one pass."""

    roles: ClassVar[tuple[str, ...]] = ("target", "draft")
    features: ClassVar[tuple[str, ...]] = ("chain",)
    draft_on: ClassVar[tuple[str, ...]] = TARGET_ON
    target_on: ClassVar[tuple[str, ...]] = TARGET_ON

    drafter: Name = knob("specdec++", "how long a batch is")
    length: int = knob(8, "tokens per batch of the fixed drafter", 1, CAP)
    arms: tuple[int, ...] = knob((2, 4, 6, 8), "lengths the bandit chooses from", 1, CAP)

    def placements(self) -> Mapping[str, Placement]:
        """Both models in DRAM, each with its projection where its layers run."""
        return {
            "target": Placement(layers_on=self.target_on, head_on=self.target_on),
            "draft": Placement(layers_on=self.draft_on, head_on=self.draft_on),
        }

    def draft_len(self) -> int:
        """Largest batch."""
        return CAP

    def start(self, sim: Sim, job: Job) -> Mapping[str, Steps]:
        """One process: draft, verify, commit."""
        return {"decode": self.generate(sim, job)}

    def generate(self, sim: Sim, job: Job) -> Steps:
        """Decode all requests, one after the other."""
        from archsim.schedules.ahasd.text import Text

        drafter = make_drafter(self.drafter, self.length, self.arms)
        for request in job.requests():
            yield from job.arrived()
            prefilled = job.emit("target", "prefill")
            yield job.emit("draft", "prefill", after=prefilled)
            job.commit()
            text, kept = Text(job.stream, request, job.limit), job.position - 1
            while not job.finished:
                began, head = sim.now, job.position
                missed: list[int] = []

                def entropy(i: int, text: Text = text, head: int = head, missed: list[int] = missed) -> float:
                    if not missed and i and not text.hits(head + i - 1, 1):
                        missed.append(head + i - 1)
                    return text.entropy(head + i, missed[0] if missed else None)

                room = text.room(head, CAP)
                drafted = drafter.plan(entropy, room) if room else 0
                drafts = None
                if drafted:
                    passes = [Pass("draft", "draft", head - kept, job.prompt + kept, projected=1)]
                    passes += [
                        Pass("draft", "draft_next", 1, job.prompt + head + i, projected=1) for i in range(drafted - 1)
                    ]
                    drafts = job.emit_passes(passes)
                    kept = head + drafted - 1
                step = job.emit_passes(self.verification(job, drafted + 1), after=drafts)
                yield step
                accepted = text.hits(head, drafted)
                job.commit(accepted=accepted, drafted=drafted, step=step, drafts=drafts)
                kept = min(kept, head + accepted)
                drafter.learn(accepted, drafted, accepted + 1, sim.now - began)
            job.end(request)

    def verification(self, job: Job, rows: int) -> list[Pass]:
        """Pass of the target over `rows` rows at the present position."""
        return job.passes("target", "verify", rows=rows)


@schedule("npu_sd")
@dataclass(frozen=True)
class NpuSd(Speculative):
    """Speculative decoding with both models on the NPU."""


@schedule("gpu_sd")
@dataclass(frozen=True)
class GpuSd(Speculative):
    """Speculative decoding with both models on the GPU."""

    draft_on: ClassVar[tuple[str, ...]] = ("gpu", "npu", "cpu")
    target_on: ClassVar[tuple[str, ...]] = ("gpu", "npu", "cpu")


@schedule("pim_ar")
@dataclass(frozen=True)
class PimAr(ResidentAr):
    """The target alone on PIM, a token per pass."""

    def placements(self) -> Mapping[str, Placement]:
        """Layers and projection on the banks."""
        return {"target": Placement(layers_on=("pim", "npu", "cpu"), head_on=("pim", "cpu"))}


@schedule("ahasd")
@dataclass(frozen=True)
class Ahasd(Speculative):
    """Draft on PIM and target on the NPU, asynchronously."""

    needs: ClassVar[tuple[str, ...]] = ("control",)
    draft_on: ClassVar[tuple[str, ...]] = DRAFT_ON

    depth: int = knob(8, "unverified batches; 1 is taking turns", 1, 64)
    take_all: bool = knob(True, "a target pass takes all waiting batches, or one")
    token_rollback: bool = knob(False, "read feedback behind every token, not every batch")
    hand_over: int = knob(4000, "host instructions that pass a batch on (about 2 us; assumed)", 1, 10**7)

    edc: Mode = knob("table", "control of drafting ahead by entropy history")
    tvc: Mode = knob("table", "control of pre-verification by measured times")
    drafting_goes_on: bool = knob(
        True, "draft ahead after all where no token can be pre-verified in time (as published), or wait"
    )
    target_in: Literal["dram", "flash"] = knob(
        "dram", "where the target's layers and projection live; flash needs tvc=off"
    )
    ring: int = knob(6, "layer buffers filled ahead of a target in flash", 1, 1024)

    @property
    def controlled(self) -> bool:
        """Whether any control is on."""
        return (self.edc, self.tvc) != ("off", "off")

    def placements(self) -> Mapping[str, Placement]:
        """Draft and target as ever; pre-verification runs the target's own weights on the banks that hold them.

        Raises
        ------
        InputError
            When pre-verification is asked for of a target that lives in flash.
        """
        places = dict(super().placements())
        if self.target_in == "flash":
            if self.tvc != "off":
                raise InputError(
                    "schedule.tvc pre-verifies with target weights in the memory's banks; set schedule.tvc=off with "
                    "schedule.target_in=flash"
                )
            places["target"] = replace(places["target"], layers_in="flash", head_in="flash", ring=self.ring)
        if self.tvc != "off":
            places["preverify"] = Placement(layers_on=PREVERIFY_ON, head_on=PREVERIFY_ON, shares="target")
        return places

    def stores(self) -> list[dict[str, Any]]:
        """Queue of unverified drafts, for machines without one."""
        return [{"name": DRAFTS, "capacity": 64, "unit": "batches", "level": 0}]

    def controls(self, sim: Sim, job: Job) -> Controls:
        """What decides on look-ahead.

        Raises
        ------
        InputError
            When the machine has no control hardware, or nothing that could pre-verify.
        """
        if not self.controlled:
            return Controls()
        if "control" not in job.system.devices:
            raise InputError(
                f"system {job.system.name!r} has no device 'control'; set schedule.edc=off and schedule.tvc=off, "
                "or run on a machine that has one (ahasd_samsung)"
            )
        return TableControls(sim, job, edc=self.edc, tvc=self.tvc, drafting_goes_on=self.drafting_goes_on)

    def start(self, sim: Sim, job: Job) -> Mapping[str, Steps]:
        """Two processes, draft and target."""
        hardware = "control" in job.system.devices
        pair = Pair(
            sim,
            job,
            make_drafter(self.drafter, self.length, self.arms),
            self.controls(sim, job),
            depth=self.depth,
            take_all=self.take_all,
            token_grain=self.token_rollback,
            hand_over=self.hand_over,
            queue_store="control.unverified" if hardware else DRAFTS,
        )
        return {"verify": pair.verify(), "draft": pair.draft()}


@schedule("pim_sync")
@dataclass(frozen=True)
class PimSync(Speculative):
    """Draft on PIM and target on the NPU, taking turns."""

    draft_on: ClassVar[tuple[str, ...]] = DRAFT_ON
