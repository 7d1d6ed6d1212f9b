"""Prompts to record: a JSON-lines file of texts, or the shipped ones."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from archsim.config import InputError
from archsim.recorder.network import Network
from archsim.streams.exits import KIND_NAMES
from archsim.streams.files import read_bytes, read_jsonl
from archsim.streams.opening import packed_traces
from archsim.streams.prompts import PROMPT_KEYS, PROMPTS

KEYS = ("id", "kind", "text")


@dataclass(frozen=True)
class Prompt:
    """One prompt.

    Attributes
    ----------
    name : str
        Unique name.
    kind : str
        ``code``, ``math`` or ``dialogue``.
    tokens : tuple of int
        What the model is given.
    """

    name: str
    kind: str
    tokens: tuple[int, ...]


def file_prompts(file: Path, network: Network, count: int) -> list[Prompt]:
    """First `count` prompts of a JSON-lines file of ``{"id", "kind", "text"}``.

    Raises
    ------
    InputError
        With the line and what is wrong with it.
    """
    made: dict[str, Prompt] = {}
    for record in read_jsonl(file, read_bytes(file))[:count]:
        record.only(KEYS)
        name, kind = record.text("id"), record.text("kind")
        if kind not in KIND_NAMES.values():
            raise record.error(f"kind {kind!r} is none of {', '.join(KIND_NAMES.values())}")
        if name in made:
            raise record.error(f"id {name!r} appears twice")
        text = record.values["text"]
        if not isinstance(text, str) or not text.strip():
            raise record.error("key 'text' must be a text that is not empty")
        made[name] = Prompt(name, kind, tuple(network.encode(text)))
    return list(made.values())


def shipped_prompts(network: Network, count: int) -> list[Prompt]:
    """First `count` shipped prompts, each kind in turn; their tokens are SmolLM2's.

    Raises
    ------
    InputError
        For a model of another vocabulary.
    """
    file = packed_traces() / PROMPTS
    records = read_jsonl(file, read_bytes(file))
    by_kind: dict[str, list[Prompt]] = {kind: [] for kind in KIND_NAMES.values()}
    for record in records:
        record.only(PROMPT_KEYS)
        tokens = tuple(record.integers("prompt"))
        by_kind[record.text("kind")].append(Prompt(record.text("id"), record.text("kind"), tokens))
    if not network.name.startswith("smollm2"):
        raise InputError(f"{network.name} has other tokens than the shipped prompts; give --prompts FILE.jsonl")
    longest = max(map(len, by_kind.values()))
    turns = [kind[i] for i in range(longest) for kind in by_kind.values() if i < len(kind)]
    return turns[:count]
