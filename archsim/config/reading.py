"""Strict YAML: one mapping of plain values per file, with the line of every key.

The file is read event by event, so that what YAML allows and configuration does not need is refused by name:
tags, duplicate keys, several documents, keys that are not text, files that expand beyond all measure.
Scalars follow the core schema of YAML 1.2 (``yes`` and ``on`` are text, ``010`` is ten).
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from archsim.config.regular import read_regular
from archsim.units import InputError, quote

MAX_FILE_BYTES = 1 << 20
MAX_NODES = 100_000
MAX_DEPTH = 20

Key = tuple[str | int, ...]

#: Plain scalars of the core schema that are numbers; matched whole.
INT = re.compile(r"(?:[-+]?[0-9]{1,40}|0o[0-7]{1,40}|0x[0-9a-fA-F]{1,40})$")
FLOAT = re.compile(r"(?:[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$")
_WORDS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_NULLS = {"", "~", "null", "Null", "NULL"}
#: What no YAML may hold (YAML 1.2, section 5.1).
_STRANGE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Where(NamedTuple):
    """A place to name in an error: a file and a line, or a command-line option (no line)."""

    file: str
    line: int | None = None

    def error(self, message: str, path: str = "") -> InputError:
        """Error at this place; `path` is the dotted path of the value it is about."""
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        about = f"{path}: " if path and not self.is_option else ""
        return InputError(f"{place}: {about}{message}")

    @property
    def is_option(self) -> bool:
        """Whether this is a command-line option (or a value of a call or a sweep), which names its path itself."""
        return self.file.startswith(("--", "run: ")) or (self.line is None and self.file.startswith(("axes.", "set.")))


def place(name: str, line: int) -> Where:
    """Place in a file, or in the value of a command-line option (which has no lines)."""
    return Where(name, None if name.startswith("--") else line)


@dataclass(frozen=True)
class Document:
    """A file as read: plain data, the line of every key and item, and the digest of its bytes."""

    path: Path
    data: Mapping[str, Any]
    lines: Mapping[Key, int]
    digest: str

    def where(self, *key: str | int) -> Where:
        """Place of a key, or of its nearest parent that has one."""
        for length in range(len(key), -1, -1):
            if key[:length] in self.lines:
                return Where(shown(self.path), self.lines[key[:length]])
        return Where(shown(self.path), 1)


def shown(path: Path) -> str:
    """Path for an error: relative to the current folder when it lies inside it."""
    try:
        return _below(path, os.getcwd())
    except OSError:
        return str(path)


@lru_cache(maxsize=4096)
def _below(path: Path, folder: str) -> str:
    try:
        return str(path.relative_to(folder))
    except ValueError:
        return str(path)


def read(path: Path) -> Document:
    """Read one file; equal bytes at the same path are parsed once.

    Raises
    ------
    InputError
        When the file cannot be read, is no UTF-8, too large, empty, or not the plain YAML described above.
    """
    name = shown(path)
    return _parsed(os.fspath(path), name, read_regular(path, MAX_FILE_BYTES, name=name))


@lru_cache(maxsize=512)
def _parsed(path: str, name: str, raw: bytes) -> Document:
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise Where(name, line).error("is not UTF-8 text") from None
    data, lines = _build(text, name)
    if data is None:
        raise InputError(f"{name}: is empty; expected 'kind:', 'name:' and what the kind needs")
    if not isinstance(data, dict):
        raise Where(name, 1).error(f"expected a mapping such as 'kind: part', not {quote(data)}")
    return Document(Path(path), data, lines, hashlib.sha256(raw).hexdigest())


def value_of(text: str, name: str) -> Any:
    """Value of a short YAML text given on the command line; `name` says where, for errors."""
    return _build(text, name)[0]


def shipped(package: str, name: str) -> dict[str, Any]:
    """Values of a table that stands as a YAML file beside the modules of `package`."""
    text = resources.files(package).joinpath(name).read_text(encoding="utf-8")
    return _build(text, f"{package}/{name}")[0]


def _build(text: str, name: str) -> tuple[Any, dict[Key, int]]:
    """Plain data and line numbers of a YAML text."""
    import yaml

    if strange := _STRANGE.search(text):
        where = place(name, text[: strange.start()].count("\n") + 1)
        raise where.error(f"the character {strange.group()!r} is not allowed")
    loader = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
    builder = _Builder(name, yaml.parse(text, Loader=loader))
    try:
        data = builder.document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = place(name, mark.line + 1 if mark else 1)
        problem = str(error.problem or error.context)
        if "nesting depth" in problem:
            raise where.error(f"is nested deeper than {MAX_DEPTH} levels") from None
        raise where.error(f"is not YAML: {problem}") from None
    return data, builder.lines


@dataclass
class _Builder:
    """Turns parser events into plain data, refusing what is not plain."""

    name: str
    events: Iterator[Any]
    lines: dict[Key, int] = field(default_factory=dict)
    anchors: dict[str, tuple[Any, dict[Key, int]]] = field(default_factory=dict)
    nodes: int = 0

    def document(self) -> Any:
        """Value of the only document; None when there is none."""
        data: Any = None
        documents = 0
        for event in self.events:
            kind = type(event).__name__
            if kind == "DocumentStartEvent":
                documents += 1
                if documents > 1:
                    raise self.error(event, "a second document starts here; one file holds one")
            elif kind in ("ScalarEvent", "MappingStartEvent", "SequenceStartEvent", "AliasEvent"):
                data = self.value(event, ())
        return data

    def error(self, event: Any, message: str) -> InputError:
        return place(self.name, event.start_mark.line + 1).error(message)

    def value(self, event: Any, path: Key) -> Any:
        """Value that starts with `event`; records its lines below `path`."""
        self.count(event, 1)
        if len(path) > MAX_DEPTH:
            raise self.error(event, f"is nested deeper than {MAX_DEPTH} levels")
        kind = type(event).__name__
        if kind == "AliasEvent":
            return self.alias(event, path)
        if getattr(event, "tag", None) is not None:
            tag = event.tag.replace("tag:yaml.org,2002:", "!!")
            raise self.error(event, f"the tag {quote(tag)} is not allowed; write a plain value")
        if kind == "ScalarEvent":
            data: Any = _scalar(event)
        elif kind == "MappingStartEvent":
            data = self.mapping(path)
        else:
            data = self.sequence(path)
        if event.anchor is not None:
            below = {key[len(path) :]: line for key, line in self.lines.items() if key[: len(path)] == path}
            self.anchors[event.anchor] = (data, below)
        return data

    def count(self, event: Any, nodes: int) -> None:
        self.nodes += nodes
        if self.nodes > MAX_NODES:
            raise self.error(event, f"expands to more than {MAX_NODES} values")

    def alias(self, event: Any, path: Key) -> Any:
        if event.anchor not in self.anchors:
            raise self.error(event, f"the alias {quote('*' + event.anchor)} has no anchor before it")
        data, below = self.anchors[event.anchor]
        self.count(event, len(below))
        if path and len(path) + max(map(len, below), default=0) > MAX_DEPTH:
            raise self.error(event, f"is nested deeper than {MAX_DEPTH} levels")
        self.lines.update({path + key: line for key, line in below.items() if key})
        return data

    def mapping(self, path: Key) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for event in self.events:
            if type(event).__name__ == "MappingEndEvent":
                break
            if type(event).__name__ != "ScalarEvent" or not event.value or event.tag is not None:
                raise self.error(event, "a key must be plain text")
            key = event.value
            if key in data:
                first = self.lines[(*path, key)]
                raise self.error(event, f"the key {quote(key)} is given twice (first on line {first})")
            self.lines[(*path, key)] = event.start_mark.line + 1
            data[key] = self.value(next(self.events), (*path, key))
        return data

    def sequence(self, path: Key) -> list[Any]:
        data: list[Any] = []
        for event in self.events:
            if type(event).__name__ == "SequenceEndEvent":
                break
            self.lines[(*path, len(data))] = event.start_mark.line + 1
            data.append(self.value(event, (*path, len(data))))
        return data


def _scalar(event: Any) -> Any:
    """Value of a scalar by the core schema; quoted and block scalars are text."""
    text = event.value
    if not event.implicit[0]:
        return text
    if text in _NULLS:
        return None
    if text in _WORDS:
        return _WORDS[text]
    if INT.fullmatch(text):
        return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
    if FLOAT.fullmatch(text):
        return float(text.replace(".inf", "inf").replace(".nan", "nan") if text[-1].isalpha() else text)
    return text
