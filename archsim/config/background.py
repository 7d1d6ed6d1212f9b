"""The block ``background:`` of a run: streams by name, each a part or fields of its own.

An entry is the name of a part of a stream's kind, or a mapping with ``part`` or ``kind`` (``dram``, ``flash`` or
``cpu``) and fields; ``--set background.<stream>=PART`` adds or replaces one, ``--set background.<stream>=none`` takes
it away, ``--set background.<stream>.<field>=VALUE`` changes it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from archsim.config.checking import Checked, Row, check_model
from archsim.config.files import Part, RunFile, named_part
from archsim.config.layers import Section, subsection
from archsim.config.resolve import registered
from archsim.config.restating import stated
from archsim.config.setting import Setting, apply
from archsim.units import quote, suggest

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
#: Most streams of a run: the engine's masks and a reader's patience end somewhere.
MOST = 32
NONE = "none"


def checked_background(
    run: RunFile, near: Path | None, settings: list[Setting], devices: Collection[str]
) -> dict[str, Checked]:
    """Validated streams by name, in the order of the file; ``data`` holds ``part``, ``device`` and ``spec``.

    Parameters
    ----------
    run : RunFile
        The run as its file says it.
    near : Path or None
        Folder of the file.
    settings : list of Setting
        Overrides whose paths begin with ``background``.
    devices : collection of str
        Names of the machine's devices, which a stream cannot have.

    Raises
    ------
    InputError
        For a stream without kind, an unknown part or field, or a name that is taken.
    """
    section = run.background.copy()
    for setting in settings:
        if len(setting.path) < 2:
            raise setting.where.error("names no stream; write background.STREAM=PART or background.STREAM.FIELD=VALUE")
        if len(setting.path) == 2:
            apply(section, [setting], 1)
            section.values[setting.path[1]] = setting.text()
    for setting in settings:
        if len(setting.path) > 2 and section.values.get(setting.path[1]) in (None, NONE):
            raise setting.where.error(
                f"the run has no stream {quote(setting.path[1])}; {suggest(setting.path[1], section.values)}; "
                f"write also background.{setting.path[1]}=PART"
            )
    found = {}
    for name in section.values:
        if section.values[name] == NONE:
            continue
        where = section.place((name,))
        if not _NAME.fullmatch(name):
            raise where.error(f"{quote(name)} is not a stream's name: lower-case letters, digits and '_' only")
        if name in devices:
            raise where.error(f"the machine has a device {quote(name)}; give the stream another name", "background")
        found[name] = _stream(section, name, near, [s for s in settings if s.path[1] == name and len(s.path) > 2])
    if len(found) > MOST:
        raise section.here.error(f"{len(found)} streams; at most {MOST}", "background")
    return found


def _stream(section: Section, name: str, near: Path | None, settings: list[Setting]) -> Checked:
    """One stream under its overrides."""
    path, where, entry = f"background.{name}", section.place((name,)), section.values[name]
    part: Part | None = None
    own = Section(path, where)
    kinds = import_module("archsim.devices.background").KINDS
    if isinstance(entry, dict):
        own = subsection(section, name, path)
        chosen, kind = own.values.pop("part", None), own.values.pop("kind", None)
        for key in ("part", "kind"):
            own.drop((key,))
        if (chosen is None) == (kind is None):
            raise where.error(f"needs either 'part' or 'kind' ({', '.join(kinds)})", path)
    else:
        chosen, kind = entry, None
    if kind is not None and kind not in kinds:
        raise section.place((name, "kind")).error(f"unknown kind {quote(kind)}; {suggest(str(kind), kinds)}", path)
    if chosen is not None:
        part = _part(chosen, where, path, near, kinds.values())
        base = part.section.copy(path)
        base.cover(own)
        own = base
    apply(own, settings, 2)
    device = kinds[kind] if part is None else part.device
    spec = registered("device", device, where, path).Spec
    checked = check_model(spec, own, sourced=False, default_source="chosen by the run")
    data = {"part": "" if part is None else part.name, "device": device, "spec": checked.data}
    first = Row(path, data["part"] or kind, "", "", None)
    return Checked(data, checked.sources, (first, *checked.rows))


def stated_background(streams: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Resolved streams as a run file says them: the name of their part, or their kind and all of their fields.

    What was changed of a part is not said; it is left to overrides, so that the rest keeps its sources and ranges.
    """
    kinds = {device: kind for kind, device in import_module("archsim.devices.background").KINDS.items()}
    registry = import_module("archsim.registry")
    return {
        name: {"part": stream["part"]}
        if stream["part"]
        else {
            "kind": kinds[stream["device"]],
            **stated(registry.get("device", stream["device"]).Spec, stream["spec"]),
        }
        for name, stream in streams.items()
    }


def _part(name: Any, where: Any, path: str, near: Path | None, kinds: Collection[str]) -> Part:
    """Part of a stream's kind."""
    if not isinstance(name, str):
        raise where.error(f"expected the name of a part, not {quote(name)}", path)
    part = named_part(name, where, path, near)
    if part.device not in kinds:
        raise where.error(f"part {quote(name)} is a {part.device}; give one of {', '.join(kinds)}", path)
    return part
