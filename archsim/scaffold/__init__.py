"""New machines, devices and schedules of one's own, started from those that come with archsim.

What is written is derived from the files in use (:mod:`archsim.scaffold.copying` takes a class out of its module,
:mod:`archsim.scaffold.machine` a list of parts out of its machine), so that it follows them.
"""

from __future__ import annotations

import importlib.util
import keyword
import os
import re
import shlex
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from archsim import registry
from archsim.config import InputError, names, user_folders
from archsim.config.regular import make_folders, remove_empty, replaced
from archsim.scaffold.draft import Draft
from archsim.scaffold.machine import machine
from archsim.scaffold.plugin import device, schedule
from archsim.units import quote, suggest

#: What can be started: kind -> what it is started from when nothing is said.
DEFAULTS: Mapping[str, str] = {"machine": "oneplus_12", "device": "gpu", "schedule": "chain_sd"}
_MAKERS: Mapping[str, Callable[[str, str, bool], Draft]] = {"machine": machine, "device": device, "schedule": schedule}
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


def new(kind: str, name: str, *, source: str | None = None, folder: str | Path | None = None) -> dict[str, Any]:
    """Write the files of a new machine, device or schedule.

    Parameters
    ----------
    kind : str
        ``machine``, ``device`` or ``schedule``.
    name : str
        Its name: a Python identifier in lower case that nothing of its kind has yet.
    source : str, optional
        Name of what to start from; see :data:`DEFAULTS`.
    folder : path, optional
        Where to write; by default the first entry of ``ARCHSIM_PATH``, or the current folder.

    Returns
    -------
    dict
        ``kind``, ``name``, ``from``, ``files`` (paths written) and ``next`` (command lines to try).

    Raises
    ------
    InputError
        For a kind, name or source that cannot be, a file that exists, or a folder that cannot be written; nothing is
        written then.
    """
    if kind not in DEFAULTS:
        raise InputError(f"cannot make a new {quote(kind)}; {suggest(kind, DEFAULTS)}")
    check_free(kind, name)
    base = Path(folder) if folder is not None else next(iter(user_folders()), Path())
    if not os.fspath(base):
        raise InputError("the path of the output folder is empty; give one")
    origin = DEFAULTS[kind] if source is None else source
    draft = _MAKERS[kind](name, origin, source is not None)
    written = _write(base, draft.files)
    checked = [f"python -m pytest -q {path}" for path in written if path.parent.name == "tests"]
    if importlib.util.find_spec("pytest") is None:  # archsim itself does not need it
        checked.insert(0, "python -m pip install pytest")
    checked += [f"archsim check {path}" for path in written if path.suffix == ".yaml"]
    return {
        "kind": kind,
        "name": name,
        "from": origin,
        "files": [str(path) for path in written],
        "next": [*_path_lines(base), *checked, *draft.lines],
    }


def check_free(kind: str, name: str) -> None:
    """Refuse a name that nothing of this kind can have, or that something has already.

    Raises
    ------
    InputError
        Saying which of the two.
    """
    if not _NAME.fullmatch(name) or keyword.iskeyword(name) or keyword.issoftkeyword(name):
        raise InputError(
            f"{quote(name)} cannot name a {kind}: take a Python identifier in lower-case letters, digits and '_' of at "
            "most 40 characters that is no keyword"
        )
    taken = names("system") if kind == "machine" else registry.names(kind)
    if name in taken:
        raise InputError(
            f"a {kind} {quote(name)} exists already; choose another name, or start from it by --from {name}"
        )
    if kind == "device" and name in names("part"):
        raise InputError(f"a part {quote(name)} exists already, and the device's part takes its name; choose another")


def _write(base: Path, texts: Mapping[str, str]) -> list[Path]:
    """Write files below a folder, all or none."""
    targets = {base / name: text for name, text in texts.items()}
    for path in targets:
        if os.path.lexists(path):
            raise InputError(f"{path}: exists already and is not overwritten; choose another name or folder")
    made: list[Path] = []
    done: list[Path] = []
    try:
        for folder in dict.fromkeys(path.parent for path in targets):
            made = make_folders(folder) + made
        with ExitStack() as stack:  # written first, named last
            for path, text in targets.items():
                stack.enter_context(replaced(path)).write_text(text, encoding="utf-8")
                done.append(path)
    except BaseException:
        for path in done:
            path.unlink(missing_ok=True)
        remove_empty(made)
        raise
    return list(targets)


def _path_lines(base: Path) -> list[str]:
    """Command line that puts a folder on ``ARCHSIM_PATH``, where it is not there yet."""
    if base.absolute() in user_folders():
        return []
    more = f"{os.pathsep}$ARCHSIM_PATH" if os.environ.get("ARCHSIM_PATH", "").strip() else ""
    return [f"export ARCHSIM_PATH={shlex.quote(str(base.absolute()))}{more}"]
