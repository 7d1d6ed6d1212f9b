"""Random machines and processes, to hold the engine, its oracle and its single-step mode against each other."""

from __future__ import annotations

import random
from collections.abc import Generator
from typing import Any

from archsim.engine.block import Block, make_block
from archsim.engine.errors import SimError
from archsim.engine.process import Outcome, Waitable
from archsim.engine.sim import Handle, PoolDecl, Sim, StoreDecl, UnitDecl

ONE = 1 << 20


class System:
    """A random machine with random processes, all drawn from `r` as they are needed.

    `balanced`: what a row takes from a store is given back or undone, so every level returns to its start.
    """

    def __init__(self, r: random.Random, balanced: bool = False) -> None:
        self.r, self.balanced = r, balanced
        self.units = [UnitDecl(f"u{i}") for i in range(r.randint(1, 4))]
        self.pools = [self._pool(i) for i in range(r.randint(1, 3))]
        self.stores = [StoreDecl(f"s{i}", r.randint(1, 4)) for i in range(r.randint(0, 2))]

    def _pool(self, i: int) -> PoolDecl:
        mix = {2 * self.r.randint(1, 7): self.r.choice([0, 5, 60, 200]) for _ in range(self.r.randint(0, 4))}
        return PoolDecl(f"p{i}", self.r.choice([7, 50, 100, 333]), mix)

    def _row(self, op: int) -> dict[str, Any]:
        r = self.r
        used = [r.randrange(len(self.pools)) for _ in range(r.randint(0, 3))]
        row = {
            "unit": r.randint(-1, len(self.units) - 1),
            "priority": r.randint(-1, 1),
            "weight": r.choice([1, 2, 3, 64]),
            "lead": r.choice([0, 0, 1, 20]),
            "work": r.choice([0, 1, 300, 2000, r.randint(0, 5000)]),
            "pool": used,
            "coef": [r.choice([0, ONE // 2, ONE, 3 * ONE // 4, ONE + 7]) for _ in used],
            "stream": r.randint(0, 3),
            "op": op,
        }
        if not used or r.random() < 0.6:
            row["cap"] = r.choice([1, 13, 40, 100])
        if r.random() < 0.15:
            row["claim"] = r.randrange(len(self.pools))
        return row

    def block(self) -> Block:
        """A random block."""
        r = self.r
        n = r.randint(0, 6)
        rows = [self._row(i) for i in range(n)]
        edges = {(i, j) for i in range(n) for j in range(i + 1, n) if r.random() < 0.25}
        for i, row in enumerate(rows):
            if not self.stores or r.random() < 0.4:
                continue
            store = r.randrange(len(self.stores))
            amount = r.randint(0, 1)
            if i + 1 < n and "store" not in rows[i + 1] and r.random() < 0.4:  # a slot handed on to the next row
                row |= {"store": [store], "store_start": [amount], "heir": i + 1}
                rows[i + 1] |= {"store": [store], "store_end": [-amount]}
                edges.add((i, i + 1))
            elif "store" not in row:
                row |= {"store": [store], "store_start": [amount], "store_end": [-amount]}
                if not self.balanced:
                    row["store_end"] = [r.choice([-amount, 1, 0])]
                    row["store_mode"] = [r.choice([0, 0, 0, 0, 1, 2])]
        return make_block(rows, sorted(edges))

    def sim(self, **options: Any) -> Sim:
        """A fresh simulation of the machine."""
        return Sim(self.units, self.pools, self.stores, **options)

    def _process(self, sim: Sim, handles: list[Handle]) -> Generator[Waitable, Outcome, None]:
        r = self.r
        for _ in range(r.randint(1, 5)):
            kind = r.random()
            if kind < 0.5 or not handles:
                after = r.sample(handles, min(len(handles), r.randint(0, 2)))
                handle = sim.emit(self.block(), after=after, priority=r.randint(-1, 1), request=r.randint(0, 3))
                handles.append(handle)
                if r.random() < 0.5:
                    yield sim.any_of(handle, sim.timer(r.randint(1, 60)))
            elif kind < 0.62:
                sim.cut(r.choice(handles))
            elif kind < 0.74:
                handle = r.choice(handles)
                sim.cut_row(handle, r.randrange(len(handle.row_ids)))
            elif kind < 0.9:
                sim.set_rate(r.choice(self.units + self.pools).name, r.choice([0, 0.3, 0.5, 1, 2]))
                yield sim.timer(r.randint(0, 50))
            else:
                sim.mark(r.choice(handles), r.randint(0, 3), 3)
                sim.note("n", 0, r.randint(0, 9))
                yield sim.all_of(*r.sample(handles, min(len(handles), 2)))
        for item in self.units + self.pools:
            sim.set_rate(item.name, 1)

    def run(self, **options: Any) -> tuple[Sim, type[SimError] | None]:
        """Run the random processes; returns the simulation and the type of the error it ended in."""
        sim, r = self.sim(**options), self.r
        handles: list[Handle] = []
        for i in range(r.randint(1, 3)):
            sim.process(self._process(sim, handles), f"process {i}")
        try:
            for _ in range(r.randint(0, 2)):
                sim.run(until_ps=sim.now + r.randint(0, 80))
                if handles:
                    sim.cut_row(r.choice(handles), 0)
                handles.append(sim.emit(self.block(), after=handles[:1]))
            sim.run()
        except SimError as error:
            return sim, type(error)
        return sim, None
