"""Hold-out by generation: other NPUs and phones from numbers that were fitted on the 8 Gen 3, with bands.

Every number of the machine that has a range is drawn (:mod:`archsim.sweep.ranges`); a row says whether the published
figure lies between p10 and p90 of the draws, and why not where it does not. NPU rows are kernels and passes alone, as
in the device table. Phone rows take the band of a short request, relative to its own nominal run, around the figure
that the system's own table gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from archsim.config import Override, load_config
from archsim.devices.npu.alone import (
    SHAPES,
    Device,
    DType,
    Shape,
    devices_of,
    head_ms,
    matmul,
    pass_ms,
    prefill_ms,
    product_gflop_s,
    times_us,
)
from archsim.reproduce.lever import lever
from archsim.reproduce.lever_published import L8, PAPER, Q4B, Q8, SHORT, SPEED, TASKS
from archsim.reproduce.lever_runs import HEAD, measure
from archsim.reproduce.llada import BENCH, LADDER
from archsim.reproduce.llada_runs import Cell
from archsim.reproduce.npu import BY_DMA, CDSP, GGML, GRAPH, POWERSERVE, PROMPTS
from archsim.reproduce.rows import Kind, Row
from archsim.sweep.ranges import machine_numbers, shares
from archsim.sweep.uncertainty import quantiles, uncertainty

#: Draws of a kernel alone, and of a whole request.
SAMPLES, REQUESTS = 32, 12
#: Qwen2.5-3B (public configuration).
QWEN_3B = Shape(36, 2048, 2048, 256, 11008)
#: Most of these figures are scored in the tables of their systems; here it is the band that counts.
KIND: Kind = "reported"
V79, V81, V75 = "oneplus_ace5_pro", "oneplus_15", "oneplus_12"

Devices = Mapping[str, Device]
Measure = Callable[[Devices], float]


@dataclass(frozen=True)
class Held:
    """A published figure of a generation that no number was fitted to, and how it is measured on a machine."""

    id: str
    source: str
    unit: str
    paper: float
    measure: Measure
    why: str = ""


def generation_rows() -> Iterator[Row]:
    """NPU generations first, then phones."""
    for (system, sets), cells in NPUS.items():
        yield from _alone(system, sets, cells)
    yield from _lever_phones()
    yield from _llada_phone()


def _alone(system: str, sets: tuple[str, ...], cells: tuple[Held, ...]) -> Iterator[Row]:
    nominal = devices_of(system, *sets)
    drawn = list(drawn_devices(system, sets, SAMPLES))
    for cell in cells:
        found = quantiles([cell.measure(devices) for devices in drawn])
        row = Row(f"generations.{cell.id}", cell.source, cell.unit, cell.paper, cell.measure(nominal), kind=KIND)
        yield explained(replace(row, p10=found["p10"], p90=found["p90"]), cell.why)


def drawn_devices(system: str, sets: tuple[str, ...], samples: int, seed: int = 0) -> Iterator[Devices]:
    """Devices of a machine with every number that has a range drawn from it."""
    resolved = load_config("system", system, sets=sets)
    numbers = [n for n in machine_numbers(resolved.rows, resolved.data["devices"]) if not n.priced]
    for i in range(samples):
        values = {number: number.at(shares(number.group, samples, seed)[i]) for number in numbers}
        moved = (
            Override(number.path, f"{value!r} {number.unit}" if number.unit else value, number.path)
            for number, value in values.items()
            if value != number.value
        )
        yield devices_of(system, *sets, *moved)


def explained(row: Row, why: str) -> Row:
    """The row with a reason where the published figure is outside its band."""
    if row.inside:
        return row
    return replace(row, why=why or "outside the band, and the cause is not known")


def _prefill(shape: Shape, rows: int = 128) -> Measure:
    return lambda devices: rows * 1e3 / pass_ms(devices["npu"], shape, rows)


def _decode(shape: Shape, vocabulary: int) -> Measure:
    def speed(devices: Devices) -> float:
        head = head_ms(devices["cpu"], shape.hidden, vocabulary, DType.Q4_0)
        return 1e3 / (pass_ms(devices["npu"], shape, 1, 256) + head)

    return speed


def _prompt(tokens: int) -> Measure:
    return lambda devices: tokens * 1e3 / prefill_ms(devices, SHAPES["qwen3-4b"], tokens, 151_936)


def _product(op: Mapping[str, int]) -> Measure:
    return lambda devices: float(times_us(devices["npu"], [dict(op)])[0])


def _int8(devices: Devices) -> float:
    return product_gflop_s(devices["npu"], 2048, int8=True) / 1e3


_SMALL = "Qwen2.5-3B on QNN (PowerServe)"
_UPWARDS = (
    "the measured rate is the v75's with four contexts; ranges of the v79's clock and of VTCM's vectors a cycle reach "
    "upwards from the v75's only"
)
_VECTORS = (
    "25 rows run on vector threads; ranges of contexts, clock and VTCM's vectors a cycle reach upwards from the v75's, "
    "so the nominal speed is near p10 and the measured one below it"
)
_OLD = "a quarter of the v73's operations a cycle; the v75's 4 to 8 cycles a tile do not reach back two generations"
#: By machine and overrides: the published figures that its numbers, fitted on the v75, are held against.
NPUS: Mapping[tuple[str, tuple[str, ...]], tuple[Held, ...]] = {
    (V79, GRAPH): (
        Held("v79.prefill", POWERSERVE, "tok/s", 509.0, _prefill(SHAPES["llama-3.1-8b"])),
        Held("v79.decode", POWERSERVE, "tok/s", 12.5, _decode(SHAPES["llama-3.1-8b"], 128_256)),
        Held("v79.prefill_3b", _SMALL, "tok/s", 982.0, _prefill(QWEN_3B)),
        Held("v79.decode_3b", _SMALL, "tok/s", 22.2, _decode(QWEN_3B, 151_936)),
    ),
    (V79, ()): (
        Held(
            "v79.vector_q8_0",
            "ggml-hexagon on v79, 4096 x 4096 q8_0 x 64 rows (llama.cpp #18139)",
            "us",
            4925.0,
            _product(matmul(64, 4096, 4096, DType.Q8_0)),
            _UPWARDS,
        ),
    ),
    (V81, ()): tuple(
        Held(f"v81.pp{tokens}", f"{GGML}, Qwen3-4B (llama.cpp #23368)", "tok/s", speed, _prompt(tokens), _VECTORS)
        for tokens, speed in PROMPTS
    ),
    (V81, BY_DMA): (
        Held(
            "v81.operator",
            f"{GGML}, 2048 x 6144 Q4_0 x 742 rows (llama.cpp #26501)",
            "us",
            891.0,
            _product(matmul(742, 2048, 6144)),
        ),
    ),
    (V75, ()): (
        Held("v73.int8_from_v75", CDSP, "TOPS", 50.0, _int8),
        Held("v68.int8_from_v75", CDSP, "TOPS", 11.5, _int8, _OLD),
    ),
}


def _band_of(given: Mapping[str, Any], key: str) -> tuple[float, float]:
    """p10 and p90 of a request's result over its own nominal one."""
    found = uncertainty(None, samples=REQUESTS, keep=False, **given)
    nominal, band = found.nominal[key], found.bands[key]
    return band["p10"] / nominal, band["p90"] / nominal  # type: ignore[operator]


