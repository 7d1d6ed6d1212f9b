"""Kernel policies by hand: chunks on HMX, areas, tables, descriptors, calls, chains."""

import numpy as np
import pytest

from archsim.device import DType, OpKind, make_ops
from archsim.devices.npu.alone import devices_of, matmul, times_us
from archsim.devices.npu.chain import PHASES, segments
from archsim.devices.npu.dispatch import CallCosts, flush_ps
from archsim.devices.npu.dma import descriptors, transfer_fs
from archsim.devices.npu.hmx import output_tile, products_milli
from archsim.devices.npu.numbers import bytes_fs, context_fs
from archsim.devices.npu.policies.areas import area_chunks
from archsim.devices.npu.policies.chunks import chunk_walk, chunked, path_rate, stage_times
from archsim.devices.npu.policies.measured import Table
from archsim.lowering import operator
from archsim.units import InputError

HMX = ("system.npu.policy_many=ggml_hmx", "system.npu.call=call")


def npu(*sets):
    return devices_of("oneplus_12", *HMX, *sets)["npu"]


def staged(device, op):
    """Numbers, operator and tiling of the chunked kernel."""
    one = operator(make_ops([op]))
    return device.numbers, one, chunked(one, device.numbers, 1000)


def test_output_tiles_by_hand():
    # 64 tiles along k at 8 cycles in two packets of 5 cycles; a store of 17 hides behind 522 and shows behind 8
    assert output_tile(64, 8000, 32, 5000, 17_000, 2) == 64 * 8000 + 2 * 5000
    assert output_tile(64, 8000, 32, 5000, 17_000, 1) == 64 * 8000 + 2 * 5000 + 17_000
    assert output_tile(1, 8000, 32, 0, 17_000, 2) == 17_000
    assert products_milli(5, 7, 3, 2, 1000) == 3 * 7 * 1000


