"""Attention algorithm unit: a narrow vector unit on each PIM die, for what is no product with stored weights.

Modelled: cycles of norms, activations, rotations, softmax and score accumulation by the published pipeline (a fixed
latency and a number of passes over vectors of `lanes` elements), energy per element, static power, area. Vectors are
spread over the units of all dies; a norm's sums and the parts of a split softmax are joined by one more reduction.
Not modelled: precision, and a queue in front of the unit (a task's operators run one after the other).

Source: AHASD's artifact (MAdrid1011/AHASD, af6ab66, AAU.h): 16 elements, latency 8, passes 2 / 3 / 3 / 4 for GELU,
softmax, LayerNorm and attention score, 8 + log2 n + 1 for a reduction; its energies are commented pJ and summed as nJ,
and only pJ agrees with its own 13.5 mW at 800 MHz.
"""

from __future__ import annotations

from typing import NamedTuple

from archsim.device import Cost, OpKind

_SOURCE = "AHASD artifact (MAdrid1011/AHASD af6ab66, AAU.h), per element, pJ"

#: Passes over the elements. ROPE: assumed, two multiplies and an add per element, as many passes as GELU.
PASSES: dict[OpKind, int] = {OpKind.ELEMENTWISE: 2, OpKind.NORM: 3, OpKind.ROPE: 2}
SOFTMAX_PASSES, SCORE_PASSES = 3, 4

ACTIONS = ("aau_activation", "aau_norm", "aau_softmax", "aau_score", "aau_reduce")
ACTIVATION, NORM, SOFTMAX, SCORE, REDUCE = range(5)

ENERGY: dict[str, Cost] = {
    "aau_activation": Cost(0.8, "pJ", _SOURCE, (0.4, 1.6)),
    "aau_norm": Cost(1.0, "pJ", _SOURCE, (0.5, 2.0)),
    "aau_softmax": Cost(1.2, "pJ", _SOURCE, (0.6, 2.4)),
    "aau_score": Cost(1.5, "pJ", _SOURCE, (0.75, 3.0)),
    "aau_reduce": Cost(0.3, "pJ", _SOURCE, (0.15, 0.6)),
}
POWER_PER_UNIT = Cost(5.0, "mW", "AHASD artifact (af6ab66, AAU.h): static of 18.5 mW at 800 MHz, 28 nm", (2.0, 8.0))
AREA_PER_UNIT = Cost(
    0.45e6,
    "um2",
    "AHASD artifact (af6ab66, scripts/validate_hardware_costs.py): 0.45 mm2 at 28 nm, constants without a synthesis "
    "report; the paper's later text says 1.25 mm2 (arXiv 2604.25326)",
    (0.45e6, 1.25e6),
)


class Aau(NamedTuple):
    """Units of a device: how many share a vector, elements a cycle, pipeline latency, clock in kHz."""

    units: int
    lanes: int
    latency_cycles: int
    khz: int

    def passes_cycles(self, elements: int, passes: int) -> int:
        """Cycles of one vector of which each unit holds its share."""
        return self.latency_cycles + passes * -(-elements // (self.lanes * self.units))

    def reduce_cycles(self, parts: int) -> int:
        """Cycles of one reduction of `parts` partial values; none for a single one."""
        return self.latency_cycles + (parts - 1).bit_length() + 1 if parts > 1 else 0

    def rows(self, kind: OpKind, m: int, k: int) -> tuple[int, tuple[int, ...]]:
        """Cycles and counts by :data:`ACTIONS` of `m` rows of `k` elements."""
        counts = [0] * len(ACTIONS)
        cycles = m * self.passes_cycles(k, PASSES[kind])
        if kind == OpKind.NORM:
            cycles += m * self.reduce_cycles(self.units)
            counts[NORM], counts[REDUCE] = m * k, m * (self.units if self.units > 1 else 0)
        else:
            counts[ACTIVATION] = m * k
        return cycles, tuple(counts)

    def softmax(self, vectors: int, length: int, shared: int, total: int) -> tuple[int, tuple[int, ...]]:
        """Score accumulation and softmax of the vectors that one unit holds.

        Parameters
        ----------
        vectors, length : int
            Vectors of this unit, one after the other, and the part of each that it holds.
        shared : int
            Units that hold parts of one vector.
        total : int
            Scores of all units, for the counts.
        """
        one = self.latency_cycles + SCORE_PASSES * -(-length // self.lanes)
        one += self.latency_cycles + SOFTMAX_PASSES * -(-length // self.lanes) + self.reduce_cycles(shared)
        counts = [0] * len(ACTIONS)
        counts[SOFTMAX] = counts[SCORE] = total
        counts[REDUCE] = vectors * self.units if shared > 1 else 0
        return vectors * one, tuple(counts)
