"""Keepers of address windows: map at first touch, and batches that drop all they do not use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from archsim.config import InputError
from archsim.device import OpKind
from archsim.engine.sim import Block
from archsim.units import show
from archsim.workload.blocks import patch, row_block
from archsim.workload.buffers import kv_buffers, layer_buffers, pack, pages, tensors
from archsim.workload.hostrows import RAISES, HostRows, lower_map
from archsim.workload.plan import Pass, Planned, Planner
from archsim.workload.recent import Recent
from archsim.workload.residency import DropAll, FirstTouch


class Change(NamedTuple):
    """What a pass left after it unmapped something: bytes not mapped in the windows it uses, and their largest hole."""

    device: str
    free_bytes: int
    largest_hole_bytes: int


class Ground(NamedTuple):
    """What the keepers of a device's windows need to know."""

    planner: Planner
    device: Any  # a Device with address_windows, map_entry, wide and a spec with page_bytes
    roles: tuple[str, ...]
    kv_bytes: Mapping[str, int]

    @property
    def page(self) -> int:
        """Bytes of a page."""
        return self.device.spec.page_bytes

    @property
    def window(self) -> int:
        """Id of the store of mapped bytes."""
        return self.planner.system.binding.store(f"{self.device.name}.window")

    def own_head(self, role: str) -> bool:
        """Whether the device runs the output projection of a role."""
        return self.planner.device(role, OpKind.PROJECTION, head=True) is self.device

    def sessions(self, asked: int) -> int:
        """Windows to use: those asked for, or all (0).

        Raises
        ------
        InputError
            When the device has fewer.
        """
        there = self.device.spec.window_sessions
        if asked > there:
            raise InputError(
                f"the mapping uses {asked} sessions and {self.device.name} opens {there}; "
                f"raise system.{self.device.name}.window_sessions"
            )
        return asked or there

    def tensors(self, role: str) -> dict[str, int]:
        """Weights of a role in whole pages, by operator."""
        place = self.planner.placements[role]
        return tensors(self.planner.models[role], place, self.own_head(role), self.page)

    def kv_layers(self, role: str) -> dict[str, int]:
        """KV buffers of a role by layer, in whole pages."""
        layers = self.planner.models[role].layers
        return {f"kv{layer}": pages(-(-self.kv_bytes[role] // layers), self.page) for layer in range(layers)}

    def operators(self, plan: Planned) -> list[int]:
        """Operators of a plan that the device runs, in order of execution."""
        where = self.planner.ops.devices(plan.block.op[plan.spans[:, 0]])
        return [i for i, name in enumerate(where) if name == self.device.name]

    def map_block(self, role: str, calls: int, nbytes: int, level: int) -> Block:
        """Block of one row that maps buffers; the level of the window changes when it starts."""
        block = row_block(lower_map(self.planner.ops, self.device, role, "map", calls, nbytes))
        block.store[0, 0] = self.window
        block.store_start[0, 0] = level
        return block

    def too_large(self, role: str, what: str, nbytes: int, sessions: int = 1) -> InputError:
        """Error for a buffer that does not fit the windows beside those needed with it."""
        name, whole = self.device.name, sessions * self.device.spec.window_bytes
        return InputError(
            f"{role}: buffer {what} of {show(nbytes, 'B')} does not fit the address window of {name}, "
            f"{show(whole, 'B')} in {sessions} session(s); raise system.{name}.window_bytes"
        )


class Keeper:
    """Keeps the windows of one device: decorates planned passes and knows what is mapped."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self.stores: list[dict[str, Any]] = []

    def plan(self, asked: Pass) -> tuple[Block | None, Block, Change | None]:
        """Prelude, block and change of one pass; here: the plan as it is."""
        return None, self.ground.planner.block(asked), None


class _Mapped(Keeper):
    """A keeper whose windows hold buffers from pass to pass."""

    def __init__(self, ground: Ground, sessions: int, sizes: Mapping[tuple[str, str], int], **rules: Any) -> None:
        super().__init__(ground)
        self.sizes = sizes
        self.ids = {key: i for i, key in enumerate(sizes)}
        self.sessions = ground.sessions(sessions)
        self.windows = ground.device.address_windows(self.sessions, len(sizes), **rules)
        self._kept: Recent[tuple[Any, Change | None, Any]] = Recent()

    def _keep(self, state: Any, made: tuple[Any, Change | None, Any]) -> tuple[Any, Change | None, Any]:
        """Keep a block, a change and a snapshot of the windows, whose entries count as rows."""
        block, _, after = made
        return self._kept.keep(state, made, len(after[0]) + (block.rows if block is not None else 0))

    def needs(self, keys: list[tuple[str, str]]) -> np.ndarray:
        """Ids and bytes of buffers: int64 [n, 2]."""
        return np.array([(self.ids[key], self.sizes[key]) for key in keys], dtype=np.int64).reshape(-1, 2)

    def touch(self, keys: list[tuple[str, str]]) -> Any:
        """Use buffers together; returns the :class:`archsim.devices.npu.va.Changes`."""
        made = self.windows.touch(self.needs(keys))
        if made.failed >= 0:
            role, name = keys[made.failed]
            raise self.ground.too_large(role, name, self.sizes[keys[made.failed]], self.sessions)
        return made

    def change(self, unmapped: bool) -> Change | None:
        """What to note about a pass."""
        if not unmapped:
            return None
        return Change(self.ground.device.name, self.windows.free_bytes, self.windows.largest_hole_bytes)


class FirstTouchKeeper(_Mapped):
    """Maps a layer's buffers when a pass first touches them; all calls of a pass run before it."""

    def __init__(self, ground: Ground, how: FirstTouch) -> None:
        sizes = {
            (role, name): size
            for role in ground.roles
            for name, size in layer_buffers(
                ground.planner.models[role],
                ground.planner.placements[role],
                kv_buffers(
                    ground.kv_bytes[role],
                    ground.planner.models[role].layers,
                    ground.device.spec.window_bytes,
                    ground.device.spec.max_buffer_bytes,
                    ground.page,
                ),
                ground.own_head(role),
            ).items()
        }
        rules = {"slots": len(sizes), "fit": how.fit, "evict": how.evict, "compact": how.compact}
        super().__init__(ground, how.sessions, sizes, **rules)

    def plan(self, asked: Pass) -> tuple[Block | None, Block, Change | None]:
        """Touch the buffers of the role one after the other."""
        state = (asked.role, self.windows.digest())
        kept = self._kept.get(state)
        if kept is None:
            kept = self._keep(state, self._touch_all(asked.role))
        prelude, change, after = kept
        if prelude is not None:
            self.windows.restore(after)
        return prelude, self.ground.planner.block(asked), change

    def _touch_all(self, role: str) -> tuple[Block | None, Change | None, Any]:
        calls = size = level = unmaps = 0
        for key in self.ids:
            if key[0] != role:
                continue
            made = self.touch([key])
            calls, unmaps = calls + made.map_calls, unmaps + made.unmap_calls
            size, level = size + made.mapped_bytes, level + made.mapped_bytes - made.unmapped_bytes
        prelude = self.ground.map_block(role, calls + unmaps, size, level) if calls else None
        return prelude, self.change(unmaps > 0), self.windows.snapshot()


class DropAllKeeper(_Mapped):
    """Batches of operators over packed buffers; what a batch does not use is dropped when it does not fit beside."""

    def __init__(self, ground: Ground, how: DropAll) -> None:
        self.how = how
        spec = ground.device.spec
        sizes: dict[tuple[str, str], int] = {("", "scratch"): pages(how.scratch_bytes, spec.page_bytes)}
        self._where: dict[str, dict[str, tuple[str, str]]] = {}
        for role in ground.roles:
            self._where[role] = {}
            for what, parts in (("weights", ground.tensors(role)), ("kv", ground.kv_layers(role))):
                where, made = pack(parts, spec.max_buffer_bytes, role)
                sizes |= {(role, f"{what}{i}"): size for i, size in enumerate(made)}
                self._where[role] |= {name: (role, f"{what}{i}") for name, i in where.items()}
        self._rules = {"slots": spec.map_slots, "fit": how.fit, "evict": "drop", "compact": how.compact}
        self._room: dict[tuple[tuple[str, str], ...], bool] = {}
        super().__init__(ground, how.sessions, sizes, **self._rules)

    def plan(self, asked: Pass) -> tuple[Block | None, Block, Change | None]:
        """Decorate a pass: a row before each batch that maps something."""
        planner = self.ground.planner
        key, plan = planner.planned(asked)
        state = (key, self.windows.digest())
        kept = self._kept.get(state)
        if kept is None:
            kept = self._keep(state, self._decorate(asked, plan))
        block, change, after = kept
        self.windows.restore(after)
        return None, patch(block, planner.attention(asked, plan)), change

    def _decorate(self, asked: Pass, plan: Planned) -> tuple[Block, Change | None, Any]:
        rows = HostRows(plan.block, self.ground.planner.ops, self.ground.device, asked.role)
        unmaps, previous = 0, []
        for batch, buffers in self._batches(asked, plan):
            made = self.touch(buffers)
            if made.map_calls:
                row = rows.add("map", made.map_calls + made.unmap_calls, made.mapped_bytes)
                rows.change(row, self.ground.window, start=made.mapped_bytes - made.unmapped_bytes, mode=RAISES)
                for last in previous or rows.before(int(plan.spans[batch[0], 0])):
                    rows.order(last, row)
                for i in batch:
                    rows.order(row, int(plan.spans[i, 0]))
            unmaps += made.unmap_calls
            previous = [int(plan.spans[i, 1]) for i in batch]
        return rows.build(), self.change(unmaps > 0), self.windows.snapshot()

    def _batches(self, asked: Pass, plan: Planned) -> list[tuple[list[int], list[tuple[str, str]]]]:
        """Operators of each batch, and the buffers it references; a batch is as long as the limits allow."""
        batches: list[tuple[list[int], list[tuple[str, str]]]] = []
        for i in self.ground.operators(plan):
            uses = [("", "scratch"), *self._buffers(asked.role, plan, i)]
            both = list(dict.fromkeys([*(batches[-1][1] if batches else ()), *uses]))
            if batches and len(batches[-1][0]) < self.how.max_ops and self._fits(both):
                batches[-1] = ([*batches[-1][0], i], both)
            else:
                batches.append(([i], list(dict.fromkeys(uses))))
        return batches

    def _fits(self, buffers: list[tuple[str, str]]) -> bool:
        """Whether buffers find room together in empty windows, in this order."""
        key = tuple(buffers)
        if key not in self._room:
            empty = self.ground.device.address_windows(self.sessions, len(self.sizes), **self._rules)
            self._room[key] = empty.touch(self.needs(buffers)).failed < 0
        return self._room[key]

    def _buffers(self, role: str, plan: Planned, i: int) -> list[tuple[str, str]]:
        """Buffers of weights and KV rows that an operator references."""
        where, name = self._where[role], plan.names[i]
        found = [where[name]] if name in where else []
        layer = name.partition(".")[0].removeprefix("layer")
        if plan.ops.kv_bytes[i] and f"kv{layer}" in where:
            found.append(where[f"kv{layer}"])
        return found
