"""Where configuration files are: the packed ones, and the user's own folders.

A name is looked up in the folder of the file that mentions it (unless that file is a packed one), then in the entries
of ``ARCHSIM_PATH``, then among the packed files. An entry may hold the folders ``parts/ systems/ models/ runs/
sweeps/``, an ``arch_configs/`` with these, or the files themselves.
"""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path

from archsim.config.reading import shown
from archsim.config.regular import what_is
from archsim.units import InputError, quote, suggest

FOLDERS = {"part": "parts", "system": "systems", "model": "models", "run": "runs", "sweep": "sweeps"}
SUFFIXES = (".yaml", ".yml")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
_KIND = re.compile(rb"^kind:\s*['\"]?(\w+)", re.M)


@cache
def packed_folder() -> Path:
    """Folder of the files that come with archsim: in the installed wheel, or beside the package in a checkout."""
    from importlib import resources

    package = resources.files("archsim")
    for candidate in (Path(str(package.joinpath("_data", "arch_configs"))), Path(str(package)).parent / "arch_configs"):
        if candidate.is_dir():
            return candidate
    raise InputError("archsim's own configuration files are missing; install it again")


def shipped(path: Path) -> Path:
    """The path itself, or the file that comes with archsim by that path (``traces/...``) where nothing is there."""
    if path.is_absolute() or path.parts[:1] != ("traces",) or ".." in path.parts or path.exists():
        return path
    found = packed_folder().parent / path
    return found if found.is_file() else path


def user_folders() -> list[Path]:
    """Entries of ``ARCHSIM_PATH``, in order.

    Raises
    ------
    InputError
        When an entry is no folder.
    """
    folders = [Path(entry) for entry in os.environ.get("ARCHSIM_PATH", "").split(os.pathsep) if entry.strip()]
    for folder in folders:
        if not folder.is_dir():
            raise InputError(f"ARCHSIM_PATH names {quote(folder)}, which is not a folder")
    return [folder.absolute() for folder in folders]


def known_kind(kind: str) -> str:
    """Return `kind` when it is one of the kinds of files.

    Raises
    ------
    InputError
        When it is not.
    """
    if kind not in FOLDERS:
        raise InputError(f"unknown kind {quote(kind)}; {suggest(kind, FOLDERS)}")
    return kind


def search_path(kind: str, near: Path | None = None) -> list[Path]:
    """Folders in which a file of `kind` is looked for, in order; `near` is the folder of the file that asks."""
    folder = FOLDERS[known_kind(kind)]
    candidates: list[Path] = []
    if near is not None and packed_folder() not in near.absolute().parents:
        candidates += [near.absolute(), near.absolute().parent / folder]
    for entry in user_folders():
        candidates += [entry / folder, entry / "arch_configs" / folder, entry]
    candidates.append(packed_folder() / folder)
    return [path for path in dict.fromkeys(candidates) if path.is_dir()]


def names(kind: str, near: Path | None = None) -> list[str]:
    """Names of all files of `kind`, sorted."""
    return sorted(_files(kind, near))


def find(kind: str, name_or_path: str | Path, near: Path | None = None) -> Path:
    """File of `kind` with a name, or at a path (text with a ``/`` or ending in ``.yaml``).

    Raises
    ------
    InputError
        When there is none: it says where it looked, and the nearest name.
    """
    text = os.fspath(name_or_path)
    if is_path(name_or_path):
        path = Path(text)
        problem = what_is(path)
        if problem:
            raise InputError(f"{shown(path)}: {problem}")
        if path.suffix not in SUFFIXES:
            raise InputError(f"{shown(path)}: expected a file that ends in .yaml")
        return path.absolute()
    return find_name(kind, text, near)


def check_name(kind: str, name: str) -> str:
    """Return `name` when a file of `kind` may have it.

    Raises
    ------
    InputError
        When it may not.
    """
    known_kind(kind)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InputError(
            f"{quote(name)} is not the name of a {kind}: a name has letters, digits, '.', '_' and '-' only"
        )
    return name


def find_name(kind: str, name: str, near: Path | None = None) -> Path:
    """File of `kind` with a name; a path is refused.

    Raises
    ------
    InputError
        As :func:`find` does.
    """
    check_name(kind, name)
    files = _files(kind, near)
    if name in files:
        return files[name]
    places = ", ".join(shown(path) for path in search_path(kind, near))
    raise InputError(f"no {kind} {quote(name)} in {places}; {suggest(name, files)}")


def is_path(name_or_path: str | Path) -> bool:
    """Whether this is a path rather than a name."""
    text = os.fspath(name_or_path)
    return isinstance(name_or_path, Path) or "/" in text or os.sep in text or text.endswith(SUFFIXES)


def _files(kind: str, near: Path | None) -> dict[str, Path]:
    """Files of `kind` by name; of two with one name, the first on the search path."""
    found: dict[str, Path] = {}
    for folder in search_path(kind, near):
        flat = folder.name != FOLDERS[kind]
        for path in sorted(folder.iterdir()):
            wanted = path.suffix in SUFFIXES and path.stem not in found and path.is_file()
            if wanted and (not flat or _kind_of(path) == kind):
                found[path.stem] = path
    return found


def _kind_of(path: Path) -> str:
    """Kind that a file states, by a glance at its beginning."""
    if what_is(path):
        return ""
    try:
        with open(path, "rb") as stream:
            match = _KIND.search(stream.read(1 << 16))
    except OSError:
        return ""
    return match.group(1).decode() if match else ""
