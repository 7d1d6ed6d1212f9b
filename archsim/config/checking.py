"""Sections against their models: validation, errors that name file and line, sources and ranges."""

from __future__ import annotations

import dataclasses
import enum
import json
import math
import re
import typing
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from pydantic import BaseModel, TypeAdapter, ValidationError

from archsim.config.layers import Section, copied, nearest
from archsim.config.reading import Key, Where
from archsim.units import InputError, Quantity, parse, quote, show, suggest


@dataclasses.dataclass(frozen=True)
class Source:
    """Where a value comes from: the source's words, the range they allow, and the file and line that say so."""

    text: str
    low: float | None = None
    high: float | None = None
    file: str = ""
    line: int | None = None

    @property
    def range(self) -> tuple[float, float] | None:
        """Allowed range, in the value's unit."""
        return None if self.low is None or self.high is None else (self.low, self.high)


class Row(NamedTuple):
    """A resolved value as ``archsim show`` prints it."""

    path: str
    value: Any
    unit: str
    source: str
    range: tuple[float, float] | None


class Leaf(NamedTuple):
    """A single value of a validated model: its keys, the value, and its quantity when it has a dimension."""

    key: Key
    value: Any
    quantity: Quantity | None


class Checked(NamedTuple):
    """A validated section: plain data in field units, the sources by dotted path, and the rows to show."""

    data: dict[str, Any]
    sources: dict[str, Source]
    rows: tuple[Row, ...]

    def copy(self) -> Checked:
        """Copy whose data and sources may be changed."""
        return Checked(copied(self.data), dict(self.sources), self.rows)


def check_model(model: type[BaseModel], section: Section, *, sourced: bool, default_source: str = "") -> Checked:
    """Validate a section against a pydantic model.

    Parameters
    ----------
    model : type
        The model; its dimensional fields are of the types of :mod:`archsim.units`.
    section : Section
        Raw values.
    sourced : bool
        Whether every number must have a source.
    default_source : str
        Source of numbers that have none, where they need none.

    Raises
    ------
    InputError
        For the first problem; the others are in its ``others``.
    """
    try:
        # JSON's strict mode takes lists for tuples and text for enums, but no text or switch for a number.
        instance = model.model_validate_json(json.dumps(section.values), strict=True)
    except ValidationError as error:
        details = sorted(error.errors(include_url=False), key=lambda detail: detail["type"] != "extra_forbidden")
        problems = [_problem(model, section, detail) for detail in _meant(details)]
        raise _first(problems) from None
    problems = []
    data = instance.model_dump(mode="json")
    sources: dict[str, Source] = {}
    rows: list[Row] = []
    for leaf in leaves(instance):
        try:
            source = _source(model, section, leaf, sourced, default_source)
        except InputError as error:
            problems.append(error)
            continue
        path = section.dotted(leaf.key)
        if source is not None:
            sources[path] = source
        unit = leaf.quantity.unit if leaf.quantity else ""
        rows.append(
            Row(path, _at(data, leaf.key), unit, source.text if source else "", source.range if source else None)
        )
    if problems:
        raise _first(problems)
    return Checked(data, sources, tuple(rows))


def check_schedule(schedule: type, name: str, section: Section) -> Checked:
    """Validate a schedule's fields against its dataclass; ``metadata`` may hold ``min``, ``max`` and ``doc``.

    Raises
    ------
    InputError
        For an unknown or missing field, a wrong type, or a value out of its range.
    """
    fields = {item.name: item for item in dataclasses.fields(schedule) if item.init and item.name[0] != "_"}
    hints = _hints(schedule)
    units = {key: _quantity((hints[key],)) for key in fields}
    data: dict[str, Any] = {"name": name}
    sources: dict[str, Source] = {}
    for key in section.values:
        if key not in fields:
            message = f"schedule {quote(name)} has no field {quote(key)}; {suggest(key, fields)}"
            raise section.place((key,)).error(message, section.path)
    for key, item in fields.items():
        path, where = section.dotted((key,)), section.place((key,))
        if key in section.values:
            data[key] = _field(item, hints[key], section.values[key], where, path)
            leaf = Leaf((key,), data[key], units[key])
            sources[path] = _said(section, leaf, "stated in the file")
        else:
            data[key] = _plain(_default(item, section.here, path))
            sources[path] = Source(f"default of schedule {name}")
    rows = []
    for key, wanted in units.items():
        source = sources[section.dotted((key,))]
        unit = wanted.unit if wanted else ""
        rows.append(Row(section.dotted((key,)), data[key], unit, source.text, source.range))
    return Checked(data, sources, tuple(rows))


