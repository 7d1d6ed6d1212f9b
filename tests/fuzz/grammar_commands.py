"""Any command of the tree with any of its options."""

from __future__ import annotations

import re
from typing import Any

import material
from changes import mixed
from harness import Case
from hypothesis import strategies as st

#: Arguments that would start work of minutes.
LONG_WORDS = {"devices", "energy", "lever", "llada", "llada_map", "ahasd", "all", "thermal_session"}
FILES_BY_NAME = (
    "run.yaml",
    "sweep.yaml",
    "span.yaml",
    "prices.yaml",
    "part.yaml",
    "rw.txt",
    "ldst.txt",
    "dramsim3.txt",
)
FILES_BY_NAME += (
    "aim.trace",
    "mqsim.txt",
    "config.json",
    "done",
    "table",
    "fifo",
    "loop",
    "zero",
    "dangling",
    "nowhere.yaml",
)
OUTPUTS = (
    "out",
    "out.svg",
    "out.csv",
    "out.json",
    "out.yaml",
    "out.md",
    "a/b",
    "done",
    "run.yaml",
    "fifo",
    "/dev/full",
    "",
)


@st.composite
def settings(draw: Any) -> str:
    """An argument of ``--set``."""
    known = material.paths()
    path = draw(st.sampled_from(sorted(known)))
    value = draw(
        st.one_of(
            mixed, st.just(known[path]), st.sampled_from(material.names()), st.sampled_from(sorted(known.values()))
        )
    )
    odd = draw(st.integers(0, 9))
    if odd == 0:
        path = draw(
            st.sampled_from([path + ".x", path[:-1], path.rpartition(".")[0], "", ".", "job", path.upper(), "a" * 999])
        )
    return path if odd == 1 else f"{path}={value}"


@st.composite
def word(draw: Any, param: Any) -> str:
    """A value for one parameter of a command."""
    if "--set" in param.opts:
        return draw(settings())
    metavar = str(param.metavar or "")
    usual: list[str] = list(material.names()) + list(FILES_BY_NAME)
    hint = re.findall(r"[a-z][a-z0-9_:-]+", str(param.help or ""))
    if "INTEGER" in metavar:
        usual = ["1", "2", "3", "4", "8"]
    elif metavar in ("FILE", "DIR", "FILE...", "TABLE|DIR") or "FILE" in metavar or "DIR" in metavar:
        usual = list(OUTPUTS if param.opts[0].startswith("-") else FILES_BY_NAME)
    elif hint:
        usual = usual + hint * 8
    usual = [text for text in usual if text not in LONG_WORDS]
    return draw(st.sampled_from(usual) if draw(st.integers(0, 3)) else mixed)


@st.composite
def command_lines(draw: Any) -> Case:
    """Any command of the tree, with some of its options, in any order, with any values."""
    known = material.commands()
    words = draw(st.sampled_from(sorted(known)))
    args: list[str] = list(words)
    command = known[words]
    chosen = [p for p in command.params if p.required or not draw(st.integers(0, 3))]
    for param in draw(st.permutations(chosen)):
        flag = getattr(param, "is_flag", False)
        option = param.opts[0].startswith("-")
        for _ in range(draw(st.sampled_from([1, 1, 1, 1, 2, 0]))):
            if option:
                args.append(draw(st.sampled_from(param.opts)))
            if not flag:
                args.append(draw(word(param)))
    if words == ("run",) and draw(st.integers(0, 3)):
        args = [*material.RUN, "--tokens", "2", *args[1:]]
    if words == ("bench",):
        args += ["--quick", "--only", draw(st.sampled_from(["pim.512_rows", "pim", "engine.emt", "x", ""]))]
    if words == ("demo",):
        args += ["--tokens", draw(st.sampled_from(["2", "3", "x", "0", str(2**40)]))]
    if draw(st.integers(0, 19)) == 0:
        args.insert(draw(st.integers(0, len(args))), draw(mixed))
    if draw(st.integers(0, 39)) == 0:
        args = args[: draw(st.integers(1, len(args)))]
    used = set(args)
    files = {name: data for name, data in material.FILES.items() if name in used or name == "run.yaml"}
    if "done" in used:
        files |= material.run_folder()
    if "table" in used:
        files |= material.sweep_folder()
    specials = tuple(name for name in ("fifo", "loop", "zero", "dangling") if name in used)
    return Case(tuple(args), files, specials, works=True)
