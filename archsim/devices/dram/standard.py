"""DRAM standards as data: load, validate, resolve to integers.

A standard file declares commands, timings (ns or cycles, each with its source), constraint rows, organisation and
address mapping. Loading turns every timing into whole clock cycles (analog values are rounded up) and every constraint
into a row ``[previous command, next command, level, window, cycles]``. The kernels never see a name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from archsim.devices.dram.table import FIRST_FREE_COMMAND, LEVELS, MAX_CYCLES, ROLES, Cmd
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


def names(folder: Path, extra: Any = ()) -> list[str]:
    """Names of the YAML files in `folder`."""
    return sorted([p.stem for p in folder.glob("*.yaml")] + list(extra))


def read_yaml(folder: Path, name: str, kind: str) -> tuple[dict[str, Any], Path]:
    """One data file by name or path.

    Raises
    ------
    InputError
        Unknown name (the nearest is named), unreadable file, not a mapping, wrong kind.
    """
    path = Path(name) if name.endswith((".yaml", ".yml")) else folder / f"{name}.yaml"
    if path.parent == folder and name not in names(folder):
        raise InputError(f"unknown {kind} {quote(name)}; {suggest(name, names(folder))}")
    try:
        data = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, YAMLError) as error:
        raise InputError(f"{path}: cannot be read as YAML: {error}") from error
    if not isinstance(data, dict):
        raise InputError(f"{path}: expected a mapping with 'kind: {kind}'")
    if data.get("kind") != kind:
        raise InputError(f"{path}: kind is {quote(data.get('kind'))}; expected {quote(kind)}")
    return data, path


def check_keys(where: str, given: Any, known: Any, needed: Any = ()) -> None:
    """Refuse unknown and missing keys of a mapping; the nearest known name is suggested."""
    if not isinstance(given, Mapping):
        raise InputError(f"{where}: expected a mapping, found {quote(given)}")
    for key in given:
        if key not in known:
            raise InputError(f"{where}: unknown key {quote(key)}; {suggest(str(key), known)}")
    for key in needed:
        if key not in given:
            raise InputError(f"{where}: {key} is missing; add it")


def whole(where: str, value: Any, low: int, high: int, power_of_two: bool = False) -> int:
    """Whole number in ``[low, high]`` (a power of two if asked) or a one-line error."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(f"{where}: {quote(value)} is not a whole number")
    if not low <= value <= high:
        raise InputError(f"{where}: {value} is out of range; expected {low} to {high}")
    if power_of_two and value & (value - 1):
        raise InputError(f"{where}: {value} is not a power of two")
    return value


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
    for key, value in (timings or {}).items():
        known = data.get("timings", {})
        if key not in known:
            raise InputError(f"{path}: unknown timing {quote(key)}; {suggest(key, known)}")
        data["timings"] = {**known, key: {"source": "override", **value}}
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
    tck_ps = _clock(data, where)
    organisation = _organisation(data["organisation"], where)
    commands = _commands(data["commands"], where)
    cycles, sources = {}, {}
    for key, entry in data["timings"].items():
        cycles[key] = _timing(f"{where}: timings.{key}", entry, tck_ps)
        sources[key] = entry["source"]
    check_keys(f"{where}: roles", data["roles"], ROLE_NAMES, ROLE_NAMES)
    roles = {key: _sum(f"{where}: roles.{key}", terms, cycles) for key, terms in data["roles"].items()}
    rank_wide = {name for name, entry in data["commands"].items() if entry["scope"] == "rank"}
    rows, row_names = _rows(data["constraints"], commands, rank_wide, cycles, where)
    _check_mapping(data["mapping"], f"{where}: mapping")
    _check_timings(roles, rows, where)
    ids = [""] * max(FIRST_FREE_COMMAND, 1 + max(commands.values()))
    for name, number in commands.items():
        ids[number] = name
    return Standard(
        str(data["name"]), tck_ps, tuple(ids), cycles, roles, rows, row_names, organisation,
        data["mapping"], data["energy"], sources,
    )  # fmt: skip


