"""A Hugging Face causal model of the user's, from a local folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from archsim.config import InputError
from archsim.recorder.network import Pass, Tree


class HuggingFace:
    """See :class:`archsim.recorder.network.Network`. Attention runs by the plain path, which takes tree masks.

    Parameters
    ----------
    folder : Path
        Folder with ``config.json``, weights and a tokenizer. Nothing is downloaded and no code of it is run.
    dtype : torch.dtype
        Type of weights and activations.

    Raises
    ------
    InputError
        When transformers is missing or cannot load the folder.
    """

    def __init__(self, folder: Path, dtype: torch.dtype = torch.bfloat16) -> None:
        try:
            import transformers
        except ImportError:
            raise InputError(
                f"{folder}: a Hugging Face model needs transformers; install it with: pip install 'archsim[record]'"
            ) from None
        local = {"local_files_only": True, "trust_remote_code": False}
        try:
            self._model = transformers.AutoModelForCausalLM.from_pretrained(
                folder, dtype=dtype, attn_implementation="eager", use_safetensors=True, **local
            ).eval()
            self._tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **local)
        except (OSError, ValueError, KeyError, ImportError, RuntimeError) as error:
            raise InputError(f"{folder}: cannot be loaded: {' '.join(str(error).split())[:300]}") from error
        config = self._model.config
        self.name = folder.resolve().name.lower()
        self.provenance = (
            f"{self.name} ({config.model_type}), run in {str(dtype).removeprefix('torch.')} on the CPU, greedy"
        )
        self.licence = "see the model's own"
        self.layers = int(config.num_hidden_layers)
        self.vocabulary = int(config.vocab_size)
        self.dtype = dtype
        stops = self._model.generation_config.eos_token_id
        self.stops = frozenset([] if stops is None else [stops] if isinstance(stops, int) else stops)
        self.reset()

    def encode(self, text: str) -> list[int]:
        """Tokens of a user's message, in the model's chat form where it has one."""
        if self._tokenizer.chat_template is None:
            return list(self._tokenizer(text)["input_ids"])
        message = [{"role": "user", "content": text}]
        made = self._tokenizer.apply_chat_template(message, add_generation_prompt=True, tokenize=False)
        return list(self._tokenizer(made, add_special_tokens=False)["input_ids"])

    def reset(self) -> None:
        """Empty the cache."""
        from transformers import DynamicCache

        self._cache = DynamicCache()
        self._tree = Tree()

    def crop(self, length: int) -> None:
        """Keep the first `length` entries of the cache."""
        surplus = self._cache.get_seq_length() - length
        if surplus > 0:
            self._cache.crop(-surplus)  # a negative count is taken off the end, by every version
        self._tree.crop(length)

    def settle(self) -> None:
        """Take everything in the cache as the prefix of later trees."""
        self._tree.settle(self._cache.get_seq_length())

    @torch.inference_mode()
    def extend(
        self,
        tokens: Sequence[int],
        parents: Sequence[int] | None = None,
        tap: Sequence[int] = (),
        until: int | None = None,
    ) -> Pass:
        """Run tokens behind the cache; see :meth:`archsim.recorder.network.Network.extend`."""
        if until is not None or tap:
            raise InputError(f"{self.name}: early exits are recorded from GGUF files; give --draft MODEL for this one")
        at = self._tree.grow(len(tokens), parents)
        seen = torch.from_numpy(self._tree.visible(len(tokens)))
        mask = torch.zeros(seen.shape, dtype=self.dtype).masked_fill(~seen, torch.finfo(self.dtype).min)
        made = self._model(
            input_ids=torch.tensor([list(tokens)]),
            attention_mask=mask[None, None],
            position_ids=torch.tensor([at]),
            past_key_values=self._cache,
            use_cache=True,
        )
        return Pass(made.logits[0].float().numpy(), {})
