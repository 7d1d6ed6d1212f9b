"""DRAM standards as data: load, validate, resolve to integers.

A standard file declares commands, timings (ns or cycles, each with its source), constraint rows, organisation and
address mapping. Loading turns every timing into whole clock cycles (analog values are rounded up) and every constraint
into a row ``[previous command, next command, level, window, cycles]``. The kernels never see a name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from archsim.devices.dram.consistency import check_refresh, check_roles, check_rows, check_timings
from archsim.devices.dram.reading import (
    check_keys,
    choice,
    list_of,
    mapping_of,
    nanoseconds,
    read_yaml,
    text,
    whole,
)
from archsim.devices.dram.table import COMMANDS, FIRST_FREE_COMMAND, LEVELS, MAX_CYCLES, ROLES, Cmd
from archsim.units import InputError, quote, suggest

STANDARDS = Path(__file__).parent / "standards"

KEYS = {
    "kind", "name", "title", "base", "data_rate_mt_s", "transfers_per_clock", "source", "organisation", "mapping",
    "commands", "timings", "roles", "constraints", "energy",
}  # fmt: skip
ORGANISATION = (
    "ranks", "bankgroups", "banks_per_group", "rows", "bursts_per_row", "burst_bytes", "density_gbit", "device_bits",
)  # fmt: skip
ROLE_NAMES = (
    "read_data", "write_data", "activate_deadline", "refresh_all_interval", "refresh_bank_interval",
    "sync_after_read", "sync_after_write", "burst", "row_cycle", "row_active", "row_precharge",
    "refresh_all_cycle", "refresh_bank_cycle",
)  # fmt: skip
NEEDED_COMMANDS = (Cmd.ACT, Cmd.PRE, Cmd.RD, Cmd.WR)
MAX_CELLS = 1 << 30  # bursts of a bank; the kernel's address hash relies on it
RATE = re.compile(r"[0-9]{1,6}(\.[0-9]{1,6})?(/[1-9][0-9]{0,3})?")
FIELDS = ("offset", "channel", "column", "bankgroup", "bank", "rank", "row")


@dataclass(frozen=True)
class Standard:
    """One resolved DRAM standard.

    Attributes
    ----------
    tck_ps : Fraction
        Clock period in picoseconds, exact.
    commands : tuple of str
        Name by command id; an empty text where the standard lacks the command.
    cycles : dict
        Timing name -> whole clock cycles, rounded up.
    roles : dict
        What the controller needs to know -> cycles.
    rows : int64 [n, 5]
        Constraint rows, columns of :class:`archsim.devices.dram.table.Row`.
    row_names : tuple of str
        Name of the constraint of each row.
    organisation, mapping, energy : dict
        As in the file.
    sources : dict
        Timing name -> source.
    """

    name: str
    tck_ps: Fraction
    commands: tuple[str, ...]
    cycles: Mapping[str, int]
    roles: Mapping[str, int]
    rows: np.ndarray
    row_names: tuple[str, ...]
    organisation: Mapping[str, Any]
    mapping: Mapping[str, Any]
    energy: Mapping[str, Any]
    sources: Mapping[str, str]

    @property
    def tck_ns(self) -> float:
        """Clock period in ns."""
        return float(self.tck_ps / 1000)

    @property
    def peak_gb_s(self) -> float:
        """Peak bandwidth of one channel, GB/s (1e9 bytes)."""
        return float(self.organisation["burst_bytes"] * 1000 / (self.roles["burst"] * self.tck_ps))


def load_standard(name: str, timings: Mapping[str, Mapping[str, Any]] | None = None) -> Standard:
    """Load, override, validate and resolve a standard.

    Parameters
    ----------
    name : str
        A file stem in ``standards/`` or a path to a YAML file.
    timings : mapping, optional
        Timing name -> ``{"ck": n}`` or ``{"ns": x}`` (a ``source`` is optional here), replacing the file's.

    Raises
    ------
    InputError
        Unknown or missing keys, values out of range, contradictory timings.
    """
    data, path = read_yaml(STANDARDS, name, "standard")
    if "base" in data:
        base, base_path = read_yaml(STANDARDS, str(data["base"]), "standard")
        if "base" in base:
            raise InputError(f"{path}: base {base_path.stem} has a base of its own; one level only")
        data = _overlay(base, data)
    for key, value in mapping_of(f"{path}: timing overrides", {} if timings is None else timings).items():
        known = mapping_of(f"{path}: timings", data.get("timings"))
        if key not in known:
            raise InputError(f"{path}: unknown timing {quote(key)}; {suggest(key, known)}")
        data["timings"] = {**known, key: {"source": "override", **mapping_of(f"{path}: timings.{key}", value)}}
    return _resolve(data, str(path))


def _overlay(base: dict[str, Any], top: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in top.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = {**merged[key], **value} if both else value
    merged.pop("base")
    return merged


def _resolve(data: dict[str, Any], where: str) -> Standard:
    check_keys(where, data, KEYS, KEYS - {"title", "base"})
    for key in ("name", "source", *(k for k in ("title",) if k in data)):
        text(f"{where}: {key}", data[key])
    tck_ps = _clock(data, where)
    organisation = _organisation(data["organisation"], where)
    commands = _commands(data["commands"], where)
    cycles, sources = {}, {}
    for key, entry in mapping_of(f"{where}: timings", data["timings"]).items():
        cycles[key] = _timing(f"{where}: timings.{key}", entry, tck_ps)
        sources[key] = entry["source"]
    check_keys(f"{where}: roles", data["roles"], ROLE_NAMES, ROLE_NAMES)
    roles = {key: _sum(f"{where}: roles.{key}", terms, cycles) for key, terms in data["roles"].items()}
    rank_wide = {name for name, entry in data["commands"].items() if entry["scope"] == "rank"}
    rows, row_names = _rows(data["constraints"], commands, rank_wide, cycles, where)
    _check_mapping(data["mapping"], organisation, f"{where}: mapping")
    _check_energy(data["energy"], f"{where}: energy")
    check_roles(roles, set(commands.values()), where)
    check_timings(roles, rows, where)
    check_rows(roles, rows, set(commands.values()), where)
    check_refresh(roles, rows, organisation["ranks"], where)
    ids = [""] * max(FIRST_FREE_COMMAND, 1 + max(commands.values()))
    for name, number in commands.items():
        ids[number] = name
    return Standard(
        str(data["name"]), tck_ps, tuple(ids), cycles, roles, rows, row_names, organisation,
        data["mapping"], data["energy"], sources,
    )  # fmt: skip


def _clock(data: dict[str, Any], where: str) -> Fraction:
    given = data["data_rate_mt_s"]
    if isinstance(given, bool) or not isinstance(given, int | float | str) or not RATE.fullmatch(str(given)):
        raise InputError(f"{where}: data_rate_mt_s {quote(given)} is not a number; give one such as 6400 or 25600/3")
    rate = Fraction(str(given))
    if not 0 < rate <= 100_000:
        raise InputError(
            f"{where}: data_rate_mt_s {data['data_rate_mt_s']} is out of range; expected above 0 to 100000"
        )
    beats = whole(f"{where}: transfers_per_clock", data["transfers_per_clock"], 1, 64)
    return Fraction(1_000_000) * beats / rate


def _organisation(given: Any, where: str) -> dict[str, Any]:
    check_keys(f"{where}: organisation", given, (*ORGANISATION, "source"), (*ORGANISATION, "source"))
    for key in ORGANISATION:
        whole(f"{where}: organisation.{key}", given[key], 1, 1 << 24, key != "density_gbit")
    text(f"{where}: organisation.source", given["source"])
    if given["rows"] * given["bursts_per_row"] > MAX_CELLS:
        raise InputError(f"{where}: organisation: rows x bursts_per_row is above {MAX_CELLS}")
    banks = given["ranks"] * given["bankgroups"] * given["banks_per_group"]
    if banks > 64:
        raise InputError(f"{where}: organisation: {banks} banks a channel; at most 64")
    return dict(given)


def _commands(given: Any, where: str) -> dict[str, int]:
    ids: dict[str, int] = {}
    free = FIRST_FREE_COMMAND
    for name, entry in mapping_of(f"{where}: commands", given).items():
        check_keys(f"{where}: commands.{name}", entry, ("role", "scope", "source"), ("scope",))
        if entry["scope"] not in ("bank", "rank"):
            raise InputError(f"{where}: commands.{name}: scope is {quote(entry['scope'])}; expected bank or rank")
        role = entry.get("role")
        if "role" in entry:
            choice(f"{where}: commands.{name}", role, ROLES, "role")
            scope = "rank" if ROLES[role] in (Cmd.PREAB, Cmd.REFAB) else "bank"
            if entry["scope"] != scope:
                raise InputError(f"{where}: commands.{name}: {role} acts on a {scope}; set scope: {scope}")
        if role is not None and ROLES[role] in ids.values():
            raise InputError(f"{where}: commands.{name}: role {role} is given twice")
        ids[name] = int(ROLES[role]) if role is not None else free
        free += role is None
    if free > COMMANDS:
        count, most = free - FIRST_FREE_COMMAND, COMMANDS - FIRST_FREE_COMMAND
        raise InputError(f"{where}: commands: {count} without a role; at most {most}")
    for command in NEEDED_COMMANDS:
        if command not in ids.values():
            role = next(r for r, c in ROLES.items() if c == command)
            raise InputError(f"{where}: commands: no command has the role {role}; add one")
    return ids


def _timing(where: str, entry: Any, tck_ps: Fraction) -> int:
    check_keys(where, entry, ("ck", "ns", "min_ck", "source"), ("source",))
    if ("ck" in entry) == ("ns" in entry):
        raise InputError(f"{where}: give either ck or ns")
    text(f"{where}: source", entry["source"])
    if "ck" in entry:
        return whole(where, entry["ck"], 0, MAX_CYCLES)
    exact = nanoseconds(where, entry["ns"])
    floor = whole(f"{where}.min_ck", entry.get("min_ck", 0), 0, MAX_CYCLES)
    return whole(where, max(floor, math.ceil(exact * 1000 / tck_ps)), 0, MAX_CYCLES)


def _sum(where: str, terms: Any, cycles: Mapping[str, int]) -> int:
    total = 0
    for term in list_of(where, terms, "timing names"):
        name = str(term).removeprefix("-")
        if name not in cycles:
            raise InputError(f"{where}: unknown timing {quote(name)}; {suggest(name, cycles)}")
        total += -cycles[name] if str(term).startswith("-") else cycles[name]
    if total > MAX_CYCLES:
        raise InputError(f"{where}: {total} cycles; at most {MAX_CYCLES}")
    return total


def _rows(
    given: Any, commands: Mapping[str, int], rank_wide: set[str], cycles: Mapping[str, int], where: str
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Resolved rows; one that comes out at zero cycles or less can never bind and is left out."""
    rows, row_names = [], []
    keys = ("name", "level", "from", "to", "cycles", "window", "source")
    for number, entry in enumerate(list_of(f"{where}: constraints", given, "constraints")):
        at = f"{where}: constraints[{number}]"
        check_keys(at, entry, keys, keys[:5])
        at += f" ({text(f'{at}: name', entry['name'])})"
        choice(at, entry["level"], LEVELS, "level")
        ends = (list_of(f"{at}: {end}", entry[end], "commands") for end in ("from", "to"))
        for name in (name for end in ends for name in end):
            choice(at, name, commands, "command")
            if name in rank_wide and entry["level"] in ("bank", "bankgroup"):
                raise InputError(f"{at}: {name} acts on a whole rank; set level: rank")
        window = whole(f"{at}: window", entry.get("window", 1), 1, 16)
        if window > 1 and entry["level"] != "rank":
            raise InputError(f"{at}: a window is counted in a rank; set level: rank")
        total = _sum(at, entry["cycles"], cycles)
        for first in entry["from"]:
            for then in entry["to"]:
                if total > 0:
                    rows.append((commands[first], commands[then], int(LEVELS[entry["level"]]), window, total))
                    row_names.append(str(entry["name"]))
    return np.array(rows, np.int64).reshape(-1, 5), tuple(row_names)


