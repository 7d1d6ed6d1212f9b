"""Control hardware of asynchronous drafting: cycles, bits, energy and area of two predictors and three queues.

Modelled: a unit that takes a few cycles a decision or update and touches table bits; the queues as stores of slots; the
behaviour of the predictors as plain state machines (:mod:`.edc`, :mod:`.tvc`), which a schedule takes from here
(:meth:`Control.new_edc`, ...), asks, and pays for with a CONTROL row (:meth:`Control.cost`).
CONTROL operators are n cycles that touch k table bits. Not modelled: polling, and the wires to CPU, NPU and PIM.

Area is bits times an SRAM cell with its periphery plus gates; no synthesis report of the published 0.05, 0.03 and
0.01 mm2 (28 nm) exists.

Sources: arXiv 2604.25326 (tables, queue roles) and its artifact (MAdrid1011/AHASD af6ab66: depths, cycles, widths).
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from archsim.device import Binding, Cost, Device, OpKind, Ops, Rows, Store, Unit, make_ops
from archsim.devices.control.edc import Edc
from archsim.devices.control.tvc import Tvc
from archsim.lowering import (
    PLAN_COLUMNS,
    TIME_PS,
    UNIT,
    WEIGHT,
    KernelClock,
    allowed_kinds,
    build_rows,
    check_ops,
    cycles_to_ps,
)
from archsim.registry import device
from archsim.units import Cycles, PositiveInt, Um2

ACTIONS = ("logic_cycle", "table_bits")
QUEUES = ("unverified", "feedback", "preverify")
Small = Annotated[int, Field(strict=True, ge=1, le=8)]


class ControlSpec(BaseModel):
    """One control block.

    Attributes
    ----------
    clock_hz : float
        Clock of tables and queues.
    hmax_milli : int
        Entropy of the last interval's end, thousandths of a nat.
    history, bucket_bits, lead_bits, counter_bits : int
        Entries of the entropy histories (even); widths of a bucket, of the leading length, of a counter.
    window, most : int
        Entries of a time table; most tokens of a pre-verification.
    edc_cycles, edc_update_cycles, tvc_cycles, tvc_update_cycles, queue_cycles : int
        Cycles of a prediction, of an update, of a queue operation.
    unverified_depth, feedback_depth, preverify_depth : int
        Entries of the queues.
    unverified_bits, feedback_bits, preverify_bits : int
        Bits of one entry.
    gates : int
        Logic in two-input gates.
    bit_um2, gate_um2 : float
        Area of a table bit with its periphery, and of a gate.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    clock_hz: KernelClock
    hmax_milli: PositiveInt
    history: Annotated[int, Field(strict=True, ge=2, le=64, multiple_of=2)]
    bucket_bits: Small
    lead_bits: Small
    counter_bits: Small
    window: Annotated[int, Field(strict=True, ge=1, le=64)]
    most: PositiveInt
    edc_cycles: Annotated[Cycles, Field(ge=1)]
    edc_update_cycles: Annotated[Cycles, Field(ge=1)]
    tvc_cycles: Annotated[Cycles, Field(ge=1)]
    tvc_update_cycles: Annotated[Cycles, Field(ge=1)]
    queue_cycles: Annotated[Cycles, Field(ge=1)]
    unverified_depth: Annotated[PositiveInt, Field(le=1 << 16)]
    feedback_depth: Annotated[PositiveInt, Field(le=1 << 16)]
    preverify_depth: Annotated[PositiveInt, Field(le=1 << 16)]
    unverified_bits: Annotated[PositiveInt, Field(le=1 << 16)]
    feedback_bits: Annotated[PositiveInt, Field(le=1 << 16)]
    preverify_bits: Annotated[PositiveInt, Field(le=1 << 16)]
    gates: PositiveInt
    bit_um2: Um2
    gate_um2: Um2

    def depth(self, queue: str) -> int:
        """Entries of a queue."""
        return getattr(self, f"{queue}_depth")

    def entry_bits(self, queue: str) -> int:
        """Bits of one entry of a queue."""
        return getattr(self, f"{queue}_bits")


