"""Heat while a run goes on: power by device, temperatures, and the governor that slows clocks down.

A :class:`Meter` stands between a job and the simulation: it knows what every emitted block costs on each device and
how far each has come, and so the power of the last step without looking at a trace. The governor is one process that
wakes every step, moves the temperatures, and every period steps clocks by one operating point: down while a limit is
exceeded and the place still warms, up when all are well below (as the step-wise governor of Linux does). What it does
is in the run's script and rates, so a replay repeats it; temperatures are notes in thousandths of a kelvin.

Only clocks slow down: rates follow :meth:`archsim.device.Device.clocks`, and latencies of other domains do not. A
block's energy is spread by the work done, at the voltage of the present operating point.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from archsim.config import InputError, load_config
from archsim.device import Clock
from archsim.devices.thermal import DIES, NODES, Network, ThermalSpec
from archsim.system import Prices, System
from archsim.units import PS_PER_S, from_numbers

if TYPE_CHECKING:
    from archsim.engine.handle import Handle
    from archsim.engine.process import Process
    from archsim.engine.sim import Sim
    from archsim.workload.job import Job
    from archsim.workload.optable import OpTable

_PJ_PER_J = PS_PER_S


def thermal_spec(name: str) -> tuple[ThermalSpec, dict[str, Any]]:
    """Load a part of device kind ``thermal``; returns its spec and what the manifest keeps of it.

    Raises
    ------
    InputError
        When there is no such part, or it is of another kind.
    """
    part = load_config("part", name)
    if part.data["device"] != "thermal":
        raise InputError(f"job.thermal: part {name!r} is a {part.data['device']}; give one of device kind thermal")
    return from_numbers(ThermalSpec, part.data["spec"]), {"part": part.name, "spec": part.data["spec"]}


class Meter:
    """A simulation that knows what the blocks emitted through it cost, pJ by device.

    It forwards everything else to the simulation.
    """

    def __init__(self, sim: Sim, table: OpTable, prices: Prices, devices: list[str]) -> None:
        self._sim, self._table = sim, table
        self._devices = {name: i for i, name in enumerate(devices)}
        self._pj = {action: cost.value for action, cost in prices.energy_pj.items()}
        self._cost = np.zeros((len(devices), 0))
        self._open: list[tuple[Handle, np.ndarray, float]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sim, name)

    def emit(self, block: Any, *args: Any, **kwargs: Any) -> Handle:
        """Emit a block and remember its cost."""
        handle = self._sim.emit(block, *args, **kwargs)
        self._learn()
        ops = np.asarray(block.op)
        self._open.append((handle, self._cost[:, ops[ops >= 0]].sum(axis=1), 0.0))
        return handle

    def _learn(self) -> None:
        """Price the operators lowered since the last time."""
        seen, size = self._cost.shape[1], len(self._table)
        if size == seen:
            return
        self._cost = np.concatenate((self._cost, np.zeros((len(self._devices), size - seen))), axis=1)
        for op, action, count in self._table.counts_since(seen):
            self._cost[self._devices[action.split(".", 1)[0]], op] += count * self._pj[action]

    def spent_pj(self) -> np.ndarray:
        """Energy by device since the last call, pJ."""
        spent, still = np.zeros(len(self._devices)), []
        for handle, cost, before in self._open:
            done, work = self._sim.progress(handle)
            part = done / work if work else float(handle.done)
            spent += cost * (part - before)
            if not handle.done:
                still.append((handle, cost, part))
        self._open = still
        return spent


class Governor:
    """Temperatures and clocks of one run."""

    def __init__(self, spec: ThermalSpec, system: System, sim: Sim, job: Job) -> None:
        self.spec, self.sim, self.job = spec, sim, job
        self.devices = list(system.devices)
        self.kinds = {name: device.kind for name, device in system.devices.items()}
        self.prices = system.prices()
        self.meter = Meter(sim, job.planner.ops, self.prices, self.devices)
        self.network = Network(spec)
        self.before = dict(self.network.kelvin)
        self.processes: list[Process] = []
        self.units = [unit.name for unit in system.units]
        self.busy = np.zeros(len(self.units), dtype=np.int64)
        self.corner = {clock.name: len(clock.corners) - 1 for clock in self.prices.clocks}
        self.hot = {"dram": False, "flash": False}
        pools = {pool.name for pool in system.pools}
        self.slowed = {
            die: pool for die, pool in (("dram", "dram.bandwidth"), ("flash", "flash.link")) if pool in pools
        }

    def steps(self) -> Iterator[Any]:
        """Wake every step until the processes of the run have ended (a timer would keep the simulation alive)."""
        step, every = self.spec.step_ps, self.spec.period_ps // self.spec.step_ps
        count, ended = 0, self.sim.all_of(*self.processes)
        while True:
            outcome = yield self.sim.any_of(self.sim.timer(step), ended)
            if outcome.index:
                return
            count += 1
            self.network.step(self.watts(step), step / PS_PER_S)
            if count % every == 0:
                self._decide()
                for node in NODES:
                    self.sim.note(f"kelvin_{node}", -1, round(1000 * self.network.kelvin[node]))

    def watts(self, step_ps: int) -> dict[str, float]:
        """Power of the last step by node of the network."""
        volts = {clock.name.split(".", 1)[0]: self._volt(clock) ** 2 for clock in self.prices.clocks}
        found = dict.fromkeys((*DIES, "rest"), 0.0)
        for name, pj in zip(self.devices, self.meter.spent_pj()):
            found[self._node(name)] += pj / _PJ_PER_J * PS_PER_S / step_ps * volts.get(name, 1.0)
        busy = self.sim.busy_ps()
        share = dict(zip(self.units, np.minimum((busy - self.busy) / step_ps, 1.0)))
        self.busy = busy
        stated = set()
        for block, entry in self.prices.states.items():
            device = block.split(".", 1)[0]
            active = max((share[unit] for unit in entry.units), default=max(share.values(), default=0.0))
            level = self._level(device)
            mw = active * level * entry.states["active"].value + (1 - active) * entry.states["idle"].value
            found[self._node(device)] += mw / 1e3
            stated |= {f"{block}.{state}" for state in entry.states}
        for block, cost in self.prices.power_mw.items():
            if block not in stated:
                twice = 2 if block == "dram.refresh" and self.hot["dram"] else 1
                found[self._node(block.split(".", 1)[0])] += twice * cost.value / 1e3
        return found

    def _node(self, device: str) -> str:
        """Node that a device heats; in-memory processing heats the memory, unknown devices the body."""
        if self.kinds.get(device) == "pim":
            return "dram"
        return device if device in DIES else "rest"

    def _volt(self, clock: Clock) -> float:
        return clock.corners[self.corner[clock.name]][1] / clock.corners[-1][1]

    def _level(self, device: str) -> float:
        """Power of an active block under the present operating point, over that at full clock."""
        for clock in self.prices.clocks:
            if clock.name.split(".", 1)[0] == device:
                return clock.corners[self.corner[clock.name]][0] * self._volt(clock) ** 2
        return 1.0

    def _decide(self) -> None:
        """Step clocks by their temperatures, and set what heat does to memories."""
        kelvin, spec = self.network.kelvin, self.spec
        for clock in self.prices.clocks:
            node = self._node(clock.name.split(".", 1)[0])
            node = node if node in kelvin else "package"
            limits = ((node, spec.junction_k), ("body", spec.skin_k))
            now = self.corner[clock.name]
            then = now
            if any(kelvin[at] > limit and kelvin[at] > self.before[at] for at, limit in limits):
                then = max(now - 1, 0)
            elif all(kelvin[at] < limit - spec.hysteresis_k for at, limit in limits):
                then = min(now + 1, len(clock.corners) - 1)
            if then != now:
                self.corner[clock.name] = then
                for target in clock.targets:
                    self.sim.set_rate(target, clock.corners[then][0])
        self._memory("dram", spec.hot_dram_k, (1 - 2 * spec.refresh_share) / (1 - spec.refresh_share))
        self._memory("flash", spec.hot_flash_k, spec.hot_flash_rate)
        self.before = dict(kelvin)

    def _memory(self, die: str, limit_k: float, rate: float) -> None:
        kelvin = self.network.kelvin[die]
        hot = kelvin > limit_k if not self.hot[die] else kelvin > limit_k - self.spec.hysteresis_k
        if hot != self.hot[die] and die in self.slowed:
            self.hot[die] = hot
            self.sim.set_rate(self.slowed[die], rate if hot else 1.0)
            self.sim.note(f"hot_{die}", -1, int(hot))
