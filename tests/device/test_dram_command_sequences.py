"""Hand-computed command sequences of tiny request lists, exact on the cycle (LPDDR5-6400: 1.25 ns)."""

import numpy as np
import pytest

from archsim.devices.dram.controller import load_controller, load_memory
from archsim.devices.dram.replay import replay_columns
from archsim.devices.dram.standard import load_standard

BASE = {"refresh": "none", "data_clock": "always_on", "row_policy": "open", "scheduler": "frfcfs"}


def address(mem, row=0, bank=0, group=0, column=0, rank=0):
    org = mem.org
    return ((((row * org.ranks + rank) * org.banks + bank) * org.groups + group) * org.columns + column) * 32


def play(tmp_path, requests, *, cycle=None, injection=None, standard="lpddr5-6400", ranks=1, **changes):
    """Requests: (write, {field: value}); returns the commands as (clock, name, bank group, bank) and the result."""
    mem = load_memory(standard, load_controller("reference_a", **{**BASE, **changes}), ranks=ranks)
    addresses = np.array([address(mem, **where) for _, where in requests])
    writes = np.array([write for write, _ in requests])
    out = tmp_path / "commands.csv"
    result = replay_columns(
        mem, addresses, writes, None if cycle is None else np.array(cycle),
        injection=injection or ("greedy" if cycle is None else "recorded"), command_trace=out,
    )  # fmt: skip
    lines = [line.split(",") for line in out.read_text().split()[1:]]
    return [(int(x[0]), x[1], int(x[4]), int(x[5])) for x in lines], result


def test_read_of_a_closed_bank(tmp_path):
    commands, result = play(tmp_path, [(0, {})])
    assert commands == [(1, "ACT1", 0, 0), (2, "ACT2", 0, 0), (16, "RD", 0, 0)]
    assert (result.cycles, result.read_latency_cycles_avg, result.row_misses) == (35, 35, 1)


def test_write_is_done_when_its_command_issues(tmp_path):
    commands, result = play(tmp_path, [(1, {})])
    assert commands[-1] == (16, "WR", 0, 0)
    assert (result.cycles, result.write_wait_cycles_avg) == (16, 16)


def test_conflict_waits_for_tras_then_precharges(tmp_path):
    commands, result = play(tmp_path, [(0, {"row": 0}), (0, {"row": 1})])
    assert [c[:2] for c in commands] == [
        (1, "ACT1"), (2, "ACT2"), (16, "RD"), (35, "PREpb"), (50, "ACT1"), (51, "ACT2"), (65, "RD"),
    ]  # fmt: skip
    assert (result.row_misses, result.row_conflicts) == (1, 1)


