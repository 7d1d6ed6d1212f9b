"""Memory controller configurations as data, and the pair (standard, controller) resolved to integers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from archsim.devices.dram.consistency import check_refresh
from archsim.devices.dram.reading import check_keys, choice, read_yaml, text, whole
from archsim.devices.dram.standard import Standard, load_standard
from archsim.devices.dram.table import Cmd, Dense, Org, Refresh, Rules, dense
from archsim.units import InputError, quote

CONTROLLERS = Path(__file__).parent / "controllers"

KEYS = (
    "kind", "name", "source", "read_queue", "write_queue", "active_buffer", "drain_high_permille",
    "drain_low_permille", "scheduler", "row_policy", "closed_cap", "refresh", "data_clock", "forwarding", "merging",
)  # fmt: skip
SCHEDULERS = {"frfcfs": 0, "frfcfs_row_hit": 1}
ROW_POLICIES = ("open", "closed")
REFRESHES = {"none": Refresh.NONE, "all_bank": Refresh.ALL_BANK, "per_bank": Refresh.PER_BANK}
DATA_CLOCKS = {"always_on": 0, "need_sync": 1}
MAX_QUEUE = 4096


@dataclass(frozen=True)
class Memory:
    """One memory system: a standard under a controller, on a number of channels, resolved to integers.

    Attributes
    ----------
    standard : Standard
    controller : dict
        As in the file.
    org : Org
    rules : Rules
    rows : int64 [n, 5]
        Constraint rows for the oracle.
    effects : Dense
        The same for the kernel.
    pieces : int64 [n, 4]
        Address decode, one row a piece of a field: ``field, shift in the address, width, shift in the field``.
    hashes : int64 [n, 3]
        ``field, with, shift``: the field is exclusive-ored with the other one shifted right.
    """

    standard: Standard
    controller: dict[str, Any]
    org: Org
    rules: Rules
    rows: np.ndarray
    effects: Dense
    pieces: np.ndarray
    hashes: np.ndarray

    @property
    def capacity_bytes(self) -> int:
        """Bytes of all channels together."""
        org = self.org
        return org.channels * org.ranks * org.groups * org.banks * org.rows * org.columns * org.burst_bytes

    @property
    def peak_gb_s(self) -> float:
        """Peak bandwidth of all channels together, GB/s (1e9 bytes)."""
        return self.standard.peak_gb_s * self.org.channels


def load_controller(name: str, **overrides: Any) -> dict[str, Any]:
    """One controller configuration by name or path, keys replaced by `overrides`, checked.

    Raises
    ------
    InputError
        Unknown keys or values, contradictory watermarks.
    """
    data, path = read_yaml(CONTROLLERS, name, "controller")
    return check_controller({**data, **overrides}, str(path))


def check_controller(data: Any, path: str) -> dict[str, Any]:
    """A controller given as a mapping, checked as one of a file is."""
    check_keys(path, data, KEYS, KEYS)
    for key in ("name", "source"):
        text(f"{path}: {key}", data[key])
    for key in ("read_queue", "write_queue", "active_buffer"):
        whole(f"{path}: {key}", data[key], 1, MAX_QUEUE)
    for key in ("drain_high_permille", "drain_low_permille"):
        whole(f"{path}: {key}", data[key], 1, 1000)  # at 0 a drain could never end
    if data["drain_low_permille"] > data["drain_high_permille"]:
        raise InputError(
            f"{path}: drain_low_permille {data['drain_low_permille']} is above drain_high_permille "
            f"{data['drain_high_permille']}; the write drain would never settle"
        )
    whole(f"{path}: closed_cap", data["closed_cap"], 1, 1 << 20)
    choices = {"scheduler": SCHEDULERS, "row_policy": ROW_POLICIES, "refresh": REFRESHES, "data_clock": DATA_CLOCKS}
    for key, known in choices.items():
        choice(path, data[key], known, key)
    for key in ("forwarding", "merging"):
        if not isinstance(data[key], bool):
            raise InputError(f"{path}: {key} is {quote(data[key])}; expected true or false")
    return dict(data)


def load_memory(
    standard: str | Standard,
    controller: str | dict[str, Any] = "mobile",
    *,
    channels: int = 1,
    ranks: int | None = None,
) -> Memory:
    """Resolve a standard and a controller for `channels` channels (a power of two) of `ranks` ranks.

    Raises
    ------
    InputError
        Unknown names, sizes that are no power of two, a controller feature the standard has no command for.
    """
    std = load_standard(standard) if not isinstance(standard, Standard) else standard
    ctl = check_controller(controller, "controller") if isinstance(controller, dict) else load_controller(controller)
    whole("channels", channels, 1, 64, power_of_two=True)
    given = std.organisation
    ranks = given["ranks"] if ranks is None else whole("ranks", ranks, 1, 8, power_of_two=True)
    org = Org(
        channels, ranks, given["bankgroups"], given["banks_per_group"], given["rows"], given["bursts_per_row"],
        given["burst_bytes"],
    )  # fmt: skip
    if org.ranks * org.groups * org.banks > 64:
        raise InputError(f"ranks: {ranks} ranks of {org.groups * org.banks} banks exceed 64 banks a channel; use fewer")
    _check_commands(std, ctl)
    check_refresh(std.roles, std.rows, org.ranks, std.name)
    roles = std.roles
    rules = Rules(
        read_depth=ctl["read_queue"],
        write_depth=ctl["write_queue"],
        high_permille=ctl["drain_high_permille"],
        low_permille=ctl["drain_low_permille"],
        active_depth=ctl["active_buffer"],
        row_hit=SCHEDULERS[ctl["scheduler"]],
        closed_cap=ctl["closed_cap"] if ctl["row_policy"] == "closed" else 0,
        refresh=int(REFRESHES[ctl["refresh"]]),
        sync=DATA_CLOCKS[ctl["data_clock"]],
        forward=int(ctl["forwarding"]),
        merge=int(ctl["merging"]),
        read_data=roles["read_data"],
        write_data=roles["write_data"],
        deadline=roles["activate_deadline"] if std.commands[Cmd.ACT2] else 0,
        refresh_all_interval=roles["refresh_all_interval"],
        refresh_bank_interval=roles["refresh_bank_interval"],
        sync_after_read=roles["sync_after_read"],
        sync_after_write=roles["sync_after_write"],
    )
    pieces, hashes = _decode_tables(std, org)
    unused = [c for c in (Cmd.PREAB, Cmd.REFAB) if rules.refresh != Refresh.ALL_BANK]
    unused += [Cmd.REFPB] if rules.refresh != Refresh.PER_BANK else []
    return Memory(std, ctl, org, rules, std.rows, dense(std.rows, len(std.commands), unused), pieces, hashes)


def _check_commands(std: Standard, ctl: dict[str, Any]) -> None:
    needed = {
        "refresh: all_bank": (ctl["refresh"] == "all_bank", (Cmd.PREAB, Cmd.REFAB)),
        "refresh: per_bank": (ctl["refresh"] == "per_bank", (Cmd.REFPB,)),
        "row_policy: closed": (ctl["row_policy"] == "closed", (Cmd.RDA, Cmd.WRA)),
        "data_clock: need_sync": (ctl["data_clock"] == "need_sync", (Cmd.CAS_RD, Cmd.CAS_WR)),
    }
    for what, (used, commands) in needed.items():
        missing = [c.name for c in commands if used and not std.commands[c]]
        if missing:
            raise InputError(f"{std.name} has no command for {', '.join(missing)}, which '{what}' needs")


def _decode_tables(std: Standard, org: Org) -> tuple[np.ndarray, np.ndarray]:
    fields = ("channel", "rank", "bankgroup", "bank", "row", "column")
    sizes = dict(zip(fields, (org.channels, org.ranks, org.groups, org.banks, org.rows, org.columns), strict=True))
    want = {name: size.bit_length() - 1 for name, size in sizes.items()}
    want["offset"] = org.burst_bytes.bit_length() - 1
    done = dict.fromkeys(want, 0)
    shift, pieces = 0, []
    for name, bits in std.mapping["order"]:
        width = want[name] - done[name] if bits == "all" else bits
        if name != "offset" and width:
            pieces.append((fields.index(name), shift, width, done[name]))
        done[name] += width
        shift += width
    for name, bits in want.items():
        if done[name] != bits:
            raise InputError(f"{std.name}: mapping gives {name} {done[name]} bits; it has {bits}")
    hashes = [
        (fields.index(h["field"]), fields.index(h["with"]), h.get("shift", 0)) for h in std.mapping.get("hash", ())
    ]
    return np.array(pieces, np.int64).reshape(-1, 4), np.array(hashes, np.int64).reshape(-1, 3)