def leaves(instance: BaseModel, key: Key = ()) -> Iterator[Leaf]:
    """Single values of a validated model, in the order of its fields; lists of plain values are one."""
    for name, item in type(instance).model_fields.items():
        wanted = _quantity((item.annotation, *item.metadata))
        yield from _leaves(getattr(instance, name), wanted, (*key, name))


def _leaves(value: Any, wanted: Quantity | None, key: Key) -> Iterator[Leaf]:
    if isinstance(value, BaseModel):
        yield from leaves(value, key)
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from _leaves(item, wanted, (*key, str(name)))
    elif isinstance(value, (list, tuple)) and any(isinstance(item, (BaseModel, Mapping)) for item in value):
        for index, item in enumerate(value):
            yield from _leaves(item, wanted, (*key, index))
    else:
        yield Leaf(key, value, wanted)


def _quantity(hints: Sequence[Any]) -> Quantity | None:
    """Quantity that annotates a type, however deep."""
    for hint in hints:
        if isinstance(hint, Quantity):
            return hint
        found = _quantity((*typing.get_args(hint), *getattr(hint, "__metadata__", ())))
        if found:
            return found
    return None


def _numbers(value: Any) -> list[int | float]:
    """Numbers in a leaf's value."""
    if isinstance(value, (list, tuple, set, frozenset)):
        return [item for inner in value for item in _numbers(inner)]
    plain = isinstance(value, (int, float)) and not isinstance(value, (bool, enum.Enum))
    return [value] if plain else []


def _plain(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return _plain(value.value)
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item) for item in value]
    return value


def _source(model: type, section: Section, leaf: Leaf, sourced: bool, default: str) -> Source | None:
    """Source of a leaf, its range checked; None for text and switches about which nothing is said."""
    numbers = _numbers(leaf.value)
    path, where = section.dotted(leaf.key), section.place(leaf.key)
    if not _given(section, leaf.key):
        return Source(f"default of {model.__name__}{_doc(model, leaf.key)}") if numbers else None
    if not all(map(math.isfinite, numbers)):
        raise where.error(f"{quote(leaf.value)} is not finite", path)
    said = _said(section, leaf, default)
    if not said.text and numbers and sourced:
        raise where.error("has no source; write {value: ..., source: ...} or give the file a 'source:'", path)
    return said if said.text or said.range else None


def _said(section: Section, leaf: Leaf, default: str) -> Source:
    """What the file says about a leaf that it gives; `default` where it says nothing."""
    where, stated = section.place(leaf.key), nearest(section.stated, leaf.key)
    low = high = None
    if stated is not None and stated.range is not None:
        low, high = _range(stated.range, _numbers(leaf.value), leaf, where, section.dotted(leaf.key))
    return Source((stated.source if stated else "") or default, low, high, where.file, where.line)


def _at(data: Any, key: Key) -> Any:
    for part in key:
        data = data[part]
    return data


def _given(section: Section, key: Key) -> bool:
    """Whether the file (or command line) gives this leaf rather than the model's default."""
    value: Any = section.values
    for part in key:
        if isinstance(value, dict):
            if part not in value:
                return False
            value = value[part]
        elif not isinstance(value, list):
            break
        else:
            value = value[int(part)]
    return True


def _doc(model: type[BaseModel], key: Key) -> str:
    item = model.model_fields.get(str(key[0]))
    return f": {item.description}" if item is not None and item.description else ""


def _range(raw: Any, numbers: Sequence[float], leaf: Leaf, where: Where, path: str) -> tuple[float, float]:
    """Bounds of a stated range, checked against the value."""
    if not isinstance(raw, list) or len(raw) != 2:
        raise where.error(f"expected a range such as [low, high], not {quote(raw)}", path)
    if not numbers:
        raise where.error("has a range but is not a number", path)
    try:
        low, high = (_bound(bound, leaf.quantity) for bound in raw)
    except InputError as error:
        raise where.error(f"range: {error}", path) from None
    if low > high:
        raise where.error(f"the range [{raw[0]}, {raw[1]}] is upside down", path)
    for value in numbers:
        if not low <= value <= high:
            text = show(value, leaf.quantity, 7) if leaf.quantity else str(value)
            raise where.error(f"{text} is outside its own range [{raw[0]}, {raw[1]}]", path)
    return low, high


def _bound(raw: Any, wanted: Quantity | None) -> float:
    if wanted is not None:
        return parse(raw, dataclasses.replace(wanted, integer=False, positive=False))
    if isinstance(raw, (int, float)) and not isinstance(raw, bool) and math.isfinite(raw):
        return float(raw)
    raise InputError(f"{quote(raw)} is not a number")


