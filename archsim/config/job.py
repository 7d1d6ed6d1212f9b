"""What a run asks for: the model of ``job:``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from archsim.units import PS_PER_S, Fraction01, Hz, Ps

#: Model roles a job may fill, in the order in which a schedule's missing ones are reported.
ROLES = ("target", "draft", "predictor")

Tokens = Annotated[int, Field(strict=True, ge=1, le=1_000_000)]
#: Arrival in s, prompt tokens, output tokens.
Arrival = tuple[Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)], Tokens, Tokens]
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
    arrivals : str or list
        ``closed``, ``fixed``, ``poisson``, or ``[arrival in s, prompt tokens, output tokens]`` of each request in order
        of arrival (in a run file also the name of a CSV file with these columns): see
        :mod:`archsim.workload.requests`. A list takes the place of `prompts`, `tokens` and `prompt_tokens`.
    arrival_period_ps : int or None
        Time between arrivals of ``fixed``.
    arrival_rate_hz : float or None
        Mean arrivals per second of ``poisson``.
    turns : int
        Requests per prompt that continue one conversation.
    turn_tokens : int or None
        New prompt tokens of every turn but the first; None: as the first.
    prefix_reuse : bool
        Whether a turn finds the keys and values of the turns before it in the cache.
    kv_dtype : str or None
        Storage type of the target's KV cache; None is the model's own.
    kv_tier : str
        Where the target's KV cache lives: ``dram``, ``flash`` or ``split`` (:mod:`archsim.workload.footprint`).
    kv_dram_tokens : int or None
        Rows that DRAM holds at most under ``split``.
    kv_block_tokens : int
        Rows that move to flash at a time under ``split``. 256 is assumed (some 0.5 MB a layer at 8 KV heads of 128).
    prefill_rows : int or None
        Most rows of a prefill pass (512 in llama.cpp); None: the whole prompt in one. For causal models.
    mapping : str or None
        How buffers are kept in the NPU's address window (:mod:`archsim.workload.residency`); None is the schedule's.
    thermal : str or None
        Part of device kind ``thermal`` that says how the phone warms up and throttles; None leaves heat out.
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
    arrivals: Literal["closed", "fixed", "poisson"] | tuple[Arrival, ...] = "closed"
    arrival_period_ps: Annotated[Ps, Field(ge=1, le=PS_PER_S * 86_400)] | None = None
    arrival_rate_hz: Annotated[Hz, Field(ge=1e-6, le=1e6)] | None = None
    turns: Annotated[int, Field(strict=True, ge=1, le=1000)] = 1
    turn_tokens: Tokens | None = None
    prefix_reuse: bool = True
    kv_dtype: Literal["FP32", "FP16", "BF16", "INT8", "Q8_0", "Q4_0"] | None = None
    kv_tier: Literal["dram", "flash", "split"] = "dram"
    kv_dram_tokens: Annotated[int, Field(strict=True, ge=0, le=1_000_000)] | None = None
    kv_block_tokens: Annotated[int, Field(strict=True, ge=1, le=65_536)] = 256
    prefill_rows: Tokens | None = None
    mapping: Text | None = None
    thermal: Text | None = None

    @model_validator(mode="after")
    def _arrivals_agree(self) -> JobSpec:
        for name, value, kind in (
            ("arrival_period_ps", self.arrival_period_ps, "fixed"),
            ("arrival_rate_hz", self.arrival_rate_hz, "poisson"),
        ):
            if (value is not None) != (self.arrivals == kind):
                raise ValueError(f"{name} belongs to arrivals: {kind}, and {kind} needs it")
        if self.listed:
            times = [arrival for arrival, _, _ in self.listed]
            if times != sorted(times):
                raise ValueError("arrivals must be in order of time")
            if self.turns > 1 or self.prompts > 1:
                raise ValueError("a list of arrivals says how many requests there are: leave prompts and turns out")
            if len(times) > 100_000:
                raise ValueError(f"{len(times)} arrivals; at most 100000")
        elif self.arrivals == ():
            raise ValueError("the list of arrivals is empty")
        if self.prompts * self.turns > 100_000:
            raise ValueError(f"{self.prompts} prompts of {self.turns} turns; at most 100000 requests")
        if (self.kv_dram_tokens is not None) != (self.kv_tier == "split"):
            raise ValueError("kv_dram_tokens belongs to kv_tier: split, and split needs it")
        if self.turn_tokens is not None and self.turns == 1:
            raise ValueError("turn_tokens is for jobs of several turns")
        return self

    @property
    def listed(self) -> tuple[Arrival, ...]:
        """List of arrivals, empty where they follow a rule."""
        return self.arrivals if isinstance(self.arrivals, tuple) else ()

    @property
    def requests(self) -> int:
        """Number of requests."""
        return len(self.listed) or self.prompts * self.turns

    @property
    def longest_tokens(self) -> int:
        """Output tokens of the longest request."""
        return max((tokens for _, _, tokens in self.listed), default=self.tokens)
