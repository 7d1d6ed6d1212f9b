"""Rank agreement: whether the engine's rows order configurations as the cycle- and event-level kernels do.

Two independent computations of the same work. *Flash*: a load as one row, whose numbers follow from a drawn geometry by
closed forms (:mod:`archsim.devices.flash.derived`), against every request, page and message of the event-level device.
*NPU*: an operator's rows, drawn at four shares and played by the engine beside a stream that takes DRAM's bandwidth,
against the tile-level walk at the share that is left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from archsim.config import load_config
from archsim.device import Binding, OpKind, make_ops
from archsim.devices.flash import Flash, FlashSpec
from archsim.devices.flash.derived import load_values
from archsim.devices.flash.geometry import SsdSpec
from archsim.devices.flash.replay import device_spec, run_pattern
from archsim.reproduce.rows import Row
from archsim.reproduce.trends_npu import drawn_split, lowered_ps, walked_ps
from archsim.units import from_numbers

COUNT = 100
KIB = 1024
#: Most pages of one drawn load: bounds what the event-level device has to do.
PAGES = 6000
LEAST_TAU = 0.9
_POOLS = {"dram.bandwidth": 0, "flash.link": 1, "cpu.cores": 2}
FLASH_KERNEL = "event-level flash device, 100 drawn geometries, rates, sizes and depths"
NPU_WALK = "tile-level walk, 100 drawn products, policies, machines and shares of DRAM"


@dataclass(frozen=True)
class Reads:
    """A drawn device and what is read from it."""

    ssd: SsdSpec
    pattern: str
    request_bytes: int
    requests: int
    depth: int
    span_bytes: int
    words: str


def kendall(a: Sequence[float], b: Sequence[float]) -> float:
    """Kendall's tau (b, ties counted) of two sequences."""
    upper = np.triu_indices(len(a), 1)
    da, db = (np.sign(np.subtract.outer(x, x))[upper] for x in (np.asarray(a), np.asarray(b)))
    return float((da * db).sum() / np.sqrt((da != 0).sum() * (db != 0).sum()))


def drawn_reads(seed: int) -> Reads:
    """One configuration of flash."""
    rng = np.random.default_rng((7, seed))
    sense = int(rng.choice([25, 40, 50, 70, 100])) * 10**6
    ssd = device_spec("ufs_4_0").model_copy(
        update={
            "channels": int(rng.choice([1, 2, 4])),
            "dies": int(rng.choice([1, 2, 4, 8])),
            "planes": int(rng.choice([2, 4])),
            "blocks_per_plane": 256,
            "pages_per_block": 1024,
            "read_ps": (sense, sense + 5 * 10**6, sense + 10**7),
            "channel_bytes_per_s": float(rng.choice([0.8, 1.2, 1.6, 2.4, 3.6])) * 1e9,
            "lanes": int(rng.choice([1, 2])),
            "lane_bytes_per_s": float(rng.choice([0.6, 1.2, 2.3, 4.6])) * 1e9,
            "command_ps": int(rng.choice([2, 5, 20, 50])) * 10**5,
            "response_ps": int(rng.choice([1, 4, 10])) * 10**6,
            "issue_performance_ps": int(rng.choice([2, 4, 8])) * 10**6,
        }
    )
    pattern = str(rng.choice(["seq_read", "rand_read"]))
    request = int(rng.choice([4, 16, 64, 128, 512, 1024])) * KIB
    most = PAGES * ssd.page_bytes // max(request, ssd.page_bytes)
    requests = max(1, int(min(most, 3000) * rng.uniform(0.05, 1.0)))
    depth = 1 if pattern == "seq_read" else int(rng.choice([1, 2, 4, 8, 16, 32]))
    span = 0 if pattern == "seq_read" else int(rng.choice([64, 128])) << 20
    words = f"#{seed} {pattern} {requests} x {request // KIB} KiB, depth {depth}, {ssd.channels} ch {ssd.dies} dies"
    return Reads(ssd, pattern, request, requests, depth, span, words)


def load_row_ps(reads: Reads) -> int:
    """Time of the load as one row."""
    spec = {**load_config("part", "ufs_4_0").data["spec"], **load_values(reads.ssd), "queue_depth": reads.depth}
    device = Flash("flash", from_numbers(FlashSpec, spec))
    device.bind(Binding({"flash.queue": 0}, _POOLS, {"flash.capacity": 0}))
    size = reads.requests * reads.request_bytes
    op = {"kind": OpKind.LOAD, "weight_bytes": size, "n": reads.request_bytes, "k": reads.span_bytes}
    rows = device.lower(make_ops([op]))
    return int((rows.lead - rows.work // -rows.cap).sum())


def events_ps(reads: Reads) -> int:
    """Time of the same reads on the event-level device."""
    done = run_pattern(
        reads.ssd, reads.pattern, reads.request_bytes, reads.requests, depth=reads.depth, span_bytes=reads.span_bytes,
        core="performance",
    )  # fmt: skip
    return done.time_ns * 1000


def rank_rows() -> Iterator[Row]:
    """Kendall's tau of both, and the median error."""
    reads = [drawn_reads(seed) for seed in range(COUNT)]
    yield from _agreement("flash", FLASH_KERNEL, reads, [load_row_ps(r) for r in reads], [events_ps(r) for r in reads])
    splits = [drawn_split(seed) for seed in range(COUNT)]
    yield from _agreement(
        "npu", NPU_WALK, splits, [lowered_ps(s) for s in splits], [walked_ps(s) for s in splits]
    )  # fmt: skip


def _agreement(name: str, source: str, cases: Sequence[Any], rows: list[int], kernel: list[int]) -> Iterator[Row]:
    ratio = np.array(rows) / np.array(kernel)
    off = int(np.argmax(np.abs(np.log(ratio))))
    spread = f"times from {min(kernel) / 1e9:.3g} to {max(kernel) / 1e9:.3g} ms"
    why = f"tau 1 is the same order; at least {LEAST_TAU} is asked for; {spread}"
    yield Row(f"trends.rank.{name}.tau", source, "tau", 1.0, kendall(rows, kernel), None, "ordering", 0.1, why=why)
    why = f"median over the configurations; worst {ratio[off] - 1:+.0%}: {cases[off].words}"
    error = float(np.median(np.abs(ratio - 1)))
    yield Row(f"trends.rank.{name}.error", source, "of the time", None, error, None, "reported", why=why)
