"""Scaling between nodes, SRAM against CACTI, and what the tables refuse."""

import pytest

from archsim.device import Clock, Cost, PowerStates
from archsim.technology import logic, sram
from archsim.units import InputError


@pytest.mark.parametrize(
    "row", [row for row in sram.errors() if not row["fitted"]], ids=lambda r: f"{r['quantity']} {r['run']}"
)
def test_cacti_runs_that_were_not_fitted_are_met_within_15_percent(row):
    assert abs(row["error"]) < 0.15


def test_fitted_runs_are_met_and_are_few():
    fitted = [row for row in sram.errors() if row["fitted"]]
    assert len(fitted) == 2 * len(sram.FITTED)
    for row in fitted:
        assert abs(row["error"]) < (0.02 if row["quantity"] == "leak_mw" else 1e-9), row


def test_a_banked_scratchpad_is_cheaper_to_read_than_one_array_and_pays_for_its_wires():
    whole, banked = sram.array(8 << 20, 1024, 4), sram.scratchpad(8 << 20, 32, 1024, 4)
    one = sram.array((8 << 20) // 32, 1024, 4)
    assert one.read_pj < banked.read_pj < whole.read_pj
    assert banked.area_um2 == pytest.approx(32 * one.area_um2)
    assert banked.access_ns < whole.access_ns
    assert banked.leak_mw == pytest.approx(whole.leak_mw)


@pytest.mark.parametrize("quantity", sram.Array._fields)
def test_sram_grows_with_size(quantity):
    values = [getattr(sram.array(size << 10, 256, 22), quantity) for size in (8, 64, 1024, 16384)]
    assert values == sorted(values)
    assert values[0] > 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sram.array(1024, 256, 22), "SRAM size of 1024 bytes is outside 4096 to 67108864 bytes"),
        (lambda: sram.array(8192, 4, 22), "SRAM width of 4 bits is outside 8 to 4096 bits"),
        (lambda: sram.array(8192, 256, 3), "SRAM node of 3 nm is outside 4 to 45 nm"),
        (lambda: sram.scratchpad(1 << 20, 3, 256, 22), "does not divide into 3 banks"),
        (lambda: logic.energy_ratio(45, 6), "node 6 nm is not in the scaling tables; known: 45, 32,"),
        (lambda: logic.area_ratio(28, 7), "node 28 nm is not in the scaling tables"),
        (lambda: logic.area_ratio("x", 7), "node 'x' nm is not in the scaling tables"),
        (lambda: logic.energy_ratio(45, 7, to_v=1.3), "supply of 1.3 V at 7 nm is outside 0.48 to 0.96 V"),
    ],
)
def test_what_is_out_of_range_is_refused(call, message):
    with pytest.raises(InputError, match=message.replace(".", "[.]")):
        call()


def test_energy_and_area_fall_with_every_node_and_compose():
    for ratio in (logic.energy_ratio, logic.area_ratio):
        steps = [ratio(45, node).value for node in (45, 32, 20, 16, 14, 10, 7, 5, 4, 3)]
        assert steps == sorted(steps, reverse=True)
        assert ratio(45, 7).value * ratio(7, 4).value == pytest.approx(ratio(45, 4).value)
        assert ratio(4, 45).value == pytest.approx(1 / ratio(45, 4).value)
        found = ratio(45, 7)
        assert found.low < found.value < found.high
        assert ratio(7, 7).low == ratio(7, 7).high == 1


def test_scaling_ratios_are_those_of_their_sources():
    # Stillmaker and Baas 2017: the 7 nm row of their tables; TSMC: 30 % less power and 1.84 times the density
    assert logic.area_ratio(45, 7).value == 0.059
    assert logic.energy_ratio(7, 5).value == pytest.approx(0.70)
    assert logic.area_ratio(7, 5).value == pytest.approx(1 / 1.84)
    seven = 0.1776 * 0.64 - 0.09097 * 0.8 + 0.02447
    assert logic.energy_ratio(45, 7).value == pytest.approx(seven / (1.018 - 0.3107 + 0.1539))


def test_a_lower_supply_saves_energy():
    assert logic.energy_ratio(7, 7, 0.8, 0.6).value < 1
    assert (
        logic.energy_ratio(4, 4, 0.75, 0.6).value
        == pytest.approx(logic.voltage_energy(0.6, 0.75))
        == pytest.approx(0.64)
    )


def test_a_cost_says_how_well_it_is_known():
    assert Cost(1.0, "pJ", "assumed: a guess").confidence == "assumed"
    assert Cost(1.0, "pJ", "fitted: a cell").confidence == "fitted"
    assert Cost(1.0, "pJ", "Somebody 2020, table 3").confidence == "published"
    assert Cost(1.0, "pJ", "x", (0.5, 2.0)).times(2) == Cost(2.0, "pJ", "x; x 2", (1.0, 4.0))
    kept = Cost(1.0, "pJ", "x", None, 4, 0.75, "a lane").times(3, "mW")
    assert (kept.node_nm, kept.voltage_v, kept.scope, kept.unit, kept.low, kept.high) == (
        4,
        0.75,
        "a lane",
        "mW",
        3.0,
        3.0,
    )
    with pytest.raises(ValueError, match="confidence 'certain' is not one of"):
        Cost(1.0, "pJ", "x", confidence="certain")


def test_states_and_clocks_must_make_sense():
    mw = Cost(1.0, "mW", "x")
    with pytest.raises(ValueError, match="must be active, idle and deeper ones in order"):
        PowerStates(("a.b",), {"active": mw})
    with pytest.raises(ValueError, match="after_ps must ascend"):
        PowerStates(("a.b",), {"active": mw, "idle": mw, "retention": mw, "gated": mw}, {"retention": 5, "gated": 4})
    with pytest.raises(ValueError, match="must ascend to fraction 1"):
        Clock("a.b", 1e9, ("a.c",), ((0.5, 0.6), (0.9, 0.7)), "x")
    with pytest.raises(ValueError, match="not fall with the clock"):
        Clock("a.b", 1e9, ("a.c",), ((0.5, 0.8), (1.0, 0.7)), "x")
