"""How fast the engine is on this machine: events per CPU second and the cost of emitting rows."""

from __future__ import annotations

import time
from collections.abc import Generator

import numpy as np

from archsim.engine.block import Block, make_block
from archsim.engine.core import COEF_BITS
from archsim.engine.process import Outcome, Waitable
from archsim.engine.sim import PoolDecl, Sim, UnitDecl

GB_PER_S = (10**9 << 28) // 10**12  # 1 GB/s in 2**-28 byte per ps


def contended_block(units: int, pools: int, rows: int, seed: int = 1) -> Block:
    """A block of one chain of rows per unit; each row draws on one or two pools that cannot serve all."""
    rng = np.random.default_rng(seed)
    table = []
    for _ in range(rows):
        used = rng.choice(pools, size=int(rng.integers(1, min(2, pools) + 1)), replace=False)
        table.append(
            {
                "unit": len(table) % units,
                "weight": int(rng.integers(1 << 12, 1 << 18)),
                "lead": int(rng.integers(1_000, 200_000)),
                "work": int(rng.integers(1 << 14, 1 << 18)) << 28,
                "cap": int(rng.integers(10, 60)) * GB_PER_S,
                "pool": used.tolist(),
                "coef": [int(rng.integers(1 << (COEF_BITS - 1), 1 << COEF_BITS)) for _ in used],
                "stream": int(rng.integers(0, 8)),
            }
        )
    return make_block(table, [(i, i + units) for i in range(rows - units)])


def measure(units: int, pools: int, rows: int) -> dict[str, float]:
    """Run about `rows` rows on `units` units that contend for `pools` pools.

    Returns
    -------
    dict
        ``events_per_s`` (leads and rows ended per CPU second, with emission and retirement),
        ``emit_ns_per_row`` (a 400-row block), ``events``, ``cpu_s``.
    """
    declared = (
        [UnitDecl(f"unit {i}") for i in range(units)],
        [PoolDecl(f"pool {i}", 20 * GB_PER_S) for i in range(pools)],
    )
    block = contended_block(units, pools, 40 * units)

    def feed(sim: Sim, count: int) -> Generator[Waitable, Outcome, None]:
        before = sim.emit(block)
        for _ in range(count):
            after = sim.emit(block)
            yield before
            before = after

    def run(count: int) -> Sim:
        sim = Sim(*declared)
        sim.process(feed(sim, count))
        sim.run()
        return sim

    run(1)
    started, cpu, events = time.process_time(), 0.0, 0
    while cpu <= 0:  # where the clock of the CPU is coarse, a short run takes no time
        events += run(max(1, rows // (40 * units))).events
        cpu = time.process_time() - started
    result = {"events": events, "cpu_s": cpu, "events_per_s": events / cpu}
    return result | {"emit_ns_per_row": _emission(declared, units, pools)}


def _emission(declared: tuple[list[UnitDecl], list[PoolDecl]], units: int, pools: int) -> float:
    """Cost of emitting a 400-row block into a run under way, retirement of earlier ones included."""
    block = contended_block(units, pools, 399)
    sim = Sim(*declared)
    spent = 0.0
    for i in range(400):
        started = time.process_time()
        sim.emit(block)
        if i >= 100:
            spent += time.process_time() - started
        sim.run()
    return spent / 300 / 400 * 1e9
