"""CPU time of the engine, of lowering, and of the command kernels of the devices, warm and on one thread."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from archsim.bench.products import products
from archsim.engine.bench import measure


def cpu_s(work: Callable[[], Any]) -> float:
    """CPU seconds of this process that `work` takes; it is repeated until the clock of the CPU has moved."""
    began, spent, times = time.process_time(), 0.0, 0
    while spent <= 0:
        work()
        times += 1
        spent = time.process_time() - began
    return spent / times


def python_addition(times: int = 1_000_000) -> Callable[[], float]:
    """Nanoseconds of one addition in a loop of the interpreter: how fast the machine is, whatever archsim does."""

    def loop() -> int:
        total = 0
        for i in range(times):
            total += i
        return total

    return lambda: cpu_s(loop) / times * 1e9


def jitted_multiplication(times: int = 20_000_000) -> Callable[[], float]:
    """Nanoseconds of one step of a chain of dependent 64-bit products in a jitted loop: the clock, about."""
    products(1)
    return lambda: cpu_s(lambda: products(times)) / times * 1e9


def engine(units: int, pools: int, rows: int = 400_000) -> Callable[[], float]:
    """Events per CPU second of `units` units that contend for `pools` pools."""
    measure(units, pools, 40 * units)
    return lambda: measure(units, pools, rows)["events_per_s"]


def emission() -> Callable[[], float]:
    """Nanoseconds per row to emit a block of 400 rows."""
    return lambda: measure(12, 4, 480)["emit_ns_per_row"]


def lowering(policy: str = "ggml_hmx", times: int = 200) -> Callable[[], float]:
    """Operators per CPU second that the NPU lowers, none of them known before: products of a prefill."""
    from archsim.device import make_ops
    from archsim.devices.npu.alone import devices_of, matmul

    npu = devices_of("oneplus_15", f"system.npu.policy_many={policy}")["npu"]
    ops = [make_ops([matmul(128, 2560, 1024 + 32 * i)]) for i in range(times)]
    npu.lower(ops[0])
    return lambda: times / cpu_s(lambda: [npu.lower(op) for op in ops])


def npu_shape(rows: int = 128, times: int = 100) -> Callable[[], float]:
    """Microseconds to lower one matrix product on the NPU."""
    from archsim.device import make_ops
    from archsim.devices.npu.alone import devices_of, matmul

    npu = devices_of("oneplus_15")["npu"]
    ops = make_ops([matmul(rows, 2560, 9728)])
    npu.lower(ops)
    return lambda: cpu_s(lambda: [npu.lower(ops) for _ in range(times)]) / times * 1e6


def dram_requests(kind: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Addresses and write flags of `count` requests: ``sequential``, ``random reads`` or ``random 2:1``."""
    draws = np.random.default_rng(3)
    if kind == "sequential":
        return np.arange(count) * 32 % (1 << 31), np.zeros(count, np.int64)
    address = draws.integers(0, 1 << 26, count) * 32
    mixed = (np.arange(count) % 3 == 2).astype(np.int64)
    return address, mixed if kind == "random 2:1" else np.zeros(count, np.int64)


def dram(kind: str, controller: str = "mobile", count: int = 200_000) -> Callable[[], float]:
    """Microseconds per request of the DRAM command kernel."""
    from archsim.devices.dram.controller import load_memory
    from archsim.devices.dram.replay import replay_columns

    memory = load_memory("lpddr5-6400", controller)
    address, write = dram_requests(kind, count)
    replay_columns(memory, address[:100], write[:100])
    return lambda: replay_columns(memory, address, write).cpu_s / count * 1e6


def pim(device: str = "lpddr5_aim_refab") -> Callable[[], float]:
    """Milliseconds for a product of 512 rows on 32 channels, command by command."""
    from archsim.devices.pim.replay import replay
    from archsim.streams.opening import packed_traces

    trace = packed_traces() / "pim" / "mac_512rows_32ch.trace"
    replay(device, trace)
    return lambda: replay(device, trace).cpu_s * 1e3


def flash(pattern: str, size_bytes: int, depth: int, count: int = 50_000) -> Callable[[], float]:
    """Microseconds per request of the flash kernel."""
    from archsim.devices.flash.replay import device_spec, run_pattern

    spec = device_spec("ufs_2ch_2chip_2die_4pl")
    run_pattern(spec, pattern, size_bytes, 1000, depth=depth)
    return lambda: run_pattern(spec, pattern, size_bytes, count, depth=depth).cpu_s / count * 1e6
