"""Every timing gate of every standard is tight: refused one cycle early, allowed on the cycle."""

import numpy as np
import pytest

from archsim.devices.dram import effects, layout, oracle, oracle_channel, queues
from archsim.devices.dram.controller import load_controller, load_memory
from archsim.devices.dram.reading import names
from archsim.devices.dram.standard import STANDARDS
from archsim.devices.dram.table import Cmd, Level, Row

NOW = 100_000
RANK_WIDE = (Cmd.PREAB, Cmd.REFAB)


def memory(name):
    controller = load_controller("mobile", refresh="all_bank")
    return load_memory(name, controller, ranks=2)


def cases():
    for name in names(STANDARDS):
        standard = memory(name).standard
        for row, label in zip(standard.rows.tolist(), standard.row_names, strict=True):
            first, then = (standard.commands[row[k]] for k in (Row.PREV, Row.NEXT))
            yield pytest.param(name, row, id=f"{name}-{label}-{first}-{then}".replace(" ", "_"))


def place(org, level):
    """Bank of the second command when the first went to bank 0: in the level's scope and in no narrower one."""
    per_rank = org.groups * org.banks
    return {Level.BANK: 0, Level.BANKGROUP: 1, Level.RANK: org.banks, Level.OTHER_RANK: per_rank}[level]


def scopes(org, bank):
    per_rank = org.groups * org.banks
    if bank >= per_rank:
        return {Level.OTHER_RANK}
    if bank == 0:
        return {Level.BANK, Level.BANKGROUP, Level.RANK}
    return {Level.BANKGROUP, Level.RANK} if bank < org.banks else {Level.RANK}


def expected(rows, row, seen, history):
    """Earliest cycle by every row between the two commands that reaches the second one's bank."""
    times = [
        history[-r[Row.WINDOW]] + r[Row.CYCLES]
        for r in rows.tolist()
        if r[Row.PREV] == row[Row.PREV] and r[Row.NEXT] == row[Row.NEXT] and r[Row.LEVEL] in seen
        and len(history) >= r[Row.WINDOW]
    ]  # fmt: skip
    return max(times)


@pytest.mark.parametrize(("name", "row"), list(cases()))
def test_gate_is_tight(name, row):
    mem = memory(name)
    org = mem.org
    first, then, level, window, _ = row
    bank = place(org, level)
    per_rank = org.groups * org.banks
    # A window is filled with commands as close as they may be to one another or closer: only the window is looked at.
    history = [NOW + k for k in range(window)]
    due = expected(mem.rows, row, scopes(org, bank), history)
    if first in RANK_WIDE or then in RANK_WIDE:
        assert level in (Level.RANK, Level.OTHER_RANK)

    issued = np.full((3, org.ranks * per_rank, 12, 16), oracle_channel.LONG_AGO, np.int64)
    m = layout.new_state(org, mem.rules, mem.effects)
    for clock in history:
        wide = first in RANK_WIDE
        oracle.note_issue(issued, 0, -1 if wide else 0, -1 if wide else 0, first, clock)
        at = m[layout.BANKS]
        effects.apply_timing(m, first, m[at + layout.BANK_RANK], -1 if wide else at, clock)

    def allowed(clock):
        where = bank // per_rank, bank // org.banks, bank
        return oracle.timing_met(oracle.gates(mem.rows, 12), issued, org, *where, then, clock)

    assert not allowed(due - 1)
    assert allowed(due)
    target = m[layout.BANKS] + bank * layout.BANK
    if then != Cmd.REFPB:  # an all-bank controller never asks for it
        assert queues.earliest(m, target, m[layout.GATES + then]) == due


def test_row_is_the_binding_one_somewhere():
    # Rows that another row of the same pair and reach always covers would be dead data.
    mem = memory("lpddr5-6400")
    for row, label in zip(mem.rows.tolist(), mem.standard.row_names, strict=True):
        rivals = [
            r[Row.CYCLES]
            for r in mem.rows.tolist()
            if r[:3] == row[:3] and r[Row.WINDOW] == row[Row.WINDOW] and r != row
        ]
        assert all(c < row[Row.CYCLES] for c in rivals), label


def test_gates_merge_only_equal_constraints():
    effects = memory("lpddr5-6400").effects
    gate = effects.gate_of
    assert (gate[Cmd.RD], gate[Cmd.WR]) == (gate[Cmd.RDA], gate[Cmd.WRA])
    assert len({gate[c] for c in (Cmd.ACT, Cmd.PRE, Cmd.PREAB, Cmd.RD, Cmd.WR, Cmd.REFAB)}) == 6
