"""A system: devices by name, and the integer ids the engine works with.

The system owns the address book: units, pools and stores of all devices in the order in which the system file
lists the devices. It holds no state of a run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from archsim import registry, units
from archsim.authored import mapping_of, sequence_of
from archsim.config import InputError, Source
from archsim.device import STREAMS, Binding, Clock, Cost, Device, OpKind, Pool, PowerStates, Store, Unit

#: Largest capacity of a pool in the engine's fixed point.
POOL_LIMIT = 1 << 35


@dataclass(frozen=True)
class Prices:
    """Price tables of a system: energy by ``<device>.<action>`` (pJ), power (mW) and area (um2) by block.

    A block with states stands in ``power_mw`` once per state, as ``<block>.<state>``; ``states`` says by block when it
    is in which. ``clocks`` are the clock domains.
    """

    energy_pj: Mapping[str, Cost]
    power_mw: Mapping[str, Cost]
    area_um2: Mapping[str, Cost]
    states: Mapping[str, PowerStates] = field(default_factory=dict)
    clocks: tuple[Clock, ...] = ()

    def document(self) -> dict[str, Any]:
        """Tables as the manifest of a run keeps them; costs stay :class:`Cost`."""
        return {
            "energy_pj": self.energy_pj,
            "power_mw": self.power_mw,
            "area_um2": self.area_um2,
            "states": {
                block: {"units": list(entry.units), "states": list(entry.states), "after_ps": dict(entry.after_ps)}
                for block, entry in self.states.items()
            },
            "clocks": [
                {
                    "name": clock.name,
                    "hz": clock.hz,
                    "targets": list(clock.targets),
                    "corners": [list(corner) for corner in clock.corners],
                    "source": clock.source,
                }
                for clock in self.clocks
            ],
        }


class System:
    """Devices wired together.

    Parameters
    ----------
    name : str
        Name of the machine.
    devices : Mapping[str, Device]
        Devices by their name in this system; order gives the ids.
    sources : Mapping[str, Source]
        Source of each number by dotted path.

    Raises
    ------
    InputError
        When two devices contribute one name, or a device refers to a unit, pool or store that is not there.
    """

    def __init__(self, name: str, devices: Mapping[str, Device], sources: Mapping[str, Source] | None = None) -> None:
        self.name = name
        self.devices = dict(devices)
        self.sources = dict(sources or {})
        self.units: list[Unit] = _collect(self.devices.values(), "units", Unit)
        self.pools: list[Pool] = _collect(self.devices.values(), "pools", Pool)
        self.stores: list[Store] = _collect(self.devices.values(), "stores", Store)
        for pool in self.pools:
            _check_range(name, pool)
        self.binding = Binding(
            {unit.name: i for i, unit in enumerate(self.units)},
            {pool.name: i for i, pool in enumerate(self.pools)},
            {store.name: i for i, store in enumerate(self.stores)},
        )
        for device in self.devices.values():
            try:
                device.bind(self.binding)
            except KeyError as error:
                raise InputError(f"system {name!r}: device {device.name!r}: {error.args[0]}") from None

    @classmethod
    def from_data(cls, data: Mapping[str, Any], sources: Mapping[str, Source] | None = None) -> System:
        """Build a system from its resolved data: ``name`` and ``devices`` (name -> ``device`` and ``spec``)."""
        return cls(data["name"], devices_of(data), sources)

    def having(self, kind: OpKind, *names: str) -> Device:
        """Return the first of `names` (or any device, when none is given) that lowers `kind`.

        Raises
        ------
        InputError
            When the system has no such device.
        """
        for name in names or self.devices:
            device = self.devices.get(name)
            if device is not None and kind in device.ops:
                return device
        wanted = " or ".join(names) if names else "device"
        raise InputError(
            f"system {self.name!r} has no {wanted} that runs {kind.name}; it has: {', '.join(self.devices)}"
        )

    def prices(self) -> Prices:
        """Price tables of all devices; energy keys are full action names."""
        return prices_of(self.devices)

    def describe(self, levels: Mapping[str, int] | None = None) -> dict[str, list[dict[str, Any]]]:
        """Units, pools and stores as plain data: what reports show, and what the engine is given.

        Parameters
        ----------
        levels : Mapping[str, int], optional
            Levels of stores when the run starts; 0 where not named.
        """
        levels = levels or {}
        return {
            "units": [{"name": unit.name, "quantum": unit.quantum} for unit in self.units],
            "pools": [
                {
                    "name": pool.name,
                    "capacity": pool.capacity,
                    "unit": pool.unit,
                    "fixed": pool_fixed(pool, pool.capacity),
                    "mix": [[mask, capacity] for mask, capacity in sorted(mix_masks(pool).items())],
                }
                for pool in self.pools
            ],
            "stores": [
                {"name": s.name, "capacity": s.capacity, "unit": s.unit, "level": levels.get(s.name, 0)}
                for s in self.stores
            ],
        }


def devices_of(data: Mapping[str, Any]) -> dict[str, Device]:
    """Devices of a system's resolved data by name, not wired together: enough for what they cost."""
    built: dict[str, Device] = {}
    for name, entry in data["devices"].items():
        kind = registry.get("device", entry["device"])
        built[name] = kind(name, units.from_numbers(kind.Spec, entry["spec"]))
    return built


