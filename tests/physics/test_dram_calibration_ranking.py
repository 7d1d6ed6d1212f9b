"""Ranking of random memory configurations by the calibrated pool and by commands.

The task is a fixed amount of bytes for each of two or three streams that start together; its time ends with the last
of them. The pool sees weights and caps of the whole set and a table of capacities of all subsets, as rows of a run do;
the kernel serves every request.
"""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from archsim.devices.dram import command, layout
from archsim.devices.dram.calibrate import subsets
from archsim.devices.dram.controller import load_controller, load_memory
from archsim.devices.dram.replay import decode
from archsim.devices.dram.standard import load_standard
from archsim.devices.dram.streams import StreamSpec
from archsim.engine.block import make_block
from archsim.engine.sim import PoolDecl, Sim, UnitDecl
from archsim.units import WORK_ONE, rate_fixed

REQUESTS = 12_000
STANDARDS = ("lpddr5-6400", "lpddr5x-8533", "lpddr5x-9600")
# Low to high: rows stay in one bank as given; bank groups below the columns; banks below the columns.
MAPPINGS = (
    ("offset", "channel", "column", "bankgroup", "bank", "rank", "row"),
    ("offset", "channel", "bankgroup", "column", "bank", "rank", "row"),
    ("offset", "channel", "bankgroup", "bank", "column", "rank", "row"),
)


def drawn(seed):
    """One configuration: memory, streams and the requests of each."""
    rng = np.random.default_rng(seed)
    channels = int(rng.choice([1, 2, 4]))
    standard = load_standard(str(rng.choice(STANDARDS)))
    order = MAPPINGS[int(rng.integers(3))]
    standard = replace(standard, mapping={**standard.mapping, "order": [[field, "all"] for field in order]})
    refresh = str(rng.choice(["none", "all_bank", "per_bank"]))
    memory = load_memory(standard, load_controller("mobile", refresh=refresh), channels=channels)
    specs = tuple(
        StreamSpec(
            int(rng.choice([1, 4, 16, 64, 128])),
            str(rng.choice(["sequential", "random"])),
            float(rng.choice([1.0, 1.0, 0.67])),
        )
        for _ in range(int(rng.integers(2, 4)))
    )
    amounts = [int(REQUESTS * min(8, max(1, s.depth // 4)) * rng.uniform(0.2, 1.0) / 2) for s in specs]
    words = " + ".join(f"{s.pattern[:3]} x{s.depth} r{s.read_share:g} n{n}" for s, n in zip(specs, amounts))
    mapping = "-".join(field[:2] + field[-1] for field in order[1:])
    return memory, specs, amounts, f"#{seed} {standard.name} {channels} ch {refresh} {mapping}: {words}"


def time_by_commands(memory, specs, amounts, seed=0):
    """Seconds until every request of every stream has been served by the kernel."""
    share = memory.capacity_bytes // memory.org.burst_bytes // len(specs)
    rng = np.random.default_rng((99, seed))
    addresses, writes = [], []
    for k, (spec, n) in enumerate(zip(specs, amounts, strict=True)):
        index = np.arange(n)
        place = rng.integers(0, share, n) if spec.pattern == "random" else index
        addresses.append((k * share + place) * memory.org.burst_bytes)
        writes.append(np.floor((index + 1) * spec.read_share) == np.floor(index * spec.read_share))
    address, write = np.concatenate(addresses), np.concatenate(writes).astype(np.int64)
    columns = tuple(np.empty(address.size, np.int64) for _ in range(3))
    decode(address, write, memory.pieces, memory.hashes, memory.org, *columns)
    m = layout.new_state(memory.org, memory.rules, memory.effects, tuple(s.depth for s in specs))
    ends = np.cumsum(amounts)
    for k, end in enumerate(ends.tolist()):
        source = m[layout.SOURCES] + k * layout.SOURCE
        m[source + layout.AT_REQUEST], m[source + layout.END] = end - amounts[k], end
    empty = np.empty(0, np.int64)
    why = command.run(m, *columns, empty, memory.org.channels, 1, 1 << 50, empty, empty)
    assert why == command.DONE
    assert m[layout.NEXT_AGE] == address.size
    return float(m[layout.LAST] * memory.standard.tck_ps / Fraction(10**12))


def time_by_pool(memory, specs, amounts):
    """Seconds of the same bytes as rows of the engine on one pool with a mix table."""
    table = subsets(memory, specs)
    whole = table[frozenset(range(len(specs)))]
    mix = {sum(2 << i for i in some): rate_fixed(c.capacity_bytes_per_s) for some, c in table.items()}
    sim = Sim([UnitDecl(f"u{i}") for i in range(len(specs))], [PoolDecl("dram", max(mix.values()), mix)])
    rows = [
        {
            "unit": i,
            "weight": s.weight,
            "cap": rate_fixed(s.cap_bytes_per_s),
            "work": n * memory.org.burst_bytes * WORK_ONE,
            "pool": [0],
            "coef": [1 << 20],
            "stream": i + 1,
        }
        for i, (s, n) in enumerate(zip(whole.shares, amounts, strict=True))
    ]
    sim.emit(make_block(rows))
    sim.run()
    return sim.now * 1e-12


def kendall(a, b):
    """Kendall's tau (b, ties counted) of two sequences, and the signs of all pairs."""
    upper = np.triu_indices(len(a), 1)
    da, db = (np.sign(np.subtract.outer(x, x))[upper] for x in (np.asarray(a), np.asarray(b)))
    return float((da * db).sum() / np.sqrt((da != 0).sum() * (db != 0).sum())), da * db


def test_kendall_of_known_orders():
    assert kendall([1, 2, 3, 4], [1, 2, 3, 4])[0] == 1
    assert kendall([1, 2, 3, 4], [4, 3, 2, 1])[0] == -1
    assert kendall([1, 2, 3, 4], [1, 2, 4, 3])[0] == pytest.approx(4 / 6)
    assert kendall([1, 2, 2], [1, 2, 3])[0] == pytest.approx(2 / np.sqrt(2 * 3))


@pytest.mark.slow
def test_ranking_of_a_hundred_configurations():
    cases = [drawn(seed) for seed in range(100)]
    commands = np.array([time_by_commands(*case[:3]) for case in cases])
    pool = np.array([time_by_pool(*case[:3]) for case in cases])
    tau, agree = kendall(pool, commands)
    first, second = np.triu_indices(len(cases), 1)
    gap = np.abs(np.log(commands[first] / commands[second]))
    worst = int(np.argmax(np.where(agree < 0, gap, -1)))
    off = int(np.argmax(np.abs(np.log(pool / commands))))
    print(
        f"\ntau {tau:.3f}, {int((agree < 0).sum())} inversions of {agree.size}; median error of time "
        f"{np.median(np.abs(pool / commands - 1)):.1%}, worst {pool[off] / commands[off] - 1:+.1%}: {cases[off][3]}\n"
        f"worst inversion {np.expm1(gap[worst]):.1%}: {cases[first[worst]][3]}\n  against {cases[second[worst]][3]}"
    )
    assert tau >= 0.9
