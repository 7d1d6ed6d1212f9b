"""Declarations of units, pools and stores, and the tables the kernels need of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from archsim.engine import core
from archsim.engine.errors import NameLookupError, RateRangeError, StoreRangeError


@dataclass(frozen=True)
class UnitDecl:
    """A serial resource."""

    name: str


@dataclass(frozen=True)
class PoolDecl:
    """A shared rate. `capacity` in 2**-28 per ps; `mix` gives other capacities by OR of ``1 << stream``."""

    name: str
    capacity: int
    mix: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class StoreDecl:
    """A level in ``[0, capacity]``."""

    name: str
    capacity: int
    level: int = 0


def name_ids(
    units: tuple[UnitDecl, ...], pools: tuple[PoolDecl, ...], stores: tuple[StoreDecl, ...]
) -> dict[str, tuple[str, int]]:
    """Kind and id of every name; names are unique over all three kinds."""
    ids: dict[str, tuple[str, int]] = {}
    for kind, declared in (("unit", units), ("pool", pools), ("store", stores)):
        for i, item in enumerate(declared):
            if item.name in ids:
                raise NameLookupError(f"{kind} {item.name!r}: the name is taken by a {ids[item.name][0]}")
            ids[item.name] = (kind, i)
    if len(pools) > 60:
        raise NameLookupError(f"{len(pools)} pools: the engine takes up to 60")
    return ids


def find_name(ids: Mapping[str, tuple[str, int]], name: str, kinds: tuple[str, ...]) -> tuple[str, int]:
    """Kind and id of a name that must be of one of `kinds`; another raises with the known ones."""
    found = ids.get(name)
    if found is None or found[0] not in kinds:
        known = ", ".join(known for known, (kind, _) in ids.items() if kind in kinds)
        raise NameLookupError(f"no {' or '.join(kinds)} {name!r}; there is: {known or 'none'}")
    return found


def mix_table(pools: tuple[PoolDecl, ...]) -> np.ndarray:
    """Capacity by pool and mix mask; masks that are not listed have the pool's own."""
    table = np.zeros((len(pools), 256), dtype=np.int64)
    for i, pool in enumerate(pools):
        for mask, capacity in [(None, pool.capacity), *pool.mix.items()]:
            if not 0 <= capacity < 1 << 35:
                raise RateRangeError(f"pool {pool.name!r}: capacity {capacity} is outside 0 .. 2**35 (2**-28 per ps)")
            if mask is None:
                table[i] = capacity
            elif 0 <= mask < 256 and not mask & 1:
                table[i, mask] = capacity
            else:
                raise RateRangeError(
                    f"pool {pool.name!r}: mix mask {mask} is not even and below 256 (stream 0 never counts)"
                )
    return table


def store_levels(stores: tuple[StoreDecl, ...]) -> np.ndarray:
    """Level and capacity of every store."""
    table = np.zeros((len(stores), core.STORE_FIELDS), dtype=np.int64)
    for i, store in enumerate(stores):
        if not 0 <= store.level <= store.capacity < 1 << 61:
            raise StoreRangeError(f"store {store.name!r}: level {store.level} is outside 0 .. {store.capacity}")
        table[i] = store.level, store.capacity
    return table
