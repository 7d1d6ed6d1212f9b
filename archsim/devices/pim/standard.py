"""PIM standards as data: load, validate, resolve to integers.

A file declares timings, constraint rows, latencies, which commands need an open row, the register mode or a running
data clock, and how the compute part of the device is made. ``dram: NAME`` takes the timings and the clock of a DRAM
standard (:mod:`archsim.devices.dram.standard`), so that a PIM die has the same timing as the plain one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from archsim.devices.dram.reading import check_keys, mapping_of, nanoseconds, read_yaml, whole
from archsim.devices.dram.reading import names as file_names
from archsim.devices.dram.standard import Standard as DramStandard
from archsim.devices.dram.standard import load_standard
from archsim.devices.pim.isa import NAMES, Cmd
from archsim.units import InputError, quote, suggest

STANDARDS = Path(__file__).parent / "standards"
MAX_CYCLES = 1 << 18
MAX_BANKS, MAX_GROUPS, MAX_CHANNELS = 32, 8, 62

KEYS = (
    "kind", "name", "base", "title", "source", "tck_ps", "dram", "organisation", "timings", "refresh",
    "two_step_activate", "sync", "opens_row", "register_mode", "latency", "constraints", "compute", "energy",
)  # fmt: skip
OPTIONAL = ("base", "tck_ps", "dram", "energy")
ORGANISATION = ("channels", "bankgroups", "banks_per_group", "rows", "columns_per_row", "access_bytes")
LEVELS = ("channel", "bankgroup", "bank")
BANK_COMMANDS = (Cmd.ACT, Cmd.ACT2, Cmd.PRE, Cmd.RD, Cmd.WR, Cmd.MAC, Cmd.RDCP, Cmd.WRCP)
#: Fields of ``compute`` that are one number with its source.
COUNTS = (
    "accumulators", "banks_per_block", "tokens_per_pass", "result_bytes", "results_per_read", "clears", "fence_ns",
)  # fmt: skip


@dataclass(frozen=True)
class Compute:
    """The compute part of a PIM device, per bank or block unless said otherwise.

    Attributes
    ----------
    dtypes : dict
        Name (``W8A8``) -> (weight bits, activation bits).
    vector_bytes : int
        Input vector held at a time.
    global_buffer : bool
        True: one vector buffer a channel, one output row a bank at a time; False: a register file a block that one
        filling serves all accumulators from.
    accumulators : int
        Outputs a block can sum at the same time, for one token.
    banks_per_block : int
        Banks that share one MAC block; they take turns.
    tokens_per_pass : int
        Tokens one pass over the weights can serve.
    result_bytes, results_per_read : int
        Bytes of one sum, and sums that one read-out command returns.
    clears : int
        1: accumulators are written before each pass (bias).
    fence_ns : float
        Time of a memory fence between vector load and MAC when fences are asked for.
    """

    dtypes: Mapping[str, tuple[int, int]]
    vector_bytes: int
    global_buffer: bool
    accumulators: int
    banks_per_block: int
    tokens_per_pass: int
    result_bytes: int
    results_per_read: int
    clears: int
    fence_ns: float


@dataclass(frozen=True, eq=False)
class PimStandard:
    """One resolved PIM standard; equal to itself only.

    Attributes
    ----------
    tck_ps : Fraction
        Clock period, ps, exact.
    rows : int64 [n, 4]
        Constraints: command before, command after, level (0 channel, 1 bank group, 2 bank), cycles.
    latency : dict
        Final command -> cycles until it is done.
    refresh_cycles : int
        Interval of all-bank refresh; 0: never.
    sources : dict
        Number -> where it comes from.
    dram : archsim.devices.dram.standard.Standard or None
        The plain die this one is made from, where the file names one.
    """

    name: str
    title: str
    tck_ps: Fraction
    organisation: Mapping[str, int]
    cycles: Mapping[str, int]
    rows: np.ndarray
    latency: Mapping[Cmd, int]
    refresh_cycles: int
    two_step: bool
    sync: frozenset[Cmd]
    opens_row: frozenset[Cmd]
    register_mode: frozenset[Cmd]
    compute: Compute
    energy: Mapping[str, Any]
    sources: Mapping[str, str]
    dram: DramStandard | None

    @property
    def tck_ns(self) -> float:
        """Clock period in ns."""
        return float(self.tck_ps / 1000)

    @property
    def banks(self) -> int:
        """Banks of a channel."""
        return self.organisation["bankgroups"] * self.organisation["banks_per_group"]

    @property
    def channel_bytes_per_s(self) -> float:
        """Peak rate of one channel's data bus, bytes/s."""
        return float(self.organisation["access_bytes"] * 10**12 / (self.cycles["nBL"] * self.tck_ps))

    @property
    def internal_bytes_per_s(self) -> float:
        """Rate at which the MAC blocks of one channel take weights from open rows, bytes/s."""
        spacing = max(int(r[3]) for r in self.rows if r[0] == r[1] == Cmd.MAC16)
        width = self.banks // self.compute.banks_per_block * self.organisation["access_bytes"]
        return float(width * 10**12 / (spacing * self.tck_ps))