def model(device, op, rate):
    """Event by event: each stage of each chunk starts when all that it needs has ended (DMA loads, pipelined)."""
    c, one, t = staged(device, op)
    m, n = op["m"], op["n"]
    total = 0
    for first in range(0, m, t.mc):
        rows = min(t.mc, m - first)
        load = bytes_fs(rows * op["k"] * 4, path_rate(c, c.activation_path, rate))
        convert = context_fs(c, -(-rows * op["k"] // 64) * c.convert)
        sizes = [min(t.nc, n - at) for at in range(0, n, t.nc)]
        stages = [stage_times(one, c, t, rows, size, rate) for size in sizes]
        fetched, unpacked, multiplied, stored = {}, {}, {}, {}
        dma, hvx = load + stages[0][0], load + convert
        fetched[0] = dma
        for j, (_, unpack, multiply, _, _) in enumerate(stages):
            if j + 1 < len(stages):  # the buffer of two chunks ago is free when that chunk is unpacked
                dma = max(dma, unpacked.get(j - 1, 0)) + stages[j + 1][0]
                fetched[j + 1] = dma
            unpacked[j] = hvx = max(hvx, fetched[j], multiplied.get(j - 2, 0)) + unpack
            multiplied[j] = max(multiplied.get(j - 1, 0), unpacked[j], stored.get(j - 3, 0)) + multiply
            if j:
                hvx = max(hvx, multiplied[j - 1]) + stages[j - 1][3]
                stored[j - 1] = dma = max(dma, hvx) + stages[j - 1][4]
        last = len(stages) - 1
        hvx = max(hvx, multiplied[last]) + stages[last][3]
        total += max(max(dma, hvx) + stages[last][4], hvx)
    return total


@pytest.mark.parametrize("shape", [(33, 256, 512), (128, 2560, 9728), (700, 4096, 4096), (1500, 9728, 2560)])
def test_pipelined_walk_agrees_with_an_event_by_event_model(shape):
    for device in (npu(), npu("system.npu.hvx_contexts=40"), npu("system.npu.tile_cycles_fp16=100")):
        op = matmul(*shape)
        c, one, t = staged(device, op)
        assert t.pipelined == 1
        for rate in (59_000, 20_000, 3_000):
            assert chunk_walk(one, c, t, rate).duration == model(device, op, rate)


def test_synchronous_walk_is_the_sum_of_its_stages():
    device, op = npu(), matmul(32, 1024, 2048)
    c, one, t = staged(device, op)
    assert t.pipelined == 0
    walk = chunk_walk(one, c, t, 59_000)
    parts = walk.dma + walk.dequantise + walk.activation + walk.hmx + walk.output
    assert walk.duration == pytest.approx(parts, rel=1e-6)


def test_overlap_starts_above_32_rows():
    times = times_us(npu(), [matmul(rows, 2560, 9728) for rows in (32, 33)])
    assert times[1] < times[0]


def test_hmx_from_the_rows_that_the_spec_says():
    ops = make_ops([matmul(rows, 1024, 1024) for rows in (4, 5, 39, 40)])
    for threshold, expected in ((5, [0, 1, 1, 1]), (40, [0, 0, 0, 1])):
        rows = npu(f"system.npu.hmx_rows={threshold}").lower(ops)
        macs = np.bincount(rows.op, rows.counts[:, rows.actions.index("npu.hmx_mac_fp16")])
        assert (macs > 0).astype(int).tolist() == expected


def test_larger_tiles_pad_more():
    ops = make_ops([matmul(40, 1024, 1024)])
    macs = []
    for edge in (16, 32, 64):
        rows = npu(f"system.npu.tile_rows={edge}").lower(ops)
        macs.append(int(rows.counts[:, rows.actions.index("npu.hmx_mac_fp16")].sum()) >> 20)
    assert macs == [48, 64, 64]


def test_areas_by_hand():
    device = devices_of("oneplus_12", "system.npu.policy_many=sequential")["npu"]

    def chunks(m, k, n):
        return area_chunks(operator(make_ops([matmul(m, k, n)])), device.numbers)

    # 1 MiB holds 128 rows, or columns, of 4096; 32 of 14336; 18,944 is cut in two pieces of 9,472 (55 -> 32 rows)
    assert chunks(128, 4096, 4096) == (1, 32)
    assert chunks(129, 4096, 4096) == (2, 32)
    assert chunks(64, 14336, 4096) == (2, 128)
    assert chunks(32, 18_944, 4096) == (1, 2 * 128)


def test_sequential_unpacks_again_per_chunk_of_rows():
    device = devices_of("oneplus_12", "system.npu.policy_many=sequential")["npu"]
    rows = device.lower(make_ops([matmul(128, 4096, 4096), matmul(256, 4096, 4096)]))
    read = np.bincount(rows.op, rows.counts[:, rows.actions.index("dram.read_bits")]) // 8
    weights = matmul(1, 4096, 4096)["weight_bytes"]
    assert read.tolist() == [weights + 2 * 128 * 4096, 2 * weights + 2 * 256 * 4096]
    cycles = np.bincount(rows.op, rows.counts[:, rows.actions.index("npu.hvx_cycle")])
    assert cycles[1] == pytest.approx(2 * cycles[0], abs=1)


@pytest.mark.parametrize(("rows", "row_bytes", "limit", "expected"), [
    (1, 1 << 24, (1 << 24) - 1, 2),
    (16, 2304, 65_535, 1),
    (16, 70_000, 65_535, 32),
    (70_000, 64, 65_535, 2),
])  # fmt: skip
def test_descriptors_by_hand(rows, row_bytes, limit, expected):
    assert descriptors(rows, row_bytes, limit) == expected


def test_in_order_descriptors_pay_their_latency_one_by_one():
    free, ordered = npu().numbers, npu("system.npu.dma_in_order=true").numbers
    # 256 blocks of 36,864 bytes at 59 GB/s, 0.6 us each: 16 in flight hide it
    flow = bytes_fs(256 * 36_864, 59_000)
    assert transfer_fs(256 * 36_864, 256, free, 59_000) == flow + 600_000_000
    assert transfer_fs(256 * 36_864, 256, ordered, 59_000) == flow + 256 * 600_000_000
    # tiny blocks are bound by latency and ring: 16 x 256 bytes per 0.6 us
    tiny = transfer_fs(4096 * 256, 4096, free, 59_000)
    assert 4096 * 256 / (tiny / 1e15) / 1e9 == pytest.approx(16 * 256 / 600, rel=0.02)


def test_in_order_bit_slows_decoding_as_measured():
    """3-5 tokens/s lost (llama.cpp #21137, 3B at 25.3 tokens/s: 12 to 20 %); here the share of a one-row product."""
    op = matmul(1, 3072, 8192)
    sets = ("system.npu.hvx_contexts=8", "system.npu.vtcm_vectors_per_cycle=4.0")
    free, ordered = (times_us(npu(*sets, f"system.npu.dma_in_order={b}"), [op])[0] for b in ("false", "true"))
    assert ordered > 1.1 * free


def test_calls_by_hand():
    costs = CallCosts(call=23, packet=30, poll=100, start=4, rpc=400, flush=5, ops=10)
    assert costs.lead("call") == 23
    assert costs.lead("rpc") == 400
    assert costs.lead("queue") == 4 + 9  # (30 + 50 + 2 x 5) shared by ten
    assert [flush_ps(size, 5300, 4096) for size in (0, 1024, 4096, 1 << 30)] == [0, 1325, 5300, 5300]


def test_ways_to_call_cost_what_they_say():
    op = matmul(1, 1024, 1024)
    leads = {}
    for way in ("call", "queue", "rpc"):
        rows = devices_of("oneplus_12", f"system.npu.call={way}")["npu"].lower(make_ops([op]))
        leads[way] = int(rows.lead.sum())
    assert leads["call"] == 23_000_000
    assert leads["queue"] < leads["call"] < leads["rpc"]


def walked(points, total_bytes=59_000_000):
    """Phases of a walk given at x = 1, 4/3, 2, 4, and the durations of their chain there (ps)."""
    base = 1_000_000_000  # 59 MB at 59 GB/s
    nbytes, ps = np.zeros(PHASES, np.int64), np.zeros(PHASES, np.int64)
    count = segments(total_bytes, base, *points, nbytes, ps)
    assert nbytes[:count].sum() == total_bytes
    assert ps[:count].sum() == pytest.approx(points[0], abs=4)
    full = base / total_bytes
    chain = [sum(max(t, b * full * x) for b, t in zip(nbytes[:count], ps[:count])) for x in (1, 4 / 3, 2, 4)]
    return count, chain


@pytest.mark.parametrize(
    ("curve", "phases"),
    [
        (lambda x: max(3e9, x * 1e9), 1),  # roofline, compute-bound: one row
        (lambda x: x * 1e9, 1),  # DMA-bound
        (lambda x: 0.5e9 + x * 1e9, 2),  # a strict phase and a stream
        (lambda x: max(1.2e9, x * 1e9) + 0.3e9, None),
        (lambda x: max(0.4e9, x * 0.5e9) + max(1.5e9, x * 0.5e9), None),
    ],
)
def test_chains_last_as_long_as_any_convex_walk(curve, phases):
    points = [round(curve(x)) for x in (1, 4 / 3, 2, 4)]
    count, chain = walked(points)
    assert phases is None or count == phases
    assert chain == pytest.approx(points, rel=0.006)


CSV = "kind,m,k,n,dtype,cycles,clock_hz,dma_bytes,overlap\n"


def table(tmp_path, *lines):
    path = tmp_path / "kernels.csv"
    path.write_text(CSV + "\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def test_table_interpolates_rows_and_shapes(tmp_path):
    found = Table(
        table(
            tmp_path,
            "matmul,8,64,64,q4_0,1000,1e9,2304,full",
            "matmul,16,64,64,q4_0,1800,1e9,2304,full",
            "matmul,8,64,192,q4_0,2000,1e9,6912,full",
            "matmul,16,64,192,q4_0,2800,1e9,6912,full",
        )
    )
    kind, dtype = int(OpKind.MATMUL), int(DType.Q4_0)
    assert found.look_up(kind, dtype, 8, 64, 64) == (1_000_000, 2304, False, False)
    assert found.look_up(kind, dtype, 12, 64, 64) == (1_400_000, 2304, False, False)
    assert found.look_up(kind, dtype, 8, 64, 128) == (1_500_000, 4608, False, False)
    # outside: rows in proportion, fewer rows no cheaper, shapes by weights; flagged
    assert found.look_up(kind, dtype, 32, 64, 64) == (3_600_000, 2304, False, True)
    assert found.look_up(kind, dtype, 1, 64, 64) == (1_000_000, 2304, False, True)
    assert found.look_up(kind, dtype, 8, 64, 384) == (4_000_000, 13_824, False, True)
    assert found.look_up(kind, int(DType.Q8_0), 8, 64, 64) is None


def test_table_runs_operators_and_counts_what_is_extrapolated(tmp_path):
    path = table(
        tmp_path, "matmul,8,4096,4096,q4_0,400000,1e9,9437184,full", "matmul,16,4096,4096,q4_0,600000,1e9,9437184,none"
    )
    device = devices_of("oneplus_12", "system.npu.policy_many=table", f"system.npu.table={path}")["npu"]
    rows = device.lower(make_ops([matmul(8, 4096, 4096), matmul(16, 4096, 4096), matmul(32, 4096, 4096)]))
    times = np.bincount(rows.op, -(-rows.work // rows.cap)) / 1e6
    move = 9_437_184 / 59e9 * 1e6
    assert times.tolist() == pytest.approx([400, 600 + move, 1200 + move], rel=2e-3)
    near, far = (
        np.bincount(rows.op, rows.counts[:, rows.actions.index(f"npu.{name}")])
        for name in ("table_cycle", "table_far_cycle")
    )
    assert (near > 0).tolist() == [True, True, False]
    assert (far > 0).tolist() == [False, False, True]
    with pytest.raises(ValueError, match="has no q8_0 product"):
        device.lower(make_ops([matmul(8, 4096, 4096, DType.Q8_0)]))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("matmul,8,64,64,q5_0,1000,1e9,2304,full", "unknown kind or dtype"),
        ("matmul,8,64,64,q4_0,1000,1e9,2304,half", "overlap is 'full' or 'none'"),
        ("norm,8,64,64,q4_0,1000,1e9,2304,full", "kind matmul or projection"),
        ("matmul,0,64,64,q4_0,1000,1e9,2304,full", "sizes start at 1"),
        ("matmul,8,64,64,q4_0,nan,1e9,2304,full", "cycles lie below"),
        ("matmul,8,64,64,q4_0,x,1e9,2304,full", "could not convert"),
        ("matmul,8,64,64,q4_0,1000,1e9,2304", "columns are kind,m,k,n"),
    ],
)
def test_bad_tables_are_refused_by_line(tmp_path, line, message):
    with pytest.raises(InputError, match=f"kernels.csv:2: .*{message}"):
        Table(table(tmp_path, line))


def test_missing_empty_and_doubled_tables_are_refused(tmp_path):
    with pytest.raises(InputError, match="no kernel table"):
        Table(str(tmp_path / "absent.csv"))
    with pytest.raises(InputError, match="no measurements"):
        Table(table(tmp_path))
    line = "matmul,8,64,64,q4_0,1000,1e9,2304,full"
    with pytest.raises(InputError, match="is there twice"):
        Table(table(tmp_path, line, line))
    with pytest.raises(InputError, match="needs the path of a CSV file"):
        devices_of("oneplus_12", "system.npu.policy_many=table")


def test_very_large_passes_stay_in_range():
    """4,096 rows against 65,536 columns: no duration wraps round, and terabytes of traffic are cut into rows."""
    for policy in ("gemv", "ggml_hvx", "static_graph", "sequential"):
        device = devices_of("oneplus_12", f"system.npu.policy_many={policy}")["npu"]
        small, large = times_us(device, [matmul(512, 8192, 8192), matmul(4096, 8192, 65_536)])
        assert 50 < large / small < 80
        rows = device.lower(make_ops([matmul(4096, 8192, 65_536)]))
        assert (rows.work > 0).all()
        moved = rows.counts[:, rows.actions.index("dram.io_bits")].sum() // 8
        assert (rows.work[rows.pool[:, 0] == device.binding.pool("dram.bandwidth")] >> 28).sum() == moved
