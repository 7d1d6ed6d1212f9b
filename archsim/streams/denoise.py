"""Denoising streams: how confident a diffusion model is of each position of its window, step by step.

A generator draws confidences by the process of ``denoise.yaml`` with counter-based numbers, so two schedules compared
on one seed meet the same prompts and positions whatever they ask first. A recording answers for the block it recorded
and for nothing else: positions it does not have come back as NaN, and its own commits are the ones that count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from archsim.config import InputError
from archsim.config.reading import shipped
from archsim.streams.acceptance import prompt_tokens
from archsim.streams.draws import normals
from archsim.streams.formats import DenoiseRecords, JacobiRecords
from archsim.streams.interface import UNBOUNDED, DecisionStream
from archsim.units import quote, suggest

_POSITION_LANE, _STEP_LANE = 0, 1
#: Bound of a level given by hand: beyond it every confidence is 0 or 1 in double precision.
_LEVEL_LIMIT = 50.0


class Scores(NamedTuple):
    """Confidence by row, float64 [n] in (0, 1), NaN where a recording has none; `plain` takes no draft as context."""

    confidence: np.ndarray
    plain: np.ndarray


class DenoisingStream(DecisionStream):
    """A stream of denoising decisions; `width` is the recorded block size, 0 for any."""

    features = frozenset({"denoise"})
    width: int = 0

    def score(
        self,
        request: int,
        *,
        step: int,
        block: int,
        block_step: int,
        first: int,
        masks: np.ndarray,
        plain: np.ndarray,
        stale: bool,
    ) -> Scores:
        """Confidence of the rows of a window in one pass.

        Parameters
        ----------
        step : int
            Number of the pass within the request.
        block, block_step : int
            Current block, and the number of the pass within it.
        first : int
            Output position of the first row asked about; the others follow.
        masks : ndarray, float64 [n]
            For each row, the masked positions to its left from the first unresolved one on; a drafted position counts
            as the fraction of a mask that the policy says.
        plain : ndarray, float64 [n]
            The same with every drafted position counted as a whole mask.
        stale : bool
            Whether the cached keys and values are older than this pass.
        """
        raise self._lacks("denoise", "score")

    def commits(self, request: int, block: int, block_step: int) -> np.ndarray | None:
        """Recorded commits of a step, bool by position of the block; None where the policy decides."""
        return None


@dataclass(frozen=True)
class Process:
    """Numbers of the process; all are in units of the logit of a confidence."""

    level: float
    prompt_sd: float
    position_sd: float
    context: float
    noise_sd: float
    stale: float


class SyntheticDenoising(DenoisingStream):
    """Confidences drawn by a :class:`Process`.

    Parameters
    ----------
    name, seed : str, int
        They key the draws; the numbers of the process do not.
    process : Process
        The numbers.
    prompt_tokens, tokens : int
        Prompt and output length of every request.
    source, model : str
        See :class:`archsim.streams.interface.DecisionStream`.
    """

    def __init__(
        self, name: str, seed: int, process: Process, *, prompt_tokens: int, tokens: int, source: str, model: str
    ) -> None:
        super().__init__(name, seed, kind="synthetic", source=source, model=model, requests=UNBOUNDED)
        self.process = process
        self._prompt_tokens = prompt_tokens
        self._tokens = tokens
        self._request = -1
        self._base = np.empty(0)

    def prompt_tokens(self, request: int) -> int:
        """Prompt length as asked."""
        self._check_request(request)
        return self._prompt_tokens

    def length(self, request: int) -> int:
        """Output length as asked."""
        self._check_request(request)
        return self._tokens

    def score(
        self,
        request: int,
        *,
        step: int,
        block: int,
        block_step: int,
        first: int,
        masks: np.ndarray,
        plain: np.ndarray,
        stale: bool,
    ) -> Scores:
        """Draw the rows' noise for this step and add what is fixed."""
        base = self._fixed(request)[first : first + len(masks)]
        if len(base) < len(masks):
            raise InputError(f"stream {self.name} was asked past output position {self._tokens - 1}")
        u = self.draws.uniforms(request, first, _STEP_LANE, step, len(base))
        here = self.process
        x = base + here.noise_sd * normals(u[:, 0], u[:, 1])[0] - (here.stale if stale else 0.0)
        return Scores(*(_sigmoid(x - here.context * np.log1p(left)) for left in (masks, plain)))

    def _fixed(self, request: int) -> np.ndarray:
        """What a position has in every step: level, prompt and position terms."""
        if request != self._request:
            u = self.draws.uniforms(request, 0, _POSITION_LANE, 0, self._tokens)
            level = self.process.level + self.process.prompt_sd * self.draws.request_normals(request)[0]
            self._base = level - self.process.position_sd * normals(u[:, 0], u[:, 1])[0]
            self._request = request
        return self._base


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-x))


