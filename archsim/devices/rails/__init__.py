"""Static power of everything on a phone that is not modelled as a device of its own.

Modelled: one constant power while a run lasts: interconnect, always-on logic, regulators and the operating system.
Display and radios are off and excluded. Not modelled: regulator losses that grow with load, dependence on temperature.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from archsim.device import Cost, Device
from archsim.registry import device
from archsim.units import Mw


class RailsSpec(BaseModel):
    """Static power of the rest of the phone.

    Attributes
    ----------
    base_mw : float
        Power drawn for as long as the run lasts.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    base_mw: Mw


@device("rails")
class Rails(Device):
    """Contributes static power only."""

    Spec = RailsSpec

    def power(self) -> dict[str, Cost]:
        """Base power, as the part file states it."""
        value = self.spec.base_mw
        scope = "display and radios off; interconnect, regulators, operating system"
        return {"base": Cost(value, "mW", POWER_SOURCE, (0.5 * value, 1.5 * value), scope=scope)}


POWER_SOURCE = (
    "fitted: the part file's value, with the awake NPU and the CPU's cycle energy, to whole-phone powers "
    "(arXiv 2509.23324, arXiv 2511.11248 Table 3)"
)
