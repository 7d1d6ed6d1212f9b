"""The table of lowered operators of a run: each distinct (device, role, operator, size) is lowered once.

Rows of a block name entries of this table; an entry carries the share of the operator that its row does (MACs, bytes)
and the counts by action that energy is priced from.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from pydantic import BaseModel

from archsim.authored import defined_at, located, shown
from archsim.config import InputError
from archsim.device import Device, OpKind, Ops, Rows
from archsim.sharing import active, holds, shared
from archsim.system import System

_SHARED = ("macs", "weight_bytes", "in_bytes", "out_bytes", "kv_bytes")
_SHAPE = ("m", "k", "n", "kv")


class Lowered(NamedTuple):
    """Rows of one operator, as columns the planner copies; `op` holds entry ids of the table."""

    op: np.ndarray
    unit: np.ndarray
    weight: np.ndarray
    lead: np.ndarray
    work: np.ndarray
    cap: np.ndarray
    pool: np.ndarray
    coef: np.ndarray
    claim: np.ndarray
    stream: np.ndarray


class _Made(NamedTuple):
    """What a device makes of an operator, whatever the operator is called: rows, and shares of `_SHARED` by row."""

    rows: Rows
    shares: list[tuple[int, ...]]

    @property
    def size(self) -> int:
        """Size in kB, roughly: 18 columns of 8 bytes and as many bytes of tuples a row."""
        return 3 + len(self.shares) // 2


class _Entered(NamedTuple):
    """An operator in the table: its first entry, what was made of it, and device, kind, name, role, phase, shape."""

    first: int
    made: _Made
    labels: tuple[Any, ...]

    @property
    def entries(self) -> np.ndarray:
        """Its entries."""
        return np.arange(self.first, self.first + len(self.made.shares), dtype=np.int64)


class OpTable:
    """Interned operators and their lowered rows."""

    def __init__(self, system: System) -> None:
        self.system = system
        self._lowered: dict[tuple[Any, ...], Lowered] = {}
        self._entered: list[_Entered] = []
        self._devices: list[str] = []  # by entry
        self._kinds: dict[str, object | None] = {}
        self._prepared: dict[tuple[Any, ...], list[_Made]] = {}  # as many times as they will be asked for

    def __len__(self) -> int:
        return len(self._devices)

    def lower(self, device: Device, role: str, phase: str, name: str, ops: Ops) -> Lowered:
        """Lower one operator, or return the rows made for an equal one before.

        Parameters
        ----------
        device : Device
            Where it runs.
        role, phase, name : str
            Labels of its entries.
        ops : Ops
            Columns of length 1.

        Raises
        ------
        InputError
            When the device cannot run it.
        """
        return self._found(device, (role, phase, name), tuple([column.item() for column in ops]), ops, 0)

    def lower_many(self, where: Sequence[tuple[Device, str, str, str]], ops: Ops) -> list[Lowered]:
        """Lower operators as :meth:`lower` does one after the other; several of one device take little longer than one.

        Parameters
        ----------
        where : sequence of tuple
            Device, role, phase and name of each.
        ops : Ops
            Columns of as many entries.

        Raises
        ------
        InputError
            When a device cannot run one of them.
        """
        each = self.prepare(where, ops)
        return [
            self._found(device, tuple(label), values, ops, i)
            for i, ((device, *label), values) in enumerate(zip(where, each, strict=True))
        ]

    def prepare(self, where: Sequence[tuple[Device, str, str, str]], ops: Ops) -> list[tuple[int, ...]]:
        """Make the rows of operators that are to be lowered, in one go for each device; returns their columns by row.

        For the parameters see :meth:`lower_many`. What a device cannot run is left for :meth:`lower` to refuse.
        """
        each = list(zip(*[column.tolist() for column in ops]))
        devices: dict[str, list[int]] = {}
        for i, (device, *_) in enumerate(where):
            devices.setdefault(device.name, []).append(i)
        for mine in devices.values():
            if len(mine) > 1:
                self._prepare(where[mine[0]][0], [(where[i][1:], each[i], i) for i in mine], ops)
        return each

    def _found(self, device: Device, label: tuple[str, ...], values: tuple[int, ...], ops: Ops, i: int) -> Lowered:
        """Rows of an operator, whose columns are also given as `values`."""
        key = (device.name, *label, values)
        found = self._lowered.get(key)
        if found is None:
            role, phase, name = label
            one = Ops._make([column[i : i + 1] for column in ops])
            found = self._lowered[key] = self._add(
                device, role, phase, name, one, self._made(device, role, name, one, values)
            )
        return found

    def _prepare(
        self, device: Device, wanted: Sequence[tuple[tuple[str, ...], tuple[int, ...], int]], ops: Ops
    ) -> None:
        """Make the rows of operators of a device that are wanted by label, values and place in `ops`."""
        found: dict[tuple[int, ...], tuple[int, set[tuple[str, ...]]]] = {}  # where first, and for which labels
        for label, values, i in wanted:
            if (device.name, *label, values) not in self._lowered and not self._is_made(device, values):
                found.setdefault(values, (i, set()))[1].add(label)
        if len(found) < 2:
            return
        role, _, name = wanted[0][0]
        try:
            firsts = [first for first, _ in found.values()]
            made = self._make(device, role, name, Ops._make([column[firsts] for column in ops]))
        except (InputError, TypeError):  # TypeError: a device that takes one operator at a time
            return
        once = self._kind(device) is not None  # what runs share is asked for here a single time
        for (values, (_, asked)), each in zip(found.items(), made, strict=True):
            self._prepared[device.name, values] = [each] * (1 if once else len(asked))

    def _is_made(self, device: Device, values: tuple[int, ...]) -> bool:
        kind = self._kind(device)
        return (device.name, values) in self._prepared or (kind is not None and holds("lowered", (kind, values)))

    def _kind(self, device: Device) -> object | None:
        """What devices of the runs of one sweep must have in common to share rows; None where nothing is shared."""
        if not active():
            return None
        if device.name not in self._kinds:
            self._kinds[device.name] = _kind_of(device)
        return self._kinds[device.name]

    def _made(self, device: Device, role: str, name: str, ops: Ops, values: tuple[int, ...]) -> _Made:
        """Rows of an operator; runs of one sweep share those of equal devices."""

        def make() -> _Made:
            ready = self._prepared.get((device.name, values))
            if ready is None:
                return self._make(device, role, name, ops)[0]
            if len(ready) == 1:
                del self._prepared[device.name, values]
            return ready.pop()

        kind = self._kind(device)
        return make() if kind is None else shared("lowered", (kind, values), make, lambda made: made.size)

    def _make(self, device: Device, role: str, name: str, ops: Ops) -> list[_Made]:
        """Rows of operators, one after the other."""
        try:
            rows = device.lower(ops)
        except ValueError as error:
            shape = ", ".join(f"{column} = {int(getattr(ops, column)[0])}" for column in _SHAPE)
            raise InputError(f"{role}: {name} ({shape}) cannot run on {device.name}: {located(error)}") from None
        _check_rows(device, rows)
        self._check_range(device, role, name, rows)
        totals = zip(*(getattr(ops, column).tolist() for column in _SHARED), strict=True)
        spans = itertools.pairwise(_cuts(device, rows, len(ops.kind)))
        return [_one(rows, *span, total) for span, total in zip(spans, totals, strict=True)]

    def _add(self, device: Device, role: str, phase: str, name: str, ops: Ops, made: _Made) -> Lowered:
        """Enter the rows of an operator."""
        rows, first = made.rows, len(self)
        kind = OpKind(ops.kind.item()).name.lower()
        shape = tuple([getattr(ops, column).item() for column in _SHAPE])
        entered = _Entered(first, made, (device.name, kind, name, role, phase, *shape))
        self._entered.append(entered)
        self._devices += [device.name] * len(made.shares)
        return Lowered(
            entered.entries, rows.unit, rows.weight, rows.lead, rows.work, rows.cap, rows.pool, rows.coef, rows.claim,
            rows.stream,
        )  # fmt: skip

    @staticmethod
    def _check_range(device: Device, role: str, name: str, rows: Rows) -> None:
        """Refuse rows that the engine's fixed point cannot hold, naming the device whose numbers gave them."""
        for what, column, limit in (("bytes in flight", rows.weight, 1 << 30), ("draw on a pool", rows.coef, 1 << 41)):
            if int(column.max()) >= limit:
                raise InputError(
                    f"{role}: {name} on {device.name} has a {what} that the engine cannot hold; a number of "
                    f"system.{device.name} is out of all proportion to the others"
                )

    def devices(self, ops: np.ndarray) -> list[str]:
        """Names of the devices that entries run on."""
        return [self._devices[op] for op in ops.tolist()]

    def counts_since(self, first: int) -> list[tuple[int, str, int]]:
        """Counts (entry, action, number) of the entries from `first` on."""
        at = bisect.bisect_left(self._entered, first, key=lambda one: one.first)
        return list(zip(*(column.tolist() for column in _counts(self._entered[at:]).values())))

    def tables(self) -> dict[str, dict[str, np.ndarray]]:
        """Tables ``ops``, ``counts`` and ``draws`` of the trace."""
        times = [len(one.made.shares) for one in self._entered]
        labels = _columns(("device", "kind", "name", "role", "phase", *_SHAPE), [one.labels for one in self._entered])
        shares = _columns(_SHARED, [share for one in self._entered for share in one.made.shares])
        ops = {"op": np.arange(len(self)), **{name: np.repeat(column, times) for name, column in labels.items()}}
        return {"ops": ops | shares, "counts": _counts(self._entered), "draws": _draws(self._entered)}


