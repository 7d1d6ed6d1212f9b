"""UFS flash as one command queue and one link.

Modelled: a sequential load starts cold, with a mapping page and a first page; its data flow at the device's streaming
rate (never above the link), and each further request costs ``t_cmd`` in which the link idles. At the second request
the device begins to read ahead, which shows one page latency more; after that page latencies are hidden. These times
are those of the event-level model of the same part (``archsim trace flash``), to which a test holds the row of a load.
A random read costs the issuing core ``t_issue`` per request and the device the random rate; up to ``queue_depth``
requests hide the page latency, and beyond the span that the translation cache covers each request pays for a miss. A
hot device runs at a fraction of its rates (the field ``state``, or ``set_rate`` on the queue while it runs). Not
modelled here: channels, dies and planes, write and garbage collection, and that a load may go on where the one before
ended, with pages already read ahead.

``LOAD`` columns: ``weight_bytes`` to read, ``n`` bytes per request (0: the part's default), ``k`` = span in bytes over
which requests are scattered (0: sequential).

Sources: UFS 4.0 of one phone, 450 MB/s at 4 KB to 4 GB/s at 512 KB sequential, 3.5 GB/s at 512 KB random, 4 KB
random 1076 / 1008 / 762 MB/s by issuing core over 128 MB and below 850 MB/s over 512 MB (PowerInfer-2,
arXiv 2406.06282); queue of 32 commands, 2.9 GB/s per lane (Ripple, arXiv 2410.19274).
"""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from numba import njit
from pydantic import BaseModel, ConfigDict, Field, model_validator

from archsim.device import STREAMS, Binding, Cost, Device, OpKind, Ops, Pool, PowerStates, Rows, Store, Unit
from archsim.lowering import (
    ITEMS,
    LEAD_PS,
    PAGE_BYTES,
    PLAN_COLUMNS,
    STREAM,
    TIME_PS,
    UNIT,
    WEIGHT,
    WRITE_BYTES,
    KernelRate,
    KernelTime,
    action_names,
    allowed_kinds,
    build_rows,
    bytes_to_ps,
    check_ops,
    count_traffic,
)
from archsim.registry import device
from archsim.units import Bytes, Hz, PositiveFactor, PositiveInt

MB = 1e6


class FlashSpec(BaseModel):
    """One UFS device and the way the host drives it.

    Attributes
    ----------
    capacity_bytes : int
        Size of the store.
    link_bytes_per_s : float
        Both lanes together, one direction.
    stream_bytes_per_s : float
        Rate at which the data of a sequential command flow, command cost apart; at most the link.
    random_bytes_per_s : float
        The same for scattered requests.
    queue_depth : int
        Requests in flight (UFS: 32).
    command_ps : int
        Time per sequential command but the first in which the link idles: request, response and the host's path.
    start_ps : int
        From the issue of the first sequential request to the data of its first page in the device.
    ahead_ps : int
        What reading ahead costs when it starts, at the second request.
    page_transfer_ps : int
        Time of a page on the NAND interface: the data of the first page are not hidden behind others.
    issue_prime_ps, issue_performance_ps, issue_efficiency_ps : int
        Time the issuing core needs per asynchronous request, by class of core.
    issue_core : str
        Class of the core that issues.
    prime_hz, performance_hz, efficiency_hz : float
        Clock of the issuing core, which makes cycles (and the CPU's energy) of its time.
    page_latency_ps : int
        Sensing one page (tR), paid once at the start of a random load and hidden by the queue after that.
    state : str
        ``cool``, or ``hot``: throttled.
    hot_fraction : float
        Rates in the hot state.
    translation_span_bytes : int
        Span within which random requests need no fetch of the translation table.
    translation_miss_ps : int
        Extra time per random request beyond that span.
    page_bytes : int
        Bytes sensed at a time on one plane.
    request_bytes : int
        Default request size of a load.
    inflight_bytes : int
        Bytes on their way to DRAM at a time: the weight of a load in DRAM's shares.
    memory, cpu : str
        Names of the DRAM and the CPU device in the system.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    capacity_bytes: Annotated[Bytes, Field(le=1 << 44)]
    link_bytes_per_s: KernelRate
    stream_bytes_per_s: KernelRate
    random_bytes_per_s: KernelRate
    queue_depth: Annotated[PositiveInt, Field(le=1 << 16)]
    command_ps: KernelTime
    issue_prime_ps: KernelTime
    issue_performance_ps: KernelTime
    issue_efficiency_ps: KernelTime
    issue_core: Literal["prime", "performance", "efficiency"]
    prime_hz: Hz
    performance_hz: Hz
    efficiency_hz: Hz
    start_ps: KernelTime
    ahead_ps: KernelTime
    page_transfer_ps: KernelTime
    state: Literal["cool", "hot"]
    hot_fraction: Annotated[PositiveFactor, Field(le=1)]
    page_latency_ps: KernelTime
    translation_span_bytes: Bytes
    translation_miss_ps: KernelTime
    page_bytes: Annotated[Bytes, Field(ge=512)]
    request_bytes: Annotated[Bytes, Field(ge=512)]
    inflight_bytes: Annotated[Bytes, Field(ge=1)]
    memory: str = "dram"
    cpu: str = "cpu"

    @model_validator(mode="after")
    def _below_link(self) -> FlashSpec:
        for name in ("stream_bytes_per_s", "random_bytes_per_s"):
            if getattr(self, name) > self.link_bytes_per_s:
                raise ValueError(
                    f"{name} {getattr(self, name):.4g} is above link_bytes_per_s {self.link_bytes_per_s:.4g}"
                )
        return self

    @property
    def issue_ps(self) -> int:
        """Time per request of the core that issues."""
        return getattr(self, f"issue_{self.issue_core}_ps")

    @property
    def issue_cycles(self) -> int:
        """Cycles per request of the core that issues."""
        return round(self.issue_ps * getattr(self, f"{self.issue_core}_hz") / 1e12)

    @property
    def rate_fraction(self) -> float:
        """Share of the rates that the device's state leaves."""
        return self.hot_fraction if self.state == "hot" else 1.0


