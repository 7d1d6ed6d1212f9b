"""What can be named: devices, schedules and other plug-ins, found by kind and name.

A class registers itself with a decorator. The modules of ``archsim.devices`` and ``archsim.schedules`` are imported
only when something is asked for, and for one name only the module (or folder) of that name where there is one; so a
new device or schedule is one file. Folders of ``ARCHSIM_PATH`` may hold ``devices/`` and ``schedules/`` too; those
files are imported when a name is not found in the package, or when all names are asked for.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import pkgutil
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from archsim.config import InputError, user_folders
from archsim.units import quote, suggest

Item = TypeVar("Item")

#: Where the modules of a kind live: package, and folder below each entry of ARCHSIM_PATH.
_HOMES: dict[str, tuple[str, str]] = {
    "device": ("archsim.devices", "devices"),
    "schedule": ("archsim.schedules", "schedules"),
}
_items: dict[str, dict[str, Any]] = {}
_scanned: set[str] = set()


def register(kind: str, name: str) -> Callable[[Item], Item]:
    """Decorator that makes an object known as `name` among its `kind`.

    Raises
    ------
    InputError
        When another object already has the name; both modules are named.
    """

    def add(item: Item) -> Item:
        table = _items.setdefault(kind, {})
        other = table.get(name)
        if other is not None and _origin(other) != _origin(item):
            raise InputError(f"{kind} {quote(name)} is registered twice, by {_origin(other)} and {_origin(item)}")
        table[name] = item
        return item

    return add


def device(name: str) -> Callable[[Item], Item]:
    """Class decorator: register a :class:`archsim.device.Device` under `name`, and set its ``kind`` to it."""

    def add(item: Item) -> Item:
        item.kind = name  # type: ignore[attr-defined]
        return register("device", name)(item)

    return add


def schedule(name: str) -> Callable[[Item], Item]:
    """Class decorator: register a schedule under `name`."""
    return register("schedule", name)


def get(kind: str, name: str) -> Any:
    """Object registered as `name` among its `kind`.

    Raises
    ------
    InputError
        For an unknown kind or name, with the nearest known one or the list of known ones.
    """
    for search in (None, lambda: _import_named(kind, name), lambda: _import_all(kind)):
        if search is not None:
            search()
        if name in _items.get(kind, {}):
            return _items[kind][name]
    known = _items.get(kind, {})
    if not known and kind not in _HOMES:
        raise InputError(f"unknown kind {quote(kind)}; {suggest(kind, {*_HOMES, *_items})}")
    raise InputError(f"unknown {kind} {quote(name)}; {suggest(name, known)}")


def names(kind: str) -> list[str]:
    """All names of a kind, sorted; imports everything of that kind, user folders included."""
    _import_all(kind)
    if kind not in _HOMES and kind not in _items:
        raise InputError(f"unknown kind {quote(kind)}; {suggest(kind, {*_HOMES, *_items})}")
    return sorted(_items.get(kind, {}))


def discover(where: str | Path) -> list[str]:
    """Import every module of a package (a dotted name) or of a folder (a path), and return their names.

    Raises
    ------
    InputError
        When a file of a folder cannot be imported; the error of a packaged module is not hidden.
    """
    if isinstance(where, Path):
        return [_import_file(path) for path in _files(where)]
    return [importlib.import_module(module).__name__ for module in _modules(where)]


def _origin(item: Any) -> str:
    return f"{getattr(item, '__module__', '?')}.{getattr(item, '__qualname__', repr(item))}"


def _modules(package: str) -> list[str]:
    """Dotted names of all modules below a package, sorted; lists files and imports only the package itself."""
    return sorted(_below(package, importlib.import_module(package).__path__))


def _below(package: str, folders: Iterable[str]) -> Iterator[str]:
    for info in pkgutil.iter_modules(folders):
        name = f"{package}.{info.name}"
        yield name
        if info.ispkg:
            yield from _below(name, [os.path.join(folder, info.name) for folder in folders])


def _files(folder: Path) -> list[Path]:
    """Modules of a user's folder: ``name.py``, or ``name/__init__.py``."""
    if not folder.is_dir():
        return []
    inside = sorted(path for path in folder.iterdir() if not path.name.startswith((".", "_")))
    packages = [path / "__init__.py" for path in inside if (path / "__init__.py").is_file()]
    return [path for path in inside if path.suffix == ".py" and path.is_file()] + packages


def _import_named(kind: str, name: str) -> None:
    """Import modules and folders that bear the name, at any depth, until it is registered; then the user's."""
    if kind not in _HOMES or not name.isidentifier():
        return
    package, folder = _HOMES[kind]
    depth = package.count(".") + 1
    bearers = [module for module in _modules(package) if name in module.split(".")[depth:]]
    files = [path for path in _user_files(folder) if name in (path.stem, path.parent.name)]
    for item in (*bearers, *files):
        if name in _items.get(kind, {}):
            return
        if isinstance(item, Path):
            _import_file(item)
        else:
            importlib.import_module(item)


def _import_all(kind: str) -> None:
    if kind not in _HOMES:
        return
    package, folder = _HOMES[kind]
    if kind not in _scanned:
        discover(package)
        _scanned.add(kind)
    for path in _user_files(folder):
        _import_file(path)


def _user_files(folder: str) -> list[Path]:
    return [path for entry in user_folders() for path in _files(entry / folder)]


def _import_file(path: Path) -> str:
    """Import a file by its path, once; its module name carries a digest of the path, so that two cannot collide."""
    path = path.resolve()
    package = path.name == "__init__.py"
    stem = path.parent.name if package else path.stem
    module_name = f"archsim_user_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}_{stem}"
    if module_name in sys.modules:
        return module_name
    search = [str(path.parent)] if package else None
    spec = importlib.util.spec_from_file_location(module_name, path, submodule_search_locations=search)
    if spec is None or spec.loader is None:
        raise InputError(f"{path}: is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[module_name]
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: cannot be imported: {type(error).__name__}: {error}") from error
    return module_name
