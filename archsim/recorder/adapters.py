"""Early exits: what a layer's output says of the next token through a small trained adapter.

An adapter is a square matrix (from the identity), a bottleneck beside it and a norm, in front of the target's own
output projection over a reduced vocabulary. It learns the target's distribution (KL) on the target's own greedy text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from archsim.config import InputError
from archsim.config.regular import replaced
from archsim.recorder.llama import Llama
from archsim.streams.files import read_bytes, read_npz

BOTTLENECK = 192
_RATE, _BATCH = 2e-3, 512
_PARTS = ("square", "down", "up", "norm")


@dataclass(frozen=True)
class Text:
    """The target's own text as training data.

    Attributes
    ----------
    hidden : dict of int to torch.Tensor
        [tokens, width] behind each exit layer.
    final : torch.Tensor
        [tokens, width] behind the last layer.
    tokens : torch.Tensor
        [tokens] that followed.
    """

    hidden: dict[int, torch.Tensor]
    final: torch.Tensor
    tokens: torch.Tensor


class Adapter(nn.Module):
    """Adapter of one exit: [n, width] hidden states to [n, width] inputs of the output projection."""

    def __init__(self, width: int, epsilon: float) -> None:
        super().__init__()
        self.square = nn.Parameter(torch.eye(width))
        self.down = nn.Parameter(torch.randn(width, BOTTLENECK) / width**0.5)
        self.up = nn.Parameter(torch.zeros(BOTTLENECK, width))
        self.norm = nn.Parameter(torch.ones(width))
        self._width, self._epsilon = width, epsilon

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Inputs of the output projection."""
        x = functional.rms_norm(hidden.float(), (self._width,), eps=self._epsilon)
        x = x @ self.square + functional.silu(x @ self.down) @ self.up
        return functional.rms_norm(x, (self._width,), eps=self._epsilon) * self.norm


class Exits:
    """Adapters by layer over one reduced vocabulary.

    Parameters
    ----------
    network : Llama
        The target.
    vocabulary : torch.Tensor
        Token ids that a draft can propose, ascending.
    adapters : dict of int to Adapter
    """

    def __init__(self, network: Llama, vocabulary: torch.Tensor, adapters: dict[int, Adapter]) -> None:
        self.vocabulary = vocabulary
        self.adapters = adapters
        self._head = network.head[vocabulary].float()

    @property
    def layers(self) -> tuple[int, ...]:
        """Exit layers, ascending."""
        return tuple(sorted(self.adapters))

    @torch.inference_mode()
    def probabilities(self, layer: int, hidden: torch.Tensor) -> torch.Tensor:
        """[n, reduced vocabulary] draft probabilities in fp32."""
        return torch.softmax(self.adapters[layer](hidden) @ self._head.T, dim=-1)

    def save(self, file: Path) -> None:
        """Write the adapters in half precision."""
        arrays: dict[str, np.ndarray] = {"vocabulary": self.vocabulary.numpy().astype(np.int32)}
        for layer, adapter in self.adapters.items():
            for part in _PARTS:
                arrays[f"{part}_{layer}"] = getattr(adapter, part).detach().half().numpy()
        with replaced(file) as temporary, temporary.open("wb") as out:
            np.savez_compressed(out, **arrays)


def load_exits(network: Llama, file: Path) -> Exits:
    """Read adapters that :meth:`Exits.save` wrote.

    Raises
    ------
    InputError
        For a file that is no such archive or does not fit the model.
    """
    arrays = read_npz(file, read_bytes(file))
    layers = sorted(int(name.removeprefix("norm_")) for name in arrays if name.removeprefix("norm_").isdigit())
    vocabulary = arrays.get("vocabulary")
    if not layers or vocabulary is None or vocabulary.ndim != 1 or vocabulary.dtype.kind != "i":
        raise InputError(f"{file}: not a file of exit adapters (it has no vocabulary or no norm_<layer>)")
    if not len(vocabulary) or vocabulary.min() < 0 or vocabulary.max() >= network.vocabulary:
        raise InputError(f"{file}: its vocabulary is not within the {network.vocabulary} tokens of {network.name}")
    adapters = {}
    for layer in layers:
        adapter = Adapter(network.width, network.epsilon)
        for part in _PARTS:
            found, expected = arrays.get(f"{part}_{layer}"), tuple(getattr(adapter, part).shape)
            if found is None or found.shape != expected or not 0 < layer < network.layers:
                raise InputError(f"{file}: {part}_{layer} does not fit {network.name}: {expected} is needed")
            getattr(adapter, part).data = torch.from_numpy(found.astype(np.float32))
        adapters[layer] = adapter.eval()
    return Exits(network, torch.from_numpy(vocabulary.astype(np.int64)), adapters)


def reduced(network: Llama, tokens: torch.Tensor, size: int) -> torch.Tensor:
    """The `size` tokens most worth drafting: those of the text by frequency, then by rank in the vocabulary."""
    count = torch.bincount(tokens, minlength=network.vocabulary).double()
    rank = torch.arange(network.vocabulary, dtype=torch.float64) / network.vocabulary  # merges stand in order of use
    return torch.topk(count - rank, min(size, network.vocabulary)).indices.sort().values


def train(network: Llama, text: Text, layers: Sequence[int], size: int, steps: int, seed: int) -> Iterator[Exits]:
    """Train one adapter a layer; yields the exits so far after each layer.

    Parameters
    ----------
    text : Text
        The target's own text.
    size : int
        Tokens of the reduced vocabulary.
    steps : int
        Steps of 512 tokens an exit.
    """
    torch.manual_seed(seed)
    vocabulary = reduced(network, text.tokens, size)
    head = network.head[vocabulary].float()
    adapters: dict[int, Adapter] = {}
    for layer in layers:
        adapter = Adapter(network.width, network.epsilon)
        optimiser = torch.optim.AdamW(adapter.parameters(), lr=_RATE, weight_decay=1e-3)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, _RATE, total_steps=steps)
        for _ in range(steps):
            at = torch.randint(len(text.tokens), (_BATCH,))
            with torch.no_grad():
                final = functional.rms_norm(text.final[at].float(), (network.width,), eps=network.epsilon)
                wanted = torch.softmax((final * network.final_norm.float()) @ head.T, dim=-1)
            found = torch.log_softmax(adapter(text.hidden[layer][at]) @ head.T, dim=-1)
            loss = functional.kl_div(found, wanted, reduction="batchmean")
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
        adapters[layer] = adapter.eval()
        yield Exits(network, vocabulary, dict(adapters))
