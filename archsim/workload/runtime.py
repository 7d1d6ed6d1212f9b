"""What has history: which buffers are mapped in the NPU's address windows, and the rows that map the rest.

A unit with an address window can only touch buffers that are mapped. The job's residency
(:mod:`archsim.workload.residency`) says who maps what and when; here it becomes rows on the host's control core that
the operators of a pass wait for, inside the pass's block. A decorated pass is kept by the state of the windows it
started from, so a pass that meets a known state costs a look-up and the patch of its attention.

Not modelled: what a cut pass leaves unmapped. It counts as having mapped all it would have, so choices that unmap
(``drop_all``, ``first_touch`` beyond the window) are not for schedules that cut passes of the NPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from archsim.device import Device, OpKind
from archsim.engine.sim import Block
from archsim.workload.blocks import chain
from archsim.workload.keepers import Change, DropAllKeeper, FirstTouchKeeper, Ground, Keeper
from archsim.workload.plan import Pass, Planner
from archsim.workload.residency import DropAll, FirstTouch, PerOperator, Residency, Resident, Unmapped
from archsim.workload.swapping import PerOperatorKeeper, ResidentKeeper


class Runtime:
    """Residency in the address windows of a system's devices.

    Parameters
    ----------
    planner : Planner
        Knows the machine, the models and their placements; map operators are entered in its table.
    kv_bytes : Mapping[str, int]
        Size of the KV buffer by role.
    residency : Residency
        How buffers are kept mapped.
    first_store : int
        Id that the first of :attr:`stores` will have.

    Attributes
    ----------
    stores : list of dict
        Stores that the run needs beside the machine's (staging slots).
    """

    def __init__(
        self, planner: Planner, kv_bytes: Mapping[str, int], residency: Residency | None = None, first_store: int = 0
    ) -> None:
        self.planner = planner
        self.residency = FirstTouch() if residency is None else residency
        self.stores: list[dict[str, Any]] = []
        self._of: dict[tuple[str, bool], Keeper] = {}
        devices: dict[str, tuple[Device, list[tuple[str, bool]]]] = {}
        for role, place in planner.placements.items():
            for batched in (False, True) if place.batch_on else (False,):
                device = planner.device(role, OpKind.MATMUL, False, batched)
                if OpKind.MAP in device.ops:
                    devices.setdefault(device.name, (device, []))[1].append((role, batched))
        for device, users in devices.values():
            roles = tuple(dict.fromkeys(role for role, _ in users))
            keeper = _keeper(self.residency, Ground(planner, device, roles, kv_bytes), first_store)
            self.stores += keeper.stores
            first_store += len(keeper.stores)
            self._of |= dict.fromkeys(users, keeper)

    def keeper(self, role: str, batched: bool = False) -> Keeper | None:
        """What keeps the windows that a role's (batched) passes use; None where they need none."""
        return self._of.get((role, batched and bool(self.planner.placements[role].batch_on)))

    def plan(self, passes: Sequence[Pass]) -> tuple[Block | None, Block, list[Change]]:
        """Plan passes that run one after the other.

        Returns
        -------
        prelude : Block or None
            Rows to run before: maps that the passes wait for as a whole.
        block : Block
            The passes, with the rows of the host's mapping thread.
        changes : list of Change
            One for each pass that unmapped something.

        Raises
        ------
        InputError
            When a buffer cannot be mapped beside those that are needed with it.
        """
        keeper = self.keeper(passes[0].role, passes[0].batched)
        if keeper is None or passes[0].reads == "ahead":  # reads into the ring touch no window
            return None, self.planner.chained(passes), []
        planned = [keeper.plan(asked) for asked in passes]
        later = [part for prelude, block, _ in planned[1:] for part in (prelude, block) if part is not None]
        changes = [change for _, _, change in planned if change is not None]
        return planned[0][0], chain([planned[0][1], *later]), changes


def _keeper(residency: Residency, ground: Ground, first_store: int) -> Keeper:
    if isinstance(residency, FirstTouch):
        return FirstTouchKeeper(ground, residency)
    if isinstance(residency, PerOperator):
        return PerOperatorKeeper(ground)
    if isinstance(residency, DropAll):
        return DropAllKeeper(ground, residency)
    if isinstance(residency, Resident):
        return ResidentKeeper(ground, residency, first_store)
    if isinstance(residency, Unmapped):
        return Keeper(ground)
    raise TypeError(f"no keeper for {residency!r}")
