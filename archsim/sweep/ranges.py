"""What an answer rests on: every number of a run that has a range, how it is drawn, and what would settle it.

A number lies in its range with its own value as the median: below it with one half of the probability, above it with
the other, evenly in the logarithm where the range is above zero (evenly in the number otherwise). Whole numbers stay
whole; powers of two between powers of two stay powers of two. A range is what the sources allow, not a distribution,
so a band built of them says how far the answer can be off, and no more.

Numbers that one fit gave together move together: those with the same ``fitted:`` text up to its first semicolon, and
those that ``settle.yaml`` ties (against each other where the fit holds their sum). Choices (a policy, a variant one
buys) are not drawn. A price that follows from a field of a part is drawn there, and not a second time.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from archsim.config import Resolved
from archsim.config.checking import Row
from archsim.config.reading import shipped
from archsim.streams.acceptance import acceptance, default_draft
from archsim.streams.acceptance import table as acceptance_table
from archsim.streams.denoise import DEFAULT_PRESET, denoise_table
from archsim.system import devices_of, prices_of
from archsim.units import InputError

#: Tables of prices in a manifest.
TABLES = ("energy_pj", "power_mw", "area_um2")
#: Units of fields that no time depends on: they are priced anew, not simulated.
PRICE_UNITS = ("pJ", "pJ/bit", "pJ/B", "pJ/op", "mW", "um2", "um2/bit")
#: First words of the sources of numbers that nobody measured.
UNSURE = ("assumed", "fitted")
ACCEPTANCE = "job.acceptance"
#: Path of a denoising stream's level, which is set as part of the stream's name.
LEVEL = "job.stream.level"


@dataclass(frozen=True)
class Uncertain:
    """A number with a range.

    Attributes
    ----------
    path : str
        Dotted path, as ``--set`` takes it; ``prices.<table>.<device>.<name>`` for a price.
    value, low, high : float
        The number and its range, in `unit`.
    unit, source : str
    priced : bool
        Whether only energy, power or area depend on it.
    whole : bool
        Whether it is a whole number.
    group : str
        What it moves with; its own path where with nothing.
    flipped : bool
        Whether it moves against its group.
    settle : str
        The measurement that would settle it; empty where it needs none.
    """

    path: str
    value: float
    low: float
    high: float
    unit: str
    source: str
    priced: bool
    whole: bool
    group: str
    flipped: bool
    settle: str

    @property
    def unsure(self) -> bool:
        """Whether it is assumed or fitted."""
        return self.source.removeprefix("part file; ").startswith(UNSURE)

    def at(self, share: float) -> int | float:
        """The number at a share (0 .. 1) of probability: low at 0, the value itself at one half, high at 1."""
        share = 1 - share if self.flipped else share
        below = share < 0.5
        low, high = (self.low, self.value) if below else (self.value, self.high)
        drawn = _between(low, high, 2 * share if below else 2 * share - 1)
        if not self.whole:
            return drawn
        if all(map(_power_of_two, (self.low, self.value, self.high))) and self.low < self.high:
            return 1 << round(math.log2(drawn))
        return min(max(round(drawn), math.ceil(self.low)), math.floor(self.high))


def _between(low: float, high: float, share: float) -> float:
    if low == high or share <= 0:
        return low
    if share >= 1:
        return high
    if low > 0:
        return math.exp(math.log(low) + share * (math.log(high) - math.log(low)))
    return low + share * (high - low)


def _power_of_two(number: float) -> bool:
    return number >= 1 and number == int(number) and int(number) & (int(number) - 1) == 0


@lru_cache(maxsize=4096)
def shares(group: str, samples: int, seed: int) -> tuple[float, ...]:
    """Column of a Latin hypercube: a share in each of `samples` equal slots, in an order given by seed and name.

    A column depends on its own name alone, so a sweep's points are drawn with the same errors of the model whichever
    other numbers a point has.
    """
    rng = random.Random(f"{seed}:{group}")
    slots = list(range(samples))
    rng.shuffle(slots)
    return tuple((slot + rng.random()) / samples for slot in slots)


class Settled:
    """What ``settle.yaml`` says: sentences, choices and ties, by kind of device."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.fields = {(e["of"], name): e["settle"] for e in data["fields"] for name in e["fields"]}
        self.prices = {(e["of"], name): e["settle"] for e in data["prices"] for name in e["prices"]}
        self.choices = {(kind, name) for kind, names in data["choices"].items() for name in names}
        self.streams = dict(data["streams"])
        self._ties: dict[str, tuple[str, bool]] = {}
        for tie in data["ties"]:
            for key, flipped in (("of", False), ("against", True)):
                self._ties |= dict.fromkeys(tie.get(key, ()), (tie["of"][0], flipped))

    def tie(self, kind: str, name: str, path: str, source: str) -> tuple[str, bool]:
        """Group of a number, and whether it moves against it."""
        if f"{kind}.{name}" in self._ties:
            return self._ties[f"{kind}.{name}"]
        text = source.removeprefix("part file; ")
        return (text.partition(";")[0].strip(), False) if text.startswith("fitted") else (path, False)


