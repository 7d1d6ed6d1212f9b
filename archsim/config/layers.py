"""Files in layers: one file over its base, values apart from their sources.

A section is a mapping of values (a part's ``spec``, a run's ``job``). A value is bare, or
``{value: ..., source: ..., range: [low, high], note: ...}``; reading a section takes the two apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from archsim.config.finding import FOLDERS, SUFFIXES, find_name, known_kind
from archsim.config.reading import Document, Key, Where, read
from archsim.units import quote, suggest

_COMMON = ("kind", "name", "base", "source", "note")
#: Keys of each kind of file beside the common ones: key -> (type, required).
KEYS: dict[str, dict[str, tuple[type, bool]]] = {
    "part": {"device": (str, True), "spec": (dict, True)},
    "system": {"devices": (dict, True)},
    "model": {"spec": (dict, True)},
    "run": {
        "system": (str, True),
        "schedule": (dict, True),
        "job": (dict, True),
        **dict.fromkeys(("model", "background"), (dict, False)),
    },
    "sweep": {
        "run": (str, True),
        "axes": (dict, True),
        **dict.fromkeys(("set", "sample", "objectives", "constraints"), (dict, False)),
        **dict.fromkeys(("zip", "where", "repeat"), (list, False)),
    },
}
_WRAPPED = frozenset({"value", "source", "range", "note"})


@dataclass(frozen=True)
class Stated:
    """What a file says about a value beside the value: source text, raw range, and where."""

    source: str
    range: Any
    where: Where


@dataclass
class Section:
    """Raw values of a section, where each stands, and what is stated about them.

    ``where`` and ``stated`` are keyed by the tuple of keys below the section; ``path`` is the section's dotted path.
    """

    path: str
    here: Where
    values: dict[str, Any] = field(default_factory=dict)
    where: dict[Key, Where] = field(default_factory=dict)
    stated: dict[Key, Stated] = field(default_factory=dict)

    def dotted(self, key: Key) -> str:
        """Dotted path of a key."""
        return ".".join(str(part) for part in ((self.path, *key) if self.path else key))

    def place(self, key: Key) -> Where:
        """Place of a key, or of its nearest parent."""
        return nearest(self.where, key) or self.here

    def copy(self, path: str | None = None) -> Section:
        """Independent copy, under another dotted path when one is given."""
        values = {key: copied(value) for key, value in self.values.items()}
        return Section(self.path if path is None else path, self.here, values, dict(self.where), dict(self.stated))

    def cover(self, other: Section) -> None:
        """Lay another section over this one: its top-level keys replace this one's."""
        for key in other.values:
            self.drop((key,))
            self.values[key] = copied(other.values[key])
        self.where.update(other.where)
        self.stated.update(other.stated)

    def put(self, key: Key, value: Any, where: Where, source: str) -> None:
        """Set one value, with the source given."""
        target = self.values
        for depth, part in enumerate(key[:-1], 1):
            inner = target.setdefault(part, {})
            if not isinstance(inner, dict):
                raise where.error(f"{quote(self.dotted(key[:depth]))} is a single value; it has no fields")
            target = inner
        self.drop(key)
        target[key[-1]] = value
        self.where[key] = where
        self.stated[key] = Stated(source, None, where)

    def drop(self, key: Key) -> None:
        """Forget what is known about a key and everything below it."""
        for table in (self.where, self.stated):
            for old in [old for old in table if old[: len(key)] == key]:
                del table[old]


def nearest(table: Mapping[Key, Any], key: Key) -> Any:
    """Entry of `key` or of its nearest parent; None when there is none."""
    for length in range(len(key), 0, -1):
        if key[:length] in table:
            return table[key[:length]]
    return None


@dataclass(frozen=True)
class Layers:
    """A file and its base (if any), the base first."""

    kind: str
    name: str
    documents: tuple[Document, ...]

    @property
    def path(self) -> Path:
        """The file itself."""
        return self.documents[-1].path

    @property
    def top(self) -> Document:
        """The uppermost layer."""
        return self.documents[-1]

    def get(self, key: str, default: Any = None) -> Any:
        """Top-level value: the file's own, or its base's."""
        for document in reversed(self.documents):
            if key in document.data:
                return document.data[key]
        return default

    def where(self, *key: str | int) -> Where:
        """Place of a key in the uppermost layer that has its first part."""
        for document in reversed(self.documents):
            if key[:1] in document.lines:
                return document.where(*key)
        return self.top.where()

    def section(self, key: str, path: str | None = None) -> Section:
        """A section of all layers, taken apart; keys of an upper layer replace those of a lower one."""
        path = key if path is None else path
        merged = Section(path, self.where(key))
        for document in self.documents:
            merged.cover(_taken_apart(document, key, path))
        return merged


def load_layers(kind: str, path: Path) -> Layers:
    """Read a file and its base and check what every file has: kind, name, known keys, their types.

    Raises
    ------
    InputError
        When one of these is wrong, or the base is missing, a cycle, or has a base itself.
    """
    top = read(path)
    _check_envelope(known_kind(kind), top)
    documents = [top]
    if "base" in top.data:
        base = read(_base_path(kind, top))
        _check_envelope(kind, base)
        if "base" in base.data:
            message = f"the base {quote(base.path.name)} has a base itself; only one level is allowed"
            raise top.where("base").error(message)
        documents.insert(0, base)
    layers = Layers(kind, top.data["name"], tuple(documents))
    for key, (_, required) in KEYS[kind].items():
        if required and layers.get(key) is None:
            raise top.where().error(f"a {kind} needs the key {quote(key)}")
    return layers


