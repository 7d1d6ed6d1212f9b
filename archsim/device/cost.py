"""What a device costs: priced facts with their source and range, and static power by state."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

#: How well a price is known, best first; the grade of a cost is read off the first word of its source.
GRADES: tuple[str, ...] = ("measured", "published", "derived", "fitted", "assumed")


@dataclass(frozen=True)
class Cost:
    """One priced fact.

    Attributes
    ----------
    value, unit : float, str
        What one count costs (pJ), a block draws (mW) or takes (um2).
    source : str
        Where the value comes from; ``assumed:``, ``fitted:``, ``derived:`` and ``measured:`` say how it was found.
    range : tuple of float, optional
        Lowest and highest value that the sources allow.
    node_nm, voltage_v : float, optional
        Process node and supply that the value holds for.
    scope : str
        What it includes and what not.
    confidence : str
        One of :data:`GRADES`; by default the grade that the source states (``published`` where it states none).
    """

    value: float
    unit: str
    source: str
    range: tuple[float, float] | None = None
    node_nm: float | None = None
    voltage_v: float | None = None
    scope: str = ""
    confidence: str = ""

    def __post_init__(self) -> None:
        if not self.confidence:
            word = re.split(r"[:, ]", self.source.removeprefix("part file; "), maxsplit=1)[0]
            object.__setattr__(self, "confidence", word if word in GRADES else "published")
        if self.confidence not in GRADES:
            raise ValueError(f"confidence {self.confidence!r} is not one of {', '.join(GRADES)}")

    @property
    def low(self) -> float:
        """Lowest value."""
        return self.value if self.range is None else self.range[0]

    @property
    def high(self) -> float:
        """Highest value."""
        return self.value if self.range is None else self.range[1]

    def times(self, factor: float, unit: str | None = None) -> Cost:
        """Cost of `factor` of these, value and range scaled, the factor noted in the source."""
        bounds = None if self.range is None else (self.range[0] * factor, self.range[1] * factor)
        return replace(
            self,
            value=self.value * factor,
            unit=unit or self.unit,
            source=f"{self.source}; x {factor:g}",
            range=bounds,
        )


#: States of a block that draws static power, from awake to off.
STATES: tuple[str, ...] = ("active", "idle", "retention", "gated")


@dataclass(frozen=True)
class PowerStates:
    """Static power of a block by state.

    A block is ``active`` while a row runs on one of its units; afterwards it goes through the deeper states that it
    has, each entered once the block has been quiet for that long. Waking is part of the rows' leads.

    Attributes
    ----------
    units : tuple of str
        Full names of the units whose rows keep the block active; none: rows that count an action of the device.
    states : Mapping[str, Cost]
        Power in mW by state, in the order of :data:`STATES`; ``active`` and ``idle`` are required.
    after_ps : Mapping[str, int]
        Quiet time after which a state deeper than ``idle`` is entered, ascending.
    """

    units: tuple[str, ...]
    states: Mapping[str, Cost]
    after_ps: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        order = [state for state in STATES if state in self.states]
        if list(self.states) != order or order[:2] != ["active", "idle"]:
            raise ValueError(f"power states must be active, idle and deeper ones in order, not {list(self.states)}")
        if list(self.after_ps) != order[2:] or list(self.after_ps.values()) != sorted(self.after_ps.values()):
            raise ValueError(f"after_ps must ascend over {order[2:]}, not {dict(self.after_ps)}")
