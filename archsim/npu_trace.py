"""``archsim trace npu``: one operator on an NPU's kernels, or one matrix product on a systolic array."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from archsim.config import load_config
from archsim.device import DType, OpKind, Ops, dtype_bytes, make_ops
from archsim.devices.npu import UNPACK, Npu
from archsim.devices.npu.alone import changes_alone
from archsim.devices.npu.numbers import POLICIES
from archsim.devices.npu.systolic import Array, Systolic, fold_count, fold_starts, multiply, parse_array, shape_of
from archsim.devices.npu.timeline import STAGES, StageTable, busy_milli, stages
from archsim.report.stages import Slices, stage_figure, stage_perfetto
from archsim.report.style import save
from archsim.system import System, pool_fixed
from archsim.units import COEF_BITS, InputError, parse, quote, suggest

MAX_SIDE = 1 << 22
MAX_DRAWN_FOLDS = 1 << 16
MAX_DRAWN_SLICES = 1 << 21
#: Half of what a row of the engine holds (2**35 bytes in its fixed point).
MAX_BYTES = 1 << 34
PS_PER_S = 10**12
OPS = ("matmul", "attention", "norm", "rope", "softmax", "swiglu")
#: Sizes that each operator takes.
SIZES: Mapping[str, tuple[str, ...]] = {
    "matmul": ("m", "k", "n"),
    "attention": ("m", "kv", "heads", "kv_heads", "head_dim"),
    **dict.fromkeys(("norm", "rope", "softmax", "swiglu"), ("m", "k")),
}
ARRAY_STAGES = ("wait", "fill", "stream", "skew")
#: Types that an array multiplies, with the bytes of a word.
WORDS = {"int8": 1, "fp16": 2, "bf16": 2, "fp32": 4}


class Request(NamedTuple):
    """An operator as asked for: name, sizes (None: not given) and data type of the weights or the array's words."""

    op: str
    sizes: Mapping[str, int | None]
    dtype: str | None


@dataclass(frozen=True)
class Traced:
    """Outcome: the document of ``--json``, and what is drawn."""

    document: dict[str, Any]
    tracks: tuple[str, ...]
    slices: Slices | None
    title: str


def write(traced: Traced, perfetto: Path | None, figure: Path | None) -> None:
    """Write the Perfetto trace and the figure that were asked for."""
    if traced.slices is None or not traced.slices.track.size:
        return
    if figure is not None:
        save(stage_figure(traced.tracks, traced.slices, traced.title), figure)
    if perfetto is not None:
        stage_perfetto(traced.tracks, traced.slices, traced.title, perfetto)


def sizes_of(request: Request) -> dict[str, int]:
    """Sizes of an operator, checked.

    Raises
    ------
    InputError
        For an unknown operator, a size that is missing, not wanted or out of range.
    """
    if request.op not in OPS:
        raise InputError(f"no operator {quote(request.op)}; {suggest(request.op, OPS)}")
    found = {}
    for name, value in request.sizes.items():
        option = f"--{name.replace('_', '-')}"
        if name not in SIZES[request.op]:
            if value is not None:
                raise InputError(f"{request.op} takes no {option}")
            continue
        if name == "kv_heads" and value is None:
            value = request.sizes["heads"]
        if value is None:
            raise InputError(f"{request.op} needs {option}")
        least = 0 if name == "kv" else 1
        if not least <= value <= MAX_SIDE:
            raise InputError(f"{option} is {value}; it must be between {least} and {MAX_SIDE}")
        found[name] = value
    if request.op == "attention" and found["heads"] % found["kv_heads"]:
        raise InputError(f"--heads {found['heads']} is no multiple of --kv-heads {found['kv_heads']}")
    return found


def build_op(op: str, sizes: Mapping[str, int], dtype: DType) -> Ops:
    """Columns of one operator; activations are FP16, or INT8 beside INT8 weights; the KV cache is FP16."""
    act = DType.INT8 if dtype == DType.INT8 else DType.FP16
    m = sizes["m"]
    if op == "matmul":
        k, n = sizes["k"], sizes["n"]
        entry = {"kind": OpKind.MATMUL, "k": k, "n": n, "wdtype": dtype, "weight_bytes": n * dtype_bytes(dtype, k)}
        entry |= {"in_bytes": m * dtype_bytes(act, k), "out_bytes": m * dtype_bytes(act, n), "macs": m * k * n}
    elif op == "attention":
        kv, heads, width = sizes["kv"], sizes["heads"], sizes["head_dim"]
        pairs = m * kv + m * (m + 1) // 2
        entry = {"kind": OpKind.ATTENTION, "kv": kv, "heads": heads, "kv_heads": sizes["kv_heads"], "head_dim": width}
        entry |= {"kv_bytes": 2 * (kv + m) * sizes["kv_heads"] * width * 2, "macs": 2 * heads * width * pairs}
        entry |= {"in_bytes": 2 * m * heads * width, "out_bytes": 2 * m * heads * width, "kvdtype": DType.FP16}
    else:
        kind = {"norm": OpKind.NORM, "rope": OpKind.ROPE}.get(op, OpKind.ELEMENTWISE)
        row = 2 * sizes["k"] * m
        entry = {"kind": kind, "k": sizes["k"], "in_bytes": row * (2 if op == "swiglu" else 1), "out_bytes": row}
        if op == "norm":
            entry["weight_bytes"] = 4 * sizes["k"]
    return make_ops([{**entry, "m": m, "adtype": act}])