def stated_kind(document: Document) -> str:
    """Kind that a file states.

    Raises
    ------
    InputError
        When it states none, or an unknown one.
    """
    if "kind" not in document.data:
        raise document.where().error(f"needs the key 'kind': one of {', '.join(FOLDERS)}")
    kind = document.data["kind"]
    if not isinstance(kind, str) or kind not in FOLDERS:
        raise document.where("kind").error(f"unknown kind {quote(kind)}; {suggest(str(kind), FOLDERS)}")
    return kind


def subsection(section: Section, key: str, path: str) -> Section:
    """Part of a section below one of its keys, as a section of its own."""
    inner = section.values.get(key)
    if not isinstance(inner, dict):
        raise section.place((key,)).error(f"expected a mapping, not {quote(inner)}", section.dotted((key,)))
    return Section(
        path,
        section.place((key,)),
        copied(inner),
        {old[1:]: where for old, where in section.where.items() if old[:1] == (key,) and len(old) > 1},
        {old[1:]: stated for old, stated in section.stated.items() if old[:1] == (key,) and len(old) > 1},
    )


def plain_section(path: str, values: Mapping[str, Any], where: Where, source: str) -> Section:
    """Section of values that come from no file."""
    section = Section(path, where)
    for key, value in values.items():
        section.put((key,), copied(value), where, source)
    return section


def _check_envelope(kind: str, document: Document) -> None:
    data = document.data
    if stated_kind(document) != kind:
        raise document.where("kind").error(f"is a {data['kind']}; expected a {kind}")
    known = {**dict.fromkeys(_COMMON, (str, False)), **KEYS[kind]}
    for key, value in data.items():
        if key not in known:
            raise document.where(key).error(f"unknown key {quote(key)}; {suggest(key, known)}")
        wanted = known[key][0]
        if not isinstance(value, wanted) or (wanted is str and not value.strip()):
            expected = {str: "text", dict: "a mapping", list: "a list"}[wanted]
            hint = f"; write {key}: {{name: {quote(value)}}}" if key == "schedule" and isinstance(value, str) else ""
            raise document.where(key).error(f"expected {expected}, not {quote(value)}{hint}", key)
    if "name" not in data:
        raise document.where().error("needs the key 'name'")
    if data["name"] != document.path.stem:
        named, stem = quote(data["name"]), quote(document.path.stem)
        message = f"the name {named} differs from the file's name {stem}; write name: {stem} or rename the file"
        raise document.where("name").error(message)


def _base_path(kind: str, document: Document) -> Path:
    base, where = document.data["base"], document.where("base")
    stem = base.removesuffix(".yaml").removesuffix(".yml")
    if "/" in base or "\\" in base or not base.endswith(SUFFIXES) or stem.startswith("."):
        raise where.error(f"a base is a file name such as 'other.yaml', not {quote(base)}")
    beside = document.path.parent / base
    try:
        path = beside if beside.is_file() else find_name(kind, stem, document.path.parent)
    except ValueError as error:
        raise where.error(str(error), "base") from None
    if path.resolve() == document.path.resolve():
        raise where.error("a file cannot be its own base")
    if "base" in (inner := read(path).data) and inner["base"] == document.path.name:
        raise where.error(f"{quote(path.name)} and {quote(document.path.name)} are each other's base")
    return path


def _taken_apart(document: Document, key: str, path: str) -> Section:
    """Section of one file; values without a source of their own have the file's."""
    section = Section(path, document.where(key))
    _take(document, (key,), document.data.get(key, {}), section, section.values, document.data.get("source", ""))
    return section


def _take(
    document: Document, at: Key, node: Mapping[str, Any], section: Section, target: dict[str, Any], source: str
) -> None:
    """Fill `target` and the section's tables from the mapping `node`, which stands at `at` in the file."""
    for name, value in node.items():
        here: Key = (*at, name)
        inner = here[1:]  # below the section
        section.where[inner] = document.where(*here)
        if isinstance(value, dict) and "value" in value:
            section.stated[inner] = _stated(document, here, value, section.dotted(inner), source)
            target[name] = copied(value["value"])
        elif isinstance(value, dict) and value:
            for word in ("source", "range"):
                if word in value and not isinstance(value[word], dict):
                    raise document.where(*here, word).error(f"has {quote(word)} but no 'value'", section.dotted(inner))
            target[name] = {}
            _take(document, here, value, section, target[name], source)
        else:
            section.stated[inner] = Stated(source.strip(), None, section.where[inner])
            target[name] = copied(value)


def _stated(document: Document, here: Key, wrapped: Mapping[str, Any], path: str, source: str) -> Stated:
    """What ``{value: ..., source: ..., range: ..., note: ...}`` states about its value."""
    for word in wrapped:
        if word not in _WRAPPED:
            raise document.where(*here, word).error(f"unknown key {quote(word)}; {suggest(word, _WRAPPED)}", path)
    own = wrapped.get("source", source)
    if not isinstance(own, str) or ("source" in wrapped and not own.strip()):
        raise document.where(*here, "source").error(f"expected a source as text, not {quote(own)}", path)
    return Stated(own.strip(), wrapped.get("range"), document.where(*here))


def copied(value: Any) -> Any:
    """Copy of plain data."""
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    return [copied(item) for item in value] if isinstance(value, list) else value
