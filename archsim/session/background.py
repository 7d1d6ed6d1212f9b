"""Background streams of a run: one daemon process each, and what they asked for and got.

The streams are devices of the machine for the length of the run (:mod:`archsim.devices.background`); their blocks are
labelled ``background.<stream>`` and belong to no request. A process waits until a burst is due and the one before has
ended, so at most one burst of a stream is under way and a stream that cannot keep up makes no more rows than the time
has room for. When the processes of the schedule have ended, bursts under way are cut and the run ends with them.

Notes (request -1): ``late.<stream>`` when a burst ended after the next one was due (value: by how much, ps; extra: the
burst), and at the end ``served.<stream>`` (value: amount served, extra: amount due by then; bytes, or ps of core time).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from archsim import registry
from archsim.devices.background import BackgroundStream
from archsim.devices.background.together import check_together
from archsim.streams.draws import Draws
from archsim.system import System
from archsim.units import from_numbers
from archsim.workload.blocks import row_block

if TYPE_CHECKING:
    from archsim.engine.process import Process
    from archsim.engine.sim import Handle, Sim
    from archsim.workload.job import Job

ROLE = "background"
#: Request of what belongs to none.
NOBODY = -1


def with_streams(system: System, data: Mapping[str, Any]) -> System:
    """Machine with the streams of a run (``background`` of its resolved data) as devices, after all others.

    Raises
    ------
    InputError
        When a stream loads what is not there or more than it can ever serve, alone or with the others.
    """
    devices = dict(system.devices)
    for name, entry in data.items():
        kind = registry.get("device", entry["device"])
        devices[name] = kind(name, from_numbers(kind.Spec, entry["spec"]))
    whole = System(system.name, devices, system.sources)
    for device in devices.values():
        if isinstance(device, BackgroundStream):
            device.join(devices)
    check_together(devices)
    return whole


class Player:
    """One stream at work."""

    def __init__(self, device: BackgroundStream, sim: Any, job: Job, seed: int) -> None:
        self.device, self.sim, self.job = device, sim, job
        self.draws = Draws(seed, f"background:{device.name}")
        self.served = 0

    def due_ps(self, number: int) -> int:
        """Time at which a burst is due."""
        spec = self.device.spec
        late = 0
        if spec.jitter:
            late = int(self.draws.uniforms(0, number)[0, 0] * spec.jitter * spec.period_ps)
        return spec.start_ps + number * spec.period_ps + late

    def steps(self, processes: Sequence[Process]) -> Iterator[Any]:
        """Burst after burst until the processes of the schedule have ended."""
        sim, spec, number = self.sim, self.device.spec, 0
        ended = sim.all_of(*processes)
        while spec.stop_ps is None or self.due_ps(number) < spec.stop_ps:
            wait = self.due_ps(number) - sim.now
            if wait > 0 and (yield sim.any_of(sim.timer(wait), ended)).index:
                break
            block = self._block(number)
            if block is not None:
                handle = sim.emit(block, priority=spec.priority, request=NOBODY, label=f"{ROLE}.{self.device.name}")
                stopped = (yield sim.any_of(handle, ended)).index
                self.served += self._done(handle, number)
                if stopped:
                    sim.cut(handle)
                    break
                late = sim.now - self.due_ps(number + 1)
                if late > 0:
                    sim.note(f"late.{self.device.name}", NOBODY, late, number)
            number += 1
        if any(not process.finished for process in processes):
            yield ended
        sim.note(f"served.{self.device.name}", NOBODY, self.served, self.asked(sim.now))

    def asked(self, now_ps: int) -> int:
        """Amount due until now."""
        spec = self.device.spec
        if spec.stop_ps is not None:
            now_ps = min(now_ps, spec.stop_ps - 1)
        if now_ps < spec.start_ps:
            return 0
        begun = (now_ps - spec.start_ps) // spec.period_ps
        return self.device.due(begun + (self.due_ps(begun) <= now_ps))

    def _block(self, number: int) -> Any:
        """Block of a burst; None where it moves nothing."""
        ops = self.device.burst(number)
        if not len(ops.kind):
            return None
        return row_block(self.job.planner.ops.lower(self.device, ROLE, ROLE, "burst", ops))

    def _done(self, handle: Handle, number: int) -> int:
        """Amount of a burst that has been served."""
        done, work = self.sim.progress(handle)
        whole = self.device.due(number + 1) - self.device.due(number)
        return whole * done // work if work else whole


def start_background(sim: Sim, metered: Any, job: Job, processes: Sequence[Process]) -> None:
    """Add a daemon process for each stream of the job's machine.

    Parameters
    ----------
    sim : Sim
        Takes the processes.
    metered : Sim or Meter
        Takes the blocks.
    job : Job
        Its machine holds the streams; its seed keys the jitter.
    processes : sequence of Process
        The schedule's; streams end with the last of them.
    """
    for device in job.system.devices.values():
        if isinstance(device, BackgroundStream):
            player = Player(device, metered, job, job.spec.seed)
            sim.process(player.steps(processes), f"{ROLE} {device.name}", daemon=True)