@cache
def settled() -> Settled:
    """The table as shipped."""
    return Settled(shipped("archsim.sweep", "settle.yaml"))


def uncertain(resolved: Resolved) -> list[Uncertain]:
    """Numbers of a run that have a range and are no choices: of its machine, of its prices and of its stream.

    Raises
    ------
    InputError
        For a run whose timing follows its power: its prices cannot be moved apart from its times.
    """
    if resolved.data["job"].get("thermal"):
        raise InputError(
            "the timing of a thermal run follows its power, so its prices cannot be drawn; leave thermal out"
        )
    devices = {**resolved.data["system"]["devices"], **resolved.data.get("background", {})}
    fields = machine_numbers(resolved.rows, devices)
    return [*fields, *_prices(resolved, fields), *_stream(resolved)]


def machine_numbers(rows: Iterable[Row], devices: Mapping[str, Any]) -> list[Uncertain]:
    """Numbers of a machine and of what loads it beside the job that have a range and are no choices.

    Parameters
    ----------
    rows : iterable of Row
        Rows of a run or of a system.
    devices : Mapping
        Resolved devices (and background streams) by name.
    """
    return [item for item in _fields(rows, devices) if item.low < item.high]


def _fields(rows: Iterable[Row], devices: Mapping[str, Any]) -> Iterator[Uncertain]:
    known = settled()
    for row in rows:
        root, _, rest = row.path.partition(".")
        name, _, field = rest.partition(".")
        number = isinstance(row.value, (int, float)) and not isinstance(row.value, bool)
        if root not in ("system", "background") or row.range is None or not number:
            continue
        kind = devices[name]["device"]
        if (kind, field) in known.choices:
            continue
        group, flipped = known.tie(kind, field, row.path, row.source)
        yield Uncertain(
            row.path,
            row.value,
            *row.range,
            row.unit,
            row.source,
            row.unit in PRICE_UNITS,
            isinstance(row.value, int),
            group,
            flipped,
            known.fields.get((kind, field), ""),
        )


def _prices(resolved: Resolved, fields: list[Uncertain]) -> Iterator[Uncertain]:
    known, devices = settled(), resolved.data["system"]["devices"]
    apart = {item.path: item.high for item in fields if item.priced}
    own, moved = price_tables(resolved.data["system"], {}), price_tables(resolved.data["system"], apart)
    for table in TABLES:
        for name, cost in own[table].items():
            if cost.range is None or cost.low >= cost.high or moved[table][name].value != cost.value:
                continue
            device, _, price = name.partition(".")
            kind, path = devices[device]["device"], f"prices.{table}.{name}"
            group, flipped = known.tie(kind, price, path, cost.source)
            settle = known.prices.get((kind, price), "")
            yield Uncertain(
                path, cost.value, cost.low, cost.high, cost.unit, cost.source, True, False, group, flipped, settle
            )


def price_tables(system: Mapping[str, Any], values: Mapping[str, float]) -> dict[str, Any]:
    """Price tables of a machine, as :class:`archsim.device.Cost`, with fields (by path) at other values."""
    devices = {name: {**entry, "spec": dict(entry["spec"])} for name, entry in system["devices"].items()}
    for path, value in values.items():
        _, name, field = path.split(".", 2)
        devices[name]["spec"][field] = value
    return prices_of(devices_of({"devices": devices})).document()


def _stream(resolved: Resolved) -> Iterator[Uncertain]:
    """Acceptance of a generated stream, or level of a denoising one, where it is the table's."""
    job = resolved.data["job"]
    kind, _, rest = str(job["stream"]).partition(":")
    parts = rest.split(":")
    if kind != "synthetic" or job.get("acceptance") is not None or len(parts) < 2:
        return
    target, _, draft = parts[0].partition("+")
    path, settle = ACCEPTANCE, settled().streams["acceptance"]
    try:
        if target in acceptance_table().diffusion:
            preset = parts[2] if len(parts) > 2 else DEFAULT_PRESET
            path, settle = LEVEL, settled().streams["level"]
            cell: Any = denoise_table().levels[target][preset][parts[1]]
        else:
            cell = acceptance(target, draft or default_draft(target), parts[1]).level
    except (InputError, KeyError):  # a level given by hand, or a pair without data whose draft never drafts
        return
    if cell.range is not None and cell.range[0] < cell.range[1]:
        yield Uncertain(path, cell.value, *cell.range, "", cell.source, False, False, path, False, settle)


def stream_at(stream: str, level: float) -> str:
    """A denoising stream at another level, with the same draws."""
    parts = stream.split(":")
    settings = f"{parts[3]},at={level!r}" if len(parts) > 3 else f"at={level!r}"
    return ":".join((*parts[:3], settings))
