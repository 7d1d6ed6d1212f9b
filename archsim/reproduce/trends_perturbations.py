"""Trends under change: what happened when somebody changed one thing on a phone, as log-slopes.

A row holds ``d ln(time) / d ln(change)``, or ``ln(time after / time before)`` where the change is a switch. Absolute
times of these versions are in other tables; here only the answer to the change counts: its sign, and its slope within
30 %.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from archsim.device import Device
from archsim.devices.npu.alone import SHAPES, Shape, devices_of, head_ms, layer, matmul, pass_ms, prefill_ms, times_us
from archsim.reproduce.lever_published import Q4B as ODD
from archsim.reproduce.lever_published import SHORT, TOKEN_MS
from archsim.reproduce.npu import perturbation_rows as npu_rows
from archsim.reproduce.rows import Row
from archsim.session import load, run

TOLERANCE = 0.30
VOTE = "log-slope of prefill time with the matrix unit's clock, 256 tokens, v81 (llama.cpp #22334)"
LESS = "weights 30 % smaller, Qwen3.5-9B, v81 (llama.cpp #27785)"
ORDERED = "in-order bit of DMA descriptors, Llama-3.2-3B, v81 (llama.cpp #21137): ln of time with over without"
CROSSING = "crossings between CPU and NPU, v81 (BigMoeOnEdge, docs/npu-prefill.md)"
HOT = "flash-resident token (arXiv 2605.16786, table 1): minus the share of I/O, compute and I/O being added up"
#: Rates of a hot device over those of a cool one (BigMoeOnEdge, random 4 MiB: 1645 of 2460 MiB/s).
HOT_FRACTION = 1645 / 2460
#: Llama-3.2-3B, and the vocabulary its head projects to.
SMALL, VOCABULARY = Shape(28, 3072, 3072, 1024, 8192), 128_256
#: Crossings of a token, one of them, and the token without (40-layer mixture of experts, 3.41 tokens/s).
CROSSINGS, TOKEN_S = 91, 1 / 3.41
LESS_WEIGHTS = 0.7


def perturbation_rows() -> Iterator[Row]:
    """Slopes of every perturbation, then how many have the right sign and how many lie within 30 %."""
    rows = [*_clock(), *_weights(), *_ordered(), *_crossings(), *_hot()]
    yield from rows
    slopes = [row for row in rows if row.unit in ("slope", "ln") and row.kind != "reported" and row.paper]
    judged = [row for row in slopes if row.kind == "predicted"]
    wrong = [row.id for row in slopes if (row.simulated or 0.0) * (row.paper or 0.0) <= 0]
    share, near = 1 - len(wrong) / len(slopes), sum(row.ok is True for row in judged) / len(judged)
    source = f"{len(slopes)} slopes above, {len(judged)} of them predicted"
    why = f"wrong: {', '.join(wrong) or 'none'}"
    yield Row("trends.perturbation.signs", source, "share", 1.0, share, None, "ordering", 0.0, why=why)
    missed = ", ".join(row.id for row in judged if not row.ok) or "none"
    yield Row(
        "trends.perturbation.within_30_percent", source, "share", None, near, None, "reported", why=f"not: {missed}"
    )


def _clock() -> Iterator[Row]:
    """The vote for the matrix unit's clock; decoding must not care."""
    specs = devices_of("oneplus_15")["npu"].spec
    clocks = math.log(specs.hmx_default_clock_hz / specs.hmx_clock_hz)
    for row in npu_rows():
        if row.id.startswith("npu.v81.clock."):
            paper, simulated = (math.log(value) / clocks for value in (row.paper or 1.0, row.simulated or 1.0))
            name = row.id.rpartition("clock.")[2]
            fitted = row.kind == "fitted"
            why = (
                "hmx_default_clock_hz"
                if fitted
                else (
                    "the clock ratio is not published, it was fitted to the 8B model; in the 1B's passes the matrix "
                    "unit has a smaller share of the time here: calls and vector work do not shrink with the model"
                )
            )
            yield Row(
                f"trends.perturbation.clock.{name}", VOTE, "slope", paper, simulated, None, row.kind, TOLERANCE, why=why
            )
    decode = [
        pass_ms(devices_of("oneplus_15", f"system.npu.hmx_corner={corner}")["npu"], SHAPES["llama-3.1-8b"], 1, 270)
        for corner in ("default", "max")
    ]
    yield Row(
        "trends.perturbation.clock.decode",
        "the same, decoding: time without over with the vote",
        "x",
        2314.84 / 2327.55,
        decode[0] / decode[1],
        None,
        "predicted",
        0.02,
        why="one row runs on vector threads",
    )


def _less(shape: Shape, m: int, kv: int) -> list[dict[str, int]]:
    """A layer whose matrices are smaller by 30 % and as many."""
    ops = layer(shape, m, kv)
    return [
        {**op, "weight_bytes": int(op["weight_bytes"] * LESS_WEIGHTS)} if "weight_bytes" in op else op for op in ops
    ]


