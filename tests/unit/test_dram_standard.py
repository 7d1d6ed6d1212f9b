"""Standards and controllers: loading, overriding and refusing."""

from fractions import Fraction

import pytest

from archsim.config.reading import read
from archsim.config.writing import text_of
from archsim.devices.dram.controller import CONTROLLERS, load_controller, load_memory
from archsim.devices.dram.power import prices
from archsim.devices.dram.reading import names
from archsim.devices.dram.standard import STANDARDS, load_standard
from archsim.units import InputError


def refuse(call, *args, **kwargs):
    with pytest.raises(InputError) as caught:
        call(*args, **kwargs)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def edited(tmp_path, old, new):
    text = (STANDARDS / "lpddr5-6400.yaml").read_text()
    assert old in text
    path = tmp_path / "mine.yaml"
    path.write_text(text.replace(old, new))
    return str(path)


def test_known_names():
    assert {"lpddr5-6400", "lpddr5x-8533", "lpddr5x-9600", "lpddr5x-10667"} <= set(names(STANDARDS))
    assert {"mobile", *(f"reference_{c}" for c in "abcdef")} <= set(names(CONTROLLERS))


@pytest.mark.parametrize("name", names(STANDARDS))
def test_every_standard_resolves_with_sources(name):
    standard = load_standard(name)
    assert all(standard.sources.values())
    assert standard.rows.shape == (len(standard.row_names), 5)
    assert prices(standard).activate_pj > 0


@pytest.mark.parametrize(
    ("name", "tck_ps", "read_latency", "write_latency"),
    [
        ("lpddr5-6400", Fraction(1250), 17, 9),
        ("lpddr5x-8533", Fraction(1875, 2), 23, 12),
        ("lpddr5x-9600", Fraction(2500, 3), 26, 14),
        ("lpddr5x-10667", Fraction(750), 29, 15),
    ],
)
def test_clock_and_latencies(name, tck_ps, read_latency, write_latency):
    standard = load_standard(name)
    assert standard.tck_ps == tck_ps
    assert (standard.cycles["nCL"], standard.cycles["nCWL"]) == (read_latency, write_latency)
    assert standard.cycles["nRRDS"] == -(-5000 // standard.tck_ps)


def test_peak_is_rate_times_width():
    assert load_memory("lpddr5x-9600", channels=4).peak_gb_s == pytest.approx(76.8)
    assert load_memory("lpddr5-6400").peak_gb_s == pytest.approx(12.8)


def test_contradictions():
    assert "tRC 40 is below tRAS 34 + tRP 15 = 49 cycles; raise tRC" in refuse(
        load_standard, "lpddr5-6400", {"nRC": {"ck": 40}}
    )
    assert "tRCD 8 is not above tAAD 8" in refuse(load_standard, "lpddr5-6400", {"nRCD": {"ck": 8}})
    assert "tRCD 60 is above tRAS 34" in refuse(load_standard, "lpddr5-6400", {"nRCD": {"ck": 60}})
    assert "tCCD_L 1 is below tCCD_S 2" in refuse(load_standard, "lpddr5-6400", {"nCCDL": {"ck": 1}})
    assert "the interval must be longer" in refuse(load_standard, "lpddr5-6400", {"nREFI": {"ck": 200}})
    assert "is out of range" in refuse(load_standard, "lpddr5-6400", {"nRAS": {"ck": -3}})
    assert "is not a time in ns" in refuse(load_standard, "lpddr5-6400", {"nRAS": {"ns": float("nan")}})


def test_unknown_names_are_told_the_nearest():
    assert "lpddr5-6400" in refuse(load_standard, "lpddr5-640")
    assert "unknown timing 'nRCDx'; did you mean 'nRCD'?" in refuse(load_standard, "lpddr5-6400", {"nRCDx": {"ck": 1}})
    assert "reference_" in refuse(load_controller, "reference_x")
    assert "read_queue" in refuse(load_controller, "mobile", read_que=3)
    assert "frfcfs" in refuse(load_controller, "mobile", scheduler="frfcf")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("nRCD: {ns: 18.75", "nRCDx: {ns: 18.75", "unknown timing 'nRCD'"),
        ("  nRP", "  nRP", ""),
        ("row_cycle: [nRC]", "row_cycel: [nRC]", "unknown key 'row_cycel'"),
        ("level: rank, from: [RD, RDA]", "level: rnk, from: [RD, RDA]", "unknown level 'rnk'"),
        ("[RD, RDA], to: [RD, RDA], cycles: [nCCDS]", "[RDX], to: [RD], cycles: [nCCDS]", "unknown command 'RDX'"),
        ("bankgroups: 4", "bankgroups: 3", "3 is not a power of two"),
        ("ranks: 1", "ranks: 8", "128 banks a channel; at most 64"),
        ("role: activate,", "role: actvate,", "unknown role 'actvate'"),
        ("kind: standard", "kind: model", "kind is 'model'"),
        ("source: \"tRCD, 15 CK at 6400\"", "source: \"\"", "source is empty"),
        ("data_rate_mt_s: 6400", "data_rate_mt_s: fast", "is not a number"),
        ("[row, all]]", "[row, 3]]", "mapping gives row 3 bits"),
        ("IDD0: 100", "IDD0: 10", "energy would be negative"),
        ("organisation:", "organisation: [", "is not YAML"),
    ],
)  # fmt: skip
def test_broken_files(tmp_path, old, new, message):
    path = edited(tmp_path, old, new)
    if message:
        assert message in refuse(lambda: prices(load_memory(path, "mobile").standard))
    else:
        load_memory(path, "mobile")


