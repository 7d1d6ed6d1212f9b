"""Replay: injections, mapping, outputs and refusals; concurrent streams."""

import json

import numpy as np
import pytest

from archsim.devices.dram.controller import load_controller, load_memory
from archsim.devices.dram.replay import Injection, decode, parse_injection, replay, replay_columns
from archsim.devices.dram.streams import StreamSpec, streams
from archsim.units import InputError


def fields(memory, address):
    address = np.array([address])
    place, cell, row = (np.empty(1, np.int64) for _ in range(3))
    decode(address, np.zeros(1, np.int64), memory.pieces, memory.hashes, memory.org, place, cell, row)
    bank = int(place[0]) >> 1
    org = memory.org
    return {
        "bank": bank % org.banks,
        "group": bank // org.banks % org.groups,
        "rank": bank // (org.banks * org.groups) % org.ranks,
        "channel": bank // (org.banks * org.groups * org.ranks),
        "row": int(row[0]),
        "column": int(cell[0]) % org.columns,
    }


def test_mapping_by_hand():
    memory = load_memory("lpddr5-6400", channels=2, ranks=2)
    address, shift = 0, 5
    wanted = {"channel": (1, 1), "column": (37, 6), "group": (2, 2), "bank": (3, 2), "rank": (1, 1), "row": (40961, 16)}
    for value, bits in wanted.values():
        address |= value << shift
        shift += bits
    assert fields(memory, address) == {name: value for name, (value, _) in wanted.items()}
    assert memory.capacity_bytes == 1 << shift


def test_mapping_hash():
    plain = load_memory("lpddr5-6400")
    hashed = plain.__class__(**{**vars(plain), "hashes": np.array([[3, 4, 0]], np.int64)})  # bank ^= row
    got = fields(hashed, (6 << 15) | (1 << 13))
    assert (got["row"], got["bank"]) == (6, 1 ^ 2)


def test_injections():
    assert parse_injection("greedy") == Injection()
    assert parse_injection("chain") == Injection(depth=1)
    assert parse_injection("chain:1") == Injection(depth=1, gap=1)
    assert parse_injection("paced:12") == Injection(pace=12)
    assert parse_injection("recorded") == Injection(recorded=True)
    for bad in ("", "chian", "chain:", "chain:-1", "paced", "paced:0", "paced:1.5", "greedy:2"):
        with pytest.raises(InputError, match="unknown injection"):
            parse_injection(bad)


def test_recorded_uses_the_cycles_of_the_file(tmp_path):
    path = tmp_path / "t.txt"
    path.write_text("0x0 READ 10\n0x20 READ 500\n")
    memory = load_memory("lpddr5-6400", "reference_a")
    assert replay(memory, path, injection="recorded").cycles == 520
    assert replay(memory, path).cycles == 39
    path.write_text("R 0\n")
    with pytest.raises(InputError, match="looks like rw-hex"):
        replay(memory, path, injection="recorded")
    with pytest.raises(InputError, match="needs cycles"):
        replay(memory, path, injection="recorded", style="rw-hex")


def test_json_keys(tmp_path):
    path = tmp_path / "t.txt"
    path.write_text("R 0\nW 20\n")
    data = json.loads(json.dumps(replay(load_memory("lpddr5-6400"), path).to_json()))
    assert {
        "cycles", "tck_ns", "requests", "row_hits", "row_misses", "row_conflicts", "read_latency_cycles_avg",
        "read_latency_cycles_p50", "read_latency_cycles_p99", "write_wait_cycles_avg", "bandwidth_gb_s",
        "peak_fraction", "commands", "energy_pj", "cpu_s", "parse_s",
    } <= set(data)  # fmt: skip
    assert data["requests"] == 2
    assert set(data["energy_pj"]) == {"activate", "read", "write", "refresh", "background", "total"}


def test_nothing_is_written_when_the_input_is_bad(tmp_path):
    path, out = tmp_path / "t.txt", tmp_path / "commands.csv"
    path.write_text("R 0\n" * 10 + "R what\n")
    with pytest.raises(InputError, match=r"t\.txt:11: "):
        replay(load_memory("lpddr5-6400"), path, command_trace=out, style="rw-hex")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["t.txt"]
    path.write_text("R 0\n")
    with pytest.raises(InputError, match="cannot be written"):
        replay(load_memory("lpddr5-6400"), path, command_trace=tmp_path / "absent" / "c.csv")


