"""Area of the machine of a run."""

from __future__ import annotations

from archsim.trace import Trace
from archsim.units import InputError

UM2_PER_MM2 = 1000**2


def area_mm2(trace: Trace) -> dict[str, float]:
    """Area by ``<device>.<block>``, in mm2, as the devices declare it.

    Raises
    ------
    InputError
        When an area is not in um2.
    """
    found = {}
    for block, cost in trace.manifest["prices"]["area_um2"].items():
        if cost["unit"] != "um2":
            raise InputError(f"area of {block!r} is in {cost['unit']!r}; it must be in um2")
        found[block] = float(cost["value"]) / UM2_PER_MM2
    return found
