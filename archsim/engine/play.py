"""Playing a recorded script in place of processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from archsim.engine import core, record
from archsim.engine.errors import ScriptError
from archsim.engine.record import Script

if TYPE_CHECKING:
    from archsim.engine.sim import Handle, Sim

Item = TypeVar("Item")


class Player:
    """Does the actions of a script at their instants and rounds. Handles live until their last use."""

    def __init__(self, sim: Sim, script: Script) -> None:
        self.sim, self.script = sim, script
        self._steps = list(script.steps())
        self._after = script.after.tolist()
        self._at = 0
        self._after_at = 0
        self._handles: dict[int, Handle] = {}
        self._last = self._last_uses()

    def _last_uses(self) -> dict[int, int]:
        last: dict[int, int] = {}
        at = block = 0
        for i, (_, _, kind, a, *_, e) in enumerate(self._steps):
            if kind == record.EMIT:
                last[block] = i
                block += 1
                last.update(dict.fromkeys(self._after[at : at + e], i))
                at += e
            elif kind in (record.CUT, record.CUT_ROW, record.MARK):
                last[a] = i
        return last

    def next_stop(self) -> tuple[int, int]:
        """Instant and round of the next action; NEVER when there is none."""
        return self._steps[self._at][:2] if self._at < len(self._steps) else (core.NEVER, 0)

    def act(self) -> None:
        """Do all actions of this round."""
        m = self.sim.window.s.m
        here = (int(m[core.NOW]), int(m[core.ROUND]))
        while self._at < len(self._steps) and self._steps[self._at][:2] <= here:
            step = self._steps[self._at]
            if step[:2] != here:
                raise ScriptError(
                    f"action {self._at} belongs to {step[:2]} (ps, round), but the run is at {here} already"
                )
            try:
                self._do(step)
            except (IndexError, KeyError) as error:
                raise ScriptError(f"action {self._at} at {here} names what this run does not have: {error}") from error
            self._at += 1

    def _do(self, step: tuple[int, ...]) -> None:
        sim = self.sim
        _, _, kind, a, b, c, d, e = step
        if kind == record.EMIT:
            ids = self._after[self._after_at : self._after_at + e]
            self._after_at += e
            after = [self._handles[i] for i in ids]
            block = _one_of(self.script.templates, a, "template")
            handle = sim.emit(block, after, priority=b, request=c, label=_one_of(self.script.labels, d, "label"))
            self._handles[handle.id] = handle
            for i in {*ids, handle.id}:
                self._drop(i)
            return
        if kind == record.RATE:
            _one_of(sim.pools if a else sim.units, b, "pool" if a else "unit")
            sim.apply_rate(bool(a), b, c)
        elif kind == record.ADD:
            _one_of(sim.stores, a, "store")
            sim.apply_level(a, b)
        elif kind == record.NOTE:
            _one_of(self.script.kinds, a, "kind of note")
            sim.apply_note(a, b, c, d)
        else:
            handle = self._handles[a]
            if kind == record.CUT:
                sim.cut(handle)
            elif kind == record.CUT_ROW:
                sim.cut_row(handle, b)
            else:
                sim.mark(handle, b, c)
            self._drop(a)

    def _drop(self, block: int) -> None:
        if self._last[block] <= self._at:
            self._handles.pop(block, None)


def _one_of(items: Sequence[Item], index: int, what: str) -> Item:
    """Item of an index; a negative one names nothing here."""
    if not 0 <= index < len(items):
        raise IndexError(f"{what} {index} of {len(items)}")
    return items[index]
