"""PIM operators as rows: duration and counts of the command kernel, claim, what other ranks lose, vector units."""

import time

import numpy as np
import pytest

from archsim.device import STREAMS, Binding, DType, OpKind, make_ops
from archsim.devices.pim import FIRST, Pim, PimSpec, data_type
from archsim.devices.pim.aau import Aau
from archsim.devices.pim.gemv import best_plan, gemv, lower
from archsim.devices.pim.gtsu import switch_cycles
from archsim.devices.pim.host import leftover
from archsim.devices.pim.products import Part, head_products, heads_per_channel, kv_write, product, standard_of
from archsim.devices.pim.replay import execute
from archsim.devices.pim.standard import load_pim
from archsim.engine.block import make_block
from archsim.engine.sim import PoolDecl, Sim, UnitDecl
from archsim.lowering import TIME_RATE
from archsim.units import from_numbers

SPEC = {"standard": "lpddr5x_pim", "host": "exclusive", "ranks": 1, "fence": False, "crossing_ps": 150_000}
OTHER = {"host": "other_ranks", "ranks": 2, "host_bytes_per_s": 62e9}
AAU = {"vector_unit": "aau", "aau_clock_hz": 800e6, "aau_lanes": 16, "aau_latency_cycles": 8}
TRIP = {
    "vector_unit": "host",
    "trip_unit": "npu.core",
    "fence_ps": 150_000,
    "interrupt_ps": 2_000_000,
    "copy_bytes_per_s": 10e9,
    "trip_elements_per_s": 1e9,
    "trip_inflight_bytes": 4096,
}


def pim(**changes):
    made = Pim("pim", from_numbers(PimSpec, {**SPEC, **changes}))
    made.bind(Binding({"pim.sequencer": 3, "npu.core": 1}, {"dram.bandwidth": 5}, {}))
    return made


def matmul(m=1, k=4096, n=4096, wdtype=DType.INT8, adtype=DType.INT8, **more):
    sizes = {"m": m, "k": k, "n": n, "weight_bytes": k * n, "wdtype": wdtype, "adtype": adtype}
    return {"kind": OpKind.MATMUL, **sizes, **more}


def attention(m=1, kv=1023, heads=32, kv_heads=32, head_dim=128, **more):
    shape = {"m": m, "k": heads * head_dim, "n": heads * head_dim, "kv": kv, "heads": heads, "kv_heads": kv_heads}
    types = {"wdtype": DType.FP32, "adtype": DType.INT8, "kvdtype": DType.INT8}
    return {"kind": OpKind.ATTENTION, **shape, "head_dim": head_dim, **types, **more}


def counts(rows, i=0):
    return {name.removeprefix("pim."): count for name, count in zip(rows.actions, rows.counts[i].tolist(), strict=True)}


def drawn(rows, i=0):
    return int(rows.coef[i, 0]) * TIME_RATE / (1 << 20) / (1 << 28) * 1e12


