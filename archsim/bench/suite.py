"""The list of measurements, their aims, and the machine they were taken on."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from archsim import __version__, source_digest
from archsim.bench import kernels, runs
from archsim.units import InputError, quote

REPEATS = 5


@dataclass(frozen=True)
class Benchmark:
    """One figure.

    Attributes
    ----------
    name, unit : str
        What is measured and in what.
    prepare : Callable
        Gets everything ready (kernels compiled, inputs made) and returns a function that measures once.
    aim : float or None
        Bound that the figure should keep.
    most : bool
        The bound is an upper one.
    repeats : int
        Measurements that are taken.
    long : bool
        It takes minutes; left out of a quick round.
    """

    name: str
    unit: str
    prepare: Callable[[], Callable[[], float]]
    aim: float | None = None
    most: bool = True
    repeats: int = REPEATS
    long: bool = False


def _peak(name: str, times: int = 1, **job: Any) -> Callable[[], Callable[[], float]]:
    return lambda: lambda: runs.peak(name, times, **job)["peak_mb"]


def _process(*arguments: str, cold: bool = False) -> Callable[[], Callable[[], float]]:
    return lambda: lambda: runs.process_s(arguments, cold=cold)


SUITE = (
    Benchmark("machine.python", "ns/addition", kernels.python_addition),
    Benchmark("machine.jit", "ns/product", kernels.jitted_multiplication),
    Benchmark("engine.12x4", "events/s", lambda: kernels.engine(12, 4), 5e6, most=False),
    Benchmark("engine.40x10", "events/s", lambda: kernels.engine(40, 10), 1.5e6, most=False),
    Benchmark("engine.emit", "ns/row", kernels.emission),
    Benchmark("lowering", "operators/s", kernels.lowering),
    Benchmark("npu.matmul", "us/shape", kernels.npu_shape, 50.0),
    Benchmark("dram.sequential", "us/request", lambda: kernels.dram("sequential"), 0.10),
    Benchmark("dram.random", "us/request", lambda: kernels.dram("random reads"), 0.45),
    Benchmark("dram.mixed", "us/request", lambda: kernels.dram("random 2:1"), 0.60),
    Benchmark("pim.512_rows", "ms", kernels.pim, 20.0),
    Benchmark("flash.rand_read", "us/request", lambda: kernels.flash("rand_read", 16384, 32)),
    Benchmark("flash.seq_read", "us/request", lambda: kernels.flash("seq_read", 131072, 8)),
    Benchmark("run.lever", "s", lambda: runs.run_cpu("lever"), 0.25),
    Benchmark("run.llada", "s", lambda: runs.run_cpu("llada"), 0.5),
    Benchmark("run.ahasd", "s", lambda: runs.run_cpu("ahasd"), 2.0, repeats=3),
    Benchmark("start.help", "s", _process("--help"), 0.4),
    Benchmark("start.warm", "s", _process(*runs.SMALLEST), 1.5),
    Benchmark("start.cold", "s", _process(*runs.SMALLEST, cold=True), 60.0, repeats=1, long=True),
    Benchmark("memory.lever", "MB", _peak("lever"), 400.0, repeats=1),
    Benchmark("memory.llada", "MB", _peak("llada"), 400.0, repeats=1),
    Benchmark("memory.ahasd", "MB", _peak("ahasd"), 400.0, repeats=1),
    Benchmark("memory.ahasd_four_runs", "MB", _peak("ahasd", 4), 400.0, repeats=1, long=True),
    Benchmark("memory.llada_200_prompts", "MB", _peak("llada", prompts=200), 400.0, repeats=1, long=True),
    Benchmark("memory.ten_million_rows", "MB", _peak("llada", prompts=240), 400.0, repeats=1, long=True),
)


def chosen(only: Sequence[str], *, quick: bool = False) -> list[Benchmark]:
    """Benchmarks whose name is, or begins with, one of `only` (all where it is empty); `quick` leaves out long ones.

    Raises
    ------
    InputError
        For a name that none begins with.
    """
    for name in only:
        if not any(_named(bench.name, name) for bench in SUITE):
            raise InputError(f"--only {quote(name)}: no such benchmark; there is: {', '.join(b.name for b in SUITE)}")
    return [
        bench
        for bench in SUITE
        if (not only or any(_named(bench.name, name) for name in only)) and not (quick and bench.long)
    ]


def _named(name: str, wanted: str) -> bool:
    return name == wanted or name.startswith(wanted.rstrip(".") + ".")


def measure(bench: Benchmark, *, quick: bool = False) -> dict[str, Any]:
    """Measure one figure.

    Returns
    -------
    dict
        ``name``, ``unit``, ``best`` and ``median`` of the repeats, ``repeats``, ``aim`` and ``verdict``: ``ok`` or
        ``missed`` by the best (other work on the machine only makes it worse), empty without an aim.
    """
    once = bench.prepare()
    values = [once() for _ in range(min(bench.repeats, 2) if quick else bench.repeats)]
    best = min(values) if bench.most else max(values)
    verdict = ""
    if bench.aim is not None:
        verdict = "ok" if (best <= bench.aim if bench.most else best >= bench.aim) else "missed"
    return {
        "name": bench.name,
        "unit": bench.unit,
        "best": best,
        "median": median(values),
        "repeats": len(values),
        "aim": bench.aim,
        "verdict": verdict,
    }


def machine() -> dict[str, Any]:
    """What the figures depend on: processor, load, versions, sources."""
    return {
        "cpu": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "load_1min": os.getloadavg()[0],
        "python": platform.python_version(),
        **{name: version(name) for name in ("numpy", "numba", "pyarrow")},
        "archsim": __version__,
        "kernel_sources": source_digest(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()