def devices() -> list[str]:
    """Names of the PIM standards."""
    return file_names(STANDARDS)


def load_pim(name: str) -> PimStandard:
    """Load, validate and resolve a PIM standard by name or path.

    Raises
    ------
    InputError
        Unknown name, unknown or missing keys, values out of range.
    """
    data, path = read_yaml(STANDARDS, name, "pim_standard")
    if "base" in data:
        below, _ = read_yaml(STANDARDS, str(data["base"]), "pim_standard")
        if "base" in below:
            raise InputError(f"{path}: base {quote(data['base'])} has a base of its own; one level only")
        merged = dict(below)
        for key, value in data.items():
            both = isinstance(value, dict) and isinstance(below.get(key), dict)
            merged[key] = {**below[key], **value} if both else value
        data = {key: value for key, value in merged.items() if value is not None}  # an empty value takes a key away
    return _resolve(data, str(path))


def _resolve(data: dict[str, Any], where: str) -> PimStandard:
    check_keys(where, data, KEYS, [k for k in KEYS if k not in OPTIONAL])
    dram = load_standard(str(data["dram"])) if "dram" in data else None
    if dram is None and "tck_ps" not in data:
        raise InputError(f"{where}: give tck_ps or dram")
    tck_ps = dram.tck_ps if dram is not None else Fraction(whole(f"{where}: tck_ps", data["tck_ps"], 1, 10**6))
    organisation = _organisation(data["organisation"], where)
    cycles, sources = _timings(data, dram, tck_ps, where)
    check_keys(f"{where}: refresh", data["refresh"], ("interval", "scheme", "source"), ("interval", "scheme"))
    if data["refresh"]["scheme"] not in ("none", "all_bank"):
        raise InputError(f"{where}: refresh.scheme is {quote(data['refresh']['scheme'])}; expected none or all_bank")
    interval = _sum(f"{where}: refresh.interval", data["refresh"]["interval"], cycles)
    if (interval > 0) != (data["refresh"]["scheme"] == "all_bank"):
        raise InputError(f"{where}: refresh: all_bank needs an interval, none must have an empty one")
    mapping_of(f"{where}: latency", data["latency"])
    latency = {
        command: _sum(f"{where}: latency.{key}", terms, cycles)
        for (key, terms), command in zip(
            data["latency"].items(), _set(f"{where}: latency", data["latency"]), strict=True
        )
    }
    sets = [_set(f"{where}: {key}", data[key]) for key in ("sync", "opens_row", "register_mode")]
    return PimStandard(
        str(data["name"]), str(data["title"]), tck_ps, organisation, cycles, _rows(data["constraints"], cycles, where),
        latency, interval, bool(data["two_step_activate"]), frozenset(sets[0]), frozenset(sets[1]),
        frozenset(sets[2]), _compute(data["compute"], where, sources), data.get("energy", {}), sources, dram,
    )  # fmt: skip


def _organisation(given: Any, where: str) -> dict[str, int]:
    check_keys(f"{where}: organisation", given, (*ORGANISATION, "source"), ORGANISATION)
    for key in ORGANISATION:
        whole(f"{where}: organisation.{key}", given[key], 1, 1 << 24)
    whole(f"{where}: organisation.channels", given["channels"], 1, MAX_CHANNELS)
    whole(f"{where}: organisation.bankgroups", given["bankgroups"], 1, MAX_GROUPS)
    whole(f"{where}: organisation: banks", given["bankgroups"] * given["banks_per_group"], 1, MAX_BANKS)
    return {key: given[key] for key in ORGANISATION}