def test_a_row_lasts_what_the_command_kernel_counts():
    rows = pim().lower(make_ops([matmul(), matmul(m=3, wdtype=DType.INT4, adtype=DType.FP16)]))
    asked = gemv("lpddr5x_pim", 4096, 4096), gemv("lpddr5x_pim", 4096, 4096, dtype="W4A16", tokens=3)
    # tCK is 2500 / 3 ps; rounded up once.
    assert (rows.work // TIME_RATE).tolist() == [-(-r.cycles * 2500 // 3) for r in asked]
    assert (rows.work // rows.cap).tolist() == (rows.work // TIME_RATE).tolist()
    assert rows.claim.tolist() == [5, 5]
    assert rows.unit.tolist() == [3, 3]
    assert rows.lead.tolist() == [150_000, 150_000]
    found, total = counts(rows), asked[0].commands_total
    assert found["activate"] == 16 * total["ACT16"]
    assert found["access_bits"] == 16 * 256 * total["MAC16"] == 8 * 4096 * 4096
    assert found["mac_bits"] == 8 * found["access_bits"]
    assert found["io_bits"] == 256 * (total["WRGB"] + total["RDMAC16"])
    assert total["REFab"] > 0  # refresh takes its time; its energy is the DRAM device's


def test_parts_add_up():
    whole, parts = (pim().lower(make_ops([matmul(parts=p)])) for p in (1, 7))
    assert parts.work.sum() == whole.work[0]
    assert np.array_equal(parts.counts.sum(axis=0), whole.counts[0])
    assert parts.lead.tolist() == [150_000] + 6 * [0]


@pytest.mark.parametrize("out", [4096, 1000, 48, 5])
def test_all_channels_of_a_product_move_in_step(out):
    standard = load_pim("lpddr5x_pim")
    plan, run = best_plan(standard, out, 2048)
    used = plan.channels * plan.slices
    assert (run.counts[:used] == run.counts[0]).all()
    for channel in range(used):  # alone on its channel, the same instructions take the same time
        program = lower(standard, plan)
        alone = program._replace(on=program.on * (np.arange(4) == channel))
        alone.on[program.lines[:, 0] == 2] = 1
        assert execute(standard, alone).cycles == run.cycles


def test_a_part_of_the_channels_takes_its_share_of_time_and_pool():
    half = pim(channels=2, host_bytes_per_s=62e9)
    rows, whole = half.lower(make_ops([matmul()])), pim().lower(make_ops([matmul()]))
    assert rows.work[0] / whole.work[0] == pytest.approx(2.0, rel=0.02)
    assert rows.claim.tolist() == [-1]
    assert drawn(rows) == pytest.approx(31e9, rel=1e-3)
    assert half.bandwidth_bytes_per_s() == pytest.approx(307.2e9)
    with pytest.raises(ValueError, match="channels is 5; lpddr5x_pim has 4"):
        pim(channels=5)


def test_other_ranks_lose_what_the_command_kernel_says():
    rows = pim(**OTHER).lower(make_ops([matmul()]))
    standard = load_pim("lpddr5x_pim")
    kept = leftover(standard, lower(standard, best_plan(standard, 4096, 4096, dtype="W8A8")[0])).other_ranks
    assert rows.claim.tolist() == [-1]
    assert rows.stream.tolist() == [STREAMS.index("pim")]
    assert rows.weight.tolist() == [FIRST]
    assert rows.pool[0, 0] == 5
    assert drawn(rows) == pytest.approx((1 - kept) * 62e9, rel=1e-3)
    assert 0.01 < 1 - kept < 0.1


def test_a_striped_host_waits_for_the_part_that_computes():
    lost = product(Part("lpddr5x_pim"), 1, 4096, 4096, "W8A8", False, 4).lost
    rows = pim(host="striped", ranks=4, host_ranks=3, host_bytes_per_s=60e9).lower(make_ops([matmul()]))
    assert drawn(rows) == pytest.approx(60e9 * (1 + 2 * lost) / 3, rel=1e-3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"host": "other_ranks"}, "host: other_ranks needs 2 ranks or more; ranks is 1"),
        ({"host": "other_ranks", "ranks": 2}, "host_bytes_per_s is missing; only host: exclusive on all channels"),
        ({"host": "striped", "ranks": 2, "host_bytes_per_s": 6e10}, "host_ranks is 0; host: striped needs 1 to 2"),
        ({"host_ranks": 2}, "host_ranks is 2; host: striped needs 1 to 1 .ranks., exclusive needs 0"),
        ({"vector_unit": "aau"}, "vector_unit: aau needs aau_clock_hz"),
        ({"vector_unit": "host", "trip_unit": "npu.core"}, "vector_unit: host needs fence_ps"),
        ({"tokens_per_pass": 65}, "less than or equal to 64"),
    ],
)
def test_specs_that_do_not_fit(changes, message):
    with pytest.raises(ValueError, match=message):
        pim(**changes)


def test_reuse_of_a_pass_is_an_option():
    times = {k: pim(tokens_per_pass=k).lower(make_ops([matmul(m=8)])).work[0] for k in (1, 2, 4, 8)}
    one = pim().lower(make_ops([matmul()])).work[0]
    assert times[1] == pim().lower(make_ops([matmul(m=8)])).work[0]
    for k, work in times.items():
        assert work / one == pytest.approx(8 / k, rel=0.15)


