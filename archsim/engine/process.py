"""What a process can wait for, and the bookkeeping of a wait under way."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from archsim.engine.notify import Processes


class Outcome(NamedTuple):
    """What ended a wait.

    ``kind`` is ``"done"``, ``"cut"``, ``"timer"`` or ``"signal"``. ``index`` is the member of an ``any_of`` that
    happened. ``value`` is the signal's value, a process's return value, or for ``all_of`` the members' outcomes.
    """

    kind: str
    index: int = 0
    value: Any = None


class Waitable:
    """Something a process may yield."""

    def outcome(self) -> Outcome | None:
        """What has happened already, or None."""
        raise TypeError(f"{type(self).__name__} has no outcome of its own")

    def attach(self, leaf: Leaf) -> None:
        """Call ``leaf.fire`` when it happens."""

    def detach(self, leaf: Leaf) -> None:
        """Forget `leaf`."""

    def members(self) -> tuple[Waitable, ...]:
        """Parts of a compound."""
        return ()


class AnyOf(Waitable):
    """Happens with its first member; of several at one instant the lowest index counts."""

    def __init__(self, parts: tuple[Waitable, ...]) -> None:
        self.parts = parts

    def members(self) -> tuple[Waitable, ...]:
        """Parts of a compound."""
        return self.parts

    def __str__(self) -> str:
        return "any of (" + ", ".join(map(str, self.parts)) + ")"


class AllOf(Waitable):
    """Happens with its last member; ``kind`` is ``"cut"`` if a member was cut, else ``"done"``."""

    def __init__(self, parts: tuple[Waitable, ...]) -> None:
        self.parts = parts

    def members(self) -> tuple[Waitable, ...]:
        """Parts of a compound."""
        return self.parts

    def __str__(self) -> str:
        return "all of (" + ", ".join(map(str, self.parts)) + ")"


class Signal(Waitable):
    """A named moment: :meth:`fire` wakes those who wait now; later waits are for the next firing."""

    def __init__(self, sim: Processes, name: str) -> None:
        self.name = name
        self._sim = sim
        self._leaves: dict[Leaf, None] = {}

    def fire(self, value: Any = None) -> None:
        """Wake all current waiters at this instant, in its next round if the engine is in a round."""
        leaves, self._leaves = self._leaves, {}
        for leaf in leaves:
            leaf.fire(Outcome("signal", 0, value))

    def outcome(self) -> Outcome | None:
        """Always None: a signal has no memory."""
        return None

    def attach(self, leaf: Leaf) -> None:
        """Wait for the next firing."""
        self._leaves[leaf] = None

    def detach(self, leaf: Leaf) -> None:
        """Forget `leaf`."""
        self._leaves.pop(leaf, None)

    def __str__(self) -> str:
        return f"signal {self.name!r}"


class Timer(Waitable):
    """Happens at the time `due_ps`."""

    def __init__(self, sim: Processes, due_ps: int) -> None:
        self.due_ps = due_ps
        self._sim = sim

    def outcome(self) -> Outcome | None:
        """Done from `due_ps` on."""
        return Outcome("timer") if self._sim.now >= self.due_ps else None

    def attach(self, leaf: Leaf) -> None:
        """Wait for the time."""
        self._sim.add_timer(self.due_ps, leaf)

    def __str__(self) -> str:
        return f"timer at {self.due_ps} ps"


class Leaf:
    """One elementary wait of one process."""

    __slots__ = ("dead", "index", "parent", "result", "source")

    def __init__(self, source: Waitable, parent: Gate | Process, index: int) -> None:
        self.source, self.parent, self.index = source, parent, index
        self.result: Outcome | None = None
        self.dead = False

    def fire(self, outcome: Outcome) -> None:
        """The thing waited for has happened."""
        if self.result is None and not self.dead:
            self.result = outcome
            self.parent.ready()

    def drop(self) -> None:
        """Stop waiting."""
        self.dead = True
        if self.result is None:
            self.source.detach(self)


class Gate:
    """A compound wait of one process: open when `missing` members are still to happen."""

    __slots__ = ("children", "first", "fixed", "index", "missing", "parent")

    def __init__(self, first: bool, parent: Gate | Process, index: int) -> None:
        self.first, self.parent, self.index = first, parent, index
        self.children: list[Leaf | Gate | Outcome] = []
        self.missing = 0
        self.fixed: Outcome | None = None

    def ready(self) -> None:
        """One member has happened."""
        self.missing -= 1
        if self.missing == 0:
            if isinstance(self.parent, Gate):
                self.fixed = self.result  # an outer all_of may take long; what comes meanwhile does not count
            self.parent.ready()

    @property
    def result(self) -> Outcome | None:
        """Combined outcome, or None while members are missing."""
        if self.fixed is not None:
            return self.fixed
        parts = [c if isinstance(c, Outcome) else c.result for c in self.children]
        if self.first:
            for i, part in enumerate(parts):
                if part is not None:
                    return Outcome(part.kind, i, part.value)
            return None
        outcomes = [part for part in parts if part is not None]
        if len(outcomes) < len(parts):
            return None
        kind = "cut" if any(part.kind == "cut" for part in outcomes) else "done"
        return Outcome(kind, 0, tuple(outcomes))

    def drop(self) -> None:
        """Stop waiting, and let go of the members: they refer back."""
        children, self.children = self.children, []
        for child in children:
            if not isinstance(child, Outcome):
                child.drop()


def subscribe(what: Waitable, parent: Gate | Process, index: int) -> Outcome | Leaf | Gate:
    """Start a wait of `parent` for `what`; returns its outcome instead if it has happened already."""
    if not isinstance(what, (AnyOf, AllOf)):
        outcome = what.outcome()
        if outcome is not None:
            return outcome
        leaf = Leaf(what, parent, index)
        what.attach(leaf)
        return leaf
    gate = Gate(isinstance(what, AnyOf), parent, index)
    for i, part in enumerate(what.members()):
        gate.children.append(subscribe(part, gate, i))
    result = gate.result
    if result is not None:
        gate.drop()
        return result
    happened = sum(isinstance(child, Outcome) for child in gate.children)
    gate.missing = 1 if gate.first else len(gate.children) - happened
    return gate


class Process(Waitable):
    """A generator that yields :class:`Waitable` and is sent :class:`Outcome`; itself waitable."""

    def __init__(
        self, sim: Processes, index: int, generator: Generator[Waitable, Outcome, Any], name: str, daemon: bool
    ) -> None:
        self.id, self.name, self.daemon = index, name, daemon
        self.generator = generator
        self.finished = False
        self.value: Any = None
        self.waits_for: Waitable | None = None
        self.node: Leaf | Gate | None = None
        self._sim = sim
        self._leaves: dict[Leaf, None] = {}

    def ready(self) -> None:
        """The wait is over: run in the next notify phase."""
        self._sim.wake(self)

    def finish(self, value: Any) -> None:
        """The generator has returned `value`."""
        self.finished, self.value = True, value
        leaves, self._leaves = self._leaves, {}
        for leaf in leaves:
            leaf.fire(Outcome("done", 0, value))

    def outcome(self) -> Outcome | None:
        """Done once the generator has returned."""
        return Outcome("done", 0, self.value) if self.finished else None

    def attach(self, leaf: Leaf) -> None:
        """Wait for the generator's return."""
        self._leaves[leaf] = None

    def detach(self, leaf: Leaf) -> None:
        """Forget `leaf`."""
        self._leaves.pop(leaf, None)

    def __str__(self) -> str:
        return f"process {self.name!r}"