def prices_of(devices: Mapping[str, Device]) -> Prices:
    """Price tables of devices by name; energy keys are full action names."""
    energy: dict[str, Cost] = {}
    power: dict[str, Cost] = {}
    area: dict[str, Cost] = {}
    for name, device in devices.items():
        for table, method in ((energy, device.energy), (power, device.power), (area, device.area)):
            for key, cost in mapping_of(method, Cost, "costs (archsim.device.Cost)").items():
                table[f"{name}.{key}"] = cost
    states = {
        f"{name}.{key}": entry
        for name, device in devices.items()
        for key, entry in mapping_of(device.power_states, PowerStates, "power states").items()
    }
    for block, entry in states.items():
        power |= {f"{block}.{state}": cost for state, cost in entry.states.items()}
    clocks = tuple(clock for device in devices.values() for clock in sequence_of(device.clocks, Clock, "clocks"))
    return Prices(energy, power, area, states, clocks)


def pool_fixed(pool: Pool, capacity: float) -> int:
    """Capacity of `pool` in the engine's fixed point (2**-28 byte per ps, or 2**28 per item)."""
    return units.rate_fixed(capacity) if pool.unit == "bytes/s" else units.count_fixed(capacity)


def mix_masks(pool: Pool) -> dict[int, int]:
    """Mix table of `pool`: bit mask of stream classes -> capacity in fixed point."""
    masks = {}
    for streams, capacity in pool.mix.items():
        mask = sum(1 << STREAMS.index(stream) for stream in streams)
        masks[mask] = pool_fixed(pool, capacity)
    return masks


def _check_range(system: str, pool: Pool) -> None:
    """Refuse capacities that the engine's fixed point cannot hold."""
    for capacity in (pool.capacity, *pool.mix.values()):
        if not 0 < pool_fixed(pool, capacity) < POOL_LIMIT:
            most = units.bytes_per_s_from(POOL_LIMIT) if pool.unit == "bytes/s" else POOL_LIMIT / units.WORK_ONE
            raise InputError(
                f"system {system!r}: pool {pool.name} of {capacity:.4g} {pool.unit} is outside what the engine holds "
                f"(below {most:.4g}); change system.{pool.name.partition('.')[0]}"
            )


def _collect(devices: Iterable[Device], what: str, of: type) -> list[Any]:
    found: dict[str, str] = {}
    items = []
    for device in devices:
        for item in sequence_of(getattr(device, what), of, what):
            if item.name in found:
                raise InputError(
                    f"{what[:-1]} {item.name!r} is contributed twice, by {found[item.name]} and {device.name}"
                )
            found[item.name] = device.name
            items.append(item)
    return items
