"""What has history: which buffers are mapped in the NPU's address window, and the rows that map the rest.

A unit with an address window can only touch buffers that are mapped. The first pass of a model maps its buffers, in
order; those that fit the window (all sessions together) stay. What does not fit is mapped again in every pass. Map
calls are operators like any other and run before the pass that needs them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from archsim.device import OpKind, make_ops
from archsim.engine.sim import Block
from archsim.system import System
from archsim.workload.model import ModelSpec
from archsim.workload.optable import OpTable
from archsim.workload.plan import Placement, row_block


class Runtime:
    """Residency in the address windows of a system's devices.

    Parameters
    ----------
    system : System
        The machine.
    models, placements : Mapping
        Models and placements by role.
    table : OpTable
        Where map operators are entered.
    kv_bytes : Mapping[str, int]
        Size of the KV buffer by role.
    """

    def __init__(
        self,
        system: System,
        models: Mapping[str, ModelSpec],
        placements: Mapping[str, Placement],
        table: OpTable,
        kv_bytes: Mapping[str, int],
    ) -> None:
        self.system = system
        self.table = table
        self.mapped: dict[str, dict[str, int]] = {name: {} for name in system.devices}
        self._buffers = {
            role: _buffers(models[role], place, kv_bytes[role]) if self._window(place) is not None else {}
            for role, place in placements.items()
        }
        self._places = dict(placements)
        self._preludes: dict[tuple[Any, ...], Block] = {}

    def _window(self, place: Placement) -> Any:
        """Device with an address window that runs the layers of `place`, if any."""
        device = self.system.devices.get(place.layers_on)
        return device if device is not None and OpKind.MAP in device.ops else None

    def prelude(self, role: str) -> Block | None:
        """Rows to run before the next pass of `role`: None when all its buffers are mapped."""
        device = self._window(self._places[role])
        if device is None:
            return None
        mapped = self.mapped[device.name]
        room = device.window_bytes - sum(mapped.values())
        calls = size = kept = 0
        for name, length in self._buffers[role].items():
            if f"{role}.{name}" in mapped:
                continue
            calls, size = calls + 1, size + length
            if length <= room:
                mapped[f"{role}.{name}"] = length
                room, kept = room - length, kept + length
        if not calls:
            return None
        key = (device.name, role, calls, size, kept)
        if key not in self._preludes:
            ops = make_ops([{"kind": OpKind.MAP, "n": calls, "in_bytes": size}])
            block = row_block(self.table.lower(device, role, "map", "map", ops))
            block.store[0, 0] = self.system.binding.store(f"{device.name}.window")
            block.store_start[0, 0] = kept
            self._preludes[key] = block
        return self._preludes[key]


def _buffers(model: ModelSpec, place: Placement, kv_bytes: int) -> dict[str, int]:
    """Buffers that the passes of a model touch, in order: name -> bytes."""
    pinned = place.pinned if place.layers_in == "flash" else model.layers
    found = {f"layer{index}": model.layer_bytes for index in range(pinned)}
    if pinned < model.layers or place.head_in == "flash":
        found |= {f"ring{index}": model.layer_bytes for index in range(place.ring)}
    if place.head_on == place.layers_on and place.head_in == "dram":
        found["head"] = model.head_bytes
    found["kv"] = kv_bytes
    return found
