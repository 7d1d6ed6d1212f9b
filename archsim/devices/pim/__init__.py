"""Processing in DRAM banks: matrix-vector products where the weights lie.

Modelled: a product of m rows runs on all channels of the device in step, with the cycles and command counts of the
command kernel (:mod:`archsim.devices.pim.commands`) for its layout (:mod:`archsim.devices.pim.gemv`); m rows share
passes over the weights as far as the device reuses them. While it runs, its rank serves nobody: the row claims the
DRAM pool (``host: exclusive``), or, when host data lie in other ranks, draws what these lose
(``host: other_ranks``, :mod:`archsim.devices.pim.host`). Not modelled: the sum of partial results on the host and the
second copy of the weights that a host layout needs.

One sequencer stands for those of all channels: the host sends every channel the same instructions. An operator is one
row, so its pre-emption quantum is the operator; ``parts`` splits it.

Sources: see the standards' files; energy in :mod:`archsim.devices.pim.power`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, model_validator

from archsim.device import BLOCK, STREAMS, Binding, Cost, Device, DType, OpKind, Ops, Rows, Unit
from archsim.devices.pim.gemv import best_plan, lower
from archsim.devices.pim.host import leftover
from archsim.devices.pim.isa import Cmd
from archsim.devices.pim.power import OFF_CHIP, area_table, price_table
from archsim.devices.pim.standard import PimStandard, load_pim
from archsim.lowering import (
    LEAD_PS,
    PLAN_COLUMNS,
    TIME_PS,
    TIME_RATE,
    UNIT,
    WEIGHT,
    KernelTime,
    allowed_kinds,
    build_rows,
    check_ops,
)
from archsim.registry import device
from archsim.units import COEF_ONE, WORK_ONE, PositiveInt

ACTIONS = ("activate", "access_bits", "mac_bits", "io_bits", "mode_switch", "refresh")


class PimSpec(BaseModel):
    """One PIM memory.

    Attributes
    ----------
    standard : str
        Name of a PIM standard (``lpddr5x_pim``, ...).
    host : str
        ``exclusive``: the host's data share the ranks that compute. ``other_ranks``: they lie in other ranks.
    ranks : int
        Ranks a channel; ``other_ranks`` needs two.
    fence : bool
        A memory fence after each vector load.
    crossing_ps : int
        Time from the host's call to the first command.
    memory : str
        Name of the DRAM device in the system.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    standard: str
    host: Literal["exclusive", "other_ranks"]
    ranks: PositiveInt
    fence: bool
    crossing_ps: KernelTime
    memory: str = "dram"

    @model_validator(mode="after")
    def _fits(self) -> PimSpec:
        load_pim(self.standard)
        if self.host == "other_ranks" and self.ranks < 2:
            raise ValueError(f"host: other_ranks needs 2 ranks or more; ranks is {self.ranks}")
        return self


class Product(NamedTuple):
    """One lowered product: time, counts by :data:`ACTIONS`, bytes/s that other ranks lose."""

    time_ps: int
    counts: tuple[int, ...]
    lost_bytes_per_s: float


def data_type(standard: PimStandard, wdtype: int, adtype: int) -> str:
    """The device's data type for weights and activations: equal weight bits, activations at least as wide.

    Scales of block formats are left out of the width; they are applied by the host to the sums.

    Raises
    ------
    ValueError
        The device has none.
    """
    weight_bits, activation_bits = (_bits(DType(int(d))) for d in (wdtype, adtype))
    fitting = [(a, n) for n, (w, a) in standard.compute.dtypes.items() if w == weight_bits and a >= activation_bits]
    if not fitting:
        raise ValueError(
            f"{standard.name} multiplies no {DType(int(wdtype)).name} weights by {DType(int(adtype)).name} "
            f"activations; it has {', '.join(standard.compute.dtypes)}"
        )
    return min(fitting)[1]