def test_controllers_are_checked():
    assert "above drain_high_permille" in refuse(load_controller, "mobile", drain_low_permille=900)
    assert "out of range" in refuse(load_controller, "mobile", read_queue=0)
    assert "expected true or false" in refuse(load_controller, "mobile", forwarding=1)
    assert "not a power of two" in refuse(load_memory, "lpddr5-6400", channels=3)
    assert "exceed 64 banks" in refuse(load_memory, "lpddr5-6400", ranks=8)


def test_a_standard_without_the_commands_is_refused(tmp_path):
    path = edited(tmp_path, "  CAS_RD: {role: sync_read, scope: bank}\n", "")
    assert "has no command for CAS_RD, which 'data_clock: need_sync' needs" in refuse(load_memory, path, "mobile")
    load_memory(path, load_controller("mobile", data_clock="always_on"))


def test_single_command_activate_is_data(tmp_path):
    # Without a second activate (as in GDDR6) the deadline is unused.
    path = edited(tmp_path, "  ACT2: {role: activate_second, scope: bank}\n", "")
    assert load_memory(path, "reference_a").rules.deadline == 0


def test_own_commands_get_ids_behind_the_controllers_roles(tmp_path):
    path = edited(tmp_path, "  CAS_WR:", "  MAC: {scope: rank}\n  CAS_WR:")
    standard = load_standard(path)
    assert standard.commands[12] == "MAC"


@pytest.mark.parametrize(
    "role", ["sync_after_read", "sync_after_write", "read_data", "write_data", "activate_deadline"]
)
@pytest.mark.parametrize("given", ["[]", "[-nRFCab]", "null", "5", "[a]"])
def test_roles_that_would_break_the_kernel_are_refused(role, given, tmp_path):
    text = (STANDARDS / "lpddr5-6400.yaml").read_text()
    [line] = [line for line in text.splitlines() if line.strip().startswith(f"{role}:")]
    refuse(load_standard, edited(tmp_path, line, line[: line.index(":") + 1] + " " + given))


@pytest.mark.parametrize("section", ["commands", "timings", "constraints"])
@pytest.mark.parametrize("given", [None, [], {}, 5, "text"])
def test_sections_of_the_wrong_kind_are_refused(section, given, tmp_path):
    data = {**read(STANDARDS / "lpddr5-6400.yaml").data, "name": "mine", section: given}
    path = tmp_path / "mine.yaml"
    path.write_text(text_of(data))
    refuse(load_standard, str(path))