def _meant(details: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Errors without those of the branches of a union that were not meant: words, or a mapping, for a list."""
    deep = {detail["loc"][0] for detail in details if len(detail["loc"]) > 2}
    inside = {detail["loc"][:-2] for detail in details if len(detail["loc"]) > 2}
    kinds = ("list_type", "model_type", "model_attributes_type", "dict_type")
    details = [d for d in details if d["type"] not in kinds or d["loc"][:-1] not in inside]
    return [
        detail
        for detail in details
        if detail["type"] != "literal_error" or detail["loc"][0] not in deep or isinstance(detail["input"], str)
    ]


def _problem(model: type[BaseModel], section: Section, detail: Mapping[str, Any]) -> InputError:
    """One-line error for one of pydantic's."""
    kind, loc = detail["type"], tuple(detail["loc"])
    loc, name = (loc[:-1], loc[-1]) if kind in ("missing", "extra_forbidden") else (loc, "")
    key: Key = ()
    for part in loc:  # pydantic's own parts, such as the branch of a union, stand nowhere in the file
        if (*key, part) in section.where:
            key = (*key, part)
    path = section.dotted(key)
    if kind == "extra_forbidden":
        hint = suggest(str(name), _fields_at(model, key))
        return section.place((*key, name)).error(f"unknown field {quote(name)}; {hint}", path)
    if kind == "missing":
        return section.place(key).error(f"the field {quote(name)} is missing", path)
    words = _words(detail)
    return _blamed(section, key, words).error(words, path)


def _blamed(section: Section, key: Key, words: str) -> Where:
    """Place of a fault at a key: that of the key, or the override below it that a fault between fields is due to."""
    overrides = [(at, where) for at, where in section.where.items() if where.is_option and at[: len(key)] == key]
    named = [where for at, where in overrides if re.search(rf"\b{re.escape(str(at[-1]))}\b", words)]
    return next(iter(named or [where for _, where in overrides]), section.place(key))


def _words(detail: Mapping[str, Any]) -> str:
    """Message of one of pydantic's errors, in this package's manner."""
    context = detail.get("ctx", {})
    if isinstance(context.get("error"), Exception):
        return str(context["error"])
    if detail["type"] == "too_short":
        return f"needs at least {context['min_length']} item(s)"
    message = detail["msg"].removeprefix("Input ")
    given = detail.get("input")
    text = "the text " if isinstance(given, str) and detail["type"] in ("int_type", "float_type", "bool_type") else ""
    return f"{text}{quote(given)} {message[:1].lower()}{message[1:]}"


def _fields_at(model: type[BaseModel], key: Key) -> list[str]:
    """Names of the fields of the model at a key."""
    for part in key:
        item = model.model_fields.get(str(part))
        inner = next((hint for hint in _models(item.annotation)), None) if item else None
        if inner is None:
            break
        model = inner
    return list(model.model_fields)


def _models(hint: Any) -> Iterator[type[BaseModel]]:
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        yield hint
    for inner in typing.get_args(hint):
        yield from _models(inner)


def _first(problems: Sequence[InputError]) -> InputError:
    return InputError(problems[0].message, [problem.message for problem in problems[1:]])


@lru_cache(maxsize=256)
def _hints(schedule: type) -> dict[str, Any]:
    return typing.get_type_hints(schedule, include_extras=True)


@lru_cache(maxsize=256)
def _adapter(hint: Any) -> TypeAdapter[Any]:
    return TypeAdapter(hint, config={"strict": True})


def _field(item: dataclasses.Field[Any], hint: Any, value: Any, where: Where, path: str) -> Any:
    """Value of one schedule field, its type and range checked."""
    try:
        checked = _adapter(hint).validate_json(json.dumps(value))
    except ValidationError as error:
        raise where.error(_words(error.errors(include_url=False)[0]), path) from None
    if isinstance(checked, (list, tuple)) and not checked and item.default:
        raise where.error("the list is empty; give at least one value", path)
    low, high = item.metadata.get("min"), item.metadata.get("max")
    for number_ in _numbers(checked):
        if number_ != number_ or (low is not None and number_ < low) or (high is not None and number_ > high):
            bounds = f"{'-inf' if low is None else low} to {'inf' if high is None else high}"
            raise where.error(f"{quote(value)} is out of range; {bounds} is allowed", path)
    return _plain(checked)


def _default(item: dataclasses.Field[Any], here: Where, path: str) -> Any:
    if item.default is not dataclasses.MISSING:
        return item.default
    if item.default_factory is not dataclasses.MISSING:
        return item.default_factory()
    raise here.error(f"the field {quote(item.name)} is missing", path.rpartition(".")[0])
