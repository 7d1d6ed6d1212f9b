"""Whole-phone energy and power against published measurements; cores, scalars and kinds stand in the table itself."""

import pytest

from archsim.devices.cpu.prices import CYCLE_SCALE, STATES
from archsim.devices.npu.prices import STATES as NPU_STATES
from archsim.reproduce.energy import CELLS, PUBLISHED, TOLERANCE, decoding, energy_rows

ROWS = {}


def rows():
    if not ROWS:
        ROWS.update({row.id: row for row in energy_rows()})
    return ROWS


@pytest.mark.parametrize(
    ("name", "quantity"), [(name, q) for name, q, *_, kind, _ in PUBLISHED if kind in ("fitted", "predicted")]
)
def test_published_energy_and_power_within_20_percent(name, quantity):
    row = rows()[f"energy.{name}.{quantity}"]
    assert row.tolerance == TOLERANCE == 0.20
    assert row.ok, f"{row.simulated:.4g} against {row.paper:.4g} {row.unit}"


def test_the_quoted_peak_is_not_scored():
    assert rows()["energy.7b.cpu.peak_w"].kind == "quoted"
    assert rows()["energy.7b.cpu.peak_w"].ok is None


def test_three_scalars_are_fitted_and_say_so():
    from archsim.config import load_config

    prices = load_config("part", "sm8650_rails")
    assert prices.sources["spec.base_mw"].text.startswith("fitted:")
    assert NPU_STATES["active"].confidence == "fitted"
    assert STATES["active"].confidence == "assumed"
    assert CYCLE_SCALE > 0
    from archsim.system import System

    machine = load_config("system", "oneplus_12")
    costs = System.from_data(machine.data, machine.sources).prices()
    fitted = {
        name for table in (costs.energy_pj, costs.power_mw) for name, c in table.items() if c.confidence == "fitted"
    }
    # one scale for the three classes of cores
    cores = {"cpu.prime_cycle", "cpu.performance_cycle", "cpu.efficiency_cycle"}
    assert fitted == {"rails.base", "npu.core.active", *cores}


def test_memory_share_is_reported_with_its_range():
    row = rows()["energy.memory_share"]
    assert row.kind == "reported"
    assert 0 < row.simulated < 1
    assert "within the prices' ranges" in row.why


def test_a_dram_die_grows_by_its_mac_blocks():
    from archsim.devices.pim.power import AREA, DIE_AREA, die_overhead
    from archsim.devices.pim.standard import load_pim

    standard = load_pim("lpddr5x_pim")
    blocks = standard.banks // standard.compute.banks_per_block
    share = die_overhead(standard)
    assert share.value == pytest.approx(blocks * AREA["mac_block"].value / DIE_AREA.value)
    assert share.low < share.value < share.high
    assert rows()["energy.pim.die_overhead"].simulated == share.value


def test_orderings_hold_whatever_the_scalars():
    """Published: both units at once draw most, the CPU next, the NPU least; the NPU needs least energy per token."""
    both, cpu, npu = (decoding(CELLS[f"bitnet-2b.{unit}"].trace()) for unit in ("hybrid", "cpu", "npu"))
    assert npu.watts < cpu.watts
    assert npu.j_per_token < min(cpu.j_per_token, both.j_per_token)
    half = decoding(CELLS["bitnet-2b.cpu"].__class__("half", "cpu_ar", "bitnet-2b", ("system.cpu.threads=4",)).trace())
    assert max(half.watts, npu.watts) < both.watts
