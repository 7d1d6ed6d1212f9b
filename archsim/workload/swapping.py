"""Keepers that swap in every pass: operator by operator, or the remainder beside a resident set."""

from __future__ import annotations

from typing import Any

import numpy as np

from archsim.config import InputError
from archsim.device import OpKind
from archsim.engine.sim import Block
from archsim.workload.blocks import COPIED, Patch, patch
from archsim.workload.buffers import pack, pages, swapped
from archsim.workload.hostrows import RAISES, HostRows, hosted_alike, lower_map
from archsim.workload.keepers import Change, Ground, Keeper
from archsim.workload.plan import Pass, Planned
from archsim.workload.recent import Recent
from archsim.workload.residency import Resident


def without_call(block: Block, rows: np.ndarray, call_ps: int) -> Block:
    """Take the operators' own calls off the leads of `rows`: the host's rows pay for them."""
    lead = block.lead.copy()
    lead[rows] -= np.where(lead[rows] >= call_ps, call_ps, 0)
    return block._replace(lead=lead)


class _Swapping(Keeper):
    """Keeps decorated passes, and patches attention with the host's calls taken off."""

    def __init__(self, ground: Ground) -> None:
        super().__init__(ground)
        self._kept: Recent[tuple[Block, Any]] = Recent()

    def decorate(self, asked: Pass, plan: Planned) -> tuple[Block, Any]:
        """Block of a pass with the host's rows, and what :meth:`patches` needs."""
        raise TypeError(f"{type(self).__name__} decorates nothing")

    def patches(self, asked: Pass, plan: Planned, extra: Any) -> list[Patch]:
        """What depends on the cached length beside attention."""
        return []

    def plan(self, asked: Pass) -> tuple[Block | None, Block, Change | None]:
        """Decorated pass for the length asked."""
        planner, call_ps = self.ground.planner, self.ground.device.operator_call_ps
        key, plan = planner.planned(asked)
        kept = self._kept.get(key)
        if kept is None:
            block, extra = self.decorate(asked, plan)
            firsts = plan.spans[self.ground.operators(plan), 0]
            kept = self._kept.keep(key, (without_call(block, firsts, call_ps), extra), block.rows)
        block, extra = kept
        block = patch(block, [*planner.attention(asked, plan), *self.patches(asked, plan, extra)])
        if len(plan.attention) and self._runs_attention(asked):
            kinds = plan.ops.kind == OpKind.ATTENTION
            block = without_call(block, plan.spans[kinds, 0], call_ps)
        return None, block, None

    def _runs_attention(self, asked: Pass) -> bool:
        return self.ground.planner.device(asked.role, OpKind.ATTENTION) is self.ground.device


