"""Diffusion baselines: vanilla and with prefix KV on the CPU, and the same passes offloaded to the NPU.

``dllm_cpu``
    Everything on the CPU. Vanilla computes all rows in every step; with a prefix cache a block costs one refresh, a
    step per token and one pass that writes the block's keys and values (`schedule.write`).
``dllm_npu``
    The same schedule with the layers on the NPU and the output projection on the CPU. Every operator maps what it
    touches; ``job.mapping=resident`` puts the swap-optimised runtime under the same passes.

One token commits per step by default, as the published times say: 2,996.2 s are 128 passes of 203 rows. With
``schedule.commit_rule=threshold`` all positions at or above `threshold` commit, and a block's refresh counts as its
first step (Fast-dLLM, arXiv 2505.22618).
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from archsim.registry import schedule
from archsim.schedules.llada.decoding import TARGET, Diffusion
from archsim.schedules.schedule import knob
from archsim.workload.denoise import Denoise, Rules, Window
from archsim.workload.plan import Placement
from archsim.workload.residency import PerOperator

if TYPE_CHECKING:
    from archsim.engine.sim import Sim
    from archsim.workload.job import Job


@dataclass(frozen=True)
class Baseline(Diffusion):
    """Block-wise denoising without windows, stages or revision."""

    prefix_kv: bool = knob(True, "reuse keys and values of what lies left of the block")
    write: bool = knob(True, "whether a finished block is passed once more to write its keys and values")
    commit_rule: Literal["one", "threshold"] = knob(
        "one", "tokens committed per step: one, or all at or above the threshold"
    )
    threshold: float = knob(0.9, "confidence at which a position commits (Fast-dLLM)", 0.0, 1.0)

    def rules(self) -> Rules:
        """No stages: a committed token is final."""
        return Rules(self.block, self.commit_rule, self.threshold, self.threshold)

    def decode(self, sim: Sim, job: Job, state: Denoise, profile: Any) -> Generator[Any, Any, None]:
        """Prefill, then block by block."""
        if not self.prefix_kv:
            yield from self._without_cache(job, state)
            return
        yield self.prefill(job)
        while not state.finished:
            first, stop = state.block_first, state.block_stop
            yield from self._refreshed(job, state, Window(first, stop, 0))
            while state.front < stop:
                window = state.window()
                step = self.step(job, state, window)
                yield step[-1]
                self.commit(job, state, window, step, stale=True)
            if self.write:
                yield self.write_block(job, state, first)[-1]

    def _refreshed(self, job: Job, state: Denoise, window: Window) -> Generator[Any, Any, None]:
        """Renew all rows; with the threshold rule the pass also is the block's first step."""
        counts = self.commit_rule == "threshold"
        step = self.refresh(job, projected=window.rows if counts else 0)
        yield step[-1]
        if counts:
            self.commit(job, state, window, step, stale=False, whole=True)

    def _without_cache(self, job: Job, state: Denoise) -> Generator[Any, Any, None]:
        while not state.finished:
            window = state.window()
            step = self.refresh(job, projected=window.rows)
            yield step[-1]
            self.commit(job, state, window, step, stale=False, whole=True)


@schedule("dllm_cpu")
@dataclass(frozen=True)
class DllmCpu(Baseline):
    """Diffusion decoding on the CPU alone, vanilla or with a prefix KV cache."""

    def placements(self) -> Mapping[str, Placement]:
        """Everything on the CPU."""
        return {TARGET: Placement(layers_on=("cpu",))}


@schedule("dllm_npu")
@dataclass(frozen=True)
class DllmNpu(Baseline):
    """The schedule of dllm_cpu with the layers on the NPU."""

    def placements(self) -> Mapping[str, Placement]:
        """Layers on the NPU, projection on the CPU."""
        return {TARGET: Placement()}

    def residency(self) -> PerOperator:
        """Naive: every operator maps what it touches, is called synchronously and unmaps."""
        return PerOperator()
