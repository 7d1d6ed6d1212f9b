"""What a decision stream answers: the draft's candidates, which of them the target takes, and how far a recording goes.

Positions count output tokens of one request from 0. The *accepted path* is the target's own text; it does not depend
on the schedule. A node of a token tree is named by the ranks (1 = most probable child) taken from the root, whose
children stand for the token at output position ``pos``; so ``candidates(request, pos, (1, 2))`` are the candidates for
position ``pos + 2`` after the draft's first choice at ``pos`` and its second at ``pos + 1``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from archsim.config import InputError
from archsim.streams.draws import Draws

#: `requests` and `length` of a generator that ends nowhere.
UNBOUNDED = 1 << 62

_LEAST_PROB = 2.0**-50  # recorded probabilities may be zero
NO_PROBS = np.empty(0, dtype=np.float64)
NO_PROBS.setflags(write=False)


class StreamEndError(InputError):
    """A request, position or step that the stream does not have."""


class Position(NamedTuple):
    """The draft's candidates for one output position, given the accepted path before it.

    Attributes
    ----------
    rank : int
        Rank (1 = most probable) of the target's token among the candidates, 0 when it is not among them.
    probs : ndarray, float64 [k]
        Draft probabilities by rank, non-increasing. NaN where a recording has none; empty at a leaf of a recorded tree.
    draft_entropy : float
        Entropy of the draft's distribution, nats (NaN where a recording has none).
    target_max : float
        Probability of the target's most probable token (NaN where a recording has none).
    target_entropy : float
        Entropy of the target's distribution, nats (NaN where a recording has none).
    """

    rank: int
    probs: np.ndarray
    draft_entropy: float
    target_max: float
    target_entropy: float

    @property
    def hit(self) -> bool:
        """Whether the draft's first candidate is the target's token."""
        return self.rank == 1

    @property
    def confidence(self) -> float:
        """Probability of the draft's first candidate; 0 without candidates."""
        return float(self.probs[0]) if len(self.probs) else 0.0


class Candidates(NamedTuple):
    """Children of one tree node.

    Attributes
    ----------
    probs : ndarray, float64 [k]
        Draft probabilities by rank given the node's path; empty when the node is not expandable.
    target_rank : int
        Rank of the child that is the target's token; 0 when none is, and always 0 off the accepted path.
    draft_entropy : float
        Nats; NaN when the node is not expandable.
    on_path : bool
        Whether the node itself lies on the accepted path.
    expandable : bool
        False for a recorded leaf and past a recording's end.
    label : str
        Where the numbers come from: ``recorded``, ``synthetic``, ``synthetic_offpath`` or ``none``.
    """

    probs: np.ndarray
    target_rank: int
    draft_entropy: float
    on_path: bool
    expandable: bool
    label: str


class TreeStep(NamedTuple):
    """One recorded verification of a token tree: node columns of length n, parents before children.

    ``prob`` is the draft probability given the parent's path, ``cumulative`` its product along the path,
    ``draft_entropy`` the entropy (nats) of the distribution the node was drawn from, ``target_prob`` and
    ``target_entropy`` the target's own figures there. ``accepted`` are node indices along the accepted path.
    """

    position: int
    token: np.ndarray
    parent: np.ndarray
    depth: np.ndarray
    prob: np.ndarray
    cumulative: np.ndarray
    draft_entropy: np.ndarray
    target_prob: np.ndarray
    target_entropy: np.ndarray
    accepted: np.ndarray
    bonus: int


