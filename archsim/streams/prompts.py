"""Prompts of recordings: ``ref_greedy.jsonl`` beside them holds each prompt and the target's plain greedy output."""

from __future__ import annotations

from archsim.streams.files import Record

PROMPTS = "ref_greedy.jsonl"
PROMPT_KEYS = ("split", "kind", "id", "temp", "prompt", "out")


def load_prompts(records: list[Record]) -> dict[str, int]:
    """Prompt tokens by request name."""
    lengths: dict[str, int] = {}
    for record in records:
        record.only(PROMPT_KEYS)
        name = record.text("id")
        if name in lengths:
            raise record.error(f"id {name!r} appears twice")
        tokens = record.integers("prompt")
        if not tokens:
            raise record.error("key 'prompt' is empty; a prompt has one token or more")
        lengths[name] = len(tokens)
    return lengths
