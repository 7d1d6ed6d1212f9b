"""Drawn matrix products on the NPU, as rows that the engine plays under contention and as a walk of their tiles.

The rows were made from walks at 1, 3/4, 1/2 and 1/4 of the DMA rate; the engine plays them beside a stream that never
ends, so that they get a share of DRAM which none of these is. The walk is run at exactly that share.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from archsim.device import DType, make_ops
from archsim.devices.npu import Npu
from archsim.devices.npu.alone import devices_of, matmul
from archsim.devices.npu.draft import FITS, SIDE_BYTES, SIDE_PS, WHY, draft_all
from archsim.devices.npu.numbers import NpuNumbers
from archsim.devices.npu.plan import call_of
from archsim.engine.block import make_block
from archsim.engine.sim import PoolDecl, Sim, UnitDecl
from archsim.lowering import bytes_to_ps, operator, records
from archsim.units import WORK_ONE, rate_fixed

MB = 10**6
#: Shares are held in thousandths.
WHOLE = 1000
#: Bytes of the stream beside the product: more than any of them can leave it.
ENDLESS_BYTES = 1 << 33
#: A pool that nothing fills: the engine's largest capacity.
RATE_MOST = (1 << 35) - 1
POLICIES = ("static_graph", "ggml_hmx", "ggml_hvx", "sequential", "gemv")


class Split(NamedTuple):
    """A drawn product: the device, its entry, and the share of DRAM in thousandths."""

    npu: Npu
    entry: dict[str, int]
    share: int
    words: str


def drawn_split(seed: int) -> Split:
    """One configuration: machine, policy and its parameters, shape, share."""
    rng = np.random.default_rng((11, seed))
    system = str(rng.choice(["oneplus_12", "oneplus_ace5_pro", "oneplus_15"]))
    policy = str(rng.choice(POLICIES))
    m = 1 if policy == "gemv" else int(rng.choice([2, 8, 16, 32, 48, 64, 128, 256, 512]))
    k, n = (32 * int(rng.integers(24, 448)) for _ in range(2))
    dtype = DType[str(rng.choice(["Q4_0", "Q8_0", "FP16"]))]
    share = int(rng.integers(150, WHOLE))
    drawn = {
        "hvx_contexts": int(rng.choice([2, 4, 6, 8])),
        "hmx_units": int(rng.choice([1, 2])),
        "tile_buffers": int(rng.choice([2, 3, 4])),
        "vtcm_bytes": f"{int(rng.choice([4, 8, 16]))} MiB",
        "hmx_rows": int(rng.choice([5, 32])),
        "pipeline_rows": int(rng.choice([8, 32, 128])),
        "dma_in_flight": int(rng.choice([4, 16, 256])),
        "unpack_cycles": float(rng.uniform(2, 30)),
        "graph_unpack_cycles": float(rng.uniform(1, 20)),
        "policy_one": "gemv",
        "policy_many": "static_graph" if policy == "gemv" else policy,
    }
    npu = devices_of(system, *(f"system.npu.{key}={value}" for key, value in drawn.items()))["npu"]
    words = f"#{seed} {policy} on {system}, {m} x {k} x {n} {dtype.name.lower()} at {share / WHOLE:.0%} of DRAM"
    return Split(npu, matmul(m, k, n, dtype), share, words)


def lowered_ps(split: Split) -> int:
    """Time of the operator's rows in the engine beside a stream that takes the rest of DRAM."""
    npu, share = split.npu, split.share
    rows = npu.lower(make_ops([split.entry]))
    dma = npu.numbers.dma_rate * MB
    memory, own = (int(column) for column in rows.pool[rows.pool[:, 1] >= 0][0, :2])  # a row that streams names both
    capacity = [RATE_MOST] * (int(rows.pool.max()) + 1)
    capacity[memory], capacity[own] = rate_fixed(dma), rate_fixed(dma)
    sim = Sim([UnitDecl("npu"), UnitDecl("other")], [PoolDecl(f"p{i}", value) for i, value in enumerate(capacity)])
    chain = [
        {
            "unit": 0, "weight": share, "lead": int(rows.lead[i]), "work": int(rows.work[i]), "cap": int(rows.cap[i]),
            "pool": rows.pool[i].tolist(), "coef": rows.coef[i].tolist(),
        }
        for i in range(len(rows.op))
    ]  # fmt: skip
    done = sim.emit(make_block(chain, "chain"))
    for _ in range(8):  # work is held in 2**-28 byte, so an endless stream is several rows
        sim.emit(make_block([{
            "unit": 1, "weight": WHOLE - share, "work": (ENDLESS_BYTES - 1) * WORK_ONE, "pool": [memory],
            "coef": [1 << 20],
        }]))  # fmt: skip
    ended: list[int] = []

    def watch():
        yield done
        ended.append(sim.now)

    sim.process(watch(), "watch")
    sim.run()
    return ended[0]


def walked_ps(split: Split) -> int:
    """Call, side traffic and walk of the operator when DMA has the share."""
    npu, ops = split.npu, make_ops([split.entry])
    c: NpuNumbers = npu.numbers
    rate = c.dma_rate * split.share // WHOLE
    slow = c._replace(dma_rate=rate, vector_rate=min(c.vector_rate, rate), l2fetch_rate=min(c.l2fetch_rate, rate),
                      vector_one_rate=min(c.vector_one_rate, rate))  # fmt: skip
    table = np.zeros((1, 5), np.int64)
    (draft,), (times,), (counts,) = draft_all(records(ops), slow.record(), npu.factors, npu.graph_rows, table)
    assert draft[WHY] == FITS, split.words
    side = max(int(draft[SIDE_PS]), bytes_to_ps(int(draft[SIDE_BYTES]), rate))
    return int(call_of(operator(ops), c, counts)) + side + int(times[0])