def test_many_rows_are_continued_by_their_difference():
    for m, reuse in ((9, 0), (17, 0), (400, 0), (1567, 3)):
        part = Part("lpddr5x_pim", 0, reuse)
        long = product(part, m, 512, 640, "W8A8", False, 1)
        exact = gemv(standard_of(part), 640, 512, dtype="W8A8", tokens=m)
        assert long.time_ps == pytest.approx(exact.cycles * 2500 / 3, rel=0.004)
        assert long.counts[1] == 8 * 640 * 512 * -(-m // max(reuse, 1))


def test_data_types():
    standard = load_pim("lpddr5x_pim")
    assert data_type(standard, DType.Q4_0, DType.Q8_0) == "W4A16"
    assert data_type(standard, DType.INT4, DType.INT4) == "W4A4"
    assert data_type(standard, DType.Q8_0, DType.FP16) == "W8A16"
    assert data_type(load_pim("gddr6_aim"), DType.BF16, DType.FP16) == "W16A16"
    with pytest.raises(ValueError, match="multiplies no FP16 weights by FP16 activations; it has W8A8, W4A4"):
        data_type(standard, DType.FP16, DType.FP16)
    listed = load_pim("ahasd_listed_pim")
    with pytest.raises(ValueError, match="multiplies no Q4_0 weights by FP16 activations; it has W8A8"):
        data_type(listed, DType.Q4_0, DType.FP16)
    assert data_type(listed, DType.Q4_0, DType.FP16, widen=True) == "W8A8"
    assert data_type(standard, DType.Q6_K, DType.FP32, widen=True) == "W8A16"
    with pytest.raises(ValueError, match="multiplies no FP16 weights"):
        data_type(listed, DType.FP16, DType.FP16, widen=True)


@pytest.mark.parametrize(
    ("name", "bytes_per_s"), [("lpddr5_pim", 409.6e9), ("ahasd_listed_pim", 256e9), ("lpddr5x_pim", 614.4e9)]
)
def test_internal_rates(name, bytes_per_s):
    """The listed 256 GB/s is 12.8 cycles between columns; whole cycles leave 252."""
    found = pim(standard=name).bandwidth_bytes_per_s()
    assert found == pytest.approx(bytes_per_s, rel=0.016 if name == "ahasd_listed_pim" else 1e-9)


def test_cycles_of_the_attention_algorithm_unit_by_hand():
    one, four = Aau(1, 16, 8, 800_000), Aau(4, 16, 8, 800_000)
    assert one.rows(OpKind.ELEMENTWISE, 1, 4096) == (8 + 2 * 256, (4096, 0, 0, 0, 0))
    assert one.rows(OpKind.NORM, 3, 100) == (3 * (8 + 3 * 7), (0, 300, 0, 0, 0))
    assert four.rows(OpKind.NORM, 1, 4096) == (8 + 3 * 64 + 8 + 2 + 1, (0, 4096, 0, 0, 4))
    assert one.rows(OpKind.ROPE, 1, 16)[0] == 10
    # 8 vectors of 1024 scores: score pass (8 + 4 x 64), softmax (8 + 3 x 64)
    assert four.softmax(8, 1024, 1, 32 * 1024)[0] == 8 * (264 + 200)
    assert four.softmax(2, 256, 4, 2048) == (2 * (8 + 64 + 8 + 48 + 11), (0, 0, 2048, 2048, 8))


def test_heads_are_dealt_to_the_channels():
    assert heads_per_channel(32, 4) == (8, 1)
    assert heads_per_channel(6, 4) == (2, 1)
    assert heads_per_channel(1, 4) == (1, 4)
    assert heads_per_channel(2, 4) == (1, 2)


def test_attention_reads_each_key_and_value_once():
    rows = pim(**AAU, **OTHER).lower(make_ops([attention()]))
    found = counts(rows)
    assert rows.op.tolist() == [0]
    assert found["access_bits"] >= 8 * 2 * 1024 * 4096
    part = (Part("lpddr5x_pim"),)
    scores = head_products(*part, "scores", 8, 1024, 128, 1, "W8A8", False, 2, True)
    values = head_products(*part, "values", 8, 128, 1024, 1, "W8A8", False, 2, True)
    softmax_ps = 8 * 464 * 1250
    assert rows.work[0] // TIME_RATE == scores.time_ps + values.time_ps + softmax_ps
    assert found["aau_softmax"] == found["aau_score"] == 32 * 1024
    weights = 8 * 1024 * 4096
    assert scores.counts[2] == values.counts[2] == 8 * weights  # weight bits x activation bits
    off = head_products(*part, "scores", 8, 1024, 128, 1, "W8A8", False, 2, False)
    assert off.counts[3] - scores.counts[3] == scores.counts[1] - off.counts[1] == 32 * 1024 * 32  # sums of 32 bit
    assert off.lost > scores.lost  # what stays on the die leaves the bus to the host


def test_attention_grows_with_the_cache_and_shares_passes():
    def ps(**sizes):
        return int(pim(**AAU, **OTHER, tokens_per_pass=4).lower(make_ops([attention(**sizes)])).work[0]) // TIME_RATE

    lengths = [ps(kv=kv) for kv in (0, 31, 500, 1023, 2047, 4095)]
    assert lengths == sorted(lengths)
    assert ps(kv=4095) / ps(kv=2047) == pytest.approx(2.0, rel=0.1)
    assert ps(heads=32, kv_heads=8) < 0.5 * ps(heads=32, kv_heads=32)  # four queries a pass


def test_a_new_row_of_the_cache_by_hand():
    """32 heads of 128 on 4 channels: a channel writes 8 x (4 key columns + 128 masked value columns)."""
    done = kv_write(Part("lpddr5_pim"), 1, 32, 128, 8, 1)
    writes = 4 * 8 * (4 + 128)
    assert done.counts[3] == done.counts[1] == 256 * writes
    assert done.time_ps > 8 * 132 * 4 * 1250 / 2  # columns at tCCD_S at best
    many = kv_write(Part("lpddr5_pim"), 32, 32, 128, 8, 1)  # 32 values of one dimension fill a column
    assert many.counts[1] == 256 * 4 * 8 * (128 + 128)


def test_a_whole_layer_runs_on_the_device_with_vector_units():
    kinds = {OpKind.MATMUL, OpKind.ATTENTION, OpKind.NORM, OpKind.ROPE, OpKind.ELEMENTWISE, OpKind.PROJECTION}
    assert pim(**AAU).ops == kinds | {OpKind.KV_WRITE}
    assert pim().ops == {OpKind.MATMUL, OpKind.PROJECTION}
    assert pim(gating=True).ops == pim().ops | {OpKind.CONTROL}


def test_a_switch_of_rank_groups_is_bound_by_the_memory():
    """Precharge of all banks 21.25 ns (17 CK), mode write 14 ns (12 CK), activate 18.75 ns (15 CK)."""
    assert switch_cycles(load_pim("lpddr5_pim")) == 17 + 12 + 15
    made = pim(standard="lpddr5_pim", gating=True)
    assert made.switch_ps == 55_000
    rows = made.lower(make_ops([{"kind": OpKind.CONTROL, "n": 3}]))
    assert rows.lead.tolist() == [165_000]
    assert counts(rows)["gtsu_switch"] == 3


def test_without_vector_units_intermediates_travel():
    made = pim(**TRIP, **OTHER)
    norm = {"kind": OpKind.NORM, "m": 1, "k": 4096, "in_bytes": 4096, "out_bytes": 4096, "adtype": DType.INT8}
    rows = made.lower(make_ops([norm, attention(parts=2)]))
    assert rows.op.tolist() == [0] * 2 + [1] * 8
    assert rows.unit.tolist() == [3, 1, 3, 3, 3, 3, 1, 1, 3, 3]
    assert rows.lead[:2].tolist() == [2_000_000 + 2 * 150_000, 0]
    assert rows.work[0] >> 28 == 8192
    assert rows.work[0] / rows.cap[0] == pytest.approx(8192 * 100, rel=1e-4)  # 10 GB/s
    assert rows.work[1] // rows.cap[1] == 4096 * 1000  # 1e9 elements/s
    assert rows.stream[:3].tolist() == [STREAMS.index("copy"), 0, STREAMS.index("pim")]
    assert rows.pool[:3, 0].tolist() == [5, -1, 5]  # copies flow, the host's work does not, banks take their slots
    named = dict(zip(rows.actions, rows.counts[:2].sum(axis=0).tolist(), strict=True))
    assert (named["pim.trip"], named["pim.trip_elements"], named["dram.io_bits"]) == (1, 4096, 8 * 8192)
    size = 4 * 32 * 1024  # sums of four bytes to the host, and back
    assert rows.work[4:6].sum() >> 28 == 2 * size


def test_devices_that_share_a_sequencer():
    other = Pim("pim_target", from_numbers(PimSpec, {**SPEC, **AAU, "gating": True, "sequencer": "pim"}))
    other.bind(Binding({"pim.sequencer": 3}, {"dram.bandwidth": 5}, {}))
    assert other.units() == []
    assert other.area() == other.power() == {}
    assert other.lower(make_ops([matmul()])).unit.tolist() == [3]


def test_layout_of_weights_that_two_readers_share():
    made = {how: pim(layout=how, holds="target") for how in ("mapped", "twice")}
    weights = {"target": 100, "draft": 7}
    assert [made[how].second_copies(weights) for how in made] == [{}, {"target": 100}]
    assert made["twice"].second_copies({"draft": 7}) == {}
    with pytest.raises(ValueError, match="layout: twice needs holds"):
        pim(layout="twice")


@pytest.mark.parametrize("changes", [{}, {**AAU, "gating": True}, TRIP])
def test_peaks_and_prices(changes):
    made = pim(**changes)
    assert made.bandwidth_bytes_per_s() == pytest.approx(614.4e9)
    assert made.peak_ops_per_s() == pytest.approx(2.4576e12)
    assert set(made.energy()) == {a.removeprefix("pim.") for a in made._actions if a.startswith("pim.")}
    for table, unit in ((made.energy(), "pJ"), (made.power(), "mW"), (made.area(), "um2")):
        assert all(c.source and c.unit == unit and c.value > 0 and c.range for c in table.values())
    assert made.area()["mac_blocks"].value > 0


def test_pim_commands_go_first_on_a_full_pool():
    """A stream that fills the pool is slowed by what the banks take; the banks are not."""
    made = Pim("pim", from_numbers(PimSpec, {**SPEC, **OTHER}))
    made.bind(Binding({"pim.sequencer": 0}, {"dram.bandwidth": 0}, {}))
    rows = made.lower(make_ops([matmul(k=14336)]))
    capacity = round(62e9 * (1 << 28) / 1e12)
    banks = {name: int(getattr(rows, name)[0]) for name in ("unit", "weight", "lead", "work", "cap", "stream")}
    banks |= {"pool": [0], "coef": [int(rows.coef[0, 0])]}
    stream = {"unit": 1, "weight": 16_384, "work": 62 << 48, "cap": capacity, "pool": [0], "coef": [1 << 20]}
    sim = Sim([UnitDecl("pim.sequencer"), UnitDecl("npu")], [PoolDecl("dram.bandwidth", capacity, {})], [])
    sim.emit(make_block([banks, stream]))
    sim.run()
    ends = sim.rows()["end_ps"].tolist()
    alone_ps = int(rows.lead[0] + rows.work[0] // rows.cap[0])
    assert ends[0] == pytest.approx(alone_ps, abs=2)
    assert ends[1] - (62 << 48) / capacity == pytest.approx(drawn(rows) / 62e9 * (ends[0] - 150_000), rel=0.01)


@pytest.mark.bench
def test_lowering_is_fast_when_warm():
    made = pim(**AAU, **OTHER)
    for entry in (matmul(), attention()):
        ops = make_ops([entry])
        made.lower(ops)
        began = time.process_time()
        for _ in range(200):
            made.lower(ops)
        assert (time.process_time() - began) / 200 < 50e-6
