"""The context that decoding has reached: tokens committed and KV rows cached, and the passes that go on from there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from archsim.config import JobSpec
from archsim.workload.footprint import spilled_rows
from archsim.workload.model import ModelSpec
from archsim.workload.plan import Pass, Placement
from archsim.workload.requests import Request

if TYPE_CHECKING:
    from archsim.streams.interface import DecisionStream


class Context:
    """How far the present request is.

    Parameters
    ----------
    spec : JobSpec
        Lengths, and where KV rows live.
    models : Mapping[str, ModelSpec]
        Models by role.
    placements : Mapping[str, Placement]
        Placements by role.
    stream : DecisionStream
        Answers what is accepted.

    Attributes
    ----------
    request : int
        Its number; -1 before the first.
    prompt, kept : int
        Rows before its first output token, and the leading ones whose keys and values were cached when it began.
    asked, limit : int
        Output tokens it asks for, and those it gets.
    position : int
        Output tokens committed.
    fresh : dict of str to int
        Tokens ``committed`` and ``drafted`` by the last commit; empty before the first.
    """

    def __init__(
        self,
        spec: JobSpec,
        models: Mapping[str, ModelSpec],
        placements: Mapping[str, Placement],
        stream: DecisionStream,
    ) -> None:
        self.spec = spec
        self.models = models
        self.placements = placements
        self.stream = stream
        self.request = -1
        self.position = 0
        self.prompt = 0
        self.kept = 0
        self.asked = 0
        self.limit = 0
        self.fresh: dict[str, int] = {}

    def begin(self, number: int, request: Request) -> None:
        """Go to the begin of a request."""
        self.request = number
        self.position = 0
        self.prompt, self.kept = request.prompt, request.kept
        self.asked, self.limit = request.tokens, request.limit
        self.fresh = {}

    @property
    def finished(self) -> bool:
        """Whether the request has all its tokens (or the recording ended)."""
        return self.position >= self.limit

    @property
    def cached(self) -> int:
        """KV rows of the target: prompt and committed tokens, all but the last, which the next pass brings."""
        return self.prompt + self.position - 1

    @property
    def spilled(self) -> int:
        """KV rows of the target that live in flash."""
        return self.spilled_at(self.cached)

    def spilled_at(self, cached: int) -> int:
        """Rows that live in flash of the first `cached` rows of the present request."""
        return spilled_rows(self.spec, cached, self.prompt)

    def passes(self, role: str, phase: str, *, rows: int = 1, steps: int = 1) -> list[Pass]:
        """Passes of a role at the current position.

        Every layer of the target reads the KV rows back that live in flash (:mod:`archsim.workload.footprint`).

        Parameters
        ----------
        role : str
            ``target``, ``draft``, ...
        phase : str
            ``prefill`` (the prompt, all but what is cached of earlier turns), ``decode`` (one row), ``verify`` (`rows`
            rows) or ``draft`` (`steps` passes in a chain, the first of which also takes the rows committed since the
            last draft).
        """
        if phase == "prefill":
            return self.prefill(role)
        if phase == "draft":
            fresh = self._fresh_rows(role)
            first = Pass(role, "draft", fresh, self.cached - fresh + 1, projected=1)
            rest = [Pass(role, "draft_next", 1, self.cached + step, projected=1) for step in range(1, steps)]
            return [first, *rest]
        own = "target" in (role, self.placements[role].shares)
        return [Pass(role, phase, rows, self.cached, spilled=self.spilled if own else 0)]

    def prefill(self, role: str, rows: int = 0) -> list[Pass]:
        """Passes over the prompt, all but what is cached of earlier turns.

        Parameters
        ----------
        role : str
            The target's last pass projects one row.
        rows : int
            Most rows of a pass; 0: ``job.prefill_rows``, or all where that is not set.
        """
        size = rows or self.spec.prefill_rows or self.prompt
        target = role == "target"
        return [
            Pass(
                role,
                "prefill",
                min(size, self.prompt - begin),
                begin,
                projected=int(target and begin + size >= self.prompt),
                spilled=self.spilled_at(begin) if target else 0,
            )
            for begin in range(self.kept, self.prompt, size)
        ]

    def _fresh_rows(self, role: str) -> int:
        """Rows a draft must take in before it can draft: all committed ones for a head on target features.

        A draft model of its own has cached what it drafted itself; it lacks the last token, and the one before when all
        drafts were accepted.
        """
        committed, drafted = self.fresh.get("committed", 1), self.fresh.get("drafted", 0)
        if self.models[role].fc_inputs:
            return committed
        return 2 if drafted and committed > drafted else 1

    def draftable(self, n: int) -> int:
        """How many of `n` tokens can be drafted before a recording ends."""
        return self.stream.draftable(self.request, self.position, n)

    def accepted(self, n: int) -> int:
        """How many leading ones of `n` drafted tokens the target takes."""
        return self.stream.accepted(self.request, self.position, n) if n else 0