_TOP = (
    "the fitted rate of UFS 4.1 stands at the top of its range, just below the link, so the band reaches downwards; "
    "acceptance is the OnePlus 12's, within 0.02"
)


def _lever_phones() -> Iterator[Row]:
    """Lever on the Magic V5: kernels of the v75, UFS 4.1's rate fitted to the level of these speeds and drawn."""
    system = "honor_magic_v5"
    for target in (L8, Q4B, Q8):
        job = {"target": target, "stream": f"synthetic:{target}:mbpp", "prompts": 2, "tokens": 24}
        given = {"system": system, "schedule": "lever", "job": job, "sets": (HEAD,)}
        low, high = _band_of(given, "decode_tokens_per_s")
        for task, paper in zip(TASKS, SPEED[system][target]):
            found = measure(lever(target, task, system))["tps"]
            name = f"generations.lever.{system}.{SHORT[target]}.{task}"
            row = Row(name, f"{PAPER}, Fig 10", "tokens/s", paper, found, kind=KIND, storage=True)
            yield explained(replace(row, p10=low * found, p90=high * found), _TOP)


def _llada_phone() -> Iterator[Row]:
    """llada.cpp's swap-aware runtime on a v79: CPU and mapping are fitted on that phone, the NPU is the v75's."""
    rung = next(rung for rung in LADDER if rung.id == "ladder.runtime")
    cell: Cell = rung.cell
    job = {"target": cell.target, "stream": cell.stream, "tokens": 32}
    given = {"system": cell.system, "schedule": cell.schedule, "job": job, "sets": cell.sets}
    low, high = _band_of(given, "request_latency_s")
    found = BENCH(cell).latency_s
    row = Row(f"generations.llada.{rung.id}", rung.source, "s", rung.paper, found, kind=KIND)
    yield explained(replace(row, p10=low * found, p90=high * found), rung.why)
