"""Where look-ahead pays, and how the system answers to the hardware: ratios over the axes an architect would move.

Paired on one seed: both cells of a ratio meet the same prompts. Every value is a prediction without a published figure.
"""

from __future__ import annotations

from collections.abc import Iterator

from archsim.reproduce.llada import ALL, BENCH, OFFLOAD, RUNTIME, SLIDING
from archsim.reproduce.llada_runs import Cell, numbers_of
from archsim.reproduce.rows import Row

SOURCE = "archsim, paired on one seed"
PROMPTS = 20
#: Factors on the CPU's matrix rate (projection and revision), on the mapping cost, and on the HMX rate.
CPU_FACTORS = (1, 2, 4, 8)
MAP_FACTORS = (0.0, 0.5, 1.0)
HMX_FACTORS = (0.5, 1, 2)
BLOCKS = (16, 32, 64)


def _scaled(cell: Cell, field: str, factor: float) -> str:
    """Override that divides a number of the cell's machine by a factor (a cost), as text with its unit."""
    value, unit = numbers_of(cell, field)
    return f"system.{field}={value * factor:.6g}{unit}"


def cpu(cell: Cell, factor: float) -> Cell:
    """The CPU multiplies `factor` times as fast (cycles per block divided)."""
    return cell.but(_scaled(cell, "cpu.mac_cycles_per_block", 1 / factor))


def mapping(cell: Cell, factor: float) -> Cell:
    """Mapping a byte costs `factor` times as much."""
    return cell.but(_scaled(cell, "npu.swap_ps_per_gib", factor))


def hmx(cell: Cell, factor: float) -> Cell:
    """Matrix units with `factor` times the rate, the other clocks as they are (cycles of a tile divided)."""
    value, _ = numbers_of(cell, "npu.tile_cycles_fp16")
    return cell.but(f"system.npu.tile_cycles_fp16={round(value / factor)}")


def _pays(cell: Cell, plain: Cell) -> float:
    """Time without look-ahead over time with it: above 1 it pays."""
    return BENCH(plain).latency_s / BENCH(cell).latency_s


def _row(name: str, unit: str, value: float, why: str) -> Row:
    return Row(name, SOURCE, unit, None, value, kind="reported", why=why)


def map_rows() -> Iterator[Row]:
    """Whether look-ahead pays against CPU rate, mapping cost, window and HMX rate."""
    ahead, plain = ALL.but(prompts=PROMPTS), SLIDING.but(prompts=PROMPTS)
    what = "time without look-ahead over time with it (above 1: it pays); both slide"
    for c in CPU_FACTORS:
        for m in MAP_FACTORS:
            ratio = _pays(mapping(cpu(ahead, c), m), mapping(cpu(plain, c), m))
            yield _row(f"map.cpu{c:g}.map{m:g}", "x", ratio, what)
    for block in BLOCKS:
        for factor in HMX_FACTORS:
            sets = (f"schedule.block={block}", f"schedule.ahead={block}")
            ratio = _pays(
                hmx(mapping(cpu(ahead, 4), 0), factor).but(*sets), hmx(mapping(cpu(plain, 4), 0), factor).but(*sets)
            )
            yield _row(f"map.block{block}.hmx{factor:g}", "x", ratio, f"{what}; CPU 4x, mapping free")


def sweep_rows() -> Iterator[Row]:
    """Seconds per request over window size, DRAM bandwidth, address window and HMX rate."""
    whole = ALL.but(prompts=PROMPTS)
    for size in ("2.9 GB", "3.1 GB", "3.3554432 GB", "3.6 GB", "3.9 GB"):
        for name, cell in (("runtime", RUNTIME), ("all", whole)):
            found = BENCH(cell.but(f"system.npu.window_bytes={size}"))
            yield _row(
                f"sweep.window.{size.split()[0]}.{name}", "s", found.latency_s, "address window of a session, GB"
            )
    for block in BLOCKS:
        found = BENCH(whole.but(f"schedule.block={block}"))
        yield _row(f"sweep.block.{block}.all", "s", found.latency_s, "block and window of this many positions")
    for factor in HMX_FACTORS:
        for name, cell in (("runtime", RUNTIME), ("all", whole)):
            yield _row(
                f"sweep.hmx.{factor:g}.{name}", "s", BENCH(hmx(cell, factor)).latency_s, "factor on the HMX rate"
            )
            wide = hmx(cell, factor).but("system.npu.address_bits=64")
            yield _row(
                f"sweep.hmx.{factor:g}.{name}.wide", "s", BENCH(wide).latency_s, "the same with 64-bit addresses"
            )
    for factor in (0.5, 1, 2):
        for name, cell in (("offload", OFFLOAD), ("runtime", RUNTIME), ("all", whole)):
            faster = cell.but(*(_scaled(cell, f"{path}_bytes_per_s", factor) for path in ("npu.dma", "cpu.bandwidth")))
            faster = faster.but(_scaled(cell, "dram.achievable_bytes_per_s", min(factor, 1.25)))
            yield _row(
                f"sweep.bandwidth.{factor:g}.{name}", "s", BENCH(faster).latency_s, "factor on DMA and CPU streams"
            )
