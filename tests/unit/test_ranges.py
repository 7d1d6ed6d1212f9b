"""Numbers that nobody measured: a range with the value inside, and a sentence that says what would settle each."""

from __future__ import annotations

import pytest

from archsim import load
from archsim.config import describe, load_config, names
from archsim.streams.acceptance import table as acceptance_table
from archsim.streams.denoise import denoise_table
from archsim.sweep.ranges import LEVEL, TABLES, UNSURE, Uncertain, settled, shares, stream_at, uncertain
from archsim.system import System

RUN = {
    "name": "small",
    "system": "oneplus_12",
    "schedule": {"name": "chain_sd"},
    "job": {"target": "smollm2-135m", "stream": "synthetic:llama-3.1-8b:mbpp", "tokens": 4},
}


def number(**fields):
    given = {"value": 4.0, "low": 1.0, "high": 8.0, "unit": "", "source": "assumed: x", "priced": False}
    return Uncertain("system.x.y", **(given | {"whole": False, "group": "g", "flipped": False, "settle": "s"} | fields))


def unsure(source):
    return source.removeprefix("part file; ").startswith(UNSURE)


def without_range(kind, name):
    """Numbers of a file that are assumed or fitted and have no range; texts and switches are choices without one."""
    rows = [row for row in describe(load_config(kind, name)) if unsure(row.source)]
    return [row.path for row in rows if has_number(row.value) and row.range is None]


def has_number(value):
    many = value if isinstance(value, (list, tuple)) else [value]
    return any(isinstance(one, (int, float)) and not isinstance(one, bool) for one in many)


@pytest.mark.parametrize("kind", ["part", "system"])
def test_every_assumed_or_fitted_number_of_the_shipped_files_has_a_range(kind):
    missing = {name: paths for name in names(kind) if (paths := without_range(kind, name))}
    assert not missing


def test_a_fitted_number_without_a_range_is_found(tmp_path):
    part = tmp_path / "mine.yaml"
    part.write_text(
        "kind: part\nname: mine\nbase: ufs_4_0.yaml\ndevice: flash\n"
        'spec:\n  stream_bytes_per_s: {value: 4 GB/s, source: "fitted: my desk"}\n'
    )
    assert without_range("part", part) == ["spec.stream_bytes_per_s"]


@pytest.mark.parametrize("system", names("system"))
def test_every_unsure_price_has_a_range_around_its_value_and_a_measurement(system):
    resolved = load_config("system", system)
    devices = resolved.data["devices"]
    tables = System.from_data(resolved.data, resolved.sources).prices().document()
    for table in TABLES:
        for name, cost in tables[table].items():
            if cost.confidence not in UNSURE:
                continue
            assert cost.range is not None, name
            assert cost.low <= cost.value <= cost.high, name
            device, _, price = name.partition(".")
            assert (devices[device]["device"], price) in settled().prices, name


@pytest.mark.parametrize("part", names("part"))
def test_every_unsure_field_names_the_measurement_that_settles_it(part):
    resolved = load_config("part", part)
    for row in describe(resolved):
        if unsure(row.source) and has_number(row.value):
            kind, field = resolved.data["device"], row.path.removeprefix("spec.")
            assert len(settled().fields.get((kind, field), "").split()) >= 5, row.path


def test_every_choice_is_a_field_of_a_shipped_part():
    known = {
        (resolved.data["device"], row.path.removeprefix("spec."))
        for resolved in (load_config("part", name) for name in names("part"))
        for row in describe(resolved)
    }
    assert settled().choices <= known
    assert set(settled().fields) <= known


def test_the_value_is_the_median_and_the_ends_are_the_ends():
    item = number()
    assert [item.at(share) for share in (0, 0.25, 0.5, 0.75, 1)] == pytest.approx([1, 2, 4, 32**0.5, 8])
    assert number(flipped=True).at(0) == 8
    assert [number(low=-4.0).at(share) for share in (0, 0.25, 0.5)] == pytest.approx([-4, 0, 4])
    assert {number(low=4.0, high=4.0).at(share) for share in (0, 0.3, 0.5, 0.9, 1)} == {4.0}


def test_whole_numbers_stay_whole_and_powers_of_two_stay_powers_of_two():
    drawn = {number(value=6, low=6.0, high=9.0, whole=True).at(i / 200) for i in range(201)}
    assert drawn == {6, 7, 8, 9}
    sizes = {number(value=4096, low=4096.0, high=65536.0, whole=True).at(i / 200) for i in range(201)}
    assert sizes == {4096, 8192, 16384, 32768, 65536}
    assert all(isinstance(one, int) for one in drawn | sizes)


def test_a_column_has_one_share_in_every_slot_and_hangs_on_its_name_alone():
    column = shares("g", 50, 3)
    assert sorted(int(share * 50) for share in column) == list(range(50))
    assert column == shares("g", 50, 3)
    assert column != shares("h", 50, 3)
    assert column != shares("g", 50, 4)


def test_what_one_fit_gave_moves_together():
    found = {item.path: item for item in uncertain(load(RUN))}
    clocks = [found[f"system.npu.{field}"] for field in ("clock_hz", "hmx_clock_hz")]
    assert clocks[0].group == clocks[1].group
    unpack, mac = found["system.npu.unpack_cycles"], found["system.npu.mac_cycles"]
    assert unpack.group == mac.group
    assert (unpack.flipped, mac.flipped) == (False, True)
    base = found["system.rails.base_mw"]
    awake = found["prices.power_mw.npu.core.active"]
    assert base.group == awake.group
    assert base.flipped != awake.flipped


def test_choices_and_given_values_are_not_drawn_and_no_price_twice():
    plain = {item.path for item in uncertain(load(RUN))}
    assert not plain & {"system.cpu.threads", "system.flash.request_bytes", "system.dram.capacity_bytes"}
    assert "job.acceptance" in plain
    assert "system.rails.base_mw" in plain
    assert "prices.power_mw.rails.base" not in plain
    given = {item.path for item in uncertain(load(RUN, sets=["system.cpu.sync_ps=9 us", "job.acceptance=0.6"]))}
    assert plain - given == {"system.cpu.sync_ps", "job.acceptance"}


def test_every_unsure_level_of_a_generated_stream_has_a_range_around_it():
    cells = [cell.level for pair in acceptance_table().pairs.values() for cell in pair.values()]
    cells += [
        cell for presets in denoise_table().levels.values() for task in presets.values() for cell in task.values()
    ]
    for cell in cells:
        if cell.source.startswith(UNSURE):
            assert cell.range is not None, cell
            assert cell.range[0] <= cell.value <= cell.range[1]


def test_the_level_of_a_denoising_stream_is_drawn_and_one_given_by_hand_is_not():
    found = [item for item in uncertain(load("llada_gsm8k")) if item.path == LEVEL]
    assert (found[0].value, found[0].low, found[0].high) == (6.05, 5.37, 6.05)
    stream = stream_at("synthetic:llada-8b:gsm8k", 5.5)
    assert not [item for item in uncertain(load("llada_gsm8k", sets=[f"job.stream={stream}"])) if item.path == LEVEL]