@device("control")
class Control(Device):
    """Unit logic, stores unverified, feedback, preverify; lowers CONTROL."""

    Spec = ControlSpec
    ops = frozenset({OpKind.CONTROL})

    def units(self) -> list[Unit]:
        """Return the decision logic."""
        return [Unit(f"{self.name}.logic", "one decision, update or queue operation")]

    def stores(self) -> list[Store]:
        """The queues, in slots."""
        return [Store(f"{self.name}.{queue}", self.spec.depth(queue), "slots") for queue in QUEUES]

    def new_edc(self, train_flushed: bool = False) -> Edc:
        """Return a drafting control in its initial state."""
        s = self.spec
        return Edc(s.hmax_milli, s.history, s.bucket_bits, s.lead_bits, s.counter_bits, train_flushed)

    def new_tvc(self) -> Tvc:
        """Return a pre-verification control with empty tables (preset them)."""
        return Tvc(self.spec.window, self.spec.most)

    def cost(self, action: str, times: int = 1) -> Ops:
        """CONTROL operator of an action, to be lowered and emitted.

        Parameters
        ----------
        action : str
            ``edc_predict``, ``edc_update``, ``tvc_decide``, ``tvc_update``, or ``push``, ``pop`` with a queue's name
            (``push.unverified``).

        Raises
        ------
        ValueError
            Any other action.
        """
        spec, width = self.spec, 2 * self.spec.bucket_bits + self.spec.lead_bits
        history, entry = spec.history * spec.bucket_bits, 64 + 32
        table = {
            "edc_predict": (spec.edc_cycles, history + spec.lead_bits + spec.counter_bits + width),
            "edc_update": (spec.edc_update_cycles, 2 * history + spec.lead_bits + 2 * spec.counter_bits + width),
            "tvc_decide": (spec.tvc_cycles, 3 * spec.window * entry + 64),
            "tvc_update": (spec.tvc_update_cycles, entry),
        }
        for queue in QUEUES:
            table[f"push.{queue}"] = table[f"pop.{queue}"] = (spec.queue_cycles, spec.entry_bits(queue))
        if action not in table:
            raise ValueError(f"unknown control action {action!r}; known: {', '.join(table)}")
        cycles, bits = table[action]
        return make_ops([{"kind": OpKind.CONTROL, "m": 1, "n": times * cycles, "k": times * bits}])

    def bind(self, binding: Binding) -> None:
        """Resolve ids."""
        super().bind(binding)
        self._allowed = allowed_kinds(self.ops)
        self._unit = binding.unit(f"{self.name}.logic")
        self._actions = tuple(f"{self.name}.{action}" for action in ACTIONS)

    def lower(self, ops: Ops) -> Rows:
        """One row per operator (times ``parts``): n cycles."""
        check_ops(ops, self._allowed, self.name)
        plan = np.zeros((ops.n.size, PLAN_COLUMNS), np.int64)
        plan[:, UNIT], plan[:, WEIGHT] = self._unit, 1
        khz = round(self.spec.clock_hz / 1e3)
        plan[:, TIME_PS] = [cycles_to_ps(cycles, khz) for cycles in ops.n.tolist()]
        return build_rows(ops, plan, np.stack([ops.n, ops.k], axis=1), self._actions, (-1, -1, -1))

    def bits(self) -> dict[str, int]:
        """Storage by block."""
        edc = self.new_edc().bits(self.spec.unverified_depth)
        queues = sum(self.spec.depth(queue) * self.spec.entry_bits(queue) for queue in QUEUES)
        return {"edc": sum(edc.values()), "tvc": sum(self.new_tvc().bits().values()), "queues": queues}

    def energy(self) -> dict[str, Cost]:
        """Per cycle of logic and per table bit."""
        return dict(ENERGY)

    def power(self) -> dict[str, Cost]:
        """Leakage and clock."""
        return dict(POWER)

    def area(self) -> dict[str, Cost]:
        """Tables and queues by their bits, logic by its gates."""
        spec = self.spec
        parts = {block: count * spec.bit_um2 for block, count in self.bits().items()}
        parts["logic"] = spec.gates * spec.gate_um2
        return {block: Cost(um2, "um2", AREA_SOURCE, (0.3 * um2, 5 * um2)) for block, um2 in parts.items()}


AREA_SOURCE = "bits and gates times the part's area of one (28 nm)"
ENERGY: dict[str, Cost] = {
    "logic_cycle": Cost(
        1.0, "pJ", "assumed: some thousand gates, 28 nm; AHASD's artifact claims 50 pJ a decision (EDC.h)", (0.2, 50.0)
    ),
    "table_bits": Cost(0.02, "pJ", "assumed: small SRAM and flip-flops, per bit, 28 nm (CACTI class)", (0.005, 0.1)),
}
POWER: dict[str, Cost] = {
    "static": Cost(0.7, "mW", "AHASD artifact (af6ab66, docs): predictors 0.2 mW, queues 0.5 mW", (0.1, 1.5))
}
