"""Kernels of phone NPUs alone, against published measurements.

Per-matrix times are means over all matrices of a layer. What is fitted is said row by row; the values are in the part
files with the same words.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from archsim.devices.npu.alone import (
    SHAPES,
    Device,
    DType,
    devices_of,
    head_ms,
    matmul,
    matrices,
    pass_ms,
    path_gb_s,
    prefill_ms,
    product_gflop_s,
    shares,
    times_us,
    vector_gflop_s,
)
from archsim.reproduce.rows import Kind, Row

NPUSLOW = "8 Gen 3, Q4_0, six threads, mean per matrix (arXiv 2605.27435)"
EUROSYS = "V75, operands in VTCM (arXiv 2509.23324, Table 2)"
TMAN = "OnePlus 12 (arXiv 2511.11248, Table 2)"
POWERINFER = "OnePlus 12 (PowerInfer-2, arXiv 2406.06282)"
POWERSERVE = "Llama-3.1-8B on QNN (PowerServe)"
CDSP = "cdsp_peak micro-benchmark, INT8"
GGML = "ggml-hexagon on v81"
HETERO = "static graph, 8 Gen 3 (HeteroInfer, arXiv 2501.14794)"
GRAPH = ("system.npu.policy_one=static_graph", "system.npu.policy_many=static_graph")
BY_DMA = ("system.npu.hmx_weight_path=dma", "system.npu.hmx_activation_path=dma")
#: Rows, model, published us on the NPU and on the CPU.
PER_MATRIX = (
    (1, "llama-3.1-8b", 404, 646),
    (1, "qwen3-8b", 359, 589),
    (1, "qwen3-4b", 210, 324),
    (128, "llama-3.1-8b", 20_378, 16_085),
    (128, "qwen3-8b", 18_444, 12_033),
    (128, "qwen3-4b", 10_352, 7_181),
)
#: Tokens of a prompt and tokens per second, Qwen3-4B on v81 (llama.cpp #23368); the first runs on vector threads.
PROMPTS = ((25, 57.6), (128, 474.0), (256, 638.0), (512, 690.0), (1024, 628.0))
#: Shares of thread 0 in one operator (llama.cpp #26501).
STAGES = (("output", 0.447), ("dequant", 0.128), ("activation", 0.028))


PATH_NOTE = "load paths (vector threads, not DMA; masks by one thread) were chosen with prompts of 128 and more in view"
CLIFF_NOTE = "hmx_rows: HMX from 32 rows on, read off the cliff itself"
SLOPE_NOTE = "128 rows of 4096 x 4096, assumed: rows and shape are not published (0.44 at 256 rows, 0.27 at 512)"


def npu_rows() -> Iterator[Row]:
    """Rates, bandwidths, kernels, passes and perturbations."""
    phone = devices_of("oneplus_12")
    yield from _rates(phone)
    yield from _bandwidths(phone)
    yield from _per_matrix(phone)
    yield from _prompts()
    yield from _operator()
    yield from _graphs()
    yield from perturbation_rows()
    yield from _orders()


def _rates(phone: Mapping[str, Device]) -> Iterator[Row]:
    npu = phone["npu"]
    cube = product_gflop_s(npu, 1024)
    why = "hmx_clock_hz: 1.469 GHz"
    yield Row("npu.v75.gemm_1024", EUROSYS, "GFLOP/s", 12_032.5, cube, None, "fitted", 0.03, why=why)
    thread = vector_gflop_s(npu)
    yield Row("npu.v75.hvx_thread", EUROSYS, "GFLOP/s", 32.93, thread, None, "fitted", 0.03, why="fp16_mac_cycles")
    for part, tops, why in (
        ("hexagon_v68", 11.5, "8192 operations a cycle imply 1.404 GHz"),
        ("hexagon_v73", 50.0, "32,768 operations a cycle imply 1.526 GHz"),
    ):
        other = devices_of("oneplus_12", f"system.npu={part}")["npu"]
        found = product_gflop_s(other, 2048, int8=True) / 1e3
        yield Row(f"npu.{part[8:]}.int8", CDSP, "TOPS", tops, found, None, "fitted", 0.03, why=why)


def _bandwidths(phone: Mapping[str, Device]) -> Iterator[Row]:
    npu = phone["npu"]
    for path, threads, published, kind in (
        ("dma", 1, 59, "fitted"),
        ("l2fetch", 1, 26, "fitted"),
        ("l2fetch", 4, 32, "fitted"),
        ("vector", 1, 5, "fitted"),
        ("vector", 4, 20, "predicted"),
    ):
        rate = path_gb_s(npu, path, threads)
        yield Row(f"npu.{path}.threads{threads}", TMAN, "GB/s", published, rate, None, kind, 0.05)
    work = matrices(SHAPES["llama2-7b"], 1)
    size = sum(op["weight_bytes"] for op in work)
    alone = devices_of("oneplus_12", *GRAPH)["npu"]
    found = size / times_us(alone, work).sum() / 1e3
    yield Row("npu.stream.alone", POWERINFER, "GB/s", 56.0, found, 59.0, tolerance=0.05)
    pools = {pool.name: pool for device in phone.values() for pool in device.pools()}
    cpu = pools["cpu.bandwidth"].capacity / 1e9
    yield Row("cpu.stream.alone", POWERINFER, "GB/s", 43.9, cpu, None, "fitted", 0.05, why="bandwidth_bytes_per_s")
    both = pools["dram.bandwidth"].mix[frozenset({"cpu_seq_read", "npu_seq_read"})]
    together = min(both / 1e9, cpu + found)
    yield Row("npu.stream.with_cpu", POWERINFER, "GB/s", 59.6, together, cpu + found, "fitted", 0.05, why="mix of DRAM")


def _per_matrix(phone: Mapping[str, Device]) -> Iterator[Row]:
    for rows, model, on_npu, on_cpu in PER_MATRIX:
        work = matrices(SHAPES[model], rows)
        bytes_us = sum(op["weight_bytes"] for op in work) / len(work) / 59e3
        macs_us = 2 * sum(op["macs"] for op in work) / len(work) / phone["npu"].peak_ops_per_s() * 1e6
        for name, published in (("npu", on_npu), ("cpu", on_cpu)):
            found = times_us(phone[name], work).mean()
            fitted = (rows, model) == (1, "llama-3.1-8b") or (name == "cpu" and rows > 1)
            loose = (name, model, rows) == ("cpu", "qwen3-8b", 128)
            yield Row(
                f"{name}.matrix.{model}.rows{rows}",
                NPUSLOW,
                "us",
                published,
                found,
                max(bytes_us, macs_us) if name == "npu" else None,
                "fitted" if fitted else "predicted",
                0.20 if loose else 0.10,
                why=_matrix_note(name, rows, fitted),
            )
    yield from _batched(phone)


def _matrix_note(name: str, rows: int, fitted: bool) -> str:
    if fitted:
        return (
            "unpack cycles of a block"
            if name == "cpu" and rows == 1
            else "gemv_cycles"
            if rows == 1
            else "mean of three"
        )
    spilled = "no value is fitted; that activations beyond 1 MiB are fetched again was chosen knowing the cells"
    return spilled if name == "npu" and rows > 1 else ""


def _batched(phone: Mapping[str, Device]) -> Iterator[Row]:
    for rows, published in ((16, 591.0), (32, 970.0)):
        found = pass_ms(phone["npu"], SHAPES["llama-3.1-8b"], rows, 200)
        source = "layers of Llama-3.1-8B, projection taken off (arXiv 2605.16786, Table 2)"
        yield Row(f"npu.layers.rows{rows}", source, "ms", published, found, None, "fitted", 0.01, why="unpack, mac")


def _prompts() -> Iterator[Row]:
    phone = devices_of("oneplus_15")
    for tokens, speed in PROMPTS:
        found = tokens * 1e3 / prefill_ms(phone, SHAPES["qwen3-4b"], tokens, 151_936)
        null = phone["npu"].peak_ops_per_s() / (2 * 3.633e9)
        yield Row(
            f"npu.v81.pp{tokens}",
            f"{GGML}, Qwen3-4B (llama.cpp #23368)",
            "tok/s",
            speed,
            found,
            null,
            "fitted" if tokens == 128 else "predicted",
            0.15,
            why=PATH_NOTE if tokens > 25 else CLIFF_NOTE,
        )
    early = devices_of("oneplus_15", "system.npu.hmx_rows=5")
    cliff = [
        prefill_ms(d, SHAPES["qwen3-4b"], 25, 151_936) / prefill_ms(d, SHAPES["qwen3-4b"], 128, 151_936)
        for d in (phone, early)
    ]
    yield Row("npu.v81.cliff", f"{GGML}: 25 rows over 128 rows", "x", 434 / 270, cliff[0], tolerance=0.25)
    yield Row("npu.v81.cliff.hmx_from_5", f"{GGML}, HMX from five rows on", "x", None, cliff[1], kind="reported")


def _operator() -> Iterator[Row]:
    npu = devices_of("oneplus_15", *BY_DMA)["npu"]
    op, source = matmul(742, 2048, 6144), f"{GGML}, 2048 x 6144 Q4_0 x 742 rows (llama.cpp #26501)"
    null = 2 * op["macs"] / npu.peak_ops_per_s() * 1e6
    yield Row("npu.v81.operator", source, "us", 891.0, float(times_us(npu, [op])[0]), null, tolerance=0.15)
    found = shares(npu, op)
    for stage, share in STAGES:
        kind: Kind = "predicted" if stage == "dequant" else "fitted"
        why = {"output": "output_cycles", "activation": "convert_cycles"}.get(stage, "six contexts agree with it")
        yield Row(f"npu.v81.operator.{stage}", source, "of the time", share, found[stage], None, kind, 0.15, why=why)


def _graphs() -> Iterator[Row]:
    old, new = devices_of("oneplus_12", *GRAPH), devices_of("oneplus_ace5_pro", *GRAPH)
    shape = SHAPES["llama-3.1-8b"]
    first = 128e3 / pass_ms(old["npu"], shape, 128)
    yield Row(
        "npu.v75.graph.prefill", POWERSERVE, "tok/s", 468.0, first, None, "fitted", 0.02, why="graph_output_cycles"
    )
    types = {"dtype": DType.INT4, "adtype": DType.INT8}
    seven = 128e3 / pass_ms(old["npu"], SHAPES["llama2-7b"], 128, **types)
    source = f"7B, INT4 on QNN, {POWERINFER}"
    yield Row("npu.v75.graph.prefill_7b", source, "tok/s", 770.0, seven, tolerance=0.15, why="INT8 activations assumed")
    for name, devices, published in (("v75", old, 12.0), ("v79", new, 12.5)):
        ms = pass_ms(devices["npu"], shape, 1, 256) + head_ms(devices["cpu"], 4096, 128_256, DType.Q4_0)
        yield Row(f"npu.{name}.graph.decode", POWERSERVE, "tok/s", published, 1e3 / ms, tolerance=0.15)
    why = "HMX clock by the ratio of TOPS (1.45); the published speeds differ by 1.09"
    found = 128e3 / pass_ms(new["npu"], shape, 128)
    yield Row("npu.v79.graph.prefill", POWERSERVE, "tok/s", 509.0, found, tolerance=0.15, why=why)


def perturbation_rows() -> Iterator[Row]:
    """What changes when the matrix unit's clock is voted for, and when weights are smaller."""
    source = "256 tokens, default over voted HMX clock (llama.cpp #22334)"
    for model, published, kind in (("llama-3.1-8b", 2193 / 1721, "fitted"), ("llama-3.2-1b", 383 / 288, "predicted")):
        npus = [devices_of("oneplus_15", *BY_DMA, f"system.npu.hmx_corner={c}")["npu"] for c in ("default", "max")]
        found = [pass_ms(npu, SHAPES[model], 256) for npu in npus]
        why = "hmx_default_clock_hz; absolute times are far below those of that version"
        yield Row(f"npu.v81.clock.{model}", source, "x", published, found[0] / found[1], None, kind, 0.15, why=why)
    npu = devices_of("oneplus_15")["npu"]
    whole = matmul(128, 4096, 4096)
    less = dict(whole, weight_bytes=whole["weight_bytes"] * 7 // 10)
    before, after = times_us(npu, [whole, less])
    slope = math.log(after / before) / math.log(0.7)
    source = "log-slope of operator time with weight bytes, -30 % (llama.cpp #27785)"
    published = math.log(345 / 415) / math.log(0.7)
    yield Row(
        "npu.v81.weights.slope",
        source,
        "1",
        published,
        slope,
        1.0,
        tolerance=0.30,
        why=SLOPE_NOTE,
    )


def _orders() -> Iterator[Row]:
    npu = devices_of("oneplus_12", *GRAPH, "system.npu.graph_rows=[32,64,128,256,14336]")["npu"]
    found = 0.0
    for columns in (32, 64, 128, 256):
        large, small = times_us(npu, [matmul(14_336, 4096, columns, DType.FP16), matmul(columns, 4096, 14_336)])
        found = max(found, small / large)
    why = "tile products cost the same in both orders; the layout change behind the published factor is not modelled"
    yield Row("npu.v75.graph.order", HETERO, "x", 6.0, found, None, "reported", verdict="does_not_follow", why=why)