class RecordedDenoising(DenoisingStream):
    """A recording over blocks, asked like a generator.

    Denoising steps and Jacobi iterations both say which positions of a block were fixed when; of an iteration that
    leaves positions unverified at the recording's end the rest commits with it.
    """

    def __init__(self, recorded: DecisionStream) -> None:
        super().__init__(
            recorded.name,
            recorded.seed,
            kind=recorded.kind,
            source=recorded.source,
            model=recorded.model,
            requests=recorded.requests,
        )
        self.recorded = recorded
        records = recorded.records
        self.width = records.confidence.shape[1]
        self._confidence = records.confidence
        self._commit = records.commit if isinstance(records, DenoiseRecords) else _verified(records)
        self._row = {
            (int(request), int(block), int(step)): row
            for row, (request, block, step) in enumerate(
                zip(records.request, records.block, records.step if hasattr(records, "step") else records.iteration)
            )
        }

    def prompt_tokens(self, request: int) -> int:
        """Recorded prompt length."""
        return self.recorded.prompt_tokens(request)

    def length(self, request: int) -> int:
        """Positions of the recorded blocks."""
        return self.recorded.length(request)

    def request_name(self, request: int) -> str:
        """Recorded name."""
        return self.recorded.request_name(request)

    def score(
        self,
        request: int,
        *,
        step: int,
        block: int,
        block_step: int,
        first: int,
        masks: np.ndarray,
        plain: np.ndarray,
        stale: bool,
    ) -> Scores:
        """Recorded confidences of the current block; NaN elsewhere."""
        found = np.full(len(masks), np.nan)
        row = self._row.get((request, block, block_step))
        if row is not None:
            offset = block * self.width - first
            here = np.arange(max(offset, 0), min(offset + self.width, len(found)))
            found[here] = self._confidence[row, here - offset]
        return Scores(found, found)

    def commits(self, request: int, block: int, block_step: int) -> np.ndarray | None:
        """Recorded commits of the step.

        Raises
        ------
        InputError
            When the recording has no such step.
        """
        row = self._row.get((request, block, block_step))
        if row is None:
            raise InputError(
                f"stream {self.name} request {request} ({self.request_name(request)}) has no step {block_step} of "
                f"block {block}"
            )
        return self._commit[row]


def _verified(records: JacobiRecords) -> np.ndarray:
    """Positions that each iteration verified: those between the fixed prefix before it and after it."""
    place = np.arange(records.confidence.shape[1])
    commit = np.zeros(records.confidence.shape, dtype=bool)
    before = 0
    for row in range(len(records.fixed)):
        before = 0 if records.iteration[row] == 0 else before
        ends = row + 1 == len(records.fixed) or records.iteration[row + 1] == 0
        after = len(place) if ends else int(records.fixed[row])
        commit[row] = (place >= before) & (place < after)
        before = after
    return commit


def denoising(stream: DecisionStream) -> DenoisingStream:
    """Give a stream the denoising interface; a recording over blocks is wrapped."""
    return stream if isinstance(stream, DenoisingStream) else RecordedDenoising(stream)


class Level(NamedTuple):
    """Level of a (model, preset, task) with its source and published range."""

    value: float
    source: str
    range: tuple[float, float] | None


class DenoiseTable(NamedTuple):
    """``presets``: name to numbers and source; ``levels``: model to preset to task; ``curve``: the published one."""

    presets: Mapping[str, Mapping[str, Any]]
    levels: Mapping[str, Mapping[str, Mapping[str, Level]]]
    curve: Mapping[str, Any]


@cache
def denoise_table() -> DenoiseTable:
    """The table as shipped in ``denoise.yaml``."""
    data = shipped("archsim.streams", "denoise.yaml")
    levels = {
        model: {
            preset: {
                task: Level(float(cell["value"]), cell["source"], tuple(cell["range"]) if "range" in cell else None)
                for task, cell in cells.items()
            }
            for preset, cells in presets.items()
        }
        for model, presets in data["levels"].items()
    }
    published = {float(threshold): tokens for threshold, tokens in data["curve"]["tokens_per_step"].items()}
    return DenoiseTable(data["presets"], levels, {**data["curve"], "tokens_per_step": published})


DEFAULT_PRESET = "even"
_SETTINGS = "a preset (even, steep) or level=<number>"


def synthetic_denoising(
    model: str, task: str, settings: str, seed: int, *, tokens: int, prompt: int | None = None
) -> SyntheticDenoising:
    """Open the generator of a diffusion model.

    Parameters
    ----------
    model, task : str
        Whose confidences, on what.
    settings : str
        ``""``, a preset, ``level=<number>`` (a stream of its own) or ``at=<number>`` (the same draws at another level),
        or a preset and one of these joined by a comma.

    Raises
    ------
    InputError
        For a task or a setting that is not known.
    """
    known = denoise_table()
    typical, _ = prompt_tokens(task)
    preset, level = DEFAULT_PRESET, None
    for part in settings.split(",") if settings else ():
        if part.startswith(("level=", "at=")):
            level = _level(part.partition("=")[2])
        elif part in known.presets:
            preset = part
        else:
            raise InputError(f"unknown denoising setting {quote(part)}; write {_SETTINGS}")
    source = f"level given; {known.presets[preset]['source']}"
    if level is None:
        cells = known.levels.get(model, {}).get(preset, {})
        if task not in cells:
            raise InputError(
                f"no denoising level for {model} on {task} under preset {preset}; {suggest(task, cells)} "
                f"Or give it: synthetic:{model}:{task}:level=5.0"
            )
        level, source = cells[task].value, f"{cells[task].source}; {known.presets[preset]['source']}"
    numbers = {key: float(value) for key, value in known.presets[preset].items() if key != "source"}
    # A level under `at` meets the draws of the stream without it, as two acceptances of one pair do.
    keyed = ",".join(part for part in settings.split(",") if not part.startswith("at="))
    name = f"synthetic:{model}:{task}" + (f":{keyed}" if keyed else "")
    stream = SyntheticDenoising(
        name,
        seed,
        Process(level, **numbers),
        prompt_tokens=prompt or typical,
        tokens=tokens,
        source=source,
        model=model,
    )
    return stream


def _level(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not -_LEVEL_LIMIT <= value <= _LEVEL_LIMIT:
        raise InputError(f"denoising level {quote(text)} must be a number from -{_LEVEL_LIMIT:g} to {_LEVEL_LIMIT:g}")
    return value
