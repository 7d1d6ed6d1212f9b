"""DRAM as a pool: peak, mix table, prices; and the rows that draw on it."""

import numpy as np
import pytest

from archsim.config import InputError, load_config
from archsim.device import STREAMS, make_ops
from archsim.devices.dram import Dram, DramSpec
from archsim.lowering import (
    ITEMS,
    LEAD_PS,
    PLAN_COLUMNS,
    READ_BYTES,
    STREAM,
    TIME_PS,
    TIME_RATE,
    UNIT,
    WEIGHT,
    WRITE_BYTES,
    build_rows,
    bytes_to_ps,
    cycles_to_ps,
    share,
)
from archsim.system import System
from archsim.units import from_numbers

SPEC = {
    "standard": "lpddr5x-9600",
    "transfer_rate_per_s": 9.6e9,
    "bus_width_bits": 64,
    "channels": 4,
    "ranks": 2,
    "achievable_bytes_per_s": 62.0e9,
    "capacity_bytes": 16 << 30,
    "mix": {"cpu_seq_read+npu_seq_read": 0.75},
}


def dram(**changes):
    return Dram("dram", from_numbers(DramSpec, {**SPEC, **changes}))


def planned(*rows):
    """Plan of operators given as dictionaries of columns."""
    plan = np.zeros((len(rows), PLAN_COLUMNS), np.int64)
    for i, row in enumerate(rows):
        for column, value in row.items():
            plan[i, column] = value
    return plan


def test_pool_has_the_mix_as_fractions_of_the_peak():
    (pool,) = dram().pools()
    assert (pool.name, pool.capacity, pool.unit) == ("dram.bandwidth", 62.0e9, "bytes/s")
    assert pool.mix == {frozenset({"cpu_seq_read", "npu_seq_read"}): pytest.approx(57.6e9)}


def test_static_power_and_area_scale_with_dies_and_width():
    small, large = dram(channels=2, bus_width_bits=32, achievable_bytes_per_s=30e9), dram()
    assert large.power()["refresh"].value == 2 * small.power()["refresh"].value
    assert large.area()["phy"].value == 2 * small.area()["phy"].value


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"achievable_bytes_per_s": 77e9}, r"achievable_bytes_per_s 7.7e\+10 is above the peak of 7.68e\+10"),
        ({"mix": {"gpu": 0.5}}, "mix: unknown stream class 'gpu'; known: cpu_seq_read"),
        ({"mix": {"copy": 1.5}}, "mix"),
    ],
)
def test_bad_specs_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        dram(**changes)


def test_row_of_bytes_and_row_of_time():
    stream = STREAMS.index("copy")
    moved = {READ_BYTES: 60, WRITE_BYTES: 40}
    plan = planned(
        {UNIT: 5, WEIGHT: 7, LEAD_PS: 3, TIME_PS: 1000, **moved, ITEMS: 2 << 20, STREAM: stream},
        {UNIT: 6, WEIGHT: 7, TIME_PS: 12_345, ITEMS: 1 << 19, STREAM: stream},
    )
    rows = build_rows(make_ops([{}, {}]), plan, np.zeros((2, 1), np.int64), ("x.y",), (0, 1, 2))
    assert rows.work.tolist() == [100 << 28, 12_345 * TIME_RATE]
    assert rows.cap.tolist() == [(100 << 28) // 1000, TIME_RATE]
    assert rows.pool.tolist() == [[0, 1, 2, -1], [2, -1, -1, -1]]
    assert rows.coef[:, 0].tolist() == [1 << 20, (1 << 19 << 28) // TIME_RATE]
    assert rows.stream.tolist() == [stream, 0]
    assert rows.claim.tolist() == [-1, -1]


@pytest.mark.parametrize("parts", [1, 2, 3, 7, 64])
def test_splitting_conserves_bytes_time_lead_and_counts(parts):
    plan = planned({LEAD_PS: 11, TIME_PS: 1_000_003, READ_BYTES: 7_000_001, WRITE_BYTES: 2, ITEMS: 3 << 20})
    counts = np.array([[1_000_001, 5]], np.int64)
    rows = build_rows(make_ops([{"parts": parts}]), plan, counts, ("x.y", "x.z"), (0, -1, 2))
    assert rows.op.tolist() == [0] * parts
    assert rows.work.sum() == 7_000_003 << 28
    assert rows.counts.sum(axis=0).tolist() == [1_000_001, 5]
    assert rows.lead.tolist() == [11] + [0] * (parts - 1)
    total_ps = int((-(-rows.work // rows.cap)).sum())
    assert 1_000_003 <= total_ps <= 1_000_003 + 2 * parts


def test_shares_of_more_parts_than_units_add_up():
    assert [share(3, part, 8) for part in range(8)] == [0, 0, 1, 0, 0, 1, 0, 1]


def test_too_slow_a_row_is_refused():
    plan = planned({TIME_PS: 1 << 40, READ_BYTES: 1})
    with pytest.raises(ValueError, match="operator 0: slower than 3726 bytes/s"):
        build_rows(make_ops([{}]), plan, np.zeros((1, 0), np.int64), (), (0, -1, -1))


def test_conversions_round_up_and_do_not_overflow():
    assert bytes_to_ps(59, 59_000) == 1000
    assert bytes_to_ps(60, 59_000) == 1017
    assert bytes_to_ps(500 * 10**9, 1) == 500_000 * 10**12
    assert cycles_to_ps(1, 1_469_000) == 681
    assert cycles_to_ps(1_469_000, 1_469_000) == 10**9
    assert cycles_to_ps(3 * 10**12, 1_000_000) == 3000 * 10**12


@pytest.mark.parametrize(
    "single", ["achievable_bytes_per_s=31 GB/s", "transfer_rate_per_s=4.8 GT/s", "bus_width_bits=32 bit"]
)
def test_a_single_setting_that_contradicts_the_others_names_the_one_for_all(single):
    with pytest.raises(InputError, match="rate_factor"):
        load_config("system", "oneplus_12", sets=[f"system.dram.{single}"])


def pool_of(*sets):
    """Pool of the phone's memory."""
    data = load_config("system", "oneplus_12", sets=[f"system.dram.{one}" for one in sets]).data
    return System.from_data(data).devices["dram"].pools()[0]


@pytest.mark.parametrize("factor", [0.25, 0.5, 2])
def test_one_factor_moves_the_whole_memory(factor):
    """As the transfer rate, the times of the standard and the achievable rate do together."""
    before, moved = pool_of(), pool_of(f"rate_factor={factor}")
    assert moved.capacity == factor * before.capacity
    assert moved.mix == {streams: factor * rate for streams, rate in before.mix.items()}
    each = pool_of(
        f"transfer_rate_per_s={9.6 * factor} GT/s",
        f"timing_factor={1 / factor}",
        f"achievable_bytes_per_s={62 * factor} GB/s",
    )
    assert moved == each
