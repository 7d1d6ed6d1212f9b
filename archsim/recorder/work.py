"""The recording's work: models, adapters, and each kind of record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from archsim.config import InputError
from archsim.recorder.network import Network, need_torch
from archsim.recorder.prompts import Prompt, file_prompts, shipped_prompts
from archsim.recorder.session import SHIPPED, SHIPPED_NAME, Plan, adapters_file, lines, npz_bytes

Keep = Callable[[str, Callable[[], Any]], Any]
TRAINED = "adapters.npz"


class Work:
    """Loads what a plan names and makes its records.

    Raises
    ------
    InputError
        For a model, adapters or prompts that cannot be had.
    """

    def __init__(self, plan: Plan, folder: Path, progress: Any = None) -> None:
        need_torch()
        import torch

        torch.set_num_threads(1)  # two threads that share a busy machine spin on each other
        self.plan, self.progress = plan, progress
        self._done, self._total = 0, plan.count * (2 if "trees" in plan.what else 1)
        self.target = open_network(plan.model, plan.precision)
        self.exits: Any = None
        if "exits" in plan.what or ("trees" in plan.what and plan.draft.startswith("exit:")):
            self.exits = self._exits(folder)

    def prompts(self) -> list[Prompt]:
        """Prompts of the plan."""
        if self.plan.prompts is None:
            return shipped_prompts(self.target, self.plan.count)
        return file_prompts(Path(self.plan.prompts), self.target, self.plan.count)

    def greedy(self, prompt: Prompt) -> list[int]:
        """The target's own text: up to the plan's tokens, its end token included."""
        target, output = self.target, []
        target.reset()
        passed = target.extend(list(prompt.tokens))
        while len(output) < self.plan.tokens:
            target.settle()
            output.append(int(passed.logits[-1].argmax()))
            if output[-1] in target.stops:
                break
            passed = target.extend([output[-1]])
        self._tell(f"text of {prompt.name}")
        return output

    def recording(
        self, kind: str, prompts: Sequence[Prompt], outputs: Sequence[list[int]], keep: Keep
    ) -> tuple[bytes, dict[str, Any]]:
        """Content of one file, and what is in it."""
        if kind == "exits":
            return self._record_exits(prompts, outputs)
        from archsim.recorder.lookups import record_lookups

        records: list[dict[str, Any]] = []
        drafter = self._drafter() if kind == "trees" else None
        for i, (prompt, output) in enumerate(zip(prompts, outputs)):
            if kind == "lookups":
                records += record_lookups(list(prompt.tokens), output, prompt.name, prompt.kind)
            else:
                records += keep(f"trees-{i}", lambda p=prompt: self._trees(p, drafter()))
                self._tell(f"trees of {prompt.name}")
        taken = sum((len(r["acc"]) if kind == "trees" else r["acc"]) + 1 for r in records)
        requests = len({r["id"] for r in records})
        row = {"records": len(records), "requests": requests, "tokens": taken, "tokens_per_step": taken / len(records)}
        return lines(records), row

    def source(self, name: str, plan: Plan) -> str:
        """What a file was recorded from, in words."""
        target = self.target.provenance
        if name.startswith("trees"):
            return (
                f"trees of {plan.nodes} nodes (beam {plan.beam}, top {plan.top}, depth {plan.depth}) drafted by "
                f"{Path(plan.draft).name}; {target}"
            )
        if name.startswith("exits"):
            layers = ", ".join(map(str, self.exits.layers))
            return f"early exits behind layers {layers}, drafts of {len(self.exits.vocabulary)} tokens; {target}"
        return target

    def _trees(self, prompt: Prompt, draft: Any) -> list[dict[str, Any]]:
        from archsim.recorder.trees import Shape, record_trees

        plan = self.plan
        shape = Shape(plan.nodes, plan.beam, plan.top, plan.depth)
        made = record_trees(self.target, draft, list(prompt.tokens), plan.tokens, shape, prompt.name, prompt.kind)
        return list(made)

    def _record_exits(self, prompts: Sequence[Prompt], outputs: Sequence[list[int]]) -> tuple[bytes, dict[str, Any]]:
        from archsim.recorder.exits import gather, record_exits

        parts = [record_exits(self.target, self.exits, p, out, i) for i, (p, out) in enumerate(zip(prompts, outputs))]
        arrays = gather(parts, [prompt.name for prompt in prompts], self.exits)
        hits = (arrays["exit_top8"][:, :, 0] == arrays["tok"][:, None]).mean(axis=0)
        row = {
            "records": len(arrays["tok"]),
            "requests": len(prompts),
            "tokens": len(arrays["tok"]),
            "tokens_per_step": None,
            "first_choice": {str(layer): float(np.round(hit, 4)) for layer, hit in zip(self.exits.layers, hits)},
        }
        return npz_bytes(arrays), row

    def _drafter(self) -> Callable[[], Any]:
        from archsim.recorder.trees import ExitDraft, ModelDraft

        plan = self.plan
        if plan.draft.startswith("exit:"):
            layer = int(plan.draft.removeprefix("exit:"))
            if layer not in self.exits.layers:
                known = ", ".join(map(str, self.exits.layers))
                raise InputError(f"--draft {plan.draft}: there are adapters for the layers {known}")
            return lambda: ExitDraft(self.target, self.exits, layer)
        network = open_network(plan.draft, plan.precision)
        if network.vocabulary != self.target.vocabulary or network.encode("a b 1") != self.target.encode("a b 1"):
            raise InputError(f"--draft {plan.draft}: it has other tokens than {self.target.name}")

        def fresh() -> ModelDraft:
            network.reset()
            return ModelDraft(network)

        return fresh

    def _exits(self, folder: Path) -> Any:
        from archsim.recorder.adapters import load_exits
        from archsim.recorder.llama import Llama

        if not isinstance(self.target, Llama):
            raise InputError(
                f"{self.target.name}: early exits are recorded from GGUF files; give --what trees,lookups --draft MODEL"
            )
        if self.plan.train is None:
            return load_exits(self.target, adapters_file(self.plan))
        made = folder / TRAINED
        if not made.is_file():
            self._train(made)
        return load_exits(self.target, made)

    def _train(self, file: Path) -> None:
        from archsim.recorder.adapters import train
        from archsim.recorder.exits import batches, joined, own_text

        plan, parts = self.plan, []
        taught = file_prompts(Path(str(plan.train)), self.target, 100_000)
        for layer in plan.exits:
            if not 0 < layer < self.target.layers:
                raise InputError(f"--exits {layer} is not within 1 to {self.target.layers - 1}")
        self._total += len(batches(taught)) + len(plan.exits)
        for batch in batches(taught):
            parts.append(own_text(self.target, batch, plan.tokens, plan.exits)[0])
            self._tell(f"training text, {sum(len(part.tokens) for part in parts)} tokens")
        exits = None
        for exits in train(self.target, joined(parts), plan.exits, plan.vocabulary, plan.steps, plan.seed):
            self._tell(f"adapter of layer {exits.layers[-1]}")
        exits.save(file)

    def _tell(self, what: str) -> None:
        self._done += 1
        if self.progress is not None:
            self.progress.update(self._done, max(self._total, self._done), what)


def open_network(name: str, precision: str) -> Network:
    """A model by name, file or folder.

    Raises
    ------
    InputError
        When there is none.
    """
    need_torch()
    import torch

    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    path = Path(name)
    if name == SHIPPED or path.is_file():
        from archsim.recorder.llama import Llama, shipped_model

        if name != SHIPPED:
            return Llama(path, dtype)
        network = Llama(shipped_model(), dtype)
        network.name = SHIPPED_NAME
        return network
    if path.is_dir():
        from archsim.recorder.hugging_face import HuggingFace

        return HuggingFace(path, dtype)
    raise InputError(f"model {name!r}: give {SHIPPED}, a GGUF file, or the folder of a Hugging Face model")