def _check_mapping(mapping: Any, organisation: Mapping[str, Any], where: str) -> None:
    check_keys(where, mapping, ("order", "hash", "source"), ("order", "source"))
    text(f"{where}: source", mapping["source"])
    for number, piece in enumerate(list_of(f"{where}: order", mapping["order"], "[field, bits]")):
        if not isinstance(piece, list) or len(piece) != 2:
            raise InputError(f"{where}: {quote(piece)} is not [field, bits]")
        choice(where, piece[0], FIELDS, "field")
        if (piece[0] == "offset") != (number == 0):
            raise InputError(f"{where}: order: offset must be the lowest bits, in one piece; put it first")
        if piece[1] != "all":
            whole(f"{where}: bits of {piece[0]}", piece[1], 0, 40)
    hashes = mapping.get("hash", [])
    if not isinstance(hashes, list):
        raise InputError(f"{where}: hash: expected a list, found {quote(hashes)}; give [] for none")
    sizes = {"column": "bursts_per_row", "bankgroup": "bankgroups", "bank": "banks_per_group", "row": "rows"}
    for piece in hashes:
        check_keys(f"{where}: hash", piece, ("field", "with", "shift"), ("field", "with"))
        for key in ("field", "with"):
            choice(f"{where}: hash", piece[key], FIELDS[1:], "field")
        if piece["field"] == piece["with"]:
            raise InputError(f"{where}: hash: {piece['field']} with itself is not one to one; name another field")
        # Channels and ranks are chosen on loading a memory: at most 64 and 8.
        bits = {"channel": 6, "rank": 3} | {f: organisation[key].bit_length() - 1 for f, key in sizes.items()}
        whole(f"{where}: hash: shift", piece.get("shift", 0), 0, max(bits[piece["with"]] - 1, 0))


def _check_energy(given: Any, where: str) -> None:
    from archsim.devices.dram.power import CURRENTS  # which needs this module

    check_keys(where, given, ("scope", "vdd_v", "idd_ma", "source"), ("scope", "vdd_v", "idd_ma", "source"))
    for key in ("scope", "source"):
        text(f"{where}: {key}", given[key])
    check_keys(f"{where}.idd_ma", given["idd_ma"], CURRENTS, CURRENTS)
    for key, value, most in (
        ("vdd_v", given["vdd_v"], 10),
        *((f"idd_ma.{k}", v, 1e5) for k, v in given["idd_ma"].items()),
    ):
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= most:
            raise InputError(f"{where}.{key}: {quote(value)} is not a number above 0 and up to {most:g}")
