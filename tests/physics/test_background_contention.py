"""One row against background streams: what it loses is what they take, and more of them never helps it."""

import itertools

import pytest

from archsim.device import DType, OpKind, make_ops
from archsim.session import build_job, declare, load
from archsim.session.background import start_background, with_streams
from archsim.workload.blocks import row_block

ROWS = {
    "npu": {"kind": OpKind.MATMUL, "m": 1, "k": 4096, "n": 262_144},
    "cpu": {"kind": OpKind.PROJECTION, "m": 1, "k": 4096, "n": 262_144},
    "flash": {"kind": OpKind.LOAD},
}
DRAM = {"kind": "dram", "period_ps": "1 ms", "stream": "cpu_seq_read", "inflight_bytes": "32 KiB"}


def beside(device, streams, parts=1):
    """Seconds of 0.6 GB on a device beside streams, in so many rows, and what each stream was served by then."""
    job = {"target": "smollm2-135m", "stream": "recorded:exit_layers:25"}
    data = {"system": "oneplus_12", "schedule": {"name": "resident_ar"}, "job": job, "background": streams}
    system, _, made = build_job(load(data))
    sim = declare(system.describe(), log="off")
    made.bind(sim)
    entry = {**ROWS[device], "weight_bytes": 604_000_000, "wdtype": DType.Q4_0, "adtype": DType.FP16, "parts": parts}
    block = row_block(made.planner.ops.lower(system.devices[device], "target", "compute", "row", make_ops([entry])))
    took = []

    def steps():
        began = sim.now
        yield sim.emit(block, label="target.row")
        took.append((sim.now - began) * 1e-12)

    start_background(sim, sim, made, [sim.process(steps(), "row")])
    sim.run()
    notes = sim.notes()
    kinds = [sim.kinds[kind] for kind in notes["kind"]]
    served = {kind: int(value) for kind, value in zip(kinds, notes["value"]) if kind.startswith("served.")}
    return took[0], served


def row_s(device, streams, parts=1):
    return beside(device, streams, parts)[0]


@pytest.mark.parametrize("device", ["npu", "cpu"])
def test_more_memory_traffic_never_speeds_a_row_up(device):
    rates = (1, 5, 10, 20, 30, 40, 50)
    times = [row_s(device, {})]
    times += [row_s(device, {"x": {**DRAM, "read_bytes_per_s": f"{rate} GB/s"}}) for rate in rates]
    for rate, before, after in zip(rates, times, times[1:]):
        assert after >= before * (1 - 1e-6), rate
    assert times[-1] > 1.3 * times[0]


def test_what_a_row_loses_is_what_the_stream_takes():
    alone = row_s("npu", {})
    capacity = 59.6e9  # PowerInfer-2: CPU and NPU together
    for rate in (10, 20, 40):
        seconds, served = beside("npu", {"x": {**DRAM, "read_bytes_per_s": f"{rate} GB/s"}})
        assert served["served.x"] > 0.5 * rate * 1e9 * seconds
        # while the stream is away the row runs at its own rate, below the memory's
        assert 0.604e9 + served["served.x"] <= capacity * seconds * 1.01
        assert seconds >= alone


@pytest.mark.parametrize("kind", ["flash", "cpu"])
def test_more_of_a_queue_or_of_cores_never_helps_who_needs_them(kind):
    if kind == "flash":
        entry, device = {"kind": "flash", "period_ps": "10 ms"}, "flash"
        streams = [{"x": {**entry, "read_bytes_per_s": f"{rate} MB/s"}} for rate in (50, 200, 800, 2000)]
    else:
        entry, device = {"kind": "cpu", "period_ps": "2 ms", "core_class": "performance"}, "cpu"
        streams = [{"x": {**entry, "core_share": share, "threads": 4}} for share in (0.4, 1.0, 2.0, 4.0)]
    # a row is never interrupted: what waits in a queue are the parts of a load
    times = [row_s(device, stream, parts=16) for stream in ({}, *streams)]
    assert all(after >= before * (1 - 1e-6) for before, after in itertools.pairwise(times))
    assert times[-1] > 1.04 * times[0]


def test_streams_of_a_machine_are_after_its_own_devices():
    resolved = load({"system": "oneplus_12", "schedule": {"name": "resident_ar"},
                     "job": {"target": "smollm2-135m", "stream": "recorded:exit_layers:25"},
                     "background": {"x": "display_60hz"}})  # fmt: skip
    system, _, _ = build_job(resolved)
    plain = [unit.name for unit in system.units if unit.name != "x.burst"]
    assert [unit.name for unit in system.units] == [*plain, "x.burst"]
    assert with_streams(system, {}).binding.units == system.binding.units
