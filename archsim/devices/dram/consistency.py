"""Whether a standard's roles and constraint rows agree with one another and with what the controller relies on."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from archsim.devices.dram.table import LEVELS, ROLES, Cmd, Level
from archsim.units import InputError

BANK_LEVELS = (Level.BANK, Level.BANKGROUP, Level.RANK)  # levels that hold between two commands of one bank


def check_roles(roles: Mapping[str, int], used: set[int], where: str) -> None:
    """Refuse roles the kernel cannot run with."""
    for key, value in roles.items():
        low = 0 if key == "activate_deadline" and Cmd.ACT2 not in used else 1
        if value < low:
            raise InputError(f"{where}: roles.{key}: {value} cycles; expected {low} or more")
    for key in ("read_data", "write_data", "sync_after_read", "sync_after_write"):
        if roles[key] < roles["burst"]:
            raise InputError(
                f"{where}: roles.{key}: {roles[key]} cycles is below a burst of {roles['burst']}; raise it"
            )


def _longest(rows: np.ndarray, first: int, then: int) -> int:
    """Cycles between two commands of a bank; 0 without a row."""
    return max((r[4] for r in rows.tolist() if r[:2] == [first, then] and r[2] in BANK_LEVELS and r[3] == 1), default=0)


def check_rows(roles: Mapping[str, int], rows: np.ndarray, used: set[int], where: str) -> None:
    """Refuse constraint tables without a row that the controller's state relies on."""
    active, closing, burst = roles["row_active"], roles["row_precharge"], roles["burst"]
    needed = [
        (Cmd.ACT, Cmd.RD, 1), (Cmd.ACT, Cmd.WR, 1), (Cmd.ACT, Cmd.RDA, 1), (Cmd.ACT, Cmd.WRA, 1),
        (Cmd.ACT, Cmd.PRE, active), (Cmd.ACT, Cmd.PREAB, active), (Cmd.ACT, Cmd.ACT, roles["row_cycle"]),
        (Cmd.PRE, Cmd.ACT, closing), (Cmd.PREAB, Cmd.ACT, closing), (Cmd.RDA, Cmd.ACT, closing),
        (Cmd.WRA, Cmd.ACT, closing), (Cmd.PRE, Cmd.REFAB, closing), (Cmd.PREAB, Cmd.REFAB, closing),
        (Cmd.PRE, Cmd.REFPB, closing), (Cmd.RDA, Cmd.REFAB, closing), (Cmd.WRA, Cmd.REFAB, closing),
        (Cmd.RDA, Cmd.REFPB, closing), (Cmd.WRA, Cmd.REFPB, closing),
        (Cmd.RD, Cmd.PRE, 1), (Cmd.RD, Cmd.PREAB, 1), (Cmd.WR, Cmd.PRE, roles["write_data"]),
        (Cmd.WR, Cmd.PREAB, roles["write_data"]),
        *((a, b, burst) for pair in ((Cmd.RD, Cmd.RDA), (Cmd.WR, Cmd.WRA)) for a in pair for b in pair),
        *((a, b, 1) for a in (Cmd.RD, Cmd.RDA) for b in (Cmd.WR, Cmd.WRA)),
        *((a, b, 1) for a in (Cmd.WR, Cmd.WRA) for b in (Cmd.RD, Cmd.RDA)),
        (Cmd.REFAB, Cmd.ACT, roles["refresh_all_cycle"]), (Cmd.REFAB, Cmd.REFAB, roles["refresh_all_cycle"]),
        (Cmd.REFPB, Cmd.ACT, roles["refresh_bank_cycle"]), (Cmd.REFPB, Cmd.REFPB, roles["refresh_bank_cycle"]),
    ]  # fmt: skip
    names = {command: role for role, command in ROLES.items()}
    for first, then, least in needed:
        if first in used and then in used and (found := _longest(rows, first, then)) < least:
            about = f"constraint from {names[first]} to {names[then]}"
            if not found:
                raise InputError(f"{where}: {about} is missing; add one of {least} or more cycles")
            raise InputError(f"{where}: {about} is {found} cycles, its role says {least}; make them agree")


def check_refresh(roles: Mapping[str, int], rows: np.ndarray, ranks: int, where: str) -> None:
    """Refuse refreshes that come faster than they can be done; their queue would grow without end.

    In one interval each rank, one after another, may have to wait for its banks to close; the last then refreshes.
    """
    into = (Cmd.PRE, Cmd.PREAB)
    table = rows.tolist()
    close = max((r[4] for r in table if r[1] in into and r[2] != Level.OTHER_RANK), default=0)
    for scheme, command in (("all", Cmd.REFAB), ("bank", Cmd.REFPB)):
        open_again = max((r[4] for r in table if r[0] in into and r[1] in (command, Cmd.ACT)), default=0)
        busy = max((r[4] for r in table if r[0] == command), default=0)
        total = ranks * (close + open_again) + max(busy, roles[f"refresh_{scheme}_cycle"])
        interval = roles[f"refresh_{scheme}_interval"]
        if interval <= total:
            raise InputError(
                f"{where}: refresh_{scheme}_interval {interval} cycles is not above the {total} that closing the banks "
                f"of {ranks} rank(s) and a refresh take; raise the interval"
            )


def check_timings(roles: Mapping[str, int], rows: np.ndarray, where: str) -> None:
    """Refuse sets of timings that contradict one another."""
    cycle, active, precharge = roles["row_cycle"], roles["row_active"], roles["row_precharge"]
    if cycle < active + precharge:
        raise InputError(
            f"{where}: tRC {cycle} is below tRAS {active} + tRP {precharge} = {active + precharge} cycles; raise tRC"
        )
    opening = {int(r[4]) for r in rows if r[0] == Cmd.ACT and r[1] in (Cmd.RD, Cmd.WR) and r[2] == LEVELS["bank"]}
    if not opening:
        raise InputError(f"{where}: constraints: no row from activate to a column command of its bank; add tRCD")
    if max(opening) > active:
        raise InputError(f"{where}: tRCD {max(opening)} is above tRAS {active} cycles; a row would close unread")
    if min(opening) <= roles["activate_deadline"]:
        raise InputError(
            f"{where}: tRCD {min(opening)} is not above tAAD {roles['activate_deadline']} cycles; "
            "a column command could come before its second activate"
        )
    for scheme in ("all", "bank"):
        interval, busy = roles[f"refresh_{scheme}_interval"], roles[f"refresh_{scheme}_cycle"]
        if interval <= busy:
            raise InputError(f"{where}: refresh each {interval} cycles takes {busy}; the interval must be longer")
    for first in (Cmd.RD, Cmd.WR):
        spacing = {int(r[2]): int(r[4]) for r in rows if r[0] == first and r[1] == first}
        if spacing.get(1, 1 << 40) < spacing.get(0, 0):
            raise InputError(f"{where}: tCCD_L {spacing[1]} is below tCCD_S {spacing[0]} cycles")
    if roles["burst"] < 1:
        raise InputError(f"{where}: a burst takes {roles['burst']} cycles; expected 1 or more")
