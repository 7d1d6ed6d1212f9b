"""A hand-made run that the tests of traces and reports share, and a check that it is what they think it is."""

import numpy as np

from archsim.device import Cost
from archsim.trace import Trace, build_manifest

US = 10**6
BYTE = 1 << 28

# row: unit, op, block, start, flow, end (us), status, work, done (bytes), lead (us)
ROWS = [
    (0, 0, 0, 0, 2, 10, 0, 1000, 1000, 2),  # prefill: load
    (1, 1, 0, 10, 10, 20, 0, 500, 500, 0),  # prefill: compute
    (-1, -1, 0, 20, 20, 20, 0, 0, 0, 0),
    (1, 2, 1, 20, 21, 24, 0, 60, 60, 1),  # draft, 2 of 4 accepted
    (0, 0, 2, 20, 22, 28, 0, 1000, 1000, 2),  # verify: load
    (1, 1, 2, 28, 28, 36, 0, 500, 500, 0),  # verify: compute
    (1, 3, 2, 36, 38, 38, 0, 0, 0, 2),  # verify: projection, nothing but latency
    (1, 2, 3, 24, 25, 26, 1, 60, 15, 1),  # look-ahead draft, cut after a quarter of its work
    (1, 2, 3, -1, -1, 26, 2, 60, 0, 0),  # look-ahead draft, cut before it started
    (2, 4, 4, 38, 38, 39, 1, 4, 1, 0),  # control, cut after a quarter of its time
    (-1, -1, 4, -1, -1, 39, 2, 0, 0, 0),
]
BLOCKS = [  # label, role, phase, emit, end, useful, total, status
    ("prefill", "target", "prefill", 0, 20, 0, 0, 0),
    ("draft", "draft", "draft", 20, 24, 2, 4, 0),
    ("verify", "target", "verify", 20, 38, 3, 5, 0),
    ("ahead", "draft", "draft", 24, 26, 0, 0, 1),
    ("control", "control", "control", 38, 39, 0, 0, 1),
]
OPS = [  # device, kind, name, role, phase, m, k, n, macs, weight_bytes
    ("flash", "LOAD", "load", "target", "io", 1, 0, 0, 0, 1000),
    ("npu", "MATMUL", "wq", "target", "compute", 5, 20, 10, 1000, 400),
    ("npu", "MATMUL", "draft.wq", "draft", "draft", 1, 10, 6, 60, 60),
    ("npu", "PROJECTION", "lm_head", "target", "projection", 5, 20, 2, 200, 0),
    ("cpu", "CONTROL", "accept", "control", "control", 0, 0, 9, 0, 0),
]
COUNTS = [
    (0, "flash.page", 2),
    (0, "flash.read_bytes", 1000),
    (0, "dram.write_bytes", 1000),
    (1, "npu.mac", 1000),
    (1, "dram.read_bits", 4000),
    (2, "npu.mac", 60),
    (2, "dram.read_bits", 480),
    (3, "npu.mac", 200),
    (4, "cpu.instruction", 8),
]
NOTES = [  # us, kind, value, extra
    (0, "arrival", 0, 0),
    (20, "commit", 1, 0),
    (24, "draft", 4, 0),
    (26, "draft", 2, 0),
    (38, "step", 1, 0),
    (38, "accept", 2, 4),
    (38, "commit", 3, 4),
    (40, "end", 4, 0),
]
ENERGY_PJ = {
    "flash.page": 1000.0,
    "flash.read_bytes": 4.0,
    "dram.read_bits": 0.25,
    "dram.write_bytes": 3.0,
    "npu.mac": 0.5,
    "cpu.instruction": 10.0,
}
POWER_MW = {"dram.background": 0.25, "npu.leakage": 0.5}
AREA_UM2 = {"npu.hmx": 2.0e6, "npu.vtcm": 1.5e6, "dram.controller": 0.5e6}