def _clock(data: dict[str, Any], where: str) -> Fraction:
    try:
        rate = Fraction(str(data["data_rate_mt_s"]))
    except (ValueError, ZeroDivisionError) as error:
        raise InputError(f"{where}: data_rate_mt_s {quote(data['data_rate_mt_s'])} is not a number") from error
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
    if given["rows"] * given["bursts_per_row"] > MAX_CELLS:
        raise InputError(f"{where}: organisation: rows x bursts_per_row is above {MAX_CELLS}")
    banks = given["ranks"] * given["bankgroups"] * given["banks_per_group"]
    if banks > 64:
        raise InputError(f"{where}: organisation: {banks} banks a channel; at most 64")
    return dict(given)


def _commands(given: Any, where: str) -> dict[str, int]:
    ids: dict[str, int] = {}
    free = FIRST_FREE_COMMAND
    for name, entry in given.items():
        check_keys(f"{where}: commands.{name}", entry, ("role", "scope", "source"), ("scope",))
        if entry["scope"] not in ("bank", "rank"):
            raise InputError(f"{where}: commands.{name}: scope is {quote(entry['scope'])}; expected bank or rank")
        role = entry.get("role")
        if role is not None and role not in ROLES:
            raise InputError(f"{where}: commands.{name}: unknown role {quote(role)}; {suggest(str(role), ROLES)}")
        if role is not None and ROLES[role] in ids.values():
            raise InputError(f"{where}: commands.{name}: role {role} is given twice")
        ids[name] = int(ROLES[role]) if role is not None else free
        free += role is None
    for command in NEEDED_COMMANDS:
        if command not in ids.values():
            role = next(r for r, c in ROLES.items() if c == command)
            raise InputError(f"{where}: commands: no command has the role {role}; add one")
    return ids


def _timing(where: str, entry: Any, tck_ps: Fraction) -> int:
    check_keys(where, entry, ("ck", "ns", "min_ck", "source"), ("source",))
    if ("ck" in entry) == ("ns" in entry):
        raise InputError(f"{where}: give either ck or ns")
    if not str(entry["source"]).strip():
        raise InputError(f"{where}: source is empty; say where the value comes from")
    if "ck" in entry:
        return whole(where, entry["ck"], 0, MAX_CYCLES)
    value = entry["ns"]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise InputError(f"{where}: {quote(value)} is not a time in ns of 0 or more")
    floor = whole(f"{where}.min_ck", entry.get("min_ck", 0), 0, MAX_CYCLES)
    return whole(where, max(floor, math.ceil(Fraction(str(value)) * 1000 / tck_ps)), 0, MAX_CYCLES)


def _sum(where: str, terms: Any, cycles: Mapping[str, int]) -> int:
    if not isinstance(terms, list):
        raise InputError(f"{where}: expected a list of timing names, found {quote(terms)}")
    total = 0
    for term in terms:
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
    for number, entry in enumerate(given):
        at = f"{where}: constraints[{number}]"
        check_keys(at, entry, keys, keys[:5])
        at += f" ({entry['name']})"
        if entry["level"] not in LEVELS:
            raise InputError(f"{at}: unknown level {quote(entry['level'])}; {suggest(str(entry['level']), LEVELS)}")
        for name in (*entry["from"], *entry["to"]):
            if name not in commands:
                raise InputError(f"{at}: unknown command {quote(name)}; {suggest(str(name), commands)}")
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


def _check_mapping(mapping: Any, where: str) -> None:
    check_keys(where, mapping, ("order", "hash", "source"), ("order", "source"))
    for piece in mapping["order"]:
        if not isinstance(piece, list) or len(piece) != 2:
            raise InputError(f"{where}: {quote(piece)} is not [field, bits]")
        if piece[0] not in FIELDS:
            raise InputError(f"{where}: unknown field {quote(piece[0])}; {suggest(str(piece[0]), FIELDS)}")
        if piece[1] != "all":
            whole(f"{where}: bits of {piece[0]}", piece[1], 0, 40)
    for piece in mapping.get("hash", ()):
        check_keys(f"{where}: hash", piece, ("field", "with", "shift"), ("field", "with"))
        for key in ("field", "with"):
            if piece[key] not in FIELDS[1:]:
                raise InputError(
                    f"{where}: hash: unknown field {quote(piece[key])}; {suggest(str(piece[key]), FIELDS)}"
                )


def _check_timings(roles: Mapping[str, int], rows: np.ndarray, where: str) -> None:
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
