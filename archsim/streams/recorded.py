"""Recorded streams: what they share, prompt look-ups, and recordings over blocks of positions.

A recording holds what one draft and one target decided; a policy prunes it and never makes it grow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from archsim.config import InputError
from archsim.streams.formats import DenoiseRecords, JacobiRecords, NgramRecords
from archsim.streams.interface import NO_PROBS, DecisionStream, Position

_NAN = float("nan")


class RecordedStream(DecisionStream):
    """What the recorded streams share: requests with names, kinds and prompt lengths.

    Parameters
    ----------
    ids : sequence of str
        Names of the requests.
    prompts : mapping of str to int, or int
        Prompt tokens by request name, or one number for every request; None when unknown.
    """

    def __init__(
        self,
        name: str,
        seed: int,
        *,
        kind: str,
        source: str,
        model: str,
        ids: Sequence[str],
        prompts: Mapping[str, int] | int | None,
    ) -> None:
        super().__init__(name, seed, kind=kind, source=source, model=model, requests=len(ids), draft=name)
        self.ids = tuple(ids)
        self._prompts = prompts

    def request_name(self, request: int) -> str:
        """Recorded name of the request's prompt."""
        self._check_request(request)
        return self.ids[request]

    def prompt_tokens(self, request: int) -> int:
        """Recorded prompt length, or the one given to ``open_stream``."""
        name = self.request_name(request)
        if isinstance(self._prompts, int):
            return self._prompts
        if self._prompts is None or name not in self._prompts:
            raise InputError(
                f"stream {self.name} does not say how long prompt {name!r} is; give job.prompt_tokens, or a "
                "ref_greedy.jsonl with its prompt beside the recording"
            )
        return self._prompts[name]


class NgramStream(RecordedStream):
    """Recorded prompt look-ups: chains that cost no draft model and carry no probabilities.

    A position inside an accepted run is served by what is left of that run's draft.
    """

    features = frozenset({"chain", "records"})

    def __init__(self, name: str, seed: int, recording: NgramRecords, **common: object) -> None:
        super().__init__(name, seed, ids=recording.ids, **common)
        self._records = recording
        self._left: list[list[tuple[int, int]]] = []  # by request and position: (drafted, accepted) from there on
        for begin, end in zip(recording.first[:-1].tolist(), recording.first[1:].tolist()):
            left: list[tuple[int, int]] = []
            for s in range(begin, end):
                drafted, accepted = int(recording.drafted[s]), int(recording.accepted[s])
                left.extend((max(drafted - i, 0), accepted - i) for i in range(accepted + 1))
            self._left.append(left)

    @property
    def records(self) -> NgramRecords:
        """All columns of the recording."""
        return self._records

    def length(self, request: int) -> int:
        """Output tokens up to the last recorded look-up's."""
        self._check_request(request)
        return len(self._left[request])

    def position(self, request: int, pos: int, depth: int = 0) -> Position:
        """One candidate without a probability (NaN) where something was drafted, none elsewhere."""
        self._check_position(request, pos)
        drafted, accepted = self._left[request][pos]
        probs = np.full(1, _NAN) if drafted else NO_PROBS
        return Position(1 if accepted else 0, probs, _NAN, _NAN, _NAN)

    def accepted(self, request: int, pos: int, n: int) -> int:
        """Leading drafted tokens accepted."""
        self._check_position(request, pos)
        return max(min(self._left[request][pos][1], n), 0)

    def draftable(self, request: int, pos: int, n: int) -> int:
        """Tokens that the recorded look-up drafted from `pos` on, `n` at most."""
        if pos == self.length(request):
            return 0
        self._check_position(request, pos)
        return max(min(self._left[request][pos][0], n), 0)


class BlockStream(RecordedStream):
    """Recordings over blocks of positions (Jacobi iterations, denoising steps), served as columns."""

    def __init__(self, name: str, seed: int, recording: JacobiRecords | DenoiseRecords, **common: object) -> None:
        super().__init__(name, seed, ids=recording.ids, **common)
        self._records = recording
        step = "denoise" if isinstance(recording, DenoiseRecords) else "jacobi"
        self.features = frozenset({step, "records"})
        width = recording.confidence.shape[1]
        last = np.zeros(len(recording.ids), dtype=np.int64)
        np.maximum.at(last, recording.request, recording.block)
        self._lengths = ((last + 1) * width).tolist()

    @property
    def records(self) -> JacobiRecords | DenoiseRecords:
        """All columns of the recording."""
        return self._records

    def length(self, request: int) -> int:
        """Positions of the request's blocks."""
        self._check_request(request)
        return self._lengths[request]
