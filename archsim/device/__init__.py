"""What a device is: the units, pools and stores it contributes and how it lowers operators to rows.

Two column schemas meet here. :class:`Ops` is what the workload asks (one entry per operator);
:class:`Rows` is what a device answers (one or more task rows per operator, with counts by action).
Both are plain int64 columns, so a device's kernels can read and fill them directly.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

MAX_POOLS = 4
MAX_STORES = 2
NO_CAP = 1 << 62


class OpKind(enum.IntEnum):
    """Operator kinds a device may declare in ``Device.ops``."""

    MATMUL = 0  # [m,k] x [k,n], weights are a model parameter
    ATTENTION = 1  # m query rows against kv cached rows plus the m rows themselves
    NORM = 2  # RMSNorm over m rows of k elements
    ROPE = 3  # rotary embedding on m rows of k elements
    ELEMENTWISE = 4  # activation (SwiGLU, ...) or residual add on m rows of k elements
    EMBED = 5  # gather m rows of k elements from the embedding table
    PROJECTION = 6  # output projection (lm_head): a matmul that schedules place on its own
    LOAD = 7  # read weight_bytes from flash into a DRAM buffer, in requests of n bytes
    COPY = 8  # move in_bytes within DRAM (KV compaction, merge, layout)
    SAMPLE = 9  # arg-max or top-k over m rows of k logits; n = 1 where another device wrote them
    CONTROL = 10  # n instructions of control logic
    KV_WRITE = 11  # append m rows of kv_bytes / m each to the KV store
    MAP = 12  # map in_bytes of buffers into an address window, in n calls
    BURST = 13  # one period of a background stream


#: What a model's layers and projection consist of, embedding and sampling apart: what an accelerator runs.
LAYER_OPS = frozenset(
    {
        *(OpKind.MATMUL, OpKind.PROJECTION, OpKind.ATTENTION),
        *(OpKind.NORM, OpKind.ROPE, OpKind.ELEMENTWISE, OpKind.KV_WRITE),
    }
)


class DType(enum.IntEnum):
    """Storage types; ``BLOCK[dtype] = (bytes, elements)`` of one quantisation block.

    Source of the block sizes: the ggml block structs (block_q4_0 18 B / 32, block_q4_1 20 B / 32,
    block_q6_K 210 B / 256, block_q8_0 34 B / 32, block_tq2_0 66 B / 256).
    """

    FP32 = 0
    FP16 = 1
    BF16 = 2
    INT8 = 3
    INT4 = 4
    Q4_0 = 5
    Q4_1 = 6
    Q6_K = 7
    Q8_0 = 8
    TQ2_0 = 9


BLOCK: Mapping[DType, tuple[int, int]] = {
    DType.FP32: (4, 1),
    DType.FP16: (2, 1),
    DType.BF16: (2, 1),
    DType.INT8: (1, 1),
    DType.INT4: (1, 2),
    DType.Q4_0: (18, 32),
    DType.Q4_1: (20, 32),
    DType.Q6_K: (210, 256),
    DType.Q8_0: (34, 32),
    DType.TQ2_0: (66, 256),
}


def dtype_bytes(dtype: DType | int, elements: int) -> int:
    """Bytes that `elements` values occupy in `dtype`, whole blocks only, rounded up."""
    size, count = BLOCK[DType(dtype)]
    return -(-int(elements) // count) * size


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


class Ops(NamedTuple):
    """Operators to lower: int64 columns of equal length n (one operator per entry).

    Sizes are elements unless the name says bytes. ``kv`` is the number of cached KV rows *before* the
    operator; an attention operator reads ``kv`` cached rows and its own ``m``.
    """

    kind: np.ndarray  # OpKind
    m: np.ndarray  # rows (tokens)
    k: np.ndarray  # inner dimension; row width of vector operators
    n: np.ndarray  # outer dimension; request bytes of LOAD; instructions of CONTROL
    kv: np.ndarray  # cached rows (attention)
    heads: np.ndarray  # query heads
    kv_heads: np.ndarray
    head_dim: np.ndarray
    wdtype: np.ndarray  # DType of the weights
    adtype: np.ndarray  # DType of the activations
    kvdtype: np.ndarray  # DType of the KV cache
    weight_bytes: np.ndarray  # bytes of weights touched once
    in_bytes: np.ndarray  # activation bytes read
    out_bytes: np.ndarray  # activation bytes written
    kv_bytes: np.ndarray  # KV bytes read (attention) or written (KV_WRITE)
    macs: np.ndarray  # exact multiply-accumulates, without padding
    parts: np.ndarray  # rows to split the operator into (1 = whole)


def make_ops(entries: Sequence[Mapping[str, int]]) -> Ops:
    """Build :class:`Ops` from dictionaries; a missing key is 0 (``parts``: 1), an unknown one raises."""
    known = set(Ops._fields)
    for entry in entries:
        unknown = set(entry) - known
        if unknown:
            raise KeyError(f"unknown operator column {sorted(unknown)[0]!r}; known: {', '.join(Ops._fields)}")
    columns = [
        np.array([int(entry.get(name, 1 if name == "parts" else 0)) for entry in entries], dtype=np.int64)
        for name in Ops._fields
    ]
    return Ops(*columns)


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