class PerOperatorKeeper(_Swapping):
    """Map, call and unmap around every operator, one after the other."""

    def decorate(self, asked: Pass, plan: Planned) -> tuple[Block, Any]:
        """One row before each operator: its call, and the bytes that it touches."""
        ground = self.ground
        rows = HostRows(plan.block, ground.planner.ops, ground.device, asked.role)
        sizes = self._touched(asked, plan)
        previous, attention = -1, []
        for i in ground.operators(plan):
            first, last = (int(row) for row in plan.spans[i])
            host = rows.add("call", 1, sizes[i])
            for earlier in dict.fromkeys([*rows.before(first), *(() if previous < 0 else (previous,))]):
                rows.order(earlier, host)
            rows.order(host, first)
            if sizes[i]:
                rows.change(host, ground.window, start=sizes[i], mode=RAISES, heir=last)
                rows.change(last, ground.window, end=-sizes[i], mode=2 * RAISES)
            if plan.ops.kind[i] == OpKind.ATTENTION:
                attention.append((host, last))
            previous = last
        block = rows.build()
        hosts, lasts = np.array(attention, dtype=np.int64).reshape(-1, 2).T
        return block, (hosts, lasts, block.store_end[lasts], block.store[lasts] == ground.window)

    def patches(self, asked: Pass, plan: Planned, extra: Any) -> list[Patch]:
        """Calls of attention: they map the KV rows cached so far."""
        hosts, lasts, ends, own = extra
        if not len(hosts):
            return []
        size = self._touched(asked, plan)[int(np.flatnonzero(plan.ops.kind == OpKind.ATTENTION)[0])]
        lowered = lower_map(self.ground.planner.ops, self.ground.device, asked.role, "call", 1, size)
        columns = {name: np.concatenate([getattr(lowered, name)] * len(hosts)) for name in COPIED}
        if not size:
            return [(hosts, columns)]
        columns["store_start"] = np.tile(np.array([size, 0], dtype=np.int64), (len(hosts), 1))
        return [(hosts, columns), (lasts, {"store_end": np.where(own, -size, ends)})]

    def _touched(self, asked: Pass, plan: Planned) -> list[int]:
        """Bytes that each operator maps at the cached length asked: weights, KV rows, inputs and outputs."""
        ops, ground = plan.ops, self.ground
        if ground.device.wide:
            return [0] * len(ops.kind)
        row = ground.planner.models[asked.role].kv_row_bytes
        kv = ops.kv_bytes + np.where(ops.kind == OpKind.ATTENTION, (asked.kv - ops.kv) * row, 0)
        parts = (ops.weight_bytes, kv, ops.in_bytes, ops.out_bytes)
        sizes = np.stack([-(-part // ground.page) * ground.page for part in parts]).sum(axis=0)
        own = np.array(ground.operators(plan), dtype=np.int64)
        worst = int(own[sizes[own].argmax()]) if len(own) else 0
        if len(own) and sizes[worst] > ground.device.spec.window_bytes:
            raise ground.too_large(asked.role, plan.names[worst], int(sizes[worst]))
        return sizes.tolist()


class ResidentKeeper(_Swapping):
    """A resident set, and a host thread that prepares every operator and maps what is swapped."""

    def __init__(self, ground: Ground, how: Resident, first_store: int) -> None:
        super().__init__(ground)
        self.how = how
        self.slot_bytes = 0
        self.swapped: dict[tuple[str, str], int] = {}
        weights = self._weights()
        fixed = sum(size for _, size in (*self._scratch(), *self._kv()))
        limit = self._windows(1).total_bytes
        #: Bytes that do not fit beside the staging slots; not positive when everything fits without any.
        self.excess_bytes = sum(weights.values()) + fixed - limit
        if self.excess_bytes > 0:
            self._swap(weights, self.excess_bytes)
        self.calls, self.level_bytes = self._place(weights)
        self._mapped = False
        self._hosted: Recent[tuple[Block, np.ndarray]] = Recent()
        if self.swapped:
            self._slot_store = first_store
            self.stores = [
                {"name": f"{ground.device.name}.staging", "capacity": how.slots, "unit": "slots", "level": 0}
            ]

    def _weights(self) -> dict[tuple[str, str], int]:
        found = {}
        for role in self.ground.roles:
            if self.ground.planner.placements[role].streams:
                raise InputError(
                    f"{role}: a resident set needs all layers in DRAM, and some are streamed from flash; set "
                    "job.dram_fraction=1 or choose another job.mapping"
                )
            found |= {(role, name): size for name, size in self.ground.tensors(role).items()}
        return found

    def _scratch(self) -> list[tuple[str, int]]:
        """Scratch, in pieces that a buffer holds."""
        largest, scratch = self.ground.device.spec.max_buffer_bytes, pages(self.how.scratch_bytes, self.ground.page)
        return [(f"scratch{i}", min(largest, scratch - at)) for i, at in enumerate(range(0, scratch, largest))]

    def _kv(self) -> list[tuple[tuple[str, str], int]]:
        """KV buffers by layer."""
        roles = self.ground.roles
        return [((role, name), size) for role in roles for name, size in self.ground.kv_layers(role).items()]

    def _windows(self, buffers: int) -> Any:
        sessions = self.ground.sessions(self.how.sessions)
        return self.ground.device.address_windows(sessions, buffers, slots=buffers)

    def _swap(self, weights: dict[tuple[str, str], int], excess_bytes: int) -> None:
        """Choose what is swapped; the slots hold the largest of it.

        Matrices, and where all of them are not enough also the keys and values of whole layers, which then take a slot
        from the write of a layer's new rows to the end of its attention.
        """
        matrices = [(key, size) for key, size in weights.items() if self._is_matrix(key)]
        sizes = dict(matrices)
        for candidates in (matrices, [*matrices, *self._kv()]):
            sizes = dict(candidates)
            self.slot_bytes = max(sizes.values())
            self.excess_bytes = excess_bytes + self.how.slots * self.slot_bytes
            names = swapped(candidates, self.excess_bytes, self.how.spread)
            self.swapped = {key: sizes[key] for key in names}
            if sum(self.swapped.values()) >= self.excess_bytes:
                return
        role, name = matrices[0][0]
        raise self.ground.too_large(role, f"set without matrices ({name} and on) and KV", sum(weights.values()))

    def _is_matrix(self, key: tuple[str, str]) -> bool:
        role, name = key
        matrices = {matrix.name for matrix in self.ground.planner.models[role].layer_matrices}
        return name.partition(".")[2] in matrices

    def _place(self, weights: dict[tuple[str, str], int]) -> tuple[int, int]:
        """Map the resident set in buffers; returns calls and bytes.

        Raises
        ------
        InputError
            When it does not fit the windows as they are cut.
        """
        ground = self.ground
        resident = {
            f"{role} {name}": size for (role, name), size in weights.items() if (role, name) not in self.swapped
        }
        parts = {f"slot{i}": self.slot_bytes for i in range(self.how.slots if self.swapped else 0)}
        kv = {f"{role} {name}": size for (role, name), size in self._kv() if (role, name) not in self.swapped}
        parts |= dict(self._scratch()) | kv | resident
        _, made = pack(parts, min(ground.device.spec.max_buffer_bytes, ground.device.window_bytes), "resident set")
        done = self._windows(len(made)).touch(np.stack([np.arange(len(made)), np.array(made)], axis=1).astype(np.int64))
        if done.failed >= 0:
            raise ground.too_large(ground.roles[0], f"{done.failed} of the resident set", made[done.failed])
        return done.map_calls, done.mapped_bytes

    def plan(self, asked: Pass) -> tuple[Block | None, Block, Change | None]:
        """Decorated pass; the resident set is mapped before the first."""
        _, block, _ = super().plan(asked)
        if self._mapped:
            return None, block, None
        self._mapped = True
        return self.ground.map_block(asked.role, self.calls, self.level_bytes, self.level_bytes), block, None

    def decorate(self, asked: Pass, plan: Planned) -> tuple[Block, Any]:
        """The plan with the rows of the host; plans of equal structure get the same ones."""
        operators = self.ground.operators(plan)
        key = (asked.role, id(plan.spans), tuple(operators))
        alike = self._hosted.get(key)
        if alike is not None:
            return hosted_alike(alike[0], plan.block), None
        block = self._hosted_afresh(asked, plan, operators)
        self._hosted.keep(
            key, (block, plan.spans), block.rows
        )  # as long as the spans are kept, no others have their id
        return block, None

    def _hosted_afresh(self, asked: Pass, plan: Planned, operators: list[int]) -> Block:
        """One row of the host per operator, in a chain; swapped matrices take a staging slot."""
        rows = HostRows(plan.block, self.ground.planner.ops, self.ground.device, asked.role)
        previous = -1
        places = {name: i for i, name in enumerate(plan.names)}
        for i in operators:
            first, last = (int(row) for row in plan.spans[i])
            layer, _, own = plan.names[i].partition(".")
            key = (asked.role, plan.names[i])
            until = last
            if own == "attn.kv_write":
                key = (asked.role, layer.replace("layer", "kv"))
                until = int(plan.spans[places[f"{layer}.attn.attention"], 1])
            size = self.swapped.get(key, 0)
            host = rows.add("prepare", 1, size)
            if previous >= 0:
                rows.order(previous, host)
            rows.order(host, first)
            if size:
                rows.change(host, self._slot_store, start=1, heir=until)
                rows.change(until, self._slot_store, end=-1)
            previous = host if self.how.overlap else last
        return rows.build()
