"""PIM operators as rows: duration and counts of the command kernel, claim, what other ranks lose."""

import numpy as np
import pytest

from archsim.device import STREAMS, Binding, DType, OpKind, make_ops
from archsim.devices.pim import Pim, PimSpec, data_type
from archsim.devices.pim.gemv import gemv
from archsim.devices.pim.standard import load_pim
from archsim.lowering import TIME_RATE
from archsim.units import from_numbers

SPEC = {"standard": "lpddr5x_pim", "host": "exclusive", "ranks": 1, "fence": False, "crossing_ps": 150_000}


def pim(**changes):
    made = Pim("pim", from_numbers(PimSpec, {**SPEC, **changes}))
    made.bind(Binding({"pim.sequencer": 3}, {"dram.bandwidth": 5}, {}))
    return made


def matmul(m=1, k=4096, n=4096, wdtype=DType.INT8, adtype=DType.INT8, **more):
    sizes = {"m": m, "k": k, "n": n, "weight_bytes": k * n, "wdtype": wdtype, "adtype": adtype}
    return {"kind": OpKind.MATMUL, **sizes, **more}


def test_a_row_lasts_what_the_command_kernel_counts():
    rows = pim().lower(make_ops([matmul(), matmul(m=3, wdtype=DType.INT4, adtype=DType.FP16)]))
    asked = gemv("lpddr5x_pim", 4096, 4096), gemv("lpddr5x_pim", 4096, 4096, dtype="W4A16", tokens=3)
    # tCK is 2500 / 3 ps; rounded up once.
    assert (rows.work // TIME_RATE).tolist() == [-(-r.cycles * 2500 // 3) for r in asked]
    assert (rows.work // rows.cap).tolist() == (rows.work // TIME_RATE).tolist()
    assert rows.claim.tolist() == [5, 5]
    assert rows.unit.tolist() == [3, 3]
    assert rows.lead.tolist() == [150_000, 150_000]
    counts = dict(zip(rows.actions, rows.counts[0].tolist(), strict=True))
    total = asked[0].commands_total
    assert counts["pim.activate"] == 16 * total["ACT16"]
    assert counts["pim.access_bits"] == 16 * 256 * total["MAC16"] == 8 * 4096 * 4096
    assert counts["pim.mac_bits"] == 8 * counts["pim.access_bits"]
    assert counts["pim.io_bits"] == 256 * (total["WRGB"] + total["RDMAC16"])


def test_parts_add_up():
    whole, parts = (pim().lower(make_ops([matmul(parts=p)])) for p in (1, 7))
    assert parts.work.sum() == whole.work[0]
    assert np.array_equal(parts.counts.sum(axis=0), whole.counts[0])
    assert parts.lead.tolist() == [150_000] + 6 * [0]


def test_other_ranks_keep_most_of_the_pool():
    rows = pim(host="other_ranks", ranks=2).lower(make_ops([matmul()]))
    assert rows.claim.tolist() == [-1]
    assert rows.stream.tolist() == [STREAMS.index("pim")]
    drawn = int(rows.coef[0, 0]) * TIME_RATE / (1 << 20) / (1 << 28) * 1e12
    assert rows.pool[0, 0] == 5
    assert 0.01 * 76.8e9 < drawn < 0.1 * 76.8e9
    with pytest.raises(ValueError, match="host: other_ranks needs 2 ranks or more; ranks is 1"):
        pim(host="other_ranks")


def test_data_types():
    standard = load_pim("lpddr5x_pim")
    assert data_type(standard, DType.Q4_0, DType.Q8_0) == "W4A16"
    assert data_type(standard, DType.INT4, DType.INT4) == "W4A4"
    assert data_type(standard, DType.Q8_0, DType.FP16) == "W8A16"
    assert data_type(load_pim("gddr6_aim"), DType.BF16, DType.FP16) == "W16A16"
    with pytest.raises(ValueError, match="multiplies no FP16 weights by FP16 activations; it has W8A8, W4A4"):
        data_type(standard, DType.FP16, DType.FP16)


def test_peaks_and_prices():
    made = pim()
    assert made.bandwidth_bytes_per_s() == pytest.approx(614.4e9)
    assert made.peak_ops_per_s() == pytest.approx(2.4576e12)
    assert set(made.energy()) == {a.removeprefix("pim.") for a in made._actions}
    assert all(c.source and c.unit == "pJ" and c.value > 0 for c in made.energy().values())
    assert made.area()["mac_blocks"].value > 0
