"""What a device is: the units, pools and stores it contributes and how it lowers operators to rows.

Two column schemas meet here. :class:`Ops` is what the workload asks (one entry per operator);
:class:`Rows` is what a device answers (one or more task rows per operator, with counts by action).
Both are plain int64 columns, so a device's kernels can read and fill them directly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from archsim.device.cost import GRADES, STATES, Cost, PowerStates
from archsim.device.operators import BLOCK, LAYER_OPS, DType, OpKind, Ops, dtype_bytes, make_ops

__all__ = [
    "BLOCK",
    "GRADES",
    "LAYER_OPS",
    "MAX_POOLS",
    "MAX_STORES",
    "NO_CAP",
    "STATES",
    "STREAMS",
    "Binding",
    "Clock",
    "Cost",
    "DType",
    "Device",
    "OpKind",
    "Ops",
    "Pool",
    "PowerStates",
    "Rows",
    "Store",
    "Unit",
    "dtype_bytes",
    "make_ops",
]

MAX_POOLS = 4
MAX_STORES = 2
NO_CAP = 1 << 62


@dataclass(frozen=True)
class Unit:
    """A serial resource: runs one row at a time. `quantum` says what one row is on the real part."""

    name: str
    quantum: str = ""


@dataclass(frozen=True)
class Pool:
    """A shared rate.

    `capacity` is in `unit` per second (bytes/s for bandwidth, plain count for cores or contexts).
    `mix` lists capacities that hold only for a set of stream classes running together:
    ``{frozenset({"npu_seq_read", "flash_write"}): 5.9e10}``; every other set has `capacity`.
    """

    name: str
    capacity: float
    unit: str
    mix: Mapping[frozenset[str], float] = field(default_factory=dict)


@dataclass(frozen=True)
class Store:
    """A level between 0 and `capacity`, counted in `unit` (bytes, slots)."""

    name: str
    capacity: int
    unit: str


@dataclass(frozen=True)
class Clock:
    """A clock domain: what runs slower with it, and the supply it needs.

    Attributes
    ----------
    name : str
        ``<device>.<clock>``.
    hz : float
        Clock at fraction 1.
    targets : tuple of str
        Units and pools whose rate follows the clock; leads (latencies of other domains) do not.
    corners : tuple of (fraction, volt)
        Operating points, ascending; the last one is fraction 1. Energy per action follows the square of the voltage.
    source : str
        Where the corners come from.
    """

    name: str
    hz: float
    targets: tuple[str, ...]
    corners: tuple[tuple[float, float], ...]
    source: str

    def __post_init__(self) -> None:
        fractions = [fraction for fraction, _ in self.corners]
        volts = [volt for _, volt in self.corners]
        if not fractions or fractions != sorted(set(fractions)) or fractions[-1] != 1 or fractions[0] <= 0:
            raise ValueError(f"corners of clock {self.name!r} must ascend to fraction 1, not {fractions}")
        if volts != sorted(volts) or volts[0] <= 0:
            raise ValueError(f"voltages of clock {self.name!r} must be positive and not fall with the clock: {volts}")


#: Stream classes that rows declare towards DRAM-like pools; a pool's mix table is keyed by sets of them.
STREAMS: tuple[str, ...] = (
    "none",
    "cpu_seq_read",
    "npu_seq_read",
    "flash_write",
    "random_read",
    "copy",
    "pim",
    "other",
)


class Rows(NamedTuple):
    """Task rows of lowered operators: int64 columns of equal length, in chain order per operator.

    Rows of one operator run one after the other in the order given. Unit, pool and store ids are the
    system's (a device resolves them by name through its binding). ``work`` is in 2**-28 byte,
    ``cap`` in 2**-28 byte per picosecond, ``coef`` in 2**-20 pool units per work unit.
    ``counts[i, a]`` is how often row i performs ``actions[a]`` (names of the device's energy table).
    """

    op: np.ndarray  # index into the lowered Ops
    unit: np.ndarray
    weight: np.ndarray  # share weight: bytes in flight
    lead: np.ndarray  # ps before data flows; a latency, not scaled by set_rate
    work: np.ndarray
    cap: np.ndarray
    pool: np.ndarray  # [n, MAX_POOLS], -1 = none
    coef: np.ndarray  # [n, MAX_POOLS]
    claim: np.ndarray  # pool held exclusively, -1 = none
    stream: np.ndarray  # index into STREAMS
    counts: np.ndarray  # [n, len(actions)]
    actions: tuple[str, ...]


@dataclass(frozen=True)
class Binding:
    """Names to system ids, given to each device when the system is built."""

    units: Mapping[str, int]
    pools: Mapping[str, int]
    stores: Mapping[str, int]

    def unit(self, name: str) -> int:
        """Id of unit `name`; an unknown name raises with the known ones."""
        return self._find(self.units, "unit", name)

    def pool(self, name: str) -> int:
        """Id of pool `name`; an unknown name raises with the known ones."""
        return self._find(self.pools, "pool", name)

    def store(self, name: str) -> int:
        """Id of store `name`; an unknown name raises with the known ones."""
        return self._find(self.stores, "store", name)

    @staticmethod
    def _find(table: Mapping[str, int], what: str, name: str) -> int:
        if name not in table:
            raise KeyError(f"no {what} {name!r} in this system; it has: {', '.join(table) or 'none'}")
        return table[name]


class Device:
    """A part of a machine. Subclasses set `Spec` and `ops`, and register with ``@device(name)``.

    `name` is the device's name in its system (``flash``, ``npu``, ...); units, pools and stores are named
    ``<name>.<what>``. Construction needs only the spec; :meth:`bind` gives the system's ids before
    :meth:`lower` is called. :meth:`lower` is pure: equal operators give equal rows.
    """

    Spec: ClassVar[Any]
    ops: ClassVar[frozenset[OpKind]] = frozenset()
    kind: ClassVar[str] = ""
    #: Whether weights are used where the device holds them (in memory, in SRAM for good), without crossing a pool.
    keeps_weights: ClassVar[bool] = False

    def __init__(self, name: str, spec: Any) -> None:
        self.name = name
        self.spec = spec
        self.binding: Binding | None = None

    @property
    def window_bytes(self) -> int:
        """Bytes that can be mapped into the device's address window at a time (devices that lower MAP)."""
        raise TypeError(f"device {self.name!r} ({type(self).__name__}) has no address window")

    def second_copies(self, weights: Mapping[str, int]) -> Mapping[str, int]:
        """Bytes of DRAM by role that this device needs beside the weights themselves; none for most.

        Parameters
        ----------
        weights : Mapping[str, int]
            Bytes of the weights in DRAM, by role.
        """
        return {}

    def peak_ops_per_s(self) -> float:
        """Largest rate of multiply and add operations, for roofline and null models; 0 where none are done."""
        return 0.0

    def bandwidth_bytes_per_s(self) -> float:
        """Rate at which a memory or storage device serves sequential reads; 0 for others."""
        return 0.0

    def bind(self, binding: Binding) -> None:
        """Receive the system's ids (called once, when the system is complete)."""
        self.binding = binding

    def units(self) -> list[Unit]:
        """Serial resources of this device."""
        return []

    def pools(self) -> list[Pool]:
        """Shared rates of this device."""
        return []

    def stores(self) -> list[Store]:
        """Levels of this device."""
        return []

    def lower(self, ops: Ops) -> Rows:
        """Lower operators to task rows.

        Parameters
        ----------
        ops : Ops
            Columns of length n; every ``kind`` is in ``self.ops``.

        Returns
        -------
        Rows
            At least one row per operator, grouped by operator in order.

        Raises
        ------
        ValueError
            For a shape the device cannot run, naming the operator and the rule.
        """
        raise TypeError(f"device {self.name!r} ({type(self).__name__}) lowers no operators")

    def energy(self) -> dict[str, Cost]:
        """Energy by action, in pJ per count."""
        return {}

    def power(self) -> dict[str, Cost]:
        """Static power by block, in mW, drawn for as long as the run lasts."""
        return {}

    def power_states(self) -> dict[str, PowerStates]:
        """Blocks whose static power depends on whether they work."""
        return {}

    def clocks(self) -> tuple[Clock, ...]:
        """Clock domains that a governor may slow down."""
        return ()

    def area(self) -> dict[str, Cost]:
        """Area by block, in um2."""
        return {}
