"""What has history: which buffers are mapped in the NPU's address window, and the rows that map the rest.

A unit with an address window can only touch buffers that are mapped. The first pass of a model maps its buffers, in
order; those that fit the window (all sessions together) stay. What does not fit is mapped again in every pass. Map
calls are operators like any other and run before the pass that needs them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from archsim.config import InputError
from archsim.device import Device, OpKind, make_ops
from archsim.engine.sim import Block
from archsim.units import show
from archsim.workload.model import ModelSpec
from archsim.workload.plan import Placement, Planner, row_block


class Runtime:
    """Residency in the address windows of a system's devices.

    Parameters
    ----------
    planner : Planner
        Knows the machine, the models and their placements; map operators are entered in its table.
    kv_bytes : Mapping[str, int]
        Size of the KV buffer by role.
    """

    def __init__(self, planner: Planner, kv_bytes: Mapping[str, int]) -> None:
        self.planner = planner
        self._windows: dict[tuple[str, bool], Device] = {}
        self._buffers: dict[tuple[str, bool], dict[str, int]] = {}
        for role, place in planner.placements.items():
            for batched in (False, True) if place.batch_on else (False,):
                device = planner.device(role, OpKind.MATMUL, False, batched)
                if OpKind.MAP in device.ops:
                    self._windows[role, batched] = device
                    own_head = planner.device(role, OpKind.PROJECTION, True, batched) is device
                    self._buffers[role, batched] = _buffers(planner.models[role], place, kv_bytes[role], own_head)
        self.mapped: dict[str, dict[str, int]] = {device.name: {} for device in self._windows.values()}
        self._preludes: dict[tuple[Any, ...], Block] = {}

    def prelude(self, role: str, batched: bool = False) -> Block | None:
        """Rows to run before the next (batched) pass of `role`: None when all its buffers are mapped."""
        batched = batched and bool(self.planner.placements[role].batch_on)
        device = self._windows.get((role, batched))
        if device is None:
            return None
        mapped = self.mapped[device.name]
        room = device.window_bytes - sum(mapped.values())
        calls = size = kept = 0
        for name, length in self._buffers[role, batched].items():
            if length > device.window_bytes:
                raise InputError(
                    f"{role}: buffer {name} of {show(length, 'B')} does not fit the address window of {device.name}, "
                    f"{show(device.window_bytes, 'B')}; raise system.{device.name}.window_bytes"
                )
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
            block = row_block(self.planner.ops.lower(device, role, "map", "map", ops))
            block.store[0, 0] = self.planner.system.binding.store(f"{device.name}.window")
            block.store_start[0, 0] = kept
            self._preludes[key] = block
        return self._preludes[key]


def _buffers(model: ModelSpec, place: Placement, kv_bytes: int, own_head: bool) -> dict[str, int]:
    """Buffers that the passes of a model touch, in order: name -> bytes."""
    found = {f"layer{index}": model.layer_bytes for index in range(place.pinned)}
    if place.streams:
        found |= {f"ring{index}": model.layer_bytes for index in range(place.ring)}
    if own_head and place.head_in == "dram":
        found["head"] = model.head_bytes
    found["kv"] = kv_bytes
    return found