def on_system(request: Request, system: str, kernel: str | None, sets: Sequence[str], *, draw: bool) -> Traced:
    """Run an operator alone on a system's NPU under a kernel policy (None: the system's own for that many rows).

    Raises
    ------
    InputError
        For anything wrong with the operator, the system or the kernel.
    """
    sizes = sizes_of(request)
    name = (request.dtype or "fp16").upper()
    known = [dtype.name.lower() for dtype in UNPACK]
    if name.lower() not in known:
        raise InputError(f"no data type {quote(request.dtype or '')}; {suggest(name.lower(), known)}")
    if kernel is not None and kernel not in POLICIES:
        raise InputError(f"no kernel {quote(kernel)}; {suggest(kernel, POLICIES)}")
    machine, npu, policy = _npu(request.op, system, kernel, sets, sizes["m"])
    ops = build_op(request.op, sizes, DType[name])
    # kernels that take rows one by one stream the weights as often
    most = sizes["m"] * int(ops.weight_bytes[0]) + int(ops.in_bytes[0] + ops.out_bytes[0] + ops.kv_bytes[0])
    if most > MAX_BYTES:
        raise InputError(f"{request.op} moves {most:,} bytes where rows go one by one; at most {MAX_BYTES:,}")
    try:
        rows = npu.lower(ops)
    except ValueError as error:
        raise InputError(f"{request.op} cannot run: {' '.join(str(error).split())}") from None
    table = stages(npu, ops, rows, policy)
    document = {
        "op": request.op,
        **sizes,
        "dtype": name.lower(),
        "system": machine.name,
        "kernel": policy,
        "resolution": "tile" if _walked(table) else "operator",
        **_numbers(machine, npu, ops, rows, table),
    }
    lead_ps = int(rows.lead.sum())
    if draw and len(table.stage) > MAX_DRAWN_SLICES:
        raise InputError(f"{len(table.stage)} slices are too many to draw; at most {MAX_DRAWN_SLICES}")
    slices = Slices(table.stage, *(_to_ps(npu, column, lead_ps) for column in table[1:3]), table.tile)
    label = "x".join(str(size) for size in sizes.values())
    return Traced(document, STAGES, slices if draw else None, f"{request.op} {label} {name.lower()}, {policy}")


def _walked(table: StageTable) -> bool:
    return bool((table.tile >= 0).any())


def _npu(op: str, system: str, kernel: str | None, sets: Sequence[str], rows: int) -> tuple[System, Npu, str]:
    """Return the system with the kernel in force, its NPU, and the policy for that many rows."""
    resolved = load_config("system", system, tuple(sets))
    machine = System.from_data(resolved.data, resolved.sources)
    npu = next((device for device in machine.devices.values() if isinstance(device, Npu)), None)
    if npu is None:
        raise InputError(f"system {machine.name!r} has no NPU with kernels to choose; it has: {_devices(machine)}")
    changes: dict[str, Any] = {} if kernel is None else {"policy_one": kernel, "policy_many": kernel}
    changes |= changes_alone(op, npu.spec)
    if changes:
        npu = Npu(npu.name, npu.spec.model_copy(update=changes))
        npu.bind(machine.binding)
    return machine, npu, npu.spec.policy_one if rows == 1 else npu.spec.policy_many


def _devices(machine: System) -> str:
    return ", ".join(f"{name} ({type(device).__name__})" for name, device in machine.devices.items())


