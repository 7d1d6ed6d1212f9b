"""The table of public starting values: mean acceptance by (target, draft, task), each with its source."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from archsim.config import InputError
from archsim.config.reading import shipped
from archsim.units import quote, suggest

ANY_TASK = "any"


class Acceptance(NamedTuple):
    """One cell: mean acceptance of the draft's first choice, the published range around it and the source.

    ``fitted`` is the acceptance that a published decoding speed needs, where one was fitted; streams take it then.
    """

    value: float
    source: str
    range: tuple[float, float] | None
    fitted: Acceptance | None = None

    @property
    def level(self) -> Acceptance:
        """What a stream takes: the fitted cell where there is one, else the public one."""
        return self.fitted or self


class Table(NamedTuple):
    """``tasks``: name to (prompt tokens, source); ``pairs``: (target, draft) to cells by task; ``diffusion`` models.

    ``tails``: (target, draft) to the name of the tail that its streams have where it is not the default.
    """

    tasks: Mapping[str, tuple[int, str]]
    pairs: Mapping[tuple[str, str], Mapping[str, Acceptance]]
    diffusion: tuple[str, ...]
    tails: Mapping[tuple[str, str], str]


@cache
def table() -> Table:
    """The table as shipped in ``acceptance.yaml``."""
    data = shipped("archsim.streams", "acceptance.yaml")
    tasks = {name: (int(cell["prompt_tokens"]), cell["source"]) for name, cell in data["tasks"].items()}
    pairs = {
        (pair["target"], pair["draft"]): {task: _cell(cell) for task, cell in pair["tasks"].items()}
        for pair in data["pairs"]
    }
    tails = {(pair["target"], pair["draft"]): pair["tail"] for pair in data["pairs"] if "tail" in pair}
    return Table(tasks, pairs, tuple(data["diffusion"]), tails)


def _cell(data: Mapping[str, Any]) -> Acceptance:
    bounds = tuple(data["range"]) if "range" in data else None
    fitted = _cell(data["fitted"]) if "fitted" in data else None
    return Acceptance(float(data["value"]), data["source"], bounds, fitted)


def default_draft(target: str) -> str:
    """The draft of a target for which none is named: its EAGLE3 head."""
    return f"eagle3-{target}"


def prompt_tokens(task: str) -> tuple[int, str]:
    """Typical prompt length of `task` in tokens, and its source."""
    tasks = table().tasks
    if task not in tasks:
        raise InputError(f"unknown task {quote(task)}; {suggest(task, tasks)}")
    return tasks[task]


def acceptance(target: str, draft: str, task: str) -> Acceptance:
    """Mean acceptance of a known cell.

    Raises
    ------
    InputError
        For a pair or task without data; it names what is known and how to give the value.
    """
    known = table()
    give = "or give the value (acceptance=0.7)"
    cells = known.pairs.get((target, draft))
    if cells is None:
        drafts = [d for t, d in known.pairs if t == target]
        if drafts:
            raise InputError(
                f"no acceptance data for {target} with draft {quote(draft)}; "
                f"drafts with data: {', '.join(drafts)}, {give}"
            )
        pair, pairs = f"{target}+{draft}", [f"{t}+{d}" for t, d in known.pairs]
        raise InputError(f"no acceptance data for {quote(pair)}; {suggest(pair, pairs)} {give}")
    cell = cells.get(task) or cells.get(ANY_TASK)
    if cell is None:
        tasks = ", ".join(cells)
        raise InputError(f"no acceptance data for {target}+{draft} on {task}; tasks with data: {tasks}, {give}")
    return cell
