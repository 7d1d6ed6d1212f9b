"""What the shell completes: names of machines, schedules, models, streams and runs, and the paths of ``--set``.

Nothing here imports what compiles: names of plug-ins and fields are read from the text of their files.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterable
from contextlib import redirect_stdout
from itertools import pairwise
from pathlib import Path
from typing import Any

Names = Callable[[Any, str], list[str]]
#: What bash breaks words at, beside white space, and puts together again here.
_BREAKS = ":="
_PLUGIN = {kind: re.compile(rf'^@{kind}\("(\w+)"\)', re.M) for kind in ("device", "schedule")}
_DEVICES = re.compile(r"^devices:\n((?:[ #].*\n?|\n)+)", re.M)
_SPEC = re.compile(r"^spec:\n((?:[ #].*\n?|\n)+)", re.M)
_JOB = ("target", "draft", "predictor", "stream", "tokens", "prompts", "prompt_tokens", "dram_fraction", "seed")
_JOB += ("acceptance", "kv_dtype", "kv_tier", "mapping", "thermal")
_KNOB = re.compile(r"^    (\w+): [^=\n]+= (?:knob|ring_knob)\(", re.M)


def answer(main: Callable[[], Any]) -> int:
    """Print the completions that `main` prints, as the shell wants them.

    bash breaks words at ``:`` and ``=``; they are put together before and what it has already is left out after.
    """
    known = _join_words() if os.environ.get("_ARCHSIM_COMPLETE") == "complete_bash" else 0
    said = io.StringIO()
    code: Any = 0
    with redirect_stdout(said):
        try:
            main()
        except SystemExit as left:
            code = left.code
    lines = said.getvalue().splitlines()
    print("\n".join(line[known:] for line in lines))  # noqa: T201 - the shell reads it
    return int(code or 0)


def _join_words() -> int:
    """Put words together that bash broke at ``:`` and ``=``; returns how much of the last one is a word before it."""
    raw = os.environ.get("COMP_WORDS", "")
    words = raw.split("\n") if "\n" in raw else raw.split()
    index = int(os.environ.get("COMP_CWORD") or 0)
    words = [*words[:index], words[index] if index < len(words) else ""]
    joined: list[str] = []
    for i, word in enumerate(words):
        glued = i > 1 and (
            (word[:1] in _BREAKS and word != "") or (words[i - 1][-1:] in _BREAKS and words[i - 1] != "")
        )
        if glued and not joined[-1].startswith("--"):
            joined[-1] += word
        else:
            joined.append(word)
    os.environ["COMP_WORDS"], os.environ["COMP_CWORD"] = "\n".join(joined), str(len(joined) - 1)
    last = words[-1] if words[-1] not in _BREAKS else ""
    return len(joined[-1]) - len(last)


def config_names(kind: str) -> Names:
    """Completion of the names of a kind of file."""

    def complete(ctx: Any, incomplete: str) -> list[str]:
        from archsim.config.finding import names

        return _safely(lambda: names(kind))

    return complete


def plugin_names(kind: str) -> Names:
    """Completion of the names of devices or schedules."""

    def complete(ctx: Any, incomplete: str) -> list[str]:
        return _safely(lambda: sorted(_plugins(kind)))

    return complete


def streams(ctx: Any, incomplete: str) -> list[str]:
    """Completion of decision streams: recordings, and ``synthetic:<target>:<task>`` once that is begun."""
    return _safely(lambda: _streams(incomplete))


def shown_names(ctx: Any, incomplete: str) -> list[str]:
    """Completion of the name in ``archsim show KIND NAME``."""
    kind = _given("show")[0]
    if kind == "schedule":
        return plugin_names(kind)(ctx, incomplete)
    return config_names(kind)(ctx, incomplete) if kind in ("system", "part", "model", "run") else []


def sources(ctx: Any, incomplete: str) -> list[str]:
    """Completion of ``archsim new KIND NAME --from SOURCE``."""
    kind = _given("new")[0]
    return config_names("system")(ctx, incomplete) if kind == "machine" else plugin_names(kind)(ctx, incomplete)


def words(*given: str) -> Names:
    """Completion of fixed words."""
    return lambda ctx, incomplete: list(given)


def kinds(ctx: Any, incomplete: str) -> list[str]:
    """Completion of what has a JSON Schema."""
    plain = ["part", "system", "model", "run", "sweep", "prices"]
    return [*plain, *(f"part:{name}" for name in _safely(lambda: sorted(_plugins("device"))))]


def set_paths(ctx: Any, incomplete: str) -> list[str]:
    """Completion of the dotted path of ``--set``, up to its ``=``."""
    return _safely(lambda: [f"{path}=" for path in _paths(*_given("run"))])


def _safely(make: Callable[[], list[str]]) -> list[str]:
    """What is found; nothing where a file or folder is wrong, which the command itself will say."""
    try:
        return make()
    except (ValueError, OSError):
        return []


def _plugins(kind: str) -> dict[str, str]:
    """Names of devices or schedules, by a look at the text of their files, with that text."""
    from archsim.config.finding import user_folders

    folders = [Path(__file__).parents[1] / f"{kind}s", *(folder / f"{kind}s" for folder in user_folders())]
    texts = [path.read_text(encoding="utf-8", errors="replace") for f in folders for path in sorted(f.rglob("*.py"))]
    return {name: text for text in texts for name in _PLUGIN[kind].findall(text)}


def _streams(incomplete: str) -> list[str]:
    import json

    from archsim.config.finding import names, packed_folder

    folder = packed_folder().parent / "traces"
    listed = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    stems = {Path(path.name).stem for path in folder.iterdir() if path.name in json.dumps(listed)}
    found = [f"recorded:{stem}" for stem in sorted(stems - {"manifest", "README"})]
    if not incomplete.startswith("synthetic:"):
        return [*found, "synthetic:"]
    text = (Path(__file__).parents[1] / "streams" / "acceptance.yaml").read_text(encoding="utf-8")
    tasks = re.findall(r"^  (\w+):", re.search(r"^tasks:\n((?:[ #].*\n)+)", text, re.M)[1], re.M)  # type: ignore[index]
    return [f"synthetic:{model}:{task}" for model in names("model") for task in tasks]


def _given(command: str) -> tuple[str, dict[str, str]]:
    """First argument of a command and its long options, as the shell's words tell them.

    The parser itself knows neither while the option that is completed has no value yet.
    """
    said = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")
    words = said.split("\n") if "\n" in said else said.split()
    words = words[words.index(command) + 1 :] if command in words else []
    options = {word[2:]: after for word, after in pairwise(words) if word.startswith("--")}
    plain = [word for before, word in zip(["", *words], words) if not before.startswith("-") and word[:1] != "-"]
    return plain[0] if plain else "", options


def _paths(file: str, params: dict[str, str]) -> Iterable[str]:
    """Paths of the machine, schedule and job that the command line names so far."""
    from archsim.config.finding import find

    text = find("run", file).read_text(encoding="utf-8") if file else ""
    machine = params.get("system") or _said(r"^system: *(\S+)", text)
    schedule = params.get("schedule") or _said(r"^schedule:(?: *\{|\n(?:[ #].*\n)*? +)name: *(\w+)", text)
    yield from (f"job.{field}" for field in _JOB)
    for device, part in _devices(find("system", machine)).items() if machine else ():
        yield f"system.{device}"
        yield from (f"system.{device}.{field}" for field in _fields(part))
    if schedule:
        yield from (f"schedule.{field}" for field in _KNOB.findall(_plugins("schedule").get(schedule, "")))


def _said(pattern: str, text: str) -> str:
    match = re.search(pattern, text, re.M)
    return match[1] if match else ""


def _devices(file: Path) -> dict[str, str]:
    """Devices of a machine with their parts, its base's included."""
    from archsim.config.finding import find

    text = file.read_text(encoding="utf-8")
    base = _said(r"^base: *(\S+)\.ya?ml", text)
    found = _devices(find("system", base)) if base else {}
    block = _DEVICES.search(text)
    name = ""
    for line in block[1].splitlines() if block else ():
        match = re.match(r"  (\w+):(?: *([\w.-]+))?", line)
        if match:
            name, part = match[1], match[2]
            found[name] = part or found.get(name, "")
        inner = re.match(r"    part: *([\w.-]+)", line)
        if inner:
            found[name] = inner[1]
    return found


def _fields(part: str) -> list[str]:
    """Fields that a part's file, or its base's, gives."""
    from archsim.config.finding import find

    text = find("part", part).read_text(encoding="utf-8")
    base = _said(r"^base: *(\S+)\.ya?ml", text)
    block = _SPEC.search(text)
    own = re.findall(r"^  (\w+):", block[1], re.M) if block else []
    return list(dict.fromkeys([*(_fields(base) if base else []), *own]))
