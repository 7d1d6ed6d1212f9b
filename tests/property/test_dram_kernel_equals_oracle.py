"""The event-skipping kernel against the plain cycle-by-cycle version, in every departure cycle and every command."""

import dataclasses

import numpy as np
import pytest

from archsim.devices.dram import command, layout, oracle
from archsim.devices.dram.controller import load_controller, load_memory
from archsim.devices.dram.replay import replay_columns
from archsim.devices.dram.table import Cmd


def random_memory(r):
    def depth():
        return int(r.choice([1, 2, 3, 8, 16, 32, 128]))

    high = int(r.choice([1, 300, 800, 1000]))
    controller = load_controller(
        "mobile",
        read_queue=depth(),
        write_queue=depth(),
        active_buffer=int(r.choice([1, 2, 4, 16, 16])),
        drain_high_permille=high,
        drain_low_permille=max(1, int(high * r.choice([0, 0.25, 0.5, 1]))),
        scheduler=str(r.choice(["frfcfs", "frfcfs_row_hit"])),
        row_policy=str(r.choice(["open", "open", "closed"])),
        closed_cap=int(r.integers(1, 4)),
        refresh=str(r.choice(["none", "all_bank", "per_bank"])),
        data_clock=str(r.choice(["always_on", "need_sync"])),
        forwarding=bool(r.integers(2)),
        merging=bool(r.integers(2)),
    )
    standard = str(r.choice(["lpddr5-6400", "lpddr5x-8533", "lpddr5x-9600", "lpddr5x-10667"]))
    memory = load_memory(standard, controller, channels=int(r.choice([1, 1, 2, 4])), ranks=int(r.choice([1, 2, 2, 4])))
    if r.random() < 0.5:  # refreshes far more often than any device needs: rows close under waiting requests
        rules = memory.rules._replace(
            refresh_all_interval=int(r.integers(400, 900)), refresh_bank_interval=int(r.integers(190, 300))
        )
        memory = dataclasses.replace(memory, rules=rules)
    return memory


def random_requests(r, org):
    count = int(r.integers(20, 300))
    all_banks = org.channels * org.ranks * org.groups * org.banks
    few = r.choice(all_banks, size=min(all_banks, int(r.choice([1, 2, 4, 8, 64]))), replace=False)
    bank = r.choice(few, count)
    row = r.integers(0, int(r.choice([1, 2, 4, 1000])), count)
    column = r.integers(0, int(r.choice([1, 4, 64])), count)
    if r.random() < 0.3:
        run = np.arange(count) // int(r.integers(2, 40))
        row, bank = row[run], bank[run]
    write = (r.random(count) < r.choice([0, 0.1, 0.33, 0.5, 1])).astype(np.int64)
    release = np.arange(count) * int(r.choice([0, 0, 0, 1, 3, 9, 40]))
    if r.random() < 0.2:
        release = np.cumsum(r.integers(0, int(r.choice([2, 30, 300])), count))
    return bank, row, column, write, release


def kernel(memory, place, cell, row, release, depth, gap, offers):
    m = layout.new_state(memory.org, memory.rules, memory.effects, (depth,))
    source = m[layout.SOURCES]
    m[source + layout.END], m[source + layout.GAP] = place.size, gap
    log, served = np.zeros(command.LOG_WORDS * 200_000, np.int64), np.zeros(2 * place.size, np.int64)
    why = command.run(m, place, cell, row, release, offers, 1, layout.NEVER, log, served)
    assert why == command.DONE
    outcome = [int(m[k]) for k in (layout.HITS, layout.MISSES, layout.CONFLICTS)]
    return served.reshape(-1, 2), log.reshape(-1, command.LOG_WORDS)[: m[layout.LOGGED], :5], outcome


def compare(seed):
    r = np.random.default_rng(seed)
    memory = random_memory(r)
    org = memory.org
    bank, row, column, write, release = random_requests(r, org)
    depth, gap, offers = int(r.choice([0, 0, 0, 1, 2, 5])), int(r.integers(0, 2)), int(r.choice([1, 1, 2, 4]))
    per_channel = org.ranks * org.groups * org.banks
    log = np.zeros((200_000, 5), np.int64)
    requests = oracle.Requests(bank // per_channel, bank % per_channel, row, column, write, release)
    out, logged = oracle.simulate(org, memory.rules, oracle.gates(memory.rows, 12), requests, depth, gap, offers, log)
    log = log[:logged]
    whole = (log[:, 1] == Cmd.PREAB) | (log[:, 1] == Cmd.REFAB)
    log[:, 3] += log[:, 2] * np.where(whole, org.ranks, per_channel)
    place, cell = bank * 2 + write, row * org.columns + column
    served, commands, outcome = kernel(memory, place, cell, row, release, depth, gap, offers)
    assert (served[:, 0] == out.arrive).all(), seed
    assert (served[:, 1] == out.depart).all(), seed
    assert commands.tolist() == log.tolist(), seed
    assert outcome == [int((out.kind == k).sum()) for k in range(3)], seed


@pytest.mark.parametrize("batch", range(4))
def test_identical_on_random_cases(batch):
    for seed in range(100 * batch, 100 * batch + 100):
        compare(seed)


@pytest.mark.slow
def test_identical_on_many_more_random_cases():
    for seed in range(400, 4000):
        compare(seed)


def test_blocks_make_no_difference(tmp_path, monkeypatch):
    r = np.random.default_rng(3)
    address, write = r.integers(0, 1 << 12, 5000) * 32, r.integers(0, 2, 5000)
    path = tmp_path / "trace.txt"
    path.write_text("".join(f"{'RW'[w]} {a:x}\n" for a, w in zip(address, write, strict=True)))
    from archsim.devices.dram import reader, replay

    for injection in ("greedy", "chain", "chain:1", "paced:7"):
        memory = load_memory("lpddr5-6400", "mobile", channels=2)
        whole = replay_columns(memory, address, write, injection=injection)
        monkeypatch.setattr(reader, "BLOCK_BYTES", 97)
        small = replay.replay(memory, path, injection=injection)
        monkeypatch.undo()
        ignored = {"cpu_s", "parse_s"}
        assert {k: v for k, v in small.to_json().items() if k not in ignored} == {
            k: v for k, v in whole.to_json().items() if k not in ignored
        }


def test_served_equals_asked_and_energy_adds_up():
    r = np.random.default_rng(11)
    for _ in range(20):
        memory = random_memory(r)
        count = int(r.integers(50, 500))
        address = r.integers(0, 512, count) * 32
        write = r.integers(0, 2, count)
        result = replay_columns(memory, address, write)
        names = memory.standard.commands
        moved = sum(result.commands[names[c]] for c in (Cmd.RD, Cmd.WR, Cmd.RDA, Cmd.WRA))
        assert moved + result.forwarded + result.merged == count == result.requests
        assert result.row_hits + result.row_misses + result.row_conflicts == moved
        assert all(v >= 0 for v in result.energy_pj.values())
        assert result.peak_fraction <= 1
