"""Where look-ahead pays, and how the system answers to the hardware: ratios over the axes an architect would move.

Paired on one seed: both cells of a ratio meet the same prompts. Every value is a prediction without a published figure.
"""

from __future__ import annotations

from collections.abc import Iterator

from archsim.reproduce.llada import ALL, BENCH, OFFLOAD, REVISION, RUNTIME, SLIDING
from archsim.reproduce.llada_runs import Cell, scaled
from archsim.reproduce.rows import Row

SOURCE = "archsim, paired on one seed"
PROMPTS = 8
#: Factors on the CPU's matrix rate (projection and revision), on the mapping cost, and on the HMX rate.
CPU_FACTORS = (1, 2, 4, 8)
MAP_FACTORS = (0.0, 0.5, 1.0)
HMX_FACTORS = (0.5, 1, 2)
BLOCKS = (16, 32, 64)


def cpu(cell: Cell, factor: float) -> Cell:
    """The CPU multiplies `factor` times as fast (cycles per block divided)."""
    return scaled(cell, "cpu.mac_cycles_per_block", 1 / factor)


def mapping(cell: Cell, factor: float) -> Cell:
    """Mapping a byte costs `factor` times as much."""
    return scaled(cell, "npu.swap_ps_per_gib", factor)


def hmx(cell: Cell, factor: float) -> Cell:
    """Matrix units at `factor` times the clock, the other clocks as they are."""
    return scaled(cell, "npu.hmx_clock_hz", factor)


def _row(name: str, unit: str, value: float, why: str) -> Row:
    return Row(name, SOURCE, unit, None, value, kind="reported", why=why)


def map_rows() -> Iterator[Row]:
    """Whether look-ahead pays against CPU rate, mapping cost, window and HMX rate."""
    ahead, slide, block = (cell.but(prompts=PROMPTS) for cell in (ALL, SLIDING, REVISION))
    multi = "time with block windows over time with sliding and look-ahead (above 1: it pays); both revise"
    extend = "time of sliding windows over that of sliding and extended ones (above 1: extending pays)"
    for c in CPU_FACTORS:
        for m in MAP_FACTORS:
            found = [BENCH(mapping(cpu(cell, c), m)).latency_s for cell in (ahead, slide, block)]
            yield _row(f"map.cpu{c:g}.map{m:g}", "x", found[2] / found[0], multi)
            yield _row(f"extend.cpu{c:g}.map{m:g}", "x", found[1] / found[0], extend)
    for size in BLOCKS:
        for factor in HMX_FACTORS:
            sets = (f"schedule.block={size}", f"schedule.ahead={size}")
            found = [BENCH(hmx(mapping(cpu(cell, 4), 0), factor).but(*sets)).latency_s for cell in (ahead, block)]
            yield _row(f"map.block{size}.hmx{factor:g}", "x", found[1] / found[0], f"{multi}; CPU 4x, mapping free")


def _both() -> dict[str, Cell]:
    return {"runtime": RUNTIME, "all": ALL.but(prompts=PROMPTS)}


def sweep_rows() -> Iterator[Row]:
    """Seconds per request over window size, DRAM bandwidth, address window and HMX rate."""
    for size in ("2.9 GB", "3.1 GB", "3.3554432 GB", "3.6 GB", "3.9 GB"):
        for name, cell in _both().items():
            found = BENCH(cell.but(f"system.npu.window_bytes={size}"))
            yield _row(f"sweep.window.{size.split()[0]}.{name}", "s", found.latency_s, "window of a session, GB")
    for block in BLOCKS:
        found = BENCH(ALL.but(f"schedule.block={block}", prompts=PROMPTS))
        yield _row(f"sweep.block.{block}.all", "s", found.latency_s, "block and window of this many positions")
    for factor in HMX_FACTORS:
        for name, cell in _both().items():
            clocked = hmx(cell, factor)
            wide = clocked.but("system.npu.address_bits=64")
            yield _row(f"sweep.hmx.{factor:g}.{name}", "s", BENCH(clocked).latency_s, "factor on the HMX rate")
            yield _row(f"sweep.hmx.{factor:g}.{name}.wide", "s", BENCH(wide).latency_s, "the same, 64-bit addresses")
    for factor in (0.5, 1, 2):
        for name, cell in {"offload": OFFLOAD, **_both()}.items():
            faster = scaled(scaled(cell, "npu.dma_bytes_per_s", factor), "cpu.bandwidth_bytes_per_s", factor)
            yield _row(
                f"sweep.bandwidth.{factor:g}.{name}", "s", BENCH(faster).latency_s, "factor on DMA and CPU reads"
            )
