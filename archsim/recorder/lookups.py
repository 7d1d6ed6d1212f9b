"""Prompt look-up: the longest suffix of the text so far that occurred before proposes what followed it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

LENGTHS = (4, 3, 2)
MOST = 8


def record_lookups(prompt: list[int], output: list[int], name: str, kind: str) -> Iterator[dict[str, Any]]:
    """Replay greedy text under look-ups of suffixes of 4, 3, 2 tokens, 8 drafted; one record a look-up (``ngram``)."""
    text, at = list(prompt), 0
    while at < len(output):
        matched, draft = look_up(text)
        accepted = 0
        while accepted < len(draft) and at + accepted < len(output) - 1 and draft[accepted] == output[at + accepted]:
            accepted += 1
        yield {"id": name, "kind": kind, "pos": at, "ngram": matched, "draft": draft, "acc": accepted}
        text += output[at : at + accepted + 1]
        at += accepted + 1


def look_up(text: list[int]) -> tuple[int, list[int]]:
    """Matched length (0 none) and drafted tokens: what followed the latest earlier occurrence of the longest suffix."""
    for length in LENGTHS:
        if len(text) <= length:
            continue
        suffix = text[-length:]
        for start in range(len(text) - length - 1, -1, -1):
            if text[start : start + length] == suffix:
                return length, text[start + length : start + length + MOST]
    return 0, []