def test_long_command_traces_are_written_in_pieces(tmp_path):
    count = 40_000
    address = np.random.default_rng(1).integers(0, 1 << 26, count) * 32
    memory, out = load_memory("lpddr5-6400", "reference_b"), tmp_path / "c.csv"
    traced = replay_columns(memory, address, np.zeros(count, np.int64), command_trace=out)
    plain = replay_columns(memory, address, np.zeros(count, np.int64))
    lines = out.read_text().splitlines()[1:]
    assert len(lines) == sum(traced.commands.values())
    clocks = [int(line.split(",")[0]) for line in lines]
    assert clocks == sorted(clocks)
    assert (traced.cycles, traced.commands) == (plain.cycles, plain.commands)


def test_columns_are_checked():
    memory, one = load_memory("lpddr5-6400"), np.zeros(1, np.int64)
    for address, write, cycle, message in (
        ([], [], None, "at least 1"),
        ([0, 32], [0], None, "equal length"),
        ([-32], [0], None, "out of range"),
        ([1 << 31], [0], None, "out of range"),
        ([33], [0], None, "32-byte burst"),
    ):
        with pytest.raises(InputError, match=message):
            replay_columns(memory, np.array(address, np.int64), np.array(write, np.int64), cycle)
    with pytest.raises(InputError, match="do not decrease"):
        replay_columns(memory, one, one, injection="recorded")


def test_percentiles_of_a_known_histogram():
    memory = load_memory("lpddr5-6400", "reference_a")
    address = np.arange(100) * 32 * 64 * 16  # a new row of bank 0 each: 35, then 50 on an idle memory
    result = replay_columns(memory, address, np.zeros(100, np.int64), injection="chain")
    assert (result.percentile(0), result.read_latency_cycles_p50, result.read_latency_cycles_p99) == (35, 50, 50)


def test_streams_alone_match_replay():
    quiet = load_controller("reference_a")
    chain = streams(load_memory("lpddr5-6400", quiet), streams=[StreamSpec(1, "random")], requests=20_000)
    # One read at a time, nearly always a row conflict: 50 cycles each.
    assert chain.streams[0].read_latency_cycles == pytest.approx(50, abs=0.01)
    assert chain.bandwidth_gb_s == pytest.approx(32 / (50 * 1.25), rel=0.002)
    deep = streams(
        load_memory("lpddr5-6400", load_controller("reference_f")), streams=[StreamSpec(128)], requests=50_000
    )
    assert deep.peak_fraction == pytest.approx(0.999, abs=0.002)


def test_streams_obey_littles_law_and_the_peak():
    specs = [StreamSpec(1, "random"), StreamSpec(16), StreamSpec(32, rate_gb_s=3.0)]
    result = streams("lpddr5x-9600", "mobile", specs, 60_000, channels=2)
    assert result.bandwidth_gb_s == pytest.approx(sum(s.bandwidth_gb_s for s in result.streams))
    assert 0 < result.peak_fraction < 1
    for spec, got in zip(specs, result.streams, strict=True):
        in_flight = got.bandwidth_gb_s / 32 * result.tck_ns * got.read_latency_cycles
        assert in_flight <= spec.depth * 1.01
    assert result.streams[2].bandwidth_gb_s == pytest.approx(3.0, rel=0.01)
    # A chain is never idle but for the cycle of its offer.
    chain = result.streams[0]
    assert chain.bandwidth_gb_s / 32 * result.tck_ns * chain.read_latency_cycles == pytest.approx(1, rel=0.03)


def test_streams_with_writes_and_wrong_specs():
    specs = [StreamSpec(16, read_share=0.67), StreamSpec(8, read_share=0.0, rate_gb_s=1.0)]
    result = streams("lpddr5-6400", "mobile", specs, 40_000)
    assert all(s.requests > 0 for s in result.streams)
    assert result.streams[1].read_latency_cycles == 0
    assert result.streams[0].write_wait_cycles > 0
    for bad in (StreamSpec(0), StreamSpec(4, "radom"), StreamSpec(4, read_share=2), StreamSpec(4, rate_gb_s=0)):
        with pytest.raises(InputError, match="streams"):
            streams("lpddr5-6400", "mobile", [bad])
    with pytest.raises(InputError, match="none given"):
        streams("lpddr5-6400", "mobile", [])
    with pytest.raises(InputError, match="expected 100 to"):
        streams("lpddr5-6400", "mobile", [StreamSpec(1)], 5)