@njit(cache=True)
def load_times(size, request, span, spec):
    """Times of one load.

    Parameters
    ----------
    size, request, span : int
        Bytes to read, per request, and scattered over (0: sequential).
    spec : int64[12]
        Stream and random rate (1e6 bytes/s), command, issue, page latency, translation miss (ps), span covered
        (bytes), queue depth, start, start of reading ahead, page on the NAND interface (ps), bytes of a page.

    Returns
    -------
    tuple of int
        Flow in ps (rounded up), lead in ps, time of the issuing core in ps, requests.
    """
    requests = -(-size // request)
    if span == 0:
        flow = bytes_to_ps(size, spec[0]) + (requests - 1) * spec[2] + (spec[9] if requests > 1 else 0)
        first = -(-spec[10] * min(size, request, spec[11]) // spec[11])
        return flow, spec[3] + spec[8] + first, requests * spec[3], requests
    per_command = spec[3] + (spec[5] if span > spec[6] else 0)
    serial = bytes_to_ps(size, spec[1]) + requests * per_command
    # Little's law: with few requests in flight the page latency shows.
    waiting = -(-requests * (spec[4] + per_command + bytes_to_ps(request, spec[1])) // spec[7])
    return max(serial, waiting), spec[3] + spec[4], requests * spec[3], requests


@njit(cache=True)
def plan_loads(weight_bytes, n, k, spec, default_request, cycles, unit, weight, stream):
    """Plan and counts of LOAD operators; counts are pages, bits read, active ns, DRAM's actions, the core's cycles."""
    size = weight_bytes.size
    plan = np.zeros((size, PLAN_COLUMNS), np.int64)
    counts = np.zeros((size, 8), np.int64)
    page_bytes = spec[11]
    for i in range(size):
        request = n[i] if n[i] > 0 else default_request
        flow, lead, issue, requests = load_times(weight_bytes[i], request, k[i], spec)
        plan[i, UNIT], plan[i, WEIGHT], plan[i, LEAD_PS], plan[i, TIME_PS] = unit, weight, lead, flow
        plan[i, WRITE_BYTES], plan[i, STREAM] = weight_bytes[i], stream
        plan[i, ITEMS] = (issue << 10) // (flow >> 10) if flow >= 1024 else 0
        pages_per_request = -(-request // page_bytes)
        counts[i, 0] = -(-weight_bytes[i] // page_bytes) if k[i] == 0 else requests * pages_per_request
        counts[i, 1] = 8 * weight_bytes[i]
        counts[i, 2] = -(-(lead + flow) // 1000)
        count_traffic(counts, i, 3, 0, weight_bytes[i], PAGE_BYTES)
        counts[i, 7] = requests * cycles
    return plan, counts


@device("flash")
class Flash(Device):
    """Unit ``<name>.queue``, pool ``<name>.link``, store ``<name>.capacity``; lowers LOAD."""

    Spec = FlashSpec
    ops = frozenset({OpKind.LOAD})

    def units(self) -> list[Unit]:
        """Return the one command queue; UFS has a single one, so loads run one after the other."""
        return [Unit(f"{self.name}.queue", "one load of the host's reader")]

    def pools(self) -> list[Pool]:
        """Link."""
        return [Pool(f"{self.name}.link", self.spec.link_bytes_per_s * self.spec.rate_fraction, "bytes/s")]

    def stores(self) -> list[Store]:
        """Bytes of flash."""
        return [Store(f"{self.name}.capacity", self.spec.capacity_bytes, "bytes")]

    def bind(self, binding: Binding) -> None:
        """Resolve ids and turn the spec into integers."""
        super().bind(binding)
        spec = self.spec
        self._allowed = allowed_kinds(self.ops)
        self._unit = binding.unit(f"{self.name}.queue")
        self._pools = (
            binding.pool(f"{spec.memory}.bandwidth"),
            binding.pool(f"{self.name}.link"),
            binding.pool(f"{spec.cpu}.cores"),
        )
        self._actions = action_names(self.name, ENERGY, spec.memory)
        self._actions += (f"{spec.cpu}.{spec.issue_core}_cycle",)
        slow = spec.rate_fraction
        rates = (round(spec.stream_bytes_per_s * slow / MB), round(spec.random_bytes_per_s * slow / MB))
        times = (round(spec.command_ps / slow), spec.issue_ps, spec.page_latency_ps, spec.translation_miss_ps)
        start = (spec.start_ps, spec.ahead_ps, round(spec.page_transfer_ps / slow), spec.page_bytes)
        self._numbers = np.array([*rates, *times, spec.translation_span_bytes, spec.queue_depth, *start], np.int64)

    def lower(self, ops: Ops) -> Rows:
        """One row per load (times ``parts``); the first carries the time to the first data as lead."""
        check_ops(ops, self._allowed, self.name)
        spec = self.spec
        plan, counts = plan_loads(
            ops.weight_bytes,
            ops.n,
            ops.k,
            self._numbers,
            spec.request_bytes,
            spec.issue_cycles,
            self._unit,
            spec.inflight_bytes,
            STREAMS.index("flash_write"),
        )
        return build_rows(ops, plan, counts, self._actions, self._pools)

    def read_bytes_per_s(self, request_bytes: int, span_bytes: int = 0) -> float:
        """Long-run rate in bytes/s of requests of that size, sequential or scattered over a span."""
        size = 4096 * request_bytes
        flow_ps = load_times(size, request_bytes, span_bytes, self._numbers)[0]
        return size / flow_ps * 1e12

    def bandwidth_bytes_per_s(self) -> float:
        """Sequential reads in requests of the default size."""
        return self.read_bytes_per_s(self.spec.request_bytes)

    def energy(self) -> dict[str, Cost]:
        """Per page sensed, per bit on the link and per ns of the busy controller."""
        return {**ENERGY, "page_read": ENERGY["page_read"].times(self.spec.page_bytes / 16384)}

    def power_states(self) -> dict[str, PowerStates]:
        """Link and controller awake while the queue works, then active-idle, then hibernating."""
        return {"device": PowerStates((f"{self.name}.queue",), STATES, AFTER_PS)}

    def area(self) -> dict[str, Cost]:
        """Host controller and M-PHY on the SoC; the package is a part of its own and not counted."""
        return dict(AREA)


ENERGY: dict[str, Cost] = {
    "page_read": Cost(
        5.0e6,
        "pJ",
        "assumed: 16 KiB page, 25 mA at 2.5 V over tR of 50 us (3.1 uJ) plus the NAND interface at 15 pJ/bit; with "
        "link and controller 1.7 W at 4.2 GB/s",
        (2.0e6, 1.2e7),
        None,
        2.5,
        "one page of one plane and its way over the NAND interface",
    ),
    "read_bits": Cost(5.0, "pJ", "assumed: M-PHY gear 5, both ends, per bit read over the link", (2.0, 10.0)),
    "active_ns": Cost(300.0, "pJ", "assumed: controller and its SRAM, 0.3 W while busy", (150.0, 600.0)),
}
STATES: dict[str, Cost] = {
    "active": Cost(
        30.0,
        "mW",
        "assumed: clock recovery and reference of two lanes of M-PHY, both ends",
        (10.0, 100.0),
        None,
        None,
        "work of the busy controller is counted apart (active_ns)",
    ),
    "idle": Cost(5.0, "mW", "assumed: active-idle, between sleep and busy", (1.0, 30.0)),
    "retention": Cost(1.0, "mW", "assumed: auto-hibernate, UFS sleep currents of a few hundred uA", (0.2, 3.0)),
}
#: assumed: auto-hibernate timer of Linux hosts, 150 ms by default.
AFTER_PS = {"retention": 150_000_000_000}
AREA: dict[str, Cost] = {
    "host_controller": Cost(4.0e5, "um2", "assumed: UFS host controller on the SoC, 4 nm", (2.0e5, 1.0e6)),
    "mphy": Cost(6.0e5, "um2", "assumed: two lanes of M-PHY gear 5, 4 nm", (3.0e5, 1.2e6)),
}