def test_second_activate_waits_for_an_idle_slot_or_its_deadline(tmp_path):
    # Hits of an open row, two groups by turns, fill a slot each two cycles: others are idle, so ACT2 comes early.
    requests = [(0, {"group": g}) for g in (0, 1)]
    requests += [(0, {"group": k % 2, "column": 1 + k // 2}) for k in range(20)]
    requests += [(0, {"group": 2})]
    commands, _ = play(tmp_path, requests)
    starts = {c[2]: c[0] for c in commands if c[1] == "ACT1"}
    seconds = {c[2]: c[0] for c in commands if c[1] == "ACT2"}
    assert all(1 <= seconds[g] - starts[g] <= 8 for g in starts)
    clocks = [c[0] for c in commands]
    assert len(set(clocks)) == len(clocks)  # one command a cycle


def test_activates_keep_trrd_and_one_pending_second(tmp_path):
    commands, _ = play(tmp_path, [(0, {"group": g}) for g in range(4)])
    assert [c[0] for c in commands if c[1] == "ACT1"] == [1, 5, 9, 13]


def test_tfaw_binds_when_it_is_longer_than_four_trrd(tmp_path):
    standard = load_standard("lpddr5-6400", {"nFAW": {"ck": 30}})
    requests = [(0, {"group": k % 4, "bank": k // 4}) for k in range(6)]
    commands, _ = play(tmp_path, requests, standard=standard)
    assert [c[0] for c in commands if c[1] == "ACT1"] == [1, 5, 9, 13, 31, 35]


def test_column_spacing_by_bank_group(tmp_path):
    same, _ = play(tmp_path, [(0, {"column": c}) for c in range(3)])
    assert [c[0] for c in same if c[1] == "RD"] == [16, 20, 24]
    opened = [(0, {"group": 0}), (0, {"group": 1})]
    two, _ = play(tmp_path, opened + [(0, {"group": k % 2, "column": 1 + k // 2}) for k in range(4)])
    assert [c[0] for c in two if c[1] == "RD"] == [16, 20, 22, 24, 26, 28]


def test_turnaround(tmp_path):
    # Two reads keep read mode until they have gone; then the write, at last a late read of the same or another group.
    for group, wait in ((0, 23), (1, 16)):
        opened = [(0, {"group": 0}), (0, {"group": group, "column": 1}), (1, {"group": 0, "column": 2})]
        late = (0, {"group": group, "column": 3})
        commands, _ = play(tmp_path, [*opened, late], cycle=[0, 0, 0, 60])
        columns = [(c[0], c[1]) for c in commands if c[1] in ("RD", "WR")]
        assert [name for _, name in columns] == ["RD", "RD", "WR", "RD"]
        assert columns[2][0] - columns[1][0] == 12
        assert columns[3][0] == max(61, columns[2][0] + wait)


def test_other_rank_only_waits_for_the_data_bus(tmp_path):
    requests = [(0, {"rank": 0}), (0, {"rank": 1}), (0, {"rank": 0, "column": 1})]
    commands, _ = play(tmp_path, requests, ranks=2)
    # The second rank's activate needs no tRRD but its own slot behind ACT2.
    assert [c[0] for c in commands if c[1] == "ACT1"] == [1, 3]
    assert [c[0] for c in commands if c[1] == "RD"] == [16, 20, 24]


def test_data_clock_sync_precedes_and_expires(tmp_path):
    commands, result = play(
        tmp_path, [(0, {}), (0, {"column": 1}), (0, {"column": 2})], cycle=[0, 17, 60], data_clock="need_sync"
    )
    assert [c[:2] for c in commands] == [
        (1, "ACT1"), (2, "ACT2"), (16, "CAS_RD"), (17, "RD"), (21, "RD"), (61, "CAS_RD"), (62, "RD"),
    ]  # fmt: skip
    assert result.commands["CAS_RD"] == 2


@pytest.mark.parametrize(("arrival", "synced"), [(35, True), (36, False)])
def test_data_clock_expiry_is_tight(tmp_path, arrival, synced):
    # RD at 17 keeps the clock until 37: a read at 36 still has it, one at 37 needs a CAS.
    commands, _ = play(tmp_path, [(0, {}), (0, {"column": 1})], cycle=[0, arrival], data_clock="need_sync")
    after = [c[1] for c in commands if c[0] > 17]
    assert after == (["RD"] if synced else ["CAS_RD", "RD"])


def test_forwarding_and_merging(tmp_path):
    # The reads keep the write waiting in its queue; the next read of its address is answered there, a write joins it.
    held = {"row": 5, "column": 5}
    requests = [(0, {}), (0, {"column": 1}), (1, held), (0, held), (1, held)]
    _, result = play(tmp_path, requests)
    assert (result.forwarded, result.merged) == (1, 1)
    assert (result.commands["WR"], result.commands["RD"]) == (1, 2)
    assert result.histogram[1] == 1  # answered in the next cycle
    _, plain = play(tmp_path, requests, forwarding=False, merging=False)
    assert (plain.forwarded, plain.merged, plain.commands["WR"], plain.commands["RD"]) == (0, 0, 2, 3)


def test_all_bank_refresh_closes_the_rank_first(tmp_path):
    commands, _ = play(tmp_path, [(0, {}), (0, {"column": 1})], cycle=[3000, 3130], refresh="all_bank")
    assert [c for c in commands if c[0] > 3100] == [
        (3125, "PREab", -1, -1), (3140, "REFab", -1, -1), (3364, "ACT1", 0, 0), (3365, "ACT2", 0, 0),
        (3379, "RD", 0, 0),
    ]  # fmt: skip


def test_all_bank_refresh_of_a_closed_rank_needs_no_precharge(tmp_path):
    commands, _ = play(tmp_path, [(0, {})], cycle=[3200], refresh="all_bank")
    assert commands[0] == (3125, "REFab", -1, -1)
    assert commands[1] == (3349, "ACT1", 0, 0)


def test_per_bank_refresh_walks_groups_outer(tmp_path):
    commands, _ = play(tmp_path, [(0, {"row": 9, "group": 3, "bank": 3})], cycle=[391 * 17], refresh="per_bank")
    refreshed = [c for c in commands if c[1] == "REFpb"]
    assert [c[0] for c in refreshed][:17] == [391 * (k + 1) for k in range(17)]
    assert [(c[2], c[3]) for c in refreshed][:6] == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1)]


def test_per_bank_refresh_gates(tmp_path):
    # Bank 0 of group 0 is refreshed at 391: an activate elsewhere waits 6 cycles, one of this bank 112.
    other, _ = play(tmp_path, [(0, {"group": 1})], cycle=[391], refresh="per_bank")
    assert [c[0] for c in other if c[1] == "ACT1"] == [397]
    same, _ = play(tmp_path, [(0, {})], cycle=[391], refresh="per_bank")
    assert [c[0] for c in same if c[1] == "ACT1"] == [391 + 112]


def test_closed_rows_precharge_on_the_first_cycle_they_may(tmp_path):
    commands, _ = play(tmp_path, [(0, {}), (0, {"group": 1, "column": 1})], cycle=[0, 80], row_policy="closed")
    assert [c[:2] for c in commands][:4] == [(1, "ACT1"), (2, "ACT2"), (16, "RD"), (35, "PREpb")]


def test_closed_rows_turn_the_next_access_into_an_auto_precharge(tmp_path):
    commands, result = play(tmp_path, [(0, {}), (0, {"column": 1}), (0, {"column": 2})], row_policy="closed")
    assert [c[:2] for c in commands] == [
        (1, "ACT1"), (2, "ACT2"), (16, "RD"), (20, "RDA"), (50, "ACT1"), (51, "ACT2"), (65, "RD"),
        (84, "PREpb"),
    ]  # fmt: skip
    assert (result.row_hits, result.row_misses) == (1, 2)


def test_row_hit_protection_blocks_the_precharge(tmp_path):
    # A write elsewhere (76) keeps the hit of the open row away until 92, but lets a precharge for the conflict go.
    requests = [(0, {}), (1, {"group": 1}), (0, {"column": 1}), (0, {"row": 1})]
    cycle = [0, 60, 76, 77]
    plain, result = play(tmp_path, requests, cycle=cycle)
    assert (78, "PREpb", 0, 0) in plain
    assert result.row_conflicts == 1
    guarded, _ = play(tmp_path, requests, cycle=cycle, scheduler="frfcfs_row_hit")
    assert [c for c in guarded if c[0] >= 76][:3] == [(76, "WR", 1, 0), (92, "RD", 0, 0), (100, "PREpb", 0, 0)]


def test_full_queue_holds_back_what_follows(tmp_path):
    _, shallow = play(tmp_path, [(0, {"row": k}) for k in range(4)], read_queue=1)
    # With one entry, a request is accepted in the cycle in which the activate before it has freed the entry.
    assert shallow.cycles == 1 + 3 * 49 + 15 + 19
    assert shallow.read_latency_cycles_avg == pytest.approx((35 + (84 - 1) + (133 - 50) + (182 - 99)) / 4)


def test_write_drain_marks(tmp_path):
    # Thirty writes wait while reads come; the drain starts above 0.8 x 32 and ends below 0.2 x 32.
    requests = [(0, {"group": k % 4, "column": k // 4}) for k in range(8)]
    requests += [(k % 3 != 0, {"group": k % 4, "bank": 1, "column": k // 4}) for k in range(120)]
    commands, result = play(tmp_path, requests)
    kinds = "".join(c[1][0] for c in commands if c[1] in ("RD", "WR"))
    assert result.requests == 128
    assert kinds.startswith("RRRR")
    assert "W" * 20 in kinds


def test_paced_and_chained_offers(tmp_path):
    _, paced = play(tmp_path, [(0, {}), (0, {"column": 1}), (0, {"column": 2})], injection="paced:100")
    assert paced.cycles == 200 + 20
    _, chain = play(tmp_path, [(0, {}), (0, {"column": 1}), (0, {"column": 2})], injection="chain")
    assert chain.cycles == 35 + 20 + 20
    _, later = play(tmp_path, [(0, {}), (0, {"column": 1}), (0, {"column": 2})], injection="chain:1")
    assert later.cycles == 35 + 1 + 20 + 1 + 20