def sample_tables() -> dict:
    """Tables of the sample run, as fresh arrays."""
    rows = np.array(ROWS, dtype=np.int64)
    size = len(rows)
    time = np.where(rows >= 0, rows * US, rows)
    text, whole = lambda items: np.array(items, dtype=str), lambda items: np.array(items, dtype=np.int64)
    block, op, count, note = (list(zip(*entries)) for entries in (BLOCKS, OPS, COUNTS, NOTES))
    zero = np.zeros(len(OPS), dtype=np.int64)
    return {
        "rows": {
            "row": np.arange(size),
            "unit": rows[:, 0],
            "op": rows[:, 1],
            "block": rows[:, 2],
            "request": np.zeros(size, dtype=np.int64),
            "priority": np.zeros(size, dtype=np.int64),
            "start_ps": time[:, 3],
            "flow_ps": time[:, 4],
            "end_ps": time[:, 5],
            "status": rows[:, 6],
            "work": rows[:, 7] * BYTE,
            "done": rows[:, 8] * BYTE,
            "lead_ps": rows[:, 9] * US,
        },
        "blocks": {
            "block": np.arange(len(BLOCKS)),
            "label": text(block[0]),
            "role": text(block[1]),
            "phase": text(block[2]),
            "request": np.zeros(len(BLOCKS), dtype=np.int64),
            "emit_ps": whole(block[3]) * US,
            "end_ps": whole(block[4]) * US,
            "useful": whole(block[5]),
            "total": whole(block[6]),
            "status": whole(block[7]),
        },
        "ops": {
            "op": np.arange(len(OPS)),
            **dict(zip(("device", "kind", "name", "role", "phase"), map(text, op[:5]))),
            **dict(zip(("m", "k", "n", "macs", "weight_bytes"), map(whole, op[5:]))),
            **dict.fromkeys(("kv", "in_bytes", "out_bytes", "kv_bytes"), zero),
        },
        "counts": {"op": whole(count[0]), "action": text(count[1]), "count": whole(count[2])},
        "notes": {
            "time_ps": whole(note[0]) * US,
            "kind": text(note[1]),
            "request": np.zeros(len(NOTES), dtype=np.int64),
            "value": whole(note[2]),
            "extra": whole(note[3]),
        },
        "rates": {"time_ps": whole([5]) * US, "target": text(["npu.hmx"]), "fraction": np.array([0.5])},
        "levels_log": {"time_ps": whole([5, 30]) * US, "store": whole([1, 1]), "value": whole([60, 20])},
    }


def sample_manifest(**changes) -> dict:
    """Manifest of the sample run."""
    price = lambda table, unit: {name: Cost(value, unit, "assumed: a test") for name, value in table.items()}  # noqa: E731
    manifest = build_manifest(
        archsim="0.1.0",
        config={"name": "sample", "system": {"name": "phone"}},
        config_digest="c0ffee",
        schedule="chain_sd",
        seed=7,
        system={
            "units": [{"name": name} for name in ("flash.queue", "npu.hmx", "cpu.core")],
            "pools": [
                {
                    "name": "dram.bandwidth",
                    "capacity": 6.0e10,
                    "unit": "bytes/s",
                    "fixed": 16106127,
                    "mix": [[3, 8053063]],
                }
            ],
            "stores": [
                {"name": "npu.vtcm", "capacity": 8 << 20, "unit": "bytes", "level": 0},
                {"name": "npu.window", "capacity": 100, "unit": "bytes", "level": 0},
            ],
        },
        prices={
            "energy_pj": price(ENERGY_PJ, "pJ"),
            "power_mw": price(POWER_MW, "mW"),
            "area_um2": price(AREA_UM2, "um2"),
        },
        stream={"kind": "synthetic", "label": "synthetic:sample"},
        warnings={"off_trace_nodes": 3},
        versions={"numpy": np.__version__},
    )
    peaks = {
        "flash": {"ops_per_s": 0.0, "bytes_per_s": 4.0e9},
        "dram": {"ops_per_s": 0.0, "bytes_per_s": 6.0e10},
        "npu": {"ops_per_s": 1.0e13, "bytes_per_s": 0.0},
    }
    return {**manifest, "peaks": peaks, "labels": [], "note_kinds": [], **changes}


def sample() -> Trace:
    """Return the sample run."""
    return Trace(sample_tables(), sample_manifest())


def test_sample_rows_never_overlap_on_a_unit():
    trace = sample()
    for unit in range(3):
        mine = (trace.rows["unit"] == unit) & (trace.rows["status"] != 2)
        start, end = np.sort(trace.rows["start_ps"][mine]), np.sort(trace.rows["end_ps"][mine])
        assert (start[1:] >= end[:-1]).all()
    assert trace.duration_ps == 40 * US