def _counts(entered: Sequence[_Entered]) -> dict[str, np.ndarray]:
    """Table of the actions that entries count, by entry."""
    alike: dict[tuple[str, ...], list[_Entered]] = {}
    for one in entered:
        alike.setdefault(one.made.rows.actions, []).append(one)
    pieces = [(np.empty(0, np.int64), np.empty(0, "U1"), np.empty(0, np.int64))]
    for actions, some in alike.items():
        counts = np.concatenate([one.made.rows.counts for one in some])
        row, column = np.nonzero(counts)
        if row.size:
            entries = np.concatenate([one.entries for one in some])
            pieces.append((entries[row], np.array(actions)[column], counts[row, column]))
    op, action, count = (np.concatenate(column) for column in zip(*pieces))
    order = np.argsort(op, kind="stable")
    return {"op": op[order], "action": action[order], "count": count[order]}


def _draws(entered: Sequence[_Entered]) -> dict[str, np.ndarray]:
    """Table of what entries draw from pools, by entry."""
    if not entered:
        return {name: np.empty(0, np.int64) for name in ("op", "pool", "coef")}
    pool, coef = (np.concatenate([getattr(one.made.rows, name) for one in entered]) for name in ("pool", "coef"))
    row, slot = np.nonzero(pool >= 0)
    return {"op": row + entered[0].first, "pool": pool[row, slot], "coef": coef[row, slot]}


