"""Heat of a phone: dies on a package in a body, as thermal resistances and capacities.

Nodes: ``cpu`` and ``npu`` (areas of the SoC) and ``dram`` (stacked on it) give their heat to the ``package``, which
gives it to the ``body``; ``flash`` and everything else (``rest``) heat the body directly, which loses heat to the air.
Within a step each node follows the exact exponential for constant power, the warmest path last.

Modelled: junction, package and skin temperature, throttling of clocks by junction and skin, doubled refresh of hot
DRAM, slower hot flash. Not modelled: heat spreading within a die, leakage that grows with temperature, air movement.

No vendor publishes these numbers. A body of 150 J/K at 5.5 K/W holds 18 K above the air at 3.3 W; that phones lose up
to half their speed in sustained decoding is published (iPhone 16 Pro, arXiv 2603.23640).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, model_validator

from archsim.device import Device
from archsim.registry import device
from archsim.units import Fraction01, JPerK, Kelvin, KelvinPerW, Ps

#: Nodes with their own power; the package and the body only pass heat on.
DIES = ("cpu", "npu", "dram", "flash")
NODES = (*DIES, "package", "body")
#: What each node's heat flows into.
INTO = {"cpu": "package", "npu": "package", "dram": "package", "package": "body", "flash": "body"}


class ThermalSpec(BaseModel):
    """Thermal network and limits of one phone.

    Attributes
    ----------
    ambient_k : float
        Air around the phone, and its temperature at the start.
    cpu_k_per_w, npu_k_per_w, dram_k_per_w, package_k_per_w, flash_k_per_w, body_k_per_w : float
        Resistance from each node to the next one.
    cpu_j_per_k, npu_j_per_k, dram_j_per_k, package_j_per_k, flash_j_per_k, body_j_per_k : float
        Heat capacity of each node.
    junction_k, skin_k : float
        A clock steps down while its die is hotter than `junction_k` and warming, every clock while the body is above
        `skin_k` and warming.
    hysteresis_k : float
        Clocks step up again this far below both limits.
    period_ps, step_ps : int
        Time between two decisions of the governor, and between two updates of the temperatures.
    hot_dram_k : float
        DRAM above this refreshes twice as often.
    refresh_share : float
        Part of DRAM bandwidth that refresh takes at normal temperature, and that is lost once more when hot.
    hot_flash_k, hot_flash_rate : float
        Flash above this temperature runs at this fraction of its link.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    ambient_k: Kelvin
    cpu_k_per_w: KelvinPerW
    npu_k_per_w: KelvinPerW
    dram_k_per_w: KelvinPerW
    package_k_per_w: KelvinPerW
    flash_k_per_w: KelvinPerW
    body_k_per_w: KelvinPerW
    cpu_j_per_k: JPerK
    npu_j_per_k: JPerK
    dram_j_per_k: JPerK
    package_j_per_k: JPerK
    flash_j_per_k: JPerK
    body_j_per_k: JPerK
    junction_k: Kelvin
    skin_k: Kelvin
    hysteresis_k: Kelvin
    period_ps: Ps
    step_ps: Ps
    hot_dram_k: Kelvin
    refresh_share: Fraction01
    hot_flash_k: Kelvin
    hot_flash_rate: Fraction01

    @model_validator(mode="after")
    def _agree(self) -> ThermalSpec:
        if not 0 < self.step_ps <= self.period_ps or self.period_ps % self.step_ps:
            raise ValueError(f"period_ps {self.period_ps} must be a multiple of step_ps {self.step_ps}")
        for name in ("junction_k", "skin_k", "hot_dram_k", "hot_flash_k"):
            if getattr(self, name) <= self.ambient_k:
                raise ValueError(f"{name} {getattr(self, name):g} must be above ambient_k {self.ambient_k:g}")
        return self


@device("thermal")
class Thermal(Device):
    """Contributes no unit, pool, store or price: it is named by ``job.thermal``, not by a system."""

    Spec = ThermalSpec


class Network:
    """Temperatures of the nodes, K; all at ambient at the start."""

    def __init__(self, spec: ThermalSpec) -> None:
        self.spec = spec
        self.kelvin = dict.fromkeys(NODES, spec.ambient_k)

    def step(self, watts: Mapping[str, float], seconds: float) -> None:
        """Advance by `seconds` under constant power.

        Parameters
        ----------
        watts : Mapping[str, float]
            Power by die, and ``rest`` for what heats the body directly.
        seconds : float
            Length of the step.
        """
        through = {"package": 0.0, "body": watts.get("rest", 0.0)}
        before = dict(self.kelvin)
        for node in (*DIES, "package"):
            if node in DIES:
                through[node] = watts.get(node, 0.0)
            self._settle(node, before[INTO[node]], through[node], seconds)
            # what leaves the node heats the next one: the rest stays in its capacity
            stored = getattr(self.spec, f"{node}_j_per_k") * (self.kelvin[node] - before[node]) / seconds
            through[INTO[node]] += through[node] - stored
        self._settle("body", self.spec.ambient_k, through["body"], seconds)

    def _settle(self, node: str, outside_k: float, watts: float, seconds: float) -> None:
        resistance, capacity = (getattr(self.spec, f"{node}_{unit}") for unit in ("k_per_w", "j_per_k"))
        final = outside_k + watts * resistance
        self.kelvin[node] = final + (self.kelvin[node] - final) * math.exp(-seconds / (resistance * capacity))
