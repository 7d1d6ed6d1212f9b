"""Early exits along the target's own text (format ``exit``)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch

from archsim.recorder.adapters import Exits, Text
from archsim.recorder.llama import Llama
from archsim.recorder.prompts import Prompt
from archsim.streams.exits import KIND_NAMES

CANDIDATES = 8
_BATCH = 16


def record_exits(
    network: Llama, exits: Exits, prompt: Prompt, output: Sequence[int], number: int
) -> dict[str, np.ndarray]:
    """Columns of one prompt, teacher-forced on its output; see the package's format ``exit``.

    Returns
    -------
    dict
        Arrays by name, one entry per output token.
    """
    network.reset()
    passed = network.extend([*prompt.tokens, *output[:-1]], tap=exits.layers)
    network.reset()
    behind = slice(len(prompt.tokens) - 1, None)
    chance = torch.softmax(torch.from_numpy(passed.logits[behind]), dim=-1)
    n = len(output)
    columns = {
        "seq": np.full(n, number, dtype=np.int32),
        "kind": np.full(n, list(KIND_NAMES.values()).index(prompt.kind), dtype=np.int8),
        "pos": np.arange(n, dtype=np.int32),
        "tok": np.array(output, dtype=np.int32),
        "target_max": chance.max(dim=-1).values.numpy().astype(np.float16),
        "target_ent": _entropy(chance),
        "exit_top8": np.zeros((n, len(exits.layers), CANDIDATES), dtype=np.int32),
        "exit_q": np.zeros((n, len(exits.layers), CANDIDATES), dtype=np.float16),
        "exit_ent": np.zeros((n, len(exits.layers)), dtype=np.float16),
    }
    for i, layer in enumerate(exits.layers):
        probs = exits.probabilities(layer, passed.hidden[layer][behind])
        best = torch.topk(probs, CANDIDATES, dim=-1)
        columns["exit_top8"][:, i] = exits.vocabulary[best.indices].numpy()
        columns["exit_q"][:, i] = best.values.numpy()
        columns["exit_ent"][:, i] = _entropy(probs)
    return columns


def gather(parts: Sequence[dict[str, np.ndarray]], names: Sequence[str], exits: Exits) -> dict[str, np.ndarray]:
    """All prompts' columns in one recording."""
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return {"ids": np.array(names), "exit_layers": np.array(exits.layers, dtype=np.int32), **joined}


def batches(prompts: Sequence[Prompt]) -> list[list[Prompt]]:
    """Prompts in batches of similar length, so that little is padded."""
    ranked = sorted(prompts, key=lambda prompt: len(prompt.tokens))
    return [ranked[i : i + _BATCH] for i in range(0, len(ranked), _BATCH)]


def own_text(
    network: Llama, batch: Sequence[Prompt], tokens: int, layers: Sequence[int]
) -> tuple[Text, list[list[int]]]:
    """Greedy outputs of a batch, and the hidden states they were chosen from, up to each one's end."""
    hidden: dict[int, list[torch.Tensor]] = {layer: [] for layer in (*layers, network.layers)}
    chosen: list[torch.Tensor] = []
    alive = torch.ones(len(batch), dtype=torch.bool)
    mask: list[torch.Tensor] = []
    stops = torch.tensor(sorted(network.stops))
    for token, states in network.generate([prompt.tokens for prompt in batch], tokens, tap=tuple(hidden)):
        chosen.append(token)
        mask.append(alive.clone())
        for layer, rows in states.items():
            hidden[layer].append(rows)
        alive &= ~torch.isin(token, stops)
        if not alive.any():
            break
    kept = torch.stack(mask)
    states = {layer: torch.stack(rows)[kept] for layer, rows in hidden.items()}
    final = states.pop(network.layers)
    grid = torch.stack(chosen)
    outputs = [grid[kept[:, i], i].tolist() for i in range(len(batch))]
    return Text(states, final, grid[kept]), outputs


def joined(parts: Sequence[Text]) -> Text:
    """Several batches of text as one."""
    return Text(
        {layer: torch.cat([part.hidden[layer] for part in parts]) for layer in parts[0].hidden},
        torch.cat([part.final for part in parts]),
        torch.cat([part.tokens for part in parts]),
    )


def _entropy(chance: torch.Tensor) -> np.ndarray:
    value = torch.special.entr(chance).sum(dim=-1).clamp(0.0, math.log(chance.shape[-1]))
    return value.numpy().astype(np.float16)
