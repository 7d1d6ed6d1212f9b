"""Early-exit recordings as a stream: the accepted path as recorded, the rest from the generator.

The recording is teacher-forced along the target's text, so it knows the accepted path to its end and nothing off it:
candidates off the accepted path are generated and counted. Their entropy is drawn from the request's recorded
entropies, loosely tied to the last one on the path, and their probabilities follow from it by the generator's curve.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from archsim.streams.draws import normals
from archsim.streams.exits import ExitRecords
from archsim.streams.generator import (
    SD_LOG_ENTROPY,
    TAILS,
    curve_acceptance,
    least_entropy,
    offpath_score,
)
from archsim.streams.interface import NO_PROBS, Candidates, Position, path_key
from archsim.streams.recorded import RecordedStream

_NOTHING = Candidates(NO_PROBS, 0, float("nan"), True, False, "none")
_NORMAL = NormalDist()
_LEAST_CONFIDENCE = 2.0**-15  # the entropy curve reaches zero; a recorded half-precision probability does not


class ExitStream(RecordedStream):
    """An early-exit draft along the target's text: chains and top-k drafts of any depth up to the recorded end."""

    features = frozenset({"chain", "tree", "probs", "offpath", "records"})

    def __init__(self, name: str, seed: int, recording: ExitRecords, layer: int, **common: object) -> None:
        super().__init__(name, seed, ids=recording.ids, **common)
        self._records = recording
        self.layer = layer
        exit_ = recording.layers.index(layer)
        self._start = recording.start.tolist()
        self._rank = recording.rank[:, exit_].tolist()
        self._probs = np.ascontiguousarray(recording.prob[:, exit_])
        self._probs.setflags(write=False)
        self._entropy = recording.draft_entropy[:, exit_].tolist()
        self._target_max = recording.target_max.tolist()
        self._target_entropy = recording.target_entropy.tolist()
        self._run = _hit_runs(recording.rank[:, exit_] == 1, recording.start)
        self._sorted = [np.sort(recording.draft_entropy[a:b, exit_]) for a, b in zip(self._start[:-1], self._start[1:])]

    @property
    def records(self) -> ExitRecords:
        """All columns of the recording, other exits and the per-layer logit lens included."""
        return self._records

    def length(self, request: int) -> int:
        """Recorded output tokens."""
        self._check_request(request)
        return self._start[request + 1] - self._start[request]

    def position(self, request: int, pos: int, depth: int = 0) -> Position:
        """Recorded candidates; teacher-forced, so the same at every `depth`."""
        i = self._row(request, pos)
        return Position(self._rank[i], self._probs[i], self._entropy[i], self._target_max[i], self._target_entropy[i])

    def accepted(self, request: int, pos: int, n: int) -> int:
        """Leading first choices accepted, up to the recorded end."""
        return max(min(self._run[self._row(request, pos)], n), 0)

    def draftable(self, request: int, pos: int, n: int) -> int:
        """Positions left in the recording, `n` at most; 0 at its very end."""
        if pos == self.length(request):
            return 0
        self._check_position(request, pos)
        return max(min(n, self.length(request) - pos), 0)

    def candidates(self, request: int, pos: int, path: Sequence[int] = ()) -> Candidates:
        """Recorded children on the accepted path, generated ones off it, none past the recorded end."""
        self._check_position(request, pos)
        depth = len(path)
        first, end = self._start[request], self._start[request + 1]
        for d, choice in enumerate(path):
            if first + pos + d >= end:
                return _NOTHING
            if choice != self._rank[first + pos + d]:
                return self._off_path(request, pos, d, path)
        i = first + pos + depth
        if i >= end:
            return _NOTHING
        return Candidates(self._probs[i], self._rank[i], self._entropy[i], True, True, "recorded")

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
        """Log probabilities that the next deeper recorded exit gives the draft's candidates.

        A candidate that is not among that exit's own shares what they leave equally. Off the accepted path, and where
        no deeper exit was recorded, the scores are generated.
        """
        if found is None:
            found = self.candidates(request, pos, path)
        deeper = [e for e, layer in enumerate(self._records.layers) if layer > self.layer]
        if not found.on_path or not found.expandable or not deeper:
            return super().exit_scores(request, pos, path, k, gain=gain, noise=noise, found=found)
        row, records = self._row(request, pos + len(path)), self._records
        above = min(deeper, key=lambda e: records.layers[e])
        own = dict(zip(records.candidate[row, above].tolist(), records.prob[row, above].tolist()))
        asked = records.candidate[row, records.layers.index(self.layer)][:k].tolist()
        strangers = sum(token not in own for token in asked)
        rest = max(1.0 - sum(own.values()), _LEAST_CONFIDENCE) / max(strangers, 1)
        least = min(rest, min(own.values())) or rest
        return np.log([max(own.get(token, least), _LEAST_CONFIDENCE**2) for token in asked])

    def _off_path(self, request: int, pos: int, missed: int, path: Sequence[int]) -> Candidates:
        first, end = self._start[request], self._start[request + 1]
        if first + pos + len(path) >= end:
            return _NOTHING._replace(on_path=False)
        rest = path[missed:]
        key = path_key(rest)
        self._offpath.add((request, pos + missed, len(rest), key))
        u = self.draws.uniforms(request, pos + missed, len(rest), key)
        z_node, z_scatter = normals(u[:, 0], u[:, 1])
        ordered = self._sorted[request]
        place = (int(np.searchsorted(ordered, self._entropy[first + pos + missed])) + 0.5) / len(ordered)
        score = offpath_score(_NORMAL.inv_cdf(place), float(z_node[0]))
        entropy = float(np.interp(_NORMAL.cdf(score) * len(ordered) - 0.5, np.arange(len(ordered)), ordered))
        # The scatter sits between entropy and confidence, so that entropies keep their recorded spread.
        top = float(curve_acceptance(entropy * np.exp(SD_LOG_ENTROPY * float(z_scatter[0]))))
        width = self._probs.shape[1]
        top = max(top, _LEAST_CONFIDENCE)
        probs = np.minimum((1.0 - top) * _tail(width), top)
        probs[0] = top
        probs.setflags(write=False)
        entropy = max(entropy, float(least_entropy(np.array(top))))
        return Candidates(probs, 0, entropy, False, True, "synthetic_offpath")

    def _row(self, request: int, pos: int) -> int:
        if not 0 <= request < self.requests or not 0 <= pos < self._start[request + 1] - self._start[request]:
            self._check_position(request, pos)
        return self._start[request] + pos


def _tail(width: int) -> np.ndarray:
    """Shares of candidates 1 .. width (the first is a placeholder), continued geometrically where the tail ends."""
    shares = list(TAILS["recorded"])
    ratio = shares[-1] / shares[-2]
    while len(shares) < width - 1:
        shares.append(shares[-1] * ratio)
    return np.array([1.0, *shares[: width - 1]])


def _hit_runs(hit: np.ndarray, start: np.ndarray) -> list[int]:
    """For every token, the number of hits in a row from it on within its request."""
    runs = [0] * len(hit)
    ends = set(start[1:].tolist())
    count = 0
    for i in range(len(hit) - 1, -1, -1):
        if i + 1 in ends:
            count = 0
        count = count + 1 if hit[i] else 0
        runs[i] = count
    return runs