class DecisionStream(ABC):
    """Answers of a draft and its target, independent of the order in which they are asked.

    Attributes
    ----------
    kind : str
        ``recorded``, ``recorded-proxy`` (recorded with another model than the one simulated) or ``synthetic``.
    name : str
        Canonical name, which also keys the draws.
    source : str
        Where the numbers come from, in one line.
    model : str
        The target whose decisions these are.
    draft : str or None
        The draft they were made with; a recording's own name where its draft is no model of archsim.
    features : frozenset of str
        What the stream can answer: ``chain``, ``tree``, ``probs``, ``offpath``, ``steps``, ``denoise``, ``jacobi``.
    requests : int
        Number of requests; :data:`UNBOUNDED` for a generator.
    synthetic_offpath : int
        Distinct nodes off the accepted path that were answered by the generator.
    off_trace_nodes : int
        Distinct recorded leaves that a policy wanted to expand.
    """

    features: frozenset[str] = frozenset()

    def __init__(
        self, name: str, seed: int, *, kind: str, source: str, model: str, requests: int, draft: str | None = None
    ) -> None:
        self.name = name
        self.seed = seed
        self.kind = kind
        self.source = source
        self.model = model
        self.draft = draft
        self.requests = requests
        self.draws = Draws(seed, name)
        self._offpath: set[tuple[int, int, int, int]] = set()
        self._offtrace: set[tuple[int, int, int]] = set()

    @property
    def synthetic_offpath(self) -> int:
        """Distinct nodes off the accepted path that the generator answered."""
        return len(self._offpath)

    @property
    def off_trace_nodes(self) -> int:
        """Distinct recorded leaves that a policy wanted to expand."""
        return len(self._offtrace)

    @abstractmethod
    def prompt_tokens(self, request: int) -> int:
        """Prompt length of `request` in tokens."""

    @abstractmethod
    def length(self, request: int) -> int:
        """Output tokens that `request` has."""

    def request_name(self, request: int) -> str:
        """Name of `request`: the recorded prompt id, or its number."""
        self._check_request(request)
        return str(request)

    def position(self, request: int, pos: int, depth: int = 0) -> Position:
        """Candidates for the token at output position `pos`, the `depth`-th drafted in a row (0 = first)."""
        raise self._lacks("chain", "position")

    def accepted(self, request: int, pos: int, n: int) -> int:
        """Leading tokens accepted of a chain of `n` first choices drafted at `pos`, bounded by the recorded end."""
        raise self._lacks("chain", "accepted")

    def draftable(self, request: int, pos: int, n: int) -> int:
        """How many of `n` tokens can be drafted in a chain from `pos` on before the recording ends."""
        raise self._lacks("chain", "draftable")

    def candidates(self, request: int, pos: int, path: Sequence[int] = ()) -> Candidates:
        """Children of the node reached from output position `pos` by the ranks in `path`."""
        raise self._lacks("tree", "candidates")

    def steps(self, request: int) -> int:
        """Number of recorded verification steps of `request`."""
        raise self._lacks("steps", "steps")

    def tree_step(self, request: int, step: int) -> TreeStep:
        """Recorded verification number `step` (from 0) of `request`."""
        raise self._lacks("steps", "tree_step")

    @property
    def records(self) -> Any:
        """Columns of the recording, in the NamedTuple of its format."""
        raise self._lacks("records", "records")

    def score_noise(self, request: int, pos: int, path: Sequence[int] = (), n: int = 4) -> np.ndarray:
        """Standard normal numbers [n] that belong to the children of a node (for predictors of intermediate layers)."""
        return self.draws.noise(request, pos, len(path), path_key(path), n)

    def exit_scores(
        self,
        request: int,
        pos: int,
        path: Sequence[int],
        k: int,
        *,
        gain: float,
        noise: float,
        found: Candidates | None = None,
    ) -> np.ndarray:
        """Scores that a predictor at an intermediate layer of the target gives the first `k` candidates of a node.

        Here they are generated: the draft's log probability, `gain` nats more for the target's own token where the
        node is on the accepted path, and normal noise. A recording that holds a deeper exit answers from it.

        Parameters
        ----------
        gain, noise : float
            Quality of the generated predictor, nats: what it knows beyond the draft, and its scatter.
        found : Candidates, optional
            The node's candidates, where the caller has them already.

        Returns
        -------
        ndarray, float64 [k or fewer]
        """
        if found is None:
            found = self.candidates(request, pos, path)
        probs = found.probs[:k]
        scores = np.log(np.maximum(probs, _LEAST_PROB)) + noise * self.score_noise(request, pos, path, len(probs))
        if 0 < found.target_rank <= len(scores):
            scores[found.target_rank - 1] += gain
        return scores

    def _lacks(self, feature: str, asked: str) -> InputError:
        have = ", ".join(sorted(self.features))
        return InputError(f"stream {self.name} cannot answer {asked}: it has no {feature!r} data (it has: {have})")

    def _check_request(self, request: int) -> None:
        if not 0 <= request < self.requests:
            have = "none" if self.requests == 0 else f"0 to {self.requests - 1}"
            raise StreamEndError(f"stream {self.name} has no request {request}: it has {have}; ask for fewer prompts")

    def _check_position(self, request: int, pos: int) -> None:
        self._check_request(request)
        if not 0 <= pos < self.length(request):
            last = self.length(request) - 1
            raise StreamEndError(
                f"stream {self.name} request {request} ({self.request_name(request)}) has no output position {pos}: "
                f"it has 0 to {last}; draft no further than draftable()"
            )


_MASK64 = (1 << 64) - 1


def path_key(path: Sequence[int]) -> int:
    """A 64-bit number for the ranks of `path`; distinct for paths of up to nine ranks below 128."""
    key = 0
    for rank in path:
        if rank < 1:
            raise InputError(f"a path is made of ranks from 1 on, not {rank}: {tuple(path)}")
        if key >> 57:
            key = (key * 0x9E3779B97F4A7C15) & _MASK64
        key = ((key << 7) + rank) & _MASK64
    return key
