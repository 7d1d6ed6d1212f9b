"""``--set PATH=VALUE``: one value over whatever the files say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from archsim.config.layers import Section
from archsim.config.reading import Where, value_of
from archsim.units import InputError, quote, suggest

SET_SOURCE = "set on the command line"


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


def parse_sets(sets: Iterable[str], roots: Sequence[str]) -> list[Setting]:
    """Overrides in the order in which they apply: shorter paths (parts swapped by name) before their fields.

    Parameters
    ----------
    sets : iterable of str
        Texts ``"dotted.path=value"``.
    roots : sequence of str
        First parts that a path may have.

    Raises
    ------
    InputError
        For a text without ``=``, an empty side, an unknown first part, or a path that is set twice.
    """
    settings: dict[tuple[str, ...], Setting] = {}
    for text in sets:
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
        if path in settings:
            raise where.error("is given twice")
        settings[path] = Setting(path, value_of(raw.strip(), where.file), where)
    return sorted(settings.values(), key=lambda setting: len(setting.path))


def apply(section: Section, settings: Iterable[Setting], depth: int) -> None:
    """Lay over a section the settings whose path continues `depth` parts below it."""
    for setting in settings:
        section.put(setting.path[depth:], setting.value, setting.where, SET_SOURCE)