def _timings(
    data: Mapping[str, Any], dram: DramStandard | None, tck_ps: Fraction, where: str
) -> tuple[dict[str, int], dict[str, str]]:
    cycles = dict(dram.cycles) if dram is not None else {}
    sources = {key: f"{dram.name}: {text}" for key, text in dram.sources.items()} if dram is not None else {}
    mapping_of(f"{where}: timings", data["timings"])
    for key, entry in data["timings"].items():
        at = f"{where}: timings.{key}"
        if isinstance(entry, int):
            entry = {"ck": entry}
        check_keys(at, entry, ("ck", "ns", "min_ck", "source"))
        if ("ck" in entry) == ("ns" in entry):
            raise InputError(f"{at}: give either ck or ns")
        if "ck" in entry:
            cycles[key] = whole(at, entry["ck"], 0, MAX_CYCLES)
        else:
            rounded = -(-nanoseconds(at, entry["ns"]) * 1000 // tck_ps)
            least = whole(f"{at}: min_ck", entry.get("min_ck", 0), 0, MAX_CYCLES)
            cycles[key] = whole(at, max(int(rounded), least), 0, MAX_CYCLES)
        sources[key] = str(entry.get("source", data["source"]))
    return cycles, sources


def _sum(where: str, terms: Any, cycles: Mapping[str, int]) -> int:
    """Sum of timing names (a leading minus subtracts) and whole numbers."""
    if not isinstance(terms, list):
        raise InputError(f"{where}: expected a list of timing names, found {quote(terms)}")
    total = 0
    for term in terms:
        name = str(term).removeprefix("-")
        if name not in cycles and not name.isdigit():
            raise InputError(f"{where}: unknown timing {quote(name)}; {suggest(name, cycles)}")
        value = int(name) if name.isdigit() else cycles[name]
        total += -value if str(term).startswith("-") else value
    return whole(where, total, -MAX_CYCLES, MAX_CYCLES)


def _set(where: str, given: Any) -> list[Cmd]:
    if not isinstance(given, (list, dict)):
        raise InputError(f"{where}: expected a list of commands, found {quote(given)}")
    found = []
    for name in given:
        if not isinstance(name, str) or name not in NAMES:
            raise InputError(f"{where}: unknown command {quote(name)}; {suggest(str(name), NAMES)}")
        found.append(NAMES[name])
    return found


def _rows(given: Any, cycles: Mapping[str, int], where: str) -> np.ndarray:
    """Resolved constraints; ``to: all`` is every command but the mode switch itself."""
    if not isinstance(given, list):
        raise InputError(f"{where}: constraints: expected a list, found {quote(given)}")
    rows = []
    for number, entry in enumerate(given):
        at = f"{where}: constraints[{number}]"
        check_keys(at, entry, ("level", "from", "to", "cycles", "source"), ("level", "from", "to", "cycles"))
        if entry["level"] not in LEVELS:
            raise InputError(f"{at}: unknown level {quote(entry['level'])}; {suggest(str(entry['level']), LEVELS)}")
        level = LEVELS.index(entry["level"])
        first = _set(at, entry["from"])
        then = [c for c in Cmd if c != Cmd.TMOD] if entry["to"] == "all" else _set(at, entry["to"])
        if level and any(c not in BANK_COMMANDS for c in (*first, *then)):
            raise InputError(f"{at}: a command of all banks is held at the channel; set level: channel")
        total = _sum(at, entry["cycles"], cycles)
        rows += [(int(a), int(b), level, total) for a in first for b in then if total > 0]
    return np.array(rows, np.int64).reshape(-1, 4)


def _compute(given: Any, where: str, sources: dict[str, str]) -> Compute:
    at = f"{where}: compute"
    check_keys(at, given, ("dtypes", "vector_store", *COUNTS), ("dtypes", "vector_store", *COUNTS))
    dtypes = {}
    mapping_of(f"{at}.dtypes", given["dtypes"])
    for name, entry in given["dtypes"].items():
        check_keys(f"{at}.dtypes.{name}", entry, ("weight_bits", "activation_bits", "source"))
        bits = [whole(f"{at}.dtypes.{name}.{k}", entry[k], 1, 64) for k in ("weight_bits", "activation_bits")]
        dtypes[name] = (bits[0], bits[1])
    store = given["vector_store"]
    check_keys(f"{at}.vector_store", store, ("kind", "bytes", "source"), ("kind", "bytes", "source"))
    if store["kind"] not in ("global_buffer", "registers"):
        raise InputError(f"{at}.vector_store: kind is {quote(store['kind'])}; expected global_buffer or registers")
    sources["compute.vector_store"] = store["source"]
    values = {}
    for key in COUNTS:
        check_keys(f"{at}.{key}", given[key], ("value", "source"), ("value", "source"))
        values[key] = whole(f"{at}.{key}", given[key]["value"], 0, 1 << 20)
        sources[f"compute.{key}"] = given[key]["source"]
    return Compute(dtypes, whole(f"{at}.vector_store.bytes", store["bytes"], 1, 1 << 20),
                   store["kind"] == "global_buffer", **values)  # fmt: skip
