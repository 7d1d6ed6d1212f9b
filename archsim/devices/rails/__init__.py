"""Static power of everything on a phone that is not modelled as a device of its own.

Modelled: one constant power while a run lasts (display off, radios idle: interconnect, rails, regulators and the
operating system). Not modelled: its dependence on temperature, screen and radios.
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
    kind = "rails"

    def power(self) -> dict[str, Cost]:
        """Base power, as the part file states it."""
        value = self.spec.base_mw
        return {"base": Cost(value, "mW", POWER_SOURCE, (0.5 * value, 1.5 * value))}


POWER_SOURCE = (
    "part file; assumed: what measured whole-phone powers of 4.3-5.0 W in NPU decoding leave once NPU and DRAM are "
    "taken off (arXiv 2511.11248 Table 3, arXiv 2509.23324)"
)