def _bits(dtype: DType) -> int:
    """Bits of one value, scales of its block left out."""
    stored, elements = BLOCK[dtype]
    return {DType.Q4_0: 4, DType.Q4_1: 4, DType.Q8_0: 8}.get(dtype, 8 * stored // elements)


@lru_cache(maxsize=4096)
def product(name: str, m: int, k: int, n: int, dtype: str, fence: bool, ranks: int) -> Product:
    """Time and counts of ``[m, k] x [k, n]``; `ranks` above 1 also asks what the other ranks lose."""
    standard = load_pim(name)
    plan, run = best_plan(standard, n, k, dtype=dtype, tokens=m, fence=fence)
    number = dict(zip(Cmd, run.counts.sum(axis=0).tolist(), strict=True))
    bits, banks = 8 * standard.organisation["access_bytes"], standard.banks
    read = bits * banks // standard.compute.banks_per_block * number[Cmd.MAC16]
    lost = 0.0
    if ranks > 1:
        kept = leftover(standard, lower(standard, plan, fence=fence), ranks=ranks).other_ranks
        lost = (1 - kept) * standard.channel_bytes_per_s * standard.organisation["channels"]
    counts = (
        banks * number[Cmd.ACT16],
        read,
        read * standard.compute.dtypes[dtype][1],
        bits * sum(number[c] for c in OFF_CHIP),
        number[Cmd.TMOD],
        number[Cmd.REFAB],
    )
    return Product(int(-(-run.cycles * standard.tck_ps // 1)), counts, lost)


@device("pim")
class Pim(Device):
    """Unit ``<name>.sequencer``; lowers MATMUL and PROJECTION."""

    Spec = PimSpec
    ops = frozenset({OpKind.MATMUL, OpKind.PROJECTION})
    kind = "pim"

    def __init__(self, name: str, spec: PimSpec) -> None:
        super().__init__(name, spec)
        self.standard = load_pim(spec.standard)

    def units(self) -> list[Unit]:
        """Return the one sequencer that drives all channels in step."""
        return [Unit(f"{self.name}.sequencer", "one operator")]

    def bind(self, binding: Binding) -> None:
        """Resolve ids."""
        super().bind(binding)
        self._allowed = allowed_kinds(self.ops)
        self._unit = binding.unit(f"{self.name}.sequencer")
        self._memory = binding.pool(f"{self.spec.memory}.bandwidth")
        self._actions = tuple(f"{self.name}.{action}" for action in ACTIONS)

    def lower(self, ops: Ops) -> Rows:
        """One row an operator (times ``parts``) that lasts what the command kernel counts."""
        check_ops(ops, self._allowed, self.name)
        spec, size = self.spec, ops.m.size
        ranks = spec.ranks if spec.host == "other_ranks" else 1
        plan, counts = np.zeros((size, PLAN_COLUMNS), np.int64), np.zeros((size, len(ACTIONS)), np.int64)
        draws = np.zeros(size, np.int64)
        plan[:, UNIT], plan[:, WEIGHT], plan[:, LEAD_PS] = self._unit, 1, spec.crossing_ps
        for i in range(size):
            dtype = data_type(self.standard, ops.wdtype[i], ops.adtype[i])
            done = product(spec.standard, int(ops.m[i]), int(ops.k[i]), int(ops.n[i]), dtype, spec.fence, ranks)
            plan[i, TIME_PS], counts[i] = done.time_ps, done.counts
            draws[i] = round(done.lost_bytes_per_s * WORK_ONE / 1e12) * COEF_ONE // TIME_RATE
        rows = build_rows(ops, plan, counts, self._actions, (-1, -1, -1))
        rows = rows._replace(stream=np.full(rows.op.size, STREAMS.index("pim"), np.int64))
        if spec.host == "exclusive":
            return rows._replace(claim=np.full(rows.op.size, self._memory, np.int64))
        rows.pool[:, 0], rows.coef[:, 0] = self._memory, draws[rows.op]
        return rows

    def peak_ops_per_s(self) -> float:
        """Two operations a weight at the internal bandwidth, narrowest weights."""
        narrow = min(bits for bits, _ in self.standard.compute.dtypes.values())
        return 2 * self.bandwidth_bytes_per_s() * 8 / narrow

    def bandwidth_bytes_per_s(self) -> float:
        """Rate at which the MAC blocks of all channels take weights from open rows."""
        return self.standard.internal_bytes_per_s * self.standard.organisation["channels"]

    def energy(self) -> dict[str, Cost]:
        """Per command and bit; rows and refreshes at the plain die's prices."""
        return price_table(self.standard)

    def area(self) -> dict[str, Cost]:
        """Area of what is added to the DRAM dies."""
        return area_table(self.standard)