def _to_ps(npu: Npu, milli: np.ndarray, lead_ps: int) -> np.ndarray:
    hz = round(npu.spec.clock_hz)
    return np.array([lead_ps + value * (PS_PER_S // 1000) // hz for value in milli.tolist()], np.int64)


def _numbers(machine: System, npu: Npu, ops: Ops, rows: Any, table: StageTable) -> dict[str, Any]:
    """Cycles, rates, traffic, shares and the place under the roofline of a lowered operator."""
    lead_ps, alone_ps, unhindered_ps = int(rows.lead.sum()), 0, 0
    for i in range(rows.op.size):
        rate = int(rows.cap[i])
        for pool, coef in zip(rows.pool[i].tolist(), rows.coef[i].tolist()):
            if pool >= 0 and coef > 0:
                rate = min(rate, (pool_fixed(machine.pools[pool], machine.pools[pool].capacity) << COEF_BITS) // coef)
        alone_ps += -(-int(rows.work[i]) // rate)
        unhindered_ps += -(-int(rows.work[i]) // int(rows.cap[i]))
    time_ps, hz = lead_ps + alone_ps, npu.spec.clock_hz
    total_milli = round(time_ps * hz / PS_PER_S * 1000)
    busy = busy_milli(table)
    worker = "hmx" if busy["hmx"] else "hvx"
    working = busy["hmx"] or busy["hvx"] + busy["dequant"]
    shares = {name: value / max(total_milli, 1) for name, value in busy.items()}
    traffic = {key: int(rows.counts[:, [i for i, a in enumerate(rows.actions) if a.endswith(f".{key}")]].sum())
               for key in ("read_bits", "write_bits", "vtcm_read_bytes", "vtcm_write_bytes")}  # fmt: skip
    moved = (traffic["read_bits"] + traffic["write_bits"]) // 8
    flop, seconds = 2 * int(ops.macs[0]), time_ps / PS_PER_S
    return {
        "cycles": -(-total_milli // 1000),
        "time_us": time_ps / 1e6,
        "call_us": lead_ps / 1e6,
        "tflop_s": flop / seconds / 1e12,
        "utilisation": flop / seconds / _peak(npu, ops),
        "stall_cycles": max(total_milli - round(lead_ps * hz / PS_PER_S * 1000) - working, 0) // 1000,
        "stalled_unit": worker,
        "memory_wait_cycles": round((alone_ps - unhindered_ps) * hz / PS_PER_S),
        "sram": {"read_bytes": traffic["vtcm_read_bytes"], "write_bytes": traffic["vtcm_write_bytes"]},
        "dram": {
            "read_bytes": traffic["read_bits"] // 8,
            "write_bytes": traffic["write_bits"] // 8,
            "bandwidth_gb_s": moved / seconds / 1e9,
        },
        "shares": {**shares, "call": lead_ps / time_ps},
        "roofline": _roofline(flop, moved, seconds, _peak(npu, ops), _bandwidth(machine, npu)),
    }


def _peak(npu: Npu, ops: Ops) -> float:
    """Rate of the matrix units for the operator's activations, operations per second."""
    return npu.peak_int8_ops_per_s() if ops.adtype[0] == DType.INT8 else npu.peak_ops_per_s()


def _bandwidth(machine: System, npu: Npu) -> float:
    return min(npu.spec.dma_bytes_per_s, machine.devices[npu.spec.memory].bandwidth_bytes_per_s())


def _roofline(flop: int, moved: int, seconds: float, peak: float, bandwidth: float) -> dict[str, Any]:
    """Where work stands under a roof of `peak` operations and `bandwidth` bytes per second."""
    intensity = flop / moved if moved else 0.0
    ceiling = min(peak, intensity * bandwidth) if moved else peak
    return {
        "intensity_flop_per_byte": intensity,
        "ridge_flop_per_byte": peak / bandwidth,
        "bound": "memory" if moved and intensity * bandwidth < peak else "compute",
        "ceiling_tflop_s": ceiling / 1e12,
        "fraction_of_ceiling": flop / seconds / ceiling if ceiling else 0.0,
    }


def parse_sram(text: str) -> tuple[int, int, int]:
    """Bytes of the SRAMs of input, weights and results: ``"512 KiB"`` for all, or three, with commas between."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) not in (1, 3):
        raise InputError(
            f"SRAM {quote(text)} is not one size or three with commas; for example '512 KiB,512 KiB,256 KiB'"
        )
    sizes = [int(parse(part, "B")) for part in parts]
    return (sizes * 3)[0], (sizes * 3)[1], (sizes * 3)[2]


def on_array(
    request: Request, shape_text: str, dataflow: str, *, sram: str, link: int, clock: str, draw: bool
) -> Traced:
    """Run a matrix product on a systolic array.

    Raises
    ------
    InputError
        For anything wrong with the product or the array.
    """
    if request.op in OPS and request.op != "matmul":
        raise InputError(f"an array runs matmul, not {request.op}; give --system for the others")
    shape, sizes = parse_array(shape_text), sizes_of(request)
    word = request.dtype.lower() if request.dtype else "int8"
    if word not in WORDS:
        raise InputError(f"an array has no words of {quote(word)}; {suggest(word, tuple(WORDS))}")
    array = Array(*shape, dataflow, *parse_sram(sram), word_bytes=WORDS[word], link_words=link)
    hz = float(parse(clock, "Hz"))
    if not 1e6 <= hz <= 1e12:
        raise InputError(f"clock {quote(clock)} is outside 1 MHz to 1 THz")
    product = sizes["m"], sizes["k"], sizes["n"]
    folds = fold_count(shape_of(array, *product))
    if draw and folds > MAX_DRAWN_FOLDS:
        raise InputError(f"{folds} folds are too many to draw; at most {MAX_DRAWN_FOLDS}")
    found = multiply(array, *product)
    label = f"{shape[0]}x{shape[1]} {dataflow}"
    document = {"op": "matmul", **sizes, "dtype": word, "array": f"{shape[0]}x{shape[1]}", "dataflow": dataflow,
                **_array_numbers(found, hz)}  # fmt: skip
    title = f"matmul {'x'.join(str(size) for size in sizes.values())} {word}, {label}"
    return Traced(document, ARRAY_STAGES, _array_slices(found, hz) if draw else None, title)


def _array_numbers(found: Systolic, hz: float) -> dict[str, Any]:
    """Document of a product on an array: cycles in SCALE-Sim's numbering, the rest with the length."""
    array, length = found.array, found.length_cycles
    seconds, flop = length / hz, 2 * found.macs
    fill = 0 if array.dataflow == "os" else array.rows
    skew = array.rows + array.cols - 2
    moved = (found.ifmap_dram_reads + found.filter_dram_reads + found.ofmap_dram_writes) * array.word_bytes
    # three links of `link_words` each; without a limit the roof is flat
    bandwidth = 3 * array.link_words * array.word_bytes * hz
    busiest = max(found.ifmap_dram_reads, found.filter_dram_reads, found.ofmap_dram_writes)
    peak = 2.0 * array.rows * array.cols * hz
    roof = _roofline(flop, moved, seconds, peak, bandwidth) if bandwidth else {
        "intensity_flop_per_byte": flop / moved, "bound": "compute", "ceiling_tflop_s": peak / 1e12,
        "fraction_of_ceiling": flop / seconds / peak}  # fmt: skip
    return {
        "cycles": found.scalesim_cycles,
        "length_cycles": length,
        "time_us": seconds * 1e6,
        "tflop_s": flop / seconds / 1e12,
        "utilisation": found.utilisation,
        "mapping_efficiency": found.mapping_efficiency,
        "stall_cycles": found.stall_cycles,
        "prefetch_cycles": found.prefetch_cycles,
        "drain_cycles": found.drain_cycles,
        "folds": found.folds,
        "fold_cycles": found.fold_cycles,
        "sram": {
            "ifmap_reads": found.ifmap_reads,
            "filter_reads": found.filter_reads,
            "ofmap_writes": found.scalesim_ofmap_writes,
            "ofmap_words": found.ofmap_writes,
        },
        "dram": {
            "ifmap_reads": found.ifmap_dram_reads,
            "filter_reads": found.filter_dram_reads,
            "ofmap_writes": found.ofmap_dram_writes,
            "word_bytes": array.word_bytes,
            "bandwidth_gb_s": moved / seconds / 1e9,
        },
        "shares": {
            "dma": min(busiest / array.link_words / length, 1.0) if array.link_words else 0.0,
            "dequant": 0.0,
            "activation": found.folds * fill / length,
            "hmx": found.folds * (found.fold_cycles - fill - skew) / length,
            "output": found.folds * skew / length,
            "flush": 0.0,
            "wait": found.stall_cycles / length,
        },
        "roofline": roof,
    }


def _array_slices(found: Systolic, hz: float) -> Slices:
    """Fill, stream and skew of every fold, the waits between folds, and the last wait for room for results."""
    starts = fold_starts(found.array, found.m, found.k, found.n)
    fill = 0 if found.array.dataflow == "os" else found.array.rows
    skew = found.array.rows + found.array.cols - 2
    ends = starts + found.fold_cycles
    before = np.concatenate(([0], ends[:-1]))
    edges = ((before, starts), (starts, starts + fill), (starts + fill, ends - skew), (ends - skew, ends))
    number = np.arange(found.folds)
    columns = [
        np.concatenate(parts)
        for parts in zip(*((np.full(found.folds, i), a, b, number) for i, (a, b) in enumerate(edges)))
    ]
    last = (0, int(ends[-1]), found.length_cycles, found.folds - 1)
    columns = [np.append(column, value) for column, value in zip(columns, last)]
    kept = columns[2] > columns[1]
    track, start, end, piece = (column[kept] for column in columns)
    ps = PS_PER_S / hz
    return Slices(track, np.rint(start * ps).astype(np.int64), np.rint(end * ps).astype(np.int64), piece)
