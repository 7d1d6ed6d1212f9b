"""What a run asks for: the model of ``job:``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from archsim.units import Fraction01

#: Model roles a job may fill, in the order in which a schedule's missing ones are reported.
ROLES = ("target", "draft", "predictor")

Tokens = Annotated[int, Field(strict=True, ge=1, le=1_000_000)]
Text = Annotated[str, Field(min_length=1, max_length=400)]


class JobSpec(BaseModel):
    """A decoding job.

    Attributes
    ----------
    target, draft, predictor : str
        Model names by role; a schedule says which roles it needs.
    stream : str
        Decision stream: ``recorded:<file>[:<variant>]`` or ``synthetic:<target>[+<draft>]:<task>``.
    tokens : int
        Output tokens per prompt, up to one million.
    prompts : int
        Prompts decoded one after the other, up to 100 000.
    prompt_tokens : int or None
        Prompt length; None is the stream's own.
    dram_fraction : float
        Share of the target's weights that stays in DRAM, 0 to 1.
    seed : int
        Seed of the synthetic draws.
    acceptance : float or None
        Mean acceptance of the draft's first choice in a synthetic stream, between 0 and 1; None is the public one.
    kv_dtype : str or None
        Storage type of the target's KV cache; None is the model's own.
    kv_tier : str
        Where the KV cache lives.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    target: Text
    draft: Text | None = None
    predictor: Text | None = None
    stream: Text
    tokens: Tokens = 128
    prompts: Annotated[int, Field(strict=True, ge=1, le=100_000)] = 1
    prompt_tokens: Tokens | None = None
    dram_fraction: Fraction01 = 0.0
    seed: Annotated[int, Field(strict=True, ge=0, lt=2**63)] = 0
    acceptance: Annotated[float, Field(strict=True, gt=0, lt=1)] | None = None
    kv_dtype: Literal["FP32", "FP16", "BF16", "INT8", "Q8_0", "Q4_0"] | None = None
    kv_tier: Literal["dram", "flash"] = "dram"
