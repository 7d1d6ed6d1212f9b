"""A system whose numbers can be moved quickly: only the devices that a number belongs to are built anew."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from archsim import registry
from archsim.config import Override, Resolved, Row, load_config
from archsim.device import Device, Pool, Rows
from archsim.system import System, mix_masks, pool_fixed
from archsim.units import COEF_BITS, InputError, from_numbers


@dataclass(frozen=True)
class Machine:
    """A system, and what has been moved in it.

    Attributes
    ----------
    resolved : Resolved
        The system's configuration before anything was moved.
    system : System
        The same, built.
    devices : Mapping of str to Device
        Devices as moved.
    moved : Mapping of str to float or int
        New values by dotted path ``system.<device>.<field>``.
    ranges : Mapping of str to (float, float)
        Ranges by path, as the files state them.
    """

    resolved: Resolved
    system: System
    devices: Mapping[str, Device]
    moved: Mapping[str, Any]
    ranges: Mapping[str, tuple[float, float]]

    @classmethod
    def load(cls, system: str, sets: Sequence[Any] = ()) -> Machine:
        """Load a system by name or file under overrides.

        Raises
        ------
        InputError
            For anything wrong with the system or the overrides.
        """
        resolved = load_config("system", system, tuple(sets))
        built = System.from_data(resolved.data, resolved.sources)
        swaps = [one for one in sets if len(_path(one).split(".")) == 2]
        rows = load_config("system", system, tuple(swaps)).rows  # an override has no range of its own
        return cls(resolved, built, built.devices, {}, {row.path: row.range for row in rows if row.range is not None})

    @cached_property
    def numbers(self) -> dict[str, Row]:
        """Rows of the system's numbers by path."""
        return {
            row.path: row
            for row in self.resolved.rows
            if isinstance(row.value, (int, float)) and not isinstance(row.value, bool)
        }

    def move(self, values: Mapping[str, Any]) -> Machine:
        """Machine with other values; those moved before go back where `values` does not name them.

        Raises
        ------
        InputError
            For a value that the device refuses.
        """
        changed = {path.split(".")[1] for path in values}
        devices = dict(self.system.devices)
        for name in changed:
            devices[name] = self._built(name, self._spec(name, values))
        return replace(self, devices=devices, moved=dict(values))

    def _spec(self, name: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """Spec of a device, as plain data, under moved values."""
        spec = copy.deepcopy(self.resolved.data["devices"][name]["spec"])
        for path, value in values.items():
            _, device, *keys = path.split(".")
            if device == name:
                inner = spec
                for key in keys[:-1]:
                    inner = inner[key]
                inner[keys[-1]] = value
        return spec

    def _built(self, name: str, spec: Mapping[str, Any]) -> Device:
        kind = registry.get("device", self.resolved.data["devices"][name]["device"])
        try:
            device: Device = kind(name, from_numbers(kind.Spec, spec))
        except ValueError as error:
            raise InputError(f"system.{name}: {' '.join(str(error).split())}") from None
        device.bind(self.system.binding)
        return device

    def variant(self, name: str, changes: Mapping[str, Any]) -> Device:
        """Device with some fields changed beside what has been moved; none: the device itself."""
        if not changes:
            return self.devices[name]
        return self._built(name, {**self._spec(name, self.moved), **changes})

    def data(self) -> dict[str, Any]:
        """Plain data of the system as moved."""
        devices = {
            name: {**entry, "spec": self._spec(name, self.moved)}
            for name, entry in self.resolved.data["devices"].items()
        }
        return {**self.resolved.data, "devices": devices}

    @cached_property
    def pools(self) -> dict[int, Pool]:
        """Pools by id, as moved."""
        found = dict(enumerate(self.system.pools))
        for name in {path.split(".")[1] for path in self.moved}:
            found |= {self.system.binding.pool(pool.name): pool for pool in self.devices[name].pools()}
        return found

    @cached_property
    def _capacities(self) -> dict[int, tuple[int, dict[int, int]]]:
        return {number: (pool_fixed(pool, pool.capacity), mix_masks(pool)) for number, pool in self.pools.items()}

    def alone_ps(self, rows: Rows) -> np.ndarray:
        """Time (ps) of each row with the machine to itself: lead, then flow at the least of its cap and its pools."""
        rate = rows.cap.astype(float)
        for slot in range(rows.pool.shape[1]):
            for i in np.flatnonzero((rows.pool[:, slot] >= 0) & (rows.coef[:, slot] > 0)):
                capacity, mixes = self._capacities[int(rows.pool[i, slot])]
                capacity = mixes.get(1 << int(rows.stream[i]), capacity)
                rate[i] = min(rate[i], (capacity << COEF_BITS) // int(rows.coef[i, slot]))
        return rows.lead + np.ceil(rows.work / rate)


def _path(override: Any) -> str:
    """Dotted path of an override."""
    return override.path if isinstance(override, Override) else str(override).partition("=")[0].strip()
