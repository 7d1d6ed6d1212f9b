"""``--set PATH=VALUE``: one value over whatever the files say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from archsim.config.layers import Section
from archsim.config.reading import Where, value_of
from archsim.units import InputError, quote, suggest

SET_SOURCE = "set on the command line"


class Override(NamedTuple):
    """A value for a dotted path that is no text to be parsed, and the option (or what else) that gave it."""

    path: str
    value: Any
    origin: str


class Setting(NamedTuple):
    """One override: the parts of its dotted path, the value, and where to say it came from."""

    path: tuple[str, ...]
    value: Any
    where: Where

    @property
    def dotted(self) -> str:
        """The path as written."""
        return ".".join(self.path)

    def text(self) -> str:
        """Value that must be a name.

        Raises
        ------
        InputError
            When it is not text.
        """
        if not isinstance(self.value, str):
            raise self.where.error(f"expected a name, not {quote(self.value)}")
        return self.value


def parse_sets(sets: Iterable[str | Override], roots: Sequence[str]) -> list[Setting]:
    """Overrides in the order in which they apply: shorter paths (parts swapped by name) before their fields.

    Parameters
    ----------
    sets : iterable of str or Override
        Texts ``"dotted.path=value"``, or values with their path.
    roots : sequence of str
        First parts that a path may have.

    Raises
    ------
    InputError
        For a text without ``=``, an empty side, an unknown first part, or a path that is set twice.
    """
    settings: dict[tuple[str, ...], Setting] = {}
    for text in sets:
        if isinstance(text, Override):
            _add(settings, Setting(tuple(text.path.split(".")), text.value, Where(text.origin)))
            continue
        dotted, equals, raw = text.partition("=")
        if not equals:
            raise InputError(f"--set {quote(text)} has no '='; write PATH=VALUE, such as job.tokens=64")
        path = tuple(part.strip() for part in dotted.split("."))
        where = Where(f"--set {dotted.strip()}")
        if not all(path):
            raise InputError(f"--set {quote(text)} has an empty path or part of one; write PATH=VALUE")
        if not raw.strip():
            raise where.error("has no value; write PATH=VALUE")
        if path[0] not in roots:
            raise where.error(f"no path starts with {quote(path[0])}; {suggest(path[0], roots)}")
        if path in settings:  # before the value is read: the path alone is wrong
            raise _twice(settings[path], where)
        _add(settings, Setting(path, value_of(raw.strip(), where.file), where))
    return sorted(settings.values(), key=lambda setting: len(setting.path))


def _add(settings: dict[tuple[str, ...], Setting], setting: Setting) -> None:
    if setting.path in settings:
        raise _twice(settings[setting.path], setting.where)
    settings[setting.path] = setting


def _twice(first: Setting, where: Where) -> InputError:
    return where.error(
        "is given twice" if first.where == where else f"{first.where.file} gives this value too; keep one of them"
    )


def apply(section: Section, settings: Iterable[Setting], depth: int) -> None:
    """Lay over a section the settings whose path continues `depth` parts below it."""
    for setting in settings:
        section.put(setting.path[depth:], setting.value, setting.where, SET_SOURCE)