def _weights() -> Iterator[Row]:
    """Fewer bytes of weights: one product, a batch of prefill, a decoded token."""
    whole = math.log(LESS_WEIGHTS)
    (operator,) = (row for row in npu_rows() if row.id == "npu.v81.weights.slope")
    yield Row(
        "trends.perturbation.weights.operator",
        LESS,
        "slope",
        operator.paper,
        operator.simulated,
        1.0,
        "predicted",
        TOLERANCE,
        why=operator.why,
    )
    npu, shape = devices_of("oneplus_15")["npu"], SHAPES["qwen3-8b"]
    slopes = {
        m: math.log(times_us(npu, _less(shape, m, 0)).sum() / times_us(npu, layer(shape, m, 0)).sum()) / whole
        for m in (64, 128, 256, 512)
    }
    why = "128 rows assumed, the batch is not described; " + ", ".join(f"{m} rows {s:.2f}" for m, s in slopes.items())
    paper = math.log(0.95 / 1.10) / whole
    yield Row(
        "trends.perturbation.weights.batch", LESS, "slope", paper, slopes[128], 1.0, "predicted", TOLERANCE, why=why
    )
    token = times_us(npu, _less(shape, 1, 64)).sum() / times_us(npu, layer(shape, 1, 64)).sum()
    why = (
        "throughput unchanged at 6 to 7 tokens/s; here too a one-row product is bound by its vector cycles, which were "
        "fitted on another phone, not by its bytes"
    )
    yield Row("trends.perturbation.weights.token", LESS, "x", 1.0, float(token), 0.7, "predicted", 0.05, why=why)


def _token_ms(devices: Mapping[str, Device]) -> float:
    return pass_ms(devices["npu"], SMALL, 1, 250) + head_ms(devices["cpu"], SMALL.hidden, VOCABULARY)


def _ordered() -> Iterator[Row]:
    """The in-order bit of DMA descriptors."""
    free, ordered = devices_of("oneplus_15"), devices_of("oneplus_15", "system.npu.dma_in_order=true")
    decode = math.log(_token_ms(ordered) / _token_ms(free))
    yield Row(
        "trends.perturbation.in_order.token",
        ORDERED,
        "ln",
        math.log(42.14 / 39.53),
        decode,
        None,
        "fitted",
        TOLERANCE,
        why="dma_order_ps",
    )
    yield Row(
        "trends.perturbation.in_order.level",
        "the same, time of a token without the bit",
        "ms",
        39.53,
        _token_ms(free),
        None,
        "predicted",
        0.10,
        why="nothing of this model or version was fitted",
    )
    prefill = [prefill_ms(devices, SMALL, 205, VOCABULARY) for devices in (free, ordered)]
    yield Row(
        "trends.perturbation.in_order.prefill",
        ORDERED,
        "x",
        992.17 / 979.93,
        prefill[1] / prefill[0],
        None,
        "predicted",
        0.02,
        why="prefill kernels of that version load with the vector threads",
    )
    blind = devices_of("oneplus_15", "system.npu.dma_in_order=true", "system.npu.dma_order_ps=600 ns")
    why = "what a part without dma_order_ps says: each descriptor pays its whole latency, ten times what was measured"
    yield Row(
        "trends.perturbation.in_order.whole_latency",
        ORDERED,
        "ln",
        math.log(42.14 / 39.53),
        math.log(_token_ms(blind) / _token_ms(free)),
        None,
        "reported",
        TOLERANCE,
        why=why,
    )


def _crossings() -> Iterator[Row]:
    """Host polling against waiting for an interrupt, and what the crossings of a token cost."""
    ways = ("system.npu.call=rpc",), ("system.npu.call=rpc", "system.npu.host_polls=true")
    leads = [devices_of("oneplus_15", *sets)["npu"].operator_call_ps for sets in ways]
    yield Row(
        "trends.perturbation.polling.crossing",
        CROSSING,
        "ln",
        math.log(0.5),
        math.log(leads[1] / leads[0]),
        None,
        "fitted",
        TOLERANCE,
        why="host_wake_ps",
    )
    slower = math.log(1 + CROSSINGS * leads[0] / 1e12 / TOKEN_S)
    why = "91 crossings at rpc_ps in a token of 293 ms; 11 % from a shell, 31 % in the app, which is not modelled"
    yield Row(
        "trends.perturbation.polling.token",
        CROSSING,
        "ln",
        math.log(1.11),
        slower,
        None,
        "predicted",
        TOLERANCE,
        why=why,
    )
    one = [float(times_us(devices_of("oneplus_15", *sets)["npu"], [matmul(1, 4096, 4096)])[0]) for sets in ways]
    yield Row(
        "trends.perturbation.polling.operator",
        "one-row product, 4096 x 4096, polled over waited for",
        "ln",
        None,
        math.log(one[1] / one[0]),
        None,
        "reported",
    )


def _hot() -> Iterator[Row]:
    """A hot flash device: the log-slope of a flash-resident token with the device's rates."""
    for target, (compute, io) in TOKEN_MS.items():
        job = {"target": target, "stream": "recorded:exit_layers:25", "tokens": 6}
        runs = [
            load(system="oneplus_12", schedule="flash_ar", job=job, sets=[f"system.flash.state={state}"])
            for state in ("cool", "hot")
        ]
        speeds = [run(one, trace="off").summary["decode_tokens_per_s"] for one in runs]
        slope = math.log(speeds[0] / speeds[1]) / math.log(HOT_FRACTION)
        odd = target == ODD
        yield Row(
            f"trends.perturbation.hot.{SHORT[target]}",
            HOT,
            "slope",
            -io / (compute + io),
            slope,
            -1.0,
            "predicted",
            TOLERANCE,
            why="published compute of the 4B exceeds that of the 8B" if odd else "",
        )