def _kind_of(device: Device) -> object | None:
    """One object for all devices of equal class, name, spec and binding; None for one whose spec is no model."""
    bound = device.binding
    if bound is None or not isinstance(device.spec, BaseModel):
        return None
    ids = tuple(tuple(table.items()) for table in (bound.units, bound.pools, bound.stores))
    made_of = (type(device), device.name, device.spec.model_dump_json(), ids)
    return shared("kinds of devices", made_of, object, lambda _: 4)


def _check_rows(device: Device, rows: Rows) -> None:
    """Refuse what is no table of rows, naming where the device lowers."""
    if not isinstance(rows, Rows):
        raise InputError(f"{defined_at(device.lower)} must return rows (archsim.device.Rows), not {shown(rows)}")
    n = len(rows.unit)
    for name, column in zip(rows._fields, rows):
        if name == "actions":
            continue
        if not isinstance(column, np.ndarray) or column.dtype != np.int64:
            raise InputError(f"{defined_at(device.lower)} must return int64 columns; {name} is {shown(column)}")
        if not n or len(column) != n:
            raise InputError(
                f"{defined_at(device.lower)} must return at least one row, and columns of equal length; unit has {n} "
                f"and {name} {len(column)}"
            )
    if rows.counts.ndim != 2 or rows.counts.shape[1] != len(rows.actions):
        raise InputError(
            f"{defined_at(device.lower)} must count every action in every row; counts is of shape {rows.counts.shape} "
            f"for {len(rows.actions)} actions"
        )


def _cuts(device: Device, rows: Rows, operators: int) -> list[int]:
    """Where the rows of each operator begin, and where those of the last one end."""
    if operators == 1:
        return [0, len(rows.op)]
    first = np.searchsorted(rows.op, np.arange(operators + 1))
    if (rows.op[1:] < rows.op[:-1]).any() or (first[1:] == first[:-1]).any() or first[0] or first[-1] != len(rows.op):
        raise InputError(f"{defined_at(device.lower)} must return the rows of one operator after those of the other")
    return first.tolist()


def _one(rows: Rows, first: int, last: int, totals: tuple[int, ...]) -> _Made:
    """What was made of one of several operators: the rows ``first <= row < last``."""
    if last - first < len(rows.op):
        rows = Rows(*(column[first:last] for column in rows[:-1]), rows.actions)
    if len(rows.op) == 1:
        return _Made(rows, [totals])
    parts = _row_shares(rows.work.tolist())
    return _Made(rows, list(zip(*(_shared_out(total, parts) for total in totals))))


def _row_shares(work: list[int]) -> list[int]:
    """Cumulated work of the rows, by which an operator's MACs and bytes are shared out (equal when there is none)."""
    return [0, *itertools.accumulate(work if any(work) else [1] * len(work))]


def _shared_out(total: int, cumulated: list[int]) -> list[int]:
    """Parts of a total by row."""
    whole = cumulated[-1]
    ends = [total * part // whole for part in cumulated]
    return [last - first for first, last in itertools.pairwise(ends)]


def _columns(names: tuple[str, ...], entries: list[tuple[Any, ...]]) -> dict[str, np.ndarray]:
    values = list(zip(*entries)) if entries else [()] * len(names)
    return {name: _column(column) for name, column in zip(names, values)}


def _column(values: tuple[Any, ...]) -> np.ndarray:
    """Numbers or texts as an array; few texts come many times."""
    if not values or not isinstance(values[0], str):
        return np.array(values)
    places: dict[str, int] = {}
    codes = [places.setdefault(value, len(places)) for value in values]
    return np.array(list(places))[codes]
